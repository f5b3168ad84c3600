//! Schedules: rewrites of loop nests that change the order and manner in which a program computes
//! its elements, never their values.
//!
//! Every rewrite works on a program whose stages are loop nests ([`as_nests`]), names loops by
//! their variables' names, and refuses with a reason where it could change a value. Loops that run
//! over the elements of a reduction keep their order among themselves, because float sums depend on
//! it.
//!
//! The rewrites are the classical ones (Allen and Kennedy, "Optimizing Compilers for Modern
//! Architectures", 2001).

mod independent;
#[cfg(test)]
mod tests;

use relax_base::Symbol;
use relax_tensor::DType;
use rustc_hash::FxHashSet;

use independent::stores;
pub use independent::{Dependence, independent};

use crate::rewrite::{map_stmts, substitute, visit_expr};
use crate::{Buf, Ex, ExKind, Mark, Program, Stage, Stmt, Var, VarInfo, lower_stage};

/// The maximum number of iterations of an unrolled loop.
pub const MOST_UNROLLED: i64 = 64;
/// The maximum number of lanes of a vector.
pub const MOST_LANES: u32 = 64;

/// One rewrite. Loops are named by their variables' names in the program's text; a name denotes
/// every loop of that name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// `split(i, 8)`: `i` becomes `i_o` over blocks of 8 and `i_i` inside.
    Split {
        /// The loop.
        var: Symbol,
        /// Iterations of the inner loop.
        factor: i64,
    },
    /// `tile(i, j, 8, 16)`: `i` and `j`, perfectly nested, become `i_o`, `j_o`, `i_i`, `j_i`.
    Tile {
        /// The loops, outermost first.
        vars: Vec<Symbol>,
        /// The extents of a tile, one per loop.
        factors: Vec<i64>,
    },
    /// `reorder(j, i)`: perfectly nested loops, in the new order.
    Reorder {
        /// The loops, outermost first.
        vars: Vec<Symbol>,
    },
    /// `vectorize(j, 4)`.
    Vectorize {
        /// The loop.
        var: Symbol,
        /// Lanes.
        width: u32,
    },
    /// `parallel(i)`.
    Parallel {
        /// The loop.
        var: Symbol,
    },
    /// `unroll(k)`.
    Unroll {
        /// The loop.
        var: Symbol,
    },
}

/// Why a step cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoSchedule {
    /// There is no loop of that name.
    NoLoop(Symbol),
    /// A number in the step is not allowed.
    Number(&'static str),
    /// The loops are not perfectly nested.
    NotNested(Symbol, Symbol),
    /// Iterations depend on each other.
    Dependent(Symbol, Dependence),
    /// Two loops over the elements of one reduction would be interchanged.
    Reduction(Symbol, Symbol),
    /// The extent is not a small constant.
    Extent(Symbol),
}

impl std::fmt::Display for NoSchedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoSchedule::NoLoop(v) => write!(f, "there is no loop over `%{v}`"),
            NoSchedule::Number(what) => f.write_str(what),
            NoSchedule::NotNested(a, b) => {
                write!(
                    f,
                    "the loop over `%{b}` does not stand right inside that over `%{a}`"
                )
            }
            NoSchedule::Dependent(v, why) => {
                write!(
                    f,
                    "the iterations of the loop over `%{v}` depend on each other: {why}"
                )
            }
            NoSchedule::Reduction(a, b) => write!(
                f,
                "`%{a}` and `%{b}` run over one reduction, whose order is part of its value"
            ),
            NoSchedule::Extent(v) => write!(
                f,
                "the loop over `%{v}` has no constant extent of at most {MOST_UNROLLED}"
            ),
        }
    }
}

/// Makes every stage an explicit loop nest, which fixes the order of sums. Hints are removed: a
/// scheduled program determines itself how it computes.
pub fn as_nests(program: &mut Program) {
    let nests: Vec<Stage> = (program.stages.iter())
        .map(|s| Stage::Nest(lower_stage(program, s)))
        .collect();
    program.stages = nests;
    program.hints.clear();
    program.kernels.clear();
}

/// Applies the steps in order to a program; its stages become loop nests. If a step fails, the
/// program is left as after the step before.
///
/// # Errors
/// A step names no loop of the program, or would change what it computes.
pub fn schedule(program: &mut Program, steps: &[Step]) -> Result<(), NoSchedule> {
    as_nests(program);
    steps.iter().try_for_each(|s| apply(program, s))
}

