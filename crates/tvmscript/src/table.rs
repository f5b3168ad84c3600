//! The mapping of Relax's operators to those of the registry: the table of `data/operators.txt`.

use std::sync::OnceLock;

use relax_base::Symbol;
use relax_ir::{AttrValue, Attrs, OpId};
use relax_ops::{AttrTy, OpDef, registry};
use rustc_hash::FxHashMap;

static TEXT: &str = include_str!("../data/operators.txt");

/// A parameter of an operator of Relax.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub name: &'static str,
    /// Whether it is a value rather than an attribute.
    pub input: bool,
    /// Whether it takes all remaining arguments.
    pub rest: bool,
    pub default: Option<AttrValue>,
    /// Whether it is the types of results.
    pub types: bool,
    /// Its name, and the one that it had in earlier releases.
    pub symbols: (Symbol, Option<Symbol>),
}

/// Where the type of a result is given, under today's names and yesterday's.
const TYPE_PARAMS: [(&str, &str); 2] = [("out_ty", "out_sinfo"), ("ty_args", "sinfo_args")];

/// A parameter that is an attribute of ours.
#[derive(Debug)]
pub(crate) struct Given {
    /// The parameter.
    pub param: usize,
    /// The attribute.
    pub name: &'static str,
    /// Its name as a symbol.
    pub symbol: Symbol,
    /// Its type.
    pub ty: AttrTy,
    pub way: Way,
}

impl Given {
    fn new(def: &OpDef, param: usize, name: &str, way: Way) -> Option<Given> {
        let attr = def.attr(name)?;
        Some(Given {
            param,
            name: attr.name,
            symbol: Symbol::new(attr.name),
            ty: attr.ty,
            way,
        })
    }
}

/// The conversion of a parameter to an attribute of the registered operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Unchanged.
    Same,
    /// Negated.
    Negated,
    /// An integer, as a list of one.
    Single,
    /// An index map, from the source layout in this attribute and the destination layout in the
    /// next.
    Indices,
}

/// The registered operator that a Relax operator corresponds to.
#[derive(Debug)]
pub(crate) struct Form {
    pub op: OpId,
    /// The parameters that are inputs of the registered operator, in its order.
    pub inputs: Vec<usize>,
    /// Parameters that are attributes of ours.
    pub attrs: Vec<Given>,
    /// The attributes of a call that gives none of these.
    pub start: Attrs,
    /// Attributes of ours and the value at which they mean nothing more; whether that is asked for.
    pub fixed: Vec<(&'static str, AttrValue, bool)>,
    /// Inputs, with the element type to which the equivalence is limited.
    pub elements: Vec<(usize, AttrValue)>,
    /// Attributes, with the only value that TVM supports; any but `None` where that is `None`.
    pub runs: Vec<(&'static str, Option<AttrValue>)>,
    /// Inputs, with the only element type that TVM can compute.
    pub computes: Vec<(usize, AttrValue)>,
    /// Inputs, and attributes that name an axis whose extent TVM must know; those of all axes where
    /// there is no attribute.
    pub known: Vec<(usize, Option<&'static str>)>,
    /// Pairs of attributes that TVM takes only as lists of one length.
    pub alike: Vec<(&'static str, &'static str)>,
    /// Parameters that the registered operator lacks, with the value to which the equivalence is
    /// limited.
    pub absent: Vec<(usize, AttrValue)>,
}

/// An operator of Relax.
#[derive(Debug)]
pub(crate) struct Operator {
    pub name: &'static str,
    /// Whether it has side effects.
    pub effect: bool,
    pub params: Vec<Parameter>,
    pub form: Option<Form>,
    /// The registered operator with Relax's own signature, for calls that `form` cannot represent.
    pub own: Option<Form>,
}

/// All operators.
pub(crate) struct Table {
    pub operators: Vec<Operator>,
    names: FxHashMap<&'static str, usize>,
    forms: FxHashMap<OpId, Vec<usize>>,
}

/// Returns the table.
pub(crate) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lines = TEXT
            .lines()
            .filter(|l| !l.is_empty() && !l.starts_with('#'));
        let operators: Vec<Operator> = lines.map(operator).collect();
        let names = operators
            .iter()
            .enumerate()
            .map(|(i, o)| (o.name, i))
            .collect();
        let mut forms: FxHashMap<OpId, Vec<usize>> = FxHashMap::default();
        for (i, o) in operators.iter().enumerate() {
            for form in o.form.iter().chain(&o.own) {
                forms.entry(form.op).or_default().push(i);
            }
        }
        Table {
            operators,
            names,
            forms,
        }
    })
}

