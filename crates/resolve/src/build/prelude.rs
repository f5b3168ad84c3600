//! The prelude: definitions that a module may use without including them.
//!
//! When the module uses a name that it does not define, the prelude's definition is merged into it,
//! and transitively what that uses. Merged items have no spans, as the prelude is in no source map.

use std::sync::{Arc, OnceLock};

use relax_base::{Diagnostics, SourceFile, SourceMap, Symbol};
use relax_ir::{AdtId, CtorId, GlobalId, GradItem, Module, OpId, RelId};
use relax_syntax::ast::{Ast, ItemKind};
use rustc_hash::FxHashMap;

use super::Resolver;
use crate::Options;

static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/prelude.rs"));

/// The file with the gradients of built-in operators.
const GRADIENTS: &str = "gradients.relay";

/// The namespace of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sort {
    Global,
    Type,
    Ctor,
    Relation,
    Op,
}

/// A used item of the prelude that is yet to be resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    file: usize,
    item: usize,
}

/// What each file defines, in alphabetical order.
///
/// Invariant: no name is missing; a test compares them with what is read.
static NAMES: &[&[&str]] = include!(concat!(env!("OUT_DIR"), "/prelude_names.rs"));

/// A file of the prelude.
struct Read {
    source: Arc<SourceFile>,
    ast: Ast,
    names: FxHashMap<(Sort, Symbol), Wanted>,
}

/// Returns a file of the prelude, which is read when something of it is first needed: most programs
/// use nothing of most files.
fn read(file: usize) -> &'static Read {
    static READ: OnceLock<Vec<OnceLock<Read>>> = OnceLock::new();
    let all = READ.get_or_init(|| FILES.iter().map(|_| OnceLock::new()).collect());
    all[file].get_or_init(|| {
        let (name, text) = FILES[file];
        let mut map = SourceMap::new();
        let source = map.add(name, text).expect("the prelude is short");
        let parsed = relax_syntax::parse(&source);
        debug_assert!(
            !parsed.diagnostics.has_errors(),
            "the prelude parses: {name}"
        );
        let (ast, mut names) = (parsed.ast, FxHashMap::default());
        for (item, it) in ast.items.iter().enumerate() {
            let at = Wanted { file, item };
            let mut add = |sort, name| names.insert((sort, name), at);
            match it.kind {
                ItemKind::Def { name, .. } => add(Sort::Global, name),
                ItemKind::PrimFunc(p) => add(Sort::Global, p.name),
                ItemKind::Rel(r) => add(Sort::Relation, r.name),
                ItemKind::Op(o) => add(Sort::Op, o.name),
                ItemKind::TypeDef(def) => {
                    for c in ast.list(def.ctors) {
                        add(Sort::Ctor, ast.ctors[c].name);
                    }
                    add(Sort::Type, def.name)
                }
                _ => None,
            };
        }
        Read { source, ast, names }
    })
}

/// Returns the definition of a name.
fn definition(sort: Sort, name: Symbol) -> Option<Wanted> {
    let text = name.as_str();
    (NAMES.iter().enumerate())
        .filter(|(_, names)| names.binary_search(&text).is_ok())
        .find_map(|(file, _)| read(file).names.get(&(sort, name)).copied())
}

/// Returns the names of one namespace, in alphabetical order, for suggestions.
fn names(sort: Sort) -> Vec<&'static str> {
    let all = (0..FILES.len()).flat_map(|file| read(file).names.keys());
    let mut names: Vec<_> = (all.filter(|k| k.0 == sort))
        .map(|k| k.1.as_str())
        .collect();
    names.sort_unstable();
    names
}

/// Returns the functions of the prelude, for suggestions.
pub(crate) fn global_names() -> Vec<&'static str> {
    names(Sort::Global)
}

/// Returns the types of the prelude, for suggestions.
pub(crate) fn type_names() -> Vec<&'static str> {
    names(Sort::Type)
}

/// Returns the constructors and operators of the prelude, for suggestions.
pub(crate) fn callee_names() -> Vec<&'static str> {
    let mut all = names(Sort::Ctor);
    all.extend(names(Sort::Op));
    all
}

/// The names defined in the prelude, each list in alphabetical order.
#[derive(Debug)]
pub struct PreludeNames {
    /// Functions, without sigil.
    pub globals: Vec<&'static str>,
    /// Data types.
    pub types: Vec<&'static str>,
    /// Constructors, then operators.
    pub callees: Vec<&'static str>,
}

