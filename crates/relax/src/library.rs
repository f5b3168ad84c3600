//! Programs loaded from shared libraries that are linked against this process's runtime.

use std::fmt::Write as _;
use std::path::Path;

use relax_base::Symbol;
use relax_codegen::{Entry, entry_symbol, runtime_sources};

use crate::{Error, Module, Program, Signature};

/// A shared library of compiled code.
pub(crate) struct Library {
    _code: relax_codegen::Library,
    name: String,
}

impl Library {
    /// The file name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The prefix of a description, followed by the id of the runtime the code is for.
const RUNTIME: &str = "// ";
/// The prefix of the line that lists the packed functions the code calls.
const CALLS: &str = "// calls ";

impl Module {
    /// Returns a library's self-description, which [`Program::load`] reads: the runtime its code is
    /// for, and the entries with their types. The library stores it as text under the symbol
    /// [`DESCRIPTION`](relax_codegen::DESCRIPTION).
    #[must_use]
    pub fn description(&self, program: &Program) -> String {
        let mut out = format!("{RUNTIME}{}\n", runtime_sources());
        let _ = writeln!(out, "{CALLS}{}", program.packed_names().join("\t"));
        let entries = program.entries().iter().map(|e| {
            let params = (e.params.iter()).map(|p| (p.name.as_str(), p.ty.as_str()));
            (e.name.as_str(), params.collect(), e.result.ty.as_str())
        });
        out + &crate::vm::described(&self.ir, entries)
    }
}

impl Program {
    /// Returns the symbol of an entry in an object file or library.
    #[must_use]
    pub fn symbol(entry: &str) -> String {
        entry_symbol(None, Symbol::new(entry))
    }

    /// Loads a library that was linked from [`Program::object`] and [`Module::description`] against
    /// this process's runtime. `threads` is the number of threads its code runs on.
    ///
    /// # Safety
    /// The library's code runs when it is loaded and called: the file must be trusted.
    ///
    /// # Errors
    /// The file cannot be loaded, contains its own copy of the runtime, or was built for another
    /// version.
    pub unsafe fn load(path: &Path, threads: usize) -> Result<Program, Error> {
        let name = path.display().to_string();
        let file = |why: &str| Error::File(format!("cannot load {name}: {why}"));
        // SAFETY: the file is a library that this compiler made.
        let code =
            unsafe { relax_codegen::Library::open(path) }.map_err(|e| file(&e.to_string()))?;
        let text = code.description();
        let text = text.ok_or_else(|| file("it does not say what is in it"))?;
        let mut lines = text.lines();
        let runtime = lines.next().and_then(|l| l.strip_prefix(RUNTIME));
        if runtime != Some(runtime_sources()) {
            return Err(file("it was compiled by another version"));
        }
        let calls = lines.next().and_then(|l| l.strip_prefix(CALLS));
        let calls = calls.unwrap_or("").split('\t').filter(|n| !n.is_empty());
        let names = calls.map(str::to_owned).collect();
        let module = Module::parse(&text)?;
        let entries: Vec<Signature> = module.functions();
        let start = |s: &Signature| {
            let none = || file(&format!("it has no @{}", s.name));
            code.entry(&Program::symbol(&s.name)).ok_or_else(none)
        };
        let starts = entries
            .iter()
            .map(start)
            .collect::<Result<Vec<Entry>, _>>()?;
        let types = module.types();
        let library = Library { _code: code, name };
        Program::of_library(library, (entries, starts, types), threads, names)
    }
}
