//! Branches and loops: `if` and recursive functions.

use relax_sym::Dim;

use crate::cx::Cx;
use crate::graph::Tr;
use crate::kind::Kind;
use crate::node::{Fault, Node, R, unsupported};
use crate::proto::GraphProto;
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("If", 1, branch),
    op("Loop", 1, looped),
    op("Scan", 8, scan),
];

impl Tr<'_> {
    /// Emits a function that calls itself while `test` holds for its values, each time with the
    /// values that `step` computes from them. `kinds` are the extents of each value, `?` where they
    /// change. The results are the final values.
    pub fn recursion(
        &mut self,
        init: &[Val],
        kinds: &[Vec<Dim>],
        test: impl FnOnce(&mut Self, &[Val]) -> R<Val>,
        step: impl FnOnce(&mut Self, &[Val]) -> R<Vec<Val>>,
    ) -> R<Vec<Val>> {
        let values: Vec<Value> = init.iter().cloned().map(Value::Tensor).collect();
        let kinds: Vec<Kind> = (init.iter().zip(kinds))
            .map(|(v, dims)| Kind::Tensor(v.elem, Some(dims.as_slice().into())))
            .collect();
        let results = self.repeated(
            &values,
            &kinds,
            |tr, s| test(tr, &tensors(s.to_vec())?),
            |tr, s| {
                let next = step(tr, &tensors(s.to_vec())?)?;
                Ok(next.into_iter().map(Value::Tensor).collect())
            },
        )?;
        tensors(results)
    }

    /// Like [`Self::recursion`], with values of any type.
    pub fn repeated(
        &mut self,
        init: &[Value],
        kinds: &[Kind],
        test: impl FnOnce(&mut Self, &[Value]) -> R<Val>,
        step: impl FnOnce(&mut Self, &[Value]) -> R<Vec<Value>>,
    ) -> R<Vec<Value>> {
        let f = self.variable();
        let own = Cx::mention(f);
        let (mut states, mut names) = (Vec::new(), Vec::new());
        let (mut parameters, mut types) = (Vec::new(), Vec::new());
        for kind in kinds {
            let name = Cx::mention(self.variable());
            let ty = self.show_kind(kind);
            parameters.push(format!("{name}: {ty}"));
            types.push(ty);
            states.push(self.of_kind(name.as_str().into(), kind));
            names.push(name);
        }
        self.open();
        let tested = test(self, &states);
        self.open();
        let next = tested.and_then(|t| Ok((t, step(self, &states)?)));
        let next = next.and_then(|(tested, next)| {
            let mut args = Vec::new();
            for (v, kind) in next.iter().zip(kinds) {
                args.push(self.as_kind(v, kind)?.to_string());
            }
            Ok((tested, args))
        });
        let (tested, args) = match next {
            Ok(next) => next,
            Err(e) => {
                self.close("");
                self.close("");
                return Err(e);
            }
        };
        let again = self.close(&format!("{own}({})", args.join(", ")));
        let tested = self.text(&tested);
        let done = tuple(&names);
        let body = self.close(&format!("if ({tested}) {{\n{again}}} else {{\n{done}\n}}"));
        let result = tuple(&types);
        let header = format!("fn ({}) -> {result}", parameters.join(", "));
        self.bind_to(f, format!("{header} {{\n{body}}}"));
        let mut args = Vec::new();
        for (v, kind) in init.iter().zip(kinds) {
            args.push(self.as_kind(v, kind)?.to_string());
        }
        let call = self.bind(format!("{own}({})", args.join(", ")));
        let field = |i: usize| match kinds.len() {
            1 => call.to_string(),
            _ => format!("{call}.{i}"),
        };
        let value = |(i, kind): (usize, &Kind)| self.of_kind(field(i).into(), kind);
        Ok(kinds.iter().enumerate().map(value).collect())
    }

    /// Translates the nodes of a nested graph, and returns its outputs. `given` are its inputs.
    pub fn subgraph(&mut self, what: &str, graph: &GraphProto, given: &[Value]) -> R<Vec<Value>> {
        if self.too_deep() {
            return Err("graphs stand too deep in each other".into());
        }
        self.enter(what.to_owned());
        let mut run = || {
            for (info, value) in graph.input.iter().zip(given) {
                self.define(&info.name, value.clone());
            }
            self.initializers(graph)?;
            self.nodes(&graph.node);
            self.outputs(graph.output.iter().map(|o| &o.name))
        };
        let results = run();
        self.leave();
        results
    }
}

