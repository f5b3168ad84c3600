//! Tokens and layout operations to lines.

use super::comments::Comments;
use super::front::Front;
use super::layout::{Chunk, columns, lay_out};
use super::{PrintOptions, Style};

/// A layout operation. Texts are ranges of the chunk's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Text {
        start: u32,
        end: u32,
    },
    /// A space, or a line break in a broken group.
    Line,
    /// Nothing, or a line break in a broken group.
    Soft,
    /// A comma in a broken group.
    LastComma,
    Open,
    /// The beginning of a broken group, parts of which are already laid out.
    Broken,
    Close,
    /// Increases the indentation in broken groups.
    Nest,
    Unnest,
    /// A line break.
    Hard,
    /// An empty line after the next break.
    Blank,
}

/// Larger pieces, in operations, are not cached.
const LARGEST_PIECE: usize = 256;

/// Operations that can be emitted again.
pub(super) struct Piece {
    ops: Box<[Op]>,
    text: Box<str>,
    /// The maximum nesting depth of groups and of indentation in it.
    groups: usize,
    nests: usize,
}

/// The maximum depth of indentation inside groups; text nested deeper is not indented further, so
/// that the size of the output stays linear.
const DEEPEST_NEST: usize = 24;

/// The maximum indentation of blocks in columns, for the same reason: beyond the width of a line,
/// indentation conveys nothing. TVM indents without a limit; the limit for its style is beyond the
/// nesting of real programs.
const DEEPEST_INDENT: usize = 100;
const DEEPEST_INDENT_TVM: usize = 1 << 13;

/// Text nested in more groups is not broken, except after comments: each group would take a line or
/// two, and work in progress many times the size of its text.
const DEEPEST_GROUP: usize = 256;

