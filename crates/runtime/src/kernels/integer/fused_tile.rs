//! The innermost parts of [`fused`](super::fused): pixels by channels, from bytes to bytes.
#![allow(clippy::needless_range_loop)] // Indices keep sums out of memory.

use super::fused_scales::{Finish, MOST, PANEL};
#[cfg(target_arch = "x86_64")]
use super::fused_vectors::x86;
use super::fused_vectors::{Plain, Wide};
use std::mem::MaybeUninit;

/// The most pixels of a tile.
pub(super) const PIXELS: usize = 8;
/// Pixels that are whole tiles, however many such a tile has.
pub(super) const BLOCK: usize = 24;

/// For each quad of a group, the place among 16 bytes of each byte that a panel's channels read.
pub(super) type Picks = [[u8; 4 * PANEL]; 4];

/// Pixels by channels.
#[derive(Clone, Copy)]
pub(super) struct Tile<'t> {
    /// The first byte of each pixel's window, where its results go, and the runs of the window that
    /// are wanted where it is clipped.
    pub pixels: [(*const u8, *mut u8, [usize; 2]); PIXELS],
    /// Whether only some runs of windows are wanted.
    pub clipped: bool,
    /// How many of the pixels are wanted; the others are copies of one of these.
    pub high: usize,
    /// The positions of runs of adjacent bytes in a window, and the quads of each.
    pub runs: *const usize,
    pub run_count: usize,
    pub quads: usize,
    /// Where the channels of a panel are several groups, what each reads.
    pub picks: Option<&'t Picks>,
    /// What makes bytes of the data unsigned: `0x80` of signed ones. A whole vector, so that the data
    /// is read into all lanes by the operation that flips it: compilers would flip a word that they
    /// know to be in all lanes first, and spread it then, where products are summed.
    pub flip: [u8; 4 * PANEL],
    /// The first panel of the weight, and bytes from one to the next.
    pub weight: *const u8,
    pub panel: usize,
    /// What each channel's sums start with.
    pub start: *const i32,
    /// What is taken off these times the sum of a pixel's window, beside.
    pub lowered: i32,
    pub finish: Finish<'t>,
    /// The channels that are wanted.
    pub wide: usize,
}

impl Tile<'_> {
    /// How many pixels are computed together: with AVX-512 more where few channels share what a pixel
    /// costs; with AVX2 four at a time, or three where lanes pick their quads.
    pub(super) fn pixels<S: Wide>(&self) -> usize {
        match S::LANES {
            16 if self.wide > PANEL && self.picks.is_none() => 6,
            8 if self.picks.is_some() => 6,
            _ => 8,
        }
    }
}

/// The sums of a tile, or what they start with: those that were computed.
type Sums = [[MaybeUninit<i32>; MOST]; PIXELS];

/// What each pixel's sums start with.
#[derive(Clone, Copy)]
struct Starts {
    /// Those of the first pixel, and numbers from one pixel to the next.
    from: *const i32,
    step: usize,
}

/// Returns the sum of the bytes of a window.
#[inline(always)]
unsafe fn window<S: Wide>(t: &Tile<'_>, at: *const u8) -> i32 {
    let (ones, each) = ([1u8; 64], S::LANES);
    let mut lanes = [0i32; 16];
    // SAFETY: the window has whole quads, and no vector has more than 16 lanes.
    unsafe {
        let (ones, flip) = (S::load(ones.as_ptr()), S::load(t.flip.as_ptr()));
        // Lanes of several quads, and one quad in all lanes.
        let (mut apart, mut same) = (S::zero(), S::zero());
        for run in 0..t.run_count {
            let line = at.add(*t.runs.add(run));
            let whole = t.quads - t.quads % each;
            for q in (0..whole).step_by(each) {
                apart = apart.dot(S::load(line.add(4 * q)).xor(flip), ones);
            }
            for q in whole..t.quads {
                same = same.dot(S::splat(line.add(4 * q)).xor(flip), ones);
            }
        }
        same.store(lanes.as_mut_ptr().cast());
        let rest = lanes[0];
        apart.store(lanes.as_mut_ptr().cast());
        lanes[..each].iter().fold(rest, |a, b| a.wrapping_add(*b))
    }
}

