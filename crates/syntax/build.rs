//! Generates the parser from `grammar/relay.lalrpop` at the top of the repository.

include!("../../grammar/generate.rs");

fn main() {
    generate("relay");
}
