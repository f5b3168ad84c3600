//! `docs/operators.md` is generated from the registry: `RELAX_BLESS=1` writes it, otherwise it must
//! be up to date.

use std::fmt::Write;
use std::path::Path;

use relax_ops::{Arity, AttrTy, Default, Effects, Fusion, OpDef, registry};

/// The path of the page.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operators.md");

fn attr_type(ty: AttrTy) -> &'static str {
    match ty {
        AttrTy::Int => "integer",
        AttrTy::Float => "number",
        AttrTy::Bool => "truth value",
        AttrTy::Str => "string",
        AttrTy::DType => "element type",
        AttrTy::DTypes => "element types",
        AttrTy::Ints => "integers",
        AttrTy::Floats => "numbers",
        AttrTy::Dims => "dimensions",
        AttrTy::IntLists => "lists of integers",
        AttrTy::Strs => "strings",
        AttrTy::IntOrInts => "integer or integers",
        AttrTy::Any => "any",
    }
}

fn default(value: Default) -> String {
    match value {
        Default::Required => "required".into(),
        Default::None => "`None`".into(),
        Default::Int(v) => format!("`{v}`"),
        Default::Float(v) => format!("`{v:?}`"),
        Default::Bool(v) => format!("`{v}`"),
        Default::Str(v) => format!("`\"{v}\"`"),
        Default::DType("") => "void".into(),
        Default::DType(v) => format!("`{v}`"),
        Default::Ints(v) => format!("`{v:?}`"),
        Default::Floats(v) => format!("`{v:?}`"),
    }
}

fn fusion(f: Fusion) -> String {
    // `OutFusable` reads "out fusable".
    let mut words = String::new();
    for c in format!("{f:?}").chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

/// A text within a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn section(out: &mut String, op: &OpDef) {
    let inputs: Vec<String> = op.inputs.iter().map(|i| format!("%{}", i.name)).collect();
    let more = if op.arity == Arity::AtLeast {
        ", …"
    } else {
        ""
    };
    let _ = writeln!(out, "\n### `{}`\n\n{}\n", op.name, op.doc);
    let _ = write!(out, "`{}({}{more})`", op.name, inputs.join(", "));
    if !op.sugar.is_empty() {
        let _ = write!(out, ", also written `{}`", op.sugar);
    }
    let _ = write!(out, " · fusion: {}", fusion(op.fusion));
    match op.effects {
        Effects::Pure => {}
        Effects::Stateful => out.push_str(" · stateful"),
        Effects::Effect => out.push_str(" · has an effect"),
    }
    if op.compute.is_none() {
        out.push_str(" · no computation of its own");
    }
    out.push_str("\n\n");
    if !op.hooks.uncomputed.is_empty() {
        let _ = writeln!(out, "It is not evaluated: {}.\n", op.hooks.uncomputed);
    }
    for i in op.inputs {
        let _ = writeln!(out, "- `%{}`: {}", i.name, i.doc);
    }
    if op.attrs.is_empty() {
        return;
    }
    out.push_str("\n| attribute | type | default | meaning |\n|---|---|---|---|\n");
    for a in op.attrs {
        let (name, doc) = (a.name, cell(a.doc));
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} | {doc} |",
            attr_type(a.ty),
            cell(&default(a.default))
        );
    }
}

fn page() -> String {
    let mut out = String::from(
        "# Operators\n\nThis page is made from the registry; `RELAX_BLESS=1 cargo test -p relax-ops --test \
         operators_md` writes it anew.\n\nOperators written in the text format are in \
         [prelude/ops.relay](../prelude/ops.relay).\n",
    );
    let all: Vec<&OpDef> = registry().iter().map(|(_, op)| op).collect();
    let mut group = None;
    for wanted in [true, false] {
        // The operators without a namespace first.
        for op in all.iter().filter(|op| op.name.contains('.') != wanted) {
            let own = op.name.split_once('.').map_or("", |n| n.0);
            if group != Some(own) {
                group = Some(own);
                let title = if own.is_empty() {
                    "Tensors".into()
                } else {
                    format!("`{own}.*`")
                };
                let _ = write!(out, "\n## {title}\n");
            }
            section(&mut out, op);
        }
    }
    out
}

#[test]
fn the_page_of_operators_is_current() {
    let page = page();
    for (_, op) in registry().iter() {
        assert!(
            page.contains(&format!("\n### `{}`\n", op.name)),
            "{} is described",
            op.name
        );
    }
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(Path::new(PAGE), &page).expect("docs can be written");
        return;
    }
    let found = std::fs::read_to_string(PAGE).unwrap_or_default();
    let differs = found.lines().zip(page.lines()).position(|(a, b)| a != b);
    assert!(
        found == page,
        "docs/operators.md is not current (line {:?}); run this test with RELAX_BLESS=1",
        differs.map(|n| n + 1)
    );
}
