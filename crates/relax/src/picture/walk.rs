//! Construction of a function's graph from its expressions.

use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, FuncId, GlobalId, IdTable, Module, PatId, Pattern, TypeId,
    VarId,
};
use rustc_hash::FxHashMap;

use super::{Edge, Graph, Group, Node, Role};
use crate::TypeSource;

/// The value of an expression as its users see it.
#[derive(Clone, Debug)]
enum Flow {
    /// The output of a node, or a field of it.
    Node(usize, String),
    /// A tuple of flows, by index.
    Many(Vec<usize>),
    /// Text that is shown inside the using node.
    Text(String),
}

/// A work item of the traversal.
enum Step {
    /// Visit an expression's operands, in a group.
    See(ExprId, Option<usize>),
    /// Create an expression's node: its operands are done.
    Make(ExprId, Option<usize>),
    /// Bind a variable to the value of an expression.
    Bind(VarId, ExprId),
    /// Bind the variables of a pattern.
    Take(PatId, ExprId),
    /// Alias one expression to another.
    Same(ExprId, ExprId),
}

struct Walk<'a> {
    m: &'a Module,
    types: Option<&'a dyn TypeSource>,
    graph: Graph,
    flows: Vec<Flow>,
    /// Flows of expressions and variables, by index.
    exprs: FxHashMap<ExprId, usize>,
    vars: FxHashMap<VarId, usize>,
    uses: IdTable<ExprId, u32>,
    work: Vec<Step>,
}

/// Longer attribute texts are truncated.
const DETAIL: usize = 48;

/// See [`Graph::of`].
pub fn graph(m: &Module, function: GlobalId, types: Option<&dyn TypeSource>) -> Graph {
    let Some(func) = m.global_func(function) else {
        return Graph::default();
    };
    let body = m.funcs[func].body;
    let mut walk = Walk {
        m,
        types,
        graph: Graph {
            name: m.globals[function].name.to_string(),
            ..Graph::default()
        },
        flows: Vec::new(),
        exprs: FxHashMap::default(),
        vars: FxHashMap::default(),
        uses: m.use_counts([body]),
        work: vec![Step::See(body, None)],
    };
    walk.params(func, None);
    walk.run();
    let ty = types.and_then(|t| t.ret(func)).or(m.funcs[func].ret);
    let ty = ty.map_or(String::new(), |t| m.show_type(t));
    let result = walk.node(Role::Result, "result".into(), String::new(), ty, None);
    walk.join(&[body], result);
    walk.graph
}

