//! Whether all uses of a let-bound function can be at one type.
//!
//! Unification keeps what it solved before a clash, so it cannot be tried. This only compares, with
//! solutions of its own.

use relax_base::Id;
use relax_ir::{DTy, Shape, Type, TypeId};
use relax_sym::{Atom, Dim};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::unifier::Unifier;
use crate::unknown::Lit;

/// The types of some uses that agree, and what their unknowns have to be for that.
#[derive(Default)]
pub(crate) struct Agreement {
    first: Option<TypeId>,
    types: FxHashMap<u32, TypeId>,
    shapes: FxHashMap<u32, Shape>,
    dtypes: FxHashMap<u32, DTy>,
    dims: FxHashMap<u32, Dim>,
}

impl Agreement {
    /// Adds a use; returns false if it certainly or possibly needs another type than those before.
    ///
    /// Invariant: terminates without an occurs check, since it creates no type, and visits a pair
    /// once.
    pub fn with(&mut self, s: &mut Unifier<'_>, t: TypeId) -> bool {
        let Some(first) = self.first else {
            self.first = Some(t);
            return true;
        };
        let mut pairs = vec![(first, t)];
        let mut seen = FxHashSet::default();
        while let Some((a, b)) = pairs.pop() {
            let (a, b) = (s.find(a), s.find(b));
            if a == b || !seen.insert((a, b)) {
                continue;
            }
            match (s.types[a].clone(), s.types[b].clone()) {
                (Type::Infer(v), _) => {
                    pairs.extend(self.types.insert(v.0, b).map(|known| (known, b)));
                }
                (_, Type::Infer(v)) => {
                    pairs.extend(self.types.insert(v.0, a).map(|known| (known, a)));
                }
                (Type::Tensor(x), Type::Tensor(y)) => {
                    if !self.shape(s, &x.shape, &y.shape) || !self.dtype(s, x.dtype, y.dtype) {
                        return false;
                    }
                }
                (Type::Shape(x), Type::Shape(y)) => {
                    if !self.shape(s, &x, &y) {
                        return false;
                    }
                }
                (Type::Tuple(x), Type::Tuple(y)) if x.len() == y.len() => {
                    pairs.extend(x.iter().copied().zip(y.iter().copied()));
                }
                (Type::Adt(p, x), Type::Adt(q, y)) if p == q && x.len() == y.len() => {
                    pairs.extend(x.iter().copied().zip(y.iter().copied()));
                }
                (Type::Ref(x), Type::Ref(y)) => pairs.push((x, y)),
                (Type::Func(x), Type::Func(y)) => {
                    let plain = [&x, &y]
                        .iter()
                        .all(|f| f.params.is_empty() && f.dims.is_empty());
                    if !plain || x.args.len() != y.args.len() {
                        return false;
                    }
                    pairs.push((x.ret, y.ret));
                    pairs.extend(x.args.iter().copied().zip(y.args.iter().copied()));
                }
                _ => return false,
            }
        }
        true
    }

    fn shape(&mut self, s: &Unifier<'_>, a: &Shape, b: &Shape) -> bool {
        let (a, b) = (self.known_shape(s, a), self.known_shape(s, b));
        match (a, b) {
            (a, b) if a == b => true,
            (Shape::Infer(v), other) | (other, Shape::Infer(v)) => {
                self.shapes.insert(v.0, other);
                true
            }
            (Shape::Dims(x), Shape::Dims(y)) if x.len() == y.len() => {
                x.iter().zip(y.iter()).all(|(x, y)| self.dim(x, y))
            }
            _ => false,
        }
    }

    fn known_shape(&self, s: &Unifier<'_>, shape: &Shape) -> Shape {
        let mut shape = s.resolve_shape(shape);
        while let Shape::Infer(v) = shape {
            match self.shapes.get(&v.0) {
                Some(known) => shape = s.resolve_shape(known),
                None => break,
            }
        }
        shape
    }

    fn dtype(&mut self, s: &Unifier<'_>, a: DTy, b: DTy) -> bool {
        match (self.known_dtype(s, a), self.known_dtype(s, b)) {
            (a, b) if a == b => true,
            (DTy::Infer(v), other) | (other, DTy::Infer(v)) => {
                let lit = s.unknowns[v.index()].lit;
                self.dtypes.insert(v.0, other);
                match other {
                    DTy::Infer(w) => lit == Lit::No || lit == s.unknowns[w.index()].lit,
                    known => lit.may_be(known),
                }
            }
            _ => false,
        }
    }

    fn known_dtype(&self, s: &Unifier<'_>, dtype: DTy) -> DTy {
        let mut dtype = s.head_dtype(dtype);
        while let DTy::Infer(v) = dtype {
            match self.dtypes.get(&v.0) {
                Some(known) => dtype = s.head_dtype(*known),
                None => break,
            }
        }
        dtype
    }

    fn dim(&mut self, a: &Dim, b: &Dim) -> bool {
        let (a, b) = (self.known_dim(a), self.known_dim(b));
        if a == b {
            return true;
        }
        for (d, other) in [(&a, &b), (&b, &a)] {
            if let Some(Atom::Infer(v)) = d.as_atom()
                && !other.infer_vars().contains(&v)
            {
                self.dims.insert(v.0, other.clone());
                return true;
            }
        }
        false
    }

    fn known_dim(&self, d: &Dim) -> Dim {
        let mut d = d.clone();
        // A solution contains no unknown that was solved before.
        while d.infer_vars().iter().any(|v| self.dims.contains_key(&v.0)) {
            d = d.substitute(&|atom| match atom {
                Atom::Infer(v) => self.dims.get(&v.0).cloned(),
                Atom::Var(_) => None,
            });
        }
        d
    }
}
