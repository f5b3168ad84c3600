//! Generates the parser from `grammar/tvmscript.lalrpop` at the top of the repository.

include!("../../grammar/generate.rs");

fn main() {
    generate("tvmscript");
}
