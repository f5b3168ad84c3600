//! Utilities shared by several passes.

use relax_base::Symbol;
use relax_ir::{
    AttrValue, Binding, BlockId, Clause, ConstId, DTy, Expr, ExprId, FuncId, Function, GlobalId,
    IdSet, Memo, Module, Shape, Type, TypeId, VarId, VarStyle, inline_call,
};
use relax_ops::{Effects, OpDef};
use relax_sym::Dim;
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use relax_ir::{has_flag, is_primitive};

/// Returns whether a function belongs to an external compiler (`Compiler="…"`).
pub(crate) fn is_external(f: &Function) -> bool {
    f.attrs.get("Compiler").is_some_and(|v| !v.is_none())
}

/// Returns whether a function of Relax is a kernel already, or belongs to an external compiler.
pub(crate) fn is_settled(f: &Function) -> bool {
    is_primitive(f) || f.attrs.get("Codegen").is_some()
}

/// Returns whether a function binds dimension variables, or type parameters that its body mentions,
/// at each call: the body alone does not determine them.
pub(crate) fn binds(m: &Module, f: &Function) -> bool {
    if f.type_params.is_empty() || !f.dims.is_empty() {
        return !f.dims.is_empty();
    }
    let speaks = |ty: TypeId| {
        m.types.any(ty, |t| match t {
            Type::Param(p) => f.type_params.contains(p),
            Type::Tensor(t) => {
                matches!(&t.shape, Shape::Param(p) if f.type_params.contains(p))
                    || matches!(t.dtype, DTy::Param(p) if f.type_params.contains(&p))
            }
            Type::Shape(Shape::Param(p)) => f.type_params.contains(p),
            _ => false,
        })
    };
    m.post_order([f.body]).into_iter().any(|e| {
        let vars = m.bound_vars(e).into_iter();
        let mut written = vars.filter_map(|v| m.vars[v].ty);
        let here = match &m.exprs[e] {
            Expr::Call { type_args, .. } => m.type_args(*type_args).iter().any(|&t| speaks(t)),
            Expr::MatchCast { ty, .. } => speaks(*ty),
            Expr::Func(f) => m.funcs[*f].ret.is_some_and(speaks),
            _ => false,
        };
        here || written.any(speaks)
    })
}

/// Returns whether a function is private to a module of Relax.
pub(crate) fn is_private(f: &Function) -> bool {
    has_flag(f, "private")
}

/// Returns whether a function of Relax declares that it has side effects.
pub(crate) fn says_impure(f: &Function) -> bool {
    f.attrs.get("pure").and_then(AttrValue::as_bool) == Some(false)
}

/// Returns an unused name for a global, with this prefix.
pub(crate) fn fresh_global(m: &Module, base: &str) -> Symbol {
    let names = (0..).map(|n| format!("{base}{n}"));
    let free = names.into_iter().find(|name| m.global(name).is_none());
    Symbol::from(&*free.expect("there is always another number"))
}

/// Returns whether a function is recursive, directly or through its callees.
pub(crate) fn calls_itself(graph: &FxHashMap<GlobalId, Vec<GlobalId>>, g: GlobalId) -> bool {
    let callees = |g: GlobalId| graph.get(&g).into_iter().flatten().copied();
    let (mut seen, mut open): (FxHashSet<GlobalId>, Vec<GlobalId>) =
        (FxHashSet::default(), callees(g).collect());
    while let Some(c) = open.pop() {
        if c == g {
            return true;
        }
        if seen.insert(c) {
            open.extend(callees(c));
        }
    }
    false
}

/// Returns the built-in operator that a call applies.
pub(crate) fn called_op(m: &Module, call: ExprId) -> Option<&'static OpDef> {
    let Expr::Call { callee, .. } = m.exprs[call] else {
        return None;
    };
    let Expr::Op(op) = m.exprs[callee] else {
        return None;
    };
    relax_ops::registry().get(op)
}

/// Returns whether argument `i` of a call is a constant whose value the call's type needs: it stays
/// where it is.
pub(crate) fn is_literal_argument(m: &Module, call: ExprId, i: usize) -> bool {
    let Expr::Call { args, .. } = m.exprs[call] else {
        return false;
    };
    m.list(args)
        .get(i)
        .is_some_and(|&a| matches!(m.exprs[a], Expr::Const(_)))
        && called_op(m, call).is_some_and(|d| d.inputs.get(i).is_some_and(|input| input.literal))
}

