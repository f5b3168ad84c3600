//! 3 by 3 windows with stride 1 by Winograd's algorithm: F(4×4, 3×3) of Lavin and Gray, "Fast
//! Algorithms for Convolutional Neural Networks", 2015.
//!
//! Each tile of 4 by 4 outputs is computed from 6 by 6 inputs. Input and weight are transformed so
//! that one tile takes 36 multiplications for each pair of channels instead of 144; over channels
//! these are 36 matrix products. The transforms cost a few bits of precision: errors are about ten
//! times those of a direct sum of products.
//!
//! A transformed weight is four times as large as the weight, so it is never stored as a whole: the
//! weight is packed in the order in which vectors transform it, and the few output channels at hand
//! are transformed into the second-level cache, where all tiles of a block use them. Reading a
//! quarter of the memory pays for the repeated transforms. With many tiles, tiles are the columns
//! of the products and output channels their rows; with few tiles it is the other way around, so
//! that vectors are full.
#![allow(clippy::needless_range_loop)] // Indices keep vectors out of memory; closures would not be inlined.

mod plan;
mod transform;

use super::{RxConv2dF32, Sizes};
use crate::context::RxContext;
use crate::kernels::gemm::block;
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::gemm::tile::{COLS, Columns, ROWS};
use crate::kernels::padded::Padded;
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};
use plan::{IN, LINE, OUT, PARTS, Plan, TAPS, panel, tiles, window};
pub(super) use plan::{can, cost};
use std::ops::Range;
use transform::{input, lines, weights};

/// Floats of a packed weight from which on what is transformed next is fetched ahead; a smaller one
/// stays in the second cache, or not far from it.
const FETCHED: usize = 256 << 10;

/// Floats of the packed weight.
pub(super) fn packed(s: &Sizes) -> usize {
    let together = LINE / panel(s);
    s.o.next_multiple_of(panel(s)) * s.c.next_multiple_of(together) * TAPS
}

/// Packs the weight in panels of output channels: for each channel (or pair of channels, where a
/// panel has 8) the nine window positions, a line of 16 floats each. Missing elements are 0.
pub(super) unsafe fn pack(s: &Sizes, weight: *const f32, out: *mut f32) {
    let panel = panel(s);
    let together = LINE / panel;
    let deep = s.c.next_multiple_of(together);
    // SAFETY: `weight` has nine floats for each pair of channels, and `out` room for `packed`
    // floats.
    unsafe {
        for at in 0..packed(s) / (LINE * TAPS) {
            let (o0, c0) = (
                at / (deep / together) * panel,
                at % (deep / together) * together,
            );
            let out = out.add(at * LINE * TAPS);
            for lane in 0..LINE {
                let (o, c) = (o0 + lane % panel, c0 + lane / panel);
                for tap in 0..TAPS {
                    let inside = o < s.o && c < s.c;
                    *out.add(tap * LINE + lane) = if inside {
                        *weight.add((o * s.c + c) * TAPS + tap)
                    } else {
                        0.0
                    };
                }
            }
        }
    }
}

/// Some tile rows of one image.
#[derive(Clone, Copy)]
struct Block {
    image: usize,
    first: usize,
    rows: usize,
}

/// The memory of a worker: the transformed inputs that it reads, and its own scratch memory.
#[derive(Clone, Copy)]
struct Rooms {
    inputs: *const f32,
    room: *mut f32,
}

