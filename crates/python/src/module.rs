//! Modules.

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

/// A module without errors: functions, their types, and what can be done with them.
///
/// `parse`, `load` and `from_onnx` make one.
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
    /// The functions that the text defines, in its order.
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

    /// Warnings and remarks of reading and checking.
    ///
    /// Returns
    /// -------
    /// Diagnostics
    ///     A list, empty where there is nothing to say.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        all(py, self.0.report())
    }

    /// The text of the module.
    ///
    /// Parameters
    /// ----------
    /// style : {"pretty", "tvm", "tvmscript"}
    ///     The language's own style, TVM's ``astext()`` byte for byte, or Relax for today's TVM.
    /// types : bool
    ///     Whether every expression says its type, in a comment.
    /// elide : int, optional
    ///     Constants of more elements stand there as references to nothing.
    /// metadata : bool
    ///     Whether the section with the constants stands below.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     Something in the module has no form in TVMScript.
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

    /// A function as a picture: operators, what flows between them, groups as boxes.
    ///
    /// Parameters
    /// ----------
    /// function : str, optional
    ///     ``main``, or the only one, without it.
    /// format : {"svg", "dot", "mermaid"}
    ///     A picture, the language of Graphviz, or that of pages in Markdown.
    /// fold : bool
    ///     Whether repeated layers are drawn once, in a box that says how often they come.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     There is no such function, or no such format.
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

    /// A copy that changes by itself.
    fn copy(&self) -> Module {
        Module(self.0.clone())
    }

    fn __copy__(&self) -> Module {
        self.copy()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Module {
        self.copy()
    }

    /// The text, and the large constants that it refers to.
    ///
    /// Returns
    /// -------
    /// tuple of (str, list of numpy.ndarray)
    ///     What pickles and ``.relaxprog`` files are made of.
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

    /// Runs passes over the module, which changes.
    ///
    /// Parameters
    /// ----------
    /// pipeline : str, or iterable of str, Pass and callables
    ///     Passes by name with options (``"infer-type,fuse-ops{level=2}"``), a level (``"O2"``), and functions that
    ///     take a module and return one, or change theirs and return nothing. Functions that are registered have names
    ///     too, see ``register_pass``.
    /// progress : bool or callable, optional
    ///     As for ``compile``.
    ///
    /// Returns
    /// -------
    /// Diagnostics
    ///     What passes had to say.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     The pipeline names what there is not, or a pass refuses the module, which is then as that pass left it.
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

    /// The same as ``optimise``.
    #[pyo3(signature = (pipeline = None, *, progress = None))]
    fn optimize<'py>(
        slf: &Bound<'py, Self>,
        pipeline: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Module::optimise(slf, pipeline, progress)
    }

    /// The expressions of a function's body, each once, after those that it consists of: the body is the last.
    ///
    /// Parameters
    /// ----------
    /// function : str, optional
    ///     ``main``, or the only one, without it.
    ///
    /// Returns
    /// -------
    /// list of Node
    ///     ``kind`` says what each is, ``args`` are those it consists of.
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

    /// Gives a function another body: each expression, after those that it consists of, is replaced by what `change`
    /// makes of it.
    ///
    /// Parameters
    /// ----------
    /// change : callable
    ///     Takes an expression, over the new parts, and returns what stands in its place: itself, one of its parts, or one that
    ///     is built of them (``rx.op.nn.relu(e)``). `Mutator` has a method for each kind of expression.
    /// function : str, optional
    ///     ``main``, or the only one, without it.
    ///
    /// Returns
    /// -------
    /// bool
    ///     Whether anything changed.
    ///
    /// Raises
    /// ------
    /// InvalidError, UsageError
    ///     The new body has errors; the module is as it was.
    #[pyo3(signature = (change, function = None))]
    fn rewrite<'py>(
        slf: &Bound<'py, Self>,
        change: &Bound<'py, PyAny>,
        function: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        of_package(slf.py(), "_tree", "rewrite")?.call1((slf, change, function))
    }

    /// What ``walk`` is made of.
    fn expressions<'py>(
        &self,
        py: Python<'py>,
        function: Option<&str>,
    ) -> PyResult<Bound<'py, PyList>> {
        let all = self.0.expressions(function).map_err(|e| error(py, &e))?;
        let all = all.iter().map(|n| tree::node(py, n));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// What ``rewrite`` is made of.
    fn rebuild(
        slf: &Bound<'_, Self>,
        function: Option<&str>,
        made: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let made = made.iter().map(|m| tree::made(&m));
        let made = made.collect::<PyResult<Vec<_>>>()?;
        Module::change(slf, |m| m.rebuild(function, &made))
    }

    /// Whether the other module is the same up to names and places.
    fn structural_equal(&self, other: &Module) -> bool {
        self.0.structural_equal(&other.0)
    }

    /// The first difference to another module as text; ``None`` where there is none.
    fn diff(&self, other: &Module) -> Option<String> {
        self.0.difference(&other.0).map(|d| d.text)
    }

    /// Gives parameters of a function values: they are constants then, and parameters no longer.
    ///
    /// Parameters
    /// ----------
    /// params : dict of str to array
    ///     By the names of parameters; ``p.0`` is a field of ``%p``. Arrays are copied.
    /// function : str
    /// cast : bool
    ///     Whether arrays of another element type are converted.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     Arrays do not fit; the message has a line for each.
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

    /// Calls a function by the reference evaluator: slow, and what native code is held against.
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
    ///     Arguments do not fit.
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

    /// Compiles functions into memory. The module stays as it is.
    ///
    /// Parameters
    /// ----------
    /// threads : int
    ///     Threads of parallel loops, the caller's included; 0 for one per processor.
    /// opt : int
    ///     How much is optimised, 0 to 3.
    /// target : str, optional
    ///     The machine that ``object`` and ``save`` make code for, as ``"aarch64-unknown-linux-gnu"``; features may
    ///     follow, as ``"x86_64+avx2+fma"`` or ``"+native"``. Calls run on this machine whatever it is.
    /// pipeline : str, optional
    ///     The passes that run before code is generated, instead of those of the level.
    /// entries : list of str, optional
    ///     The functions that can be called; ``main``, or the only one, where none is named.
    /// profile : bool
    ///     Whether the code measures its kernels, see ``Program.profile``.
    /// progress : bool or callable, optional
    ///     How far it is: ``tqdm.tqdm`` or another class of such bars, ``True`` for the one that is installed, or a
    ///     function of what is done next, how many steps are done, and of how many.
    ///
    /// Raises
    /// ------
    /// InvalidError
    ///     The pipeline is wrong, or native code does not have what the module uses.
    /// UsageError
    ///     A function is not there, there cannot be so many threads, or the target is unknown.
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
