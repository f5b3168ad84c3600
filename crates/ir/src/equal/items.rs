//! Definitions: types, functions, operators, relations, matched by name or by use.

use std::collections::BTreeMap;

use relax_base::Symbol;

use super::report::Difference;
use super::{Check, Comparer, Pairs};
use crate::{AdtId, GlobalId, GlobalKind, Module};

fn named<'m, T>(items: impl Iterator<Item = (Symbol, T)> + 'm) -> BTreeMap<Symbol, T> {
    items.collect()
}

impl<'m> Comparer<'m> {
    pub(super) fn modules(&mut self) -> Check {
        let adts = |m: &'m Module| {
            let own = m.adts.iter().filter(|(_, a)| !a.prelude);
            named(own.map(|(id, a)| (a.name, id)))
        };
        let pairs = self.matched("type ", adts(self.a), adts(self.b))?;
        for (name, a, b) in pairs {
            self.item = format!("type {name}");
            self.adts(a, b)?;
        }
        let globals = |m: &'m Module| {
            let own = m.globals.iter().filter(|(_, g)| !g.prelude);
            named(own.map(|(id, g)| (g.name, id)))
        };
        let (mut left, mut right) = (globals(self.a), globals(self.b));
        // Names that passes make up differ from side to side: globals that only one side has
        // correspond by their use.
        let (only_left, only_right): (Vec<_>, Vec<_>) = (
            left.iter()
                .filter(|(n, _)| !right.contains_key(n))
                .map(|(n, &g)| (*n, g))
                .collect(),
            right
                .iter()
                .filter(|(n, _)| !left.contains_key(n))
                .map(|(n, &g)| (*n, g))
                .collect(),
        );
        if only_left.len() == only_right.len() {
            left.retain(|n, _| !only_left.iter().any(|o| o.0 == *n));
            right.retain(|n, _| !only_right.iter().any(|o| o.0 == *n));
            self.renamed_left.extend(only_left.iter().map(|o| o.1));
            self.renamed_right.extend(only_right.iter().map(|o| o.1));
        }
        let pairs = self.matched("@", left, right)?;
        for (name, a, b) in pairs {
            self.item = format!("@{name}");
            self.globals(a, b)?;
        }
        while let Some((a, b)) = self.renamed.pop() {
            self.item = format!("@{} (@{})", self.a.globals[a].name, self.b.globals[b].name);
            self.globals(a, b)?;
        }
        self.item = String::new();
        if let Some((name, _)) = only_left
            .iter()
            .find(|o| !self.global_pairs.there.contains_key(&o.1))
            && !only_right.is_empty()
        {
            let what = format!("only the left side has @{name}");
            return self.differ(&what);
        }
        self.user_items()
    }

    pub(super) fn user_items(&mut self) -> Check {
        let (a, b) = (self.a, self.b);
        let ops = |m: &'m Module| {
            let own = m.user_ops.iter().enumerate().filter(|(_, o)| !o.prelude);
            named(own.map(|(i, o)| (o.name, i)))
        };
        for (name, x, y) in self.matched("op ", ops(a), ops(b))? {
            self.item = format!("op {name}");
            let (x, y) = (&a.user_ops[x], &b.user_ops[y]);
            let same = x.params.len() == y.params.len()
                && x.params.iter().zip(&y.params).all(|(p, q)| p.0 == q.0)
                && x.attrs == y.attrs
                && match (&x.program, &y.program) {
                    (Some(p), Some(q)) => relax_loops::same_program(p, q),
                    (p, q) => p.is_none() && q.is_none(),
                };
            if !same {
                return self.differ("the operators differ");
            }
            for (p, q) in x.params.iter().zip(&y.params) {
                self.ty(p.1, q.1, None)?;
            }
            self.opt_ty(x.ret, y.ret, None, "result type")?;
        }
        self.item = String::new();
        let rels = |m: &'m Module| named(m.relations.iter().map(|(id, r)| (r.name, id)));
        for (name, x, y) in self.matched("rel ", rels(a), rels(b))? {
            self.item = format!("rel {name}");
            let (x, y) = (&a.relations[x], &b.relations[y]);
            if !self.relations(x, y) {
                return self.differ("the relations differ");
            }
        }
        self.item = String::new();
        Ok(())
    }

    /// Definitions that have the same name on both sides.
    pub(super) fn matched<T: Copy>(
        &self,
        sigil: &str,
        left: BTreeMap<Symbol, T>,
        right: BTreeMap<Symbol, T>,
    ) -> Result<Vec<(Symbol, T, T)>, Box<Difference>> {
        if let Some(name) = left.keys().find(|n| !right.contains_key(n)) {
            self.differ(&format!("only the left side has {sigil}{name}"))?;
        }
        if let Some(name) = right.keys().find(|n| !left.contains_key(n)) {
            self.differ(&format!("only the right side has {sigil}{name}"))?;
        }
        Ok(left.iter().map(|(n, &a)| (*n, a, right[n])).collect())
    }

    pub(super) fn adts(&mut self, a: AdtId, b: AdtId) -> Check {
        let (x, y) = (&self.a.adts[a], &self.b.adts[b]);
        if x.params.len() != y.params.len() || x.opaque != y.opaque {
            return self.differ("the numbers of type parameters differ");
        }
        for (&p, &q) in x.params.iter().zip(&y.params) {
            self.params.pair(p, q);
        }
        if x.ctors.len() != y.ctors.len() {
            return self.differ("the numbers of constructors differ");
        }
        for (&c, &d) in x.ctors.iter().zip(&y.ctors) {
            let (c, d) = (&self.a.ctors[c], &self.b.ctors[d]);
            if c.name != d.name || c.fields.len() != d.fields.len() {
                return self.differ(&format!("constructors {} and {} differ", c.name, d.name));
            }
            for (&s, &t) in c.fields.iter().zip(&d.fields) {
                self.ty(s, t, None)?;
            }
        }
        Ok(())
    }

    pub(super) fn globals(&mut self, a: GlobalId, b: GlobalId) -> Check {
        match (&self.a.globals[a].kind, &self.b.globals[b].kind) {
            (GlobalKind::Func(f), GlobalKind::Func(g)) => {
                let (f, g) = (*f, *g);
                self.functions(f, g, None)?;
                // Only within a function it means something that a node is shared.
                self.nodes = Pairs::default();
                self.run(self.a.funcs[f].body, self.b.funcs[g].body)
            }
            (GlobalKind::Prim(p), GlobalKind::Prim(q)) => {
                if relax_loops::same_program(p, q) {
                    Ok(())
                } else {
                    self.differ("the tensor programs differ")
                }
            }
            _ => self.differ("one is a function and the other a tensor program"),
        }
    }
}
