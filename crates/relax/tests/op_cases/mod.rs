//! The cases of `tests/ops/`: one file per operator, `tests/ops/NAMESPACE/OPERATOR.cases`.
//!
//! ```text
//! # What is worth saying about the cases that follow.
//! static: nn.relu(%x: f32[2, 3])
//! | Tensor[(2, 3), float32]
//! value: nn.relu(%x: f32[3] = [-1, nan, 2])
//! | f32[3] [0, nan, 2]
//! ```
//!
//! A case is a call with parameters declared in place: `%x: f32[n, 3]` is a parameter of type
//! `Tensor[(n, 3), float32]`, `f32[*]` one of unknown rank, `*[2]` one of unknown element type; any
//! other type is written as in a program. `= [1, 2]` gives its elements, a final `...` repeats the
//! preceding ones, and `= ramp(a, b)` is a, a + b, a + 2b, … Lines that start with `> ` precede the
//! function in every module of the file.
//!
//! | kind | what stands in the lines `| …` |
//! |---|---|
//! | `static`, `symbolic`, `unknown` | the type that is inferred, and warnings |
//! | `refused` | the error: its code and message, then place and words of each label, then notes |
//! | `value` | what the evaluator gives, six digits of each number |

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use relax::{InferOptions, ReadOptions, Session, Typing, check};
use relax_base::{Diagnostic, SourceMap};
use relax_interp::{Interp, Value};
use relax_ir::{DTy, GlobalKind, Module, Shape, Type, TypeId};
use relax_ops::{OpDef, registry};
use relax_tensor::{DType, Tensor};

/// The kind of a case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Static,
    Symbolic,
    Unknown,
    Refused,
    Value,
}

/// The kinds by name.
pub const KINDS: &[(&str, Kind)] = &[
    ("static", Kind::Static),
    ("symbolic", Kind::Symbolic),
    ("unknown", Kind::Unknown),
    ("refused", Kind::Refused),
    ("value", Kind::Value),
];

/// One case of a file.
#[derive(Clone, Debug)]
pub struct Case {
    pub kind: Kind,
    /// The line it starts on.
    pub line: usize,
    /// The call, with parameters without their types.
    pub call: String,
    /// The parameters, in order.
    pub params: Vec<Param>,
}

/// A parameter of a case.
#[derive(Clone, Debug)]
pub struct Param {
    pub name: String,
    /// The type in the text format.
    pub ty: String,
    /// The elements in the notation of cases.
    pub elements: Option<String>,
}

/// The cases of an operator.
#[derive(Clone, Debug)]
pub struct Cases {
    pub op: String,
    pub path: PathBuf,
    /// Items that precede `@main`.
    pub items: String,
    pub cases: Vec<Case>,
    /// The lines of the file except for results.
    lines: Vec<String>,
    text: String,
}

const DTYPES: &[(&str, &str)] = &[
    ("f16", "float16"),
    ("bf16", "bfloat16"),
    ("f32", "float32"),
    ("f64", "float64"),
    ("i8", "int8"),
    ("i16", "int16"),
    ("i32", "int32"),
    ("i64", "int64"),
    ("u8", "uint8"),
    ("u16", "uint16"),
    ("u32", "uint32"),
    ("u64", "uint64"),
    ("bool", "bool"),
    ("*", "_"),
];

/// Returns the folder of the case files.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/ops")
}

/// Returns the file of an operator.
pub fn path_of(op: &str) -> PathBuf {
    let space = op.split_once('.').map_or("core", |n| n.0);
    folder().join(space).join(format!("{op}.cases"))
}

/// Expands the type at the start of `text`; returns it with the rest.
fn expand_type(text: &str) -> String {
    let text = text.trim();
    for (short, long) in DTYPES {
        let Some(rest) = text.strip_prefix(short) else {
            continue;
        };
        let Some(dims) = rest.strip_prefix('[').and_then(|r| r.strip_suffix(']')) else {
            continue;
        };
        return match dims.trim() {
            "*" => format!("Tensor[_, {long}]"),
            "" => format!("Tensor[(), {long}]"),
            dims if dims.contains(',') => format!("Tensor[({dims}), {long}]"),
            dim => format!("Tensor[({dim},), {long}]"),
        };
    }
    text.to_owned()
}