/// The sums of `R` pixels from pixel `first` on by `V` vectors of channels from channel `from` on.
/// They stay in registers until they are stored; on the quick way, until they are results. Data is
/// unsigned unless it may be flipped.
#[inline(always)]
unsafe fn sums<S: Wide, const R: usize, const V: usize, const PICK: bool, const FLIP: bool>(
    t: &Tile<'_>,
    (first, from): (usize, usize),
    starts: Starts,
    all: &mut Sums,
) {
    // SAFETY: windows and panels have what the tile says.
    unsafe {
        let mut sums = [[S::zero(); V]; R];
        for v in 0..V {
            let at = starts.from.add(from + v * S::LANES);
            let start = S::load(at.cast());
            for i in 0..R {
                sums[i][v] = match starts.step {
                    0 => start,
                    step => S::load(at.add((first + i) * step).cast()),
                };
            }
        }
        let mut weight = t.weight.add(from / PANEL * t.panel + from % PANEL * 4);
        let flip = S::load(t.flip.as_ptr());
        let at: [*const u8; R] = std::array::from_fn(|i| t.pixels[first + i].0);
        let mut met = [0, t.run_count];
        if t.clipped {
            met = t.pixels[first].2;
            for i in 1..R {
                let [begin, end] = t.pixels[first + i].2;
                met = [met[0].min(begin), met[1].max(end)];
            }
            weight = weight.add(met[0] * t.quads * 4 * PANEL);
        }
        for run in met[0]..met[1] {
            let offset = *t.runs.add(run);
            let line: [*const u8; R] = std::array::from_fn(|i| at[i].add(offset));
            for q in 0..t.quads {
                let mut w = [S::zero(); V];
                for v in 0..V {
                    let panel = v * S::LANES / PANEL * t.panel + v * S::LANES % PANEL * 4;
                    w[v] = S::load(weight.add(panel));
                }
                if let (true, Some(picks)) = (PICK, t.picks) {
                    for v in 0..V {
                        let at = from + v * S::LANES;
                        let pick = S::load(picks[q].as_ptr().add(at % PANEL * 4));
                        for i in 0..R {
                            let x = S::picked(line[i].add(at / PANEL * 16), pick).xor(flip);
                            sums[i][v] = sums[i][v].dot(x, w[v]);
                        }
                    }
                    weight = weight.add(4 * PANEL);
                    continue;
                }
                for i in 0..R {
                    let mut x = S::splat(line[i].add(4 * q));
                    if FLIP {
                        x = x.xor(flip);
                    }
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
            // Several pixels of few channels fill a vector of bytes. Pixels that are not wanted are
            // copies: they have the same results at the same place.
            let most = match (S::LANES, V) {
                (8 | 16, 1) => 4,
                (8, 2) => 2,
                _ => 1,
            };
            for group in 0..R.div_ceil(most) {
                let (begin, mut parts) = (group * most, [S::zero(); 4]);
                let together = most.min(R - begin);
                for i in 0..together {
                    for v in 0..V {
                        parts[i * V + v] = sums[begin + i][v].steps(factor[v]);
                    }
                }
                let bytes = S::bytes(parts, quick).in_order();
                let to = |i: usize| t.pixels[first + begin + i].1.add(from);
                match together {
                    4 => bytes.store_parts([0, 1, 2, 3].map(to), count),
                    2 => bytes.store_halves([0, 1].map(to), count),
                    _ => bytes.store_some(to(0), count),
                }
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
pub(super) unsafe fn tile<S: Ends>(t: &Tile<'_>) {
    let mut all: Sums = [[MaybeUninit::uninit(); MOST]; PIXELS];
    let mut own: Sums = [[MaybeUninit::uninit(); MOST]; PIXELS];
    let (mut from, mut step) = (t.start, 0);
    // SAFETY: as promised; the sums of each pixel start with `MOST` numbers.
    unsafe {
        if t.lowered != 0 {
            for i in 0..t.pixels::<S>() {
                if i >= t.high {
                    own[i] = own[t.high - 1];
                    continue;
                }
                let less = t.lowered.wrapping_mul(window::<S>(t, t.pixels[i].0));
                for c in 0..MOST {
                    own[i][c].write((*t.start.add(c)).wrapping_sub(less));
                }
            }
            (from, step) = (own.as_ptr().cast(), MOST);
        }
        let starts = Starts { from, step };
        match (S::LANES, t.wide, t.picks.is_some()) {
            (16, wide, true) => {
                for from in (0..wide).step_by(16) {
                    sums::<S, PIXELS, 1, true, true>(t, (0, from), starts, &mut all);
                }
            }
            // A row alone is limited by the weight, which is read once.
            (16, 49.., _) if t.high == 1 => {
                sums::<S, 1, 4, false, true>(t, (0, 0), starts, &mut all)
            }
            (16, 49.., _) if t.high <= 4 => {
                sums::<S, 4, 4, false, true>(t, (0, 0), starts, &mut all)
            }
            (16, 49.., _) => sums::<S, 6, 4, false, true>(t, (0, 0), starts, &mut all),
            (16, 33..=48, _) => sums::<S, 6, 3, false, true>(t, (0, 0), starts, &mut all),
            (16, 17..=32, _) => sums::<S, 6, 2, false, true>(t, (0, 0), starts, &mut all),
            (16, _, _) => sums::<S, PIXELS, 1, false, true>(t, (0, 0), starts, &mut all),
            (8, wide, picked) => {
                let flips = t.flip[0] != 0;
                for from in (0..wide).step_by(16) {
                    // A vector of channels is enough.
                    let narrow = !picked && wide - from <= 8;
                    let mut first = 0;
                    while first < t.high {
                        first += match (picked, narrow, t.high - first) {
                            (true, ..) => {
                                sums::<S, 3, 2, true, true>(t, (first, from), starts, &mut all);
                                3
                            }
                            (_, true, _) => {
                                sums::<S, 4, 1, false, true>(t, (first, from), starts, &mut all);
                                4
                            }
                            (.., 4..) if !flips => {
                                sums::<S, 4, 2, false, false>(t, (first, from), starts, &mut all);
                                4
                            }
                            (.., 4..) => {
                                sums::<S, 4, 2, false, true>(t, (first, from), starts, &mut all);
                                4
                            }
                            _ => {
                                sums::<S, 3, 2, false, true>(t, (first, from), starts, &mut all);
                                3
                            }
                        };
                    }
                }
            }
            (lanes, wide, picked) => {
                for from in (0..wide).step_by(lanes) {
                    for first in 0..t.high {
                        match picked {
                            true => sums::<S, 1, 1, true, true>(t, (first, from), starts, &mut all),
                            false => {
                                sums::<S, 1, 1, false, true>(t, (first, from), starts, &mut all)
                            }
                        }
                    }
                }
            }
        }
        if matches!(t.finish, Finish::Float(_, _, Some(_))) && S::LANES > 4 {
            return;
        }
        S::end(t, &all);
    }
}

/// The end of a tile as a function of its own, which has the instruction set itself: within the one
/// that makes the sums, compilers keep fewer of them in registers.
///
/// # Safety
/// As of [`Wide`].
pub(super) unsafe trait Ends: Wide {
    /// Makes and stores the results of a tile whose sums were computed.
    unsafe fn end(t: &Tile<'_>, all: &Sums);
}

// SAFETY: nothing is enabled beyond what every processor has.
unsafe impl Ends for Plain {
    unsafe fn end(t: &Tile<'_>, all: &Sums) {
        // SAFETY: as promised.
        unsafe { results::<Self>(t, all) };
    }
}

#[cfg(target_arch = "x86_64")]
// SAFETY: the function has the instruction set.
unsafe impl Ends for x86::Avx512 {
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
    unsafe fn end(t: &Tile<'_>, all: &Sums) {
        // SAFETY: as promised.
        unsafe { results::<Self>(t, all) };
    }
}

#[cfg(target_arch = "x86_64")]
// SAFETY: the function has the instruction set.
unsafe impl<const BY: u8> Ends for x86::Avx<BY> {
    #[inline(never)]
    #[target_feature(enable = "avx2")]
    unsafe fn end(t: &Tile<'_>, all: &Sums) {
        // SAFETY: as promised.
        unsafe { results::<Self>(t, all) };
    }
}

/// The body of [`Ends::end`].
#[inline(always)]
unsafe fn results<S: Wide>(t: &Tile<'_>, all: &Sums) {
    // SAFETY: the tile has so many pixels, whose sums were computed.
    unsafe {
        match t.high {
            6 => put::<S, 6>(t, all, 0),
            8 => {
                put::<S, 4>(t, all, 0);
                put::<S, 4>(t, all, 4);
            }
            high => {
                for pixel in 0..high {
                    put::<S, 1>(t, all, pixel);
                }
            }
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
            if let Finish::Real(..) = t.finish {
                for i in 0..R {
                    let to = t.pixels[first + i].1.add(4 * v);
                    results[i].store_some(to, 4 * some.min(S::LANES));
                }
                continue;
            }
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
