//! Stages that runtime kernels know: matrix products, convolution, rows, pooling.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::{Buf, Compute, Ex, ExKind, Hint, Program, Stage, Stmt, statements, visit_expr};
use relax_tensor::DType;
use rustc_hash::FxHashSet;

use relax_loops::attention::Attention;
use relax_loops::epilogue::Epilogue;
use relax_loops::fits::{self, Fit};
use relax_loops::quantised::shifted;

use super::draft::Fields;
use super::{Kernel, Result};

/// The hint of a stage, when a kernel takes it as it is.
pub(crate) fn hint_of<'p>(program: &'p Program, c: &Compute) -> Option<&'p Hint> {
    let hint = program.hint(c.out)?;
    let of = |b: Buf| program.bufs[b].dtype;
    let fits = match (of(c.out), hint) {
        (_, Hint::Lines { .. }) => false,
        (DType::F32, _) => hint.operands().into_iter().all(|b| of(b) == DType::F32),
        (_, Hint::Requantize { .. }) => true,
        (DType::I32, Hint::Gemm { .. } | Hint::Conv2d { .. }) => {
            (hint.operands().into_iter()).all(|b| integer_code(of(b)).is_some())
        }
        _ => false,
    };
    fits.then_some(hint)
}

/// A hint about integers with the operands as they were before their zero points were taken off, and these; nothing
/// changes where there were none.
fn looked_through(program: &Program, hint: &Hint) -> (Hint, Vec<Option<Ex>>) {
    let mut hint = hint.clone();
    let mut zeros = Vec::new();
    if matches!(hint, Hint::Gemm { .. } | Hint::Conv2d { .. }) {
        for operand in hint.operands_mut() {
            let before = shifted(program, *operand);
            if let Some(s) = &before {
                *operand = s.from;
            }
            zeros.push(before.map(|s| s.zero));
        }
    }
    (hint, zeros)
}

/// How `relax_kernels.h` numbers the types of small integers.
fn integer_code(dtype: DType) -> Option<i64> {
    Some(match dtype {
        DType::I8 => 0,
        DType::U8 => 1,
        DType::I16 => 2,
        DType::I32 => 3,
        _ => return None,
    })
}

/// Which stages contribute to the outputs. What only a computation replaced by a kernel has read
/// (padded data, row maxima) need not be computed.
pub(super) fn needed(program: &Program, attention: &[Attention]) -> Vec<bool> {
    let mut wanted: FxHashSet<Buf> = program.outputs.iter().copied().collect();
    let see = |e: &Ex, wanted: &mut FxHashSet<Buf>| {
        visit_expr(e, |x| {
            if let ExKind::Load(b, _) = x.kind() {
                wanted.insert(*b);
            }
        });
    };
    for b in program.bufs.values() {
        b.shape.iter().for_each(|e| see(e, &mut wanted));
    }
    let mut kept = vec![false; program.stages.len()];
    for (k, stage) in program.stages.iter().enumerate().rev() {
        match stage {
            Stage::Compute(c) => {
                kept[k] = wanted.contains(&c.out);
                if !kept[k] {
                    continue;
                }
                if let Some(a) = attention.iter().find(|a| a.out == c.out) {
                    wanted.extend([a.q, a.k, a.v]);
                    wanted.extend(a.mask.as_ref().map(|m| m.buf));
                } else if let Some(hint) = hint_of(program, c) {
                    let (hint, zeros) = looked_through(program, hint);
                    wanted.extend(hint.operands());
                    zeros.iter().flatten().for_each(|e| see(e, &mut wanted));
                } else {
                    see(&c.value, &mut wanted);
                    let axes = c.reduce.iter().flat_map(|r| &r.axes);
                    axes.for_each(|(_, extent)| see(extent, &mut wanted));
                }
            }
            Stage::Nest(stmts) => {
                kept[k] = true;
                for s in statements(stmts) {
                    s.exprs().for_each(|e| see(e, &mut wanted));
                    if let Stmt::Store { buf, .. } = s {
                        // A nest may add to what an earlier stage wrote.
                        wanted.insert(*buf);
                    }
                }
            }
        }
    }
    kept
}