impl Walk<'_> {
    fn run(&mut self) {
        while let Some(step) = self.work.pop() {
            match step {
                Step::See(id, _) if self.exprs.contains_key(&id) => {}
                Step::See(id, group) => self.see(id, group),
                Step::Make(id, _) if self.exprs.contains_key(&id) => {}
                Step::Make(id, group) => self.make(id, group),
                Step::Bind(var, value) => {
                    let flow = self.flow(value);
                    self.vars.insert(var, flow);
                }
                Step::Take(pattern, value) => self.take(pattern, value),
                Step::Same(id, other) => {
                    let flow = self.flow(other);
                    self.exprs.insert(id, flow);
                }
            }
        }
    }

    fn add(&mut self, flow: Flow) -> usize {
        self.flows.push(flow);
        self.flows.len() - 1
    }

    /// Returns the flow of an expression; one that was not visited, such as a recursive function
    /// inside itself, is shown by name.
    fn flow(&mut self, id: ExprId) -> usize {
        match self.exprs.get(&id) {
            Some(&flow) => flow,
            None => {
                let text = self.m.show_expr(id, &crate::print::op_name);
                self.add(Flow::Text(text))
            }
        }
    }

    fn node(
        &mut self,
        role: Role,
        label: String,
        detail: String,
        ty: String,
        group: Option<usize>,
    ) -> usize {
        self.graph.nodes.push(Node {
            role,
            label,
            detail,
            ty,
            group,
        });
        self.graph.nodes.len() - 1
    }

    fn group(&mut self, label: String, parent: Option<usize>) -> Option<usize> {
        self.graph.groups.push(Group { label, parent });
        Some(self.graph.groups.len() - 1)
    }

    fn ty(&self, ty: Option<TypeId>) -> String {
        ty.map_or(String::new(), |t| self.m.show_type(t))
    }

    /// Creates nodes for the parameters of a function.
    fn params(&mut self, func: FuncId, group: Option<usize>) {
        for &var in &self.m.funcs[func].params {
            let ty = self.types.and_then(|t| t.var(var)).or(self.m.vars[var].ty);
            let (label, ty) = (format!("%{}", self.m.vars[var].name), self.ty(ty));
            let node = self.node(Role::Param, label, String::new(), ty, group);
            let flow = self.add(Flow::Node(node, String::new()));
            self.vars.insert(var, flow);
        }
    }

    /// Binds the variables of a pattern to fields of a node.
    fn take(&mut self, pattern: PatId, value: ExprId) {
        let whole = self.flow(value);
        let flow = match &self.m.patterns[pattern] {
            Pattern::Var(_) => whole,
            _ => match self.flows[whole].clone() {
                Flow::Many(_) | Flow::Text(_) => whole,
                Flow::Node(node, _) => self.add(Flow::Node(node, "·".into())),
            },
        };
        for var in self.m.pattern_vars(pattern) {
            self.vars.insert(var, flow);
        }
    }

    /// Adds edges into a node from its operands; returns those that are text.
    fn join(&mut self, ids: &[ExprId], to: usize) -> Vec<String> {
        let mut texts = Vec::new();
        let mut work: Vec<usize> = ids.iter().map(|&id| self.flow(id)).collect();
        work.reverse();
        while let Some(flow) = work.pop() {
            match &self.flows[flow] {
                Flow::Node(from, label) => self.graph.edges.push(Edge {
                    from: *from,
                    to,
                    label: label.clone(),
                }),
                Flow::Many(parts) => work.extend(parts.iter().rev()),
                Flow::Text(text) => texts.push(text.clone()),
            }
        }
        texts
    }

    /// Returns the callee of a call if it is a function literal with no other use.
    fn inlined(&self, callee: ExprId, args: usize) -> Option<FuncId> {
        let Expr::Func(func) = &self.m.exprs[callee] else {
            return None;
        };
        let once = self.uses[callee] <= 1;
        (once && self.m.funcs[*func].params.len() == args).then_some(*func)
    }

    /// Pushes an expression's operands onto the stack, and the expression below them.
    fn see(&mut self, id: ExprId, group: Option<usize>) {
        let m = self.m;
        match &m.exprs[id] {
            Expr::Let { var, value, body } => {
                self.work.push(Step::Same(id, *body));
                self.work.push(Step::See(*body, group));
                self.work.push(Step::Bind(*var, *value));
                self.work.push(Step::See(*value, group));
            }
            Expr::Dataflow { block, body } => {
                self.work.push(Step::Same(id, *body));
                self.work.push(Step::See(*body, group));
                let inner = self.group("dataflow".into(), group);
                for binding in m.blocks[*block].bindings.iter().rev() {
                    self.work.push(Step::Bind(binding.var, binding.value));
                    self.work.push(Step::See(binding.value, inner));
                }
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                self.work.push(Step::Make(id, group));
                for (label, branch) in [("else", *otherwise), ("then", *then)] {
                    let inner = self.group(label.into(), group);
                    self.work.push(Step::See(branch, inner));
                }
                self.work.push(Step::See(*cond, group));
            }
            Expr::Match { value, clauses, .. } => {
                self.work.push(Step::Make(id, group));
                for clause in clauses.iter().rev() {
                    let inner = self.group(self.pattern(clause.pattern), group);
                    self.work.push(Step::See(clause.body, inner));
                    self.work.push(Step::Take(clause.pattern, *value));
                }
                self.work.push(Step::See(*value, group));
            }
            Expr::Func(func) => {
                self.work.push(Step::Make(id, group));
                let inner = self.group(function_label(&m.funcs[*func].attrs, "fn"), group);
                self.params(*func, inner);
                self.work.push(Step::See(m.funcs[*func].body, inner));
            }
            Expr::Call { callee, args, .. } => {
                let args = m.list(*args);
                if let Some(func) = self.inlined(*callee, args.len()) {
                    let function = &m.funcs[func];
                    self.work.push(Step::Same(id, function.body));
                    let inner = self.group(function_label(&function.attrs, "fused"), group);
                    self.work.push(Step::See(function.body, inner));
                    let binds = function.params.iter().zip(args);
                    self.work.extend(binds.map(|(&v, &a)| Step::Bind(v, a)));
                } else {
                    self.work.push(Step::Make(id, group));
                    self.work.push(Step::See(*callee, group));
                }
                self.work
                    .extend(args.iter().rev().map(|&a| Step::See(a, group)));
            }
            _ => {
                self.work.push(Step::Make(id, group));
                let at = self.work.len();
                m.for_each_child(id, |child| self.work.push(Step::See(child, group)));
                self.work[at..].reverse();
            }
        }
    }

    /// Returns the constructor of a pattern, or a description of its kind.
    fn pattern(&self, pattern: PatId) -> String {
        match &self.m.patterns[pattern] {
            Pattern::Wildcard => "_".into(),
            Pattern::Var(v) => format!("%{}", self.m.vars[*v].name),
            Pattern::Ctor(c, _) => self.m.ctors[*c].name.to_string(),
            Pattern::Tuple(_) => "(…)".into(),
        }
    }

    /// Computes the flow of an expression: a node of its own if it computes anything.
    fn make(&mut self, id: ExprId, group: Option<usize>) {
        let m = self.m;
        let flow = match &m.exprs[id] {
            Expr::Var(v) => match self.vars.get(v) {
                Some(&flow) => {
                    self.exprs.insert(id, flow);
                    return;
                }
                None => Flow::Text(format!("%{}", m.vars[*v].name)),
            },
            Expr::Const(c) if !m.consts[*c].is_scalar() => {
                let t = &m.consts[*c];
                let ty = crate::param::shown(t.dtype(), t.shape());
                let node = self.node(Role::Constant, "constant".into(), String::new(), ty, group);
                Flow::Node(node, String::new())
            }
            Expr::Const(c) => Flow::Text(crate::show::tensor(
                &m.consts[*c],
                crate::show::Extent::Corners,
            )),
            Expr::Global(_) | Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) => {
                Flow::Text(m.show_expr(id, &crate::print::op_name))
            }
            Expr::Tuple(fields) => {
                let fields = m.list(*fields).to_vec();
                Flow::Many(fields.into_iter().map(|f| self.flow(f)).collect())
            }
            Expr::Proj { tuple, index } => {
                let whole = self.flow(*tuple);
                match self.flows[whole].clone() {
                    Flow::Many(parts) if (*index as usize) < parts.len() => {
                        self.exprs.insert(id, parts[*index as usize]);
                        return;
                    }
                    Flow::Node(node, label) => Flow::Node(node, format!("{label}.{index}")),
                    _ => Flow::Text(format!(".{index}")),
                }
            }
            _ => Flow::Node(self.call(id, group), String::new()),
        };
        let flow = self.add(flow);
        self.exprs.insert(id, flow);
    }

    /// Creates a node with edges from all operands of an expression.
    fn call(&mut self, id: ExprId, group: Option<usize>) -> usize {
        let m = self.m;
        let mut from = Vec::new();
        let (mut label, mut attrs) = (String::new(), String::new());
        match &m.exprs[id] {
            Expr::Call {
                callee,
                args,
                attrs: given,
                ..
            } => {
                label = m.show_expr(*callee, &crate::print::op_name);
                if !matches!(
                    m.exprs[*callee],
                    Expr::Op(_) | Expr::Global(_) | Expr::Ctor(_) | Expr::Extern(_)
                ) {
                    from.push(*callee);
                }
                from.extend_from_slice(m.list(*args));
                attrs = attributes(m, *callee, m.attrs(*given));
            }
            Expr::Func(func) => {
                label = "fn".into();
                from.push(m.funcs[*func].body);
            }
            Expr::If { .. } => label = "if".into(),
            Expr::Match { .. } => label = "match".into(),
            _ => {}
        }
        if from.is_empty() && !matches!(m.exprs[id], Expr::Call { .. }) {
            m.for_each_child(id, |child| from.push(child));
        }
        if label.is_empty() {
            label = m.show_expr(id, &crate::print::op_name);
        }
        let ty = self.ty(self.types.and_then(|t| t.expr(id)));
        let node = self.node(Role::Call, label, String::new(), ty, group);
        let mut parts = self.join(&from, node);
        parts.extend((!attrs.is_empty()).then_some(attrs));
        self.graph.nodes[node].detail = cut(&parts.join(", "), DETAIL);
        node
    }
}

