//! The abstract machine: its state, and how it runs the functions of a module.

use std::rc::Rc;

use relax_base::{SideTable, Span};
use relax_infer::Typing;
use relax_ir::{Clause, Expr, ExprId, FuncId, Function, GlobalId, Module, PatId, TypeSubst, VarId};
use rustc_hash::FxHashMap;

use super::analysis::{FreeVars, calls_packed, fixed, has_data, has_params};
use super::residual::{self, Item, close};
use super::value::{Closure, Fuel, Known, Slot, Store, Value};
use crate::edit::Edit;
use crate::util::{is_external, is_primitive};

mod atom;
mod call;
mod control;
mod function;

/// The limits of unfolding and computing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The number of bindings, beyond those of the program, after which no call is unfolded.
    pub bindings: u64,
    /// The size limit of computed values.
    pub bytes: u64,
}

/// Evaluates all functions of a module in A-normal form. Returns how many calls were unfolded and
/// computed.
pub(super) fn evaluate(m: &mut Module, typing: &Typing, limits: Limits) -> (u64, u64) {
    let bodies = m.global_bodies();
    let size = m.post_order(bodies.iter().map(|b| b.1)).len() as u64;
    let fixed = fixed(m);
    let mut machine = Machine {
        edit: Edit::new(m, typing),
        typing,
        limits: Limits {
            bindings: limits.bindings.saturating_add(size),
            ..limits
        },
        fixed,
        free: FreeVars::default(),
        slots: Vec::new(),
        locals: Vec::new(),
        lists: Vec::new(),
        frames: Vec::new(),
        store: Store::default(),
        fuel: FxHashMap::default(),
        globals: FxHashMap::default(),
        bindings: 0,
        cells: 0,
        unfolded: 0,
        computed: 0,
    };
    let mut done = Vec::new();
    for (global, _) in bodies {
        if let Some(body) = machine.global(global) {
            done.push((global, body));
        }
    }
    let counts = (machine.unfolded, machine.computed);
    for (global, body) in done {
        m.set_global_body(global, body);
    }
    counts
}

/// The state of one function: the values of its variables, and the types that type parameters are
/// instantiated with.
struct Local {
    vars: FxHashMap<VarId, Value>,
    types: TypeSubst,
}

/// A continuation that waits for a value.
enum Frame {
    /// The value of a `let`.
    Let { var: VarId, body: ExprId },
    /// The first branch of an `if`.
    Then {
        node: ExprId,
        cond: ExprId,
        mark: usize,
    },
    /// The other branch.
    Else {
        node: ExprId,
        cond: ExprId,
        then: ExprId,
        mark: usize,
    },
    /// A clause of a `match`.
    Clause {
        node: ExprId,
        value: ExprId,
        done: Vec<Clause>,
        pattern: PatId,
        mark: usize,
    },
    /// The body of a closure, for the residual program.
    Body {
        node: ExprId,
        function: Box<Function>,
        closure: Rc<Closure>,
        /// Its name in the residual program, inside and outside of itself.
        name: (VarId, ExprId),
        fuel: Option<Fuel>,
        mark: usize,
    },
    /// The body of an unfolded function.
    Call { func: FuncId, fuel: Option<Fuel> },
}

enum State {
    Eval(ExprId),
    Done(Value),
}

struct Machine<'m, 't> {
    edit: Edit<'m>,
    typing: &'t Typing,
    limits: Limits,
    fixed: SideTable<ExprId, bool>,
    free: FreeVars,
    slots: Vec<Slot>,
    locals: Vec<Local>,
    lists: Vec<Vec<Item>>,
    frames: Vec<Frame>,
    store: Store,
    fuel: FxHashMap<FuncId, Fuel>,
    globals: FxHashMap<GlobalId, Value>,
    bindings: u64,
    cells: u32,
    unfolded: u64,
    computed: u64,
}