/// The most nodes that [`evaluates_effects`] looks at.
const LOOKED_AT: usize = 256;

/// Returns whether evaluating a value may have an effect or make a cell; of large ones it is
/// assumed.
fn evaluates_effects(m: &Module, root: ExprId) -> bool {
    let (mut open, mut seen) = (vec![root], FxHashSet::default());
    while let Some(e) = open.pop() {
        if !seen.insert(e) {
            continue;
        }
        let effect = match m.exprs[e] {
            Expr::Func(_) => continue,
            Expr::Call { callee, .. } => match m.exprs[callee] {
                Expr::Ctor(_) => false,
                _ => called_op(m, e).is_none_or(|d| d.effects != Effects::Pure),
            },
            Expr::RefNew(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..)
            | Expr::MatchShape { .. }
            | Expr::MatchCast { .. } => true,
            _ => seen.len() > LOOKED_AT,
        };
        if effect {
            return true;
        }
        m.for_each_child(e, |c| open.push(c));
    }
    false
}

/// Returns a function's body with arguments in place of its parameters. With `effects`, those that
/// may have some get names: each is evaluated once, before the body, wherever that uses it.
pub(crate) fn inlined(
    m: &mut Module,
    func: FuncId,
    args: &[ExprId],
    effects: bool,
) -> Option<ExprId> {
    let params = m.funcs[func].params.clone();
    let (mut named, mut given) = (Vec::new(), args.to_vec());
    for (arg, param) in given.iter_mut().zip(params) {
        if effects && evaluates_effects(m, *arg) {
            let wish = m.vars[param].name;
            let (var, name) = m.fresh_var(wish, None, VarStyle::Let);
            named.push((var, std::mem::replace(arg, name)));
        }
    }
    let body = inline_call(m, func, &given)?;
    Some(named.into_iter().rev().fold(body, |body, (var, value)| {
        let span = m.span(value);
        m.add(Expr::Let { var, value, body }, span)
    }))
}

/// Returns the nodes of dataflow blocks' values, which may have no control flow: but for those inside
/// of functions.
pub(crate) fn in_blocks(m: &Module) -> IdSet {
    let bodies = m.global_bodies().into_iter().map(|g| g.1);
    let values = m
        .post_order(bodies)
        .into_iter()
        .flat_map(|e| match m.exprs[e] {
            Expr::Dataflow { block, .. } => m.blocks[block].bindings.as_slice(),
            _ => &[],
        });
    let values: Vec<ExprId> = values.map(|b| b.value).collect();
    m.post_order_within(values, |e| !matches!(m.exprs[e], Expr::Func(_)))
        .into_iter()
        .collect()
}

/// Returns whether evaluating an expression has control flow or blocks of its own, but for what
/// functions that it calls have.
pub(crate) fn has_control_flow(m: &Module, e: ExprId) -> bool {
    m.post_order_within([e], |e| !matches!(m.exprs[e], Expr::Func(_)))
        .into_iter()
        .any(|e| {
            matches!(
                m.exprs[e],
                Expr::If { .. } | Expr::Match { .. } | Expr::Dataflow { .. }
            )
        })
}

/// Returns whether a function stays one in a dataflow block, which has no control flow and where no
/// effects may show; `effects` says whether the module has any.
pub(crate) fn stays_in_block(m: &Module, f: &Function, effects: bool) -> bool {
    has_control_flow(m, f.body) || effects && handles_functions(m, f)
}

