//! Patterns that users declare, in the text format.
//!
//! ```text
//! def @dnnl.conv2d_relu(%data, %weight: Constant, %bias) {
//!   %0 = nn.conv2d(%data, %weight, groups=1);
//!   nn.relu(nn.bias_add(%0, %bias))
//! }
//! ```
//!
//! Each function is a pattern: its parameters match anything (`Constant`: constants only), calls of
//! operators match such calls, with the attributes that are written and any others, numbers match
//! scalar constants of that value. What the text uses twice must be one node. The pattern's name is
//! the function's, or its attribute `Composite`. Earlier patterns are preferred.

use relax_base::{Diagnostic, Diagnostics, SourceMap, Span, Symbol, did_you_mean};
use relax_ir::{AttrValue, Expr, ExprId, Module, OpId};
use relax_ops::registry;
use relax_syntax::ast::{self, Ast, ExprKind, ItemKind, StmtKind, TypeExprKind};
use rustc_hash::FxHashMap;

use crate::codes;

/// The maximum number of nodes of a pattern.
const MOST: usize = 256;

/// A value that an attribute must have.
#[derive(Clone, PartialEq, Debug)]
enum Want {
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A string, or the name of an element type.
    Word(Symbol),
    None,
    List(Vec<Want>),
}

impl Want {
    /// The recursion is bounded by the parser's limit on nesting.
    fn fits(&self, value: &AttrValue) -> bool {
        match self {
            Want::Int(i) => value.as_int() == Some(*i) || value.as_float() == Some(*i as f64),
            Want::Float(f) => value.as_float() == Some(*f),
            Want::Bool(b) => value.as_bool() == Some(*b),
            Want::Word(w) => match value {
                AttrValue::DType(d) => d.to_string() == w.as_str(),
                other => other.as_str() == Some(w.as_str()),
            },
            Want::None => value.is_none(),
            Want::List(all) => value.as_array().is_some_and(|items| {
                items.len() == all.len() && all.iter().zip(items).all(|(w, v)| w.fits(v))
            }),
        }
    }
}

/// A node of a pattern; operands come before their users.
#[derive(Clone, PartialEq, Debug)]
enum Node {
    /// A parameter of the pattern.
    Param {
        constant: bool,
    },
    /// A constant number.
    Number(f64),
    Call {
        op: OpId,
        args: Vec<usize>,
        attrs: Vec<(Symbol, Want)>,
    },
    Tuple(Vec<usize>),
    Field(usize, u32),
}

/// A declared pattern.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The name of its matches.
    pub name: Symbol,
    nodes: Vec<Node>,
    /// The nodes of the parameters, in order.
    params: Vec<usize>,
    root: usize,
}

/// A match: the expression that each node of the pattern matched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Match {
    nodes: Vec<Option<ExprId>>,
}

impl Declared {
    /// Parses patterns. `option` is the location of the text in the session's sources, for errors;
    /// [`Span::NONE`] when it has none.
    ///
    /// # Errors
    /// The errors in the text, with their locations.
    pub fn parse(text: &str, option: Span) -> Result<Vec<Declared>, Diagnostics> {
        let mut errors = Diagnostics::new();
        let mut map = SourceMap::new();
        let Some(file) = map.add("<patterns>", text) else {
            return Ok(Vec::new());
        };
        let parsed = relax_syntax::parse(&file);
        let place = |span: Span| {
            let (start, end) = (span.start - file.start, span.end - file.start);
            if option.is_none() {
                Span::NONE
            } else {
                Span::new(option.start + start, option.start + end)
            }
        };
        let mut say = |span: Span, message: String, note: Option<String>| {
            let d = Diagnostic::error(codes::PATTERN, place(span), message);
            errors.push(match note {
                Some(note) => d.note(note),
                None => d,
            });
        };
        for d in parsed.diagnostics.iter().filter(|d| d.is_error()) {
            say(d.span(), d.message.clone(), None);
        }
        let mut out = Vec::new();
        for item in &parsed.ast.items {
            let ItemKind::Def { name, function } = item.kind else {
                let text = "patterns are functions: `def @name(%x) { … }`";
                say(item.span, text.into(), None);
                continue;
            };
            match Reader::new(&parsed.ast).function(name, function) {
                Ok(pattern) => out.push(pattern),
                Err((span, message, note)) => say(span, message, note),
            }
        }
        if errors.has_errors() {
            Err(errors)
        } else {
            Ok(out)
        }
    }

