//! Branches and loops: `if` and recursive functions.

use relax_sym::Dim;

use crate::cx::Cx;
use crate::graph::Tr;
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
    /// A function that calls itself while `test` holds of its values, each time with those that `step` makes of them.
    /// `kinds` are the extents of each value, `?` where they change. The results are the last values.
    pub fn recursion(
        &mut self,
        init: &[Val],
        kinds: &[Vec<Dim>],
        test: impl FnOnce(&mut Self, &[Val]) -> R<Val>,
        step: impl FnOnce(&mut Self, &[Val]) -> R<Vec<Val>>,
    ) -> R<Vec<Val>> {
        let f = self.variable();
        let own = Cx::mention(f);
        let mut states = Vec::new();
        let (mut parameters, mut types) = (Vec::new(), Vec::new());
        for (v, dims) in init.iter().zip(kinds) {
            let id = self.variable();
            let ty = self.show_type(dims, v.dtype());
            parameters.push(format!("{}: {ty}", Cx::mention(id)));
            types.push(ty);
            states.push(self.val(Cx::mention(id).into(), v.elem, dims));
        }
        let tuple = |parts: &[String]| match parts {
            [one] => one.clone(),
            _ => format!("({})", parts.join(", ")),
        };
        self.open();
        self.open();
        let tested = test(self, &states);
        let tested = match tested {
            Ok(v) => v,
            Err(e) => {
                self.close("");
                self.close("");
                return Err(e);
            }
        };
        let tested = self.text(&tested);
        self.open();
        let next = step(self, &states);
        let next = match next {
            Ok(next) => next,
            Err(e) => {
                for _ in 0..3 {
                    self.close("");
                }
                return Err(e);
            }
        };
        let mut args = Vec::new();
        for v in &next {
            args.push(self.text(v).to_string());
        }
        let again = self.close(&format!("{own}({})", args.join(", ")));
        let last: Vec<String> = parameters
            .iter()
            .map(|p| p.split(": ").next().unwrap_or("").to_owned())
            .collect();
        let done = tuple(&last);
        let body = self.close(&format!("if ({tested}) {{\n{again}}} else {{\n{done}\n}}"));
        self.close("");
        let result = tuple(&types);
        self.bind_to(
            f,
            format!("fn ({}) -> {result} {{\n{body}}}", parameters.join(", ")),
        );
        let mut args = Vec::new();
        for (v, dims) in init.iter().zip(kinds) {
            let v = if *v.dims == **dims {
                v.clone()
            } else {
                self.matched(v, dims)
            };
            args.push(self.text(&v).to_string());
        }
        let call = self.bind(format!("{own}({})", args.join(", ")));
        let one = init.len() == 1;
        Ok((init.iter().zip(kinds).enumerate())
            .map(|(i, (v, dims))| {
                let text = if one {
                    call.to_string()
                } else {
                    format!("{call}.{i}")
                };
                self.val(text.into(), v.elem, dims)
            })
            .collect())
    }

    /// The nodes of a graph inside of another one, and its outputs. `given` are its inputs.
    fn subgraph(&mut self, what: &str, graph: &GraphProto, given: &[Value]) -> R<Vec<Value>> {
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

fn tensors(values: Vec<Value>) -> R<Vec<Val>> {
    values
        .into_iter()
        .map(|v| match v {
            Value::Tensor(v) => Ok(v),
            Value::Failed => Err(Fault::Follows),
            _ => unsupported(
                "sequences and optionals that pass through loops or branches are not supported",
            ),
        })
        .collect()
}

/// Extents that two tensors have in common; `?` where they differ.
fn common(a: &[Dim], b: &[Dim]) -> R<Vec<Dim>> {
    if a.len() != b.len() {
        return unsupported(format!(
            "results of rank {} and {} in the same place are not supported",
            a.len(),
            b.len()
        ));
    }
    Ok(a.iter()
        .zip(b)
        .map(|(x, y)| if x == y { x.clone() } else { Dim::ANY })
        .collect())
}

fn branch(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let c = n.t(0)?;
    let known = c.tensor().map(|t| t.get_i64(0) != 0);
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
    let mut sides = Vec::new();
    for name in ["then_branch", "else_branch"] {
        tr.open();
        let results = n.graph(name).and_then(|g| tr.subgraph(name, g, &[]));
        let flat = results.and_then(|r| flatten(&r));
        match flat {
            Ok((form, flat)) => sides.push((form, flat)),
            Err(e) => {
                for _ in 0..=sides.len() {
                    tr.close("");
                }
                return Err(e);
            }
        }
    }
    let (other_form, others) = sides.pop().unwrap_or_default();
    let (form, firsts) = sides.pop().unwrap_or_default();
    let mut kinds = Vec::new();
    let mut fault = (form != other_form).then(|| {
        Fault::Unsupported("branches with sequences of different lengths are not supported".into())
    });
    for (a, b) in firsts.iter().zip(&others) {
        let mut dims = match common(&a.dims, &b.dims) {
            Ok(d) => d,
            Err(e) => {
                fault = Some(e);
                continue;
            }
        };
        outside(&mut dims, bound);
        kinds.push((a.elem, dims));
    }
    if let Some(fault) = fault {
        tr.close("");
        tr.close("");
        return Err(fault);
    }
    let otherwise = side(tr, &others, &kinds);
    let then = side(tr, &firsts, &kinds);
    let text = tr.bind(format!("if ({c}) {{\n{then}}} else {{\n{otherwise}}}"));
    let one = kinds.len() == 1;
    let mut flat = kinds.into_iter().enumerate().map(|(i, (elem, dims))| {
        let text = if one {
            text.to_string()
        } else {
            format!("{text}.{i}")
        };
        tr.val(text.into(), elem, &dims)
    });
    Ok(form.iter().map(|f| unflatten(*f, &mut flat)).collect())
}

/// How a value is made of tensors: one, or a sequence of so many, or none.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    One,
    Many(usize),
    None,
}

