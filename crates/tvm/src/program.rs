//! Conversion of a graph to a syntax tree, as if parsed from the program's text.

use std::ops::Range;

use relax_base::{Span, Symbol};
use relax_ops::Release;
use relax_syntax::ast::{self, Ast, ExprId, FileForm, ItemKind, List, PatId, StmtId};
use relax_tensor::Tensor;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes;
use crate::error::{Found, Mistake};
use crate::expr::Task;
use crate::graph::{Graph, NodeId};
use crate::kinds::Sort;
use crate::names::{self, Items, Names};
use crate::objects::Objects;
use crate::tensor;
use crate::types::Types;
use crate::walk::Uses;

/// A converted graph, ready for name resolution.
#[derive(Debug)]
pub struct Program {
    /// The syntax tree. Names shared by several variables have a suffix that makes them unique;
    /// [`plain_name`] removes it.
    pub ast: Ast,
    /// The values of `meta[relay.Constant][i]` in it.
    pub constants: Vec<(u32, Tensor)>,
    /// Whether the graph contains expression types; they are in the tree's side tables.
    pub typed: bool,
    /// The release that wrote the graph, if it says so.
    pub release: Option<Release>,
}

/// Returns the name of a variable as in the graph.
pub fn plain_name(name: Symbol) -> Symbol {
    names::plain(name)
}

/// Converts a graph to a syntax tree. Its spans are in a source that begins at position `start`.
/// `unneeded` is called with byte ranges that are no longer needed.
///
/// # Errors
/// The graph is not a Relay program, or is corrupted.
pub fn program(
    graph: &Graph<'_>,
    start: u32,
    unneeded: &dyn Fn(Range<usize>),
) -> Result<Program, Mistake> {
    let mut builder = Builder {
        g: graph,
        start,
        unneeded,
        out: Ast::new(),
        objects: Objects::default(),
        types: Types::default(),
        vars: Names::default(),
        items: Items::default(),
        bound: FxHashSet::default(),
        free: false,
        uses: Uses::default(),
        budget: 64 * graph.nodes.len() + (1 << 20),
        graph: FxHashMap::default(),
        graph_vars: 0,
        tasks: Vec::new(),
        values: Vec::new(),
        blocks: Vec::new(),
        pats: Vec::new(),
        fns: Vec::new(),
        constants: Default::default(),
        constant_index: FxHashMap::default(),
        tensors: FxHashMap::default(),
        typed: false,
    };
    builder.root()?;
    builder.out.metadata_text = builder.objects.section(graph);
    Ok(Program {
        ast: builder.out,
        constants: numbered(builder.constants),
        typed: builder.typed,
        release: graph.release(),
    })
}

/// The index of the first inline constant.
const IN_PLACE: u32 = 1 << 31;

fn numbered([list, in_place]: [Vec<Tensor>; 2]) -> Vec<(u32, Tensor)> {
    let list = (0..).zip(list);
    list.chain((IN_PLACE..).zip(in_place)).collect()
}

/// The syntax tree under construction.
pub(crate) struct Builder<'g, 'a> {
    pub(crate) g: &'g Graph<'a>,
    pub(crate) start: u32,
    unneeded: &'g dyn Fn(Range<usize>),
    pub(crate) out: Ast,
    pub(crate) objects: Objects,
    pub(crate) types: Types,
    pub(crate) items: Items,
    /// The names of variables in the current item.
    pub(crate) vars: Names,
    /// The variables among them that are bound.
    pub(crate) bound: FxHashSet<NodeId>,
    /// Whether unbound variables are declared, as in an expression file.
    pub(crate) free: bool,
    pub(crate) uses: Uses,
    budget: usize,
    /// The graph variables of the current item, for expressions with several uses.
    pub(crate) graph: FxHashMap<NodeId, u32>,
    pub(crate) graph_vars: u32,
    pub(crate) tasks: Vec<Task>,
    pub(crate) values: Vec<ExprId>,
    /// The statements of the open blocks.
    pub(crate) blocks: Vec<Vec<StmtId>>,
    pub(crate) pats: Vec<PatId>,
    /// The unfinished functions, whose bodies are missing.
    pub(crate) fns: Vec<ast::Function>,
    /// Listed and inline constants.
    constants: [Vec<Tensor>; 2],
    constant_index: FxHashMap<NodeId, u32>,
    tensors: FxHashMap<u32, Tensor>,
    pub(crate) typed: bool,
}

impl Builder<'_, '_> {
    fn root(&mut self) -> Found<()> {
        let (g, root) = (self.g, self.g.root);
        let span = g.span(self.start, root);
        match g.sort(root) {
            Sort::Module => self.module(root),
            sort if sort.is_expr() => {
                self.out.form = FileForm::Expression;
                self.free = true;
                self.begin(root)?;
                let body = self.block(root, false)?;
                self.item(ItemKind::Expr(body), span);
                Ok(())
            }
            sort if sort.is_type() => {
                self.out.form = FileForm::Type;
                self.free_types()?;
                let ty = self.ty(root)?;
                self.item(ItemKind::Type(ty), span);
                Ok(())
            }
            _ => {
                let name = match &*g.kind(root).name {
                    "" => "null",
                    name => name,
                };
                let message = format!(
                    "the graph holds no module, function, expression or type of Relay, but `{name}`"
                );
                Err(g.mistake_of(codes::NO_PROGRAM, root, message))
            }
        }
    }

