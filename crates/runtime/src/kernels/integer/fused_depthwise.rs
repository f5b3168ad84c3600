//! Depthwise convolutions of [`fused`](super::fused): what [rows](super::fused_rows) of their
//! results read.

use super::Scratch;
use super::fused::{Conv, Packed};
use super::fused_compute::{Part, compute};
use super::fused_rows::{Column, Line, NONE, Row, TOGETHER, lane};
use super::fused_scales::{MOST, Tables};
use super::fused_walk::{Pixels, Source};
use crate::context::RxContext;
use crate::threads::{Grain, Share};

impl Conv<'_> {
    /// The quads of a window's column, of all summands of its weights.
    pub(super) fn column_quads(&self) -> usize {
        self.s.kh.div_ceil(4) * self.summands()
    }

    /// Writes the columns that windows of neighbours read; returns their number.
    ///
    /// # Safety
    /// There is room for as many as all these windows have.
    unsafe fn columns(&self, to: *mut Column) -> usize {
        let (s, size) = (&self.s, 4 * MOST * self.column_quads());
        let last = (TOGETHER - 1) * s.sw + (s.kw - 1) * s.dw;
        let mut count = 0;
        for at in 0..=last {
            let weights = std::array::from_fn(|pixel| {
                let within = at.checked_sub(pixel * s.sw);
                let tap = within.filter(|x| x % s.dw == 0 && x / s.dw < s.kw);
                tap.map_or(NONE, |x| x / s.dw * size)
            });
            if weights != [NONE; TOGETHER] {
                let at = at as isize;
                // SAFETY: each is one of some window's.
                unsafe { to.add(count).write(Column { at, weights }) };
                count += 1;
            }
        }
        count
    }

    /// Writes the lines that a block of channels reads for a row of the output. They are those of
    /// the image, but for its last one, where a whole block would be too much: that is copied.
    ///
    /// # Safety
    /// The row and the channels are the convolution's; there is room for the lines, and after them
    /// for one of the image and a block.
    unsafe fn lines(
        &self,
        source: &Source,
        (row, first): (usize, usize),
        outside: *const u8,
        to: *mut Line,
    ) {
        let (s, image, count) = (&self.s, source.image, 4 * self.column_quads());
        for line in 0..count {
            let tap = line % (count / self.summands());
            let down = (row % s.oh * s.sh + tap * s.dh) as isize - source.before.0;
            // SAFETY: as promised; no more is read than the image has.
            unsafe {
                if tap >= s.kh || down as usize >= source.high {
                    to.add(line).write((outside, 0));
                    continue;
                }
                let at = row / s.oh * image.whole + down as usize * image.row + first;
                let mut from = image.data.add(at);
                if at + (source.wide - 1) * image.column + MOST > source.end {
                    let room = to.add(count).cast::<u8>();
                    for place in (0..source.wide).map(|x| x * image.column) {
                        let some = (s.o - first).min(MOST);
                        std::ptr::copy_nonoverlapping(from.add(place), room.add(place), some);
                    }
                    from = room;
                }
                to.add(line).write((from, usize::MAX));
            }
        }
    }

    /// Rows of pixels of blocks of channels.
    ///
    /// # Safety
    /// The weight and the source have the convolution's sizes, and there is room for its results.
    pub(super) unsafe fn rows(
        &self,
        context: &mut RxContext,
        packed: Packed,
        (source, to): (Source, Pixels),
    ) -> Result<(), i32> {
        let s = &self.s;
        let (lines, column_size) = (4 * self.column_quads(), size_of::<Column>());
        let room = column_size * TOGETHER * s.kw;
        let room = Scratch::new(context, room).ok_or(context.status)?;
        let read = room.memory.cast::<Column>();
        // SAFETY: there is room for all columns of all windows.
        let read_count = unsafe { self.columns(read) };
        let copy = source.wide * source.image.column + MOST;
        let each = (size_of::<Line>() * lines + copy).next_multiple_of(MOST);
        let rooms = Scratch::new(context, each * context.pool.threads()).ok_or(context.status)?;
        let (rows, blocks) = (s.n * s.oh, s.o.div_ceil(MOST));
        // SAFETY: rows of the result are disjoint, and each worker has a room of its own.
        let shared = unsafe {
            let all = (*self, packed, source, to);
            Share::new((all, read.cast_const(), rooms.memory.cast::<u8>()))
        };
        let grain = Grain::of_work(1 << 16, s.ow * s.kw * lines * MOST / 16);
        context
            .pool
            .each(blocks * rows, grain, |begin, end, worker| {
                let &((conv, packed, source, to), read, all) = shared.get();
                let (s, image) = (&conv.s, source.image);
                let outside = [(conv.v.x_zero & 255) as u8; MOST];
                let mut held = (usize::MAX, Tables::default());
                for task in begin..end {
                    let (block, row) = (task / rows, task % rows);
                    let first = block * MOST;
                    // SAFETY: the block's channels and the row are the convolution's.
                    unsafe {
                        if held.0 != block {
                            held = (block, conv.tables(packed.sums, first, lane));
                        }
                    }
                    // SAFETY: the block's channels and the row are the convolution's.
                    let own = unsafe { all.add(worker * each).cast::<Line>() };
                    // SAFETY: the block's channels and the row are the convolution's.
                    unsafe {
                        conv.lines(&source, (row, first), outside.as_ptr(), own);
                    }
                    // SAFETY: the block's channels and the row are the convolution's.
                    let row = unsafe {
                        Row {
                            lines: own,
                            quads: lines / 4,
                            pixel: image.column,
                            outside: outside.as_ptr(),
                            left: -source.before.1,
                            step: s.sw as isize,
                            columns: source.wide,
                            read,
                            read_count,
                            three: s.kw == 3 && s.dw == 1 && lines == 4,
                            flip: [source.flip; 4],
                            weight: packed.quads.add(first * s.kw * lines),
                            start: held.1.start.as_ptr(),
                            finish: conv.finish(&held.1),
                            y: to.data.add(row * s.ow * to.pixel + first),
                            out_step: to.pixel,
                            count: s.ow,
                            wide: (s.o - first).min(MOST),
                        }
                    };
                    // SAFETY: the block's channels and the row are the convolution's.
                    unsafe {
                        compute(&Part::Row(row));
                    }
                }
            });
        Ok(())
    }
}
