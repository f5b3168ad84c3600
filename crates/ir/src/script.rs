//! What a text in TVMScript says that a module has no place for: kept, so that it can be printed
//! again.

use std::sync::Arc;

use relax_base::{Span, Symbol};
use relax_loops::Program;
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::OpId;

/// An item that stays text.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// Its name.
    pub name: Symbol,
    /// Its text, decorators first, without the indentation of the class.
    pub text: Arc<str>,
    /// Names of symbols declared above the class that the text uses.
    pub symbols: Vec<Symbol>,
    /// What it has that a module has no place for.
    pub why: &'static str,
    /// Where it stands.
    pub span: Span,
    /// The tensor program that was made of it, where loops say the same: as long as the module's
    /// global is this one, its text is the kept one.
    pub program: Option<Arc<Program>>,
    /// The same for a tensor program that changes what it is given.
    pub inplace: Option<Inplace>,
}

/// A tensor program that changes what it is given, as one that gives new tensors.
#[derive(Clone, PartialEq, Debug)]
pub struct Inplace {
    /// The program: the parameters that are read are its inputs, those that are written its
    /// outputs.
    pub program: Arc<Program>,
    /// Of each parameter, whether it is an input, and whether it is an output.
    pub params: Arc<[(bool, bool)]>,
}

impl Kept {
    /// Returns whether a tensor program is the one that this text says.
    pub fn says(&self, program: &Arc<Program>) -> bool {
        self.program
            .as_ref()
            .is_some_and(|p| Arc::ptr_eq(p, program))
    }
}

/// What is kept of a text in TVMScript.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Script {
    /// The name of the class.
    pub class: Option<Symbol>,
    /// Statements at the head of the class: attributes of the module, global infos.
    pub head: Vec<Arc<str>>,
    /// The metadata section, as the text has it: a literal.
    pub metadata: Option<Arc<str>>,
    /// Items that stay text. A function of Relax among them is a function of the module as well,
    /// whose body only says so.
    pub kept: Vec<Kept>,
    /// Dimensions that the text writes in another way than their normal form.
    pub dims: FxHashMap<Dim, Arc<str>>,
    /// What the text calls operators that have another name here.
    pub operators: FxHashMap<OpId, Symbol>,
    /// Whether the program is on its way to native code: operators mean what they mean in Relax,
    /// but what the text says beyond that (annotations that TVM trusts, programs called for what
    /// they write) is gone.
    pub lowered: bool,
}

impl Script {
    /// A program that goes on without its text.
    pub fn lowered() -> Script {
        Script {
            lowered: true,
            ..Script::default()
        }
    }
    /// The item of that name that stays text.
    pub fn kept(&self, name: Symbol) -> Option<&Kept> {
        self.kept.iter().find(|k| k.name == name)
    }
}
