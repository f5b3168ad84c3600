//! Products of bytes whose sums become bytes at once, through the runtime's kernel.

use cranelift_codegen::ir::{InstBuilder, types};
use relax_loops::fused_bytes::{FusedBytes, Rescale};
use relax_loops::{Hint, fits};
use relax_runtime::abi;
use relax_runtime::kernels::conv::{Layout, RxConv2dSizes};
use relax_runtime::kernels::integer::fused::RxConv2dQ8;
use relax_runtime::{fields, part};
use relax_tensor::DType;

use super::draft::Descriptor;
use super::products::Product;
use super::windows::{Conv, layout_of};
use super::{Kernel, Result};

impl Kernel<'_, '_, '_> {
    /// Emits a product with a packed weight and the stage that makes bytes of its sums.
    pub(super) fn fused_bytes(&mut self, p: &FusedBytes) -> Result<()> {
        self.require_fits(fits::of_hint(self.program, p.sums, &p.hint))?;
        let x_zero = self.eval(&p.zeros[0])?;
        self.place(p.bytes)?;
        let (out, shape) = self.of(p.bytes);
        let f = self.structure::<RxConv2dQ8>();
        let [data, weight] = p.hint.operands()[..] else {
            unreachable!("a product has two operands")
        };
        let layout = match p.hint {
            Hint::Conv2d { .. } => {
                let (sizes, conv) = (part!(RxConv2dQ8, sizes), Conv::of(&p.hint));
                self.put_sizes(&f, sizes, &conv, &shape);
                layout_of(conv.nhwc)
            }
            Hint::Gemm {
                a, b, transpose_b, ..
            } => {
                // Rows are pixels.
                let product = Product {
                    a,
                    b,
                    transpose_a: false,
                    transpose_b,
                };
                let [m, n, k] = self.extents_of(&product);
                let one = self.b.ins().iconst(types::I64, 1);
                let sizes = part!(RxConv2dQ8, sizes);
                let extents = fields!(RxConv2dSizes {
                    n: one,
                    c: k,
                    h: one,
                    w: m,
                    o: n,
                    kh: one,
                    kw: one,
                    oh: one,
                    ow: m,
                    stride_h: one,
                    stride_w: one,
                    dilation_h: one,
                    dilation_w: one,
                    groups: one,
                });
                self.put(&f, extents.map(|(field, v)| (sizes.field(field), v)));
                Layout::Nhwc
            }
            _ => unreachable!("other hints are not fused"),
        };
        let [x, packed] = [data, weight].map(|b| self.of(b).0);
        self.put(
            &f,
            fields!(RxConv2dQ8 {
                x: x,
                packed: packed,
                x_zero: x_zero,
                y: out,
            }),
        );
        if self.program.bufs[weight].dtype == DType::U8 {
            let weight_zero = self.eval(&p.zeros[1])?;
            self.put(
                &f,
                fields!(RxConv2dQ8 {
                    weight_zero: weight_zero
                }),
            );
        }
        let y_zero = self.put_rescale(&f, &p.rescale);
        let signed = self.program.bufs[data].dtype == DType::I8;
        self.put_ints(
            &f,
            fields!(RxConv2dQ8 {
                x_signed: i64::from(signed),
                y_zero: y_zero,
                low: p.bounds.0,
                high: p.bounds.1,
                layout: layout as i64,
            }),
        );
        self.run_with(abi::rx_conv2d_q8, f);
        Ok(())
    }

    /// Writes what brings sums to another scale; returns the number that is added to all results.
    fn put_rescale(&mut self, f: &Descriptor<RxConv2dQ8>, rescale: &Rescale) -> i64 {
        let (factors, zero) = match rescale {
            Rescale::Real {
                factor,
                shift,
                bounds,
            } => {
                let (at, factors) = self.of(*factor);
                let [least, most] = bounds.map(|b| self.b.ins().f32const(b));
                self.put(
                    f,
                    fields!(RxConv2dQ8 {
                        factor: at,
                        least: least,
                        most: most
                    }),
                );
                if let Some(shift) = shift {
                    let (shift, _) = self.of(*shift);
                    self.put(f, fields!(RxConv2dQ8 { shift: shift }));
                }
                self.put_ints(f, fields!(RxConv2dQ8 { floats: 1 }));
                (factors, 0)
            }
            Rescale::Float { bias, factor, zero } => {
                let (at, factors) = self.of(*factor);
                self.put(f, fields!(RxConv2dQ8 { factor: at }));
                if let Some(bias) = bias {
                    let (bias, _) = self.of(*bias);
                    self.put(f, fields!(RxConv2dQ8 { bias: bias }));
                }
                (factors, *zero)
            }
            Rescale::Fixed { tables } => {
                let [bias, left, multiplier, half, right, zero] = tables.map(|t| self.of(t).0);
                self.put(
                    f,
                    fields!(RxConv2dQ8 {
                        bias: bias,
                        left: left,
                        multiplier: multiplier,
                        half: half,
                        right: right,
                        zero: zero,
                    }),
                );
                (self.of(tables[0]).1, 0)
            }
        };
        let factors = self.product(&factors);
        self.put(f, fields!(RxConv2dQ8 { factors: factors }));
        zero
    }
}
