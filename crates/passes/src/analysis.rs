//! Analyses of a program, and how long their results are valid.
//!
//! Nodes are immutable and a changed function is a new one. So the result of an analysis of a
//! single function stays valid for its [`FuncId`], whatever happens to other functions; it is
//! dropped when no global refers to that function any more. The result of an analysis of the whole
//! module is valid for a [`State`] of it, and for the state that a pass produces when the pass
//! declares that it [preserves](crate::Contract::preserves) the analysis.

use std::fmt;
use std::sync::{Arc, RwLock};

use relax_base::{Diagnostics, Id, Symbol};
use relax_infer::{InferOptions, Typing};
use relax_ir::{
    Breach, Expr, ExprId, FuncId, GlobalId, GlobalKind, Module, Scopes, TypeId, Verified,
};
use relax_loops::Program;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::purity::{Effects, Purity};

/// An analysis of a whole module, whose result is cached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Analysis {
    /// The types of all expressions. A pass that changes no function preserves them.
    Types,
    /// The functions without side effects. A pass that adds no effects to functions preserves them;
    /// it may remove some.
    Effects,
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Analysis::Types => "types",
            Analysis::Effects => "effects",
        })
    }
}

/// The definitions of a module's globals. Two equal states mean an unchanged program.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct State(Vec<(Symbol, Value)>);

/// How the globals of a module relate to those of an earlier state.
pub(crate) struct Since {
    /// Which still refer to what they did.
    pub stays: Vec<bool>,
    /// Whether globals that were there are gone or have other numbers.
    pub moved: bool,
    /// The number that each had.
    pub was: Vec<Option<GlobalId>>,
}

