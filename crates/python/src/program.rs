//! Compiled programs.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use relax::{CompileOptions, Signature, Target, Value};

use crate::arguments::Arguments;
use crate::calls::{self, Quick, Views, deliver};
use crate::errors::{argument, error, failed, misused};
use crate::of_package;
use crate::packed::{Registered, raised};
use crate::results::{Owner, python};
use crate::signature::functions;
use crate::watch::{Effort, SLOW, Watch};

/// Native code in memory. Any number of threads may call it at once; the interpreter is released
/// while it runs.
///
/// ``Module.compile`` returns one. A call takes the arguments in the order of the parameters, or by
/// name, and returns an array, a tuple, or an instance of a data type. Contiguous arrays are not
/// copied, nor are large results.
///
/// Besides the parameters, a call accepts ``out=`` (arrays that the result is written to),
/// ``cast=True`` (arrays of another element type are converted) and ``entry=`` (the function, if
/// there are several entries).
#[pyclass(frozen, module = "relax_ir")]
pub struct Program {
    program: Arc<relax::Program>,
    /// The module and options it was compiled from: a pickled program is compiled again. Unknown
    /// for a loaded library.
    recipe: Option<Recipe>,
    /// The fast paths of entries.
    quick: Vec<Option<Quick>>,
    watch: Watch,
}

/// The module and options of a program.
struct Recipe {
    module: relax::Module,
    options: CompileOptions,
    target: Option<String>,
}

/// The interval at which long calls check for interrupts.
const LOOK: Duration = Duration::from_millis(50);
/// Calls of constant cost below this limit keep the interpreter attached: detaching would cost as
/// much.
const SHORT: u64 = 10_000;

/// Parses a target: a triple, and features after `+`; without either, this machine.
pub fn target(text: Option<&str>) -> Result<Target, relax::Error> {
    let mut parts = text.unwrap_or("").split('+').map(str::trim);
    let triple = parts.next().filter(|t| !t.is_empty() && *t != "host");
    let target = Target {
        triple: triple.map(str::to_owned),
        features: parts.filter(|f| !f.is_empty()).map(str::to_owned).collect(),
        optimize: true,
        prefix: None,
    };
    target.check().map_err(relax::Error::from).map(|()| target)
}

/// Load a program from a shared library written by ``Program.save``.
#[pyfunction]
#[pyo3(signature = (path, threads = 1))]
pub fn load_library(py: Python<'_>, path: PathBuf, threads: usize) -> PyResult<Program> {
    // SAFETY: who loads a library trusts it, as the documentation of `load_program` says.
    let program = unsafe { relax::Program::load(&path, threads) };
    let program = program.map_err(|e| error(py, &e))?;
    Program::of(py, program.with_packed(Arc::new(Registered)), None)
}

/// A row of a profile: kernel, calls, total nanoseconds, those of the fastest call, operations,
/// bytes.
type Row = (String, u64, u64, u64, u64, u64);

/// Plot a profile with the peak performance of the machine, which is measured unless it is given.
#[pyfunction]
#[pyo3(signature = (rows, threads = 1, gflops = None, gbytes = None))]
pub fn roofline(
    py: Python<'_>,
    rows: Vec<Row>,
    threads: usize,
    gflops: Option<f64>,
    gbytes: Option<f64>,
) -> PyResult<String> {
    let cost = |(kernel, calls, nanos, least, flops, bytes): Row| relax::Cost {
        kernel,
        calls,
        nanos,
        least,
        flops,
        bytes,
    };
    let costs: Vec<relax::Cost> = rows.into_iter().map(cost).collect();
    let peaks = match (gflops, gbytes) {
        (Some(gflops), Some(gbytes)) => relax::roofline::Peaks { gflops, gbytes },
        _ => {
            let found = py.detach(|| relax::roofline::Peaks::measured(threads));
            let found = found.map_err(|e| error(py, &e))?;
            relax::roofline::Peaks {
                gflops: gflops.unwrap_or(found.gflops),
                gbytes: gbytes.unwrap_or(found.gbytes),
            }
        }
    };
    if !(peaks.gflops > 0.0 && peaks.gbytes > 0.0) {
        return Err(misused(py, "a machine does more than nothing".to_owned()));
    }
    Ok(relax::roofline::svg(&costs, peaks))
}

