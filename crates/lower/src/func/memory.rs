//! Explicit memory: blocks, tensors in them, calls that write into these.
//!
//! Invariant: kernels write only into results of their own and into tensors that this function has
//! placed in blocks of its own, never into a value that came from elsewhere.

use relax_ir::{Expr, ExprId, GlobalKind, Shape, Type};
use relax_loops::{Ex, Var};
use relax_tensor::DType;

use super::{FnLower, Result};
use crate::lir::{Alloc, Inst, Reg};

impl FnLower<'_, '_> {
    /// A number of bytes: `shape(n * 4)`, a shape value, or a constant.
    fn bytes(&mut self, e: ExprId) -> Result<Ex> {
        let m = self.m();
        match &m.exprs[e] {
            Expr::Shape(dims) if dims.len() == 1 => return self.dim(e, &dims[0]),
            Expr::Const(c) if m.consts[*c].is_scalar() && m.consts[*c].dtype().is_int() => {
                return Ok(Ex::int(DType::I64, m.consts[*c].get_i64(0)));
            }
            _ => {}
        }
        match &m.types[self.type_of(e)] {
            Type::Shape(Shape::Dims(dims)) if dims.len() == 1 => {
                let src = self.value(e)?;
                let dst = self.dim_reg();
                self.emit(Inst::Dim { dst, src, axis: 0 });
                Ok(Ex::var(Var(dst.0), DType::I64))
            }
            _ => self.unsupported(e, "a number of bytes that is computed as a tensor"),
        }
    }

    pub(super) fn alloc_storage(&mut self, e: ExprId, args: &[ExprId]) -> Result<Reg> {
        let [size, _] = *args else {
            return self.unsupported(e, "this form of `memory.alloc_storage`");
        };
        let bytes = self.bytes(size)?;
        let dst = self.reg();
        self.emit(Inst::Storage { dst, bytes });
        self.storages.insert(dst);
        Ok(dst)
    }

    pub(super) fn alloc_tensor(&mut self, e: ExprId, args: &[ExprId]) -> Result<Reg> {
        let [storage, offset, _] = *args else {
            return self.unsupported(e, "this form of `memory.alloc_tensor`");
        };
        let storage = self.value(storage)?;
        if !self.storages.contains(&storage) {
            return self.unsupported(e, "a block of memory that this function did not make");
        }
        let offset = self.bytes(offset)?;
        let m = self.m();
        let Type::Tensor(t) = &m.types[self.type_of(e)] else {
            return self.unsupported(e, "a tensor of unknown type in a block");
        };
        let (Some(dims), Some(dtype)) = (t.shape.dims(), t.dtype.known()) else {
            return self.unsupported(e, "a tensor of unknown rank or element type in a block");
        };
        let dims = dims.iter().map(|d| self.dim(e, d)).collect::<Result<_>>()?;
        let dst = self.reg();
        self.emit(Inst::Place {
            dst,
            storage,
            offset,
            tensor: Alloc {
                dtype,
                dims,
                reuse: None,
                grows: false,
                view: None,
                place: None,
            },
        });
        self.placed.insert(dst);
        Ok(dst)
    }

    pub(super) fn call_tir_inplace(&mut self, e: ExprId, args: &[ExprId]) -> Result<Reg> {
        let m = self.m();
        let [callee, tensors] = *args else {
            return self.unsupported(e, "this form of `call_tir_inplace`");
        };
        let Expr::Global(g) = m.exprs[callee] else {
            return self.unsupported(e, "a call of something that is no tensor program");
        };
        let GlobalKind::Prim(program) = &m.globals[g].kind else {
            return self.unsupported(e, "a `call_tir_inplace` of a function");
        };
        let kernel = self.lw.prim_kernel(g, program.clone());
        let mut regs = Vec::new();
        self.tensors(tensors, &mut regs)?;
        let Some(first) = regs.len().checked_sub(program.outputs.len()) else {
            return self.unsupported(e, "a call with fewer tensors than outputs");
        };
        let ty = self.type_of(e);
        let outs = relax_programs::flatten(m, ty);
        let targets = regs.split_off(first);
        let Some(outs) = outs.filter(|o| o.len() == targets.len()) else {
            return self.unsupported(e, "a result of unknown rank or element type");
        };
        let mut given = Vec::with_capacity(targets.len());
        for (r, out) in targets.into_iter().zip(outs) {
            if !self.placed.contains(&r) {
                return self
                    .unsupported(e, "an output that `memory.alloc_tensor` did not place here");
            }
            let mut dims = Vec::with_capacity(out.shape.len());
            for (axis, extent) in out.shape.iter().enumerate() {
                dims.push(match extent {
                    Some(n) => Ex::int(DType::I64, *n),
                    None => {
                        let dst = self.dim_reg();
                        self.emit(Inst::Dim {
                            dst,
                            src: r,
                            axis: axis as u32,
                        });
                        Ex::var(Var(dst.0), DType::I64)
                    }
                });
            }
            given.push(Alloc {
                dtype: out.dtype,
                dims,
                reuse: None,
                grows: false,
                view: None,
                place: Some(r),
            });
        }
        Ok(self.kernel_inst(e, kernel, regs, ty, Some(given)))
    }

    pub(super) fn kill(&mut self, args: &[ExprId]) -> Result<Reg> {
        for &a in args {
            let src = self.value(a)?;
            self.emit(Inst::Kill { src });
        }
        let dst = self.reg();
        let fields = Vec::new();
        self.emit(Inst::Tuple { dst, fields });
        Ok(dst)
    }
}