fn flatten(values: &[Value]) -> R<(Vec<Form>, Vec<Val>)> {
    let (mut forms, mut flat) = (Vec::new(), Vec::new());
    for v in values {
        match v {
            Value::Seq(items) => {
                forms.push(Form::Many(items.len()));
                flat.extend(tensors(items.to_vec())?);
            }
            Value::Nothing => forms.push(Form::None),
            other => {
                forms.push(Form::One);
                flat.extend(tensors(vec![other.clone()])?);
            }
        }
    }
    Ok((forms, flat))
}

fn unflatten(form: Form, flat: &mut impl Iterator<Item = Val>) -> Value {
    match form {
        Form::One => flat.next().map_or(Value::Nothing, Value::Tensor),
        Form::Many(n) => Value::Seq(flat.take(n).map(Value::Tensor).collect::<Vec<_>>().into()),
        Form::None => Value::Nothing,
    }
}

/// Variables that were made since are not seen outside.
fn outside(dims: &mut [Dim], bound: usize) {
    for d in dims {
        if d.free_vars().iter().any(|v| v.0 as usize >= bound) {
            *d = Dim::ANY;
        }
    }
}

/// Closes the block of one side of a branch.
fn side(tr: &mut Tr<'_>, values: &[Val], kinds: &[(Elem, Vec<Dim>)]) -> String {
    let mut parts = Vec::new();
    for (v, (_, dims)) in values.iter().zip(kinds) {
        let v = tr.matched(v, dims);
        parts.push(tr.text(&v).to_string());
    }
    let result = match parts.as_slice() {
        [one] => one.clone(),
        _ => format!("({})", parts.join(", ")),
    };
    tr.close(&result)
}

/// What the body of a loop makes of values with these extents, to see which of them change. Nothing is written.
fn rehearse(tr: &mut Tr<'_>, what: &str, body: &GraphProto, given: &[Value]) -> R<Vec<Val>> {
    let problems = tr.problems.len();
    tr.open();
    let results = tr.subgraph(what, body, given).and_then(tensors);
    tr.close("");
    if results.is_err() && tr.problems.len() > problems {
        return Err(Fault::Follows);
    }
    if tr.problems.len() > problems {
        return Err(Fault::Follows);
    }
    results
}

