//! Matrix products of the other element types, by one simple scheme: scaled rows of B are added to
//! rows of a block of sums, which compilers vectorise for each instruction set. Products of small
//! integers have kernels of their own (`kernels::integer`) where their operands fit 16 bits.

use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::contract::{RxContract, contract};
use crate::kernels::integer::{Element, Matrices, Steps};
use crate::kernels::kinds::Kind;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};
use std::ffi::c_void;

c_structure! {
    /// As in the C header.
    pub struct RxGemm {
        /// Rows of the result.
        pub m: i64,
        /// Columns of the result.
        pub n: i64,
        /// The common axis.
        pub k: i64,
        /// Left operand.
        pub a: *const c_void,
        /// Its strides.
        pub a_rs: i64,
        /// Its strides.
        pub a_cs: i64,
        /// Right operand.
        pub b: *const c_void,
        /// Its strides.
        pub b_rs: i64,
        /// Its strides.
        pub b_cs: i64,
        /// The result.
        pub c: *mut c_void,
        /// Its row stride.
        pub c_ld: i64,
        /// Whether to add to the result's old contents.
        pub accumulate: i32,
        /// 0.
        pub reserved: i32,
    }
}

impl RxGemm {
    /// The product with sizes and strides as indices; `None` where one is negative.
    fn matrices(&self) -> Option<Matrices> {
        let size = |x: i64| usize::try_from(x).ok();
        Some(Matrices {
            m: size(self.m)?,
            n: size(self.n)?,
            k: size(self.k)?,
            a: self.a,
            a_strides: (size(self.a_rs)?, size(self.a_cs)?),
            b: self.b,
            b_strides: (size(self.b_rs)?, size(self.b_cs)?),
            c: self.c.cast(),
            ld: size(self.c_ld)?,
            accumulate: self.accumulate != 0,
            zeros: (0, 0),
        })
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxGemmI32 {
        /// The product.
        pub gemm: RxGemm,
        /// The left operand's elements, a [`Kind`] of signed integers of at most 32 bits, or uint8.
        pub a_type: i32,
        /// The right operand's elements.
        pub b_type: i32,
        /// The zero point subtracted from every element of the left operand.
        pub a_zero: i32,
        /// The zero point subtracted from every element of the right operand.
        pub b_zero: i32,
        /// The number of products.
        pub batch: i64,
        /// Elements from the left operand of one product to the next one's.
        pub a_step: i64,
        /// Elements from one right operand to the next one.
        pub b_step: i64,
        /// Elements from one result to the next one.
        pub c_step: i64,
    }
}

impl RxGemmI32 {
    /// The first product, and the steps to the others; `None` where a number is negative.
    fn products(&self) -> Option<(Matrices, Steps)> {
        let bytes = |step: i64, kind: i32| {
            let size = Element::of(kind)?.size();
            usize::try_from(step).ok().map(|step| step * size)
        };
        let product = Matrices {
            zeros: (self.a_zero, self.b_zero),
            ..self.gemm.matrices()?
        };
        let steps = Steps {
            a: bytes(self.a_step, self.a_type)?,
            b: bytes(self.b_step, self.b_type)?,
            c: usize::try_from(self.c_step).ok()?,
        };
        Some((product, steps))
    }

    /// Computes one of the products.
    unsafe fn one(
        &self,
        context: &mut RxContext,
        product: Matrices,
        (a, b): (Element, Element),
    ) -> i32 {
        // SAFETY: the operands and the results have this product.
        unsafe {
            // Operands that are read once are not converted to 16 bits first.
            let few = product.m < 4 || product.n < 4;
            let whole = a == Element::I32 || b == Element::I32;
            let plain = product.zeros == (0, 0) && !product.accumulate;
            if few && whole && plain {
                return self.contracted(context, &product);
            }
            match product.run(context, a, b) {
                Ok(true) => 0,
                Ok(false) if plain => self.contracted(context, &product),
                Ok(false) => {
                    product.plain(a, b);
                    0
                }
                Err(status) => status,
            }
        }
    }

    /// Computes a product of operands without zero points as a contraction, which supports
    /// elements of up to 32 bits.
    unsafe fn contracted(&self, context: &mut RxContext, product: &Matrices) -> i32 {
        let g = &self.gemm;
        let extents = [g.m, g.n, g.k];
        let steps = [g.a_rs, 0, g.a_cs, 0, g.b_cs, g.b_rs, g.c_ld, 1, 0];
        let described = RxContract {
            axes: 3,
            a_type: self.a_type,
            b_type: self.b_type,
            c_type: Kind::I32 as i32,
            extents: extents.as_ptr(),
            steps: steps.as_ptr(),
            a: product.a,
            b: product.b,
            c: product.c.cast(),
        };
        // SAFETY: the operands have the product's sizes.
        unsafe { contract(context, &described) }
    }
}

/// Products of integers minus their zero points, with 32-bit sums, which wrap.
///
/// # Safety
/// The operands are as large as the sizes and strides say, and do not overlap the results.
pub unsafe fn integers(context: &mut RxContext, g: &RxGemmI32) -> i32 {
    // SAFETY: the operands have the sizes that the descriptor says.
    unsafe {
        let types = Element::of(g.a_type).zip(Element::of(g.b_type));
        let Some(((product, steps), types)) = g.products().zip(types) else {
            let text = "rx_gemm_i32: sizes or types that are no product";
            return context.fail(Status::Argument, text);
        };
        let count = g.batch.max(0) as usize;
        if count > 1 {
            match product.run_all(context, types, (count, steps)) {
                Ok(true) => return 0,
                Ok(false) => {}
                Err(status) => return status,
            }
        }
        (0..count)
            .map(|i| g.one(context, product.further(i, steps), types))
            .find(|s| *s != 0)
            .unwrap_or(0)
    }
}

/// Columns that are summed together.
const WIDE: usize = 64;
/// Rows that share a converted block of B.
const HIGH: usize = 4;
/// Steps of the common axis that are converted together.
const DEEP: usize = 128;

/// An element of a result.
trait Sum: Copy + Default {
    /// `self + a * b`, wrapping for integers.
    fn fma(self, a: Self, b: Self) -> Self;
    /// `self + b`, wrapping for integers.
    fn plus(self, b: Self) -> Self;
}

macro_rules! integer {
    ($($t:ty),*) => {$(impl Sum for $t {
        #[inline(always)]
        fn fma(self, a: Self, b: Self) -> Self {
            self.wrapping_add(a.wrapping_mul(b))
        }
        #[inline(always)]
        fn plus(self, b: Self) -> Self {
            self.wrapping_add(b)
        }
    })*};
}
integer!(i32, i64);

impl Sum for f64 {
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        self + a * b
    }
    #[inline(always)]
    fn plus(self, b: Self) -> Self {
        self + b
    }
}

