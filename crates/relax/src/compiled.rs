//! Programs compiled in memory (JIT) or loaded from a library.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relax_base::SourceMap;
use relax_codegen::{Entry, Given, Host, Jit, Listing, Packed, Target, View};
use relax_ir::GlobalId;
use relax_lower::lir::{Inst, Lowered, Term};
use relax_tensor::Value;

use crate::failure::Places;
use crate::library::Library;
use crate::module::pipeline_of;
use crate::{
    Error, Extent, Found, Module, PassEvent, PassObserver, Report, Session, Signature, Types,
    native, profile,
};

/// Options for compiling a module.
///
/// ```
/// use relax::{CompileOptions, Module};
///
/// let module = Module::parse("def @f(%x: int32) { %x + 1 } def @g(%x: int32) { @f(%x) * 2 }")?;
/// let entries = vec!["f".into(), "g".into()];
/// let program = module.compile(&CompileOptions { entries, level: 3, ..Default::default() })?;
/// assert_eq!(program.entries().len(), 2);
/// # Ok::<(), relax::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileOptions {
    /// Optimisation level, 0 to 3.
    pub level: u8,
    /// The pass pipeline to run before code generation, overriding the one of `level`.
    pub pipeline: Option<String>,
    /// The entry functions; if empty, `main` or the module's only function.
    pub entries: Vec<String>,
    /// Number of threads for parallel loops, including the caller's; 0 means one per processor.
    pub threads: usize,
    /// Instruments the code to time its kernels, see [`Program::profile`].
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

/// Native code in memory. Any number of threads may call it at once: each call takes its own
/// runtime context from a pool of reusable ones.
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
    code: Code,
    entries: Vec<Signature>,
    /// Entry points, one for each entry function.
    starts: Vec<Entry>,
    types: Types,
    threads: usize,
    idle: Mutex<Vec<Host>>,
    places: Mutex<Places>,
    sources: SourceMap,
    /// Names of the packed functions that the code calls, and their bindings.
    names: Vec<String>,
    packed: Option<Arc<dyn Packed>>,
    found: Found,
}

/// The location of the code.
enum Code {
    /// Compiled in memory (JIT), with the lowered module it was generated from.
    Compiled(Box<Lowered>, Box<Jit>),
    /// In a loaded shared library.
    Library(Library),
}

/// A progress callback for compilation: the next step's name, the number of finished steps, and the
/// total as far as it is known.
pub type Progress<'p> = dyn FnMut(&str, usize, usize) + 'p;

/// Reports the progress of passes.
struct Watched<'p, 'f> {
    progress: &'p mut Progress<'f>,
    total: usize,
}

impl PassObserver for Watched<'_, '_> {
    fn before(&mut self, event: &PassEvent<'_>) {
        let done = event.index.min(self.total.saturating_sub(AFTER));
        (self.progress)(event.run.pass.name, done, self.total);
    }
}

/// The number of steps after the passes: lowering and code generation.
const AFTER: usize = 2;

impl Module {
    /// Compiles functions of the module into memory. The module itself is not changed.
    ///
    /// # Errors
    /// A function does not exist, the pipeline is invalid, or the module uses something that has no
    /// native code.
    pub fn compile(&self, options: &CompileOptions) -> Result<Program, Error> {
        self.compile_with(options, &mut |_, _, _| ())
    }

