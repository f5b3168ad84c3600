//! Values: registers, expressions over them, memory, and references to data and functions.

use cranelift_codegen::ir::{FuncRef, InstBuilder, MemFlagsData, Value, types};
use cranelift_module::{DataId as ClifData, FuncId as ClifFunc, Module};
use relax_loops::{Ex, ExKind, visit_expr};
use relax_lower::lir::Reg;
use relax_runtime::abi::Function;
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::Emit;
use crate::kernel::Unsupported;
use crate::scalar::Scalars;

impl<'f, 'm> Emit<'_, 'f, 'm, '_> {
    pub(super) fn scalars(&mut self) -> Scalars<'_, 'f, 'm> {
        Scalars {
            b: self.b,
            env: self.env,
        }
    }

    /// The value of an expression over scalar registers.
    pub(super) fn scalar(&mut self, root: &Ex) -> Result<Value, Unsupported> {
        let mut parts: Vec<&Ex> = Vec::new();
        visit_expr(root, |e| parts.push(e));
        let mut known: FxHashMap<usize, Value> = FxHashMap::default();
        for e in parts {
            let v = match e.kind() {
                ExKind::Var(v) => self.reg(Reg(v.0)),
                _ => self.scalars().node(e, &|part| known[&part.addr()])?,
            };
            known.insert(e.addr(), v);
        }
        Ok(known[&root.addr()])
    }

    pub(super) fn reg(&self, r: Reg) -> Value {
        self.regs[r].expect("registers are written before they are read")
    }

    pub(super) fn set(&mut self, r: Reg, v: Value) {
        self.regs.set(r, Some(v));
    }

    pub(super) fn load(&mut self, base: Value, offset: i32) -> Value {
        self.b
            .ins()
            .load(types::I64, MemFlagsData::trusted(), base, offset)
    }

    pub(super) fn load32(&mut self, base: Value, offset: i32) -> Value {
        self.b
            .ins()
            .load(types::I32, MemFlagsData::trusted(), base, offset)
    }

    pub(super) fn store(&mut self, v: Value, base: Value, offset: i32) {
        self.b.ins().store(MemFlagsData::trusted(), v, base, offset);
    }

    pub(super) fn int32(&mut self, v: i64) -> Value {
        self.b.ins().iconst(types::I32, v)
    }

    pub(super) fn call(&mut self, function: Function, args: &[Value]) -> Option<Value> {
        let f = self.env.import(function, self.b.func);
        let call = self.b.ins().call(f, args);
        self.b.inst_results(call).first().copied()
    }

    pub(super) fn value_of(&mut self, function: Function, args: &[Value]) -> Value {
        self.call(function, args).expect("returns a value")
    }

    pub(super) fn text(&mut self, text: &str) -> Value {
        let gv = self.env.text(text, self.b.func);
        self.b.ins().symbol_value(types::I64, gv)
    }

    pub(super) fn object(&mut self, id: ClifData) -> Value {
        let gv = self.env.module.declare_data_in_func(id, self.b.func);
        self.b.ins().symbol_value(types::I64, gv)
    }

    pub(super) fn func(&mut self, id: ClifFunc) -> FuncRef {
        self.env.func(id, self.b.func)
    }

    /// The rank and the extents of a shape, in memory.
    pub(super) fn extents(&mut self, shape: &[Ex]) -> (Value, Value) {
        let extents: Vec<Value> = shape.iter().map(|d| self.dim(d)).collect();
        let rank = self.int32(extents.len() as i64);
        (rank, self.scalars().numbers(&extents))
    }

    /// A dimension expression. Expressions come from dimensions, which nest at most 64 deep.
    pub(super) fn dim(&mut self, e: &Ex) -> Value {
        match e.kind() {
            ExKind::Int(v) => self.b.ins().iconst(types::I64, *v),
            ExKind::Var(v) => self.reg(Reg(v.0)),
            ExKind::Binary(op, a, b) => {
                let (a, b) = (self.dim(a), self.dim(b));
                let r = self.scalars().binary(*op, DType::I64, a, b);
                r.expect("dimension arithmetic is on integers")
            }
            other => unreachable!("{other:?} in a dimension"),
        }
    }
}