impl Program {
    /// Wraps a program that was compiled from a module.
    pub fn new(
        py: Python<'_>,
        program: relax::Program,
        module: relax::Module,
        (options, target): (CompileOptions, Option<String>),
    ) -> PyResult<Program> {
        let program = match program.packed_names() {
            [] => program,
            _ => program.with_packed(Arc::new(Registered)),
        };
        let recipe = Recipe {
            module,
            options,
            target,
        };
        Program::of(py, program, Some(recipe))
    }

    fn of(py: Python<'_>, program: relax::Program, recipe: Option<Recipe>) -> PyResult<Program> {
        let entries = program.entries().iter().enumerate();
        let quick = entries.map(|(at, entry)| Quick::new(py, &program, at, entry));
        let quick = quick.collect::<PyResult<Vec<_>>>()?;
        Ok(Program {
            program: Arc::new(program),
            recipe,
            quick,
            watch: Watch::new(),
        })
    }

    fn recipe(&self, py: Python<'_>) -> PyResult<&Recipe> {
        self.recipe.as_ref().ok_or_else(|| {
            let text = "the program came from a library, which holds code alone".to_owned();
            misused(py, text)
        })
    }

    /// Takes the fast path, for plain arrays and an expected short time; `None` otherwise.
    fn quickly<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = args.py();
        let last = self.watch.last();
        let Some(quick) = self.quick[0].as_ref().filter(|_| last < SLOW) else {
            return Ok(None);
        };
        let mut room = Views::new();
        let Some((views, out)) = quick.views(args, kwargs, &mut room)? else {
            return Ok(None);
        };
        let whole = (&*self.program, 0);
        let called = if last < SHORT && quick.steady() {
            calls::held(py, whole, views, out.as_ref())
        } else {
            let effort = Effort::of_views(views);
            if self.watch.expects_long(effort) {
                return Ok(None);
            }
            let start = Instant::now();
            let called = calls::free(py, whole, views, out.as_ref());
            self.watch.took(start, effort);
            called
        };
        match called {
            Ok(result) => result.map(Some),
            Err(e) => Err(failed(py, &e, raised())),
        }
    }

    fn entry(&self, py: Python<'_>, name: Option<&str>) -> PyResult<usize> {
        let Some(name) = name.map(|n| n.trim_start_matches('@')) else {
            return Ok(0);
        };
        let entries = self.program.entries();
        let found = entries.iter().position(|e| e.name == name);
        found.ok_or_else(|| {
            let names: Vec<String> = entries.iter().map(|e| format!("@{}", e.name)).collect();
            let names = names.join(", ");
            misused(py, format!("there is no entry @{name}; there is {names}"))
        })
    }

    fn run(&self, py: Python<'_>, entry: usize, values: Vec<Value>) -> PyResult<Value> {
        // Python functions check for interrupts themselves, and must stay on the caller's thread.
        let own = self.program.packed_names().is_empty();
        let effort = Effort::of_values(&values);
        if own && self.watch.expects_long(effort) && is_main(py)? {
            return self.watched(py, entry, values, effort);
        }
        let start = Instant::now();
        let result = py.detach(|| self.program.call_at(entry, &values));
        self.watch.took(start, effort);
        result.map_err(|e| failed(py, &e, raised()))
    }

    /// Calls on another thread, while this one waits for the result or an interrupt. Running code
    /// cannot be stopped: after an interrupt it continues to its end, which nobody waits for.
    fn watched(
        &self,
        py: Python<'_>,
        entry: usize,
        values: Vec<Value>,
        effort: Effort,
    ) -> PyResult<Value> {
        let (send, receive) = channel();
        let receive = Mutex::new(receive);
        let program = Arc::clone(&self.program);
        let start = Instant::now();
        // The arguments are returned, to be dropped with the interpreter attached.
        let body = move || {
            let result = program.call_at(entry, &values);
            let _ = send.send((result, raised(), values));
        };
        let thread = std::thread::Builder::new()
            .name("relax-call".into())
            .spawn(body);
        if let Err(e) = thread {
            return Err(misused(py, format!("no thread can be started: {e}")));
        }
        loop {
            let wait = || {
                let receive = receive.lock().unwrap_or_else(PoisonError::into_inner);
                receive.recv_timeout(LOOK)
            };
            match py.detach(wait) {
                Ok((result, cause, _arguments)) => {
                    self.watch.took(start, effort);
                    return result.map_err(|e| failed(py, &e, cause));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(misused(py, "the call has ended without a result".into()));
                }
            }
        }
    }
}

