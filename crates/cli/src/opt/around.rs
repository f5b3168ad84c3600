//! Flags that print modules between passes.

use std::path::PathBuf;

use relax::Pipeline;
use relax_passes::Registry;

use crate::stop::Stop;

/// Around which passes modules are printed.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Between passes")]
pub struct Around {
    /// Prints the module before these passes: `fold-constant,fuse-ops`.
    #[arg(long, value_name = "PASSES", value_delimiter = ',')]
    pub print_ir_before: Vec<String>,
    /// Prints the module before each pass.
    #[arg(long)]
    pub print_ir_before_all: bool,
    /// Prints the module after these passes.
    #[arg(long, value_name = "PASSES", value_delimiter = ',')]
    pub print_ir_after: Vec<String>,
    /// Prints the module after each pass.
    #[arg(long)]
    pub print_ir_after_all: bool,
    /// Prints what each pass changed.
    #[arg(long)]
    pub print_ir_after_change: bool,
    /// Writes the module after each pass into files of this folder.
    #[arg(long, value_name = "DIR")]
    pub print_ir_tree_dir: Option<PathBuf>,
}

impl Around {
    /// Returns whether the module is printed before a pass.
    pub fn before(&self, pass: &str) -> bool {
        self.print_ir_before_all || self.print_ir_before.iter().any(|n| n == pass)
    }

    /// Returns whether the module is printed after a pass.
    pub fn after(&self, pass: &str) -> bool {
        self.print_ir_after_all || self.print_ir_after.iter().any(|n| n == pass)
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let before = self.print_ir_before.iter().map(|n| ("before", n));
        before.chain(self.print_ir_after.iter().map(|n| ("after", n)))
    }

    /// # Errors
    /// A name is not that of a pass.
    pub fn check(&self, passes: &Registry) -> Result<(), Stop> {
        for (when, name) in self.named() {
            if passes.find(name).is_none() {
                let unknown = super::manual::unknown(passes, name);
                return Err(format!("--print-ir-{when}: {unknown}").into());
            }
        }
        Ok(())
    }

    /// Returns the named passes that the pipeline does not run, one per line.
    pub fn missing(&self, pipeline: &Pipeline) -> String {
        let runs = pipeline.passes();
        let absent = |n: &&(&str, &String)| runs.iter().all(|r| r.pass.name != *n.1);
        let line = |(when, name)| {
            format!(
                "relax-opt: nothing is printed for --print-ir-{when} {name}: the pipeline does not run it\n"
            )
        };
        self.named()
            .collect::<Vec<_>>()
            .iter()
            .filter(absent)
            .copied()
            .map(line)
            .collect()
    }
}
