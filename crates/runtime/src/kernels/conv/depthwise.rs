//! Depthwise convolution: every channel has its own windows.

use super::across::{self, channel_across};
use super::channels_last::channels_last;
use super::twos::{channel_twos, in_twos};
use super::vectors::{put, spread3, within};
use super::{RxConv2dF32, SMALL_DEPTHWISE, Sizes, flat, lanes};
use crate::context::RxContext;
use crate::kernels::gemm::epilogue::Line;
use crate::kernels::padded::Padded;
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{Isa, Simd, dispatch, isa};
use crate::threads::{Grain, Share};

/// How windows read padded copies.
pub(super) struct Copied<'a> {
    pub padded: Padded,
    /// The place of each position of the window, from that of its first one on.
    pub places: &'a [usize],
    /// Weights of an output channel.
    pub weights: usize,
}

impl Copied<'_> {
    /// Writes the places of a window's positions, of which there are `kh * kw`.
    pub fn fill_places(padded: &Padded, s: &Sizes, places: &mut [usize]) {
        for (tap, place) in places.iter_mut().enumerate() {
            *place = padded.tap(tap / s.kw, tap % s.kw);
        }
    }
}

/// A plane that windows are over: an image, or one of those of a volume.
#[derive(Clone, Copy)]
pub(super) struct Over {
    /// Its padded copy.
    pub copy: *const f32,
    /// The part of an output channel's weight that is over it.
    pub weight: usize,
}

/// All output channels of one input channel of one image.
#[inline(always)]
unsafe fn plane<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    copied: &Copied<'_>,
    (image, channel): (usize, usize),
    room: *mut f32,
) {
    // SAFETY: image and channel are the convolution's, whose arrays have its sizes; `room` has the
    // padded channel's size.
    unsafe {
        let x = v.x.add((image * s.c + channel) * s.h * s.w);
        copied.padded.fill::<S>(x, room);
        let over = Over {
            copy: room,
            weight: 0,
        };
        sums::<S>(v, s, copied, &[over], (image, channel, 0));
    }
}

