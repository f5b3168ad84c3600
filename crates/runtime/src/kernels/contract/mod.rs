//! Contractions of two arrays: `c[i…] = sum over r… of a[i…, r…] * b[i…, r…]`, each array traversed
//! with a constant stride along every axis.
//!
//! An axis along which only one operand moves is a row or a column of a matrix product; one along
//! which both operands move is summed over or, where the result moves too, enumerates products. So
//! a convolution of any rank over padded data, transposed or grouped, an `einsum` and a batched
//! product are all the same: panels are packed through tables of offsets, which amounts to
//! unfolding where an operand's steps overlap. Operands of a type other than the accumulator's are
//! converted first, as whole arrays.
//!
//! Each element is one chain of sums over pieces of the common axes, with any number of threads.

mod direct;
mod line;
mod packed;
mod panels;
mod plan;

use std::ffi::c_void;

use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::gemm::{self, RxGemmF32, gemm};
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::wide::{Vector, Wide};
use crate::slices::slice;
use crate::threads::{Grain, Share};
use plan::{Plan, Way};

/// The maximum number of axes.
pub const AXES: usize = 16;
/// Products for each element of the operands from which these are converted for faster ones.
const REUSED: usize = 128;
/// Elements that a thread converts at a time.
const PIECE: usize = 1 << 14;

c_structure! {
    /// As in the C header.
    pub struct RxContract {
        /// Number of axes.
        pub axes: i32,
        /// The left operand's elements, a [`Kind`].
        pub a_type: i32,
        /// The right operand's elements.
        pub b_type: i32,
        /// The result's elements.
        pub c_type: i32,
        /// Extents of all axes.
        pub extents: *const i64,
        /// Steps along all axes of `a`, then of `b`, then of the result: 0 where an axis is summed
        /// over.
        pub steps: *const i64,
        /// The left operand's first element.
        pub a: *const c_void,
        /// The right operand's first element.
        pub b: *const c_void,
        /// The result's first element.
        pub c: *mut c_void,
    }
}

/// The summation of an accumulator type in an instruction set.
pub(crate) trait Sums<S: Wide>: Sum {
    /// The type of its vectors.
    type V: Vector<Element = Self>;
}
macro_rules! sums {
    ($($t:ty: $v:ident),*) => {$(
        impl<S: Wide> Sums<S> for $t {
            type V = S::$v;
        }
    )*};
}
sums!(f32: F32, f64: F64, i32: I32, i64: I64, i16: Words);

/// An accumulator type with vectors in every instruction set.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Everywhere:
    Sums<super::simd::Portable> + Sums<super::simd::Avx2> + Sums<super::simd::Avx512> + PartialEq
{
}
#[cfg(not(target_arch = "x86_64"))]
pub(crate) trait Everywhere: Sums<super::simd::Portable> + PartialEq {}
impl Everywhere for f32 {}
impl Everywhere for f64 {}
impl Everywhere for i32 {}
impl Everywhere for i64 {}
impl Everywhere for i16 {}

/// An operand with elements of the accumulator type: its own memory, or a converted copy.
struct Operand<T> {
    data: *const T,
    _copy: Option<Scratch>,
}

impl<T: Sum> Operand<T> {
    /// Converts everything between the first and the last element read; `None` without memory.
    unsafe fn new(
        context: &mut RxContext,
        kind: Kind,
        data: *const u8,
        (low, high): (isize, isize),
    ) -> Option<Self> {
        // An empty sum reads nothing.
        if kind == T::KIND || high < low {
            return Some(Self {
                data: data.cast(),
                _copy: None,
            });
        }
        let n = (high - low + 1) as usize;
        let copy = Scratch::new(context, n * size_of::<T>())?;
        let to = copy.memory.cast::<T>();
        // SAFETY: both have `n` elements, pieces are disjoint.
        unsafe {
            let from = data.offset(low * kind.size() as isize);
            let shared = Share::new((from, to));
            context
                .pool
                .each(n, Grain::of_work(PIECE, 1), |begin, end, _| {
                    let &(from, to) = shared.get();
                    T::widen(
                        kind,
                        end - begin,
                        from.add(begin * kind.size()),
                        to.add(begin),
                    );
                });
            Some(Self {
                data: to.offset(-low),
                _copy: Some(copy),
            })
        }
    }
}

/// # Safety
/// Like [`contract`], with accumulator type `T`.
unsafe fn run<T: Everywhere>(
    context: &mut RxContext,
    g: &RxContract,
    kinds: [Kind; 3],
    plan: &Plan,
) -> i32 {
    // SAFETY: operands and result have what the plan's axes name.
    unsafe {
        let Some(a) = Operand::<T>::new(context, kinds[0], g.a.cast(), plan.reach(0)) else {
            return context.status;
        };
        let Some(b) = Operand::<T>::new(context, kinds[1], g.b.cast(), plan.reach(1)) else {
            return context.status;
        };
        let data = if plan.swapped {
            [b.data, a.data]
        } else {
            [a.data, b.data]
        };
        match plan.way {
            Way::Packed => packed::run::<T>(context, plan, data, g.c.cast(), kinds[2]),
            Way::Direct | Way::Dots => direct::run::<T>(context, plan, data, g.c.cast(), kinds[2]),
        }
    }
}

