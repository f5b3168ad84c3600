//! Outputs of `relax-opt` other than texts: weights, JSON graphs, ONNX models, pictures.

use std::path::Path;

use relax::picture::Graph;
use relax::{Release, TypeSource, TypedModule};
use relax_base::Diagnostics;
use relax_ir::Module;
use relax_tensor::Tensor;

use crate::formats::{self, Format};
use crate::output::{self, Output};
use crate::stop::Stop;
use crate::{places, save, weights};

/// The kinds of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Emit {
    /// The module as text.
    #[default]
    Text,
    /// The module as a JSON graph, as `tvm.ir.save_json` writes it.
    Json,
    /// `@main` as an ONNX model: its parameters are the inputs, constants are initialisers, and
    /// functions stand where they are called.
    Onnx,
    /// The constants as a parameter file of TVM.
    Params,
    /// The constants as an archive of NumPy; bfloat16 as uint16 of the same bits.
    Npz,
    /// The constants as a file of the safetensors package.
    Safetensors,
    /// A function as a picture.
    Svg,
    /// The same in the language of Graphviz.
    Dot,
    /// The same as a flowchart of Mermaid.
    Mermaid,
}

impl Emit {
    /// Returns the kind of output implied by a path.
    pub fn by_name(output: &Path) -> Emit {
        match Format::of(output).filter(|_| !crate::io::is_stream(output)) {
            Some(Format::Json) => Emit::Json,
            Some(Format::Onnx) => Emit::Onnx,
            Some(Format::Params) => Emit::Params,
            Some(Format::Npz) => Emit::Npz,
            Some(Format::Safetensors) => Emit::Safetensors,
            Some(Format::Svg) => Emit::Svg,
            Some(Format::Dot) => Emit::Dot,
            Some(Format::Mermaid) => Emit::Mermaid,
            _ => Emit::Text,
        }
    }

    /// Returns the weight format, if it is one.
    pub fn weights(self) -> Option<Format> {
        match self {
            Emit::Text | Emit::Json | Emit::Onnx | Emit::Svg | Emit::Dot | Emit::Mermaid => None,
            Emit::Params => Some(Format::Params),
            Emit::Npz => Some(Format::Npz),
            Emit::Safetensors => Some(Format::Safetensors),
        }
    }

    /// Returns the picture format, if it is one.
    pub fn picture(self) -> Option<Format> {
        match self {
            Emit::Svg => Some(Format::Svg),
            Emit::Dot => Some(Format::Dot),
            Emit::Mermaid => Some(Format::Mermaid),
            _ => None,
        }
    }

    /// Checks that the output's path does not contradict its kind.
    ///
    /// # Errors
    /// The extension is that of another format.
    pub fn fits(self, output: &Path) -> Result<(), Stop> {
        if let Some(format) = self.picture() {
            Format::allow(output, "a picture", &[format])?;
            return places::output(output);
        }
        match self.weights() {
            None if self == Emit::Json => {
                Format::allow(output, "a JSON graph", &[Format::Json])?;
                places::output(output)
            }
            None if self == Emit::Onnx => {
                Format::allow(output, "an ONNX model", &[Format::Onnx])?;
                places::output(output)
            }
            None => formats::text_output(output),
            Some(format) => {
                Format::allow(output, "a file of weights", &[format])?;
                places::output(output)
            }
        }
    }
}

/// Converts a weight file to another format.
///
/// # Errors
/// The file is damaged or cannot be read, or the output cannot be written.
pub fn convert(from: &Path, format: Format, to: &Path) -> Result<(), Stop> {
    std::fs::File::open(from).map_err(|e| format!("cannot read {}: {e}", from.display()))?;
    let arrays = weights::read(from).map_err(|stop| Stop::Failed(stop.text()))?;
    save::arrays(to, format, &arrays)
}

/// Renders a function as a picture: the named one, or `main`, or the only one; repeated layers are
/// drawn once, unless the `whole` is requested. Without `types`, types are inferred, unless
/// `untyped` says that none are needed.
///
/// # Errors
/// The function does not exist.
pub fn picture(
    module: &Module,
    types: Option<&dyn TypeSource>,
    untyped: bool,
    (entry, whole): (Option<&str>, bool),
    format: Format,
) -> Result<String, Stop> {
    let id = relax::entry::sole_entry(module, entry)?;
    let mut copy;
    let found;
    let found = match types {
        None if !untyped => {
            copy = module.clone();
            found = relax::check(&mut copy, &relax::InferOptions::default()).0;
            Some(TypedModule {
                module: &copy,
                typing: &found,
            })
        }
        _ => None,
    };
    let graph = match &found {
        Some(typed) => Graph::of(typed.module, id, Some(typed)),
        None => Graph::of(module, id, types),
    };
    let graph = if whole { graph } else { graph.folded() };
    Ok(match format {
        Format::Dot => graph.dot(),
        Format::Mermaid => graph.mermaid(),
        _ => graph.svg(),
    })
}

/// Writes a module as a JSON graph.
///
/// # Errors
/// Part of the module has no JSON form, or the file cannot be written.
pub fn json(
    module: &Module,
    types: Option<&dyn TypeSource>,
    release: Release,
    output: &Path,
) -> Result<(), Result<Diagnostics, Stop>> {
    let graph = relax::json_graph(module, types, release).map_err(Ok)?;
    let failed = |e: std::io::Error| Err(output::trouble(output, &e));
    if crate::io::is_stream(output) {
        return graph.to(&mut std::io::stdout().lock()).map_err(failed);
    }
    let mut file = Output::create(output).map_err(Err)?;
    graph.to(&mut file).map_err(failed)?;
    file.finish().map_err(Err)
}

/// Writes `@main` as an ONNX model.
///
/// # Errors
/// Part of the module has no ONNX form, or the file cannot be written.
pub fn onnx(module: &Module, output: &Path) -> Result<(), Result<Diagnostics, Stop>> {
    let Some(main) = module.global("main") else {
        return Err(Err("there is no `@main` to be a model's graph".into()));
    };
    let bytes = relax::onnx_model(module, main).map_err(Ok)?;
    output::write(output, &bytes).map_err(Err)
}

/// Returns the constants in the metadata section of a module's text, named as there
/// (`meta[relay.Constant][0]`), or like the array in `bound` that they were bound to. Bound arrays
/// that are printed inline follow.
pub fn constants(module: &Module, bound: Vec<(String, Tensor)>) -> Vec<(String, Tensor)> {
    let same = |a: &Tensor, b: &Tensor| {
        a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes() == b.bytes()
    };
    let mut bound: Vec<Option<(String, Tensor)>> = bound.into_iter().map(Some).collect();
    let mut take = |t: &Tensor| {
        let found = bound
            .iter_mut()
            .find(|b| b.as_ref().is_some_and(|b| same(&b.1, t)));
        found.and_then(Option::take)
    };
    let mut out = Vec::new();
    for (index, id) in relax::listed_constants(module).into_iter().enumerate() {
        let tensor = &module.consts[id];
        let named = take(tensor);
        out.push(
            named.unwrap_or_else(|| (format!("meta[relay.Constant][{index}]"), tensor.clone())),
        );
    }
    let scalars = module.consts.values().filter(|t| t.is_scalar());
    out.extend(scalars.filter_map(take));
    out
}
