//! `legalize`: replaces operators and fused groups by tensor programs, called by `call_tir`.
//!
//! Each call of an operator whose result extents are known before it runs (constants, or
//! expressions over dimensions in scope) becomes a `call_tir` of the program that the operator's
//! entry builds; equal calls share a program. Other operators are left alone: those whose extents
//! depend on data allocate their results themselves, as the RFC specifies, and some programs are
//! not expressible as loop nests of the text.
//!
//! Native code is generated from the same programs whether this pass has run or not: see "Lowering"
//! in `ARCHITECTURE.md`.

use std::sync::Arc;

use relax_base::{Diagnostics, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, FuncId, Global, GlobalId, GlobalKind, Memo, Module, OpId,
    Shape, Type, TypeId,
};
use relax_loops::Program;
use relax_ops::{Lowering, registry};
use relax_programs::{Call, Operator, group};
use relax_sym::{Dim, DimVar};
use relax_tensor::Tensor;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::scope::dims_in_scope;
use crate::util::{is_primitive, outside_primitives};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "legalize",
    doc: "Turns operators and fused groups into tensor programs, called by call_tir.",
    options: &[
        OptionDef {
            name: "max-constant",
            ty: OptionType::Int,
            default: "4096",
            doc: "constants of at most so many elements may be looked at by computations",
        },
        OptionDef {
            name: "only",
            ty: OptionType::Text,
            default: "",
            doc: "the operators that become programs, separated by spaces; empty for all, and fused groups",
        },
    ],
    contract: Contract::TYPED.reorders(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let limit = cx.options.int("max-constant") as usize;
    let names = cx.options.text("only").split_whitespace();
    let only: FxHashSet<OpId> = names.filter_map(|n| registry().find(n)).collect();
    let Some(call_tir) = registry()
        .iter()
        .find(|(_, d)| d.hooks.lowering == Lowering::CallTir)
        .map(|(id, _)| id)
    else {
        return Ok(());
    };
    let m = &mut *cx.module;
    let mut work = Legalizer {
        typing: &typing,
        limit,
        only,
        call_tir: m.add(Expr::Op(call_tir), relax_base::Span::NONE),
        names: m.globals.values().map(|g| g.name).collect(),
        known: FxHashMap::default(),
        fused: FxHashMap::default(),
        count: 0,
    };
    for (global, body) in m.global_bodies() {
        let func = m.global_func(global).expect("it has a body");
        if is_primitive(&m.funcs[func]) {
            continue;
        }
        let scope = dims_in_scope(m, &typing, func, body);
        // A fused group is lowered to one program as a whole.
        let order = outside_primitives(m, body);
        // Only what has another node; most functions call no operators that become programs.
        let mut memo = Memo::default();
        let mut some = false;
        for old in order {
            if matches!(m.exprs[old], Expr::Func(f) if is_primitive(&m.funcs[f])) {
                continue;
            }
            let mut new = old;
            if some {
                new = m.map_children(old, |c| memo.get(&c).copied().unwrap_or(c));
            }
            new = work.call(m, old, new, &scope).unwrap_or(new);
            if new != old {
                some = true;
                memo.insert(old, new);
            }
        }
        m.set_global_body(global, memo.get(&body).copied().unwrap_or(body));
    }
    let count = work.count;
    cx.count("calls legalized", count);
    Ok(())
}

/// The constants that a program was built for, by argument, and the program.
type Known = (Vec<Option<Tensor>>, GlobalId);

struct Legalizer<'t> {
    typing: &'t Typing,
    limit: usize,
    /// The operators to legalize; empty for all.
    only: FxHashSet<OpId>,
    /// The operator, as an expression.
    call_tir: ExprId,
    names: FxHashSet<Symbol>,
    /// Programs of operators, by a key of everything that they depend on.
    known: FxHashMap<String, Vec<Known>>,
    fused: FxHashMap<FuncId, Option<GlobalId>>,
    count: u64,
}

