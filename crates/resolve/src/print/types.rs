//! Printing of types, shapes and dimensions.

use std::rc::Rc;

use relax_base::{Id, SideTable, Symbol};
use relax_ir::{DTy, Expr, FuncType, Kind, Module, RelRef, Shape, Type, TypeId, TypeParamId};
use relax_sym::{Atom, Dim, DimBuilder, DimError, DimOp, DimVar};
use relax_syntax::ast::{self, Ast, ExprKind, NumSuffix, TypeExprKind, TypeOp};
use relax_syntax::{Style, reads_as_word};
use rustc_hash::{FxHashMap, FxHashSet};

use super::names::{Names, Words};
use super::{NO, Printer};

/// A type with shared components and more nodes than this is printed as `_`. Types are DAGs but
/// texts are trees: thirty nested pairs would take gigabytes.
const LARGEST: u32 = 1 << 14;
/// The limit for TVM's style, where no type of a real program may be omitted.
const LARGEST_TVM: u32 = 1 << 16;

/// Tree nodes of types: equal types share a node.
#[derive(Default)]
pub(super) struct TypeTable {
    done: SideTable<TypeId, Option<ast::TypeId>>,
    /// The size of each type's text, in nodes.
    sizes: SideTable<TypeId, u32>,
    /// The names of dimension variables in the current definition.
    dims: FxHashMap<DimVar, Symbol>,
    /// The names of its type parameters, where they were made unique.
    params: FxHashMap<TypeParamId, Symbol>,
    names: Names,
    /// Words that none of them may be.
    pub(super) words: Rc<Words>,
    /// The types in `done` that contain such names.
    local: Vec<TypeId>,
}

