//! Type inference: one solver for type relations and symbolic shapes.
//!
//! [`infer`] walks every function, operands first, and gives each node a type that may contain
//! unknowns. Unification solves unknowns; relations that need more information wait on a work list
//! and run again when one of their unknowns is solved. When no relation makes progress, literals
//! take their default types, functions without complete annotations are generalised, and what is
//! left open is an error that names the place to annotate.
//!
//! The parts: types, unknowns and their unification (`unifier`, `unify`, `map`, `instantiate`,
//! `show`, `flags`, `unknown`); the waiting relations, as data (`queue`), and their execution
//! (`relations`); functions whose types are not determined by their own text (`scheme`,
//! `generalise`); and a reporter (`report`) that reads the solver and creates diagnostics.
//! `mistakes` keeps one error from causing others.
//!
//! Invariant: nothing here recurses over expressions, types or patterns, and nothing panics on a
//! module that the resolver or the builder made.
//! Invariant: results and diagnostics do not depend on anything but the module and the options.

mod agreement;
mod answers;
mod call;
pub mod codes;
mod coverage;
mod deps;
mod effects;
mod finish;
mod flags;
mod generalise;
mod gradients;
mod groups;
mod incremental;
mod instantiate;
mod items;
mod kept;
mod map;
mod mistakes;
mod part;
mod patterns;
mod places;
mod queue;
mod relation_cache;
mod relations;
mod report;
mod scheme;
mod shapes;
mod show;
mod solver;
mod subst;
mod task;
mod typing;
mod unifier;
mod unify;
mod unknown;
mod user_rel;
mod walk;
mod way;

use relax_base::Diagnostics;
use relax_ir::Module;

pub use effects::may_have_effects;
pub use finish::show_type;
pub use gradients::check_gradients;
pub use incremental::{Again, infer_again};
pub use typing::{Check, CheckKind, Typing};

/// How strictly to check.
#[derive(Clone, Copy, Default, Debug)]
pub struct InferOptions {
    /// Equalities of dimensions that are neither proven nor refuted are errors instead of warnings
    /// with a check at run time.
    pub strict_shapes: bool,
}

/// Infers the types of a module. Literals without suffix get the element type that their context
/// requires, in place; the module's type arena grows, its expressions are unchanged.
///
/// The typing is complete even if there are errors: what an error left open is
/// [`relax_ir::Type::Error`]. Diagnostics are in the order of the text.
pub fn infer(module: &mut Module, options: &InferOptions) -> (Typing, Diagnostics) {
    let types = std::mem::take(&mut module.types);
    let solver = solver::Solver::new(module, types, options);
    let outcome = solve(solver).1;
    outcome.into_module(module)
}

/// Runs a solver to completion; returns the number of functions of globals that it typed, and the
/// outcome.
fn solve(mut solver: solver::Solver<'_>) -> (usize, typing::Outcome) {
    let typed = solver.run();
    if solver.fuel == 0 {
        solver.report_fuel(solver.cur_call);
    }
    solver.report_open();
    solver.check_effects();
    (typed, finish::finish(solver))
}
