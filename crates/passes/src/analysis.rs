//! What is found out about a program, and how long it is known.
//!
//! Nodes are immutable and a changed function is a new one. So what is found out about a function
//! from the function alone stays true of its [`FuncId`], whatever happens to other functions; it is
//! forgotten when no global stands for that function any more. What is found out about the whole
//! module is true of a [`State`] of it, and of the state that a pass leaves when the pass declares
//! that it [preserves](crate::Contract::preserves) it.

use std::fmt;
use std::sync::{Arc, RwLock};

use relax_base::{Diagnostics, Id, Symbol};
use relax_infer::{InferOptions, Typing};
use relax_ir::{
    Breach, Expr, ExprId, FuncId, GlobalId, GlobalKind, Module, Scopes, Type, TypeId, Verified,
};
use relax_loops::Program;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::purity::{Effects, Purity};

/// Something that is found out about a whole module, and kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Analysis {
    /// The types of everything. A pass preserves them that changes no function.
    Types,
    /// Which functions do nothing but give a value. A pass preserves them that adds no effects to
    /// functions; it may take some away.
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

/// What a module's globals stand for. Two equal states mean an unchanged program.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct State(Vec<(Symbol, Value)>);

#[derive(Clone, Debug)]
enum Value {
    Func(FuncId),
    Prim(Arc<Program>),
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Func(a), Value::Func(b)) => a == b,
            // Both are alive, so equal addresses are one program.
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

    /// The functions, in order.
    pub fn functions(&self) -> Vec<FuncId> {
        let function = |(_, value): &(Symbol, Value)| match value {
            Value::Func(f) => Some(*f),
            Value::Prim(_) => None,
        };
        self.0.iter().filter_map(function).collect()
    }

    /// Returns which globals stand for what they stood for in an earlier state; nothing when they
    /// have other ids now.
    pub fn stays_since(&self, before: &State) -> Option<Vec<bool>> {
        let mut old = before.0.iter();
        let stays = |now: &(Symbol, Value)| match old.next() {
            Some(old) => (old.0 == now.0).then(|| old.1 == now.1),
            None => Some(false),
        };
        let all: Option<Vec<bool>> = self.0.iter().map(stays).collect();
        all.filter(|_| old.next().is_none())
    }

    /// The tensor programs that are not those of an earlier state.
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

/// What was found for a state of the module.
#[derive(Clone, Debug)]
struct Known<T> {
    state: State,
    value: Arc<T>,
}

/// What was found out about one function.
#[derive(Clone, Default, Debug)]
struct OfFunction {
    scopes: Option<Arc<Scopes>>,
    /// For the effects of other functions that it was found with.
    purity: Option<(Arc<Effects>, Arc<Purity>)>,
}

/// How often something was found out, rather than known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Found {
    /// Types, of the module.
    pub types: usize,
    /// How many functions were looked at for that: those that changed, and those that refer to one
    /// whose type did.
    pub typed: usize,
    /// How many functions were verified: those that changed.
    pub verified: usize,
    /// Effects, of the whole module.
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

/// The types of a module, with the warnings that there were when they were found.
#[derive(Clone, Debug)]
pub struct Typed {
    /// The types.
    pub typing: Arc<Typing>,
    /// The warnings.
    pub warnings: Arc<Diagnostics>,
}

/// What is known.
#[derive(Default, Debug)]
pub(crate) struct Analyses {
    types: Option<Known<Typing>>,
    /// The warnings that there were when these types were found, if they were found for all
    /// functions at once.
    warnings: Option<Arc<Diagnostics>>,
    /// The types of the module before it changed: those of functions that stay are not found again.
    types_before: Option<Known<Typing>>,
    verified: Verified,
    effects: Option<Known<Effects>>,
    functions: RwLock<FxHashMap<FuncId, OfFunction>>,
    pub found: Found,
    /// Of a share of a module: what holds of the module that it is a share of is what is asked for.
    share: bool,
}

impl Analyses {
    /// For a pass over a share of a module, which may ask for what is known now.
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

    /// The types, if they were found for the module as it is now.
    pub fn known_types(&self, m: &Module) -> Option<Arc<Typing>> {
        self.valid(&self.types, m).cloned()
    }

