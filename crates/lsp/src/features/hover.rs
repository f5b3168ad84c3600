//! Hover: the entity at a position, its type, and the origin of its shape.

use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind, Position};
use relax::CheckKind;
use relax_base::Span;
use relax_ir::{Expr, ExprId, OpId, Shape, Type, TypeId};
use relax_ops::{Arity, AttrDef, Default as AttrDefault, OpDef, registry};
use relax_resolve::names::{Name, NameKind};
use relax_sym::DimVar;
use relax_syntax::ast::{self, ExprKind, StmtKind};

use super::place::range;
use crate::document::Document;
use crate::unit::Unit;

/// Constants of at most this many elements are shown in full.
const SMALL: usize = 16;

/// Returns the hover at a position.
pub fn hover(doc: &mut Document, at: Position) -> Option<Hover> {
    let (part, text, span) = match super::refs::name_at(doc, at) {
        Some((part, name)) => {
            let unit = doc.parts()[part].unit.clone();
            (part, of_name(doc, part, &unit, &name)?, name.span)
        }
        None => {
            let (part, pos) = doc.at(doc.text.offset(at))?;
            let unit = doc.parts()[part].unit.clone();
            let (text, span) = of_expr(doc, part, &unit, pos)?;
            (part, text, span)
        }
    };
    let place = doc.place(part, span);
    Some(shown(doc, place, text))
}

/// Returns a hover for a span, in Markdown.
pub fn shown(doc: &Document, place: Span, value: String) -> Hover {
    Hover {
        contents: HoverContents::Markup(MarkupContent {
            kind: MarkupKind::Markdown,
            value,
        }),
        range: Some(range(doc, place)),
    }
}

/// Returns a fenced code block.
pub fn fence(code: &str) -> String {
    format!("```relay\n{code}\n```")
}

