//! Lowering and JIT compilation of typed modules.

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

/// Returns the location name used in run-time errors: `file:line:column`.
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

/// Like [`place`], with the file's base name only, so that object files do not depend on where the
/// source lies.
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
/// Part of the functions has no native code.
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

/// Returns whether generated code should also check proven assumptions: `RELAX_CHECK=1` is set in
/// the environment.
pub fn checked() -> bool {
    std::env::var_os("RELAX_CHECK").is_some_and(|v| v == "1")
}

/// Prints the tensor programs of a lowered module's kernels.
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

/// Summarises a compiled program: its entries with their types, its kernels by operators, and the
/// bytes of its constants.
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

/// The peak resident memory of this process in KiB, where the system reports it.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// JIT-compiles a lowered program.
///
/// # Errors
/// The program uses something that has no native code.
pub fn jit(lowered: &Lowered) -> Result<Jit, Diagnostics> {
    jit_with(lowered, false, &[])
}

/// Like [`jit`]; with `profile`, kernels are timed. `files` are the mapped files that weights come
/// from: their pages are released once the weights are packed.
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

/// Like [`passes`], for a pipeline in text form.
///
/// # Errors
/// The pipeline is invalid, or a pass rejected the module.
pub fn optimise(
    session: &mut Session,
    module: &mut Module,
    pipeline: &str,
) -> Result<Arc<Typing>, Diagnostics> {
    let asked = session.pipeline(pipeline)?;
    passes(session, module, None, asked)
}

/// Monomorphises functions where native code needs it, runs a pipeline on a module, and returns the
/// resulting types. `typed` are the module's types if they are known.
///
/// # Errors
/// A pass rejected the module.
pub fn passes(
    session: &mut Session,
    module: &mut Module,
    typed: Option<Typed>,
    asked: Pipeline,
) -> Result<Arc<Typing>, Diagnostics> {
    passes_with(session, module, typed, asked, &mut Silent).map(|o| o.0)
}

/// Like [`passes`], with an observer; also returns how many analyses were computed.
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
        // TVMScript modules follow other typing rules than the Relay program they are converted to.
        true => {
            crate::script::places::as_values(module, typed);
            // From here on the standard passes apply, also where Relax has one of the same name.
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
