//! Translation of graphs, node by node.

use std::rc::Rc;

use relax_sym::Dim;
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use crate::cx::Cx;
use crate::names::readable;
use crate::node::{Fault, Node, R};
use crate::proto::{
    AttributeProto, DimensionValue, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto,
    TensorTypeProto,
};
use crate::tensor::{self, Files};
use crate::value::{Val, Value};
use crate::{ints, order, table};

/// A node that could not be translated.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The node's name, or that of its output.
    pub node: String,
    /// The operator, with its domain.
    pub operator: String,
    /// The domain's operator set version.
    pub opset: i64,
    /// The enclosing functions and graphs.
    pub scope: Vec<String>,
    /// The reason.
    pub fault: Fault,
    /// The types of its inputs, and where these come from.
    pub takes: Vec<String>,
}

/// A value whose type differs from what the model states.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The value's name.
    pub value: String,
    /// The actual type.
    pub found: String,
    /// The type that the model states.
    pub stated: String,
    /// The node that computes it.
    pub giver: String,
}

/// The nesting limit of function calls and subgraphs.
const DEEPEST: usize = 64;
/// The limit on translated nodes, bodies of functions and loops counted at each translation: nested
/// function calls can expand exponentially.
const MOST_NODES: usize = 1 << 18;
/// The maximum rank.
const MOST_AXES: usize = 64;

/// The state of translating a model.
pub struct Tr<'a> {
    /// The text under construction.
    pub cx: Cx,
    /// The values by name, innermost graph last.
    names: Vec<FxHashMap<String, Value>>,
    opsets: Vec<OperatorSetIdProto>,
    functions: &'a [FunctionProto],
    files: Files<'a>,
    /// The enclosing functions and graphs.
    around: Vec<String>,
    /// The nodes that could not be translated.
    pub problems: Vec<Problem>,
    /// The number of translated nodes.
    translated: usize,
    /// Inputs that cannot be used, and why.
    pub refused: FxHashMap<String, String>,
    /// The ranks that the model states for its values.
    pub ranks: FxHashMap<String, usize>,
    /// The node that computes each value.
    givers: FxHashMap<String, Rc<str>>,
    /// The types that the model states for the values of its graph.
    pub stated: FxHashMap<String, TensorTypeProto>,
    /// Values whose types differ from the stated ones.
    pub mismatches: Vec<Mismatch>,
}

impl std::ops::Deref for Tr<'_> {
    type Target = Cx;
    fn deref(&self) -> &Cx {
        &self.cx
    }
}
impl std::ops::DerefMut for Tr<'_> {
    fn deref_mut(&mut self) -> &mut Cx {
        &mut self.cx
    }
}

/// Normalises the name of a domain.
pub fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

