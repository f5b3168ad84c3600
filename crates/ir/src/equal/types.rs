//! Comparison of attributes, dimensions, shapes and types.

use relax_sym::{Atom, Dim};

use super::{Check, Comparer, Pair};
use crate::{AttrValue, Attrs, DTy, OpId, Shape, Type, TypeId};

/// TVM's tolerance for floats in attributes.
const TOLERANCE: f64 = 1e-9;

impl Comparer<'_> {
    pub(super) fn ops(&self, p: OpId, q: OpId) -> bool {
        match (self.a.user_op(p), self.b.user_op(q)) {
            (Some(x), Some(y)) => x.name == y.name,
            (None, None) => p == q,
            _ => false,
        }
    }

    pub(super) fn attrs(&mut self, x: &Attrs, y: &Attrs, at: Option<&Pair>) -> Check {
        for (name, value) in x.iter() {
            match y.get(name.as_str()) {
                None => {
                    return self.differ_at(&format!("only the left side has {name}"), at);
                }
                Some(other) => {
                    if !self.attr_values(value, other) {
                        let what = format!("{name} is {value:?} and {other:?}");
                        return self.differ_at(&what, at);
                    }
                }
            }
        }
        match y.iter().find(|(n, _)| x.get(n.as_str()).is_none()) {
            Some((name, _)) => self.differ_at(&format!("only the right side has {name}"), at),
            None => Ok(()),
        }
    }

    pub(super) fn attr_values(&mut self, x: &AttrValue, y: &AttrValue) -> bool {
        let mut stack = vec![(x, y)];
        while let Some((x, y)) = stack.pop() {
            let same = match (x, y) {
                (AttrValue::Float(p), AttrValue::Float(q)) => {
                    let close = self.options.close_floats && (p - q).abs() < TOLERANCE;
                    close || p.to_bits() == q.to_bits()
                }
                (AttrValue::Dim(_), AttrValue::Dim(_) | AttrValue::Int(_))
                | (AttrValue::Int(_), AttrValue::Dim(_)) => match (x.as_dim(), y.as_dim()) {
                    (Some(d), Some(e)) => self.dim(&d, &e),
                    _ => false,
                },
                (AttrValue::Array(p), AttrValue::Array(q)) => {
                    stack.extend(p.iter().zip(q.iter()));
                    p.len() == q.len()
                }
                (AttrValue::Dict(p), AttrValue::Dict(q)) => {
                    stack.extend(p.iter().map(|(_, v)| v).zip(q.iter().map(|(_, v)| v)));
                    p.len() == q.len() && p.iter().zip(q.iter()).all(|(s, t)| s.0 == t.0)
                }
                _ => x == y,
            };
            if !same {
                return false;
            }
        }
        true
    }

    pub(super) fn dim(&mut self, x: &Dim, y: &Dim) -> bool {
        if let (Some(Atom::Var(v)), Some(Atom::Var(w))) = (x.as_atom(), y.as_atom()) {
            return self.dims.pair(v, w);
        }
        let (vars, others) = (x.free_vars(), y.free_vars());
        if vars.len() != others.len() {
            return false;
        }
        if vars.is_empty() {
            return x == y;
        }
        // Variables that both sides mention for the first time here are matched in order.
        let mut new = others.iter().filter(|w| !self.dims.back.contains_key(w));
        let new: Vec<_> = new.by_ref().copied().collect();
        let mut new = new.into_iter();
        for v in vars {
            if !self.dims.there.contains_key(&v) {
                match new.next() {
                    Some(w) => self.dims.pair(v, w),
                    None => return false,
                };
            }
        }
        let renamed = x.substitute(&|atom| match atom {
            Atom::Var(v) => self.dims.there.get(&v).map(|&w| Dim::var(w)),
            Atom::Infer(_) => None,
        });
        renamed == *y
    }

    pub(super) fn shapes(&mut self, x: &Shape, y: &Shape) -> bool {
        match (x, y) {
            (Shape::Dims(p), Shape::Dims(q)) => {
                p.len() == q.len() && p.iter().zip(q.iter()).all(|(d, e)| self.dim(d, e))
            }
            (Shape::Param(p), Shape::Param(q)) => self.params.pair(*p, *q),
            _ => x == y,
        }
    }

    pub(super) fn dtypes(&mut self, x: DTy, y: DTy) -> bool {
        match (x, y) {
            (DTy::Param(p), DTy::Param(q)) => self.params.pair(p, q),
            _ => x == y,
        }
    }

    pub(super) fn opt_ty(
        &mut self,
        x: Option<TypeId>,
        y: Option<TypeId>,
        at: Option<&Pair>,
        what: &str,
    ) -> Check {
        match (x, y) {
            (Some(s), Some(t)) => self.ty(s, t, at),
            (None, None) => Ok(()),
            _ if !self.options.annotations => Ok(()),
            (Some(s), None) => {
                let what = format!("{what}: {} and no annotation", self.a.show_type(s));
                self.differ_at(&what, at)
            }
            (None, Some(t)) => {
                let what = format!("{what}: no annotation and {}", self.b.show_type(t));
                self.differ_at(&what, at)
            }
        }
    }

    pub(super) fn ty(&mut self, x: TypeId, y: TypeId, at: Option<&Pair>) -> Check {
        let mut stack = vec![(x, y)];
        let (a, b) = (self.a, self.b);
        while let Some((s, t)) = stack.pop() {
            // The correspondence of variables never changes, so equal types stay equal.
            if !self.types.insert((s, t)) {
                continue;
            }
            let same = match (&a.types[s], &b.types[t]) {
                (Type::Tensor(p), Type::Tensor(q)) => {
                    self.shapes(&p.shape, &q.shape) && self.dtypes(p.dtype, q.dtype)
                }
                (Type::Shape(p), Type::Shape(q)) => self.shapes(p, q),
                (Type::Func(f), Type::Func(g)) => {
                    f.params.len() == g.params.len()
                        && f.args.len() == g.args.len()
                        && f.constraints.len() == g.constraints.len()
                        && f.params
                            .iter()
                            .zip(g.params.iter())
                            .all(|(p, q)| self.params.pair(*p, *q))
                        && self.constraints(&f.constraints, &g.constraints, at).is_ok()
                }
                (Type::Adt(p, _), Type::Adt(q, _)) => a.adts[*p].name == b.adts[*q].name,
                (Type::Param(p), Type::Param(q)) => self.params.pair(*p, *q),
                (Type::Tuple(_), Type::Tuple(_)) | (Type::Ref(_), Type::Ref(_)) => true,
                (p, q) => p == q,
            };
            let (parts, others) = (a.types.children(s), b.types.children(t));
            if !same || parts.len() != others.len() {
                let what = format!("types {} and {}", a.show_type(s), b.show_type(t));
                return self.differ_at(&what, at);
            }
            stack.extend(parts.into_iter().zip(others).rev());
        }
        Ok(())
    }
}
