//! What a pass needs, gives and keeps.

use std::fmt;

use crate::Analysis;

/// A form that a program can be in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Every expression has a type.
    Typed,
    /// A-normal form: every value has a name.
    ANormal,
    /// Graph normal form: values are edges, `let`s bind what has effects.
    GraphNormal,
    /// Basic-block normal form: what branches share is bound before them.
    BasicBlockNormal,
    /// Relax's form: a binding for each operation, dataflow blocks around pure ones.
    Relax,
}

impl Form {
    /// The pass that brings programs to the form.
    pub fn pass(self) -> &'static str {
        match self {
            Form::Typed => "infer-type",
            Form::ANormal => "to-a-normal-form",
            Form::GraphNormal => "to-graph-normal-form",
            Form::BasicBlockNormal => "to-basic-block-normal-form",
            Form::Relax => "normalize",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Typed => "types",
            Form::ANormal => "A-normal form",
            Form::GraphNormal => "graph normal form",
            Form::BasicBlockNormal => "basic-block normal form",
            Form::Relax => "Relax's form",
        })
    }
}

/// What a pass does to the floats that a program computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Floats {
    /// They are the same to the bit: NaN, infinities and the signs of zeros included (all NaNs are
    /// one).
    Exact,
    /// What is taken together (a sum, a minimum) may be taken in another order: sums round
    /// differently, and a minimum or maximum over NaN and numbers may be either.
    Order,
    /// It uses these laws of real numbers, which hold for floats up to rounding. NaN stays where it
    /// was; an infinity may become NaN, and zeros may change their sign.
    Laws(&'static str),
    /// It computes less precisely, on purpose.
    Coarser,
}

/// What a pass promises, beside keeping the module verified, typed and its meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// Forms that the program must be in. [`Form::Typed`] is established by the manager, others by
    /// a pass before this one.
    pub needs: &'static [Form],
    /// Forms that the program is in afterwards.
    pub gives: &'static [Form],
    /// Forms that it is still in when it was before.
    pub keeps: &'static [Form],
    /// Whether running it again at once changes nothing.
    pub idempotent: bool,
    /// What it does to floats.
    pub floats: Floats,
    /// What is known of the module and stays true when the pass changes it. Of functions that a
    /// pass leaves as they are, everything stays known.
    pub preserves: &'static [Analysis],
    /// What the pass asks for, beside types: for passes over each function, which cannot find it
    /// out themselves.
    pub asks: &'static [Analysis],
    /// Whether it is a pass over each function on its own: it looks at [`Module::global_bodies`]
    /// and what it was told of the module before it, and changes nothing but these bodies. The
    /// manager then gives it some functions at a time, on several threads.
    ///
    /// [`Module::global_bodies`]: relax_ir::Module::global_bodies
    pub each_function: bool,
    /// Whether it is a pass over each dataflow block on its own
    /// ([`each_block`](crate::each_block)), and so one over each function. The manager then checks
    /// that what leaves the blocks, and what is around them, stays.
    pub each_block: bool,
}

impl Contract {
    /// Needs types, keeps no form, may change something each time.
    pub const TYPED: Contract = Contract {
        needs: &[Form::Typed],
        gives: &[],
        keeps: &[],
        idempotent: false,
        floats: Floats::Exact,
        preserves: &[],
        asks: &[],
        each_function: false,
        each_block: false,
    };
    /// Looks at the program as it is written: needs nothing.
    pub const PLAIN: Contract = Contract {
        needs: &[],
        ..Contract::TYPED
    };
    /// Running it again at once changes nothing.
    pub const fn idempotent(mut self) -> Contract {
        self.idempotent = true;
        self
    }
    /// Needs these forms.
    pub const fn needs(mut self, forms: &'static [Form]) -> Contract {
        self.needs = forms;
        self
    }
    /// Brings programs to these forms.
    pub const fn gives(mut self, forms: &'static [Form]) -> Contract {
        self.gives = forms;
        self
    }
    /// Takes sums, minima and maxima in another order.
    pub const fn reorders(mut self) -> Contract {
        self.floats = Floats::Order;
        self
    }
    /// Uses these laws of real numbers.
    pub const fn laws(mut self, laws: &'static str) -> Contract {
        self.floats = Floats::Laws(laws);
        self
    }
    /// Computes less precisely, on purpose.
    pub const fn coarser(mut self) -> Contract {
        self.floats = Floats::Coarser;
        self
    }
    /// Returns what is known of these stays true.
    pub const fn preserves(mut self, known: &'static [Analysis]) -> Contract {
        self.preserves = known;
        self
    }
    /// Asks for these.
    pub const fn asks(mut self, analyses: &'static [Analysis]) -> Contract {
        self.asks = analyses;
        self
    }
    /// A pass over each function on its own.
    pub const fn each_function(mut self) -> Contract {
        self.each_function = true;
        self
    }
    /// A pass over each dataflow block on its own.
    pub const fn each_block(mut self) -> Contract {
        self.each_function = true;
        self.each_block = true;
        self
    }
    /// Keeps these forms.
    pub const fn keeps(mut self, forms: &'static [Form]) -> Contract {
        self.keeps = forms;
        self
    }
}

/// As a sentence: `Needs types. Gives A-normal form. Running it again changes nothing.`
impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |forms: &[Form]| {
            let words: Vec<String> = forms.iter().map(Form::to_string).collect();
            words.join(", ")
        };
        let mut parts = Vec::new();
        for (verb, forms) in [
            ("Needs", self.needs),
            ("Gives", self.gives),
            ("Keeps", self.keeps),
        ] {
            if !forms.is_empty() {
                parts.push(format!("{verb} {}.", list(forms)));
            }
        }
        if self.idempotent {
            parts.push("Running it again at once changes nothing.".into());
        }
        if !self.preserves.is_empty() {
            let words: Vec<String> = self.preserves.iter().map(Analysis::to_string).collect();
            parts.push(format!(
                "What is known of {} stays true.",
                words.join(" and ")
            ));
        }
        if self.each_block {
            parts.push("Sees one dataflow block at a time.".into());
        }
        if self.each_function {
            parts.push("Functions are rewritten in parallel.".into());
        }
        if parts.is_empty() {
            parts.push("Needs nothing.".into());
        }
        parts.push(match self.floats {
            Floats::Exact => "Floats stay the same to the bit.".into(),
            Floats::Order => "Sums may be taken in another order, and round differently.".into(),
            Floats::Laws(laws) => format!("Uses laws that hold for floats up to rounding: {laws}."),
            Floats::Coarser => "Computes less precisely, on purpose.".into(),
        });
        f.write_str(&parts.join(" "))
    }
}
