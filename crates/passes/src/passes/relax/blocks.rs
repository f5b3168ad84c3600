//! `relax-plan-memory`: tensors that functions allocate (`R.builtin.alloc_tensor`) are placed in
//! blocks of memory that are reused.
//!
//! A tensor is dead after the last call of a tensor program or packed function that takes it.
//! Tensors that escape are left alone: those that a function or branch returns, that are passed to
//! a function, or that are used in another binding block than the one that allocates them. No
//! blocks are freed here: `kill-after-last-use` does that.

use std::collections::BTreeMap;

use relax_base::Diagnostics;
use relax_ir::{AttrValue, Attrs, Expr, ExprId, FuncId, GlobalKind, Module, Type, VarId};
use relax_ops::Lowering;
use relax_sym::{Dim, Facts};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::{call_tir, kept};
use crate::code::{Bind, Code, Home, Step, Value, each_code, each_var, fresh};
use crate::passes::plan_memory;
use crate::util::called_op;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-plan-memory",
    doc: "Relax's static-plan-block-memory: tensors that are made share blocks of memory.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

/// A reused block may be larger or smaller than the tensor by at most this factor.
const RANGE: i64 = 16;
const UPPER: &str = "tir_var_upper_bound";
const LOWER: &str = "tir_var_lower_bound";
const WHOLE: &str = "relax.memory_plan_dynamic_func_output";

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    match makes_tensors(cx.module) {
        Makes::Itself => {}
        Makes::Results => return plan_memory::run(cx),
        Makes::Nothing => {
            cx.count("tensors placed", 0);
            return Ok(());
        }
    }
    let mut placed = 0;
    each_code(cx.module, |m, func, code| {
        let mut plan = Plan::new(m, func);
        plan.first(m, code);
        plan.second(m, code);
        let attrs = &m.funcs[func].attrs;
        let all = attrs.get(WHOLE).and_then(AttrValue::as_int).unwrap_or(0) != 0;
        let before = placed;
        placed += plan.rewrite(m, code, all);
        placed > before
    });
    // The attribute that requested blocks for all tensors has been applied.
    let m = &mut *cx.module;
    for (g, _) in m.global_bodies() {
        if let Some(f) = m.global_func(g)
            && m.funcs[f].attrs.get(WHOLE).is_some()
        {
            let mut function = m.funcs[f].clone();
            function.attrs.remove(WHOLE);
            m.set_global_func(g, function);
        }
    }
    cx.count("tensors placed", placed);
    Ok(())
}

/// What a module allocates tensors for.
enum Makes {
    /// It allocates them itself.
    Itself,
    /// The results of `call_tir`, which are placed as in Relay.
    Results,
    Nothing,
}

fn makes_tensors(m: &Module) -> Makes {
    let mut found = Makes::Nothing;
    for e in m.post_order(m.global_bodies().into_iter().map(|b| b.1)) {
        if kept::name(m, e) == Some(call_tir::ALLOC) {
            return Makes::Itself;
        }
        if called_op(m, e).is_some_and(|d| d.hooks.lowering == Lowering::CallTir) {
            found = Makes::Results;
        }
    }
    found
}

/// The tensors that a value holds.
#[derive(Clone, Debug)]
enum Held {
    None,
    One(usize),
    Fields(Vec<Held>),
}

impl Held {
    fn each(&self, f: &mut dyn FnMut(usize)) {
        let mut open = vec![self];
        while let Some(h) = open.pop() {
            match h {
                Held::None => {}
                Held::One(t) => f(*t),
                Held::Fields(all) => open.extend(all.iter().rev()),
            }
        }
    }
}

/// An allocated tensor, and the block of memory that it becomes if it gets one of its own.
#[derive(Debug)]
struct Made {
    bytes: Dim,
    dtype: DType,
    /// Its scope, as an index of [`Plan::scopes`].
    scope: usize,
    home: Home,
    /// The number of calls still to come that take it.
    uses: i64,
    planned: bool,
}

/// The ways in which a value uses its operands.
enum Use {
    /// It allocates a tensor.
    Makes,
    /// It aliases its first argument.
    Same(ExprId),
    /// It uses these while it runs.
    Takes(Vec<ExprId>),
    /// It may retain them.
    Keeps,
    /// It is a name, a tuple, or a field.
    Names,
}

