//! When Winograd's way pays, and how a convolution is cut up for it.

use super::super::Sizes;
use crate::kernels::gemm::even_piece;
use crate::kernels::gemm::tile::{COLS, ROWS};
use crate::kernels::padded::{Padded, Window};

/// Outputs of a tile along an axis.
pub(super) const OUT: usize = 4;
/// Inputs of a tile along an axis.
pub(super) const IN: usize = 6;
/// Matrices in the transformed form.
pub(super) const PARTS: usize = IN * IN;
/// Places of the window.
pub(super) const TAPS: usize = 9;
/// Floats of the weight that lie together: of one place of the window, some channels.
pub(super) const LINE: usize = 16;
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
pub(super) fn tiles(s: &Sizes) -> (usize, usize) {
    (s.oh.div_ceil(OUT), s.ow.div_ceil(OUT))
}

/// Returns whether tiles are the rows of the products.
fn few(s: &Sizes) -> bool {
    let (rows, columns) = tiles(s);
    rows * columns <= FEW
}

/// Output channels whose weights lie together.
pub(super) fn panel(s: &Sizes) -> usize {
    if few(s) { COLS } else { ROWS }
}

/// Returns whether Winograd can compute a convolution.
pub(in super::super) fn can(s: &Sizes) -> bool {
    let plain = (s.kh, s.kw, s.sh, s.sw, s.dh, s.dw, s.groups) == (3, 3, 1, 1, 1, 1, 1);
    plain && !s.nhwc
}

/// Returns the cost of an image, in multiplications of one lane: the products, and the transforms
/// of weight, inputs and outputs (see `ways.rs`); infinite where Winograd cannot compute it. From
/// or to fewer than 16 channels the gain is uncertain, and direct sums round less.
pub(in super::super) fn cost(s: &Sizes) -> f64 {
    if !can(s) || s.c < 16 || s.o < 16 {
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
    let filled = s.o.next_multiple_of(panel(s)) as f64;
    let transforms = input / o + output / c;
    let products = c * filled * product * lanes as f64;
    products + c * o * (weight * blocks + transforms * count as f64)
}

/// Matrices of so many floats are written side by side: a line further apart, they do not fall on
/// the same few places of the first cache.
fn apart(floats: usize) -> usize {
    floats.next_multiple_of(COLS) + COLS
}

/// How a convolution is cut up.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Tile rows of an image.
    pub(super) rows: usize,
    /// Tiles in a row.
    pub(super) columns: usize,
    /// Tile rows of a block.
    pub(super) high: usize,
    /// Whether tiles are the rows of the products.
    pub(super) few: bool,
    /// Tiles of a block, up to whole panels.
    pub(super) wide: usize,
    /// Output channels of a panel.
    pub(super) panel: usize,
    /// Output channels whose weights are transformed together.
    pub(super) group: usize,
    /// Input channels whose weights are transformed together; a function of the sizes alone, so
    /// that threads do not change sums.
    pub(super) deep: usize,
    pub(super) padded: Padded,
}

impl Plan {
    /// The most tile rows whose transformed inputs fit.
    pub(super) fn most(s: &Sizes) -> usize {
        let (rows, columns) = tiles(s);
        (INPUTS / (PARTS * s.c * columns).max(1)).clamp(1, rows.max(1))
    }

    /// Tile rows of a block: of those whose transformed inputs fit, the fewest that cost about as
    /// little as any.
    pub(super) fn high(s: &Sizes) -> usize {
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
    pub(super) fn of(s: &Sizes, high: usize, share: usize) -> Self {
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
    pub(super) fn groups(&self, s: &Sizes) -> usize {
        s.o.div_ceil(self.group)
    }

    /// Floats from one matrix of the transformed inputs of a block to the next.
    pub(super) fn matrix(&self, s: &Sizes) -> usize {
        apart(s.c * self.wide)
    }

    /// Floats of the transformed inputs of a block.
    pub(super) fn inputs(&self, s: &Sizes) -> usize {
        PARTS * self.matrix(s)
    }

    /// Floats of a padded channel.
    pub(super) fn channel(&self) -> usize {
        self.padded.floats().next_multiple_of(COLS)
    }

    /// Floats from one matrix of the transformed weight to the next.
    pub(super) fn part(&self) -> usize {
        apart(self.group * self.deep)
    }

    /// Floats from one matrix of the products, of `group` output channels, to the next.
    pub(super) fn sums(&self) -> usize {
        apart(self.group * self.wide)
    }

    /// Floats of a thread: transformed weights and sums (with what vectors read past the end), or a
    /// padded channel.
    pub(super) fn room(&self) -> usize {
        (PARTS * (self.part() + self.sums()) + COLS).max(self.channel())
    }
}

/// Returns what tile rows from `first` on read of the image: the padding above moves with them.
pub(super) fn window(s: &Sizes, first: usize, rows: usize) -> Window {
    Window {
        image: (s.h, s.w),
        output: (rows, tiles(s).1),
        window: (IN, IN),
        stride: (OUT, OUT),
        dilation: (1, 1),
        pad: (s.pt - (first * OUT) as isize, s.pl),
    }
}