    /// Like [`Module::compile`], with a progress callback.
    ///
    /// # Errors
    /// As for [`Module::compile`].
    pub fn compile_with(
        &self,
        options: &CompileOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Program, Error> {
        let roots = self.roots(options)?;
        let types = self.types_of(&roots);
        let (signatures, lowered, places, found) = self.lower(options, &roots, progress)?;
        let jit = native::jit_with(&lowered, options.profile, &[]).map_err(|d| self.invalid(&d))?;
        let starts = signatures.iter().map(|s| {
            let none = || Error::Misused(format!("@{} has no code", s.name));
            jit.entry(&s.name).ok_or_else(none)
        });
        let starts = starts.collect::<Result<Vec<Entry>, Error>>()?;
        let names = outside_names(&lowered);
        let program = Program {
            code: Code::Compiled(Box::new(lowered), Box::new(jit)),
            entries: signatures,
            starts,
            types,
            threads: options.threads,
            idle: Mutex::new(Vec::new()),
            places: Mutex::new(places),
            sources: self.session.copied_sources(),
            names,
            packed: None,
            found,
        };
        // Creating the first context checks that this many threads can be started.
        program.with_context()
    }

    /// Resolves the entry functions.
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
        progress: &mut Progress<'_>,
    ) -> Result<(Vec<Signature>, Lowered, Places, Found), Error> {
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
        let total = asked.passes().len() + 1 + AFTER;
        let mut watched = Watched {
            progress: &mut *progress,
            total,
        };
        let typed = self.typed();
        let passed = native::passes_with(&mut scratch, &mut ir, typed, asked, &mut watched);
        let (typing, found) = passed.map_err(|d| self.invalid(&d))?;
        (watched.progress)("lower", total - AFTER, total);
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
        progress("generate code", total - 1, total);
        Ok((signatures, lowered, places, found))
    }
}

