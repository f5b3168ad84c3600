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

use super::{RxConv2dF32, Sizes};
use crate::context::RxContext;
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::gemm::tile::{COLS, Columns, ROWS};
use crate::kernels::gemm::{block, even_piece};
use crate::kernels::padded::{Padded, Window};
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::Share;
use crate::values::{rx_scratch_alloc, rx_scratch_free};
use std::ops::Range;

/// Outputs of a tile along an axis.
const OUT: usize = 4;
/// Inputs of a tile along an axis.
const IN: usize = 6;
/// The number of matrices in the transformed form.
const PARTS: usize = IN * IN;
/// The number of window positions.
const TAPS: usize = 9;
/// Contiguous floats of the packed weight: some channels for one window position.
const LINE: usize = 16;
/// The maximum number of tiles of an image for which tiles are the rows of the products.
const FEW: usize = 12;
/// The approximate number of floats of a block's transformed inputs: they stay in the second-level
/// cache beside the rest.
const INPUTS: usize = 160 << 10;
/// The approximate number of floats of the weight transformed at a time.
const WEIGHTS: usize = 80 << 10;
/// The approximate number of floats of sums at a time.
const SUMS: usize = 16 << 10;
/// The cost of transforming a weight for one more block, in multiplications of one lane.
const TRANSFORM: f64 = 90.0;
/// The factor by which a convolution may cost more in order to use less memory, with blocks of
/// fewer rows.
const SPARE: f64 = 1.03;

/// Rows and columns of tiles.
fn tiles(s: &Sizes) -> (usize, usize) {
    (s.oh.div_ceil(OUT), s.ow.div_ceil(OUT))
}

/// Returns whether tiles are the rows of the products.
fn few(s: &Sizes) -> bool {
    let (rows, columns) = tiles(s);
    rows * columns <= FEW
}

/// Output channels whose weights are packed together.
fn panel(s: &Sizes) -> usize {
    if few(s) { COLS } else { ROWS }
}

/// Returns whether this is the faster algorithm, by the costs of both for a pair of channels, in
/// multiplications of one lane: 36 for each tile, including empty lanes, and the transforms of
/// weight, inputs and outputs, whose cost was measured relative to the nine per output of a direct
/// sum. From fewer than 16 channels or to fewer than 32 the gain is uncertain, and direct sums
/// round less.
pub(super) fn pays(s: &Sizes) -> bool {
    let plain = (s.kh, s.kw, s.sh, s.sw, s.dh, s.dw, s.groups) == (3, 3, 1, 1, 1, 1, 1);
    if !plain || s.nhwc || s.c < 16 || s.o < 32 {
        return false;
    }
    let (rows, columns) = tiles(s);
    let count = (rows * columns) as f64;
    let lanes = if few(s) {
        count
    } else {
        (count / 16.0).ceil() * 16.0
    };
    let blocks = rows.div_ceil(Plan::most(s)) as f64;
    let minimal = PARTS as f64 * lanes
        + TRANSFORM * blocks
        + count * (200.0 / s.o as f64 + 150.0 / s.c as f64);
    1.3 * minimal < (TAPS * s.oh * s.ow) as f64
}

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
    // SAFETY: the callers' promise.
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

/// The transform of three weights.
#[inline(always)]
unsafe fn weights<S: Simd>(g: [S; 3]) -> [S; IN] {
    // SAFETY: the callers' promise.
    unsafe {
        let sixth = S::splat(1.0 / 6.0);
        let near = g[0].add(g[2]).mul(S::splat(-1.0 / 6.0));
        let far = g[2].fma(sixth, g[0].mul(S::splat(1.0 / 24.0)));
        let (one, two) = (g[1].mul(sixth), g[1].mul(S::splat(1.0 / 12.0)));
        [
            g[0].mul(S::splat(0.25)),
            near.sub(one),
            near.add(one),
            far.add(two),
            far.sub(two),
            g[2],
        ]
    }
}

