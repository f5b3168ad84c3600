//! Generates the listing's parser from `grammar/vm.lalrpop` at the top of the house.

include!("../../grammar/generate.rs");

fn main() {
    generate("vm");
}
