//! Targets, and object files for them.

use std::str::FromStr as _;

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable, SettingKind};
use cranelift_object::{ObjectBuilder, ObjectModule};
use relax_base::Diagnostic;
use relax_lower::lir::Lowered;
use target_lexicon::{Aarch64Architecture, Architecture, ParseError, Triple};

use crate::Error;
use crate::module::{Extras, Listing, compile};
use crate::prepack::prepack;

/// The target of code generation.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The target triple (`aarch64-unknown-linux-gnu`) or its beginning (`aarch64`); that of this
    /// machine if `None`.
    pub triple: Option<String>,
    /// CPU features and processors by Cranelift's names, with or without `has_` (`avx2`,
    /// `haswell`); [`NATIVE`] for those of this machine. Without any, code runs on every processor
    /// of the architecture ([`X86_64_LEAST`] for x86-64) and does not depend on the machine that
    /// compiles it.
    pub features: Vec<String>,
    /// Whether Cranelift optimises.
    pub optimize: bool,
    /// The prefix of entries' C symbols instead of `relax`: see [`crate::entry_symbol`].
    pub prefix: Option<String>,
}

/// The name for the features of the machine that compiles.
pub const NATIVE: &str = "native";
/// The minimum for x86-64: SSE4.2, which has the instructions that round vectors of floats.
pub const X86_64_LEAST: &str = "x86-64-v2";
/// The architectures that support the layout of the runtime's values: 64 bits, little-endian.
const ARCHITECTURES: &[&str] = &["x86_64", "aarch64", "riscv64", "riscv64gc"];

/// `; did you mean …?`, or nothing.
fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    relax_base::did_you_mean(name, known)
        .map_or(String::new(), |n| format!("; did you mean `{n}`?"))
}

impl Target {
    /// Returns this machine, with all its features.
    pub(crate) fn this_machine() -> Target {
        Target {
            triple: None,
            features: vec![NATIVE.to_owned()],
            optimize: true,
            prefix: None,
        }
    }

    /// Checks that code can be generated for the target.
    ///
    /// # Errors
    /// [`Error::Target`]: the unknown name, and the known ones.
    pub fn check(&self) -> Result<(), Error> {
        self.isa(true).map(drop)
    }

    /// Returns whether it is the machine that this runs on, named or not.
    pub fn is_host(&self) -> bool {
        self.full_triple().is_ok_and(|t| t == Triple::host())
    }

    /// The triple with all its parts.
    fn full_triple(&self) -> Result<Triple, Error> {
        let Some(text) = &self.triple else {
            return Ok(Triple::host());
        };
        let architecture = text.split('-').next().unwrap_or_default();
        let unknown = |why: &str| {
            Error::Target(format!(
                "target `{text}`: {why}{}; there are {}",
                hint(architecture, ARCHITECTURES.iter().copied()),
                ARCHITECTURES.join(", ")
            ))
        };
        if architecture == text {
            // Completed as rustc and clang do on the most common systems.
            let whole = format!("{text}-unknown-linux-gnu");
            return Triple::from_str(&whole).map_err(|_| unknown("no such architecture"));
        }
        Triple::from_str(text).map_err(|e| match e {
            ParseError::UnrecognizedArchitecture(_) => unknown("no such architecture"),
            other => Error::Target(format!("target `{text}`: {other}")),
        })
    }

    /// Returns Cranelift's description of the target. `pic`: position-independent, for shared
    /// libraries.
    pub(crate) fn isa(&self, pic: bool) -> Result<OwnedTargetIsa, Error> {
        let mut flags = settings::builder();
        let yes = |on: bool| if on { "true" } else { "false" };
        let level = if self.optimize { "speed" } else { "none" };
        for (name, value) in [
            ("opt_level", level),
            ("is_pic", yes(pic)),
            ("preserve_frame_pointers", "true"),
            ("enable_verifier", yes(cfg!(debug_assertions))),
        ] {
            let set = flags.set(name, value);
            set.map_err(|e| Error::Target(format!("{name}: {e}")))?;
        }
        let triple = self.full_triple()?;
        let fits = matches!(
            triple.architecture,
            Architecture::X86_64
                | Architecture::Aarch64(Aarch64Architecture::Aarch64)
                | Architecture::Riscv64(_)
        );
        if !fits {
            return Err(Error::Target(format!(
                "target `{triple}`: no code can be generated for it{}; there are {}",
                hint(
                    &triple.architecture.to_string(),
                    ARCHITECTURES.iter().copied()
                ),
                ARCHITECTURES.join(", ")
            )));
        }
        let x86 = triple.architecture == Architecture::X86_64;
        let native = self.features.iter().any(|f| f == NATIVE);
        let mut isa = if native {
            let host = Triple::host();
            if host.architecture != triple.architecture {
                return Err(Error::Target(format!(
                    "the CPU `{NATIVE}` is {}, the target {}",
                    host.architecture, triple.architecture
                )));
            }
            let mut isa = isa::lookup(triple).map_err(|e| Error::Target(e.to_string()))?;
            cranelift_native::infer_native_flags(&mut isa).map_err(|e| Error::Target(e.into()))?;
            isa
        } else {
            isa::lookup(triple).map_err(|e| Error::Target(e.to_string()))?
        };
        if x86 && self.features.is_empty() {
            let least = isa.enable(X86_64_LEAST);
            least.map_err(|e| Error::Target(e.to_string()))?;
        }
        for name in self.features.iter().filter(|f| *f != NATIVE) {
            let feature = feature(&isa, name)?;
            let on = isa.enable(feature);
            on.map_err(|e| Error::Target(format!("CPU feature `{name}`: {e}")))?;
        }
        isa.finish(settings::Flags::new(flags))
            .map_err(|e| Error::Target(e.to_string()))
    }
}

/// Cranelift's name of a feature or processor.
fn feature(isa: &isa::Builder, name: &str) -> Result<&'static str, Error> {
    let short = |n: &'static str| n.strip_prefix("has_").unwrap_or(n);
    let of = |kind: SettingKind| isa.iter().filter(move |s| s.kind == kind).map(|s| s.name);
    let all = || of(SettingKind::Bool).chain(of(SettingKind::Preset));
    if let Some(found) = all().find(|n| *n == name || short(n) == name) {
        return Ok(found);
    }
    let near = hint(name.strip_prefix("has_").unwrap_or(name), all().map(short));
    let features = of(SettingKind::Bool).map(short);
    Err(Error::Target(format!(
        "no CPU feature or processor `{name}` for {}{near}; features are {}",
        isa.triple().architecture,
        features.collect::<Vec<_>>().join(", ")
    )))
}

/// Returns the code of a lowered program as text, function by function.
///
/// # Errors
/// The target is unknown, or code cannot be made for it.
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
    let isa = target.isa(true).map_err(|e| trouble(e.to_string()))?;
    let libcalls = cranelift_module::default_libcall_names();
    let builder = ObjectBuilder::new(isa, name, libcalls).map_err(|e| trouble(e.to_string()))?;
    let mut module = ObjectModule::new(builder);
    let extras = Extras {
        listing: Some(what),
        ..Extras::default()
    };
    Ok(compile(&prepack(lowered, &|_| ()), &mut module, extras)?.listing)
}