    /// Matches an expression.
    pub fn find(&self, m: &Module, root: ExprId) -> Option<Match> {
        let mut nodes: Vec<Option<ExprId>> = vec![None; self.nodes.len()];
        let mut open = vec![(self.root, root)];
        while let Some((node, e)) = open.pop() {
            if let Some(old) = nodes[node] {
                let same = old == e || m.is_leaf(e) && m.exprs[old] == m.exprs[e];
                if same {
                    continue;
                }
                return None;
            }
            nodes[node] = Some(e);
            let constant = match m.exprs[e] {
                Expr::Const(c) => Some(&m.consts[c]),
                _ => None,
            };
            match &self.nodes[node] {
                Node::Param { constant: false } => {}
                Node::Param { constant: true } => {
                    constant?;
                }
                Node::Number(n) => {
                    let value = constant.filter(|t| t.is_scalar())?;
                    if value.get_f64(0) != *n {
                        return None;
                    }
                }
                Node::Call { op, args, attrs } => {
                    let Expr::Call {
                        callee,
                        args: given,
                        attrs: values,
                        ..
                    } = m.exprs[e]
                    else {
                        return None;
                    };
                    if m.exprs[callee] != Expr::Op(*op) || given.len() != args.len() {
                        return None;
                    }
                    let values = m.attrs(values);
                    let fits =
                        |(n, w): &(Symbol, Want)| values.get(n.as_str()).is_some_and(|v| w.fits(v));
                    if !attrs.iter().all(fits) {
                        return None;
                    }
                    open.extend(args.iter().copied().zip(m.list(given).iter().copied()));
                }
                Node::Tuple(fields) => {
                    let Expr::Tuple(given) = m.exprs[e] else {
                        return None;
                    };
                    if given.len() != fields.len() {
                        return None;
                    }
                    open.extend(fields.iter().copied().zip(m.list(given).iter().copied()));
                }
                Node::Field(tuple, i) => match m.exprs[e] {
                    Expr::Proj { tuple: of, index } if index == *i => open.push((*tuple, of)),
                    _ => return None,
                },
            }
        }
        Some(Match { nodes })
    }

    /// Returns the operators of the pattern, in TVM's notation: `nn.conv2d_nn.relu_`.
    pub fn operators(&self) -> String {
        let mut out = String::new();
        for node in &self.nodes {
            if let Node::Call { op, .. } = node {
                out.push_str(registry().get(*op).map_or("", |d| d.name));
                out.push('_');
            }
        }
        out
    }

    /// Returns the matches of the parameters.
    pub fn operands(&self, found: &Match) -> Vec<ExprId> {
        let bound = |p: &usize| found.nodes[*p];
        self.params.iter().filter_map(bound).collect()
    }

    /// Returns the nodes that are merged: everything that matched except for operands and
    /// constants; operands first.
    pub fn inside(&self, found: &Match) -> Vec<ExprId> {
        let compound = |n: &Node| !matches!(n, Node::Param { .. } | Node::Number(_));
        let nodes = self.nodes.iter().zip(&found.nodes);
        let mut out: Vec<ExprId> = nodes
            .filter(|n| compound(n.0))
            .filter_map(|n| *n.1)
            .collect();
        let mut seen = relax_ir::IdSet::new();
        out.retain(|e| seen.insert(*e));
        out
    }
}

type Trouble = (Span, String, Option<String>);

struct Reader<'a> {
    ast: &'a Ast,
    nodes: Vec<Node>,
    names: FxHashMap<Symbol, usize>,
    graph: FxHashMap<u32, usize>,
}