impl Printer<'_> {
    /// Starts a definition: dimension variables and type parameters are named afresh.
    pub(super) fn begin_type_names(&mut self) {
        let table = &mut self.types;
        for ty in table.local.drain(..) {
            table.done.set(ty, None);
        }
        table.dims.clear();
        table.params.clear();
        table.names = Names::default();
    }

    fn node(&mut self, kind: TypeExprKind) -> ast::TypeId {
        self.out.ty(kind, NO)
    }

    /// Prints a type.
    pub(super) fn ty(&mut self, root: TypeId) -> ast::TypeId {
        if let Some(done) = self.types.done[root] {
            return done;
        }
        let mut stack = vec![(root, false)];
        while let Some((ty, expanded)) = stack.pop() {
            if self.types.done[ty].is_some() {
                continue;
            }
            if expanded {
                let new = match self.fits(ty) {
                    true => self.ty_node(ty),
                    false => self.node(TypeExprKind::Hole),
                };
                self.types.done.set(ty, Some(new));
                self.types.local.push(ty);
                continue;
            }
            if let Type::Func(f) = &self.m.types[ty] {
                // Named before they are used.
                for &p in f.params.iter() {
                    self.type_param_name(p);
                }
            }
            stack.push((ty, true));
            let children = self.m.types.children(ty);
            stack.extend(children.into_iter().rev().map(|c| (c, false)));
        }
        self.types.done[root].expect("made above")
    }

    /// Computes the size of a type whose components are done; returns whether it can be printed in
    /// full.
    fn fits(&mut self, ty: TypeId) -> bool {
        let largest = match self.pretty() {
            true => LARGEST,
            false => LARGEST_TVM,
        };
        // Unshared nodes are at most the number of the module's types.
        let unshared = u32::try_from(self.m.types.len()).unwrap_or(u32::MAX);
        let largest = largest.max(unshared.saturating_mul(2));
        let own = match &self.m.types[ty] {
            Type::Tensor(t) => t.shape.dims().map_or(1, <[_]>::len) as u32,
            _ => 0,
        };
        let parts = self.m.types.children(ty);
        let parts = parts.iter().map(|&c| self.types.sizes[c]);
        let size = parts.fold(1 + own, u32::saturating_add);
        let fits = size <= largest;
        self.types.sizes.set(ty, if fits { size } else { 1 });
        fits
    }

    fn done(&self, ty: TypeId) -> ast::TypeId {
        self.types.done[ty].expect("parts are made before the whole")
    }

    fn all_done(&self, types: &[TypeId]) -> Vec<ast::TypeId> {
        types.iter().map(|&t| self.done(t)).collect()
    }

    fn ty_node(&mut self, ty: TypeId) -> ast::TypeId {
        let m = self.m;
        match &m.types[ty] {
            Type::Tensor(t) => match (&t.shape, t.dtype) {
                (Shape::Dims(dims), dtype) if dims.is_empty() && dtype != DTy::Unknown => {
                    self.dtype(dtype)
                }
                (shape, dtype) => {
                    let (shape, dtype) = (self.shape(shape), self.dtype(dtype));
                    self.out.type_apply("Tensor".into(), [shape, dtype], NO)
                }
            },
            Type::Shape(Shape::Unknown) => self.out.type_name("Shape".into(), NO),
            Type::Shape(shape) => {
                let shape = self.shape(shape);
                self.out.type_apply("Shape".into(), [shape], NO)
            }
            Type::Tuple(fields) => {
                let fields = self.all_done(fields);
                self.out.type_tuple(fields, NO)
            }
            Type::Func(f) => self.func_type(f),
            Type::Adt(adt, args) => {
                let (name, args) = (m.adts[*adt].name, self.all_done(args));
                // TVM prints `T[]`.
                if args.is_empty() && self.pretty() {
                    self.out.type_name(name, NO)
                } else {
                    self.out.type_apply(name, args, NO)
                }
            }
            Type::Ref(t) => {
                let inner = self.done(*t);
                self.node(TypeExprKind::Ref(inner))
            }
            Type::Object => self.out.type_name("Object".into(), NO),
            Type::Param(p) => self.type_param(*p),
            Type::Infer(_) => self.node(TypeExprKind::Hole),
            Type::Error => self.node(TypeExprKind::Error),
        }
    }

    fn func_type(&mut self, f: &FuncType) -> ast::TypeId {
        // The first use in an argument or the result binds a variable, as in a signature.
        let dims = match self.pretty() {
            true => self.not_bound_by(&f.dims, f.args.iter().copied().chain([f.ret])),
            false => Vec::new(),
        };
        let params = self.type_param_list(&f.params, &dims, self.pretty());
        let (args, ret) = (self.all_done(&f.args), self.done(f.ret));
        let relations = if self.pretty() {
            self.constraints(&f.constraints)
        } else {
            Vec::new()
        };
        self.out.type_fn(params, args, ret, &relations, NO)
    }

    /// Prints the relations after `where`, with the types they apply to, as far as these are
    /// explicit.
    pub(super) fn constraints(&mut self, constraints: &[relax_ir::Constraint]) -> Vec<ast::TypeId> {
        let mut out = Vec::new();
        for c in constraints {
            let name = match c.rel {
                RelRef::User(r) => self.m.relations[r].name,
                RelRef::Builtin(name) => name,
                RelRef::Op(op, _) => self.op_name(op),
            };
            let head = self.out.type_name(name, NO);
            out.push(if c.args.is_empty() {
                head
            } else {
                let args: Vec<_> = c.args.iter().map(|&t| self.ty(t)).collect();
                let args = self.out.make_list(args);
                self.node(TypeExprKind::Call { head, args })
            });
        }
        out
    }

    /// Prints the declaration of type parameters, with or without their kinds.
    pub(super) fn type_param_list(
        &mut self,
        params: &[TypeParamId],
        dims: &[DimVar],
        kinds: bool,
    ) -> ast::List<ast::TypeParamId> {
        let mut ids = Vec::new();
        for &p in params {
            let name = self.type_param_name(p);
            let kind = self.m.types.params[p].kind;
            let kind = (kinds && kind != Kind::Type).then(|| kind.to_string());
            ids.push(self.declare(name, kind.as_deref()));
        }
        for &d in dims {
            let name = self.dim_name(d);
            ids.push(self.declare(name, Some("ShapeVar")));
        }
        self.out.make_list(ids)
    }

    /// Returns those of some dimension variables that these types, in the order of the text, do not
    /// bind by their first use: that are not used, or first inside the type of a function, where a
    /// name that is not in scope is that type's own.
    pub(super) fn not_bound_by(
        &self,
        dims: &[DimVar],
        types: impl IntoIterator<Item = TypeId>,
    ) -> Vec<DimVar> {
        if dims.is_empty() {
            return Vec::new();
        }
        let m = self.m;
        // Whether the first use of a variable is inside.
        let mut first: FxHashMap<DimVar, bool> = FxHashMap::default();
        for (ty, inside) in m.types.in_order(types) {
            if let Type::Tensor(relax_ir::TensorType { shape, .. }) | Type::Shape(shape) =
                &m.types[ty]
            {
                for v in (shape.dims().unwrap_or_default().iter()).flat_map(|d| d.free_vars()) {
                    first.entry(v).or_insert(inside);
                }
            }
        }
        let bound = |d: &DimVar| first.get(d) == Some(&false);
        dims.iter().copied().filter(|d| !bound(d)).collect()
    }

    fn declare(&mut self, name: Symbol, kind: Option<&str>) -> ast::TypeParamId {
        self.out.type_params.push(ast::TypeParam {
            name,
            kind: kind.map(Symbol::new),
            span: NO,
        })
    }

    /// Returns the name of a type parameter: TVM's style keeps it, the pretty style makes it unique
    /// within a definition.
    pub(super) fn type_param_name(&mut self, p: TypeParamId) -> Symbol {
        let wish = match self.m.types.params.get(p) {
            Some(info) => info.name,
            None => return Symbol::new(&format!("t{}", p.index())),
        };
        if self.mode.style == Style::Tvm && reads_as_word(wish.as_str()) {
            return wish;
        }
        let table = &mut self.types;
        *table
            .params
            .entry(p)
            .or_insert_with(|| table.names.word(wish, &table.words))
    }

    fn type_param(&mut self, p: TypeParamId) -> ast::TypeId {
        let name = self.type_param_name(p);
        self.out.type_name(name, NO)
    }

    pub(super) fn dim_name(&mut self, d: DimVar) -> Symbol {
        let wish = match self.m.dims.get(d) {
            Some(info) => info.name,
            None => Symbol::new(&format!("d{}", d.index())),
        };
        let table = &mut self.types;
        *table
            .dims
            .entry(d)
            .or_insert_with(|| table.names.word(wish, &table.words))
    }

    /// Prints an element type.
    pub(super) fn dtype(&mut self, dtype: DTy) -> ast::TypeId {
        match dtype {
            DTy::Known(d) => self.out.type_name(Symbol::new(&d.to_string()), NO),
            DTy::Unknown | DTy::Infer(_) => self.node(TypeExprKind::Hole),
            DTy::Param(p) => self.type_param(p),
        }
    }

    /// Prints a shape.
    pub(super) fn shape(&mut self, shape: &Shape) -> ast::TypeId {
        match shape {
            Shape::Dims(dims) => {
                let items: Vec<_> = dims.iter().map(|d| self.dim(d)).collect();
                let comma = items.len() == 1 && self.pretty();
                let items = self.out.make_list(items);
                self.node(TypeExprKind::Tuple { items, comma })
            }
            Shape::Unknown | Shape::Infer(_) => self.node(TypeExprKind::Hole),
            Shape::Param(p) => self.type_param(*p),
        }
    }

    /// Prints a dimension.
    pub(super) fn dim(&mut self, dim: &Dim) -> ast::TypeId {
        if self.mode.style == Style::Tvm {
            if let (true, Some(value)) = (dim.is_wide(), dim.as_const()) {
                let suffix = NumSuffix::I(64);
                return self.node(TypeExprKind::Int { value, suffix });
            }
            if let Some(&(key, index)) = dim
                .mark()
                .and_then(|i| self.m.meta_dims.get(i as usize - 1))
            {
                let index = self.meta.kept(key, index);
                let meta = self.out.expr(ExprKind::Meta { key, index }, NO);
                return self.node(TypeExprKind::Meta(meta));
            }
        }
        for v in dim.free_vars() {
            self.dim_name(v);
        }
        let mut writer = DimWriter {
            out: &mut self.out,
            names: &self.types.dims,
        };
        dim.build(&mut writer)
    }
}

