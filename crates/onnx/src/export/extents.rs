//! Extents as values of the graph: known ones are constants, others are computed from the shapes of
//! inputs.

use relax_sym::{Atom, Dim, DimBuilder, DimError, DimOp, DimVar};

use super::graph::{Attr, Graph};

/// An extent: a number, or the name of a one-element vector.
#[derive(Clone)]
enum Extent {
    Known(i64),
    Value(String),
}

impl Graph<'_> {
    /// Records where the variables among the extents of a tensor can be obtained.
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

    /// Returns the extent of one axis of a tensor, as a one-element vector.
    pub(super) fn axis(&mut self, tensor: &str, axis: i64) -> String {
        let out = self.fresh(&format!("{tensor}_extent{axis}"));
        let attrs = vec![("start", Attr::Int(axis)), ("end", Attr::Int(axis + 1))];
        self.node("Shape", vec![tensor.to_owned()], attrs, vec![out.clone()]);
        out
    }

    /// Returns extents as a vector; `None` if one of them is unknown.
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
                // ONNX's integer division rounds towards zero: the remainder is subtracted first,
                // which cannot overflow for extents.
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
