//! The contract of a pass: the forms that it requires, establishes and preserves.

use std::fmt;

use crate::Analysis;

/// A form that a program can be in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Every expression has a type.
    Typed,
    /// A-normal form: every value has a name.
    ANormal,
    /// Graph normal form: values are edges, only values with effects are bound by `let`s.
    GraphNormal,
    /// Basic-block normal form: expressions that branches share are bound before them.
    BasicBlockNormal,
    /// Relax's form: a binding for each operation, dataflow blocks around pure ones.
    Relax,
}

impl Form {
    /// Returns the pass that establishes the form.
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

/// The effect of a pass on the floats that a program computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Floats {
    /// They are bitwise the same, including NaN, infinities and the signs of zeros (all NaNs are
    /// considered equal).
    Exact,
    /// Reductions (sums, minima) may be reassociated: sums round differently, and a minimum or
    /// maximum over NaN and numbers may be either.
    Order,
    /// It uses these laws of real numbers, which hold for floats up to rounding. NaN is preserved;
    /// an infinity may become NaN, and zeros may change their sign.
    Laws(&'static str),
    /// It computes less precisely, intentionally.
    Coarser,
}

/// The promises of a pass, besides keeping the module verified, typed and its semantics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// Forms that the program must be in. [`Form::Typed`] and [`Form::Relax`] are established by
    /// the manager, others by an earlier pass.
    pub needs: &'static [Form],
    /// Forms that the program is in afterwards.
    pub gives: &'static [Form],
    /// Forms that it preserves.
    pub keeps: &'static [Form],
    /// Whether running it again immediately changes nothing.
    pub idempotent: bool,
    /// Its effect on floats.
    pub floats: Floats,
    /// The analyses that stay valid when the pass changes the module. For functions that a pass
    /// leaves unchanged, all analyses stay valid.
    pub preserves: &'static [Analysis],
    /// The analyses that the pass uses, besides types: for passes over each function, which cannot
    /// compute them themselves.
    pub asks: &'static [Analysis],
    /// Whether it is a pass over each function on its own: it reads [`Module::global_bodies`] and
    /// the module's analyses from before it, and changes nothing but these bodies. The manager then
    /// runs it on shares of the functions, on several threads.
    ///
    /// [`Module::global_bodies`]: relax_ir::Module::global_bodies
    pub each_function: bool,
    /// Whether it is a pass over each dataflow block on its own
    /// ([`each_block`](crate::each_block)), and so one over each function. The manager then checks
    /// that the outputs of the blocks, and everything around them, are unchanged.
    pub each_block: bool,
}

impl Contract {
    /// Requires types, preserves no form, not idempotent.
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
    /// Requires nothing: reads the program as it is written.
    pub const PLAIN: Contract = Contract {
        needs: &[],
        ..Contract::TYPED
    };
    /// Requires types and Relax's form, preserves no form, not idempotent.
    pub(crate) const RELAX: Contract = Contract::TYPED.needs(&[Form::Typed, Form::Relax]);
    /// Declares that running it again immediately changes nothing.
    pub const fn idempotent(mut self) -> Contract {
        self.idempotent = true;
        self
    }
    /// Declares that it requires these forms.
    pub const fn needs(mut self, forms: &'static [Form]) -> Contract {
        self.needs = forms;
        self
    }
    /// Declares that it establishes these forms.
    pub const fn gives(mut self, forms: &'static [Form]) -> Contract {
        self.gives = forms;
        self
    }
    /// Declares that it reassociates sums, minima and maxima.
    pub const fn reorders(mut self) -> Contract {
        self.floats = Floats::Order;
        self
    }
    /// Declares that it uses these laws of real numbers.
    pub const fn laws(mut self, laws: &'static str) -> Contract {
        self.floats = Floats::Laws(laws);
        self
    }
    /// Declares that it computes less precisely, intentionally.
    pub const fn coarser(mut self) -> Contract {
        self.floats = Floats::Coarser;
        self
    }
    /// Declares that these analyses stay valid.
    pub const fn preserves(mut self, known: &'static [Analysis]) -> Contract {
        self.preserves = known;
        self
    }
    /// Declares that it uses these analyses.
    pub const fn asks(mut self, analyses: &'static [Analysis]) -> Contract {
        self.asks = analyses;
        self
    }
    /// Declares a pass over each function on its own.
    pub const fn each_function(mut self) -> Contract {
        self.each_function = true;
        self
    }
    /// Declares a pass over each dataflow block on its own.
    pub const fn each_block(mut self) -> Contract {
        self.each_function = true;
        self.each_block = true;
        self
    }
    /// Declares that it preserves these forms.
    pub const fn keeps(mut self, forms: &'static [Form]) -> Contract {
        self.keeps = forms;
        self
    }
}

/// The contract as a sentence:
/// `Needs types. Gives A-normal form. Running it again changes nothing.`
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