struct DimWriter<'a> {
    out: &'a mut Ast,
    names: &'a FxHashMap<DimVar, Symbol>,
}

impl DimBuilder for DimWriter<'_> {
    type Out = ast::TypeId;

    fn int(&mut self, value: i64) -> ast::TypeId {
        let suffix = NumSuffix::None;
        self.out.ty(TypeExprKind::Int { value, suffix }, NO)
    }
    fn atom(&mut self, atom: Atom) -> ast::TypeId {
        match atom {
            Atom::Var(v) => self.out.type_name(self.names[&v], NO),
            Atom::Infer(_) => self.out.ty(TypeExprKind::Any, NO),
        }
    }
    fn any(&mut self) -> ast::TypeId {
        self.out.ty(TypeExprKind::Any, NO)
    }
    fn bad(&mut self, _: DimError) -> ast::TypeId {
        self.out.ty(TypeExprKind::Error, NO)
    }
    fn op(&mut self, op: DimOp, lhs: ast::TypeId, rhs: ast::TypeId) -> ast::TypeId {
        let op = match op {
            DimOp::Add => TypeOp::Add,
            DimOp::Sub => TypeOp::Sub,
            DimOp::Mul => TypeOp::Mul,
            DimOp::FloorDiv => TypeOp::FloorDiv,
            DimOp::Mod => TypeOp::Mod,
            DimOp::Min | DimOp::Max => {
                let name = if op == DimOp::Min { "min" } else { "max" };
                let head = self.out.type_name(name.into(), NO);
                let args = self.out.make_list([lhs, rhs]);
                return self.out.ty(TypeExprKind::Call { head, args }, NO);
            }
        };
        self.out.ty(TypeExprKind::Binary { op, lhs, rhs }, NO)
    }
    fn group(&mut self, inner: ast::TypeId) -> ast::TypeId {
        let items = self.out.make_list([inner]);
        let comma = false;
        self.out.ty(TypeExprKind::Tuple { items, comma }, NO)
    }
}

