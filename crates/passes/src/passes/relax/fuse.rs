//! `relax-fuse-ops`: outlines calls of tensor programs that can be one kernel into a private
//! function.
//!
//! A program's fusion kind is the one that its text is annotated with (`annotate-tir-op-pattern`),
//! or is derived from its loops if it has no text. The nodes are the bindings of a dataflow block;
//! outputs of the block have uses outside.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, Memo, Module,
    Type, TypeId, VarId, VarStyle, functions_equal,
};
use relax_ops::{Fusion, Lowering};
use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

use super::patterns;
use super::spoken::{enclosed, free_dims, speaks_alone};
use crate::code::{Bind, Code, Part, Seq, each_code, each_var, fresh};
use crate::passes::fuse_ops::groups::{Graph, Groups};
use crate::util::{called_op, is_settled};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-fuse-ops",
    doc: "Relax's fuse-ops: calls of tensor programs that can be one kernel become a function.",
    options: &[OptionDef {
        name: "max-depth",
        ty: OptionType::Int,
        default: "256",
        doc: "a function holds at most so many bindings",
    }],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let most = usize::try_from(cx.options.int("max-depth")).unwrap_or(usize::MAX);
    let typing = cx.typing()?;
    let mut made = Made::default();
    each_code(cx.module, |m, func, code| {
        if is_settled(&m.funcs[func]) {
            return false;
        }
        fuse(m, &typing, func, code, most, &mut made)
    });
    cx.count("functions made", made.count);
    Ok(())
}

/// The functions created so far.
#[derive(Default)]
pub(super) struct Made {
    /// By the name that they were to have: equal functions are to have the same.
    globals: FxHashMap<String, Vec<GlobalId>>,
    pub count: u64,
}

impl Made {
    /// Returns a global for a function, reusing an equal one.
    ///
    /// If the name is taken, a number is inserted before its suffix.
    pub fn global(
        &mut self,
        m: &mut Module,
        (name, suffix): (&str, &str),
        func: FuncId,
    ) -> GlobalId {
        let same = |g: &&GlobalId| {
            m.global_func(**g)
                .is_some_and(|f| functions_equal(m, f, func))
        };
        let mut unique = format!("{name}{suffix}");
        let alike = self.globals.entry(unique.clone()).or_default();
        if let Some(&g) = alike.iter().find(same) {
            return g;
        }
        let mut i = 0;
        while taken(m, &unique) {
            i += 1;
            unique = format!("{name}{i}{suffix}");
        }
        let g = m.globals.push(Global {
            name: Symbol::new(&unique),
            kind: GlobalKind::Func(func),
            span: m.funcs[func].span,
            prelude: false,
        });
        alike.push(g);
        self.count += 1;
        g
    }
}

/// Returns whether a name is in use.
pub(super) fn taken(m: &Module, name: &str) -> bool {
    let kept = m
        .script
        .as_deref()
        .is_some_and(|s| s.kept(Symbol::new(name)).is_some());
    m.global(name).is_some() || kept
}

/// Returns whether a call is of a program that exists only as text.
fn names_text(m: &Module, e: ExprId) -> bool {
    let Expr::Call { args, .. } = m.exprs[e] else {
        return false;
    };
    let callee = m.list(args).first().map(|&f| &m.exprs[f]);
    match (callee, m.script.as_deref()) {
        (Some(Expr::Extern(name)), Some(script)) => script.kept(*name).is_some(),
        _ => false,
    }
}

/// Returns the name of the program that a binding calls, and its arguments.
fn program(m: &Module, b: &Bind) -> Option<(Symbol, Vec<ExprId>)> {
    let e = b.expr()?;
    let tir = called_op(m, e).is_some_and(|d| {
        // A program that exists only as text is called like an external function, by a name that
        // the module defines.
        d.hooks.lowering == Lowering::CallTir
            || d.hooks.lowering == Lowering::CallDpsPacked && names_text(m, e)
    });
    if !tir && super::kept::name(m, e) != Some("call_tir_inplace") {
        return None;
    }
    let Expr::Call { args, .. } = m.exprs[e] else {
        return None;
    };
    let args = m.list(args);
    let name = match m.exprs[*args.first()?] {
        Expr::Global(g) => m.globals[g].name,
        Expr::Extern(name) => name,
        _ => return None,
    };
    match m.exprs[*args.get(1)?] {
        Expr::Tuple(fields) => Some((name, m.list(fields).to_vec())),
        _ => None,
    }
}

