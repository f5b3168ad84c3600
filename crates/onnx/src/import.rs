//! Import of whole models.

use bytes::Bytes;
use prost::Message;
use relax_base::{Diagnostic, Diagnostics, Span};
use relax_sym::Dim;
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use crate::cx::{Cx, Parameter, mentioned};
use crate::graph::{Problem, Tr, domain};
use crate::kind::Kind;
use crate::names::{Names, is_identifier, readable};
use crate::node::{Fault, R, unsupported};
use crate::proto::{DimensionValue, GraphProto, ModelProto, TypeValue, ValueInfoProto};
use crate::tensor::{Files, MOST_EXTENT};
use crate::value::{Elem, Source, Val, Value};

/// Error codes.
pub mod codes {
    use relax_base::Code;

    /// The file is not an ONNX model.
    pub const DAMAGED: Code = Code(1300);
    /// An operator, or a variant of one, is not supported.
    pub const UNSUPPORTED: Code = Code(1301);
    /// A node is invalid.
    pub const INVALID: Code = Code(1302);
    /// The model as a whole is invalid.
    pub const MODEL: Code = Code(1303);
    /// A value's type differs from what the model states.
    pub const STATED: Code = Code(1222);
}

/// Reads external data files, by the names in the model.
pub type External<'a> = Files<'a>;

/// An imported model.
#[derive(Debug)]
pub struct Import {
    /// The text, unformatted.
    pub text: String,
    /// The weights, by parameter name.
    pub weights: Vec<(String, Tensor)>,
    /// Mismatches between stated and actual types.
    pub warnings: Diagnostics,
}

fn wrong(code: relax_base::Code, message: impl Into<String>) -> Diagnostics {
    let mut all = Diagnostics::new();
    all.push(Diagnostic::error(code, Span::NONE, message));
    all
}

/// Import options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether consecutive identical layers are folded into one function that is called for each.
    pub fold_layers: bool,
}

/// Imports a model.
///
/// # Errors
/// The bytes are not a model, or some of its nodes cannot be translated, all of which are reported.
pub fn import(bytes: Bytes, external: External<'_>) -> Result<Import, Diagnostics> {
    import_with(bytes, external, Options::default())
}

/// Imports a model with options.
///
/// # Errors
/// The bytes are not a model, or some of its nodes cannot be translated, all of which are reported.
pub fn import_with(
    bytes: Bytes,
    external: External<'_>,
    options: Options,
) -> Result<Import, Diagnostics> {
    let model = ModelProto::decode(bytes)
        .map_err(|e| wrong(codes::DAMAGED, format!("the file is no ONNX model: {e}")))?;
    let Some(graph) = &model.graph else {
        return Err(wrong(
            codes::DAMAGED,
            "the file is no ONNX model: it has no graph",
        ));
    };
    let mut tr = Tr::new(&model.opset_import, &model.functions, external);
    let result = body(&mut tr, graph, options);
    let mut all = Diagnostics::new();
    for problem in &tr.problems {
        all.push(shown(problem));
    }
    match result {
        Err(fault) if !all.has_errors() => {
            let message = match fault {
                Fault::Unsupported(text) | Fault::Invalid(text) => text,
                Fault::Follows => "a result could not be translated".into(),
            };
            all.push(Diagnostic::error(codes::MODEL, Span::NONE, message));
            Err(all)
        }
        Ok(result) if !all.has_errors() => Ok(finish(tr, &model, graph, &result.0, &result.1)),
        _ => Err(all),
    }
}

/// Converts a problem to an error.
fn shown(p: &Problem) -> Diagnostic {
    let (code, why) = match &p.fault {
        Fault::Unsupported(why) => (codes::UNSUPPORTED, why.as_str()),
        Fault::Invalid(why) => (codes::INVALID, why.as_str()),
        Fault::Follows => (codes::INVALID, "it takes what could not be translated"),
    };
    let Problem {
        node,
        operator,
        opset,
        ..
    } = p;
    let message = match node.is_empty() {
        true => format!("{operator} (opset {opset}): {why}"),
        false => format!("{operator} `{node}` (opset {opset}): {why}"),
    };
    let d = Diagnostic::error(code, Span::NONE, message);
    let d = p.takes.iter().fold(d, |d, taken| d.note(taken.as_str()));
    match p.scope.is_empty() {
        true => d,
        false => d.note(format!("in {}", p.scope.join(", in "))),
    }
}

/// The limit on reported mismatches.
const MOST_NAMED: usize = 16;