/// Returns the number of bytes of `text` before an unmatched `,` or `)` (or one of `more`).
fn until(text: &str, more: &[char]) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ',' if depth == 0 => return at,
            ')' | ']' if depth == 0 => return at,
            ')' | ']' => depth -= 1,
            c if depth == 0 && more.contains(&c) => return at,
            _ => {}
        }
    }
    text.len()
}

/// Splits a call into its text, and the types and elements of parameters.
fn parse_call(text: &str) -> (String, Vec<Param>) {
    let (mut call, mut params) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let end = rest[at + 1..]
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(rest.len(), |n| at + 1 + n);
        call.push_str(&rest[..end]);
        let name = rest[at + 1..end].to_owned();
        rest = &rest[end..];
        let Some(after) = rest.strip_prefix(':') else {
            continue;
        };
        let n = until(after, &['=']);
        let ty = expand_type(&after[..n]);
        rest = &after[n..];
        let mut elements = None;
        if let Some(after) = rest.strip_prefix('=') {
            let n = until(after, &[]);
            elements = Some(after[..n].trim().to_owned());
            rest = &after[n..];
        }
        params.push(Param { name, ty, elements });
    }
    call.push_str(rest);
    (call, params)
}

/// Reads the file of an operator.
pub fn read(path: &Path) -> Result<Cases, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let op = path
        .file_stem()
        .expect("a file")
        .to_string_lossy()
        .into_owned();
    let (mut items, mut cases, mut lines) = (String::new(), Vec::new(), Vec::new());
    for line in text.lines().filter(|l| !l.starts_with('|')) {
        let number = lines.len();
        lines.push(line.to_owned());
        if let Some(item) = line.strip_prefix("> ") {
            items.push_str(item);
            items.push('\n');
        } else if !line.starts_with('#') && !line.trim().is_empty() {
            let (kind, call) = line
                .split_once(": ")
                .ok_or_else(|| format!("no kind: {line}"))?;
            let known = KINDS.iter().find(|k| k.0 == kind);
            let kind = known.ok_or_else(|| format!("no kind `{kind}`: {line}"))?.1;
            let (call, params) = parse_call(call);
            let line = number;
            cases.push(Case {
                kind,
                line,
                call,
                params,
            });
        }
    }
    let path = path.to_owned();
    Ok(Cases {
        op,
        path,
        items,
        cases,
        lines,
        text,
    })
}

impl Cases {
    /// Returns the file's text unchanged.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Returns the file's text with these results, one per case.
    pub fn with_results(&self, results: &[String]) -> String {
        let mut out = String::new();
        for (number, line) in self.lines.iter().enumerate() {
            let _ = writeln!(out, "{line}");
            if let Some(at) = self.cases.iter().position(|c| c.line == number) {
                for line in results[at].lines() {
                    let _ = writeln!(out, "{}", format!("| {line}").trim_end());
                }
            }
        }
        out
    }
}

/// A module that was read and checked.
pub struct Checked {
    pub text: String,
    pub sources: SourceMap,
    pub module: Module,
    pub typing: Option<Typing>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads and checks a module.
pub fn checked(text: String) -> Checked {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, mut all) = session.read("case.relay", text.clone().into_bytes());
    let mut typing = None;
    if !all.has_errors() {
        let (types, more) = check(&mut module, &InferOptions::default());
        all.extend(more);
        typing = Some(types);
    }
    let sources = session.sources;
    let diagnostics = all.into_vec();
    Checked {
        text,
        sources,
        module,
        typing,
        diagnostics,
    }
}

/// Returns the module of a case: a function `@main` with its parameters and its call.
pub fn module_of(items: &str, call: &str, params: &[(String, String)]) -> String {
    let params: Vec<String> = params.iter().map(|(n, t)| format!("%{n}: {t}")).collect();
    format!("{items}def @main({}) {{ {call} }}", params.join(", "))
}

impl Case {
    /// Returns its parameters with their types.
    pub fn typed(&self) -> Vec<(String, String)> {
        self.params
            .iter()
            .map(|p| (p.name.clone(), p.ty.clone()))
            .collect()
    }
}

