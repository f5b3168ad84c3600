//! A block of the unfolded image (im2col), packed as matrix products read it.

use super::Sizes;
use crate::kernels::gemm::tile::{COLS, ROWS};
use crate::kernels::padded::Padded;
use crate::kernels::simd::{Simd, load_two};
use std::ops::Range;

/// Adjacent output pixels of a group of 16.
#[derive(Clone, Copy, Default)]
struct Pixels {
    /// The first of them in the group.
    to: usize,
    row: usize,
    column: usize,
    len: usize,
}

/// Adjacent pixels of a group of 16 whose inputs lie in a row.
#[derive(Clone, Copy, Default)]
struct Run {
    to: usize,
    from: usize,
    len: usize,
}

/// The channels that are unfolded: in place, or padded.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The first channel.
    pub x: *const f32,
    /// Floats from one channel to the next.
    pub plane: usize,
    /// The layout of channels, when padded: from the inputs of an output row on.
    pub padded: Option<(&'a Padded, usize)>,
}

/// Splits `count` pixels from `first` on into parts of output rows; returns their number.
#[inline(always)]
fn parts(s: &Sizes, first: usize, count: usize, parts: &mut [Pixels; COLS]) -> usize {
    let (mut n, mut to) = (0, 0);
    let (mut row, mut column) = (first / s.ow, first % s.ow);
    while to < count {
        let len = (s.ow - column).min(count - to);
        parts[n] = Pixels {
            to,
            row,
            column,
            len,
        };
        n += 1;
        to += len;
        column += len;
        if column == s.ow {
            (row, column) = (row + 1, 0);
        }
    }
    n
}

/// Returns the inputs of adjacent pixels for one window position; pixels whose input is outside the
/// image are omitted.
#[inline(always)]
fn run(
    s: &Sizes,
    padded: Option<(&Padded, usize)>,
    p: Pixels,
    (ky, kx): (usize, usize),
) -> Option<Run> {
    if let Some((padded, top)) = padded {
        return Some(Run {
            to: p.to,
            from: (p.row - top) * s.sh * padded.row + padded.tap(ky, kx) + p.column,
            len: p.len,
        });
    }
    let y = (p.row * s.sh + ky * s.dh) as isize - s.pt;
    let x = (p.column * s.sw + kx * s.dw) as isize - s.pl;
    let skipped = ((-x).max(0) as usize).div_ceil(s.sw);
    let end = usize::try_from(s.w as isize - x)
        .ok()?
        .div_ceil(s.sw)
        .min(p.len);
    if y < 0 || y as usize >= s.h || skipped >= end {
        return None;
    }
    Some(Run {
        to: p.to + skipped,
        from: (y as usize * s.w).checked_add_signed(x + (skipped * s.sw) as isize)?,
        len: end - skipped,
    })
}

