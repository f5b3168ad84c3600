//! Extents as values of the graph: known ones are constants, others arithmetic on the shapes of
//! inputs.

use relax_sym::{Atom, Dim, DimBuilder, DimError, DimOp, DimVar};

use super::graph::{Attr, Graph};

/// An extent: a number, or the name of a vector of one element.
#[derive(Clone)]
enum Extent {
    Known(i64),
    Value(String),
}

impl Graph<'_> {
    /// Remembers where the variables among the extents of a tensor are found.
    pub(super) fn bind_extents(&mut self, tensor: &str, dims: &[Dim]) {
        for (axis, d) in dims.iter().enumerate() {
            if let Some(Atom::Var(v)) = d.as_atom()
                && self.extent(v).is_none()
            {
                let name = self.axis(tensor, axis as i64);
                self.set_extent(v, name);
            }
        }
    }

    /// The extent of one axis of a tensor, a vector of one element.
    pub(super) fn axis(&mut self, tensor: &str, axis: i64) -> String {
        let out = self.fresh(&format!("{tensor}_extent{axis}"));
        let attrs = vec![("start", Attr::Int(axis)), ("end", Attr::Int(axis + 1))];
        self.node("Shape", vec![tensor.to_owned()], attrs, vec![out.clone()]);
        out
    }

    /// Extents as a vector; `None` when one of them is not known.
    pub(super) fn extents(&mut self, dims: &[Dim]) -> Option<String> {
        let known: Option<Vec<i64>> = dims.iter().map(Dim::as_const).collect();
        if let Some(known) = known {
            return Some(self.ints(&known));
        }
        let mut parts = Vec::new();
        for d in dims {
            parts.push(match d.build(&mut Builder(self))? {
                Extent::Known(n) => self.ints(&[n]),
                Extent::Value(name) => name,
            });
        }
        if let [one] = &parts[..] {
            return Some(one.clone());
        }
        let out = self.fresh("shape");
        let attrs = vec![("axis", Attr::Int(0))];
        self.node("Concat", parts, attrs, vec![out.clone()]);
        Some(out)
    }

    fn extent_of(&self, v: DimVar) -> Option<Extent> {
        self.extent(v).cloned().map(Extent::Value)
    }

    fn arithmetic(&mut self, op: &str, a: Extent, b: Extent, attrs: Vec<(&str, Attr)>) -> Extent {
        let mut name = |e: Extent| match e {
            Extent::Known(n) => self.ints(&[n]),
            Extent::Value(v) => v,
        };
        let inputs = vec![name(a), name(b)];
        let out = self.fresh("extent");
        self.node(op, inputs, attrs, vec![out.clone()]);
        Extent::Value(out)
    }
}

struct Builder<'g, 'm>(&'g mut Graph<'m>);

impl DimBuilder for Builder<'_, '_> {
    type Out = Option<Extent>;
    fn int(&mut self, value: i64) -> Self::Out {
        Some(Extent::Known(value))
    }
    fn atom(&mut self, atom: Atom) -> Self::Out {
        match atom {
            Atom::Var(v) => self.0.extent_of(v),
            Atom::Infer(_) => None,
        }
    }
    fn any(&mut self) -> Self::Out {
        None
    }
    fn bad(&mut self, _: DimError) -> Self::Out {
        None
    }
    fn op(&mut self, op: DimOp, a: Self::Out, b: Self::Out) -> Self::Out {
        let (a, b) = (a?, b?);
        let g = &mut *self.0;
        Some(match op {
            DimOp::Add => g.arithmetic("Add", a, b, Vec::new()),
            DimOp::Sub => g.arithmetic("Sub", a, b, Vec::new()),
            DimOp::Mul => g.arithmetic("Mul", a, b, Vec::new()),
            DimOp::Min => g.arithmetic("Min", a, b, Vec::new()),
            DimOp::Max => g.arithmetic("Max", a, b, Vec::new()),
            DimOp::Mod => g.arithmetic("Mod", a, b, Vec::new()),
            DimOp::FloorDiv => {
                // ONNX's division of integers rounds towards zero: what is left over goes first,
                // which extents are too small to overflow by.
                let rest = g.arithmetic("Mod", a.clone(), b.clone(), Vec::new());
                let whole = g.arithmetic("Sub", a, rest, Vec::new());
                g.arithmetic("Div", whole, b, Vec::new())
            }
        })
    }
    fn group(&mut self, inner: Self::Out) -> Self::Out {
        inner
    }
}
