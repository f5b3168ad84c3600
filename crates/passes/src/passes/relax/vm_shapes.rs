//! `relax-lower-shapes`: extents are computed at run time by TVM's virtual machine, from a
//! function's arguments.
//!
//! Parameters are checked by calls of TVM's runtime (`vm.builtin.match_shape`), which store the
//! values of symbols in a tensor of integers, the shape heap. A program of the module computes the
//! compound extents from them, and shapes in the body are built from the heap. A module that
//! contains casts, programs that still return tensors, or numbers as parameters is lowered as
//! `lower-shapes` does it, with casts.

use std::sync::Arc;

use relax_base::{Diagnostics, Span, Symbol};
use relax_ir::{
    AttrValue, Attrs, DTy, Expr, ExprId, FuncId, Function, Kept, Memo, Module, Shape, TensorType,
    Type, TypeId, VarId, VarStyle,
};
use relax_ops::{Lowering, registry};
use relax_sym::{Atom, Dim, DimVar};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::kept;
use super::results::without_dims;
use super::text::dim_text;
use crate::code::{Bind, Code, Part, Value, each_code, fresh};
use crate::passes::lower_shapes;
use crate::util::called_op;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-lower-shapes",
    doc: "Relax's vm-shape-lower: extents are found in arguments by TVM's runtime.",
    options: lower_shapes::OPTIONS,
    contract: Contract::TYPED,
    run,
}];

/// The actions of `vm.builtin.match_shape` on an extent.
const EQUAL: i64 = 0;
const STORE: i64 = 1;
const NOTHING: i64 = 2;
const EQUAL_TO_STORED: i64 = 3;
/// The sources of an extent for `vm.builtin.make_shape`.
const NUMBER: i64 = 0;
const STORED: i64 = 1;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let m = &*cx.module;
    let mut funcs = m.globals.ids().filter_map(|g| m.global_func(g));
    if m.script.is_none() || !funcs.all(|f| fits(m, &m.funcs[f])) {
        return lower_shapes::run(cx);
    }
    let names: Vec<(FuncId, Symbol)> = (m.globals.iter())
        .filter_map(|(id, g)| Some((m.global_func(id)?, g.name)))
        .collect();
    let mut count = 0;
    each_code(cx.module, |m, func, code| {
        let Some((_, name)) = names.iter().find(|n| n.0 == func) else {
            return false;
        };
        let params = m.funcs[func].params.clone();
        if params.is_empty() {
            return false;
        }
        count += Lower::function(m, *name, func, &params, code);
        true
    });
    cx.count("checks", count);
    Ok(())
}

/// The known type of a parameter or result.
struct Known {
    dtype: Option<DType>,
    dims: Option<Vec<Dim>>,
    rank: Option<usize>,
    shape: bool,
}

impl Known {
    fn of(m: &Module, ty: TypeId) -> Option<Known> {
        let (shape, dtype) = match &m.types[ty] {
            Type::Tensor(t) => (&t.shape, t.dtype.known()),
            Type::Shape(s) => (s, None),
            _ => return None,
        };
        let rank = shape.dims().map(<[Dim]>::len);
        let dims = shape.dims().filter(|d| d.iter().all(Dim::is_known));
        let open = shape.dims().is_none_or(|d| d.iter().all(|d| !d.is_known()));
        (dims.is_some() || open).then(|| Known {
            dtype,
            dims: dims.map(<[Dim]>::to_vec),
            rank,
            shape: matches!(m.types[ty], Type::Shape(_)),
        })
    }

    fn param(m: &Module, p: VarId) -> Option<Known> {
        let scalar = m
            .var_attrs
            .get(&p)
            .is_some_and(|a| a.get("scalar").is_some());
        if scalar {
            return None;
        }
        Known::of(m, m.vars[p].ty?)
    }

