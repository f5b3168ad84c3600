//! The parser's actions: from token positions to nodes.
//!
//! Lists are collected on scratch stacks: a rule pushes each element when it is complete, and the
//! rule around the list pops that number of elements. Nested lists are popped before their owner is
//! pushed, so one stack serves all of them.

mod literal;
mod names;
mod ops;
mod signature;
mod stmt;

use std::cell::Cell;

use relax_base::{Diagnostic, Id, SourceFile, Span, Symbol};

use crate::ast::*;
use crate::old::OldForm;

/// The numbers of positional arguments and of attributes in a list in parentheses.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ArgCount {
    pub(crate) args: u32,
    pub(crate) attrs: u32,
}

impl ArgCount {
    pub(crate) fn add(self, is_attr: bool) -> ArgCount {
        ArgCount {
            args: self.args + u32::from(!is_attr),
            attrs: self.attrs + u32::from(is_attr),
        }
    }
}

/// A signature, up to the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FnHead {
    type_params: List<TypeParamId>,
    angle: bool,
    params: List<BinderId>,
    attrs: List<AttrId>,
    ret: Option<TypeId>,
    relations: List<TypeId>,
    /// The list of types of a function type.
    type_list: List<TypeId>,
    end: u32,
}

/// Builds the tree.
#[derive(Debug)]
pub(crate) struct Builder<'s> {
    pub(crate) ast: Ast,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Occurrences of earlier versions' forms.
    pub(crate) old: Vec<OldForm>,
    file: &'s SourceFile,
    text: &'s str,
    scratch: Vec<u32>,
    attr_scratch: Vec<u32>,
    ops: Vec<BinOp>,
    op_stack: Vec<BinOp>,
    type_ops: Vec<TypeOp>,
    type_op_stack: Vec<TypeOp>,
    operands: Vec<u32>,
    recent: [Cell<Option<(&'static str, Symbol)>>; RECENT],
}

/// The number of names that are cached with their symbols.
const RECENT: usize = 128;

/// A state of the builder to roll back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    lens: [usize; 12],
    diagnostics: usize,
    old: usize,
}

impl<'s> Builder<'s> {
    pub(crate) fn new(file: &'s SourceFile) -> Self {
        Builder {
            ast: Ast::new(),
            diagnostics: Vec::new(),
            old: Vec::new(),
            file,
            text: &file.text,
            scratch: Vec::new(),
            attr_scratch: Vec::new(),
            ops: Vec::new(),
            op_stack: Vec::new(),
            type_ops: Vec::new(),
            type_op_stack: Vec::new(),
            operands: Vec::new(),
            recent: [const { Cell::new(None) }; RECENT],
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        let a = &self.ast;
        Mark {
            lens: [
                a.exprs.len(),
                a.types.len(),
                a.pats.len(),
                a.stmts.len(),
                a.binders.len(),
                a.functions.len(),
                a.attrs.len(),
                a.clauses.len(),
                a.type_params.len(),
                a.ctors.len(),
                a.loops.len(),
                a.pool.len(),
            ],
            diagnostics: self.diagnostics.len(),
            old: self.old.len(),
        }
    }

    /// Drops everything built since `mark`.
    pub(crate) fn reset(&mut self, mark: Mark) {
        let a = &mut self.ast;
        let [e, t, p, s, b, f, at, c, tp, k, l, pool] = mark.lens;
        a.exprs.truncate(e);
        a.types.truncate(t);
        a.pats.truncate(p);
        a.stmts.truncate(s);
        a.binders.truncate(b);
        a.functions.truncate(f);
        a.attrs.truncate(at);
        a.clauses.truncate(c);
        a.type_params.truncate(tp);
        a.ctors.truncate(k);
        a.loops.truncate(l);
        a.pool.truncate(pool);
        self.diagnostics.truncate(mark.diagnostics);
        self.old.truncate(mark.old);
        self.scratch.clear();
        self.attr_scratch.clear();
        self.ops.clear();
        self.type_ops.clear();
    }

    fn slice(&self, l: u32, r: u32) -> &'s str {
        let base = self.file.start;
        &self.text[(l - base) as usize..(r - base) as usize]
    }

    pub(crate) fn push(&mut self, id: impl ListItem) {
        self.scratch.push(id.raw());
    }