/// Transforms the inputs of some channels. Each matrix of them has, for each panel of tiles, a row
/// per channel.
#[inline(always)]
unsafe fn inputs<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    plan: &Plan,
    at: Block,
    channels: Range<usize>,
    out: *mut f32,
    channel: *mut f32,
) {
    let padded = Padded::of(window(s, at.first, at.rows));
    let matrix = plan.matrix(s);
    let unit = if plan.few { ROWS } else { COLS };
    // SAFETY: the input has the image's channels, `channel` room for a padded one, and `out` for
    // the transformed inputs of a block.
    unsafe {
        std::ptr::write_bytes(channel, 0, padded.floats());
        let mut taps = [[0; IN]; IN];
        for (i, taps) in taps.iter_mut().enumerate() {
            for (j, tap) in taps.iter_mut().enumerate() {
                *tap = padded.tap(i, j);
            }
        }
        for c in channels.clone() {
            padded.fill_fours::<S>(v.x.add((at.image * s.c + c) * s.h * s.w), channel);
            for row in 0..at.rows {
                let from = channel.add(row * OUT * padded.row);
                for x in (0..plan.columns).step_by(S::LANES) {
                    let lanes = (plan.columns - x).min(S::LANES);
                    let mut d = [[S::splat(0.0); IN]; IN];
                    for i in 0..IN {
                        for j in 0..IN {
                            d[i][j] = S::load(from.add(taps[i][j] + x));
                        }
                    }
                    let mut half = [[S::splat(0.0); IN]; IN];
                    for j in 0..IN {
                        let column = input([d[0][j], d[1][j], d[2][j], d[3][j], d[4][j], d[5][j]]);
                        for i in 0..IN {
                            half[i][j] = column[i];
                        }
                    }
                    let tile = row * plan.columns + x;
                    let (lane, fits) = (tile % unit, lanes.min(unit - tile % unit));
                    let to = out.add(tile / unit * s.c * unit + c * unit + lane);
                    let mut parts = [[S::splat(0.0); IN]; IN];
                    for i in 0..IN {
                        parts[i] = input(half[i]);
                    }
                    // Lanes behind the last tile are those of the next row's tiles, or of the next
                    // channels, which come after these where they are ours: with 16 lanes, a
                    // vector reaches the second next one.
                    let reached = c + (lane + S::LANES - 1) / unit;
                    if reached == c || (fits == lanes && reached < channels.end) {
                        for i in 0..IN {
                            for j in 0..IN {
                                parts[i][j].store(to.add((i * IN + j) * matrix));
                            }
                        }
                        continue;
                    }
                    // Lanes that do not fit go to the next panels of tiles.
                    let (mut begin, mut end, mut to) = (0, fits, to);
                    while begin < lanes {
                        for i in 0..IN {
                            for j in 0..IN {
                                let to = to.wrapping_add((i * IN + j) * matrix);
                                parts[i][j].store_between(to, begin, end);
                            }
                        }
                        // The position that lane 0 would have if lane `end` began the next panel.
                        let next = if begin == 0 {
                            s.c * unit - lane
                        } else {
                            s.c * unit
                        };
                        to = to.wrapping_add(next).wrapping_sub(end - begin);
                        (begin, end) = (end, (end + unit).min(lanes));
                    }
                }
            }
        }
    }
}

/// Transforms the weights of a group of output channels from `first` on, for some input channels:
/// matrices of panels, with a row per channel.
#[inline(always)]
unsafe fn transform<S: Simd>(
    s: &Sizes,
    plan: &Plan,
    weight: *const f32,
    outputs: Range<usize>,
    channels: Range<usize>,
    out: *mut f32,
) {
    let (together, part) = (LINE / plan.panel, plan.part());
    let all = s.c.div_ceil(together);
    let lines = channels.start / together..channels.end.div_ceil(together);
    for (k, panel) in (outputs.start / plan.panel..outputs.end.div_ceil(plan.panel)).enumerate() {
        for (l, line) in lines.clone().enumerate() {
            // SAFETY: `weight` is packed, and `out` has room for the matrices of a group of output
            // channels.
            let (from, to) = unsafe {
                (
                    weight.add((panel * all + line) * TAPS * LINE),
                    out.add(k * plan.panel * plan.deep + l * LINE),
                )
            };
            for lane in (0..LINE).step_by(S::LANES) {
                // SAFETY: `weight` is packed, and `out` has room for the matrices of a group of
                // output channels.
                let (from, to) = unsafe { (from.add(lane), to.add(lane)) };
                // SAFETY: the instruction set of `S` is enabled here.
                let mut half = unsafe { [[S::splat(0.0); 3]; IN] };
                // SAFETY: `weight` is packed, and `out` has room for the matrices of a group of
                // output channels.
                unsafe {
                    for x in 0..3 {
                        let mut g = [S::splat(0.0); 3];
                        for y in 0..3 {
                            g[y] = S::load(from.add((3 * y + x) * LINE));
                        }
                        let column = weights(g);
                        for i in 0..IN {
                            half[i][x] = column[i];
                        }
                    }
                    for i in 0..IN {
                        let row = weights(half[i]);
                        for j in 0..IN {
                            row[j].store(to.add((i * IN + j) * part));
                        }
                    }
                }
            }
        }
    }
}

/// The packed weight that is transformed after another: for some panels, lines side by side.
#[derive(Clone, Copy)]
struct Next {
    from: *const f32,
    /// Floats from one panel to the next.
    step: usize,
    lines: usize,
    panels: usize,
}

