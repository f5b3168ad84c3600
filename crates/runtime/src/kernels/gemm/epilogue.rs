//! What happens to a result before it is stored.

use crate::kernels::simd::Simd;
use std::ptr::null;

/// As in the C header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RxEpilogue {
    /// Added along `bias_axis`; may be null.
    pub bias: *const f32,
    /// Added element by element; may be null.
    pub residual: *const f32,
    /// The residual's row stride.
    pub residual_ld: i64,
    /// 0: a bias per row, 1: per column.
    pub bias_axis: i32,
    /// 0 none, 1 relu, 2 clip.
    pub activation: i32,
    /// Lower bound of clip.
    pub lo: f32,
    /// Upper bound of clip.
    pub hi: f32,
    /// The sum is multiplied by this first, along `bias_axis`; may be null.
    pub scale: *const f32,
}

impl Default for RxEpilogue {
    fn default() -> Self {
        Self {
            bias: null(),
            residual: null(),
            residual_ld: 0,
            bias_axis: 0,
            activation: 0,
            lo: 0.0,
            hi: 0.0,
            scale: null(),
        }
    }
}

impl RxEpilogue {
    /// Bounds of the activation.
    pub fn bounds(&self) -> (f32, f32) {
        match self.activation {
            1 => (0.0, f32::INFINITY),
            2 => (self.lo, self.hi),
            _ => (f32::NEG_INFINITY, f32::INFINITY),
        }
    }

    /// Nothing is to be done.
    pub fn none(&self) -> bool {
        self.bias.is_null()
            && self.scale.is_null()
            && self.residual.is_null()
            && self.activation == 0
    }
}

/// Where a tile goes, and what happens to it on the way.
#[derive(Clone, Copy)]
pub struct Target {
    /// The tile's first element.
    pub c: *mut f32,
    /// Row stride.
    pub ld: usize,
    /// Adds to the old contents.
    pub accumulate: bool,
    /// What else happens; with `bias` and `residual` at the tile's first element. `None` while
    /// sums are not complete.
    pub epilogue: Option<RxEpilogue>,
}

impl Target {
    /// A place further down and to the right.
    ///
    /// # Safety
    /// The place lies in the result.
    #[inline(always)]
    pub unsafe fn shift(&self, rows: usize, columns: usize) -> Self {
        let mut to = *self;
        // SAFETY: the caller's promise; bias and residual have the result's sizes.
        unsafe {
            to.c = to.c.add(rows * self.ld + columns);
            if let Some(e) = &mut to.epilogue {
                if !e.bias.is_null() {
                    e.bias = e.bias.add(if e.bias_axis == 0 { rows } else { columns });
                }
                if !e.scale.is_null() {
                    e.scale = e.scale.add(if e.bias_axis == 0 { rows } else { columns });
                }
                if !e.residual.is_null() {
                    e.residual = e.residual.add(rows * e.residual_ld as usize + columns);
                }
            }
        }
        to
    }

    /// Only stores, or adds to what is there.
    #[inline(always)]
    pub fn plain(&self) -> bool {
        self.epilogue.is_none()
    }

    /// Applies everything to a tile of `rows` by `vectors` and stores its first `columns`.
    ///
    /// # Safety
    /// `tile` has `rows * vectors` vectors; the target has the rows and columns.
    #[inline(always)]
    pub unsafe fn finish<S: Simd>(
        &self,
        tile: *const S,
        rows: usize,
        vectors: usize,
        columns: usize,
    ) {
        let e = self.epilogue.unwrap_or_default();
        let (lo, hi) = e.bounds();
        // SAFETY: the caller's promise.
        unsafe {
            let (lo, hi) = (S::splat(lo), S::splat(hi));
            for i in 0..rows {
                for v in 0..vectors {
                    let column = v * S::LANES;
                    let n = (columns - column).min(S::LANES);
                    let c = self.c.add(i * self.ld + column);
                    let mut x = *tile.add(i * vectors + v);
                    if self.accumulate {
                        x = x.add(S::load_part(c, n));
                    }
                    if !e.scale.is_null() {
                        x = x.mul(if e.bias_axis == 0 {
                            S::splat(*e.scale.add(i))
                        } else {
                            S::load_part(e.scale.add(column), n)
                        });
                    }
                    if !e.bias.is_null() {
                        x = x.add(if e.bias_axis == 0 {
                            S::splat(*e.bias.add(i))
                        } else {
                            S::load_part(e.bias.add(column), n)
                        });
                    }
                    if !e.residual.is_null() {
                        let at = e.residual.add(i * e.residual_ld as usize + column);
                        x = x.add(S::load_part(at, n));
                    }
                    if e.activation != 0 {
                        // As `a > b ? a : b`: a NaN becomes the bound.
                        x = x.max(lo).min(hi);
                    }
                    x.store_part(c, n);
                }
            }
        }
    }
}
