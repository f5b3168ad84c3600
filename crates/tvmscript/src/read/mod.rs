//! Tree to module.

mod blocks;
mod calls;
mod constant;
mod control;
mod eval;
mod function;
mod indices;
mod keep;
mod meta;
mod operators;
mod tir;
mod top;
mod types;
mod value;

use std::sync::Arc;

use relax_base::{Diagnostic, Diagnostics, SourceFile, Span, Symbol};
use relax_ir::{Module, Script};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::ast::{Ast, NodeId, Stmt};
use crate::codes;
use value::Val;

/// Reads a text in TVMScript. The module is usable only if there are no errors.
pub fn read(file: &SourceFile, diagnostics: &mut Diagnostics) -> Module {
    let parsed = crate::parse(file);
    let damaged = !parsed.diagnostics.is_empty();
    diagnostics.extend(parsed.diagnostics);
    let mut reader = Reader::new(file, parsed.ast);
    reader.damaged = damaged;
    reader.file();
    diagnostics.extend(reader.diagnostics);
    diagnostics.sort();
    reader.m.script = Some(Arc::new(reader.script));
    reader.m
}

/// A function of the module, known by name before its body is read.
struct Item {
    name: Symbol,
    /// The global, for a function of Relax.
    global: Option<relax_ir::GlobalId>,
    span: Span,
}

struct Reader<'s> {
    file: &'s SourceFile,
    ast: Ast,
    m: Module,
    script: Script,
    diagnostics: Vec<Diagnostic>,
    /// Whether some lines could not be read, so that they may contain what is missing.
    damaged: bool,
    items: Vec<Item>,
    item_names: FxHashMap<Symbol, usize>,
    /// Bound names; those that they hide are restored at the end of a block.
    names: FxHashMap<Symbol, Val>,
    hidden: Vec<(Symbol, Option<Val>)>,
    /// Names of symbols declared above the class.
    type_vars: FxHashMap<Symbol, Span>,
    /// The symbols of the current function.
    symbols: FxHashMap<Symbol, Dim>,
    /// Symbols in the order in which the function's signature mentions them; `None` in its body.
    signature: Option<Vec<relax_sym::DimVar>>,
    /// Names that only strings of the signature mention: the span, and whether the name is a whole
    /// string, which binds it.
    in_strings: FxHashMap<Symbol, (Span, bool)>,
    /// Parameters of the signature that are numbers.
    numbers: FxHashMap<Symbol, (Span, relax_ir::ExprId)>,
    /// The reason why the current function is kept as text, if so.
    keep: Option<(&'static str, Span)>,
    /// The spellings of dimensions in the current function.
    spelled: FxHashMap<Dim, String>,
    /// Variables that are bound to tuples.
    tuples: rustc_hash::FxHashSet<relax_ir::VarId>,
    metadata: meta::Section,
    /// Types with several occurrences, by the expression of the first.
    types: FxHashMap<NodeId, relax_ir::TypeId>,
    /// Lists for the arguments of a call: as they are given, by parameters, as values.
    spare: Vec<calls::Argument>,
    slots: Vec<operators::Slot>,
    inputs: Vec<relax_ir::ExprId>,
    /// What the expressions of the statement stand for.
    vals: Vec<Val>,
    /// The node that `vals[0]` belongs to.
    first: u32,
    /// Whether the current statement has a `lambda`, whose names are not resolved.
    quiet: bool,
}

impl<'s> Reader<'s> {
    fn new(file: &'s SourceFile, ast: Ast) -> Reader<'s> {
        Reader {
            file,
            ast,
            m: Module::new(),
            script: Script::default(),
            diagnostics: Vec::new(),
            damaged: false,
            items: Vec::new(),
            item_names: FxHashMap::default(),
            names: FxHashMap::default(),
            hidden: Vec::new(),
            type_vars: FxHashMap::default(),
            symbols: FxHashMap::default(),
            signature: None,
            in_strings: FxHashMap::default(),
            numbers: FxHashMap::default(),
            keep: None,
            spelled: FxHashMap::default(),
            tuples: rustc_hash::FxHashSet::default(),
            metadata: meta::Section::default(),
            types: FxHashMap::default(),
            spare: Vec::new(),
            slots: Vec::new(),
            inputs: Vec::new(),
            vals: Vec::new(),
            first: 0,
            quiet: false,
        }
    }

    fn text(&self, span: Span) -> &'s str {
        self.file.slice(span)
    }
    fn symbol(&self, span: Span) -> Symbol {
        Symbol::new(self.text(span))
    }
    fn report(&mut self, d: Diagnostic) {
        self.diagnostics.push(d);
    }
    fn error(&mut self, code: relax_base::Code, span: Span, message: impl Into<String>) -> Val {
        self.report(Diagnostic::error(code, span, message));
        Val::Bad
    }
    /// Keeps the current function as text, since the module cannot represent it.
    fn keep(&mut self, why: &'static str, span: Span) -> Val {
        self.keep.get_or_insert((why, span));
        Val::Bad
    }
    /// Reports a value of another kind than expected.
    fn wrong(&mut self, found: &Val, span: Span, wanted: &str) {
        if !matches!(found, Val::Bad) {
            let message = format!("expected {wanted}, found {}", found.describe());
            self.error(codes::KIND, span, message);
        }
    }

    fn bind(&mut self, name: Symbol, val: Val) {
        let old = self.names.insert(name, val);
        self.hidden.push((name, old));
    }
    /// Ends a block that began when `mark` names were hidden.
    fn unbind(&mut self, mark: usize) {
        while self.hidden.len() > mark {
            if let Some((name, old)) = self.hidden.pop() {
                match old {
                    Some(val) => self.names.insert(name, val),
                    None => self.names.remove(&name),
                };
            }
        }
    }

    /// Evaluates the expressions of a statement from node `from` on, operands first.
    fn eval_from(&mut self, stmt: &Stmt, from: u32) {
        self.eval_range(from.max(stmt.nodes.0), stmt.nodes.1);
    }
    fn eval_range(&mut self, from: u32, to: u32) {
        use crate::ast::Node;
        self.first = from;
        self.vals.clear();
        let nodes = from as usize..to as usize;
        self.quiet = self.ast.nodes[nodes]
            .iter()
            .any(|n| matches!(n, Node::Lambda(..)));
        // What stands in a function over indices means something to it alone.
        let inside = match self.quiet {
            true => self.in_lambdas(from, to),
            false => Vec::new(),
        };
        for i in from..to {
            let val = match inside.get((i - from) as usize) {
                Some(true) => Val::Bad,
                _ => self.eval(NodeId(i)),
            };
            self.vals.push(val);
        }
    }
    /// Takes the value of an expression.
    fn take(&mut self, id: NodeId) -> Val {
        match id.0.checked_sub(self.first) {
            Some(i) if (i as usize) < self.vals.len() => {
                std::mem::replace(&mut self.vals[i as usize], Val::Bad)
            }
            _ => Val::Bad,
        }
    }
}

/// Returns the first component of a path.
pub(super) fn root(path: &str) -> &str {
    path.split_once('.').map_or(path, |(root, _)| root)
}
