//! Statements of many operations are laid out before they end: where a group is certain to be
//! broken, what stands before one of its breaks does not depend on what stands behind it.
//!
//! Invariant: what is collected is bounded, however many elements a list has, where width and
//! nesting are.

use super::layout::columns;
use super::sink::{Op, Sink};

/// More operations than this are not kept where they can be laid out: two for an element of a list.
const MOST: usize = 4096;

/// What has been laid out of the current chunk.
pub(super) struct Front {
    /// How many operations there are when it is tried next.
    pub(super) limit: usize,
    /// How many operations there are less than were collected.
    pub(super) taken: usize,
    /// Columns that the first line of what is left is further right than the chunk.
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
    /// The last break that is certain to be one and that nothing looks back at: text follows it,
    /// more than fits into a line, in the group that it belongs to.
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

    /// Removes the operations up to a break, except where groups and nests begin that reach behind
    /// it.
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