impl<'a> Tr<'a> {
    /// Starts translating a model with these operator sets and functions.
    pub fn new(
        opsets: &[OperatorSetIdProto],
        functions: &'a [FunctionProto],
        files: Files<'a>,
    ) -> Tr<'a> {
        Tr {
            cx: Cx::new(),
            names: vec![FxHashMap::default()],
            opsets: opsets.to_vec(),
            functions,
            files,
            around: Vec::new(),
            problems: Vec::new(),
            translated: 0,
            refused: FxHashMap::default(),
            ranks: FxHashMap::default(),
            givers: FxHashMap::default(),
            stated: FxHashMap::default(),
            mismatches: Vec::new(),
        }
    }
    /// Returns the operator set version of a domain.
    pub fn opset(&self, name: &str) -> i64 {
        let of = |o: &&OperatorSetIdProto| domain(&o.domain) == domain(name);
        self.opsets.iter().find(of).map_or(1, |o| o.version)
    }
    /// Defines a value.
    pub fn define(&mut self, name: &str, value: Value) {
        let innermost = self.names.last_mut().expect("a graph is open");
        innermost.insert(name.to_owned(), value);
    }
    /// Returns the value of a name.
    pub fn lookup(&self, name: &str) -> Option<Value> {
        if name.is_empty() {
            return Some(Value::Nothing);
        }
        self.names.iter().rev().find_map(|n| n.get(name)).cloned()
    }
    /// Returns whether the nesting limit of graphs is reached.
    pub fn too_deep(&self) -> bool {
        self.around.len() >= DEEPEST
    }
    /// Enters the scope of a nested graph.
    pub fn enter(&mut self, what: String) {
        self.names.push(FxHashMap::default());
        self.around.push(what);
    }
    /// Leaves it.
    pub fn leave(&mut self) {
        self.names.pop();
        self.around.pop();
    }
    fn problem(&mut self, node: &NodeProto, fault: Fault) {
        if matches!(fault, Fault::Follows) {
            return;
        }
        let (name, operator) = (called(node), operator(node));
        let takes = match fault {
            Fault::Invalid(_) => self.takes(node),
            _ => Vec::new(),
        };
        self.problems.push(Problem {
            takes,
            node: name,
            operator,
            opset: self.opset(&node.domain),
            scope: self.around.clone(),
            fault,
        });
    }

    /// Returns the types of a node's inputs, and where they come from.
    fn takes(&self, node: &NodeProto) -> Vec<String> {
        let mut out = Vec::new();
        for name in node.input.iter().filter(|n| !n.is_empty()) {
            let Some(value) = self.lookup(name) else {
                continue;
            };
            let ty = match &value {
                Value::Tensor(v) => self.cx.show(v),
                Value::Other(_, kind) => self.cx.show_kind(kind),
                Value::Seq(items) => format!("a sequence of {}", items.len()),
                Value::Nothing | Value::Failed => continue,
            };
            let giver = match self.givers.get(name) {
                Some(giver) => format!("from {giver}"),
                None if matches!(&value, Value::Tensor(v) if v.tensor().is_some()) => {
                    "an initialiser".into()
                }
                None => "an input of the graph".into(),
            };
            out.push(format!("`{name}` is {ty}, {giver}"));
        }
        out
    }

    /// Compares a value with what the model states about it.
    fn compare(&mut self, name: &str, giver: &str, value: &Value) {
        let (Value::Tensor(v), Some(stated)) = (value, self.stated.get(name)) else {
            return;
        };
        let dims = stated.shape.as_ref().map(|s| &s.dim);
        let other = |(own, d): (&Dim, &crate::proto::DimensionProto)| match d.value {
            Some(DimensionValue::Value(n)) => n >= 0 && own.as_const().is_some_and(|m| m != n),
            _ => false,
        };
        let shape =
            dims.is_some_and(|dims| dims.len() != v.rank() || v.dims.iter().zip(dims).any(other));
        if !shape && (stated.elem_type == v.elem.0 || stated.elem_type == 0) {
            return;
        }
        let extent = |d: &crate::proto::DimensionProto| match &d.value {
            Some(DimensionValue::Value(n)) => n.to_string(),
            Some(DimensionValue::Param(p)) => p.clone(),
            None => "?".into(),
        };
        let extents = |dims: &Vec<_>| dims.iter().map(extent).collect::<Vec<_>>().join(", ");
        let elem = crate::value::Elem(stated.elem_type).name();
        let stated = match dims {
            Some(dims) => format!("({}) of {elem}", extents(dims)),
            None => elem,
        };
        let own: Vec<String> = v.dims.iter().map(|d| self.cx.module.show_dim(d)).collect();
        let found = format!("({}) of {}", own.join(", "), v.elem.name());
        self.mismatches.push(Mismatch {
            value: name.to_owned(),
            found,
            stated,
            giver: giver.to_owned(),
        });
    }

    /// Defines a graph's constants.
    pub fn initializers(&mut self, graph: &GraphProto) -> R<()> {
        for t in &graph.initializer {
            let (tensor, elem) = match tensor::read(t, self.files) {
                Ok(read) => read,
                Err(fault) => {
                    self.define(&t.name, Value::Failed);
                    let node = NodeProto {
                        name: t.name.clone(),
                        op_type: "initializer".into(),
                        ..NodeProto::default()
                    };
                    self.problem(&node, fault);
                    continue;
                }
            };
            let v = Val::constant(tensor, elem, &readable(&t.name, "w"));
            self.define(&t.name, v.into());
        }
        for t in &graph.sparse_initializer {
            let name = t.values.as_ref().map_or("", |v| &v.name);
            let (tensor, elem) = tensor::dense(t)?;
            let v = Val::constant(tensor, elem, &readable(name, "w"));
            self.define(name, v.into());
        }
        Ok(())
    }

    /// Translates nodes, each after those whose results it takes.
    pub fn nodes(&mut self, nodes: &[NodeProto]) {
        for node in order::ordered(nodes) {
            self.translated += 1;
            if self.translated > MOST_NODES {
                if self.translated == MOST_NODES + 1 {
                    self.problem(node, "the model is too large".into());
                }
                return;
            }
            self.node(node);
        }
    }
    /// Returns the values of a graph's outputs.
    pub fn outputs(&self, names: impl Iterator<Item = impl AsRef<str>>) -> R<Vec<Value>> {
        names
            .map(|name| {
                let name = name.as_ref();
                let value = self.lookup(name);
                value.ok_or_else(|| format!("there is no value `{name}`").into())
            })
            .collect()
    }

    fn node(&mut self, node: &NodeProto) {
        let given = self.try_node(node);
        let results = match given {
            Ok(results) => results,
            Err(fault) => {
                self.problem(node, fault);
                vec![Value::Failed; node.output.len()]
            }
        };
        let giver: Rc<str> = format!("{} `{}`", operator(node), called(node)).into();
        for (name, value) in node.output.iter().zip(results) {
            if !name.is_empty() {
                if self.around.is_empty() {
                    self.compare(name, &giver, &value);
                }
                self.givers.insert(name.clone(), Rc::clone(&giver));
                self.define(name, value);
            }
        }
    }

    fn try_node(&mut self, node: &NodeProto) -> R<Vec<Value>> {
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            let value = self.lookup(name);
            inputs.push(
                value.ok_or_else(|| format!("it takes `{name}`, which nothing before it gives"))?,
            );
        }
        if inputs.iter().any(|v| matches!(v, Value::Failed)) && self.entry(node).is_ok() {
            return match node.input.iter().find_map(|name| self.refused.get(name)) {
                Some(why) => Err(Fault::Unsupported(why.clone())),
                None => Err(Fault::Follows),
            };
        }
        self.name_lines(node);
        let opset = self.opset(&node.domain);
        if let Some(function) = self.function(node) {
            return self.inline(function, node, inputs);
        }
        let entry = self.entry(node)?;
        let n = Node {
            proto: node,
            inputs,
            opset,
        };
        let mut results = (entry.translate)(self, &n)?;
        let wide = |v: &Value| matches!(v, Value::Tensor(v) if v.rank() > MOST_AXES);
        if results.iter().any(wide) {
            return Err(format!("a result has more than {MOST_AXES} axes").into());
        }
        let known = ints::evaluate(&n, &results);
        for (k, value) in results.iter_mut().enumerate() {
            if let (Value::Tensor(v), Some(Some(ints))) = (&mut *value, known.get(k)) {
                learn(v, ints);
            }
            if let (0, Value::Tensor(v)) = (k, &mut *value)
                && v.ints.is_none()
            {
                v.some = ints::partly(&n, v).map(Rc::from);
            }
            if let Some(name) = node.output.get(k).filter(|n| !n.is_empty()) {
                self.cx.named(value, name);
            }
        }
        Ok(results)
    }

    /// Sets the preferred name of new lines.
    fn name_lines(&mut self, node: &NodeProto) {
        let op = node.op_type.to_lowercase();
        let first = node.output.iter().find(|o| !o.is_empty());
        let name = first.map_or(op.clone(), |o| readable(o, &op));
        self.cx.hint = name.into();
        let scope = match node.name.rsplit_once('/') {
            Some((scope, _)) => scope.trim_start_matches('/').to_owned(),
            None => noted_scope(node),
        };
        let plain: String = scope.chars().filter(|c| !c.is_control()).collect();
        self.cx.scope = plain.into();
    }
    fn entry(&self, node: &NodeProto) -> R<&'static table::Entry> {
        let domain = domain(&node.domain);
        let version = self.opset(domain);
        table::find(domain, &node.op_type, version)
    }
    fn function(&self, node: &NodeProto) -> Option<&'a FunctionProto> {
        let fits = |f: &&FunctionProto| {
            f.name == node.op_type
                && domain(&f.domain) == domain(&node.domain)
                && f.overload == node.overload
        };
        self.functions.iter().find(fits)
    }

    /// Inlines the body of a function at a call.
    fn inline(
        &mut self,
        f: &'a FunctionProto,
        node: &NodeProto,
        inputs: Vec<Value>,
    ) -> R<Vec<Value>> {
        let what = format!("function {}", f.name);
        if self.too_deep() || self.around.contains(&what) {
            return Err(format!("the function `{}` calls itself", f.name).into());
        }
        let outer = std::mem::take(&mut self.names);
        let opsets = std::mem::replace(&mut self.opsets, f.opset_import.clone());
        self.enter(what);
        for (i, name) in f.input.iter().enumerate() {
            let value = inputs.get(i).cloned().unwrap_or(Value::Nothing);
            self.define(name, value);
        }
        let body: Vec<NodeProto> = f.node.iter().map(|n| with_attributes(n, f, node)).collect();
        self.nodes(&body);
        let results = self.outputs(f.output.iter());
        self.leave();
        self.names = outer;
        self.opsets = opsets;
        results
    }
}

