//! `defunctionalization`: replaces all function values by data.
//!
//! Reynolds, "Definitional interpreters for higher-order programming languages" (1972), over
//! monomorphic types as in TVM: each function type becomes a data type with a constructor for each
//! function of that type, whose fields are the function's captures, and an `apply` function that
//! matches on it. Polymorphic functions are first copied for the types that they are called with.

mod specialise;
mod values;

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    Adt, AdtId, Attrs, Clause, CtorId, Expr, ExprId, Function, Global, GlobalId, GlobalKind, IdSet,
    Module, Type, TypeId, VarId, VarStyle,
};
use rustc_hash::FxHashMap;

use self::specialise::{has_function, plain};
use super::a_normal_form::{Order, normal_form};
use crate::util::{copied_clauses, dissolve_blocks, fresh_global, is_external, is_primitive};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "defunctionalization",
    doc: "Turns functions as values into data that `apply` functions take apart.",
    options: &[OptionDef {
        name: "entry",
        ty: OptionType::Functions,
        default: "main",
        doc: "the function that stays as it is called; what it does not reach is dropped",
    }],
    contract: Contract::TYPED,
    run,
}];

type Failure = (Span, String);

/// The maximum number of rounds in which copies of polymorphic functions require copies of others.
/// Only a function that calls itself at ever larger types needs more.
const ROUNDS: usize = 64;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let name = cx.options.text("entry").trim_start_matches('@').to_owned();
    let Some(entry) = cx.module.global(&name) else {
        return Err(cx.unsupported(Span::NONE, format!("there is no function `@{name}`")));
    };
    let entry = match specialise::specialise(cx, entry)? {
        Ok(entry) => entry,
        Err((span, message)) => return Err(cx.unsupported(span, message)),
    };
    // Shared expressions get a name, since bodies move into `apply` functions.
    for (global, body) in cx.module.global_bodies() {
        let m = &mut *cx.module;
        let body = dissolve_blocks(m, body);
        let uses = m.use_counts([body]);
        let shared: IdSet = {
            let mut set = IdSet::new();
            for e in m.post_order([body]) {
                if uses[e] > 1 && !m.is_leaf(e) {
                    set.insert(e);
                }
            }
            set
        };
        let new = normal_form(m, body, Order::ArgumentsFirst, |_, e| shared.contains(e));
        m.set_global_body(global, new);
    }
    let typing = cx.typing()?;
    let mut pass = Defunctionalize {
        m: cx.module,
        typing: &typing,
        types: FxHashMap::default(),
        kinds: FxHashMap::default(),
        order: Vec::new(),
        vars: FxHashMap::default(),
        memo: FxHashMap::default(),
        names: FxHashMap::default(),
        let_of: FxHashMap::default(),
    };
    match pass.module(entry) {
        Ok(count) => {
            cx.count("functions encoded", count);
            Ok(())
        }
        Err((span, message)) => Err(cx.unsupported(span, message)),
    }
}

/// The encoding of a function type as data.
struct Encoding {
    adt: AdtId,
    apply: GlobalId,
    /// The parameters of `apply`: the function, and its arguments.
    params: Vec<VarId>,
    clauses: Vec<Clause>,
}

struct Defunctionalize<'m, 't> {
    m: &'m mut Module,
    typing: &'t Typing,
    types: FxHashMap<TypeId, TypeId>,
    kinds: FxHashMap<TypeId, Encoding>,
    order: Vec<TypeId>,
    vars: FxHashMap<VarId, ExprId>,
    memo: FxHashMap<ExprId, ExprId>,
    /// The constructors of globals, operators and constructors that are used as values.
    names: FxHashMap<(String, TypeId), CtorId>,
    /// The variable that a function is bound to, since it may refer to itself.
    let_of: FxHashMap<ExprId, VarId>,
}

impl Defunctionalize<'_, '_> {
    fn refuse(&self, at: ExprId, why: &str) -> Failure {
        (
            self.m.span(at),
            format!("a function cannot become data here: {why}"),
        )
    }

