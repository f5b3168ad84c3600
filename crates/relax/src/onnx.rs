//! ONNX models: bytes to module.

use std::sync::Arc;

use bytes::Bytes;
use relax_base::{Diagnostics, SourceFile};
use relax_ir::Module;
use relax_passes::Bound;

use crate::{Contents, Session};

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
            )),
        };
        let imported = match relax_onnx::import(Bytes::from_owner(Owner(contents)), &elsewhere) {
            Ok(imported) => imported,
            Err(found) => {
                diagnostics.extend(found);
                return (None, Module::new());
            }
        };
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
