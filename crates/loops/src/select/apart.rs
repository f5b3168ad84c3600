//! Parts of elements that depend on some of the axes only: where an image is sampled, and with which
//! weights, is the same for all its channels.
//!
//! What generated code would compute again along the other axes is a stage of its own: a kernel
//! may compute it, and each element reads it. So is what vector operations would read element by
//! element in short pieces of rows.

use std::borrow::Cow;

use relax_base::Symbol;
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::picks;
use super::separate::has_marks;
use super::stated::Stated;
use super::vectors;
use crate::extents::numbers;
use crate::rewrite::{fold_expr, map_expr, substitute};
use crate::{BinOp, Buffer, Compute, Ex, ExKind, Program, Role, Stage, Var, axes_of, visit_expr};

/// Elements of a stage below which another one does not pay.
const FEW: i64 = 4096;
/// How often a part is read, at least.
const AGAIN: i64 = 4;
/// Iterations of the loops that a part does not depend on from which it is not computed apart, if
/// they are the innermost: it is computed before them.
const INSIDE: i64 = 8;
/// What a part costs, at least, in operations.
const COST: u32 = 4;
/// What a function costs.
const FUNCTION: u32 = 16;
/// The most axes of a stage.
const AXES: usize = 32;
/// The most parts of a stage,
const PARTS: usize = 48;
/// and the most elements that they have together for each of the stage's.
const LARGE: i64 = 2;

/// What is known of an expression.
#[derive(Clone, Copy, Default)]
struct Part {
    /// The loops that it depends on, a bit for each.
    axes: u32,
    /// What it costs, at most [`COST`].
    cost: u32,
}

/// Returns whether generated code computes a stage that stands alone.
type IsCode = fn(&Program, &Compute) -> bool;

/// Makes stages of such parts, before those that read them. Without any, the program is unchanged.
pub(super) fn set<'p>(
    mut program: Cow<'p, Program>,
    stated: &mut Stated,
    is_code: IsCode,
) -> Cow<'p, Program> {
    if has_marks(&program) {
        return program;
    }
    let mut k = 0;
    while k < program.stages.len() {
        k += stage(&mut program, stated, is_code, k).unwrap_or(0) + 1;
    }
    program
}

/// Does it for one stage, unless a kernel computes it; returns how many were inserted before it.
fn stage(
    program: &mut Cow<'_, Program>,
    stated: &mut Stated,
    is_code: IsCode,
    k: usize,
) -> Option<usize> {
    let Stage::Compute(c) = &program.stages[k] else {
        return None;
    };
    let loops = program.loops(c);
    let extents = numbers(loops.iter().map(|l| &l.1))?;
    let all = (extents.iter()).try_fold(1i64, |n, e| n.checked_mul(*e))?;
    if all < FEW || loops.len() > AXES || program.hint(c.out).is_some() {
        return None;
    }
    let in_code = is_code(program, c);
    let free = match in_code {
        true => !stated.names(c.out),
        false => stated.allows_vectors_alone(c.out) && vectors::find(program, c).is_some(),
    };
    if !free {
        return None;
    }
    let vars: Vec<Var> = loops.iter().map(|l| l.0).collect();
    let found = match in_code {
        true => parts(program, c, &vars, &extents),
        false => divided(program, c, &vars, &extents)?,
    };
    let size = |axes: u32| -> i64 {
        let own = extents
            .iter()
            .enumerate()
            .filter(|(k, _)| axes >> k & 1 == 1);
        own.map(|(_, n)| n).product()
    };
    let together: i64 = found.iter().map(|(_, axes)| size(*axes)).sum();
    if found.is_empty() || found.len() > PARTS || together > LARGE.saturating_mul(all) {
        return None;
    }
    let mut new = program.clone().into_owned();
    let mut replaced: FxHashMap<usize, Ex> = FxHashMap::default();
    for (part, axes) in &found {
        let own = || (0..vars.len()).filter(|k| axes >> k & 1 == 1);
        let out = new.bufs.push(Buffer {
            name: Symbol::new("part"),
            dtype: part.dtype(),
            shape: own().map(|k| Ex::idx(extents[k])).collect(),
            role: Role::Temp,
        });
        let fresh: Vec<_> = own().map(|_| new.fresh("i", DType::I64)).collect();
        let place = |v: Var| own().position(|k| vars[k] == v);
        let value = substitute(part, &|v| place(v).map(|k| fresh[k].1.clone()));
        let axes = fresh.iter().map(|f| f.0).collect();
        new.insert_stage(
            k,
            Stage::Compute(Compute {
                out,
                axes,
                reduce: None,
                value,
            }),
        );
        let index = own().map(|k| Ex::var(vars[k], DType::I64)).collect();
        replaced.insert(part.addr(), Ex::new(ExKind::Load(out, index), part.dtype()));
    }
    let value = map_expr(&c.value, |e| replaced.get(&e.addr()).cloned());
    let rest = Compute { value, ..c.clone() };
    // A kernel that the program would state here could not be found in it again.
    let same = match in_code {
        true => is_code(&new, &rest),
        false => vectors::find(&new, &rest).is_some(),
    };
    if !same {
        return None;
    }
    new.stages[k..k + found.len()]
        .iter()
        .flat_map(Stage::written)
        .for_each(|b| stated.insert(b));
    new.stages[k + found.len()] = Stage::Compute(rest);
    *program = Cow::Owned(new);
    Some(found.len())
}