/// Combines expressions into one: a single one as it is, several as a tuple.
fn tuple(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        _ => format!("({})", parts.join(", ")),
    }
}

fn tensors(values: Vec<Value>) -> R<Vec<Val>> {
    values
        .into_iter()
        .map(|v| match v {
            Value::Tensor(v) => Ok(v),
            Value::Failed => Err(Fault::Follows),
            _ => unsupported("a sequence, an optional or a tensor of any rank in this place"),
        })
        .collect()
}

/// The merging of two branches' results.
enum Plan {
    /// Both have one type.
    One(Kind),
    /// Both are sequences of equal length, with a type for each element.
    Many(Vec<Kind>),
    /// Both are empty.
    Nothing,
}

fn branch(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let c = n.t(0)?;
    let known = c.truth();
    let known = known.or_else(|| {
        c.ints
            .as_ref()
            .and_then(|i| i.first()?.as_const())
            .map(|v| v != 0)
    });
    if let Some(yes) = known {
        let name = if yes { "then_branch" } else { "else_branch" };
        return tr.subgraph(name, n.graph(name)?, &[]);
    }
    let c = tr.as_scalar(&c)?;
    let c = tr.text(&c);
    let bound = tr.module.dims.len();
    let open = tr.depth();
    let built = (|| {
        let mut sides = Vec::new();
        for name in ["then_branch", "else_branch"] {
            tr.open();
            sides.push(tr.subgraph(name, n.graph(name)?, &[])?);
        }
        let plans = (sides[0].iter().zip(&sides[1]).enumerate())
            .map(|(k, (a, b))| {
                let rank = n.proto.output.get(k).and_then(|o| tr.ranks.get(o));
                plan(a, b, rank.copied(), bound)
            })
            .collect::<R<Vec<_>>>()?;
        let otherwise = side(tr, &sides[1], &plans)?;
        let then = side(tr, &sides[0], &plans)?;
        Ok((plans, then, otherwise))
    })();
    let (plans, then, otherwise) = match built {
        Ok(built) => built,
        Err(e) => {
            tr.close_to(open);
            return Err(e);
        }
    };
    let text = tr.bind(format!("if ({c}) {{\n{then}}} else {{\n{otherwise}}}"));
    let kinds: usize = plans.iter().map(|p| p.kinds().len()).sum();
    let mut at = 0;
    let mut value = |kind: &Kind| {
        let text: std::rc::Rc<str> = match kinds {
            1 => text.clone(),
            _ => format!("{text}.{at}").into(),
        };
        at += 1;
        tr.of_kind(text, kind)
    };
    let result = |p: &Plan| match p {
        Plan::One(kind) => value(kind),
        Plan::Many(kinds) => Value::Seq(kinds.iter().map(&mut value).collect()),
        Plan::Nothing => Value::Nothing,
    };
    Ok(plans.iter().map(result).collect())
}

impl Plan {
    /// Returns the types of what the branches return for it.
    fn kinds(&self) -> &[Kind] {
        match self {
            Plan::One(kind) => std::slice::from_ref(kind),
            Plan::Many(kinds) => kinds,
            Plan::Nothing => &[],
        }
    }
}

/// Returns how two corresponding results are merged; `rank` is the stated one, and variables from
/// `bound` on are not visible outside.
fn plan(a: &Value, b: &Value, rank: Option<usize>, bound: usize) -> R<Plan> {
    let joined = |a: &Value, b: &Value| -> R<Kind> {
        let kind = Kind::of_value(a)?.join(&Kind::of_value(b)?)?;
        Ok(kind.outside(bound))
    };
    match (a, b) {
        (Value::Nothing, Value::Nothing) => Ok(Plan::Nothing),
        (Value::Seq(x), Value::Seq(y)) if x.len() == y.len() => {
            let all = x.iter().zip(y.iter()).map(|(a, b)| joined(a, b));
            Ok(Plan::Many(all.collect::<R<_>>()?))
        }
        (Value::Tensor(x), Value::Tensor(y)) if x.rank() != y.rank() && x.elem == y.elem => {
            let (less, more) = if x.rank() < y.rank() { (x, y) } else { (y, x) };
            // The model states which rank is right; the other branch fails at run time.
            for v in [less, more] {
                if rank == Some(v.rank()) {
                    return Ok(Plan::One(Kind::of(v).outside(bound)));
                }
            }
            let missing = more.rank() - less.rank();
            let ones = std::iter::repeat_n(Dim::ONE, missing);
            let padded: Vec<Dim> = ones.chain(less.dims.iter().cloned()).collect();
            let padded = Kind::Tensor(x.elem, Some(padded.into()));
            match padded.join(&Kind::of(more))?.outside(bound) {
                Kind::Tensor(elem, Some(dims)) => Ok(Plan::One(Kind::Fewer(elem, dims))),
                other => Ok(Plan::One(other)),
            }
        }
        _ => Ok(Plan::One(joined(a, b)?)),
    }
}

