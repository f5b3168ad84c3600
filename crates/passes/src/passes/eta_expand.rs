//! `eta-expand`: constructors and global functions that are used as values become functions that
//! call them.

use relax_base::Diagnostics;
use relax_ir::{
    CtorId, Expr, ExprId, FuncId, Function, GlobalId, Memo, Module, Type, TypeId, TypeSubst,
    VarStyle,
};

use rustc_hash::FxHashMap;

use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "eta-expand",
    doc: "Turns constructors and global functions that stand as values into functions.",
    options: &[
        OptionDef {
            name: "constructors",
            ty: OptionType::Bool,
            default: "true",
            doc: "expand constructors",
        },
        OptionDef {
            name: "globals",
            ty: OptionType::Bool,
            default: "true",
            doc: "expand global functions, those that are called included",
        },
    ],
    contract: Contract::PLAIN,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let (ctors, globals) = (cx.options.flag("constructors"), cx.options.flag("globals"));
    let m = &mut *cx.module;
    for (global, body) in m.global_bodies() {
        let order = m.post_order([body]);
        let mut memo = Memo::default();
        // A constructor that is called stays as it is; names have no identity, so the replacement
        // of a name depends on its context.
        let mut made: FxHashMap<GlobalId, ExprId> = FxHashMap::default();
        let mut place = |m: &mut Module, memo: &Memo, c: ExprId, called: bool| match m.exprs[c] {
            Expr::Ctor(ctor) if ctors && !called => constructor(m, ctor),
            // A literal without a complete signature has one type; each use has its own.
            Expr::Global(g) if globals && !annotated(m, g) => global_function(m, g).unwrap_or(c),
            Expr::Global(g) if globals => *made
                .entry(g)
                .or_insert_with(|| global_function(m, g).unwrap_or(c)),
            _ => memo[&c],
        };
        for e in order {
            if m.is_leaf(e) {
                memo.insert(e, e);
                continue;
            }
            let mut parts = Vec::new();
            m.for_each_child(e, |c| parts.push(c));
            let called = matches!(m.exprs[e], Expr::Call { .. });
            let new: Vec<ExprId> = parts
                .iter()
                .enumerate()
                .map(|(i, &c)| place(m, &memo, c, called && i == 0))
                .collect();
            let mut next = new.into_iter();
            let new = m.map_children(e, |_| next.next().expect("the same children"));
            memo.insert(e, new);
        }
        let new = place(m, &memo, body, false);
        m.set_global_body(global, new);
    }
    Ok(())
}

const PARAM: &str = "eta_expand_param";

fn constructor(m: &mut Module, ctor: CtorId) -> ExprId {
    let (adt, fields) = (m.ctors[ctor].adt, m.ctors[ctor].fields.clone());
    let mut subst = TypeSubst::new();
    let mut type_params = Vec::new();
    for p in m.adts[adt].params.clone() {
        let info = m.types.params[p].clone();
        let new = m.types.param(info.name, info.kind);
        let ty = m.types.intern(Type::Param(new));
        subst.types.insert(p, ty);
        type_params.push((new, ty));
    }
    let (mut params, mut args) = (Vec::new(), Vec::new());
    for field in fields {
        let ty = subst.ty(&mut m.types, field);
        let (var, arg) = m.fresh_var(PARAM, Some(ty), VarStyle::Param);
        params.push(var);
        args.push(arg);
    }
    let span = relax_base::Span::NONE;
    let callee = m.add(Expr::Ctor(ctor), span);
    let body = m.call(callee, &args, span);
    let ret = m
        .types
        .intern(Type::Adt(adt, type_params.iter().map(|p| p.1).collect()));
    let func = m.funcs.push(Function {
        type_params: type_params.iter().map(|p| p.0).collect(),
        dims: Vec::new(),
        params,
        ret: Some(ret),
        constraints: Vec::new(),
        body,
        attrs: relax_ir::Attrs::new(),
        span,
    });
    m.add(Expr::Func(func), span)
}

/// Returns whether the signature of a global function contains all types.
fn annotated(m: &Module, global: GlobalId) -> bool {
    m.global_func(global).is_none_or(|f| {
        let f = &m.funcs[f];
        whole(m, f.ret).is_some() && f.params.iter().all(|&p| whole(m, m.vars[p].ty).is_some())
    })
}

/// Returns an annotation without open parts. Those of one that is copied would be the same unknowns.
fn whole(m: &Module, ty: Option<TypeId>) -> Option<TypeId> {
    ty.filter(|&ty| !m.types.any(ty, |t| matches!(t, Type::Infer(_))))
}

/// Creates a function literal with the signature of a global that calls it.
fn global_function(m: &mut Module, global: GlobalId) -> Option<ExprId> {
    let span = relax_base::Span::NONE;
    let old = m.global_func(global)?;
    // A copy of the signature alone: its body is replaced by the call.
    let callee = m.add(Expr::Global(global), span);
    let shell = Function {
        body: callee,
        ..m.funcs[old].clone()
    };
    let shell: FuncId = m.funcs.push(shell);
    let new = m.copy_func(shell);
    let params = m.funcs[new].params.clone();
    for &p in &params {
        m.vars[p].ty = whole(m, m.vars[p].ty);
    }
    let ret = whole(m, m.funcs[new].ret);
    let args: Vec<ExprId> = params.iter().map(|&p| m.add(Expr::Var(p), span)).collect();
    let body = m.call(callee, &args, span);
    let function = Function {
        body,
        ret,
        ..m.funcs[new].clone()
    };
    let func = m.funcs.push(function);
    Some(m.add(Expr::Func(func), span))
}
