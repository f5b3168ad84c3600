//! `relax-opt FILE --pipeline …`: reads a module, runs passes on it and prints it.
//!
//! The whole tool is parameterised by a [`Registry`], so that a three-line program is a relax-opt
//! with out-of-tree passes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use relax::fit::Taking;
use relax::{
    Contents, GivenTypes, InferOptions, PassConfig, Pipeline, PrintMode, Release, Session, Style,
    TypeSource, TypedModule, run_pipeline,
};
use relax_base::Diagnostics;
use relax_cli::opt::around::Around;
use relax_cli::opt::emit::{self, Emit};
use relax_cli::opt::watch::{Watch, Wishes};
use relax_cli::opt::{expected, manual, reproducer, split};
use relax_cli::reading::Reading;
use relax_cli::stop::Stop;
use relax_cli::{exit, formats, inputs, io, load, render, save, say, taking, tool, weights};
use relax_ir::{EqualOptions, Module, Type};
use relax_passes::Registry;

/// Reads a Relay or Relax text, transforms it and prints it.
#[derive(Parser, Debug)]
#[command(name = "relax-opt")]
struct Args {
    /// The file; `-` reads standard input, as does no file at all.
    file: Option<PathBuf>,
    /// Where the result goes; `-` is standard output.
    #[arg(short = 'o', long = "output", default_value = "-")]
    output: PathBuf,
    /// What is written: the module, or its constants, or a function as a picture; by the output's
    /// extension unless it is said. A file of weights is converted.
    #[arg(long, value_enum, value_name = "WHAT")]
    emit: Option<Emit>,
    /// The function of a picture; `main`, or the only one, without it.
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Draws every layer of a picture, also those that repeat.
    #[arg(long)]
    unfolded: bool,
    /// The version of TVM that a JSON graph is for: 0.9 to 0.15.
    #[arg(long, value_name = "VERSION", default_value = "0.12")]
    json_version: Release,
    /// How the result is written: `pretty`, or `tvmscript` where the output's name ends in `.py`,
    /// unless given.
    #[arg(long, value_enum)]
    print_style: Option<PrintStyle>,
    /// Leaves out the `/* ty=… */` comments.
    #[arg(long)]
    no_types: bool,
    /// Prints constants of more than N elements as references with a type, without their values.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    elide_constants: Option<usize>,
    /// Leaves out the metadata section, which holds the values of constants.
    #[arg(long)]
    no_metadata: bool,
    /// Prints nothing and compares with this file instead, up to renaming: exit 0 when equal, 1
    /// when different, with the first difference. Annotations count only where both sides have one.
    #[arg(long, value_name = "OTHER")]
    structural_equal: Option<PathBuf>,
    /// The passes: `infer-type,fuse-ops{level=2}`.
    #[arg(long, value_name = "PASSES", conflicts_with = "level")]
    pipeline: Option<String>,
    /// A named pipeline: -O0, -O1, -O2, -O3.
    #[arg(short = 'O', value_name = "LEVEL", value_parser = ["0", "1", "2", "3"])]
    level: Option<String>,
    /// Lists all passes with their options.
    #[arg(long)]
    list_passes: bool,
    /// Says what a pass does, needs and takes.
    #[arg(long, value_name = "PASS")]
    help_pass: Option<String>,
    /// Writes the pipeline with all its options to standard error.
    #[arg(long)]
    dump_pipeline: bool,
    #[command(flatten)]
    around: Around,
    /// Says how long each pass took.
    #[arg(long)]
    timing: bool,
    /// Says what each pass did.
    #[arg(long)]
    stats: bool,
    /// Treats the parts between `// -----` lines as modules of their own.
    #[arg(long)]
    split_input_file: bool,
    /// Verifies the module and finds its types again after each pass.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true,
          default_missing_value = "true", action = clap::ArgAction::Set)]
    verify_each: bool,
    /// Prints the result, reads it back and compares.
    #[arg(long)]
    verify_roundtrip: bool,
    /// Compares diagnostics with `// expected-error@+1 {{…}}` comments; `=update` rewrites these.
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true,
          default_missing_value = "check")]
    verify_diagnostics: Option<Verify>,
    /// Writes pipeline and input into one file before the passes run, whatever becomes of them
    /// then.
    #[arg(long, value_name = "FILE")]
    reproducer: Option<PathBuf>,
    /// Runs the pipeline that the file (a reproducer) names in its first line.
    #[arg(long, conflicts_with_all = ["pipeline", "level"])]
    run_reproducer: bool,
    /// Constants for parameters of @main, by name (`p.0` for a field of a tuple), and for constants
    /// whose metadata section is missing, from a .npz, .safetensors or .params file.
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    #[command(flatten)]
    taking: taking::TakingArgs,
    #[command(flatten)]
    reading: Reading,
}

