//! The arguments for accepting arrays for parameters.

use relax::fit::Taking;

/// How arrays are taken for parameters.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct TakingArgs {
    /// Converts arrays whose elements have another type than the parameter's, as long as every
    /// number stays what it is up to rounding.
    #[arg(long)]
    pub cast: bool,
}

impl From<TakingArgs> for Taking {
    fn from(args: TakingArgs) -> Taking {
        Taking { cast: args.cast }
    }
}
