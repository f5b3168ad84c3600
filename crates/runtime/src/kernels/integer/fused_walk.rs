//! The way of [`fused`](super::fused) from pixel to pixel. Stepping takes no division: a tile of few
//! quads would take less time for its products than for these.

use super::fused_tile::{Ends, Tile, tile};
use crate::kernels::conv::Sizes;

/// Where windows are read.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub data: *const u8,
    /// Bytes of an image, from one row to the next and from one column to the next.
    pub whole: usize,
    pub row: usize,
    pub column: usize,
}

/// What windows are read in: the image as it lies, or a copy with its padding.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub image: Image,
    /// The rows and columns that it has, and how many of padding are before them.
    pub high: usize,
    pub wide: usize,
    pub before: (isize, isize),
    /// The bytes that may be read.
    pub end: usize,
    /// What makes bytes unsigned.
    pub flip: u8,
}

/// Where results go, pixel after pixel.
#[derive(Clone, Copy)]
pub(super) struct Pixels {
    pub data: *mut u8,
    /// Bytes from one pixel to the next, and of a result.
    pub pixel: usize,
    pub size: usize,
}

/// Which runs of a window meet rows of the image: those above and below it add nothing where padding
/// is bytes of 0.
#[derive(Clone, Copy)]
pub(super) struct Clip {
    /// Rows of a window, the runs of each, and how far rows are apart.
    pub rows: usize,
    pub runs: usize,
    pub apart: usize,
    /// Rows from one window to the next, of padding above, and of the image.
    pub step: usize,
    pub above: isize,
    pub high: usize,
}

impl Clip {
    /// Returns the first run that meets the image, of windows in row `y` of the output, and the end of
    /// these.
    fn meets(&self, y: usize) -> [usize; 2] {
        let top = (y * self.step) as isize - self.above;
        // Rows of the window that begin before a row of the image.
        let before = |row: isize| {
            ((row - top).max(0) as usize)
                .div_ceil(self.apart)
                .min(self.rows)
        };
        let end = before(self.high as isize);
        [before(0).min(end) * self.runs, end * self.runs]
    }
}

/// A pixel of the output, and those after it.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    /// The first byte of its window, and where its results go.
    from: *const u8,
    to: *mut u8,
    x: usize,
    y: usize,
    /// The pixels after this one.
    left: usize,
    ow: usize,
    oh: usize,
    /// Bytes between the windows of neighbours, of the first pixels of rows, and of images.
    column: usize,
    row: usize,
    whole: usize,
    /// Bytes between results.
    pixel: usize,
    /// What runs of windows are wanted, if not all, and those of this pixel's window.
    clip: Option<Clip>,
    meets: [usize; 2],
}

/// A pixel of a tile: the first byte of its window, where its results go, and the runs of the window
/// that are wanted, where that are not all.
type Pixel = (*const u8, *mut u8, [usize; 2]);

impl Walk {
    /// The walk from the pixel with this number on, for channels from `first` on.
    pub(super) fn of(
        s: &Sizes,
        number: usize,
        (image, to): (Image, Pixels),
        first: usize,
        clip: Option<Clip>,
    ) -> Self {
        let (n, y, x) = (number / (s.oh * s.ow), number / s.ow % s.oh, number % s.ow);
        let (row, column) = (s.sh * image.row, s.sw * image.column);
        let window = n * image.whole + y * row + x * column;
        Self {
            from: image.data.wrapping_add(window),
            to: to.data.wrapping_add(number * to.pixel + first * to.size),
            x,
            y,
            left: s.n * s.oh * s.ow - number - 1,
            ow: s.ow,
            oh: s.oh,
            column,
            row,
            whole: image.whole,
            pixel: to.pixel,
            clip,
            meets: clip.map_or([0; 2], |clip| clip.meets(y)),
        }
    }

    /// Returns this pixel, and steps to the next one; the last one is returned again.
    #[inline(always)]
    fn next(&mut self) -> Pixel {
        let this = (self.from, self.to, self.meets);
        if self.left == 0 {
            return this;
        }
        self.left -= 1;
        self.to = self.to.wrapping_add(self.pixel);
        self.from = self.from.wrapping_add(self.column);
        self.x += 1;
        if self.x == self.ow {
            (self.x, self.y) = (0, self.y + 1);
            let back = self.ow * self.column;
            self.from = self.from.wrapping_sub(back).wrapping_add(self.row);
        }
        if self.y == self.oh {
            self.y = 0;
            let back = self.oh * self.row;
            self.from = self.from.wrapping_sub(back).wrapping_add(self.whole);
        }
        if let (0, Some(clip)) = (self.x, &self.clip) {
            self.meets = clip.meets(self.y);
        }
        this
    }
}

/// Consecutive tiles of a group of channels.
pub(super) struct Tiles<'t> {
    /// A tile, but for its pixels.
    pub tile: Tile<'t>,
    pub walk: Walk,
    /// Their pixels.
    pub count: usize,
}

/// Computes tiles.
///
/// # Safety
/// As of [`tile`].
#[inline(always)]
pub(super) unsafe fn tiles<S: Ends>(t: &Tiles<'_>) {
    let (mut tile_of, mut walk) = (t.tile, t.walk);
    let most = t.tile.pixels::<S>();
    for first in (0..t.count).step_by(most) {
        tile_of.high = (t.count - first).min(most);
        let (some, others) = tile_of.pixels.split_at_mut(6);
        some.iter_mut().for_each(|pixel| *pixel = walk.next());
        if most > 6 {
            others.iter_mut().for_each(|pixel| *pixel = walk.next());
        }
        // SAFETY: as promised.
        unsafe { tile::<S>(&tile_of) };
    }
}
