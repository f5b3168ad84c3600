//! The forms in which kernels read constant weights, and how these are packed.

use relax_runtime::kernels::conv::{self, RxConv2dF32, RxConv2dSizes};
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use relax_runtime::kernels::gemm::pack;
use relax_runtime::kernels::integer::fused::{self, RxConv2dQ8};
use relax_tensor::{DType, Tensor};

/// The packed form of a weight.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// The second operand of a product: rows, columns, strides.
    Columns([i64; 4]),
    /// The first operand of a product: rows, columns, strides.
    Rows([i64; 4]),
    /// A convolution: its sizes and layout.
    Conv(RxConv2dSizes, i32),
    /// A product of bytes that become bytes at once: its sizes and layout as a convolution, the steps of
    /// the weight along taps, input and output channels, and its zero point, which is 0 where the weight
    /// is signed.
    Bytes(RxConv2dSizes, i32, [i64; 3], i32),
}

impl Form {
    /// Returns the form of a weight with a zero point, if there is one.
    pub fn with_zero(self, weight: &Tensor, zero: &Tensor) -> Option<Form> {
        let zero = zero.is_scalar().then(|| zero.get_i64(0))?;
        match (self, weight.dtype()) {
            (Form::Bytes(sizes, layout, steps, _), DType::U8) => {
                let zero = i32::try_from(zero).ok()?;
                let fits = (1..=255).contains(&zero);
                fits.then_some(Form::Bytes(sizes, layout, steps, zero))
            }
            _ => (zero == 0).then_some(self),
        }
    }
}

/// Returns whether a tensor is the number 0.
pub(crate) fn is_zero(t: &Tensor) -> bool {
    t.is_scalar() && t.get_i64(0) == 0
}

/// The packed weight, as a vector; `None` when the kernel packs nothing.
pub(crate) fn pack(weight: &Tensor, form: Form) -> Option<Tensor> {
    let mut out = Tensor::zeros(DType::F32, &[packed_size(weight, form)? as i64]);
    // SAFETY: the vector has the size that was asked for.
    unsafe { fill(weight, form, out.slice_mut::<f32>().as_mut_ptr()) };
    Some(out)
}

/// Returns the descriptor of a convolution by this weight, in which only the sizes matter.
fn described(weight: *const f32, sizes: RxConv2dSizes, layout: i32) -> RxConv2dF32 {
    RxConv2dF32 {
        sizes,
        layout,
        reserved: 0,
        x: std::ptr::null(),
        weight,
        weight_packed: std::ptr::null(),
        y: std::ptr::null_mut(),
        epilogue: RxEpilogue::default(),
    }
}

/// Returns the descriptor of a product of bytes by this weight, in which only the sizes, the
/// layout and the weight's zero point matter.
fn described_bytes(
    weight: *const i8,
    (sizes, layout): (RxConv2dSizes, i32),
    steps: [i64; 3],
    weight_zero: i32,
) -> RxConv2dQ8 {
    RxConv2dQ8 {
        sizes,
        tap_step: steps[0],
        in_step: steps[1],
        out_step: steps[2],
        x: std::ptr::null(),
        weight,
        packed: std::ptr::null(),
        bias: std::ptr::null(),
        factor: std::ptr::null(),
        left: std::ptr::null(),
        multiplier: std::ptr::null(),
        half: std::ptr::null(),
        right: std::ptr::null(),
        zero: std::ptr::null(),
        y: std::ptr::null_mut(),
        factors: 1,
        x_signed: 0,
        x_zero: 0,
        y_zero: 0,
        low: 0,
        high: 0,
        layout,
        shift: std::ptr::null(),
        least: 0.0,
        most: 0.0,
        floats: 0,
        weight_zero,
    }
}

/// Returns the number of elements of a packed weight; `None` when a kernel packs nothing.
pub(crate) fn packed_size(weight: &Tensor, form: Form) -> Option<usize> {
    let whole = |elements: i64| weight.len() as i64 == elements;
    let size = match form {
        Form::Columns([k, n, _, _]) if whole(k * n) => {
            pack::size_of_columns(k as usize, n as usize)
        }
        Form::Rows([m, k, _, _]) if whole(m * k) => pack::size_of_rows(m as usize, k as usize),
        Form::Columns(_) | Form::Rows(_) => 0,
        Form::Conv(sizes, layout) => conv::packed_size(&described(std::ptr::null(), sizes, layout)),
        Form::Bytes(sizes, layout, steps, zero) => {
            let all = sizes.o * (sizes.c / sizes.groups.max(1)) * sizes.kh * sizes.kw;
            let conv = described_bytes(std::ptr::null(), (sizes, layout), steps, zero);
            let bytes = fused::packed_size(&conv);
            if whole(all) { bytes.div_ceil(4) } else { 0 }
        }
    };
    (size > 0).then_some(size)
}

/// Packs a weight.
///
/// # Safety
/// There are as many numbers at `to` as [`packed_size`] says, and nobody else uses them.
pub(crate) unsafe fn fill(weight: &Tensor, form: Form, to: *mut f32) {
    let bytes = weight.bytes().as_ptr();
    let from = bytes.cast::<f32>();
    // SAFETY: the weight has as many elements as its form says at these strides, which the size was
    // asked for; `to` has room for as many numbers as `packed_size` says.
    unsafe {
        match form {
            Form::Columns([k, n, rs, cs]) => {
                pack::columns(k as usize, n as usize, from, rs as isize, cs as isize, to);
            }
            Form::Rows([m, k, rs, cs]) => {
                pack::rows(m as usize, k as usize, from, rs as isize, cs as isize, to);
            }
            Form::Conv(sizes, layout) => {
                conv::pack_weight(&described(from, sizes, layout), to);
            }
            Form::Bytes(sizes, layout, steps, zero) => {
                let conv = described_bytes(bytes.cast(), (sizes, layout), steps, zero);
                fused::pack_weight(&conv, to.cast());
            }
        }
    }
}
