//! Access to the fields of nodes, and use counts of a function's expressions.

use std::borrow::Cow;

use relax_ops::Release;

use crate::error::Found;
use crate::graph::{Graph, NodeId};
use crate::kinds::Sort;

/// The last release whose graphs have names as inline text.
const NAMES_AS_TEXT: Release = Release(6);

impl<'a> Graph<'a> {
    /// Returns the node that a field refers to; 0 if it is absent.
    pub(crate) fn refers(&self, id: NodeId, name: &str) -> Found<NodeId> {
        match self.field(id, name) {
            None => Ok(0),
            Some(text) => self.index(id, name, &text),
        }
    }

    /// Parses a field's text as a node index.
    pub(crate) fn index(&self, id: NodeId, name: &str, text: &str) -> Found<NodeId> {
        let count = self.nodes.len();
        match text.parse::<NodeId>() {
            Ok(to) if (to as usize) < count => Ok(to),
            Ok(_) => {
                let message =
                    format!("`{name}` refers to node {text}, but there are {count} nodes");
                Err(self.mistake(id, message))
            }
            Err(_) => Err(self.mistake(
                id,
                format!("`{name}` is `{text}`, not the number of a node"),
            )),
        }
    }

    /// Returns the expression that a field refers to.
    pub(crate) fn expr_field(&self, id: NodeId, name: &str) -> Found<NodeId> {
        let to = self.refers(id, name)?;
        self.must_be_expr(id, name, to)?;
        Ok(to)
    }

    fn must_be_expr(&self, id: NodeId, name: &str, to: NodeId) -> Found<()> {
        if self.sort(to).is_expr() {
            return Ok(());
        }
        Err(self.wrong(id, name, to, "an expression"))
    }

    /// Creates the error for a field that refers to a node of the wrong kind.
    pub(crate) fn wrong(&self, id: NodeId, name: &str, to: NodeId, wanted: &str) -> crate::Mistake {
        let found = match &*self.kind(to).name {
            "" => "is missing".to_owned(),
            kind => format!("refers to node {to}, a `{kind}`"),
        };
        let mistake = self.mistake(id, format!("`{name}` {found}, where {wanted} is expected"));
        match self.sort(to) {
            Sort::Other => self.mistake_of(
                crate::codes::UNSUPPORTED,
                to,
                format!(
                    "`{}` is no {}",
                    self.kind(to).name,
                    wanted.trim_start_matches("an ").trim_start_matches("a ")
                ),
            ),
            _ => mistake,
        }
    }

    /// Returns the elements of the array that a field refers to; none for null or an absent field.
    pub(crate) fn array(&self, id: NodeId, name: &str) -> Found<&[NodeId]> {
        let to = self.refers(id, name)?;
        match self.sort(to) {
            Sort::Array | Sort::Null => Ok(self.data(to)),
            _ => Err(self.wrong(id, name, to, "an array")),
        }
    }

    /// Returns the text of a string node.
    pub(crate) fn text(&self, id: NodeId) -> Option<Cow<'a, str>> {
        match self.sort(id) {
            Sort::Text => {
                let text = self.repr(id).or_else(|| self.field(id, "value"));
                Some(text.unwrap_or_default())
            }
            _ => None,
        }
    }

    /// Returns the name in a field: a string node, or in old graphs the text itself.
    pub(crate) fn name(&self, id: NodeId, field: &str) -> Found<Cow<'a, str>> {
        let Some(text) = self.field(id, field) else {
            return Ok("".into());
        };
        if self.release <= NAMES_AS_TEXT {
            return Ok(text);
        }
        match text.parse::<usize>() {
            Ok(to) if to < self.nodes.len() => {
                let name = self.text(to as NodeId);
                name.ok_or_else(|| self.wrong(id, field, to as NodeId, "a string"))
            }
            _ => Ok(text),
        }
    }

    /// Returns the name of a type variable or data type.
    pub(crate) fn type_name(&self, id: NodeId) -> Found<Cow<'a, str>> {
        match self.refers(id, "var")? {
            0 => self.name(id, "name_hint"),
            // Up to 0.6, the name is that of a TIR variable.
            old => self.name(old, "name"),
        }
    }

    /// Returns the number in a field.
    pub(crate) fn number<T: std::str::FromStr>(&self, id: NodeId, field: &str) -> Found<T> {
        let text = self.field(id, field);
        let number = text.as_deref().and_then(|t| t.parse().ok());
        number.ok_or_else(|| match text {
            None => self.mistake(id, format!("`{field}` is missing")),
            Some(text) => self.mistake(
                id,
                format!("`{field}` is `{text}`, which is no number here"),
            ),
        })
    }

    /// Collects the operands of an expression, in evaluation order.
    pub(crate) fn parts(&self, id: NodeId, out: &mut Vec<NodeId>) -> Found<()> {
        let sort = self.sort(id);
        let single: &[&str] = match sort {
            Sort::Proj => &["tuple_value"],
            Sort::Func => &["body"],
            Sort::Let => &["value", "body"],
            Sort::If => &["cond", "true_branch", "false_branch"],
            Sort::RefNew => &["value"],
            Sort::RefRead => &["ref"],
            Sort::RefWrite => &["ref", "value"],
            Sort::Call => &["op"],
            Sort::Match => &["data"],
            _ => &[],
        };
        for name in single {
            out.push(self.expr_field(id, name)?);
        }
        match sort {
            Sort::Call | Sort::Tuple => {
                let name = if sort == Sort::Call { "args" } else { "fields" };
                for &to in self.array(id, name)? {
                    self.must_be_expr(id, name, to)?;
                    out.push(to);
                }
            }
            Sort::Match => {
                for &clause in self.array(id, "clauses")? {
                    out.push(self.expr_field(clause, "rhs")?);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Use counts of the expressions under a root.
#[derive(Default)]
pub(crate) struct Uses {
    counts: Vec<u32>,
    open: Vec<bool>,
    touched: Vec<NodeId>,
}

impl Uses {
    /// Recomputes the counts for another root; returns the number of expressions.
    pub(crate) fn count(&mut self, g: &Graph<'_>, root: NodeId) -> Found<usize> {
        self.counts.resize(g.nodes.len(), 0);
        self.open.resize(g.nodes.len(), false);
        for id in self.touched.drain(..) {
            self.counts[id as usize] = 0;
            self.open[id as usize] = false;
        }
        let mut steps = vec![(root, false)];
        let mut parts = Vec::new();
        while let Some((id, leave)) = steps.pop() {
            let at = id as usize;
            if leave {
                self.open[at] = false;
                continue;
            }
            if self.open[at] {
                return Err(g.mistake(id, "this expression is a part of itself"));
            }
            self.counts[at] += 1;
            if self.counts[at] > 1 {
                continue;
            }
            self.touched.push(id);
            if g.sort(id).is_leaf() {
                continue;
            }
            self.open[at] = true;
            steps.push((id, true));
            g.parts(id, &mut parts)?;
            steps.extend(parts.drain(..).rev().map(|p| (p, false)));
        }
        Ok(self.touched.len())
    }

    /// Returns whether an expression has several uses and is therefore named.
    pub(crate) fn shared(&self, g: &Graph<'_>, id: NodeId) -> bool {
        self.counts[id as usize] > 1 && !g.sort(id).is_leaf()
    }
}