impl Kernel<'_, '_, '_> {
    pub(super) fn product(&mut self, extents: &[Value]) -> Value {
        let one = self.b.ins().iconst(types::I64, 1);
        extents.iter().fold(one, |n, &e| self.b.ins().imul(n, e))
    }

    pub(super) fn of(&self, buf: Buf) -> (Value, Vec<Value>) {
        let p = &self.places[&buf];
        (p.data, p.extents.clone())
    }

    /// Calls a kernel of the runtime. Code that is checked says first how large the arrays are that there are.
    pub(super) fn run(&mut self, name: &'static str, args: &[Value]) {
        if self.env.checks {
            self.check_reach(name, args);
        }
        let mut all = vec![self.ctx];
        all.extend(args);
        let status = self.scalars().call(name, &all);
        self.fail_unless_zero(status);
    }

    /// Calls a function of the runtime with descriptors.
    pub(super) fn run_with(&mut self, name: &'static str, descriptors: &[Fields]) {
        let args: Vec<Value> = (descriptors.iter()).map(|f| self.address_of(f)).collect();
        self.run(name, &args);
    }

    /// Writes `RxEpilogue` at an offset of a descriptor. `axis`: whether bias and scale go along columns.
    pub(super) fn put_epilogue(&mut self, f: &Fields, at: i32, axis: i64, e: &Epilogue) {
        for (offset, buf) in [(0, e.bias), (8, e.residual), (40, e.scale)] {
            if let Some(buf) = buf {
                let (data, _) = self.of(buf);
                self.put(f, at + offset, data);
            }
        }
        self.put_int32(f, at + 24, axis);
        if let Some((lo, hi)) = e.bounds {
            self.put_int32(f, at + 28, 2);
            for (offset, v) in [(32, lo), (36, hi)] {
                let v = self.b.ins().f32const(v);
                self.put(f, at + offset, v);
            }
        }
    }

    /// Emits a stage through a kernel; `false` when none takes it. With an epilogue, the kernel writes
    /// the output of the stage that is the epilogue.
    pub(super) fn tuned(&mut self, c: &Compute, after: Option<(Buf, &Epilogue)>) -> Result<bool> {
        let Some(hint) = hint_of(self.program, c) else {
            return Ok(false);
        };
        let (hint, zeros) = looked_through(self.program, hint);
        let mut taken_off = Vec::new();
        for zero in zeros {
            taken_off.push(match zero {
                Some(e) => self.eval(&e)?,
                None => self.b.ins().iconst(types::I32, 0),
            });
        }
        let out = after.map_or(c.out, |a| a.0);
        self.place(out)?;
        let (out, shape) = self.of(out);
        let none = Epilogue::default();
        let epilogue = after.map_or(&none, |a| a.1);
        self.require_fits(fits::of_hint(self.program, c.out, &hint))?;
        match hint {
            Hint::Gemm {
                a,
                b,
                transpose_a,
                transpose_b,
            } => {
                let g = self.gemm(a, b, out, transpose_a, transpose_b, 0);
                let code = |b: Buf| integer_code(self.program.bufs[b].dtype);
                if let (Some(a_type), Some(b_type)) = (code(a), code(b)) {
                    // `RxGemm`, with which `RxGemmI32` begins, has the result where `RxGemmF32` has packed operands.
                    self.put(&g, 72, out);
                    if let Some(ld) = shape.last() {
                        self.put(&g, 80, *ld);
                    }
                    self.put_int(&g, 88, 0);
                    self.put_int32(&g, 96, a_type);
                    self.put_int32(&g, 100, b_type);
                    for (at, zero) in [104, 108].into_iter().zip(taken_off) {
                        self.put(&g, at, zero);
                    }
                    self.run_with("rx_gemm_i32", &[g]);
                    return Ok(true);
                }
                if let Some(ld) = shape.last() {
                    self.put(&g, 112 + 16, *ld);
                }
                self.put_epilogue(&g, 112, 1, epilogue);
                self.run_with("rx_gemm_f32", &[g]);
            }
            Hint::BatchGemm {
                a,
                b,
                transpose_a,
                transpose_b,
            } => {
                let g = self.gemm(a, b, out, transpose_a, transpose_b, 1);
                self.put(&g, 112 + 16, shape[2]);
                self.put_epilogue(&g, 112, 1, epilogue);
                let mut steps = Vec::new();
                for x in [a, b] {
                    steps.push(self.batch_step(x));
                }
                steps.push(self.product(&shape[1..]));
                let g = self.address_of(&g);
                self.run(
                    "rx_batch_gemm_f32",
                    &[g, shape[0], steps[0], steps[1], steps[2]],
                );
            }
            Hint::Conv2d { data, weight, .. } => {
                let dtype = |b: Buf| integer_code(self.program.bufs[b].dtype);
                if let (Some(x_type), Some(weight_type)) = (dtype(data), dtype(weight)) {
                    self.conv_i32(&hint, &shape, [x_type, weight_type], taken_off, out);
                } else {
                    let f = self.conv_f32(&hint, &shape, Some(out), epilogue);
                    self.run_with("rx_conv2d_f32", &[f]);
                }
            }
            Hint::Conv2dTranspose { .. } => {
                let f = self.conv_f32(&hint, &shape, Some(out), epilogue);
                self.run_with("rx_conv2d_transpose_f32", &[f]);
            }
            Hint::Requantize {
                data,
                tables,
                axis,
                bounds,
            } => {
                let f = self.structure(104);
                let (x, _) = self.of(data);
                let (before, channel, behind) = match axis {
                    Some(axis) => (&shape[..axis], &shape[axis..=axis], &shape[axis + 1..]),
                    None => (&shape[..0], &shape[..0], &shape[..]),
                };
                for (at, extents) in [(0, before), (8, channel), (16, behind)] {
                    let n = self.product(extents);
                    self.put(&f, at, n);
                }
                self.put(&f, 24, x);
                for (i, table) in tables.into_iter().enumerate() {
                    let (table, _) = self.of(table);
                    self.put(&f, 32 + 8 * i as i32, table);
                }
                self.put_int32(&f, 80, bounds.0);
                self.put_int32(&f, 84, bounds.1);
                let dtype = self.program.bufs[c.out].dtype;
                self.put_int32(&f, 88, integer_code(dtype).unwrap_or_default());
                self.put(&f, 96, out);
                self.run_with("rx_requantize_i32", &[f]);
            }
            Hint::Softmax { data, log } => {
                let (x, _) = self.of(data);
                let (rows, cols) = self.rows(&shape);
                let name = if log {
                    "rx_log_softmax_f32"
                } else {
                    "rx_softmax_f32"
                };
                self.run(name, &[rows, cols, x, out]);
            }
            Hint::LayerNorm {
                data,
                gamma,
                beta,
                epsilon,
            } => {
                let [(x, _), (gamma, _), (beta, _)] = [data, gamma, beta].map(|b| self.of(b));
                let (rows, cols) = self.rows(&shape);
                let epsilon = self.b.ins().f32const(epsilon as f32);
                self.run(
                    "rx_layer_norm_f32",
                    &[rows, cols, x, gamma, beta, epsilon, out],
                );
            }
            // A nest's; no computation has it.
            Hint::Lines { .. } => return Ok(false),
            Hint::Pool2d { data, .. } => {
                let (x, d) = self.of(data);
                let f = self.pool_f32(&hint, &d, Some(x), &shape, out);
                self.run_with("rx_pool2d_f32", &[f]);
            }
        }
        Ok(true)
    }

    /// Fails unless what a kernel trusts in holds, where it is not proven.
    ///
    /// Invariant: no kernel is called with operands that it would leave.
    pub(super) fn require_fits(&mut self, fits: Vec<Fit>) -> Result<()> {
        for fit in fits {
            if fit.is_proven() && !self.env.checks {
                continue;
            }
            // Values are known by address.
            self.held.extend([fit.found.clone(), fit.needed.clone()]);
            let (found, needed) = (self.eval(&fit.found)?, self.eval(&fit.needed)?);
            let mut fine = self.b.ins().icmp(IntCC::Equal, found, needed);
            if fit.or_one {
                let one = self.b.ins().icmp_imm_s(IntCC::Equal, found, 1);
                fine = self.b.ins().bor(fine, one);
            }
            self.require_extent(fine, fit.at, needed, found);
        }
        Ok(())
    }

    fn rows(&mut self, shape: &[Value]) -> (Value, Value) {
        let (cols, lead) = shape
            .split_last()
            .expect("kernels over rows have a last axis");
        (self.product(lead), *cols)
    }

    /// `RxGemmF32` for operands whose matrices start at axis `lead`.
    fn gemm(&mut self, a: Buf, b: Buf, c: Value, ta: bool, tb: bool, lead: usize) -> Fields {
        let f = self.structure(160);
        let packed = self.packed.contains(&b);
        let ((a, ae), (b, be)) = (self.of(a), self.of(b));
        let (ae, be) = (&ae[lead..], &be[lead..]);
        let (rows, last) = ae.split_at(ae.len() - 1);
        let one = self.b.ins().iconst(types::I64, 1);
        let (m, k, a_rs, a_cs) = if ta {
            (last[0], rows[0], one, last[0])
        } else {
            (self.product(rows), last[0], last[0], one)
        };
        let (n, b_rs, b_cs) = if tb {
            (be[0], one, be[1])
        } else {
            (be[1], be[1], one)
        };
        for (at, v) in [
            (0, m),
            (8, n),
            (16, k),
            (24, a),
            (32, a_rs),
            (40, a_cs),
            (if packed { 80 } else { 48 }, b),
            (56, b_rs),
            (64, b_cs),
            (88, c),
            (96, n),
        ] {
            self.put(&f, at, v);
        }
        f
    }
}