#[inline(always)]
unsafe fn rows<A: Copy + Into<C>, B: Copy + Into<C>, C: Sum>(g: &RxGemm, begin: usize, end: usize) {
    let (n, k) = (g.n as usize, g.k.max(0) as usize);
    let (a, b, c) = (g.a.cast::<A>(), g.b.cast::<B>(), g.c.cast::<C>());
    for j0 in (0..n).step_by(WIDE) {
        let wide = (n - j0).min(WIDE);
        let mut p0 = 0;
        loop {
            let deep = (k - p0).min(DEEP);
            let mut block = [[C::default(); WIDE]; DEEP];
            // SAFETY: rows `begin..end` are the product's, and the operands have its sizes.
            unsafe {
                for (p, line) in block.iter_mut().enumerate().take(deep) {
                    let from = b.offset(
                        (p0 + p) as isize * g.b_rs as isize + j0 as isize * g.b_cs as isize,
                    );
                    for (j, x) in line.iter_mut().enumerate().take(wide) {
                        *x = (*from.offset(j as isize * g.b_cs as isize)).into();
                    }
                }
            }
            let mut i0 = begin;
            while i0 < end {
                let high = (end - i0).min(HIGH);
                let mut sums = [[C::default(); WIDE]; HIGH];
                // SAFETY: rows `begin..end` are the product's, and the operands have its sizes.
                unsafe {
                    for (p, line) in block.iter().enumerate().take(deep) {
                        for (i, sums) in sums.iter_mut().enumerate() {
                            let row = (i0 + i.min(high - 1)) as isize * g.a_rs as isize;
                            let x: C =
                                (*a.offset(row + (p0 + p) as isize * g.a_cs as isize)).into();
                            for (sum, y) in sums.iter_mut().zip(line) {
                                *sum = sum.fma(x, *y);
                            }
                        }
                    }
                    for (i, sums) in sums.iter().enumerate().take(high) {
                        let to = c.add((i0 + i) * g.c_ld as usize + j0);
                        for (j, sum) in sums.iter().enumerate().take(wide) {
                            let keep = p0 > 0 || g.accumulate != 0;
                            *to.add(j) = if keep { (*to.add(j)).plus(*sum) } else { *sum };
                        }
                    }
                }
                i0 += high;
            }
            p0 += deep;
            if p0 >= k {
                break;
            }
        }
    }
}

macro_rules! products {
    ($($(#[$doc:meta])* $name:ident: $a:ty, $b:ty => $c:ty, $short:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The operands are as large as the sizes and strides say, and do not overlap the result.
        pub unsafe fn $name(context: &mut RxContext, g: &RxGemm) -> i32 {
            #[inline(always)]
            #[allow(clippy::extra_unused_type_parameters)] // The code differs all the same.
            unsafe fn kernel<S: Simd>(g: &RxGemm, begin: usize, end: usize) {
                // SAFETY: rows `begin..end` are the product's, and the operands have its sizes.
                unsafe { rows::<$a, $b, $c>(g, begin, end) };
            }
            if g.m <= 0 || g.n <= 0 {
                return 0;
            }
            let short: Option<(Element, Element)> = $short;
            if let Some((a, b)) = short {
                // SAFETY: the operands have the sizes that the descriptor says.
                match g.matrices().map(|p| unsafe { p.run(context, a, b) }) {
                    Some(Ok(true)) => return 0,
                    Some(Err(status)) => return status,
                    Some(Ok(false)) | None => {}
                }
            }
            // SAFETY: threads take tasks of their own, which write disjoint places.
            let shared = unsafe { Share::new(*g) };
            let work = (g.n as usize).saturating_mul(g.k.max(1) as usize);
            let grain = Grain::of_work(1 << 17, work).at_least(HIGH);
            context.pool.each(g.m as usize, grain, |begin, end, _| {
                let g = shared.get();
                // SAFETY: the operands have the product's sizes, of which these are rows.
                unsafe { dispatch!(kernel(g: &RxGemm, begin: usize, end: usize)) };
            });
            0
        }
    )*};
}

products! {
    /// float64.
    f64s: f64, f64 => f64, None;
    /// int8 by int8.
    i8s: i8, i8 => i32, Some((Element::I8, Element::I8));
    /// uint8 by int8.
    u8s_by_i8s: u8, i8 => i32, Some((Element::U8, Element::I8));
    /// uint8 by uint8.
    u8s: u8, u8 => i32, Some((Element::U8, Element::U8));
    /// int16.
    i16s: i16, i16 => i32, Some((Element::I16, Element::I16));
    /// int32.
    i32s: i32, i32 => i32, Some((Element::I32, Element::I32));
    /// int64.
    i64s: i64, i64 => i64, None;
}
