//! Windows of 3 by 3 with step 1 by minimal filtering: F(4×4, 3×3) of Lavin and Gray, "Fast Algorithms
//! for Convolutional Neural Networks", 2015.
//!
//! Tiles of 4 by 4 outputs, each from 6 by 6 inputs. Input and weight are transformed so that one tile
//! takes 36 multiplications for each pair of channels instead of 144; over channels these are 36
//! products of matrices. Tile rows are worked on in blocks whose transforms stay in the second cache.
//! The transforms' sums cost a few bits: errors are some ten times those of a plain sum of products.

use super::{RxConv2dF32, Sizes};
use crate::context::RxContext;
use crate::kernels::gemm::block;
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::gemm::tile::{COLS, Columns, ROWS};
use crate::kernels::padded::{Padded, Window};
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::Share;
use crate::values::{rx_scratch_alloc, rx_scratch_free};

/// Outputs of a tile along an axis.
const OUT: usize = 4;
/// Inputs of a tile along an axis.
const IN: usize = 6;
/// Matrices in the transformed form.
const PARTS: usize = IN * IN;
/// Tiles of a block, about.
const TILES: usize = 56;

/// Rows and columns of tiles.
fn tiles(s: &Sizes) -> (usize, usize) {
    (s.oh.div_ceil(OUT), s.ow.div_ceil(OUT))
}

/// Whether this way is the faster one. It saves three quarters of the multiplications but reads four
/// times as much weight and transforms what it reads and writes, so both numbers of channels must be
/// large enough to pay for the transforms, and there must be enough tiles for the products.
pub(super) fn pays(s: &Sizes) -> bool {
    let plain = (s.kh, s.kw, s.sh, s.sw, s.dh, s.dw, s.groups) == (3, 3, 1, 1, 1, 1, 1);
    let (rows, columns) = tiles(s);
    plain && !s.nhwc && s.c >= 32 && s.o >= 32 && rows * columns >= 16
}

/// Floats of one matrix of the transformed weight.
fn part(s: &Sizes) -> usize {
    s.o.next_multiple_of(ROWS) * s.c
}

/// Floats of the transformed weight.
pub(super) fn packed(s: &Sizes) -> usize {
    PARTS * part(s)
}