impl Checked {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
    /// Returns the type of `@main`'s result.
    pub fn result(&self) -> Option<TypeId> {
        let entry = self.module.global("main")?;
        let GlobalKind::Func(f) = self.module.globals[entry].kind else {
            return None;
        };
        match &self.module.types[self.typing.as_ref()?.funcs[f]] {
            Type::Func(f) => Some(f.ret),
            _ => None,
        }
    }
    /// Returns the types of `@main`'s parameters.
    pub fn params(&self) -> Vec<TypeId> {
        let entry = self.module.global("main").expect("@main");
        let GlobalKind::Func(f) = self.module.globals[entry].kind else {
            panic!("@main is a function");
        };
        let typing = self.typing.as_ref().expect("checked");
        self.module.funcs[f]
            .params
            .iter()
            .map(|v| typing.vars[*v])
            .collect()
    }
    /// Formats a diagnostic concisely: a span is represented by its text.
    pub fn shown(&self, d: &Diagnostic) -> String {
        let mut out = String::new();
        let word = if d.is_error() { "error" } else { "warning" };
        let _ = writeln!(out, "{word}[{}]: {}", d.code, d.message);
        for label in &d.labels {
            let place = match self.sources.file(label.span) {
                Some(f) => {
                    let from = (label.span.start - f.start) as usize;
                    &self.text[from..(label.span.end - f.start) as usize]
                }
                None => "nowhere",
            };
            // For a whole call or function, the beginning suffices.
            let short: String = place.chars().take(60).collect();
            let dots = if short.len() < place.len() { "…" } else { "" };
            let words = if label.text.is_empty() { "" } else { ": " };
            let _ = writeln!(out, "  at `{short}{dots}`{words}{}", label.text);
        }
        for note in &d.notes {
            let _ = writeln!(out, "  note: {note}");
        }
        for fix in &d.fixes {
            let _ = writeln!(out, "  help: {}", fix.title);
        }
        out
    }
    /// Formats all findings, errors before warnings.
    pub fn all_shown(&self) -> String {
        self.diagnostics.iter().map(|d| self.shown(d)).collect()
    }
    /// Evaluates `@main`.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Value, Diagnostic> {
        let typing = self.typing.as_ref().expect("checked");
        let entry = self.module.global("main").expect("@main");
        let inputs = inputs.iter().cloned().map(Value::from).collect();
        Interp::new(&self.module, typing).run(entry, inputs)
    }
}

/// Parses the elements of a case, for a tensor of this shape.
pub fn tensor(dtype: DType, shape: &[i64], text: &str) -> Result<Tensor, String> {
    let mut out = Tensor::zeros(dtype, shape);
    let number = |s: &str| -> Result<f64, String> {
        s.trim().parse().map_err(|_| format!("`{s}` is no number"))
    };
    let n = out.len();
    if let Some(inner) = text.strip_prefix("ramp(").and_then(|t| t.strip_suffix(')')) {
        let (a, b) = inner
            .split_once(',')
            .ok_or("ramp takes a start and a step")?;
        let (a, b) = (number(a)?, number(b)?);
        for i in 0..n {
            put(&mut out, i, a + b * i as f64);
        }
        return Ok(out);
    }
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let inner = inner.ok_or_else(|| format!("elements are written [1, 2], not {text}"))?;
    let mut items: Vec<&str> = inner
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .collect();
    let cycle = items.last() == Some(&"...");
    items.truncate(items.len() - usize::from(cycle));
    if items.len() != n && (!cycle || items.is_empty()) {
        return Err(format!("{} elements for a tensor of {n}", items.len()));
    }
    for i in 0..n {
        let item = items[i % items.len()];
        match item.parse::<i128>() {
            Ok(v) if dtype.is_integral() => out.set_i64(i, v as i64),
            _ => put(&mut out, i, number(item)?),
        }
    }
    Ok(out)
}

fn put(t: &mut Tensor, i: usize, v: f64) {
    if t.dtype().is_float() {
        t.set_f64(i, v);
    } else {
        t.set_i64(i, v as i64);
    }
}

/// Formats a number with six significant digits, as short as possible.
fn digits(v: f64) -> String {
    if !v.is_finite() {
        return format!("{v}").to_lowercase();
    }
    let rounded: f64 = format!("{v:.5e}").parse().expect("just written");
    let plain = format!("{rounded}");
    if plain.len() > 12 {
        format!("{rounded:e}")
    } else {
        plain
    }
}

/// Formats a value in the notation of cases.
pub fn show_value(value: &Value) -> String {
    match (value.as_tensor(), value.fields(), value) {
        (Some(t), ..) => show_tensor(t),
        (_, Some(fields), _) => {
            let lines: Vec<String> = fields.iter().map(show_value).collect();
            let lines: String = lines.iter().map(|l| format!("{l}\n")).collect();
            let indented: String = lines.lines().map(|l| format!("  {l}\n")).collect();
            format!("(\n{indented})")
        }
        (.., Value::Shape(s)) => format!("shape{s:?}"),
        _ => value.kind().to_owned(),
    }
}

