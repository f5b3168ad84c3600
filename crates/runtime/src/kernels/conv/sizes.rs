//! The sizes that descriptors of convolutions begin with.

use crate::c_structure;

c_structure! {
    /// The sizes with which a convolution's descriptor begins.
    #[derive(PartialEq, Eq, Hash)]
    pub struct RxConv2dSizes {
        /// Images.
        pub n: i64,
        /// Input channels.
        pub c: i64,
        /// Input height.
        pub h: i64,
        /// Input width.
        pub w: i64,
        /// Output channels.
        pub o: i64,
        /// Window height.
        pub kh: i64,
        /// Window width.
        pub kw: i64,
        /// Output height.
        pub oh: i64,
        /// Output width.
        pub ow: i64,
        /// The vertical stride.
        pub stride_h: i64,
        /// The horizontal stride.
        pub stride_w: i64,
        /// Zeros above the image.
        pub pad_t: i64,
        /// Zeros left of the image.
        pub pad_l: i64,
        /// The vertical dilation.
        pub dilation_h: i64,
        /// The horizontal dilation.
        pub dilation_w: i64,
        /// Groups of channels.
        pub groups: i64,
    }
}

impl RxConv2dSizes {
    /// A window of one pixel over an image of one pixel, with one channel.
    pub const ONE: RxConv2dSizes = RxConv2dSizes {
        n: 1,
        c: 1,
        h: 1,
        w: 1,
        o: 1,
        kh: 1,
        kw: 1,
        oh: 1,
        ow: 1,
        stride_h: 1,
        stride_w: 1,
        pad_t: 0,
        pad_l: 0,
        dilation_h: 1,
        dilation_w: 1,
        groups: 1,
    };
}