fn fuse(
    m: &mut Module,
    typing: &Typing,
    func: FuncId,
    code: &mut Code,
    most: usize,
    made: &mut Made,
) -> bool {
    // Projections of weight parameters are not moved into functions.
    let weights: FxHashSet<VarId> = match m.funcs[func].attrs.get("num_input") {
        Some(n) => {
            let n = n
                .as_int()
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(0);
            m.funcs[func].params.iter().skip(n).copied().collect()
        }
        None => FxHashSet::default(),
    };
    let mut changed = false;
    for s in 0..code.seqs.len() {
        for p in 0..code.seqs[s].parts.len() {
            if !code.seqs[s].parts[p].flow {
                continue;
            }
            let part = code.seqs[s].parts[p].clone();
            let groups = groups(m, &part, &weights, most);
            if let Some(binds) = rebuilt(m, typing, &part, &groups, made) {
                code.seqs[s].parts[p].binds = binds;
                changed = true;
            }
        }
    }
    changed
}

/// Returns the group of each binding of a block, numbered by its last binding.
fn groups(m: &Module, part: &Part, weights: &FxHashSet<VarId>, most: usize) -> Vec<usize> {
    let mut kinds = Vec::with_capacity(part.binds.len());
    let mut edges = Vec::new();
    let at: FxHashMap<VarId, usize> = (part.binds.iter().enumerate())
        .map(|(i, b)| (b.var, i))
        .collect();
    for (i, b) in part.binds.iter().enumerate() {
        let found = program(m, b);
        let kind = match (&found, b.expr().map(|e| &m.exprs[e])) {
            (Some((name, _)), _) => patterns::of_item(m, *name),
            (None, Some(&Expr::Proj { tuple, .. })) => match m.exprs[tuple] {
                Expr::Var(v) if !weights.contains(&v) => Fusion::Injective,
                _ => Fusion::Opaque,
            },
            _ => Fusion::Opaque,
        };
        kinds.push(kind);
        let mut edge = |v: VarId| {
            if let Some(&from) = at.get(&v) {
                edges.push((from, i, kind));
            }
        };
        match (found, b.expr()) {
            (Some((_, args)), _) => args.iter().for_each(|&a| each_var(m, a, &mut edge)),
            (None, Some(e)) => each_var(m, e, &mut edge),
            _ => {}
        }
    }
    let mut graph = Graph::numbered(kinds);
    for (from, to, kind) in edges {
        graph.numbered_edge(from, to, kind);
    }
    for v in &part.outputs {
        if let Some(&i) = at.get(v) {
            graph.numbered_leave(i);
        }
    }
    graph.close();
    let mut groups = Groups::new(&graph, true, most);
    (0..part.binds.len()).map(|i| groups.root(i)).collect()
}

