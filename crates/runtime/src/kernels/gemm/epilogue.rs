//! The operations on a result before it is stored.

use crate::kernels::simd::Simd;
use crate::kernels::simd::bounds::{Bounds, OfNan};
use crate::{c_enumeration, c_structure};
use std::ptr::null;

c_enumeration! {
    /// The function applied to every element before it is stored.
    pub enum Activation {
        /// Nothing.
        None = "RX_ACT_NONE",
        /// Negative numbers become 0.
        Relu = "RX_ACT_RELU",
        /// Clamped between two bounds; NaN becomes the lower one.
        Clip = "RX_ACT_CLIP",
        /// Clamped between two bounds; NaN becomes the upper one.
        ClipNanHigh = "RX_ACT_CLIP_NAN_HIGH",
        /// Clamped between two bounds, except NaN.
        ClipNan = "RX_ACT_CLIP_NAN",
    }

    /// What every element is rounded to, last of all.
    pub enum Rounding {
        /// Nothing.
        None = "RX_ROUND_NONE",
        /// The nearest float16, ties to even.
        Half = "RX_ROUND_HALF",
    }

    /// The axis along which bias and scale vary.
    pub enum BiasAxis {
        /// One number per row.
        Row = "RX_BIAS_ROW",
        /// One number per column.
        Column = "RX_BIAS_COLUMN",
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxEpilogue {
        /// Added along `bias_axis`; may be null.
        pub bias: *const f32,
        /// Added element by element; may be null.
        pub residual: *const f32,
        /// The residual's row stride.
        pub residual_ld: i64,
        /// A [`BiasAxis`].
        pub bias_axis: i32,
        /// An [`Activation`].
        pub activation: i32,
        /// Lower bound of clip.
        pub lo: f32,
        /// Upper bound of clip.
        pub hi: f32,
        /// A factor of the sum, along `bias_axis`; may be null.
        pub scale: *const f32,
        /// A [`Rounding`].
        pub rounding: i32,
        /// Zero.
        pub reserved: i32,
        /// Added to the sum before all else, along `bias_axis`; may be null.
        pub offset: *const f32,
    }
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
            rounding: 0,
            reserved: 0,
            offset: null(),
        }
    }
}

impl RxEpilogue {
    /// Returns whether elements are rounded.
    #[inline(always)]
    pub(crate) fn rounds(&self) -> bool {
        self.rounding != Rounding::None as i32
    }

    /// Returns whether bias and scale have one number per row.
    #[inline(always)]
    pub(crate) fn by_row(&self) -> bool {
        self.bias_axis == BiasAxis::Row as i32
    }

    /// Bounds of the activation; `None` without one.
    pub fn bounds(&self) -> Option<Bounds<f32>> {
        let (lo, hi, nan) = match Activation::of(self.activation)? {
            Activation::None => return None,
            Activation::Relu => (0.0, f32::INFINITY, OfNan::Low),
            Activation::Clip => (self.lo, self.hi, OfNan::Low),
            Activation::ClipNanHigh => (self.lo, self.hi, OfNan::High),
            Activation::ClipNan => (self.lo, self.hi, OfNan::Nan),
        };
        Some(Bounds { lo, hi, nan })
    }

    /// The bounds of the activation in all lanes.
    ///
    /// # Safety
    /// The instruction set of `S` is enabled.
    #[inline(always)]
    unsafe fn bounds_in_lanes<S: Simd>(&self) -> Option<Bounds<S>> {
        // SAFETY: as the caller promises.
        Some(unsafe { self.bounds()?.splat() })
    }

    /// Leaves out what is for the first rows or columns, by `bias_axis`.
    ///
    /// # Safety
    /// There are as many.
    #[inline(always)]
    pub(crate) unsafe fn skip(&mut self, count: usize) {
        for from in [&mut self.offset, &mut self.scale, &mut self.bias] {
            if !from.is_null() {
                // SAFETY: there is a number for each row or column.
                *from = unsafe { from.add(count) };
            }
        }
    }