struct Plan {
    facts: Facts,
    made: Vec<Made>,
    /// The scopes of memory that tensors are in, each once.
    scopes: Vec<AttrValue>,
    held: FxHashMap<VarId, Held>,
    /// The tensor that each variable is bound to at its allocation.
    of: FxHashMap<VarId, usize>,
    /// The tensor whose block each tensor is placed in.
    block: FxHashMap<usize, usize>,
    /// The free blocks, by their key and size in bytes; -1 where that is not known.
    free: FxHashMap<(usize, DType, usize), BTreeMap<i64, Vec<usize>>>,
}

impl Plan {
    /// Creates an empty plan; the function's attributes bound its symbols.
    fn new(m: &Module, func: FuncId) -> Plan {
        let mut facts = Facts::default();
        let attrs = &m.funcs[func].attrs;
        let bound = |attrs: &Attrs, of: &str, name: &str| match attrs.get(of) {
            Some(AttrValue::Dict(all)) => {
                let found = all.iter().find(|(n, _)| n.as_str() == name);
                found.and_then(|(_, v)| v.as_int())
            }
            _ => None,
        };
        for &d in &m.funcs[func].dims {
            let name = m.dims[d].name.as_str();
            if let Some(upper) = bound(attrs, UPPER, name) {
                facts.add_upper(d, upper);
                facts.add_lower(d, bound(attrs, LOWER, name).unwrap_or(0));
            }
        }
        Plan {
            facts,
            made: Vec::new(),
            scopes: Vec::new(),
            held: FxHashMap::default(),
            of: FxHashMap::default(),
            block: FxHashMap::default(),
            free: FxHashMap::default(),
        }
    }

    /// Collects the allocated tensors and counts the calls that take each.
    fn first(&mut self, m: &Module, code: &Code) {
        for step in code.steps() {
            match step {
                Step::Bind(s, p, i) => {
                    let b = code.seqs[s].parts[p].binds[i];
                    let held = self.bind(m, (s, p), &b);
                    self.held.insert(b.var, held);
                }
                Step::Value(s) => self.drop_in(m, code.seqs[s].value),
                _ => {}
            }
        }
    }

    fn bind(&mut self, m: &Module, home: Home, b: &Bind) -> Held {
        let e = match b.value {
            Value::Plain(e) => e,
            Value::If { cond, .. } => {
                self.drop_in(m, cond);
                return Held::None;
            }
            Value::Func { .. } => return Held::None,
        };
        match usage(m, e) {
            Use::Makes => match self.make(m, home, e) {
                Some(t) => {
                    self.of.insert(b.var, t);
                    Held::One(t)
                }
                None => Held::None,
            },
            Use::Same(x) => self.holds(m, x),
            Use::Takes(args) => {
                for a in args {
                    self.holds(m, a).each(&mut |t| {
                        let made = &mut self.made[t];
                        made.uses += 1;
                        made.planned &= made.home == home;
                    });
                }
                Held::None
            }
            Use::Keeps => {
                self.drop_in(m, e);
                Held::None
            }
            Use::Names => self.holds(m, e),
        }
    }

    fn make(&mut self, m: &Module, home: Home, e: ExprId) -> Option<usize> {
        let (dims, dtype) = shape_of(m, e)?;
        let size = dtype.bits.div_ceil(8) as i64;
        let bytes = dims.iter().fold(Dim::from(size), |n, d| n * self.most(d));
        let scope = kept::attr(m, e, "storage_scope").cloned();
        let scope = scope.unwrap_or_else(|| kept::string("global"));
        let known = self.scopes.iter().position(|s| *s == scope);
        let scope = known.unwrap_or_else(|| {
            self.scopes.push(scope);
            self.scopes.len() - 1
        });
        self.made.push(Made {
            bytes,
            dtype,
            scope,
            home,
            uses: 0,
            planned: true,
        });
        Some(self.made.len() - 1)
    }

    /// Returns the upper bound of an extent, or the extent itself where none is known.
    fn most(&self, d: &Dim) -> Dim {
        match self.facts.bounds(d).1 {
            Some(upper) => Dim::from(upper),
            None => d.clone(),
        }
    }

    /// Returns the tensors that a value made of names holds.
    fn holds(&self, m: &Module, e: ExprId) -> Held {
        match m.exprs[e] {
            Expr::Var(v) => self.held.get(&v).cloned().unwrap_or(Held::None),
            Expr::Proj { tuple, index } => match self.holds_name(m, tuple) {
                Held::Fields(all) => all.get(index as usize).cloned().unwrap_or(Held::None),
                _ => Held::None,
            },
            Expr::Tuple(list) => {
                let fields = m.list(list).iter();
                Held::Fields(fields.map(|&f| self.holds_name(m, f)).collect())
            }
            _ => Held::None,
        }
    }

