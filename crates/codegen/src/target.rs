//! Targets, and object files for them.

use std::sync::Arc;

use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_object::{ObjectBuilder, ObjectModule};
use relax_base::Diagnostic;
use relax_lower::lir::Lowered;

use crate::module::{Extras, Listing, Sizes, compile};
use crate::prepack::prepack;

/// What code is generated for.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The target triple; this machine's where `None`.
    pub triple: Option<String>,
    /// Cranelift's names of CPU features to switch on (`has_avx2`); those of this machine are taken
    /// when neither a triple nor features are given.
    pub features: Vec<String>,
    /// Whether Cranelift optimises.
    pub optimize: bool,
}

/// The target cannot be generated code for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetError(pub String);

impl Target {
    /// Cranelift's description of the target. `pic`: position-independent, for shared libraries.
    pub(crate) fn isa(&self, pic: bool) -> Result<OwnedTargetIsa, TargetError> {
        let mut flags = settings::builder();
        let set = |flags: &mut settings::Builder, name: &str, value: &str| {
            flags
                .set(name, value)
                .map_err(|e| TargetError(format!("{name}: {e}")))
        };
        set(
            &mut flags,
            "opt_level",
            if self.optimize { "speed" } else { "none" },
        )?;
        set(&mut flags, "is_pic", if pic { "true" } else { "false" })?;
        set(&mut flags, "preserve_frame_pointers", "true")?;
        set(
            &mut flags,
            "enable_verifier",
            if cfg!(debug_assertions) {
                "true"
            } else {
                "false"
            },
        )?;
        let mut isa = match &self.triple {
            None if self.features.is_empty() => {
                cranelift_native::builder().map_err(|e| TargetError(e.into()))?
            }
            None => {
                cranelift_native::builder_with_options(false).map_err(|e| TargetError(e.into()))?
            }
            Some(triple) => cranelift_codegen::isa::lookup_by_name(triple)
                .map_err(|e| TargetError(format!("target `{triple}`: {e}")))?,
        };
        for f in &self.features {
            isa.enable(f)
                .map_err(|e| TargetError(format!("CPU feature `{f}`: {e}")))?;
        }
        isa.finish(settings::Flags::new(flags))
            .map_err(|e| TargetError(e.to_string()))
    }
}

/// An object file.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Bytes of code and data by name.
    pub sizes: Sizes,
    /// The contents of the file of weights, where they were to be outside.
    pub weights: Option<Vec<u8>>,
}

/// Compiles a lowered program into an object file. The same program gives the same bytes.
///
/// With `weights`, the elements of large constants go to a file of that name, which the caller writes: the
/// entries map it at their first call, see [`relax_runtime::weights`].
pub fn object(
    lowered: &Lowered,
    target: &Target,
    name: &str,
    weights: Option<&str>,
) -> Result<Object, Box<Diagnostic>> {
    let trouble = |text: String| {
        Box::new(Diagnostic::error(
            relax_lower::codes::UNSUPPORTED,
            relax_base::Span::NONE,
            text,
        ))
    };
    let isa = target.isa(true).map_err(|e| trouble(e.0))?;
    let libcalls = cranelift_module::default_libcall_names();
    let builder =
        ObjectBuilder::new(Arc::clone(&isa), name, libcalls).map_err(|e| trouble(e.to_string()))?;
    let mut module = ObjectModule::new(builder);
    let mut packed = prepack(lowered, &|_| ());
    if let Some(file) = weights {
        packed.move_to_file(file);
    }
    let sizes = compile(&packed, &mut module, Extras::default())?.sizes;
    let bytes = module.finish().emit().map_err(|e| trouble(e.to_string()))?;
    Ok(Object {
        bytes,
        sizes,
        weights: packed.file.map(|f| f.bytes),
    })
}

/// The code of a lowered program as text, function by function.
pub fn listing(
    lowered: &Lowered,
    target: &Target,
    name: &str,
    what: Listing,
) -> Result<String, Box<Diagnostic>> {
    let trouble = |text: String| {
        Box::new(Diagnostic::error(
            relax_lower::codes::UNSUPPORTED,
            relax_base::Span::NONE,
            text,
        ))
    };
    let isa = target.isa(true).map_err(|e| trouble(e.0))?;
    let libcalls = cranelift_module::default_libcall_names();
    let builder = ObjectBuilder::new(isa, name, libcalls).map_err(|e| trouble(e.to_string()))?;
    let mut module = ObjectModule::new(builder);
    let extras = Extras {
        listing: Some(what),
        ..Extras::default()
    };
    Ok(compile(&prepack(lowered, &|_| ()), &mut module, extras)?.listing)
}
