//! Object files, written without a copy of their weights.
//!
//! The elements of large constants are most of an object. Cranelift would copy them into its own
//! sections, and the writer into the file's bytes; here their sections are borrowed from the
//! program, and the file is written in pieces.

use std::io::Write;
use std::sync::Arc;

use cranelift_object::object::write::{Object as File, SymbolSection};
use cranelift_object::object::{SectionKind, SymbolKind, SymbolScope};
use cranelift_object::{ObjectBuilder, ObjectModule, ObjectProduct};
use relax_base::Diagnostic;
use relax_lower::lir::{DataId, Lowered};
use relax_tensor::Tensor;
use target_lexicon::BinaryFormat;

use crate::data::elements_symbol;
use crate::module::{Extras, Sizes, compile};
use crate::prepack::{Prepacked, WeightsFile, prepack};
use crate::target::Target;

/// An object file that has not been written yet.
pub struct Object {
    sizes: Sizes,
    product: ObjectProduct,
    weights: Prepacked,
    /// The constants whose elements are not in `product` yet.
    apart: Vec<DataId>,
}

/// Compiles a lowered program into an object file. The output is deterministic.
///
/// With `weights`, the elements of large constants go to a file of that name, which the caller
/// writes ([`Object::weights`]): the entries map it at their first call, see
/// [`relax_runtime::weights`]. `packed` is called with constants that the object has in another
/// form: where they are mapped, their pages can be released.
///
/// # Errors
/// The target is not supported, or a construct in the program is not.
pub fn object(
    lowered: &Lowered,
    target: &Target,
    name: &str,
    weights: Option<&str>,
    packed: &(dyn Fn(&Tensor) + Sync),
) -> Result<Object, Box<Diagnostic>> {
    let isa = target.isa(true).map_err(|e| trouble(e.to_string()))?;
    let libcalls = cranelift_module::default_libcall_names();
    let builder =
        ObjectBuilder::new(Arc::clone(&isa), name, libcalls).map_err(|e| trouble(e.to_string()))?;
    let mut module = ObjectModule::new(builder);
    let mut weights_packed = prepack(lowered, packed);
    let mut apart = Vec::new();
    if let Some(file) = weights {
        weights_packed.move_to_file(file);
    } else if isa.triple().binary_format == BinaryFormat::Elf {
        // The other formats limit the number of sections, or do not benefit from many.
        apart = weights_packed.large();
        weights_packed.outside.clone_from(&apart);
    }
    let extras = Extras {
        prefix: target.prefix.as_deref(),
        ..Extras::default()
    };
    let sizes = compile(&weights_packed, &mut module, extras)?.sizes;
    Ok(Object {
        sizes,
        product: module.finish(),
        weights: weights_packed,
        apart,
    })
}

fn trouble(text: String) -> Box<Diagnostic> {
    let code = relax_lower::codes::UNSUPPORTED;
    Box::new(Diagnostic::error(code, relax_base::Span::NONE, text))
}

impl Object {
    /// Bytes of code and data by name.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The file of weights, if they are stored separately.
    pub fn weights(&self) -> Option<&WeightsFile> {
        self.weights.file.as_ref()
    }

    /// Writes the object.
    ///
    /// # Errors
    /// `out` cannot be written to.
    pub fn write(self, out: impl Write) -> std::io::Result<()> {
        let mut file: File<'_> = self.product.object;
        for id in self.apart {
            define(&mut file, id, &self.weights.lowered.data[id]);
        }
        let written = file.write_stream(out);
        written.map_err(|e| match e.downcast::<std::io::Error>() {
            Ok(e) => *e,
            Err(e) => std::io::Error::other(e.to_string()),
        })
    }

    /// The object as bytes.
    ///
    /// # Errors
    /// It is too large for its format.
    pub fn bytes(self) -> Result<Vec<u8>, Box<Diagnostic>> {
        let mut bytes = Vec::new();
        self.write(&mut bytes).map_err(|e| trouble(e.to_string()))?;
        Ok(bytes)
    }
}

/// Gives a constant's symbol a section with its elements.
fn define<'a>(file: &mut File<'a>, id: DataId, t: &'a Tensor) {
    let name = elements_symbol(id);
    // Nothing reads a constant without a symbol in the object.
    let Some(symbol) = file.symbol_id(name.as_bytes()) else {
        return;
    };
    let section = format!(".rodata.{name}").into_bytes();
    let section = file.add_section(Vec::new(), section, SectionKind::ReadOnlyData);
    file.set_section_data(section, t.bytes(), 64);
    let symbol = file.symbol_mut(symbol);
    symbol.section = SymbolSection::Section(section);
    symbol.kind = SymbolKind::Data;
    symbol.scope = SymbolScope::Compilation;
    symbol.size = t.bytes().len() as u64;
}
