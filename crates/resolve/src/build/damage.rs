//! The effect of an erroneous item on its users.

use relax_base::Span;
use relax_ir::GlobalId;
use relax_syntax::ast::{self, ItemKind};

use super::Resolver;
use crate::codes;

impl Resolver<'_> {
    /// Records which parts of an item are unreliable; the diagnostics from `said` on are about it.
    pub(crate) fn damage(&mut self, index: usize, said: usize) {
        let item = self.ast.items[index];
        let unread = self.unread(index);
        let own = || self.diags.iter().skip(said).filter(|d| d.is_error());
        let loose: Option<Span> = own()
            .find(|d| !codes::leaves_node(d.code))
            .map(|d| d.span());
        let any = own().next().is_some() || !unread.is_empty();
        let first = unread.iter().copied().chain(loose).min();
        if let Some(_found) = first {
            let end = unread.last().map_or(item.span.end, |s| s.end);
            let place = Span::new(item.span.start, end.max(item.span.end));
            self.module.damage.places.push(place);
        }
        let damage = &mut self.module.damage;
        match item.kind {
            ItemKind::Def { name, function } => {
                if let (Some(first), Some(&id)) = (first, self.globals.get(&name))
                    && !self.says_its_type(id, function, first)
                {
                    self.module.damage.globals.insert(id);
                }
            }
            ItemKind::PrimFunc(p) if any => {
                damage.globals.extend(self.globals.get(&p.name));
            }
            ItemKind::Op(op) if any => {
                damage.user_ops.extend(self.user_ops.get(&op.name));
            }
            ItemKind::Rel(rel) if any => {
                damage.relations.extend(self.relations.get(&rel.name));
            }
            ItemKind::TypeDef(def) if any => {
                damage.adts.extend(self.adts.get(&def.name));
            }
            _ => {}
        }
    }

    /// Returns the spans of an item, and of what follows it up to the next item, that did not
    /// parse.
    fn unread(&self, index: usize) -> Vec<Span> {
        let (items, errors) = (&self.ast.items, &self.ast.errors);
        let from = match index {
            0 => 0,
            _ => items[index].span.start,
        };
        let to = items.get(index + 1).map_or(u32::MAX, |i| i.span.start);
        let first = errors.partition_point(|e| e.start < from);
        let own = errors[first..].iter().take_while(|e| e.start < to);
        own.copied().collect()
    }

    /// Returns whether a function's signature determines its type, with the first error after the
    /// signature.
    fn says_its_type(&self, id: GlobalId, f: ast::FnId, mistake: Span) -> bool {
        let function = &self.ast.functions[f];
        let body = self.ast.exprs[function.body].span;
        let func = self.module.global_func(id);
        let func = func.and_then(|f| self.module.funcs.get(f));
        mistake.start >= body.start
            && func.is_some_and(|f| {
                let typed = |v: &relax_ir::VarId| self.module.vars[*v].ty.is_some();
                f.ret.is_some() && f.params.iter().all(typed)
            })
    }
}
