//! Comparison of attributes, dimensions, shapes and types.

use relax_sym::{Atom, Dim, DimVar};

use super::{Check, Comparer, Pair};
use crate::{AttrValue, Attrs, DTy, OpId, Shape, Type, TypeId};

/// TVM's tolerance for floats in attributes.
const TOLERANCE: f64 = 1e-9;

/// Returns the orders of `n` things, the given one first; of many things only that one.
fn orders(n: usize) -> Vec<Vec<usize>> {
    /// More are not tried: their orders are too many.
    const MOST: usize = 5;
    let given: Vec<usize> = (0..n).collect();
    if n > MOST {
        return vec![given];
    }
    let mut orders = vec![Vec::new()];
    for _ in 0..n {
        let longer = orders.iter().flat_map(|order: &Vec<usize>| {
            let rest = given.iter().filter(|i| !order.contains(i));
            rest.map(|&i| [order.as_slice(), &[i]].concat())
        });
        orders = longer.collect();
    }
    orders
}

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
        // Variables that both sides mention for the first time here: those of one name belong
        // together, or else they do in an order in which the expressions are equal.
        let mut left = vars;
        left.retain(|v| !self.dims.there.contains_key(v));
        let mut right = others;
        right.retain(|w| !self.dims.back.contains_key(w));
        if left.len() != right.len() {
            return false;
        }
        let mut by_name = Vec::new();
        let mut rest: Vec<usize> = (0..right.len()).collect();
        for &v in &left {
            let name = self.a.dims[v].name;
            let at = rest
                .iter()
                .position(|&i| self.b.dims[right[i]].name == name);
            by_name.push(at.map(|at| rest.remove(at)));
        }
        let mut rest = rest.into_iter();
        let by_name = by_name.into_iter().map(|at| at.or_else(|| rest.next()));
        let by_name: Vec<usize> = by_name.flatten().collect();
        let others = std::iter::once_with(|| orders(right.len())).flatten();
        let order = std::iter::once(by_name).chain(others).find(|order| {
            let new = |v: &DimVar| {
                let at = left.iter().position(|l| l == v)?;
                Some(right[order[at]])
            };
            let renamed = x.substitute(&|atom| match atom {
                Atom::Var(v) => {
                    let other = self.dims.there.get(&v).copied().or_else(|| new(&v));
                    other.map(Dim::var)
                }
                Atom::Infer(_) => None,
            });
            renamed == *y
        });
        let Some(order) = order else { return false };
        for (v, at) in left.into_iter().zip(order) {
            self.dims.pair(v, right[at]);
        }
        true
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
            // The correspondence of variables that no type binds never changes, so equal types stay
            // equal.
            if !self.types.insert((s, t)) {
                continue;
            }
            let same = match (&a.types[s], &b.types[t]) {
                (Type::Tensor(p), Type::Tensor(q)) => {
                    self.shapes(&p.shape, &q.shape) && self.dtypes(p.dtype, q.dtype)
                }
                (Type::Shape(p), Type::Shape(q)) => self.shapes(p, q),
                (Type::Func(f), Type::Func(g)) => {
                    let fits = f.params.len() == g.params.len()
                        && f.args.len() == g.args.len()
                        && f.constraints.len() == g.constraints.len();
                    // One type of a module can be several of another: what a type binds is bound
                    // again where it occurs again.
                    for (&p, &q) in f.params.iter().zip(&g.params) {
                        self.params.bind(p, q);
                    }
                    if f.dims.len() == g.dims.len() {
                        for (&d, &e) in f.dims.iter().zip(&g.dims) {
                            self.dims.bind(d, e);
                        }
                    }
                    fits && self.constraints(&f.constraints, &g.constraints, at).is_ok()
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
