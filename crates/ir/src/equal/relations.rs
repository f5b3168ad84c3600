//! Comparison of user-defined relations, and of constraints.

use super::{Check, Comparer, Pair};
use crate::{Constraint, DTypePattern, RelRef, RelationDef, ShapeItem, ShapePattern, TypePattern};

impl Comparer<'_> {
    pub(super) fn relations(&mut self, x: &RelationDef, y: &RelationDef) -> bool {
        let (p, q) = (x.args.iter().chain([&x.ret]), y.args.iter().chain([&y.ret]));
        let mut stack: Vec<_> = p.zip(q).collect();
        let mut shapes = Vec::new();
        if x.args.len() != y.args.len() {
            return false;
        }
        stack.reverse();
        while let Some(pair) = stack.pop() {
            let same = match pair {
                (TypePattern::Tensor(s, d), TypePattern::Tensor(t, e)) => {
                    shapes.push((s, t));
                    match (d, e) {
                        (DTypePattern::Param(p), DTypePattern::Param(q)) => {
                            self.params.pair(*p, *q)
                        }
                        _ => d == e,
                    }
                }
                (TypePattern::Shape(s), TypePattern::Shape(t)) => {
                    shapes.push((s, t));
                    true
                }
                (TypePattern::Tuple(s), TypePattern::Tuple(t)) => {
                    stack.extend(s.iter().zip(t).rev());
                    s.len() == t.len()
                }
                (TypePattern::Adt(c, s), TypePattern::Adt(d, t)) => {
                    stack.extend(s.iter().zip(t).rev());
                    s.len() == t.len() && self.a.adts[*c].name == self.b.adts[*d].name
                }
                (TypePattern::Param(p), TypePattern::Param(q)) => self.params.pair(*p, *q),
                (TypePattern::Any, TypePattern::Any) => true,
                _ => false,
            };
            if !same {
                return false;
            }
            while let Some((s, t)) = shapes.pop() {
                let same = match (s, t) {
                    (ShapePattern::Items(s), ShapePattern::Items(t)) => {
                        s.len() == t.len() && s.iter().zip(t).all(|(i, j)| self.shape_items(i, j))
                    }
                    (ShapePattern::Param(p), ShapePattern::Param(q)) => self.params.pair(*p, *q),
                    (ShapePattern::Broadcast(s), ShapePattern::Broadcast(t)) => {
                        shapes.push((&s.1, &t.1));
                        shapes.push((&s.0, &t.0));
                        true
                    }
                    (ShapePattern::Any, ShapePattern::Any) => true,
                    _ => false,
                };
                if !same {
                    return false;
                }
            }
        }
        true
    }

    pub(super) fn shape_items(&mut self, x: &ShapeItem, y: &ShapeItem) -> bool {
        match (x, y) {
            (ShapeItem::Dim(d), ShapeItem::Dim(e)) => self.dim(d, e),
            (ShapeItem::Rest(p), ShapeItem::Rest(q)) | (ShapeItem::Prod(p), ShapeItem::Prod(q)) => {
                self.params.pair(*p, *q)
            }
            (ShapeItem::Pick(p, i), ShapeItem::Pick(q, j)) => i == j && self.params.pair(*p, *q),
            (ShapeItem::Slice(p, i, k), ShapeItem::Slice(q, j, l))
            | (ShapeItem::ProdSlice(p, i, k), ShapeItem::ProdSlice(q, j, l)) => {
                (i, k) == (j, l) && self.params.pair(*p, *q)
            }
            _ => false,
        }
    }

    pub(super) fn constraints(
        &mut self,
        x: &[Constraint],
        y: &[Constraint],
        at: Option<&Pair>,
    ) -> Check {
        if x.len() != y.len() {
            return self.differ_at("the numbers of relations differ", at);
        }
        for (c, d) in x.iter().zip(y) {
            let same = match (c.rel, d.rel) {
                (RelRef::User(r), RelRef::User(s)) => {
                    self.a.relations[r].name == self.b.relations[s].name
                }
                (RelRef::Builtin(r), RelRef::Builtin(s)) => r == s,
                (RelRef::Op(p, s), RelRef::Op(q, t)) => {
                    self.ops(p, q) && self.a.attrs(s) == self.b.attrs(t)
                }
                _ => false,
            };
            if !same || c.args.len() != d.args.len() {
                return self.differ_at("the relations differ", at);
            }
            for (&s, &t) in c.args.iter().zip(&d.args) {
                self.ty(s, t, at)?;
            }
        }
        Ok(())
    }
}
