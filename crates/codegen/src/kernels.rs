//! Kernels that are called individually, by a caller with values of its own: the virtual machine.
//!
//! Invariant: whatever tensors are passed, a call reads and writes inside of them. Element types
//! and ranks are checked against the program's here, extents by the code itself; a weight that the
//! code expects packed is one that was packed here.

use std::ffi::c_void;
use std::ptr::null_mut;

use cranelift_jit::JITModule;
use relax_base::Diagnostic;
use relax_loops::{Buf, Program};
use relax_lower::lir::KernelDef;
use relax_runtime::capi::counts::rx_release;
use relax_runtime::capi::tensors::rx_alloc_tensor;
use relax_runtime::object::{IMMORTAL, Kind, RxObject, RxTensor, Storage};
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::Host;
use crate::host::dl;
use crate::jit::{in_memory, trouble};
use crate::module::compile_kernels;
use crate::packed_forms::{Form, is_zero, pack};
use crate::prepack::{Weight, weights};

/// The code of a kernel: context, inputs, outputs.
pub(crate) type Code =
    unsafe extern "C" fn(*mut c_void, *const *const RxTensor, *mut *mut RxObject) -> i32;

/// A call of a kernel in a program: which kernel, and which of its inputs are constant.
#[derive(Clone, Debug)]
pub struct Site {
    /// The kernel's number.
    pub kernel: usize,
    /// The constants, by input.
    pub constants: Vec<Option<Tensor>>,
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The arguments do not match the kernel's.
    Unfit(String),
    /// The kernel itself failed: a status of the runtime, and the message.
    Failed(i32, String),
}

/// The variants in which a program's kernels are compiled.
pub(crate) struct Plan {
    /// Programs, with the inputs that are packed.
    pub code: Vec<(KernelDef, Vec<Buf>)>,
    /// The code for a kernel and a set of packed inputs.
    pub variants: Vec<Variant>,
    /// Constants that were packed.
    pub packed: Vec<Packed>,
}

/// A form of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Variant {
    pub kernel: u32,
    /// The packed inputs, by bits in the order of those that can be packed.
    pub mask: u64,
}

/// A constant in the form in which a kernel reads it.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub kernel: u32,
    pub input: u32,
    pub constant: Tensor,
    pub packed: Tensor,
}

/// Returns the inputs that may be packed; no more than a mask has bits.
pub(crate) fn packable(program: &Program) -> Vec<Weight> {
    let mut all = weights(program);
    all.truncate(64);
    all
}

impl Plan {
    /// Selects the variants for kernels that are called at these sites.
    pub fn new(kernels: &[KernelDef], sites: &[Site]) -> Plan {
        let mut plan = Plan {
            code: Vec::new(),
            variants: Vec::new(),
            packed: Vec::new(),
        };
        let forms: Vec<_> = kernels.iter().map(|k| packable(&k.program)).collect();
        let mut known: FxHashMap<(usize, Form), Option<Tensor>> = FxHashMap::default();
        let mut taken = rustc_hash::FxHashSet::default();
        for site in sites {
            let Some(forms) = forms.get(site.kernel) else {
                continue;
            };
            let mut mask = 0;
            for (bit, &Weight { input, form, zero }) in forms.iter().enumerate() {
                let constant_at = |z: usize| site.constants.get(z).and_then(Option::as_ref);
                if !zero.is_none_or(|z| constant_at(z).is_some_and(is_zero)) {
                    continue;
                }
                let Some(Some(constant)) = site.constants.get(input) else {
                    continue;
                };
                let Some(at) = address(constant) else {
                    continue;
                };
                let form = match zero.and_then(constant_at) {
                    Some(zero) => form.with_zero(constant, zero),
                    None => Some(form),
                };
                let Some(form) = form else { continue };
                let packed = known
                    .entry((at, form))
                    .or_insert_with(|| pack(constant, form));
                let Some(packed) = packed else { continue };
                mask |= 1 << bit;
                let (kernel, input) = (site.kernel as u32, input as u32);
                if taken.insert((kernel, input, at)) {
                    plan.packed.push(Packed {
                        kernel,
                        input,
                        constant: constant.clone(),
                        packed: packed.clone(),
                    });
                }
            }
            let variant = Variant {
                kernel: site.kernel as u32,
                mask,
            };
            if !plan.variants.contains(&variant) {
                let def = &kernels[site.kernel];
                let bits = forms.iter().enumerate().filter(|f| mask >> f.0 & 1 == 1);
                let bufs = bits.map(|(_, f)| def.program.inputs[f.input]).collect();
                plan.variants.push(variant);
                plan.code.push((def.clone(), bufs));
            }
        }
        plan
    }
}

