//! Floats of 16 bits that are only moved: what chooses among elements and numbers needs none of
//! their values, so their bits go from memory to memory.

use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, types};
use relax_loops::{Ex, ExKind};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::{Kernel, Result};
use crate::scalar::{is_bf16, is_f16};

/// Selections nest deeper than this only where nobody wrote them.
const DEPTH: usize = 64;

/// Returns whether a value is an element or a number, or one of some by conditions.
fn only_chosen(root: &Ex) -> bool {
    let mut work = vec![(root, 0)];
    while let Some((e, depth)) = work.pop() {
        match e.kind() {
            ExKind::Load(..) | ExKind::Float(_) => {}
            ExKind::Select(_, a, b) if depth < DEPTH => {
                work.extend([(a, depth + 1), (b, depth + 1)]);
            }
            _ => return false,
        }
    }
    true
}

impl Kernel<'_, '_, '_> {
    /// The bits of a narrow float that is only moved; `None` when it is something else.
    pub(super) fn moved(&mut self, dtype: DType, e: &Ex) -> Result<Option<Value>> {
        let narrow = is_f16(dtype) || is_bf16(dtype);
        if !narrow || e.dtype() != dtype || !only_chosen(e) {
            return Ok(None);
        }
        self.bits(dtype, e).map(Some)
    }

    /// The bits of such a value. Selections recurse, as those of which not both sides may be
    /// evaluated do; their nesting is bounded.
    fn bits(&mut self, dtype: DType, e: &Ex) -> Result<Value> {
        match e.kind() {
            ExKind::Load(buf, index) => {
                let address = self.address(*buf, index)?;
                let flags = MemFlagsData::trusted();
                Ok(self.b.ins().load(types::I16, flags, address, 0))
            }
            ExKind::Select(c, a, b) if self.harmless(a) && self.harmless(b) => {
                let c = self.eval(c)?;
                let (a, b) = (self.bits(dtype, a)?, self.bits(dtype, b)?);
                Ok(self.b.ins().select(c, a, b))
            }
            ExKind::Select(c, a, b) => {
                let cond = self.eval(c)?;
                let [yes, no, done] = [(); 3].map(|()| self.b.create_block());
                let result = self.b.append_block_param(done, types::I16);
                self.b.ins().brif(cond, yes, &[], no, &[]);
                for (block, side) in [(yes, a), (no, b)] {
                    self.b.switch_to_block(block);
                    self.memo.push(FxHashMap::default());
                    let v = self.bits(dtype, side);
                    self.memo.pop();
                    self.b.ins().jump(done, &[BlockArg::Value(v?)]);
                }
                self.b.switch_to_block(done);
                Ok(result)
            }
            _ => {
                let v = self.eval(e)?;
                let bits = self.scalars().short_bits(dtype, v);
                Ok(self.b.ins().ireduce(types::I16, bits))
            }
        }
    }
}