/// Returns warnings about mismatches.
fn mismatches(tr: &Tr<'_>) -> Diagnostics {
    let mut all = Diagnostics::new();
    for m in tr.mismatches.iter().take(MOST_NAMED) {
        let message = format!(
            "the model says that `{}` is {}, but {} gives {}",
            m.value, m.stated, m.giver, m.found
        );
        all.push(Diagnostic::warning(codes::STATED, Span::NONE, message));
    }
    let more = tr.mismatches.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        let message = format!("{more} more values are not what the model says");
        all.push(Diagnostic::warning(codes::STATED, Span::NONE, message));
    }
    all
}

/// Returns the graph's inputs without an initialiser.
fn free_inputs(graph: &GraphProto) -> Vec<&ValueInfoProto> {
    let mut given: rustc_hash::FxHashSet<&str> =
        graph.initializer.iter().map(|t| t.name.as_str()).collect();
    let sparse = graph
        .sparse_initializer
        .iter()
        .filter_map(|s| s.values.as_ref());
    given.extend(sparse.map(|v| v.name.as_str()));
    graph
        .input
        .iter()
        .filter(|i| !given.contains(i.name.as_str()))
        .collect()
}

/// Returns the text of the main function, preceded by those of layers.
fn body(tr: &mut Tr<'_>, graph: &GraphProto, options: Options) -> R<(Vec<String>, String)> {
    let mut dims = FxHashMap::default();
    for info in free_inputs(graph) {
        let value = parameter(tr, info, &mut dims)?;
        tr.define(&info.name, value);
    }
    for info in graph.value_info.iter().chain(&graph.output) {
        let kind = info.r#type.as_ref().and_then(|t| t.value.as_ref());
        if let Some(TypeValue::Tensor(t)) = kind
            && let Some(shape) = &t.shape
        {
            tr.ranks.insert(info.name.clone(), shape.dim.len());
        }
        if let Some(TypeValue::Tensor(t)) = kind {
            tr.stated.insert(info.name.clone(), t.clone());
        }
    }
    tr.initializers(graph)?;
    tr.nodes(&graph.node);
    let outputs = tr.outputs(graph.output.iter().map(|o| &o.name))?;
    let parts = outputs
        .iter()
        .map(|v| result_text(tr, v))
        .collect::<R<Vec<_>>>()?;
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let result = match parts.as_slice() {
        [one] => one.clone(),
        _ => format!("({})", parts.join(", ")),
    };
    Ok(match options.fold_layers {
        true => tr.cx.close_folded(&result),
        false => (Vec::new(), tr.cx.close(&result)),
    })
}

/// Formats a result; `None` for an empty optional.
fn result_text(tr: &mut Tr<'_>, value: &Value) -> R<Option<String>> {
    Ok(Some(match value {
        Value::Tensor(v) => tr.text(v).to_string(),
        Value::Other(_, kind) if matches!(**kind, Kind::Fewer(..)) => {
            return unsupported("the rank of a result depends on a branch");
        }
        Value::Other(text, _) => text.to_string(),
        Value::Seq(items) => {
            let parts = items
                .iter()
                .map(|v| result_text(tr, v))
                .collect::<R<Vec<_>>>()?;
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let comma = if parts.len() == 1 { "," } else { "" };
            format!("({}{comma})", parts.join(", "))
        }
        Value::Nothing => return Ok(None),
        Value::Failed => return Err(Fault::Follows),
    }))
}

/// Returns the extents of a tensor type, with fresh variables for unnamed ones.
pub fn extents(
    tr: &mut Tr<'_>,
    shape: &crate::proto::ShapeProto,
    name: &str,
    known: &mut FxHashMap<String, Dim>,
) -> Vec<Dim> {
    let mut out = Vec::new();
    for d in &shape.dim {
        out.push(match &d.value {
            Some(DimensionValue::Value(n)) if (0..=MOST_EXTENT).contains(n) => Dim::from(*n),
            // A name without a letter is the exporter's form of an unnamed extent.
            Some(DimensionValue::Param(p)) if p.contains(|c: char| c.is_ascii_alphabetic()) => {
                match known.get(p) {
                    Some(dim) => dim.clone(),
                    None => {
                        let dim = tr.dim(&readable(p, "d"));
                        known.insert(p.clone(), dim.clone());
                        dim
                    }
                }
            }
            _ => tr.dim(&format!("{}_d{}", readable(name, "x"), out.len())),
        });
    }
    out
}

