//! The traversal of the tree, as a stack of work items.

use relax_base::{SideTable, Span, Symbol};

use super::PrintOptions;
use super::sink::{Piece, Sink};
use crate::ast::*;

/// A work item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Expr(ExprId),
    /// A type-level term.
    Type(TypeId),
    Pat(PatId),
    Stmt(StmtId),
    Binder(BinderId),
    Attr(AttrId),
    TypeParam(TypeParamId),
    Ctor(CtorId, bool),
    Item(usize),
    /// A block in braces, always on several lines.
    Body(ExprId),
    /// The inside of a block.
    Inside(ExprId),
    Clause(ClauseId),
    /// A `/* ty=… */` comment.
    Note(TypeId),
    /// The end of a type to be cached, which began at this operation.
    Kept(TypeId, u32),
    Tok(Word<11>),
    /// A repeated token.
    Times(Word<3>, u32),
    /// The number of further elements of a list, whose work is below this on the stack; a comma
    /// precedes each.
    Rest(u32),
    /// The end of a list's elements; the flag says whether a comma must follow the last.
    ItemsEnd(bool),
    /// The end of a list's group: its closing bracket, and whether a comma must precede it.
    ListEnd(Word<3>, bool),
    Name(Symbol),
    /// A sigil and a name.
    Sigil(char, Symbol),
    Space,
    Line,
    Soft,
    Open,
    Close,
    Nest,
    Unnest,
    /// The same without a closing bracket.
    UnnestHere,
    Indent,
    Dedent,
    Hard,
    /// The break between statements, which preserves an empty line of the original.
    Between,
}

/// The stack grows with a program's nesting depth.
const _: () = assert!(std::mem::size_of::<Work>() <= 16);

impl Work {
    /// Creates the work item of a token.
    pub(super) fn tok(text: &'static str) -> Work {
        Work::Tok(Word::new(text))
    }
}

/// A token of at most `N` bytes, stored inline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<const N: usize> {
    len: u8,
    bytes: [u8; N],
}

impl<const N: usize> Word<N> {
    /// Panics if the token is longer.
    pub(super) fn new(text: &'static str) -> Self {
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Word {
            len: text.len() as u8,
            bytes,
        }
    }
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or("")
    }
}

