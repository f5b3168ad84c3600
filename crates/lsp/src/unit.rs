//! An analysis unit: a chunk with the parts of other chunks that it depends on, parsed and
//! type-checked.
//!
//! The unit's text consists of pieces of the file in file order: the chunk itself, and for each
//! chunk it refers to either the signature (with a body that only calls itself) or, if the
//! signature is incomplete, the whole chunk. The ordinary front end reads this text, and finds the
//! same as in the whole file.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use relax::{Format, InferOptions, ReadOptions, Session, TypedModule, Typing};
use relax_base::{Diagnostic, Diagnostics, Id, SourceFile, Span};
use relax_ir::{ExprId, Module, TypeId, VarId};
use relax_resolve::names::Name;
use relax_syntax::Comment;
use relax_syntax::ast::Ast;
use rustc_hash::FxHashMap;

/// A piece of the file in a unit's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The index of its chunk; the number of chunks for the metadata section.
    pub chunk: usize,
    /// Whether it is only the signature.
    pub signature: bool,
}

/// The position of a piece in the unit's text.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Its offset in the unit's text.
    pub at: u32,
    /// The number of its bytes that come from the file.
    pub len: u32,
}

/// An analysed chunk.
#[derive(Debug)]
pub struct Unit {
    /// The unit's text.
    pub file: Arc<SourceFile>,
    /// The positions of the pieces, in order.
    pub placed: Vec<Placed>,
    /// The index of the chunk's own piece.
    pub own: usize,
    /// The tree.
    pub ast: Ast,
    /// The comments.
    pub comments: Vec<Comment>,
    /// The name occurrences in the chunk itself.
    pub names: Vec<Name>,
    /// The module.
    pub module: Module,
    /// Its types; complete even if there are errors.
    pub typing: Typing,
    /// The diagnostics of the chunk, with spans in the unit.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the chunk uses a name that none of the pieces has.
    pub lacks: bool,
    /// The number of syntax errors.
    pub syntax_errors: usize,
    /// Variables by the span of their binding.
    pub vars: FxHashMap<Span, VarId>,
    /// Expressions by span, sorted by start, then longest first.
    pub exprs: Vec<(Span, ExprId)>,
}

/// Returns an empty file. It stands for files of 4 GiB, which editors do not open.
pub fn nothing() -> Arc<SourceFile> {
    let mut map = relax_base::SourceMap::new();
    map.add("", "").expect("an empty file has a place")
}

/// Variables and expressions by span, for the spans of interest: outer expressions first.
type Standing = (FxHashMap<Span, VarId>, Vec<(Span, ExprId)>);

fn standing(module: &Module, asked: impl Fn(Span) -> bool) -> Standing {
    let there = |s: Span| !s.is_none() && asked(s);
    let vars = (module.vars.iter())
        .filter(|(_, v)| there(v.span))
        .map(|(id, v)| (v.span, id))
        .collect();
    let mut exprs: Vec<(Span, ExprId)> = (0..module.exprs.len())
        .map(ExprId::from_index)
        .map(|e| (module.spans[e], e))
        .filter(|e| there(e.0))
        .collect();
    exprs.sort_by_key(|(s, e)| (s.start, std::cmp::Reverse(s.end), *e));
    (vars, exprs)
}

/// Returns the cache key of a unit: a hash of its pieces' texts.
pub fn key(texts: &[&str], own: usize, strict: bool) -> u64 {
    let mut h = std::hash::DefaultHasher::new();
    (texts, own, strict).hash(&mut h);
    h.finish()
}

