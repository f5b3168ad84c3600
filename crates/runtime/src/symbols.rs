//! The names and addresses of the C interface, for code that is linked in memory.

macro_rules! table {
    ($($path:path => $($name:ident)*;)*) => {
        /// Every function of the C interface with its address, in a fixed order.
        pub fn symbols() -> Vec<(&'static str, *const u8)> {
            vec![$($({
                use $path as module;
                (stringify!($name), module::$name as *const u8)
            }),*),*]
        }
    };
}

table! {
    crate::context => rx_abi_version rx_context_create rx_context_destroy rx_set_allocator
        rx_set_threads rx_heap_stats rx_trim rx_last_error rx_last_status rx_clear_error
        rx_set_error rx_fail_dim rx_fail_match rx_fail_stack rx_fail rx_fail_int rx_check_call
        rx_fail_values rx_fail_at;
    crate::extents => rx_fail_extents;
    crate::stack => rx_set_stack_size rx_call_on_stack;
    crate::object => rx_unit;
    crate::values => rx_alloc_tuple rx_alloc_adt rx_alloc_closure rx_alloc_ref rx_alloc_shape
        rx_make_shape rx_make_tuple rx_make_adt rx_make_string rx_make_foreign rx_scratch_alloc
        rx_scratch_free rx_scratch_free_all rx_kind rx_tag rx_field_count rx_field rx_shape_dims rx_string_bytes
        rx_foreign_pointer rx_ref_set rx_call_closure;
    crate::release => rx_retain rx_release rx_drop rx_is_unique;
    crate::tensor => rx_alloc_tensor rx_tensor_copy rx_tensor_borrow rx_tensor_unique;
    crate::tensor::grow => rx_reuse_tensor rx_grow_tensor rx_tensor_grown;
    crate::tensor::view => rx_tensor_view rx_tensor_reshape;
    crate::tensor::place => rx_place_tensor;
    crate::tensor::scalar => rx_scalar_i64 rx_scalar_f64;
    crate::tensor::look => rx_tensor_ndim rx_tensor_shape rx_tensor_dtype rx_tensor_data
        rx_tensor_nbytes rx_tensor_elements rx_check_tensor;
    crate::dlpack => rx_from_dlpack rx_to_dlpack;
    crate::packed => rx_register_packed rx_has_packed rx_call_packed rx_call_dps_packed;
    crate::weights => rx_weights_map;
    crate::reach => rx_check_reach;
    crate::given => rx_check_value;
    crate::profile => rx_profile_begin rx_profile_end rx_profile_row rx_profile_clear;
    crate::scalar => rx_ipow;
    crate::threads => rx_parallel_for;
    crate::kernels::simd => rx_isa;
    crate::kernels::gemm => rx_gemm_f32 rx_batch_gemm_f32;
    crate::kernels::gemm::pack => rx_pack_b_f32_size rx_pack_b_f32 rx_pack_a_f32_size rx_pack_a_f32;
    crate::kernels::gemm::other => rx_gemm_f64 rx_gemm_i8_i8_i32 rx_gemm_u8_i8_i32
        rx_gemm_u8_u8_i32 rx_gemm_i16_i16_i32 rx_gemm_i32_i32_i32 rx_gemm_i64_i64_i64
        rx_gemm_i32;
    crate::kernels::contract => rx_contract;
    crate::kernels::conv => rx_conv2d_f32 rx_conv2d_f32_pack_size rx_conv2d_f32_pack;
    crate::kernels::conv::pooled => rx_conv2d_pool2d_f32;
    crate::kernels::conv::transpose => rx_conv2d_transpose_f32;
    crate::kernels::integer::conv => rx_conv2d_i32;
    crate::kernels::requantize => rx_requantize_i32;
    crate::kernels::pool2d => rx_pool2d_f32;
    crate::kernels::vmath => rx_vexp_f32 rx_vlog_f32 rx_vtanh_f32 rx_verf_f32 rx_vsigmoid_f32
        rx_vsqrt_f32 rx_vrsqrt_f32 rx_vsin_f32 rx_vcos_f32 rx_vatan_f32 rx_vgelu_f32 rx_vpow_f32;
    crate::kernels::math => rx_math_f32 rx_math_f64 rx_vmath_f32 rx_vmath_f64;
    crate::kernels::strips => rx_strips_f32;
    crate::kernels::lines => rx_lines;
    crate::kernels::pick => rx_pick;
    crate::kernels::sweep => rx_sweep;
    crate::kernels::attention => rx_attention_f32;
    crate::kernels::rows => rx_softmax_f32 rx_log_softmax_f32 rx_layer_norm_f32;
    crate::kernels::reduce => rx_reduce_f32;
    crate::kernels::strided => rx_copy_strided rx_transpose rx_fill rx_copy;
    crate::kernels::convert => rx_vf16_to_f32 rx_vf32_to_f16 rx_vbf16_to_f32 rx_vf32_to_bf16;
}
