//! The arguments of a call on one line.

use relax_ir::ExprId;

use crate::table::Operator;

/// The pending parts of an expression, in reverse order.
pub(super) enum Part {
    Text(String),
    Value(ExprId),
}

/// The arguments of a call being printed: positional inputs as long as none is omitted, keyword
/// arguments after that.
pub(super) struct Arguments<'o> {
    op: &'o Operator,
    parts: Vec<(String, Part)>,
    /// Whether an input was omitted.
    gap: bool,
}

impl<'o> Arguments<'o> {
    pub fn new(op: &'o Operator) -> Arguments<'o> {
        Arguments {
            op,
            parts: Vec::new(),
            gap: false,
        }
    }
    fn key(&self, name: &str, input: bool) -> String {
        let rest = self.op.params.iter().any(|p| p.rest && p.name == name);
        if input && !self.gap || rest {
            String::new()
        } else {
            format!("{name}=")
        }
    }
    pub fn value(&mut self, name: &str, input: bool, e: ExprId) {
        let key = self.key(name, input);
        self.gap |= !key.is_empty();
        self.parts.push((key, Part::Value(e)));
    }
    pub fn text(&mut self, name: &str, input: bool, text: String) {
        let key = self.key(name, input);
        self.gap |= !key.is_empty();
        self.parts.push((key, Part::Text(text)));
    }
    pub fn skipped(&mut self) {
        self.gap = true;
    }
    pub fn has(&self, name: &str) -> bool {
        let rest = self.op.params.iter().any(|p| p.rest && p.name == name);
        let keyed = format!("{name}=");
        rest || !self.gap && !self.parts.is_empty() || self.parts.iter().any(|p| p.0 == keyed)
    }
    pub fn finish(self, out: &mut Vec<Part>) {
        out.push(Part::Text(format!("R.{}(", self.op.name)));
        for (i, (key, part)) in self.parts.into_iter().enumerate() {
            let lead = if i > 0 { format!(", {key}") } else { key };
            if !lead.is_empty() {
                out.push(Part::Text(lead));
            }
            out.push(part);
        }
        out.push(Part::Text(")".into()));
    }
}
