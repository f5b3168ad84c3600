//! Generates the parser from `grammar/relay.lalrpop` at the top of the house.

include!("../../grammar/generate.rs");

fn main() {
    generate("relay");
}