fn looped(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let body = n.graph("body")?;
    let (trips, going) = (n.opt(0)?, n.opt(1)?);
    let carried = n.inputs.len().saturating_sub(2);
    let init = tensors(
        (0..carried)
            .map(|i| n.value(2 + i))
            .collect::<R<Vec<_>>>()?,
    )?;
    let scans = body
        .output
        .len()
        .checked_sub(1 + carried)
        .ok_or("the body gives too few values")?;
    let trips = trips.map(|t| tr.as_scalar(&t)).transpose()?;
    let going = match going {
        Some(g) => tr.as_scalar(&g)?,
        None => tr.number(Elem::BOOL, 1.0),
    };
    let bound = tr.module.dims.len();
    let mut kinds: Vec<Vec<Dim>> = init.iter().map(|v| v.dims.to_vec()).collect();
    let mut rows: Vec<(Elem, Vec<Dim>)> = Vec::new();
    // Extents that change become `?`; a second look may find more that depend on them.
    for _ in 0..8 {
        let mut given = vec![stand_in(tr, Elem::I64, &[]), stand_in(tr, Elem::BOOL, &[])];
        for (v, dims) in init.iter().zip(&kinds) {
            given.push(stand_in(tr, v.elem, dims));
        }
        let found = rehearse(tr, "body", body, &given)?;
        let mut next = Vec::new();
        for (dims, v) in kinds.iter().zip(&found[1..]) {
            next.push(common(dims, &v.dims)?);
        }
        rows = found[1 + carried..]
            .iter()
            .map(|v| (v.elem, v.dims.to_vec()))
            .collect();
        if next == kinds {
            break;
        }
        kinds = next;
    }
    for (_, dims) in &mut rows {
        outside(dims, bound);
    }
    let start = tr.number(Elem::I64, 0.0);
    let mut all = vec![start, going];
    all.extend(init.iter().cloned());
    let mut types = vec![Vec::new(), Vec::new()];
    types.extend(kinds.iter().cloned());
    for (elem, dims) in &rows {
        let (empty, grown) = collected(tr, *elem, dims)?;
        all.push(empty);
        types.push(grown);
    }
    let results = tr.recursion(
        &all,
        &types,
        |tr, s| match &trips {
            Some(t) => {
                let more = tr.binary("less", &s[0], t)?;
                tr.binary("logical_and", &more, &s[1])
            }
            None => Ok(s[1].clone()),
        },
        |tr, s| {
            let given: Vec<Value> = s[..2 + carried]
                .iter()
                .cloned()
                .map(Value::Tensor)
                .collect();
            let out = tensors(tr.subgraph("body", body, &given)?)?;
            let mut next = vec![tr.by("add", &s[0], 1.0)?, tr.as_scalar(&out[0])?];
            for (v, dims) in out[1..=carried].iter().zip(&kinds) {
                next.push(tr.matched(v, dims));
            }
            for (k, v) in out[1 + carried..].iter().enumerate() {
                let row = tr.expand(v, 0)?;
                next.push(appended(tr, &s[2 + carried + k], row, true)?);
            }
            Ok(next)
        },
    )?;
    let _ = scans;
    Ok(results[2..].iter().cloned().map(Value::Tensor).collect())
}

/// A variable of a type, where only types matter.
fn stand_in(tr: &mut Tr<'_>, elem: Elem, dims: &[Dim]) -> Value {
    let id = tr.variable();
    tr.val(Cx::mention(id).into(), elem, dims).into()
}

/// No rows of these extents, and the type of any number of them.
fn collected(tr: &mut Tr<'_>, elem: Elem, dims: &[Dim]) -> R<(Val, Vec<Dim>)> {
    if dims.iter().any(|d| !d.is_known()) {
        return unsupported("collecting results whose extents change is not supported");
    }
    let zero = tr.number(
        Elem::of(elem.storage().unwrap_or(relax_tensor::DType::F32)),
        0.0,
    );
    let mut none = vec![Dim::ZERO];
    none.extend_from_slice(dims);
    let mut empty = tr.full(&zero, &none)?;
    empty.elem = elem;
    none[0] = Dim::ANY;
    Ok((empty, none))
}