/// Returns whether a function may take functions or has some as values. Those are trusted to have no
/// effects as long as nothing says which they are; in its caller's place something may.
pub(crate) fn handles_functions(m: &Module, f: &Function) -> bool {
    let plain = |v: &VarId| {
        let (mut open, mut seen) = (Vec::from_iter(m.vars[*v].ty), FxHashSet::default());
        while let Some(ty) = open.pop() {
            if matches!(m.types[ty], Type::Func(_) | Type::Object) {
                return false;
            }
            if seen.insert(ty) {
                open.extend(m.types.children(ty));
            }
        }
        !seen.is_empty()
    };
    let function = |e: ExprId| {
        matches!(
            m.exprs[e],
            Expr::Func(_) | Expr::Global(_) | Expr::Extern(_) | Expr::Op(_)
        )
    };
    let gives = |e: ExprId| {
        let callee = match m.exprs[e] {
            Expr::Call { callee, .. } => Some(callee),
            _ => None,
        };
        let mut any = false;
        m.for_each_child(e, |c| any |= function(c) && Some(c) != callee);
        any
    };
    let order = m.post_order([f.body]);
    !f.params.iter().all(plain) || function(f.body) || order.into_iter().any(gives)
}

/// Merges all nodes of each constant, as they are one value: the text's `meta[relay.Constant][0]`
/// is one constant, however often it occurs.
pub(crate) fn share_constants(m: &mut Module) {
    for (global, body) in m.global_bodies() {
        let mut nodes: FxHashMap<ConstId, ExprId> = FxHashMap::default();
        let new = m.rewrite(body, &mut Memo::default(), |m, new, _| match m.exprs[new] {
            Expr::Const(c) => *nodes.entry(c).or_insert(new),
            _ => new,
        });
        m.set_global_body(global, new);
    }
}

/// Replaces a dataflow block by a chain of `let`s; other nodes are kept. For rewriting bottom-up.
pub(crate) fn opened_block(m: &mut Module, node: ExprId) -> ExprId {
    let Expr::Dataflow { block, body } = m.exprs[node] else {
        return node;
    };
    let bindings = m.blocks[block].bindings.clone();
    lets(m, bindings, body)
}

/// Creates a chain of `let`s before a body.
pub(crate) fn lets(m: &mut Module, bindings: Vec<Binding>, body: ExprId) -> ExprId {
    bindings.into_iter().rev().fold(body, |body, b| {
        let (var, value) = (b.var, b.value);
        let span = m.span(value);
        m.add(Expr::Let { var, value, body }, span)
    })
}

/// Returns the function body with the bindings of its dataflow blocks as plain ones: for passes
/// whose results are not dataflow.
pub(crate) fn dissolve_blocks(m: &mut Module, body: ExprId) -> ExprId {
    m.rewrite(body, &mut Memo::default(), |m, new, _| opened_block(m, new))
}

/// Opens the dataflow blocks that share a compound expression with what surrounds them: where it is
/// bound once, before its first use, no block can be kept around one of its uses.
pub(crate) fn open_sharing_blocks(m: &mut Module) {
    for (global, body) in m.global_bodies() {
        let sharing = sharing_blocks(m, body);
        if sharing.is_empty() {
            continue;
        }
        let new = m.rewrite(body, &mut Memo::default(), |m, new, old| {
            match m.exprs[old] {
                Expr::Dataflow { block, .. } if sharing.contains(&block) => opened_block(m, new),
                _ => new,
            }
        });
        m.set_global_body(global, new);
    }
}

fn sharing_blocks(m: &Module, body: ExprId) -> FxHashSet<BlockId> {
    let mut sharing = FxHashSet::default();
    let order = m.post_order([body]);
    if !order
        .iter()
        .any(|&e| matches!(m.exprs[e], Expr::Dataflow { .. }))
    {
        return sharing;
    }
    // The innermost block around the first user of each expression.
    let mut around: FxHashMap<ExprId, Option<BlockId>> = FxHashMap::default();
    for &e in order.iter().rev() {
        let here = around.get(&e).copied().flatten();
        let (inside, rest) = match m.exprs[e] {
            Expr::Dataflow { block, body } => (Some(block), Some(body)),
            _ => (here, None),
        };
        m.for_each_child(e, |c| {
            if m.is_leaf(c) {
                return;
            }
            let of = if Some(c) == rest { here } else { inside };
            let first = *around.entry(c).or_insert(of);
            if first != of {
                sharing.extend([first, of].into_iter().flatten());
            }
        });
    }
    sharing
}

