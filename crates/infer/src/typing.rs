//! The result of inference.

use relax_base::{Diagnostic, Diagnostics, Id, SideTable};
use relax_ir::{
    ConstId, DTy, DimInfo, Expr, ExprId, FuncId, FuncType, GlobalId, IdSet, Module, Shape, Type,
    TypeArena, TypeId, VarId,
};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::flags::{Flags, INFER, PARAM};
use crate::map::{Leaf, Mapper};
use crate::solver::{OPEN, Solver, UNTYPED};
use crate::unknown::Sol;

/// Something that inference could not prove and that the compiled program has to see to.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Where: the check takes place when this expression is evaluated, after its parts.
    pub expr: ExprId,
    /// What.
    pub kind: CheckKind,
}

/// What is checked at run time.
#[derive(Clone, PartialEq, Debug)]
pub enum CheckKind {
    /// The two dimensions are equal.
    Equal(Dim, Dim),
    /// The two dimensions are equal, or one of them is 1.
    Broadcast(Dim, Dim),
    /// The expression's value has this type.
    HasType(TypeId),
    /// The value that a `match_shape` looks at has this shape (a `Shape[…]` type).
    HasShape(TypeId),
}

/// The types of a module, beside its nodes. Nodes that no function reaches have the error type, or after
/// [`infer_again`](crate::infer_again) that which they had when one did.
#[derive(Clone, Debug)]
pub struct Typing {
    /// Of expressions. Operators, constructors and globals that are only called have the error type, or after
    /// [`infer_again`](crate::infer_again) what they had as values: look at the call.
    pub exprs: SideTable<ExprId, TypeId>,
    /// Of variables.
    pub vars: SideTable<VarId, TypeId>,
    /// Of functions: their [`Type::Func`], with what was inferred filled in.
    pub funcs: SideTable<FuncId, TypeId>,
    /// Of globals.
    pub globals: SideTable<GlobalId, TypeId>,
    /// What the compiled program has to check, in order of the expressions.
    pub checks: Vec<Check>,
    /// What stands for the type parameters in each call of a polymorphic function. Shapes stand as
    /// `Shape[…]` types, element types as scalar types.
    pub type_args: FxHashMap<ExprId, Box<[TypeId]>>,
    /// Functions whose evaluation does nothing but give a value.
    pub pure: SideTable<FuncId, bool>,
    pub(crate) notes: Notes,
}

/// What the next inference of the module need not find out again.
#[derive(Clone, Default, Debug)]
pub(crate) struct Notes {
    /// Calls of operators whose type depends on nothing but those of their arguments, and of which there is no more to say.
    pub plain: IdSet,
    /// Facts about the types of the module.
    pub flags: Flags,
}

impl Typing {
    /// The checks at an expression.
    pub fn checks_of(&self, e: ExprId) -> impl Iterator<Item = &Check> {
        let from = self.checks.partition_point(|c| c.expr < e);
        self.checks[from..].iter().take_while(move |c| c.expr == e)
    }
}

pub(crate) struct Outcome {
    pub typing: Typing,
    pub types: TypeArena,
    pub new_dims: Vec<DimInfo>,
    pub literals: Vec<(ConstId, Tensor)>,
    pub diagnostics: Diagnostics,
}

impl Outcome {
    /// Puts into the module what was found about it; the types beside it.
    pub fn into_module(mut self, module: &mut Module) -> (Typing, Diagnostics) {
        module.types = self.types;
        for info in self.new_dims {
            module.dims.push(info);
        }
        for (c, value) in self.literals {
            module.consts[c] = value;
            module.literals.insert(c, false);
        }
        if !module.damage.places.is_empty() {
            let sound = |d: &Diagnostic| !module.damage.covers(d.span());
            let kept = self
                .diagnostics
                .into_iter()
                .filter(sound)
                .collect::<Vec<_>>();
            self.diagnostics = Diagnostics::new();
            self.diagnostics.extend(kept);
        }
        self.diagnostics.sort();
        (self.typing, self.diagnostics)
    }
}

/// Fills in all solutions and puts generalised function types where they belong.
struct Final {
    generalised: bool,
}

impl Mapper for Final {
    fn wants(&self, flags: u8) -> bool {
        flags & INFER != 0 || self.generalised && flags & PARAM != 0
    }
    fn leaf(&mut self, s: &mut Solver<'_>, ty: &Type) -> Leaf {
        match ty {
            Type::Infer(v) => match s.unknowns[v.index()].sol {
                Sol::Type(t) => Leaf::Look(t),
                _ => Leaf::Is(s.error),
            },
            _ => Leaf::Keep,
        }
    }
    fn shape(&mut self, s: &mut Solver<'_>, shape: &Shape) -> Shape {
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
    fn dtype(&mut self, s: &mut Solver<'_>, dtype: DTy) -> DTy {
        match s.head_dtype(dtype) {
            DTy::Infer(_) => DTy::Unknown,
            other => other,
        }
    }
    fn func(&mut self, s: &mut Solver<'_>, f: FuncType) -> FuncType {
        if !self.generalised {
            return f;
        }
        let id = s.types.intern(Type::Func(Box::new(f.clone())));
        match s.quantified.get(&id).map(|&new| &s.types[new]) {
            Some(Type::Func(new)) => (**new).clone(),
            _ => f,
        }
    }
}

/// Ends inference: resolved types in side tables.
pub(crate) fn finish(mut s: Solver<'_>) -> Outcome {
    let mut mapper = Final {
        generalised: !s.quantified.is_empty(),
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
    let mut exprs = std::mem::take(&mut s.expr_ty);
    for &e in &ended {
        // What is only called here may be a value in a function that stays.
        exprs[e.index()] = match exprs[e.index()] {
            UNTYPED => s.known.map_or(s.error, |k| k.exprs[e]),
            t => resolve(&mut s, t),
        };
    }
    let mut vars = std::mem::take(&mut s.var_ty);
    for v in ended_vars {
        vars[v.index()] = resolve(&mut s, vars[v.index()]);
    }
    let mut table = |s: &mut Solver<'_>, list: Vec<TypeId>| -> Vec<TypeId> {
        list.into_iter().map(|t| resolve(s, t)).collect()
    };
    let funcs = std::mem::take(&mut s.func_ty);
    let funcs = table(&mut s, funcs);
    let globals = std::mem::take(&mut s.global_ty);
    let globals = table(&mut s, globals);
    let mut type_args = FxHashMap::default();
    for (e, args) in std::mem::take(&mut s.type_args) {
        let args: Vec<TypeId> = table(&mut s, args.into_vec());
        type_args.insert(e, args.into());
    }
    let mut checks = std::mem::take(&mut s.checks);
    for c in &mut checks {
        if let CheckKind::HasType(t) | CheckKind::HasShape(t) = &mut c.kind {
            *t = table(&mut s, vec![*t])[0];
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
                flags: std::mem::take(&mut s.flags),
            },
        },
        types: s.types,
        new_dims: s.new_dims,
        literals,
        diagnostics: s.diags,
    }
}

/// A literal under another element type; `None` when an integer does not fit.
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

/// A type of a module as text, as in messages: very deep or long ones are cut short.
pub fn show_type(module: &relax_ir::Module, ty: TypeId) -> String {
    let options = crate::InferOptions::default();
    Solver::new(module, module.types.clone(), &options).show_type(ty)
}