/// The variables and parameters that have names in a module's text.
#[derive(Default)]
pub(super) struct Declared {
    params: FxHashSet<TypeParamId>,
    dims: FxHashSet<DimVar>,
}

impl Declared {
    pub(super) fn of(m: &Module) -> Declared {
        let mut this = Declared::default();
        for f in m.funcs.values() {
            this.params.extend(&f.type_params);
            this.dims.extend(&f.dims);
        }
        for e in m.exprs.values() {
            match e {
                Expr::MatchCast { ty, .. } => this.dims.extend(m.dims_in_types([*ty])),
                Expr::MatchShape { dims, .. } => {
                    this.dims.extend(dims.iter().flat_map(|d| d.free_vars()));
                }
                _ => {}
            }
        }
        this
    }

    /// Returns whether everything in a type has a name. Parameters that inference generated for
    /// functions without annotations have none: such a type can only be printed in a comment.
    pub(super) fn names(&self, m: &Module, root: TypeId) -> bool {
        let (mut work, mut seen) = (vec![root], FxHashSet::default());
        let (mut params, mut dims) = (FxHashSet::default(), FxHashSet::default());
        let (mut own_params, mut own_dims) = (FxHashSet::default(), FxHashSet::default());
        while let Some(ty) = work.pop() {
            if !seen.insert(ty) {
                continue;
            }
            match &m.types[ty] {
                Type::Param(p) => drop(params.insert(*p)),
                Type::Tensor(t) => {
                    params.extend(match t.shape {
                        Shape::Param(p) => Some(p),
                        _ => None,
                    });
                    params.extend(match t.dtype {
                        DTy::Param(p) => Some(p),
                        _ => None,
                    });
                }
                Type::Shape(Shape::Param(p)) => drop(params.insert(*p)),
                // The relation of an operator has no name of its own.
                Type::Func(f) if f.relates_as_operator() => return false,
                Type::Func(f) => {
                    own_params.extend(f.params.iter().copied());
                    own_dims.extend(f.dims.iter().copied());
                }
                _ => {}
            }
            work.extend(m.types.children(ty));
        }
        dims.extend(m.dims_in_types([root]));
        // The parameters of a function type that inference generated: the literal has none, and is
        // checked against it.
        let written = own_params.is_subset(&self.params);
        written
            && params.is_subset(&self.params)
            && dims
                .iter()
                .all(|d| self.dims.contains(d) || own_dims.contains(d))
    }
}

impl TypeTable {
    /// Returns a table without types, for the text of a module.
    pub(super) fn of(m: &Module) -> TypeTable {
        TypeTable {
            words: Rc::new(Words::of(m)),
            ..TypeTable::default()
        }
    }

    /// Returns the name of a dimension variable that was named before.
    pub(super) fn dim_text(&self, v: DimVar) -> String {
        match self.dims.get(&v) {
            Some(name) => name.to_string(),
            None => format!("d{}", v.index()),
        }
    }
}
