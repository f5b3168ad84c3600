//! Impurity: which bindings have side effects, for passes over code in Relax's form.
//!
//! A function has the effects that it declares and those that inference finds in it; functions of
//! Relay declare none. Functions that are passed as values are trusted to have none, as their types
//! say in Relax, unless something in the module has effects that no type mentions: then a function
//! that calls one has any effect, too.

use relax_base::{Diagnostics, SideTable};
use relax_infer::may_have_effects;
use relax_ir::{AttrValue, Attrs, Expr, ExprId, FuncId, GlobalId, Module, VarId};
use relax_ops::Effects;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::PassCx;
use crate::code::{Bind, Code, Value, is_flat};
use crate::util::says_impure;

/// What is known of a module's effects. Recorded by global, since functions get new bodies one after
/// the other.
#[derive(Debug)]
pub(crate) struct Impurity {
    globals: FxHashSet<GlobalId>,
    /// The functions whose calls have no effects; `None` if nothing has effects.
    pure: Option<SideTable<FuncId, bool>>,
}

impl Impurity {
    /// Finds the effects of a module's functions.
    ///
    /// # Errors
    /// Those of inference, for a module with effects.
    pub fn of(cx: &mut PassCx<'_>) -> Result<Impurity, Diagnostics> {
        let pure = match may_have_effects(cx.module) {
            true => Some(pure_functions(cx)?),
            false => None,
        };
        let mut this = Impurity {
            globals: FxHashSet::default(),
            pure,
        };
        let m = &*cx.module;
        let impure = |g: &GlobalId| m.global_func(*g).is_none_or(|f| this.function(m, f));
        this.globals = m.globals.ids().filter(impure).collect();
        Ok(this)
    }

    /// Returns whether calling a function literal has effects.
    pub fn function(&self, m: &Module, f: FuncId) -> bool {
        says_impure(&m.funcs[f]) || self.pure.as_ref().is_some_and(|pure| !pure[f])
    }

    /// Returns which variables of a body are bound to functions, and whether calling them has
    /// effects.
    pub fn closures(&self, m: &Module, code: &Code) -> FxHashMap<VarId, bool> {
        let function = |b: &Bind| match b.value {
            Value::Func { func, .. } => Some((b.var, self.function(m, func))),
            _ => None,
        };
        code.binds().filter_map(function).collect()
    }

    /// Returns whether evaluating a binding's value, but for its branches, has side effects, given
    /// the closures of the body.
    pub fn bind(&self, m: &Module, b: &Bind, closures: &FxHashMap<VarId, bool>) -> bool {
        let (Value::Plain(e) | Value::If { cond: e, .. }) = b.value else {
            return false;
        };
        let own = |e: ExprId| match m.exprs[e] {
            Expr::Call { callee, attrs, .. } => self.call(m, callee, m.attrs(attrs), closures),
            Expr::RefNew(_) | Expr::RefRead(_) | Expr::RefWrite(..) => true,
            _ => false,
        };
        if is_flat(m, e) {
            return own(e);
        }
        m.post_order_within([e], |e| !matches!(m.exprs[e], Expr::Func(_)))
            .into_iter()
            .any(own)
    }

    fn call(
        &self,
        m: &Module,
        callee: ExprId,
        attrs: &Attrs,
        closures: &FxHashMap<VarId, bool>,
    ) -> bool {
        match m.exprs[callee] {
            Expr::Op(op) => relax_ops::registry()
                .get(op)
                .is_none_or(|d| d.effects != Effects::Pure),
            Expr::Extern(_) => attrs.get("pure").and_then(AttrValue::as_bool) != Some(true),
            Expr::Global(g) => self.globals.contains(&g),
            Expr::Ctor(_) => false,
            Expr::Func(f) => self.function(m, f),
            Expr::Var(v) if closures.contains_key(&v) => closures[&v],
            _ => self.pure.is_some(),
        }
    }
}

/// Returns the functions that have no effects when called, and call none that may have some.
fn pure_functions(cx: &mut PassCx<'_>) -> Result<SideTable<FuncId, bool>, Diagnostics> {
    let typing = cx.typing()?;
    let mut pure = SideTable::with_default(false);
    for (global, body, purity) in cx.bodies_with_purity()? {
        let m = &*cx.module;
        let func = m.global_func(global).expect("it has a body");
        pure.set(func, typing.pure[func] && purity.eval(body));
        for e in m.post_order([body]) {
            if let Expr::Func(f) = m.exprs[e] {
                pure.set(f, typing.pure[f] && purity.call(e));
            }
        }
    }
    Ok(pure)
}
