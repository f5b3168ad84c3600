//! `fuse-ops`: groups operators into functions marked `Primitive=1`, each of which becomes one
//! kernel.
//!
//! TVM's algorithm: a node joins its immediate post-dominator if the kinds of operators on all
//! paths between the two allow it; first convolutions and similar operators with the element-wise
//! operators that follow, then injective operators, then the operands of tuples.

mod extents;
pub(super) mod groups;

use std::sync::Arc;

use relax_base::{Diagnostics, Symbol};
use relax_infer::{Typing, may_have_effects};
use relax_ir::{
    AttrValue, Attrs, ConstId, Expr, ExprId, Function, GlobalId, Memo, Module, Shape, Type, TypeId,
    VarId, VarStyle,
};
use relax_ops::{Fusion, Lowering};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use self::groups::{Graph, Groups};
use crate::purity::Purity;
use crate::scope::Nameable;
use crate::util::{called_op, is_external};
use crate::{Analysis, Contract, OptionDef, OptionType, PassCx, PassDef};
use relax_ops::call_requirements::{Arg, call_type};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "fuse-ops",
    doc: "Groups operators into functions that become one kernel each.",
    options: &[
        OptionDef {
            name: "level",
            ty: OptionType::Int,
            default: "2",
            doc: "0: every operator alone; more: operators together",
        },
        OptionDef {
            name: "max-depth",
            ty: OptionType::Int,
            default: "256",
            doc: "how many operators a group may have",
        },
    ],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let (level, most) = (cx.options.int("level"), cx.options.int("max-depth"));
    let typing = cx.typing()?;
    let found = cx.functions(|m, func, body| {
        let function = &m.funcs[func];
        if grouped(function) || is_external(function) {
            return None;
        }
        let order = m.post_order_within([body], |e| match m.exprs[e] {
            Expr::Func(f) => !grouped(&m.funcs[f]),
            _ => true,
        });
        let mut graph = graph(m, &typing, &order, body);
        let mut groups = Groups::new(&graph, level > 0, most as usize);
        // Each iteration ends groups at nodes that were inside a group, so there are fewer in the
        // next.
        loop {
            let hidden = extents::hidden(m, &typing, &order, &graph, &mut groups);
            if hidden.is_empty() {
                break;
            }
            hidden.into_iter().for_each(|e| graph.leave(e));
            groups = Groups::new(&graph, level > 0, most as usize);
        }
        let nameable = Nameable::new(m, func, &order);
        Some((body, order, graph, groups, nameable))
    });
    let purity = match may_have_effects(cx.module) {
        true => cx.bodies_with_purity()?,
        false => Vec::new(),
    };
    let mut purity: FxHashMap<GlobalId, Arc<Purity>> = purity
        .into_iter()
        .map(|(g, _, purity)| (g, purity))
        .collect();
    let mut made = 0;
    for (global, found) in found {
        let Some((body, order, graph, groups, nameable)) = found else {
            continue;
        };
        let m = &mut *cx.module;
        let purity = purity.remove(&global);
        let mut fuser = Fuser {
            m,
            typing: &typing,
            graph,
            groups,
            nameable,
            evaluated: purity.map(|purity| (purity, order.iter().copied().zip(0..).collect())),
            infos: FxHashMap::default(),
            memo: Memo::default(),
            names: Vec::new(),
            made: 0,
        };
        for &e in &order {
            let new = fuser.node(e);
            fuser.memo.insert(e, new);
        }
        made += fuser.made;
        let new = fuser.memo[&body];
        cx.module.set_global_body(global, new);
    }
    cx.count("kernels made", made);
    Ok(())
}

/// Returns whether a function is a group already: a kernel, or one that only projects tuples
/// (`Primitive=0`).
fn grouped(f: &Function) -> bool {
    f.attrs.get("Primitive").is_some()
}

fn is_tensor(m: &Module, ty: TypeId) -> bool {
    matches!(m.types[ty], Type::Tensor(_))
}

