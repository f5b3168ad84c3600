//! Shape values, `match_shape`, `match_cast`, and the types of tensor programs.

use relax_base::{Diagnostic, Id};
use relax_ir::{DTy, DimInfo, ExprId, FuncId, FuncType, Shape, TensorType, Type, TypeId};
use relax_loops::{BinOp, Ex, ExKind, Program};
use relax_sym::{Atom, Dim, DimVar, Proof};
use rustc_hash::FxHashMap;

use crate::codes;
use crate::flags::PARAM;
use crate::map::{Leaf, Mapper, map_dims};
use crate::solver::Solver;
use crate::unifier::{OpenCheck, Unifier};
use crate::unknown::Site;
use crate::{Check, CheckKind};

impl Solver<'_> {
    /// Reports dimensions of a shape value that are impossible.
    pub fn check_shape_value(&mut self, e: ExprId, dims: &[Dim]) {
        for d in dims {
            let reason = match (d.error(), d.as_const()) {
                (Some(error), _) => error.to_string(),
                (_, Some(n)) if n < 0 => format!("the dimension {n} is negative"),
                _ => continue,
            };
            self.report(Diagnostic::error(codes::BAD_SHAPE, self.place(e), reason));
            return;
        }
    }

    /// `match_shape(value, dims)`: the value's type with these dimensions.
    pub fn match_shape(&mut self, e: ExprId, value: ExprId, dims: &[Dim]) -> TypeId {
        let ty = self.type_of(value);
        let ty = self.resolve(ty);
        self.site = Site::Match(e);
        self.cur_call = e;
        let shape = Shape::Dims(dims.into());
        let (old, new) = match self.types[ty].clone() {
            Type::Tensor(t) => {
                let dtype = t.dtype;
                (t.shape, Type::Tensor(TensorType { shape, dtype }))
            }
            Type::Shape(s) => (s, Type::Shape(shape)),
            Type::Error => {
                self.bind_dims(dims, &Shape::Unknown, e);
                return self.error;
            }
            Type::Infer(_) | Type::Object => {
                // A value of which only the shape becomes known.
                let dtype = if self.types[ty] == Type::Object {
                    DTy::Unknown
                } else {
                    self.fresh_dtype(crate::unknown::Lit::No)
                };
                (Shape::Unknown, Type::Tensor(TensorType { shape, dtype }))
            }
            _ => {
                let text = self.show_type(ty);
                let d = Diagnostic::error(
                    codes::MATCH_SHAPE,
                    self.place(e),
                    format!("only tensors and shape values have a shape, and this is {text}"),
                );
                self.report(d);
                return self.error;
            }
        };
        let new = self.types.intern(new);
        if let Type::Infer(_) = self.types[ty] {
            let _ = self.unify(ty, new);
        }
        let ok = self.bind_dims(dims, &old, e);
        if ok { new } else { self.error }
    }

    /// Matches known dimensions against those of a pattern; new variables are bound. Returns false
    /// after an error.
    fn bind_dims(&mut self, dims: &[Dim], have: &Shape, e: ExprId) -> bool {
        let owner = self.funcs.last().copied();
        let have: Option<Box<[Dim]>> = match self.resolve_shape(have) {
            Shape::Dims(d) => Some(d),
            _ => None,
        };
        if let Some(have) = &have
            && have.len() != dims.len()
        {
            let (n, m) = (have.len(), dims.len());
            let d = Diagnostic::error(
                codes::MATCH_SHAPE,
                self.place(e),
                format!("the value has rank {n}, but the pattern has rank {m}"),
            )
            .primary(format!(
                "matched against {m} dimension{}",
                if m == 1 { "" } else { "s" }
            ))
            .note("write one dimension for each axis; a new variable takes any extent");
            self.report(d);
            return false;
        }
        let mut undecided = have.is_none();
        for (i, want) in dims.iter().enumerate() {
            let known = have.as_ref().map(|h| h[i].clone());
            if let Some(Atom::Var(v)) = want.as_atom()
                && !self.dim_owner.contains_key(&v)
            {
                if let Some(f) = owner {
                    self.dim_owner.insert(v, f);
                }
                if let Some(d) = known.filter(|d| d.is_known() && !d.has_infer())
                    && !d.free_vars().contains(&v)
                {
                    self.alias.insert(v, d);
                }
                continue;
            }
            let Some(have) = known.filter(Dim::is_known) else {
                undecided = true;
                continue;
            };
            match self.compare_extents(&have, want) {
                Proof::Proven => {}
                Proof::Refuted => {
                    let (h, w) = (self.show_extent(&have), self.show_extent(want));
                    let d = Diagnostic::error(
                        codes::MATCH_SHAPE,
                        self.place(e),
                        format!("dimension {i} is {h} and can never be {w}"),
                    );
                    self.report(d);
                    return false;
                }
                Proof::Unknown => self.open_checks.push(OpenCheck {
                    a: have,
                    b: want.clone(),
                    rule: String::new(),
                    at: e,
                    or_one: false,
                    asked: true,
                }),
            }
        }
        if undecided {
            let ty = self.types.intern(Type::Shape(Shape::Dims(dims.into())));
            let kind = CheckKind::HasShape(ty);
            self.checks.push(Check { expr: e, kind });
        }
        true
    }

    /// `match_cast(value, T)`: the value as a `T`; new dimension variables in `T` are bound.
    pub fn match_cast(&mut self, e: ExprId, value: ExprId, want: TypeId) -> TypeId {
        let ty = self.type_of(value);
        let have = self.resolve(ty);
        self.site = Site::Match(e);
        self.cur_call = e;
        if let (Type::Tensor(h), Type::Tensor(w)) =
            (self.types[have].clone(), self.types[want].clone())
        {
            if let Some(dims) = w.shape.dims()
                && !self.bind_dims(dims, &h.shape, e)
            {
                return self.error;
            }
            let scalar = |s: &mut Self, d| s.types.scalar(d);
            let (a, b) = (scalar(self, h.dtype), scalar(self, w.dtype));
            if let Err(clash) = self.unify(a, b) {
                self.report_clash(have, want, &clash);
                return self.error;
            }
        } else {
            self.own_dims(want);
            match self.types[have] {
                Type::Object | Type::Error => {}
                Type::Infer(_) => {
                    let object = self.types.intern(Type::Object);
                    let _ = self.unify(have, object);
                }
                _ => {
                    if let Err(clash) = self.unify(have, want) {
                        self.report_clash(have, want, &clash);
                        return self.error;
                    }
                }
            }
        }
        if have != want {
            let kind = CheckKind::HasType(want);
            self.checks.push(Check { expr: e, kind });
        }
        want
    }

    /// Makes the current function the owner of a type's new dimension variables.
    fn own_dims(&mut self, t: TypeId) {
        let Some(&owner) = self.funcs.last() else {
            return;
        };
        let mut stack = vec![t];
        let mut seen = rustc_hash::FxHashSet::default();
        while let Some(t) = stack.pop() {
            if self.flags(t) & PARAM == 0 || !seen.insert(t) {
                continue;
            }
            let known = &mut self.unifier;
            let shape = match &known.types[t] {
                Type::Tensor(t) => Some(&t.shape),
                Type::Shape(s) => Some(s),
                _ => None,
            };
            let dims = shape.and_then(Shape::dims).unwrap_or_default();
            for v in dims.iter().flat_map(Dim::free_vars) {
                known.dim_owner.entry(v).or_insert(owner);
            }
            stack.extend(known.types.children(t));
        }
    }

    /// Returns a type as seen from outside a function: dimensions that only its body binds become
    /// `?`.
    pub fn erase_local_dims(&mut self, f: FuncId, t: TypeId) -> TypeId {
        if self.dim_owner.is_empty() {
            return t;
        }
        let t = self.resolve(t);
        if self.flags(t) & PARAM == 0 {
            return t;
        }
        self.map_type(t, &mut Erase { of: f })
    }

    /// Returns the type of a tensor program: a function of its buffers, inputs then outputs.
    pub fn program_type(&mut self, p: &Program) -> TypeId {
        let mut dims: FxHashMap<relax_loops::Var, Dim> = FxHashMap::default();
        let mut own = Vec::new();
        for &v in &p.dims {
            let var = DimVar::from_index(self.m.dims.len() + self.new_dims.len());
            self.new_dims.push(DimInfo {
                name: p.vars[v].name,
                span: p.span,
            });
            own.push(var);
            dims.insert(v, Dim::var(var));
        }
        let mut args = Vec::new();
        for &b in p.inputs.iter().chain(&p.outputs) {
            let buf = &p.bufs[b];
            let shape: Vec<Dim> = buf.shape.iter().map(|e| extent(e, &dims)).collect();
            args.push(self.types.tensor(shape, buf.dtype));
        }
        let func = FuncType {
            params: Box::default(),
            dims: own.into(),
            args: args.into(),
            ret: self.unit,
            constraints: Box::default(),
        };
        self.types.intern(Type::Func(Box::new(func)))
    }
}

