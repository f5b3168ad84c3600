//! Laying one chunk out: which groups break.
//!
//! A group stays on one line where its text and what follows it up to the next possible break fit
//! into the width; this is the rule of Wadler's printer ("A prettier printer", 2003), found here in
//! two passes over the operations as they stand, without a document in between: the first, from the
//! end, measures the groups, the second writes.
//!
//! Invariant: time and memory are linear in the operations, and nothing recurses over their depth.

use super::sink::Op;

/// The size of a group that holds a hard break.
const NEVER: usize = usize::MAX;

/// Columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// A group whose beginning is not reached yet.
struct Open {
    /// What stands behind it, flat.
    behind: usize,
    /// What stands behind it up to the next possible break.
    tail: usize,
    hard: bool,
}

/// The flat sizes of all groups, last group first, each with what must fit behind it.
fn sizes(
    ops: &[Op],
    text: &dyn Fn(u32, u32) -> usize,
    breaks: &dyn Fn(u32, u32) -> bool,
) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let (mut total, mut tail) = (0usize, 0usize);
    for op in ops.iter().rev() {
        let mut hard = false;
        match *op {
            Op::Text { start, end } => {
                let own = text(start, end);
                total += own;
                tail += own;
                hard = breaks(start, end);
            }
            Op::Line => {
                total += 1;
                tail = 0;
            }
            Op::Soft => tail = 0,
            // Only a broken list has it, and what follows a group is measured in a broken one.
            Op::LastComma => tail += 1,
            Op::Hard | Op::Blank => {
                tail = 0;
                hard = true;
            }
            Op::Close => open.push(Open {
                behind: total,
                tail,
                hard: false,
            }),
            Op::Open => {
                if let Some(group) = open.pop() {
                    hard = group.hard;
                    sizes.push(if hard {
                        NEVER
                    } else {
                        total - group.behind + group.tail
                    });
                } else {
                    sizes.push(NEVER);
                }
            }
            Op::Nest | Op::Unnest => {}
        }
        if hard && let Some(around) = open.last_mut() {
            around.hard = true;
        }
    }
    sizes
}

/// Writes a chunk whose first line begins at column `indent`.
pub(super) fn lay_out(ops: &[Op], buf: &str, indent: usize, width: usize, out: &mut String) {
    let slice = |start: u32, end: u32| &buf[start as usize..end as usize];
    // Asked once for the chunk, not for each of its texts.
    let (plain, ascii) = (!buf.contains('\n'), buf.is_ascii());
    let columns = |text: &str| if ascii { text.len() } else { columns(text) };
    let mut sizes = sizes(ops, &|s, e| columns(slice(s, e)), &|s, e| {
        !plain && slice(s, e).contains('\n')
    });
    // Whether each open group is flat.
    let mut flat: Vec<bool> = Vec::new();
    let mut margin = indent;
    let mut column = indent;
    out.extend(std::iter::repeat_n(' ', indent));
    for (i, op) in ops.iter().enumerate() {
        let is_flat = flat.last().copied().unwrap_or(false);
        let newline = match *op {
            Op::Text { start, end } => {
                let text = slice(start, end);
                out.push_str(text);
                let last = if plain { None } else { text.rfind('\n') };
                match last {
                    Some(at) => column = columns(&text[at + 1..]),
                    None => column += columns(text),
                }
                false
            }
            Op::Line if is_flat => {
                out.push(' ');
                column += 1;
                false
            }
            Op::Line => true,
            Op::Soft => !is_flat,
            Op::LastComma => {
                if !is_flat {
                    out.push(',');
                    column += 1;
                }
                false
            }
            // An empty line has no margin.
            Op::Hard if matches!(ops.get(i + 1), Some(Op::Blank)) => {
                out.push('\n');
                false
            }
            Op::Hard | Op::Blank => true,
            Op::Open => {
                let size = sizes.pop().unwrap_or(NEVER);
                flat.push(is_flat || column.saturating_add(size) <= width);
                false
            }
            Op::Close => {
                flat.pop();
                false
            }
            Op::Nest => {
                margin += 2;
                false
            }
            Op::Unnest => {
                margin = margin.saturating_sub(2);
                false
            }
        };
        if newline {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', margin));
            column = margin;
        }
    }
}