impl Next {
    /// Returns what comes after some output and input channels; nothing after the last ones.
    fn of(
        s: &Sizes,
        plan: &Plan,
        weight: *const f32,
        outputs: &Range<usize>,
        channels: &Range<usize>,
    ) -> Self {
        let (outputs, channels) = match channels.end < s.c {
            true => (outputs.clone(), channels.end..channels.end + plan.deep),
            false => (outputs.end..outputs.end + plan.group, 0..plan.deep),
        };
        let (outputs, channels) = (
            outputs.start..outputs.end.min(s.o),
            channels.start..channels.end.min(s.c),
        );
        let together = LINE / plan.panel;
        let step = s.c.div_ceil(together) * TAPS * LINE;
        let first = outputs.start / plan.panel * step + channels.start / together * TAPS * LINE;
        Self {
            from: weight.wrapping_add(first),
            step,
            lines: channels.len().div_ceil(together) * TAPS,
            panels: outputs.len().div_ceil(plan.panel),
        }
    }

    /// Brings one of [`PARTS`] shares to the caches: as few lines at a time as memory answers while
    /// other things are computed.
    #[inline(always)]
    unsafe fn fetch<S: Simd>(&self, part: usize) {
        let all = self.lines * self.panels;
        let (begin, end) = (part * all / PARTS, (part + 1) * all / PARTS);
        let (mut panel, mut line) = (begin / self.lines, begin % self.lines);
        for _ in begin..end {
            // SAFETY: an address that is only fetched need not be one of ours.
            unsafe { S::prefetch(self.from.wrapping_add(panel * self.step + line * LINE)) };
            line += 1;
            if line == self.lines {
                (panel, line) = (panel + 1, 0);
            }
        }
    }
}