    fn holds_name(&self, m: &Module, e: ExprId) -> Held {
        match m.exprs[e] {
            Expr::Var(v) => self.held.get(&v).cloned().unwrap_or(Held::None),
            _ => Held::None,
        }
    }

    /// Excludes the tensors that a value mentions from planning.
    fn drop_in(&mut self, m: &Module, e: ExprId) {
        each_var(m, e, |v| {
            if let Some(held) = self.held.get(&v) {
                held.each(&mut |t| self.made[t].planned = false);
            }
        });
    }

    /// Assigns tensors to blocks.
    fn second(&mut self, m: &Module, code: &Code) {
        for step in code.steps() {
            let Step::Bind(s, p, i) = step else {
                continue;
            };
            let b = code.seqs[s].parts[p].binds[i];
            let Some(e) = b.expr() else {
                continue;
            };
            match usage(m, e) {
                Use::Makes => {
                    if let Some(&t) = self.of.get(&b.var).filter(|t| self.made[**t].planned) {
                        let block = self.found(t).unwrap_or(t);
                        self.block.insert(t, block);
                    }
                }
                Use::Takes(args) => {
                    for a in args {
                        self.holds(m, a).each(&mut |t| self.taken(t));
                    }
                }
                _ => {}
            }
        }
    }

    /// Accounts for a call that takes a tensor; frees the block after the last one.
    fn taken(&mut self, t: usize) {
        let Some(&block) = self.block.get(&t) else {
            return;
        };
        self.made[t].uses -= 1;
        if self.made[t].uses == 0 {
            let key = self.key(block);
            let bytes = self.made[block].bytes.as_const().unwrap_or(-1);
            let pool = self.free.entry(key).or_default();
            pool.entry(bytes).or_default().push(block);
        }
    }

    /// Returns the key of blocks that are interchangeable: blocks are not shared between branches.
    fn key(&self, t: usize) -> (usize, DType, usize) {
        let made = &self.made[t];
        (made.scope, made.dtype, made.home.0)
    }

    /// Finds a free block for a tensor: one that is large enough, or else the largest that is not,
    /// which then grows.
    fn found(&mut self, t: usize) -> Option<usize> {
        if self.made[t].uses == 0 {
            return None;
        }
        let key = self.key(t);
        let pool = self.free.get_mut(&key)?;
        let Some(size) = self.made[t].bytes.as_const() else {
            let open = pool.get_mut(&-1)?;
            let at = open
                .iter()
                .position(|&b| self.made[b].bytes == self.made[t].bytes)?;
            return Some(open.remove(at));
        };
        if size < 0 {
            return None;
        }
        let some = |(n, blocks): (&i64, &Vec<usize>)| (!blocks.is_empty()).then_some(*n);
        let larger = pool.range(size..=size.saturating_mul(RANGE)).find_map(some);
        let smaller = || pool.range(size / RANGE..size).rev().find_map(some);
        let n = larger.or_else(smaller).filter(|&n| n >= 0)?;
        let blocks = pool.get_mut(&n)?;
        // The first of those that are large enough, the last of those that must grow.
        let block = match n >= size {
            true => blocks.remove(0),
            false => blocks.pop()?,
        };
        if n < size {
            self.made[block].bytes = Dim::from(size);
        }
        Some(block)
    }

    /// Emits the blocks, and the tensors in them; returns the number of tensors placed. With `all`,
    /// tensors that are left alone get a block each if their extents are symbolic.
    fn rewrite(&self, m: &mut Module, code: &mut Code, all: bool) -> u64 {
        let (mut storages, mut placed) = (FxHashMap::default(), 0);
        // In order of evaluation: a block is allocated where it is first needed.
        let parts: Vec<Home> = (code.steps().into_iter())
            .filter_map(|s| match s {
                Step::Part(s, p) => Some((s, p)),
                _ => None,
            })
            .collect();
        for (s, p) in parts {
            for mut b in std::mem::take(&mut code.seqs[s].parts[p].binds) {
                let e = b.expr().filter(|&e| matches!(usage(m, e), Use::Makes));
                let own = self.of.get(&b.var).copied();
                let target = own.and_then(|t| match self.block.get(&t) {
                    Some(block) => Some((t, *block)),
                    None => (all && self.is_symbolic(m, e?)).then_some((t, t)),
                });
                if let (Some(e), Some((t, block))) = (e, target) {
                    let storage = *storages.entry(block).or_insert_with(|| {
                        let bind = self.storage(m, block, e, &b);
                        code.seqs[s].parts[p].binds.push(bind);
                        bind.var
                    });
                    b = tensor_in(m, &b, e, storage, self.made[t].dtype);
                    placed += 1;
                }
                code.seqs[s].parts[p].binds.push(b);
            }
        }
        placed
    }