    fn module(&mut self, entry: GlobalId) -> Result<u64, Failure> {
        let bodies = self.m.global_bodies();
        for (global, body) in &bodies {
            let ty = self.typing.globals[*global];
            if let Type::Func(f) = self.m.types[ty].clone() {
                let outside = f.args.iter().chain([&f.ret]);
                if *global == entry && outside.into_iter().any(|&t| has_function(self.m, t)) {
                    return Err(self.refuse(*body, "the entry takes or gives functions"));
                }
            }
        }
        self.data(bodies.first().map(|b| b.1))?;
        for (global, body) in bodies {
            let func = self.m.global_func(global).expect("it has a body");
            if is_primitive(&self.m.funcs[func]) || is_external(&self.m.funcs[func]) {
                continue;
            }
            let new = self.body(body)?;
            let old = self.m.funcs[func].clone();
            let function = self.signature(old, new, body)?;
            let func = self.m.funcs.push(function);
            self.m.globals[global].kind = GlobalKind::Func(func);
        }
        let mut count = 0;
        for ty in std::mem::take(&mut self.order) {
            let encoding = self.kinds.remove(&ty).expect("it is listed");
            count += encoding.clauses.len() as u64;
            self.apply(ty, encoding)?;
        }
        Ok(count)
    }

    /// Converts fields of data types that hold functions.
    fn data(&mut self, at: Option<ExprId>) -> Result<(), Failure> {
        let ctors: Vec<CtorId> = self.m.ctors.iter().map(|c| c.0).collect();
        for ctor in ctors {
            for i in 0..self.m.ctors[ctor].fields.len() {
                let ty = self.m.ctors[ctor].fields[i];
                if !has_function(self.m, ty) || self.m.adts[self.m.ctors[ctor].adt].prelude {
                    continue;
                }
                if !plain(self.m, ty) {
                    let why = "a polymorphic data type has a function in a field".to_owned();
                    let span = self.m.ctors[ctor].span;
                    let _ = at;
                    return Err((span, why));
                }
                let new = self
                    .ty(ty)
                    .ok_or((self.m.ctors[ctor].span, String::new()))?;
                self.m.ctors[ctor].fields[i] = new;
            }
        }
        Ok(())
    }

    /// Returns a type without functions; `None` if a function's type is not known well enough.
    fn ty(&mut self, root: TypeId) -> Option<TypeId> {
        let mut stack = vec![(root, false)];
        while let Some((ty, expanded)) = stack.pop() {
            if self.types.contains_key(&ty) {
                continue;
            }
            if let Type::Func(_) = self.m.types[ty] {
                let adt = self.encoding(ty)?;
                let new = self.m.types.intern(Type::Adt(adt, Box::default()));
                self.types.insert(ty, new);
                continue;
            }
            if !expanded {
                stack.push((ty, true));
                let children = self.m.types.children(ty);
                stack.extend(children.into_iter().map(|c| (c, false)));
                continue;
            }
            let all =
                |list: &[TypeId]| -> Vec<TypeId> { list.iter().map(|t| self.types[t]).collect() };
            let new = match &self.m.types[ty] {
                Type::Tuple(fields) => {
                    let fields = all(fields);
                    self.m.types.tuple(fields)
                }
                Type::Adt(adt, args) => {
                    let new = Type::Adt(*adt, all(args).into());
                    self.m.types.intern(new)
                }
                Type::Ref(t) => {
                    let new = Type::Ref(self.types[t]);
                    self.m.types.intern(new)
                }
                _ => ty,
            };
            self.types.insert(ty, new);
        }
        Some(self.types[&root])
    }

