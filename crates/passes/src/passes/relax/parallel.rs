//! `relax-combine-parallel-matmul`: combines the products of one operand with several matrices into
//! one.
//!
//! The matrices are concatenated, and the results are slices of the product. Biases and an
//! activation that all of them share are combined too. At most one matrix may have an unknown
//! number of columns; it comes last.

use relax_base::{Diagnostics, Symbol};
use relax_ir::{AttrValue, Expr, ExprId, Type, VarId, VarStyle};
use relax_ops::Fusion;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Bind, Part, Value, each_typed_code, each_var};
use crate::edit::Edit;
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-combine-parallel-matmul",
    doc: "Relax's combine-parallel-matmul: products with one operand become one.",
    options: &[OptionDef {
        name: "min-branches",
        ty: OptionType::Int,
        default: "3",
        doc: "fewer products stay apart",
    }],
    contract: Contract::TYPED,
    run,
}];

const MATMUL: &str = "relax.matmul";

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let least = usize::try_from(cx.options.int("min-branches")).unwrap_or(usize::MAX);
    let mut combined = 0;
    each_typed_code(&mut Edit::new(cx.module, &typing), |edit, _, code| {
        let before = combined;
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            if part.flow {
                combined += combine(edit, part, least.max(2));
            }
        }
        combined > before
    });
    cx.count("products combined", combined);
    Ok(())
}

/// A product and the operators that follow it.
#[derive(Clone)]
struct Branch {
    weight: ExprId,
    product: usize,
    bias: Option<(ExprId, usize)>,
    activation: Option<(String, usize)>,
    /// The number of columns, if known.
    columns: Option<i64>,
}

impl Branch {
    fn members(&self, bias: bool, activation: bool) -> Vec<usize> {
        let mut all = vec![self.product];
        all.extend(self.bias.iter().filter(|_| bias).map(|b| b.1));
        all.extend(self.activation.iter().filter(|_| activation).map(|a| a.1));
        all
    }
}

fn combine(edit: &mut Edit<'_>, part: &mut Part, least: usize) -> u64 {
    let mut groups: Vec<(ExprId, Vec<Branch>)> = Vec::new();
    for (i, b) in part.binds.iter().enumerate() {
        let call = b.expr().and_then(|e| edit.call_of(e, MATMUL));
        let Some(call) = call else {
            continue;
        };
        let branch = branch(edit, part, i, call.args[1]);
        let same = groups.iter_mut().find(|g| {
            let first = &g.1[0];
            edit.same(g.0, call.args[0]) && fits(edit, first.weight, branch.weight)
        });
        match same {
            Some(group) => group.1.push(branch),
            None => groups.push((call.args[0], vec![branch])),
        }
    }
    let mut n = 0;
    // Replacements of bindings, removed bindings, and insertions.
    let mut change = Change::default();
    for (lhs, mut branches) in groups {
        let mut open = 0;
        branches.retain(|b| {
            open += usize::from(b.columns.is_none());
            b.columns.is_some() || open == 1
        });
        branches.sort_by_key(|b| b.columns.is_none());
        if branches.len() < least {
            continue;
        }
        if one(edit, part, lhs, &branches, &mut change).is_some() {
            n += branches.len() as u64;
        }
    }
    if n > 0 {
        change.apply(part);
    }
    n
}

fn dims(edit: &Edit<'_>, e: ExprId) -> Option<Vec<relax_sym::Dim>> {
    edit.dims(e)
}

/// Returns whether two matrices can be concatenated.
fn fits(edit: &Edit<'_>, a: ExprId, b: ExprId) -> bool {
    let (Some(x), Some(y)) = (dims(edit, a), dims(edit, b)) else {
        return false;
    };
    let n = x.len();
    n >= 2 && n == y.len() && x[..n - 1] == y[..n - 1] && edit.dtype(a) == edit.dtype(b)
}

/// Returns the product at a binding, with the bias and the activation that are its only uses.
fn branch(edit: &Edit<'_>, part: &Part, product: usize, weight: ExprId) -> Branch {
    let columns = dims(edit, weight).and_then(|d| d.last()?.as_const());
    let mut branch = Branch {
        weight,
        product,
        bias: None,
        activation: None,
        columns,
    };
    let mut at = product;
    if let Some((i, bias)) =
        follower(edit, part, at).and_then(|i| Some((i, bias(edit, part, at, i)?)))
    {
        branch.bias = Some((bias, i));
        at = i;
    }
    if let Some((i, name)) = follower(edit, part, at).and_then(|i| Some((i, unary(edit, part, i)?)))
    {
        branch.activation = Some((name, i));
    }
    branch
}

