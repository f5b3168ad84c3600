//! The class `Module`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use relax::fit::Taking;
use relax::{CompileOptions, PrintMode, Style};

use crate::arguments::Arguments;
use crate::arrays::{array, owned};
use crate::errors::{argument, error, failed, misused};
use crate::findings::all;
use crate::of_package;
use crate::packed::{Registered, raised};
use crate::program::Program;
use crate::progress::{Progress, Watched, bar};
use crate::results::{Owner, python};
use crate::signature::functions;
use crate::{program, tree};

/// A module without errors: its functions and their types.
///
/// `parse`, `load` and `from_onnx` return one.
#[pyclass(module = "relax_ir")]
pub struct Module(pub(crate) relax::Module);

impl Module {
    fn change<T: Send>(
        slf: &Bound<'_, Self>,
        what: impl FnOnce(&mut relax::Module) -> Result<T, relax::Error> + Send,
    ) -> PyResult<T> {
        let py = slf.py();
        let mut module = slf.try_borrow_mut()?;
        let module = &mut module.0;
        py.detach(move || what(module)).map_err(|e| error(py, &e))
    }
}

#[pymethods]
impl Module {
    /// The functions that the text defines, in source order.
    #[getter]
    fn functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        functions(py, &self.0.functions())
    }

    /// The data types: their names, and the classes of their constructors as attributes.
    #[getter]
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut all = Vec::new();
        for data in self.0.types().data_types() {
            let constructors = data.constructors.into_iter().map(|c| (c.name, c.fields));
            all.push((data.name, constructors.collect::<Vec<_>>()));
        }
        of_package(py, "_values", "DataTypes")?.call1((all,))
    }

    /// The warnings and notes from reading and checking.
    ///
    /// Returns
    /// -------
    /// Diagnostics
    ///     A list; empty if there are none.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        all(py, self.0.report())
    }

    /// Print the module.
    ///
    /// Parameters
    /// ----------
    /// style : {"pretty", "tvm", "tvmscript"}
    ///     The default style, TVM's ``astext()`` byte for byte, or TVMScript for current TVM.
    /// types : bool
    ///     Whether the type of every expression is printed in a comment.
    /// elide : int, optional
    ///     Constants of more elements are printed as dangling references.
    /// metadata : bool
    ///     Whether the metadata section with the constants is included.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     Part of the module has no TVMScript form.
    #[pyo3(signature = (style = "pretty", types = false, elide = None, metadata = true))]
    fn print(
        &self,
        py: Python<'_>,
        style: &str,
        types: bool,
        elide: Option<usize>,
        metadata: bool,
    ) -> PyResult<String> {
        let style = match style {
            "pretty" => Style::Pretty,
            "tvm" => Style::Tvm,
            "tvmscript" => return self.0.to_tvmscript().map_err(|e| error(py, &e)),
            _ => {
                let text = format!("there is no style {style:?}: pretty, tvm, tvmscript");
                return Err(misused(py, text));
            }
        };
        let mode = PrintMode {
            style,
            elide,
            no_metadata: !metadata,
            ..PrintMode::default()
        };
        Ok(self.0.print_as(mode, types))
    }

    /// Draw a function: operators, the data flow between them, groups as boxes.
    ///
    /// Parameters
    /// ----------
    /// function : str, optional
    ///     Its name; ``main`` or the only function by default.
    /// format : {"svg", "dot", "mermaid"}
    ///     An image, Graphviz's DOT language, or a Mermaid flowchart for Markdown pages.
    /// fold : bool
    ///     Whether repeated layers are drawn once, in a box labelled with their number.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     The function or the format does not exist.
    #[pyo3(signature = (function = None, format = "svg", fold = true))]
    fn graph(
        &self,
        py: Python<'_>,
        function: Option<&str>,
        format: &str,
        fold: bool,
    ) -> PyResult<String> {
        let graph = self.0.graph(function).map_err(|e| error(py, &e))?;
        let graph = if fold { graph.folded() } else { graph };
        Ok(match format {
            "svg" => graph.svg(),
            "dot" => graph.dot(),
            "mermaid" => graph.mermaid(),
            _ => {
                let text = format!("there is no format {format:?}: svg, dot, mermaid");
                return Err(misused(py, text));
            }
        })
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        let all = self.0.functions();
        let names: Vec<String> = all.iter().map(|f| format!("@{}", f.name)).collect();
        format!("<relax_ir.Module {}>", names.join(", "))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        of_package(slf.py(), "_html", "module")?.call1((slf,))
    }

    /// Return an independent copy.
    fn copy(&self) -> Module {
        Module(self.0.clone())
    }

    fn __copy__(&self) -> Module {
        self.copy()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Module {
        self.copy()
    }

    /// Split the module into its text and the large constants that it refers to.
    ///
    /// Returns
    /// -------
    /// tuple of (str, list of numpy.ndarray)
    ///     The content of pickles and ``.relaxprog`` files.
    fn apart<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyList>)> {
        let (text, constants) = py.detach(|| self.0.apart());
        let constants = constants.iter().map(|c| array(py, c, false));
        let constants = constants.collect::<PyResult<Vec<_>>>()?;
        Ok((text, PyList::new(py, constants)?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let again = of_package(py, "_native", "together")?;
        let apart = slf.try_borrow()?.apart(py)?.into_pyobject(py)?;
        Ok(PyTuple::new(py, [again, apart.into_any()])?.into_any())
    }

    /// Run passes on the module, in place.
    ///
    /// Parameters
    /// ----------
    /// pipeline : str, or iterable of str, Pass and callables
    ///     Passes by name with options (``"infer-type,fuse-ops{level=2}"``), a level (``"O2"``), or
    ///     functions that return a new module, or change theirs and return nothing. Registered
    ///     functions also have names, see ``register_pass``.
    /// progress : bool or callable, optional
    ///     As for ``compile``.
    ///
    /// Returns
    /// -------
    /// Diagnostics
    ///     The diagnostics of the passes.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     The pipeline is invalid, or a pass rejects the module, which keeps the earlier changes.
    #[pyo3(signature = (pipeline = None, *, progress = None))]
    fn optimise<'py>(
        slf: &Bound<'py, Self>,
        pipeline: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let mut told = Progress::new(bar(py, progress, "passes")?);
        let mut found = all(py, &relax::Report::default())?;
        for step in of_package(py, "_passes", "steps")?
            .call1((pipeline,))?
            .try_iter()?
        {
            let step = step?;
            if let Ok(text) = step.extract::<String>() {
                let report =
                    Module::change(slf, |m| m.optimise_with(&text, &mut Watched(&mut told)))?;
                found = found.add(all(py, &report)?)?;
                continue;
            }
            let made = step.call1((slf,))?;
            if made.is_none() || made.is(slf) {
                continue;
            }
            let made = made.cast::<Module>().map_err(|_| {
                misused(
                    py,
                    "a pass returns a module, or None where it changed its own".into(),
                )
            })?;
            let made = made.try_borrow()?.0.clone();
            slf.try_borrow_mut()?.0 = made;
        }
        told.tell("", 1, 1);
        told.ended()?;
        Ok(found)
    }

    /// An alias of ``optimise``.
    #[pyo3(signature = (pipeline = None, *, progress = None))]
    fn optimize<'py>(
        slf: &Bound<'py, Self>,
        pipeline: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Module::optimise(slf, pipeline, progress)
    }

    /// Return the expressions of a function's body in post-order: each once, after its operands,
    /// and the body last.
    ///
    /// Parameters
    /// ----------
    /// function : str, optional
    ///     Its name; ``main`` or the only function by default.
    ///
    /// Returns
    /// -------
    /// list of Node
    ///     ``kind`` is the kind of each, ``args`` are its operands.
    ///
    /// Examples
    /// --------
    /// >>> module = parse("def @main(%x: float32) { exp(%x) + 1f }")
    /// >>> [e.head for e in module.walk() if e.kind == "call"]
    /// ['exp', 'add']
    #[pyo3(signature = (function = None))]
    fn walk<'py>(slf: &Bound<'py, Self>, function: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        of_package(slf.py(), "_tree", "walk")?.call1((slf, function))
    }

    /// Rewrite a function's body: each expression is, after its operands, replaced by the result of
    /// `change`.
    ///
    /// Parameters
    /// ----------
    /// change : callable
    ///     Takes an expression with new operands, and returns its replacement: itself, an operand,
    ///     or an expression built from these (``rx.op.nn.relu(e)``). `Mutator` has a method for
    ///     each kind of expression.
    /// function : str, optional
    ///     Its name; ``main`` or the only function by default.
    ///
    /// Returns
    /// -------
    /// bool
    ///     Whether anything changed.
    ///
    /// Raises
    /// ------
    /// InvalidError, UsageError
    ///     The new body has errors; the module is unchanged.
    #[pyo3(signature = (change, function = None))]
    fn rewrite<'py>(
        slf: &Bound<'py, Self>,
        change: &Bound<'py, PyAny>,
        function: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        of_package(slf.py(), "_tree", "rewrite")?.call1((slf, change, function))
    }

    /// Returns the data for ``walk``.
    fn expressions<'py>(
        &self,
        py: Python<'py>,
        function: Option<&str>,
    ) -> PyResult<Bound<'py, PyList>> {
        let all = self.0.expressions(function).map_err(|e| error(py, &e))?;
        let all = all.iter().map(|n| tree::node(py, n));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// Applies the result of ``rewrite``.
    fn rebuild(
        slf: &Bound<'_, Self>,
        function: Option<&str>,
        made: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let made = made.iter().map(|m| tree::made(&m));
        let made = made.collect::<PyResult<Vec<_>>>()?;
        Module::change(slf, |m| m.rebuild(function, &made))
    }

    /// Return whether the other module is equal up to names and source positions.
    fn structural_equal(&self, other: &Module) -> bool {
        self.0.structural_equal(&other.0)
    }

    /// Describe the first difference to another module; ``None`` if there is none.
    fn diff(&self, other: &Module) -> Option<String> {
        self.0.difference(&other.0).map(|d| d.text)
    }

    /// Bind parameters of a function to values: they become constants of the function.
    ///
    /// Parameters
    /// ----------
    /// params : dict of str to array
    ///     Values by parameter name; ``p.0`` is a field of ``%p``. Arrays are copied.
    /// function : str
    /// cast : bool
    ///     Whether arrays of another element type are converted.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     Arrays do not match; the message has a line for each.
    #[pyo3(signature = (params, function = "main", *, cast = false))]
    fn bind(
        slf: &Bound<'_, Self>,
        params: &Bound<'_, PyDict>,
        function: &str,
        cast: bool,
    ) -> PyResult<()> {
        let mut values = Vec::new();
        for (name, value) in params {
            let name = name.extract::<String>()?;
            let value = owned(&value, &name)?;
            values.push((name, value));
        }
        Module::change(slf, |m| m.bind(function, values, Taking { cast }))
    }

    /// Call a function in the reference evaluator: slow, and the reference for native code.
    ///
    /// Parameters
    /// ----------
    /// *args
    ///     As for ``Program``.
    /// function : str
    /// cast : bool
    ///     Whether arrays of another element type are converted.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     Arguments do not match the parameters.
    /// ExecutionError
    ///     The program failed.
    #[pyo3(signature = (*args, function = "main", cast = false))]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        function: &str,
        cast: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (functions, types) = (self.0.functions(), self.0.types());
        let name = function.trim_start_matches('@');
        let at = functions.iter().position(|f| f.name == name);
        let at = at.or((functions.len() == 1 && name == "main").then_some(0));
        let Some(at) = at else {
            return Err(misused(py, format!("there is no function @{name}")));
        };
        let (signature, arguments) = (
            &functions[at],
            Arguments {
                types: &types,
                cast,
            },
        );
        let refused = |text: String| argument(py, &format!("@{}: {text}", signature.name));
        let (want, have) = (signature.params.len(), args.len());
        if want != have {
            return Err(refused(format!(
                "it takes {want} arguments, and {have} are given"
            )));
        }
        let given = args.iter().zip(&signature.params).enumerate();
        let values = given.map(|(i, (given, p))| arguments.value(&given, p, types.param(at, i)));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        let packed = std::sync::Arc::new(Registered);
        let value = py.detach(|| self.0.evaluate_with(&signature.name, &values, packed));
        let cause = raised();
        let value = value.map_err(|e| failed(py, &e, cause))?;
        python(py, &value, &types, types.result(at), Owner::Shared)
    }

    /// Compile functions in memory. The module is not changed.
    ///
    /// Parameters
    /// ----------
    /// threads : int
    ///     Threads for parallel loops, including the caller's; 0 for one per processor.
    /// opt : int
    ///     The optimisation level, 0 to 3.
    /// target : str, optional
    ///     The target of ``object`` and ``save``, such as ``"aarch64-unknown-linux-gnu"``, with
    ///     features as in ``"x86_64+avx2+fma"`` or ``"+native"``. Calls always run on this machine.
    /// pipeline : str, optional
    ///     The passes before code generation, overriding the optimisation level.
    /// entries : list of str, optional
    ///     The entry functions; ``main`` or the only function by default.
    /// profile : bool
    ///     Whether to time kernels, see ``Program.profile``.
    /// progress : bool or callable, optional
    ///     ``tqdm.tqdm`` or a compatible class, ``True`` for the installed one, or a function of
    ///     the next step, the number of finished steps, and their total.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     The pipeline is invalid, or the module uses something without native code.
    /// UsageError
    ///     A function does not exist, the threads cannot be started, or the target is unknown.
    #[pyo3(signature = (
        *, threads = 1, opt = 2, target = None, pipeline = None, entries = None, profile = false, progress = None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn compile(
        &self,
        py: Python<'_>,
        threads: usize,
        opt: u8,
        target: Option<String>,
        pipeline: Option<String>,
        entries: Option<Vec<String>>,
        profile: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Program> {
        if opt > 3 {
            return Err(misused(py, format!("`opt` is 0 to 3, not {opt}")));
        }
        program::target(target.as_deref()).map_err(|e| error(py, &e))?;
        let options = CompileOptions {
            level: opt,
            pipeline,
            entries: entries.unwrap_or_default(),
            threads,
            profile,
        };
        let bar = bar(py, progress, "compiling")?;
        let mut told = Progress::new(bar);
        let tell = |what: &str, done: usize, total: usize| told.tell(what, done, total);
        let compiled = py.detach(|| {
            let mut tell = tell;
            self.0.compile_with(&options, &mut tell)
        });
        told.tell("", 1, 1);
        told.ended()?;
        let compiled = compiled.map_err(|e| error(py, &e))?;
        Program::new(py, compiled, self.0.clone(), (options, target))
    }
}