/// Collects one unwrapped line at a time and lays it out.
pub(crate) struct Sink<'a> {
    style: Style,
    pub(super) width: usize,
    out: String,
    /// The indentation of the current block.
    indent: usize,
    /// The indentation of the line that the chunk begins.
    pub(super) chunk_indent: usize,
    pub(super) buf: String,
    pub(super) ops: Vec<Op>,
    pub(super) front: Front,
    groups: usize,
    nests: Vec<bool>,
    broken: bool,
    /// Whether a line comment requires a break before the next text.
    must_break: bool,
    pub(super) comments: Option<Comments<'a>>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(options: &PrintOptions, comments: Option<Comments<'a>>) -> Self {
        Sink {
            style: options.style,
            width: options.width,
            out: String::new(),
            indent: 0,
            chunk_indent: 0,
            buf: String::new(),
            ops: Vec::new(),
            front: Front::default(),
            groups: 0,
            nests: Vec::new(),
            broken: false,
            must_break: false,
            comments,
        }
    }

    pub(super) fn tvm(&self) -> bool {
        self.style == Style::Tvm
    }

    /// Emits a token of two parts.
    pub(super) fn tok_of(&mut self, first: char, rest: &str) {
        if self.comments.is_some() {
            let mut text = String::with_capacity(rest.len() + 1);
            text.push(first);
            text.push_str(rest);
            self.token_with_comments(&text);
        } else {
            self.raw(first.encode_utf8(&mut [0; 4]));
            self.raw(rest);
        }
    }

    /// Emits a token.
    pub(super) fn tok(&mut self, text: &str) {
        if self.comments.is_some() {
            self.token_with_comments(text);
        } else {
            self.raw(text);
        }
    }

    /// Emits text that is not a token of the original, or that the caller handles.
    pub(super) fn raw(&mut self, text: &str) {
        if self.tvm() {
            self.make_room(text.len());
            self.out.push_str(text);
            return;
        }
        if self.must_break {
            self.must_break = false;
            self.break_here();
        }
        let start = self.buf.len() as u32;
        self.buf.push_str(text);
        let end = self.buf.len() as u32;
        // Adjacent texts are merged.
        if let Some(Op::Text { end: last, .. }) = self.ops.last_mut() {
            *last = end;
        } else {
            self.ops.push(Op::Text { start, end });
        }
    }

    pub(super) fn space(&mut self) {
        if self.skipping() {
            return;
        }
        if self.tvm() {
            self.out.push(' ');
            return;
        }
        self.trailing();
        if !self.must_break {
            self.raw(" ");
        }
    }

    pub(super) fn line(&mut self) {
        self.separator(Op::Line, " ");
    }

    pub(super) fn soft(&mut self) {
        self.separator(Op::Soft, "");
    }

    fn separator(&mut self, op: Op, flat: &str) {
        if self.skipping() {
            return;
        }
        if self.tvm() {
            self.out.push_str(flat);
            return;
        }
        self.trailing();
        if self.must_break {
            self.must_break = false;
            self.break_here();
        } else if self.groups <= DEEPEST_GROUP {
            self.ops.push(op);
            self.shorten();
        } else if !flat.is_empty() {
            self.raw(flat);
        }
    }

    /// Emits a comma after the last element of a list, which is printed if the list is broken.
    pub(super) fn last_comma(&mut self) {
        if self.tvm() {
            return;
        }
        if self.comments.is_some() {
            self.pass_comma();
        }
        if !self.skipping() && self.groups <= DEEPEST_GROUP {
            self.ops.push(Op::LastComma);
        }
    }

    pub(super) fn open(&mut self) {
        if !self.tvm() {
            self.groups += 1;
            if self.groups <= DEEPEST_GROUP {
                self.ops.push(Op::Open);
            }
        }
    }

    pub(super) fn close(&mut self) {
        if !self.tvm() {
            if self.groups <= DEEPEST_GROUP {
                self.ops.push(Op::Close);
            }
            self.groups -= 1;
        }
    }

    pub(super) fn nest(&mut self) {
        if self.tvm() {
            return;
        }
        let deep = self.nests.len() >= DEEPEST_NEST;
        self.nests.push(deep);
        if !deep {
            self.ops.push(Op::Nest);
        }
    }

    /// Decreases the indentation before a closing bracket: comments before the bracket are still
    /// indented.
    pub(super) fn unnest(&mut self) {
        if self.tvm() {
            return;
        }
        self.comments_before_closing();
        self.unnest_here();
    }

    /// Decreases the indentation without a closing bracket.
    pub(super) fn unnest_here(&mut self) {
        if self.tvm() {
            return;
        }
        if self.nests.pop() == Some(false) {
            self.ops.push(Op::Unnest);
        }
    }

    /// Indents the lines of a block.
    pub(super) fn indent(&mut self) {
        if self.groups > 0 {
            self.nest();
        } else {
            self.indent += 2;
        }
    }

    /// Returns the indentation of the current block's lines.
    fn margin(&self) -> usize {
        let most = match self.tvm() {
            true => DEEPEST_INDENT_TVM,
            false => DEEPEST_INDENT,
        };
        self.indent.min(most)
    }

    pub(super) fn dedent(&mut self) {
        if self.groups > 0 {
            self.unnest();
        } else {
            self.comments_before_closing();
            self.indent -= 2;
        }
    }

    /// Emits a line break.
    pub(super) fn hard(&mut self) {
        if self.skipping() {
            return;
        }
        if self.tvm() {
            self.out.push('\n');
            let indent = self.margin();
            self.out.extend(std::iter::repeat_n(' ', indent));
            return;
        }
        self.trailing();
        self.must_break = false;
        self.break_here();
    }

    /// Emits an empty line before the next one.
    pub(super) fn blank(&mut self) {
        if self.skipping() {
            return;
        }
        if self.tvm() {
            self.out.push('\n');
        } else if self.groups > 0 {
            if matches!(self.ops.last(), Some(Op::Hard)) {
                self.ops.push(Op::Blank);
            }
        } else {
            self.trailing();
            self.flush();
            if !self.out.is_empty() && !self.out.ends_with("\n\n") {
                self.out.push('\n');
            }
        }
    }

    pub(super) fn break_here(&mut self) {
        if self.groups > 0 {
            self.broken = true;
            while let Some(Op::Line | Op::Soft) = self.ops.last() {
                self.ops.pop();
            }
            self.ops.push(Op::Hard);
            self.shorten();
        } else {
            self.flush();
        }
    }

    /// Returns whether nothing has been written on this line.
    pub(super) fn at_line_start(&self) -> bool {
        let mut ops = self.ops.iter().rev();
        loop {
            match ops.next() {
                None => return !self.must_break,
                Some(Op::Hard | Op::Blank) => return !self.must_break,
                Some(Op::Open | Op::Nest | Op::Close | Op::Unnest) => {}
                _ => return false,
            }
        }
    }

    /// Removes the groups that have just been opened, since comments precede them.
    pub(super) fn hold(&mut self) -> Vec<bool> {
        let mut held = Vec::new();
        if self.nests.len() >= DEEPEST_NEST {
            return held;
        }
        while let Some(op @ (Op::Open | Op::Nest)) = self.ops.last().copied() {
            self.ops.pop();
            let group = matches!(op, Op::Open);
            if group {
                self.groups -= 1;
            } else {
                self.nests.pop();
            }
            held.push(group);
        }
        held
    }

    /// Opens the removed groups again.
    pub(super) fn release(&mut self, held: Vec<bool>) {
        if self.must_break && !held.is_empty() {
            self.must_break = false;
            self.break_here();
        }
        for group in held.into_iter().rev() {
            if group {
                self.open();
            } else {
                self.nest();
            }
        }
    }

    /// Returns whether the last text was a separator, a space or an opening bracket.
    pub(super) fn after_gap(&self) -> bool {
        match self
            .ops
            .iter()
            .rev()
            .find(|op| !matches!(op, Op::Open | Op::Nest | Op::Close))
        {
            Some(Op::Text { end, .. }) => {
                self.buf[..*end as usize].ends_with([' ', '(', '[', '{', '<'])
            }
            _ => true,
        }
    }

    /// Removes a separator, since a comment precedes it.
    pub(super) fn take_separator(&mut self) {
        loop {
            match self.ops.last() {
                Some(Op::Line | Op::Soft) => {
                    self.ops.pop();
                }
                Some(Op::Text { start, end })
                    if self.buf[*start as usize..*end as usize].ends_with(' ') =>
                {
                    let (start, end) = (*start, *end);
                    self.buf.truncate(end as usize - 1);
                    self.ops.pop();
                    if start < end - 1 {
                        self.ops.push(Op::Text {
                            start,
                            end: end - 1,
                        });
                    }
                }
                _ => return,
            }
        }
    }

    /// Returns whether the collected operations depend only on the requests: no comments are
    /// interleaved, no break is pending.
    pub(super) fn can_repeat(&self) -> bool {
        self.comments.is_none() && !self.must_break && !self.tvm()
    }

    /// Begins a piece, with its text as a separate operation.
    pub(super) fn begin_piece(&mut self) -> u32 {
        let at = self.buf.len() as u32;
        self.ops.push(Op::Text { start: at, end: at });
        (self.front.taken + self.ops.len()) as u32 - 1
    }

    /// Returns the piece that began at this operation; `None` if it cannot be repeated.
    pub(super) fn piece(&self, first: u32) -> Option<Piece> {
        let first = (first as usize).checked_sub(self.front.taken)?;
        let ops = self.ops.get(first..)?;
        if ops.len() > LARGEST_PIECE {
            return None;
        }
        let &Op::Text { start: from, .. } = ops.first()? else {
            return None;
        };
        let (mut groups, mut nests) = ((0usize, 0usize), (0usize, 0usize));
        let mut moved = Vec::with_capacity(ops.len());
        for op in ops {
            match *op {
                Op::Text { start, end } => {
                    let (start, end) = (start - from, end - from);
                    moved.push(Op::Text { start, end });
                    continue;
                }
                Op::Open => groups.0 += 1,
                Op::Close => groups.0 = groups.0.checked_sub(1)?,
                Op::Nest => nests.0 += 1,
                Op::Unnest => nests.0 = nests.0.checked_sub(1)?,
                Op::Line | Op::Soft | Op::LastComma => {}
                Op::Hard | Op::Blank | Op::Broken => return None,
            }
            moved.push(*op);
            groups.1 = groups.1.max(groups.0);
            nests.1 = nests.1.max(nests.0);
        }
        let complete = groups.0 == 0 && nests.0 == 0;
        let deep =
            self.groups + groups.1 >= DEEPEST_GROUP || self.nests.len() + nests.1 >= DEEPEST_NEST;
        (complete && !deep).then(|| Piece {
            ops: moved.into(),
            text: self.buf[from as usize..].into(),
            groups: groups.1,
            nests: nests.1,
        })
    }

    /// Emits a piece again; returns false if it would be laid out differently.
    pub(super) fn repeat(&mut self, piece: &Piece) -> bool {
        let deep = self.groups + piece.groups >= DEEPEST_GROUP
            || self.nests.len() + piece.nests >= DEEPEST_NEST;
        if deep || !self.can_repeat() {
            return false;
        }
        let base = self.buf.len() as u32;
        self.buf.push_str(&piece.text);
        self.ops.extend(piece.ops.iter().map(|op| match *op {
            Op::Text { start, end } => Op::Text {
                start: start + base,
                end: end + base,
            },
            op => op,
        }));
        true
    }

    pub(super) fn clear_break(&mut self) {
        self.must_break = false;
    }

    pub(super) fn require_break(&mut self) {
        self.must_break = true;
    }

    /// Copies text with its own line breaks.
    pub(super) fn verbatim(&mut self, text: &str) {
        self.raw(text);
        if text.contains('\n') {
            self.broken = true;
        }
        self.must_break = true;
    }

    /// Reserves room for more output; large output grows by a quarter instead of doubling.
    fn make_room(&mut self, more: usize) {
        const LARGE: usize = 1 << 20;
        let len = self.out.len();
        if len >= LARGE && len + more > self.out.capacity() {
            self.out.reserve_exact(more + len / 4);
        }
    }

    /// Lays out the collected line.
    fn flush(&mut self) {
        self.make_room(self.buf.len() + self.chunk_indent + 1);
        if !self.buf.is_empty() {
            // The buffer contains exactly the texts of the line.
            let lines = self.ops.iter().filter(|op| matches!(op, Op::Line));
            let width = columns(&self.buf) + lines.count();
            if !self.broken && self.chunk_indent + width <= self.width {
                self.flush_flat();
            } else {
                self.write(self.ops.len());
            }
            while self.out.ends_with(' ') {
                self.out.pop();
            }
            self.out.push('\n');
        }
        self.ops.clear();
        self.buf.clear();
        self.broken = false;
        self.chunk_indent = self.margin();
        self.front = Front::default();
    }

    /// Lays out the first operations.
    fn write(&mut self, ops: usize) {
        let chunk = Chunk {
            ops: &self.ops[..ops],
            buf: &self.buf,
            indent: self.chunk_indent,
            column: self.chunk_indent + self.front.deeper,
        };
        lay_out(&chunk, self.width, &mut self.out);
    }

    /// Lays out the operations before a break that is certain to be taken.
    fn shorten(&mut self) {
        if self.ops.len() < self.front.limit {
            return;
        }
        if let Some(at) = self.last_certain_break() {
            self.make_room(self.buf.len());
            self.write(at);
            self.out.push('\n');
            self.broken = true;
            self.forget(at);
        }
        self.front.limit = self.front.limit.max(2 * self.ops.len());
    }

    fn flush_flat(&mut self) {
        let indent = self.chunk_indent;
        self.out.extend(std::iter::repeat_n(' ', indent));
        for op in &self.ops {
            match *op {
                Op::Text { start, end } => {
                    self.out.push_str(&self.buf[start as usize..end as usize]);
                }
                Op::Line => self.out.push(' '),
                _ => {}
            }
        }
    }

    /// Finishes the output.
    pub(super) fn finish(mut self) -> (String, bool) {
        let failed = self.finish_comments();
        if !self.tvm() {
            self.flush();
        }
        (self.out, failed)
    }
}
