//! Stages that look bytes up in a table, through `rx_lookup_bytes`.

use cranelift_codegen::ir::{InstBuilder, types};
use relax_loops::Compute;
use relax_loops::select::lookup::Lookup;
use relax_runtime::abi;
use relax_tensor::DType;

use super::{Kernel, Result};

impl Kernel<'_, '_, '_> {
    /// Emits a stage as a call.
    pub(super) fn lookup(&mut self, c: &Compute, found: Lookup) -> Result<()> {
        self.place(c.out)?;
        let (out, extents) = self.of(c.out);
        let n = self.product(&extents);
        let [x, table] = [found.data, found.table].map(|b| self.of(b).0);
        // Tables begin with the least value: signs are turned over.
        let signed = self.program.bufs[found.data].dtype == DType::I8;
        let flip = i64::from(signed) << 7;
        let flip = self.b.ins().iconst(types::I32, flip);
        self.run(abi::rx_lookup_bytes, &[n, x, table, out, flip]);
        Ok(())
    }
}
