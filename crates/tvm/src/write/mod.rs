//! Writing of modules as JSON graphs, in the format of `tvm.ir.save_json`.
//!
//! Every expression, variable, operator and type becomes a node once; nodes are numbered at the
//! first reference and filled in from a worklist, so that nothing recurses over nested programs.

mod attrs;
mod exprs;
mod objects;
mod types;

use std::io::{self, Write};

use relax_base::{Code, Diagnostic, Span};
use relax_ir::{
    AdtId, CtorId, ExprId, FuncId, GlobalId, GlobalKind, Module, OpId, PatId, TypeId, TypeParamId,
    TypeSource, VarId,
};
use relax_ops::Release;
use relax_tensor::Tensor;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{Graph, NodeId};
use crate::tensor;

/// Part of the module has no form in a JSON graph.
pub const NO_FORM: Code = Code(1217);

/// The minor versions whose graphs can be written.
pub const RELEASES: std::ops::RangeInclusive<u8> = 9..=15;

/// A graph that is ready to be written out.
#[derive(Debug)]
pub struct Written {
    nodes: Vec<Node>,
    root: u32,
    tensors: Vec<Tensor>,
    release: Release,
}

/// A node: its kind, its fields by name, and optional data.
#[derive(Debug, Default)]
struct Node {
    kind: String,
    fields: Vec<(String, String)>,
    data: Vec<u32>,
    keys: Vec<String>,
    repr: Option<String>,
    /// Base64 data copied from another graph.
    repr_b64: Option<String>,
}

/// A node that is numbered but not filled in yet.
#[derive(Clone, Copy)]
enum Work {
    Expr(ExprId),
    Func(FuncId),
    Pattern(PatId),
    Type(TypeId),
    Ctor(CtorId),
    Object(NodeId),
}

struct Writer<'m> {
    module: &'m Module,
    given: Option<&'m dyn TypeSource>,
    release: Release,
    nodes: Vec<Node>,
    tensors: Vec<Tensor>,
    work: Vec<(u32, Work)>,
    exprs: FxHashMap<ExprId, u32>,
    vars: FxHashMap<VarId, u32>,
    ops: FxHashMap<OpId, u32>,
    globals: FxHashMap<GlobalId, u32>,
    ctors: FxHashMap<CtorId, u32>,
    adts: FxHashMap<AdtId, u32>,
    params: FxHashMap<TypeParamId, u32>,
    types: FxHashMap<TypeId, u32>,
    texts: FxHashMap<String, u32>,
    /// The objects of the metadata section, and the nodes already created for them.
    section: Option<Graph<'m>>,
    objects: FxHashMap<NodeId, u32>,
    /// The default device.
    anywhere: Option<u32>,
    empty: Option<u32>,
    /// The values of variables, computed on first use.
    bound: Option<FxHashMap<VarId, ExprId>>,
    /// The type variables that are bound in the module, and the types without other ones.
    declared: Option<FxHashSet<TypeParamId>>,
    closed: FxHashSet<TypeId>,
    mistakes: Vec<Diagnostic>,
}

/// Converts a module to a graph of a release.
///
/// # Errors
/// Part of the module has no form in such a graph.
pub fn write(
    module: &Module,
    types: Option<&dyn TypeSource>,
    release: Release,
) -> Result<Written, Vec<Diagnostic>> {
    let section = module.metadata.raw.as_deref();
    let section = section.and_then(|raw| Graph::scan(raw.as_bytes(), &|_| ()).ok());
    let mut writer = Writer {
        module,
        given: types,
        release,
        nodes: vec![Node::default()],
        tensors: Vec::new(),
        work: Vec::new(),
        exprs: FxHashMap::default(),
        vars: FxHashMap::default(),
        ops: FxHashMap::default(),
        globals: FxHashMap::default(),
        ctors: FxHashMap::default(),
        adts: FxHashMap::default(),
        params: FxHashMap::default(),
        types: FxHashMap::default(),
        texts: FxHashMap::default(),
        section,
        objects: FxHashMap::default(),
        anywhere: None,
        empty: None,
        bound: None,
        declared: None,
        closed: FxHashSet::default(),
        mistakes: Vec::new(),
    };
    let root = writer.root();
    while let Some((at, work)) = writer.work.pop() {
        let node = match work {
            Work::Expr(e) => writer.expr_node(e),
            Work::Func(f) => writer.func_node(f, None),
            Work::Pattern(p) => writer.pattern_node(p),
            Work::Type(t) => writer.type_node(t),
            Work::Ctor(c) => writer.ctor_node(c),
            Work::Object(id) => writer.object_node(id),
        };
        writer.nodes[at as usize] = node;
    }
    if !writer.mistakes.is_empty() {
        return Err(writer.mistakes);
    }
    Ok(Written {
        nodes: writer.nodes,
        root,
        tensors: writer.tensors,
        release,
    })
}