/// A group of bindings that becomes a function.
pub(super) struct Group {
    /// Its bindings, by index.
    pub binds: Vec<usize>,
    /// Variables that are used outside the group.
    pub outputs: Vec<VarId>,
    /// The parts of the function's name.
    pub names: Vec<String>,
    /// Attributes of the function in addition to `Primitive`.
    pub attrs: Vec<(&'static str, AttrValue)>,
    /// Whether the function is one kernel.
    pub primitive: bool,
    /// Whether constants are kept inside the function.
    pub constants: bool,
    /// The external compiler; the function is nested in a public one that names it.
    pub codegen: Option<String>,
}

/// Returns the bindings with groups replaced by calls; `None` if every group is a single binding.
fn rebuilt(
    m: &mut Module,
    typing: &Typing,
    part: &Part,
    root: &[usize],
    made: &mut Made,
) -> Option<Vec<Bind>> {
    let mut members: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (i, &g) in root.iter().enumerate() {
        members.entry(g).or_default().push(i);
    }
    let mut of_group: FxHashMap<usize, Group> = FxHashMap::default();
    for (&g, binds) in members.iter().filter(|(_, b)| b.len() > 1) {
        let name = |&i: &usize| program(m, &part.binds[i]).map(|(n, _)| n.to_string());
        let outputs = binds.iter().map(|&i| part.binds[i].var);
        of_group.insert(
            g,
            Group {
                binds: binds.clone(),
                outputs: outputs.filter(|v| part.outputs.contains(v)).collect(),
                names: binds.iter().filter_map(name).collect(),
                attrs: Vec::new(),
                primitive: true,
                constants: false,
                codegen: None,
            },
        );
    }
    if of_group.is_empty() {
        return None;
    }
    Some(emit(m, typing, part, root, of_group, made))
}

/// Returns the bindings of a block, with each group as a call of its function, at the position of
/// its last binding or before the first use of its results.
pub(super) fn emit(
    m: &mut Module,
    typing: &Typing,
    part: &Part,
    root: &[usize],
    mut of_group: FxHashMap<usize, Group>,
    made: &mut Made,
) -> Vec<Bind> {
    of_group.retain(|_, group| speaks_alone(m, typing, part, &group.binds));
    let at: FxHashMap<VarId, usize> = (part.binds.iter().enumerate())
        .map(|(i, b)| (b.var, i))
        .collect();
    // The dependencies of each group on others, in both directions.
    let mut needs: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (i, b) in part.binds.iter().enumerate() {
        let Some(e) = b.expr() else {
            continue;
        };
        each_var(m, e, |v| {
            let Some(&from) = at.get(&v) else {
                return;
            };
            if root[from] != root[i] {
                needs.entry(root[i]).or_default().push(root[from]);
                if let Some(g) = of_group.get_mut(&root[from])
                    && !g.outputs.contains(&v)
                {
                    g.outputs.push(v);
                }
            }
        });
    }
    let mut members: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (i, &g) in root.iter().enumerate() {
        members.entry(g).or_default().push(i);
    }
    let mut new = Vec::new();
    for g in by_needs(root, &needs) {
        match of_group.get(&g) {
            None => new.extend(members[&g].iter().map(|&i| part.binds[i])),
            Some(group) if group.outputs.is_empty() => {}
            Some(group) => call(m, typing, part, group, made, &mut new),
        }
    }
    new
}

/// Returns the groups in the order of the text, each after those that it depends on.
fn by_needs(root: &[usize], needs: &FxHashMap<usize, Vec<usize>>) -> Vec<usize> {
    let (mut order, mut seen) = (Vec::new(), FxHashSet::default());
    for &g in root {
        let mut open = vec![(g, 0)];
        while let Some((g, i)) = open.pop() {
            if i == 0 && !seen.insert(g) {
                continue;
            }
            match needs.get(&g).and_then(|n| n.get(i)) {
                Some(&next) => open.extend([(g, i + 1), (next, 0)]),
                None => order.push(g),
            }
        }
    }
    order
}

/// Creates the function of a group, and the call of it.
fn call(
    m: &mut Module,
    typing: &Typing,
    part: &Part,
    group: &Group,
    made: &mut Made,
    new: &mut Vec<Bind>,
) {
    let (mut func, args) = function(m, typing, part, group);
    let name = format!("fused_{}", group.names.join("_"));
    let mut suffix = String::new();
    if let Some(codegen) = &group.codegen {
        func = enclosed(m, func, codegen);
        suffix = format!("_{codegen}");
    }
    let g = made.global(m, (&name, &suffix), func);
    let last = &part.binds[*group.binds.last().expect("a group has bindings")];
    let callee = m.add(Expr::Global(g), Span::NONE);
    let call = m.call(callee, &args, last.span);
    let typed = |m: &mut Module, v: VarId| {
        if m.vars[v].ty.is_none() {
            m.vars[v].ty = Some(typing.vars[v]);
        }
    };
    if let [one] = group.outputs[..] {
        typed(m, one);
        new.push(Bind::plain(one, call, last.span));
        return;
    }
    let types: Vec<TypeId> = group.outputs.iter().map(|v| typing.vars[*v]).collect();
    let ty = m.types.tuple(types);
    let (all, tuple) = fresh(m, "lv", Some(ty));
    new.push(Bind::plain(all, call, last.span));
    let mut fields: Vec<usize> = (0..group.outputs.len()).collect();
    let place = |i: &usize| part.binds.iter().position(|b| b.var == group.outputs[*i]);
    fields.sort_by_key(place);
    for i in fields {
        let index = i as u32;
        let field = m.add(Expr::Proj { tuple, index }, last.span);
        typed(m, group.outputs[i]);
        new.push(Bind::plain(group.outputs[i], field, last.span));
    }
}

/// The parameters of a group's function: the expression outside, and the variable inside.
struct Params {
    args: Vec<ExprId>,
    vars: Vec<VarId>,
    stands: FxHashMap<ExprId, ExprId>,
    of_var: FxHashMap<VarId, ExprId>,
    constants: usize,
}

impl Params {
    fn take(&mut self, m: &mut Module, name: Symbol, arg: ExprId, ty: TypeId) -> ExprId {
        let (var, e) = m.fresh_var(name, Some(ty), VarStyle::Param);
        self.args.push(arg);
        self.vars.push(var);
        e
    }
}

fn function(m: &mut Module, typing: &Typing, part: &Part, group: &Group) -> (FuncId, Vec<ExprId>) {
    let inside: FxHashSet<VarId> = group.binds.iter().map(|&i| part.binds[i].var).collect();
    let mut params = Params {
        args: Vec::new(),
        vars: Vec::new(),
        stands: FxHashMap::default(),
        of_var: FxHashMap::default(),
        constants: 0,
    };
    // The parameters for fields of outside tuples that are only used by field.
    let mut fields: FxHashMap<VarId, VarId> = FxHashMap::default();
    let whole = used_whole(m, part, group);
    for &i in &group.binds {
        let b = part.binds[i];
        let e = b.expr().expect("groups are made of calls and fields");
        if let Expr::Proj { tuple, index } = m.exprs[e]
            && let Expr::Var(v) = m.exprs[tuple]
            && !inside.contains(&v)
            && !whole.contains(&v)
        {
            let name = Symbol::new(&format!("{}_{index}", m.vars[v].name));
            let same = (params.args.iter()).position(|&a| m.exprs[a] == m.exprs[e]);
            let stand = match same {
                Some(k) => m.add(Expr::Var(params.vars[k]), b.span),
                None => params.take(m, name, e, typing.vars[b.var]),
            };
            if let Expr::Var(param) = m.exprs[stand] {
                fields.insert(b.var, param);
            }
            params.of_var.insert(b.var, stand);
            continue;
        }
        let args = match program(m, &b) {
            Some((_, args)) => args,
            None => leaves(m, e),
        };
        for arg in args {
            take_leaf(m, typing, arg, (&inside, group.constants), &mut params);
        }
    }
    let mut binds = Vec::new();
    for &i in &group.binds {
        let mut b = part.binds[i];
        if fields.contains_key(&b.var) {
            continue;
        }
        let e = b.expr().expect("groups are made of calls and fields");
        let mut memo = Memo::default();
        let new = m.rewrite(e, &mut memo, |m, new, old| match m.exprs[new] {
            Expr::Var(v) => params.of_var.get(&v).copied().unwrap_or(new),
            _ => params.stands.get(&old).copied().unwrap_or(new),
        });
        b.value = crate::code::Value::Plain(new);
        binds.push(b);
    }
    finished(m, typing, part, group, (params, &fields, binds))
}

/// Returns the outside tuples that a group uses as a whole.
fn used_whole(m: &Module, part: &Part, group: &Group) -> FxHashSet<VarId> {
    let mut whole = FxHashSet::default();
    for &i in &group.binds {
        let Some(e) = part.binds[i].expr() else {
            continue;
        };
        if !matches!(m.exprs[e], Expr::Proj { .. }) {
            each_var(m, e, |v| {
                whole.insert(v);
            });
        }
    }
    whole
}

fn leaves(m: &Module, e: ExprId) -> Vec<ExprId> {
    let mut out = Vec::new();
    let mut open = vec![e];
    while let Some(e) = open.pop() {
        match m.exprs[e] {
            Expr::Var(_) | Expr::Const(_) | Expr::Shape(_) => out.push(e),
            _ => {
                let from = open.len();
                m.for_each_child(e, |c| open.push(c));
                open[from..].reverse();
            }
        }
    }
    out
}

/// Creates a parameter for a leaf of an argument that comes from outside.
fn take_leaf(
    m: &mut Module,
    typing: &Typing,
    arg: ExprId,
    (inside, constants): (&FxHashSet<VarId>, bool),
    params: &mut Params,
) {
    for e in leaves(m, arg) {
        match &m.exprs[e] {
            Expr::Var(v) => {
                let v = *v;
                if !inside.contains(&v) && !params.of_var.contains_key(&v) {
                    let stand = params.take(m, m.vars[v].name, e, typing.vars[v]);
                    if let (Some(attrs), Expr::Var(new)) =
                        (m.var_attrs.get(&v).cloned(), m.exprs[stand].clone())
                    {
                        m.var_attrs.insert(new, attrs);
                    }
                    params.of_var.insert(v, stand);
                }
            }
            Expr::Shape(dims) if dims.iter().all(|d| d.as_const().is_some()) => {}
            Expr::Const(_) if constants => {}
            _ => {
                if !params.stands.contains_key(&e) {
                    let name = Symbol::new(&format!("param_{}", params.constants));
                    params.constants += 1;
                    let stand = params.take(m, name, e, typing.exprs[e]);
                    params.stands.insert(e, stand);
                }
            }
        }
    }
}

type Parts<'p> = (Params, &'p FxHashMap<VarId, VarId>, Vec<Bind>);