/// Returns the address of a constant's elements, if they are stored separately.
pub(crate) fn address(t: &Tensor) -> Option<usize> {
    // Small tensors store their elements inline.
    (t.bytes().len() > 8).then(|| t.bytes().as_ptr() as usize)
}

/// An input that a kernel may read packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packable {
    /// Which one.
    pub input: usize,
    /// The input that has to be zero for that, if there is one.
    pub zero: Option<usize>,
}

/// The inputs and outputs of a kernel's code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Element types and ranks of the inputs.
    pub inputs: Vec<(DType, usize)>,
    /// Likewise of the results.
    pub outputs: Vec<(DType, usize)>,
    /// Whether the caller allocates results; the code checks them against its own extents.
    pub given: bool,
    /// The inputs that may be packed.
    pub packable: Vec<Packable>,
}

impl Signature {
    pub(crate) fn of(def: &KernelDef) -> Signature {
        let form = |bufs: &[Buf]| -> Vec<(DType, usize)> {
            let bufs = bufs.iter().map(|&b| &def.program.bufs[b]);
            bufs.map(|b| (b.dtype, b.shape.len())).collect()
        };
        Signature {
            inputs: form(&def.program.inputs),
            outputs: form(&def.program.outputs),
            given: def.holds_outputs,
            packable: (packable(&def.program).iter())
                .map(|&Weight { input, zero, .. }| Packable { input, zero })
                .collect(),
        }
    }
}

/// A kernel that can be called.
struct Compiled {
    form: Signature,
    /// Constants by address, and their packed forms, for each input that may be packed.
    packed: Vec<(Packable, FxHashMap<usize, Tensor>)>,
    variants: Vec<(u64, Code)>,
}

/// The owner of the code's memory.
pub(crate) enum Memory {
    Jit(Box<JITModule>),
    #[cfg(all(target_arch = "x86_64", unix))]
    Image(#[allow(dead_code, reason = "it keeps the code")] crate::image::Loaded),
}

/// The kernels of a program in memory.
pub struct Kernels {
    kernels: Vec<Compiled>,
    /// The constants that packed ones were made from, kept so that their addresses are not reused.
    _held: Vec<Tensor>,
    memory: Option<Memory>,
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if let Some(Memory::Jit(module)) = self.memory.take() {
            // SAFETY: nobody has the code but this.
            unsafe { (*module).free_memory() };
        }
    }
}

impl Kernels {
    /// Compiles the kernels of a program, which calls them at these sites, for this machine.
    /// `checks`: the code also checks what is proven.
    ///
    /// # Errors
    /// A kernel requires something that native code does not support.
    pub fn compile(
        kernels: &[KernelDef],
        sites: &[Site],
        checks: bool,
    ) -> Result<Kernels, Box<Diagnostic>> {
        let plan = Plan::new(kernels, sites);
        let mut module = JITModule::new(in_memory()?);
        let ids = compile_kernels(&mut module, &plan.code, checks)?;
        let done = module.finalize_definitions();
        done.map_err(|e| trouble(&e.to_string()))?;
        let code = ids.iter().map(|&id| module.get_finalized_function(id));
        let code: Vec<*const u8> = code.collect();
        // SAFETY: each was compiled as a kernel, and the module goes with the result.
        Ok(unsafe {
            Kernels::of(
                kernels.iter().map(Signature::of).collect(),
                &plan.variants,
                plan.packed,
                &code,
                Memory::Jit(Box::new(module)),
            )
        })
    }

