//! Index maps: functions over indices that say what two layouts of the same axes say.

use relax_base::Symbol;
use rustc_hash::FxHashMap;

use super::Reader;
use crate::ast::{List, Node, NodeId, Operation};
use crate::indices::{factor, joined, lambda, map};
use crate::strings;

/// An index along an axis: the parameter, or the two that are its blocks and the places in them.
struct Axis {
    outer: usize,
    /// The parameter, and the extent of a block.
    inner: Option<(usize, i64)>,
}

/// What becomes of an axis.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    /// The number of the block.
    Block(i64),
    /// The place in it.
    Place(i64),
}

impl Reader<'_> {
    /// Returns which nodes of a range are parts of functions over indices.
    pub(super) fn in_lambdas(&self, from: u32, to: u32) -> Vec<bool> {
        // How many more functions a node is in than the one before.
        let mut deeper = vec![0i32; (to - from) as usize];
        for at in from..to {
            if let Node::Lambda(params, body) = self.ast.nodes[at as usize] {
                let first = self.ast.list(params).first().unwrap_or(&body).0;
                deeper[(first.max(from) - from) as usize] += 1;
                deeper[(at - from) as usize] -= 1;
            }
        }
        let mut depth = 0;
        let inside = |by: i32| {
            depth += by;
            depth > 0
        };
        deeper.into_iter().map(inside).collect()
    }

    /// Returns the layouts that an index map leads from and to.
    pub(super) fn layouts(&self, params: List, body: NodeId) -> Option<[String; 2]> {
        let params = self.ast.list(params);
        if params.len() > 26 {
            return None;
        }
        let name = |id: &NodeId| self.symbol(self.ast.span(*id));
        let place: FxHashMap<Symbol, usize> = params.iter().map(name).zip(0..).collect();
        let (Node::Tuple(list) | Node::List(list)) = self.ast.node(body) else {
            return None;
        };
        let parts: Vec<(Axis, Part)> = (self.ast.list(list).iter())
            .map(|&e| self.index_part(e, &place))
            .collect::<Option<_>>()?;
        // A letter for each axis, a capital one for what is no place in a block.
        let mut names: Vec<Option<String>> = vec![None; params.len()];
        let mut letters = 'A'..='Z';
        for (axis, _) in &parts {
            if names[axis.outer].is_some() {
                continue;
            }
            let letter = letters.next()?;
            names[axis.outer] = Some(letter.to_string());
            if let Some((inner, extent)) = axis.inner {
                names[inner] = Some(format!("{extent}{}", letter.to_ascii_lowercase()));
            }
        }
        let from: String = names.iter().flatten().map(String::as_str).collect();
        let (mut to, mut text) = (String::new(), Vec::with_capacity(parts.len()));
        for (axis, part) in &parts {
            let letter = names[axis.outer].as_deref()?;
            let at = |i: usize| format!("i{i}");
            let inner = axis.inner.map(|i| at(i.0));
            let whole = joined(at(axis.outer), inner, axis.inner.map_or(1, |i| i.1));
            match part {
                Part::Whole => to.push_str(letter),
                Part::Block(_) => to.push_str(letter),
                Part::Place(n) => to.push_str(&format!("{n}{}", letter.to_ascii_lowercase())),
            }
            text.push(match part {
                Part::Whole => whole,
                Part::Block(n) => format!("{} // {n}", factor(whole)),
                Part::Place(n) => format!("{} % {n}", factor(whole)),
            });
        }
        // What the layouts say has to be this map.
        (map(&from, &to)? == lambda(params.len(), &text)).then_some([from, to])
    }

    /// Returns the axis of one index of the result, and what becomes of it.
    fn index_part(&self, e: NodeId, place: &FxHashMap<Symbol, usize>) -> Option<(Axis, Part)> {
        if let Node::Binary(op @ (Operation::FloorDiv | Operation::Mod), whole, by) =
            self.ast.node(e)
        {
            let (axis, n) = (self.whole_axis(whole, place)?, self.number(by)?);
            return Some(match op {
                Operation::Mod => (axis, Part::Place(n)),
                _ => (axis, Part::Block(n)),
            });
        }
        Some((self.whole_axis(e, place)?, Part::Whole))
    }

    /// Returns the axis that `i` or `i * 4 + j` goes along.
    fn whole_axis(&self, e: NodeId, place: &FxHashMap<Symbol, usize>) -> Option<Axis> {
        let param = |e: NodeId| match self.ast.node(e) {
            Node::Name => place.get(&self.symbol(self.ast.span(e))).copied(),
            _ => None,
        };
        if let Some(outer) = param(e) {
            return Some(Axis { outer, inner: None });
        }
        let Node::Binary(Operation::Add, blocks, inner) = self.ast.node(e) else {
            return None;
        };
        let Node::Binary(Operation::Mul, outer, extent) = self.ast.node(blocks) else {
            return None;
        };
        Some(Axis {
            outer: param(outer)?,
            inner: Some((param(inner)?, self.number(extent)?)),
        })
    }

    fn number(&self, e: NodeId) -> Option<i64> {
        match self.ast.node(e) {
            Node::Int => strings::integer(self.text(self.ast.span(e))),
            _ => None,
        }
    }
}
