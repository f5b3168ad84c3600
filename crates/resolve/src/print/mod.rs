//! Conversion of modules to syntax trees.
//!
//! The syntax crate lays out and prints the resulting tree. Decided here are names: which nodes of
//! the graph are printed in place and which are bound as `%0`, the order of the bindings, unique
//! names; and which attributes are omitted, and what goes into the metadata section. The rules are
//! those of TVM 0.12's text printer, in both styles; [`Style`] documents where the pretty style
//! departs from them.
//!
//! Invariant: printing takes time linear in the size of the module and does not recurse over its
//! depth.

mod attrs;
mod computation;
mod constant;
mod expr;
mod gradient;
mod item;
mod kernels;
mod meta;
mod names;
mod prim;
mod types;

use relax_base::{Span, Symbol};
use relax_ir::{ConstId, ExprId, IdTable, Module, TypeSource};
use relax_syntax::Style;
use relax_syntax::ast::{self, Ast};

use self::expr::State;
use self::meta::MetaWriter;
use self::names::Names;
use self::types::{Declared, TypeTable};

/// Options for printing.
#[derive(Clone, Copy, Default)]
pub struct PrintMode<'a> {
    /// The style.
    pub style: Style,
    /// The source of `/* ty=… */` comments and missing result types, which are omitted without it.
    pub types: Option<&'a dyn TypeSource>,
    /// Constants of more elements than this are printed as dangling references.
    pub elide: Option<usize>,
    /// Whether the metadata section is omitted.
    pub no_metadata: bool,
}

/// Converts a module to a syntax tree.
pub fn module_to_ast(module: &Module, mode: &PrintMode<'_>) -> Ast {
    let mut printer = Printer::new(module, *mode);
    printer.module();
    printer.finish()
}

/// Returns the constants that the text of a module refers to, in the order of their references.
pub fn listed_constants(module: &Module) -> Vec<ConstId> {
    let mode = PrintMode {
        style: Style::Tvm,
        ..PrintMode::default()
    };
    let mut printer = Printer::new(module, mode);
    printer.module();
    printer.meta.constants()
}

/// The state of printing one module.
struct Printer<'a> {
    m: &'a Module,
    mode: PrintMode<'a>,
    out: Ast,
    names: Names,
    types: TypeTable,
    meta: MetaWriter<'a>,
    state: State,
    /// The declared names, computed on the first query about an inferred type.
    declared: Option<Declared>,
    /// The number of uses of each expression in the current function.
    uses: IdTable<ExprId, u32>,
}

const NO: Span = Span::NONE;

impl<'a> Printer<'a> {
    fn new(m: &'a Module, mode: PrintMode<'a>) -> Printer<'a> {
        Printer {
            m,
            mode,
            out: Ast::new(),
            names: Names::default(),
            types: TypeTable::of(m),
            meta: MetaWriter::new(m.metadata.raw.as_deref(), m.metadata.stubs_end()),
            state: State::default(),
            declared: None,
            uses: IdTable::default(),
        }
    }

    fn pretty(&self) -> bool {
        self.mode.style == Style::Pretty
    }

    fn finish(mut self) -> Ast {
        self.out.shrink();
        if !self.mode.no_metadata {
            self.out.metadata_text = self.meta.finish(self.m, &attrs::schema_of);
        }
        self.out
    }

    fn name(&mut self, text: impl Into<Symbol>) -> ast::ExprId {
        self.out.expr(ast::ExprKind::Name(text.into()), NO)
    }
}
