//! The start of a kernel: binds dimension variables and checks the given tensors against the
//! program's extents.
//!
//! Invariant: after this, every given tensor has the extents of its buffer. A kernel's element
//! accesses and its calls of runtime kernels rely on that.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use relax_loops::{Buf, Ex, ExKind, Var, visit_expr};
use relax_runtime::abi;
use rustc_hash::FxHashMap;

use super::{DATA, ERR_EXTENT, Kernel, Place, Result, SHAPE};

/// An extent read from a tensor that must equal the program's.
struct Check {
    buf: Buf,
    /// The number of the input, or -1 minus that of the output.
    from: i64,
    axis: usize,
    found: Value,
}

impl Kernel<'_, '_, '_> {
    /// Binds dimension variables from the shapes of inputs, and of outputs where no input has them,
    /// and checks all other extents: those of inputs, and of outputs that the caller allocated by
    /// its own extents.
    pub(super) fn bind(&mut self, inputs: Value, outputs: Value) -> Result<()> {
        let program = self.program;
        let mut checks = Vec::new();
        for (i, &buf) in program.inputs.iter().enumerate() {
            let tensor = self.word(inputs, 8 * i as i32);
            let extents = if self.packed.contains(&buf) {
                // Packed panels have another shape; the weight's own is constant.
                let shape = &program.bufs[buf].shape;
                let constant = |e: &Ex| e.as_int().unwrap_or_default();
                (shape.iter())
                    .map(|e| self.b.ins().iconst(types::I64, constant(e)))
                    .collect()
            } else {
                self.read_extents(tensor, (buf, i as i64), &mut checks)
            };
            let data = self.word(tensor, DATA);
            self.note_size(buf, tensor);
            self.places.insert(buf, Place { data, extents });
        }
        for (i, &buf) in program.outputs.iter().enumerate() {
            let unbound = |e: &Ex, vars: &FxHashMap<Var, Value>| {
                matches!(e.kind(), ExKind::Var(v)
                    if program.dims.contains(v) && !vars.contains_key(v))
            };
            let shape = &program.bufs[buf].shape;
            if self.def.holds_outputs || shape.iter().any(|e| unbound(e, &self.vars)) {
                let tensor = self.word(self.outputs, 8 * i as i32);
                self.fail_if_null(tensor);
                self.read_extents(tensor, (buf, -1 - i as i64), &mut checks);
            }
        }
        let (fixed, others): (Vec<_>, Vec<_>) = (checks.into_iter())
            .partition(|c| program.bufs[c.buf].shape[c.axis].as_int().is_some());
        self.require_constants(&fixed, inputs, outputs);
        for Check {
            buf, axis, found, ..
        } in others
        {
            let extent = &program.bufs[buf].shape[axis];
            // Extents known only later are checked when the output is written.
            if !reads(extent) {
                let expected = self.eval(extent)?;
                self.require_equal((buf, axis), expected, found);
            }
        }
        Ok(())
    }

    /// Fails unless all constant extents match: one branch, after which the runtime finds the
    /// mismatch.
    fn require_constants(&mut self, checks: &[Check], inputs: Value, outputs: Value) {
        let (mut table, mut texts) = (Vec::new(), Vec::new());
        let mut wrong = None;
        for c in checks {
            let info = &self.program.bufs[c.buf];
            let expected = info.shape[c.axis].as_int().unwrap_or_default();
            let differs = self.b.ins().bxor_imm_s(c.found, expected);
            wrong = Some(match wrong {
                None => differs,
                Some(wrong) => self.b.ins().bor(wrong, differs),
            });
            for word in [c.from, c.axis as i64, expected] {
                table.extend(word.to_le_bytes());
            }
            let text = self.extent_text(c.buf, c.axis);
            texts.extend(text.bytes().filter(|&b| b != 0).chain([0]));
        }
        let Some(wrong) = wrong else { return };
        let (ok, bad) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(wrong, bad, &[], ok, &[]);
        self.b.switch_to_block(bad);
        table.extend(texts);
        let table = self.env.numbers(table, self.b.func);
        let table = self.b.ins().symbol_value(types::I64, table);
        let n = self.b.ins().iconst(types::I64, checks.len() as i64);
        let status = self.scalars_call(abi::rx_fail_extents, &[inputs, outputs, table, n], true);
        self.b.ins().jump(self.fail, &[BlockArg::Value(status)]);
        self.b.switch_to_block(ok);
    }

    fn extent_text(&self, buf: Buf, axis: usize) -> String {
        format!(
            "tensor program `{}`: axis {axis} of `{}` has extent {{}} where the program needs {{}}",
            self.program.name, self.program.bufs[buf].name
        )
    }

    /// Checks a given output tensor against data-dependent extents.
    pub(super) fn check_given(&mut self, buf: Buf, tensor: Value, extents: &[Value]) {
        let shape = &self.program.bufs[buf].shape;
        let late = |e: &Ex| self.env.checks || self.def.holds_outputs && reads(e);
        let axes: Vec<usize> = (0..shape.len()).filter(|&k| late(&shape[k])).collect();
        if axes.is_empty() {
            return;
        }
        let given = self.word(tensor, SHAPE);
        for axis in axes {
            let found = self.word(given, 8 * axis as i32);
            self.require_equal((buf, axis), extents[axis], found);
        }
    }

    /// Fails with both values unless an extent equals the one that the program requires.
    fn require_equal(&mut self, at: (Buf, usize), expected: Value, found: Value) {
        let same = self.b.ins().icmp(IntCC::Equal, expected, found);
        self.require_extent(same, at, expected, found);
    }

    /// Fails with both values unless `fine` holds for an extent.
    pub(super) fn require_extent(
        &mut self,
        fine: Value,
        (buf, axis): (Buf, usize),
        expected: Value,
        found: Value,
    ) {
        let (ok, bad) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(fine, ok, &[], bad, &[]);
        self.b.switch_to_block(bad);
        let text = self.extent_text(buf, axis);
        self.fail_showing(ERR_EXTENT, None, &text, &[found, expected]);
        self.b.switch_to_block(ok);
    }

    /// The extents of a tensor; new dimension variables are bound, others queued for a check.
    fn read_extents(
        &mut self,
        tensor: Value,
        (buf, from): (Buf, i64),
        checks: &mut Vec<Check>,
    ) -> Vec<Value> {
        let shape = &self.program.bufs[buf].shape;
        let pointer = if shape.is_empty() {
            None
        } else {
            Some(self.word(tensor, SHAPE))
        };
        let mut extents = Vec::new();
        for (axis, e) in shape.iter().enumerate() {
            let found = self.word(pointer.expect("read above"), 8 * axis as i32);
            match e.kind() {
                ExKind::Var(v) if !self.vars.contains_key(v) => {
                    self.vars.insert(*v, found);
                    self.ranges.insert(*v, (0, relax_loops::MOST_EXTENT));
                    extents.push(found);
                }
                ExKind::Int(n) => {
                    checks.push(Check {
                        buf,
                        from,
                        axis,
                        found,
                    });
                    extents.push(self.b.ins().iconst(types::I64, *n));
                }
                _ => {
                    checks.push(Check {
                        buf,
                        from,
                        axis,
                        found,
                    });
                    extents.push(found);
                }
            }
        }
        extents
    }
}

/// Returns whether an expression reads elements.
fn reads(e: &Ex) -> bool {
    let mut found = false;
    visit_expr(e, |x| found |= matches!(x.kind(), ExKind::Load(..)));
    found
}
