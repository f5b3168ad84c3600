//! The machine.

use std::rc::Rc;

use relax_base::{SideTable, Span};
use relax_infer::Typing;
use relax_ir::{
    Clause, Expr, ExprId, FuncId, Function, GlobalId, Module, PatId, Pattern, TypeId, TypeSubst,
    VarId,
};
use relax_ops::{Effects, registry};
use rustc_hash::FxHashMap;

use super::analysis::{FreeVars, calls_packed, fits, fixed, has_data, has_params};
use super::residual::{self, Item, close};
use super::value::{Closure, Fuel, Known, Slot, Store, Value};
use crate::edit::Edit;
use crate::passes::fold_constant::computed;
use crate::util::{is_external, is_primitive};

/// Where unfolding and computing end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// No call is unfolded after so many bindings beyond those of the program.
    pub bindings: u64,
    /// The size of computed values.
    pub bytes: u64,
}

/// Evaluates all functions of a module in A-normal form. How many calls were unfolded and computed.
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

/// What runs in one function: what its variables are, and what type parameters stand for.
struct Local {
    vars: FxHashMap<VarId, Value>,
    types: TypeSubst,
}

/// What waits for a value.
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
    /// The body of a closure, for the program that is left.
    Body {
        node: ExprId,
        function: Box<Function>,
        closure: Rc<Closure>,
        /// Its name in the program that is left, inside and outside of itself.
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

/// Whether a value has the form of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    No,
    Unknown,
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
    fn name(&self, v: Value) -> ExprId {
        self.slots[v.0 as usize].name
    }
    fn local(&mut self) -> &mut Local {
        self.locals.last_mut().expect("code runs in a function")
    }
    fn insert(&mut self, var: VarId, value: Value) {
        self.local().vars.insert(var, value);
    }

    /// Binds a node of the program that is left. `like` is what it stands for in the program.
    fn push(&mut self, node: ExprId, like: ExprId) -> ExprId {
        let ty = self.typing.exprs[like];
        let types = &mut (self.locals.last_mut())
            .expect("code runs in a function")
            .types;
        // Where a constructor's arguments do not say it, the type has to be written; and nothing but the
        // program says what a packed function gives.
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

    /// The new body of a global function; `None` where it stays.
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

    /// A function's own variables come into scope.
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

    fn eval(&mut self, e: ExprId) -> State {
        match &self.edit.m.exprs[e] {
            &Expr::Let { var, value, body } => {
                self.frames.push(Frame::Let { var, body });
                match self.edit.m.exprs[value] {
                    Expr::Func(f) => self.function(value, f, Some(var)),
                    _ => State::Eval(value),
                }
            }
            &Expr::Func(f) => self.function(e, f, None),
            &Expr::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.atom(cond);
                if let Known::Tensor(t) = self.known(cond) {
                    return State::Eval(if t.get_i64(0) != 0 { then } else { otherwise });
                }
                let (cond, mark) = (self.name(cond), self.open());
                self.frames.push(Frame::Then {
                    node: e,
                    cond,
                    mark,
                });
                State::Eval(then)
            }
            Expr::Match { value, clauses, .. } => {
                let (value, clauses) = (*value, clauses.clone());
                let value = self.atom(value);
                for clause in &clauses {
                    let mut bound = Vec::new();
                    match self.matches(clause.pattern, value, &mut bound) {
                        Match::Yes => {
                            self.local().vars.extend(bound);
                            return State::Eval(clause.body);
                        }
                        Match::No => {}
                        Match::Unknown => break,
                    }
                }
                let value = self.name(value);
                self.clause(e, value, Vec::with_capacity(clauses.len()))
            }
            &Expr::Call { callee, args, .. } => {
                let args = self.edit.m.list(args).to_vec();
                self.call(e, callee, &args)
            }
            _ => State::Done(self.atom(e)),
        }
    }

    /// Begins a list of bindings that runs only under a condition, or another time.
    fn open(&mut self) -> usize {
        self.lists.push(Vec::new());
        self.store.mark()
    }

    fn resume(&mut self, frame: Frame, value: Value) -> State {
        match frame {
            Frame::Let { var, body } => {
                self.insert(var, value);
                State::Eval(body)
            }
            Frame::Then { node, cond, mark } => {
                let then = self.close(value);
                self.store.rewind(mark);
                let mark = self.open();
                let frame = Frame::Else {
                    node,
                    cond,
                    then,
                    mark,
                };
                self.frames.push(frame);
                let Expr::If { otherwise, .. } = self.edit.m.exprs[node] else {
                    unreachable!("the frame is of an `if`")
                };
                State::Eval(otherwise)
            }
            Frame::Else {
                node,
                cond,
                then,
                mark,
            } => {
                let otherwise = self.close(value);
                self.store.rewind(mark);
                self.store.invalidate();
                let span = self.edit.m.span(node);
                let new = Expr::If {
                    cond,
                    then,
                    otherwise,
                };
                let new = self.edit.m.add(new, span);
                State::Done(self.unknown(new, node))
            }
            Frame::Clause {
                node,
                value: scrutinee,
                mut done,
                pattern,
                mark,
            } => {
                let body = self.close(value);
                self.store.rewind(mark);
                done.push(Clause { pattern, body });
                self.clause(node, scrutinee, done)
            }
            Frame::Body {
                node,
                mut function,
                closure,
                name,
                fuel,
                mark,
            } => {
                function.body = self.close(value);
                self.store.rewind(mark);
                self.locals.pop();
                self.refuel(closure.func, fuel);
                let func = self.edit.m.funcs.push(*function);
                let span = self.edit.m.span(node);
                let new = self.edit.m.add(Expr::Func(func), span);
                self.item((name.0, new));
                State::Done(self.slot(Known::Closure(closure), name.1))
            }
            Frame::Call { func, fuel } => {
                self.locals.pop();
                self.refuel(func, fuel);
                State::Done(value)
            }
        }
    }

    fn refuel(&mut self, func: FuncId, fuel: Option<Fuel>) {
        match fuel {
            Some(fuel) => self.fuel.insert(func, fuel),
            None => self.fuel.remove(&func),
        };
    }

    /// The next clause of a `match` that is decided at run time, or the end of it.
    fn clause(&mut self, node: ExprId, value: ExprId, done: Vec<Clause>) -> State {
        let Expr::Match {
            clauses, complete, ..
        } = &self.edit.m.exprs[node]
        else {
            unreachable!("the frame is of a `match`")
        };
        let Some(&clause) = clauses.get(done.len()) else {
            let complete = *complete;
            self.store.invalidate();
            let span = self.edit.m.span(node);
            let new = Expr::Match {
                value,
                clauses: done.into(),
                complete,
            };
            let new = self.edit.m.add(new, span);
            return State::Done(self.unknown(new, node));
        };
        let mark = self.open();
        let mut vars = FxHashMap::default();
        for old in self.edit.m.pattern_vars(clause.pattern) {
            let (var, name) = self.fresh(old);
            vars.insert(old, var);
            let value = self.slot(Known::Nothing, name);
            self.insert(old, value);
        }
        let pattern = self.edit.m.rename_pattern(clause.pattern, &vars);
        self.frames.push(Frame::Clause {
            node,
            value,
            done,
            pattern,
            mark,
        });
        State::Eval(clause.body)
    }

    fn fresh(&mut self, old: VarId) -> (VarId, ExprId) {
        let types = &mut self
            .locals
            .last_mut()
            .expect("code runs in a function")
            .types;
        residual::fresh(self.edit.m, types, old)
    }

    /// Whether a value has the form of a pattern, and what the pattern's variables are then.
    fn matches(&self, pattern: PatId, value: Value, bound: &mut Vec<(VarId, Value)>) -> Match {
        let mut stack = vec![(pattern, value)];
        let mut found = Match::Yes;
        while let Some((pattern, value)) = stack.pop() {
            match (&self.edit.m.patterns[pattern], self.known(value)) {
                (Pattern::Wildcard, _) => {}
                (Pattern::Var(v), _) => bound.push((*v, value)),
                (Pattern::Ctor(c, args), Known::Data(ctor, fields)) => {
                    if c != ctor {
                        return Match::No;
                    }
                    stack.extend(args.iter().copied().zip(fields.iter().copied()).rev());
                }
                (Pattern::Tuple(args), Known::Tuple(fields)) => {
                    stack.extend(args.iter().copied().zip(fields.iter().copied()).rev());
                }
                _ => found = Match::Unknown,
            }
        }
        found
    }

    /// A value without control flow.
    fn atom(&mut self, e: ExprId) -> Value {
        match self.edit.m.exprs[e].clone() {
            Expr::Var(v) => match self.local().vars.get(&v) {
                Some(&value) => value,
                // Free in the whole file.
                None => {
                    let value = self.slot(Known::Nothing, e);
                    self.insert(v, value);
                    value
                }
            },
            Expr::Global(g) => self.global_value(g),
            Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) | Expr::Error => {
                self.slot(Known::Nothing, e)
            }
            Expr::Const(c) => {
                let known = Known::Tensor(self.edit.m.consts[c].clone());
                let name = self.push(e, e);
                self.slot(known, name)
            }
            Expr::Tuple(fields) => {
                let fields = self.edit.m.list(fields).to_vec();
                let fields: Vec<Value> = fields.into_iter().map(|f| self.atom(f)).collect();
                self.tuple(&fields, e)
            }
            Expr::Proj { tuple, index } => {
                let tuple = self.atom(tuple);
                if let Known::Tuple(fields) = self.known(tuple) {
                    return fields[index as usize];
                }
                let tuple = self.name(tuple);
                let new = self.like(e, Expr::Proj { tuple, index });
                self.unknown(new, e)
            }
            Expr::RefNew(value) => {
                let value = self.atom(value);
                let cell = self.cells;
                self.cells += 1;
                self.store.write(cell, value);
                let value = self.name(value);
                let new = self.like(e, Expr::RefNew(value));
                let name = self.push(new, e);
                self.slot(Known::Cell(cell), name)
            }
            Expr::RefRead(cell) => {
                let cell = self.atom(cell);
                if let Known::Cell(cell) = *self.known(cell)
                    && let Some(value) = self.store.read(cell)
                {
                    return value;
                }
                let cell = self.name(cell);
                let new = self.like(e, Expr::RefRead(cell));
                self.unknown(new, e)
            }
            Expr::RefWrite(cell, value) => {
                let (cell, value) = (self.atom(cell), self.atom(value));
                match *self.known(cell) {
                    Known::Cell(cell) => self.store.write(cell, value),
                    _ => self.store.invalidate(),
                }
                let (cell, value) = (self.name(cell), self.name(value));
                let new = self.like(e, Expr::RefWrite(cell, value));
                let name = self.push(new, e);
                self.slot(Known::Tuple(Rc::from([])), name)
            }
            // Shapes, and what is checked against them.
            _ => {
                let mut parts = Vec::new();
                self.edit.m.for_each_child(e, |c| parts.push(c));
                let names = parts.into_iter().map(|part| {
                    let value = self.atom(part);
                    (part, self.name(value))
                });
                let names: FxHashMap<ExprId, ExprId> = names.collect();
                let new = self.edit.m.map_children(e, |c| names[&c]);
                self.unknown(new, e)
            }
        }
    }

    fn like(&mut self, old: ExprId, new: Expr) -> ExprId {
        let span = self.edit.m.span(old);
        self.edit.m.add(new, span)
    }

    fn tuple(&mut self, fields: &[Value], like: ExprId) -> Value {
        let names: Vec<ExprId> = fields.iter().map(|&f| self.name(f)).collect();
        let span = self.edit.m.span(like);
        let new = self.edit.m.tuple(&names, span);
        let name = self.push(new, like);
        self.slot(Known::Tuple(fields.into()), name)
    }

    /// A function literal: known from here on, and in the program that is left with a body that was
    /// run on unknown arguments.
    fn function(&mut self, node: ExprId, func: FuncId, var: Option<VarId>) -> State {
        let m = &*self.edit.m;
        if is_primitive(&m.funcs[func]) || is_external(&m.funcs[func]) {
            let name = self.push(node, node);
            return State::Done(self.slot(Known::Nothing, name));
        }
        let free = self.free.of(m, node, func).to_vec();
        let local = self.locals.last().expect("code runs in a function");
        let captured = free.iter().filter(|v| Some(**v) != var);
        let captured = captured.filter_map(|v| Some((*v, *local.vars.get(v)?)));
        let closure = Rc::new(Closure {
            func,
            this: var,
            captured: captured.collect(),
            types: local.types.clone(),
        });
        let name = match var {
            Some(var) => self.fresh(var),
            None => residual::unnamed(self.edit.m, None),
        };
        let mark = self.open();
        self.store.invalidate();
        let this = self.slot(Known::Closure(closure.clone()), name.1);
        self.enter(&closure, Some(this));
        let old = self.edit.m.funcs[func].clone();
        let (mut params, mut args) = (Vec::new(), Vec::new());
        for &old in &old.params {
            let (param, name) = self.fresh(old);
            if self.edit.m.vars[param].ty.is_none() {
                // Its uses, which told the type, may go.
                let types = &mut self.locals.last_mut().expect("it was entered").types;
                let ty = residual::written(self.edit.m, types, self.typing.vars[old]);
                self.edit.m.vars[param].ty = ty;
            }
            let value = self.slot(Known::Nothing, name);
            self.insert(old, value);
            params.push(param);
            args.push(value);
        }
        let types = &mut self.locals.last_mut().expect("it was entered").types;
        let ret = old.ret.map(|t| types.ty(&mut self.edit.m.types, t));
        let next = self.fuel_of(&args);
        let before = self.fuel.get(&func).cloned();
        let met = before.as_ref().map_or(next.clone(), |f| f.meet(&next).0);
        self.fuel.insert(func, met);
        let body = old.body;
        let function = Box::new(Function { params, ret, ..old });
        self.frames.push(Frame::Body {
            node,
            function,
            closure,
            name,
            fuel: before,
            mark,
        });
        State::Eval(body)
    }

    fn fuel_of(&self, args: &[Value]) -> Fuel {
        let number = |v: Value| match self.known(v) {
            Known::Tensor(t) if t.is_scalar() && t.dtype().is_int() && t.dtype().size() >= 4 => {
                t.get_i64(0).max(0) as u64
            }
            _ => 0,
        };
        Fuel(args.iter().map(|&v| (v, number(v))).collect())
    }

    fn call(&mut self, e: ExprId, callee: ExprId, args: &[ExprId]) -> State {
        // What is called, unless it is an operator, a constructor or a kernel where it stands.
        let function = match self.edit.m.exprs[callee] {
            Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) | Expr::Func(_) => None,
            _ => Some(self.atom(callee)),
        };
        let values: Vec<Value> = args.iter().map(|&a| self.atom(a)).collect();
        match function {
            Some(function) => {
                if let Known::Closure(closure) = self.known(function).clone()
                    && let Some(state) = self.unfold(e, &closure, function, args, &values)
                {
                    return state;
                }
                let name = self.name(function);
                self.store.invalidate();
                let new = self.residual_call(e, name, &values);
                State::Done(self.unknown(new, e))
            }
            None => State::Done(self.direct(e, callee, &values)),
        }
    }

    /// The call in the program that is left.
    fn residual_call(&mut self, e: ExprId, callee: ExprId, args: &[Value]) -> ExprId {
        let Expr::Call {
            attrs, type_args, ..
        } = self.edit.m.exprs[e]
        else {
            unreachable!("it is a call")
        };
        let types = self.edit.m.type_args(type_args).to_vec();
        let types: Vec<TypeId> = types
            .into_iter()
            .map(|t| {
                let local = self.locals.last_mut().expect("code runs in a function");
                local.types.ty(&mut self.edit.m.types, t)
            })
            .collect();
        let type_args = self.edit.m.make_type_args(&types);
        let names: Vec<ExprId> = args.iter().map(|&a| self.name(a)).collect();
        let args = self.edit.m.make_list(&names);
        self.like(
            e,
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            },
        )
    }

    /// Runs a known function in place; `None` when that brings the end no nearer, or may not be.
    fn unfold(
        &mut self,
        e: ExprId,
        closure: &Closure,
        this: Value,
        args: &[ExprId],
        values: &[Value],
    ) -> Option<State> {
        let (m, func) = (&*self.edit.m, closure.func);
        let function = &m.funcs[func];
        let body = function.body;
        if self.bindings >= self.limits.bindings
            || self.fixed[body]
            || !function.dims.is_empty()
            || !function.constraints.is_empty()
            || is_primitive(function)
            || is_external(function)
            || !fits(m, self.typing, func, args)
        {
            return None;
        }
        let next = self.fuel_of(values);
        let before = self.fuel.get(&func).cloned();
        let met = match &before {
            None => next,
            Some(before) => {
                let (met, progress) = before.meet(&next);
                if !progress {
                    return None;
                }
                met
            }
        };
        let (type_params, params) = (function.type_params.clone(), function.params.clone());
        let given = self.typing.type_args.get(&e).cloned().unwrap_or_default();
        let around = &mut self
            .locals
            .last_mut()
            .expect("code runs in a function")
            .types;
        let m = &mut *self.edit.m;
        let types = residual::instantiate(m, &type_params, &given, around, &closure.types)?;
        self.fuel.insert(func, met);
        self.enter(closure, Some(this));
        self.local().types = types;
        for (&param, &value) in params.iter().zip(values) {
            self.insert(param, value);
        }
        self.unfolded += 1;
        self.frames.push(Frame::Call { func, fuel: before });
        Some(State::Eval(body))
    }

    /// A call of an operator, a constructor, a kernel, or a function that the host has.
    fn direct(&mut self, e: ExprId, callee: ExprId, args: &[Value]) -> Value {
        match self.edit.m.exprs[callee] {
            Expr::Ctor(ctor) => {
                let new = self.residual_call(e, callee, args);
                let name = self.push(new, e);
                self.slot(Known::Data(ctor, args.into()), name)
            }
            Expr::Op(op) => {
                if let Some(value) = self.compute(e, args) {
                    self.computed += 1;
                    return value;
                }
                let pure = registry()
                    .get(op)
                    .is_none_or(|d| d.effects == Effects::Pure);
                if !pure
                    && args
                        .iter()
                        .any(|&a| !matches!(self.known(a), Known::Tensor(_)))
                {
                    self.store.invalidate();
                }
                let new = self.residual_call(e, callee, args);
                self.unknown(new, e)
            }
            _ => {
                if !matches!(self.edit.m.exprs[callee], Expr::Func(_)) {
                    self.store.invalidate();
                }
                let new = self.residual_call(e, callee, args);
                self.unknown(new, e)
            }
        }
    }

    /// The value of an operator's call on known tensors and tuples of them.
    fn compute(&mut self, e: ExprId, args: &[Value]) -> Option<Value> {
        let span = self.edit.m.span(e);
        let tensor = |this: &mut Self, v: Value| match this.known(v).clone() {
            Known::Tensor(t) => Some(this.edit.constant(t, span)),
            _ => None,
        };
        let mut nodes = Vec::with_capacity(args.len());
        for &arg in args {
            nodes.push(match self.known(arg).clone() {
                Known::Tuple(fields) => {
                    let fields: Vec<ExprId> = fields
                        .iter()
                        .map(|&f| tensor(self, f))
                        .collect::<Option<_>>()?;
                    self.edit.tuple(&fields, span)
                }
                _ => tensor(self, arg)?,
            });
        }
        let call = self.edit.op_call(e)?;
        let attrs = self.edit.m.attrs(call.attrs).clone();
        let node = self.edit.recall(&call, &nodes, attrs, span);
        if !self.edit.typed(node) {
            return None;
        }
        let call = self.edit.op_call(node)?;
        let result = computed(&mut self.edit, node, &call, self.limits.bytes)?;
        Some(self.reify(result, e))
    }

    /// A constant, or a tuple of such, as a value.
    fn reify(&mut self, result: ExprId, like: ExprId) -> Value {
        let constant = |this: &mut Self, e: ExprId| {
            let value = this
                .edit
                .constant_value(e)
                .expect("it was computed")
                .clone();
            let (var, name) = residual::unnamed(this.edit.m, None);
            this.item((var, e));
            this.slot(Known::Tensor(value), name)
        };
        match self.edit.m.exprs[result] {
            Expr::Tuple(fields) => {
                // Results of operators are one level deep.
                let fields = self.edit.m.list(fields).to_vec();
                let fields: Vec<Value> = fields.into_iter().map(|f| constant(self, f)).collect();
                self.tuple(&fields, like)
            }
            _ => constant(self, result),
        }
    }
}