/// The largest parts of a stage's value that are worth a stage of their own, with the loops that
/// they depend on.
fn parts(program: &Program, c: &Compute, vars: &[Var], extents: &[i64]) -> Vec<(Ex, u32)> {
    let known = known(&c.value, vars);
    let times = |axes: u32| -> i64 {
        let absent = extents
            .iter()
            .enumerate()
            .filter(|(k, _)| axes >> k & 1 == 0);
        absent.map(|(_, n)| n).product()
    };
    let inside = |axes: u32| -> i64 {
        let last = 32 - axes.leading_zeros() as usize;
        extents[last..].iter().product()
    };
    let worth = |e: &Ex| {
        let Part { axes, cost } = known[&e.addr()];
        axes != 0
            && cost >= COST
            && times(axes) >= AGAIN
            && inside(axes) < INSIDE
            && picks::harmless(program, c, e)
    };
    let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
    let mut work = vec![&c.value];
    while let Some(e) = work.pop() {
        if !seen.insert(e.addr()) {
            continue;
        }
        if !worth(e) {
            work.extend(e.children());
            continue;
        }
        // Indices a constant apart read one number.
        let inner = match e.kind() {
            ExKind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, x, by)
                if by.as_int().is_some() && worth(x) =>
            {
                x
            }
            _ => e,
        };
        if inner.addr() == e.addr() || seen.insert(inner.addr()) {
            found.push((inner.clone(), known[&inner.addr()].axes));
        }
    }
    found
}

/// The elements that vector operations read at quotients of indices, with the loops that these depend
/// on: a number for each group of channels, channels last. Laid out like the others, they do not
/// cut rows in pieces. `None` where some of them are no fewer than the others.
fn divided(
    program: &Program,
    c: &Compute,
    vars: &[Var],
    extents: &[i64],
) -> Option<Vec<(Ex, u32)>> {
    let (mut found, mut fits) = (Vec::<(Ex, u32)>::new(), true);
    visit_expr(&c.value, |e| {
        let ExKind::Load(_, index) = e.kind() else {
            return;
        };
        let mut divides = false;
        for place in index {
            visit_expr(place, |x| {
                divides |= matches!(
                    x.kind(),
                    ExKind::Binary(BinOp::FloorDiv | BinOp::FloorMod, ..)
                );
            });
        }
        if divides {
            fits &= c.reduce.is_none() && e.addr() != c.value.addr();
            let axes = axes_of(e, vars).into_iter().fold(0, |all, k| all | 1 << k);
            let absent = extents.iter().enumerate();
            let absent = absent.filter(|(k, _)| axes >> k & 1 == 0);
            fits &= absent.map(|(_, n)| n).product::<i64>() >= AGAIN;
            fits &= picks::harmless(program, c, e);
            if found.iter().all(|(x, _)| x.addr() != e.addr()) {
                found.push((e.clone(), axes));
            }
        }
    });
    fits.then_some(found)
}

/// What each part of a value depends on and costs.
fn known(value: &Ex, vars: &[Var]) -> FxHashMap<usize, Part> {
    fold_expr(value, |e, parts: &mut dyn Iterator<Item = Part>| {
        let own = match e.kind() {
            ExKind::Int(_) | ExKind::Float(_) => Part::default(),
            ExKind::Var(v) => match vars.iter().position(|x| x == v) {
                Some(k) => Part {
                    axes: 1 << k,
                    cost: 0,
                },
                None => Part::default(),
            },
            ExKind::Unary(op, _) if op.libm().is_some() => Part {
                axes: 0,
                cost: FUNCTION,
            },
            _ => Part { axes: 0, cost: 1 },
        };
        parts.fold(own, |sum, part| Part {
            axes: sum.axes | part.axes,
            cost: (sum.cost + part.cost).min(COST),
        })
    })
}