impl Legalizer<'_> {
    /// Returns the replacement of a call, given `new` over rewritten arguments; `None` to leave it.
    fn call(
        &mut self,
        m: &mut Module,
        old: ExprId,
        new: ExprId,
        scope: &FxHashSet<DimVar>,
    ) -> Option<ExprId> {
        let Expr::Call { callee, args, .. } = m.exprs[old] else {
            return None;
        };
        let wanted =
            |m: &Module| matches!(m.exprs[callee], Expr::Op(op) if self.only.contains(&op));
        if !self.only.is_empty() && !wanted(m) {
            return None;
        }
        let out = self.typing.exprs[old];
        if out.0 as usize >= m.types.len() {
            return None;
        }
        let shapes = extents(m, out, scope)?;
        let olds = m.list(args).to_vec();
        let program = match m.exprs[callee] {
            Expr::Op(_) => self.operator(m, old)?,
            Expr::Func(f) if is_primitive(&m.funcs[f]) => self.group(m, f)?,
            Expr::Global(g) => match m.globals[g].kind {
                GlobalKind::Func(f) if is_primitive(&m.funcs[f]) => self.group(m, f)?,
                _ => return None,
            },
            _ => return None,
        };
        let span = m.span(old);
        let Expr::Call { args, .. } = m.exprs[new] else {
            return None;
        };
        let news = m.list(args).to_vec();
        let mut inputs = Vec::new();
        for (o, n) in olds.iter().zip(&news) {
            fields(m, self.type_of(m, *o), *n, &mut inputs);
        }
        let inputs = m.tuple(&inputs, span);
        let mut dtypes = Vec::new();
        let mut wanted = Vec::new();
        for (dims, dtype) in shapes {
            wanted.push(m.add(Expr::Shape(dims), span));
            dtypes.push(AttrValue::DType(dtype));
        }
        let single = matches!(m.types[out], Type::Tensor(_));
        let (shape, dtype) = match (&wanted[..], &dtypes[..]) {
            ([one], [dtype]) if single => (*one, dtype.clone()),
            _ => (m.tuple(&wanted, span), AttrValue::Array(dtypes.into())),
        };
        let callee = m.add(Expr::Global(program), span);
        let mut attrs = Attrs::new();
        attrs.set("dtype", dtype);
        self.count += 1;
        Some(m.call_attrs(self.call_tir, &[callee, inputs, shape], attrs, span))
    }

    fn type_of(&self, m: &Module, e: ExprId) -> TypeId {
        self.typing.type_of(m, e)
    }

    /// Returns the program of an operator's call.
    fn operator(&mut self, m: &mut Module, at: ExprId) -> Option<GlobalId> {
        let call = Call::find(m, self.typing, at, self.limit)?;
        if matches!(call.op, Operator::BuiltIn(def) if !def.hooks.computable()) {
            return None;
        }
        // If no program can be built, code generation reports the reason.
        let made = call.program().ok()?;
        let (key, name) = (call.key(), call.op.name().to_owned());
        let values = if made.by_value {
            call.consts
        } else {
            Vec::new()
        };
        if let Some(same) = self.known.get(&key)
            && let Some((_, g)) = same.iter().find(|(v, _)| *v == values)
        {
            return Some(*g);
        }
        let g = self.define(m, name, made.program)?;
        self.known.entry(key).or_default().push((values, g));
        Some(g)
    }

    /// Returns the program of a fused group.
    fn group(&mut self, m: &mut Module, f: FuncId) -> Option<GlobalId> {
        if let Some(known) = self.fused.get(&f) {
            return *known;
        }
        let made = group::program(m, self.typing, f).ok();
        let made = made.filter(|(program, _)| bound(program));
        let global = made.and_then(|(program, _)| self.define(m, "fused".to_owned(), program));
        self.fused.insert(f, global);
        global
    }

    /// Adds a tensor program to the module.
    fn define(&mut self, m: &mut Module, wish: String, mut program: Program) -> Option<GlobalId> {
        open_outputs(&mut program);
        // A computation may be invalid for the call's element types (the bits of a float, say).
        if !printable(&program) || !relax_loops::verify(&program).problems.is_empty() {
            return None;
        }
        let clean: String = wish
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let mut name = Symbol::new(&format!("tir_{clean}"));
        let mut k = 0;
        while !self.names.insert(name) {
            k += 1;
            name = Symbol::new(&format!("tir_{clean}{k}"));
        }
        // Profiles and run-time errors use this name.
        program.name = name;
        let span = program.span;
        Some(m.globals.push(Global {
            name,
            kind: GlobalKind::Prim(Arc::new(program)),
            span,
            prelude: false,
        }))
    }
}

