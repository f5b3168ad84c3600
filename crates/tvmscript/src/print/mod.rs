//! Module to text.
//!
//! Invariant: printing does not recurse over the program's depth.

mod arguments;
mod attrs;
mod body;
mod calls;
mod names;
mod programs;
mod share;
mod tir;
mod tir_ops;
mod trust;
mod types;

use relax_base::{Code, Diagnostic, Span, Symbol};
use relax_ir::{Expr, ExprId, FuncId, GlobalKind, IdTable, Module, TypeId, TypeSource, VarId};
use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes;
use names::Names;
pub(crate) use names::python;
use types::Place;

/// The reason why something is not printed.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// Unknown type or dimension.
    NotKnown,
    /// Relax has no form for it.
    NoForm(&'static str),
    /// The same for a construct with a name.
    NoNamed(String),
    /// Values must be bound to names first: the program is not a sequence of bindings.
    NotNormal,
}

/// The result of printing: the text, or the reason why there is none.
#[derive(Debug)]
pub enum Printed {
    /// The text.
    Text(String),
    /// Values that are used more than once have no names: the module must be normalised to bindings
    /// first.
    NotNormal,
    /// Constructs that have no form, and the names of the operators among them.
    NoForm(Vec<Diagnostic>, Vec<&'static str>),
}

struct Printer<'m> {
    m: &'m Module,
    types: Option<&'m dyn TypeSource>,
    names: Names,
    /// Symbols that the body of the function mentions and no signature binds.
    symbols: Vec<DimVar>,
    known: FxHashSet<DimVar>,
    /// Whether the function refers to another one.
    cls: bool,
    /// Whether something refers to the metadata section.
    metadata: bool,
    /// Variables that are numbers rather than tensors, because their values are.
    numbers: FxHashSet<VarId>,
    class: Symbol,
    /// The source location of the construct being printed.
    place: Span,
    not_normal: bool,
    /// Texts of types of tensors whose extents are numbers.
    tensors: FxHashMap<TypeId, String>,
    /// The number of uses of each expression of the function.
    uses: IdTable<ExprId, u32>,
    errors: Vec<Diagnostic>,
    /// Operators that Relax has no equivalent for.
    formless: Vec<&'static str>,
}

/// Returns the text of a module in the form that TVM reads. `types` annotates bindings without an
/// annotation.
pub fn print(m: &Module, types: Option<&dyn TypeSource>) -> Printed {
    let class = m.script.as_ref().and_then(|s| s.class);
    let mut p = Printer {
        m,
        types,
        names: Names::default(),
        symbols: Vec::new(),
        known: FxHashSet::default(),
        cls: false,
        metadata: false,
        numbers: FxHashSet::default(),
        class: class.unwrap_or_else(|| Symbol::new("Module")),
        place: Span::NONE,
        not_normal: false,
        tensors: FxHashMap::default(),
        uses: IdTable::default(),
        errors: Vec::new(),
        formless: Vec::new(),
    };
    p.module()
}

