//! Stages computed by runtime kernels: matrix products, convolutions, rows, pooling.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::{Buf, Compute, Ex, ExKind, Hint, Program, Stage, Stmt, statements, visit_expr};
use relax_runtime::abi::{self, CStructure, Function, Part};
use relax_runtime::kernels::gemm::RxGemmF32;
use relax_runtime::kernels::gemm::epilogue::{Activation, BiasAxis, RxEpilogue};
use relax_runtime::kernels::gemm::other::RxGemmI32;
use relax_runtime::kernels::integer::Element;
use relax_runtime::kernels::requantize::RxRequantize;
use relax_runtime::{field, fields, part};
use relax_tensor::DType;
use rustc_hash::FxHashSet;

use relax_loops::attention::Attention;
use relax_loops::epilogue::Epilogue;
use relax_loops::fits::{self, Fit};
use relax_loops::quantised::shifted;

use super::draft::Descriptor;
use super::encoding::kind;
use super::{Kernel, Result};

/// The hint of a stage, if a kernel supports it unchanged.
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

/// An integer hint with the operands before their zero points were subtracted, and the zero points;
/// unchanged where there are none.
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

/// Returns the runtime's code for an element type of its integer products.
fn integer_code(dtype: DType) -> Option<i64> {
    let kind = kind(dtype)?;
    Element::of(kind as i32).map(|_| kind as i64)
}