impl Writer<'_> {
    /// Reports a construct without a form, at its span.
    fn refuse(&mut self, span: Span, what: &str) {
        const MOST: usize = 20;
        if self.mistakes.len() < MOST {
            let message = format!("a JSON graph has no form for {what}");
            self.mistakes
                .push(Diagnostic::error(NO_FORM, span, message));
        }
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Numbers a node that is filled in later.
    fn later(&mut self, work: Work) -> u32 {
        let at = self.push(Node::default());
        self.work.push((at, work));
        at
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let repr = Some(text.to_owned()).filter(|t| !t.is_empty());
        let at = self.push(Node {
            kind: "runtime.String".into(),
            repr,
            ..Node::default()
        });
        self.texts.insert(text.to_owned(), at);
        at
    }

    fn array(&mut self, data: Vec<u32>) -> u32 {
        if data.is_empty()
            && let Some(known) = self.empty
        {
            return known;
        }
        let empty = data.is_empty();
        let at = self.push(Node {
            kind: "Array".into(),
            data,
            ..Node::default()
        });
        if empty {
            self.empty = Some(at);
        }
        at
    }

    fn map(&mut self, entries: Vec<(String, u32)>) -> u32 {
        let (keys, data) = entries.into_iter().unzip();
        self.push(Node {
            kind: "Map".into(),
            keys,
            data,
            ..Node::default()
        })
    }

    /// Adds a map whose keys are nodes.
    fn node_map(&mut self, data: Vec<u32>) -> u32 {
        self.push(Node {
            kind: "Map".into(),
            data,
            ..Node::default()
        })
    }

    fn root(&mut self) -> u32 {
        let module = self.module;
        if let Some(ty) = module.type_item {
            return self.ty(ty);
        }
        if let Some(id) = module.expression {
            let Some(func) = module.global_func(id) else {
                return 0;
            };
            return match module.literal {
                true => self.later(Work::Func(func)),
                false => self.expr(module.funcs[func].body),
            };
        }
        self.whole_module()
    }

    fn whole_module(&mut self) -> u32 {
        let module = self.module;
        let (mut functions, mut names) = (Vec::new(), Vec::new());
        for (id, global) in module.globals.iter() {
            let GlobalKind::Func(func) = global.kind else {
                self.refuse(global.span, "a tensor program");
                continue;
            };
            let var = self.global(id);
            functions.extend([var, self.later(Work::Func(func))]);
            names.push((global.name.as_str().to_owned(), var));
        }
        let (mut types, mut type_names) = (Vec::new(), Vec::new());
        for (id, adt) in module.adts.iter() {
            let header = self.adt(id);
            let vars = adt.params.iter().map(|&p| self.type_param(p)).collect();
            let vars = self.array(vars);
            let ctors = adt.ctors.iter().map(|&c| self.ctor(c)).collect();
            let ctors = self.array(ctors);
            let data = self.push(Node::of("relay.TypeData").with(&[
                ("constructors", ctors),
                ("header", header),
                ("span", 0),
                ("type_vars", vars),
            ]));
            types.extend([header, data]);
            type_names.push((adt.name.as_str().to_owned(), header));
        }
        let nothing = self.map(Vec::new());
        let sources = self.push(Node::of("SourceMap").with(&[("source_map", nothing)]));
        let fields = [
            ("attrs", 0),
            ("functions", self.node_map(functions)),
            ("global_type_var_map_", self.map(type_names)),
            ("global_var_map_", self.map(names)),
            ("source_map", sources),
            ("type_definitions", self.node_map(types)),
        ];
        self.push(Node::of("IRModule").with(&fields))
    }
}