    /// Returns the data type that encodes a function type.
    fn encoding(&mut self, ty: TypeId) -> Option<AdtId> {
        if let Some(found) = self.kinds.get(&ty) {
            return Some(found.adt);
        }
        if !plain(self.m, ty) {
            return None;
        }
        let mut n = self.order.len();
        let taken = |m: &Module, n: usize| {
            let name = format!("Func{n}");
            m.adts.values().any(|a| a.name == name.as_str())
        };
        while taken(self.m, n) {
            n += 1;
        }
        let adt = self.m.adts.push(Adt {
            name: Symbol::from(&*format!("Func{n}")),
            params: Vec::new(),
            ctors: Vec::new(),
            opaque: false,
            span: Span::NONE,
            prelude: false,
        });
        let name = fresh_global(self.m, "apply");
        // The function is created at the end, when all clauses are known.
        let nothing = self.m.add(Expr::Error, Span::NONE);
        let empty = self.m.funcs.push(self.literal(Vec::new(), None, nothing));
        let apply = self.m.globals.push(Global {
            name,
            kind: GlobalKind::Func(empty),
            span: Span::NONE,
            prelude: false,
        });
        self.kinds.insert(
            ty,
            Encoding {
                adt,
                apply,
                params: Vec::new(),
                clauses: Vec::new(),
            },
        );
        self.order.push(ty);
        // The arguments' types may be functions themselves, even of this type, by way of data
        // types.
        let Type::Func(f) = self.m.types[ty].clone() else {
            return None;
        };
        let own = self.m.types.intern(Type::Adt(adt, Box::default()));
        self.types.insert(ty, own);
        let mut params = vec![self.m.fresh_var("f", Some(own), VarStyle::Param).0];
        for &arg in &f.args {
            let arg = self.ty(arg)?;
            params.push(self.m.fresh_var("x", Some(arg), VarStyle::Param).0);
        }
        self.ty(f.ret)?;
        self.kinds.get_mut(&ty)?.params = params;
        Some(adt)
    }

    fn literal(&self, params: Vec<VarId>, ret: Option<TypeId>, body: ExprId) -> Function {
        Function {
            type_params: Vec::new(),
            dims: Vec::new(),
            params,
            ret,
            constraints: Vec::new(),
            body,
            attrs: Attrs::new(),
            span: Span::NONE,
        }
    }

    /// Creates the `apply` function of a type.
    fn apply(&mut self, ty: TypeId, encoding: Encoding) -> Result<(), Failure> {
        let Type::Func(f) = self.m.types[ty].clone() else {
            unreachable!("encodings are of function types")
        };
        let ret = self.ty(f.ret).ok_or((Span::NONE, String::new()))?;
        let value = self.m.add(Expr::Var(encoding.params[0]), Span::NONE);
        // A type without values may still be called in unreachable code.
        let complete = !encoding.clauses.is_empty();
        let body = Expr::Match {
            value,
            clauses: encoding.clauses.into(),
            complete,
        };
        let body = self.m.add(body, Span::NONE);
        let function = self.literal(encoding.params, Some(ret), body);
        let func = self.m.funcs.push(function);
        self.m.globals[encoding.apply].kind = GlobalKind::Func(func);
        Ok(())
    }

    fn var(&mut self, old: VarId) -> Result<ExprId, Failure> {
        if let Some(&e) = self.vars.get(&old) {
            return Ok(e);
        }
        let var = self.m.vars[old].clone();
        let known = self.typing.vars[old];
        let ty = match var.ty {
            Some(ty) => Some(ty),
            // The expression that determined the type may move to another function.
            None => plain(self.m, known).then_some(known),
        };
        let ty = match ty {
            Some(ty) => {
                let new = self.ty(ty);
                let why = "its type has parameters, unknowns or dimension variables";
                Some(new.ok_or_else(|| {
                    (
                        var.span,
                        format!("a function cannot become data here: {why}"),
                    )
                })?)
            }
            None => None,
        };
        let (new, e) = self.m.fresh_var(var.name, ty, var.style);
        self.m.vars[new].span = var.span;
        self.vars.insert(old, e);
        Ok(e)
    }
    fn var_id(&mut self, old: VarId) -> Result<VarId, Failure> {
        let e = self.var(old)?;
        match self.m.exprs[e] {
            Expr::Var(v) => Ok(v),
            _ => unreachable!("variables are kept as references"),
        }
    }

    fn signature(&mut self, old: Function, new: ExprId, at: ExprId) -> Result<Function, Failure> {
        let mut params = Vec::with_capacity(old.params.len());
        for &p in &old.params {
            params.push(self.var_id(p)?);
        }
        let ret = match old.ret {
            Some(ret) => {
                let why = "the type of a result has parameters, unknowns or dimension variables";
                Some(self.ty(ret).ok_or_else(|| self.refuse(at, why))?)
            }
            None => None,
        };
        Ok(Function {
            params,
            ret,
            body: new,
            ..old
        })
    }