    fn is_symbolic(&self, m: &Module, e: ExprId) -> bool {
        let dims = shape_of(m, e).map_or(Vec::new(), |s| s.0);
        dims.iter().any(|d| d.as_const().is_none())
    }

    fn storage(&self, m: &mut Module, block: usize, e: ExprId, b: &Bind) -> Bind {
        let made = &self.made[block];
        let size = m.add(Expr::Shape([made.bytes.clone()].into()), b.span);
        let attrs = [
            ("virtual_device_index", device(m, e)),
            ("storage_scope", self.scopes[made.scope].clone()),
            ("dtype", AttrValue::DType(made.dtype)),
        ];
        let name = ("memory.alloc_storage", true);
        let call = kept::call(m, name, &[("size", size)], &attrs, b.span);
        let object = m.types.intern(Type::Object);
        let (storage, _) = fresh(m, "storage", Some(object));
        Bind::plain(storage, call, b.span)
    }
}

fn device(m: &Module, e: ExprId) -> AttrValue {
    let own = kept::attr(m, e, "runtime_device_index").cloned();
    own.unwrap_or(AttrValue::Int(0))
}

fn tensor_in(m: &mut Module, b: &Bind, e: ExprId, storage: VarId, dtype: DType) -> Bind {
    let dims = shape_of(m, e).map_or(Vec::new(), |s| s.0);
    let shape = m.add(Expr::Shape(dims.into()), b.span);
    let at = m.add(Expr::Var(storage), b.span);
    let attrs = [
        ("offset", AttrValue::Int(0)),
        ("dtype", AttrValue::DType(dtype)),
        ("runtime_device_ind", device(m, e)),
    ];
    let args = [("storage", at), ("shape", shape)];
    let tensor = kept::call(m, ("memory.alloc_tensor", true), &args, &attrs, b.span);
    Bind::plain(b.var, tensor, b.span)
}

/// Returns the extents and element type of an allocated tensor.
fn shape_of(m: &Module, e: ExprId) -> Option<(Vec<Dim>, DType)> {
    let Expr::Call { args, .. } = m.exprs[e] else {
        return None;
    };
    let Expr::Shape(dims) = &m.exprs[*m.list(args).first()?] else {
        return None;
    };
    let AttrValue::DType(dtype) = kept::attr(m, e, "dtype")? else {
        return None;
    };
    dims.iter()
        .all(Dim::is_known)
        .then(|| (dims.to_vec(), *dtype))
}

fn usage(m: &Module, e: ExprId) -> Use {
    let Expr::Call { callee, args, .. } = m.exprs[e] else {
        return match m.exprs[e] {
            Expr::Var(_) | Expr::Tuple(_) | Expr::Proj { .. } => Use::Names,
            _ => Use::Keeps,
        };
    };
    let args = m.list(args);
    let first = |otherwise: Use| args.first().map_or(otherwise, |&x| Use::Same(x));
    if let Some(name) = kept::name(m, e) {
        return match name {
            call_tir::ALLOC => Use::Makes,
            "memory.view" | "memory.ensure_zero_offset" => first(Use::Keeps),
            _ => Use::Keeps,
        };
    }
    match m.exprs[callee] {
        Expr::Extern(name) if name == "vm.builtin.reshape" => first(Use::Keeps),
        Expr::Extern(_) => Use::Takes(args.to_vec()),
        Expr::Global(g) => match m.globals[g].kind {
            GlobalKind::Prim(_) => Use::Takes(args.to_vec()),
            GlobalKind::Func(_) => Use::Keeps,
        },
        _ => match called_op(m, e) {
            Some(def) if def.hooks.same_memory => first(Use::Keeps),
            _ => Use::Keeps,
        },
    }
}