    fn annotation(&self, names: &FxHashMap<DimVar, String>) -> String {
        let mut parts = Vec::new();
        if let Some(dims) = &self.dims {
            let texts = dims
                .iter()
                .map(|d| dim_text(d, names, false).unwrap_or_default());
            let list: Vec<String> = texts.collect();
            let comma = if dims.len() == 1 && !self.shape {
                ","
            } else {
                ""
            };
            parts.push(match self.shape {
                true => format!("[{}]", list.join(", ")),
                false => format!("({}{comma})", list.join(", ")),
            });
        }
        if let Some(dtype) = self.dtype {
            parts.push(format!("dtype=\"{dtype}\""));
        }
        if let (None, Some(rank)) = (&self.dims, self.rank) {
            parts.push(format!("ndim={rank}"));
        }
        let kind = if self.shape { "R.Shape" } else { "R.Tensor" };
        match parts.is_empty() {
            true => kind.to_owned(),
            false => format!("{kind}({})", parts.join(", ")),
        }
    }
}

/// Returns whether a function's parameters bind all of its symbols, and it uses them only in
/// shapes.
fn fits(m: &Module, f: &Function) -> bool {
    let params: Option<Vec<Known>> = f.params.iter().map(|&p| Known::param(m, p)).collect();
    let Some(params) = params else {
        return false;
    };
    let dims = params.iter().flat_map(|k| k.dims.iter().flatten());
    let alone: Vec<DimVar> = dims.filter_map(plain).collect();
    if !f.dims.iter().all(|d| alone.contains(d)) {
        return false;
    }
    let symbolic = |e: &ExprId| match &m.exprs[*e] {
        Expr::Shape(dims) => dims.iter().any(|d| d.as_const().is_none()),
        _ => false,
    };
    m.post_order([f.body])
        .into_iter()
        .all(|e| match m.exprs[e] {
            Expr::MatchCast { .. } | Expr::MatchShape { .. } | Expr::Func(_) => false,
            Expr::Call { args, attrs, .. } => {
                let lowering = called_op(m, e).map(|d| d.hooks.lowering);
                let gives = matches!(lowering, Some(Lowering::CallTir | Lowering::CallDpsPacked));
                let number = |a: &AttrValue| match a {
                    AttrValue::Array(all) => all.iter().any(|a| matches!(a, AttrValue::Dim(_))),
                    a => matches!(a, AttrValue::Dim(_)),
                };
                let open = gives && m.list(args).iter().any(symbolic);
                !open && m.attrs(attrs).iter().all(|a| !number(&a.1))
            }
            _ => true,
        })
}

fn plain(d: &Dim) -> Option<DimVar> {
    match d.as_atom() {
        Some(Atom::Var(v)) => Some(v),
        _ => None,
    }
}

/// A function being lowered.
struct Lower {
    name: Symbol,
    heap: VarId,
    /// The extents on the heap: symbols first, then computed ones.
    slots: Vec<Dim>,
    names: FxHashMap<DimVar, String>,
    count: u64,
}