    /// Returns whether there is nothing to do.
    pub fn none(&self) -> bool {
        let added = [self.offset, self.bias, self.residual];
        let adds = added.iter().any(|from| !from.is_null());
        !adds && self.scale.is_null() && self.bounds().is_none() && !self.rounds()
    }
}

/// The destination of a tile, and the operations before it is stored.
#[derive(Clone, Copy)]
pub struct Target {
    /// The tile's first element.
    pub c: *mut f32,
    /// Row stride.
    pub ld: usize,
    /// Whether to add to the old contents.
    pub accumulate: bool,
    /// The other operations, with `bias` and `residual` at the tile's first element; `None` while
    /// sums are incomplete.
    pub epilogue: Option<RxEpilogue>,
}

/// A row of a result whose scale and bias are a number for each row: what happens to its elements
/// is known before the first of them.
#[derive(Clone, Copy)]
pub struct Line<S> {
    c: *mut f32,
    residual: *const f32,
    offset: Option<S>,
    scale: Option<S>,
    bias: Option<S>,
    bounds: Option<Bounds<S>>,
    rounds: bool,
}

impl<S: Simd> Line<S> {
    /// Returns what sums begin with: what is added to them first, which is not added to them later
    /// then.
    ///
    /// # Safety
    /// The instruction set of `S` is enabled.
    #[inline(always)]
    pub unsafe fn start(&mut self) -> S {
        let first = match (self.offset.take(), self.scale) {
            (None, None) => self.bias.take(),
            (offset, _) => offset,
        };
        // SAFETY: the instruction set of `S` is enabled.
        first.unwrap_or(unsafe { S::splat(0.0) })
    }

    /// As [`Line::put`] for all lanes of vectors that are `ld` apart.
    ///
    /// # Safety
    /// The row has these columns.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
    pub unsafe fn put_whole<const NV: usize, const R: usize>(
        &self,
        (at, ld): (usize, usize),
        mut x: [[S; NV]; R],
    ) {
        macro_rules! each {
            ($x:ident, $place:pat => $value:expr) => {
                for r in 0..R {
                    for v in 0..NV {
                        let ($x, $place) = (x[r][v], at + r * ld + v * S::LANES);
                        x[r][v] = $value;
                    }
                }
            };
        }
        if let Some(offset) = self.offset {
            each!(x, _ => x.add(offset));
        }
        if let Some(scale) = self.scale {
            each!(x, _ => x.mul(scale));
        }
        if let Some(bias) = self.bias {
            each!(x, _ => x.add(bias));
        }
        if !self.residual.is_null() {
            // SAFETY: a residual has the columns of the result.
            each!(x, place => x.add(unsafe { S::load(self.residual.add(place)) }));
        }
        if let Some(bounds) = self.bounds {
            bounds.of_tile(&mut x);
        }
        if self.rounds {
            each!(x, _ => x.half());
        }
        for r in 0..R {
            for v in 0..NV {
                // SAFETY: the row has all of these columns.
                unsafe { x[r][v].store(self.c.add(at + r * ld + v * S::LANES)) };
            }
        }
    }

    /// Applies everything to the first `n` lanes and stores them from column `at` on.
    ///
    /// # Safety
    /// The row has these columns.
    #[inline(always)]
    pub unsafe fn put(&self, at: usize, mut x: S, n: usize) {
        // SAFETY: the row has columns `at..at + n`, and a residual those of the result.
        unsafe {
            if let Some(offset) = self.offset {
                x = x.add(offset);
            }
            if let Some(scale) = self.scale {
                x = x.mul(scale);
            }
            if let Some(bias) = self.bias {
                x = x.add(bias);
            }
            if !self.residual.is_null() {
                x = x.add(S::load_part(self.residual.add(at), n));
            }
            if let Some(bounds) = self.bounds {
                x = bounds.of_lanes(x);
            }
            if self.rounds {
                x = x.half();
            }
            x.store_part(self.c.add(at), n);
        }
    }
}

