//! Compiled kernels as bytes that can be mapped and run again, without a linker.
//!
//! An image is position-independent except for its fixups: addresses within the image, and of the
//! runtime's and the C library's functions, by name. Loading one copies it, applies the fixups, and
//! changes the protection.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_module::{
    DataDescription, DataId, FuncId, Init, Linkage, Module, ModuleDeclarations, ModuleError,
    ModuleReloc, ModuleRelocTarget, ModuleResult,
};
use memmap2::{Mmap, MmapMut};
use relax_base::Diagnostic;
use relax_lower::lir::KernelDef;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::Error;
use crate::jit::trouble;
use crate::kernels::{Kernels, Memory, Packed, Plan, Signature, Site, Variant};
use crate::module::compile_kernels;
use crate::outside::outside;
use crate::target::Target;

/// A relocation: an 8-byte address at an offset of the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixup {
    /// The offset in the image.
    pub at: u32,
    /// The target of the address: an offset in the image, or an import by its number.
    pub of: Target8,
    /// The number added to the address.
    pub addend: i64,
}

/// The target of a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target8 {
    /// An offset in the image.
    Here(u32),
    /// An import, by its number.
    Import(u32),
}

/// Kernels of a program, compiled for this machine.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The inputs and outputs of each kernel.
    pub signatures: Vec<Signature>,
    /// Code and read-only data.
    pub bytes: Vec<u8>,
    /// The relocations.
    pub fixups: Vec<Fixup>,
    /// Names of the imported functions of the runtime and the C library.
    pub imports: Vec<String>,
    /// The variants of kernels: the kernel's number, the set of its packed inputs, the offset of
    /// its code.
    pub variants: Vec<(u32, u64, u32)>,
    /// Constants that were packed: the kernel's number, the input, the constant's number in its
    /// program, the packed form.
    pub packed: Vec<(u32, u32, u32, Tensor)>,
}