/// Closes the block of one branch.
fn side(tr: &mut Tr<'_>, values: &[Value], plans: &[Plan]) -> R<String> {
    let mut parts = Vec::new();
    for (v, plan) in values.iter().zip(plans) {
        match (v, plan) {
            (_, Plan::Nothing) => {}
            (Value::Seq(items), Plan::Many(kinds)) => {
                for (v, kind) in items.iter().zip(kinds) {
                    parts.push(tr.as_kind(v, kind)?.to_string());
                }
            }
            _ => {
                for kind in plan.kinds() {
                    parts.push(tr.as_kind(v, kind)?.to_string());
                }
            }
        }
    }
    Ok(tr.close(&tuple(&parts)))
}

/// Returns the types that a loop's body computes from values of these types, to find out which
/// change. Nothing is emitted.
fn rehearse(tr: &mut Tr<'_>, what: &str, body: &GraphProto, given: &[Kind]) -> R<Vec<Kind>> {
    let problems = tr.problems.len();
    let given: Vec<Value> = given.iter().map(|kind| stand_in(tr, kind)).collect();
    tr.open();
    let results = tr.subgraph(what, body, &given);
    tr.close("");
    if tr.problems.len() > problems {
        return Err(Fault::Follows);
    }
    results?.iter().map(Kind::of_value).collect()
}

/// Creates a placeholder variable of a type.
fn stand_in(tr: &mut Tr<'_>, kind: &Kind) -> Value {
    let id = tr.variable();
    tr.of_kind(Cx::mention(id).into(), kind)
}

/// Widens the types of a loop's state to a fixpoint: until they include what the body computes from
/// them. Also returns the types of the body's other results. `given` are the types of its inputs
/// before and after the state.
pub fn settled(
    tr: &mut Tr<'_>,
    (before, init, behind): (&[Kind], &[Value], &[Kind]),
    body: &GraphProto,
    skipped: usize,
) -> R<(Vec<Kind>, Vec<Kind>)> {
    let bound = tr.module.dims.len();
    let mut kinds = init.iter().map(Kind::of_value).collect::<R<Vec<Kind>>>()?;
    for _ in 0..8 {
        let given = [before, &kinds, behind].concat();
        let found = rehearse(tr, "body", body, &given)?;
        let (Some(carried), Some(rest)) = (
            found.get(skipped..skipped + kinds.len()),
            found.get(skipped + kinds.len()..),
        ) else {
            return Err("the body gives too few values".into());
        };
        let mut next = Vec::new();
        for (a, b) in kinds.iter().zip(carried) {
            next.push(a.join(b)?.outside(bound));
        }
        if next == kinds {
            let rest = rest.iter().map(|k| k.clone().outside(bound)).collect();
            return Ok((kinds, rest));
        }
        kinds = next;
    }
    unsupported("the types of what the loop carries change each time")
}

/// Returns the element types and extents of results that are collected.
fn rows_of(kinds: &[Kind]) -> R<Vec<(Elem, Vec<Dim>)>> {
    kinds
        .iter()
        .map(|k| match k {
            Kind::Tensor(elem, Some(dims)) => Ok((*elem, dims.to_vec())),
            _ => unsupported("collecting sequences or tensors of any rank is not supported"),
        })
        .collect()
}