/// Returns whether the element types of all tensors in a type are known: not those of a type
/// parameter, which may stand for tensors of any.
pub(crate) fn has_known_elements(m: &Module, ty: TypeId) -> bool {
    let mut open = vec![ty];
    while let Some(t) = open.pop() {
        match &m.types[t] {
            Type::Param(_) => return false,
            Type::Tensor(t) if t.dtype.known().is_none() => return false,
            Type::Tuple(fields) => open.extend(fields.iter()),
            _ => {}
        }
    }
    true
}

/// Returns whether a type mentions type parameters, its own or others. Inference made up some of
/// them, which no annotation can name.
pub(crate) fn mentions_type_params(m: &Module, ty: TypeId) -> bool {
    m.types.any(ty, |t| matches!(t, Type::Param(_)))
}

/// Returns the bindings of a chain of `let`s, outer ones first, and the body of the last.
pub(crate) fn let_chain(m: &Module, head: ExprId) -> (Vec<(VarId, ExprId)>, ExprId) {
    let (mut bindings, mut at) = (Vec::new(), head);
    while let Expr::Let { var, value, body } = m.exprs[at] {
        bindings.push((var, value));
        at = body;
    }
    (bindings, at)
}

/// Rewrites the nodes of `order` (operands first, the root last), and each chain of `let`s as a
/// whole: `chain` gets its first `let`, and the rewritten values and continuation. Other nodes are
/// rebuilt over rewritten operands; functions whose bodies are not among the nodes are kept.
pub(crate) fn rewrite_chains(
    m: &mut Module,
    order: &[ExprId],
    mut chain: impl FnMut(&mut Module, ExprId, &Memo) -> ExprId,
) -> ExprId {
    let mut inner = IdSet::new();
    for &e in order {
        if let Expr::Let { body, .. } = m.exprs[e]
            && matches!(m.exprs[body], Expr::Let { .. })
        {
            inner.insert(body);
        }
    }
    let mut memo = Memo::default();
    for &e in order {
        if inner.contains(e) {
            continue;
        }
        let new = match m.exprs[e] {
            Expr::Let { .. } => chain(m, e, &memo),
            Expr::Func(f) if !memo.contains_key(&m.funcs[f].body) => e,
            _ => m.map_children(e, |c| memo[&c]),
        };
        memo.insert(e, new);
    }
    memo[order.last().expect("the root is among the nodes")]
}

/// Returns the nodes under `root` that are evaluated with it: those inside primitive functions are
/// excluded.
pub(crate) fn outside_primitives(m: &Module, root: ExprId) -> Vec<ExprId> {
    m.post_order_within([root], |e| match m.exprs[e] {
        Expr::Func(f) => !is_primitive(&m.funcs[f]),
        _ => true,
    })
}

/// Copies the clauses of a `match`, for a pass that copies functions: `part` returns the copy of a
/// body, `var` the replacement of a variable. `w` is the state of the pass.
pub(crate) fn copied_clauses<W, E>(
    w: &mut W,
    module: fn(&mut W) -> &mut Module,
    clauses: &[Clause],
    part: fn(&mut W, ExprId) -> Result<ExprId, E>,
    var: fn(&mut W, VarId) -> Result<VarId, E>,
) -> Result<Box<[Clause]>, E> {
    let mut new = Vec::with_capacity(clauses.len());
    for clause in clauses {
        let body = part(w, clause.body)?;
        let mut vars = FxHashMap::default();
        for v in module(w).pattern_vars(clause.pattern) {
            vars.insert(v, var(w, v)?);
        }
        let pattern = module(w).rename_pattern(clause.pattern, &vars);
        new.push(Clause { pattern, body });
    }
    Ok(new.into())
}

/// Returns the extents and element type of a tensor, if its rank and its element type are known.
pub(crate) fn dims_of(m: &Module, ty: TypeId) -> Option<(Vec<Dim>, DType)> {
    let tensor = m.types.as_tensor(ty)?;
    Some((tensor.shape.dims()?.to_vec(), tensor.dtype.known()?))
}

/// Returns the extents and element type of a tensor, if all extents are constants.
pub(crate) fn extents_of(m: &Module, ty: TypeId) -> Option<(Vec<i64>, DType)> {
    let tensor = m.types.as_tensor(ty)?;
    let extents = tensor.shape.dims()?.iter().map(|d| d.as_const());
    Some((extents.collect::<Option<_>>()?, tensor.dtype.known()?))
}
