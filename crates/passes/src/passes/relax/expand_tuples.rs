//! `expand-tuple-arguments`: private functions take the fields of tuples instead of tuples.

use relax_base::Diagnostics;
use relax_infer::Typing;
use relax_ir::{Expr, ExprId, GlobalId, Module, Type, TypeId, VarId, VarStyle};
use rustc_hash::FxHashMap;

use super::{canonical, private, unused};
use crate::code::{Bind, Code, Part, Value, each_code, fresh};
use crate::impurity::Impurity;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "expand-tuple-arguments",
    doc: "Gives private functions the fields of tuples as parameters.",
    options: &[],
    contract: Contract::RELAX,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    expand(cx)?;
    finish(cx)
}

/// Expands the functions; how many.
pub(super) fn expand(cx: &mut PassCx<'_>) -> Result<u64, Diagnostics> {
    let typing = cx.typing()?;
    let mut expanded: FxHashMap<GlobalId, Vec<TypeId>> = FxHashMap::default();
    let m = &mut *cx.module;
    let mut new = FxHashMap::default();
    for g in private::only_called(m) {
        let f = m.global_func(g).expect("a function");
        let types: Vec<TypeId> = m.funcs[f].params.iter().map(|p| typing.vars[*p]).collect();
        if !types.iter().any(|t| matches!(m.types[*t], Type::Tuple(_))) {
            continue;
        }
        let mut function = m.funcs[f].clone();
        let Some(mut code) = Code::of(m, function.body) else {
            continue;
        };
        let mut head = Vec::new();
        let mut params = Vec::new();
        for &p in &function.params {
            params.extend(flat(m, &typing, p, &mut head));
        }
        function.params = params;
        let part = Part {
            flow: false,
            binds: head,
            outputs: Vec::new(),
            span: function.span,
        };
        code.seqs[0].parts.insert(0, part);
        function.body = code.body(m);
        new.insert(g, function);
        expanded.insert(g, types);
    }
    let count = new.len() as u64;
    if count == 0 {
        cx.count("functions expanded", 0);
        return Ok(0);
    }
    private::replace(m, new);
    each_code(m, |m, _, code| calls(m, code, &expanded));
    cx.count("functions expanded", count);
    Ok(count)
}

/// Canonicalizes bindings and removes dead code.
pub(super) fn finish(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let impurity = Impurity::of(cx)?;
    each_code(cx.module, |m, _, code| {
        let changed = canonical::canonicalize(m, &typing, code, true);
        unused::unused_bindings(m, &typing, &impurity, code) > 0 || changed
    });
    unused::unused_functions(cx.module);
    Ok(())
}

/// Returns the parameters that replace one; a tuple is bound to its reassembled fields in `head`.
fn flat(m: &mut Module, typing: &Typing, p: VarId, head: &mut Vec<Bind>) -> Vec<VarId> {
    if !matches!(m.types[typing.vars[p]], Type::Tuple(_)) {
        return vec![p];
    }
    let span = m.vars[p].span;
    // Types still to be expanded, and tuples whose fields have been.
    enum Work {
        Make(TypeId, relax_base::Symbol),
        Join(usize),
    }
    let (mut params, mut made): (Vec<VarId>, Vec<ExprId>) = (Vec::new(), Vec::new());
    let mut work = vec![Work::Make(typing.vars[p], m.vars[p].name)];
    while let Some(next) = work.pop() {
        match next {
            Work::Make(ty, name) => match &m.types[ty] {
                Type::Tuple(fields) => {
                    let fields = fields.to_vec();
                    work.push(Work::Join(fields.len()));
                    let named = fields.iter().enumerate();
                    let named = named.map(|(i, &t)| Work::Make(t, private::part_name(name, i)));
                    let named: Vec<Work> = named.collect();
                    work.extend(named.into_iter().rev());
                }
                _ => {
                    let (v, e) = m.fresh_var(name, Some(ty), VarStyle::Param);
                    params.push(v);
                    made.push(e);
                }
            },
            Work::Join(n) => {
                let fields = made.split_off(made.len() - n);
                made.push(m.tuple(&fields, span));
            }
        }
    }
    if let Some(whole) = made.pop() {
        let ty = Some(typing.vars[p]);
        m.vars[p].style = VarStyle::Binding;
        m.vars[p].ty = ty;
        head.push(Bind::plain(p, whole, span));
    }
    params
}

/// Replaces tuple arguments of calls by their fields, which are bound before the call.
fn calls(m: &mut Module, code: &mut Code, expanded: &FxHashMap<GlobalId, Vec<TypeId>>) -> bool {
    let mut changed = false;
    for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
        for mut b in std::mem::take(&mut part.binds) {
            if let Some((e, callee, args, types)) = call(m, &b, expanded) {
                let mut fields = Vec::new();
                for (&arg, &ty) in args.iter().zip(types) {
                    fields_of(m, arg, ty, &mut part.binds, &mut fields);
                }
                let span = m.span(e);
                b.value = Value::Plain(m.call(callee, &fields, span));
                changed = true;
            }
            part.binds.push(b);
        }
    }
    changed
}

type Found<'t> = (ExprId, ExprId, Vec<ExprId>, &'t [TypeId]);

fn call<'t>(
    m: &Module,
    b: &Bind,
    expanded: &'t FxHashMap<GlobalId, Vec<TypeId>>,
) -> Option<Found<'t>> {
    let e = b.expr()?;
    let Expr::Call { callee, args, .. } = m.exprs[e] else {
        return None;
    };
    let Expr::Global(g) = m.exprs[callee] else {
        return None;
    };
    let types = expanded.get(&g)?;
    Some((e, callee, m.list(args).to_vec(), types))
}

fn fields_of(
    m: &mut Module,
    arg: ExprId,
    ty: TypeId,
    binds: &mut Vec<Bind>,
    out: &mut Vec<ExprId>,
) {
    let mut open = vec![(arg, ty)];
    while let Some((e, ty)) = open.pop() {
        let Type::Tuple(types) = &m.types[ty] else {
            out.push(e);
            continue;
        };
        let types = types.to_vec();
        let fields: Vec<ExprId> = match m.exprs[e] {
            Expr::Tuple(list) => m.list(list).to_vec(),
            _ => {
                let span = m.span(e);
                let field = |(i, &ty): (usize, &TypeId)| {
                    let index = i as u32;
                    let value = m.add(Expr::Proj { tuple: e, index }, span);
                    // The types are the callee's, whose extents have no name here.
                    let named = m.dims_in_types([ty]).is_empty();
                    let (var, field) = fresh(m, "lv", named.then_some(ty));
                    binds.push(Bind::plain(var, value, span));
                    field
                };
                types.iter().enumerate().map(field).collect()
            }
        };
        open.extend(fields.into_iter().zip(types).rev());
    }
}
