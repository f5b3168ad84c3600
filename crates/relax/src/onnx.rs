//! Import and export of ONNX models.

use std::sync::Arc;

use bytes::Bytes;
use relax_base::{Diagnostics, SourceFile};
use relax_ir::{AttrValue, Expr, GlobalId, Module};
use relax_onnx::export;
use relax_ops::AffineRole;
use relax_passes::Bound;

use crate::optimise::run_own;
use crate::{Contents, Session, TypedModule};

/// The pipeline that brings a module to a sequence of operator calls: fused groups and called
/// functions are inlined.
const BINDINGS: &str = "infer-type,defuse-ops,inline,defuse-ops,to-a-normal-form,infer-type";

/// The pipeline that computes with integers what a model computes between dequantisation and
/// quantisation.
const INTEGERS: &str =
    "infer-type,to-graph-normal-form{into-functions=false},fake-quantization-to-integer";

/// Returns whether numbers become integers somewhere, or integers numbers.
fn quantised(module: &Module) -> bool {
    let called = module.exprs.values().filter_map(|e| match e {
        Expr::Op(op) => relax_ops::registry().get(*op),
        _ => None,
    });
    let role = |def: &relax_ops::OpDef| def.hooks.affine;
    called
        .into_iter()
        .any(|def| matches!(role(def), Some(AffineRole::Enter | AffineRole::Leave)))
}

/// A model's contents as shared bytes that tensors can borrow from.
struct Owner(Contents);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Session {
    /// Imports a model. Spans refer to its generated text; weights become constants of the module.
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
        let text = crate::written::laid_out(name, imported.text);
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
        if !self.options.keep_qdq && quantised(&module) {
            let mut integers = module.clone();
            // A module with mistakes stays as it is, for whoever reports them.
            if run_own(INTEGERS, &mut integers).is_ok() {
                module = integers;
            }
        }
        (file, module)
    }
}

/// Exports a function of a module as an ONNX model. Called functions are inlined.
///
/// # Errors
/// Part of the function has no ONNX form.
pub fn onnx_model(module: &Module, entry: GlobalId) -> Result<Vec<u8>, Diagnostics> {
    let mut module = module.clone();
    // Functions that passes skip are exported like any other.
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