impl Lower {
    /// Lowers a function; returns the number of checks.
    fn function(
        m: &mut Module,
        name: Symbol,
        func: FuncId,
        params: &[VarId],
        code: &mut Code,
    ) -> u64 {
        let known: Vec<Known> = params.iter().filter_map(|&p| Known::param(m, p)).collect();
        let (heap, _) = fresh(m, "shape_heap", None);
        let dims = &m.funcs[func].dims;
        let mut lower = Lower {
            name,
            heap,
            slots: Vec::new(),
            names: (dims.iter().map(|&d| (d, m.dims[d].name.to_string()))).collect(),
            count: 0,
        };
        for k in &known {
            let dims = k.dims.iter().flatten();
            let symbols = dims.filter(|d| plain(d).is_some());
            for d in symbols {
                lower.slot(d);
            }
        }
        let symbols = lower.slots.len();
        let mut binds = Vec::new();
        let mut texts = Vec::with_capacity(known.len());
        for (i, k) in known.iter().enumerate() {
            let text = lower.context(m, Some((i, params[i])), k);
            binds.push(lower.info(m, params[i], k, text.clone()));
            texts.push(text);
        }
        let mut seen = Vec::new();
        for (i, k) in known.iter().enumerate() {
            let how = |l: &mut Lower, d: &Dim| match plain(d) {
                Some(v) if seen.contains(&v) => (EQUAL_TO_STORED, l.slot(d)),
                Some(v) => {
                    seen.push(v);
                    (STORE, l.slot(d))
                }
                None => (NOTHING, 0),
            };
            binds.extend(lower.matched(m, params[i], k, &texts[i], how));
        }
        let behind = lower.body(m, code, symbols);
        let mut late = Vec::new();
        for (i, k) in known.iter().enumerate() {
            let made = |d: &Dim| d.as_const().is_none() && plain(d).is_none();
            if k.dims.iter().flatten().any(made) {
                let how = |l: &mut Lower, d: &Dim| match made(d) {
                    true => (EQUAL_TO_STORED, l.slot(d)),
                    false => (NOTHING, 0),
                };
                late.extend(lower.matched(m, params[i], k, &texts[i], how));
            }
        }
        let result = lower.result(m, func, code, symbols > 0);
        if lower.slots.len() > symbols {
            binds.push(lower.computed(m, symbols));
        }
        binds.extend(late);
        binds.insert(0, lower.heap(m));
        let span = m.funcs[func].span;
        let part = |binds| Part {
            flow: false,
            binds,
            outputs: Vec::new(),
            span,
        };
        code.seqs[0].parts.insert(0, part(binds));
        if let Some(check) = result {
            code.seqs[0].parts.push(part(vec![check]));
        }
        lower.count + behind
    }

    /// Returns the index of an extent on the heap.
    fn slot(&mut self, d: &Dim) -> i64 {
        let at = self.slots.iter().position(|s| s == d);
        at.unwrap_or_else(|| {
            self.slots.push(d.clone());
            self.slots.len() - 1
        }) as i64
    }

    /// Binds the heap, or null if there are no symbols.
    fn heap(&self, m: &mut Module) -> Bind {
        if self.slots.is_empty() {
            let object = m.types.intern(Type::Object);
            m.vars[self.heap].ty = Some(object);
            let null = operator(m, "relax.null_value");
            let null = m.call(null, &[], Span::NONE);
            return Bind::plain(self.heap, null, Span::NONE);
        }
        let ty = m.types.intern(Type::Tensor(TensorType {
            shape: Shape::Dims([Dim::ANY].into()),
            dtype: DTy::Known(DType::I64),
        }));
        m.vars[self.heap].ty = Some(ty);
        let size = value(m, AttrValue::Int(self.slots.len() as i64));
        let args = m.tuple(&[size], Span::NONE);
        let func = AttrValue::Str("vm.builtin.alloc_shape_heap".into());
        let name = ("call_builtin_with_ctx", true);
        let call = kept::typed_call(
            m,
            name,
            &[("args", args)],
            &[("func", func)],
            &[ty],
            Span::NONE,
        );
        Bind::plain(self.heap, call, Span::NONE)
    }

    fn context(&self, m: &Module, param: Option<(usize, VarId)>, k: &Known) -> AttrValue {
        let (name, of) = (self.name, k.annotation(&self.names));
        let at = match param {
            Some((i, p)) => format!("loc=param[{i}], param={}", m.vars[p].name),
            None => "loc=return".to_owned(),
        };
        tagged(
            "R.str",
            &format!("ErrorContext(fn={name}, {at}, annotation={of}) "),
        )
    }