/// Dispatches plain float32 matrix products to their own kernels; `None` for others.
unsafe fn matrices(context: &mut RxContext, g: &RxContract, plan: &Plan) -> Option<i32> {
    let one = |axes: &[plan::Axis]| match axes {
        [] => Some(plan::Axis {
            extent: 1,
            steps: [0; 3],
        }),
        [axis] => Some(*axis),
        _ => None,
    };
    let (m, n, k) = (one(&plan.rows)?, one(&plan.columns)?, one(&plan.summed)?);
    let batch = one(&plan.batch)?;
    let forward = [m, n, k, batch]
        .iter()
        .all(|axis| axis.steps.iter().all(|&s| s >= 0));
    // Many products of one element each are computed in strips of adjacent results instead.
    let single = m.extent == 1 && n.extent == 1 && batch.extent > 1;
    if n.steps[2] != 1 && n.extent != 1 || !forward || single {
        return None;
    }
    let (a, b) = if plan.swapped { (g.b, g.a) } else { (g.a, g.b) };
    let product = RxGemmF32 {
        m: m.extent as i64,
        n: n.extent as i64,
        k: k.extent as i64,
        a: a.cast(),
        a_rs: m.steps[0] as i64,
        a_cs: k.steps[0] as i64,
        b: b.cast(),
        b_rs: k.steps[1] as i64,
        b_cs: if n.extent == 1 { 1 } else { n.steps[1] as i64 },
        c: g.c.cast(),
        c_ld: if m.extent == 1 {
            n.extent as i64
        } else {
            m.steps[2] as i64
        },
        ..Default::default()
    };
    if batch.extent == 1 {
        // SAFETY: operands and result have what the plan's axes name.
        return Some(unsafe { gemm(context, &product) });
    }
    let steps = batch.steps.map(|s| s as i64);
    // SAFETY: operands and result have what the plan's axes name.
    Some(unsafe {
        gemm::batch(
            context,
            &product,
            batch.extent as i64,
            steps[0],
            steps[1],
            steps[2],
        )
    })
}

/// Returns the bits of the sums of a product of integers that is packed: those of sums that are exact
/// in floats, which few processors multiply slower than integers. More than any float has for other
/// products.
unsafe fn bits_of_sums(g: &RxContract, kinds: [Kind; 3], plan: &Plan) -> u32 {
    let extents = [&plan.rows, &plan.columns, &plan.summed].map(|axes| plan::count(axes));
    // Each operand is scanned and copied, which does not pay here.
    if plan.way != Way::Packed || extents.iter().any(|&n| n < 16) {
        return u32::MAX;
    }
    let bits = |n: u64| u64::BITS - n.leading_zeros();
    let mut sum = bits(extents[2] as u64);
    if kinds[2] == Kind::I32 {
        let all = [0, 1]
            .map(|k| plan.reach(k))
            .map(|(low, high)| (high - low) as usize);
        let products = extents.iter().product::<usize>() * plan::count(&plan.batch);
        if products < REUSED * (all[0] + all[1]) {
            return u32::MAX;
        }
    }
    for (k, data) in [g.a, g.b].into_iter().enumerate() {
        let (low, high) = plan.reach(k);
        let n = (high - low + 1).max(0) as usize;
        let mut found = 0u64;
        // SAFETY: all between the least and the greatest offset lies in the operand.
        unsafe {
            match kinds[k] {
                Kind::I64 => {
                    let data = std::slice::from_raw_parts(data.cast::<i64>().offset(low), n);
                    data.iter().for_each(|&x| found |= (x ^ x >> 63) as u64);
                    sum += 1;
                }
                Kind::U64 => {
                    let data = std::slice::from_raw_parts(data.cast::<u64>().offset(low), n);
                    data.iter().for_each(|&x| found |= x);
                }
                Kind::I32 => {
                    let data = std::slice::from_raw_parts(data.cast::<i32>().offset(low), n);
                    let all = data.iter().fold(0, |all, &x| all | (x ^ x >> 31) as u32);
                    (found, sum) = (all.into(), sum + 1);
                }
                kind => sum += 8 * kind.size() as u32,
            }
        }
        sum += bits(found);
    }
    sum
}

/// A contraction. Integer sums wrap in the result's type.
///
/// # Safety
/// Every element that extents and steps name is in its array; the result overlaps no operand, and
/// each of its elements is named once.
pub unsafe fn contract(context: &mut RxContext, g: &RxContract) -> i32 {
    let axes = g.axes.max(0) as usize;
    let kinds = [g.a_type, g.b_type, g.c_type].map(Kind::of);
    let ([Some(a), Some(b), Some(c)], true) = (kinds, axes <= AXES) else {
        return context.fail(
            Status::Argument,
            "rx_contract: too many axes, or unknown types",
        );
    };
    // SAFETY: lists and arrays are as long as the descriptor says.
    let (extents, steps) = unsafe { (slice(g.extents, axes), slice(g.steps, 3 * axes)) };
    let Some(plan) = Plan::new(extents, steps, c) else {
        return 0;
    };
    let kinds = [a, b, c];
    // SAFETY: lists and arrays are as long as the descriptor says.
    unsafe {
        if kinds == [Kind::F32; 3]
            && plan.summed.iter().all(|k| k.extent > 0)
            && let Some(status) = matrices(context, g, &plan)
        {
            return status;
        }
        match c.wide() {
            Kind::F32 => run::<f32>(context, g, kinds, &plan),
            Kind::F64 => run::<f64>(context, g, kinds, &plan),
            Kind::I64 if bits_of_sums(g, kinds, &plan) <= f64::MANTISSA_DIGITS => {
                run::<f64>(context, g, kinds, &plan)
            }
            Kind::I64 => run::<i64>(context, g, kinds, &plan),
            _ if c == Kind::I32 && bits_of_sums(g, kinds, &plan) <= f32::MANTISSA_DIGITS => {
                run::<f32>(context, g, kinds, &plan)
            }
            // Their low bits are those of the sums.
            _ if matches!(c, Kind::I8 | Kind::U8 | Kind::I16 | Kind::U16) => {
                run::<i16>(context, g, kinds, &plan)
            }
            _ => run::<i32>(context, g, kinds, &plan),
        }
    }
}
