//! Generates the parser from `grammar/tvmscript.lalrpop` at the top of the house.

include!("../../grammar/generate.rs");

fn main() {
    generate("tvmscript");
}