/// Returns the files of the prelude: name and text.
pub fn prelude_files() -> &'static [(&'static str, &'static str)] {
    FILES
}

/// Returns the names that a module may use without defining them, apart from built-in operators.
pub fn prelude_names() -> PreludeNames {
    PreludeNames {
        globals: global_names(),
        types: type_names(),
        callees: callee_names(),
    }
}

/// Returns the gradients of a built-in operator that the prelude gives, in the order in which they
/// apply. Their file is read when the first gradient is asked for.
pub fn prelude_gradients(op: OpId) -> &'static [Arc<GradItem>] {
    static READ: OnceLock<FxHashMap<OpId, Vec<Arc<GradItem>>>> = OnceLock::new();
    let all = READ.get_or_init(|| {
        let (module, diagnostics) = read_gradients();
        debug_assert!(!diagnostics.has_errors(), "{diagnostics:?}");
        let mut all: FxHashMap<OpId, Vec<Arc<GradItem>>> = FxHashMap::default();
        for item in module.grads {
            all.entry(item.op).or_default().push(item);
        }
        all
    });
    all.get(&op).map_or(&[], Vec::as_slice)
}

/// Resolves the file of the prelude that gives gradients.
fn read_gradients() -> (Module, Diagnostics) {
    let file = FILES.iter().position(|f| f.0 == GRADIENTS);
    let file = file.expect("the prelude gives gradients");
    let Read { source, ast, .. } = read(file);
    let options = Options::default();
    let mut r = Resolver::new(ast, source, &options);
    r.in_prelude(file, Resolver::file_items);
    (r.module, r.diags)
}

impl Resolver<'_> {
    /// Runs `work` in the context of a prelude file.
    fn in_prelude(&mut self, file: usize, work: impl FnOnce(&mut Self)) {
        let Read { source, ast, .. } = read(file);
        let old = (self.ast, self.file, self.places);
        (self.ast, self.file, self.places) = (ast, source, false);
        work(self);
        (self.ast, self.file, self.places) = old;
    }

    /// Declares the prelude item of this name; returns whether there is one.
    fn want(&mut self, sort: Sort, name: Symbol) -> bool {
        let Some(at) = definition(sort, name) else {
            return false;
        };
        let Read { ast, .. } = read(at.file);
        let item = &ast.items[at.item];
        if let ItemKind::TypeDef(def) = item.kind
            && (self.adts.contains_key(&def.name)
                || (ast.list(def.ctors)).any(|c| self.ctors.contains_key(&ast.ctors[c].name)))
        {
            // The module defines a type of the same name without this constructor, or one of the
            // type's constructors in another type: the module's own types take precedence, and the
            // name is unknown.
            return false;
        }
        let mut first = false;
        self.in_prelude(at.file, |r| {
            first = r.declare(item, true);
        });
        if first {
            self.prelude_queue.push(at);
        }
        first
    }

    pub(crate) fn prelude_global(&mut self, name: Symbol) -> Option<GlobalId> {
        self.want(Sort::Global, name).then(|| self.globals[&name])
    }
    pub(crate) fn prelude_adt(&mut self, name: Symbol) -> Option<AdtId> {
        self.want(Sort::Type, name).then(|| self.adts[&name])
    }
    pub(crate) fn prelude_ctor(&mut self, name: Symbol) -> Option<CtorId> {
        if self.want(Sort::Ctor, name) {
            self.ctors.get(&name).copied()
        } else {
            None
        }
    }
    pub(crate) fn prelude_relation(&mut self, name: Symbol) -> Option<RelId> {
        self.want(Sort::Relation, name)
            .then(|| self.relations[&name])
    }
    pub(crate) fn prelude_op(&mut self, name: Symbol) -> Option<OpId> {
        self.want(Sort::Op, name).then(|| self.user_ops[&name])
    }

    /// Resolves the prelude items that the module uses.
    pub(crate) fn prelude_items(&mut self) {
        while let Some(at) = self.prelude_queue.pop() {
            self.reported.clear();
            self.in_prelude(at.file, |r| {
                r.define(&r.ast.items[at.item], true);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_that_are_read() {
        for (file, names) in NAMES.iter().enumerate() {
            let mut found: Vec<&str> = read(file).names.keys().map(|k| k.1.as_str()).collect();
            found.sort_unstable();
            assert_eq!(found, *names, "{}", FILES[file].0);
        }
    }
}