/// The printing styles of modules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum PrintStyle {
    /// As TVM's `astext()` writes them, byte for byte.
    Tvm,
    /// Wrapped at 100 columns.
    Pretty,
    /// As Relax in TVMScript, which TVM 0.27 reads.
    Tvmscript,
}

/// The actions of `--verify-diagnostics`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Verify {
    /// They are compared.
    Check,
    /// They are rewritten.
    Update,
}

/// Runs the tool; returns its exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    with_passes(arguments, Registry::default())
}

/// Like [`main`], with the passes of a registry.
///
/// ```no_run
/// use relax_passes::Registry;
///
/// let arguments = std::env::args_os().collect();
/// std::process::exit(relax_cli::tools::opt::with_passes(arguments, Registry::default()).into());
/// ```
pub fn with_passes(arguments: Vec<OsString>, passes: Registry) -> u8 {
    tool::main(arguments, |args| run(args, passes))
}

fn run(args: &Args, passes: Registry) -> Result<(), Stop> {
    match &args.help_pass {
        _ if args.list_passes => Ok(io::print(manual::list(&passes).as_bytes())?),
        Some(name) => Ok(io::print(manual::of(&passes, name)?.as_bytes())?),
        None => Stop::unless_well(Run::new(args, passes)?.file()?),
    }
}

const NO_ERRORS: u8 = 0;

/// The outcome for one module.
enum Outcome {
    /// Success; with the text to be printed, if any.
    Done(String),
    /// Success, with the requested output written.
    Written,
    /// Its expected diagnostics were updated: the new text.
    Updated(String),
    /// It has errors, or differs.
    Failed,
}

struct Run<'a> {
    args: &'a Args,
    path: &'a Path,
    session: Session,
    watch: Watch,
    style: Style,
    print_style: PrintStyle,
    emit: Emit,
}