    /// # Safety
    /// Each of `code` is that of the variant of its number, and lives as long as `memory`.
    pub(crate) unsafe fn of(
        kernels: Vec<Signature>,
        variants: &[Variant],
        packed: Vec<Packed>,
        code: &[*const u8],
        memory: Memory,
    ) -> Kernels {
        let mut out: Vec<Compiled> = (kernels.into_iter())
            .map(|form| Compiled {
                packed: (form.packable.iter())
                    .map(|&one| (one, FxHashMap::default()))
                    .collect(),
                form,
                variants: Vec::new(),
            })
            .collect();
        for (v, &code) in variants.iter().zip(code) {
            // SAFETY: `code` is the beginning of a kernel's code, of that signature.
            let code = unsafe { std::mem::transmute::<*const u8, Code>(code) };
            out[v.kernel as usize].variants.push((v.mask, code));
        }
        let mut held = Vec::new();
        for p in packed {
            let inputs = &mut out[p.kernel as usize].packed;
            let input = (inputs.iter_mut()).find(|i| i.0.input == p.input as usize);
            if let (Some((_, of)), Some(at)) = (input, address(&p.constant)) {
                of.insert(at, p.packed);
                held.push(p.constant);
            }
        }
        Kernels {
            kernels: out,
            _held: held,
            memory: Some(memory),
        }
    }

    /// Calls a kernel and returns its results, in order. `shapes` are those of the results, where
    /// the caller knows all of them. Large results stay in the heap of the host's context until
    /// they have no references.
    ///
    /// # Errors
    /// The arguments do not match the kernel's, or it fails.
    pub fn call(
        &self,
        host: &Host,
        kernel: usize,
        inputs: &[&Tensor],
        shapes: Option<&[Vec<i64>]>,
    ) -> Result<Vec<Tensor>, Failure> {
        host.settle();
        let unfit = |text: &str| Failure::Unfit(text.to_owned());
        let k = self
            .kernels
            .get(kernel)
            .ok_or_else(|| unfit("there is no such kernel"))?;
        let same = |t: &Tensor, (dtype, rank): (DType, usize)| {
            t.dtype() == dtype && t.shape().len() == rank
        };
        if inputs.len() != k.form.inputs.len()
            || !inputs.iter().zip(&k.form.inputs).all(|(t, f)| same(t, *f))
        {
            return Err(unfit("a kernel's input is of another element type or rank"));
        }
        // The code would treat a byte that is not a boolean as one.
        let settled: Vec<Option<Tensor>> = inputs.iter().map(|t| truths(t)).collect();
        let (mut mask, mut tensors) = (0, Vec::with_capacity(inputs.len()));
        for (t, settled) in inputs.iter().zip(&settled) {
            tensors.push(seen(settled.as_ref().unwrap_or(t)));
        }
        let mut packed = Vec::new();
        for (bit, (Packable { input, zero }, of)) in k.packed.iter().enumerate() {
            if !of.is_empty()
                && zero.is_none_or(|z| is_zero(inputs[z]))
                && let Some(found) = address(inputs[*input]).and_then(|at| of.get(&at))
            {
                packed.push((bit, *input, found));
                mask |= 1 << bit;
            }
        }
        // A call whose zero is none at compile time may find more inputs packed than it was
        // compiled for.
        let fits = k.variants.iter().filter(|v| v.0 & !mask == 0);
        let (mask, code) = fits
            .max_by_key(|v| v.0.count_ones())
            .ok_or_else(|| unfit("the kernel is not called so"))?;
        for (bit, input, found) in packed {
            if mask >> bit & 1 == 1 {
                tensors[input] = seen(found);
            }
        }
        let pointers: Vec<*const RxTensor> = tensors.iter().map(|t| t as *const _).collect();
        let mut outs = self.outputs(host, k, shapes)?;
        // SAFETY: the tensors live through the call and are of the element types and ranks that the
        // code was compiled for; it checks their extents. Results that were made are its own,
        // others it makes.
        let status = unsafe { code(host.ctx().cast(), pointers.as_ptr(), outs.0.as_mut_ptr()) };
        if status != 0 {
            return Err(Failure::Failed(status, host.error()));
        }
        let results: Vec<Tensor> = (outs.0.iter())
            .filter_map(|&object| host.result(object))
            .collect();
        if results.len() != k.form.outputs.len() {
            return Err(unfit("the kernel left out a result"));
        }
        match shapes {
            Some(shapes) if !k.form.given => agree(&results, shapes).map(|()| results),
            _ => Ok(results),
        }
    }