    /// Pops the last `n` elements off the stack as a list.
    fn take<I: ListItem>(&mut self, n: u32) -> List<I> {
        let from = self.scratch.len() - n as usize;
        self.ast.make_list(
            self.scratch
                .drain(from..)
                .map(|raw| I::from_index(raw as usize)),
        )
    }

    fn take_attrs(&mut self, n: u32) -> List<AttrId> {
        let from = self.attr_scratch.len() - n as usize;
        self.ast
            .make_list(self.attr_scratch.drain(from..).map(AttrId))
    }

    pub(crate) fn push_attr(&mut self, l: u32, m: u32, value: ExprId, r: u32) {
        let key = self.name_symbol(l, m);
        let id = self.ast.attr(key, value, Span::new(l, r));
        self.attr_scratch.push(id.0);
    }

    pub(crate) fn expr(&mut self, kind: ExprKind, l: u32, r: u32) -> ExprId {
        self.ast.expr(kind, Span::new(l, r))
    }

    pub(crate) fn ty(&mut self, kind: TypeExprKind, l: u32, r: u32) -> TypeId {
        self.ast.ty(kind, Span::new(l, r))
    }

    pub(crate) fn pat(&mut self, kind: PatKind, l: u32, r: u32) -> PatId {
        self.ast.pat(kind, Span::new(l, r))
    }

    pub(crate) fn stmt(&mut self, kind: StmtKind, l: u32, r: u32) -> StmtId {
        self.ast.stmt(kind, Span::new(l, r))
    }

    pub(crate) fn call(&mut self, callee: ExprId, n: ArgCount, l: u32, r: u32) -> ExprId {
        let args = self.take(n.args);
        let attrs = self.take_attrs(n.attrs);
        let kind = ExprKind::Call {
            callee,
            args,
            attrs,
        };
        self.expr(kind, l, r)
    }

    /// Adds parentheses; further pairs are counted by the same node.
    pub(crate) fn paren(&mut self, e: ExprId, l: u32, r: u32) -> ExprId {
        let node = &mut self.ast.exprs[e];
        if let ExprKind::Paren(_, pairs) = &mut node.kind {
            *pairs += 1;
            node.span = Span::new(l, r);
            return e;
        }
        self.expr(ExprKind::Paren(e, 1), l, r)
    }

    pub(crate) fn tuple(&mut self, n: u32, l: u32, r: u32) -> ExprId {
        let items = self.take(n);
        self.expr(ExprKind::Tuple(items), l, r)
    }

    pub(crate) fn list(&mut self, n: u32, l: u32, r: u32) -> ExprId {
        let items = self.take(n);
        self.expr(ExprKind::List(items), l, r)
    }

    pub(crate) fn map(&mut self, n: u32, l: u32, r: u32) -> ExprId {
        let attrs = self.take_attrs(n);
        self.expr(ExprKind::Map(attrs), l, r)
    }

    /// Builds `%x^`, which reads a reference.
    pub(crate) fn caret(&mut self, e: ExprId, caret: u32, l: u32, r: u32) -> ExprId {
        let old = OldForm::new("`^`, which reads a reference", Span::new(caret, r), ")");
        self.old.push(old.edit(Span::new(l, l), "ref_read("));
        self.expr(ExprKind::RefRead(e), l, r)
    }

    /// Builds `(%x := e)`, which writes a reference.
    pub(crate) fn assign(
        &mut self,
        target: ExprId,
        sign: u32,
        value: ExprId,
        l: u32,
        r: u32,
    ) -> ExprId {
        let what = "`:=`, which writes a reference";
        let old = OldForm::new(what, Span::new(sign, sign + 2), ",");
        self.old.push(old.edit(Span::new(l, l), "ref_write"));
        self.expr(ExprKind::RefWrite { target, value }, l, r)
    }

    pub(crate) fn index(&mut self, base: ExprId, n: u32, l: u32, r: u32) -> ExprId {
        let indices = self.take(n);
        self.expr(ExprKind::Index { base, indices }, l, r)
    }

    pub(crate) fn type_apply(&mut self, callee: ExprId, n: u32, l: u32, r: u32) -> ExprId {
        let args = self.take(n);
        self.expr(ExprKind::TypeApply { callee, args }, l, r)
    }

    pub(crate) fn shape(&mut self, n: u32, l: u32, r: u32) -> ExprId {
        let dims = self.take(n);
        self.expr(ExprKind::Shape(dims), l, r)
    }