    fn item(&mut self, kind: ItemKind, span: Span) {
        let name_span = span;
        self.out.items.push(ast::Item {
            kind,
            span,
            name_span,
        });
    }

    fn module(&mut self, id: NodeId) -> Found<()> {
        let g = self.g;
        let mut types = self.named(id, "type_definitions", Sort::GlobalTypeVar)?;
        types.sort();
        for (name, data) in types {
            self.type_def(name, data)?;
        }
        let mut functions = self.named(id, "functions", Sort::GlobalVar)?;
        functions.sort();
        for (name, function) in functions {
            let span = g.span(self.start, function);
            let name = Symbol::new(name);
            let kind = if g.sort(function) == Sort::Func {
                let function = self.def(function)?;
                ItemKind::Def { name, function }
            } else {
                let (key, index) = self.objects.refer(g, function);
                let value = self.out.expr(ast::ExprKind::Meta { key, index }, span);
                ItemKind::DefMeta { name, value }
            };
            self.item(kind, span);
        }
        Ok(())
    }

    /// Returns the entries of a map whose keys are nodes with a name.
    fn named(&mut self, id: NodeId, field: &str, key: Sort) -> Found<Vec<(&'static str, NodeId)>> {
        let g = self.g;
        let map = g.refers(id, field)?;
        if !matches!(g.sort(map), Sort::Map | Sort::Null) {
            return Err(g.wrong(id, field, map, "a map"));
        }
        let (pairs, rest) = g.data(map).as_chunks::<2>();
        if !rest.is_empty() || g.keys(map).next().is_some() {
            return Err(g.mistake(map, format!("`{field}` must map nodes to nodes")));
        }
        let named = |&[name, value]: &[NodeId; 2]| {
            if g.sort(name) != key {
                return Err(g.mistake(name, format!("a key of `{field}` is no name")));
            }
            Ok((self.items.of(self.g, name)?.as_str(), value))
        };
        pairs.iter().map(named).collect()
    }

    fn type_def(&mut self, name: &str, id: NodeId) -> Found<()> {
        let g = self.g;
        if g.sort(id) != Sort::TypeData {
            return Err(g.mistake(
                id,
                format!("`{name}` is defined by something that is no data type"),
            ));
        }
        let span = g.span(self.start, id);
        let params = self.type_params(g.array(id, "type_vars")?, span)?;
        let mut ctors = Vec::new();
        for &ctor in g.array(id, "constructors")? {
            if g.sort(ctor) != Sort::Ctor {
                return Err(g.mistake(ctor, "a constructor is expected here"));
            }
            let mut fields = Vec::new();
            for &field in g.array(ctor, "inputs")? {
                fields.push(self.ty(field)?);
            }
            let parens = !fields.is_empty();
            let fields = self.out.make_list(fields);
            let name = self.items.of(self.g, ctor)?;
            ctors.push(self.out.ctors.push(ast::Ctor {
                name,
                fields,
                parens,
                ret: None,
                span: g.span(self.start, ctor),
            }));
        }
        let kind = ItemKind::TypeDef(ast::TypeDef {
            name: Symbol::new(name),
            params,
            ctors: self.out.make_list(ctors),
            data: false,
            external: false,
            angle: false,
            braces: true,
        });
        self.item(kind, span);
        Ok(())
    }

    fn def(&mut self, id: NodeId) -> Found<ast::FnId> {
        self.begin(id)?;
        let head = self.fn_head(id)?;
        let body = self.g.expr_field(id, "body")?;
        let body = self.block(body, true)?;
        Ok(self.out.functions.push(ast::Function { body, ..head }))
    }

    /// Starts an item: names and graph variables are local to it.
    fn begin(&mut self, root: NodeId) -> Found<()> {
        self.vars.clear();
        self.bound.clear();
        self.graph.clear();
        let count = self.uses.count(self.g, root)?;
        match self.budget.checked_sub(count) {
            Some(left) => self.budget = left,
            None => {
                let message = "the functions repeat each other too often to be written out";
                return Err(self.g.mistake_of(codes::TOO_LARGE, root, message));
            }
        }
        Ok(())
    }