/// The transform of six inputs.
#[inline(always)]
unsafe fn input<S: Simd>(d: [S; IN]) -> [S; IN] {
    // SAFETY: the callers' promise.
    unsafe {
        let (two, four, five) = (S::splat(2.0), S::splat(4.0), S::splat(-5.0));
        // Common subexpressions of the rows for +1, -1 and for +2, -2.
        let a = S::splat(-4.0).fma(d[2], d[4]);
        let b = S::splat(-4.0).fma(d[1], d[3]);
        let c = d[4].sub(d[2]);
        let e = two.mul(d[3].sub(d[1]));
        [
            four.fma(d[0], five.fma(d[2], d[4])),
            a.add(b),
            a.sub(b),
            c.add(e),
            c.sub(e),
            four.fma(d[1], five.fma(d[3], d[5])),
        ]
    }
}

/// The transform of six sums to four outputs.
#[inline(always)]
unsafe fn output<S: Simd>(m: [S; IN]) -> [S; OUT] {
    // SAFETY: the callers' promise.
    unsafe {
        let (a, b) = (m[1].add(m[2]), m[1].sub(m[2]));
        let (c, d) = (m[3].add(m[4]), m[3].sub(m[4]));
        [
            m[0].add(a).add(c),
            S::splat(2.0).fma(d, b),
            S::splat(4.0).fma(c, a),
            S::splat(8.0).fma(d, b).add(m[5]),
        ]
    }
}

/// The distance between matrices of this size: one line more, so that they do not map to the same
/// few sets of the first-level cache.
fn apart(floats: usize) -> usize {
    floats.next_multiple_of(COLS) + COLS
}

/// The partition of a convolution.
#[derive(Clone, Copy)]
struct Plan {
    /// Tile rows of an image.
    rows: usize,
    /// Tiles in a row.
    columns: usize,
    /// Tile rows of a block.
    high: usize,
    /// Whether tiles are the rows of the products.
    few: bool,
    /// Tiles of a block, rounded up to whole panels.
    wide: usize,
    /// Output channels of a panel.
    panel: usize,
    /// Output channels whose weights are transformed together.
    group: usize,
    /// Input channels whose weights are transformed together; a function of the sizes alone, so
    /// that the number of threads does not change sums.
    deep: usize,
    padded: Padded,
}

impl Plan {
    /// The maximum number of tile rows whose transformed inputs fit.
    fn most(s: &Sizes) -> usize {
        let (rows, columns) = tiles(s);
        (INPUTS / (PARTS * s.c * columns).max(1)).clamp(1, rows.max(1))
    }

    /// The number of tile rows of a block: of those whose transformed inputs fit, the fewest whose
    /// cost is close to the minimum.
    fn high(s: &Sizes) -> usize {
        let most = Self::most(s);
        let costs = (1..=most).map(|high| Self::cost(s, high));
        let least = costs.fold(f64::INFINITY, f64::min);
        (1..=most)
            .find(|&high| Self::cost(s, high) <= SPARE * least)
            .unwrap_or(most)
    }

    /// Returns the cost of products and weight transforms for a pair of channels with blocks of
    /// `high` tile rows, in multiplications of one lane.
    fn cost(s: &Sizes, high: usize) -> f64 {
        let (rows, columns) = tiles(s);
        let lanes = |rows: usize| match few(s) {
            true => rows * columns,
            false => (rows * columns).next_multiple_of(COLS),
        };
        let lanes = rows / high * lanes(high) + lanes(rows % high);
        let blocks = rows.div_ceil(high);
        PARTS as f64 * lanes as f64 + TRANSFORM * blocks as f64
    }

    /// `high`: tile rows of a block. `share`: the number of threads that share the output channels
    /// of a block.
    fn of(s: &Sizes, high: usize, share: usize) -> Self {
        let (rows, columns) = tiles(s);
        let (few, panel) = (few(s), panel(s));
        let together = LINE / panel;
        let deep = even_piece(s.c, WEIGHTS / PARTS / panel, together).next_multiple_of(together);
        let wide = (high * columns).next_multiple_of(if few { ROWS } else { COLS });
        let panels = s.o.div_ceil(panel);
        let group = (WEIGHTS / PARTS / panel / deep)
            .min(SUMS / PARTS / panel / wide)
            .min(panels.div_ceil(share))
            .max(1)
            * panel;
        Self {
            rows,
            columns,
            high,
            few,
            wide,
            panel,
            group,
            deep,
            padded: Padded::of(window(s, 0, high)),
        }
    }

