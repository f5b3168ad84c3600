//! Windows of 3 by 3 with step 1 by Winograd: F(4×4, 3×3) of Lavin and Gray, "Fast Algorithms
//! for Convolutional Neural Networks", 2015.
//!
//! Tiles of 4 by 4 outputs, each from 6 by 6 inputs. Input and weight are transformed so that one
//! tile takes 36 multiplications for each pair of channels instead of 144; over channels these are
//! 36 products of matrices. The transforms' sums cost a few bits: errors are some ten times those
//! of a plain sum of products.
//!
//! A transformed weight is four times as large as the weight. It is never kept: the weight lies
//! packed in the order in which vectors transform it, and the few output channels that are worked
//! on are transformed into the second cache, where all tiles of a block meet them. Reading a
//! quarter of the memory pays for that. With many tiles, tiles are the columns of the products and
//! output channels their rows; with few tiles it is the other way around, so that vectors are full.
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
/// Matrices in the transformed form.
const PARTS: usize = IN * IN;
/// Places of the window.
const TAPS: usize = 9;
/// Floats of the weight that lie together: of one place of the window, some channels.
const LINE: usize = 16;
/// Up to this many tiles of an image, tiles are the rows of the products.
const FEW: usize = 12;
/// Floats of transformed inputs of a block, about: they stay in the second cache beside the rest.
const INPUTS: usize = 160 << 10;
/// Floats of transformed weight at a time, about.
const WEIGHTS: usize = 80 << 10;
/// Floats of sums at a time, about.
const SUMS: usize = 16 << 10;
/// What transforming a weight for one more block costs, in multiplications of one lane.
const TRANSFORM: f64 = 90.0;
/// How much more a convolution may cost so that it takes less memory: blocks of fewer rows.
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

/// Output channels whose weights lie together.
fn panel(s: &Sizes) -> usize {
    if few(s) { COLS } else { ROWS }
}

/// Returns whether a convolution can go this way.
pub(super) fn can(s: &Sizes) -> bool {
    let plain = (s.kh, s.kw, s.sh, s.sw, s.dh, s.dw, s.groups) == (3, 3, 1, 1, 1, 1, 1);
    plain && !s.nhwc
}

/// The cost of an image by this way, in multiplications of one lane: the products, and the
/// transforms of weight, inputs and outputs (see `ways.rs`); infinite where it cannot go it. From
/// fewer than 16 channels or to fewer than 24 the gain is not sure, and plain sums round less.
pub(super) fn cost(s: &Sizes) -> f64 {
    if !can(s) || s.c < 16 || s.o < 24 {
        return f64::INFINITY;
    }
    let (rows, columns) = tiles(s);
    let count = rows * columns;
    let ((lanes, product), weight, (input, output)) = match few(s) {
        true => ((count, 17.0), 300.0, (3600.0, 1500.0)),
        false => ((count.next_multiple_of(COLS), 40.0), 400.0, (1450.0, 750.0)),
    };
    let (c, o) = (s.c as f64, s.o as f64);
    let blocks = rows.div_ceil(Plan::most(s)) as f64;
    let tile = input / o + output / c;
    c * o * (product * lanes as f64 + weight * blocks + tile * count as f64)
}

/// Floats of the packed weight.
pub(super) fn packed(s: &Sizes) -> usize {
    let together = LINE / panel(s);
    s.o.next_multiple_of(panel(s)) * s.c.next_multiple_of(together) * TAPS
}

/// The weight in panels of output channels: for each channel (or pair of channels, where a panel
/// has 8) the nine places of the window, a line of 16 floats each. What is missing is 0.
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
        // Common parts of the rows for +1, -1 and for +2, -2.
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

/// Matrices of so many floats are written side by side: a line further apart, they do not fall on
/// the same few places of the first cache.
fn apart(floats: usize) -> usize {
    floats.next_multiple_of(COLS) + COLS
}

/// How a convolution is cut up.
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
    /// Tiles of a block, up to whole panels.
    wide: usize,
    /// Output channels of a panel.
    panel: usize,
    /// Output channels whose weights are transformed together.
    group: usize,
    /// Input channels whose weights are transformed together; a function of the sizes alone, so
    /// that threads do not change sums.
    deep: usize,
    padded: Padded,
}

impl Plan {
    /// The most tile rows whose transformed inputs fit.
    fn most(s: &Sizes) -> usize {
        let (rows, columns) = tiles(s);
        (INPUTS / (PARTS * s.c * columns).max(1)).clamp(1, rows.max(1))
    }

    /// Tile rows of a block: of those whose transformed inputs fit, the fewest that cost about as
    /// little as any.
    fn high(s: &Sizes) -> usize {
        let most = Self::most(s);
        let costs = (1..=most).map(|high| Self::cost(s, high));
        let least = costs.fold(f64::INFINITY, f64::min);
        (1..=most)
            .find(|&high| Self::cost(s, high) <= SPARE * least)
            .unwrap_or(most)
    }

    /// Returns what products and transforms of the weight cost for a pair of channels with blocks
    /// of some tile rows, in multiplications of one lane.
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

    /// `high`: tile rows of a block. `share`: how many threads work on the output channels of a
    /// block.
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

    /// Floats from one matrix of the transformed inputs of a block to the next.
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

    /// Floats from one matrix of the transformed weight to the next.
    fn part(&self) -> usize {
        apart(self.group * self.deep)
    }

    /// Floats from one matrix of the products, of `group` output channels, to the next.
    fn sums(&self) -> usize {
        apart(self.group * self.wide)
    }

    /// Floats of a thread: transformed weights and sums (with what vectors read past the end), or a
    /// padded channel.
    fn room(&self) -> usize {
        (PARTS * (self.part() + self.sums()) + COLS).max(self.channel())
    }
}

/// Returns what tile rows from `first` on read of the image: the padding above moves with them.
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

/// Memory of a worker: the transformed inputs that it reads, and room of its own.
#[derive(Clone, Copy)]
struct Rooms {
    inputs: *const f32,
    room: *mut f32,
}

/// The transformed inputs of some channels. A matrix of them has, for each panel of tiles, a row
/// for each channel.
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
                    // channel, which come after these.
                    if lane + S::LANES <= unit || (fits == lanes && c + 1 < channels.end) {
                        for i in 0..IN {
                            for j in 0..IN {
                                parts[i][j].store(to.add((i * IN + j) * matrix));
                            }
                        }
                        continue;
                    }
                    // What does not fit goes to the next panels of tiles.
                    let (mut begin, mut end, mut to) = (0, fits, to);
                    while begin < lanes {
                        for i in 0..IN {
                            for j in 0..IN {
                                let to = to.wrapping_add((i * IN + j) * matrix);
                                parts[i][j].store_between(to, begin, end);
                            }
                        }
                        // Where lane 0 would be if lane `end` began the next panel.
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

/// The transformed weights of a group of output channels from `first` on, for some input channels:
/// matrices of panels, with a row for each channel.
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

/// A group of output channels of a block, from its transformed inputs.
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
    // SAFETY: the callers' promise.
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

/// The four rows of four outputs of a vector's tiles, from their sums in matrices that lie `step`
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