/// All output channels of one input channel of an image, or of a plane of a volume that begins at an
/// element of it: the sums of windows over some planes.
///
/// # Safety
/// Image and channel are the convolution's, whose arrays have its sizes; the copies have those of
/// `copied`.
#[inline(always)]
pub(super) unsafe fn sums<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    copied: &Copied<'_>,
    over: &[Over],
    (image, channel, first): (usize, usize, usize),
) {
    let padded = &copied.padded;
    let within = taps(s.kw, s.dw, s.pl, (s.ow - 1) * s.sw, s.w);
    // SAFETY: as the caller promises.
    unsafe {
        let full = s.target(v, image, channel, first);
        for m in 0..s.og {
            let weight = v.weight.add((channel * s.og + m) * copied.weights);
            let mut to = full.line::<S>(m);
            let start = to.start();
            let mut oy = 0;
            if (s.kh, s.kw, s.dh) == (3, 3, 1) && matches!(s.sh, 1 | 2) {
                while oy < s.oh {
                    let (from, to) = ((oy, weight), (start, &to));
                    macro_rules! rows {
                        ($step:literal, $r:literal) => {
                            copied3::<S, $step, $r>(s, copied, over, from, to)
                        };
                    }
                    oy += match (s.sh, s.oh - oy) {
                        (1, 4..) => rows!(1, 4),
                        (1, 3) => rows!(1, 3),
                        (1, 2) => rows!(1, 2),
                        (1, _) => rows!(1, 1),
                        (_, 4..) => rows!(2, 4),
                        (_, 3) => rows!(2, 3),
                        (_, 2) => rows!(2, 2),
                        _ => rows!(2, 1),
                    };
                }
                continue;
            }
            while oy < s.oh {
                // Several rows are summed at a time, so that dependency chains overlap and weights
                // are loaded once for all.
                let high = match s.oh - oy {
                    8.. if s.ow <= S::LANES => 8,
                    7 if s.ow <= S::LANES => 7,
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
                let before = s.pt - (oy * s.sh) as isize;
                let rows = taps(s.kh, s.dh, before, (high - 1) * s.sh, s.h);
                let row = oy * s.sh * padded.row;
                for ox in (0..s.ow).step_by(2 * S::LANES) {
                    let columns = (s.ow - ox).min(2 * S::LANES);
                    let from = (row + ox, weight);
                    let taps = [&rows, &within];
                    macro_rules! rows {
                        ($nv:literal, $r:literal) => {{
                            let acc = lines::<S, $nv, $r>(s, copied, over, from, taps, start);
                            put(acc, s, (oy * s.ow + ox, columns), &to)
                        }};
                    }
                    match (columns > S::LANES, high) {
                        (false, 8) => rows!(1, 8),
                        (false, 7) => rows!(1, 7),
                        (false, 4) => rows!(1, 4),
                        (true, 4) => rows!(2, 4),
                        (false, 2) => rows!(1, 2),
                        (true, 2) => rows!(2, 2),
                        (false, _) => rows!(1, 1),
                        (true, _) => rows!(2, 1),
                    }
                }
                oy += high;
            }
        }
    }
}

/// Returns the taps of a window, `distance` apart, that are inside the image for any of the outputs
/// whose windows begin between `before` in front of the image and `beyond` after that. The others
/// read only padding.
pub(super) fn taps(
    count: usize,
    distance: usize,
    before: isize,
    beyond: usize,
    size: usize,
) -> std::ops::Range<usize> {
    let places = |reach: isize| match distance {
        1 => reach.max(0) as usize,
        _ => (reach.max(0) as usize).div_ceil(distance),
    };
    let first = places(before - beyond as isize).min(count);
    first..places(size as isize + before).min(count).max(first)
}

/// Returns whether windows are read from the image in place: 3 by 3 with stride 1, for which a
/// padded copy would take as long as the sums, where loading some lanes is one instruction.
pub(super) fn as_it_lies(s: &Sizes) -> bool {
    let plain = (s.kh, s.kw, s.sh, s.sw, s.dh, s.dw) == (3, 3, 1, 1, 1, 1);
    plain && !s.nhwc && isa() != Isa::Portable
}

/// Like [`plane`], without a copy of the channel.
#[inline(always)]
unsafe fn plane3<S: Simd>(v: &RxConv2dF32, s: &Sizes, (image, channel): (usize, usize)) {
    // SAFETY: image and channel are the convolution's, whose arrays have its sizes.
    unsafe {
        let x = v.x.add((image * s.c + channel) * s.h * s.w);
        let full = s.target(v, image, channel, 0);
        for m in 0..s.og {
            let weight = v.weight.add((channel * s.og + m) * 9);
            let mut to = full.line::<S>(m);
            let to = (to.start(), &to);
            if s.ow > S::LANES {
                // Two vectors where registers hold their sums beside the weights.
                let wide = if S::LANES >= 16 { 2 } else { 1 } * S::LANES;
                let steps = s.ow.div_ceil(wide) * (s.oh + 2);
                let mut ahead = Ahead::of(x.wrapping_add(s.h * s.w), s.h * s.w, steps);
                for ox in (0..s.ow).step_by(wide) {
                    let left = ox as isize - s.pl;
                    let edge = left < 0 || left + (wide + 2) as isize > s.w as isize;
                    match (s.ow - ox > S::LANES && wide > S::LANES, edge) {
                        (true, true) => down3::<S, 2, true>(s, (x, &mut ahead), weight, ox, to),
                        (true, false) => down3::<S, 2, false>(s, (x, &mut ahead), weight, ox, to),
                        (false, true) => down3::<S, 1, true>(s, (x, &mut ahead), weight, ox, to),
                        (false, false) => down3::<S, 1, false>(s, (x, &mut ahead), weight, ox, to),
                    }
                }
                continue;
            }
            let mut oy = 0;
            while oy < s.oh {
                oy += match s.oh - oy {
                    7.. if S::LANES >= 16 => rows3::<S, 7>(s, x, weight, oy, to),
                    4.. => rows3::<S, 4>(s, x, weight, oy, to),
                    2.. => rows3::<S, 2>(s, x, weight, oy, to),
                    _ => rows3::<S, 1>(s, x, weight, oy, to),
                };
            }
        }
    }
}

/// What is read after this, brought to the caches while this is computed: the order in which windows
/// read an image is none that processors foresee.
struct Ahead {
    at: *const f32,
    /// Floats that each step brings.
    pace: usize,
}

impl Ahead {
    /// So many floats in so many steps.
    fn of(at: *const f32, floats: usize, steps: usize) -> Self {
        Self {
            at,
            pace: floats.div_ceil(steps.max(1)),
        }
    }

    /// The next step.
    ///
    /// # Safety
    /// The instruction set of `S` is enabled.
    #[inline(always)]
    unsafe fn fetch<S: Simd>(&mut self) {
        // A line of a cache has 16 floats.
        let end = self.at.wrapping_add(self.pace);
        let mut line = self.at;
        while line < end {
            // SAFETY: a hint, which accesses nothing.
            unsafe { S::prefetch(line) };
            line = line.wrapping_add(16);
        }
        self.at = end;
    }
}

/// Computes `R` output rows, which it returns, of one vector, so that dependency chains overlap.
/// Each row of the image is read once for the three output rows that it contributes to, with all
/// nine weights in registers.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn rows3<S: Simd, const R: usize>(
    s: &Sizes,
    x: *const f32,
    weight: *const f32,
    oy: usize,
    (start, to): (S, &Line<S>),
) -> usize {
    // SAFETY: the rows lie in the image and the output; lanes beyond the image are not read.
    unsafe {
        let mut acc = [[start; 1]; R];
        let w = spread3::<S>(weight);
        let mut inside = [S::lanes(0, 0); 3];
        for kx in 0..3 {
            inside[kx] = within::<S>(s, kx as isize - s.pl);
        }
        for i in 0..R + 2 {
            let y = (oy + i) as isize - s.pt;
            if y < 0 || y as usize >= s.h {
                continue;
            }
            let row = x.wrapping_offset(y * s.w as isize - s.pl);
            for kx in 0..3 {
                let x = S::load_lanes(row.wrapping_add(kx), inside[kx]);
                for r in 0..R {
                    if i >= r && i < r + 3 {
                        acc[r][0] = w[i - r][kx].fma(x, acc[r][0]);
                    }
                }
            }
        }
        put(acc, s, (oy * s.ow, s.ow), to);
    }
    R
}