/// Builds the graph of uses with their fusion kinds.
fn graph(m: &Module, typing: &Typing, order: &[ExprId], body: ExprId) -> Graph {
    let mut graph = Graph::new(order);
    graph.leave(body);
    // All nodes of a constant are one value.
    let mut consts: FxHashMap<ConstId, ExprId> = FxHashMap::default();
    for &e in order {
        let node = graph.of(e);
        match &m.exprs[e] {
            Expr::Const(c) => {
                let first = *consts.entry(*c).or_insert(e);
                if first != e {
                    graph.same(e, first);
                    continue;
                }
                let dtype = m.consts[*c].dtype();
                let simple = [
                    relax_tensor::DType::I32,
                    relax_tensor::DType::I64,
                    relax_tensor::DType::F16,
                    relax_tensor::DType::BF16,
                    relax_tensor::DType::F32,
                    relax_tensor::DType::F64,
                    relax_tensor::DType::BOOL,
                ];
                if m.consts[*c].is_scalar() && simple.contains(&dtype) {
                    graph.kind[node] = Fusion::Elementwise;
                }
            }
            Expr::Call { callee, args, .. } => {
                let kind = called_op(m, e).map_or(Fusion::Opaque, |def| {
                    let unknown = def.hooks.data_dependent_shape && dynamic(m, typing.exprs[e]);
                    if unknown { Fusion::Opaque } else { def.fusion }
                });
                graph.kind[node] = kind;
                graph.leave(*callee);
                for &arg in m.list(*args) {
                    let same = kind == Fusion::Broadcast
                        && same_shape(m, typing.exprs[e], typing.exprs[arg]);
                    graph.edge(arg, e, if same { Fusion::Elementwise } else { kind });
                }
            }
            Expr::Tuple(fields) => {
                graph.kind[node] = Fusion::Tuple;
                for &field in m.list(*fields) {
                    if is_tensor(m, typing.exprs[field]) {
                        graph.edge(field, e, Fusion::Injective);
                    } else {
                        graph.leave(field);
                    }
                }
            }
            Expr::Proj { tuple, .. } => match &m.types[typing.exprs[*tuple]] {
                Type::Tuple(fields) if fields.iter().all(|&f| is_tensor(m, f)) => {
                    graph.kind[node] = Fusion::Injective;
                    graph.edge(*tuple, e, Fusion::Injective);
                }
                _ => graph.leave(*tuple),
            },
            Expr::Func(f) if grouped(&m.funcs[*f]) => {}
            _ => m.for_each_child(e, |c| graph.leave(c)),
        }
    }
    graph.close();
    graph
}

fn dynamic(m: &Module, ty: TypeId) -> bool {
    match &m.types[ty] {
        Type::Tensor(t) => match &t.shape {
            Shape::Dims(dims) => dims.iter().any(|d| d.as_const().is_none()),
            _ => true,
        },
        Type::Tuple(fields) => fields.iter().any(|&f| match &m.types[f] {
            Type::Tensor(t) => t
                .shape
                .dims()
                .is_none_or(|d| d.iter().any(|d| d.as_const().is_none())),
            _ => false,
        }),
        _ => false,
    }
}

fn same_shape(m: &Module, a: TypeId, b: TypeId) -> bool {
    match (m.types.as_tensor(a), m.types.as_tensor(b)) {
        (Some(a), Some(b)) => a.shape == b.shape && a.shape.dims().is_some(),
        _ => false,
    }
}

/// The construction of a group.
#[derive(Default)]
struct Info {
    params: Vec<VarId>,
    args: Vec<ExprId>,
    /// The arguments before the pass.
    olds: Vec<ExprId>,
    refs: Vec<ExprId>,
    has_call: bool,
    more_than_reshapes: bool,
}

struct Fuser<'m> {
    m: &'m mut Module,
    typing: &'m Typing,
    graph: Graph,
    groups: Groups,
    nameable: Nameable,
    /// In a module with effects: which nodes have some, and the order in which nodes are evaluated.
    evaluated: Option<(Arc<Purity>, FxHashMap<ExprId, usize>)>,
    /// The open groups, by their last nodes.
    infos: FxHashMap<usize, Info>,
    memo: Memo,
    /// `p0`, `p1`, …
    names: Vec<Symbol>,
    made: u64,
}