/// The schedule that is right for most programs without knowing the machine: of each nest the
/// outermost loop runs in parallel where its iterations are independent and at least `grain` in
/// number (or of unknown number), and the innermost loop whose iterations are independent is
/// vectorised with as many lanes as fit 16 bytes. Returns the number of loops marked.
pub fn auto(program: &mut Program, grain: i64) -> usize {
    as_nests(program);
    let mut marked = 0;
    let mut stages = program.stages.clone();
    for stage in &mut stages {
        let Stage::Nest(body) = stage else { continue };
        for s in body.iter_mut() {
            if let Stmt::For {
                var,
                extent,
                mark,
                body,
            } = s
                && *mark == Mark::Serial
                && work(extent, body).is_none_or(|n| n >= grain)
                && independent(program, *var, body).is_ok()
            {
                *mark = Mark::Parallel;
                marked += 1;
            }
        }
        marked += vectorize_inner(program, body);
    }
    program.stages = stages;
    marked
}

/// The iterations of a loop and the loops directly inside it, where all are constants.
fn work(extent: &Ex, mut body: &[Stmt]) -> Option<i64> {
    let mut n = extent.as_int()?;
    while let [
        Stmt::For {
            extent,
            body: inner,
            ..
        },
    ] = body
    {
        n = n.checked_mul(extent.as_int()?)?;
        body = inner;
    }
    Some(n)
}

fn vectorize_inner(program: &Program, body: &mut [Stmt]) -> usize {
    let mut marked = 0;
    let mut work: Vec<&mut Stmt> = body.iter_mut().collect();
    while let Some(s) = work.pop() {
        match s {
            Stmt::For {
                var,
                extent,
                mark,
                body,
            } => {
                let innermost = !body
                    .iter()
                    .any(|s| matches!(s, Stmt::For { .. } | Stmt::While { .. }));
                if innermost {
                    let lanes = lanes(program, body);
                    let long = extent.as_int().is_none_or(|n| n >= i64::from(lanes));
                    if *mark == Mark::Serial
                        && lanes > 1
                        && long
                        && independent(program, *var, body).is_ok()
                    {
                        *mark = Mark::Vectorize(lanes);
                        marked += 1;
                    }
                } else {
                    work.extend(body.iter_mut());
                }
            }
            Stmt::If {
                then, otherwise, ..
            } => {
                work.extend(then.iter_mut());
                work.extend(otherwise.iter_mut());
            }
            _ => {}
        }
    }
    marked
}

/// Returns how many elements of the widest type that the body stores fit into 16 bytes.
fn lanes(program: &Program, body: &[Stmt]) -> u32 {
    let size = stores(body)
        .iter()
        .map(|(b, _)| program.bufs[*b].dtype.size())
        .max();
    size.map_or(1, |s| (16 / s.max(1)) as u32)
}

fn apply(program: &mut Program, step: &Step) -> Result<(), NoSchedule> {
    match step {
        Step::Split { var, factor } => {
            if *factor < 1 {
                return Err(NoSchedule::Number("a loop is split by 1 or more"));
            }
            at_loops(program, *var, &mut |p, s| split(p, s, *factor))
        }
        Step::Tile { vars, factors } => {
            if vars.is_empty() || vars.len() != factors.len() || factors.iter().any(|f| *f < 1) {
                return Err(NoSchedule::Number(
                    "a tile has one extent of 1 or more per loop",
                ));
            }
            for (v, factor) in vars.iter().zip(factors) {
                apply(
                    program,
                    &Step::Split {
                        var: *v,
                        factor: *factor,
                    },
                )?;
            }
            let part = |suffix: &str| {
                let name = move |v: &Symbol| Symbol::new(&format!("{v}{suffix}"));
                vars.iter().map(name).collect::<Vec<_>>()
            };
            let vars = part("_o").into_iter().chain(part("_i")).collect();
            apply(program, &Step::Reorder { vars })
        }
        Step::Reorder { vars } => {
            let Some(first) = vars.first() else {
                return Ok(());
            };
            let set: FxHashSet<Symbol> = vars.iter().copied().collect();
            if set.len() != vars.len() {
                return Err(NoSchedule::Number("a loop is named twice"));
            }
            let mut found = false;
            in_nests(program, &mut |p, s| {
                let Stmt::For { var, .. } = s else {
                    return Ok(false);
                };
                if !set.contains(&p.vars[*var].name) {
                    return Ok(false);
                }
                found = true;
                reorder(p, s, vars).map(|()| true)
            })?;
            if found {
                Ok(())
            } else {
                Err(NoSchedule::NoLoop(*first))
            }
        }
        Step::Vectorize { var, width } => {
            if *width < 2 || *width > MOST_LANES {
                return Err(NoSchedule::Number("a vector has 2 to 64 lanes"));
            }
            at_loops(program, *var, &mut |p, s| {
                mark_independent(p, s, Mark::Vectorize(*width))
            })
        }
        Step::Parallel { var } => at_loops(program, *var, &mut |p, s| {
            mark_independent(p, s, Mark::Parallel)
        }),
        Step::Unroll { var } => at_loops(program, *var, &mut |p, s| {
            let Stmt::For {
                var, extent, mark, ..
            } = s
            else {
                return Ok(());
            };
            if extent.as_int().is_none_or(|n| n > MOST_UNROLLED) {
                return Err(NoSchedule::Extent(p.vars[*var].name));
            }
            *mark = Mark::Unroll;
            Ok(())
        }),
    }
}