/// Returns the names of the packed functions that the code calls.
fn outside_names(lowered: &Lowered) -> Vec<String> {
    let insts = (lowered.funcs.values()).flat_map(|f| f.blocks.values().flat_map(|b| &b.insts));
    let names = insts.filter_map(|inst| match inst {
        Inst::CallPacked { name, .. } | Inst::CallDps { name, .. } => Some(name.to_string()),
        _ => None,
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

impl Program {
    /// The entry functions.
    pub fn entries(&self) -> &[Signature] {
        &self.entries
    }

    /// The types of the entry functions, in the same order.
    #[must_use]
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// Returns how many analyses were computed, rather than reused, while the module was compiled:
    /// types only of what passes have changed.
    #[must_use]
    pub fn found(&self) -> Found {
        self.found
    }

    /// Binds the packed functions that the program calls.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use relax::{BoxError, CompileOptions, Module, Packed, PackedPlace, Tensor, Value};
    ///
    /// struct Host;
    ///
    /// impl Packed for Host {
    ///     fn call(&self, name: &str, args: &[Value]) -> Result<Value, BoxError> {
    ///         match (name, args) {
    ///             ("my.first", [first, ..]) => Ok(first.clone()),
    ///             _ => Err(format!("there is no {name}").into()),
    ///         }
    ///     }
    ///
    ///     fn call_dps(&self, name: &str, _: &[PackedPlace]) -> Result<(), BoxError> {
    ///         Err(format!("there is no {name}").into())
    ///     }
    /// }
    ///
    /// let text = r#"def @main(%x: float32) -> float32 { call_packed("my.first", %x) }"#;
    /// let program = Module::parse(text)?.compile(&CompileOptions::default())?;
    /// assert_eq!(program.packed_names(), ["my.first"]);
    /// let x = Value::Tensor(Tensor::from_slice(&[], &[1f32]));
    /// assert_eq!(program.with_packed(Arc::new(Host)).call(&[x.clone()])?, x);
    /// # Ok::<(), relax::Error>(())
    /// ```
    #[must_use]
    pub fn with_packed(mut self, packed: Arc<dyn Packed>) -> Program {
        self.idle().clear();
        self.packed = Some(packed);
        self
    }

    /// The names of the packed functions that the program calls. Empty for a loaded library, which
    /// does not list them.
    #[must_use]
    pub fn packed_names(&self) -> &[String] {
        &self.names
    }

    /// Creates a program from a library that is linked against this process's runtime.
    pub(crate) fn of_library(
        library: Library,
        (entries, starts, types): (Vec<Signature>, Vec<Entry>, Types),
        threads: usize,
        names: Vec<String>,
    ) -> Result<Program, Error> {
        let program = Program {
            code: Code::Library(library),
            entries,
            starts,
            types,
            threads,
            idle: Mutex::new(Vec::new()),
            places: Mutex::new(Places::default()),
            sources: SourceMap::new(),
            names,
            packed: None,
            found: Found::default(),
        };
        program.with_context()
    }

    fn with_context(self) -> Result<Program, Error> {
        let host = self.host()?;
        self.idle().push(host);
        Ok(self)
    }

    /// Calls the first entry function. Arguments are borrowed, not copied; large results are not
    /// copied either.
    ///
    /// # Errors
    /// The arguments do not match the parameters, or the program fails; the message includes the
    /// source location.
    pub fn call(&self, arguments: &[Value]) -> Result<Value, Error> {
        self.call_at(0, arguments)
    }

    /// Like [`Program::call`], for the named entry function.
    ///
    /// ```
    /// use relax::{CompileOptions, Module, Tensor, Value};
    ///
    /// let module = Module::parse("def @double(%x: int32) { %x + %x }")?;
    /// let program = module.compile(&CompileOptions::default())?;
    /// let number = |n| Value::Tensor(Tensor::from_slice(&[], &[n]));
    /// assert_eq!(program.call_entry("double", &[number(21)])?, number(42));
    /// assert!(program.call_entry("triple", &[number(21)]).is_err());
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// No entry has this name; otherwise as for [`Program::call`].
    pub fn call_entry(&self, entry: &str, arguments: &[Value]) -> Result<Value, Error> {
        let at = self.entries.iter().position(|e| e.name == entry);
        let none = || Error::Misused(format!("there is no entry @{entry}"));
        self.call_at(at.ok_or_else(none)?, arguments)
    }

    /// Like [`Program::call`], for an entry given by its index in [`Program::entries`].
    ///
    /// # Errors
    /// As for [`Program::call_entry`].
    pub fn call_at(&self, entry: usize, arguments: &[Value]) -> Result<Value, Error> {
        // SAFETY: the code is the program's own.
        self.on_host(entry, |host, code| unsafe {
            host.call_code(code, arguments)
        })
    }

    /// Like [`Program::call_at`], with tensors in memory that the caller owns. The call allocates
    /// nothing but the result, which is passed to `look`.
    ///
    /// ```
    /// use relax::{CompileOptions, DType, Given, Module, View};
    ///
    /// let module = Module::parse("def @main(%x: Tensor[(n,), uint8]) { max(%x) }")?;
    /// let program = module.compile(&CompileOptions::default())?;
    /// let bytes = [3, 9, 4];
    /// let view = View { dtype: DType::U8, shape: &[3], bytes: &bytes };
    /// let most = program.call_views(0, &[view], |given| match given {
    ///     Given::Small(result) => result.bytes[0],
    ///     Given::Value(_) => 0,
    /// })?;
    /// assert_eq!(most, 9);
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Program::call_entry`].
    pub fn call_views<T>(
        &self,
        entry: usize,
        arguments: &[View<'_>],
        look: impl FnOnce(Given<'_>) -> T,
    ) -> Result<T, Error> {
        // SAFETY: as above.
        self.on_host(entry, |host, code| unsafe {
            host.call_views(code, arguments, look)
        })
    }

    /// Runs `call` with a context from the pool, creating one if none is idle.
    fn on_host<T>(
        &self,
        entry: usize,
        call: impl FnOnce(&Host, Entry) -> Result<T, relax_codegen::Error>,
    ) -> Result<T, Error> {
        let none = || Error::Misused(format!("there is no entry {entry}"));
        let code = *self.starts.get(entry).ok_or_else(none)?;
        // Not in a `match` scrutinee: the pool would stay locked while a context is created.
        let idle = self.idle().pop();
        let host = match idle {
            Some(host) => host,
            None => self.host()?,
        };
        let called = call(&host, code);
        let status = match called {
            Ok(_) => 0,
            Err(_) => host.status(),
        };
        self.idle().push(host);
        called.map_err(|e| self.failed(status, e.to_string()))
    }

    /// Returns whether the cost of calling an entry is about constant: its parameters are tensors
    /// of static shape, and the code runs kernel after kernel without branches, function calls or
    /// packed calls.
    #[must_use]
    pub fn is_steady(&self, entry: usize) -> bool {
        let Some(signature) = self.entries.get(entry) else {
            return false;
        };
        let Code::Compiled(lowered, _) = &self.code else {
            return false;
        };
        let known = |e: &Extent| matches!(e, Extent::Known(_));
        let fixed = |p: &crate::Param| {
            let shape = p.tensor.as_ref().and_then(|t| t.shape.as_ref());
            shape.is_some_and(|s| s.iter().all(known))
        };
        let found = lowered.entries.iter().find(|e| e.name == *signature.name);
        let Some(func) = found.map(|e| &lowered.funcs[e.func]) else {
            return false;
        };
        let straight = func.blocks.values().all(|b| {
            let through = matches!(b.term, Term::Return(_));
            let within = |inst: &Inst| {
                !matches!(
                    inst,
                    Inst::Call { .. }
                        | Inst::CallClosure { .. }
                        | Inst::CallPacked { .. }
                        | Inst::CallDps { .. }
                )
            };
            through && b.insts.iter().all(within)
        });
        straight && func.blocks.len() <= 1 && signature.params.iter().all(fixed)
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
        let mut host = Host::new(self.threads)?;
        if let Some(packed) = &self.packed {
            host.register(&self.names, packed)?;
        }
        Ok(host)
    }

    /// Returns the lowered module that the code was generated from.
    fn lowered(&self) -> Result<&Lowered, Error> {
        match &self.code {
            Code::Compiled(lowered, _) => Ok(lowered),
            Code::Library(library) => Err(Error::Misused(format!(
                "{} holds code alone: what that was made of is not there",
                library.name()
            ))),
        }
    }

    fn kernels(&self) -> &[String] {
        match &self.code {
            Code::Compiled(_, jit) => jit.kernels(),
            Code::Library(_) => &[],
        }
    }

    /// Emits the program as an object file for a target.
    ///
    /// ```
    /// use relax::{CompileOptions, Module, Target};
    ///
    /// let module = Module::parse("def @main(%x: Tensor[(n,), float32]) { exp(%x) }")?;
    /// let program = module.compile(&CompileOptions::default())?;
    /// let target = Target { triple: Some("aarch64".into()), ..Target::default() };
    /// assert!(program.object(&target, "exp")?.starts_with(b"\x7fELF"));
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The target is unknown or unsupported.
    pub fn object(&self, target: &Target, name: &str) -> Result<Vec<u8>, Error> {
        target.check()?;
        let object = relax_codegen::object(self.lowered()?, target, name, None, &|_| ());
        let bytes = object.and_then(|o| o.bytes());
        bytes.map_err(|d| self.invalid((*d).into()))
    }

    /// Returns the machine code or Cranelift IR listing for a target.
    ///
    /// # Errors
    /// As for [`Program::object`].
    pub fn listing(&self, target: &Target, what: Listing) -> Result<String, Error> {
        target.check()?;
        let text = relax_codegen::listing(self.lowered()?, target, "model", what);
        text.map_err(|d| self.invalid((*d).into()))
    }

    fn invalid(&self, diagnostics: relax_base::Diagnostics) -> Error {
        Error::Invalid(Report::new(&diagnostics, &self.sources))
    }

    /// Returns a summary of the program: entries, kernels, and bytes of constants.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.code {
            Code::Compiled(lowered, _) => native::summary(lowered),
            Code::Library(library) => format!("code in {}\n", library.name()),
        }
    }

    /// Returns the accumulated cost of each kernel as a table, provided the program was compiled
    /// with [`profile`](CompileOptions::profile) and no other thread is inside a call.
    ///
    /// ```
    /// use relax::{CompileOptions, Module, Tensor, Value};
    ///
    /// let module = Module::parse("def @main(%x: Tensor[(8,), float32]) { exp(%x) }")?;
    /// let program = module.compile(&CompileOptions { profile: true, ..Default::default() })?;
    /// program.call(&[Value::Tensor(Tensor::from_slice(&[8], &[0f32; 8]))])?;
    /// assert!(program.profile().contains("exp"));
    /// assert_eq!(program.costs()[0].calls, 1);
    /// # Ok::<(), relax::Error>(())
    /// ```
    #[must_use]
    pub fn profile(&self) -> String {
        profile::table(self.kernels(), &self.kernel_costs())
    }

    /// The rows of the table that [`Program::profile`] prints.
    #[must_use]
    pub fn costs(&self) -> Vec<profile::Cost> {
        profile::costs(self.kernels(), &self.kernel_costs())
    }

    fn kernel_costs(&self) -> Vec<relax_codegen::KernelCost> {
        let labels = self.kernels();
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