    pub(crate) fn match_shape(&mut self, value: ExprId, n: u32, l: u32, r: u32) -> ExprId {
        let dims = self.take(n);
        self.expr(ExprKind::MatchShape { value, dims }, l, r)
    }

    pub(crate) fn closure(&mut self, head: FnHead, body: ExprId, l: u32, r: u32) -> ExprId {
        let f = self.function(head, body, l);
        self.expr(ExprKind::Fn(f), l, r)
    }

    pub(crate) fn if_(
        &mut self,
        cond: ExprId,
        then: ExprId,
        otherwise: Option<ExprId>,
        l: u32,
        r: u32,
    ) -> ExprId {
        let kind = ExprKind::If {
            cond,
            then,
            otherwise,
        };
        self.expr(kind, l, r)
    }

    pub(crate) fn match_(
        &mut self,
        scrutinee: ExprId,
        n: u32,
        complete: bool,
        l: u32,
        r: u32,
    ) -> ExprId {
        let clauses = self.take(n);
        let kind = ExprKind::Match {
            scrutinee,
            clauses,
            complete,
        };
        self.expr(kind, l, r)
    }

    pub(crate) fn clause(
        &mut self,
        pat: PatId,
        body: ExprId,
        case: bool,
        l: u32,
        r: u32,
    ) -> ClauseId {
        let span = Span::new(l, r);
        self.ast.clauses.push(Clause {
            pat,
            body,
            case,
            span,
        })
    }

    pub(crate) fn ctor_pat(&mut self, l: u32, m: u32, n: Option<u32>, r: u32) -> PatId {
        let name = self.name_symbol(l, m);
        let args = self.take(n.unwrap_or(0));
        let parens = n.is_some();
        self.pat(PatKind::Ctor { name, args, parens }, l, r)
    }

    pub(crate) fn var_pat(
        &mut self,
        l: u32,
        m: u32,
        attrs: Option<u32>,
        ty: Option<TypeId>,
        r: u32,
    ) -> PatId {
        let binder = self.binder(l, m, attrs, ty);
        self.pat(PatKind::Var(binder), l, r)
    }

    pub(crate) fn tuple_pat(&mut self, n: u32, comma: bool, l: u32, r: u32) -> PatId {
        let items = self.take(n);
        self.pat(PatKind::Tuple { items, comma }, l, r)
    }

    pub(crate) fn apply(&mut self, head: TypeId, n: u32, l: u32, r: u32) -> TypeId {
        let args = self.take(n);
        self.ty(TypeExprKind::Apply { head, args }, l, r)
    }

    pub(crate) fn type_call(&mut self, head: TypeId, n: u32, l: u32, r: u32) -> TypeId {
        let args = self.take(n);
        self.ty(TypeExprKind::Call { head, args }, l, r)
    }

    pub(crate) fn tuple_type(&mut self, n: u32, comma: bool, l: u32, r: u32) -> TypeId {
        let items = self.take(n);
        self.ty(TypeExprKind::Tuple { items, comma }, l, r)
    }

    pub(crate) fn name_symbol(&self, l: u32, r: u32) -> Symbol {
        let text = self.slice(l, r);
        let (slot, known) = self.recent(text);
        if let Some(known) = known {
            return known;
        }
        if text.bytes().any(|b| b == b' ' || b == b'\t') {
            // `nn . conv2d` is the name `nn.conv2d`.
            return Symbol::new(&text.replace([' ', '\t'], ""));
        }
        self.intern(slot, text)
    }

    /// Returns the symbol of a recently seen name, and its slot in the cache: programs use few
    /// names many times.
    fn recent(&self, text: &str) -> (usize, Option<Symbol>) {
        let b = text.as_bytes();
        let ends = b.first().map_or(0, |&b| usize::from(b)) * 5
            + b.last().map_or(0, |&b| usize::from(b)) * 3;
        let slot = (ends + b.len()) % RECENT;
        let known = self.recent[slot].get();
        (slot, known.filter(|k| k.0 == text).map(|k| k.1))
    }

    fn intern(&self, slot: usize, text: &str) -> Symbol {
        let symbol = Symbol::new(text);
        self.recent[slot].set(Some((symbol.as_str(), symbol)));
        symbol
    }
}

/// Converts a raw number on the scratch stack to an id.
fn id<I: Id>(raw: u32) -> I {
    I::from_index(raw as usize)
}