/// Code in memory.
pub(crate) struct Loaded(#[allow(dead_code, reason = "it keeps the code")] Mmap);

/// Returns what an image's code requires of the machine and of this program, as text: images made
/// under another text do not run here.
pub fn needs() -> String {
    let isa = Target::this_machine().isa(false);
    let flags = isa.map(|isa| {
        let own: Vec<String> = (isa.isa_flags().iter())
            .map(std::string::ToString::to_string)
            .collect();
        format!("{} {}", isa.triple(), own.join(" "))
    });
    let flags = flags.unwrap_or_default();
    format!("{}; {flags}", relax_runtime::SOURCES)
}

impl Image {
    /// Compiles the kernels of a program for the given call sites. `numbers` are those of the
    /// sites' constants in the program.
    ///
    /// # Errors
    /// A kernel requires something that native code does not support.
    pub fn compile(
        kernels: &[KernelDef],
        sites: &[Site],
        numbers: &dyn Fn(&Tensor) -> Option<u32>,
    ) -> Result<Image, Box<Diagnostic>> {
        let plan = Plan::new(kernels, sites);
        let isa = Target::this_machine()
            .isa(false)
            .map_err(|e| trouble(&e.to_string()))?;
        let mut module = Collected::new(isa);
        let ids = compile_kernels(&mut module, &plan.code, false)?;
        let mut out = module.image().map_err(|e| trouble(&e))?;
        out.signatures = kernels.iter().map(Signature::of).collect();
        for (v, id) in plan.variants.iter().zip(&ids) {
            let at = module.at.get(&(0, id.as_u32())).copied().unwrap_or(0);
            out.variants.push((v.kernel, v.mask, at));
        }
        for p in plan.packed {
            let number = numbers(&p.constant).ok_or_else(|| trouble("a constant has no number"))?;
            out.packed.push((p.kernel, p.input, number, p.packed));
        }
        Ok(out)
    }

    /// Loads the kernels into memory. `constants` are the program's, by number.
    ///
    /// # Safety
    /// The image was made by [`Image::compile`], by a program and for a machine whose [`needs`]
    /// equal those of this one, and has not been modified since.
    ///
    /// # Errors
    /// [`Error::Load`]: its parts are inconsistent, or the system provides no memory.
    pub unsafe fn load(&self, constants: &dyn Fn(u32) -> Option<Tensor>) -> Result<Kernels, Error> {
        let kernels = self.signatures.clone();
        let known: FxHashMap<&str, *const u8> = outside().collect();
        let imports: Option<Vec<u64>> = (self.imports.iter())
            .map(|name| known.get(name.as_str()).map(|&p| p as u64))
            .collect();
        let bad = |why: &str| Error::Load(why.to_owned());
        let refused = |e: std::io::Error| Error::Load(e.to_string());
        let imports = imports.ok_or_else(|| bad("the image needs a function that is not here"))?;
        let mut memory = MmapMut::map_anon(self.bytes.len().max(1)).map_err(refused)?;
        memory[..self.bytes.len()].copy_from_slice(&self.bytes);
        let base = memory.as_ptr() as u64;
        for f in &self.fixups {
            let address = match f.of {
                Target8::Here(at) => base + u64::from(at),
                Target8::Import(i) => {
                    let import = imports.get(i as usize);
                    *import.ok_or_else(|| bad("no such import"))?
                }
            };
            let at = f.at as usize;
            let place = memory
                .get_mut(at..at + 8)
                .ok_or_else(|| bad("an address outside of the image"))?;
            place.copy_from_slice(&address.wrapping_add_signed(f.addend).to_le_bytes());
        }
        let memory = memory.make_exec().map_err(refused)?;
        let (mut variants, mut code) = (Vec::new(), Vec::new());
        for &(kernel, mask, at) in &self.variants {
            if at as usize >= self.bytes.len() || kernel as usize >= kernels.len() {
                return Err(bad("there is no such kernel"));
            }
            variants.push(Variant { kernel, mask });
            code.push(memory[at as usize..].as_ptr());
        }
        let mut packed = Vec::with_capacity(self.packed.len());
        for (kernel, input, number, elements) in &self.packed {
            let constant = constants(*number).ok_or_else(|| bad("there is no such constant"))?;
            if *kernel as usize >= kernels.len() || elements.dtype() != DType::F32 {
                return Err(bad("there is no such packed constant"));
            }
            let (kernel, input, packed_) = (*kernel, *input, elements.clone());
            packed.push(Packed {
                kernel,
                input,
                constant,
                packed: packed_,
            });
        }
        let memory = Memory::Image(Loaded(memory));
        // SAFETY: the image was made of these kernels for this processor; the code lies in the
        // memory that goes along.
        Ok(unsafe { Kernels::of(kernels, &variants, packed, &code, memory) })
    }
}

/// A module that collects functions and data in one piece of memory.
struct Collected {
    isa: OwnedTargetIsa,
    declarations: ModuleDeclarations,
    names: Box<dyn Fn(ir::LibCall) -> String + Send + Sync>,
    bytes: Vec<u8>,
    relocs: Vec<(u32, ModuleReloc)>,
    /// The offsets of functions (0) and data (1).
    at: FxHashMap<(u32, u32), u32>,
}

/// The alignment of functions.
const ALIGN: usize = 64;

impl Collected {
    fn new(isa: OwnedTargetIsa) -> Collected {
        Collected {
            isa,
            declarations: ModuleDeclarations::default(),
            names: cranelift_module::default_libcall_names(),
            bytes: Vec::new(),
            relocs: Vec::new(),
            at: FxHashMap::default(),
        }
    }

    fn put(&mut self, key: (u32, u32), align: u64, bytes: &[u8], relocs: Vec<ModuleReloc>) {
        let align = usize::try_from(align).unwrap_or(ALIGN).max(ALIGN);
        let at = self.bytes.len().next_multiple_of(align);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(bytes);
        self.at.insert(key, at as u32);
        let place = |r: ModuleReloc| (at as u32 + r.offset, r);
        self.relocs.extend(relocs.into_iter().map(place));
    }

    /// The image, with references within it resolved.
    fn image(&self) -> Result<Image, String> {
        if u32::try_from(self.bytes.len()).is_err() {
            return Err("the code is too large".to_owned());
        }
        let mut out = Image {
            bytes: self.bytes.clone(),
            ..Image::default()
        };
        let known: FxHashMap<&str, *const u8> = outside().collect();
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        for (at, reloc) in &self.relocs {
            let mut import = |name: String| -> Result<Target8, String> {
                if !known.contains_key(name.as_str()) {
                    return Err(format!("code for an image cannot call `{name}`"));
                }
                let next = out.imports.len() as u32;
                let number = *numbers.entry(name.clone()).or_insert_with(|| {
                    out.imports.push(name);
                    next
                });
                Ok(Target8::Import(number))
            };
            let of = match &reloc.name {
                ModuleRelocTarget::User { namespace, index } => {
                    match self.at.get(&(*namespace, *index)) {
                        Some(&at) => Target8::Here(at),
                        None => import(self.name(*namespace, *index))?,
                    }
                }
                ModuleRelocTarget::FunctionOffset(id, offset) => {
                    let at = self.at.get(&(0, id.as_u32())).copied();
                    Target8::Here(at.ok_or("a function is missing")? + offset)
                }
                ModuleRelocTarget::LibCall(call) => import((self.names)(*call))?,
                ModuleRelocTarget::KnownSymbol(_) => return Err("a linker's symbol".to_owned()),
            };
            match (reloc.kind, of) {
                (Reloc::Abs8, of) => out.fixups.push(Fixup {
                    at: *at,
                    of,
                    addend: reloc.addend,
                }),
                (Reloc::X86PCRel4 | Reloc::X86CallPCRel4, Target8::Here(to)) => {
                    let distance = i64::from(to) + reloc.addend - i64::from(*at);
                    let distance = i32::try_from(distance).map_err(|e| e.to_string())?;
                    let place = *at as usize..*at as usize + 4;
                    out.bytes[place].copy_from_slice(&distance.to_le_bytes());
                }
                (kind, _) => {
                    return Err(format!(
                        "an address of kind {kind} has no place in an image"
                    ));
                }
            }
        }
        Ok(out)
    }

    /// The name of an external symbol.
    fn name(&self, namespace: u32, index: u32) -> String {
        match namespace {
            0 => {
                let id = FuncId::from_u32(index);
                let decl = self.declarations.get_function_decl(id);
                decl.linkage_name(id).into_owned()
            }
            _ => {
                let id = DataId::from_u32(index);
                let decl = self.declarations.get_data_decl(id);
                decl.linkage_name(id).into_owned()
            }
        }
    }
}

impl Module for Collected {
    fn isa(&self) -> &dyn TargetIsa {
        &*self.isa
    }

    fn declarations(&self) -> &ModuleDeclarations {
        &self.declarations
    }

    fn declare_function(
        &mut self,
        name: &str,
        linkage: Linkage,
        signature: &ir::Signature,
    ) -> ModuleResult<FuncId> {
        let declared = self.declarations.declare_function(name, linkage, signature);
        declared.map(|d| d.0)
    }

    fn declare_anonymous_function(&mut self, signature: &ir::Signature) -> ModuleResult<FuncId> {
        self.declarations.declare_anonymous_function(signature)
    }

    fn declare_data(
        &mut self,
        name: &str,
        linkage: Linkage,
        writable: bool,
        tls: bool,
    ) -> ModuleResult<DataId> {
        let declared = self.declarations.declare_data(name, linkage, writable, tls);
        declared.map(|d| d.0)
    }

    fn declare_anonymous_data(&mut self, writable: bool, tls: bool) -> ModuleResult<DataId> {
        self.declarations.declare_anonymous_data(writable, tls)
    }

    fn define_function_with_control_plane(
        &mut self,
        id: FuncId,
        context: &mut cranelift_codegen::Context,
        plane: &mut ControlPlane,
    ) -> ModuleResult<()> {
        let compiled = context.compile(&*self.isa, plane)?;
        let align = u64::from(compiled.buffer.alignment);
        let bytes = compiled.buffer.data().to_vec();
        let relocs = compiled.buffer.relocs().to_vec();
        let relocs = (relocs.iter())
            .map(|r| ModuleReloc::from_mach_reloc(r, &context.func, id))
            .collect();
        self.put((0, id.as_u32()), align, &bytes, relocs);
        Ok(())
    }

    fn define_function_bytes(
        &mut self,
        id: FuncId,
        alignment: u64,
        bytes: &[u8],
        relocs: &[ModuleReloc],
    ) -> ModuleResult<()> {
        self.put((0, id.as_u32()), alignment, bytes, relocs.to_vec());
        Ok(())
    }

    fn define_data(&mut self, id: DataId, data: &DataDescription) -> ModuleResult<()> {
        let bytes = match &data.init {
            Init::Bytes { contents } => contents.to_vec(),
            Init::Zeros { size } => vec![0; *size],
            Init::Uninitialized => Vec::new(),
        };
        if self.declarations.get_data_decl(id).writable {
            let id = format!("data {}, which is written", id.as_u32());
            return Err(ModuleError::InvalidImportDefinition(id));
        }
        let relocs = data.all_relocs(Reloc::Abs8).collect();
        self.put((1, id.as_u32()), data.align.unwrap_or(16), &bytes, relocs);
        Ok(())
    }
}