/// Computes columns of `NV` vectors from `ox` on, from the first row of the output to the last:
/// each row of the image is read once, and added to the three output rows that it contributes to,
/// whose sums and all nine weights are in registers. Where they are no `EDGE`, windows lie between
/// the image's first column and its last.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn down3<S: Simd, const NV: usize, const EDGE: bool>(
    s: &Sizes,
    (x, ahead): (*const f32, &mut Ahead),
    weight: *const f32,
    ox: usize,
    (start, to): (S, &Line<S>),
) {
    let columns = (s.ow - ox).min(NV * S::LANES);
    // SAFETY: the columns lie in the output; lanes beyond the image are not read.
    let w = unsafe { spread3::<S>(weight) };
    let left = ox as isize - s.pl;
    // SAFETY: the columns lie in the output; lanes beyond the image are not read.
    let mut inside = unsafe { [[S::lanes(0, 0); 3]; NV] };
    // SAFETY: the columns lie in the output; lanes beyond the image are not read.
    unsafe {
        for v in 0..NV {
            for kx in 0..3 {
                inside[v][kx] = within::<S>(s, (v * S::LANES + kx) as isize + left);
            }
        }
    }
    // The sums of the rows above, here and below rotate.
    let mut sums = [[start; NV]; 3];
    let mut i = 0;
    macro_rules! row {
        ($above:literal, $here:literal, $below:literal) => {
            if i == s.oh + 2 {
                return;
            }
            ahead.fetch::<S>();
            sums[$below] = [start; NV];
            let y = i as isize - s.pt;
            if y >= 0 && (y as usize) < s.h {
                let row = x.wrapping_offset(y * s.w as isize + left);
                let mut of_row = [[S::splat(0.0); NV]; 3];
                for kx in 0..3 {
                    for v in 0..NV {
                        let at = row.wrapping_add(kx + v * S::LANES);
                        let x = match EDGE {
                            true => S::load_lanes(at, inside[v][kx]),
                            false => S::load(at),
                        };
                        // Three sums of a single vector are too few to wait for from row to row:
                        // what a row adds is summed first.
                        if NV > 1 {
                            sums[$above][v] = w[2][kx].fma(x, sums[$above][v]);
                            sums[$here][v] = w[1][kx].fma(x, sums[$here][v]);
                        } else if kx == 0 {
                            of_row[0][v] = w[2][kx].mul(x);
                            of_row[1][v] = w[1][kx].mul(x);
                        } else {
                            of_row[0][v] = w[2][kx].fma(x, of_row[0][v]);
                            of_row[1][v] = w[1][kx].fma(x, of_row[1][v]);
                        }
                        sums[$below][v] = w[0][kx].fma(x, sums[$below][v]);
                    }
                }
                if NV == 1 {
                    sums[$above][0] = sums[$above][0].add(of_row[0][0]);
                    sums[$here][0] = sums[$here][0].add(of_row[1][0]);
                }
            }
            if i >= 2 {
                put([sums[$above]], s, ((i - 2) * s.ow + ox, columns), to);
            }
            i += 1;
        };
    }
    // SAFETY: the columns lie in the output; lanes beyond the image are not read.
    unsafe {
        loop {
            row!(0, 1, 2);
            row!(1, 2, 0);
            row!(2, 0, 1);
        }
    }
}

