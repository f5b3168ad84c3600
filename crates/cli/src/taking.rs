//! How arrays are taken for parameters, as arguments of a tool.

use relax::fit::Taking;

/// How arrays are taken for parameters.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[group(skip)]
pub struct Args {
    /// Converts arrays whose elements have another type than the parameter's, as long as every number stays what it
    /// is up to rounding.
    #[arg(long)]
    pub cast: bool,
}

impl From<Args> for Taking {
    fn from(args: Args) -> Taking {
        Taking { cast: args.cast }
    }
}