/// Returns the label of a nested function, taken from its attributes.
fn function_label(attrs: &Attrs, otherwise: &str) -> String {
    let named = ["Composite", "Compiler"].iter().find_map(|n| attrs.get(n));
    match named.and_then(AttrValue::as_str) {
        Some(name) => name.to_owned(),
        None if attrs.get("Primitive").is_some() => "fused".to_owned(),
        None => otherwise.to_owned(),
    }
}

/// Truncates a text to at most `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Formats the attributes of a call that differ from their defaults.
fn attributes(m: &Module, callee: ExprId, attrs: &Attrs) -> String {
    let known = match &m.exprs[callee] {
        Expr::Op(op) => relax_ops::registry().get(*op),
        _ => None,
    };
    let given = attrs.iter().filter(|(name, value)| {
        let def = known.and_then(|op| op.attrs.iter().find(|a| a.name == name.as_str()));
        def.and_then(|d| d.default.value()).as_ref() != Some(value)
    });
    let texts = given.map(|(name, value)| format!("{name}={}", shown(m, value, 0)));
    texts.collect::<Vec<_>>().join(", ")
}

/// Formats an attribute value; deeply nested lists are abbreviated.
fn shown(m: &Module, value: &AttrValue, depth: usize) -> String {
    match value {
        AttrValue::None => "None".into(),
        AttrValue::Bool(v) => if *v { "True" } else { "False" }.into(),
        AttrValue::Int(v) => v.to_string(),
        AttrValue::Float(v) => v.to_string(),
        AttrValue::Str(v) => format!("{v:?}"),
        AttrValue::DType(v) => v.to_string(),
        AttrValue::Dim(dim) => m.show_dim(dim),
        AttrValue::Array(items) if depth < 3 => {
            let few = items.iter().take(DETAIL);
            let items: Vec<String> = few.map(|i| shown(m, i, depth + 1)).collect();
            format!("[{}]", items.join(", "))
        }
        AttrValue::Array(_) | AttrValue::Dict(_) => "…".into(),
        AttrValue::Meta(key, index) => format!("meta[{key}][{index}]"),
        AttrValue::Attr(name) => name.to_string(),
    }
}
