//! A block of the unfolded image, packed as matrix products read it.

use super::Sizes;
use crate::kernels::gemm::tile::{COLS, ROWS};
use crate::kernels::padded::Padded;
use crate::kernels::simd::Simd;
use std::ops::Range;

/// Neighbouring pixels of a group of 16 whose inputs are neighbours too.
#[derive(Clone, Copy, Default)]
struct Run {
    to: usize,
    from: usize,
    len: usize,
}

/// The channels that are unfolded: as they lie, or padded.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The first channel.
    pub x: *const f32,
    /// Floats from one channel to the next.
    pub plane: usize,
    /// How channels lie, when padded: from the inputs of an output row on.
    pub padded: Option<(&'a Padded, usize)>,
}

/// The runs of 16 output pixels from `first` on for one place of the window; pixels whose input
/// lies outside the image are in none.
fn runs(
    s: &Sizes,
    padded: Option<(&Padded, usize)>,
    first: usize,
    count: usize,
    (ky, kx): (usize, usize),
) -> ([Run; COLS], usize) {
    let mut runs = [Run::default(); COLS];
    let mut n = 0;
    let (mut oy, mut ox) = (first / s.ow, first % s.ow);
    if let Some((padded, top)) = padded {
        // A run for each output row.
        let tap = padded.tap(ky, kx);
        let mut to = 0;
        while to < count {
            let len = (s.ow - ox).min(count - to);
            runs[n] = Run {
                to,
                from: (oy - top) * s.sh * padded.row + tap + ox,
                len,
            };
            n += 1;
            to += len;
            (ox, oy) = (0, oy + 1);
        }
        return (runs, n);
    }
    for to in 0..count {
        let y = (oy * s.sh + ky * s.dh) as isize - s.pt;
        let x = (ox * s.sw + kx * s.dw) as isize - s.pl;
        ox += 1;
        if ox == s.ow {
            (ox, oy) = (0, oy + 1);
        }
        if y < 0 || x < 0 || y as usize >= s.h || x as usize >= s.w {
            continue;
        }
        let from = y as usize * s.w + x as usize;
        if n > 0 {
            let last: &mut Run = &mut runs[n - 1];
            if last.to + last.len == to && last.from + last.len == from {
                last.len += 1;
                continue;
            }
        }
        runs[n] = Run { to, from, len: 1 };
        n += 1;
    }
    (runs, n)
}

/// Where the inputs of 16 output pixels from row `oy` and column `ox` on start, when they are all neighbours.
#[inline(always)]
fn whole(
    s: &Sizes,
    padded: Option<(&Padded, usize)>,
    (oy, ox): (usize, usize),
    (ky, kx): (usize, usize),
) -> Option<usize> {
    if ox + COLS > s.ow {
        return None;
    }
    if let Some((padded, top)) = padded {
        return Some((oy - top) * s.sh * padded.row + padded.tap(ky, kx) + ox);
    }
    let y = (oy * s.sh + ky * s.dh) as isize - s.pt;
    let x = (ox + kx * s.dw) as isize - s.pl;
    let inside = s.sw == 1 && y >= 0 && x >= 0 && (y as usize) < s.h && x as usize + COLS <= s.w;
    inside.then(|| y as usize * s.w + x as usize)
}

/// Packs pixels as columns: panels of 16 pixels, `common.len()` rows each. `common` is whole
/// channels: a row for each channel and place of the window.
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
    // SAFETY: the callers' promise; runs lie in the image and in the panel.
    unsafe {
        for (panel, first) in pixels.clone().step_by(COLS).enumerate() {
            let count = (pixels.end - first).min(COLS);
            let out = out.add(panel * COLS * deep);
            let (mut place, at) = ((0, 0), (first / s.ow, first % s.ow));
            for tap in 0..taps {
                if tap > 0 {
                    place.1 += 1;
                    if place.1 == s.kw {
                        place = (place.0 + 1, 0);
                    }
                }
                let mut x = source.x.wrapping_add(c0 * plane);
                let mut out = out.add(tap * COLS);
                if count == COLS
                    && let Some(from) = whole(s, source.padded, at, place)
                {
                    for _ in c0..c1 {
                        copy_line::<S>(x.add(from), out);
                        x = x.wrapping_add(plane);
                        out = out.wrapping_add(taps * COLS);
                    }
                    continue;
                }
                let (runs, n) = runs(s, source.padded, first, count, place);
                let filled: usize = runs[..n].iter().map(|r| r.len).sum();
                for _ in c0..c1 {
                    if filled < COLS {
                        out.cast::<[f32; COLS]>().write_unaligned([0.0; COLS]);
                    }
                    for run in &runs[..n] {
                        copy_run::<S>(x.add(run.from), out.add(run.to), run.len);
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
        // SAFETY: the callers' promise.
        unsafe { S::load(from.add(lane)).store(to.add(lane)) };
    }
}

#[inline(always)]
unsafe fn copy_run<S: Simd>(from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: the callers' promise.
    unsafe {
        if len == 1 {
            *to = *from;
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
    // SAFETY: the callers' promise.
    unsafe {
        for (panel, first) in pixels.clone().step_by(ROWS).enumerate() {
            let out = out.add(panel * ROWS * deep);
            for lane in 0..ROWS {
                let pixel = first + lane;
                let mut p = common.start;
                while p < common.end {
                    let (tap, c0) = (p / s.cg, p % s.cg);
                    let len = (s.cg - c0).min(common.end - p);
                    let to = out.add((p - common.start) * ROWS + lane);
                    let from = (pixel < pixels.end).then(|| at(s, pixel, tap)).flatten();
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
                    p += len;
                }
            }
        }
    }
}

/// Where the channels of an output pixel's input start, for one place of the window.
#[inline(always)]
fn at(s: &Sizes, pixel: usize, tap: usize) -> Option<usize> {
    let y = (pixel / s.ow * s.sh + tap / s.kw * s.dh) as isize - s.pt;
    let x = (pixel % s.ow * s.sw + tap % s.kw * s.dw) as isize - s.pl;
    let inside = y >= 0 && x >= 0 && (y as usize) < s.h && (x as usize) < s.w;
    inside.then(|| (y as usize * s.w + x as usize) * s.c)
}
