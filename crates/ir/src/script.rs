//! TVMScript-specific information that the IR does not represent, preserved for printing.

use std::ops::Deref;
use std::sync::Arc;

use relax_base::{Span, Symbol};
use relax_loops::Program;
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::OpId;

/// An item that is preserved as text.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// The name.
    pub name: Symbol,
    /// The text, decorators first, without the class's indentation.
    pub text: Arc<str>,
    /// Names of symbols that are declared above the class and used in the text.
    pub symbols: Vec<Symbol>,
    /// The feature that the IR does not represent.
    pub why: &'static str,
    /// The span.
    pub span: Span,
    /// The tensor program built from the item, if its loops are equivalent: as long as the module's
    /// global still holds this program, the item prints as the preserved text.
    pub program: Option<Arc<Program>>,
    /// The same for a tensor program that updates its arguments in place.
    pub inplace: Option<Inplace>,
}

/// A tensor program with in-place updates, converted to one that returns new tensors.
#[derive(Clone, PartialEq, Debug)]
pub struct Inplace {
    /// The program: parameters that are read are its inputs, those that are written its outputs.
    pub program: Arc<Program>,
    /// For each parameter, whether it is an input, and whether it is an output.
    pub params: Arc<[(bool, bool)]>,
}

impl Kept {
    /// Returns whether `program` is the one that this text defines.
    pub fn says(&self, program: &Arc<Program>) -> bool {
        self.program
            .as_ref()
            .is_some_and(|p| Arc::ptr_eq(p, program))
    }
}

/// Preserved items in the order of the text, found by name in constant time.
///
/// Invariant: `first` holds the place of the first item of each name.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct KeptItems {
    items: Vec<Kept>,
    first: FxHashMap<Symbol, usize>,
}

impl Deref for KeptItems {
    type Target = [Kept];

    fn deref(&self) -> &[Kept] {
        &self.items
    }
}

impl KeptItems {
    /// Appends an item.
    pub fn push(&mut self, item: Kept) {
        self.first.entry(item.name).or_insert(self.items.len());
        self.items.push(item);
    }

    /// Returns the first item of this name.
    pub fn get(&self, name: Symbol) -> Option<&Kept> {
        self.first.get(&name).map(|&at| &self.items[at])
    }

    /// Changes items in order; their names stay.
    pub fn each_mut(&mut self, mut f: impl FnMut(&mut Kept)) {
        for item in &mut self.items {
            let name = item.name;
            f(item);
            item.name = name;
        }
    }

    /// Keeps the items for which `f` returns true.
    pub fn retain(&mut self, f: impl FnMut(&Kept) -> bool) {
        self.items.retain(f);
        self.first.clear();
        for (at, item) in self.items.iter().enumerate() {
            self.first.entry(item.name).or_insert(at);
        }
    }
}

/// The preserved information of a TVMScript module.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Script {
    /// The class name.
    pub class: Option<Symbol>,
    /// The statements at the head of the class: module attributes, global infos.
    pub head: Vec<Arc<str>>,
    /// The metadata section as in the text: a literal.
    pub metadata: Option<Arc<str>>,
    /// Items preserved as text. A Relax function among them is also a function of the module, whose
    /// body is a placeholder.
    pub kept: KeptItems,
    /// Dimensions that the text spells differently from their normal form.
    pub dims: FxHashMap<Dim, Arc<str>>,
    /// The names that the text uses for operators that are named differently here.
    pub operators: FxHashMap<OpId, Symbol>,
    /// Whether the module is being lowered to native code: operators keep their Relax semantics,
    /// but everything else that is specific to the text (annotations that TVM trusts,
    /// destination-passing calls) has been removed.
    pub lowered: bool,
}

impl Script {
    /// Creates the information for a lowered module, detached from its text.
    pub fn lowered() -> Script {
        Script {
            lowered: true,
            ..Script::default()
        }
    }

    /// Returns the preserved item of this name.
    pub fn kept(&self, name: Symbol) -> Option<&Kept> {
        self.kept.get(name)
    }
}