pub(crate) struct Emitter<'a> {
    pub(super) ast: &'a Ast,
    pub(super) types: bool,
    pub(super) sink: Sink<'a>,
    pub(super) work: Vec<Work>,
    /// The number of nodes of each expression, or 255 if it contains statements.
    pub(super) sizes: Vec<u8>,
    /// Cached operations of types, and for each type its index in the cache, plus one.
    pieces: Vec<Piece>,
    kept: SideTable<TypeId, u32>,
    keeping: bool,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(ast: &'a Ast, options: &PrintOptions, sink: Sink<'a>) -> Self {
        let sizes = if sink.tvm() { Vec::new() } else { sizes(ast) };
        Emitter {
            ast,
            types: options.types,
            sink,
            work: Vec::new(),
            sizes,
            pieces: Vec::new(),
            kept: SideTable::default(),
            keeping: false,
        }
    }

    pub(super) fn tvm(&self) -> bool {
        self.sink.tvm()
    }

    /// Processes all work.
    pub(super) fn run(&mut self) {
        while let Some(work) = self.work.pop() {
            match work {
                Work::Expr(e) => self.expr(e),
                Work::Type(t) => self.kept_ty(t),
                Work::Kept(t, first) => self.keep_ty(t, first),
                Work::Pat(p) => self.pat(p),
                Work::Stmt(s) => self.stmt(s),
                Work::Binder(b) => self.binder(b),
                Work::Attr(a) => self.attr(a),
                Work::TypeParam(p) => self.type_param(p),
                Work::Ctor(c, data) => self.ctor(c, data),
                Work::Item(i) => self.item(i),
                Work::Body(e) => self.body(e),
                Work::Inside(e) => self.inside(e),
                Work::Clause(c) => self.clause(c),
                Work::Note(t) => {
                    // A comment created by the printer, which is not one of the original.
                    self.work.push(Work::tok(" */"));
                    self.work.push(Work::Type(t));
                    self.sink.tok(" /* ty=");
                }
                Work::Tok(t) => self.sink.tok(t.as_str()),
                Work::Times(t, n) => {
                    let t = t.as_str();
                    (0..n).for_each(|_| self.sink.tok(t));
                }
                Work::Rest(n) => {
                    let item = self.work.pop();
                    if n > 1 {
                        self.work.push(Work::Rest(n - 1));
                    }
                    self.work.extend(item);
                    self.sink.tok(",");
                    self.sink.line();
                }
                Work::ListEnd(close, comma) => {
                    self.end_items(comma);
                    self.sink.tok(close.as_str());
                    self.sink.close();
                }
                Work::ItemsEnd(comma) => self.end_items(comma),
                Work::Name(n) => self.sink.tok(n.as_str()),
                Work::Sigil(c, n) => self.sigil(c, n),
                Work::Space => self.sink.space(),
                Work::Line => self.sink.line(),
                Work::Soft => self.sink.soft(),
                Work::Open => self.sink.open(),
                Work::Close => self.sink.close(),
                Work::Nest => self.sink.nest(),
                Work::Unnest => self.sink.unnest(),
                Work::UnnestHere => self.sink.unnest_here(),
                Work::Indent => self.sink.indent(),
                Work::Dedent => self.sink.dedent(),
                Work::Hard => self.sink.hard(),
                Work::Between => {
                    self.sink.hard();
                    if self.sink.blank_follows() {
                        self.sink.blank();
                    }
                }
            }
        }
    }

    /// Prints a type. The same node is printed over and over, in annotations and comments, so its
    /// operations are cached and repeated.
    fn kept_ty(&mut self, t: TypeId) {
        if !self.sink.can_repeat() {
            return self.ty(t);
        }
        if let Some(kept) = self.kept[t].checked_sub(1) {
            if !self.sink.repeat(&self.pieces[kept as usize]) {
                self.ty(t);
            }
            return;
        }
        // Components of a type being cached are not cached themselves, so that work in progress
        // stays small.
        if !self.keeping
            && matches!(
                self.ast.types[t].kind,
                TypeExprKind::Apply { .. } | TypeExprKind::Fn { .. } | TypeExprKind::Tuple { .. }
            )
        {
            self.keeping = true;
            let first = self.sink.begin_piece();
            self.work.push(Work::Kept(t, first));
        }
        self.ty(t);
    }

    fn keep_ty(&mut self, t: TypeId, first: u32) {
        self.keeping = false;
        if let Some(piece) = self.sink.piece(first) {
            self.pieces.push(piece);
            self.kept.set(t, self.pieces.len() as u32);
        }
    }

    /// Ends a list's elements, before its closing bracket.
    fn end_items(&mut self, comma: bool) {
        if comma {
            self.sink.tok(",");
        } else {
            self.sink.last_comma();
        }
        self.sink.unnest();
        self.sink.soft();
    }

    /// Schedules work to be done next, in the given order.
    pub(super) fn then(&mut self, work: &[Work]) {
        self.work.extend(work.iter().rev());
    }

    pub(super) fn sigil(&mut self, sigil: char, name: Symbol) {
        self.sink.tok_of(sigil, name.as_str());
    }

    /// Prints a literal, in its original spelling if there is an original.
    pub(super) fn literal(&mut self, span: Span, text: &str) {
        if self.sink.comments.is_some() {
            self.sink.literal(span.end);
        } else {
            self.sink.tok(text);
        }
    }

    /// Prints a bracketed list, with one element per line if it does not fit. `one_comma`: a single
    /// element is followed by a comma.
    pub(super) fn listed(
        &mut self,
        open: &'static str,
        items: impl DoubleEndedIterator<Item = Work> + ExactSizeIterator,
        close: &'static str,
        one_comma: bool,
    ) {
        self.listed_before(open, items, close, one_comma, &[]);
    }

    /// The same where `after` belongs to the list: the list breaks before anything in `after` does.
    pub(super) fn listed_before(
        &mut self,
        open: &'static str,
        items: impl DoubleEndedIterator<Item = Work> + ExactSizeIterator,
        close: &'static str,
        one_comma: bool,
        after: &[Work],
    ) {
        let n = items.len();
        if n == 0 {
            self.then(after);
            if self.sink.comment_follows() {
                self.then(&[Work::tok(open), Work::Indent, Work::Soft, Work::Dedent]);
                let at = self.work.len() - 4;
                self.work.insert(at, Work::tok(close));
                return;
            }
            self.then(&[Work::tok(open), Work::tok(close)]);
            return;
        }
        let comma = one_comma && n == 1;
        if after.is_empty() {
            self.work.push(Work::ListEnd(Word::new(close), comma));
        } else {
            self.work.push(Work::Close);
            self.then(after);
            self.work.extend([Work::tok(close), Work::ItemsEnd(comma)]);
        }
        self.work.extend(items.rev());
        if n > 1 {
            let first = self.work.len() - 1;
            self.work.insert(first, Work::Rest(n as u32 - 1));
        }
        self.then(&[Work::Open, Work::tok(open), Work::Nest, Work::Soft]);
    }

    /// The same on one line.
    pub(super) fn inline(
        &mut self,
        open: &'static str,
        items: impl DoubleEndedIterator<Item = Work> + ExactSizeIterator,
        close: &'static str,
        one_comma: bool,
    ) {
        let n = items.len();
        self.work.push(Work::tok(close));
        if one_comma && n == 1 {
            self.work.push(Work::tok(","));
        }
        for (i, item) in items.enumerate().rev() {
            self.work.push(item);
            if i > 0 {
                self.work.push(Work::Space);
                self.work.push(Work::tok(","));
            }
        }
        self.work.push(Work::tok(open));
    }
}