fn of_name(doc: &mut Document, part: usize, unit: &Unit, name: &Name) -> Option<String> {
    let text = name.text;
    Some(match name.kind {
        NameKind::Local => {
            let binding = name.binding?;
            match unit.vars.get(&binding) {
                Some(&var) => {
                    let ty = unit.typing.vars[var];
                    let mut out = fence(&format!("%{text}: {}", unit.module.show_type(ty)));
                    out.push_str(&facts(doc, part, unit, ty));
                    out
                }
                None => {
                    let binder = unit.ast.binders.values().find(|b| b.span == binding)?;
                    let ty = binder.ty.map(|t| unit.file.slice(unit.ast.types[t].span));
                    fence(&format!("%{text}: {}", ty.unwrap_or("int64")))
                }
            }
        }
        NameKind::Graph => {
            let value = graph_value(unit, name.binding?)?;
            let ty = unit.type_id_at(unit.ast.exprs[value].span)?;
            let mut out = fence(&format!("%{text}: {}", unit.module.show_type(ty)));
            out.push_str(&facts(doc, part, unit, ty));
            out
        }
        NameKind::Global => {
            let global = unit.module.global(text.as_str())?;
            let ty = unit.typing.globals[global];
            let mut out = match &unit.module.globals[global].kind {
                relax_ir::GlobalKind::Func(_) => {
                    fence(&format!("def @{text}: {}", unit.module.show_type(ty)))
                }
                relax_ir::GlobalKind::Prim(_) => {
                    fence(declaration(unit, unit.module.globals[global].span)?)
                }
            };
            if unit.module.globals[global].prelude {
                out.push_str("\n\nof the prelude");
            } else if let Some(said) = comment(unit, unit.module.globals[global].span) {
                out.push_str(&format!("\n\n{said}"));
            }
            out
        }
        NameKind::Callee | NameKind::Ctor | NameKind::Op => callee(unit, name)?,
        NameKind::Type => {
            let (_, adt) = unit.module.adts.iter().find(|a| a.1.name == text)?;
            let fields = |c: &relax_ir::Ctor| -> Vec<String> {
                c.fields.iter().map(|&f| unit.module.show_type(f)).collect()
            };
            let mut code = match adt.opaque {
                true => format!("extern type {text}"),
                false => format!("type {text}"),
            };
            let params = &unit.module.types.params;
            let names: Vec<_> = adt
                .params
                .iter()
                .map(|&p| params[p].name.as_str())
                .collect();
            if !names.is_empty() {
                code.push_str(&format!("[{}]", names.join(", ")));
            }
            if !adt.opaque {
                code.push_str(" {\n");
                for &c in &adt.ctors {
                    let c = &unit.module.ctors[c];
                    let fields = fields(c).join(", ");
                    let list = if fields.is_empty() {
                        fields
                    } else {
                        format!("({fields})")
                    };
                    code.push_str(&format!("  {}{list},\n", c.name));
                }
                code.push('}');
            }
            fence(&code)
        }
        NameKind::TypeParam => {
            let p = unit
                .ast
                .type_params
                .values()
                .find(|p| Some(p.span.start) == name.binding.map(|b| b.start));
            let kind = p.and_then(|p| p.kind).map_or("Type", |k| k.as_str());
            fence(&format!("{text}: {kind}"))
        }
        NameKind::Dim => {
            let mut out = fence(&format!("{text}: ShapeVar"));
            let place = doc.place(part, name.binding?);
            out.push_str(&format!(
                "\n\na dimension, bound in line {}",
                line(doc, place)
            ));
            out
        }
        NameKind::Relation => match registry().relation(text.as_str()) {
            Some(_) => format!(
                "{}\n\na built-in type relation",
                fence(&format!("rel {text}"))
            ),
            None => {
                let r = unit.module.relations.values().find(|r| r.name == text)?;
                fence(declaration(unit, r.span).unwrap_or(text.as_str()))
            }
        },
        NameKind::Key => {
            let def = called(unit, name.span)?;
            let attr = def.attr(text.as_str())?;
            format!("{}\n\n{}", fence(&attr_text(attr)), attr.doc)
        }
        NameKind::Attr => {
            let binding = name.binding?;
            let b = unit.ast.binders.values().find(|b| b.span == binding)?;
            let ty = b.ty.map_or("", |t| unit.file.slice(unit.ast.types[t].span));
            format!("{}\n\nan attribute", fence(&format!("{text}: {ty}")))
        }
    })
}

/// Returns the value of the graph binding whose variable is at a span.
pub fn graph_value(unit: &Unit, binding: Span) -> Option<ast::ExprId> {
    unit.ast.stmts.values().find_map(|s| match s.kind {
        StmtKind::Graph { value, .. } if s.span.start == binding.start => Some(value),
        _ => None,
    })
}

fn callee(unit: &Unit, name: &Name) -> Option<String> {
    let text = name.text;
    let m = &unit.module;
    let ctor = m.ctors.iter().find(|c| c.1.name == text);
    let mut out = if let Some((_, c)) = ctor
        && name.kind != NameKind::Op
    {
        let fields: Vec<String> = c.fields.iter().map(|&f| m.show_type(f)).collect();
        let adt = &m.adts[c.adt];
        let params: Vec<_> = adt
            .params
            .iter()
            .map(|&p| m.types.params[p].name.as_str())
            .collect();
        let list = match params.is_empty() {
            true => String::new(),
            false => format!("[{}]", params.join(", ")),
        };
        let head = match fields.is_empty() {
            true => text.to_string(),
            false => format!("{text}({})", fields.join(", ")),
        };
        format!(
            "{}\n\na constructor of `{}`",
            fence(&format!("{head} -> {}{list}", adt.name)),
            adt.name
        )
    } else if let Some(user) = m.user_ops.iter().find(|o| o.name == text) {
        match declaration(unit, user.span) {
            Some(code) => fence(code),
            None => format!(
                "{}\n\nan operator of the prelude",
                fence(&format!("op {text}"))
            ),
        }
    } else {
        op_text(registry().get(registry().find(text.as_str())?)?)
    };
    // The result type of this call.
    let mut call = unit
        .exprs
        .iter()
        .filter(|e| e.0.start == name.span.start && e.0.end > name.span.end);
    let call = call
        .next_back()
        .filter(|e| matches!(m.exprs[e.1], Expr::Call { .. }));
    if let Some(&(_, e)) = call
        && !matches!(m.types[unit.typing.exprs[e]], Type::Error)
    {
        out.push_str(&format!(
            "\n\nhere it gives `{}`",
            m.show_type(unit.typing.exprs[e])
        ));
        out.push_str(&checks(unit, e));
    }
    Some(out)
}