impl Printer<'_> {
    fn module(&mut self) -> Printed {
        let m = self.m;
        let script = m.script.clone().unwrap_or_default();
        for kept in script.kept.iter() {
            for &name in &kept.symbols {
                self.names.declare(name);
            }
        }
        let globals: Vec<_> = m.globals.iter().filter(|(_, g)| !g.prelude).collect();
        for (_, g) in &globals {
            if let GlobalKind::Func(f) = g.kind {
                self.names.signature(m, f);
            }
        }
        for (_, adt) in m.adts.iter().filter(|(_, a)| !a.prelude) {
            self.place = adt.span;
            self.refuse(Stop::NoForm("a data type"));
        }
        let mut body = String::new();
        for text in &script.head {
            self.metadata |= text.contains("metadata[");
            body.push_str("    ");
            body.push_str(text);
            body.push('\n');
        }
        for kept in script
            .kept
            .iter()
            .filter(|k| k.program.is_none() && m.global(k.name.as_str()).is_none())
        {
            self.kept(&kept.text, &mut body);
        }
        for (_, g) in globals {
            self.place = g.span;
            match (&g.kind, script.kept(g.name)) {
                (GlobalKind::Func(f), Some(kept)) if is_kept(m, *f) => {
                    self.kept(&kept.text, &mut body)
                }
                (GlobalKind::Prim(p), Some(kept)) if kept.says(p) => {
                    self.kept(&kept.text, &mut body)
                }
                (GlobalKind::Func(f), _) => self.function_item(g.name, *f, &mut body),
                (GlobalKind::Prim(p), _) => {
                    if let Err(stop) = self.program(g.name, p, &mut body) {
                        self.refuse(stop);
                    }
                }
            }
        }
        if self.not_normal {
            return Printed::NotNormal;
        }
        if !self.errors.is_empty() {
            return Printed::NoForm(
                std::mem::take(&mut self.errors),
                std::mem::take(&mut self.formless),
            );
        }
        Printed::Text(self.assemble(&script, &body))
    }

    fn assemble(&self, script: &relax_ir::Script, body: &str) -> String {
        let mut out = String::with_capacity(body.len() + 256);
        if self.metadata
            && let Some(text) = &script.metadata
        {
            out.push_str("metadata = tvm.ir.load_json(");
            out.push_str(text);
            out.push_str(")\n");
        }
        let declared = &self.names.declared;
        if !declared.is_empty() {
            out.push_str("# from typing import TypeVar\n");
        }
        out.push_str("# from tvm.script import ir as I\n");
        if body.contains("T.") {
            out.push_str("# from tvm.script import tirx as T\n");
        }
        out.push_str("# from tvm.script import relax as R\n\n");
        for name in declared {
            out.push_str(&format!("{name} = TypeVar(\"{name}\")\n"));
        }
        out.push_str(&format!("@I.ir_module\nclass {}:\n", self.class));
        let body = body.trim_end();
        out.push_str(if body.is_empty() { "    pass" } else { body });
        out.push('\n');
        out
    }

    fn kept(&mut self, text: &str, out: &mut String) {
        self.metadata |= text.contains("metadata[");
        let plain = !(text.contains("\"\"\"") || text.contains("'''"));
        for (i, line) in text.lines().enumerate() {
            if (plain || i == 0) && !line.is_empty() {
                out.push_str("    ");
            }
            out.push_str(line);
            out.push('\n');
        }
        out.push('\n');
    }

    /// Reports a construct that cannot be printed.
    fn refuse(&mut self, stop: Stop) {
        let what = match stop {
            Stop::NotNormal => {
                self.not_normal = true;
                return;
            }
            Stop::NotKnown => "a type that is not known".to_owned(),
            Stop::NoForm(what) => what.to_owned(),
            Stop::NoNamed(what) => what,
        };
        let code: Code = codes::NO_FORM;
        let message = format!("{what} has no form in TVMScript");
        let d = Diagnostic::error(code, self.place, message);
        if self.errors.last() != Some(&d) {
            self.errors.push(d);
        }
    }

    /// Returns the name of a symbol, recorded as used.
    fn dim_name(&mut self, d: DimVar) -> String {
        if !self.names.signature.contains(&d) && self.known.insert(d) {
            self.symbols.push(d);
        }
        self.names.dim(self.m, d)
    }

    /// Returns a type as an annotation; `None` if it is unknown.
    fn annotation(&mut self, ty: Option<TypeId>, place: Place) -> Option<String> {
        match self.ty(ty?, place) {
            Ok(text) => Some(text),
            Err(Stop::NotKnown) => None,
            Err(stop) => {
                self.refuse(stop);
                None
            }
        }
    }
}

/// Returns whether a function is only declared to be kept as text.
fn is_kept(m: &Module, f: FuncId) -> bool {
    let Expr::Call { attrs, .. } = m.exprs[m.funcs[f].body] else {
        return false;
    };
    m.attrs(attrs)
        .get("name")
        .and_then(relax_ir::AttrValue::as_str)
        == Some("kept")
}
