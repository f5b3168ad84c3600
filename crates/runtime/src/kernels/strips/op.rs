//! The operations over float32, each over elements that lie side by side.

use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::vmath;
use crate::{c_enumeration, c_structure};

c_enumeration! {
    /// What an operation does with its arguments `a`, `b`, `c`, `d`.
    pub enum Op {
        /// `a`.
        Copy,
        /// `a + b`.
        Add,
        /// `a - b`.
        Sub,
        /// `a * b`.
        Mul,
        /// `a / b`.
        Div,
        /// `a < b ? a : b`.
        Min,
        /// `a > b ? a : b`.
        Max,
        /// `a < b ? c : d`.
        SelectLt,
        /// `a <= b ? c : d`.
        SelectLe,
        /// `a == b ? c : d`.
        SelectEq,
        /// `-a`.
        Neg,
        /// `|a|`.
        Abs,
        /// The root of `a`.
        Sqrt,
        /// One by the root of `a`.
        Rsqrt,
        /// To the nearest integer, ties to even.
        RoundEven,
        /// The next integer below.
        Floor,
        /// The next integer above.
        Ceil,
        /// The next integer toward 0.
        Trunc,
        /// As [`vmath::vexp`].
        Exp,
        /// As [`vmath::vlog`].
        Log,
        /// As [`vmath::vtanh`].
        Tanh,
        /// As [`vmath::verf`].
        Erf,
        /// As [`vmath::vsigmoid`].
        Sigmoid,
        /// As [`vmath::vsin`].
        Sin,
        /// As [`vmath::vcos`].
        Cos,
        /// As [`vmath::vpow`].
        Pow,
        /// `a * b + c`, rounded as the processor does it.
        MulAdd,
        /// To the nearest integer, halves away from 0.
        Round,
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxStripOp {
        /// An [`Op`].
        pub code: i32,
        /// The temporary that is written, from 0.
        pub dst: i32,
        /// Operands: inputs, then constants, then temporaries.
        pub args: [i32; 4],
    }
}

impl RxStripOp {
    /// Returns what it does; a copy where its number is none.
    #[inline(always)]
    pub(crate) fn op(&self) -> Op {
        Op::of(self.code).unwrap_or(Op::Copy)
    }
}

/// One operation over `n` elements.
///
/// # Safety
/// The operands that the operation reads have `n` elements, and `to` has room for as many.
pub(crate) unsafe fn apply(op: Op, args: [*const f32; 4], to: *mut f32, n: usize) {
    // SAFETY: as promised.
    unsafe { dispatch!(applied(op: Op, args: [*const f32; 4], to: *mut f32, n: usize)) };
}

#[inline(always)]
unsafe fn applied<S: Simd>(op: Op, [a, b, c, d]: [*const f32; 4], to: *mut f32, n: usize) {
    macro_rules! each {
        ($load:ident, $i:ident => $value:expr) => {{
            let mut $i = 0;
            while $i + S::LANES <= n {
                let $load = |p: *const f32| S::load(p.add($i));
                $value.store(to.add($i));
                $i += S::LANES;
            }
            if $i < n {
                let left = n - $i;
                let $load = |p: *const f32| S::load_part(p.add($i), left);
                $value.store_part(to.add($i), left);
            }
        }};
    }
    // SAFETY: the operands that the operation reads have `n` elements, and `to` has room for as
    // many.
    unsafe {
        match op {
            Op::Copy => each!(l, i => l(a)),
            Op::Add => each!(l, i => l(a).add(l(b))),
            Op::Sub => each!(l, i => l(a).sub(l(b))),
            Op::Mul => each!(l, i => l(a).mul(l(b))),
            Op::Div => each!(l, i => l(a).div(l(b))),
            Op::Min => each!(l, i => l(a).min(l(b))),
            Op::Max => each!(l, i => l(a).max(l(b))),
            Op::MulAdd => each!(l, i => l(a).fma(l(b), l(c))),
            Op::SelectLt => {
                each!(l, i => S::select(l(a).lt(l(b)), l(c), l(d)))
            }
            Op::SelectEq => {
                each!(l, i => S::select(l(a).eq(l(b)), l(c), l(d)))
            }
            Op::SelectLe => each!(l, i => {
                let (x, y, yes) = (l(a), l(b), l(c));
                S::select(x.lt(y), yes, S::select(x.eq(y), yes, l(d)))
            }),
            Op::Neg => each!(l, i => S::splat(-0.0).sub(l(a))),
            Op::Abs => each!(l, i => l(a).abs()),
            Op::Sqrt => each!(l, i => l(a).sqrt()),
            Op::Rsqrt => each!(l, i => S::splat(1.0).div(l(a).sqrt())),
            Op::RoundEven => each!(l, i => l(a).round()),
            Op::Floor => each!(l, i => l(a).floor()),
            Op::Ceil => each!(l, i => {
                S::splat(-0.0).sub(S::splat(-0.0).sub(l(a)).floor())
            }),
            Op::Trunc => each!(l, i => {
                let x = l(a);
                x.abs().floor().copysign(x)
            }),
            // The greatest number below one half: with that itself, numbers just below a half would
            // be rounded up.
            Op::Round => each!(l, i => {
                let x = l(a);
                x.abs().add(S::splat(0.5f32.next_down())).floor().copysign(x)
            }),
            Op::Exp => vmath::vexp(n, a, to),
            Op::Log => vmath::vlog(n, a, to),
            Op::Tanh => vmath::vtanh(n, a, to),
            Op::Erf => vmath::verf(n, a, to),
            Op::Sigmoid => vmath::vsigmoid(n, a, to),
            Op::Sin => vmath::vsin(n, a, to),
            Op::Cos => vmath::vcos(n, a, to),
            Op::Pow => vmath::vpow(n, a, b, to),
        }
    }
}