/// Computes `R` output rows, which it returns, of windows of 3 by 3: each row of a copy is read once
/// for the output rows that it contributes to, with the nine weights over a plane in registers.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn copied3<S: Simd, const STEP: usize, const R: usize>(
    s: &Sizes,
    copied: &Copied<'_>,
    over: &[Over],
    (oy, weight): (usize, *const f32),
    (start, to): (S, &Line<S>),
) -> usize {
    let pitch = copied.padded.row;
    let [a, b, c] = [copied.places[0], copied.places[1], copied.places[2]];
    for ox in (0..s.ow).step_by(S::LANES) {
        let mut acc = [[start; 1]; R];
        for plane in over {
            // SAFETY: the copies hold what all windows read, and vectors beyond them.
            unsafe {
                let w = spread3::<S>(weight.add(plane.weight));
                let mut row = plane.copy.add(oy * STEP * pitch + ox);
                // Not a loop: the sums of one that is not unrolled would be in memory.
                macro_rules! rows {
                    ($($i:literal)*) => {$(
                        if $i < 3 + (R - 1) * STEP {
                            let x = [S::load(row.add(a)), S::load(row.add(b)), S::load(row.add(c))];
                            // Sums of a row first: a sum of all would wait for each of them.
                            for r in 0..R {
                                if $i >= r * STEP && $i < r * STEP + 3 {
                                    let w = &w[$i - r * STEP];
                                    let sum = w[2].fma(x[2], w[1].fma(x[1], w[0].mul(x[0])));
                                    acc[r][0] = acc[r][0].add(sum);
                                }
                            }
                            row = S::pinned(row, &mut acc[($i / STEP).min(R - 1)][0]);
                            row = row.wrapping_add(pitch);
                        }
                    )*};
                }
                rows!(0 1 2 3 4 5 6 7 8);
            }
        }
        // SAFETY: the output has these rows and columns.
        unsafe { put(acc, s, (oy * s.ow + ox, (s.ow - ox).min(S::LANES)), to) };
    }
    R
}

/// The sums of `R` output rows of `NV` vectors, whose windows begin at an element of the copies.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn lines<S: Simd, const NV: usize, const R: usize>(
    s: &Sizes,
    copied: &Copied<'_>,
    over: &[Over],
    (from, weight): (usize, *const f32),
    [rows, within]: [&std::ops::Range<usize>; 2],
    start: S,
) -> [[S; NV]; R] {
    let down = s.sh * copied.padded.row;
    let places = copied.places.as_ptr();
    // SAFETY: rows and places of the window lie in the padded channel.
    unsafe {
        let mut acc = [[start; NV]; R];
        for plane in over {
            let (from, weight) = (plane.copy.add(from), weight.add(plane.weight));
            for ky in rows.clone() {
                for tap in ky * s.kw + within.start..ky * s.kw + within.end {
                    let at = from.add(*places.add(tap));
                    let w = S::splat(*weight.add(tap));
                    for r in 0..R {
                        let at = at.add(r * down);
                        for v in 0..NV {
                            acc[r][v] = w.fma(S::load(at.add(v * S::LANES)), acc[r][v]);
                        }
                    }
                }
            }
        }
        acc
    }
}

