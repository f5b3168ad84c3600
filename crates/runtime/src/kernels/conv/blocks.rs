//! The partition of the output's pixels into blocks, the unit of work of a thread, and the scratch
//! memory for a block.

use super::rows::{self, block};
use super::{KC, RxConv2dF32, Sizes, Way, unfolded};
use crate::kernels::gemm::tile::{COLS, ROWS};
use crate::kernels::simd::dispatch;

/// Pixels of a block.
const PIXELS: usize = 192;
/// Floats of an unfolded block that may exceed that number of pixels, so that fewer rows of the
/// image are read twice.
const BLOCK: usize = 32 << 10;

/// What unfolding an input for a block costs, in multiplications.
const UNFOLDED: usize = 12;

/// Some pixels and filters of one group of one image.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub image: usize,
    pub group: usize,
    /// The pixels.
    pub begin: usize,
    pub end: usize,
    /// The first of the group's filters, a multiple of the filters of a panel of the weight.
    pub filter: usize,
    /// The number of filters.
    pub filters: usize,
}

/// The output's pixels in blocks that are computed at once.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// Pixels of a block.
    each: usize,
    /// Pixels that are divided into blocks separately: an image, or a row that is too long for a
    /// block.
    span: usize,
    /// Filters of a block.
    filters: usize,
    /// Blocks of one group of an image.
    pub count: usize,
    /// Floats of the unfolded block, and of the padded channels that it is read from. Without
    /// unfolding, the first is the number of run starts.
    room: (usize, usize),
    /// Where the rows of a padded copy are read without unfolding: whether rows are joined.
    rows: Option<bool>,
}

impl Blocks {
    /// The blocks for `threads` that share them.
    pub fn of(s: &Sizes, way: Way, threads: usize) -> Self {
        let pixels = s.oh * s.ow;
        if way == Way::Rows {
            let (high, wide) = rows::block_of(s, threads);
            let span = if wide == s.ow { pixels } else { s.ow };
            let each = high * wide;
            return Self {
                each,
                span,
                filters: s.og,
                count: span.div_ceil(each) * (pixels / span),
                room: rows::room(s, high, wide),
                rows: Some(rows::joins(s)),
            };
        }
        let (each, filters) = Self::unfolded(s, threads);
        let taps = s.kh * s.kw;
        let deep = s.k.min(KC.max(taps) + taps);
        let rows = s.oh.min((each + s.ow - 2) / s.ow + 1);
        let copies = s
            .padded(0..rows)
            .map_or(0, |p| p.floats() * deep.div_ceil(taps.max(1)));
        let room = (
            each.next_multiple_of(COLS) * deep,
            copies.next_multiple_of(COLS),
        );
        Self {
            each,
            span: pixels,
            filters,
            count: pixels.div_ceil(each) * s.og.div_ceil(filters),
            room,
            rows: None,
        }
    }

    /// The pixels and filters of an unfolded block. Few pixels are hard to divide among threads:
    /// then all are unfolded several times, each time for a part of the filters, where the longest
    /// thread is done earlier.
    fn unfolded(s: &Sizes, threads: usize) -> (usize, usize) {
        let pixels = s.oh * s.ow;
        let panel = if s.nhwc { COLS } else { ROWS };
        let most = PIXELS.max(BLOCK / s.k.max(1) / COLS * COLS);
        let mut best = ((0, 0), usize::MAX);
        for parts in 1..=threads {
            let filters = s.og.div_ceil(parts).next_multiple_of(panel).min(s.og);
            let parts = s.og.div_ceil(filters);
            let share = pixels.div_ceil(threads.div_ceil(parts));
            let limit = most.min(share.next_multiple_of(COLS));
            let count = pixels.div_ceil(limit);
            let each = pixels.div_ceil(count).next_multiple_of(COLS);
            let turns = (s.n * s.groups * count * parts).div_ceil(threads);
            let cost = turns * each.min(pixels) * (filters + UNFOLDED);
            if cost < best.1 {
                best = ((each, filters), cost);
            }
        }
        best.0
    }

    /// The number of floats that a thread needs.
    pub fn floats(&self) -> usize {
        self.room.0 + self.room.1
    }

    /// A block of a group; `None` where the blocks before it hold all pixels.
    pub fn task(&self, s: &Sizes, image: usize, group: usize, block: usize) -> Option<Task> {
        let pixels = s.oh * s.ow;
        // A strip of a pooled convolution may have fewer rows than the blocks were planned for.
        let span = self.span.min(pixels);
        let parts = s.og.div_ceil(self.filters);
        let (block, filter) = (block / parts, block % parts * self.filters);
        let per = self.span.div_ceil(self.each);
        let first = block / per * span;
        let begin = first + block % per * self.each;
        let end = (begin + self.each).min(first + span);
        (begin < end && end <= pixels).then_some(Task {
            image,
            group,
            begin,
            end,
            filter,
            filters: self.filters.min(s.og - filter),
        })
    }

    /// Computes a block's pixels.
    ///
    /// # Safety
    /// As for `rx_conv2d_f32`, with a task of this convolution, a weight packed for its way, and
    /// room for [`Blocks::floats`].
    pub unsafe fn run(
        &self,
        v: &RxConv2dF32,
        s: &Sizes,
        x: *const f32,
        weight: *const f32,
        task: Task,
        scratch: *mut f32,
    ) {
        let room = self.room;
        // SAFETY: the task is one of this convolution, whose arrays have its sizes, the weight is
        // packed for its way, and `scratch` has `Blocks::floats`.
        unsafe {
            if let Some(joins) = self.rows {
                let room = (room.0, joins);
                dispatch!(block(
                    v: &RxConv2dF32,
                    s: &Sizes,
                    x: *const f32,
                    weight: *const f32,
                    task: Task,
                    scratch: *mut f32,
                    room: (usize, bool),
                ));
            } else {
                dispatch!(unfolded(
                    v: &RxConv2dF32,
                    s: &Sizes,
                    x: *const f32,
                    weight: *const f32,
                    task: Task,
                    scratch: *mut f32,
                    room: (usize, usize),
                ));
            }
        }
    }
}