/// Returns the sizes of expressions, which decide what may be printed on one line.
fn sizes(ast: &Ast) -> Vec<u8> {
    const STATEMENTS: u8 = 255;
    let mut sizes: Vec<u8> = Vec::with_capacity(ast.exprs.len());
    for expr in ast.exprs.values() {
        let of = |e: ExprId| sizes.get(e.0 as usize).copied().unwrap_or(STATEMENTS);
        let sum = |parts: &mut dyn Iterator<Item = u8>| {
            parts.fold(1u8, |a, b| {
                if a == STATEMENTS || b == STATEMENTS {
                    STATEMENTS
                } else {
                    a.saturating_add(b).min(STATEMENTS - 1)
                }
            })
        };
        let size = match expr.kind {
            ExprKind::Tuple(l) | ExprKind::List(l) => sum(&mut ast.list(l).map(of)),
            ExprKind::Paren(e, _)
            | ExprKind::RefNew(e)
            | ExprKind::RefRead(e)
            | ExprKind::Proj { tuple: e, .. }
            | ExprKind::TypeApply { callee: e, .. }
            | ExprKind::MatchShape { value: e, .. }
            | ExprKind::MatchCast { value: e, .. } => sum(&mut [of(e)].into_iter()),
            ExprKind::Call {
                callee,
                args,
                attrs,
            } => {
                let attrs = ast.list(attrs).map(|a| of(ast.attrs[a].value));
                sum(&mut ast.list(args).map(of).chain([of(callee)]).chain(attrs))
            }
            ExprKind::Map(attrs) => sum(&mut ast.list(attrs).map(|a| of(ast.attrs[a].value))),
            ExprKind::Index { base, indices } => {
                sum(&mut ast.list(indices).map(of).chain([of(base)]))
            }
            ExprKind::Binary { lhs, rhs, .. } => sum(&mut [of(lhs), of(rhs)].into_iter()),
            ExprKind::RefWrite { target, value } => sum(&mut [of(target), of(value)].into_iter()),
            ExprKind::Block { stmts, tail, .. } => match tail {
                Some(t) if stmts.is_empty() => of(t),
                None if stmts.is_empty() => 1,
                _ => STATEMENTS,
            },
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => {
                let other = otherwise.map_or(STATEMENTS, of);
                sum(&mut [of(cond), of(then), other].into_iter())
            }
            ExprKind::Fn(f) => of(ast.functions[f].body),
            ExprKind::Match { .. } => STATEMENTS,
            _ => 1,
        };
        sizes.push(size);
    }
    sizes
}