fn looped(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let body = n.graph("body")?;
    let (trips, going) = (n.opt(0)?, n.opt(1)?);
    let init: Vec<Value> = n.inputs.iter().skip(2).cloned().collect();
    let carried = init.len();
    let trips = trips.map(|t| tr.as_scalar(&t)).transpose()?;
    let going = match going {
        Some(g) => tr.as_scalar(&g)?,
        None => tr.number(Elem::BOOL, 1.0),
    };
    let scalar = |elem: Elem| Kind::Tensor(elem, Some(Vec::new().into()));
    let counters = [scalar(Elem::I64), scalar(Elem::BOOL)];
    let (kinds, rows) = settled(tr, (&counters, &init, &[]), body, 1)?;
    let rows = rows_of(&rows)?;
    let start = tr.number(Elem::I64, 0.0);
    let mut all: Vec<Value> = vec![start.into(), going.into()];
    all.extend(init);
    let mut types = counters.to_vec();
    types.extend(kinds.iter().cloned());
    for (elem, dims) in &rows {
        let (empty, grown) = collected(tr, *elem, dims)?;
        all.push(empty.into());
        types.push(grown);
    }
    let results = tr.repeated(
        &all,
        &types,
        |tr, s| {
            let [at, going] = [tensor(&s[0])?, tensor(&s[1])?];
            match &trips {
                Some(t) => {
                    let more = tr.binary("less", &at, t)?;
                    tr.binary("logical_and", &more, &going)
                }
                None => Ok(going),
            }
        },
        |tr, s| {
            let out = tr.subgraph("body", body, &s[..2 + carried])?;
            let at = tensor(&s[0])?;
            let going = tr.as_scalar(&tensor(&out[0])?)?;
            let mut next: Vec<Value> = vec![tr.by("add", &at, 1.0)?.into(), going.into()];
            next.extend_from_slice(&out[1..=carried]);
            for (k, v) in out[1 + carried..].iter().enumerate() {
                let row = tr.expand(&tensor(v)?, 0)?;
                let before = tensor(&s[2 + carried + k])?;
                next.push(appended(tr, &before, row, true, &at)?.into());
            }
            Ok(next)
        },
    )?;
    Ok(results[2..].to_vec())
}

fn tensor(v: &Value) -> R<Val> {
    match v {
        Value::Tensor(v) => Ok(v.clone()),
        Value::Failed => Err(Fault::Follows),
        _ => Err("a sequence or an optional in the place of a tensor".into()),
    }
}

/// Returns an empty tensor of rows with these extents, and the type with any number of them.
/// Unknown extents are 0 as long as there are no rows.
fn collected(tr: &mut Tr<'_>, elem: Elem, dims: &[Dim]) -> R<(Val, Kind)> {
    let stored = Elem::of(Val::stored(elem));
    let zero = tr.number(stored, 0.0);
    let known = |d: &Dim| if d.is_known() { d.clone() } else { Dim::ZERO };
    let none: Vec<Dim> = std::iter::once(Dim::ZERO)
        .chain(dims.iter().map(known))
        .collect();
    let mut empty = tr.full(&zero, &none)?;
    empty.elem = elem;
    let grown = std::iter::once(Dim::ANY).chain(dims.iter().cloned());
    Ok((empty, Kind::Tensor(elem, Some(grown.collect()))))
}

/// Appends or prepends a row. `count` is the number of rows so far.
fn appended(tr: &mut Tr<'_>, rows: &Val, row: Val, behind: bool, count: &Val) -> R<Val> {
    let mut dims = rows.dims.to_vec();
    dims[0] = Dim::ONE;
    let row = tr.matched(&row, &dims);
    let longer = |tr: &mut Tr<'_>| {
        let parts = if behind {
            [rows.clone(), row.clone()]
        } else {
            [row.clone(), rows.clone()]
        };
        let all = tr.concat(&parts, 0)?;
        Ok::<_, Fault>(tr.matched(&all, &rows.dims.clone()))
    };
    if rows.part(1..)?.iter().all(Dim::is_known) {
        return longer(tr);
    }
    // The first row determines the extents.
    let none = tr.by("equal", count, 0.0)?;
    let none = tr.text(&none);
    tr.open();
    let first = tr.matched(&row, &rows.dims.clone());
    let first = tr.text(&first);
    let then = tr.close(&first);
    tr.open();
    let more = longer(tr);
    let more = match more {
        Ok(v) => tr.text(&v),
        Err(e) => {
            tr.close("");
            return Err(e);
        }
    };
    let otherwise = tr.close(&more);
    let text = format!("if ({none}) {{\n{then}}} else {{\n{otherwise}}}");
    Ok(tr.line(text, rows.elem, &rows.dims.clone()))
}

/// The operands of the first version of `Scan`, which scans every part of a batch: of the only part,
/// as others are not supported.
fn only_batch(tr: &mut Tr<'_>, n: &Node<'_>) -> R<Vec<Val>> {
    let Some((Value::Nothing, inputs)) = n.inputs.split_first() else {
        return unsupported("lengths of sequences are not supported");
    };
    let mut all = tensors(inputs.to_vec())?;
    let batch = all.first().and_then(|v| v.dims.first()?.as_const());
    if batch != Some(1) {
        return unsupported("the first version of the operator is supported for batches of 1 only");
    }
    for v in &mut all {
        *v = tr.squeeze(v, &[0])?;
    }
    Ok(all)
}

