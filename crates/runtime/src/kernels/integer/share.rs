//! Parallelisation of products of small integers, for any kind of words.
//!
//! A word is the unit that one lane multiplies and adds to its sum in one step: a pair of 16-bit
//! numbers ([`pairs`](super::pairs)) or a quad of bytes ([`quads`](super::quads)). Panels of rows
//! of A are packed once, piece after piece of the common axis; then workers take blocks of columns
//! of B, pack a piece of one in scratch memory of their own, and multiply it with all panels of A
//! (with a part of them, where there are fewer blocks than workers).

use super::Scratch;
use crate::context::RxContext;
use crate::threads::{Grain, Pool, Share};

/// Rows of a panel of A.
pub(super) const ROWS: usize = 8;
/// Columns of a panel of B.
pub(super) const COLS: usize = 16;
/// The maximum number of columns of a tile.
pub(super) const MOST: usize = 2 * COLS;
/// The maximum number of columns that are packed together: a piece of them stays in the
/// second-level cache.
const WIDE: usize = 128;
/// Words of a line of the caches.
const LINE: usize = 16;

/// An operand of elements or words: row (or column) `i` has element `p` of the common axis at
/// `data[at[i] + along[p]]`.
pub(super) struct Operand<T> {
    pub data: *const T,
    pub at: *const usize,
    pub along: *const usize,
}

impl<T> Clone for Operand<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Operand<T> {}

/// The extents of a product.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub rows: usize,
    pub columns: usize,
    /// Words of the common axis.
    pub words: usize,
    /// Its elements.
    pub elements: usize,
}

/// Words of the common axis that are multiplied together: the first one, and their number.
pub(super) type Piece = (usize, usize);

/// One tile of the result, for one piece of the common axis.
pub(super) struct Place {
    pub piece: Piece,
    /// The panel of A.
    pub a: *const u32,
    /// The panels of B, [`Place::step`] words apart.
    pub b: *const u32,
    pub step: usize,
    pub row: usize,
    pub column: usize,
    /// Rows, at most [`ROWS`].
    pub high: usize,
    /// Columns, at most [`Panels::tile_columns`].
    pub wide: usize,
}

/// A product and the instructions that compute it.
///
/// # Safety
/// The operands have all words that the extents promise, the result its rows and columns. Functions
/// write where they are told, and nowhere else.
pub(super) unsafe trait Panels: Copy {
    /// The words of the longest piece: two panels of B and one of A stay in the first-level cache.
    const PIECE: usize;
    /// Below this number of multiplications a product stays on one thread.
    const SMALL: usize;

    fn extents(&self) -> Extents;

    /// Columns of a tile: [`COLS`] or [`MOST`].
    fn tile_columns(&self) -> usize;

    /// Packs a piece of the panel of A from row `first` on: word by word, with the rows' words
    /// adjacent.
    ///
    /// # Safety
    /// `out` has room for [`ROWS`] rows of the piece.
    unsafe fn pack_rows(&self, first: usize, piece: Piece, out: *mut u32);

    /// Packs a piece of the panel of B with columns from `first` on, those before `end`.
    ///
    /// # Safety
    /// `out` has room for [`COLS`] columns of the piece.
    unsafe fn pack_columns(&self, first: usize, end: usize, piece: Piece, out: *mut u32);

    /// Computes a tile: stores its sums with the first piece, accumulates them with the others.
    ///
    /// # Safety
    /// The panels are packed; the place lies in the result.
    unsafe fn tile(&self, place: &Place);
}

/// Returns the offset of the packed panel of A that begins with a row, for a piece of the common
/// axis: pieces are stored one after another, in each the panels.
fn packed_at(panels: usize, panel: usize, (first, length): Piece) -> usize {
    (first * panels + panel * length) * ROWS
}

/// The pieces of a common axis.
fn pieces<P: Panels>(words: usize) -> impl Iterator<Item = Piece> {
    (0..words)
        .step_by(P::PIECE)
        .map(move |first| (first, (words - first).min(P::PIECE)))
}

/// Computes panels `rows` of A by columns `[from, to)`; `room` is scratch memory for a piece of
/// them.
unsafe fn block<P: Panels>(
    product: &P,
    packed: *const u32,
    rows: (usize, usize),
    (from, to): (usize, usize),
    room: *mut u32,
) {
    let Extents {
        rows: m, words: k, ..
    } = product.extents();
    let panels = m.div_ceil(ROWS);
    let columns = product.tile_columns();
    for piece in pieces::<P>(k) {
        let step = piece.1 * COLS;
        // SAFETY: rows and columns are the product's, and `room` has a block; offsets stay in the
        // packed blocks.
        unsafe {
            for j in 0..(to - from).div_ceil(COLS) {
                product.pack_columns(from + j * COLS, to, piece, room.add(j * step));
            }
            for panel in rows.0..rows.1 {
                let row = panel * ROWS;
                for column in (from..to).step_by(columns) {
                    product.tile(&Place {
                        piece,
                        a: packed.add(packed_at(panels, panel, piece)),
                        b: room.add((column - from) * piece.1),
                        step,
                        row,
                        column,
                        high: (m - row).min(ROWS),
                        wide: (to - column).min(columns),
                    });
                }
            }
        }
    }
}