    /// Checks the kind, rank and element type of a parameter.
    fn info(&mut self, m: &mut Module, p: VarId, k: &Known, text: AttrValue) -> Bind {
        let rank = AttrValue::Int(k.rank.map_or(-1, |r| r as i64));
        let arg = m.add(Expr::Var(p), Span::NONE);
        self.count += 1;
        match k.shape {
            true => packed(m, "vm.builtin.check_shape_info", &[arg], &[rank, text]),
            false => {
                let dtype = AttrValue::DType(k.dtype.unwrap_or(DType::VOID));
                packed(
                    m,
                    "vm.builtin.check_tensor_info",
                    &[arg],
                    &[rank, dtype, text],
                )
            }
        }
    }

    /// Checks the extents of a parameter or the result, and stores the symbols' values.
    fn matched(
        &mut self,
        m: &mut Module,
        v: VarId,
        k: &Known,
        text: &AttrValue,
        mut how: impl FnMut(&mut Lower, &Dim) -> (i64, i64),
    ) -> Option<Bind> {
        let dims = k.dims.as_ref()?;
        let mut values = vec![AttrValue::Int(dims.len() as i64)];
        for d in dims {
            let (code, at) = match d.as_const() {
                Some(n) => (EQUAL, n),
                None => how(self, d),
            };
            values.extend([AttrValue::Int(code), AttrValue::Int(at)]);
        }
        values.push(text.clone());
        let arg = m.add(Expr::Var(v), Span::NONE);
        let heap = m.add(Expr::Var(self.heap), Span::NONE);
        self.count += 1;
        Some(packed(m, "vm.builtin.match_shape", &[arg, heap], &values))
    }

    /// Checks the function's result if its type mentions symbols.
    fn result(&mut self, m: &mut Module, func: FuncId, code: &Code, some: bool) -> Option<Bind> {
        let Expr::Var(v) = m.exprs[code.seqs[0].value] else {
            return None;
        };
        let k = Known::of(m, m.funcs[func].ret.filter(|_| some)?)?;
        let symbolic = k.dims.iter().flatten().any(|d| d.as_const().is_none());
        let how = |l: &mut Lower, d: &Dim| (EQUAL_TO_STORED, l.slot(d));
        match symbolic && !m.funcs[func].params.contains(&v) {
            true => {
                let text = self.context(m, None, &k);
                self.matched(m, v, &k, &text, how)
            }
            false => None,
        }
    }