#[derive(Clone, Debug)]
enum Value {
    Func(FuncId),
    Prim(Arc<Program>),
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Func(a), Value::Func(b)) => a == b,
            // Both are alive, so equal addresses mean the same program.
            (Value::Prim(a), Value::Prim(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl State {
    pub fn of(m: &Module) -> State {
        let globals = m.globals.values().map(|g| match &g.kind {
            GlobalKind::Func(f) => (g.name, Value::Func(*f)),
            GlobalKind::Prim(p) => (g.name, Value::Prim(p.clone())),
        });
        State(globals.collect())
    }

    /// Returns the functions, in order.
    pub fn functions(&self) -> Vec<FuncId> {
        let function = |(_, value): &(Symbol, Value)| match value {
            Value::Func(f) => Some(*f),
            Value::Prim(_) => None,
        };
        self.0.iter().filter_map(function).collect()
    }

    /// Returns which globals still refer to what they did in an earlier state, and which each was
    /// there; names are what they are known by.
    pub fn since(&self, before: &State) -> Since {
        let old = before.0.iter().enumerate().map(|(i, (name, _))| (*name, i));
        let old: FxHashMap<Symbol, usize> = old.collect();
        let was: Vec<Option<usize>> = self.0.iter().map(|g| old.get(&g.0).copied()).collect();
        let stays = self.0.iter().zip(&was);
        let stays = stays.map(|(now, was)| was.is_some_and(|i| before.0[i].1 == now.1));
        Since {
            stays: stays.collect(),
            moved: !was
                .iter()
                .take(before.0.len())
                .copied()
                .eq((0..before.0.len()).map(Some)),
            was: was
                .into_iter()
                .map(|i| i.map(GlobalId::from_index))
                .collect(),
        }
    }

    /// Returns the tensor programs that an earlier state did not have.
    pub fn programs_since(&self, before: &State) -> Vec<Arc<Program>> {
        let place = |(_, value): &(Symbol, Value)| match value {
            Value::Prim(p) => Some(Arc::as_ptr(p)),
            Value::Func(_) => None,
        };
        let old: FxHashSet<*const Program> = before.0.iter().filter_map(place).collect();
        let new = self.0.iter().filter_map(|(_, value)| match value {
            Value::Prim(p) => Some(p.clone()),
            Value::Func(_) => None,
        });
        new.filter(|p| !old.contains(&Arc::as_ptr(p))).collect()
    }
}

/// The result of an analysis for a state of the module.
#[derive(Clone, Debug)]
struct Known<T> {
    state: State,
    value: Arc<T>,
}

/// The cached analyses of one function.
#[derive(Clone, Default, Debug)]
struct OfFunction {
    scopes: Option<Arc<Scopes>>,
    /// With the effects of other functions that it was computed from.
    purity: Option<(Arc<Effects>, Arc<Purity>)>,
}

/// The number of times that analyses were computed rather than taken from the cache.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Found {
    /// Types of the module.
    pub types: usize,
    /// The functions inferred for that: those that changed, and those that refer to one whose type
    /// changed.
    pub typed: usize,
    /// Functions verified: those that changed.
    pub verified: usize,
    /// Effects of the whole module.
    pub effects: usize,
    /// Scopes and purity, of one function each.
    pub of_functions: usize,
}

impl std::ops::AddAssign for Found {
    fn add_assign(&mut self, other: Found) {
        self.types += other.types;
        self.typed += other.typed;
        self.verified += other.verified;
        self.effects += other.effects;
        self.of_functions += other.of_functions;
    }
}

/// The types of a module, with the warnings of the inference that computed them.
#[derive(Clone, Debug)]
pub struct Typed {
    /// The types.
    pub typing: Arc<Typing>,
    /// The warnings.
    pub warnings: Arc<Diagnostics>,
}

/// The cached results.
#[derive(Default, Debug)]
pub(crate) struct Analyses {
    types: Option<Known<Typing>>,
    /// The warnings of the inference that computed these types, if it was for all functions at
    /// once.
    warnings: Option<Arc<Diagnostics>>,
    /// The types of the module before it changed: those of unchanged functions are not inferred
    /// again.
    types_before: Option<Known<Typing>>,
    verified: Verified,
    effects: Option<Known<Effects>>,
    functions: RwLock<FxHashMap<FuncId, OfFunction>>,
    pub found: Found,
    /// For a share of a module: queries are answered for the module that it is a share of.
    share: bool,
}

impl Analyses {
    /// Returns the analyses for a pass over a share of a module, which may query what is known now.
    pub fn for_share(&self) -> Analyses {
        Analyses {
            types: self.types.clone(),
            warnings: None,
            types_before: None,
            verified: Verified::default(),
            effects: self.effects.clone(),
            functions: RwLock::new(self.of_functions().clone()),
            found: Found::default(),
            share: true,
        }
    }

    fn of_functions(&self) -> std::sync::RwLockReadGuard<'_, FxHashMap<FuncId, OfFunction>> {
        let lock = self.functions.read();
        lock.unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn valid<'k, T>(&self, known: &'k Option<Known<T>>, m: &Module) -> Option<&'k Arc<T>> {
        let known = known.as_ref()?;
        (self.share || known.state == State::of(m)).then_some(&known.value)
    }

    /// Returns the types, if they were computed for the current module.
    pub fn known_types(&self, m: &Module) -> Option<Arc<Typing>> {
        self.valid(&self.types, m).cloned()
    }

    /// Returns the types, and computes them when the module changed since. Warnings are dropped:
    /// they were reported when the text was checked.
    pub fn types(
        &mut self,
        m: &mut Module,
        options: &InferOptions,
    ) -> Result<Arc<Typing>, Diagnostics> {
        if let Some(types) = self.known_types(m) {
            return Ok(types);
        }
        assert!(!self.share, "a pass over each function needs `Form::Typed`");
        self.found.types += 1;
        let before = self.types.take().or(self.types_before.take());
        let since = before.as_ref().map(|k| State::of(m).since(&k.state));
        let bodies = m.global_bodies();
        let stayed = |since: &Since| bodies.iter().any(|(g, _)| since.stays[g.index()]);
        // Where all functions are inferred, all warnings are reported again.
        let whole = !since.as_ref().is_some_and(stayed);
        let (mut typing, diagnostics) = match before.zip(since) {
            Some((before, since)) => {
                let before = match since.moved {
                    true => Arc::new(before.value.renumbered(&mut m.types, &since.was)),
                    false => before.value,
                };
                let stays = |g: GlobalId| since.stays[g.index()];
                let again = relax_infer::infer_again(m, options, &before, stays);
                self.found.typed += again.looked_at;
                (again.typing, again.diagnostics)
            }
            None => {
                self.found.typed += bodies.len();
                relax_infer::infer(m, options)
            }
        };
        if diagnostics.has_errors() {
            return Err(diagnostics);
        }
        // Rewriting starts from a copy.
        typing.exprs.lend_all();
        typing.vars.lend_all();
        let typing = Arc::new(typing);
        self.set_types(m, typing.clone(), whole.then(|| Arc::new(diagnostics)));
        Ok(typing)
    }

    /// Stores types that were computed elsewhere for the current module.
    pub fn take_types(&mut self, m: &Module, typed: Typed) {
        self.set_types(m, typed.typing, Some(typed.warnings));
    }

    fn set_types(&mut self, m: &Module, typing: Arc<Typing>, warnings: Option<Arc<Diagnostics>>) {
        self.types = Some(Known {
            state: State::of(m),
            value: typing,
        });
        self.warnings = warnings;
        self.types_before = None;
    }

    /// Returns the types with their warnings, if both are known for the current module.
    pub fn known_with_warnings(&self, m: &Module) -> Option<Typed> {
        Some(Typed {
            typing: self.known_types(m)?,
            warnings: self.warnings.clone()?,
        })
    }

    /// Returns the types with all their warnings; computes them where the warnings are not known.
    pub fn types_with_warnings(
        &mut self,
        m: &mut Module,
        options: &InferOptions,
    ) -> Result<Typed, Diagnostics> {
        if self.warnings.is_none() || self.known_types(m).is_none() {
            // Cached results for single functions do not help: the warnings of all of them are
            // needed.
            (self.types, self.types_before) = (None, None);
            self.types(m, options)?;
        }
        let typed = self.known_with_warnings(m);
        Ok(typed.expect("found for all functions at once"))
    }

    /// Verifies the functions that changed since the last call, and keeps the scopes computed for
    /// that.
    pub fn verify(&mut self, m: &Module) -> Result<(), Breach> {
        let mut verified = std::mem::take(&mut self.verified);
        let looked_at = verified.verify(m, |func, scopes| {
            self.keep(func, |of| of.scopes = Some(Arc::new(scopes)));
        })?;
        self.found.verified += looked_at;
        self.verified = verified;
        Ok(())
    }

    /// Returns the pure functions; computes them when they are not known.
    pub fn effects(
        &mut self,
        m: &mut Module,
        options: &InferOptions,
    ) -> Result<Arc<Effects>, Diagnostics> {
        if let Some(effects) = self.valid(&self.effects, m) {
            return Ok(effects.clone());
        }
        let types = self.types(m, options)?;
        assert!(
            !self.share,
            "a pass over each function asks for `Analysis::Effects`"
        );
        self.found.effects += 1;
        let effects = Arc::new(Effects::of(m, &types));
        self.effects = Some(Known {
            state: State::of(m),
            value: effects.clone(),
        });
        Ok(effects)
    }

    /// Returns the purity of a function's expressions.
    pub fn purity(
        &mut self,
        m: &mut Module,
        func: FuncId,
        options: &InferOptions,
    ) -> Result<Arc<Purity>, Diagnostics> {
        let effects = self.effects(m, options)?;
        if let Some(of) = self.of_functions().get(&func)
            && let Some((with, purity)) = &of.purity
            && Arc::ptr_eq(with, &effects)
        {
            return Ok(purity.clone());
        }
        let types = self.types(m, options)?;
        let purity = Arc::new(Purity::of(m, &types, &effects, m.funcs[func].body));
        self.found.of_functions += 1;
        self.keep(func, |of| of.purity = Some((effects, purity.clone())));
        Ok(purity)
    }

    /// Returns the scopes of a function.
    pub fn scopes(&mut self, m: &Module, func: FuncId) -> Arc<Scopes> {
        let known = self
            .of_functions()
            .get(&func)
            .and_then(|of| of.scopes.clone());
        known.unwrap_or_else(|| {
            let scopes = Arc::new(Scopes::new(m, m.funcs[func].body));
            self.found.of_functions += 1;
            self.keep(func, |of| of.scopes = Some(scopes.clone()));
            scopes
        })
    }

    fn keep(&mut self, func: FuncId, set: impl FnOnce(&mut OfFunction)) {
        let all = self.functions.get_mut();
        let all = all.unwrap_or_else(|poisoned| poisoned.into_inner());
        set(all.entry(func).or_default());
    }

    /// Drops invalid results after a pass that changed the module.
    pub fn changed(&mut self, m: &Module, preserved: &[Analysis]) {
        let state = State::of(m);
        fn keep<T>(known: &mut Option<Known<T>>, state: &State, preserved: bool) {
            match known {
                Some(known) if known.state == *state => {}
                Some(known) if preserved => known.state = state.clone(),
                _ => *known = None,
            }
        }
        let before = self.types.clone();
        keep(
            &mut self.types,
            &state,
            preserved.contains(&Analysis::Types),
        );
        if self.types.is_none() {
            self.types_before = before.or(self.types_before.take());
        }
        keep(
            &mut self.effects,
            &state,
            preserved.contains(&Analysis::Effects),
        );
        let alive: FxHashSet<FuncId> = m
            .globals
            .ids()
            .filter_map(|g: GlobalId| m.global_func(g))
            .collect();
        let effects = self.effects.as_ref().map(|k| k.value.clone());
        let all = self.functions.get_mut();
        let all = all.unwrap_or_else(|poisoned| poisoned.into_inner());
        all.retain(|f, of| {
            let current =
                |with: &Arc<Effects>| effects.as_ref().is_some_and(|e| Arc::ptr_eq(e, with));
            if of.purity.as_ref().is_some_and(|p| !current(&p.0)) {
                of.purity = None;
            }
            alive.contains(f)
        });
    }

    /// Takes over the results for the functions of a share, as far as these remain. `lent` is the
    /// number of functions before any share created one.
    pub fn take_over(&mut self, share: Analyses, lent: usize) {
        self.found.of_functions += share.found.of_functions;
        let found = share.functions.into_inner();
        let found = found.unwrap_or_else(|poisoned| poisoned.into_inner());
        for (func, of) in found {
            if (func.0 as usize) < lent {
                self.keep(func, |mine| *mine = of);
            }
        }
    }

    /// Forgets everything, after nodes were renumbered.
    pub fn forget(&mut self) {
        let found = self.found;
        *self = Analyses {
            found,
            ..Analyses::default()
        };
    }

    /// Returns an expression for which inference from scratch computes a different type: for tests
    /// of passes.
    pub fn typed_otherwise(&self, m: &Module, options: &InferOptions) -> Option<String> {
        let known = self.known_types(m)?;
        let mut fresh = m.clone();
        let (now, _) = relax_infer::infer(&mut fresh, options);
        let bodies = m.global_bodies();
        // Callees of calls have none, and one of a removed use may be known.
        let error = fresh.types.error();
        let only_called = |e: &ExprId| {
            let e = *e;
            let named = matches!(
                m.exprs[e],
                Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) | Expr::Global(_)
            );
            named && now.exprs[e] == error
        };
        let exprs = m.post_order(bodies.iter().map(|b| b.1)).into_iter();
        let exprs = exprs.filter(|e| !only_called(e));
        let globals = bodies
            .iter()
            .map(|(g, _)| (known.globals[*g], now.globals[*g]));
        let all = exprs.map(|e| (known.exprs[e], now.exprs[e])).chain(globals);
        let (a, b) = { all }.find_map(|(a, b)| shown_otherwise(&fresh, a, b))?;
        Some(format!("{a} is known, and {b} is found"))
    }

    /// Returns the analyses that a pass declares to preserve and does not: for tests of passes.
    pub fn untrue(&mut self, m: &mut Module, options: &InferOptions) -> Vec<Analysis> {
        let (types, effects) = (self.known_types(m), self.valid(&self.effects, m).cloned());
        let mut wrong = Vec::new();
        let Ok(now) = Analyses::default().types(m, options) else {
            return wrong;
        };
        if let Some(types) = types {
            let other = |g: GlobalId| shown_otherwise(m, types.globals[g], now.globals[g]);
            if m.globals.ids().any(|g| other(g).is_some()) {
                wrong.push(Analysis::Types);
            }
        }
        if let Some(effects) = effects
            && !effects.within(&Effects::of(m, &now), m)
        {
            wrong.push(Analysis::Effects);
        }
        wrong
    }
}

/// Returns two types as texts if these differ. Inference makes other parameters each time, at any
/// depth of a type, but names them by the same letters.
fn shown_otherwise(m: &Module, a: TypeId, b: TypeId) -> Option<(String, String)> {
    if a == b {
        return None;
    }
    let (a, b) = (m.show_type(a).to_string(), m.show_type(b).to_string());
    (a != b).then_some((a, b))
}