/// Returns a node's name, or that of its output.
fn called(node: &NodeProto) -> String {
    match (&node.name, node.output.first()) {
        (name, _) if !name.is_empty() => name.clone(),
        (_, Some(output)) => output.clone(),
        _ => String::new(),
    }
}

/// Returns the module that a node belongs to, as recorded by PyTorch's exporter: the second last of
/// a list such as `['', 'encoder', 'encoder.layers.0', 'linear_3']`.
fn noted_scope(node: &NodeProto) -> String {
    let key = "pkg.torch.onnx.name_scopes";
    let Some(noted) = node.metadata_props.iter().find(|p| p.key == key) else {
        return String::new();
    };
    let list = noted.value.trim_matches(['[', ']']);
    let module = list.rsplit(", ").nth(1).unwrap_or_default();
    let mut out = String::new();
    for part in module
        .trim_matches('\'')
        .split('.')
        .filter(|p| !p.is_empty())
    {
        // Numeric parts are indices of the preceding list.
        let number = part.bytes().all(|b| b.is_ascii_digit());
        if !out.is_empty() {
            out.push(if number { '.' } else { '/' });
        }
        out.push_str(part);
    }
    out
}

/// Returns a node's operator with its domain.
fn operator(node: &NodeProto) -> String {
    match domain(&node.domain) {
        "" => node.op_type.clone(),
        d => format!("{d}.{}", node.op_type),
    }
}