impl Form {
    fn new(op: OpId) -> Form {
        Form {
            op,
            inputs: Vec::new(),
            attrs: Vec::new(),
            start: Attrs::new(),
            fixed: Vec::new(),
            elements: Vec::new(),
            computes: Vec::new(),
            known: Vec::new(),
            alike: Vec::new(),
            runs: Vec::new(),
            absent: Vec::new(),
        }
    }
}

impl Table {
    /// Returns the operator of that name, without `R.`.
    pub fn find(&self, name: &str) -> Option<&'static Operator> {
        let i = *self.names.get(name)?;
        table().operators.get(i)
    }
    /// Returns the operators of Relax that a registered operator may correspond to.
    pub fn of_ours(&self, op: OpId) -> impl Iterator<Item = &'static Operator> {
        let list = self.forms.get(&op).map_or(&[][..], Vec::as_slice);
        list.iter().map(|&i| &table().operators[i])
    }
    /// Returns all names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.keys().copied()
    }
}

/// Splits at a character, except inside brackets and strings.
fn split(text: &'static str, at: char) -> Vec<&'static str> {
    let (mut depth, mut quoted, mut from, mut parts) = (0, false, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '\'' | '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            c if c == at && depth == 0 && !quoted => {
                parts.push(text[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|p| !p.is_empty());
    parts
}

fn operator(line: &'static str) -> Operator {
    let (left, right) = match line.split_once(") = ") {
        Some((left, right)) => (left, Some(right)),
        None => (line.trim_end_matches(')'), None),
    };
    let (name, params) = left.split_once('(').unwrap_or((left, ""));
    let effect = name.starts_with('!');
    let name = name.trim_start_matches('!');
    let (inputs, attrs) = params.split_once(';').unwrap_or((params, ""));
    let of = |text, input| {
        split(text, ',').into_iter().map(move |p: &'static str| {
            let (name, default) = p.split_once('=').map_or((p, None), |(n, d)| (n, Some(d)));
            let rest = name.starts_with('*');
            let name = name.trim_start_matches('*');
            let types = TYPE_PARAMS.iter().find(|t| t.0 == name);
            Parameter {
                name,
                types: types.is_some(),
                symbols: (Symbol::new(name), types.map(|t| Symbol::new(t.1))),
                input: input || rest,
                rest,
                default: default.map(value),
            }
        })
    };
    let params: Vec<Parameter> = of(inputs, true).chain(of(attrs, false)).collect();
    let own = own_form(name, &params);
    let (form, own) = match right {
        Some(right) => (form(&params, right), own),
        None => (own, None),
    };
    Operator {
        name,
        effect,
        params,
        form,
        own,
    }
}

/// Returns the registered operator with Relax's own signature: `relax.nn.attention`.
fn own_form(name: &str, params: &[Parameter]) -> Option<Form> {
    let id = registry().find(&format!("relax.{name}"))?;
    let def = registry().get(id)?;
    let mut form = Form::new(id);
    for (i, p) in params.iter().enumerate() {
        match def.attr(p.name) {
            Some(_) => form.attrs.push(Given::new(def, i, p.name, Way::Same)?),
            None => form.inputs.push(i),
        }
    }
    form.start = def.default_attrs();
    Some(form)
}

fn form(params: &[Parameter], right: &'static str) -> Option<Form> {
    let mut words = split(right, ' ').into_iter();
    let head = words.next()?;
    let (name, order) = head
        .split_once('(')
        .map_or((head, None), |(n, o)| (n, Some(o.trim_end_matches(')'))));
    let op = registry().find(name)?;
    let def = registry().get(op)?;
    let place = |name: &str| params.iter().position(|p| p.name == name);
    let mut form = Form::new(op);
    let mut ruled = vec![false; params.len()];
    for rule in words {
        if let Some((b, v)) = rule
            .strip_prefix(['!', '?'])
            .and_then(|r| r.split_once('='))
        {
            let b = def.attr(b)?.name;
            form.fixed.push((b, value(v), rule.starts_with('!')));
        } else if let Some((a, v)) = rule.strip_prefix('%').and_then(|r| r.split_once('=')) {
            form.elements.push((place(a)?, value(v)));
        } else if let Some((a, v)) = rule.strip_prefix("^%").and_then(|r| r.split_once('=')) {
            form.computes.push((place(a)?, value(v)));
        } else if let Some((a, b)) =
            (rule.strip_prefix('^')).and_then(|r| r.strip_suffix(']')?.split_once('['))
        {
            let axis = match b {
                "*" => None,
                b => Some(def.attr(b)?.name),
            };
            form.known.push((place(a)?, axis));
        } else if let Some((a, b)) = rule.strip_prefix('^').and_then(|r| r.split_once('|')) {
            form.alike.push((def.attr(a)?.name, def.attr(b)?.name));
        } else if let Some(rule) = rule.strip_prefix('^') {
            let (b, v) = rule
                .split_once('=')
                .map_or((rule, None), |(b, v)| (b, Some(value(v))));
            form.runs.push((def.attr(b)?.name, v));
        } else if let Some((a, v)) = rule.strip_prefix('-').and_then(|r| r.split_once('=')) {
            let i = place(a)?;
            ruled[i] = true;
            form.absent.push((i, value(v)));
        } else {
            let at = rule.find([':', '>', '~', '#', '@'])?;
            let way = match &rule[at..=at] {
                "~" => Way::Negated,
                "#" => Way::Single,
                "@" => Way::Indices,
                _ => Way::Same,
            };
            let i = place(&rule[..at])?;
            ruled[i] = true;
            form.attrs.push(Given::new(def, i, &rule[at + 1..], way)?);
        }
    }
    match order {
        Some(order) => {
            for name in order.split(',') {
                form.inputs.push(place(name.trim())?);
            }
        }
        None => form
            .inputs
            .extend((0..params.len()).filter(|&i| params[i].input && !ruled[i])),
    }
    for (i, p) in params.iter().enumerate() {
        if !p.input && !ruled[i] {
            form.attrs.push(Given::new(def, i, p.name, Way::Same)?);
        }
    }
    form.start = def.default_attrs();
    for (name, value, _) in &form.fixed {
        form.start.set(*name, value.clone());
    }
    Some(form)
}

/// Parses a default value of the table.
fn value(text: &str) -> AttrValue {
    let inner = |t: &str| t[1..t.len() - 1].to_owned();
    match text.chars().next() {
        Some('\'' | '"') => AttrValue::Str(inner(text).into()),
        Some('(' | '[') => {
            let inner = inner(text);
            let items = inner.split(',').map(str::trim).filter(|t| !t.is_empty());
            AttrValue::array(items.map(value))
        }
        _ => match text {
            "None" => AttrValue::None,
            "True" => AttrValue::Bool(true),
            "False" => AttrValue::Bool(false),
            "void" => AttrValue::DType(relax_tensor::DType::VOID),
            "T.int64(0)" => AttrValue::Int(0),
            _ => match text.parse() {
                Ok(i) => AttrValue::Int(i),
                Err(_) => text
                    .parse()
                    .map_or_else(|_| AttrValue::Str(text.into()), AttrValue::Float),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line that names a registered operator has a form: its names and attributes exist.
    #[test]
    fn forms() {
        let lines = TEXT
            .lines()
            .filter(|l| !l.is_empty() && !l.starts_with('#'));
        let missing = lines.filter(|l| l.contains(") = ") && operator(l).form.is_none());
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
