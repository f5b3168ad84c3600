//! The same code in memory.

use cranelift_jit::{JITBuilder, JITModule};
use relax_base::{Diagnostic, Symbol};
use relax_loops::{Buf, Ex, Program};
use relax_lower::lir::Lowered;
use relax_tensor::Tensor;

use crate::module::{Extras, compile, elements_symbol};
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
    /// What each kernel computes and the shapes of its results, in the order of their numbers in profiles.
    kernels: Vec<String>,
    /// Constants that the code points into.
    _held: Vec<Tensor>,
}

// SAFETY: what is compiled is not changed any more: its entries are called, its names are read, and the memory is freed
// by whoever drops it.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

unsafe extern "C" {
    fn memcpy(
        to: *mut std::ffi::c_void,
        from: *const std::ffi::c_void,
        bytes: usize,
    ) -> *mut std::ffi::c_void;
    fn memset(to: *mut std::ffi::c_void, byte: i32, bytes: usize) -> *mut std::ffi::c_void;
    fn expf(x: f32) -> f32;
    fn exp(x: f64) -> f64;
    fn logf(x: f32) -> f32;
    fn log(x: f64) -> f64;
    fn log2f(x: f32) -> f32;
    fn log2(x: f64) -> f64;
    fn log10f(x: f32) -> f32;
    fn log10(x: f64) -> f64;
    fn sinf(x: f32) -> f32;
    fn sin(x: f64) -> f64;
    fn cosf(x: f32) -> f32;
    fn cos(x: f64) -> f64;
    fn tanf(x: f32) -> f32;
    fn tan(x: f64) -> f64;
    fn asinf(x: f32) -> f32;
    fn asin(x: f64) -> f64;
    fn acosf(x: f32) -> f32;
    fn acos(x: f64) -> f64;
    fn atanf(x: f32) -> f32;
    fn atan(x: f64) -> f64;
    fn sinhf(x: f32) -> f32;
    fn sinh(x: f64) -> f64;
    fn coshf(x: f32) -> f32;
    fn cosh(x: f64) -> f64;
    fn tanhf(x: f32) -> f32;
    fn tanh(x: f64) -> f64;
    fn asinhf(x: f32) -> f32;
    fn asinh(x: f64) -> f64;
    fn acoshf(x: f32) -> f32;
    fn acosh(x: f64) -> f64;
    fn atanhf(x: f32) -> f32;
    fn atanh(x: f64) -> f64;
    fn erff(x: f32) -> f32;
    fn erf(x: f64) -> f64;
    fn roundf(x: f32) -> f32;
    fn round(x: f64) -> f64;
    fn powf(x: f32, y: f32) -> f32;
    fn pow(x: f64, y: f64) -> f64;
    fn atan2f(x: f32, y: f32) -> f32;
    fn atan2(x: f64, y: f64) -> f64;
    fn fmodf(x: f32, y: f32) -> f32;
    fn fmod(x: f64, y: f64) -> f64;
}

macro_rules! addresses {
    ($($name:ident)*) => { &[$((stringify!($name), $name as *const u8)),*] };
}

fn libm() -> Vec<(&'static str, *const u8)> {
    let table: &[(&str, *const u8)] = addresses!(
        memcpy memset expf exp logf log log2f log2 log10f log10 sinf sin cosf cos tanf tan asinf asin acosf acos
        atanf atan sinhf sinh coshf cosh tanhf tanh asinhf asinh acoshf acosh atanhf atanh erff erf
        roundf round powf pow atan2f atan2 fmodf fmod
    );
    table.to_vec()
}

pub(crate) fn trouble(text: &str) -> Box<Diagnostic> {
    let none = relax_base::Span::NONE;
    Box::new(Diagnostic::error(
        relax_lower::codes::UNSUPPORTED,
        none,
        text,
    ))
}

/// A module in memory for this machine, with all that code reaches outside.
pub(crate) fn in_memory() -> Result<JITBuilder, Box<Diagnostic>> {
    let isa = Target::this_machine()
        .isa(false)
        .map_err(|e| trouble(&e.to_string()))?;
    let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
    builder.symbols(outside());
    Ok(builder)
}

/// What code reaches outside itself, by name.
pub(crate) fn outside() -> impl Iterator<Item = (&'static str, *const u8)> {
    relax_runtime::symbols().into_iter().chain(libm())
}

impl Jit {
    /// Compiles a lowered program for this machine.
    ///
    /// # Errors
    /// A kernel asks for something that native code does not do.
    pub fn new(lowered: &Lowered) -> Result<Jit, Box<Diagnostic>> {
        Jit::with(lowered, false, &|_| ())
    }

    /// As [`Jit::new`]; with `profile` the code measures its kernels, see [`crate::Host::profile`]. `packed` is
    /// told of constants of which the code has a form of its own: where they are mapped, their pages can be
    /// given back.
    ///
    /// # Errors
    /// As for [`Jit::new`].
    pub fn with(
        lowered: &Lowered,
        profile: bool,
        packed: &(dyn Fn(&Tensor) + Sync),
    ) -> Result<Jit, Box<Diagnostic>> {
        let mut builder = in_memory()?;
        // Large constants stay where they are: in the file they were mapped from, or as packed.
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
                // Where no thread can be had, this one does it.
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

    /// What each kernel computes and the shapes of its results, in the order of their numbers in profiles.
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

/// The shapes of a kernel's results, ` (1, 64, ?)`; what only a run knows is `?`.
fn results(program: &Program) -> String {
    let shape = |&b: &Buf| {
        let extent = |e: &Ex| e.as_int().map_or("?".to_owned(), |n| n.to_string());
        let extents: Vec<String> = program.bufs[b].shape.iter().map(extent).collect();
        format!(" ({})", extents.join(", "))
    };
    program.outputs.iter().map(shape).collect()
}
