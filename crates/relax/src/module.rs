//! A module that can be queried, transformed, run and compiled.

#[cfg(feature = "weights")]
use std::path::Path;
use std::sync::Arc;

use relax_base::Diagnostics;
use relax_interp::Interp;
use relax_ir::{EqualOptions, GlobalId, Type, TypeId};
use relax_tensor::{Tensor, Value};

use crate::fit::Taking;
use crate::signature::{Param, Signature};
use crate::typed::check_all;
use crate::{
    Contents, Error, Found, InferOptions, Mismatch, PassConfig, PrintMode, ReadOptions, Report,
    Session, Silent, Style, Typed, TypedModule, Types, Typing, entry, inputs, print_as, run_typed,
    values,
};

/// A module without errors, with its types.
///
/// ```
/// use relax::{Module, Tensor, Value};
///
/// let mut module = Module::parse("def @main(%x: Tensor[(n,), float32]) { exp(%x) * 1f }")?;
/// module.optimise("O2")?;
/// let x = Tensor::from_slice(&[2], &[0f32, 1.0]);
/// let Value::Tensor(y) = &module.evaluate("main", &[Value::Tensor(x)])? else { panic!() };
/// assert_eq!(y.slice::<f32>()[0], 1.0);
/// # Ok::<(), relax::Error>(())
/// ```
#[derive(Debug)]
pub struct Module {
    pub(crate) session: Session,
    pub(crate) ir: relax_ir::Module,
    pub(crate) typing: Arc<Typing>,
    /// The warnings found together with these types, if all functions were checked at once.
    warnings: Option<Arc<Diagnostics>>,
    report: Report,
    found: Found,
}

impl Module {
    /// Parses and checks a text, Relay or TVMScript.
    ///
    /// ```
    /// let module = relax::Module::parse("def @main(%x: Tensor[(n,), float32]) { %x + 1f }")?;
    /// assert_eq!(module.functions()[0].result.ty, "Tensor[(n,), float32]");
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The text has errors; the report contains all of them.
    pub fn parse(text: &str) -> Result<Module, Error> {
        Module::read("<text>", text.as_bytes().to_vec(), ReadOptions::default())
    }

    /// Checks a text and returns all diagnostics.
    ///
    /// ```
    /// assert!(relax::Module::check("def @main() { 1 }").is_empty());
    /// ```
    pub fn check(text: &str) -> Report {
        match Module::parse(text) {
            Ok(module) => module.report,
            Err(Error::Invalid(report)) => report,
            Err(_) => Report::default(),
        }
    }