/// Records what is known about a value's elements.
fn learn(v: &mut Val, ints: &[Dim]) {
    if v.tensor().is_some() {
        return;
    }
    let shape: Option<Vec<i64>> = v.dims.iter().map(Dim::as_const).collect();
    let values: Option<Vec<i64>> = ints.iter().map(Dim::as_const).collect();
    if let (Some(shape), Some(values)) = (shape, values)
        && v.elem.narrow().is_none()
        && shape.iter().product::<i64>() == values.len() as i64
    {
        let mut t = Tensor::zeros(v.dtype(), &shape);
        for (i, &x) in values.iter().enumerate() {
            match t.dtype().is_float() {
                true => t.set_f64(i, x as f64),
                false => t.set_i64(i, x),
            }
        }
        *v = Val::constant(t, v.elem, "c");
    }
    v.ints = Some(Rc::from(ints));
}

/// Returns a node of a function's body with the attributes of the call substituted.
fn with_attributes(n: &NodeProto, f: &FunctionProto, call: &NodeProto) -> NodeProto {
    let mut n = n.clone();
    fill(&mut n, f, call);
    n
}

fn fill(n: &mut NodeProto, f: &FunctionProto, call: &NodeProto) {
    let own = std::mem::take(&mut n.attribute);
    for mut a in own {
        if !a.ref_attr_name.is_empty() {
            let named = |x: &&AttributeProto| x.name == a.ref_attr_name;
            let given = call.attribute.iter().find(named);
            let Some(value) = given.or_else(|| f.attribute_proto.iter().find(named)) else {
                continue;
            };
            let name = a.name;
            a = value.clone();
            a.name = name;
        } else if let Some(g) = &mut a.g {
            for inner in &mut g.node {
                fill(inner, f, call);
            }
        }
        n.attribute.push(a);
    }
}