impl Machine<'_, '_> {
    fn slot(&mut self, known: Known, name: ExprId) -> Value {
        let value = Value(u32::try_from(self.slots.len()).expect("fewer than 2^32 values"));
        self.slots.push(Slot { known, name });
        value
    }
    fn known(&self, v: Value) -> &Known {
        &self.slots[v.0 as usize].known
    }
    /// Returns the name of a value in the residual program. Each use of a function has a node of
    /// its own, at which a polymorphic one has a type of its own.
    fn name(&mut self, v: Value) -> ExprId {
        let slot = &self.slots[v.0 as usize];
        match (&slot.known, &self.edit.m.exprs[slot.name]) {
            (Known::Closure(_), &Expr::Var(var)) => {
                let span = self.edit.m.span(slot.name);
                self.edit.m.add(Expr::Var(var), span)
            }
            _ => slot.name,
        }
    }
    fn local(&mut self) -> &mut Local {
        self.locals.last_mut().expect("code runs in a function")
    }
    fn insert(&mut self, var: VarId, value: Value) {
        self.local().vars.insert(var, value);
    }

    /// Binds a node of the residual program. `like` is the corresponding node of the program.
    fn push(&mut self, node: ExprId, like: ExprId) -> ExprId {
        let ty = self.typing.exprs[like];
        let types = &mut (self.locals.last_mut())
            .expect("code runs in a function")
            .types;
        // If a constructor's arguments do not determine its type, that must be explicit; and only
        // the program determines the result type of a packed function.
        let ty = if has_data(self.edit.m, ty) {
            residual::written(self.edit.m, types, ty)
        } else if calls_packed(self.edit.m, node) && !has_params(self.edit.m, ty) {
            Some(ty)
        } else {
            None
        };
        let (var, name) = residual::unnamed(self.edit.m, ty);
        self.item((var, node));
        name
    }
    fn item(&mut self, item: Item) {
        self.bindings += 1;
        self.lists.last_mut().expect("code has a list").push(item);
    }
    fn unknown(&mut self, node: ExprId, like: ExprId) -> Value {
        let name = self.push(node, like);
        self.slot(Known::Nothing, name)
    }
    fn close(&mut self, value: Value) -> ExprId {
        let items = self.lists.pop().expect("it was opened");
        let name = self.name(value);
        close(self.edit.m, items, name)
    }

    /// Returns the new body of a global function; `None` where it is unchanged.
    fn global(&mut self, global: GlobalId) -> Option<ExprId> {
        let func = self.edit.m.global_func(global)?;
        let function = &self.edit.m.funcs[func];
        if is_primitive(function) || is_external(function) {
            return None;
        }
        let (params, body) = (function.params.clone(), function.body);
        let this = self.global_value(global);
        let Known::Closure(closure) = self.known(this).clone() else {
            return None;
        };
        self.store = Store::default();
        self.fuel.clear();
        self.enter(&closure, None);
        self.lists.push(Vec::new());
        let mut args = Vec::new();
        for param in params {
            let name = self.edit.m.add(Expr::Var(param), Span::NONE);
            let value = self.slot(Known::Nothing, name);
            self.insert(param, value);
            args.push(value);
        }
        let fuel = self.fuel_of(&args);
        self.fuel.insert(func, fuel);
        let value = self.run(body);
        self.locals.pop();
        Some(self.close(value))
    }

    fn global_value(&mut self, global: GlobalId) -> Value {
        if let Some(&value) = self.globals.get(&global) {
            return value;
        }
        let name = self.edit.m.add(Expr::Global(global), Span::NONE);
        let known = match self.edit.m.global_func(global) {
            Some(func) => Known::Closure(Rc::new(Closure {
                func,
                this: None,
                captured: Vec::new(),
                types: TypeSubst::new(),
            })),
            None => Known::Nothing,
        };
        let value = self.slot(known, name);
        self.globals.insert(global, value);
        value
    }

    /// Brings a function's own variables into scope.
    fn enter(&mut self, closure: &Closure, this: Option<Value>) {
        let mut vars: FxHashMap<VarId, Value> = closure.captured.iter().copied().collect();
        if let (Some(var), Some(value)) = (closure.this, this) {
            vars.insert(var, value);
        }
        let types = closure.types.clone();
        self.locals.push(Local { vars, types });
    }

    fn run(&mut self, body: ExprId) -> Value {
        let base = self.frames.len();
        let mut state = State::Eval(body);
        loop {
            state = match state {
                State::Eval(e) => self.eval(e),
                State::Done(value) if self.frames.len() == base => return value,
                State::Done(value) => {
                    let frame = self.frames.pop().expect("there are more than at the start");
                    self.resume(frame, value)
                }
            }
        }
    }
}
