//! What generated code reaches outside itself: runtime and C library functions, constant data.

use cranelift_codegen::ir::{AbiParam, FuncRef, Function, GlobalValue, Signature, Type, types};
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};
use rustc_hash::FxHashMap;

/// Functions that generated code may call, with their signatures: parameters, `>`, result.
/// `p` pointer, `l` i64, `i` i32, `f` f32, `d` f64.
const IMPORTS: &[(&str, &str)] = &[
    ("rx_alloc_tensor", "piip>p"),
    ("rx_alloc_tuple", "pi>p"),
    ("rx_alloc_adt", "pii>p"),
    ("rx_alloc_closure", "pii>p"),
    ("rx_alloc_ref", "pp>p"),
    ("rx_alloc_shape", "pi>p"),
    ("rx_make_string", "ppl>p"),
    ("rx_unit", ">p"),
    ("rx_reuse_tensor", "ppiip>p"),
    ("rx_grow_tensor", "ppiip>p"),
    ("rx_tensor_grown", "pp>"),
    ("rx_place_tensor", "ppliip>p"),
    ("rx_profile_begin", "p>l"),
    ("rx_profile_end", "pilpipil>"),
    ("rx_retain", "p>"),
    ("rx_release", "pp>"),
    ("rx_drop", "pp>"),
    ("rx_call_on_stack", "ppp>i"),
    ("rx_ref_set", "ppp>"),
    ("rx_scratch_alloc", "pl>p"),
    ("rx_scratch_free", "pp>"),
    ("rx_scratch_free_all", "ppl>"),
    ("rx_tensor_unique", "pp>p"),
    ("rx_is_unique", "p>i"),
    ("rx_check_reach", "pppipi>i"),
    ("rx_fail", "pipp>i"),
    ("rx_fail_int", "pippl>i"),
    ("rx_fail_values", "pipppi>i"),
    ("rx_fail_at", "ppi>i"),
    ("rx_fail_extents", "ppppl>i"),
    ("rx_fail_dim", "pppll>i"),
    ("rx_fail_match", "pp>i"),
    ("rx_fail_stack", "pp>i"),
    ("rx_check_tensor", "pppiip>i"),
    ("rx_check_value", "pppp>i"),
    ("rx_check_call", "pppiip>i"),
    ("rx_call_packed", "pppip>i"),
    ("rx_call_dps_packed", "pppi>i"),
    ("rx_parallel_for", "pllpp>"),
    ("rx_gemm_f32", "pp>i"),
    ("rx_batch_gemm_f32", "ppllll>i"),
    ("rx_conv2d_f32", "pp>i"),
    ("rx_conv2d_pool2d_f32", "ppp>i"),
    ("rx_conv2d_transpose_f32", "pp>i"),
    ("rx_conv2d_i32", "pp>i"),
    ("rx_gemm_i32", "pp>i"),
    ("rx_requantize_i32", "pp>i"),
    ("rx_pool2d_f32", "pp>i"),
    ("rx_attention_f32", "pp>i"),
    ("rx_softmax_f32", "pllpp>i"),
    ("rx_log_softmax_f32", "pllpp>i"),
    ("rx_layer_norm_f32", "pllpppfp>i"),
    ("rx_weights_map", "pp>i"),
    ("rx_strips_f32", "pp>i"),
    ("rx_sweep", "pp>i"),
    ("rx_lines", "pp>i"),
    ("rx_pick", "pp>i"),
    ("rx_contract", "pp>i"),
    ("rx_copy_strided", "piippppp>i"),
    ("rx_ipow", "ll>l"),
    ("memcpy", "ppl>p"),
    ("memset", "pil>p"),
    ("expf", "f>f"),
    ("exp", "d>d"),
    ("logf", "f>f"),
    ("log", "d>d"),
    ("log2f", "f>f"),
    ("log2", "d>d"),
    ("log10f", "f>f"),
    ("log10", "d>d"),
    ("sinf", "f>f"),
    ("sin", "d>d"),
    ("cosf", "f>f"),
    ("cos", "d>d"),
    ("tanf", "f>f"),
    ("tan", "d>d"),
    ("asinf", "f>f"),
    ("asin", "d>d"),
    ("acosf", "f>f"),
    ("acos", "d>d"),
    ("atanf", "f>f"),
    ("atan", "d>d"),
    ("sinhf", "f>f"),
    ("sinh", "d>d"),
    ("coshf", "f>f"),
    ("cosh", "d>d"),
    ("tanhf", "f>f"),
    ("tanh", "d>d"),
    ("asinhf", "f>f"),
    ("asinh", "d>d"),
    ("acoshf", "f>f"),
    ("acosh", "d>d"),
    ("atanhf", "f>f"),
    ("atanh", "d>d"),
    ("erff", "f>f"),
    ("erf", "d>d"),
    ("roundf", "f>f"),
    ("round", "d>d"),
    ("powf", "ff>f"),
    ("pow", "dd>d"),
    ("atan2f", "ff>f"),
    ("atan2", "dd>d"),
    ("fmodf", "ff>f"),
    ("fmod", "dd>d"),
];

