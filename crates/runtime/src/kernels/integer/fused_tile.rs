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
    /// What makes bytes of the data unsigned: `0x80` of signed ones.
    pub flip: [u8; 4],
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
/// They stay in registers until they are stored; on the quick way, until they are results.
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
        let flip = S::splat(t.flip.as_ptr());
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
                    let x = S::splat(line[i].add(4 * q)).xor(flip);
                    for v in 0..V {
                        sums[i][v] = sums[i][v].dot(x, w[v]);
                    }
                }
                weight = weight.add(4 * PANEL);
            }
        }
        if let (Finish::Float(factors, _, Some(quick)), true) = (&t.finish, S::LANES > 4) {
            let mut factor = [S::zero(); V];
            for v in 0..V {
                factor[v] = S::load(factors.as_ptr().add(from + v * S::LANES).cast());
            }
            let count = (t.wide - from).min(V * S::LANES);
            // Pixels that are not wanted are copies: they have the same results at the same place.
            for i in 0..R {
                let mut parts = [S::zero(); 4];
                for v in 0..V {
                    parts[v] = sums[i][v].steps(factor[v]);
                }
                let to = t.pixels[first + i].1.add(from);
                S::bytes(parts, quick).in_order().store_some(to, count);
            }
            return;
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
        if matches!(t.finish, Finish::Float(_, _, Some(_))) && S::LANES > 4 {
            return;
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
