//! The end of inference: resolves all types into side tables.

use relax_base::{Id, SideTable};
use relax_ir::{DTy, Expr, FuncType, Shape, Type, TypeId};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::flags::{INFER, PARAM};
use crate::map::{Leaf, Mapper};
use crate::solver::{OPEN, Solver, UNTYPED};
use crate::typing::{CheckKind, Notes, Outcome, Typing};
use crate::unifier::Unifier;
use crate::unknown::Sol;

/// Substitutes all solutions, and replaces function types that were generalised.
struct Final {
    /// The replacements of function types that were generalised after they were used.
    quantified: FxHashMap<TypeId, TypeId>,
}

impl Mapper for Final {
    fn wants(&self, flags: u8) -> bool {
        flags & INFER != 0 || !self.quantified.is_empty() && flags & PARAM != 0
    }
    fn leaf(&mut self, s: &mut Unifier<'_>, ty: &Type) -> Leaf {
        match ty {
            Type::Infer(v) => match s.unknowns[v.index()].sol {
                Sol::Type(t) => Leaf::Look(t),
                _ => Leaf::Is(s.error),
            },
            _ => Leaf::Keep,
        }
    }
    fn shape(&mut self, s: &mut Unifier<'_>, shape: &Shape) -> Shape {
        match s.resolve_shape(shape) {
            Shape::Infer(_) => Shape::Unknown,
            Shape::Dims(dims) => Shape::Dims(
                dims.iter()
                    .map(|d| if d.has_infer() { Dim::ANY } else { d.clone() })
                    .collect(),
            ),
            other => other,
        }
    }
    fn dtype(&mut self, s: &mut Unifier<'_>, dtype: DTy) -> DTy {
        match s.head_dtype(dtype) {
            DTy::Infer(_) => DTy::Unknown,
            other => other,
        }
    }
    fn func(&mut self, s: &mut Unifier<'_>, f: FuncType) -> FuncType {
        if self.quantified.is_empty() {
            return f;
        }
        let id = s.types.intern(Type::Func(Box::new(f.clone())));
        match self.quantified.get(&id).map(|&new| &s.types[new]) {
            Some(Type::Func(new)) => (**new).clone(),
            _ => f,
        }
    }
}

/// Ends inference: resolves all types into side tables.
pub(crate) fn finish(mut s: Solver<'_>) -> Outcome {
    let mut mapper = Final {
        quantified: std::mem::take(&mut s.quantified),
    };
    let mut memo: FxHashMap<TypeId, TypeId> = FxHashMap::default();
    let mut resolve = |s: &mut Solver<'_>, t: TypeId| {
        if t.0 >= OPEN.0 {
            return s.error;
        }
        if !mapper.wants(s.flags(t)) {
            return t;
        }
        s.map_type_with(t, &mut mapper, &mut memo)
    };
    let (ended, ended_vars) = (s.exprs_to_end(), s.vars_to_end());
    // What the walk did not come by has the type from before: it stands in unchanged functions, or
    // inside of what is settled, or is only a callee here.
    let (known, error) = (s.known, s.error);
    let found = std::mem::take(&mut s.expr_ty);
    let mut exprs = match known {
        Some(known) => known.exprs.first(found.len()),
        None => vec![error; found.len()],
    };
    for e in &ended {
        match found[e.index()] {
            UNTYPED => {}
            t => exprs[e.index()] = resolve(&mut s, t),
        }
    }
    let found = std::mem::take(&mut s.var_ty);
    let mut vars = match known {
        Some(known) => known.vars.first(found.len()),
        None => vec![error; found.len()],
    };
    for v in ended_vars {
        vars[v.index()] = resolve(&mut s, found[v.index()]);
    }
    let mut funcs = std::mem::take(&mut s.func_ty);
    if let Some(known) = known {
        let same = known.funcs.first(funcs.len());
        let untyped = funcs.iter_mut().zip(same).filter(|(t, _)| **t == UNTYPED);
        untyped.for_each(|(t, same)| *t = same);
    }
    for t in &mut funcs {
        *t = resolve(&mut s, *t);
    }
    let mut globals = std::mem::take(&mut s.global_ty);
    for t in &mut globals {
        *t = resolve(&mut s, *t);
    }
    let mut type_args = FxHashMap::default();
    for (e, args) in std::mem::take(&mut s.type_args) {
        let args = args.iter().map(|&t| resolve(&mut s, t)).collect();
        type_args.insert(e, args);
    }
    let mut checks = std::mem::take(&mut s.checks);
    for c in &mut checks {
        if let CheckKind::HasType(t) | CheckKind::HasShape(t) = &mut c.kind {
            *t = resolve(&mut s, *t);
        }
    }
    s.add_what_stays(&mut type_args, &mut checks);
    checks.sort_by_key(|c| c.expr);
    let mut literals = Vec::new();
    for e in ended {
        let t = exprs[e.index()];
        if let Expr::Const(c) = s.m.exprs[e]
            && s.m.literals.get(&c).copied().unwrap_or(false)
            && let Some(dtype) = s.types.as_tensor(t).and_then(|t| t.dtype.known())
            && dtype != s.m.consts[c].dtype()
        {
            match converted(&s.m.consts[c], dtype) {
                Some(value) => literals.push((c, value)),
                None => {
                    let text = s.m.consts[c].get_i64(0);
                    let d = relax_base::Diagnostic::error(
                        crate::codes::LITERAL,
                        s.place(e),
                        format!("{text} does not fit {dtype}, which its context asks for"),
                    );
                    s.report(d);
                }
            }
        }
    }
    let pure = SideTable::from_list(true, std::mem::take(&mut s.purity));
    Outcome {
        typing: Typing {
            exprs: SideTable::from_list(s.error, exprs),
            vars: SideTable::from_list(s.error, vars),
            funcs: SideTable::from_list(s.error, funcs),
            globals: SideTable::from_list(s.error, globals),
            checks,
            type_args,
            pure,
            notes: Notes {
                plain: std::mem::take(&mut s.plain),
                whole: std::mem::take(&mut s.whole),
                flags: std::mem::take(&mut s.flags),
                answers: std::mem::take(&mut s.relation_cache.answers),
            },
        },
        types: s.unifier.types,
        new_dims: s.unifier.new_dims,
        literals,
        diagnostics: s.diags,
    }
}

/// Converts a literal to another element type; `None` if an integer does not fit.
fn converted(value: &Tensor, dtype: DType) -> Option<Tensor> {
    let mut out = Tensor::zeros(dtype, value.shape());
    for i in 0..value.len() {
        if value.dtype().is_float() {
            out.set_f64(i, value.get_f64(i));
        } else {
            let v = value.get_i64(i);
            match dtype.int_range() {
                Some((least, most)) if !(least..=most).contains(&i128::from(v)) => return None,
                Some(_) => out.set_i64(i, v),
                None => out.set_f64(i, v as f64),
            }
        }
    }
    Some(out)
}

/// Formats a module's type as in messages: very deep or long types are truncated.
pub fn show_type(module: &relax_ir::Module, ty: TypeId) -> String {
    let options = crate::InferOptions::default();
    Solver::new(module, module.types.clone(), &options).show_type(ty)
}