/// Converts an extent of a buffer to a dimension; `?` if it is computed from data. The recursion is
/// bounded by a count of nodes, beyond which the result is `?`.
fn extent(e: &Ex, dims: &FxHashMap<relax_loops::Var, Dim>) -> Dim {
    fn go(e: &Ex, dims: &FxHashMap<relax_loops::Var, Dim>, depth: u32) -> Dim {
        if depth == 0 {
            return Dim::ANY;
        }
        match e.kind() {
            ExKind::Int(v) => Dim::from(*v),
            ExKind::Var(v) => dims.get(v).cloned().unwrap_or(Dim::ANY),
            ExKind::Cast(x) => go(x, dims, depth - 1),
            ExKind::Binary(op, a, b) => {
                let (a, b) = (go(a, dims, depth - 1), go(b, dims, depth - 1));
                match op {
                    BinOp::Add => a + b,
                    BinOp::Sub => a - b,
                    BinOp::Mul => a * b,
                    BinOp::FloorDiv => a.floordiv(&b),
                    BinOp::FloorMod => a.modulo(&b),
                    BinOp::Min => a.min(&b),
                    BinOp::Max => a.max(&b),
                    _ => Dim::ANY,
                }
            }
            _ => Dim::ANY,
        }
    }
    go(e, dims, 64)
}

/// Replaces dimensions that mention variables bound inside a function by `?`.
struct Erase {
    of: FuncId,
}

impl Mapper for Erase {
    fn wants(&self, flags: u8) -> bool {
        flags & PARAM != 0
    }
    fn leaf(&mut self, _: &mut Unifier<'_>, _: &Type) -> Leaf {
        Leaf::Keep
    }
    fn shape(&mut self, s: &mut Unifier<'_>, shape: &Shape) -> Shape {
        let own = &s.m.funcs[self.of].dims;
        map_dims(shape, |d| {
            let local = |v: &DimVar| s.dim_owner.get(v) == Some(&self.of) && !own.contains(v);
            if d.as_const().is_some() || !d.free_vars().iter().any(local) {
                return d.clone();
            }
            // A variable that a match bound to outer dimensions equals those dimensions.
            let outer = s.unalias(d);
            if outer.free_vars().iter().any(local) {
                Dim::ANY
            } else {
                outer
            }
        })
    }
    fn dtype(&mut self, _: &mut Unifier<'_>, dtype: DTy) -> DTy {
        dtype
    }
}