/// Returns the binding that is the only user of another.
fn follower(edit: &Edit<'_>, part: &Part, of: usize) -> Option<usize> {
    let v = part.binds[of].var;
    if part.outputs.contains(&v) {
        return None;
    }
    let mut users = Vec::new();
    for (i, b) in part.binds.iter().enumerate() {
        if let Some(e) = b.expr() {
            each_var(edit.m, e, |u| {
                if u == v {
                    users.push(i);
                }
            });
        }
    }
    match users[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// Returns the vector that is added to a product.
fn bias(edit: &Edit<'_>, part: &Part, product: usize, at: usize) -> Option<ExprId> {
    let call = edit.call_of(part.binds[at].expr()?, "add")?;
    let own = |e: ExprId| matches!(edit.m.exprs[e], Expr::Var(v) if v == part.binds[product].var);
    let bias = match (own(call.args[0]), own(call.args[1])) {
        (true, false) => call.args[1],
        _ => return None,
    };
    (dims(edit, bias)?.len() == 1).then_some(bias)
}

/// Returns the name of an element-wise operator of one operand.
fn unary(edit: &Edit<'_>, part: &Part, at: usize) -> Option<String> {
    let call = edit.op_call(part.binds[at].expr()?)?;
    let plain = call.def.fusion == Fusion::Elementwise
        && call.args.len() == 1
        && edit.m.attrs(call.attrs).is_empty();
    plain.then(|| call.def.name.to_owned())
}

#[derive(Default)]
struct Change {
    values: FxHashMap<usize, ExprId>,
    gone: FxHashSet<usize>,
    before: FxHashMap<usize, Vec<Bind>>,
}

impl Change {
    fn apply(mut self, part: &mut Part) {
        let old = std::mem::take(&mut part.binds);
        for (i, mut b) in old.into_iter().enumerate() {
            part.binds
                .extend(self.before.remove(&i).into_iter().flatten());
            if self.gone.contains(&i) {
                continue;
            }
            if let Some(&value) = self.values.get(&i) {
                b.value = Value::Plain(value);
            }
            part.binds.push(b);
        }
    }
}

fn one(
    edit: &mut Edit<'_>,
    part: &Part,
    lhs: ExprId,
    branches: &[Branch],
    change: &mut Change,
) -> Option<()> {
    let with_bias = branches.iter().all(|b| b.bias.is_some());
    let name = branches[0].activation.as_ref().map(|a| a.0.clone());
    let with_activation = name.is_some()
        && branches.iter().all(|b| b.bias.is_some() == with_bias)
        && branches
            .iter()
            .all(|b| b.activation.as_ref().map(|a| &a.0) == name.as_ref());
    let all: Vec<usize> = branches
        .iter()
        .flat_map(|b| b.members(with_bias, with_activation))
        .collect();
    let first = *all.iter().min()?;
    if all
        .iter()
        .any(|i| change.gone.contains(i) || change.values.contains_key(i))
    {
        return None;
    }
    // The combined operands must all be available before the first product.
    let later: FxHashSet<VarId> = part.binds[first..].iter().map(|b| b.var).collect();
    let mut ready = true;
    for b in branches {
        let bias = b.bias.map(|b| b.0).filter(|_| with_bias);
        for e in [Some(b.weight), bias].into_iter().flatten() {
            each_var(edit.m, e, |v| ready &= !later.contains(&v));
        }
    }
    if !ready {
        return None;
    }
    let span = part.binds[first].span;
    let mut new = Vec::new();
    let mut name_it = |edit: &mut Edit<'_>, value: ExprId| {
        let ty = edit.ty(value);
        let (var, e) = edit.fresh_var(Symbol::new("lv"), ty, VarStyle::Binding);
        new.push(Bind::plain(var, value, span));
        e
    };
    let rank = dims(edit, branches[0].weight)?.len() as i64;
    let weights: Vec<ExprId> = branches.iter().map(|b| b.weight).collect();
    let weights = edit.tuple(&weights, span);
    let axis = |a: i64| [("axis", AttrValue::Int(a))];
    let weights = edit.call("concatenate", &[weights], &axis(rank - 1), span);
    let weights = name_it(edit, weights);
    let out = edit.dtype(part.binds[branches[0].product].expr()?)?;
    let attrs = [("out_dtype", AttrValue::DType(out))];
    let product = edit.call(MATMUL, &[lhs, weights], &attrs, span);
    let out_rank = edit.dims(product)?.len() as i64;
    let mut value = name_it(edit, product);
    if with_bias {
        let all: Vec<ExprId> = branches.iter().filter_map(|b| Some(b.bias?.0)).collect();
        let all = edit.tuple(&all, span);
        let bias = edit.call("concatenate", &[all], &axis(0), span);
        let bias = name_it(edit, bias);
        let sum = edit.call("add", &[value, bias], &[], span);
        value = name_it(edit, sum);
    }
    if with_activation {
        let at = branches[0].activation.as_ref()?.1;
        let call = edit.op_call(part.binds[at].expr()?)?;
        let attrs = edit.m.attrs(call.attrs).clone();
        let activated = edit.recall(&call, &[value], attrs, span);
        value = name_it(edit, activated);
    }
    let mut sections = Vec::new();
    let mut at = 0;
    for b in &branches[..branches.len() - 1] {
        at += b.columns?;
        sections.push(at);
    }
    let attrs = [
        ("indices_or_sections", AttrValue::ints(&sections)),
        ("axis", AttrValue::Int(out_rank - 1)),
    ];
    let parts = edit.call("split", &[value], &attrs, span);
    if !matches!(edit.m.types[edit.ty(parts)], Type::Tuple(_)) {
        return None;
    }
    let tuple = name_it(edit, parts);
    for (i, b) in branches.iter().enumerate() {
        let mut members = b.members(with_bias, with_activation);
        let last = members.pop()?;
        let index = i as u32;
        let field = edit.m.add(Expr::Proj { tuple, index }, span);
        change.values.insert(last, field);
        change.gone.extend(members);
    }
    change.before.entry(first).or_default().extend(new);
    Some(())
}
