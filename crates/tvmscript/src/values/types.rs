//! Representations of Relay's types.

use relax_ir::{DTy, Expr, ExprId, Shape, TensorType, Type, TypeId, VarId};
use relax_tensor::DType;

use super::Lowering;

impl Lowering<'_> {
    /// Returns the type of a variable of the program in Relay.
    pub(super) fn var_type(&self, v: VarId) -> TypeId {
        let made = self.made_types.get(&v).copied();
        made.or_else(|| self.types.var(v))
            .or(self.m.vars[v].ty)
            .unwrap_or(self.any)
    }

    /// Returns the type of an expression of the program in Relay.
    pub(super) fn expr_type(&self, e: ExprId) -> TypeId {
        match self.m.exprs[e] {
            Expr::Var(v) => self.var_type(v),
            _ => self.types.expr(e).unwrap_or(self.any),
        }
    }

    /// Returns the type that represents a type.
    pub(super) fn rep(&mut self, root: TypeId) -> TypeId {
        let mut open = vec![(root, false)];
        while let Some((ty, seen)) = open.pop() {
            if self.reps.contains_key(&ty) {
                continue;
            }
            let new = match self.m.types[ty].clone() {
                Type::Tuple(fields) if !fields.is_empty() => {
                    if !seen {
                        open.push((ty, true));
                        open.extend(fields.iter().map(|&f| (f, false)));
                        continue;
                    }
                    let fields: Vec<TypeId> = fields.iter().map(|f| self.reps[f]).collect();
                    self.m.types.tuple(fields)
                }
                Type::Tensor(t) => {
                    let shape = match t.shape {
                        Shape::Dims(dims) => Shape::Dims(dims),
                        _ => Shape::Unknown,
                    };
                    let dtype = match t.dtype {
                        DTy::Known(d) => DTy::Known(d),
                        _ => DTy::Unknown,
                    };
                    self.m
                        .types
                        .intern(Type::Tensor(TensorType { shape, dtype }))
                }
                Type::Shape(Shape::Dims(_)) => ty,
                Type::Shape(_) => self.m.types.intern(Type::Shape(Shape::Unknown)),
                Type::Adt(adt, _) if self.m.adts.get(adt).is_some_and(|a| !a.opaque) => {
                    self.instance()
                }
                Type::Adt(..) => ty,
                Type::Tuple(_)
                | Type::Func(_)
                | Type::Ref(_)
                | Type::Object
                | Type::Param(_)
                | Type::Infer(_)
                | Type::Error => self.any,
            };
            self.reps.insert(ty, new);
        }
        self.reps[&root]
    }

    /// Returns the type of an instance of a data type: the constructor's number, and the fields.
    pub(super) fn instance(&mut self) -> TypeId {
        let tag = self.m.types.scalar(DType::I32);
        self.m.types.tuple([tag, self.any])
    }

    /// Returns whether a value of one type must be cast to another, more precise one.
    pub(super) fn says_less(&self, from: TypeId, to: TypeId) -> bool {
        let types = &self.m.types;
        let mut open = vec![(from, to)];
        while let Some((from, to)) = open.pop() {
            if from == to {
                continue;
            }
            let less = match (&types[from], &types[to]) {
                (_, Type::Object) => false,
                (Type::Object, _) => true,
                (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
                    open.extend(a.iter().copied().zip(b.iter().copied()));
                    false
                }
                (Type::Tensor(a), Type::Tensor(b)) => {
                    let known = |s: &Shape| {
                        s.dims().map_or(0, |d| {
                            1 + usize::from(d.iter().all(relax_sym::Dim::is_known))
                        })
                    };
                    known(&a.shape) < known(&b.shape)
                        || a.dtype.known().is_none() && b.dtype.known().is_some()
                }
                _ => false,
            };
            if less {
                return true;
            }
        }
        false
    }
}