impl Node {
    fn of(kind: &str) -> Node {
        Node {
            kind: kind.to_owned(),
            ..Node::default()
        }
    }

    /// Adds fields that refer to nodes.
    fn with(mut self, fields: &[(&str, u32)]) -> Node {
        let fields = fields.iter().map(|&(n, id)| (n.to_owned(), id.to_string()));
        self.fields.extend(fields);
        self
    }

    /// Adds a field with inline text.
    fn plain(mut self, name: &str, value: impl ToString) -> Node {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }
}

impl Written {
    /// Writes the graph, one node per line.
    ///
    /// # Errors
    /// The output's errors.
    pub fn to(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{{\n  \"root\": {},\n  \"nodes\": [", self.root)?;
        for (i, node) in self.nodes.iter().enumerate() {
            out.write_all(if i == 0 { b"\n    " } else { b",\n    " })?;
            out.write_all(node.line().as_bytes())?;
        }
        out.write_all(b"\n  ],\n  \"b64ndarrays\": [")?;
        for (i, tensor) in self.tensors.iter().enumerate() {
            out.write_all(if i == 0 { b"\n    \"" } else { b",\n    \"" })?;
            base64(out, tensor)?;
            out.write_all(b"\"")?;
        }
        let minor = self.release.0;
        let version = format!("\n  ],\n  \"attrs\": {{\"tvm_version\": \"0.{minor}.0\"}}\n}}\n");
        out.write_all(version.as_bytes())
    }
}

/// Writes a tensor in base64, in pieces.
fn base64(out: &mut dyn Write, t: &Tensor) -> io::Result<()> {
    /// A multiple of three, so that the pieces' encodings can be concatenated.
    const PIECE: usize = 3 << 16;
    let elements = t.bytes();
    let mut rest = tensor::write_header(t.dtype(), t.shape(), elements.len());
    let lead = (3 - rest.len() % 3) % 3;
    let (first, elements) = elements.split_at(lead.min(elements.len()));
    rest.extend(first);
    for piece in [&rest[..]].into_iter().chain(elements.chunks(PIECE)) {
        out.write_all(base64_simd::STANDARD.encode_to_string(piece).as_bytes())?;
    }
    Ok(())
}

impl Node {
    fn line(&self) -> String {
        let mut out = format!("{{\"type_key\": {}", quoted(&self.kind));
        if !self.fields.is_empty() {
            let mut fields: Vec<&(String, String)> = self.fields.iter().collect();
            fields.sort();
            let fields = fields
                .iter()
                .map(|(n, v)| format!("{}: {}", quoted(n), quoted(v)));
            out += &format!(", \"attrs\": {{{}}}", Vec::from_iter(fields).join(", "));
        }
        if !self.keys.is_empty() {
            let keys = self.keys.iter().map(|k| quoted(k));
            out += &format!(", \"keys\": [{}]", Vec::from_iter(keys).join(", "));
        }
        if !self.data.is_empty() {
            out += &format!(", \"data\": {:?}", self.data);
        }
        match (&self.repr, &self.repr_b64) {
            (Some(text), _) if text.bytes().all(|b| (32..127).contains(&b)) => {
                out += &format!(", \"repr_str\": {}", quoted(text));
            }
            (Some(text), _) => {
                let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
                bytes.extend(text.as_bytes());
                let text = base64_simd::STANDARD.encode_to_string(bytes);
                out += &format!(", \"repr_b64\": \"{text}\"");
            }
            (None, Some(text)) => out += &format!(", \"repr_b64\": {}", quoted(text)),
            (None, None) => {}
        }
        out + "}"
    }
}

/// Quotes a string in TVM's JSON dialect.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
