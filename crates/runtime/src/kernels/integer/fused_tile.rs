//! The innermost parts of [`fused`](super::fused): pixels by channels, from bytes to bytes.
#![allow(clippy::needless_range_loop)] // Indices keep sums out of memory.

use super::fused_scales::{Finish, MOST};
use super::fused_vectors::Wide;
use std::mem::MaybeUninit;

/// Channels of a panel of the packed weight.
pub(super) const PANEL: usize = 16;
/// The most pixels of a tile.
pub(super) const PIXELS: usize = 6;

/// Pixels by channels.
#[derive(Clone, Copy)]
pub(super) struct Tile<'t> {
    /// The first byte of each pixel's window, and where its results go.
    pub pixels: [(*const u8, *mut u8); PIXELS],
    /// How many of the pixels are wanted; the others are copies of one of these.
    pub high: usize,
    /// The positions of runs of adjacent bytes in a window, and the quads of each.
    pub runs: *const usize,
    pub run_count: usize,
    pub quads: usize,
    /// The first panel of the weight, and bytes from one to the next.
    pub weight: *const u8,
    pub panel: usize,
    /// What each channel's sums start with.
    pub start: *const i32,
    pub finish: Finish<'t>,
    /// The channels that are wanted.
    pub wide: usize,
}

/// The sums of a tile, those that were computed.
type Sums = [[MaybeUninit<i32>; MOST]; PIXELS];

/// The sums of `R` pixels from pixel `first` on by `V` vectors of channels from channel `from` on.
/// They stay in registers until they are stored.
#[inline(always)]
unsafe fn sums<S: Wide, const R: usize, const V: usize>(
    t: &Tile<'_>,
    (first, from): (usize, usize),
    all: &mut Sums,
) {
    // SAFETY: windows and panels have what the tile says.
    unsafe {
        let mut sums = [[S::zero(); V]; R];
        for v in 0..V {
            let start = S::load(t.start.add(from + v * S::LANES).cast());
            for i in 0..R {
                sums[i][v] = start;
            }
        }
        let mut weight = t.weight.add(from / PANEL * t.panel + from % PANEL * 4);
        let at: [*const u8; R] = std::array::from_fn(|i| t.pixels[first + i].0);
        for run in 0..t.run_count {
            let offset = *t.runs.add(run);
            let line: [*const u8; R] = std::array::from_fn(|i| at[i].add(offset));
            for q in 0..t.quads {
                let mut w = [S::zero(); V];
                for v in 0..V {
                    let panel = v * S::LANES / PANEL * t.panel + v * S::LANES % PANEL * 4;
                    w[v] = S::load(weight.add(panel));
                }
                for i in 0..R {
                    let x = S::splat(line[i].add(4 * q));
                    for v in 0..V {
                        sums[i][v] = sums[i][v].dot(x, w[v]);
                    }
                }
                weight = weight.add(4 * PANEL);
            }
        }
        for i in 0..R {
            for v in 0..V {
                let to = all[first + i].as_mut_ptr().add(from + v * S::LANES);
                sums[i][v].store(to.cast());
            }
        }
    }
}

/// Computes a tile.
///
/// # Safety
/// Windows, panels, tables and places for results are those that the tile says; the instruction set
/// is enabled.
#[inline(always)]
pub(super) unsafe fn tile<S: Wide>(t: &Tile<'_>) {
    let mut all: Sums = [[MaybeUninit::uninit(); MOST]; PIXELS];
    // SAFETY: as promised.
    unsafe {
        match (S::LANES, t.wide) {
            // A row alone is limited by the weight, which is read once.
            (16, 49..) if t.high == 1 => sums::<S, 1, 4>(t, (0, 0), &mut all),
            (16, 49..) if t.high <= 4 => sums::<S, 4, 4>(t, (0, 0), &mut all),
            (16, 49..) => sums::<S, PIXELS, 4>(t, (0, 0), &mut all),
            (16, 33..=48) => sums::<S, PIXELS, 3>(t, (0, 0), &mut all),
            (16, 17..=32) => sums::<S, PIXELS, 2>(t, (0, 0), &mut all),
            (16, _) => sums::<S, PIXELS, 1>(t, (0, 0), &mut all),
            (8, wide) => {
                for from in (0..wide).step_by(16) {
                    for first in (0..t.high).step_by(3) {
                        sums::<S, 3, 2>(t, (first, from), &mut all);
                    }
                }
            }
            (lanes, wide) => {
                for from in (0..wide).step_by(lanes) {
                    for first in 0..t.high {
                        sums::<S, 1, 1>(t, (first, from), &mut all);
                    }
                }
            }
        }
        match t.high {
            PIXELS => put::<S, PIXELS>(t, &all, 0),
            high => (0..high).for_each(|pixel| put::<S, 1>(t, &all, pixel)),
        }
    }
}