/// Returns the declaration of the item whose name is at a span: its text up to the body.
fn declaration(unit: &Unit, name: Span) -> Option<&str> {
    let item = unit.ast.items.iter().find(|i| i.name_span == name)?;
    let text = unit.file.slice(item.span);
    let brace = text.find(['{']).unwrap_or(text.len());
    Some(text[..brace].trim_end())
}

/// Returns the comment lines right above an item.
fn comment(unit: &Unit, name: Span) -> Option<String> {
    // Generated items, and those that did not parse, may have no span.
    let item = unit.ast.items.iter().find(|i| i.name_span == name)?;
    if item.span == Span::NONE {
        return None;
    }
    let text = unit.file.slice(Span::new(unit.file.start, item.span.start));
    let mut lines: Vec<&str> = Vec::new();
    for line in text
        .lines()
        .rev()
        .skip_while(|l| l.trim().is_empty() && l.len() == text.len())
    {
        let Some(said) = line.trim().strip_prefix("//") else {
            break;
        };
        lines.push(said.trim_start_matches('/').trim());
    }
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns the signature line of an operator.
pub fn op_signature(def: &OpDef) -> String {
    let mut parts: Vec<String> = def.inputs.iter().map(|i| format!("%{}", i.name)).collect();
    if def.arity == Arity::AtLeast {
        parts.push("…".into());
    }
    parts.extend(def.attrs.iter().map(attr_text));
    format!("{}({})", def.name, parts.join(", "))
}

/// Formats an attribute: `axis: int = -1`
pub fn attr_text(a: &AttrDef) -> String {
    let ty = format!("{:?}", a.ty).to_lowercase();
    match a.default {
        AttrDefault::Required => format!("{}: {ty}", a.name),
        AttrDefault::None => format!("{}: {ty} = None", a.name),
        AttrDefault::Int(v) => format!("{}: {ty} = {v}", a.name),
        AttrDefault::Float(v) => format!("{}: {ty} = {v:?}", a.name),
        AttrDefault::Bool(v) => format!("{}: {ty} = {}", a.name, if v { "True" } else { "False" }),
        AttrDefault::Str(v) => format!("{}: {ty} = {v:?}", a.name),
        AttrDefault::DType(v) => format!("{}: {ty} = {v:?}", a.name),
        AttrDefault::Ints(v) => format!("{}: {ty} = {v:?}", a.name),
        AttrDefault::Floats(v) => format!("{}: {ty} = {v:?}", a.name),
    }
}

/// Returns the signature and documentation of an operator.
pub fn op_text(def: &OpDef) -> String {
    let mut out = format!("{}\n\n{}", fence(&op_signature(def)), def.doc);
    if !def.sugar.is_empty() {
        out.push_str(&format!("\n\nalso written `a {} b`", def.sugar));
    }
    if !def.inputs.is_empty() || !def.attrs.is_empty() {
        out.push('\n');
    }
    for i in def.inputs {
        out.push_str(&format!("\n- `%{}`: {}", i.name, i.doc));
    }
    for a in def.attrs {
        out.push_str(&format!("\n- `{}`: {}", a.name, a.doc));
    }
    out
}

/// Returns the operator of the call whose attribute key is at a span.
fn called(unit: &Unit, key: Span) -> Option<&'static OpDef> {
    for e in unit.ast.exprs.values() {
        if let ExprKind::Call { callee, attrs, .. } = e.kind
            && e.span.start <= key.start
            && key.end <= e.span.end
            && unit
                .ast
                .list(attrs)
                .any(|a| unit.ast.attrs[a].span.start == key.start)
            && let ExprKind::Name(name) = unit.ast.exprs[callee].kind
        {
            return registry().get(registry().find(name.as_str())?);
        }
    }
    None
}