impl Fuser<'_> {
    fn group(&mut self, e: ExprId) -> usize {
        self.groups.root(self.graph.of(e))
    }

    fn plain(&mut self, e: ExprId) -> ExprId {
        let memo = &self.memo;
        self.m.map_children(e, |c| memo[&c])
    }

    fn node(&mut self, e: ExprId) -> ExprId {
        match self.m.exprs[e] {
            Expr::Call { args, .. } => {
                let Some(def) = called_op(self.m, e) else {
                    return self.plain(e);
                };
                if def.hooks.fusion_barrier {
                    return self.memo[&self.m.list(args)[0]];
                }
                if def.hooks.lowering != Lowering::Computed || def.hooks.not_computed {
                    return self.plain(e);
                }
                let group = self.group(e);
                let args = self.m.list(args).to_vec();
                let info = self.infos.entry(group).or_default();
                info.has_call = true;
                info.more_than_reshapes |= !def.hooks.reshape;
                let parts = self.parts(&args, group, Some(e));
                let mut parts = parts.into_iter();
                let mut callee = true;
                let new = self.m.map_children(e, |c| {
                    if std::mem::take(&mut callee) {
                        c
                    } else {
                        parts.next().expect("as many")
                    }
                });
                self.root_of(group, e, new)
            }
            Expr::Tuple(fields) => {
                let group = self.group(e);
                if group == self.graph.of(e) {
                    return self.plain(e);
                }
                let fields = self.m.list(fields).to_vec();
                let parts = self.parts(&fields, group, None);
                self.m.tuple(&parts, self.m.span(e))
            }
            Expr::Proj { tuple, index } => {
                let group = self.group(e);
                if group == self.graph.of(e) && self.group(tuple) != group {
                    return self.plain(e);
                }
                let tuple = self.parts(&[tuple], group, None)[0];
                let new = self.m.add(Expr::Proj { tuple, index }, self.m.span(e));
                self.root_of(group, e, new)
            }
            Expr::Func(f) if grouped(&self.m.funcs[f]) => e,
            _ => self.plain(e),
        }
    }

    /// Returns the operands of a node of a group: parameters replace values that other groups
    /// compute. `call` is the node, if it is a call of an operator.
    fn parts(&mut self, args: &[ExprId], group: usize, call: Option<ExprId>) -> Vec<ExprId> {
        let mut out = Vec::with_capacity(args.len());
        for (i, &arg) in args.iter().enumerate() {
            let new = self.memo[&arg];
            if self.group(arg) == group || call.is_some_and(|c| self.by_value(c, args, i)) {
                out.push(new);
                continue;
            }
            let m = &*self.m;
            let same = |a: &ExprId| *a == new || m.is_leaf(new) && m.exprs[*a] == m.exprs[new];
            let info = self.infos.entry(group).or_default();
            if let Some(i) = info.args.iter().position(same) {
                out.push(info.refs[i]);
                continue;
            }
            let ty = self.typing.exprs[arg];
            let number = info.params.len();
            if number == self.names.len() {
                self.names.push(Symbol::new(&format!("p{number}")));
            }
            let written = self.nameable.annotation(self.m, ty);
            let name = self.names[number];
            let (var, reference) = self.m.fresh_var(name, written, VarStyle::Param);
            let tensor = is_tensor(self.m, ty);
            info.params.push(var);
            info.args.push(new);
            info.olds.push(arg);
            info.refs.push(reference);
            info.more_than_reshapes |= !tensor;
            out.push(reference);
        }
        out
    }

    /// Returns whether the type of a call depends on the value of its `i`-th argument, a constant:
    /// as a parameter it would be less precise (`arange(0f, 10f, 1f)` has ten elements).
    fn by_value(&mut self, call: ExprId, args: &[ExprId], i: usize) -> bool {
        let constant = |m: &Module, e: ExprId| match m.exprs[e] {
            // Relations read extents, axes and bounds.
            Expr::Const(c) => Some(m.consts[c].clone()).filter(|t| t.len() <= 16),
            _ => None,
        };
        if constant(self.m, args[i]).is_none() {
            return false;
        }
        let values: Vec<Option<Tensor>> = args.iter().map(|&a| constant(self.m, a)).collect();
        let Expr::Call { callee, attrs, .. } = self.m.exprs[call] else {
            return false;
        };
        let Expr::Op(op) = self.m.exprs[callee] else {
            return false;
        };
        let attrs = self.m.attrs(attrs).clone();
        let args: Vec<Arg<'_>> = (args.iter().zip(&values).enumerate())
            .map(|(k, (&a, value))| Arg {
                ty: self.typing.exprs[a],
                value: value.as_ref().filter(|_| k != i),
            })
            .collect();
        let ty = self.typing.exprs[call];
        call_type(self.m, op, &attrs, &args).is_some_and(|without| without != ty)
    }

    /// Brings the arguments of a group into the order in which they were evaluated, where several
    /// have effects: the group's operations have none.
    fn in_order(&self, info: &mut Info) {
        let Some((purity, places)) = &self.evaluated else {
            return;
        };
        if info.olds.iter().filter(|&&e| !purity.eval(e)).count() < 2 {
            return;
        }
        let mut all: Vec<(usize, VarId, ExprId)> = (info.olds.iter())
            .zip(info.params.iter().zip(&info.args))
            .map(|(old, (&param, &arg))| (places[old], param, arg))
            .collect();
        all.sort_by_key(|a| a.0);
        info.params = all.iter().map(|a| a.1).collect();
        info.args = all.iter().map(|a| a.2).collect();
    }

    /// Replaces the last node of a group by a call of the group's function.
    fn root_of(&mut self, group: usize, old: ExprId, body: ExprId) -> ExprId {
        if group != self.graph.of(old) {
            return body;
        }
        let mut info = self.infos.remove(&group).unwrap_or_default();
        self.in_order(&mut info);
        let mut attrs = Attrs::new();
        attrs.set("Primitive", AttrValue::Int(info.has_call.into()));
        if info.has_call && !info.more_than_reshapes {
            attrs.set("relay.reshape_only", AttrValue::Int(1));
        }
        let span = self.m.span(old);
        let ret = self.nameable.annotation(self.m, self.typing.exprs[old]);
        let func = self.m.funcs.push(Function {
            type_params: Vec::new(),
            dims: Vec::new(),
            params: info.params,
            ret,
            constraints: Vec::new(),
            body,
            attrs,
            span,
        });
        let callee = self.m.add(Expr::Func(func), span);
        self.made += 1;
        self.m.call(callee, &info.args, span)
    }
}