impl<'a> Reader<'a> {
    fn new(ast: &'a Ast) -> Reader<'a> {
        Reader {
            ast,
            nodes: Vec::new(),
            names: FxHashMap::default(),
            graph: FxHashMap::default(),
        }
    }

    fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn function(mut self, name: Symbol, function: ast::FnId) -> Result<Declared, Trouble> {
        let f = self.ast.functions[function];
        let mut params = Vec::new();
        for p in self.ast.list(f.params) {
            let binder = self.ast.binders[p];
            let constant = match binder.ty.map(|t| self.ast.types[t].kind) {
                None => false,
                Some(TypeExprKind::Name(n)) if n.as_str() == "Constant" => true,
                Some(_) => {
                    let text = "the only annotation of a pattern's parameter is `Constant`";
                    return Err((binder.span, text.into(), None));
                }
            };
            let node = self.push(Node::Param { constant });
            self.names.insert(binder.name, node);
            params.push(node);
        }
        let root = self.block(f.body)?;
        if !matches!(self.nodes[root], Node::Call { .. }) {
            let text = format!("the pattern `@{name}` is no call of an operator");
            return Err((f.header, text, None));
        }
        let attr = self
            .ast
            .list(f.attrs)
            .find(|a| self.ast.attrs[*a].key.as_str() == "Composite");
        let name = match attr.map(|a| self.ast.exprs[self.ast.attrs[a].value].kind) {
            Some(ExprKind::Str(s)) => s,
            _ => name,
        };
        let mut used = vec![false; self.nodes.len()];
        for node in &self.nodes {
            let parts: &[usize] = match node {
                Node::Call { args, .. } => args,
                Node::Tuple(fields) => fields,
                Node::Field(t, _) => std::slice::from_ref(t),
                _ => &[],
            };
            parts.iter().for_each(|p| used[*p] = true);
        }
        if let Some(i) = params.iter().position(|p| !used[*p]) {
            let p = self.ast.nth(f.params, i).map(|p| self.ast.binders[p]);
            let (span, name) = p.map_or((f.header, name), |p| (p.span, p.name));
            return Err((span, format!("the pattern does not use `%{name}`"), None));
        }
        Ok(Declared {
            name,
            nodes: self.nodes,
            params,
            root,
        })
    }

    fn block(&mut self, body: ast::ExprId) -> Result<usize, Trouble> {
        let e = self.ast.exprs[body];
        let ExprKind::Block { stmts, tail, .. } = e.kind else {
            return self.expr(body);
        };
        for s in self.ast.list(stmts) {
            let stmt = self.ast.stmts[s];
            match stmt.kind {
                StmtKind::Graph { index, value } => {
                    let node = self.expr(value)?;
                    self.graph.insert(index, node);
                }
                StmtKind::Let { binder, value } | StmtKind::Bind { binder, value } => {
                    let node = self.expr(value)?;
                    self.names.insert(self.ast.binders[binder].name, node);
                }
                _ => {
                    return Err((
                        stmt.span,
                        "patterns have bindings and calls only".into(),
                        None,
                    ));
                }
            }
        }
        match tail {
            Some(tail) => self.expr(tail),
            None => Err((e.span, "the pattern has no result".into(), None)),
        }
    }

    /// Reads an expression: operands have smaller ids than their users, so one loop in order of ids
    /// replaces recursion.
    fn expr(&mut self, root: ast::ExprId) -> Result<usize, Trouble> {
        let mut parts = vec![root];
        let mut i = 0;
        while i < parts.len() {
            match self.ast.exprs[parts[i]].kind {
                ExprKind::Call { args, .. } => parts.extend(self.ast.list(args)),
                ExprKind::Tuple(fields) => parts.extend(self.ast.list(fields)),
                ExprKind::Paren(e, _) | ExprKind::Proj { tuple: e, .. } => parts.push(e),
                ExprKind::Binary { lhs, rhs, .. } => parts.extend([lhs, rhs]),
                _ => {}
            }
            i += 1;
        }
        parts.sort_unstable();
        parts.dedup();
        let mut made: FxHashMap<ast::ExprId, usize> = FxHashMap::default();
        for part in parts {
            let node = self.node(part, &made)?;
            made.insert(part, node);
            if self.nodes.len() > MOST {
                let text = format!("a pattern has at most {MOST} nodes");
                return Err((self.ast.exprs[part].span, text, None));
            }
        }
        Ok(made[&root])
    }

    fn node(
        &mut self,
        id: ast::ExprId,
        made: &FxHashMap<ast::ExprId, usize>,
    ) -> Result<usize, Trouble> {
        let e = self.ast.exprs[id];
        let known = |found: Option<&usize>, what: String| {
            let text = || (e.span, format!("there is no {what} in the pattern"), None);
            found.copied().ok_or_else(text)
        };
        match e.kind {
            ExprKind::Local(name) => known(self.names.get(&name), format!("`%{name}`")),
            ExprKind::Graph(i) => known(self.graph.get(&i), format!("`%{i}`")),
            ExprKind::Paren(inner, _) => Ok(made[&inner]),
            ExprKind::Int { value, .. } => Ok(self.push(Node::Number(value as f64))),
            ExprKind::Float { value, .. } => Ok(self.push(Node::Number(value))),
            ExprKind::Bool(b) => Ok(self.push(Node::Number(b.into()))),
            ExprKind::Tuple(fields) => {
                let fields = self.ast.list(fields).map(|f| made[&f]).collect();
                Ok(self.push(Node::Tuple(fields)))
            }
            ExprKind::Proj { tuple, index } => Ok(self.push(Node::Field(made[&tuple], index))),
            ExprKind::Binary { op, lhs, rhs } => {
                let op = registry().sugar(op.as_str()).ok_or_else(|| {
                    (
                        e.span,
                        format!("`{}` is no operator here", op.as_str()),
                        None,
                    )
                })?;
                let (args, attrs) = (vec![made[&lhs], made[&rhs]], Vec::new());
                Ok(self.push(Node::Call { op, args, attrs }))
            }
            ExprKind::Call {
                callee,
                args,
                attrs,
            } => {
                let callee = self.ast.exprs[callee];
                let ExprKind::Name(name) = callee.kind else {
                    return Err((callee.span, "a pattern calls operators only".into(), None));
                };
                let Some(op) = registry().find(name.as_str()) else {
                    let names = registry().iter().map(|o| o.1.name);
                    let near = did_you_mean(name.as_str(), names);
                    let note = near.map(|n| format!("did you mean `{n}`?"));
                    return Err((callee.span, format!("there is no operator `{name}`"), note));
                };
                let mut wants = Vec::new();
                for a in self.ast.list(attrs) {
                    let attr = self.ast.attrs[a];
                    let def = registry().get(op).expect("it was found");
                    if def.attr(attr.key.as_str()).is_none() {
                        let text = format!("`{name}` has no attribute `{}`", attr.key);
                        let names = def.attrs.iter().map(|a| a.name);
                        let near = did_you_mean(attr.key.as_str(), names);
                        let note = near.map(|n| format!("did you mean `{n}`?"));
                        return Err((attr.span, text, note));
                    }
                    wants.push((attr.key, self.want(attr.value)?));
                }
                let args = self.ast.list(args).map(|a| made[&a]).collect();
                let attrs = wants;
                Ok(self.push(Node::Call { op, args, attrs }))
            }
            _ => Err((
                e.span,
                "patterns have calls of operators, tuples, fields, numbers and parameters".into(),
                None,
            )),
        }
    }

    /// Lists of attributes nest two deep at most.
    fn want(&self, id: ast::ExprId) -> Result<Want, Trouble> {
        let simple = |id: ast::ExprId| {
            let e = self.ast.exprs[id];
            Ok(match e.kind {
                ExprKind::Int { value, .. } => Want::Int(value),
                ExprKind::Float { value, .. } => Want::Float(value),
                ExprKind::Bool(b) => Want::Bool(b),
                ExprKind::Str(s) => Want::Word(s),
                ExprKind::Name(n) if n.as_str() == "None" => Want::None,
                ExprKind::Name(n) => Want::Word(n),
                _ => return Err((e.span, "this value cannot be compared".into(), None)),
            })
        };
        let ExprKind::List(items) = self.ast.exprs[id].kind else {
            return simple(id);
        };
        let mut all = Vec::new();
        for item in self.ast.list(items) {
            all.push(match self.ast.exprs[item].kind {
                ExprKind::List(inner) => {
                    let inner: Result<Vec<Want>, Trouble> =
                        self.ast.list(inner).map(simple).collect();
                    Want::List(inner?)
                }
                _ => simple(item)?,
            });
        }
        Ok(Want::List(all))
    }
}