    fn body(&mut self, body: ExprId) -> Result<ExprId, Failure> {
        let order = (self.m).post_order_within([body], |e| !is_kernel(self.m, e));
        for &e in &order {
            if let Expr::Let { var, value, .. } = self.m.exprs[e] {
                self.let_of.insert(value, var);
            }
        }
        for e in order {
            let leaf = matches!(
                self.m.exprs[e],
                Expr::Var(_) | Expr::Global(_) | Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_)
            );
            // A kernel that is called in place stays there.
            if !leaf && !is_kernel(self.m, e) {
                let new = self.node(e)?;
                self.memo.insert(e, new);
            }
        }
        self.part(body)
    }

    /// Returns the converted form of an operand that is used as a value.
    fn part(&mut self, e: ExprId) -> Result<ExprId, Failure> {
        match self.m.exprs[e] {
            Expr::Var(v) => self.var(v),
            // A tensor program is not a value: `call_tir` names it.
            Expr::Global(g) if matches!(self.m.globals[g].kind, GlobalKind::Prim(_)) => Ok(e),
            Expr::Global(g) => {
                let name = format!("@{}", self.m.globals[g].name);
                self.named(e, self.typing.globals[g], name)
            }
            Expr::Op(op) => {
                let name = relax_ops::registry()
                    .get(op)
                    .map_or("op", |d| d.name)
                    .to_owned();
                self.named(e, self.typing.exprs[e], name)
            }
            Expr::Ctor(c) => {
                let name = self.m.ctors[c].name.to_string();
                self.named(e, self.typing.exprs[e], name)
            }
            Expr::Extern(_) => Err(self.refuse(e, "nothing is known of a packed function")),
            Expr::Func(f) if !self.memo.contains_key(&e) => {
                let new = self.closure(e, f)?;
                self.memo.insert(e, new);
                Ok(new)
            }
            _ => Ok(self.memo[&e]),
        }
    }

    fn node(&mut self, e: ExprId) -> Result<ExprId, Failure> {
        let span = self.m.span(e);
        match self.m.exprs[e].clone() {
            Expr::Func(f) => self.closure(e, f),
            Expr::Let { var, value, body } => {
                let (value, body) = (self.part(value)?, self.part(body)?);
                let var = self.var_id(var)?;
                Ok(self.m.add(Expr::Let { var, value, body }, span))
            }
            Expr::Match {
                value,
                clauses,
                complete,
            } => {
                let value = self.part(value)?;
                let clauses = copied_clauses(self, |w| w.m, &clauses, Self::part, Self::var_id)?;
                let new = Expr::Match {
                    value,
                    clauses,
                    complete,
                };
                Ok(self.m.add(new, span))
            }
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } => {
                let direct = match self.m.exprs[callee] {
                    Expr::Global(_) | Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) => true,
                    _ => is_kernel(self.m, callee),
                };
                let args = self.m.list(args).to_vec();
                let mut new = Vec::with_capacity(args.len() + 1);
                if !direct {
                    new.push(self.part(callee)?);
                }
                for arg in args {
                    new.push(self.part(arg)?);
                }
                let callee = if direct {
                    callee
                } else {
                    let ty = self.typing.exprs[callee];
                    let why = "its type has parameters, unknowns or dimension variables";
                    self.encoding(ty).ok_or_else(|| self.refuse(e, why))?;
                    let apply = self.kinds[&ty].apply;
                    self.m.add(Expr::Global(apply), span)
                };
                // Explicit type arguments may be functions; inference does not need them.
                let type_args = if direct && !matches!(self.m.exprs[callee], Expr::Ctor(_)) {
                    type_args
                } else {
                    0
                };
                let args = self.m.make_list(&new);
                let new = Expr::Call {
                    callee,
                    args,
                    attrs,
                    type_args,
                };
                Ok(self.m.add(new, span))
            }
            _ => {
                let mut parts = Vec::new();
                self.m.for_each_child(e, |c| parts.push(c));
                let mut new = FxHashMap::default();
                for part in parts {
                    let made = self.part(part)?;
                    new.insert(part, made);
                }
                Ok(self.m.map_children(e, |c| new[&c]))
            }
        }
    }
}

/// Returns whether a node is a function literal marked as a kernel without captures, which is kept
/// as a function.
fn is_kernel(m: &Module, e: ExprId) -> bool {
    matches!(m.exprs[e], Expr::Func(f) if is_primitive(&m.funcs[f])) && m.free_vars(e).is_empty()
}
