//! Compiled programs in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use relax_base::SourceMap;
use relax_codegen::{Host, Jit, Listing, Target};
use relax_ir::GlobalId;
use relax_lower::lir::Lowered;
use relax_tensor::Value;

use crate::failure::Places;
use crate::module::pipeline_of;
use crate::{Error, Module, Report, Session, Signature, Types, native, profile};

/// How a module is compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileOptions {
    /// How much is optimised, 0 to 3.
    pub level: u8,
    /// The passes that run before code is generated, instead of those of the level.
    pub pipeline: Option<String>,
    /// The functions that can be called; `main`, or the only one, where none is named.
    pub entries: Vec<String>,
    /// Threads of parallel loops, the caller's included; 0 for one per processor.
    pub threads: usize,
    /// Whether the code measures its kernels, see [`Program::profile`].
    pub profile: bool,
}

impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions {
            level: 2,
            pipeline: None,
            entries: Vec::new(),
            threads: 1,
            profile: false,
        }
    }
}

impl CompileOptions {
    fn passes(&self) -> String {
        match &self.pipeline {
            Some(text) => text.clone(),
            None if self.level >= 2 => format!("native{}", self.level.min(3)),
            None => format!("O{}", self.level),
        }
    }
}

/// Native code in memory, which any number of threads may call at once: each call has a context of the runtime for
/// itself, and contexts are used again.
///
/// ```
/// use relax::{CompileOptions, Module, Tensor, Value};
///
/// let module = Module::parse("def @main(%x: Tensor[(n,), float32]) { %x * 2f }")?;
/// let program = module.compile(&CompileOptions::default())?;
/// let x = Value::Tensor(Tensor::from_slice(&[3], &[1f32, 2.0, 3.0]));
/// let Value::Tensor(y) = &program.call(&[x])? else { panic!("a tensor") };
/// assert_eq!(y.slice::<f32>(), [2.0, 4.0, 6.0]);
/// # Ok::<(), relax::Error>(())
/// ```
pub struct Program {
    lowered: Lowered,
    jit: Jit,
    entries: Vec<Signature>,
    types: Types,
    threads: usize,
    idle: Mutex<Vec<Host>>,
    places: Mutex<Places>,
    sources: SourceMap,
}

impl Module {
    /// Compiles functions of the module into memory. The module stays as it is.
    ///
    /// # Errors
    /// A function is not there, the pipeline is wrong, or native code does not have what the module uses.
    pub fn compile(&self, options: &CompileOptions) -> Result<Program, Error> {
        let roots = self.roots(options)?;
        let types = self.types_of(&roots);
        let (signatures, lowered, places) = self.lower(options, &roots)?;
        let jit = native::jit_with(&lowered, options.profile, &[]).map_err(|d| self.invalid(&d))?;
        let program = Program {
            lowered,
            jit,
            entries: signatures,
            types,
            threads: options.threads,
            idle: Mutex::new(Vec::new()),
            places: Mutex::new(places),
            sources: self.session.copied_sources(),
        };
        // The first context says whether there can be so many threads.
        let host = program.host()?;
        program.idle().push(host);
        Ok(program)
    }

    /// The functions that can be called.
    fn roots(&self, options: &CompileOptions) -> Result<Vec<GlobalId>, Error> {
        let named = options.entries.iter().map(|name| self.find(Some(name)));
        let mut roots = named.collect::<Result<Vec<GlobalId>, Error>>()?;
        if roots.is_empty() {
            roots.push(self.find(None)?);
        }
        Ok(roots)
    }

    fn lower(
        &self,
        options: &CompileOptions,
        roots: &[GlobalId],
    ) -> Result<(Vec<Signature>, Lowered, Places), Error> {
        let mut signatures = Vec::new();
        for &root in roots {
            let name = self.ir.globals[root].name;
            let signature = self.signature(root);
            signatures.push(signature.ok_or_else(|| {
                Error::Misused(format!("@{name} is no function that can be called"))
            })?);
        }
        let mut ir = self.ir.clone();
        let mut scratch = Session::default();
        let asked = pipeline_of(&mut scratch, &options.passes())?;
        let typing = native::passes(&mut scratch, &mut ir, asked).map_err(|d| self.invalid(&d))?;
        let find = |s: &Signature| {
            let removed = || Error::Misused(format!("the pipeline has removed @{}", s.name));
            ir.global(&s.name).ok_or_else(removed)
        };
        let roots = signatures.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let (places, sources) = (Places::default(), &self.session.sources);
        let name = |span| places.name(sources, span);
        let mut lowered =
            relax_lower::lower(&ir, &typing, &roots, &name).map_err(|d| self.invalid(&d))?;
        lowered.checks = native::checked();
        Ok((signatures, lowered, places))
    }
}