/// The action of a rewrite at a statement; `true` means that nested statements are handled too.
type Visit<'a> = dyn FnMut(&mut Program, &mut Stmt) -> Result<bool, NoSchedule> + 'a;

/// Visits the statements of all nests, outer ones first. A failing visit leaves the program as it
/// was.
fn in_nests(program: &mut Program, visit: &mut Visit<'_>) -> Result<(), NoSchedule> {
    let mut stages = program.stages.clone();
    for stage in &mut stages {
        let Stage::Nest(body) = stage else { continue };
        let mut work: Vec<&mut Stmt> = body.iter_mut().rev().collect();
        while let Some(s) = work.pop() {
            if visit(program, s)? {
                continue;
            }
            match s {
                Stmt::For { body, .. } | Stmt::While { body, .. } | Stmt::Init { body, .. } => {
                    work.extend(body.iter_mut().rev());
                }
                Stmt::If {
                    then, otherwise, ..
                } => {
                    work.extend(then.iter_mut().chain(otherwise.iter_mut()).rev());
                }
                _ => {}
            }
        }
    }
    program.stages = stages;
    Ok(())
}

fn at_loops(
    program: &mut Program,
    name: Symbol,
    f: &mut dyn FnMut(&mut Program, &mut Stmt) -> Result<(), NoSchedule>,
) -> Result<(), NoSchedule> {
    let mut found = false;
    in_nests(program, &mut |p, s| match s {
        Stmt::For { var, .. } if p.vars[*var].name == name => {
            found = true;
            f(p, s).map(|()| true)
        }
        _ => Ok(false),
    })?;
    if found {
        Ok(())
    } else {
        Err(NoSchedule::NoLoop(name))
    }
}

/// `for v in n { body }` becomes `for v_o in ceil(n / f) { for v_i in f { body[v_o * f + v_i] } }`,
/// with a guard where `f` does not divide `n`.
fn split(program: &mut Program, s: &mut Stmt, factor: i64) -> Result<(), NoSchedule> {
    let Stmt::For {
        var,
        extent,
        mark,
        body,
    } = s
    else {
        return Ok(());
    };
    let name = program.vars[*var].name;
    let fresh = |program: &mut Program, suffix: &str| {
        program.vars.push(VarInfo {
            name: Symbol::new(&format!("{name}{suffix}")),
            dtype: DType::I64,
        })
    };
    let (outer, inner) = (fresh(program, "_o"), fresh(program, "_i"));
    let index = Ex::var(outer, DType::I64) * factor + Ex::var(inner, DType::I64);
    let old = *var;
    let mut body = std::mem::take(body);
    map_stmts(&mut body, &mut |e| {
        substitute(e, &|v| (v == old).then(|| index.clone()))
    });
    over(&mut body, old, &[outer, inner]);
    let exact = extent.as_int().is_some_and(|n| n % factor == 0);
    if !exact {
        body = vec![Stmt::If {
            cond: index.lt(&*extent),
            then: body,
            otherwise: Vec::new(),
        }];
    }
    let blocks = match extent.as_int() {
        Some(n) => Ex::idx(n.max(0).div_euclid(factor) + i64::from(n.max(0) % factor != 0)),
        None => (&*extent + (factor - 1)).floor_div(factor),
    };
    *s = Stmt::For {
        var: outer,
        extent: blocks,
        mark: *mark,
        body: vec![Stmt::For {
            var: inner,
            extent: Ex::idx(factor),
            mark: Mark::Serial,
            body,
        }],
    };
    Ok(())
}

