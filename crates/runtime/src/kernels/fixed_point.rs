//! Fixed-point arithmetic that brings sums to another scale.

/// The parameters of a channel, as in
/// [`RxRequantize`](super::requantize::RxRequantize).
#[derive(Clone, Copy)]
pub(crate) struct Channel {
    pub bias: i32,
    pub left: i64,
    pub factor: i64,
    pub half: i64,
    pub right: i64,
    pub zero: i32,
}

impl Channel {
    /// The result of a sum, without bounds.
    #[inline(always)]
    pub(crate) fn bring(&self, x: i32) -> i32 {
        let x = i64::from(x.wrapping_add(self.bias)).wrapping_shl(self.left as u32);
        self.of_product(x.wrapping_mul(self.factor))
    }

    #[inline(always)]
    pub(crate) fn of_product(&self, product: i64) -> i32 {
        let rounded = product
            .wrapping_add(self.half)
            .wrapping_shr(self.right as u32);
        (rounded as i32).wrapping_add(self.zero)
    }
}
