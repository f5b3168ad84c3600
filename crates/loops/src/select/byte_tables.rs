//! Tables of functions of single bytes.
//!
//! What depends on one byte, and on numbers that are the same for all elements, has 256 values. Where
//! it takes 64-bit arithmetic, as fixed-point multiplication does, or arithmetic of floats that
//! makes a byte again (functions between quantised tensors), these are computed once, and each element
//! is looked up.

use std::borrow::Cow;

use relax_base::Symbol;
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::operations::rescaled;
use super::stated::Stated;
use super::{lookup, vectors};
use crate::extents::elements;
use crate::rewrite::{map_expr, substitute};
use crate::{BinOp, Buffer, Compute, Ex, ExKind, Program, Role, Stage, Var, visit_expr};

/// The least number of elements for which a table pays.
const FEW: i64 = 4 * 256;
/// The least number of 64-bit operations.
const WIDE: usize = 2;
/// The most stages, one before the other, that a function of a byte is looked for in.
const STAGES: usize = 8;
/// The most operations of such a function.
const NODES: usize = 512;

/// What an expression depends on.
#[derive(Clone, Copy)]
enum Depends<'e> {
    /// Nothing that varies.
    Nothing,
    /// One loaded byte.
    Byte(&'e Ex),
    Else,
}

/// Replaces parts of element-wise stages by elements of tables, which stages of their own compute.
/// Without such parts the program is unchanged. Stages that a program states to be different kernels
/// are looked at one by one.
pub(super) fn tabulate<'p>(mut program: Cow<'p, Program>, stated: &Stated) -> Cow<'p, Program> {
    // A nest, or another stage, may write what a stage has read. Tables are buffers of their own.
    let mut outs = FxHashSet::default();
    let once = (program.stages.iter()).all(|s| match s {
        Stage::Compute(c) => outs.insert(c.out),
        Stage::Nest(_) => false,
    });
    let through = once.then_some(stated);
    let mut k = 0;
    while k < program.stages.len() {
        k += stage(&mut program, through, k).unwrap_or(0) + 1;
    }
    program
}

/// Does it for one stage; returns how many were inserted before it. Without `through` no stage is
/// looked through.
fn stage(program: &mut Cow<'_, Program>, through: Option<&Stated>, k: usize) -> Option<usize> {
    let Stage::Compute(c) = &program.stages[k] else {
        return None;
    };
    let known = elements(&program.bufs[c.out].shape)?;
    if c.reduce.is_some() || known < FEW || program.hint(c.out).is_some() {
        return None;
    }
    let (value, parts) = match whole(program, through, (k, c)) {
        Some((value, byte)) => (value.clone(), vec![(value, byte)]),
        None => {
            let parts = parts(program, &c.value);
            // Elements of other tables than those of bytes are read one by one.
            let vectors = || is_rescaled(&c.value) && vectors::find(program, c).is_some();
            if parts.is_empty() || vectors() {
                return None;
            }
            (c.value.clone(), parts)
        }
    };
    let count = parts.len();
    let program = program.to_mut();
    let mut replaced: FxHashMap<usize, Ex> = FxHashMap::default();
    for (part, byte) in &parts {
        let (var, place) = program.fresh("byte", DType::I64);
        let offset = lookup::least(byte.dtype());
        let each = (&place - &Ex::idx(offset)).cast(byte.dtype());
        let of_byte = map_expr(part, |e| (e == byte).then(|| each.clone()));
        let out = program.bufs.push(Buffer {
            name: Symbol::new("table"),
            dtype: part.dtype(),
            shape: vec![Ex::idx(256)],
            role: Role::Temp,
        });
        let table = Compute {
            out,
            axes: vec![var],
            reduce: None,
            value: of_byte,
        };
        program.insert_stage(k, Stage::Compute(table));
        let index = &byte.cast(DType::I64) + &Ex::idx(offset);
        replaced.insert(
            part.addr(),
            Ex::new(ExKind::Load(out, vec![index]), part.dtype()),
        );
    }
    // Parts do not contain each other: they are met as they were.
    let value = map_expr(&value, |e| replaced.get(&e.addr()).cloned());
    if let Stage::Compute(c) = &mut program.stages[k + count] {
        c.value = value;
    }
    Some(count)
}

/// Returns the value of a stage of bytes with the byte that it is a function of, in arithmetic of
/// floats or of 64 bits, if bytes are read in the order of the results.
fn whole(
    program: &Program,
    through: Option<&Stated>,
    (k, c): (usize, &Compute),
) -> Option<(Ex, Ex)> {
    if !lookup::is_byte(c.value.dtype()) {
        return None;
    }
    let value = match through {
        Some(stated) => down_to_bytes(program, stated, (k, c))?,
        None => c.value.clone(),
    };
    let (mut byte, mut floats, mut wide, mut fits) = (None::<&Ex>, false, 0, true);
    let mut work = vec![&value];
    let mut seen = FxHashSet::default();
    while let Some(e) = work.pop() {
        if e.is_shared() && !seen.insert(e.addr()) {
            continue;
        }
        floats |= e.dtype().is_float();
        wide += usize::from(e.dtype() == DType::I64 && !e.children().is_empty());
        match e.kind() {
            ExKind::Load(buf, _) if program.bufs[*buf].shape.is_empty() => {}
            ExKind::Load(..) => {
                fits &= lookup::is_byte(e.dtype()) && **byte.get_or_insert(e) == *e;
            }
            ExKind::Int(_) | ExKind::Float(_) => {}
            ExKind::Var(_) | ExKind::Reinterpret(_) => fits = false,
            // Division of integers is not computed for numbers that may not occur.
            ExKind::Binary(op, ..) => fits &= !e.dtype().is_integral() || total(*op),
            ExKind::Unary(..) | ExKind::Select(..) | ExKind::Cast(_) => {}
        }
        if !matches!(e.kind(), ExKind::Load(..)) {
            work.extend(e.children());
        }
    }
    let byte = byte.filter(|_| fits && (floats || wide >= WIDE))?.clone();
    lookup::as_it_lies(program, c, &byte)?;
    Some((value, byte))
}