fn show_tensor(t: &Tensor) -> String {
    let name = t.dtype().to_string();
    let short = DTYPES.iter().find(|d| d.1 == name).map_or(&*name, |d| d.0);
    let shape: Vec<String> = t.shape().iter().map(i64::to_string).collect();
    // The remainders of cancelling sums vary between machines.
    let finite = (0..t.len())
        .map(|i| t.get_f64(i).abs())
        .filter(|v| v.is_finite());
    let small = finite.fold(0.0, f64::max) * 2e-6;
    let number = |v: f64| digits(if v != 0.0 && v.abs() < small { 0.0 } else { v });
    let elements: Vec<String> = (0..t.len())
        .map(|i| match (t.dtype().is_float(), t.dtype() == DType::U64) {
            (true, _) => number(t.get_f64(i)),
            (_, true) => (t.get_i64(i) as u64).to_string(),
            _ => t.get_i64(i).to_string(),
        })
        .collect();
    format!("{short}[{}] [{}]", shape.join(", "), elements.join(", "))
}

/// Returns the constant extents and element type of a parameter's type.
pub fn known(m: &Module, ty: TypeId) -> Option<(DType, Vec<i64>)> {
    let Type::Tensor(t) = &m.types[ty] else {
        return None;
    };
    match (&t.shape, t.dtype) {
        (Shape::Dims(dims), DTy::Known(d)) => {
            Some((d, dims.iter().map(|d| d.as_const()).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// Returns the tensors that a value case gives its parameters.
pub fn inputs(case: &Case, checked: &Checked) -> Result<Vec<Tensor>, String> {
    (case.params.iter().zip(checked.params()))
        .map(|(p, ty)| {
            let (dtype, shape) = known(&checked.module, ty)
                .ok_or_else(|| format!("%{} is no tensor of known extents", p.name))?;
            let text = p.elements.as_ref();
            let text = text.ok_or_else(|| format!("%{} has no elements", p.name))?;
            tensor(dtype, &shape, text).map_err(|e| format!("%{}: {e}", p.name))
        })
        .collect()
}

/// Returns the result of a case; the error says how it contradicts the case's kind.
pub fn outcome(items: &str, case: &Case) -> Result<String, String> {
    let c = checked(module_of(items, &case.call, &case.typed()));
    let refused = c.has_errors();
    if refused != (case.kind == Kind::Refused) {
        let what = if refused { "is refused" } else { "is accepted" };
        let found = c.result().map_or(String::new(), |t| c.module.show_type(t));
        return Err(format!("{} {what}:\n{}{found}", c.text, c.all_shown()));
    }
    if refused {
        return Ok(c.all_shown());
    }
    if case.kind != Kind::Value {
        let ty = c.module.show_type(c.result().ok_or("no result type")?);
        return Ok(format!("{ty}\n{}", c.all_shown()));
    }
    let inputs = inputs(case, &c)?;
    match c.run(&inputs) {
        Ok(value) => Ok(show_value(&value)),
        // A computation may reject values.
        Err(d) => Ok(c.shown(&d)),
    }
}

/// Creates a test of each operator that has a computation and inputs.
pub fn each_operator(run: fn(&OpDef) -> Result<(), Failed>) -> ! {
    let args = Arguments::from_args();
    let ops = registry().iter().map(|(_, op)| op);
    let trials = ops
        .filter(|op| op.compute.is_some() && !op.inputs.is_empty())
        .map(|op| Trial::test(op.name, move || run(op)))
        .collect();
    libtest_mimic::run(&args, trials).exit()
}

/// Returns a tensor of another shape than in its case, with the case's elements repeated.
pub fn filled(dtype: DType, shape: &[i64], elements: &str) -> Result<Tensor, String> {
    if let Some(inner) = (elements.strip_prefix('[')).and_then(|t| t.strip_suffix(']'))
        && !inner.ends_with("...")
    {
        let rest = if inner.trim().is_empty() { "1" } else { inner };
        return tensor(dtype, shape, &format!("[{rest}, ...]"));
    }
    tensor(dtype, shape, elements)
}
