//! Tables of integer arithmetic on single bytes.
//!
//! What depends on one byte, and on numbers that are the same for all elements, has 256 values. Where
//! it takes 64-bit arithmetic, as fixed-point multiplication does, these are computed once, and each
//! element is looked up.

use std::borrow::Cow;

use relax_base::Symbol;
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::extents::elements;
use crate::rewrite::map_expr;
use crate::{BinOp, Buffer, Compute, Ex, ExKind, Program, Role, Stage, visit_expr};

/// The least number of elements for which a table pays.
const FEW: i64 = 4 * 256;
/// The least number of 64-bit operations.
const WIDE: usize = 2;

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
/// Without such parts the program is unchanged.
pub fn tabulate(mut program: Cow<'_, Program>) -> Cow<'_, Program> {
    let mut k = 0;
    while k < program.stages.len() {
        k += stage(&mut program, k).unwrap_or(0) + 1;
    }
    program
}

/// Does it for one stage; returns how many were inserted before it.
fn stage(program: &mut Cow<'_, Program>, k: usize) -> Option<usize> {
    let Stage::Compute(c) = &program.stages[k] else {
        return None;
    };
    let known = elements(&program.bufs[c.out].shape)?;
    if c.reduce.is_some() || known < FEW || program.hint(c.out).is_some() {
        return None;
    }
    let parts = parts(program, &c.value);
    if parts.is_empty() {
        return None;
    }
    let count = parts.len();
    let value = c.value.clone();
    let program = program.to_mut();
    let mut replaced: FxHashMap<usize, Ex> = FxHashMap::default();
    for (part, byte) in &parts {
        let (var, place) = program.fresh("byte", DType::I64);
        let offset = i64::from(byte.dtype() == DType::I8) * 128;
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

/// The largest parts of an expression that are worth a table, with the bytes that they depend on.
fn parts(program: &Program, value: &Ex) -> Vec<(Ex, Ex)> {
    let mut known: FxHashMap<usize, (Depends<'_>, usize)> = FxHashMap::default();
    let mut found: Vec<(Ex, Ex)> = Vec::new();
    visit_expr(value, |e| {
        let mut operands = Vec::new();
        let fits = match e.kind() {
            ExKind::Int(_) => true,
            ExKind::Load(buf, index) => {
                let byte = matches!(e.dtype(), DType::I8 | DType::U8) && !index.is_empty();
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
                matches!(
                    op,
                    BinOp::Add
                        | BinOp::Sub
                        | BinOp::Mul
                        | BinOp::Shl
                        | BinOp::Shr
                        | BinOp::Min
                        | BinOp::Max
                )
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
