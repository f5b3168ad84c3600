//! Stages computed by runtime kernels: matrix products, convolutions, rows, pooling.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::{Buf, Hint};
use relax_runtime::abi::{self, CStructure, Function, Part};
use relax_runtime::fields;
use relax_runtime::kernels::gemm::epilogue::{Activation, BiasAxis, Rounding, RxEpilogue};
use relax_runtime::kernels::integer::Element;
use relax_runtime::kernels::requantize::RxRequantize;
use relax_runtime::kernels::rows::RxLayerNormF32;
use relax_tensor::DType;

use relax_loops::epilogue::{Bounds, Epilogue, OfNan};
use relax_loops::fits::{self, Fit};
use relax_loops::select::hinted::Hinted;

use super::draft::Descriptor;
use super::encoding::kind;
use super::products::Product;
use super::{Kernel, Result};

/// Returns the runtime's code for an element type of its integer products.
fn integer_code(dtype: DType) -> Option<i64> {
    let kind = kind(dtype)?;
    Element::of(kind as i32).map(|_| kind as i64)
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
            offset: e.offset,
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
        if let Some(Bounds { nan, .. }) = e.bounds {
            let activation = match nan {
                OfNan::Low => Activation::Clip,
                OfNan::High => Activation::ClipNanHigh,
                OfNan::Nan => Activation::ClipNan,
            };
            ints.extend(fields!(RxEpilogue {
                activation: activation as i64
            }));
        }
        if e.halved {
            ints.extend(fields!(RxEpilogue {
                rounding: Rounding::Half as i64
            }));
        }
        self.put_ints(f, ints.into_iter().map(|(field, n)| (part.field(field), n)));
        if let Some(Bounds { lo, hi, .. }) = e.bounds {
            for (field, v) in fields!(RxEpilogue { lo: lo, hi: hi }) {
                let v = self.b.ins().f32const(v);
                self.put(f, [(part.field(field), v)]);
            }
        }
    }

    /// Emits a stage through the kernel of its hint.
    pub(super) fn tuned(&mut self, h: &Hinted) -> Result<()> {
        let mut taken_off = Vec::new();
        for zero in &h.zeros {
            taken_off.push(match zero {
                Some(e) => self.eval(e)?,
                None => self.b.ins().iconst(types::I32, 0),
            });
        }
        self.place(h.out)?;
        let (out, shape) = self.of(h.out);
        let (hint, epilogue) = (&h.hint, &h.epilogue);
        self.require_fits(fits::of_hint(self.program, h.sums, hint))?;
        match *hint {
            Hint::Gemm {
                a,
                b,
                transpose_a,
                transpose_b,
            }
            | Hint::BatchGemm {
                a,
                b,
                transpose_a,
                transpose_b,
            } => {
                let product = Product {
                    a,
                    b,
                    transpose_a,
                    transpose_b,
                };
                let batched = matches!(hint, Hint::BatchGemm { .. });
                match [a, b].map(|b| integer_code(self.program.bufs[b].dtype)) {
                    [Some(a_type), Some(b_type)] => {
                        let zeros = [taken_off[0], taken_off[1]];
                        self.gemm_i32(&product, [a_type, b_type], zeros, (out, &shape), batched);
                    }
                    _ if batched => self.batch_gemm_f32(&product, (out, &shape), epilogue),
                    _ => self.gemm_f32(&product, (out, &shape), epilogue),
                }
            }
            Hint::Blockwise { .. } => self.blockwise_f32(hint, out),
            Hint::Conv2d { data, weight, .. } => {
                let dtype = |b: Buf| integer_code(self.program.bufs[b].dtype);
                if let (Some(x_type), Some(weight_type)) = (dtype(data), dtype(weight)) {
                    let zeros = [taken_off[0], taken_off[1]];
                    self.conv_i32(hint, &shape, [x_type, weight_type], zeros, out);
                } else {
                    let f = self.conv_f32(hint, &shape, Some(out), epilogue);
                    self.run_with(abi::rx_conv2d_f32, f);
                }
            }
            Hint::Depthwise3d { .. } => {
                let f = self.depthwise3d_f32(hint, &shape, out, epilogue);
                self.run_with(abi::rx_depthwise3d_f32, f);
            }
            Hint::Conv2dTranspose { .. } => {
                let f = self.conv_f32(hint, &shape, Some(out), epilogue);
                self.run_with(abi::rx_conv2d_transpose_f32, f);
            }
            Hint::Requantize {
                data,
                tables,
                axis,
                bounds,
            } => {
                let y_type = integer_code(self.program.bufs[h.out].dtype).unwrap_or_default();
                self.requantize(data, tables, axis, (bounds, y_type), (out, &shape));
            }
            Hint::Softmax { data, log } => {
                let (x, _) = self.of(data);
                let (rows, cols) = self.rows(&shape);
                let numbers = [self.kind_of(data), i64::from(log)];
                let [kind, log] = numbers.map(|n| self.b.ins().iconst(types::I32, n));
                self.run(abi::rx_softmax, &[rows, cols, x, out, kind, log]);
            }
            Hint::LayerNorm { .. } => self.norm_rows(hint, out, &shape),
            Hint::Lines { .. } | Hint::Attention { .. } => {
                unreachable!("the selection has kernels of their own for these")
            }
            Hint::Pool2d { data, .. } => {
                let (x, d) = self.of(data);
                let f = self.pool_f32(hint, &d, Some(x), &shape, out);
                self.run_with(abi::rx_pool2d_f32, f);
            }
        }
        Ok(())
    }

    /// Emits the normalisation of a hint.
    fn norm_rows(&mut self, hint: &Hint, out: Value, shape: &[Value]) {
        let Hint::LayerNorm {
            data,
            gamma,
            beta,
            epsilon,
            axis,
            groups,
        } = *hint
        else {
            return;
        };
        let f = self.structure::<RxLayerNormF32>();
        let factors = self.kind_of(gamma);
        let (x, (gamma, of)) = (self.of(data).0, self.of(gamma));
        let channels = self.product(&of);
        let inner = self.product(&shape[axis + of.len()..]);
        let (before, whole) = (self.product(&shape[..axis]), self.product(&shape[axis..]));
        let groups = match groups {
            0 => channels,
            n => self.b.ins().iconst(types::I64, n),
        };
        let (rows, cols) = (
            self.b.ins().imul(before, groups),
            self.divided(whole, groups),
        );
        let epsilon = self.b.ins().f32const(epsilon as f32);
        self.put(
            &f,
            fields!(RxLayerNormF32 {
                rows: rows,
                cols: cols,
                channels: channels,
                inner: inner,
                x: x,
                gamma: gamma,
                y: out,
                epsilon: epsilon,
            }),
        );
        if let Some(beta) = beta {
            let (beta, _) = self.of(beta);
            self.put(&f, fields!(RxLayerNormF32 { beta: beta }));
        }
        let (centred, kind) = (i64::from(beta.is_some()), self.kind_of(data));
        self.put_ints(
            &f,
            fields!(RxLayerNormF32 {
                centred: centred,
                kind: kind,
                factors: factors,
            }),
        );
        self.run_with(abi::rx_layer_norm_f32, f);
    }

    /// Emits a requantization: sums to integers of the type of this code, between bounds.
    fn requantize(
        &mut self,
        data: Buf,
        tables: [Buf; 6],
        axis: Option<usize>,
        (bounds, y_type): ((i64, i64), i64),
        (out, shape): (Value, &[Value]),
    ) {
        let f = self.structure::<RxRequantize>();
        let (x, _) = self.of(data);
        let (before, channel, behind) = match axis {
            Some(axis) => (&shape[..axis], &shape[axis..=axis], &shape[axis + 1..]),
            None => (&shape[..0], &shape[..0], shape),
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
        self.put_ints(
            &f,
            fields!(RxRequantize {
                low: bounds.0,
                high: bounds.1,
                y_type: y_type,
            }),
        );
        self.put(&f, fields!(RxRequantize { y: out }));
        self.run_with(abi::rx_requantize_i32, f);
    }

    /// Fails unless what a kernel trusts in holds, where it is not proven.
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

    /// The runtime's number for the elements of a buffer, which has one.
    fn kind_of(&self, buf: Buf) -> i64 {
        kind(self.program.bufs[buf].dtype).map_or(-1, |k| k as i64)
    }

    /// A number by another one, which may be 0 where the first is, too.
    fn divided(&mut self, n: Value, by: Value) -> Value {
        let one = self.b.ins().iconst(types::I64, 1);
        let by = self.b.ins().smax(by, one);
        self.b.ins().sdiv(n, by)
    }

    fn rows(&mut self, shape: &[Value]) -> (Value, Value) {
        let (cols, lead) = shape
            .split_last()
            .expect("kernels over rows have a last axis");
        (self.product(lead), *cols)
    }
}