/// Makes an initial value that was set where `old` is 0 depend on all of `new` being 0.
fn over(body: &mut [Stmt], old: Var, new: &[Var]) {
    let mut work: Vec<&mut Stmt> = body.iter_mut().collect();
    while let Some(s) = work.pop() {
        match s {
            Stmt::Init { over, body } => {
                if let Some(at) = over.iter().position(|v| *v == old) {
                    over.splice(at..=at, new.iter().copied());
                }
                work.extend(body.iter_mut());
            }
            Stmt::For { body, .. } | Stmt::While { body, .. } => work.extend(body.iter_mut()),
            Stmt::If {
                then, otherwise, ..
            } => {
                work.extend(then.iter_mut());
                work.extend(otherwise.iter_mut());
            }
            _ => {}
        }
    }
}

/// Reorders loops, with the guards of splits between them.
fn reorder(program: &Program, s: &mut Stmt, wanted: &[Symbol]) -> Result<(), NoSchedule> {
    let name = |v: Var| program.vars[v].name;
    let (mut loops, mut guards) = (Vec::new(), Vec::new());
    let mut rest = vec![std::mem::replace(s, Stmt::Alloc { buf: Buf(0) })];
    let body = loop {
        if loops.len() == wanted.len() {
            break rest;
        }
        match <[Stmt; 1]>::try_from(rest) {
            Ok(
                [
                    Stmt::For {
                        var,
                        extent,
                        mark,
                        body,
                    },
                ],
            ) if wanted.contains(&name(var)) => {
                loops.push((var, extent, mark));
                rest = body;
            }
            Ok(
                [
                    Stmt::If {
                        cond,
                        then,
                        otherwise,
                    },
                ],
            ) if otherwise.is_empty() => {
                guards.push(cond);
                rest = then;
            }
            _ => {
                let last = loops
                    .last()
                    .map_or(wanted[0], |l: &(Var, Ex, Mark)| name(l.0));
                let missing = wanted
                    .iter()
                    .find(|w| !loops.iter().any(|l| name(l.0) == **w));
                return Err(NoSchedule::NotNested(last, *missing.unwrap_or(&last)));
            }
        }
    };
    // Guards between the loops move inside them: they are pure.
    let mut body = body;
    for cond in guards.into_iter().rev() {
        body = vec![Stmt::If {
            cond,
            then: body,
            otherwise: Vec::new(),
        }];
    }
    let place = |v: Var| wanted.iter().position(|w| *w == name(v)).unwrap_or(0);
    for (k, (a, ..)) in loops.iter().enumerate() {
        for (b, extent, _) in &loops[k + 1..] {
            let mut uses = false;
            visit_expr(extent, |e| {
                uses |= matches!(e.kind(), ExKind::Var(v) if v == a)
            });
            if place(*b) < place(*a) {
                if uses {
                    return Err(NoSchedule::NotNested(name(*a), name(*b)));
                }
                let free = |v: Var| independent(program, v, &body);
                if let (Err(_), Err(_)) = (free(*a), free(*b)) {
                    // Loops that came from splitting one loop keep their relative order, and so do
                    // those of a reduction.
                    return Err(NoSchedule::Reduction(name(*a), name(*b)));
                }
            }
        }
    }
    loops.sort_by_key(|l| place(l.0));
    for (var, extent, mark) in loops.into_iter().rev() {
        body = vec![Stmt::For {
            var,
            extent,
            mark,
            body,
        }];
    }
    *s = body.remove(0);
    Ok(())
}

fn mark_independent(program: &Program, s: &mut Stmt, new: Mark) -> Result<(), NoSchedule> {
    let Stmt::For {
        var, mark, body, ..
    } = s
    else {
        return Ok(());
    };
    independent(program, *var, body)
        .map_err(|why| NoSchedule::Dependent(program.vars[*var].name, why))?;
    *mark = new;
    Ok(())
}
