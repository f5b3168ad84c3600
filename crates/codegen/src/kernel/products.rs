//! Products of matrices through the runtime's kernels: their descriptors.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::epilogue::Epilogue;
use relax_loops::{Buf, Hint};
use relax_runtime::abi;
use relax_runtime::kernels::blockwise::RxBlockwiseF32;
use relax_runtime::kernels::gemm::RxGemmF32;
use relax_runtime::kernels::gemm::epilogue::BiasAxis;
use relax_runtime::kernels::gemm::other::RxGemmI32;
use relax_runtime::{field, fields, part};

use super::Kernel;
use super::draft::Descriptor;

/// What a hint says of a product.
pub(super) struct Product {
    pub a: Buf,
    pub b: Buf,
    pub transpose_a: bool,
    pub transpose_b: bool,
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

impl Kernel<'_, '_, '_> {
    /// Emits a product of small integers, whose zero points are `zeros`, or one for each index of the
    /// first axis.
    pub(super) fn gemm_i32(
        &mut self,
        product: &Product,
        [a_type, b_type]: [i64; 2],
        zeros: [Value; 2],
        (out, shape): (Value, &[Value]),
        batched: bool,
    ) {
        let f = self.structure::<RxGemmI32>();
        let m = self.matrices(product, usize::from(batched));
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
                a_zero: zeros[0],
                b_zero: zeros[1],
            }),
        );
        if batched {
            let [a, b] = [product.a, product.b].map(|x| self.batch_step(x));
            let c = self.product(&shape[1..]);
            self.put(
                &f,
                fields!(RxGemmI32 {
                    batch: shape[0],
                    a_step: a,
                    b_step: b,
                    c_step: c,
                }),
            );
        } else {
            self.put_ints(&f, fields!(RxGemmI32 { batch: 1 }));
        }
        self.run_with(abi::rx_gemm_i32, f);
    }

    /// Emits a product with a weight quantised in blocks.
    pub(super) fn blockwise_f32(&mut self, hint: &Hint, out: Value) {
        let Hint::Blockwise {
            data,
            weight,
            scale,
            block,
            bits,
        } = *hint
        else {
            return;
        };
        let f = self.structure::<RxBlockwiseF32>();
        let [(x, extents), (w, rows), (s, blocks)] = [data, weight, scale].map(|b| self.of(b));
        let lead = extents.len().saturating_sub(1);
        let m = self.product(&extents[..lead]);
        self.put(
            &f,
            fields!(RxBlockwiseF32 {
                m: m,
                n: rows[0],
                blocks: blocks[1],
                x: x,
                weight: w,
                scale: s,
                y: out,
            }),
        );
        self.put_ints(
            &f,
            fields!(RxBlockwiseF32 {
                block: block,
                bits: bits,
            }),
        );
        self.run_with(abi::rx_blockwise_f32, f);
    }

    /// Emits a product and what follows it.
    pub(super) fn gemm_f32(
        &mut self,
        product: &Product,
        (out, shape): (Value, &[Value]),
        epilogue: &Epilogue,
    ) {
        let g = self.gemm(product, out, 0);
        if let Some(&ld) = shape.last() {
            self.put(&g, fields!(RxGemmF32 { epilogue.residual_ld: ld }));
        }
        let part = part!(RxGemmF32, epilogue);
        self.put_epilogue(&g, part, BiasAxis::Column, epilogue);
        self.run_with(abi::rx_gemm_f32, g);
    }

    /// Emits a batch of products and what follows them.
    pub(super) fn batch_gemm_f32(
        &mut self,
        product: &Product,
        (out, shape): (Value, &[Value]),
        epilogue: &Epilogue,
    ) {
        let g = self.gemm(product, out, 1);
        self.put(&g, fields!(RxGemmF32 { epilogue.residual_ld: shape[2] }));
        let part = part!(RxGemmF32, epilogue);
        self.put_epilogue(&g, part, BiasAxis::Column, epilogue);
        let mut steps = Vec::new();
        for x in [product.a, product.b] {
            steps.push(self.batch_step(x));
        }
        steps.push(self.product(&shape[1..]));
        let g = self.address_of(&g);
        self.run(
            abi::rx_batch_gemm_f32,
            &[g, shape[0], steps[0], steps[1], steps[2]],
        );
    }

    /// Two operands whose matrices start at axis `lead`.
    fn matrices(&mut self, product: &Product, lead: usize) -> Matrices {
        let ((a, ae), (b, be)) = (self.of(product.a), self.of(product.b));
        let (ae, be) = (&ae[lead..], &be[lead..]);
        let (rows, last) = ae.split_at(ae.len() - 1);
        let one = self.b.ins().iconst(types::I64, 1);
        let (m, k, a_rs, a_cs) = if product.transpose_a {
            (last[0], rows[0], one, last[0])
        } else {
            (self.product(rows), last[0], last[0], one)
        };
        let (n, b_rs, b_cs) = if product.transpose_b {
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

    /// The rows, columns and terms of a product.
    pub(super) fn extents_of(&mut self, product: &Product) -> [Value; 3] {
        let m = self.matrices(product, 0);
        [m.m, m.n, m.k]
    }

    /// The product of two operands whose matrices start at axis `lead`.
    fn gemm(&mut self, product: &Product, c: Value, lead: usize) -> Descriptor<RxGemmF32> {
        let f = self.structure::<RxGemmF32>();
        let right = match self.packed.contains(&product.b) {
            true => field!(RxGemmF32, b_packed),
            false => field!(RxGemmF32, b),
        };
        let m = self.matrices(product, lead);
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
