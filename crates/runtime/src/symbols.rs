//! The functions of the C interface: each is named once, here with a `_` for each parameter, or in
//! the table of kernels with a descriptor (`capi::kernels`), which makes the functions, too.

/// The functions as constants under their own names.
pub(crate) mod functions {
    use super::listed;
    use crate::abi::{Function, joined};
    use crate::capi::kernels::table;

    pub use listed::*;
    pub use table::*;

    /// All of the functions, in a fixed order.
    pub const FUNCTIONS: &[Function] = &joined::<
        { listed::FUNCTIONS.len() + table::FUNCTIONS.len() },
    >([listed::FUNCTIONS, table::FUNCTIONS]);
}

#[allow(non_upper_case_globals)]
mod listed {
    use crate::reach::touches;

    crate::c_functions! {
        crate::capi::context =>
            rx_abi_version() rx_context_create() rx_context_destroy(_) rx_set_allocator(_, _)
            rx_set_threads(_, _) rx_heap_stats(_, _) rx_trim(_);
        crate::capi::errors =>
            rx_last_error(_) rx_last_status(_)
            rx_clear_error(_) rx_set_error(_, _, _) rx_fail_dim(_, _, _, _, _) rx_fail_match(_, _)
            rx_fail_stack(_, _) rx_fail(_, _, _, _) rx_fail_int(_, _, _, _, _);
        crate::capi::checks => rx_check_call(_, _, _, _, _, _);
        crate::capi::errors =>
            rx_fail_values(_, _, _, _, _, _) rx_fail_at(_, _, _) rx_fail_extents(_, _, _, _, _);
        crate::capi::launch => rx_launch(_, _, _, _, _);
        crate::capi::stack =>
            rx_set_stack_size(_, _) rx_call_on_stack(_, _, _);
        crate::capi::values =>
            rx_unit() rx_alloc_tuple(_, _) rx_alloc_adt(_, _, _) rx_alloc_closure(_, _, _)
            rx_alloc_ref(_, _) rx_alloc_shape(_, _) rx_make_shape(_, _, _) rx_make_tuple(_, _, _)
            rx_make_adt(_, _, _, _) rx_make_string(_, _, _) rx_make_foreign(_, _, _);
        crate::capi::scratch =>
            rx_scratch_alloc(_, _) rx_scratch_free(_, _) rx_scratch_free_all(_, _, _);
        crate::capi::fields =>
            rx_kind(_) rx_tag(_) rx_field_count(_) rx_field(_, _) rx_shape_dims(_)
            rx_string_bytes(_) rx_foreign_pointer(_) rx_ref_set(_, _, _);
        crate::capi::functions => rx_call_closure(_, _, _, _, _);
        crate::capi::counts =>
            rx_retain(_) rx_release(_, _) rx_drop(_, _) rx_is_unique(_);
        crate::capi::tensors =>
            rx_alloc_tensor(_, _, _, _) rx_tensor_copy(_, _, _, _, _)
            rx_tensor_borrow(_, _, _, _, _) rx_tensor_unique(_, _)
            rx_reuse_tensor(_, _, _, _, _) rx_grow_tensor(_, _, _, _, _) rx_tensor_grown(_, _);
        crate::capi::views =>
            rx_tensor_view(_, _, _, _, _, _) rx_tensor_reshape(_, _, _, _)
            rx_place_tensor(_, _, _, _, _, _);
        crate::capi::tensors =>
            rx_scalar_i64(_, _, _) rx_scalar_f64(_, _, _)
            rx_tensor_ndim(_) rx_tensor_shape(_) rx_tensor_dtype(_) rx_tensor_data(_)
            rx_tensor_nbytes(_) rx_tensor_elements(_);
        crate::capi::checks => rx_check_tensor(_, _, _, _, _, _);
        crate::capi::dlpack =>
            rx_from_dlpack(_, _) rx_to_dlpack(_, _);
        crate::capi::functions =>
            rx_register_packed(_, _, _, _) rx_has_packed(_, _) rx_call_packed(_, _, _, _, _)
            rx_call_dps_packed(_, _, _, _);
        crate::capi::weights => rx_weights_map(_, _);
        crate::capi::checks => rx_check_reach(_, _, _, _, _, _) rx_check_value(_, _, _, _);
        crate::capi::profile =>
            rx_profile_begin(_) rx_profile_end(_, _, _, _, _, _, _, _) rx_profile_row(_, _, _)
            rx_profile_clear(_);
        crate::capi::numbers =>
            rx_isa() rx_ipow(_, _) rx_math_f32(_, _, _) rx_math_f64(_, _, _);
        crate::capi::threads => rx_parallel_for(_, _, _, _, _);
        crate::capi::packing =>
            rx_pack_b_f32_size(_, _) rx_pack_b_f32(_, _, _, _, _, _) rx_pack_a_f32_size(_, _)
            rx_pack_a_f32(_, _, _, _, _, _) rx_conv2d_f32_pack_size(_) rx_conv2d_f32_pack(_, _)
            rx_conv2d_q8_pack_size(_) rx_conv2d_q8_pack(_, _);
        crate::capi::arrays =>
            rx_vexp_f32(_, _, _) rx_vlog_f32(_, _, _) rx_vtanh_f32(_, _, _) rx_verf_f32(_, _, _)
            rx_vsigmoid_f32(_, _, _) rx_vsqrt_f32(_, _, _) rx_vrsqrt_f32(_, _, _)
            rx_vsin_f32(_, _, _) rx_vcos_f32(_, _, _) rx_vatan_f32(_, _, _) rx_vgelu_f32(_, _, _)
            rx_vpow_f32(_, _, _, _) rx_vmath_f32(_, _, _, _, _) rx_vmath_f64(_, _, _, _, _)
            rx_vf16_to_f32(_, _, _) rx_vf32_to_f16(_, _, _) rx_vbf16_to_f32(_, _, _)
            rx_vf32_to_bf16(_, _, _)
            rx_lookup_bytes(_, _, _, _, _, _) => touches::lookup
            rx_softmax(_, _, _, _, _, _, _) => touches::softmax
            rx_reduce_f32(_, _, _, _, _, _, _)
            rx_copy_strided(_, _, _, _, _, _, _, _) => touches::copy
            rx_transpose(_, _, _, _, _, _, _) rx_fill(_, _, _, _) rx_copy(_, _, _);
    }
}

/// The names and addresses of the C interface, for code that is linked in memory.
pub fn symbols() -> Vec<(&'static str, *const u8)> {
    let all = functions::FUNCTIONS.iter();
    all.map(|f| (f.name, f.address)).collect()
}
