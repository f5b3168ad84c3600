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
        rx_set_error rx_fail_dim rx_fail_match rx_fail_stack rx_fail rx_fail_int;
    crate::stack => rx_set_stack_size rx_call_on_stack;
    crate::object => rx_unit;
    crate::values => rx_alloc_tuple rx_alloc_adt rx_alloc_closure rx_alloc_ref rx_alloc_shape
        rx_make_shape rx_make_tuple rx_make_adt rx_make_string rx_make_foreign rx_scratch_alloc
        rx_scratch_free rx_kind rx_tag rx_field_count rx_field rx_shape_dims rx_string_bytes
        rx_foreign_pointer rx_ref_set rx_call_closure;
    crate::release => rx_retain rx_release rx_drop rx_is_unique;
    crate::tensor => rx_alloc_tensor rx_tensor_copy rx_tensor_borrow rx_tensor_view
        rx_tensor_reshape rx_tensor_unique rx_scalar_i64 rx_scalar_f64 rx_tensor_ndim
        rx_tensor_shape rx_tensor_dtype rx_tensor_data rx_tensor_nbytes rx_tensor_elements
        rx_check_tensor;
    crate::dlpack => rx_from_dlpack rx_to_dlpack;
    crate::packed => rx_register_packed rx_has_packed rx_call_packed rx_call_dps_packed;
    crate::threads => rx_parallel_for;
}