/// Makes extents of outputs that are not plain arithmetic (of two operands that broadcast, say)
/// separate dimensions: the caller allocates the outputs and so determines their extents.
fn open_outputs(program: &mut Program) {
    for o in program.outputs.clone() {
        let mut shape = program.bufs[o].shape.clone();
        for (axis, extent) in shape.iter_mut().enumerate() {
            if !plain(extent) {
                let name = format!("{}_d{axis}", program.bufs[o].name);
                let (var, dim) = program.fresh(&name, relax_tensor::DType::I64);
                program.dims.push(var);
                *extent = dim;
            }
        }
        program.bufs[o].shape = shape;
    }
}

/// Returns whether each dimension is an extent of an input or output. A group may have others,
/// between its stages.
pub(super) fn bound(program: &Program) -> bool {
    let mut known: FxHashSet<relax_loops::Var> = FxHashSet::default();
    for b in program.inputs.iter().chain(&program.outputs) {
        known.extend(
            program.bufs[*b]
                .shape
                .iter()
                .filter_map(|e| match e.kind() {
                    relax_loops::ExKind::Var(v) => Some(*v),
                    _ => None,
                }),
        );
    }
    program.dims.iter().all(|d| known.contains(d))
}

/// Returns whether an extent is arithmetic on dimensions.
fn plain(extent: &relax_loops::Ex) -> bool {
    use relax_loops::ExKind;
    let mut plain = true;
    relax_loops::visit_expr(extent, |e| {
        plain &= !matches!(e.kind(), ExKind::Load(..) | ExKind::Select(..));
    });
    plain
}

/// Returns whether the program can be printed as text: extents are arithmetic on dimensions.
fn printable(program: &Program) -> bool {
    program.bufs.values().all(|b| b.shape.iter().all(plain))
}

/// Returns the extents and element type of each tensor of a type: a tensor, or a tuple of tensors.
fn extents(
    m: &Module,
    ty: TypeId,
    scope: &FxHashSet<DimVar>,
) -> Option<Vec<(Box<[Dim]>, relax_tensor::DType)>> {
    let all = match &m.types[ty] {
        Type::Tuple(fields) => fields.to_vec(),
        _ => vec![ty],
    };
    let one = |t: &TypeId| match &m.types[*t] {
        Type::Tensor(t) => {
            let (Shape::Dims(dims), Some(dtype)) = (&t.shape, t.dtype.known()) else {
                return None;
            };
            let known = |d: &Dim| d.is_known() && d.free_vars().iter().all(|v| scope.contains(v));
            dims.iter().all(known).then(|| (dims.clone(), dtype))
        }
        _ => None,
    };
    all.iter().map(one).collect()
}

/// Collects the tensors of a value, with tuples flattened.
fn fields(m: &mut Module, ty: TypeId, value: ExprId, out: &mut Vec<ExprId>) {
    let mut work = vec![(ty, value)];
    while let Some((ty, value)) = work.pop() {
        let Type::Tuple(types) = m.types[ty].clone() else {
            out.push(value);
            continue;
        };
        let span = m.span(value);
        let parts: Vec<ExprId> = match m.exprs[value] {
            Expr::Tuple(list) => m.list(list).to_vec(),
            _ => (0..types.len() as u32)
                .map(|index| {
                    m.add(
                        Expr::Proj {
                            tuple: value,
                            index,
                        },
                        span,
                    )
                })
                .collect(),
        };
        work.extend(types.iter().copied().zip(parts).rev());
    }
}
