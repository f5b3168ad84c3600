//! The state of inference: the unifier, and the results for each node.

use std::ops::{Deref, DerefMut};

use relax_base::{Diagnostic, Diagnostics, Span};
use relax_ir::{DTyInfer, ExprId, FuncId, GlobalId, IdSet, Module, Type, TypeArena, TypeId, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::InferOptions;
use crate::flags::INFER;
use crate::part::Part;
use crate::relation_cache::RelationCache;
use crate::scheme::Scheme;
use crate::task::Task;
use crate::typing::{Check, Typing};
use crate::unifier::Unifier;
use crate::unknown::NO_EXPR;

/// No type was found yet.
pub(crate) const UNTYPED: TypeId = TypeId(u32::MAX);
/// The expression is on the walker's stack.
pub(crate) const OPEN: TypeId = TypeId(u32::MAX - 1);

/// The state of inference.
pub(crate) struct Solver<'m> {
    /// Types, unknowns and relations.
    pub unifier: Unifier<'m>,
    pub opts: &'m InferOptions,
    pub expr_ty: Vec<TypeId>,
    /// The expressions that the walk came by.
    pub walked: Vec<ExprId>,
    pub var_ty: Vec<TypeId>,
    /// The variables that got a type.
    pub bound: Vec<VarId>,
    /// What the walk does after the expression that it finishes.
    pub next: Option<Task>,
    pub func_ty: Vec<TypeId>,
    pub global_ty: Vec<TypeId>,
    pub type_args: FxHashMap<ExprId, Box<[TypeId]>>,
    pub schemes: Vec<Scheme>,
    pub scheme_of: FxHashMap<VarId, u32>,
    /// Function types that were generalised after they were used, with their replacements.
    pub quantified: FxHashMap<TypeId, TypeId>,
    /// The first relation and the first nested scheme of each let-bound function being typed.
    pub scheme_starts: Vec<(usize, usize)>,
    /// `where` clauses of the enclosing functions.
    pub assumptions: Vec<relax_ir::Constraint>,
    /// Calls of functions known only at run time: their results default to `Object`.
    pub packed: Vec<ExprId>,
    pub checks: Vec<Check>,
    /// Refusals that were reported: operands and reason.
    pub refusals: FxHashSet<(Vec<(bool, u32)>, String)>,
    /// Matches with an ill-typed pattern, for which coverage is meaningless.
    pub bad_matches: FxHashSet<ExprId>,
    /// Whether each function is pure.
    pub purity: Vec<bool>,
    pub diags: Diagnostics,
    /// The number of errors among them.
    pub errors: usize,
    /// The locations of the functions that have errors, and of those that they depend on.
    pub mistaken: Vec<Span>,
    /// The function being walked, innermost last.
    pub funcs: Vec<FuncId>,
    /// Cached results of operators' relations.
    pub relation_cache: RelationCache,
    /// Calls whose relation had no effect but their result.
    pub plain: IdSet,
    /// See [`Notes::whole`](crate::typing::Notes::whole).
    pub whole: IdSet,
    /// Whether a variable or global that existing nodes may refer to has another type than before.
    pub moved: bool,
    /// The typing from before the module changed: existing nodes have the same children.
    pub known: Option<&'m Typing>,
    /// Whether the exhaustion of [`Unifier::fuel`] was reported.
    pub exhausted: bool,
    pub current_global: Option<GlobalId>,
    pub literal_unknowns: Vec<(ExprId, DTyInfer)>,
    /// Globals of the group being inferred that have no complete signature.
    pub open_globals: FxHashSet<GlobalId>,
    /// The part to type, if not the whole module.
    pub part: Option<Part<'m>>,
}

impl<'m> Deref for Solver<'m> {
    type Target = Unifier<'m>;
    fn deref(&self) -> &Unifier<'m> {
        &self.unifier
    }
}
impl<'m> DerefMut for Solver<'m> {
    fn deref_mut(&mut self) -> &mut Unifier<'m> {
        &mut self.unifier
    }
}

impl<'m> Solver<'m> {
    pub fn new(m: &'m Module, types: TypeArena, opts: &'m InferOptions) -> Solver<'m> {
        Solver::after(m, types, opts, None)
    }

    /// Creates a solver for a module that was partly typed before.
    pub fn after(
        m: &'m Module,
        types: TypeArena,
        opts: &'m InferOptions,
        known: Option<&'m Typing>,
    ) -> Solver<'m> {
        let flags = known.map(|k| k.notes.flags.clone()).unwrap_or_default();
        Solver {
            unifier: Unifier::new(m, types, flags),
            opts,
            expr_ty: vec![UNTYPED; m.exprs.len()],
            walked: Vec::new(),
            var_ty: vec![UNTYPED; m.vars.len()],
            bound: Vec::new(),
            next: None,
            func_ty: vec![UNTYPED; m.funcs.len()],
            global_ty: vec![UNTYPED; m.globals.len()],
            type_args: FxHashMap::default(),
            schemes: Vec::new(),
            scheme_of: FxHashMap::default(),
            quantified: FxHashMap::default(),
            scheme_starts: Vec::new(),
            assumptions: Vec::new(),
            packed: Vec::new(),
            checks: Vec::new(),
            refusals: FxHashSet::default(),
            bad_matches: FxHashSet::default(),
            purity: Vec::new(),
            diags: Diagnostics::new(),
            errors: 0,
            mistaken: Vec::new(),
            funcs: Vec::new(),
            relation_cache: RelationCache::after(m, known.map(|k| &k.notes.answers)),
            plain: IdSet::new(),
            whole: IdSet::new(),
            moved: false,
            known,
            exhausted: false,
            current_global: None,
            literal_unknowns: Vec::new(),
            open_globals: FxHashSet::default(),
            part: None,
        }
    }

    pub fn span(&self, e: ExprId) -> Span {
        if e == NO_EXPR {
            Span::NONE
        } else {
            self.m.spans[e]
        }
    }
    pub fn report(&mut self, d: Diagnostic) {
        self.errors += usize::from(d.is_error());
        self.diags.push(d);
    }

    /// Returns whether one of many types is open: `closed` holds those that are known not to be.
    #[inline]
    pub fn is_open_but(&mut self, t: TypeId, closed: &mut FxHashSet<TypeId>) -> bool {
        self.flags(t) & INFER != 0 && self.is_open_inside(t, closed)
    }

    fn is_open_inside(&mut self, t: TypeId, closed: &mut FxHashSet<TypeId>) -> bool {
        let (mut stack, mut fresh) = (vec![t], Vec::new());
        while let Some(t) = stack.pop() {
            let t = self.find(t);
            if self.flags(t) & INFER == 0 || !closed.insert(t) {
                continue;
            }
            fresh.push(t);
            let open = match self.types[t].clone() {
                Type::Infer(_) => true,
                Type::Tensor(_) | Type::Shape(_) => self.is_open(t),
                _ => {
                    stack.extend(self.types.children(t));
                    false
                }
            };
            if open {
                // The types visited on the way are undecided.
                for t in fresh {
                    closed.remove(&t);
                }
                return true;
            }
        }
        false
    }

    /// Returns whether a type contains unknowns after all solutions are substituted.
    pub fn is_open(&mut self, t: TypeId) -> bool {
        let t = self.resolve(t);
        self.flags(t) & INFER != 0
    }
}