    /// Converts the parts of a function before its body.
    pub(crate) fn fn_head(&mut self, id: NodeId) -> Found<ast::Function> {
        let g = self.g;
        let header = g.span(self.start, id);
        let type_params = self.type_params(g.array(id, "type_params")?, header)?;
        let mut params = Vec::new();
        for &var in g.array(id, "params")? {
            params.push(self.binder(id, "params", var)?);
        }
        let params = self.out.make_list(params);
        let ret = self.type_field(id, "ret_type")?;
        let attrs = match g.refers(id, "attrs")? {
            0 => List::EMPTY,
            attrs => self.dict_attrs(attrs)?,
        };
        let device = self.device(id)?;
        let attrs: Vec<_> = self.out.list(attrs).chain(device).collect();
        let attrs = self.out.make_list(attrs);
        Ok(ast::Function {
            type_params,
            angle: false,
            params,
            attrs,
            ret,
            relations: List::EMPTY,
            body: ExprId(0),
            header,
        })
    }

    /// Declares the names in types that nothing in the graph defines.
    fn free_types(&mut self) -> Found<()> {
        let g = self.g;
        let mut bound: FxHashSet<NodeId> = FxHashSet::default();
        let mut free: Vec<(Symbol, usize, NodeId)> = Vec::new();
        for id in 1..g.nodes.len() as NodeId {
            match g.sort(id) {
                Sort::FuncType => bound.extend(g.array(id, "type_params")?),
                Sort::TypeCall => {
                    let (func, count) = (g.refers(id, "func")?, g.array(id, "args")?.len());
                    free.push((self.data_type(func)?, count, func));
                }
                Sort::TypeVar => free.push((self.type_variable(id)?, 0, id)),
                _ => {}
            }
        }
        let mut seen = FxHashSet::default();
        free.retain(|f| !bound.contains(&f.2) && seen.insert(f.0));
        for (name, count, id) in free {
            let span = g.span(self.start, id);
            let params: Vec<_> = (0..count)
                .map(|i| {
                    let name = Symbol::new(&format!("{}{i}", names::plain(name)));
                    let kind = None;
                    (self.out.type_params).push(ast::TypeParam { name, kind, span })
                })
                .collect();
            let kind = ItemKind::TypeDef(ast::TypeDef {
                name,
                params: self.out.make_list(params),
                ctors: List::EMPTY,
                data: false,
                external: true,
                angle: false,
                braces: false,
            });
            self.item(kind, span);
        }
        Ok(())
    }

    /// Returns the device of a variable or function as an attribute, if it has one.
    pub(crate) fn device(&mut self, id: NodeId) -> Found<Option<ast::AttrId>> {
        let g = self.g;
        let device = g.refers(id, "virtual_device_")?;
        if device == 0 {
            return Ok(None);
        }
        let open = |field: &str| matches!(g.field(device, field).as_deref(), None | Some("-1"));
        let scope = g.refers(device, "memory_scope")?;
        let target = g.refers(device, "target")?;
        let anywhere = open("device_type_int") && open("virtual_device_id");
        if anywhere && target == 0 && g.text(scope).unwrap_or_default().is_empty() {
            return Ok(None);
        }
        let span = g.span(self.start, device);
        let (key, index) = self.objects.refer(g, device);
        let value = self.out.expr(ast::ExprKind::Meta { key, index }, span);
        Ok(Some(self.out.attr("virtual_device".into(), value, span)))
    }

    /// Returns the index of a constant among those that the tree refers to.
    ///
    /// TVM's text has scalars inline and other constants in a list, and attributes refer to list
    /// positions: hence inline constants have indices far from those of the list.
    pub(crate) fn constant(&mut self, id: NodeId, may_stand_in_place: bool) -> Found<u32> {
        if let Some(&index) = self.constant_index.get(&id) {
            return Ok(index);
        }
        let g = self.g;
        let number: u32 = g.number(id, "data")?;
        let tensor = match self.tensors.get(&number) {
            Some(tensor) => tensor.clone(),
            None => {
                let tensor = self.tensor(id, number)?;
                self.tensors.insert(number, tensor.clone());
                tensor
            }
        };
        let in_place = may_stand_in_place && tensor.is_scalar();
        let list = usize::from(in_place);
        let index = self.constants[list].len() as u32 + if in_place { IN_PLACE } else { 0 };
        self.constants[list].push(tensor);
        self.constant_index.insert(id, index);
        Ok(index)
    }

    fn tensor(&self, id: NodeId, number: u32) -> Found<Tensor> {
        let g = self.g;
        let Some(place) = g.tensors.get(number as usize) else {
            let count = g.tensors.len();
            let message =
                format!("the constant refers to tensor {number}, but there are {count} tensors");
            return Err(g.mistake_of(codes::BAD_TENSOR, id, message));
        };
        let text = g.bytes.get(place.clone()).unwrap_or_default();
        let begin = place.start;
        let unneeded = |part: Range<usize>| (self.unneeded)(begin + part.start..begin + part.end);
        tensor::decode(text, &unneeded).map_err(|(at, why)| {
            let at = begin + at;
            let message = format!("{why}: tensor {number}, byte {at}");
            g.mistake_of(codes::BAD_TENSOR, id, message)
        })
    }
}