/// Returns whether this is the thread that receives signals.
fn is_main(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

/// The options of a call.
#[derive(Default)]
struct Wishes<'py> {
    out: Option<Bound<'py, PyAny>>,
    entry: Option<String>,
    cast: bool,
}

impl<'py> Wishes<'py> {
    /// Removes the options from the keyword arguments.
    fn take(kwargs: &Bound<'py, PyDict>, entries: &[Signature]) -> PyResult<Wishes<'py>> {
        let mut wishes = Wishes::default();
        let param = |name: &str| {
            entries
                .iter()
                .any(|e| e.params.iter().any(|p| p.name == name))
        };
        let take = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
            let found = match param(name) {
                true => None,
                false => kwargs.get_item(name)?,
            };
            if found.is_some() {
                kwargs.del_item(name)?;
            }
            Ok(found)
        };
        wishes.out = take("out")?.filter(|v| !v.is_none());
        wishes.cast = take("cast")?.is_some_and(|v| v.is_truthy().unwrap_or(false));
        wishes.entry = take("entry")?.map(|v| v.extract()).transpose()?;
        Ok(wishes)
    }
}

/// Returns the arguments of a call in the order of the parameters of the entry `at`.
fn ordered<'py>(
    (entry, at): (&Signature, usize),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    arguments: &Arguments<'_>,
) -> PyResult<Vec<Value>> {
    let refused = |text: String| argument(args.py(), &format!("@{}: {text}", entry.name));
    if args.len() > entry.params.len() {
        let (want, have) = (entry.params.len(), args.len());
        return Err(refused(format!(
            "it takes {want} arguments, and {have} are given"
        )));
    }
    let mut values = Vec::with_capacity(entry.params.len());
    let mut used = 0;
    for (i, param) in entry.params.iter().enumerate() {
        let named = kwargs
            .map(|k| k.get_item(&param.name))
            .transpose()?
            .flatten();
        used += usize::from(named.is_some());
        let given = match (args.get_item(i).ok().filter(|_| i < args.len()), named) {
            (Some(_), Some(_)) => {
                return Err(refused(format!("%{} is given twice", param.name)));
            }
            (Some(given), None) | (None, Some(given)) => given,
            (None, None) => {
                let text = format!("%{} is missing; it must be {}", param.name, param.ty);
                return Err(refused(text));
            }
        };
        values.push(arguments.value(&given, param, arguments.types.param(at, i))?);
    }
    if let Some(kwargs) = kwargs.filter(|k| k.len() > used) {
        let known = |name: &str| entry.params.iter().any(|p| p.name == name);
        let names = kwargs.keys().iter().map(|k| k.to_string());
        let unknown: Vec<String> = names.filter(|n| !known(n)).collect();
        return Err(refused(format!(
            "no parameter is called {}",
            unknown.join(", ")
        )));
    }
    Ok(values)
}