    /// Replaces the shapes in the body by ones built from the heap; returns how many.
    fn body(&mut self, m: &mut Module, code: &mut Code, symbols: usize) -> u64 {
        if symbols == 0 {
            return 0;
        }
        let mut made = 0;
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            for mut b in std::mem::take(&mut part.binds) {
                if let Value::Plain(e) = b.value {
                    let mut before = Vec::new();
                    let new = m.rewrite(e, &mut Memo::default(), |m, new, _| {
                        self.shape(m, new, &mut before).unwrap_or(new)
                    });
                    made += before.len() as u64;
                    part.binds.append(&mut before);
                    b.value = Value::Plain(new);
                }
                // TVM keeps no symbolic information about extents from here on.
                if let Some(ty) = m.vars[b.var].ty {
                    m.vars[b.var].ty = Some(without_dims(m, ty, |_| true));
                }
                part.binds.push(b);
            }
        }
        made
    }

    fn shape(&mut self, m: &mut Module, e: ExprId, before: &mut Vec<Bind>) -> Option<ExprId> {
        let Expr::Shape(dims) = &m.exprs[e] else {
            return None;
        };
        let dims = dims.clone();
        if dims.iter().all(|d| d.as_const().is_some()) {
            return None;
        }
        let mut values = vec![AttrValue::Int(dims.len() as i64)];
        for d in &dims {
            let (code, at) = match d.as_const() {
                Some(n) => (NUMBER, n),
                None => (STORED, self.slot(d)),
            };
            values.extend([AttrValue::Int(code), AttrValue::Int(at)]);
        }
        let open = vec![Dim::ANY; dims.len()];
        let ty = m.types.intern(Type::Shape(Shape::Dims(open.into())));
        let heap = m.add(Expr::Var(self.heap), Span::NONE);
        let call = packed_call(m, "vm.builtin.make_shape", &[heap], &values, ty);
        let (var, at) = fresh(m, "gv", Some(ty));
        before.push(Bind::plain(var, call, m.span(e)));
        Some(at)
    }

    /// Creates the program that computes the compound extents, and its call.
    fn computed(&self, m: &mut Module, symbols: usize) -> Bind {
        let of = |i: usize| format!("H[T.int64({i})]");
        let names: FxHashMap<DimVar, String> = (self.slots.iter().enumerate())
            .filter_map(|(i, d)| Some((plain(d)?, of(i))))
            .collect();
        let (mut name, mut i) = ("shape_func".to_owned(), 0);
        let taken = |m: &Module, name: &str| {
            let text = m.script.as_ref().and_then(|s| s.kept(Symbol::new(name)));
            m.global(name).is_some() || text.is_some()
        };
        while taken(m, &name) {
            i += 1;
            name = format!("shape_func{i}");
        }
        let mut text = format!(
            "@T.prim_func(private=True, s_tir=True)\ndef {name}(H: T.Buffer((T.int64({}),), \"int64\")):\n    \
             T.func_attr({{\"tirx.is_host_func\": True}})",
            self.slots.len()
        );
        for (i, d) in self.slots.iter().enumerate().skip(symbols) {
            let value = dim_text(d, &names, true).unwrap_or_default();
            text.push_str(&format!("\n    {} = {value}", of(i)));
        }
        let name = Symbol::new(&name);
        if let Some(script) = &mut m.script {
            Arc::make_mut(script).kept.push(Kept {
                name,
                text: text.into(),
                symbols: Vec::new(),
                why: "a tensor program that changes what it is given",
                span: Span::NONE,
                program: None,
                inplace: None,
            });
        }
        let callee = m.add(Expr::Extern(name), Span::NONE);
        let heap = m.add(Expr::Var(self.heap), Span::NONE);
        let call = m.call(callee, &[heap], Span::NONE);
        effect(m, call)
    }
}

fn tagged(tag: &str, text: &str) -> AttrValue {
    let text = AttrValue::Str(text.into());
    AttrValue::Dict([(Symbol::new(tag), text)].into_iter().collect())
}

fn operator(m: &mut Module, name: &str) -> ExprId {
    let op = registry().find(name).expect("an operator of Relax");
    m.add(Expr::Op(op), Span::NONE)
}

/// Returns an attribute value as an expression.
fn value(m: &mut Module, value: AttrValue) -> ExprId {
    let callee = operator(m, "relax.value");
    let attrs: Attrs = [(Symbol::new("value"), value)].into_iter().collect();
    m.call_attrs(callee, &[], attrs, Span::NONE)
}

/// Creates a call of a function of TVM's runtime.
fn packed_call(
    m: &mut Module,
    name: &str,
    args: &[ExprId],
    values: &[AttrValue],
    ty: TypeId,
) -> ExprId {
    let mut all = args.to_vec();
    for v in values {
        all.push(value(m, v.clone()));
    }
    let callee = m.add(Expr::Extern(Symbol::new(name)), Span::NONE);
    let (args, type_args) = (m.make_list(&all), m.make_type_args(&[ty]));
    let call = Expr::Call {
        callee,
        args,
        attrs: relax_ir::AttrsId::NONE,
        type_args,
    };
    m.add(call, Span::NONE)
}

/// The same, for a function that is called for its check.
fn packed(m: &mut Module, name: &str, args: &[ExprId], values: &[AttrValue]) -> Bind {
    let unit: TypeId = m.types.tuple(Vec::new());
    let call = packed_call(m, name, args, values, unit);
    effect(m, call)
}

fn effect(m: &mut Module, call: ExprId) -> Bind {
    let unit: TypeId = m.types.tuple(Vec::new());
    let (var, _) = m.fresh_var("_", Some(unit), VarStyle::Effect);
    Bind::plain(var, call, Span::NONE)
}