fn line(doc: &Document, place: Span) -> u32 {
    range(doc, place).start.line + 1
}

/// Returns the origins of the dimensions in a type.
fn facts(doc: &mut Document, part: usize, unit: &Unit, ty: TypeId) -> String {
    let mut dims: Vec<DimVar> = Vec::new();
    if let Type::Tensor(t) = &unit.module.types[ty]
        && let Shape::Dims(list) = &t.shape
    {
        for d in list {
            dims.extend(d.free_vars());
        }
    }
    dims.sort_unstable();
    dims.dedup();
    let mut out = String::new();
    for d in dims {
        let Some(info) = unit.module.dims.get(d).filter(|i| !i.span.is_none()) else {
            continue;
        };
        let place = doc.place(part, info.span);
        let text = doc.text.as_str().lines().nth(line(doc, place) as usize - 1);
        let text = text.unwrap_or("").trim();
        out.push_str(&format!(
            "\n- `{}` is bound in line {}: `{text}`",
            info.name,
            line(doc, place)
        ));
    }
    if out.is_empty() {
        out
    } else {
        format!("\n\n{}", out.trim_start())
    }
}

/// Returns the run-time checks at an expression.
fn checks(unit: &Unit, e: ExprId) -> String {
    let m = &unit.module;
    let mut out = String::new();
    for c in unit.typing.checks_of(e) {
        let what = match &c.kind {
            CheckKind::Equal(a, b) => format!("`{} == {}`", m.show_dim(a), m.show_dim(b)),
            CheckKind::Broadcast(a, b) => {
                format!(
                    "`{}` and `{}` are equal, or one is 1",
                    m.show_dim(a),
                    m.show_dim(b)
                )
            }
            CheckKind::HasType(t) | CheckKind::HasShape(t) => {
                format!("the value has type `{}`", m.show_type(*t))
            }
        };
        out.push_str(&format!("\n\nchecked when it runs: {what}"));
    }
    out
}

fn of_expr(doc: &mut Document, part: usize, unit: &Unit, pos: u32) -> Option<(String, Span)> {
    let e = *unit.exprs_at(pos).first()?;
    let m = &unit.module;
    let span = m.spans[e];
    if span.len() > 4096 {
        // Between the parts of a large expression: nothing to show.
        return None;
    }
    let ty = unit.typing.exprs[e];
    let mut out = match &m.exprs[e] {
        Expr::Error => return None,
        Expr::Op(op) => op_at(unit, *op)?,
        _ if matches!(m.types[ty], Type::Error) => return None,
        _ => fence(&m.show_type(ty)),
    };
    if let Expr::Const(c) = m.exprs[e] {
        let value = &m.consts[c];
        if value.len() <= SMALL {
            let list: Vec<String> = (0..value.len())
                .map(|i| match value.dtype().is_float() {
                    true => format!("{:?}", value.get_f64(i)),
                    false => value.get_i64(i).to_string(),
                })
                .collect();
            let text = match value.is_scalar() {
                true => list.concat(),
                false => format!("[{}]", list.join(", ")),
            };
            out.push_str(&format!("\n\nvalue: `{text}`"));
        }
    }
    out.push_str(&facts(doc, part, unit, ty));
    out.push_str(&checks(unit, e));
    Some((out, span))
}

fn op_at(unit: &Unit, op: OpId) -> Option<String> {
    match unit.module.user_op(op) {
        Some(user) => Some(fence(declaration(unit, user.span)?)),
        None => Some(op_text(registry().get(op)?)),
    }
}
