//! The top level of a file, and the class that is the module.

use std::sync::Arc;

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{FuncId, Global, GlobalKind};

use super::value::{Decorator, Val};
use super::{Item, Reader};
use crate::ast::{Node, NodeId, Stmt, StmtKind};
use crate::codes;

/// A function definition with its decorators.
#[derive(Clone, Copy)]
struct Definition {
    /// The first decorator's statement, or the definition's own.
    first: u32,
    /// The definition's statement.
    at: u32,
    decorator: Decorator,
}

impl Reader<'_> {
    /// Reads the whole file.
    pub(super) fn file(&mut self) {
        let mut i = 0;
        let mut decorated: Option<(u32, Decorator)> = None;
        let mut lone = Vec::new();
        let mut found = false;
        while (i as usize) < self.ast.stmts.len() {
            let stmt = self.ast.stmts[i as usize];
            match stmt.kind {
                StmtKind::Decorator(e) => {
                    let decorator = self.decorator(&stmt, e);
                    decorated.get_or_insert((i, decorator));
                }
                StmtKind::Class(name) => {
                    found = true;
                    decorated = None;
                    self.class(i, &stmt, name);
                }
                StmtKind::Def { .. } => {
                    found = true;
                    let (first, decorator) = decorated.take().unwrap_or((i, Decorator::Other));
                    lone.push(Definition {
                        first,
                        at: i,
                        decorator,
                    });
                }
                StmtKind::Assign(target, _) => self.constant_of_file(&stmt, target),
                StmtKind::Expr(e) if matches!(self.ast.node(e), Node::Str) => {}
                StmtKind::Bad | StmtKind::Pass => {}
                _ => {
                    self.error(
                        codes::STRUCTURE,
                        stmt.span,
                        "this has no meaning outside of the module",
                    );
                }
            }
            i = stmt.end;
        }
        self.definitions(&lone);
        if !found && !self.damaged && self.diagnostics.is_empty() {
            let at = self.file.span().at_start();
            let d = Diagnostic::error(codes::STRUCTURE, at, "there is no module in this text")
                .note("a module is a class under `@I.ir_module`, a function stands under `@R.function`");
            self.report(d);
        }
    }

    fn decorator(&mut self, stmt: &Stmt, e: NodeId) -> Decorator {
        self.eval_from(stmt, 0);
        let keep = self.keep.take();
        let val = self.take(e);
        match val {
            Val::Decorator(d) => d,
            Val::Path(p) => match p.as_str() {
                "I.ir_module" | "tvm.script.ir_module" => Decorator::Module,
                "R.function" => Decorator::Relax {
                    private: false,
                    pure: true,
                },
                "T.prim_func" | "I.pyfunc" | "R.rewriter" | "R.macro" | "T.macro" | "T.inline" => {
                    Decorator::Other
                }
                _ => {
                    let at = self.ast.span(e);
                    let d = Diagnostic::error(
                        codes::UNKNOWN_OPERATOR,
                        at,
                        format!("there is no decorator `{p}`"),
                    );
                    let names = ["I.ir_module", "R.function", "T.prim_func", "I.pyfunc"];
                    self.report(super::types::near(d, at, p.as_str(), &names));
                    Decorator::Other
                }
            },
            Val::Bad => Decorator::Other,
            other => {
                if keep.is_none() {
                    let at = self.ast.span(e);
                    self.wrong(&other, at, "a decorator");
                }
                Decorator::Other
            }
        }
    }

    /// Reads `n = TypeVar("n")`, `metadata = tvm.ir.load_json("…")`.
    fn constant_of_file(&mut self, stmt: &Stmt, target: NodeId) {
        let StmtKind::Assign(_, value) = stmt.kind else {
            return;
        };
        if !matches!(self.ast.node(target), Node::Name) {
            self.error(codes::STRUCTURE, stmt.span, "a name is expected before `=`");
            return;
        }
        let name = self.symbol(self.ast.span(target));
        if let Node::Call(func, args) = self.ast.node(value) {
            let path = self.text(self.ast.span(func));
            let arg = self.ast.call_args(args).first().copied();
            let literal = arg.filter(|a| matches!(self.ast.node(a.value), Node::Str));
            if path == "TypeVar" {
                self.type_vars.insert(name, self.ast.span(target));
                return;
            }
            if path.ends_with("load_json")
                && let Some(arg) = literal
            {
                let at = self.ast.span(arg.value);
                match crate::strings::unquote(self.text(at)) {
                    Some(text) => self.load_metadata(&text, at),
                    None => {
                        self.error(
                            codes::STRING,
                            at,
                            "the string has an escape that does not exist",
                        );
                    }
                }
                return;
            }
            if path == "T.int64" {
                self.type_vars.insert(name, self.ast.span(target));
                return;
            }
        }
        self.eval_from(stmt, target.0 + 1);
        let val = self.take(value);
        self.keep = None;
        self.names.insert(name, val);
    }

    /// Reads the class: first the names of its functions, then their bodies.
    fn class(&mut self, at: u32, head: &Stmt, name: Span) {
        let class = self.symbol(name);
        self.script.class = Some(class);
        self.names.insert(class, Val::Class);
        let mut definitions = Vec::new();
        let mut decorated: Option<(u32, Decorator)> = None;
        let mut i = at + 1;
        while i < head.end {
            let stmt = self.ast.stmts[i as usize];
            match stmt.kind {
                StmtKind::Decorator(e) => {
                    let decorator = self.decorator(&stmt, e);
                    decorated.get_or_insert((i, decorator));
                }
                StmtKind::Def { name, .. } => {
                    let (first, decorator) = decorated.take().unwrap_or_else(|| {
                        let message = "a function of a module says by its decorator what it is";
                        let d = Diagnostic::error(codes::STRUCTURE, name, message).suggest(
                            "put a decorator above it",
                            stmt.span.at_start(),
                            "@R.function\n    ",
                        );
                        self.report(d);
                        (i, Decorator::Other)
                    });
                    definitions.push(Definition {
                        first,
                        at: i,
                        decorator,
                    });
                }
                StmtKind::Expr(e) if matches!(self.ast.node(e), Node::Str) => {}
                StmtKind::Expr(_) | StmtKind::Assign(..) => {
                    let text = self.text(stmt.span);
                    let known =
                        text.starts_with("I.module_") || matches!(stmt.kind, StmtKind::Assign(..));
                    if known {
                        self.script.head.push(Arc::from(text));
                    } else {
                        self.error(
                            codes::STRUCTURE,
                            stmt.span,
                            "this has no meaning in a module",
                        );
                    }
                }
                StmtKind::Pass | StmtKind::Bad => {}
                _ => {
                    self.error(
                        codes::STRUCTURE,
                        stmt.span,
                        "this has no meaning in a module",
                    );
                }
            }
            i = stmt.end;
        }
        self.definitions(&definitions);
    }

    fn definitions(&mut self, definitions: &[Definition]) {
        let first = self.items.len();
        for (k, d) in definitions.iter().enumerate() {
            self.declare(d);
            if !matches!(d.decorator, Decorator::Relax { .. }) {
                self.other_item(first + k, d.first, d.at);
            }
        }
        for (k, d) in definitions.iter().enumerate() {
            if let Decorator::Relax { private, pure } = d.decorator {
                self.relax_item(first + k, d.first, d.at, private, pure);
            }
        }
    }

    fn declare(&mut self, d: &Definition) {
        let StmtKind::Def { name: span, .. } = self.ast.stmts[d.at as usize].kind else {
            return;
        };
        let name = self.symbol(span);
        if let Some(&other) = self.item_names.get(&name) {
            let message = format!("the module has two functions `{name}`");
            let before = self.items[other].span;
            self.report(
                Diagnostic::error(codes::BOUND_TWICE, span, message).label(before, "the first one"),
            );
        }
        let relax = matches!(d.decorator, Decorator::Relax { .. });
        let global = relax.then(|| {
            self.m.globals.push(Global {
                name,
                kind: GlobalKind::Func(FuncId(0)),
                span,
                prelude: false,
            })
        });
        self.item_names.insert(name, self.items.len());
        self.items.push(Item { name, global, span });
    }
}

/// Returns whether a node is a plain name.
pub(super) fn plain_name(ast: &crate::ast::Ast, id: NodeId) -> bool {
    matches!(ast.node(id), Node::Name)
}

impl Reader<'_> {
    /// Returns the name that an assignment binds.
    pub(super) fn target(&self, id: NodeId) -> Option<Symbol> {
        plain_name(&self.ast, id).then(|| self.symbol(self.ast.span(id)))
    }
}