    /// The results of a call, as far as the caller allocates them.
    fn outputs<'h>(
        &self,
        host: &'h Host,
        k: &Compiled,
        shapes: Option<&[Vec<i64>]>,
    ) -> Result<Outputs<'h>, Failure> {
        let mut outs = Outputs(vec![null_mut(); k.form.outputs.len()], host);
        let (true, Some(shapes)) = (k.form.given, shapes) else {
            return Ok(outs);
        };
        for (i, &(dtype, rank)) in k.form.outputs.iter().enumerate() {
            let shape = shapes.get(i).filter(|s| s.len() == rank);
            let shape = shape
                .ok_or_else(|| Failure::Unfit("a kernel's result is of another rank".to_owned()))?;
            // SAFETY: the context lives, the shape has so many extents.
            outs.0[i] =
                unsafe { rx_alloc_tensor(host.ctx(), dl(dtype), rank as i32, shape.as_ptr()) };
            if outs.0[i].is_null() {
                return Err(Failure::Failed(host.status(), host.error()));
            }
        }
        Ok(outs)
    }
}

/// Results, owned.
struct Outputs<'h>(Vec<*mut RxObject>, &'h Host);

impl Drop for Outputs<'_> {
    fn drop(&mut self) {
        for &object in &self.0 {
            // SAFETY: owned here, or null.
            unsafe { rx_release(self.1.ctx(), object) };
        }
    }
}

/// Checks results that a kernel allocated itself against the requested shapes.
fn agree(results: &[Tensor], shapes: &[Vec<i64>]) -> Result<(), Failure> {
    for (t, wanted) in results.iter().zip(shapes) {
        if t.shape() != &wanted[..] {
            let status = relax_runtime::context::Status::Extent as i32;
            let text = format!("a result has the extents {:?}, not {wanted:?}", t.shape());
            return Err(Failure::Failed(status, text));
        }
    }
    Ok(())
}

/// Returns the booleans of a tensor as 0 and 1, where they are other bytes.
fn truths(t: &Tensor) -> Option<Tensor> {
    if !t.dtype().is_bool() || t.bytes().iter().fold(0, |all, b| all | b) <= 1 {
        return None;
    }
    let mut out = t.clone();
    out.bytes_mut()
        .iter_mut()
        .for_each(|b| *b = u8::from(*b != 0));
    Some(out)
}

/// Returns a tensor in the form that compiled code reads, valid as long as the tensor lives; it is
/// not reference-counted.
fn seen(t: &Tensor) -> RxTensor {
    RxTensor {
        header: RxObject {
            refs: IMMORTAL,
            kind: Kind::Tensor as u8,
            flags: 0,
            cls: 0,
            tag: Storage::Borrowed as u32,
            count: 0,
        },
        dtype: dl(t.dtype()),
        ndim: t.shape().len() as i32,
        data: t.bytes().as_ptr().cast_mut().cast(),
        shape: t.shape().as_ptr().cast_mut(),
        nbytes: t.bytes().len() as u64,
        owner: null_mut(),
        scalar: 0,
    }
}
