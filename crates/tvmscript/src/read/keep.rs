//! Items kept as text: tensor programs that the module cannot represent, and functions with such
//! constructs.

use relax_base::{Span, Symbol};
use relax_ir::{AttrValue, Attrs, Function, Global, GlobalKind, Kept};
use rustc_hash::FxHashSet;

use super::eval::ROOTS;
use super::tir::Made;
use super::{Reader, root};
use crate::ast::{Node, NodeId, StmtKind};
use crate::codes;

/// Python's built-ins that tensor programs may use.
const BUILTIN: [&str; 14] = [
    "range",
    "float",
    "int",
    "bool",
    "max",
    "min",
    "len",
    "abs",
    "str",
    "print",
    "isinstance",
    "enumerate",
    "zip",
    "self",
];

impl Reader<'_> {
    /// Reads a function that is not Relax.
    pub(super) fn other_item(&mut self, item: usize, first: u32, at: u32) {
        let python = self
            .text(self.ast.stmts[first as usize].span)
            .starts_with("@I.");
        let errors = self.diagnostics.len();
        let name = self.items[item].name;
        if python {
            let item = self.as_text(name, first, at, "a function of Python");
            return self.script.kept.push(item);
        }
        self.names_of_item(first, at);
        let (mut program, mut inplace, mut why) = (None, None, "a tensor program");
        if self.diagnostics.len() == errors {
            match self.tensor_program(name, at) {
                Ok(Made::Program(p)) => program = Some(p),
                Ok(Made::Inplace(i)) => {
                    (inplace, why) = (Some(i), "a tensor program that changes what it is given");
                }
                Err(what) => why = what,
            }
        }
        if let Some(program) = &program {
            self.items[item].global = Some(self.m.globals.push(Global {
                name,
                kind: GlobalKind::Prim(program.clone()),
                span: self.items[item].span,
                prelude: false,
            }));
        }
        let text = self.as_text(name, first, at, why);
        self.script.kept.push(Kept {
            program,
            inplace,
            ..text
        });
    }

    /// Returns an item as its text, with the symbols that it uses.
    fn as_text(&self, name: Symbol, first: u32, at: u32, why: &'static str) -> Kept {
        let span = self.item_span(first, at);
        let mut symbols = Vec::new();
        let mut seen = FxHashSet::default();
        for i in self.node_range(first, at) {
            let span = self.ast.spans[i as usize];
            let text = self.text(span);
            let mut add = |name: Symbol, reader: &Self| {
                if reader.type_vars.contains_key(&name) && seen.insert(name) {
                    symbols.push(name);
                }
            };
            match self.ast.nodes[i as usize] {
                Node::Name | Node::Path => add(Symbol::new(root(text)), self),
                // Dimensions may be written as strings.
                Node::Str if text.len() < 200 => {
                    for word in text
                        .split(|c: char| !c.is_alphanumeric() && c != '_')
                        .filter(|w| !w.is_empty())
                    {
                        add(Symbol::new(word), self);
                    }
                }
                _ => {}
            }
        }
        let text = self.outdented(span);
        Kept {
            name,
            text: text.into(),
            symbols,
            why,
            span,
            program: None,
            inplace: None,
        }
    }

    /// Keeps a function of Relax as text, of which only the signature is known.
    pub(super) fn keep_function(
        &mut self,
        item: usize,
        first: u32,
        at: u32,
        mut function: Function,
        why: &'static str,
    ) {
        let name = self.items[item].name;
        let text = self.as_text(name, first, at, why);
        self.script.kept.push(text);
        let attrs: Attrs = [
            (Symbol::new("name"), AttrValue::Str("kept".into())),
            (Symbol::new("given"), AttrValue::array([])),
            (
                Symbol::new("attrs"),
                AttrValue::Dict([(Symbol::new("why"), AttrValue::Str(why.into()))].into()),
            ),
        ]
        .into_iter()
        .collect();
        function.body = self.op_call("relax.op", &[], attrs, &[], function.span);
        let func = self.m.funcs.push(function);
        if let Some(g) = self.items[item].global {
            self.m.globals[g].kind = GlobalKind::Func(func);
        }
    }

    fn node_range(&self, first: u32, at: u32) -> std::ops::Range<u32> {
        let end = self.ast.stmts[at as usize].end;
        let last = self.ast.stmts[end as usize - 1];
        self.ast.stmts[first as usize].nodes.0..last.nodes.1
    }

    /// Returns the span from the first decorator to the last statement.
    fn item_span(&self, first: u32, at: u32) -> Span {
        let end = self.ast.stmts[at as usize].end;
        let stmts = &self.ast.stmts[first as usize..end as usize];
        let stop = stmts.iter().map(|s| s.span.end).max().unwrap_or(0);
        Span::new(stmts[0].span.start, stop)
    }

    /// Returns the text of an item, with its own indentation removed.
    fn outdented(&self, span: Span) -> String {
        let all = &self.file.text;
        let at = (span.start - self.file.start) as usize;
        let line = all[..at].rfind('\n').map_or(0, |i| i + 1);
        let indent = &all[line..at];
        let text = self.text(span);
        if text.contains("\"\"\"") || text.contains("'''") || !indent.trim().is_empty() {
            return text.to_owned();
        }
        let lines: Vec<&str> = text
            .lines()
            .map(|l| {
                l.strip_prefix(indent).unwrap_or_else(|| {
                    if l.trim().is_empty() {
                        ""
                    } else {
                        l.trim_start()
                    }
                })
            })
            .collect();
        lines.join("\n")
    }

    /// Checks that every name in a tensor program is bound inside it or defined outside.
    fn names_of_item(&mut self, first: u32, at: u32) {
        let mut bound: FxHashSet<&str> = FxHashSet::default();
        let mut targets: FxHashSet<u32> = FxHashSet::default();
        let end = self.ast.stmts[at as usize].end;
        for stmt in &self.ast.stmts[first as usize..end as usize] {
            let mut target = |id: NodeId| {
                let from = match self.ast.node(id) {
                    Node::Name | Node::Tuple(_) | Node::List(_) => stmt.nodes.0,
                    _ => return,
                };
                for i in from..=id.0 {
                    if matches!(self.ast.nodes[i as usize], Node::Name) {
                        targets.insert(i);
                        bound.insert(self.text(self.ast.spans[i as usize]));
                    }
                }
            };
            match stmt.kind {
                StmtKind::Assign(t, _) | StmtKind::Annotated(t, ..) | StmtKind::For(t, _) => {
                    target(t)
                }
                StmtKind::Def { name, params, .. } => {
                    bound.insert(self.text(name));
                    bound.extend(
                        self.ast
                            .func_params(params)
                            .iter()
                            .map(|p| self.text(p.name)),
                    );
                }
                StmtKind::Bad => return,
                _ => {}
            }
        }
        let range = self.node_range(first, at);
        for i in range.clone() {
            if let Node::Lambda(list, _) = self.ast.nodes[i as usize] {
                bound.extend(
                    self.ast
                        .list(list)
                        .iter()
                        .map(|&p| self.text(self.ast.span(p))),
                );
            }
        }
        let mut missing = Vec::new();
        for i in range {
            let span = self.ast.spans[i as usize];
            let name = root(self.text(span));
            let known = bound.contains(name) || ROOTS.contains(&name) || BUILTIN.contains(&name);
            if matches!(self.ast.nodes[i as usize], Node::Name | Node::Path)
                && !known
                && !targets.contains(&i)
            {
                let symbol = Symbol::new(name);
                if !self.type_vars.contains_key(&symbol)
                    && !self.names.contains_key(&symbol)
                    && name != "metadata"
                {
                    missing.push((name, span));
                }
            }
        }
        for (name, span) in missing {
            self.error(
                codes::UNDEFINED,
                span,
                format!("`{name}` is not defined here"),
            );
        }
    }
}