    /// Parses and checks the bytes of a file in any format: Relay and Relax text, TVMScript, TVM's
    /// JSON, ONNX. The format is detected from the content unless the options set it.
    ///
    /// ```
    /// use relax::{Module, ReadOptions};
    ///
    /// let bytes = std::fs::read("../../examples/lists.relay").expect("it is there");
    /// let module = Module::read("lists.relay", bytes, ReadOptions::default())?;
    /// assert!(module.functions().iter().any(|f| f.name == "main"));
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Module::parse`].
    pub fn read(
        name: &str,
        contents: impl Into<Contents>,
        options: ReadOptions,
    ) -> Result<Module, Error> {
        Module::read_in(Session::new(options), name, contents)
    }

    fn read_in(
        mut session: Session,
        name: &str,
        contents: impl Into<Contents>,
    ) -> Result<Module, Error> {
        let (ir, checked) = session.check_all(name, contents, &InferOptions::default());
        let report = Report::new(&checked.diagnostics, &session.sources);
        if checked.diagnostics.has_errors() {
            return Err(Error::Invalid(report));
        }
        let found = Found {
            types: 1,
            typed: ir.global_bodies().len(),
            ..Found::default()
        };
        let Typed { typing, warnings } = checked.typed();
        Ok(Module {
            session,
            ir,
            typing,
            warnings: Some(warnings),
            report,
            found,
        })
    }

    /// Like [`Module::read`], for a file. Large binary files are memory-mapped, and so are the
    /// external data files of ONNX models.
    ///
    /// ```
    /// use relax::{Module, ReadOptions};
    ///
    /// let module = Module::load("../../examples/lists.relay", ReadOptions::default())?;
    /// assert!(module.report().is_empty());
    /// assert!(Module::load("nowhere.relay", ReadOptions::default()).is_err());
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be read, or has errors.
    #[cfg(feature = "weights")]
    pub fn load(path: impl AsRef<Path>, options: ReadOptions) -> Result<Module, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let mapped = crate::mapped::Mapped::open(path)?;
        let format = options
            .format
            .unwrap_or_else(|| crate::Format::detect(&name, mapped.bytes()));
        let mut session = Session::new(options);
        session.options.format = Some(format);
        session.beside = Some(|of, file| {
            let open = &crate::mapped::Mapped::open;
            crate::model::beside(Path::new(of), file, open).map_err(crate::BoxError::from)
        });
        Module::read_in(session, &name, Contents::Held(Arc::new(mapped)))
    }

    /// The warnings and notes from reading and checking.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The module's IR, as passes see it.
    pub fn ir(&self) -> &relax_ir::Module {
        &self.ir
    }

    /// The types of its expressions.
    pub fn typing(&self) -> &Typing {
        &self.typing
    }

    /// The types with their warnings, as input to pipelines on this module.
    pub(crate) fn typed(&self) -> Option<Typed> {
        Some(Typed {
            typing: Arc::clone(&self.typing),
            warnings: self.warnings.clone()?,
        })
    }

    /// Returns how many analyses of the module were computed so far, reading included: types are
    /// inferred once in full, and then for what passes change.
    ///
    /// ```
    /// let mut module = relax::Module::parse("def @main(%x: int32) { %x }")?;
    /// module.optimise("infer-type,fold-constant,dead-code-elimination")?;
    /// assert_eq!(module.found().types, 1);
    /// # Ok::<(), relax::Error>(())
    /// ```
    #[must_use]
    pub fn found(&self) -> Found {
        self.found
    }

    /// The functions that the text defines, in order.
    ///
    /// ```
    /// let module = relax::Module::parse("def @f(%x: int32) { %x } def @main() { @f(1) }")?;
    /// let names: Vec<String> = module.functions().into_iter().map(|f| f.name).collect();
    /// assert_eq!(names, ["f", "main"]);
    /// # Ok::<(), relax::Error>(())
    /// ```
    pub fn functions(&self) -> Vec<Signature> {
        let own = self.ir.globals.iter().filter(|(_, g)| !g.prelude);
        own.filter_map(|(id, _)| self.signature(id)).collect()
    }

    /// Returns the signature of a function.
    pub(crate) fn signature(&self, id: GlobalId) -> Option<Signature> {
        let func = self.ir.global_func(id)?;
        let params = inputs::params(&self.ir, &self.typing, func);
        Some(Signature {
            name: self.ir.globals[id].name.to_string(),
            params: (params.iter()).map(|p| self.param(&p.name, p.ty)).collect(),
            result: self.param("", self.result_type(id)),
        })
    }

    fn param(&self, name: &str, ty: TypeId) -> Param {
        Param {
            name: name.to_owned(),
            ty: self.ir.show_type(ty),
            tensor: crate::types::tensor_type(&self.ir, ty),
        }
    }

    /// The types of [`Module::functions`], in the same order.
    #[must_use]
    pub fn types(&self) -> Types {
        let own = self.ir.globals.iter().filter(|(_, g)| !g.prelude);
        let functions = own.filter(|(id, _)| self.ir.global_func(*id).is_some());
        let functions: Vec<GlobalId> = functions.map(|f| f.0).collect();
        self.types_of(&functions)
    }

    /// The types of the given functions.
    pub(crate) fn types_of(&self, functions: &[GlobalId]) -> Types {
        let of = |&id: &GlobalId| {
            let func = self.ir.global_func(id);
            let params = func.map_or(Vec::new(), |f| inputs::params(&self.ir, &self.typing, f));
            (params.iter().map(|p| p.ty).collect(), self.result_type(id))
        };
        Types::new(&self.ir, functions.iter().map(of).collect())
    }

    fn result_type(&self, id: GlobalId) -> TypeId {
        match &self.ir.types[self.typing.globals[id]] {
            Type::Func(f) => f.ret,
            _ => self.typing.globals[id],
        }
    }

    /// Prints the module in a style, optionally with comments that give the type of every
    /// expression.
    ///
    /// ```
    /// let module = relax::Module::parse("def @main(%x: int32) { %x }")?;
    /// assert!(module.print(relax::Style::Tvm, false).contains("def @main"));
    /// # Ok::<(), relax::Error>(())
    /// ```
    #[must_use]
    pub fn print(&self, style: Style, types: bool) -> String {
        let mode = PrintMode {
            style,
            ..PrintMode::default()
        };
        self.print_as(mode, types)
    }

    /// Like [`Module::print`], with full control: constants of more than `elide` elements can be
    /// printed as dangling references, and the metadata section left out.
    #[must_use]
    pub fn print_as(&self, mode: PrintMode<'_>, types: bool) -> String {
        let typed = TypedModule {
            module: &self.ir,
            typing: &self.typing,
        };
        let mode = PrintMode {
            types: types.then_some(&typed as &dyn crate::TypeSource),
            ..mode
        };
        print_as(&self.ir, &mode)
    }

    /// Prints the module as TVMScript.
    ///
    /// ```
    /// let module = relax::Module::parse("def @main(%x: Tensor[(2,), float32]) { nn.relu(%x) }")?;
    /// assert!(module.to_tvmscript()?.contains("R.nn.relu(x)"));
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// Part of the module has no TVMScript form.
    pub fn to_tvmscript(&self) -> Result<String, Error> {
        let typed = TypedModule {
            module: &self.ir,
            typing: &self.typing,
        };
        let printed = crate::print_tvmscript(&self.ir, Some(&typed));
        printed.map_err(|d| Error::Invalid(Report::new(&d, &self.session.sources)))
    }

    /// Exports a function as an ONNX model. Its parameters become the graph's inputs, the fields of
    /// its result the outputs, and constants initialisers; called functions are inlined.
    ///
    /// ```
    /// let module = relax::Module::parse("def @main(%x: Tensor[(n, 2), float32]) { nn.relu(%x) }")?;
    /// let bytes = module.to_onnx("main")?;
    /// let again = relax::Module::read("again.onnx", bytes, Default::default())?;
    /// assert_eq!(again.functions()[0].result.ty, "Tensor[(n, 2), float32]");
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The function does not exist, or part of it has no ONNX form.
    pub fn to_onnx(&self, function: &str) -> Result<Vec<u8>, Error> {
        let entry = self.find(Some(function))?;
        crate::onnx_model(&self.ir, entry).map_err(|d| self.invalid(&d))
    }

    /// Runs a pipeline: passes by name with options (`"infer-type,fuse-ops{level=2}"`) or a level
    /// (`"O2"`). Files that pass options name are read. Returns the passes' diagnostics.
    ///
    /// ```
    /// let mut module = relax::Module::parse("def @main() { 1 + 2 }")?;
    /// module.optimise("infer-type,fold-constant")?;
    /// assert!(module.to_string().contains('3'));
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The pipeline is invalid, or a pass rejected the module, which is then left in the state
    /// before that pass.
    pub fn optimise(&mut self, pipeline: &str) -> Result<Report, Error> {
        self.optimise_with(pipeline, &mut Silent)
    }

    /// Like [`Module::optimise`], with an observer.
    ///
    /// # Errors
    /// As for [`Module::optimise`].
    pub fn optimise_with(
        &mut self,
        pipeline: &str,
        observer: &mut dyn crate::PassObserver,
    ) -> Result<Report, Error> {
        let pipeline = pipeline_of(&mut self.session, pipeline)?;
        let config = PassConfig::default();
        let typed = self.typed();
        let outcome = run_typed(&pipeline, &mut self.ir, typed, &config, observer);
        self.found += outcome.found;
        match outcome.failure {
            Some((_, errors)) => {
                self.retype()?;
                return Err(self.invalid(&errors));
            }
            None => match outcome.typing {
                Some(typing) => (self.typing, self.warnings) = (typing, outcome.warnings),
                None => self.retype()?,
            },
        }
        Ok(Report::new(&outcome.diagnostics, &self.session.sources))
    }

    /// Registers an out-of-tree pass for this module's pipelines.
    ///
    /// ```
    /// use relax::{Module, passes};
    ///
    /// static COUNT: passes::PassDef = passes::PassDef {
    ///     name: "count-functions",
    ///     doc: "Counts the functions of a module.",
    ///     options: &[],
    ///     contract: passes::Contract::PLAIN,
    ///     run: |cx| {
    ///         cx.count("functions", cx.module.global_bodies().len() as u64);
    ///         Ok(())
    ///     },
    /// };
    ///
    /// let mut module = Module::parse("def @main() { 1 + 2 }")?;
    /// module.add_pass(&COUNT);
    /// module.optimise("count-functions,fold-constant")?;
    /// # Ok::<(), relax::Error>(())
    /// ```
    pub fn add_pass(&mut self, pass: &'static relax_passes::PassDef) {
        let passes = std::mem::take(&mut self.session.passes);
        self.session.passes = passes.with(pass);
    }

    pub(crate) fn invalid(&self, diagnostics: &relax_base::Diagnostics) -> Error {
        Error::Invalid(Report::new(diagnostics, &self.session.sources))
    }

    pub(crate) fn retype(&mut self) -> Result<(), Error> {
        let checked = check_all(&mut self.ir, &InferOptions::default());
        self.found.types += 1;
        self.found.typed += self.ir.global_bodies().len();
        if checked.diagnostics.has_errors() {
            return Err(self.invalid(&checked.diagnostics));
        }
        let Typed { typing, warnings } = checked.typed();
        (self.typing, self.warnings) = (typing, Some(warnings));
        Ok(())
    }

    /// Binds values to parameters of a function, which become constants and are removed from the
    /// signature. A field of a tuple parameter `p` is named `p.0`. Stubbed constants of the text
    /// ([`Stubs::Awaited`](crate::Stubs)) are named `meta[relay.Constant][0]`, ….
    ///
    /// ```
    /// use relax::{Module, Tensor, Value};
    ///
    /// let mut module = Module::parse("def @main(%x: Tensor[(2,), float32], %w: float32) { %x * %w }")?;
    /// let w = Tensor::from_slice(&[], &[3f32]);
    /// module.bind("main", vec![("w".into(), w)], Default::default())?;
    /// let x = Tensor::from_slice(&[2], &[1f32, 2.0]);
    /// let Value::Tensor(y) = &module.evaluate("main", &[Value::Tensor(x)])? else { panic!("a tensor") };
    /// assert_eq!(y.slice::<f32>(), [3.0, 6.0]);
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The function does not exist, or values do not match their parameters.
    pub fn bind(
        &mut self,
        function: &str,
        values: Vec<(String, Tensor)>,
        taking: Taking,
    ) -> Result<(), Error> {
        #[cfg(feature = "weights")]
        let values = self.give(values)?;
        let id = self.find(Some(function))?;
        let Some(func) = self.ir.global_func(id) else {
            return Err(Error::Misused(format!("@{function} is no function")));
        };
        let params = inputs::params(&self.ir, &self.typing, func);
        let (values, problems) = inputs::weights(&self.ir, id, &params, values, (false, taking));
        if !problems.is_empty() {
            return Err(Error::Unfit(
                format!("the values do not fit @{function}"),
                problems,
            ));
        }
        relax_passes::bind_params(&mut self.ir, id, values);
        self.retype()
    }

    /// Resolves a function by name; without a name, `main` or the only function.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<GlobalId, Error> {
        entry::sole_entry(&self.ir, name)
    }

    /// Returns whether the two modules are structurally equal: the same up to names, ids and spans.
    #[must_use]
    pub fn structural_equal(&self, other: &Module) -> bool {
        self.difference(other).is_none()
    }

    /// Returns the first structural difference between two modules.
    ///
    /// ```
    /// use relax::Module;
    ///
    /// let one = Module::parse("def @main(%x: int32) { %x + 1 }")?;
    /// let renamed = Module::parse("def @main(%y: int32) { %y + 1 }")?;
    /// let other = Module::parse("def @main(%x: int32) { %x + 2 }")?;
    /// assert!(one.structural_equal(&renamed));
    /// assert!(one.difference(&other).is_some());
    /// # Ok::<(), relax::Error>(())
    /// ```
    #[must_use]
    pub fn difference(&self, other: &Module) -> Option<Mismatch> {
        crate::difference(&self.ir, &other.ir, EqualOptions::default())
    }

    /// Runs a function in the reference evaluator.
    ///
    /// ```
    /// use relax::{Module, Tensor, Value};
    ///
    /// let module = Module::parse("def @main(%x: (int32, int32)) { (%x.1, %x.0) }")?;
    /// let number = |n| Value::Tensor(Tensor::from_slice(&[], &[n]));
    /// let pair = Value::Tuple(vec![number(1), number(2)]);
    /// assert_eq!(module.evaluate("main", &[pair])?, Value::Tuple(vec![number(2), number(1)]));
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The function does not exist, an argument cannot be converted, or the program fails.
    pub fn evaluate(&self, function: &str, arguments: &[Value]) -> Result<Value, Error> {
        self.run(function, arguments, |evaluator| evaluator)
    }

    /// Like [`Module::evaluate`], with an evaluator configured by `prepare`.
    pub(crate) fn run<'m>(
        &'m self,
        function: &str,
        arguments: &[Value],
        prepare: impl FnOnce(Interp<'m>) -> Interp<'m>,
    ) -> Result<Value, Error> {
        let id = self.find(Some(function))?;
        let name = self.ir.globals[id].name;
        let Some(func) = self.ir.global_func(id) else {
            return Err(Error::Misused(format!("@{name} is no function")));
        };
        let params = inputs::params(&self.ir, &self.typing, func);
        let given = crate::arguments::fitted(&self.ir, &params, arguments, Taking::default());
        let given = given.map_err(|problems| {
            Error::Unfit(format!("the arguments do not fit @{name}"), problems)
        })?;
        let mut evaluator = prepare(Interp::new(&self.ir, &self.typing));
        let value = evaluator.run(id, given).map_err(|d| {
            let message = d.message.clone();
            let report = Report::new(&d.into(), &self.session.sources);
            Error::Failed(message, report)
        })?;
        Ok(values::outer(&self.ir, &value))
    }
}

impl Clone for Module {
    fn clone(&self) -> Module {
        Module {
            session: Session {
                sources: self.session.copied_sources(),
                passes: self.session.passes.clone(),
                ..Session::new(self.session.options)
            },
            ir: self.ir.clone(),
            typing: Arc::clone(&self.typing),
            warnings: self.warnings.clone(),
            report: self.report.clone(),
            found: self.found,
        }
    }
}

/// Prints the module in the default style, without expression types.
impl std::fmt::Display for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.print(Style::Pretty, false))
    }
}

/// Parses a pipeline and loads the files it names.
pub(crate) fn pipeline_of(session: &mut Session, text: &str) -> Result<crate::Pipeline, Error> {
    let read = |file: &str| {
        let bytes = std::fs::read(file);
        bytes.map_err(|e| format!("cannot read {file}: {e}").into())
    };
    session
        .pipeline_with(text, &read)
        .map_err(|d| Error::Invalid(Report::new(&d, &session.sources)))
}