/// Returns the stages that contribute to the outputs. Inputs of a computation that a kernel
/// replaces (padded data, row maxima) need not be computed if nothing else reads them.
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

    /// Calls a kernel of the runtime; in checked code after a check that the arrays are large
    /// enough.
    pub(super) fn run(&mut self, kernel: Function, args: &[Value]) {
        if self.env.checks {
            self.check_reach(kernel, args);
        }
        let mut all = vec![self.ctx];
        all.extend(args);
        let status = self.scalars().call(kernel, &all);
        self.fail_unless_zero(status);
    }

    /// Calls a function of the runtime with a descriptor.
    ///
    /// # Panics
    /// The structure is not the function's.
    pub(super) fn run_with<S: CStructure>(&mut self, kernel: Function, f: Descriptor<S>) {
        let [_, param] = kernel.signature.params else {
            panic!("{} takes more than a descriptor", kernel.name)
        };
        assert_eq!(
            (param.ty)().structure,
            Some(S::STRUCTURE),
            "{}",
            kernel.name
        );
        let address = self.address_of(&f);
        self.run(kernel, &[address]);
    }

    /// Writes an epilogue into a descriptor.
    pub(super) fn put_epilogue<S>(
        &mut self,
        f: &Descriptor<S>,
        part: Part<S, RxEpilogue>,
        axis: BiasAxis,
        e: &Epilogue,
    ) {
        for (field, buf) in fields!(RxEpilogue {
            bias: e.bias,
            residual: e.residual,
            scale: e.scale,
        }) {
            if let Some(buf) = buf {
                let (data, _) = self.of(buf);
                self.put(f, [(part.field(field), data)]);
            }
        }
        let mut ints = fields!(RxEpilogue {
            bias_axis: axis as i64
        })
        .to_vec();
        if e.bounds.is_some() {
            ints.extend(fields!(RxEpilogue {
                activation: Activation::Clip as i64
            }));
        }
        self.put_ints(f, ints.into_iter().map(|(field, n)| (part.field(field), n)));
        if let Some((lo, hi)) = e.bounds {
            for (field, v) in fields!(RxEpilogue { lo: lo, hi: hi }) {
                let v = self.b.ins().f32const(v);
                self.put(f, [(part.field(field), v)]);
            }
        }
    }

    /// Emits a stage through a kernel; `false` when none supports it. With an epilogue, the kernel
    /// writes the output of the epilogue's stage.
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
                let code = |b: Buf| integer_code(self.program.bufs[b].dtype);
                if let (Some(a_type), Some(b_type)) = (code(a), code(b)) {
                    let f = self.structure::<RxGemmI32>();
                    let m = self.matrices(a, b, transpose_a, transpose_b, 0);
                    self.put(
                        &f,
                        fields!(RxGemmI32 {
                            gemm.m: m.m,
                            gemm.n: m.n,
                            gemm.k: m.k,
                            gemm.a: m.a,
                            gemm.a_rs: m.a_rs,
                            gemm.a_cs: m.a_cs,
                            gemm.b: m.b,
                            gemm.b_rs: m.b_rs,
                            gemm.b_cs: m.b_cs,
                            gemm.c: out,
                            gemm.c_ld: shape.last().copied().unwrap_or(m.n),
                        }),
                    );
                    self.put_ints(
                        &f,
                        fields!(RxGemmI32 {
                            a_type: a_type,
                            b_type: b_type,
                        }),
                    );
                    self.put(
                        &f,
                        fields!(RxGemmI32 {
                            a_zero: taken_off[0],
                            b_zero: taken_off[1],
                        }),
                    );
                    self.run_with(abi::rx_gemm_i32, f);
                    return Ok(true);
                }
                let g = self.gemm(a, b, out, transpose_a, transpose_b, 0);
                if let Some(&ld) = shape.last() {
                    self.put(&g, fields!(RxGemmF32 { epilogue.residual_ld: ld }));
                }
                let part = part!(RxGemmF32, epilogue);
                self.put_epilogue(&g, part, BiasAxis::Column, epilogue);
                self.run_with(abi::rx_gemm_f32, g);
            }
            Hint::BatchGemm {
                a,
                b,
                transpose_a,
                transpose_b,
            } => {
                let g = self.gemm(a, b, out, transpose_a, transpose_b, 1);
                self.put(&g, fields!(RxGemmF32 { epilogue.residual_ld: shape[2] }));
                let part = part!(RxGemmF32, epilogue);
                self.put_epilogue(&g, part, BiasAxis::Column, epilogue);
                let mut steps = Vec::new();
                for x in [a, b] {
                    steps.push(self.batch_step(x));
                }
                steps.push(self.product(&shape[1..]));
                let g = self.address_of(&g);
                self.run(
                    abi::rx_batch_gemm_f32,
                    &[g, shape[0], steps[0], steps[1], steps[2]],
                );
            }
            Hint::Conv2d { data, weight, .. } => {
                let dtype = |b: Buf| integer_code(self.program.bufs[b].dtype);
                if let (Some(x_type), Some(weight_type)) = (dtype(data), dtype(weight)) {
                    let zeros = [taken_off[0], taken_off[1]];
                    self.conv_i32(&hint, &shape, [x_type, weight_type], zeros, out);
                } else {
                    let f = self.conv_f32(&hint, &shape, Some(out), epilogue);
                    self.run_with(abi::rx_conv2d_f32, f);
                }
            }
            Hint::Conv2dTranspose { .. } => {
                let f = self.conv_f32(&hint, &shape, Some(out), epilogue);
                self.run_with(abi::rx_conv2d_transpose_f32, f);
            }
            Hint::Requantize {
                data,
                tables,
                axis,
                bounds,
            } => {
                let f = self.structure::<RxRequantize>();
                let (x, _) = self.of(data);
                let (before, channel, behind) = match axis {
                    Some(axis) => (&shape[..axis], &shape[axis..=axis], &shape[axis + 1..]),
                    None => (&shape[..0], &shape[..0], &shape[..]),
                };
                for (field, extents) in fields!(RxRequantize {
                    outer: before,
                    channels: channel,
                    inner: behind,
                }) {
                    let n = self.product(extents);
                    self.put(&f, [(field, n)]);
                }
                let [bias, left, factor, half, right, zero] = tables.map(|table| self.of(table).0);
                self.put(
                    &f,
                    fields!(RxRequantize {
                        x: x,
                        bias: bias,
                        left: left,
                        factor: factor,
                        half: half,
                        right: right,
                        zero: zero,
                    }),
                );
                let dtype = self.program.bufs[c.out].dtype;
                self.put_ints(
                    &f,
                    fields!(RxRequantize {
                        low: bounds.0,
                        high: bounds.1,
                        y_type: integer_code(dtype).unwrap_or_default(),
                    }),
                );
                self.put(&f, fields!(RxRequantize { y: out }));
                self.run_with(abi::rx_requantize_i32, f);
            }
            Hint::Softmax { data, log } => {
                let (x, _) = self.of(data);
                let (rows, cols) = self.rows(&shape);
                let kernel = if log {
                    abi::rx_log_softmax_f32
                } else {
                    abi::rx_softmax_f32
                };
                self.run(kernel, &[rows, cols, x, out]);
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
                    abi::rx_layer_norm_f32,
                    &[rows, cols, x, gamma, beta, epsilon, out],
                );
            }
            // Hints of nests, not of computations.
            Hint::Lines { .. } => return Ok(false),
            Hint::Pool2d { data, .. } => {
                let (x, d) = self.of(data);
                let f = self.pool_f32(&hint, &d, Some(x), &shape, out);
                self.run_with(abi::rx_pool2d_f32, f);
            }
        }
        Ok(true)
    }

    /// Fails unless a kernel's assumptions hold, where they are not proven.
    ///
    /// Invariant: no kernel is called with operands that it would access out of bounds.
    pub(super) fn require_fits(&mut self, fits: Vec<Fit>) -> Result<()> {
        for fit in fits {
            if fit.is_proven() && !self.env.checks {
                continue;
            }
            // Values are memoised by address.
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

    /// The matrices of two operands, which start at axis `lead`.
    fn matrices(&mut self, a: Buf, b: Buf, ta: bool, tb: bool, lead: usize) -> Matrices {
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
        Matrices {
            m,
            n,
            k,
            a,
            a_rs,
            a_cs,
            b,
            b_rs,
            b_cs,
        }
    }

    /// The product of two operands whose matrices start at axis `lead`.
    fn gemm(
        &mut self,
        a: Buf,
        b: Buf,
        c: Value,
        ta: bool,
        tb: bool,
        lead: usize,
    ) -> Descriptor<RxGemmF32> {
        let f = self.structure::<RxGemmF32>();
        let right = match self.packed.contains(&b) {
            true => field!(RxGemmF32, b_packed),
            false => field!(RxGemmF32, b),
        };
        let m = self.matrices(a, b, ta, tb, lead);
        self.put(
            &f,
            fields!(RxGemmF32 {
                m: m.m,
                n: m.n,
                k: m.k,
                a: m.a,
                a_rs: m.a_rs,
                a_cs: m.a_cs,
            }),
        );
        self.put(&f, [(right, m.b)]);
        self.put(
            &f,
            fields!(RxGemmF32 {
                b_rs: m.b_rs,
                b_cs: m.b_cs,
                c: c,
                c_ld: m.n,
            }),
        );
        f
    }
}

/// Two matrices that are multiplied: sizes, and the operands with their steps.
struct Matrices {
    m: Value,
    n: Value,
    k: Value,
    a: Value,
    a_rs: Value,
    a_cs: Value,
    b: Value,
    b_rs: Value,
    b_cs: Value,
}
