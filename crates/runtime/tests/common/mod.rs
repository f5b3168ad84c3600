//! What the kernel tests share.
#![allow(dead_code)] // Each test file uses its part.

use relax_runtime::context::{RxContext, rx_context_create, rx_context_destroy, rx_set_threads};
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use relax_runtime::kernels::simd::{Isa, best, set};
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

/// Numbers in [-1, 1), the same on every run.
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

/// Asserts that two lists agree to within `tolerance`, absolute or relative.
pub fn close(what: &str, found: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        let near = (f - w).abs() <= tolerance * w.abs().max(1.0) || f == w;
        assert!(
            near || f.is_nan() && w.is_nan(),
            "{what}: element {i} is {f}, not {w}"
        );
    }
}

/// `epilogue(sum)` for element `(i, j)` of a result whose rows are `ld` apart.
pub fn finish(e: &RxEpilogue, sum: f32, bias: usize, residual: usize) -> f32 {
    let mut x = sum;
    // SAFETY: the tests give bias and residual their sizes.
    unsafe {
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
        2 => x.clamp(e.lo, e.hi),
        _ => x,
    }
}