/// The weight, transformed: 36 matrices in panels of 8 rows.
pub(super) unsafe fn pack(s: &Sizes, weight: *const f32, out: *mut f32) {
    const G: [[f32; 3]; IN] = [
        [0.25, 0.0, 0.0],
        [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
        [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
        [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
        [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
        [0.0, 0.0, 1.0],
    ];
    // SAFETY: the callers' promise.
    unsafe {
        std::ptr::write_bytes(out, 0, packed(s));
        for o in 0..s.o {
            for c in 0..s.c {
                let w = weight.add((o * s.c + c) * 9);
                let mut half = [[0.0f32; 3]; IN];
                for (row, g) in half.iter_mut().zip(&G) {
                    for (k, x) in row.iter_mut().enumerate() {
                        *x = g[0] * *w.add(k) + g[1] * *w.add(3 + k) + g[2] * *w.add(6 + k);
                    }
                }
                let at = out.add(o / ROWS * s.c * ROWS + c * ROWS + o % ROWS);
                for (i, row) in half.iter().enumerate() {
                    for (j, g) in G.iter().enumerate() {
                        let x = row[0] * g[0] + row[1] * g[1] + row[2] * g[2];
                        *at.add((i * IN + j) * part(s)) = x;
                    }
                }
            }
        }
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

/// How an image is cut up.
#[derive(Clone, Copy)]
struct Plan {
    rows: usize,
    columns: usize,
    /// Tile rows of a block.
    high: usize,
    /// Floats of a row of transformed tiles of a block, a multiple of 16.
    wide: usize,
    padded: Padded,
}

impl Plan {
    fn of(s: &Sizes, threads: usize) -> Self {
        let (rows, columns) = tiles(s);
        let share = rows.div_ceil(threads.max(1));
        let high = (TILES / columns).clamp(1, share.max(1));
        // Blocks of even height.
        let high = rows.div_ceil(rows.div_ceil(high));
        let padded = Padded::of(Window {
            image: (s.h, s.w),
            output: (high, columns),
            window: (IN, IN),
            stride: (OUT, OUT),
            dilation: (1, 1),
            pad: (s.pt, s.pl),
        });
        Self {
            rows,
            columns,
            high,
            wide: (high * columns).next_multiple_of(COLS),
            padded,
        }
    }

    /// Floats of the transformed inputs, the products, and the padded channel.
    fn room(&self, s: &Sizes) -> [usize; 3] {
        let inputs = PARTS * s.c * self.wide;
        let sums = PARTS * s.o * self.wide;
        [inputs, sums, self.padded.floats().next_multiple_of(COLS)]
    }
}

/// Four output rows of some tiles, aligned for vectors.
#[repr(C, align(64))]
struct Lines([f32; OUT * COLS]);

/// Tile rows `first..last` of one image.
#[inline(always)]
unsafe fn rows<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    plan: &Plan,
    weight: *const f32,
    image: usize,
    first: usize,
    room: *mut f32,
) {
    let last = (first + plan.high).min(plan.rows);
    let count = (last - first) * plan.columns;
    let [inputs, sums, _] = plan.room(s);
    // SAFETY: the callers' promise.
    unsafe {
        let (v_room, m_room, channel) = (room, room.add(inputs), room.add(inputs + sums));
        // What this block reads of the image: the padding above moves with it.
        let padded = Padded::of(Window {
            image: (s.h, s.w),
            output: (last - first, plan.columns),
            window: (IN, IN),
            stride: (OUT, OUT),
            dilation: (1, 1),
            pad: (s.pt - (first * OUT) as isize, s.pl),
        });
        std::ptr::write_bytes(channel, 0, padded.floats());
        // One matrix of the inputs: for each group of 16 tiles, a row of 16 for each channel.
        let matrix = s.c * plan.wide;
        for c in 0..s.c {
            padded.fill::<S>(v.x.add((image * s.c + c) * s.h * s.w), channel);
            for row in 0..last - first {
                let from = channel.add(row * OUT * padded.row);
                for x in (0..plan.columns).step_by(S::LANES) {
                    let lanes = (plan.columns - x).min(S::LANES);
                    let mut d = [[S::splat(0.0); IN]; IN];
                    for (i, d) in d.iter_mut().enumerate() {
                        for (j, d) in d.iter_mut().enumerate() {
                            *d = S::load(from.add(padded.tap(i, j) + x));
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
                    let (lane, fits) = (tile % COLS, lanes.min(COLS - tile % COLS));
                    let to = v_room.add(tile / COLS * s.c * COLS + c * COLS + lane);
                    for (i, half) in half.into_iter().enumerate() {
                        for (j, x) in input(half).into_iter().enumerate() {
                            let to = to.add((i * IN + j) * matrix);
                            if fits == S::LANES {
                                x.store(to);
                                continue;
                            }
                            x.store_part(to, fits);
                            if fits < lanes {
                                // The rest goes to the next group of tiles.
                                let mut all = [0.0f32; COLS];
                                x.store(all.as_mut_ptr());
                                let rest = S::load_part(all.as_ptr().add(fits), lanes - fits);
                                rest.store_part(to.sub(lane).add(s.c * COLS), lanes - fits);
                            }
                        }
                    }
                }
            }
        }
        for p in 0..PARTS {
            let b = Columns {
                ptr: v_room.add(p * matrix),
                lane: 0,
                group: s.c * COLS,
                row: COLS,
            };
            let target = Target {
                c: m_room.add(p * s.o * plan.wide),
                ld: plan.wide,
                accumulate: false,
                epilogue: None,
            };
            let a = weight.add(p * part(s));
            block::<S>(s.o, count, s.c, a, s.c * ROWS, b, &target);
        }
        let full = s.target(v, image, 0, 0);
        for o in 0..s.o {
            for row in 0..last - first {
                let y = (first + row) * OUT;
                for x in (0..plan.columns).step_by(S::LANES) {
                    let lanes = (plan.columns - x).min(S::LANES);
                    let from = m_room.add(o * plan.wide + row * plan.columns + x);
                    let mut half = [[S::splat(0.0); IN]; OUT];
                    for j in 0..IN {
                        let mut column = [S::splat(0.0); IN];
                        for (i, m) in column.iter_mut().enumerate() {
                            let at = from.add((i * IN + j) * s.o * plan.wide);
                            *m = S::load_part(at, lanes);
                        }
                        for (half, m) in half.iter_mut().zip(output(column)) {
                            half[j] = m;
                        }
                    }
                    for (i, half) in half.into_iter().enumerate().take(s.oh - y) {
                        let mut apart = [[0.0f32; COLS]; OUT];
                        for (apart, m) in apart.iter_mut().zip(output(half)) {
                            m.store(apart.as_mut_ptr());
                        }
                        let mut line = Lines([0.0; OUT * COLS]);
                        for lane in 0..lanes {
                            for (j, apart) in apart.iter().enumerate() {
                                line.0[lane * OUT + j] = apart[lane];
                            }
                        }
                        let columns = (lanes * OUT).min(s.ow - x * OUT);
                        let target = full.shift(o, (y + i) * s.ow + x * OUT);
                        let vectors = columns.div_ceil(S::LANES);
                        target.finish::<S>(line.0.as_ptr().cast(), 1, vectors, columns);
                    }
                }
            }
        }
    }
}

/// A convolution whose weight was packed by [`pack`].
pub(super) unsafe fn run(
    context: &mut RxContext,
    v: &RxConv2dF32,
    s: &Sizes,
    weight: *const f32,
) -> i32 {
    let threads = context.pool.threads();
    let plan = Plan::of(s, threads);
    let room: usize = plan.room(s).iter().sum();
    let blocks = plan.rows.div_ceil(plan.high);
    // SAFETY: the callers' promise; blocks write disjoint rows.
    unsafe {
        let scratch = rx_scratch_alloc(context, (room * threads * 4) as u64).cast::<f32>();
        if scratch.is_null() {
            return context.status;
        }
        let shared = Share::new((v, s, &plan, weight, scratch));
        context.pool.each(s.n * blocks, 1, |begin, end, worker| {
            let &(v, s, plan, weight, scratch) = shared.get();
            let room = scratch.add(worker * room);
            for task in begin..end {
                let (image, first) = (task / blocks, task % blocks * plan.high);
                dispatch!(rows(
                    v: &RxConv2dF32,
                    s: &Sizes,
                    plan: &Plan,
                    weight: *const f32,
                    image: usize,
                    first: usize,
                    room: *mut f32,
                ));
            }
        });
        rx_scratch_free(context, scratch.cast());
    }
    0
}
