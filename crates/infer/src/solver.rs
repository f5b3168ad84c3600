//! The state of inference: types, unknowns, relations, and what was found for each node.

use std::collections::VecDeque;

use relax_base::{Diagnostic, Diagnostics, Id, Span};
use relax_ir::{
    DTy, DTyInfer, DimInfo, ExprId, FuncId, GlobalId, IdSet, Module, Shape, ShapeInfer, Type,
    TypeArena, TypeId, TypeInfer, VarId,
};
use relax_sym::{Atom, Dim, DimInfer, DimVar, Facts};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::flags::{Flags, INFER};
use crate::incremental::Part;
use crate::map::{Leaf, Mapper, map_dims};
use crate::relation_cache::RelationCache;
use crate::relations::Rel;
use crate::scheme::Scheme;
use crate::unknown::{Lit, NO_WATCH, Site, Sol, Sort, Unknown};
use crate::{Check, InferOptions, Typing};

/// No type was found yet.
pub(crate) const UNTYPED: TypeId = TypeId(u32::MAX);
/// The expression is on the walker's stack.
pub(crate) const OPEN: TypeId = TypeId(u32::MAX - 1);
/// No expression: a fact that belongs to no call.
pub(crate) const NO_EXPR: ExprId = ExprId(u32::MAX);

/// Everything inference works with.
pub(crate) struct Solver<'m> {
    pub m: &'m Module,
    /// The module's types, taken out so that they can grow.
    pub types: TypeArena,
    pub opts: &'m InferOptions,
    pub flags: Flags,
    pub unknowns: Vec<Unknown>,
    /// Cells of watch lists: a relation and the next cell.
    pub watch_pool: Vec<(u32, u32)>,
    /// How many let-bound functions that may be generalised surround the current place.
    pub level: u32,
    /// What is being checked, for error messages.
    pub site: Site,
    /// Whether the last unification let something coarse (`?`, `_`) stand for something finer.
    pub coarse: bool,
    pub rels: Vec<Rel>,
    pub queue: VecDeque<u32>,
    pub facts: Facts,
    /// Dimension variables that a match bound to a known dimension.
    pub alias: FxHashMap<DimVar, Dim>,
    /// Dimension variables made by generalisation, numbered after the module's.
    pub new_dims: Vec<DimInfo>,
    /// Dimension variables in scope, and the function that binds each.
    pub dim_owner: FxHashMap<DimVar, FuncId>,
    pub expr_ty: Vec<TypeId>,
    pub var_ty: Vec<TypeId>,
    pub func_ty: Vec<TypeId>,
    pub global_ty: Vec<TypeId>,
    pub type_args: FxHashMap<ExprId, Box<[TypeId]>>,
    pub schemes: Vec<Scheme>,
    pub scheme_of: FxHashMap<VarId, u32>,
    /// Function types that were generalised after the fact: what stands for them from then on.
    pub quantified: FxHashMap<TypeId, TypeId>,
    /// Where the relations of each let-bound function that is being typed begin.
    pub scheme_starts: Vec<(usize, usize)>,
    /// `where` clauses of the functions around the current place.
    pub assumptions: Vec<relax_ir::Constraint>,
    /// Calls of functions known only at run time: their results are `Object` where nothing else says.
    pub packed: Vec<ExprId>,
    pub checks: Vec<Check>,
    /// Pairs of dimensions that were neither proven equal nor refuted: decided when all is known.
    pub open_checks: Vec<OpenCheck>,
    /// What was refused already: operands and reason.
    pub refusals: FxHashSet<(Vec<(bool, u32)>, String)>,
    /// Matches with a pattern that does not fit: which cases they cover means nothing.
    pub bad_matches: FxHashSet<ExprId>,
    /// Whether each function is pure.
    pub purity: Vec<bool>,
    pub diags: Diagnostics,
    /// How many of them are errors.
    pub errors: usize,
    /// Where the functions stand that have errors, with those they depend on.
    pub mistaken: Vec<Span>,
    /// The function being walked, innermost last.
    pub funcs: Vec<FuncId>,
    /// The call whose relation runs.
    pub cur_call: ExprId,
    /// What operators' relations gave for types that are known whole.
    pub relation_cache: RelationCache,
    /// Calls whose relation did nothing but give their type.
    pub plain: IdSet,
    /// What was found before the module changed: nodes that are still there have the same parts.
    pub known: Option<&'m Typing>,
    /// The unknown that stands for the result of a relation that is expected to conclude at once.
    pub scratch: (TypeId, u32),
    pub error: TypeId,
    pub unit: TypeId,
    pub bool_: TypeId,
    pub seen: FxHashSet<(TypeId, TypeId)>,
    pub pairs: Vec<(TypeId, TypeId)>,
    /// How many more types and relations instantiation may still copy.
    pub fuel: u64,
    /// Whether it was said that it is used up.
    pub exhausted: bool,
    pub current_global: Option<GlobalId>,
    pub literal_unknowns: Vec<(ExprId, DTyInfer)>,
    /// Globals of the group being inferred that have no complete signature.
    pub open_globals: FxHashSet<GlobalId>,
    /// What is to be typed, where not all is.
    pub part: Option<Part<'m>>,
}