impl Unit {
    /// Parses and type-checks the pieces; `texts` holds for each the text in the file, and the text
    /// added to it.
    ///
    /// With `more`, the file has names besides those of the pieces: a unit that lacks some is
    /// needed by nobody, as the chunk must be analysed with all of them; `None` then.
    pub fn new(
        texts: &[(&str, &str)],
        own: usize,
        metadata: bool,
        strict: bool,
        more: bool,
    ) -> Option<Unit> {
        let mut text = String::new();
        let mut placed = Vec::with_capacity(texts.len());
        for (part, stub) in texts {
            placed.push(Placed {
                at: text.len() as u32,
                len: part.len() as u32,
            });
            text.push_str(part);
            text.push_str(stub);
        }
        let mut session = Session::new(ReadOptions::default());
        let mut diagnostics = Diagnostics::new();
        let file = session
            .add("", text.into_bytes(), &mut diagnostics)
            .unwrap_or_else(nothing);
        let read = session.read_tree(&file, &mut diagnostics);
        let base = file.start + placed[own].at;
        let range = Span::new(base, base + placed[own].len);
        let inside = |s: Span| range.start <= s.start && s.end <= range.end;
        let mut said = diagnostics.iter();
        let lacks = said.any(|d| inside(d.span()) && relax_resolve::codes::may_follow(d.code));
        if more && lacks {
            return None;
        }
        let (ast, comments, mut module) = (read.ast, read.comments, read.module);
        let options = InferOptions {
            strict_shapes: strict,
        };
        let (typing, more) = relax::check(&mut module, &options);
        diagnostics.extend(more);
        let names = relax_resolve::names::names(&ast);
        if !diagnostics.has_errors() {
            // Other chunks are only represented by their signatures.
            let whole = texts.len() == 1;
            let unmeant = relax::lint(&ast, &names, &module, &typing, whole);
            diagnostics.extend(unmeant);
        }
        diagnostics.sort();
        // Errors in the metadata section are reported only once, by the first chunk.
        let meta = (metadata && own == 0).then(|| {
            let last = placed[placed.len() - 1];
            Span::new(file.start + last.at, file.span().end)
        });
        let kept = |d: &Diagnostic| {
            let s = d.span();
            s.is_none() || inside(s) || meta.is_some_and(|m| m.start <= s.start && s.end <= m.end)
        };
        let all = diagnostics.into_vec();
        let names = names.into_iter().filter(|n| inside(n.span)).collect();
        let (vars, exprs) = standing(&module, inside);
        Some(Unit {
            placed,
            own,
            comments,
            names,
            vars,
            exprs,
            lacks,
            syntax_errors: read.syntax_errors,
            diagnostics: all.into_iter().filter(kept).collect(),
            ast,
            module,
            typing,
            file,
        })
    }

    /// Analyses a whole text in TVMScript: its module with types and spans, without a syntax tree.
    pub fn script(text: &str, strict: bool) -> Unit {
        let mut session = Session::new(ReadOptions {
            format: Some(Format::TvmScript),
            ..ReadOptions::default()
        });
        let mut diagnostics = Diagnostics::new();
        let read = session.input("", text.as_bytes().to_vec().into(), &mut diagnostics);
        let file = read.file.unwrap_or_else(nothing);
        let mut module = read.module;
        let options = InferOptions {
            strict_shapes: strict,
        };
        // The module of a text with errors is incomplete: checking it would report consequences.
        let (typing, more) = relax::check(&mut module, &options);
        if !diagnostics.has_errors() {
            diagnostics.extend(more);
        }
        diagnostics.sort();
        let (vars, exprs) = standing(&module, |_| true);
        Unit {
            placed: vec![Placed {
                at: 0,
                len: text.len() as u32,
            }],
            own: 0,
            ast: Ast::default(),
            comments: Vec::new(),
            names: Vec::new(),
            vars,
            exprs,
            lacks: false,
            syntax_errors: 0,
            diagnostics: diagnostics.into_vec(),
            module,
            typing,
            file,
        }
    }

    /// Returns the span of the chunk itself in the unit.
    pub fn range(&self) -> Span {
        let p = self.placed[self.own];
        let base = self.file.start + p.at;
        Span::new(base, base + p.len)
    }

    /// Returns the module with its types.
    pub fn typed(&self) -> TypedModule<'_> {
        TypedModule {
            module: &self.module,
            typing: &self.typing,
        }
    }

    /// Returns the name at a position of the unit, or right before it.
    pub fn name_at(&self, pos: u32) -> Option<&Name> {
        let after = self.names.partition_point(|n| n.span.start <= pos);
        self.names[..after].last().filter(|n| n.span.touches(pos))
    }

    /// Returns the expressions around a position, innermost first.
    pub fn exprs_at(&self, pos: u32) -> Vec<ExprId> {
        let after = self.exprs.partition_point(|e| e.0.start <= pos);
        let mut found: Vec<_> = (self.exprs[..after].iter())
            .filter(|e| e.0.end >= pos)
            .collect();
        found.sort_by_key(|e| (e.0.len(), e.1));
        found.into_iter().map(|e| e.1).collect()
    }
}

impl Unit {
    /// Returns the type of the expression with exactly this span.
    pub fn type_id_at(&self, span: Span) -> Option<TypeId> {
        let from = self.exprs.partition_point(|e| e.0.start < span.start);
        let here = self.exprs[from..]
            .iter()
            .take_while(|e| e.0.start == span.start);
        let found = here.filter(|e| e.0 == span).map(|e| self.typing.exprs[e.1]);
        let known = |t: &TypeId| self.module.types[*t] != relax_ir::Type::Error;
        found.filter(known).last()
    }

    /// Returns the type of the expression with exactly this span, as text.
    pub fn type_at(&self, span: Span) -> Option<String> {
        Some(self.module.show_type(self.type_id_at(span)?))
    }
}