/// The whole convolution.
///
/// # Safety
/// Like `rx_conv2d_f32`; no size of the output is 0.
pub(super) unsafe fn run(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes) -> i32 {
    let shared_v = v;
    let row_work = s.ow * s.kh * s.kw;
    // SAFETY: the arrays have the convolution's sizes; tasks write disjoint rows or channels.
    unsafe {
        if s.nhwc {
            let shared = Share::new((shared_v, s));
            let grain = Grain::of_work(SMALL_DEPTHWISE, row_work * s.c);
            context.pool.each(s.n * s.oh, grain, |begin, end, _| {
                let &(v, s) = shared.get();
                for task in begin..end {
                    let (image, oy) = (task / s.oh, task % s.oh);
                    dispatch!(channels_last(v: &RxConv2dF32, s: &Sizes, image: usize, oy: usize));
                }
            });
            return 0;
        }
        let grain = Grain::of_work(SMALL_DEPTHWISE, row_work * s.oh * s.og);
        if flat::can(s) {
            let Some(masks) = Scratch::new(context, flat::masks(s) * size_of::<u16>()) else {
                return context.status;
            };
            let masks = masks.memory.cast::<u16>();
            flat::fill(s, masks);
            let shared = Share::new((shared_v, s, masks.cast_const()));
            context.pool.each(s.n * s.c, grain, |begin, end, _| {
                let &(v, s, masks) = shared.get();
                let mut task = begin;
                while task < end {
                    let (image, first) = (task / s.c, task % s.c);
                    let channels = first..s.c.min(first + (end - task));
                    task += channels.len();
                    flat::channels(v, s, image, channels, masks);
                }
            });
            return 0;
        }
        // Where rows are short, vectors of 16 lanes that are half full still do better in place.
        let lie = isa() == Isa::Avx512 && s.ow > 8 || !lanes::pays(s);
        // A channel is a task, which reads the image in place.
        macro_rules! by_channel {
            ($kernel:ident) => {{
                let shared = Share::new((shared_v, s));
                context.pool.each(s.n * s.c, grain, |begin, end, _| {
                    let &(v, s) = shared.get();
                    for task in begin..end {
                        let at = (task / s.c, task % s.c);
                        dispatch!($kernel(v: &RxConv2dF32, s: &Sizes, at: (usize, usize)));
                    }
                });
                return 0;
            }};
        }
        if across::can(s) && lie {
            by_channel!(channel_across);
        }
        if in_twos(s) && lie {
            by_channel!(channel_twos);
        }
        if lanes::pays(s) && !(as_it_lies(s) && lie) {
            return lanes::run(context, v, s);
        }
        if as_it_lies(s) {
            by_channel!(plane3);
        }
        let padded = Padded::of(s.window());
        let room = padded.floats().next_multiple_of(16);
        let threads = context.pool.threads();
        let floats = room.saturating_mul(threads).saturating_mul(4);
        let table = s.kh * s.kw;
        let Some(memory) = Scratch::new(context, floats.saturating_add(8 * table)) else {
            return context.status;
        };
        let rooms = memory.memory.cast::<f32>();
        // The zeros of the padding, which filling does not overwrite.
        std::ptr::write_bytes(rooms, 0, room * threads);
        let places = rooms.add(room * threads).cast::<usize>();
        let places = std::slice::from_raw_parts_mut(places, table);
        Copied::fill_places(&padded, s, places);
        let copied = Copied {
            padded,
            places,
            weights: table,
        };
        let shared = Share::new((shared_v, s, &copied, rooms));
        context.pool.each(s.n * s.c, grain, |begin, end, worker| {
            let &(v, s, copied, rooms) = shared.get();
            let room = rooms.add(worker * room);
            for task in begin..end {
                let at = (task / s.c, task % s.c);
                dispatch!(plane(
                    v: &RxConv2dF32,
                    s: &Sizes,
                    copied: &Copied<'_>,
                    at: (usize, usize),
                    room: *mut f32,
                ));
            }
        });
    }
    0
}
