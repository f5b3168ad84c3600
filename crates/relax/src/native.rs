//! From a typed module to code in memory.

use std::sync::Arc;

use relax_base::{Diagnostics, SourceMap, Span, Symbol};
use relax_codegen::Jit;
use relax_ir::{GlobalId, Module};
use relax_lower::lir::Lowered;
use relax_tensor::Tensor;

use crate::words::count;
use crate::{Contents, PassConfig, PassObserver, Pipeline, Session, Silent, Typing, run_pipeline};

/// How run-time errors name a place: `file:line:column`.
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

/// Whether code is to check what it takes as proven, too: the environment says `RELAX_CHECK=1`.
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

/// What a compiled program consists of: its entries with their types, its kernels by what they compute,
/// and the bytes of its constants.
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
pub fn jit(lowered: &Lowered) -> Result<Jit, Diagnostics> {
    jit_with(lowered, false, &[])
}

/// As [`jit`]; with `profile` the code measures its kernels. `files` are what weights are mapped from: their pages
/// are given back once they are packed.
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
pub fn optimise(
    session: &mut Session,
    module: &mut Module,
    pipeline: &str,
) -> Result<Arc<Typing>, Diagnostics> {
    let asked = session.pipeline(pipeline)?;
    passes(session, module, asked)
}

/// Makes copies of functions that native code needs one of per type, runs a pipeline over a module, and hands on its
/// types afterwards.
pub fn passes(
    session: &mut Session,
    module: &mut Module,
    asked: Pipeline,
) -> Result<Arc<Typing>, Diagnostics> {
    passes_with(session, module, asked, &mut Silent)
}

/// As [`passes`], for somebody who looks on.
pub fn passes_with(
    session: &mut Session,
    module: &mut Module,
    asked: Pipeline,
    observer: &mut dyn PassObserver,
) -> Result<Arc<Typing>, Diagnostics> {
    crate::script::places::as_values(module);
    // From here on passes that Relax has too are ours.
    if module.script.is_some() {
        module.script = Some(Arc::new(relax_ir::Script::lowered()));
    }
    let mut pipeline = session.pipeline("specialize")?;
    pipeline.steps.extend(asked.steps);
    let config = PassConfig::default();
    let outcome = run_pipeline(&pipeline, module, &config, observer);
    if let Some((_, errors)) = outcome.failure {
        return Err(errors);
    }
    match outcome.typing {
        Some(typing) => Ok(typing),
        None => Ok(Arc::new(crate::check(module, &config.infer).0)),
    }
}