impl Target {
    /// A row, of a target that nothing is accumulated in, that lies as the result does, and whose
    /// scale and bias have a number for each row.
    ///
    /// # Safety
    /// There is such a row.
    #[inline(always)]
    pub unsafe fn line<S: Simd>(&self, row: usize) -> Line<S> {
        debug_assert!(!self.accumulate);
        let c = self.c.wrapping_add(row * self.ld);
        let Some(e) = &self.epilogue else {
            return Line {
                c,
                residual: null(),
                offset: None,
                scale: None,
                bias: None,
                bounds: None,
                rounds: false,
            };
        };
        // SAFETY: `row` is a row of the result; offset, scale, bias and residual have its rows.
        unsafe {
            let number = |from: *const f32| (!from.is_null()).then(|| S::splat(*from.add(row)));
            Line {
                c,
                residual: match e.residual.is_null() {
                    true => null(),
                    false => e.residual.add(row * e.residual_ld as usize),
                },
                offset: number(e.offset),
                scale: number(e.scale),
                bias: number(e.bias),
                bounds: e.bounds_in_lanes(),
                rounds: e.rounds(),
            }
        }
    }

    /// A place further down and to the right.
    ///
    /// # Safety
    /// The position lies in the result.
    #[inline(always)]
    pub unsafe fn shift(&self, rows: usize, columns: usize) -> Self {
        let mut to = *self;
        // SAFETY: the place lies in the result; bias and residual have the result's sizes.
        unsafe {
            to.c = to.c.add(rows * self.ld + columns);
            if let Some(e) = &mut to.epilogue {
                e.skip(if e.by_row() { rows } else { columns });
                if !e.residual.is_null() {
                    e.residual = e.residual.add(rows * e.residual_ld as usize + columns);
                }
            }
        }
        to
    }

    /// Returns whether the tile is only stored, or added to the old contents.
    #[inline(always)]
    pub fn plain(&self) -> bool {
        self.epilogue.is_none()
    }

    /// Applies all operations to a tile of `rows` by `vectors`, and stores its first `columns`
    /// columns.
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
        // SAFETY: as the caller promises.
        unsafe { self.finish_rows::<S>(tile.cast(), vectors * S::LANES, (rows, columns)) };
    }

    /// Applies all operations to sums in memory, `ld` floats from a row to the next, and stores them.
    ///
    /// # Safety
    /// There are the sums, whole vectors of them, and the target has the rows and columns.
    #[inline(always)]
    pub unsafe fn finish_rows<S: Simd>(
        &self,
        sums: *const f32,
        ld: usize,
        (rows, columns): (usize, usize),
    ) {
        let e = self.epilogue.unwrap_or_default();
        // SAFETY: the instruction set of `S` is enabled here.
        let bounds = unsafe { e.bounds_in_lanes::<S>() };
        for i in 0..rows {
            for column in (0..columns).step_by(S::LANES) {
                let n = (columns - column).min(S::LANES);
                // SAFETY: the result has the rows and columns that are finished, and there are
                // their sums.
                let (c, mut x) = unsafe {
                    let from = sums.add(i * ld + column);
                    (self.c.add(i * self.ld + column), S::load(from))
                };
                // SAFETY: the result has the rows and columns that are finished.
                unsafe {
                    if self.accumulate {
                        x = x.add(S::load_part(c, n));
                    }
                    macro_rules! along {
                        ($op:ident, $from:expr) => {
                            if !$from.is_null() {
                                x = x.$op(if e.by_row() {
                                    S::splat(*$from.add(i))
                                } else {
                                    S::load_part($from.add(column), n)
                                });
                            }
                        };
                    }
                    along!(add, e.offset);
                    along!(mul, e.scale);
                    along!(add, e.bias);
                    if !e.residual.is_null() {
                        let at = e.residual.add(i * e.residual_ld as usize + column);
                        x = x.add(S::load_part(at, n));
                    }
                }
                if let Some(bounds) = bounds {
                    x = bounds.of_lanes(x);
                }
                if e.rounds() {
                    x = x.half();
                }
                // SAFETY: the result has the rows and columns that are finished.
                unsafe {
                    x.store_part(c, n);
                }
            }
        }
    }
}