    /// Groups of output channels.
    fn groups(&self, s: &Sizes) -> usize {
        s.o.div_ceil(self.group)
    }

    /// The distance in floats from one matrix of a block's transformed inputs to the next.
    fn matrix(&self, s: &Sizes) -> usize {
        apart(s.c * self.wide)
    }

    /// Floats of the transformed inputs of a block.
    fn inputs(&self, s: &Sizes) -> usize {
        PARTS * self.matrix(s)
    }

    /// Floats of a padded channel.
    fn channel(&self) -> usize {
        self.padded.floats().next_multiple_of(COLS)
    }

    /// The distance in floats from one matrix of the transformed weight to the next.
    fn part(&self) -> usize {
        apart(self.group * self.deep)
    }

    /// The distance in floats from one matrix of the products, of `group` output channels, to the
    /// next.
    fn sums(&self) -> usize {
        apart(self.group * self.wide)
    }

    /// The floats of a thread: transformed weights and sums (with what vectors read past the end),
    /// or a padded channel.
    fn room(&self) -> usize {
        (PARTS * (self.part() + self.sums()) + COLS).max(self.channel())
    }
}

/// Returns the window over the image for tile rows from `first` on: the padding above moves with
/// them.
fn window(s: &Sizes, first: usize, rows: usize) -> Window {
    Window {
        image: (s.h, s.w),
        output: (rows, tiles(s).1),
        window: (IN, IN),
        stride: (OUT, OUT),
        dilation: (1, 1),
        pad: (s.pt - (first * OUT) as isize, s.pl),
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
    // SAFETY: the callers' promise.
    unsafe {
        std::ptr::write_bytes(channel, 0, padded.floats());
        let mut taps = [[0; IN]; IN];
        for (i, taps) in taps.iter_mut().enumerate() {
            for (j, tap) in taps.iter_mut().enumerate() {
                *tap = padded.tap(i, j);
            }
        }
        for c in channels {
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
                    // Lanes after the last tile belong to the next row's tiles, which are written
                    // later.
                    if lane + S::LANES <= unit {
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
    // SAFETY: the callers' promise.
    unsafe {
        for (k, panel) in (outputs.start / plan.panel..outputs.end.div_ceil(plan.panel)).enumerate()
        {
            for (l, line) in lines.clone().enumerate() {
                let from = weight.add((panel * all + line) * TAPS * LINE);
                let to = out.add(k * plan.panel * plan.deep + l * LINE);
                for lane in (0..LINE).step_by(S::LANES) {
                    let (from, to) = (from.add(lane), to.add(lane));
                    let mut half = [[S::splat(0.0); 3]; IN];
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
    // SAFETY: the callers' promise.
    unsafe {
        let sums = room.add(PARTS * plan.part());
        for c0 in (0..s.c).step_by(plan.deep) {
            let c1 = (c0 + plan.deep).min(s.c);
            transform::<S>(s, plan, weight, channels.clone(), c0..c1, room);
            for p in 0..PARTS {
                let (u, x) = (room.add(p * plan.part()), inputs.add(p * matrix));
                let target = |ld| Target {
                    c: sums.add(p * plan.sums()),
                    ld,
                    accumulate: c0 > 0,
                    across: false,
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
        for row in 0..at.rows {
            let y = (at.first + row) * OUT;
            if plan.few {
                for x in 0..plan.columns {
                    let sums = sums.add((row * plan.columns + x) * plan.group);
                    let wide = (s.ow - x * OUT).min(OUT);
                    for o in (0..channels.len()).step_by(S::LANES) {
                        let lines = lines::<S>(sums.add(o), plan.sums());
                        for i in 0..OUT.min(s.oh - y) {
                            let line = lines[i];
                            // Lanes are output channels: the four outputs of each are collected.
                            let mut apart = [0.0f32; OUT * COLS + COLS];
                            let whole = S::weave(line);
                            for k in 0..OUT {
                                whole[k].store(apart.as_mut_ptr().add(k * S::LANES));
                            }
                            for lane in 0..(channels.len() - o).min(S::LANES) {
                                let part = S::load(apart.as_ptr().add(lane * OUT));
                                let target = full.shift(o + lane, (y + i) * s.ow + x * OUT);
                                target.finish::<S>(&part, 1, 1, wide);
                            }
                        }
                    }
                }
                continue;
            }
            for o in 0..channels.len() {
                for x in (0..plan.columns).step_by(S::LANES) {
                    let lanes = (plan.columns - x).min(S::LANES);
                    let from = sums.add(o * plan.wide + row * plan.columns + x);
                    let lines = lines::<S>(from, plan.sums());
                    for i in 0..OUT.min(s.oh - y) {
                        let line = lines[i];
                        let columns = (lanes * OUT).min(s.ow - x * OUT);
                        let target = full.shift(o, (y + i) * s.ow + x * OUT);
                        let whole = S::weave(line);
                        target.finish::<S>(whole.as_ptr(), 1, columns.div_ceil(S::LANES), columns);
                    }
                }
            }
        }
    }
}

/// The four rows of four outputs of a vector's tiles, from their sums in matrices that are `step`
/// apart.
#[inline(always)]
unsafe fn lines<S: Simd>(from: *const f32, step: usize) -> [[S; OUT]; OUT] {
    // SAFETY: the callers' promise.
    unsafe {
        let mut half = [[S::splat(0.0); IN]; OUT];
        for j in 0..IN {
            let mut column = [S::splat(0.0); IN];
            for i in 0..IN {
                column[i] = S::load(from.add((i * IN + j) * step));
            }
            let column = output(column);
            for i in 0..OUT {
                half[i][j] = column[i];
            }
        }
        let mut lines = [[S::splat(0.0); OUT]; OUT];
        for i in 0..OUT {
            lines[i] = output(half[i]);
        }
        lines
    }
}

/// Computes a convolution whose weight was packed by [`pack`]. With many blocks each thread takes
/// whole ones; with few, all threads transform a block's inputs together, and then share the output
/// channels.
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
    // SAFETY: the callers' promise; tasks write disjoint places.
    unsafe {
        let floats = kept * copies + room * threads;
        let scratch = rx_scratch_alloc(context, (floats * 4) as u64).cast::<f32>();
        if scratch.is_null() {
            return context.status;
        }
        let shared = Share::new((v, s, &plan, weight, scratch));
        let transformed = |at: Block, channels: Range<usize>, copy: usize, worker: usize| {
            let &(v, s, plan, _, scratch) = shared.get();
            let out = scratch.add(copy * kept);
            let room = scratch.add(copies * kept + worker * room);
            dispatch!(inputs(
                v: &RxConv2dF32,
                s: &Sizes,
                plan: &Plan,
                at: Block,
                channels: Range<usize>,
                out: *mut f32,
                room: *mut f32,
            ));
        };
        let summed = |at: Block, groups: Range<usize>, copy: usize, worker: usize| {
            let &(v, s, plan, weight, scratch) = shared.get();
            let inputs = scratch.add(copy * kept).cast_const();
            let room = scratch.add(copies * kept + worker * room);
            let rooms = Rooms { inputs, room };
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
        };
        if whole {
            context.pool.each(s.n * blocks, 1, |begin, end, worker| {
                for task in begin..end {
                    transformed(of(task), 0..s.c, worker, worker);
                    summed(of(task), 0..plan.groups(s), worker, worker);
                }
            });
        } else {
            for task in 0..s.n * blocks {
                let at = of(task);
                context
                    .pool
                    .each(s.c, s.c.div_ceil(4 * threads), |begin, end, worker| {
                        transformed(at, begin..end, 0, worker);
                    });
                context.pool.each(plan.groups(s), 1, |begin, end, worker| {
                    summed(at, begin..end, 0, worker);
                });
            }
        }
        rx_scratch_free(context, scratch.cast());
    }
    0
}
