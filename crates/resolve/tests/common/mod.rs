//! Helpers shared by the tests of this crate.

#![allow(dead_code)] // each test file uses a part of it

use relax_base::{Diagnostics, SourceMap};
use relax_ir::{Expr, ExprId, Function, GlobalKind, Module};
use relax_resolve::{Options, resolve};

/// Reads a text, which must parse.
pub fn read_with(text: &str, options: &Options) -> (Module, Diagnostics, SourceMap) {
    let mut map = SourceMap::new();
    let file = map.add("test.relay", text).expect("small");
    let parsed = relax_syntax::parse(&file);
    let errors: Vec<_> = parsed.diagnostics.iter().map(|d| &d.message).collect();
    assert!(errors.is_empty(), "{text}\n{errors:?}");
    let (module, diagnostics) = resolve(&parsed.ast, &file, options);
    (module, diagnostics, map)
}

/// Reads a text without errors.
pub fn good(text: &str) -> Module {
    let (module, diagnostics, _) = read_with(text, &Options::default());
    let all: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
    assert!(!diagnostics.has_errors(), "{text}\n{all:?}");
    module
}

/// Returns the errors in a text: `RX0201 line:column message`, with the suggested text after
/// ` -> `.
pub fn errors(text: &str) -> Vec<String> {
    let (_, diagnostics, map) = read_with(text, &Options::default());
    let show = |d: &relax_base::Diagnostic| {
        let at = map
            .file(d.span())
            .expect("a place")
            .line_col(d.span().start);
        let fix = d.fixes.first().map(|f| format!(" -> {}", f.edits[0].text));
        let fix = fix.unwrap_or_default();
        format!("{} {}:{} {}{fix}", d.code, at.line, at.col, d.message)
    };
    diagnostics.iter().map(show).collect()
}

/// Returns the function of a global.
pub fn function<'m>(m: &'m Module, name: &str) -> &'m Function {
    let id = m.global(name).expect("a global of that name");
    let GlobalKind::Func(f) = m.globals[id].kind else {
        panic!("a function");
    };
    &m.funcs[f]
}

/// Returns the callee and arguments of a call.
pub fn call(m: &Module, e: ExprId) -> (ExprId, Vec<ExprId>) {
    match m.exprs[e] {
        Expr::Call { callee, args, .. } => (callee, m.list(args).to_vec()),
        ref other => panic!("a call, not {other:?}"),
    }
}
