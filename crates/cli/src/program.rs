//! Shared by relaxc and relax-run: the program's arguments, and the steps up to the lowered
//! program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relax::{Contents, InferOptions, Session, Typed};
use relax_base::{SourceMap, Span, Symbol};
use relax_ir::{GlobalId, Module};
use relax_lower::lir::Lowered;

use crate::fit::Taking;
use crate::load::{self, Loaded};
use crate::reading::Reading;
use crate::stop::Stop;
use crate::weights;
use crate::{inputs, native, progress, taking, tool};

/// Which program, and how it is optimised.
#[derive(clap::Args, Clone, Debug)]
pub struct Source {
    /// The file; `-` reads standard input, as does no file at all.
    pub file: Option<PathBuf>,
    /// What runs before code is generated.
    #[command(flatten)]
    pub passes: Passes,
    /// A `.npz`, `.safetensors` or `.params` file with values for parameters of the entry, by name
    /// (`w`, or `p.0` for a field of a parameter `%p` that is a tuple), and for constants whose
    /// metadata section the text lacks (`meta[relay.Constant][3]`). They are constants of the
    /// program then; the other parameters are its arguments.
    #[arg(long, value_name = "FILE", help_heading = "Weights")]
    pub params: Option<PathBuf>,
    /// How arrays are taken.
    #[command(flatten)]
    pub taking: taking::TakingArgs,
    /// How the file is read.
    #[command(flatten)]
    pub reading: Reading,
}

/// Which passes run before code is generated.
#[derive(clap::Args, Clone, Debug)]
pub struct Passes {
    /// How much is optimised: -O0 nothing, -O1 without fusion, -O2 with it, -O3 also scales folded
    /// into weights and canonical operators.
    #[arg(short = 'O', value_name = "LEVEL", default_value_t = 2, help_heading = "Optimisation",
          value_parser = clap::value_parser!(u8).range(0..=3))]
    pub level: u8,
    /// The passes to run before code is generated, instead of those of the -O level, as relax-opt
    /// takes them (`infer-type,fuse-ops`; `relax-opt --list-passes` lists all).
    #[arg(long, value_name = "PASSES", help_heading = "Optimisation")]
    pub pipeline: Option<String>,
}

impl Passes {
    /// The pipeline as text.
    pub fn text(&self) -> String {
        match &self.pipeline {
            Some(text) => text.clone(),
            None if self.level >= 2 => format!("native{}", self.level),
            None => format!("O{}", self.level),
        }
    }
}

/// A program that was read and checked.
#[derive(Debug)]
pub struct Program {
    /// The session with the sources, for diagnostics.
    pub session: Session,
    /// The module.
    pub module: Module,
    /// Its types, with the warnings.
    pub typed: Typed,
    /// The files that weights borrow from.
    pub files: Vec<Contents>,
}

impl Source {
    /// Returns the path of the input.
    ///
    /// # Errors
    /// See [`tool::input`].
    pub fn path(&self) -> Result<&Path, Stop> {
        tool::input(self.file.as_deref())
    }

    /// Reads and checks the file. Diagnostics are printed on standard error.
    ///
    /// # Errors
    /// The file cannot be read, or has errors, which were printed.
    pub fn read(&self) -> Result<Program, Stop> {
        let _shown = progress::stage("reading");
        let options = self.reading.options(self.params.is_some());
        let Loaded {
            session,
            module,
            typed,
            mapped,
        } = load::checked(self.path()?, options)?.ok_or(Stop::Shown)?;
        Ok(Program {
            session,
            module,
            typed,
            files: mapped.into_iter().collect(),
        })
    }

    /// Binds parameters of a function, and constants without metadata, to the values of `--params`,
    /// if given. With `all`, every parameter must get one.
    ///
    /// # Errors
    /// The file cannot be read, or does not match.
    pub fn bind(&self, program: &mut Program, entry: &mut GlobalId, all: bool) -> Result<(), Stop> {
        let Some(path) = &self.params else {
            return Ok(());
        };
        let how = (all, self.reading.stubs(), self.taking.into());
        program.bind(path, entry, how)
    }
}

impl Program {
    fn bind(
        &mut self,
        path: &Path,
        entry: &mut GlobalId,
        how: (bool, bool, Taking),
    ) -> Result<(), Stop> {
        let module = &mut self.module;
        let name = module.globals[*entry].name;
        let func = module
            .global_func(*entry)
            .ok_or_else(|| format!("--params needs a function, and @{name} is none"))?;
        let params = inputs::params(module, &self.typed.typing, func);
        let file = weights::bind(module, *entry, &params, path, how)?;
        let (typed, diagnostics) = relax::check_typed(module, &InferOptions::default());
        if diagnostics.has_errors() {
            return Err(Stop::show(&diagnostics, &self.session.sources));
        }
        self.typed = typed;
        self.files.push(Contents::Held(Arc::new(file)));
        *entry = self.find(name.as_str())?;
        Ok(())
    }

    /// Specialises a function to given extents: known sizes select better kernels, and weights are
    /// packed for them. If that leads to errors nothing changes: the program itself then reports
    /// the mismatch at run time.
    pub fn fix(&mut self, entry: &mut GlobalId, extents: &relax_passes::Extents) {
        let mut module = self.module.clone();
        if !relax_passes::bind_extents(&mut module, *entry, extents) {
            return;
        }
        let (typed, diagnostics) = relax::check_typed(&mut module, &InferOptions::default());
        let name = self.module.globals[*entry].name;
        if let Some(found) = module.global(name.as_str())
            && !diagnostics.has_errors()
        {
            (self.module, self.typed, *entry) = (module, typed, found);
        }
    }

    /// Finds a function by name; passes renumber definitions.
    ///
    /// # Errors
    /// The pipeline has removed it.
    pub fn find(&self, name: &str) -> Result<GlobalId, Stop> {
        let found = self.module.global(name);
        found.ok_or_else(|| Stop::Usage(format!("the pipeline has removed @{name}")))
    }

    /// Optimises the program and lowers the functions `roots`. `place` formats locations in
    /// run-time errors.
    ///
    /// # Errors
    /// A pass or the lowering rejects the program, which was printed.
    pub fn lower(
        &mut self,
        passes: &Passes,
        roots: &[GlobalId],
        place: impl Fn(&SourceMap, Span) -> Symbol,
    ) -> Result<Lowered, Stop> {
        let _shown = progress::stage("optimising");
        let names: Vec<_> = roots.iter().map(|&g| self.module.globals[g].name).collect();
        let pipeline = load::pipeline(&mut self.session, &passes.text())?;
        let typed = Some(self.typed.clone());
        self.typed.typing = native::passes(&mut self.session, &mut self.module, typed, pipeline)
            .map_err(|d| Stop::show(&d, &self.session.sources))?;
        let roots = names.iter().map(|n| self.find(n.as_str()));
        let roots = roots.collect::<Result<Vec<_>, _>>()?;
        let sources = &self.session.sources;
        let mut lowered = relax_lower::lower(&self.module, &self.typed.typing, &roots, &|span| {
            place(sources, span)
        })
        .map_err(|d| Stop::show(&d, sources))?;
        lowered.checks = native::checked();
        Ok(lowered)
    }
}
