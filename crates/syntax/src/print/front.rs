//! Early layout of statements with many operations: if a group is certain to be broken, the layout
//! before one of its breaks does not depend on what follows.
//!
//! Invariant: for bounded width and nesting, the number of collected operations is bounded, however
//! many elements a list has.

use super::layout::columns;
use super::sink::{Op, Sink};

/// Early layout is tried when this many operations are collected: two for each element of a list.
const MOST: usize = 4096;

/// The progress of laying out the current chunk.
pub(super) struct Front {
    /// The number of operations at which early layout is tried next.
    pub(super) limit: usize,
    /// The number of operations removed from those collected.
    pub(super) taken: usize,
    /// The indentation of the remaining first line, relative to the chunk.
    pub(super) deeper: usize,
}

impl Default for Front {
    fn default() -> Self {
        Front {
            limit: MOST,
            taken: 0,
            deeper: 0,
        }
    }
}

impl Sink<'_> {
    /// Returns the last break that is certain to be taken and that no later text can affect: more
    /// text than fits on a line follows it in its group.
    pub(super) fn last_certain_break(&self) -> Option<usize> {
        let (mut behind, mut closed) = (0usize, 0usize);
        let (mut shown, mut broken) = (false, false);
        for (at, op) in self.ops.iter().enumerate().rev() {
            match *op {
                Op::Text { start, end } => {
                    let text = &self.buf[start as usize..end as usize];
                    behind += columns(text);
                    shown |= !text.trim_end_matches(' ').is_empty();
                }
                Op::Close => closed += 1,
                Op::Open | Op::Broken => closed = closed.saturating_sub(1),
                Op::Line | Op::Soft | Op::Hard | Op::Blank => {
                    broken |= behind > self.width || matches!(op, Op::Hard | Op::Blank);
                    if broken && shown && closed == 0 {
                        return Some(at);
                    }
                }
                Op::LastComma | Op::Nest | Op::Unnest => {}
            }
        }
        None
    }

    /// Removes the operations up to a break, except the starts of groups and nests that extend
    /// beyond it.
    pub(super) fn forget(&mut self, at: usize) {
        let mut open = Vec::new();
        let mut text = 0;
        for op in &self.ops[..at] {
            match op {
                Op::Open | Op::Broken => open.push(Op::Broken),
                Op::Nest => open.push(Op::Nest),
                Op::Close | Op::Unnest => {
                    open.pop();
                }
                Op::Text { end, .. } => text = *end,
                _ => {}
            }
        }
        self.front.taken += at + 1 - open.len();
        self.front.deeper = 2 * open.iter().filter(|op| matches!(op, Op::Nest)).count();
        self.ops.splice(..=at, open);
        self.buf.drain(..text as usize);
        for op in &mut self.ops {
            if let Op::Text { start, end } = op {
                *start -= text;
                *end -= text;
            }
        }
    }
}