fn scan(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let body = n.graph("body")?;
    let count = usize::try_from(n.int("num_scan_inputs", 0)).unwrap_or(0);
    let batched = n.opset < 9;
    let all = match batched {
        true => only_batch(tr, n)?,
        false => tensors(n.inputs.clone())?,
    };
    let states = all
        .len()
        .checked_sub(count)
        .ok_or("there are too few inputs")?;
    let (init, sources) = all.split_at(states);
    let axes = n.ints("scan_input_axes").unwrap_or(vec![0; count]);
    let ways = n
        .ints(if batched {
            "directions"
        } else {
            "scan_input_directions"
        })
        .unwrap_or(vec![0; count]);
    if axes.len() != count || ways.len() != count || sources.is_empty() {
        return Err("axes and directions do not fit the inputs".into());
    }
    let mut places = Vec::new();
    for (v, &a) in sources.iter().zip(&axes) {
        places.push(v.axis(a)?);
    }
    let slices: Vec<Kind> = (sources.iter().zip(&places))
        .map(|(v, &a)| {
            let mut dims = v.dims.to_vec();
            dims.remove(a);
            Kind::Tensor(v.elem, Some(dims.into()))
        })
        .collect();
    let carried: Vec<Value> = init.iter().cloned().map(Value::Tensor).collect();
    let (kinds, rows) = settled(tr, (&[], &carried, &slices), body, 0)?;
    let rows = rows_of(&rows)?;
    let outs = rows.len();
    let ahead = n.ints("scan_output_directions").unwrap_or(vec![0; outs]);
    let to = n.ints("scan_output_axes").unwrap_or(vec![0; outs]);
    let start = tr.number(Elem::I64, 0.0);
    let mut values: Vec<Value> = vec![start.into()];
    values.extend(carried);
    let mut types = vec![Kind::Tensor(Elem::I64, Some(Vec::new().into()))];
    types.extend(kinds);
    for (elem, dims) in &rows {
        let (empty, grown) = collected(tr, *elem, dims)?;
        values.push(empty.into());
        types.push(grown);
    }
    let len = tr.shape_of(&sources[0])?;
    let len = tr.pick(&len, 0, places[0] as i64)?;
    let one = tr.number(Elem::I64, 1.0);
    let last = tr.sub(&len, &one)?;
    let results = tr.repeated(
        &values,
        &types,
        |tr, s| tr.binary("less", &tensor(&s[0])?, &len),
        |tr, s| {
            let at = tensor(&s[0])?;
            let mut given: Vec<Value> = s[1..=states].to_vec();
            for (k, v) in sources.iter().enumerate() {
                let place = match ways[k] {
                    1 => tr.sub(&last, &at)?,
                    _ => at.clone(),
                };
                given.push(tr.take(v, &place, places[k])?.into());
            }
            let out = tr.subgraph("body", body, &given)?;
            let mut next: Vec<Value> = vec![tr.by("add", &at, 1.0)?.into()];
            next.extend_from_slice(&out[..states]);
            for (k, v) in out[states..].iter().enumerate() {
                let row = tr.expand(&tensor(v)?, 0)?;
                let behind = ahead.get(k) != Some(&1);
                let before = tensor(&s[1 + states + k])?;
                next.push(appended(tr, &before, row, behind, &at)?.into());
            }
            Ok(next)
        },
    )?;
    let results = tensors(results)?;
    let mut out: Vec<Value> = results[1..=states]
        .iter()
        .cloned()
        .map(Value::Tensor)
        .collect();
    for (k, v) in results[1 + states..].iter().enumerate() {
        let mut dims = v.dims.to_vec();
        dims[0] = sources[0].dims[places[0]].clone();
        let mut v = tr.matched(v, &dims);
        let axis = v.axis(to.get(k).copied().unwrap_or(0))?;
        if axis != 0 {
            let mut order: Vec<usize> = (1..v.rank()).collect();
            order.insert(axis, 0);
            v = tr.transpose(&v, &order)?;
        }
        out.push(v.into());
    }
    if batched {
        for v in &mut out {
            if let Value::Tensor(t) = v {
                *v = tr.expand(t, 0)?.into();
            }
        }
    }
    Ok(out)
}