/// Packs pixels as columns: panels of 16 pixels, `common.len()` rows each. `common` is whole
/// channels: a row for each channel and window position.
///
/// # Safety
/// `source` is the group's channels of an image, `out` has room for the panels.
#[inline(always)]
pub unsafe fn columns<S: Simd>(
    s: &Sizes,
    source: Source,
    pixels: Range<usize>,
    common: Range<usize>,
    out: *mut f32,
) {
    let taps = s.kh * s.kw;
    let (deep, plane) = (common.len(), source.plane);
    if taps == 0 {
        return;
    }
    let (c0, c1) = (common.start / taps, common.end / taps);
    // A padded copy has columns sorted by their remainder modulo the step.
    let step = if source.padded.is_some() { 1 } else { s.sw };
    let mut lines = [Pixels::default(); COLS];
    let mut runs = [Run::default(); COLS];
    for (panel, first) in pixels.clone().step_by(COLS).enumerate() {
        let count = (pixels.end - first).min(COLS);
        // SAFETY: the image has the pixels' channels; runs lie in the image and in the panel.
        let out = unsafe { out.add(panel * COLS * deep) };
        let parts = parts(s, first, count, &mut lines);
        let mut place = (0, 0);
        for tap in 0..taps {
            let here = place;
            place.1 += 1;
            if place.1 == s.kw {
                place = (place.0 + 1, 0);
            }
            let mut x = source.x.wrapping_add(c0 * plane);
            // SAFETY: the image has the pixels' channels; runs lie in the image and in the panel.
            let mut out = unsafe { out.add(tap * COLS) };
            // The most frequent case: all pixels are in a row, and their inputs too.
            // SAFETY: the image has the pixels' channels; runs lie in the image and in the panel.
            unsafe {
                if parts == 1
                    && step == 1
                    && let Some(run) = run(s, source.padded, lines[0], here)
                    && run.len == COLS
                {
                    for _ in c0..c1 {
                        copy_line::<S>(x.add(run.from), out);
                        x = x.wrapping_add(plane);
                        out = out.wrapping_add(taps * COLS);
                    }
                    continue;
                }
            }
            let (mut n, mut filled) = (0, 0);
            for &part in &lines[..parts] {
                if let Some(run) = run(s, source.padded, part, here) {
                    runs[n] = run;
                    filled += run.len;
                    n += 1;
                }
            }
            // SAFETY: the image has the pixels' channels; runs lie in the image and in the panel.
            unsafe {
                for _ in c0..c1 {
                    if filled < COLS {
                        out.cast::<[f32; COLS]>().write_unaligned([0.0; COLS]);
                    }
                    for run in &runs[..n] {
                        copy_run::<S>((x.add(run.from), step), out.add(run.to), run.len);
                    }
                    x = x.wrapping_add(plane);
                    out = out.wrapping_add(taps * COLS);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn copy_line<S: Simd>(from: *const f32, to: *mut f32) {
    for lane in (0..COLS).step_by(S::LANES) {
        // SAFETY: both have a line of `COLS` floats.
        unsafe { S::load(from.add(lane)).store(to.add(lane)) };
    }
}

#[inline(always)]
unsafe fn copy_run<S: Simd>((from, step): (*const f32, usize), to: *mut f32, len: usize) {
    // SAFETY: both have `len` floats, those of the first `step` apart.
    unsafe {
        if len == 1 {
            *to = *from;
            return;
        }
        if step == 2 {
            for lane in (0..len).step_by(S::LANES) {
                let n = (len - lane).min(S::LANES);
                // Nothing is read behind the last of them.
                let (first, second) = load_two::<S>(from.add(2 * lane), 2 * n - 1);
                S::unzip(first, second).0.store_part(to.add(lane), n);
            }
            return;
        }
        if step > 2 {
            for i in 0..len {
                *to.add(i) = *from.add(i * step);
            }
            return;
        }
        for lane in (0..len).step_by(S::LANES) {
            let n = (len - lane).min(S::LANES);
            S::load_part(from.add(lane), n).store_part(to.add(lane), n);
        }
    }
}

/// Packs pixels as rows: panels of 8 pixels, `common.len()` steps each, in the order window row,
/// window column, channel.
///
/// # Safety
/// `x` is the group's first channel of an image with channels last, `out` has room for the panels.
#[inline(always)]
pub unsafe fn rows(
    s: &Sizes,
    x: *const f32,
    pixels: Range<usize>,
    common: Range<usize>,
    out: *mut f32,
) {
    let deep = common.len();
    if s.cg == 0 {
        return;
    }
    for (panel, first) in pixels.clone().step_by(ROWS).enumerate() {
        // SAFETY: the image has the pixels' channels, and `out` room for the panels.
        let out = unsafe { out.add(panel * ROWS * deep) };
        for lane in 0..ROWS {
            let pixel = first + lane;
            let mut p = common.start;
            while p < common.end {
                let (tap, c0) = (p / s.cg, p % s.cg);
                let len = (s.cg - c0).min(common.end - p);
                // SAFETY: the image has the pixels' channels, and `out` room for the panels.
                let to = unsafe { out.add((p - common.start) * ROWS + lane) };
                let from = (pixel < pixels.end).then(|| at(s, pixel, tap)).flatten();
                // SAFETY: the image has the pixels' channels, and `out` room for the panels.
                unsafe {
                    match from {
                        Some(from) => {
                            let from = x.add(from + c0);
                            for c in 0..len {
                                *to.add(c * ROWS) = *from.add(c);
                            }
                        }
                        None => {
                            for c in 0..len {
                                *to.add(c * ROWS) = 0.0;
                            }
                        }
                    }
                }
                p += len;
            }
        }
    }
}

/// Returns the offset of the channels of an output pixel's input, for one window position.
#[inline(always)]
fn at(s: &Sizes, pixel: usize, tap: usize) -> Option<usize> {
    let y = (pixel / s.ow * s.sh + tap / s.kw * s.dh) as isize - s.pt;
    let x = (pixel % s.ow * s.sw + tap % s.kw * s.dw) as isize - s.pl;
    let inside = y >= 0 && x >= 0 && (y as usize) < s.h && (x as usize) < s.w;
    inside.then(|| (y as usize * s.w + x as usize) * s.c)
}
