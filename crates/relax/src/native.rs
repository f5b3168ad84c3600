//! From a typed module to code in memory.

use std::sync::Arc;

use relax_base::{Diagnostics, SourceMap, Span, Symbol};
use relax_codegen::Jit;
use relax_ir::{GlobalId, Module};
use relax_lower::lir::Lowered;
use relax_tensor::Tensor;

use crate::words::count;
use crate::{
    Contents, Found, PassConfig, PassObserver, Pipeline, Session, Silent, Typed, Typing, run_typed,
};

/// Returns how run-time errors name a place: `file:line:column`.
pub fn place(sources: &SourceMap, span: Span) -> Symbol {
    let text = match sources.file(span) {
        Some(file) => {
            let at = file.line_col(span.start);
            format!("{}:{}:{}", file.name, at.line, at.col)
        }
        None => String::from("(generated)"),
    };
    Symbol::new(&text)
}

/// The same without the folders of the file, so that an object is the same wherever its text lies.
pub fn short_place(sources: &SourceMap, span: Span) -> Symbol {
    let whole = place(sources, span);
    let name = whole
        .as_str()
        .rsplit(['/', std::path::MAIN_SEPARATOR])
        .next();
    name.map_or(whole, Symbol::new)
}

/// Lowers the functions `roots`.
///
/// # Errors
/// Something in the functions has no native code.
pub fn lower(
    module: &Module,
    typing: &Typing,
    roots: &[GlobalId],
    sources: &SourceMap,
) -> Result<Lowered, Diagnostics> {
    let mut lowered = relax_lower::lower(module, typing, roots, &|span| place(sources, span))?;
    lowered.checks = checked();
    Ok(lowered)
}

/// Returns whether code is to check what it takes as proven, too: the environment says
/// `RELAX_CHECK=1`.
pub fn checked() -> bool {
    std::env::var_os("RELAX_CHECK").is_some_and(|v| v == "1")
}

/// The tensor programs of a lowered module's kernels, as text.
pub fn loops(lowered: &Lowered) -> String {
    let mut module = Module::new();
    for (id, kernel) in lowered.kernels.iter() {
        let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let label: String = kernel
            .label
            .trim_start_matches('@')
            .chars()
            .map(clean)
            .collect();
        module.globals.push(relax_ir::Global {
            name: Symbol::new(&format!("kernel{}_{label}", id.0)),
            kind: relax_ir::GlobalKind::Prim(Arc::new(kernel.program.clone())),
            span: Span::NONE,
            prelude: false,
        });
    }
    crate::print(&module, crate::Style::Pretty, None)
}

/// Returns what a compiled program consists of: its entries with their types, its kernels by what
/// they compute, and the bytes of its constants.
pub fn summary(lowered: &Lowered) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for entry in &lowered.entries {
        let _ = writeln!(out, "@{}: {}", entry.name, entry.signature);
    }
    let mut labels: Vec<(&str, usize)> = Vec::new();
    for kernel in lowered.kernels.values() {
        match labels.iter_mut().find(|l| l.0 == kernel.label) {
            Some(l) => l.1 += 1,
            None => labels.push((&kernel.label, 1)),
        }
    }
    let _ = writeln!(out, "{}:", count(lowered.kernels.len(), "kernel"));
    for (label, count) in labels {
        let _ = writeln!(out, "{count:>6} {label}");
    }
    let bytes: usize = lowered.data.values().map(|t| t.bytes().len()).sum();
    let _ = writeln!(out, "{} of constants", count(bytes, "byte"));
    out
}

/// The most memory that this process held so far, in KiB, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Compiles a lowered program into memory.
///
/// # Errors
/// Native code does not have what the program uses.
pub fn jit(lowered: &Lowered) -> Result<Jit, Diagnostics> {
    jit_with(lowered, false, &[])
}

/// As [`jit`]; with `profile` the code measures its kernels. `files` are what weights are mapped
/// from: their pages are given back once they are packed.
///
/// # Errors
/// As for [`jit`].
pub fn jit_with(lowered: &Lowered, profile: bool, files: &[Contents]) -> Result<Jit, Diagnostics> {
    let packed = |t: &Tensor| {
        for file in files {
            file.give_back(t.bytes());
        }
    };
    Jit::with(lowered, profile, &packed).map_err(|d| {
        let mut all = Diagnostics::new();
        all.push(*d);
        all
    })
}

/// As [`passes`], for a pipeline as text.
///
/// # Errors
/// There is no such pipeline, or a pass refuses the module.
pub fn optimise(
    session: &mut Session,
    module: &mut Module,
    pipeline: &str,
) -> Result<Arc<Typing>, Diagnostics> {
    let asked = session.pipeline(pipeline)?;
    passes(session, module, None, asked)
}

/// Makes copies of functions that native code needs one of per type, runs a pipeline over a module,
/// and hands on its types afterwards. `typed` is what is known of the module's types.
///
/// # Errors
/// A pass refuses the module.
pub fn passes(
    session: &mut Session,
    module: &mut Module,
    typed: Option<Typed>,
    asked: Pipeline,
) -> Result<Arc<Typing>, Diagnostics> {
    passes_with(session, module, typed, asked, &mut Silent).map(|o| o.0)
}

/// As [`passes`], for somebody who looks on; also says how often something was found out on the
/// way.
///
/// # Errors
/// As for [`passes`].
pub fn passes_with(
    session: &mut Session,
    module: &mut Module,
    typed: Option<Typed>,
    asked: Pipeline,
    observer: &mut dyn PassObserver,
) -> Result<(Arc<Typing>, Found), Diagnostics> {
    let typed = match module.script.is_some() {
        // Types of Relax in TVMScript are found by other rules than those of the program that it
        // becomes.
        true => {
            crate::script::places::as_values(module, typed);
            // From here on passes that Relax has too are ours.
            module.script = Some(Arc::new(relax_ir::Script::lowered()));
            None
        }
        false => typed,
    };
    let mut pipeline = session.pipeline("specialize")?;
    pipeline.steps.extend(asked.steps);
    let config = PassConfig::default();
    let outcome = run_typed(&pipeline, module, typed, &config, observer);
    if let Some((_, errors)) = outcome.failure {
        return Err(errors);
    }
    let typing = match outcome.typing {
        Some(typing) => typing,
        None => Arc::new(crate::check(module, &config.infer).0),
    };
    Ok((typing, outcome.found))
}
