//! Files and items.

use super::emit::{Emitter, Work};
use crate::ast::*;

impl Emitter<'_> {
    /// Prints the whole file.
    pub(crate) fn file(self) -> String {
        self.file_checked().0
    }

    /// Prints the whole file; returns whether interleaving the comments failed.
    pub(crate) fn file_checked(mut self) -> (String, bool) {
        let ast = self.ast;
        let written = self.sink.comments.is_none();
        if let Some((version, span)) = ast.version {
            if self.sink.comments.is_some() {
                self.sink.literal(span.end);
                self.sink.hard();
                if self.sink.blank_follows() {
                    self.sink.blank();
                }
            } else {
                self.sink.tok(&format!("#[version = \"{version}\"]"));
                self.sink.hard();
            }
        }
        for i in 0..ast.items.len() {
            if i > 0 {
                let alone = !(self.is_line(i) && self.is_line(i - 1));
                self.sink.hard();
                let keep = if written {
                    alone || self.tvm()
                } else {
                    alone || self.sink.blank_follows()
                };
                if keep {
                    self.sink.blank();
                }
            }
            self.work.push(Work::Item(i));
            self.run();
        }
        let expression = ast.form != FileForm::Module;
        let tvm = self.tvm();
        if tvm && !expression && !ast.items.is_empty() {
            self.sink.hard();
        }
        if !written {
            if let Some(span) = ast.metadata {
                self.sink.hard();
                self.sink.blank();
                self.sink.literal(span.end);
            }
            return self.sink.finish();
        }
        if let Some(text) = &ast.metadata_text {
            if !tvm {
                self.sink.hard();
            }
            self.sink.blank();
            self.sink.raw("#[metadata]");
            self.sink.hard();
            self.sink.raw(text);
        }
        self.sink.finish()
    }

    /// Returns whether an item is a single line that may follow another directly.
    fn is_line(&self, i: usize) -> bool {
        match self.ast.items[i].kind {
            ItemKind::TypeDef(d) => !d.braces && !self.tvm(),
            ItemKind::Rel(_) | ItemKind::DefMeta { .. } => !self.tvm(),
            _ => false,
        }
    }

    pub(super) fn item(&mut self, i: usize) {
        let ast = self.ast;
        let Item { kind, span, .. } = ast.items[i];
        match kind {
            ItemKind::Error => self.literal(span, ""),
            ItemKind::Def { name, function } => {
                let function = ast.functions[function];
                self.work.push(Work::Body(function.body));
                self.signature(&function);
                self.then(&[Work::tok("def"), Work::Space, Work::Sigil('@', name)]);
            }
            ItemKind::DefMeta { name, value } => {
                if !self.tvm() {
                    self.work.push(Work::tok(";"));
                }
                self.then(&[
                    Work::tok("def"),
                    Work::Space,
                    Work::Sigil('@', name),
                    Work::Space,
                    Work::tok("="),
                    Work::Space,
                    Work::Expr(value),
                ]);
            }
            ItemKind::TypeDef(def) => self.type_def(&def),
            ItemKind::Rel(rel) => self.rel(&rel),
            ItemKind::Op(op) => self.op(&op),
            ItemKind::Grad(grad) => self.grad(&grad),
            ItemKind::PrimFunc(f) => {
                self.work.push(Work::Body(f.body));
                self.work.push(Work::Space);
                self.params(f.params, f.attrs, &[]);
                self.then(&[
                    Work::tok("prim_func"),
                    Work::Space,
                    Work::Sigil('@', f.name),
                ]);
            }
            ItemKind::Expr(e) => self.work.push(Work::Inside(e)),
            ItemKind::Type(t) => self.work.push(Work::Type(t)),
        }
    }

    fn type_def(&mut self, def: &TypeDef) {
        let ast = self.ast;
        if self.tvm() && def.ctors.is_empty() {
            // TVM leaves the blanks of the empty list's line.
            self.then(&[
                Work::Space,
                Work::tok("{"),
                Work::Indent,
                Work::Hard,
                Work::Dedent,
                Work::Hard,
                Work::tok("}"),
            ]);
        } else if def.braces && def.ctors.is_empty() {
            self.then(&[Work::Space, Work::tok("{"), Work::tok("}")]);
        } else if def.braces {
            self.then(&[Work::Dedent, Work::Hard, Work::tok("}")]);
            let data = ast.list(def.ctors).any(|c| ast.ctors[c].ret.is_some());
            for (i, c) in ast.list(def.ctors).enumerate().rev() {
                self.work.push(Work::Ctor(c, data));
                self.work
                    .push(if i > 0 { Work::Between } else { Work::Hard });
            }
            self.then(&[Work::Space, Work::tok("{"), Work::Indent]);
        } else {
            self.work.push(Work::tok(";"));
        }
        self.type_params(def.params, def.angle);
        let data = def.data && !self.tvm();
        let keyword = if data { "data" } else { "type" };
        self.then(&[Work::tok(keyword), Work::Space, Work::Name(def.name)]);
        if def.external && !self.tvm() {
            self.then(&[Work::tok("extern"), Work::Space]);
        }
    }

    pub(super) fn ctor(&mut self, c: CtorId, data: bool) {
        let Ctor {
            name,
            fields,
            parens,
            ret,
            ..
        } = self.ast.ctors[c];
        // TVM has only one form.
        let ret = ret.filter(|_| !self.tvm());
        if !data || self.tvm() {
            self.work.push(Work::tok(","));
        }
        if let Some(ret) = ret {
            self.then(&[Work::Space, Work::tok("->"), Work::Space, Work::Type(ret)]);
        }
        if parens && !(self.tvm() && fields.is_empty()) {
            self.listed("(", self.ast.list(fields).map(Work::Type), ")", false);
        }
        if ret.is_some() {
            self.then(&[Work::tok(":"), Work::Space]);
        }
        self.work.push(Work::Name(name));
    }

    fn rel(&mut self, rel: &RelItem) {
        let ast = self.ast;
        if rel.prolog {
            self.separated(ast.list(rel.goals).map(Work::Type));
            self.then(&[Work::Space, Work::tok(":-"), Work::Space]);
            self.listed("(", ast.list(rel.params).map(Work::Type), ")", false);
            self.work.push(Work::Name(rel.name));
            return;
        }
        self.work.push(Work::tok(";"));
        if !rel.goals.is_empty() {
            self.separated(ast.list(rel.goals).map(Work::Type));
            self.then(&[Work::Space, Work::tok("where"), Work::Space]);
        }
        if let Some(ret) = rel.ret {
            self.then(&[Work::Space, Work::tok("->"), Work::Space, Work::Type(ret)]);
        }
        self.listed("(", ast.list(rel.params).map(Work::Type), ")", false);
        self.then(&[Work::tok("rel"), Work::Space, Work::Name(rel.name)]);
    }

    fn grad(&mut self, grad: &GradItem) {
        self.work.push(Work::Body(grad.body));
        self.then(&[
            Work::Space,
            Work::tok("->"),
            Work::Space,
            Work::tok("("),
            Work::Binder(grad.result),
            Work::tok(","),
            Work::Space,
            Work::Binder(grad.grad),
            Work::tok(")"),
            Work::Space,
        ]);
        self.params(grad.params, List::EMPTY, &[]);
        self.then(&[Work::tok("grad"), Work::Space, Work::Name(grad.op)]);
    }

    fn op(&mut self, op: &OpItem) {
        let f = Function {
            type_params: op.type_params,
            angle: op.angle,
            params: op.params,
            attrs: List::EMPTY,
            ret: op.ret,
            relations: op.relations,
            body: op.body,
            header: relax_base::Span::NONE,
        };
        self.work.push(Work::Body(op.body));
        self.signature(&f);
        self.then(&[Work::tok("op"), Work::Space, Work::Name(op.name)]);
    }
}