#[pymethods]
impl Program {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        if let Some(result) = self.quickly(args, kwargs)? {
            return Ok(result);
        }
        let (entries, types) = (self.program.entries(), self.program.types());
        // The caller may still need the dictionary.
        let kwargs = kwargs.map(|k| k.copy()).transpose()?;
        let kwargs = kwargs.as_ref();
        let wishes = match kwargs {
            Some(kwargs) => Wishes::take(kwargs, entries)?,
            None => Wishes::default(),
        };
        let at = self.entry(py, wishes.entry.as_deref())?;
        let arguments = Arguments {
            types,
            cast: wishes.cast,
        };
        let values = ordered((&entries[at], at), args, kwargs, &arguments)?;
        let result = self.run(py, at, values)?;
        let result = python(py, &result, types, types.result(at), Owner::Value)?;
        deliver(py, result, wishes.out.as_ref())
    }

    /// The entry functions.
    #[getter]
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        functions(py, self.program.entries())
    }

    /// Summarise the program: entries, kernels, bytes of constants.
    fn summary(&self) -> String {
        self.program.summary()
    }

    /// Return the accumulated cost of each kernel, the most expensive first; requires a program
    /// compiled with ``profile=True``.
    ///
    /// Returns
    /// -------
    /// Profile
    ///     Its rows; ``to_pandas()`` returns them as a data frame, ``roofline()`` plots them.
    fn profile<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if !self.recipe(py)?.options.profile {
            let text = "the program was compiled without `profile=True`";
            return Err(misused(py, text.to_owned()));
        }
        let rows = self.program.costs().into_iter();
        let rows = rows.map(|c| (c.kernel, c.calls, c.nanos, c.least, c.flops, c.bytes));
        let table = self.program.profile();
        let threads = self.recipe(py)?.options.threads;
        of_package(py, "_profile", "Profile")?.call1((rows.collect::<Vec<_>>(), table, threads))
    }

    /// Return the program as an object file, for the ``target`` it was compiled for or this
    /// machine.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     The name of the object in debuggers.
    ///
    /// Returns
    /// -------
    /// bytes
    ///     Input for a linker; ``relaxc`` can write headers, and print what to link with.
    #[pyo3(signature = (name = "model"))]
    fn object<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let target = target(self.recipe(py)?.target.as_deref()).map_err(|e| error(py, &e))?;
        let bytes = py.detach(|| self.program.object(&target, name));
        Ok(PyBytes::new(py, &bytes.map_err(|e| error(py, &e))?))
    }

    /// Returns what a shared library of the program is linked with: its self-description, and the
    /// symbols of its entries.
    fn interface(&self, py: Python<'_>) -> PyResult<(String, Vec<String>)> {
        let text = self.recipe(py)?.module.description(&self.program);
        let symbols = self.program.entries().iter();
        let symbols = symbols.map(|e| relax::Program::symbol(&e.name));
        let description = relax::DESCRIPTION.to_owned();
        Ok((text, symbols.chain([description]).collect()))
    }

    /// Returns what the program was compiled from: the text, its large constants, and the options
    /// of ``Module.compile``.
    #[pyo3(name = "recipe")]
    fn recipe_of<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(String, Bound<'py, PyList>, Bound<'py, PyDict>)> {
        let recipe = self.recipe(py)?;
        let (text, constants) = py.detach(|| recipe.module.apart());
        let constants = constants.iter().map(|c| crate::arrays::array(py, c, false));
        let constants = PyList::new(py, constants.collect::<PyResult<Vec<_>>>()?)?;
        let options = PyDict::new(py);
        options.set_item("threads", recipe.options.threads)?;
        options.set_item("opt", recipe.options.level)?;
        options.set_item("target", recipe.target.as_deref())?;
        options.set_item("pipeline", recipe.options.pipeline.as_deref())?;
        options.set_item("entries", &recipe.options.entries)?;
        options.set_item("profile", recipe.options.profile)?;
        Ok((text, constants, options))
    }

    /// Write the program to a file.
    ///
    /// Parameters
    /// ----------
    /// path : str or os.PathLike
    ///     ``.relaxprog`` for ``load_program``, which compiles it for its machine; ``.so`` is code
    ///     for this machine, which ``load_program`` loads as it is (linking it requires a C
    ///     compiler); ``.o`` is an object file for a linker.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     The extension is none of these, or there is no C compiler.
    fn save<'py>(slf: &Bound<'py, Self>, path: &Bound<'py, PyAny>) -> PyResult<()> {
        of_package(slf.py(), "_files", "save")?
            .call1((slf, path))
            .map(drop)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let again = of_package(py, "_files", "compiled")?;
        let recipe = slf.get().recipe_of(py)?.into_pyobject(py)?;
        Ok(PyTuple::new(py, [again, recipe.into_any()])?.into_any())
    }

    fn __repr__(&self) -> String {
        let entries = self
            .program
            .entries()
            .iter()
            .map(|e| format!("@{}", e.name));
        let names: Vec<String> = entries.collect();
        format!("<relax_ir.Program {}>", names.join(", "))
    }
}