/// An equality that could not be decided where it was asked for.
pub(crate) struct OpenCheck {
    pub a: Dim,
    pub b: Dim,
    pub rule: String,
    pub at: ExprId,
    /// Whether the two may differ when one of them is 1 (broadcasting).
    pub or_one: bool,
    /// Whether the program asks for the check itself (`match_shape`).
    pub asked: bool,
}

impl<'m> Solver<'m> {
    pub fn new(m: &'m Module, types: TypeArena, opts: &'m InferOptions) -> Solver<'m> {
        Solver::after(m, types, opts, None)
    }

    /// A solver for a module of which some was found before.
    pub fn after(
        m: &'m Module,
        mut types: TypeArena,
        opts: &'m InferOptions,
        known: Option<&'m Typing>,
    ) -> Solver<'m> {
        let error = types.error();
        let unit = types.unit();
        let bool_ = types.scalar(relax_tensor::DType::BOOL);
        let mut s = Solver {
            m,
            types,
            opts,
            flags: known.map_or_else(Flags::default, |k| k.notes.flags.clone()),
            unknowns: Vec::new(),
            watch_pool: Vec::new(),
            level: 0,
            site: Site::None,
            coarse: false,
            rels: Vec::new(),
            queue: VecDeque::new(),
            facts: Facts::default(),
            alias: FxHashMap::default(),
            new_dims: Vec::new(),
            dim_owner: FxHashMap::default(),
            expr_ty: vec![UNTYPED; m.exprs.len()],
            var_ty: vec![UNTYPED; m.vars.len()],
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
            open_checks: Vec::new(),
            refusals: FxHashSet::default(),
            bad_matches: FxHashSet::default(),
            purity: Vec::new(),
            diags: Diagnostics::new(),
            errors: 0,
            mistaken: Vec::new(),
            funcs: Vec::new(),
            cur_call: NO_EXPR,
            relation_cache: RelationCache::default(),
            plain: IdSet::new(),
            known,
            scratch: (UNTYPED, 0),
            error,
            unit,
            bool_,
            seen: FxHashSet::default(),
            pairs: Vec::new(),
            fuel: 50_000_000,
            exhausted: false,
            current_global: None,
            literal_unknowns: Vec::new(),
            open_globals: FxHashSet::default(),
            part: None,
        };
        s.adopt_unknowns();
        s.new_scratch();
        s
    }

    /// Annotations may hold unknowns of the resolver's making; they keep their numbers.
    fn adopt_unknowns(&mut self) {
        let mut sorts: Vec<(u32, Sort)> = Vec::new();
        for i in 0..self.types.len() {
            let t = TypeId::from_index(i);
            if self.flags(t) & INFER == 0 {
                continue;
            }
            let mut shape = |s: &Shape| match s {
                Shape::Infer(v) => sorts.push((v.0, Sort::Shape)),
                Shape::Dims(dims) => {
                    for d in dims {
                        sorts.extend(d.infer_vars().into_iter().map(|v| (v.0, Sort::Dim)));
                    }
                }
                _ => {}
            };
            match &self.types[t] {
                Type::Tensor(t) => {
                    shape(&t.shape);
                    if let DTy::Infer(v) = t.dtype {
                        sorts.push((v.0, Sort::DType));
                    }
                }
                Type::Shape(s) => shape(s),
                Type::Infer(v) => sorts.push((v.0, Sort::Type)),
                _ => {}
            }
        }
        if let Some(max) = sorts.iter().map(|s| s.0).max() {
            for _ in 0..=max {
                self.new_unknown(Sort::Type, Lit::No);
            }
            for (i, sort) in sorts {
                self.unknowns[i as usize].sort = sort;
            }
        }
    }

    /// The [`flags`](crate::flags) of a type.
    #[inline]
    pub fn flags(&mut self, t: TypeId) -> u8 {
        self.flags.get(&self.types, self.m, t)
    }

    fn new_unknown(&mut self, sort: Sort, lit: Lit) -> u32 {
        let id = u32::try_from(self.unknowns.len()).expect("fewer than 2^32 unknowns");
        self.unknowns.push(Unknown {
            sol: Sol::Open,
            sort,
            lit,
            level: self.level,
            watch: NO_WATCH,
            excused: false,
        });
        id
    }
    pub fn fresh(&mut self) -> TypeId {
        let v = self.new_unknown(Sort::Type, Lit::No);
        self.types.intern(Type::Infer(TypeInfer(v)))
    }
    pub fn fresh_shape(&mut self) -> Shape {
        Shape::Infer(ShapeInfer(self.new_unknown(Sort::Shape, Lit::No)))
    }
    pub fn fresh_dtype(&mut self, lit: Lit) -> DTy {
        DTy::Infer(DTyInfer(self.new_unknown(Sort::DType, lit)))
    }
    pub fn fresh_dim(&mut self) -> Dim {
        Dim::infer(DimInfer(self.new_unknown(Sort::Dim, Lit::No)))
    }
    /// Sets aside an unknown for the next relation that concludes at once.
    pub fn new_scratch(&mut self) {
        let ty = self.fresh();
        self.scratch = (ty, self.unknowns.len() as u32 - 1);
    }

    /// The type behind solved unknowns at its head.
    #[inline]
    pub fn head(&self, mut t: TypeId) -> TypeId {
        while let Type::Infer(v) = &self.types[t] {
            match self.unknowns[v.index()].sol {
                Sol::Type(u) => t = u,
                _ => break,
            }
        }
        t
    }
    /// The same, and lets every unknown on the way point there: chains of unknowns stay short.
    pub fn find(&mut self, t: TypeId) -> TypeId {
        let root = self.head(t);
        let mut t = t;
        while t != root {
            let Type::Infer(v) = &self.types[t] else {
                break;
            };
            let sol = &mut self.unknowns[v.index()].sol;
            let Sol::Type(next) = *sol else {
                break;
            };
            *sol = Sol::Type(root);
            t = next;
        }
        root
    }
    pub fn head_shape(&self, s: &Shape) -> Shape {
        let mut s = s;
        while let Shape::Infer(v) = s {
            match &self.unknowns[v.index()].sol {
                Sol::Shape(u) => s = u,
                _ => break,
            }
        }
        s.clone()
    }
    pub fn head_dtype(&self, mut d: DTy) -> DTy {
        while let DTy::Infer(v) = d {
            match self.unknowns[v.index()].sol {
                Sol::DType(u) => d = u,
                _ => break,
            }
        }
        d
    }
    /// A dimension with all solved unknowns replaced.
    pub fn resolve_dim(&self, d: &Dim) -> Dim {
        let mut d = d.clone();
        while d.has_infer() {
            let new = d.substitute(&|atom| match atom {
                Atom::Infer(v) => match &self.unknowns.get(v.index())?.sol {
                    Sol::Dim(d) => Some(d.clone()),
                    _ => None,
                },
                Atom::Var(_) => None,
            });
            if new == d {
                break;
            }
            d = new;
        }
        d
    }
    pub fn resolve_shape(&self, s: &Shape) -> Shape {
        map_dims(&self.head_shape(s), |d| self.resolve_dim(d))
    }
    /// A type with all solved unknowns replaced, whole.
    pub fn resolve(&mut self, t: TypeId) -> TypeId {
        let t = self.find(t);
        if self.flags(t) & INFER == 0 {
            return t;
        }
        self.map_type(t, &mut Resolve)
    }

    /// The dimension variable's name.
    pub fn dim_name(&self, v: DimVar) -> String {
        let known = self.m.dims.get(v);
        let info = known.or_else(|| self.new_dims.get(v.index() - self.m.dims.len()));
        info.map_or_else(|| "?".into(), |i| i.name.to_string())
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
}

/// Fills in solutions.
struct Resolve;

impl Mapper for Resolve {
    fn wants(&self, flags: u8) -> bool {
        flags & INFER != 0
    }
    fn leaf(&mut self, s: &mut Solver<'_>, ty: &Type) -> Leaf {
        match ty {
            Type::Infer(v) => match s.unknowns[v.index()].sol {
                Sol::Type(t) => Leaf::Look(t),
                _ => Leaf::Keep,
            },
            _ => Leaf::Keep,
        }
    }
    fn shape(&mut self, s: &mut Solver<'_>, shape: &Shape) -> Shape {
        s.resolve_shape(shape)
    }
    fn dtype(&mut self, s: &mut Solver<'_>, dtype: DTy) -> DTy {
        s.head_dtype(dtype)
    }
}