/// Makes and stores the results of `R` pixels from pixel `first` on.
#[inline(always)]
unsafe fn put<S: Wide, const R: usize>(t: &Tile<'_>, all: &Sums, first: usize) {
    for v in (0..t.wide).step_by(S::LANES) {
        // SAFETY: the pixels' sums were computed; as for the tile.
        unsafe {
            // All pixels of a vector's channels, so that tables are loaded once.
            let mut results = [S::zero(); R];
            for i in 0..R {
                results[i] = S::load(all[first + i].as_ptr().add(v).cast());
            }
            t.finish.all(results.iter_mut(), v);
            let some = t.wide - v;
            for i in 0..R {
                let to = t.pixels[first + i].1.add(v);
                match some >= S::LANES {
                    true => results[i].store_low(to),
                    false => results[i].store_low_some(to, some),
                }
            }
        }
    }
}

/// A row of pixels of a block of channels, each with a window of its own.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    /// The first window's first byte of the block.
    pub x: *const u8,
    /// Bytes from one window to the next, and from one result to the next.
    pub step: usize,
    pub out_step: usize,
    pub count: usize,
    /// The position of each tap in a window, a multiple of four: those beyond the window have
    /// weight 0.
    pub taps: *const usize,
    pub quads: usize,
    /// The block's quads of taps, of [`MOST`] channels each, in the order of [`lane`].
    pub weight: *const u8,
    /// As of a tile, in the order of [`lane`].
    pub start: *const i32,
    pub finish: Finish<'t>,
    pub y: *mut u8,
    /// The channels that are wanted.
    pub wide: usize,
}

/// The channel of a block at a place of its tables: interleaved bytes have the same place in every
/// 16 of them.
pub(super) fn lane(place: usize) -> usize {
    place % 16 / 4 * 16 + place / 16 * 4 + place % 4
}

/// Computes a row.
///
/// # Safety
/// Like [`tile`]; windows have [`MOST`] bytes at each tap.
#[inline(always)]
pub(super) unsafe fn row<S: Wide>(r: &Row<'_>) {
    // SAFETY: as promised; bytes beyond the wanted channels go to the stack.
    unsafe {
        if S::LANES == 4 {
            return plain_row(r);
        }
        let bytes = 4 * S::LANES;
        for from in (0..r.wide).step_by(bytes) {
            for pixel in 0..r.count {
                let x = r.x.add(pixel * r.step + from);
                let start = |j: usize| S::load(r.start.add(j * PANEL + from / 4).cast());
                let mut sums = [start(0), start(1), start(2), start(3)];
                for q in 0..r.quads {
                    let tap = |k: usize| S::load(x.add(*r.taps.add(4 * q + k)));
                    let (a, b) = tap(0).interleave8(tap(1));
                    let (c, d) = tap(2).interleave8(tap(3));
                    let ((s, t), (u, v)) = (a.interleave16(c), b.interleave16(d));
                    for (j, quad) in [s, t, u, v].into_iter().enumerate() {
                        let w = S::load(r.weight.add((q * 4 + j) * MOST + from));
                        sums[j] = sums[j].dot(quad, w);
                    }
                }
                for (j, sum) in sums.iter_mut().enumerate() {
                    let at = j * PANEL + from / 4;
                    r.finish.all(std::iter::once(sum), at);
                }
                let y = S::join(sums);
                let to = r.y.add(pixel * r.out_step + from);
                y.store_some(to, (r.wide - from).min(bytes));
            }
        }
    }
}

/// A row, channel by channel.
unsafe fn plain_row(r: &Row<'_>) {
    // SAFETY: as promised.
    unsafe {
        for (pixel, place) in (0..r.count).flat_map(|p| (0..MOST).map(move |c| (p, c))) {
            let channel = lane(place);
            if channel >= r.wide {
                continue;
            }
            let x = r.x.add(pixel * r.step + channel);
            let mut sum = *r.start.add(place);
            for tap in 0..4 * r.quads {
                let w = *r.weight.add((tap / 4 * MOST + place) * 4 + tap % 4) as i8;
                let product = i32::from(*x.add(*r.taps.add(tap))) * i32::from(w);
                sum = sum.wrapping_add(product);
            }
            let y = r.finish.one(sum, place);
            *r.y.add(pixel * r.out_step + channel) = y as u8;
        }
    }
}
