//! Kept operators of Relax: those by which TVM's lowering expresses memory.

use relax_base::{Span, Symbol};
use relax_ir::{AttrValue, Attrs, Expr, ExprId, Module, TypeId};
use relax_ops::registry;

/// Returns the Relax name of the kept operator that a call applies.
pub(super) fn name(m: &Module, e: ExprId) -> Option<&str> {
    let Expr::Call { callee, attrs, .. } = m.exprs[e] else {
        return None;
    };
    let Expr::Op(op) = m.exprs[callee] else {
        return None;
    };
    let def = registry().get(op)?;
    let kept = def.attrs.iter().any(|a| a.name == "given");
    let name = m.attrs(attrs).get("name").filter(|_| kept)?;
    name.as_str()
}

/// Returns the value of an attribute of such a call.
pub(super) fn attr<'m>(m: &'m Module, e: ExprId, name: &str) -> Option<&'m AttrValue> {
    let Expr::Call { attrs, .. } = m.exprs[e] else {
        return None;
    };
    let AttrValue::Dict(all) = m.attrs(attrs).get("attrs")? else {
        return None;
    };
    all.iter().find(|(n, _)| n.as_str() == name).map(|(_, v)| v)
}

/// Creates a call of a kept operator from its arguments, with their parameters' names, and
/// attributes.
pub(super) fn call(
    m: &mut Module,
    (name, effect): (&str, bool),
    args: &[(&str, ExprId)],
    attrs: &[(&str, AttrValue)],
    span: Span,
) -> ExprId {
    let op = if effect { "relax.effect" } else { "relax.op" };
    let op = registry().find(op).expect("the operators that keep others");
    let callee = m.add(Expr::Op(op), Span::NONE);
    let given = args.iter().map(|a| AttrValue::Str(a.0.into()));
    let named = attrs.iter().map(|(n, v)| (Symbol::new(n), v.clone()));
    let attrs: Attrs = [
        (Symbol::new("name"), AttrValue::Str(name.into())),
        (Symbol::new("given"), AttrValue::array(given)),
        (Symbol::new("attrs"), AttrValue::Dict(named.collect())),
    ]
    .into_iter()
    .collect();
    let args: Vec<ExprId> = args.iter().map(|a| a.1).collect();
    m.call_attrs(callee, &args, attrs, span)
}

/// The same, for an operator with explicit result types.
pub(super) fn typed_call(
    m: &mut Module,
    name: (&str, bool),
    args: &[(&str, ExprId)],
    attrs: &[(&str, AttrValue)],
    types: &[TypeId],
    span: Span,
) -> ExprId {
    let plain = call(m, name, args, attrs, span);
    let types = m.make_type_args(types);
    let mut new = m.exprs[plain].clone();
    if let Expr::Call { type_args, .. } = &mut new {
        *type_args = types;
    }
    m.add(new, span)
}

/// Returns a string as an attribute value of Relax.
pub(super) fn string(text: &str) -> AttrValue {
    let text = AttrValue::Str(text.into());
    AttrValue::Dict([(Symbol::new("R.str"), text)].into_iter().collect())
}
