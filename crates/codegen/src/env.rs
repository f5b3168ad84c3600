//! External references of generated code: runtime and C library functions, constant data.

use cranelift_codegen::ir::{
    AbiParam, ExternalName, FuncRef, Function, GlobalValue, Signature, Type, UserExternalName,
    types,
};
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};
use relax_runtime::abi::{self, Word};
use rustc_hash::FxHashMap;

/// The Cranelift type of a word that is passed or stored.
pub(crate) fn clif_type(word: Word) -> Type {
    match word {
        Word::Pointer | Word::Int64 => types::I64,
        Word::Int32 => types::I32,
        Word::Float32 => types::F32,
        Word::Float64 => types::F64,
    }
}

/// Writes the bytes of a number into those of a structure.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, number: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&number);
}

/// The type behind a letter: `p` pointer, `l` i64, `i` i32.
fn lettered(c: char) -> Option<Type> {
    Some(match c {
        'p' | 'l' => types::I64,
        'i' => types::I32,
        _ => return None,
    })
}

/// The module under construction and its declarations so far.
pub(crate) struct Env<'m> {
    /// The object or memory that the code is emitted to.
    pub module: &'m mut dyn Module,
    imports: FxHashMap<&'static str, FuncId>,
    strings: FxHashMap<String, DataId>,
    /// Numbers in read-only data.
    numbers: FxHashMap<Vec<u8>, DataId>,
    data_count: usize,
    /// Number of constant tensors so far.
    pub tensor_count: usize,
    /// Number of calls of kernels that data describes.
    pub launch_count: usize,
    /// Outlined functions still to be compiled: the bodies of shared loops.
    pub parts: Vec<(FuncId, Function)>,
    /// Number of outlined functions so far.
    pub part_count: usize,
    /// Whether to emit checks even for what is proven.
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
            launch_count: 0,
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
            .extend(params.chars().filter_map(lettered).map(AbiParam::new));
        sig.returns
            .extend(result.chars().filter_map(lettered).map(AbiParam::new));
        sig
    }

    /// A function of the runtime or of C, for use in `func`.
    pub fn import(&mut self, function: abi::Function, func: &mut Function) -> FuncRef {
        let id = match self.imports.get(function.name) {
            Some(&id) => id,
            None => {
                let mut sig = self.module.make_signature();
                let params = function.signature.params.iter();
                sig.params.extend(
                    params
                        .filter_map(|p| p.word)
                        .map(clif_type)
                        .map(AbiParam::new),
                );
                let result = function.signature.result.word;
                sig.returns.extend(result.map(clif_type).map(AbiParam::new));
                let name = function.name;
                let declared = self.module.declare_function(name, Linkage::Import, &sig);
                let id = declared.expect("each import is declared once, with one signature");
                self.imports.insert(name, id);
                id
            }
        };
        self.func(id, func)
    }

    /// A function of the module, for use in `func`; those that it has first are declared once.
    pub fn func(&mut self, id: FuncId, func: &mut Function) -> FuncRef {
        const FIRST: usize = 64;
        let name = UserExternalName::new(0, id.as_u32());
        let name = ExternalName::user(func.declare_imported_user_function(name));
        let mut known = func.dfg.ext_funcs.iter().take(FIRST);
        match known.find(|(_, known)| known.name == name) {
            Some((known, _)) => known,
            None => self.module.declare_func_in_func(id, func),
        }
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

    /// Data under a fresh name.
    pub fn fresh(&mut self, name: &str, writable: bool, data: &DataDescription) -> DataId {
        let id = (self.module).declare_data(name, Linkage::Local, writable, false);
        let id = id.expect("names with numbers are fresh");
        self.module.define_data(id, data).expect("defined once");
        id
    }

    /// Read-only numbers as bytes, for use in `func`; equal bytes are stored once.
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
        let id = self.text_data(text);
        self.module.declare_data_in_func(id, func)
    }

    /// A NUL-terminated constant text.
    pub fn text_data(&mut self, text: &str) -> DataId {
        match self.strings.get(text) {
            Some(&id) => id,
            None => {
                let mut bytes: Vec<u8> = text.bytes().filter(|&b| b != 0).collect();
                bytes.push(0);
                let id = self.data("text", &bytes, 1);
                self.strings.insert(text.to_owned(), id);
                id
            }
        }
    }
}