/// Returns the value of a stage in terms of inputs and of stages that make bytes, or that are stated
/// to be another kernel; `None` where that is long.
fn down_to_bytes(program: &Program, stated: &Stated, (k, c): (usize, &Compute)) -> Option<Ex> {
    let mut value = c.value.clone();
    for _ in 0..STAGES {
        let unfolded = map_expr(&value, |e| {
            let ExKind::Load(buf, index) = e.kind() else {
                return None;
            };
            let own = program.bufs[*buf].role == Role::Temp && program.hint(*buf).is_none();
            // A number that is the same for all elements is computed once.
            if !own || lookup::is_byte(e.dtype()) || index.is_empty() {
                return None;
            }
            let is_maker = |s: &Stage| matches!(s, Stage::Compute(c) if c.out == *buf);
            let at = program.stages.iter().position(is_maker)?;
            let made = match &program.stages[at] {
                Stage::Compute(c) if c.reduce.is_none() && stated.together(at, k, program) => c,
                _ => return None,
            };
            let place = |v: Var| made.axes.iter().position(|a| *a == v);
            Some(substitute(&made.value, &|v| {
                place(v).map(|k| index[k].clone())
            }))
        });
        if unfolded.addr() == value.addr() {
            break;
        }
        value = unfolded;
        let mut nodes = 0;
        visit_expr(&value, |_| nodes += 1);
        if nodes > NODES {
            return None;
        }
    }
    Some(value)
}

/// Returns whether an operation of integers has a result for all operands.
fn total(op: BinOp) -> bool {
    use BinOp::{Add, Max, Min, Mul, Shl, Shr, Sub};
    matches!(op, Add | Sub | Mul | Shl | Shr | Min | Max)
}

/// Returns whether fixed-point arithmetic of which vectors have an operation is all that an expression
/// takes 64 bits for.
fn is_rescaled(value: &Ex) -> bool {
    let mut inside = FxHashSet::default();
    visit_expr(value, |e| {
        if let (Some(_), ExKind::Cast(wide)) = (rescaled(e), e.kind()) {
            let mut work = vec![wide];
            while let Some(e) = work.pop() {
                inside.insert(e.addr());
                work.extend(e.children().filter(|x| x.dtype() == DType::I64));
            }
        }
    });
    let mut all = true;
    visit_expr(value, |e| {
        let computed = e.dtype() == DType::I64
            && matches!(
                e.kind(),
                ExKind::Binary(..) | ExKind::Unary(..) | ExKind::Cast(_)
            );
        all &= !computed || inside.contains(&e.addr());
    });
    all
}

/// The largest parts of an expression that are worth a table, with the bytes that they depend on.
fn parts(program: &Program, value: &Ex) -> Vec<(Ex, Ex)> {
    let mut known: FxHashMap<usize, (Depends<'_>, usize)> = FxHashMap::default();
    let mut found: Vec<(Ex, Ex)> = Vec::new();
    visit_expr(value, |e| {
        let mut operands = Vec::new();
        let fits = match e.kind() {
            ExKind::Int(_) => true,
            ExKind::Load(buf, index) => {
                let byte = lookup::is_byte(e.dtype()) && !index.is_empty();
                let number = program.bufs[*buf].shape.is_empty() && e.dtype().is_integral();
                let depends = match (byte, number) {
                    (true, _) => Depends::Byte(e),
                    (_, true) => Depends::Nothing,
                    _ => Depends::Else,
                };
                known.insert(e.addr(), (depends, 0));
                return;
            }
            ExKind::Cast(x) => {
                operands.push(x);
                x.dtype().is_integral()
            }
            ExKind::Binary(op, a, b) => {
                operands.extend([a, b]);
                total(*op)
            }
            _ => false,
        };
        let mut depends = match fits && e.dtype().is_integral() {
            true => Depends::Nothing,
            false => Depends::Else,
        };
        let mut wide = usize::from(e.dtype() == DType::I64 && !operands.is_empty());
        for &x in &operands {
            let (of, n) = known[&x.addr()];
            wide += n;
            depends = match (depends, of) {
                (Depends::Nothing, of) => of,
                (of, Depends::Nothing) => of,
                (Depends::Byte(a), Depends::Byte(b)) if a == b => depends,
                _ => Depends::Else,
            };
        }
        known.insert(e.addr(), (depends, wide));
        let worth = |(depends, wide): &(Depends<'_>, usize)| match depends {
            Depends::Byte(byte) if *wide >= WIDE => Some((*byte).clone()),
            _ => None,
        };
        // The largest part so far, instead of those that it consists of.
        if let Some(byte) = worth(&known[&e.addr()]) {
            found.retain(|(part, _)| operands.iter().all(|x| x.addr() != part.addr()));
            found.push((e.clone(), byte));
        }
    });
    found
}
