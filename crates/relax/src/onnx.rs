//! ONNX models: bytes to module, and module to bytes.

use std::sync::Arc;

use bytes::Bytes;
use relax_base::{Diagnostics, SourceFile};
use relax_ir::{AttrValue, GlobalId, Module};
use relax_onnx::export;
use relax_passes::Bound;

use crate::optimise::run_own;
use crate::{Contents, Session, TypedModule};

/// What brings a module to bindings of operators' calls: fused groups and functions that are called
/// take the places of their calls.
const BINDINGS: &str = "infer-type,defuse-ops,inline,defuse-ops,to-a-normal-form,infer-type";

/// A model's contents as bytes that others can borrow from.
struct Owner(Contents);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Session {
    /// Reads a model. Places mean its text; weights are constants of the module.
    pub(crate) fn read_model(
        &mut self,
        name: &str,
        contents: Contents,
        diagnostics: &mut Diagnostics,
    ) -> (Option<Arc<SourceFile>>, Module) {
        let beside = self.beside;
        let elsewhere = |file: &str| match beside {
            Some(read) => read(name, file),
            None => Err(format!(
                "its data lies in {file}: `relax-import` reads models of several files"
            )
            .into()),
        };
        let options = relax_onnx::Options {
            fold_layers: self.options.fold_layers,
        };
        let bytes = Bytes::from_owner(Owner(contents));
        let imported = match relax_onnx::import_with(bytes, &elsewhere, options) {
            Ok(imported) => imported,
            Err(found) => {
                diagnostics.extend(found);
                return (None, Module::new());
            }
        };
        diagnostics.extend(imported.warnings);
        let text = laid_out(name, imported.text);
        let file = self.add(name, text.into_bytes(), diagnostics);
        let Some(source) = &file else {
            return (None, Module::new());
        };
        let mut module = self.read_source(source, diagnostics);
        if let Some(main) = module.global("main") {
            let weights = imported.weights.into_iter();
            let values = weights.map(|(name, t)| (name, Bound::Tensor(t))).collect();
            relax_passes::bind_params(&mut module, main, values);
        }
        (file, module)
    }
}

/// The text as the formatter lays it out.
fn laid_out(name: &str, text: String) -> String {
    let mut sources = relax_base::SourceMap::new();
    let Some(file) = sources.add(name, text.clone()) else {
        return text;
    };
    relax_syntax::format_source(&file, &relax_syntax::FmtOptions::default()).unwrap_or(text)
}

/// The bytes of an ONNX model whose graph is a function of a module. What the function calls is
/// written where it is called.
///
/// # Errors
/// Something in the function has no form in ONNX.
pub fn onnx_model(module: &Module, entry: GlobalId) -> Result<Vec<u8>, Diagnostics> {
    let mut module = module.clone();
    // What passes leave alone is written like everything else.
    for function in module.funcs.values_mut() {
        for kept in ["Primitive", "Compiler", "Composite"] {
            function.attrs.remove(kept);
        }
    }
    let others = module.globals.ids().filter(|&g| g != entry);
    let others: Vec<_> = others.filter_map(|g| module.global_func(g)).collect();
    for func in others {
        module.funcs[func].attrs.set("Inline", AttrValue::Int(1));
    }
    let name = module.globals[entry].name;
    let typing = run_own(BINDINGS, &mut module)?;
    let entry = module.global(name.as_str());
    let entry = entry.expect("what is not called stays");
    let known = TypedModule {
        module: &module,
        typing: &typing,
    };
    let producer = concat!("relax ", env!("CARGO_PKG_VERSION"));
    export::export(&module, entry, &known, producer)
}
