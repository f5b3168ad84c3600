//! The state of unification: types, unknowns, and facts about dimensions.

use relax_base::Id;
use relax_ir::{
    AdtId, Constraint, DTy, DTyInfer, DimInfo, ExprId, FuncId, Module, Shape, ShapeInfer, Type,
    TypeArena, TypeId, TypeInfer, TypeParamId,
};
use relax_sym::{Atom, Dim, DimInfer, DimVar, Facts};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::flags::Flags;
use crate::queue::{Queue, RelKind};
use crate::unknown::{Lit, NO_EXPR, NO_WATCH, Site, Sol, Sort, Unknown};
use crate::way::{Kept, Way};

/// Types and unknowns, and the relations that are woken when the latter are solved.
///
/// Invariant: this layer knows neither the walk over a module nor how errors are reported.
pub(crate) struct Unifier<'m> {
    pub m: &'m Module,
    /// The module's types, moved out so that they can grow.
    pub types: TypeArena,
    pub flags: Flags,
    pub unknowns: Vec<Unknown>,
    /// Cells of watch lists: a relation and the next cell.
    pub watch_pool: Vec<(u32, u32)>,
    /// The number of enclosing let-bound functions that may be generalised.
    pub level: u32,
    /// The site being checked, for error messages.
    pub site: Site,
    /// The call whose relation runs.
    pub cur_call: ExprId,
    /// Whether the last unification matched a coarse part (`?`, `_`) with a finer one.
    pub coarse: bool,
    /// Whether the last join met a polymorphic function and another one.
    pub narrowed: bool,
    pub queue: Queue,
    pub facts: Facts,
    /// Dimension variables that a match bound to a known dimension.
    pub alias: FxHashMap<DimVar, Dim>,
    /// Dimension variables made by generalisation, numbered after the module's.
    pub new_dims: Vec<DimInfo>,
    /// Dimension variables in scope, and the function that binds each.
    pub dim_owner: FxHashMap<DimVar, FuncId>,
    /// Pairs of dimensions that were neither proven equal nor refuted: decided when everything is
    /// known.
    pub open_checks: Vec<OpenCheck>,
    /// The unknown for the result of a relation that is expected to conclude at once.
    pub scratch: (TypeId, u32),
    pub error: TypeId,
    pub unit: TypeId,
    pub bool_: TypeId,
    pub object: TypeId,
    pub seen: FxHashSet<(TypeId, TypeId, Way)>,
    pub pairs: Vec<(TypeId, TypeId, Way)>,
    /// Polymorphic types for which other functions stand.
    pub kept: Vec<Kept>,
    /// Whether a data type's fields hold functions or cells.
    pub takes: FxHashMap<AdtId, bool>,
    /// The first type parameter that inference makes itself.
    pub first_made: TypeParamId,
    /// The number of types and relations that instantiation may still copy.
    pub fuel: u64,
}

/// An equality that could not be decided immediately.
pub(crate) struct OpenCheck {
    pub a: Dim,
    pub b: Dim,
    pub rule: String,
    pub at: ExprId,
    /// Whether the two may differ when one of them is 1 (broadcasting).
    pub or_one: bool,
    /// Whether the program requests the check explicitly (`match_shape`).
    pub asked: bool,
}

impl<'m> Unifier<'m> {
    pub fn new(m: &'m Module, mut types: TypeArena, flags: Flags) -> Unifier<'m> {
        let error = types.error();
        let unit = types.unit();
        let bool_ = types.scalar(relax_tensor::DType::BOOL);
        let object = types.intern(Type::Object);
        let first_made = TypeParamId::from_index(types.params.len());
        let mut new = Unifier {
            m,
            types,
            flags,
            unknowns: Vec::new(),
            watch_pool: Vec::new(),
            level: 0,
            site: Site::None,
            cur_call: NO_EXPR,
            coarse: false,
            narrowed: false,
            queue: Queue::default(),
            facts: Facts::default(),
            alias: FxHashMap::default(),
            new_dims: Vec::new(),
            dim_owner: FxHashMap::default(),
            open_checks: Vec::new(),
            scratch: (error, 0),
            error,
            unit,
            bool_,
            object,
            seen: FxHashSet::default(),
            pairs: Vec::new(),
            kept: Vec::new(),
            takes: FxHashMap::default(),
            first_made,
            fuel: 50_000_000,
        };
        // Annotations may hold unknowns of the resolver's making; they keep their numbers. Those of
        // an inference before this one stand nowhere any more.
        for _ in 0..m.type_holes {
            new.new_unknown(Sort::Type, Lit::No);
        }
        new.new_scratch();
        new
    }

    /// Adds a relation to the work list, for the current call.
    pub fn add_rel(&mut self, kind: RelKind, args: Box<[TypeId]>, out: TypeId) -> u32 {
        self.queue.add(kind, args, out, self.cur_call)
    }

    /// Adds the relations of a `where` clause, at a call or in the signature of an operator.
    pub fn add_constraint(&mut self, c: &Constraint) {
        if let Some((&out, args)) = c.args.split_last() {
            self.add_rel(c.rel.into(), args.into(), out);
        }
    }

    /// Returns the expression that a check is recorded at.
    pub fn check_place(&self) -> ExprId {
        match self.site {
            Site::Arg { call, .. } | Site::Rel(call) | Site::Callee(call) => call,
            Site::Bound { value, .. } => value,
            Site::Cond(e) | Site::Branches(e) | Site::Cell(e) | Site::Match(e) => e,
            Site::Clause { of, .. } | Site::Pattern { of, .. } => of,
            Site::Return(f) => self.m.funcs[f].body,
            Site::None => NO_EXPR,
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
    /// Creates the unknown for the next relation that concludes at once.
    pub fn new_scratch(&mut self) {
        let ty = self.fresh();
        self.scratch = (ty, self.unknowns.len() as u32 - 1);
    }

    /// Resolves solved unknowns at the head of a type.
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
    /// The same, with path compression: chains of unknowns stay short.
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
    /// Returns a dimension with all solved unknowns replaced.
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
    /// Returns the name of a dimension variable.
    pub fn dim_name(&self, v: DimVar) -> String {
        let known = self.m.dims.get(v);
        let info = known.or_else(|| self.new_dims.get(v.index() - self.m.dims.len()));
        info.map_or_else(|| "?".into(), |i| i.name.to_string())
    }
}