fn parameter(
    tr: &mut Tr<'_>,
    info: &ValueInfoProto,
    known: &mut FxHashMap<String, Dim>,
) -> R<Value> {
    let name = &info.name;
    let kind = info.r#type.as_ref().and_then(|t| t.value.as_ref());
    let tensor = match kind {
        Some(TypeValue::Tensor(t)) => t,
        Some(_) => return other_parameter(tr, info),
        None => return Err(format!("the input `{name}` has no type").into()),
    };
    let elem = Elem(tensor.elem_type);
    if elem.storage().is_none() {
        // The operator that uses it is reported as unsupported.
        let why = format!("elements of type {} are not supported", elem.name());
        tr.refused.insert(name.clone(), why);
        return Ok(Value::Failed);
    }
    let Some(shape) = &tensor.shape else {
        return other_parameter(tr, info);
    };
    let dims = extents(tr, shape, name, known);
    tr.cx.hint = readable(name, "x").into();
    let id = tr.variable();
    let hint = tr.cx.hint.clone();
    tr.call_it(id, &hint);
    let v = Val {
        source: Source::Text(Cx::mention(id).into()),
        elem,
        dims: dims.into(),
        ints: None,
        some: None,
    };
    let ty = tr.show(&v);
    tr.parameters.push(Parameter {
        id,
        ty,
        value: None,
    });
    Ok(v.into())
}

/// Translates a parameter that is a sequence, an optional or of unknown rank.
fn other_parameter(tr: &mut Tr<'_>, info: &ValueInfoProto) -> R<Value> {
    let name = &info.name;
    let ty = info.r#type.as_ref().ok_or("an input without type")?;
    let kind = Kind::declared(ty).map_err(|fault| match fault {
        Fault::Unsupported(what) => {
            Fault::Unsupported(format!("the input `{name}`: {what} are not supported"))
        }
        fault => fault,
    })?;
    let hint: std::rc::Rc<str> = readable(name, "x").into();
    tr.cx.hint = hint.clone();
    let id = tr.variable();
    tr.call_it(id, &hint);
    let ty = tr.show_kind(&kind);
    tr.parameters.push(Parameter {
        id,
        ty,
        value: None,
    });
    Ok(tr.of_kind(Cx::mention(id).into(), &kind))
}

/// Names all variables and assembles the text.
fn finish(
    tr: Tr<'_>,
    model: &ModelProto,
    graph: &GraphProto,
    layers: &[String],
    body: &str,
) -> Import {
    let free = free_inputs(graph);
    let plain = free.iter().all(|i| is_identifier(&i.name));
    let used: rustc_hash::FxHashSet<u32> = mentioned(body).collect();
    let (inputs, weights): (Vec<&Parameter>, Vec<&Parameter>) =
        tr.cx.parameters.iter().partition(|p| p.value.is_none());
    let live = weights.into_iter().filter(|p| used.contains(&p.id));
    let parameters: Vec<&Parameter> = inputs.into_iter().chain(live).collect();
    let mut names = Names::default();
    let fixed: Vec<(u32, String)> = match plain {
        true => (parameters.iter().zip(&free))
            .map(|(p, i)| (p.id, names.unique(i.name.clone())))
            .collect(),
        false => Vec::new(),
    };
    let warnings = mismatches(&tr);
    let mut text = header(model, graph);
    for function in &tr.cx.helpers {
        text.push_str(function);
    }
    for layer in layers {
        // Each function has its own names.
        let (layer, _) = tr.cx.name_all(layer, &mut Names::default(), &[]);
        text.push_str(&layer);
    }
    text.push_str("def @main(\n");
    for p in &parameters {
        text.push_str(&format!("  {}: {},\n", Cx::mention(p.id), p.ty));
    }
    text.push_str(") {\n");
    text.push_str(body);
    text.push_str("}\n");
    let (text, given) = tr.cx.name_all(&text, &mut names, &fixed);
    let weights = parameters.iter().filter_map(|p| {
        let value = p.value.as_ref()?;
        Some((given[p.id as usize].clone()?, value.tensor.clone()))
    });
    Import {
        weights: weights.collect(),
        text,
        warnings,
    }
}

/// Returns a comment that states the origin of the text.
fn header(model: &ModelProto, graph: &GraphProto) -> String {
    let plain = |s: &str| s.chars().filter(|c| !c.is_control()).collect::<String>();
    let mut out = format!("// The ONNX graph `{}`", plain(&graph.name));
    for o in &model.opset_import {
        let name = match domain(&o.domain) {
            "" => "ai.onnx".to_owned(),
            d => plain(d),
        };
        out.push_str(&format!(", {name} {}", o.version));
    }
    if !model.producer_name.is_empty() {
        out.push_str(&format!(", by {}", plain(&model.producer_name)));
    }
    out.push_str(".\n");
    let renamed = free_inputs(graph)
        .into_iter()
        .filter(|i| !is_identifier(&i.name));
    let list: Vec<String> = renamed.map(|i| plain(&i.name)).collect();
    if !list.is_empty() {
        out.push_str(&format!(
            "// Inputs by their names in the model: {}.\n",
            list.join(", ")
        ));
    }
    out
}