/// Computes a group of output channels of a block from its transformed inputs.
#[inline(always)]
unsafe fn outputs<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    plan: &Plan,
    weight: *const f32,
    at: Block,
    group: usize,
    Rooms { inputs, room }: Rooms,
) {
    let first = group * plan.group;
    let channels = first..(first + plan.group).min(s.o);
    let count = at.rows * plan.columns;
    let matrix = plan.matrix(s);
    // SAFETY: the weight is packed, and `room` has what `Plan::room` says.
    unsafe {
        let sums = room.add(PARTS * plan.part());
        for c0 in (0..s.c).step_by(plan.deep) {
            let c1 = (c0 + plan.deep).min(s.c);
            transform::<S>(s, plan, weight, channels.clone(), c0..c1, room);
            let next = Next::of(s, plan, weight, &channels, &(c0..c1));
            for p in 0..PARTS {
                if packed(s) > FETCHED {
                    next.fetch::<S>(p);
                }
                let (u, x) = (room.add(p * plan.part()), inputs.add(p * matrix));
                let target = |ld| Target {
                    c: sums.add(p * plan.sums()),
                    ld,
                    accumulate: c0 > 0,
                    epilogue: None,
                };
                let columns = |ptr, group| Columns::of(ptr, group, COLS);
                if plan.few {
                    let (x, b) = (x.add(c0 * ROWS), columns(u, plan.deep * COLS));
                    let n = channels.len().next_multiple_of(COLS);
                    block(count, n, c1 - c0, x, s.c * ROWS, b, &target(plan.group));
                } else {
                    let (x, n) = (columns(x.add(c0 * COLS), s.c * COLS), channels.len());
                    block(
                        n,
                        count,
                        c1 - c0,
                        u,
                        plan.deep * ROWS,
                        x,
                        &target(plan.wide),
                    );
                }
            }
        }
        let full = s.target(v, at.image, 0, 0).shift(first, 0);
        if plan.few {
            return few_outputs::<S>(s, plan, &full, at, channels.len(), sums);
        }
        for row in 0..at.rows {
            let y = (at.first + row) * OUT;
            for o in 0..channels.len() {
                let to = full.line::<S>(o);
                for x in (0..plan.columns).step_by(S::LANES) {
                    let from = sums.add(o * plan.wide + row * plan.columns + x);
                    let lines = lines::<S>(from, plan.sums());
                    let columns = ((plan.columns - x).min(S::LANES) * OUT).min(s.ow - x * OUT);
                    for i in 0..OUT.min(s.oh - y) {
                        let whole = S::weave(lines[i]);
                        let place = (y + i) * s.ow + x * OUT;
                        for k in 0..OUT {
                            let begin = k * S::LANES;
                            if begin < columns {
                                let n = (columns - begin).min(S::LANES);
                                to.put(place + begin, whole[k], n);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The outputs of a block of few tiles: lanes are output channels.
#[inline(always)]
unsafe fn few_outputs<S: Simd>(
    s: &Sizes,
    plan: &Plan,
    full: &Target,
    at: Block,
    channels: usize,
    sums: *const f32,
) {
    // Lines of a tile's outputs of a vector's channels, with what vectors read past the end.
    let mut apart = [0.0f32; OUT * OUT * COLS + COLS];
    let line = OUT * S::LANES;
    // SAFETY: `sums` has the sums of `channels` channels of the block's tiles, and `full` their
    // rows; vectors of the last channels read past them into the buffer's spare lanes.
    unsafe {
        for row in 0..at.rows {
            let y = (at.first + row) * OUT;
            let high = OUT.min(s.oh - y);
            for x in 0..plan.columns {
                let sums = sums.add((row * plan.columns + x) * plan.group);
                let wide = (s.ow - x * OUT).min(OUT);
                for o in (0..channels).step_by(S::LANES) {
                    let lines = lines::<S>(sums.add(o), plan.sums());
                    for i in 0..high {
                        // The four outputs of each channel come together.
                        let whole = S::weave(lines[i]);
                        for k in 0..OUT {
                            whole[k].store(apart.as_mut_ptr().add(i * line + k * S::LANES));
                        }
                    }
                    for lane in 0..(channels - o).min(S::LANES) {
                        let to = full.line::<S>(o + lane);
                        for i in 0..high {
                            let part = S::load(apart.as_ptr().add(i * line + lane * OUT));
                            to.put((y + i) * s.ow + x * OUT, part, wide);
                        }
                    }
                }
            }
        }
    }
}

/// A convolution whose weight was packed by [`pack`]. With many blocks each thread takes whole
/// ones; with few, all threads transform a block's inputs, and then each takes output channels.
pub(super) unsafe fn run(
    context: &mut RxContext,
    v: &RxConv2dF32,
    s: &Sizes,
    weight: *const f32,
) -> i32 {
    let threads = context.pool.threads();
    let high = Plan::high(s);
    let blocks = tiles(s).0.div_ceil(high);
    let whole = s.n * blocks >= 2 * threads;
    let plan = Plan::of(s, high, if whole { 1 } else { threads });
    let kept = plan.inputs(s);
    let copies = if whole { threads } else { 1 };
    let room = plan.room().next_multiple_of(COLS);
    let of = |task: usize| {
        let first = task % blocks * plan.high;
        Block {
            image: task / blocks,
            first,
            rows: plan.high.min(plan.rows - first),
        }
    };
    let floats = kept * copies + room * threads;
    let Some(scratch) = Scratch::new(context, floats * size_of::<f32>()) else {
        return context.status;
    };
    let memory = scratch.memory.cast::<f32>();
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((v, s, &plan, weight, memory)) };
    let transformed = |at: Block, channels: Range<usize>, copy: usize, worker: usize| {
        let &(v, s, plan, _, memory) = shared.get();
        // SAFETY: the data has the convolution's size, and the memory has room for the copies and
        // for each thread.
        unsafe {
            let (out, room) = (
                memory.add(copy * kept),
                memory.add(copies * kept + worker * room),
            );
            dispatch!(inputs(
                v: &RxConv2dF32,
                s: &Sizes,
                plan: &Plan,
                at: Block,
                channels: Range<usize>,
                out: *mut f32,
                room: *mut f32,
            ));
        }
    };
    let summed = |at: Block, groups: Range<usize>, copy: usize, worker: usize| {
        let &(v, s, plan, weight, memory) = shared.get();
        // SAFETY: the output has the convolution's size, the weight is packed, and the memory holds
        // the transformed inputs.
        unsafe {
            let rooms = Rooms {
                inputs: memory.add(copy * kept).cast_const(),
                room: memory.add(copies * kept + worker * room),
            };
            for group in groups {
                dispatch!(outputs(
                    v: &RxConv2dF32,
                    s: &Sizes,
                    plan: &Plan,
                    weight: *const f32,
                    at: Block,
                    group: usize,
                    rooms: Rooms,
                ));
            }
        }
    };
    if whole {
        context
            .pool
            .each(s.n * blocks, Grain::always(1), |begin, end, worker| {
                for task in begin..end {
                    transformed(of(task), 0..s.c, worker, worker);
                    summed(of(task), 0..plan.groups(s), worker, worker);
                }
            });
    } else {
        for task in 0..s.n * blocks {
            let at = of(task);
            let grain = Grain::always(s.c.div_ceil(4 * threads));
            context.pool.each(s.c, grain, |begin, end, worker| {
                transformed(at, begin..end, 0, worker);
            });
            context
                .pool
                .each(plan.groups(s), Grain::always(1), |begin, end, worker| {
                    summed(at, begin..end, 0, worker);
                });
        }
    }
    0
}