impl Program {
    /// The functions that can be called.
    pub fn entries(&self) -> &[Signature] {
        &self.entries
    }

    /// Their types, in the same order.
    #[must_use]
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// Calls the first of the entries. Arguments are borrowed, not copied; large results are not copied either.
    ///
    /// # Errors
    /// The arguments do not fit, or the program fails; the message says where.
    pub fn call(&self, arguments: &[Value]) -> Result<Value, Error> {
        self.call_entry(&self.entries[0].name, arguments)
    }

    /// As [`Program::call`], of the entry of a name.
    ///
    /// # Errors
    /// There is none of that name; else as for [`Program::call`].
    pub fn call_entry(&self, entry: &str, arguments: &[Value]) -> Result<Value, Error> {
        let host = match self.idle().pop() {
            Some(host) => host,
            None => self.host()?,
        };
        let called = host.call_lending(&self.jit, entry, arguments);
        let status = host.status();
        self.idle().push(host);
        called.map_err(|message| self.failed(status, message))
    }

    fn failed(&self, status: i32, message: String) -> Error {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let report = match places.diagnostic(status, &message) {
            Some(d) => Report::new(&d.into(), &self.sources),
            None => Report::default(),
        };
        Error::Failed(message, report)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Host>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn host(&self) -> Result<Host, Error> {
        Host::new(self.threads).map_err(Error::Misused)
    }

    /// The object file of the same program for a target.
    ///
    /// # Errors
    /// The target is unknown, or code cannot be made for it.
    pub fn object(&self, target: &Target, name: &str) -> Result<Vec<u8>, Error> {
        target.check().map_err(|e| Error::Misused(e.0))?;
        let object = relax_codegen::object(&self.lowered, target, name, None, &|_| ());
        let bytes = object.and_then(|o| o.bytes());
        bytes.map_err(|d| self.invalid((*d).into()))
    }

    /// The instructions, or Cranelift's intermediate representation, for a target.
    ///
    /// # Errors
    /// As for [`Program::object`].
    pub fn listing(&self, target: &Target, what: Listing) -> Result<String, Error> {
        target.check().map_err(|e| Error::Misused(e.0))?;
        let text = relax_codegen::listing(&self.lowered, target, "model", what);
        text.map_err(|d| self.invalid((*d).into()))
    }

    fn invalid(&self, diagnostics: relax_base::Diagnostics) -> Error {
        Error::Invalid(Report::new(&diagnostics, &self.sources))
    }

    /// What the program consists of: entries, kernels, bytes of constants.
    #[must_use]
    pub fn summary(&self) -> String {
        native::summary(&self.lowered)
    }

    /// What each kernel has cost over all calls, where the program was compiled with
    /// [`profile`](CompileOptions::profile) and no other thread is within a call.
    #[must_use]
    pub fn profile(&self) -> String {
        profile::table(self.jit.kernels(), &self.kernel_costs())
    }

    /// The rows of [`Program::profile`].
    #[must_use]
    pub fn costs(&self) -> Vec<profile::Cost> {
        profile::costs(self.jit.kernels(), &self.kernel_costs())
    }

    fn kernel_costs(&self) -> Vec<relax_codegen::KernelCost> {
        let labels = self.jit.kernels();
        let idle = self.idle();
        let mut costs = vec![relax_codegen::KernelCost::default(); labels.len()];
        for host in idle.iter() {
            for (sum, one) in costs.iter_mut().zip(host.profile(labels.len())) {
                sum.least = match (sum.calls, one.calls) {
                    (0, _) => one.least,
                    (_, 0) => sum.least,
                    _ => sum.least.min(one.least),
                };
                sum.calls += one.calls;
                sum.nanos += one.nanos;
                sum.flops += one.flops;
                sum.bytes += one.bytes;
            }
        }
        costs
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}