fn finished(
    m: &mut Module,
    typing: &Typing,
    part: &Part,
    group: &Group,
    (mut params, fields, binds): Parts<'_>,
) -> (FuncId, Vec<ExprId>) {
    let value: Vec<ExprId> = (group.outputs.iter())
        .map(|v| {
            let v = fields.get(v).copied().unwrap_or(*v);
            m.add(Expr::Var(v), part.span)
        })
        .collect();
    let types: Vec<TypeId> = group.outputs.iter().map(|v| typing.vars[*v]).collect();
    let (value, ret) = match (&value[..], &types[..]) {
        (&[one], &[ty]) => (one, ty),
        _ => (m.tuple(&value, part.span), m.types.tuple(types)),
    };
    let outputs = group.outputs.iter().copied();
    let flow = Part {
        flow: true,
        outputs: outputs.filter(|v| !fields.contains_key(v)).collect(),
        binds,
        span: part.span,
    };
    let code = Code {
        seqs: vec![Seq {
            parts: vec![flow],
            value,
        }],
    };
    let free = free_dims(m, typing, &code, (&params.vars, ret));
    if !free.is_empty() {
        let dims = free.iter().map(|&d| relax_sym::Dim::var(d)).collect();
        let ty = m.types.intern(Type::Shape(relax_ir::Shape::Dims(dims)));
        let dims = free.iter().map(|&d| relax_sym::Dim::var(d)).collect();
        let arg = m.add(Expr::Shape(dims), part.span);
        params.take(m, Symbol::new("tir_vars"), arg, ty);
    }
    let param_types = params.vars.iter().filter_map(|p| m.vars[*p].ty);
    let mut dims: Vec<DimVar> = m.dims_in_types(param_types).into_iter().collect();
    dims.sort_unstable();
    let body = code.body(m);
    let mut attrs = Attrs::new();
    if group.codegen.is_none() {
        attrs.set("private", AttrValue::Bool(true));
    }
    for (name, value) in &group.attrs {
        attrs.set(*name, value.clone());
    }
    if group.primitive {
        attrs.set("Primitive", AttrValue::Bool(true));
    }
    let func = m.funcs.push(Function {
        type_params: Vec::new(),
        dims,
        params: params.vars,
        ret: Some(ret),
        constraints: Vec::new(),
        body,
        attrs,
        span: part.span,
    });
    (m.copy_func(func), params.args)
}