fn clif_type(c: char) -> Option<Type> {
    Some(match c {
        'p' | 'l' => types::I64,
        'i' => types::I32,
        'f' => types::F32,
        'd' => types::F64,
        _ => return None,
    })
}

/// The module under construction and what was declared in it so far.
pub(crate) struct Env<'m> {
    /// The object or the memory that code goes to.
    pub module: &'m mut dyn Module,
    imports: FxHashMap<&'static str, FuncId>,
    strings: FxHashMap<String, DataId>,
    /// Numbers in read-only data.
    numbers: FxHashMap<Vec<u8>, DataId>,
    data_count: usize,
    /// Number of constant tensors so far.
    pub tensor_count: usize,
    /// Functions that were made on the way and are to be compiled: the bodies of shared loops.
    pub parts: Vec<(FuncId, Function)>,
    /// Number of these so far.
    pub part_count: usize,
    /// Whether what is proven is checked all the same.
    pub checks: bool,
}

impl<'m> Env<'m> {
    pub fn new(module: &'m mut dyn Module) -> Env<'m> {
        Env {
            module,
            imports: FxHashMap::default(),
            strings: FxHashMap::default(),
            numbers: FxHashMap::default(),
            data_count: 0,
            tensor_count: 0,
            parts: Vec::new(),
            part_count: 0,
            checks: false,
        }
    }

    /// The signature behind a description like `pl>p`.
    pub fn signature(&self, text: &str) -> Signature {
        let mut sig = self.module.make_signature();
        let (params, result) = text.split_once('>').unwrap_or((text, ""));
        sig.params
            .extend(params.chars().filter_map(clif_type).map(AbiParam::new));
        sig.returns
            .extend(result.chars().filter_map(clif_type).map(AbiParam::new));
        sig
    }

    /// A runtime or C library function, for use in `func`.
    pub fn import(&mut self, name: &'static str, func: &mut Function) -> FuncRef {
        let id = match self.imports.get(name) {
            Some(&id) => id,
            None => {
                let known = IMPORTS.iter().find(|i| i.0 == name);
                let (_, text) = known.unwrap_or_else(|| panic!("{name} is not declared above"));
                let sig = self.signature(text);
                let declared = self.module.declare_function(name, Linkage::Import, &sig);
                let id = declared.expect("each import is declared once, with one signature");
                self.imports.insert(name, id);
                id
            }
        };
        self.module.declare_func_in_func(id, func)
    }

    /// Read-only bytes at an alignment, under a fresh local name.
    pub fn data(&mut self, name: &str, bytes: &[u8], align: u64) -> DataId {
        let name = format!("relax.{name}.{}", self.data_count);
        self.data_count += 1;
        let declared = self
            .module
            .declare_data(&name, Linkage::Local, false, false);
        let id = declared.expect("the name is fresh");
        let mut description = DataDescription::new();
        description.define(bytes.into());
        description.set_align(align);
        self.module
            .define_data(id, &description)
            .expect("defined once");
        id
    }

    /// The bytes of numbers that nobody writes to, for use in `func`; the same bytes once.
    pub fn numbers(&mut self, bytes: Vec<u8>, func: &mut Function) -> GlobalValue {
        let id = match self.numbers.get(&bytes) {
            Some(&id) => id,
            None => {
                let id = self.data("numbers", &bytes, 8);
                self.numbers.insert(bytes, id);
                id
            }
        };
        self.module.declare_data_in_func(id, func)
    }

    /// A NUL-terminated constant text, for use in `func`.
    pub fn text(&mut self, text: &str, func: &mut Function) -> GlobalValue {
        let id = match self.strings.get(text) {
            Some(&id) => id,
            None => {
                let mut bytes: Vec<u8> = text.bytes().filter(|&b| b != 0).collect();
                bytes.push(0);
                let id = self.data("text", &bytes, 1);
                self.strings.insert(text.to_owned(), id);
                id
            }
        };
        self.module.declare_data_in_func(id, func)
    }
}