    /// The types; finds them when the module changed since. Warnings are dropped: they were said
    /// when the text was checked.
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
        let stays = (before.as_ref()).and_then(|k| State::of(m).stays_since(&k.state));
        let bodies = m.global_bodies();
        let before = before.filter(|_| stays.is_some());
        let stayed = |stays: &Vec<bool>| bodies.iter().any(|(g, _)| stays[g.index()]);
        // Where all are typed, all that there is to say is said again.
        let whole = !stays.as_ref().is_some_and(stayed);
        let (mut typing, diagnostics) = match before.zip(stays) {
            Some((before, stays)) => {
                let stays = |g: GlobalId| stays[g.index()];
                let again = relax_infer::infer_again(m, options, &before.value, stays);
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
        // Whoever rewrites begins with a copy.
        typing.exprs.lend_all();
        typing.vars.lend_all();
        let typing = Arc::new(typing);
        self.set_types(m, typing.clone(), whole.then(|| Arc::new(diagnostics)));
        Ok(typing)
    }

    /// Takes over what somebody has found of the module as it is now.
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

    /// The types with their warnings, if both are known of the module as it is now.
    pub fn known_with_warnings(&self, m: &Module) -> Option<Typed> {
        Some(Typed {
            typing: self.known_types(m)?,
            warnings: self.warnings.clone()?,
        })
    }

    /// The types with all their warnings; finds them where it is not known what there was to warn
    /// of.
    pub fn types_with_warnings(
        &mut self,
        m: &mut Module,
        options: &InferOptions,
    ) -> Result<Typed, Diagnostics> {
        if self.warnings.is_none() || self.known_types(m).is_none() {
            // What is known of single functions is no help: all of them are to be heard.
            (self.types, self.types_before) = (None, None);
            self.types(m, options)?;
        }
        let typed = self.known_with_warnings(m);
        Ok(typed.expect("found for all functions at once"))
    }

    /// Verifies the functions that changed since it was called last, and keeps the scopes that it
    /// needs for that.
    pub fn verify(&mut self, m: &Module) -> Result<(), Breach> {
        let mut verified = std::mem::take(&mut self.verified);
        let looked_at = verified.verify(m, |func, scopes| {
            self.keep(func, |of| of.scopes = Some(Arc::new(scopes)));
        })?;
        self.found.verified += looked_at;
        self.verified = verified;
        Ok(())
    }

    /// Returns which functions are pure; finds it out when that is not known.
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

    /// Returns what is pure in a function.
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

    /// The scopes of a function.
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

    /// After a pass that changed the module: forgets what is no longer true.
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

    /// What was found for the functions of a share, as far as these stay what they are.
    /// `lent` is how many functions there were before any share made one.
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

    /// Nodes have other numbers now: nothing is known.
    pub fn forget(&mut self) {
        let found = self.found;
        *self = Analyses {
            found,
            ..Analyses::default()
        };
    }

    /// An expression for which inference from the beginning finds another type than is known: for
    /// tests of passes.
    pub fn typed_otherwise(&self, m: &Module, options: &InferOptions) -> Option<String> {
        let known = self.known_types(m)?;
        let mut fresh = m.clone();
        let (now, _) = relax_infer::infer(&mut fresh, options);
        let bodies = m.global_bodies();
        // For what is only called none is found, and the one of a use that is gone may be known.
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
        // What inference makes up has other numbers each time, and the same letters.
        let mut shown = all.filter(|(a, b)| a != b).map(|(a, b)| {
            let show = |t| fresh.show_type(t).to_string();
            (show(a), show(b))
        });
        let (a, b) = shown.find(|(a, b)| a != b)?;
        Some(format!("{a} is known, and {b} is found"))
    }

    /// Returns what a pass declares to preserve and does not: for tests of passes.
    pub fn untrue(&mut self, m: &mut Module, options: &InferOptions) -> Vec<Analysis> {
        let (types, effects) = (self.known_types(m), self.valid(&self.effects, m).cloned());
        let mut wrong = Vec::new();
        let Ok(now) = Analyses::default().types(m, options) else {
            return wrong;
        };
        if let Some(types) = types {
            // What inference makes up for a function without annotations has other names each time.
            let made_up = |t: TypeId| match &m.types[t] {
                Type::Func(f) => !f.params.is_empty() || !f.dims.is_empty(),
                _ => false,
            };
            let same = |g: GlobalId| {
                let (old, new) = (types.globals[g], now.globals[g]);
                old == new || made_up(old) && made_up(new)
            };
            if !m.globals.ids().all(same) {
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
