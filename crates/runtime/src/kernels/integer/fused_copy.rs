//! The copy of an image that windows of [`fused`](super::fused) are read in, where they cannot be
//! read in the image itself: with its padding, of unsigned bytes, with whole quads of channels.

use super::fused::Conv;
use super::fused_tile::MOST;

impl Conv<'_> {
    /// Returns whether windows are read in the image itself.
    pub(super) fn in_place(&self) -> bool {
        let (s, (high, wide)) = (&self.s, self.read());
        let inside = s.pt == 0 && s.pl == 0 && high <= s.h && wide <= s.w;
        let whole = match self.depthwise() {
            true => s.c.is_multiple_of(MOST),
            false => s.c.is_multiple_of(4),
        };
        inside && whole && self.v.x_signed == 0
    }

    /// Row `y` of an image's copy: what lies outside is the zero point; all bytes are unsigned.
    ///
    /// # Safety
    /// `to` has room for the row.
    pub(super) unsafe fn copy_row(&self, n: usize, y: usize, to: *mut u8) {
        let (s, v, (_, wide), deep) = (&self.s, self.v, self.read(), self.deep());
        let flip = if v.x_signed != 0 { 0x80u8 } else { 0 };
        let none = v.x_zero as u8 ^ flip;
        let row = y as isize - s.pt;
        let (left, cut) = (s.pl.max(0) as usize, (-s.pl).max(0) as usize);
        let count = s.w.saturating_sub(cut).min(wide.saturating_sub(left));
        // SAFETY: the row is one of the image, or none of its bytes is read.
        unsafe {
            if row < 0 || row as usize >= s.h || count == 0 {
                std::ptr::write_bytes(to, none, wide * deep);
                return;
            }
            std::ptr::write_bytes(to, none, left * deep);
            let right = left + count;
            std::ptr::write_bytes(to.add(right * deep), none, (wide - right) * deep);
            let from =
                v.x.cast::<u8>()
                    .add(((n * s.h + row as usize) * s.w + cut) * s.c);
            let to = to.add(left * deep);
            if deep == s.c {
                std::ptr::copy_nonoverlapping(from, to, count * deep);
            } else {
                spread((from, s.c), (to, deep), count, none);
            }
            if flip != 0 {
                let all = std::slice::from_raw_parts_mut(to, count * deep);
                all.iter_mut().for_each(|b| *b ^= flip);
            }
        }
    }
}

/// Copies `count` pixels of fewer channels than the copy's have; the others become `none`.
///
/// # Safety
/// `from` has the pixels, and `to` room for them.
unsafe fn spread(
    (from, channels): (*const u8, usize),
    (to, deep): (*mut u8, usize),
    count: usize,
    none: u8,
) {
    // Pixels of a first layer's image are read and written as words, except those whose words would
    // end beyond the last one.
    let words = match deep {
        4 => count.saturating_sub((4 - channels).div_ceil(channels)),
        _ => 0,
    };
    let kept = u32::from_le_bytes(std::array::from_fn(|i| if i < channels { 255 } else { 0 }));
    let others = !kept & u32::from_le_bytes([none; 4]);
    // SAFETY: all pixels are there, and words end with the last one at most.
    unsafe {
        for p in 0..words {
            let word = from.add(p * channels).cast::<[u8; 4]>().read();
            let word = u32::from_le_bytes(word) & kept | others;
            to.add(p * 4).cast::<[u8; 4]>().write(word.to_le_bytes());
        }
        for p in words..count {
            let to = to.add(p * deep);
            std::ptr::copy_nonoverlapping(from.add(p * channels), to, channels);
            std::ptr::write_bytes(to.add(channels), none, deep - channels);
        }
    }
}
