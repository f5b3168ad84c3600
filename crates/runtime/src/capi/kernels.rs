//! Kernels that take a descriptor: their table, which makes the functions that C calls and what the
//! code generator knows of them.
//!
//! A descriptor is looked at here: null is an error. What it points to, the kernel takes as the
//! headers promise it.

use crate::context::{RxContext, Status, guard};
use crate::kernels::attention::{self, RxAttentionF32};
use crate::kernels::blockwise::{self, RxBlockwiseF32};
use crate::kernels::boxes::{self, RxBoxes};
use crate::kernels::contract::{self, RxContract};
use crate::kernels::conv::volumes::{self, RxDepthwise3dF32};
use crate::kernels::conv::{self, RxConv2dF32, pooled, transpose};
use crate::kernels::gathered::{self, RxGathered};
use crate::kernels::gemm::other::{self, RxGemm, RxGemmI32};
use crate::kernels::gemm::{self, RxGemmF32};
use crate::kernels::integer::conv::{self as integer_conv, RxConv2dI32};
use crate::kernels::integer::fused::{self, RxConv2dQ8};
use crate::kernels::lines::{self, RxLines};
use crate::kernels::pick::{self, RxPick};
use crate::kernels::pool2d::{self, RxPool2dF32};
use crate::kernels::requantize::{self, RxRequantize};
use crate::kernels::rows::{self, RxLayerNormF32};
use crate::kernels::strips::{self, RxStrips};
use crate::kernels::sweep::{self, RxSweep};
use crate::reach::touches;

/// Defines the functions of C for kernels that take a context, descriptors and numbers, and a table
/// of them: `name(descriptor: Type; number: type) => kernel, touches;`, where the kernel is a
/// function of references, which returns a status, and `touches` the
/// [`Touches`](crate::reach::Touches) of its calls, if code that is checked calls it.
macro_rules! kernels {
    ($(
        $name:ident($($given:ident: $of:ty),+ $(; $($number:ident: $ty:ty),+)?)
            => $kernel:path $(, $touches:path)?;
    )*) => {
        $(
            #[doc = concat!("[`", stringify!($kernel), "`]")]
            ///
            /// # Safety
            /// `ctx` is null or a context; descriptors are null or live, and what they point to is
            /// as the kernel asks for it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                ctx: *mut RxContext,
                $($given: *const $of,)+
                $($($number: $ty,)+)?
            ) -> i32 {
                guard(ctx, |context| {
                    $(
                        // SAFETY: null, or a descriptor that lives until the call is over.
                        let Some($given) = (unsafe { $given.as_ref() }) else {
                            return missing(context, stringify!($name), stringify!($given));
                        };
                    )+
                    // SAFETY: the headers ask for what the kernel asks for.
                    unsafe { $kernel(context, $($given,)+ $($($number,)+)?) }
                })
            }
        )*

        /// The functions as constants under their own names.
        #[allow(non_upper_case_globals)]
        pub(crate) mod table {
            use super::*;

            crate::c_functions! {
                crate::capi::kernels => $(
                    $name(_, $(*const $of,)+ $($($ty,)+)?) $(=> $touches)?
                )*;
            }
        }
    };
}

/// Records that a descriptor is null.
#[cold]
fn missing(context: &mut RxContext, kernel: &str, descriptor: &str) -> i32 {
    let text = format!("{kernel}: `{descriptor}` is null");
    context.fail(Status::Argument, &text)
}

kernels! {
    rx_gemm_f32(g: RxGemmF32) => gemm::gemm, touches::gemm;
    rx_batch_gemm_f32(g: RxGemmF32; batch: i64, a_step: i64, b_step: i64, c_step: i64)
        => gemm::batch, touches::batch_gemm;
    rx_gemm_f64(g: RxGemm) => other::f64s;
    rx_gemm_i8_i8_i32(g: RxGemm) => other::i8s;
    rx_gemm_u8_i8_i32(g: RxGemm) => other::u8s_by_i8s;
    rx_gemm_u8_u8_i32(g: RxGemm) => other::u8s;
    rx_gemm_i16_i16_i32(g: RxGemm) => other::i16s;
    rx_gemm_i32_i32_i32(g: RxGemm) => other::i32s;
    rx_gemm_i64_i64_i64(g: RxGemm) => other::i64s;
    rx_gemm_i32(g: RxGemmI32) => other::integers, touches::gemm_i32;
    rx_blockwise_f32(q: RxBlockwiseF32) => blockwise::product, touches::blockwise;
    rx_contract(contract: RxContract) => contract::contract, touches::contract;
    rx_conv2d_f32(conv: RxConv2dF32) => conv::convolve, touches::conv;
    rx_conv2d_pool2d_f32(conv: RxConv2dF32, pool: RxPool2dF32)
        => pooled::convolve_and_pool, touches::pooled;
    rx_depthwise3d_f32(conv: RxDepthwise3dF32) => volumes::convolve, touches::depthwise3d;
    rx_conv2d_transpose_f32(conv: RxConv2dF32) => transpose::convolve, touches::conv;
    rx_conv2d_i32(conv: RxConv2dI32) => integer_conv::convolve, touches::conv_i32;
    rx_conv2d_q8(conv: RxConv2dQ8) => fused::convolve, touches::conv_q8;
    rx_requantize_i32(q: RxRequantize) => requantize::requantize, touches::requantize;
    rx_pool2d_f32(pool: RxPool2dF32) => pool2d::pool, touches::pool;
    rx_strips_f32(strips: RxStrips) => strips::evaluate, touches::strips;
    rx_sweep(sweep: RxSweep) => sweep::evaluate, touches::sweep;
    rx_lines(lines: RxLines) => lines::along, touches::lines;
    rx_pick(pick: RxPick) => pick::pick, touches::pick;
    rx_boxes(boxes: RxBoxes) => boxes::boxes, touches::boxes;
    rx_gathered(gathered: RxGathered) => gathered::gathered, touches::gathered;
    rx_attention_f32(attention: RxAttentionF32) => attention::attend, touches::attention;
    rx_layer_norm_f32(norm: RxLayerNormF32) => rows::normalise, touches::layer_norm;
}
