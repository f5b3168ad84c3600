//! The arguments for reading texts, the same in all tools.

use relax::{Format, ReadOptions, Release, Stubs, TextOptions};

/// How files are read.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Reading {
    /// The format of the file: `relay`, `tvmscript`, `tvm-json` or `onnx`. It is told by the
    /// content otherwise.
    #[arg(long, value_name = "FORMAT", help_heading = "Reading")]
    pub from: Option<Format>,
    /// Gives constants whose metadata section is missing placeholders, typed by the comments beside
    /// them: `zeros`, or `random` numbers of a seed (`random:7`). They are printed as references
    /// again.
    #[arg(long, value_name = "WHAT", help_heading = "Reading", num_args = 0..=1, require_equals = true,
          default_missing_value = "zeros")]
    pub stub_constants: Option<Stubs>,
    /// The version of TVM that wrote the file (`0.8`). Defaults of attributes that changed between
    /// versions are those of this one.
    #[arg(long, value_name = "VERSION", help_heading = "Reading")]
    pub relay_version: Option<Release>,
    /// Takes calls of operators that nobody knows as they are, where a comment says their type.
    /// They have effects, and cannot be computed.
    #[arg(long, help_heading = "Reading")]
    pub allow_unknown_ops: bool,
    /// Reads the Relay text in a log: lines around it and marks before its lines are passed over.
    #[arg(long, help_heading = "Reading")]
    pub from_log: bool,
    /// Makes one function of the equal layers of an ONNX model, called for each.
    #[arg(long, help_heading = "Reading")]
    pub fold_layers: bool,
    /// Computes with dequantised numbers what an ONNX model does, rather than with integers.
    #[arg(long, help_heading = "Reading")]
    pub keep_qdq: bool,
}

impl Reading {
    /// Returns the session's options. With `weights`, constants whose metadata section is missing
    /// always become placeholders, to be bound later.
    pub fn options(&self, weights: bool) -> ReadOptions {
        let placeholders = weights.then_some(Stubs::Awaited);
        ReadOptions {
            text: TextOptions {
                stub_constants: self.stub_constants.or(placeholders),
                release: self.relay_version,
                allow_unknown_ops: self.allow_unknown_ops,
                from_log: self.from_log,
                pasted: true,
            },
            format: self.from,
            fold_layers: self.fold_layers,
            keep_qdq: self.keep_qdq,
        }
    }

    /// Returns whether constants may remain placeholders.
    pub fn stubs(&self) -> bool {
        self.stub_constants.is_some()
    }
}
