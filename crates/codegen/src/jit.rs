//! The same code, in memory.

use cranelift_jit::{JITBuilder, JITModule};
use relax_base::{Diagnostic, Symbol};
use relax_loops::{Buf, Ex, Program};
use relax_lower::lir::Lowered;
use relax_tensor::Tensor;

use crate::data::elements_symbol;
use crate::module::{Extras, compile};
use crate::outside::outside;
use crate::prepack::plan;
use crate::target::Target;

/// An entry: `int32_t (ctx, args, nargs, out)` with borrowed arguments.
pub type Entry = unsafe extern "C" fn(
    ctx: *mut std::ffi::c_void,
    args: *const *mut std::ffi::c_void,
    nargs: i32,
    out: *mut *mut std::ffi::c_void,
) -> i32;

/// A program compiled into memory. The code lives as long as this.
pub struct Jit {
    module: Option<JITModule>,
    entries: Vec<(Symbol, Entry)>,
    /// The description of each kernel and the shapes of its results, in the order of their numbers
    /// in profiles.
    kernels: Vec<String>,
    /// Constants that the code refers to.
    _held: Vec<Tensor>,
}

// SAFETY: what is compiled is not changed any more: its entries are called, its names are read, and
// the memory is freed by whoever drops it.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

pub(crate) fn trouble(text: &str) -> Box<Diagnostic> {
    let none = relax_base::Span::NONE;
    Box::new(Diagnostic::error(
        relax_lower::codes::UNSUPPORTED,
        none,
        text,
    ))
}

/// An in-memory module for this machine, with all external symbols.
pub(crate) fn in_memory() -> Result<JITBuilder, Box<Diagnostic>> {
    let isa = Target::this_machine()
        .isa(false)
        .map_err(|e| trouble(&e.to_string()))?;
    let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
    builder.symbols(outside());
    Ok(builder)
}

impl Jit {
    /// Compiles a lowered program for this machine.
    ///
    /// # Errors
    /// A kernel requires something that native code does not support.
    pub fn new(lowered: &Lowered) -> Result<Jit, Box<Diagnostic>> {
        Jit::with(lowered, false, &|_| ())
    }

    /// Like [`Jit::new`]; with `profile` the code measures its kernels, see
    /// [`crate::Host::profile`]. `packed` is called with constants that the code holds in a form of
    /// its own: where they are mapped, their pages can be released.
    ///
    /// # Errors
    /// As for [`Jit::new`].
    pub fn with(
        lowered: &Lowered,
        profile: bool,
        packed: &(dyn Fn(&Tensor) + Sync),
    ) -> Result<Jit, Box<Diagnostic>> {
        let mut builder = in_memory()?;
        // Large constants are not copied: they stay in the file they were mapped from, or in their
        // packed form.
        let (mut weights, packing) = plan(lowered);
        let mut held = Vec::new();
        weights.outside = weights.large();
        for &id in &weights.outside {
            let t = &weights.lowered.data[id];
            builder.symbol(elements_symbol(id), t.bytes().as_ptr());
            held.push(t.clone());
        }
        let mut module = JITModule::new(builder);
        let extras = Extras {
            profile,
            ..Extras::default()
        };
        // Weights are packed while their kernels are compiled.
        let ids = std::thread::scope(|scope| {
            if packing.large() {
                // Where no thread can be started, this one does it.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || packing.work(packed));
            }
            let compiled = compile(&weights, &mut module, extras);
            packing.work(packed);
            compiled.map(|c| c.entries)
        })?;
        module
            .finalize_definitions()
            .map_err(|e| trouble(&e.to_string()))?;
        let entries = ids
            .into_iter()
            .map(|(name, id)| {
                let code = module.get_finalized_function(id);
                // SAFETY: entries are compiled with just this signature.
                (name, unsafe {
                    std::mem::transmute::<*const u8, Entry>(code)
                })
            })
            .collect();
        Ok(Jit {
            module: Some(module),
            entries,
            kernels: (weights.lowered.kernels.values())
                .map(|k| format!("{}{}", k.label, results(&k.program)))
                .collect(),
            _held: held,
        })
    }

    /// Returns what each kernel computes and the shapes of its results, in the order of their
    /// numbers in profiles.
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// The entry of a global function.
    pub fn entry(&self, name: &str) -> Option<Entry> {
        self.entries.iter().find(|e| e.0 == name).map(|e| e.1)
    }
}

impl Drop for Jit {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: entries borrow from `self`, so nobody runs the code any more.
            unsafe { module.free_memory() };
        }
    }
}

/// The shapes of a kernel's results, ` (1, 64, ?)`; `?` is an extent known only at run time.
fn results(program: &Program) -> String {
    let shape = |&b: &Buf| {
        let extent = |e: &Ex| e.as_int().map_or("?".to_owned(), |n| n.to_string());
        let extents: Vec<String> = program.bufs[b].shape.iter().map(extent).collect();
        format!(" ({})", extents.join(", "))
    };
    program.outputs.iter().map(shape).collect()
}
