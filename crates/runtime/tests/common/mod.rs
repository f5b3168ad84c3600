//! Helpers that the kernel tests and benches share.
#![allow(dead_code)] // Each file uses its part.

use relax_runtime::capi::context::{rx_context_create, rx_context_destroy, rx_set_threads};
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::{RxConv2dF32, RxConv2dSizes};
use relax_runtime::kernels::gemm::RxGemmF32;
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use relax_runtime::kernels::gemm::other::RxGemm;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::simd::{Isa, best, set};
use relax_runtime::kernels::sweep::{RxSweep, RxSweepOp};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `body` with every instruction set of this machine, and 1 and 2 threads.
pub fn everywhere(body: impl Fn(*mut RxContext, Isa)) {
    let _guard: MutexGuard<()> = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        if isa > best() {
            println!("left out: {isa:?} is not available here");
            continue;
        }
        set(isa);
        for threads in [1, 2] {
            let ctx = rx_context_create();
            assert_eq!(rx_set_threads(ctx, threads), 0);
            body(ctx, isa);
            // SAFETY: the context lives, and nothing of it is used any more.
            unsafe {
                assert_eq!((*ctx).heap.stats.live_objects, 0, "scratch memory leaked");
                rx_context_destroy(ctx);
            }
        }
    }
    set(Isa::Avx512);
}

/// Numbers in [-1, 1), the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn float(&mut self) -> f32 {
        self.bits() as f32 / (1u64 << 30) as f32 - 1.0
    }

    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.bits() as usize % n
    }
}

/// A sweep of one operation on one input: `axes` of the extents are the result's, those behind them
/// are reduced, by the first combiner. All arrays outlive it.
pub fn sweep_of_one<T>(
    op: &RxSweepOp,
    axes: usize,
    (data, kinds): (&[*const c_void; 1], &[i32; 1]),
    (extents, strides): (&[i64], &[i64]),
    (out_type, out): (Kind, &mut [T]),
) -> RxSweep {
    RxSweep {
        axes: axes as i32,
        reduced: (extents.len() - axes) as i32,
        inputs: 1,
        constants: 0,
        ops: 1,
        temps: 1,
        combiner: 0,
        out_type: out_type as i32,
        extents: extents.as_ptr(),
        data: data.as_ptr(),
        kinds: kinds.as_ptr(),
        strides: strides.as_ptr(),
        values: null(),
        program: op,
        out: out.as_mut_ptr().cast(),
    }
}

/// A product of `m` by `k` and `k` by `n` numbers without gaps between rows, which the arrays must
/// hold; `transposed`: B is stored as `n` by `k`.
pub fn dense<A, B, C>(
    (m, n, k): (usize, usize, usize),
    transposed: bool,
    a: &[A],
    b: &[B],
    c: &mut [C],
) -> RxGemm {
    let (m, n, k) = (m as i64, n as i64, k as i64);
    let (b_rs, b_cs) = if transposed { (1, k) } else { (n, 1) };
    RxGemm {
        m,
        n,
        k,
        a: a.as_ptr().cast(),
        a_rs: k,
        a_cs: 1,
        b: b.as_ptr().cast(),
        b_rs,
        b_cs,
        c: c.as_mut_ptr().cast(),
        c_ld: n,
        accumulate: 0,
        reserved: 0,
    }
}

/// [`dense`] of float32, with nothing packed and no epilogue.
pub fn dense_f32(
    extents: (usize, usize, usize),
    transposed: bool,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
) -> RxGemmF32 {
    let g = dense(extents, transposed, a, b, c);
    RxGemmF32 {
        m: g.m,
        n: g.n,
        k: g.k,
        a: a.as_ptr(),
        a_rs: g.a_rs,
        a_cs: g.a_cs,
        b: b.as_ptr(),
        b_rs: g.b_rs,
        b_cs: g.b_cs,
        c: c.as_mut_ptr(),
        c_ld: g.c_ld,
        ..RxGemmF32::default()
    }
}

/// A convolution of one pixel by one number, without its arrays.
pub fn one_pixel() -> RxConv2dF32 {
    RxConv2dF32 {
        sizes: RxConv2dSizes::ONE,
        layout: 0,
        reserved: 0,
        x: null(),
        weight: null(),
        weight_packed: null(),
        y: null_mut(),
        epilogue: RxEpilogue::default(),
    }
}

/// Asserts that two lists agree to within `tolerance`, absolute or relative.
pub fn close(what: &str, found: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        let near = (f - w).abs() <= tolerance * w.abs().max(1.0) || f == w;
        let isa = relax_runtime::kernels::simd::isa();
        assert!(
            near || f.is_nan() && w.is_nan(),
            "{what}: element {i} is {f}, not {w} ({isa:?})"
        );
    }
}

/// `epilogue(sum)` for element `(i, j)` of a result whose rows are `ld` apart.
pub fn finish(e: &RxEpilogue, sum: f32, bias: usize, residual: usize) -> f32 {
    let mut x = sum;
    // SAFETY: the tests give bias and residual their sizes.
    unsafe {
        if !e.offset.is_null() {
            x += *e.offset.add(bias);
        }
        if !e.scale.is_null() {
            x *= *e.scale.add(bias);
        }
        if !e.bias.is_null() {
            x += *e.bias.add(bias);
        }
        if !e.residual.is_null() {
            x += *e.residual.add(residual);
        }
    }
    match e.activation {
        1 => x.max(0.0),
        2 if x.is_nan() => e.lo,
        3 if x.is_nan() => e.hi,
        2..=4 => x.clamp(e.lo, e.hi),
        _ => x,
    }
}

/// Asserts that results are those of before, rounded to float16: rounding is all that the same call
/// with rounding does beside.
pub fn halved(what: &str, found: &[f32], before: &[f32]) {
    for (i, (f, b)) in found.iter().zip(before).enumerate() {
        let wanted = half::f16::from_f32(*b).to_f32();
        let isa = relax_runtime::kernels::simd::isa();
        assert_eq!(
            f.to_bits(),
            wanted.to_bits(),
            "{what}: element {i} of {b} ({isa:?})"
        );
    }
}