/// How a product is divided: blocks of columns, at least two for each thread where possible;
/// otherwise rows are split too.
struct Division {
    threads: usize,
    /// Panels of A.
    panels: usize,
    /// Columns of a block.
    wide: usize,
    blocks: usize,
    /// Parts of the panels.
    parts: usize,
    /// Words of all panels of A.
    packed: usize,
    /// Words of a piece of a block.
    room: usize,
}

impl Division {
    fn of<P: Panels>(extents: &Extents, pool: &Pool) -> Division {
        let &Extents {
            rows: m,
            columns: n,
            words: k,
            elements,
        } = extents;
        let panels = m.div_ceil(ROWS);
        let threads = match (m * n).saturating_mul(elements) {
            work if work < P::SMALL => 1,
            _ => pool.threads(),
        };
        let wide = (n.div_ceil(2 * threads))
            .next_multiple_of(MOST)
            .clamp(MOST, WIDE);
        let blocks = n.div_ceil(wide);
        let shared = blocks < 2 * threads;
        Division {
            threads,
            panels,
            wide,
            blocks,
            parts: if shared { threads.min(panels) } else { 1 },
            packed: (panels * ROWS * k).next_multiple_of(LINE),
            room: wide * P::PIECE.min(k),
        }
    }

    /// The bytes of memory that the product needs.
    fn bytes(&self, pool: &Pool) -> usize {
        (self.packed + pool.threads() * self.room) * size_of::<u32>()
    }
}

/// Returns the bytes of memory that [`share_within`] needs for a product of some extents.
pub(super) fn room<P: Panels>(extents: &Extents, pool: &Pool) -> usize {
    Division::of::<P>(extents, pool).bytes(pool)
}

/// Computes a product of at least one word. Errors are statuses that the context has recorded.
///
/// # Safety
/// The contract of [`Panels`] holds.
pub(super) unsafe fn share_out<P: Panels>(context: &mut RxContext, product: P) -> Result<(), i32> {
    let bytes = room::<P>(&product.extents(), &context.pool);
    let scratch = Scratch::new(context, bytes).ok_or(context.status)?;
    // SAFETY: the caller's contract; the memory has what the product needs.
    unsafe { share_within(&context.pool, product, scratch.memory.cast()) };
    Ok(())
}

/// Computes a product of at least one word in memory of the caller's.
///
/// # Safety
/// The contract of [`Panels`] holds, and the memory has the bytes that [`room`] says.
pub(super) unsafe fn share_within<P: Panels>(pool: &Pool, product: P, memory: *mut u32) {
    let extents = product.extents();
    let Extents {
        rows: m,
        columns: n,
        words: k,
        ..
    } = extents;
    if m == 0 || n == 0 {
        return;
    }
    let d = &Division::of::<P>(&extents, pool);
    let each = d.panels.div_ceil(d.parts);
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((product, memory, memory.add(d.packed))) };
    let grain = if d.threads == 1 {
        Grain::always(d.panels)
    } else {
        Grain::of_work(1 << 15, k)
    };
    // SAFETY: blocks of the result are disjoint, and every worker packs B into its own room, behind
    // the panels of A.
    unsafe {
        pool.each(d.panels, grain, |begin, end, _| {
            let &(product, packed, _) = shared.get();
            for piece in pieces::<P>(k) {
                for panel in begin..end {
                    let out = packed.add(packed_at(d.panels, panel, piece));
                    product.pack_rows(panel * ROWS, piece, out);
                }
            }
        });
    }
    let tasks = d.blocks * d.parts;
    let grain = Grain::always(if d.threads == 1 { tasks } else { 1 });
    // SAFETY: blocks of the result are disjoint, and every worker packs B into its own room, behind
    // the panels of A.
    unsafe {
        pool.each(tasks, grain, |begin, end, worker| {
            let &(product, packed, rooms) = shared.get();
            for task in begin..end {
                let (part, number) = (task % d.parts, task / d.parts);
                let rows = (part * each, ((part + 1) * each).min(d.panels));
                let columns = (number * d.wide, ((number + 1) * d.wide).min(n));
                if rows.0 < rows.1 {
                    let room = rooms.add(worker * d.room);
                    block(&product, packed, rows, columns, room);
                }
            }
        });
    }
}
