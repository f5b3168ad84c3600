//! Reading and checking texts.
#![allow(dead_code)] // each test crate uses its own part

use relax_base::{Diagnostic, SourceMap};
use relax_infer::{InferOptions, Typing, infer, show_type};
use relax_ir::Module;

/// A checked text.
pub struct Checked {
    pub module: Module,
    pub typing: Typing,
    pub diagnostics: Vec<Diagnostic>,
    text: String,
}

/// Reads a text, which must be free of syntax and name errors, and infers its types.
pub fn check_with(text: &str, options: &InferOptions) -> Checked {
    let mut sources = SourceMap::new();
    let file = sources.add("test.relay", text).expect("a small file");
    let parsed = relax_syntax::parse(&file);
    assert!(!parsed.diagnostics.has_errors(), "{:?}", parsed.diagnostics);
    let (mut module, said) = relax_resolve::resolve(&parsed.ast, &file, &Default::default());
    assert!(!said.has_errors(), "{said:?}");
    let (typing, diagnostics) = infer(&mut module, options);
    Checked {
        module,
        typing,
        diagnostics: diagnostics.into_vec(),
        text: text.into(),
    }
}

/// Like [`check_with`], with default options.
pub fn check(text: &str) -> Checked {
    check_with(text, &InferOptions::default())
}

impl Checked {
    /// Asserts that there are no diagnostics.
    pub fn fine(self) -> Checked {
        assert!(self.diagnostics.is_empty(), "{:#?}", self.diagnostics);
        self
    }
    /// The type of a global.
    pub fn ty(&self, name: &str) -> String {
        let id = self.module.global(name).expect("a global of that name");
        show_type(&self.module, self.typing.globals[id])
    }
    /// The codes of all diagnostics, in order.
    pub fn codes(&self) -> Vec<String> {
        self.diagnostics
            .iter()
            .map(|d| d.code.to_string())
            .collect()
    }
    /// Requires exactly one diagnostic with this code whose primary place is this text.
    #[track_caller]
    pub fn one(&self, code: &str, place: &str) -> &Diagnostic {
        assert_eq!(self.codes(), [code], "{:#?}", self.diagnostics);
        let d = &self.diagnostics[0];
        let span = d.span();
        let found = &self.text[span.start as usize - 1..span.end as usize - 1];
        assert_eq!(found, place, "{d:#?}");
        d
    }
}
