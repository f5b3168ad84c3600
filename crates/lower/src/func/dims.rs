//! Dimensions: their values in registers, and the checks that a value matches them.

use relax_base::Symbol;
use relax_ir::{ExprId, Shape, Type, TypeId, dim_to_ex};
use relax_loops::{Ex, Var};
use relax_sym::{Atom, Dim};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::{FnLower, Result};
use crate::lir::{Inst, Reg};

impl FnLower<'_, '_> {
    /// A dimension as an expression over dimension registers.
    pub(super) fn dim(&mut self, e: ExprId, d: &Dim) -> Result<Ex> {
        let mut known = FxHashMap::default();
        for v in d.free_vars() {
            let Some(&(src, axis)) = self.dims.get(&v) else {
                let name = self.m().dims[v].name;
                return self.unsupported(
                    e,
                    &format!("the dimension `{name}`, which no value in scope has,"),
                );
            };
            let dst = self.dim_reg();
            self.emit(Inst::Dim { dst, src, axis });
            known.insert(v, Ex::var(Var(dst.0), DType::I64));
        }
        match dim_to_ex(d, |v| known.get(&v).cloned()) {
            Some(ex) => Ok(ex),
            None => self.unsupported(e, "an unknown dimension here"),
        }
    }

    /// `match_shape`: new variables are bound, other dimensions checked.
    pub(super) fn match_dims(&mut self, e: ExprId, src: Reg, dims: &[Dim]) -> Result<()> {
        let place = self.place(e);
        self.emit(Inst::CheckTensor {
            src,
            rank: Some(dims.len() as u32),
            dtype: None,
            place,
        });
        for (axis, d) in dims.iter().enumerate() {
            if let Some(Atom::Var(v)) = d.as_atom()
                && !self.dims.contains_key(&v)
            {
                self.dims.insert(v, (src, axis as u32));
                continue;
            }
            if d.is_any() {
                continue;
            }
            let b = self.dim(e, d)?;
            let dst = self.dim_reg();
            self.emit(Inst::Dim {
                dst,
                src,
                axis: axis as u32,
            });
            let a = Ex::var(Var(dst.0), DType::I64);
            let which = match d.as_const() {
                Some(_) => format!("axis {axis}"),
                None => format!("axis {axis}, {},", self.m().show_dim(d)),
            };
            let message = Symbol::new(&format!("{which} should be {{}}, but is {{}}"));
            self.emit(Inst::CheckDims {
                a: b,
                b: a,
                or_one: false,
                place,
                message,
            });
        }
        Ok(())
    }

    pub(super) fn match_cast(&mut self, e: ExprId, src: Reg, ty: TypeId) -> Result<()> {
        let m = self.m();
        let (shape, dtype) = match &m.types[ty] {
            Type::Tensor(t) => (&t.shape, t.dtype.known()),
            Type::Shape(s) => (s, None),
            _ => return Ok(()),
        };
        let place = self.place(e);
        let rank = shape.dims().map(|d| d.len() as u32);
        self.emit(Inst::CheckTensor {
            src,
            rank,
            dtype,
            place,
        });
        match shape {
            Shape::Dims(dims) => self.match_dims(e, src, dims),
            _ => Ok(()),
        }
    }
}