/// Rows with one more, at the end or the beginning.
fn appended(tr: &mut Tr<'_>, rows: &Val, row: Val, behind: bool) -> R<Val> {
    let mut dims = rows.dims.to_vec();
    dims[0] = Dim::ONE;
    let row = tr.matched(&row, &dims);
    let parts = if behind {
        [rows.clone(), row]
    } else {
        [row, rows.clone()]
    };
    let all = tr.concat(&parts, 0)?;
    Ok(tr.matched(&all, &rows.dims.clone()))
}

fn scan(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let body = n.graph("body")?;
    let count = usize::try_from(n.int("num_scan_inputs", 0)).unwrap_or(0);
    let mut inputs = n.inputs.clone();
    let batched = n.opset < 9;
    if batched {
        if !matches!(inputs.first(), Some(Value::Nothing)) {
            return unsupported("lengths of sequences are not supported");
        }
        inputs.remove(0);
    }
    let all = tensors(inputs)?;
    let states = all
        .len()
        .checked_sub(count)
        .ok_or("there are too few inputs")?;
    let mut init = all[..states].to_vec();
    let mut sources = all[states..].to_vec();
    let batch = batched
        .then(|| init.first().or(sources.first()).map(|v| v.dims[0].clone()))
        .flatten();
    if batched {
        // The first version runs a scan for each batch; only one is supported.
        if batch.as_ref().and_then(Dim::as_const) != Some(1) {
            return unsupported(
                "the first version of the operator is supported for batches of 1 only",
            );
        }
        for v in init.iter_mut().chain(&mut sources) {
            *v = tr.squeeze(v, &[0])?;
        }
    }
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
    let bound = tr.module.dims.len();
    let mut given: Vec<Value> = Vec::new();
    for v in &init {
        given.push(stand_in(tr, v.elem, &v.dims));
    }
    for (v, &a) in sources.iter().zip(&places) {
        let mut dims = v.dims.to_vec();
        dims.remove(a);
        given.push(stand_in(tr, v.elem, &dims));
    }
    let found = rehearse(tr, "body", body, &given)?;
    if found.len() < states {
        return Err("the body gives too few values".into());
    }
    let outs = found.len() - states;
    let ahead = n.ints("scan_output_directions").unwrap_or(vec![0; outs]);
    let to = n.ints("scan_output_axes").unwrap_or(vec![0; outs]);
    let mut kinds: Vec<Vec<Dim>> = Vec::new();
    for (v, f) in init.iter().zip(&found) {
        kinds.push(common(&v.dims, &f.dims)?);
    }
    let start = tr.number(Elem::I64, 0.0);
    let mut values = vec![start];
    values.extend(init.iter().cloned());
    let mut types = vec![Vec::new()];
    types.extend(kinds.iter().cloned());
    for f in &found[states..] {
        let mut dims = f.dims.to_vec();
        outside(&mut dims, bound);
        let (empty, grown) = collected(tr, f.elem, &dims)?;
        values.push(empty);
        types.push(grown);
    }
    let len = tr.shape_of(&sources[0])?;
    let len = tr.pick(&len, 0, places[0] as i64)?;
    let one = tr.number(Elem::I64, 1.0);
    let last = tr.sub(&len, &one)?;
    let results = tr.recursion(
        &values,
        &types,
        |tr, s| tr.binary("less", &s[0], &len),
        |tr, s| {
            let mut given: Vec<Value> = s[1..=states].iter().cloned().map(Value::Tensor).collect();
            for (k, v) in sources.iter().enumerate() {
                let at = if ways[k] == 1 {
                    tr.sub(&last, &s[0])?
                } else {
                    s[0].clone()
                };
                given.push(tr.take(v, &at, places[k])?.into());
            }
            let out = tensors(tr.subgraph("body", body, &given)?)?;
            let mut next = vec![tr.by("add", &s[0], 1.0)?];
            for (v, dims) in out[..states].iter().zip(&kinds) {
                next.push(tr.matched(v, dims));
            }
            for (k, v) in out[states..].iter().enumerate() {
                let row = tr.expand(v, 0)?;
                let behind = ahead.get(k) != Some(&1);
                next.push(appended(tr, &s[1 + states + k], row, behind)?);
            }
            Ok(next)
        },
    )?;
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