impl<'a> Run<'a> {
    fn new(args: &'a Args, passes: Registry) -> Result<Run<'a>, Stop> {
        args.around.check(&passes)?;
        let emit = args.emit.unwrap_or_else(|| Emit::by_name(&args.output));
        emit.fits(&args.output)?;
        if !relax::JSON_RELEASES.contains(&args.json_version.0) {
            return Err("JSON graphs are written for TVM 0.9 to 0.15 (--json-version)".into());
        }
        args.reproducer
            .as_deref()
            .map_or(Ok(()), formats::text_output)?;
        let named = relax::Format::detect(&args.output.to_string_lossy(), &[]);
        let print_style = args.print_style.unwrap_or(match named {
            relax::Format::TvmScript => PrintStyle::Tvmscript,
            _ => PrintStyle::Pretty,
        });
        let style = match print_style {
            PrintStyle::Tvm => Style::Tvm,
            PrintStyle::Pretty | PrintStyle::Tvmscript => Style::Pretty,
        };
        let wishes = Wishes {
            around: args.around.clone(),
            types: !args.no_types,
            color: render::Style::for_stderr().color,
        };
        let options = args.reading.options(args.params.is_some());
        let mut session = Session::new(options);
        session.beside = Some(relax_cli::model::beside);
        session.passes = passes;
        Ok(Run {
            args,
            path: tool::input(args.file.as_deref())?,
            session,
            watch: Watch::new(wishes, style),
            style,
            print_style,
            emit,
        })
    }

    /// Converts a weight file; `None` if the input is not one.
    fn weights(&self) -> Result<Option<()>, Stop> {
        if self.args.reading.from.is_some() || weights::kind(self.path).is_none() {
            return Ok(None);
        }
        match self.emit.weights() {
            Some(format) => emit::convert(self.path, format, &self.args.output).map(Some),
            None => Err(Stop::Usage(format!(
                "{} holds weights: --emit npz, params or safetensors converts it; --params gives it to a program",
                self.path.display()
            ))),
        }
    }

    fn file(&mut self) -> Result<u8, Stop> {
        if self.weights()?.is_some() {
            return Ok(NO_ERRORS);
        }
        let contents = io::contents(self.path)?;
        let text = || String::from_utf8_lossy(contents.bytes());
        let named = match (&self.args.pipeline, &self.args.level) {
            (Some(p), _) => p.clone(),
            (None, Some(level)) => format!("O{level}"),
            (None, None) if self.args.run_reproducer => reproducer::pipeline(&text())
                .ok_or_else(|| {
                    let path = self.path.display();
                    format!("{path} is no reproducer: {}", reproducer::EXPECTED)
                })?
                .to_owned(),
            (None, None) => String::new(),
        };
        // The first line of a file is untrusted: it must not refer to files elsewhere.
        let folder = (self.args.run_reproducer && self.args.pipeline.is_none()).then(|| {
            let folder = self.path.parent().filter(|f| !f.as_os_str().is_empty());
            folder.unwrap_or(Path::new("."))
        });
        let pipeline = load::pipeline_within(&mut self.session, &named, folder)?;
        if self.args.dump_pipeline {
            say!("{pipeline}\n");
        }
        io::say(&self.args.around.missing(&pipeline));
        self.reproducer(&pipeline, text)?;
        if self.args.timing {
            self.watch.threads();
        }
        let (mut out, mut code) = (Vec::new(), NO_ERRORS);
        if self.args.split_input_file {
            let mut parts = split::split(&text());
            for (number, part) in parts.iter_mut().enumerate() {
                self.watch.part = Some(number + 1);
                match self.module(part.text.clone().into_bytes().into(), &pipeline)? {
                    Outcome::Done(text) => out.push(text),
                    Outcome::Written => {}
                    Outcome::Updated(new) => part.text = new,
                    Outcome::Failed => code = exit::ERRORS,
                }
            }
            if self.args.verify_diagnostics == Some(Verify::Update) {
                io::write(self.path, split::join(&parts).as_bytes())?;
            }
        } else {
            let mark = format!("\n{}\n", split::MARK);
            match self.module(contents.clone(), &pipeline)? {
                Outcome::Done(text) => out.push(text),
                Outcome::Written => {}
                Outcome::Updated(new) => io::write(self.path, new.as_bytes())?,
                Outcome::Failed => {
                    code = exit::ERRORS;
                    if text().contains(&mark) {
                        let mark = split::MARK;
                        say!(
                            "relax-opt: with --split-input-file the parts between `{mark}` lines are modules of their own\n"
                        );
                    }
                }
            }
        }
        if self.args.timing {
            io::say(&self.watch.timing());
        }
        if self.args.stats {
            io::say(&self.watch.stats());
        }
        if let Some(trouble) = self.watch.troubles.first() {
            return Err(trouble.clone());
        }
        let silent = self.args.structural_equal.is_some() || self.args.verify_diagnostics.is_some();
        if !silent && !out.is_empty() {
            let text = out.join(&format!("\n{}\n", split::MARK));
            io::write(&self.args.output, text.as_bytes())?;
        }
        Ok(code)
    }

    fn module(&mut self, contents: Contents, pipeline: &Pipeline) -> Result<Outcome, Stop> {
        let mut diagnostics = Diagnostics::new();
        let name = io::display_name(self.path);
        let begin = Instant::now();
        // The other file of the comparison has its own format.
        self.session.options.format = self.args.reading.from;
        let input = self.session.input(&name, contents, &mut diagnostics);
        self.session.options.format = None;
        self.watch.reading += begin.elapsed();
        let Some(file) = input.file else {
            render::to_stderr(&diagnostics, &self.session.sources);
            return Ok(Outcome::Failed);
        };
        let outcome = self.passes((input.module, input.types), pipeline, &mut diagnostics)?;
        match self.args.verify_diagnostics {
            None => {
                render::to_stderr(&diagnostics, &self.session.sources);
                Ok(outcome)
            }
            Some(Verify::Check) => match expected::compare(&file, &diagnostics) {
                Ok(()) => Ok(Outcome::Done(String::new())),
                Err(problems) => {
                    io::say(&problems.text());
                    Ok(Outcome::Failed)
                }
            },
            Some(Verify::Update) => Ok(Outcome::Updated(expected::update(&file, &diagnostics))),
        }
    }

    fn passes(
        &mut self,
        (mut module, given): (Module, Option<GivenTypes>),
        pipeline: &Pipeline,
        diagnostics: &mut Diagnostics,
    ) -> Result<Outcome, Stop> {
        if diagnostics.has_errors() {
            return Ok(Outcome::Failed);
        }
        if let Some(path) = &self.args.params {
            let how = (false, self.args.reading.stubs(), self.args.taking.into());
            bind(&mut module, path, how)?;
        }
        let config = PassConfig {
            verify_each: self.args.verify_each,
            ..PassConfig::default()
        };
        let watch = &mut self.watch;
        let run =
            std::panic::AssertUnwindSafe(|| run_pipeline(pipeline, &mut module, &config, watch));
        let Ok(outcome) = std::panic::catch_unwind(run) else {
            self.reproducible();
            return Err("a pass crashed; this is a bug, please report it".into());
        };
        self.watch.found += outcome.found;
        diagnostics.extend(outcome.diagnostics);
        if let Some((_, errors)) = outcome.failure {
            let broken = errors.iter().any(|d| {
                [
                    relax_passes::codes::BROKEN_MODULE,
                    relax_passes::codes::ILL_TYPED,
                ]
                .contains(&d.code)
            });
            if broken {
                self.reproducible();
            }
            diagnostics.extend(errors);
            return Ok(Outcome::Failed);
        }
        if self.args.verify_roundtrip && !self.roundtrip(&module) {
            return Ok(Outcome::Failed);
        }
        if let Some(other) = &self.args.structural_equal {
            return self.compare(&module, other, !pipeline.steps.is_empty());
        }
        if let Some(format) = self.emit.weights() {
            let bound = self.args.params.as_deref().map(weights::read).transpose()?;
            let constants = emit::constants(&module, bound.unwrap_or_default());
            save::arrays(&self.args.output, format, &constants)?;
            return Ok(Outcome::Written);
        }
        let typing = outcome.typing.filter(|_| !self.args.no_types);
        let typed = typing.as_deref().map(|typing| TypedModule {
            module: &module,
            typing,
        });
        // Types in the file are valid as long as no pass has changed anything.
        let unchanged = pipeline.steps.is_empty() && !self.args.no_types;
        let given = given.as_ref().filter(|_| unchanged);
        let types = match &typed {
            Some(typed) => Some(typed as &dyn TypeSource),
            None => given.map(|t| t as &dyn TypeSource),
        };
        let begin = Instant::now();
        if matches!(self.emit, Emit::Json | Emit::Onnx) {
            let output = &self.args.output;
            let written = match self.emit {
                Emit::Json => emit::json(&module, types, self.args.json_version, output),
                _ => emit::onnx(&module, output),
            };
            return match written {
                Ok(()) => Ok(Outcome::Written),
                Err(Ok(found)) => {
                    diagnostics.extend(found);
                    Ok(Outcome::Failed)
                }
                Err(Err(why)) => Err(why),
            };
        }
        if let Some(format) = self.emit.picture() {
            let what = (self.args.entry.as_deref(), self.args.unfolded);
            let picture = emit::picture(&module, types, self.args.no_types, what, format);
            return picture.map(Outcome::Done);
        }
        let mode = PrintMode {
            style: self.style,
            types,
            elide: self.args.elide_constants,
            no_metadata: self.args.no_metadata,
        };
        let text = if self.print_style == PrintStyle::Tvmscript {
            match relax::print_tvmscript(&module, types) {
                Ok(text) => text,
                Err(errors) => {
                    diagnostics.extend(errors);
                    return Ok(Outcome::Failed);
                }
            }
        } else {
            relax::print_as(&module, &mode)
        };
        self.watch.printing += begin.elapsed();
        if !self.args.split_input_file {
            // The process is about to exit: freeing the module node by node would be pointless.
            std::mem::forget(module);
        }
        Ok(Outcome::Done(text))
    }

    /// Writes the requested reproducer before anything runs, as a pass may abort the whole process.
    fn reproducer<T: AsRef<str>>(
        &self,
        pipeline: &Pipeline,
        text: impl Fn() -> T,
    ) -> Result<(), Stop> {
        match &self.args.reproducer {
            Some(path) => {
                let text = reproducer::write(&pipeline.to_string(), text().as_ref());
                io::write(path, text.as_bytes())
            }
            None => Ok(()),
        }
    }

    /// Prints how to reproduce the failure.
    fn reproducible(&self) {
        if let Some(path) = &self.args.reproducer {
            let path = path.display();
            say!("relax-opt: `relax-opt --run-reproducer {path}` repeats this\n");
        }
    }

    fn roundtrip(&mut self, module: &Module) -> bool {
        let text = relax::print(module, Style::Pretty, None);
        let (again, diagnostics) = self.session.read("<printed>", text.into_bytes());
        render::to_stderr(&diagnostics, &self.session.sources);
        let difference = relax::difference(module, &again, EqualOptions::default());
        if let Some(difference) = &difference {
            let what = &difference.text;
            say!("relax-opt: the printed module reads back differently: {what}\n");
        }
        !diagnostics.has_errors() && difference.is_none()
    }

    /// Compares with the module of another file. After passes, locations on the left are those of
    /// the module as it would be printed: the original text may not show the difference.
    fn compare(&mut self, module: &Module, other: &Path, rewritten: bool) -> Result<Outcome, Stop> {
        let contents = io::contents(other)?;
        let (other_module, diagnostics) = self.session.read(&io::display_name(other), contents);
        if diagnostics.has_errors() {
            render::to_stderr(&diagnostics, &self.session.sources);
            return Err(format!("{} has errors", other.display()).into());
        }
        // Annotations with inferred types are no difference between programs.
        let options = EqualOptions {
            annotations: false,
            close_floats: true,
        };
        Ok(match relax::difference(module, &other_module, options) {
            None => Outcome::Done(String::new()),
            Some(mut found) => {
                if rewritten {
                    let text = relax::print(module, Style::Pretty, None);
                    let name = "<after the passes>";
                    let (printed, _) = self.session.read(name, text.into_bytes());
                    let again = relax::difference(&printed, &other_module, options);
                    found = again.unwrap_or(found);
                }
                say!("relax-opt: the modules differ: {}\n", found.text);
                for (side, span) in [("left", found.left), ("right", found.right)] {
                    io::say(&render::context(side, span, &self.session.sources));
                }
                Outcome::Failed
            }
        })
    }
}

fn bind(module: &mut Module, path: &Path, how: (bool, bool, Taking)) -> Result<(), Stop> {
    let main = module.expression.or_else(|| module.global("main"));
    let main = main.ok_or("--params needs a function @main")?;
    let func = module.global_func(main);
    let func = func.ok_or("--params needs a function, and @main is none")?;
    // Type errors are left to the passes to report.
    let (typing, errors) = relax::check(module, &InferOptions::default());
    let mut params = inputs::annotated(module, func);
    if !errors.has_errors() {
        let found = inputs::params(module, &typing, func);
        for (param, found) in params.iter_mut().zip(found) {
            if matches!(module.types[found.ty], Type::Tensor(_) | Type::Tuple(_)) {
                *param = found;
            }
        }
    }
    match weights::bind(module, main, &params, path, how) {
        Ok(_) => Ok(()),
        Err(stop) => Err(stop.text().into()),
    }
}
