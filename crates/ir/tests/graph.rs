//! Traversals, scopes, rewriting, copies, equality, verification and compaction on hand-built
//! modules.

use relax_base::{Span, Symbol};
use relax_ir::*;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

const NO: Span = Span::NONE;
const EXP: OpId = OpId(0);
const ADD: OpId = OpId(1);

fn op_name(op: OpId) -> String {
    if op == EXP { "exp" } else { "add" }.into()
}

/// A module builder.
struct Build {
    m: Module,
    exp: ExprId,
    add: ExprId,
}

impl Build {
    fn new() -> Build {
        let mut m = Module::new();
        let (exp, add) = (m.add(Expr::Op(EXP), NO), m.add(Expr::Op(ADD), NO));
        Build { m, exp, add }
    }
    fn exp(&mut self, x: ExprId) -> ExprId {
        self.m.call(self.exp, &[x], NO)
    }
    fn sum(&mut self, x: ExprId, y: ExprId) -> ExprId {
        self.m.call(self.add, &[x, y], NO)
    }
    fn param(&mut self, name: &str) -> (VarId, ExprId) {
        let ty = self.m.types.scalar(DType::F32);
        self.m.fresh_var(name, Some(ty), VarStyle::Param)
    }
    fn bind(&mut self, name: &str, value: ExprId) -> (VarId, ExprId, ExprId) {
        let (v, e) = self.m.fresh_var(name, None, VarStyle::Let);
        (v, e, value)
    }
    fn func(&mut self, params: &[VarId], body: ExprId) -> FuncId {
        self.m.funcs.push(Function {
            type_params: vec![],
            dims: vec![],
            params: params.to_vec(),
            ret: None,
            constraints: vec![],
            body,
            attrs: Attrs::new(),
            span: NO,
        })
    }
    fn main(mut self, params: &[VarId], body: ExprId) -> Module {
        let func = self.func(params, body);
        self.m.globals.push(Global {
            name: Symbol::new("main"),
            kind: GlobalKind::Func(func),
            span: NO,
            prelude: false,
        });
        self.m
    }
}

/// Builds `let %y = exp(%x); add(%y, %y)` with the given names; with `shared`, `exp` is a shared
/// node used twice by the sum instead.
fn sample(x: &str, y: &str, shared: bool) -> Module {
    let mut b = Build::new();
    let (p, px) = b.param(x);
    let value = b.exp(px);
    let body = if shared {
        b.sum(value, value)
    } else {
        let (v, e, value) = b.bind(y, value);
        let body = b.sum(e, e);
        b.m.add(
            Expr::Let {
                var: v,
                value,
                body,
            },
            NO,
        )
    };
    b.main(&[p], body)
}

fn main_body(m: &Module) -> ExprId {
    m.global_bodies()[0].1
}

#[test]
fn names_do_not_matter_and_sharing_does() {
    assert!(structural_equal(
        &sample("x", "y", false),
        &sample("a", "b", false)
    ));
    assert!(!structural_equal(
        &sample("x", "y", false),
        &sample("x", "y", true)
    ));
    let shared = sample("x", "y", true);
    let mut b = Build::new();
    let (p, px) = b.param("x");
    let (first, second) = (b.exp(px), b.exp(px));
    let body = b.sum(first, second);
    let repeated = b.main(&[p], body);
    let difference =
        structural_difference(&shared, &repeated, EqualOptions::default(), &op_name).expect("one");
    assert_eq!(
        difference.to_string(),
        "one side shares a node and the other repeats it\n  in @main\n  at argument 1"
    );
    assert_eq!(
        shared.show_expr(main_body(&shared), &op_name),
        "add(exp(…), exp(…))"
    );
}

#[test]
fn annotations_are_compared_unless_told_otherwise() {
    let left = sample("x", "y", false);
    let mut right = left.clone();
    right.vars[VarId(0)].ty = None;
    let find = |annotations| {
        let options = EqualOptions {
            annotations,
            ..EqualOptions::default()
        };
        structural_difference(&left, &right, options, &op_name)
    };
    let found = find(true).expect("one side has no annotation");
    assert_eq!(found.what, "type of %x: float32 and no annotation");
    assert_eq!(find(false), None);
}

#[test]
fn constants_compare_by_bits() {
    let module = |value: f64| {
        let mut b = Build::new();
        let c = b.m.constant(Tensor::scalar_f64(DType::F32, value), NO);
        let body = b.exp(c);
        b.main(&[], body)
    };
    assert!(structural_equal(&module(f64::NAN), &module(f64::NAN)));
    assert!(!structural_equal(&module(0.0), &module(-0.0)));
}

#[test]
fn a_rewriter_keeps_what_it_does_not_change() {
    let mut m = sample("x", "y", true);
    let body = main_body(&m);
    let same = m.rewrite(body, &mut Memo::default(), |_, new, _| new);
    assert_eq!(same, body);
    // exp becomes exp(exp(…)), once for both users.
    let changed = m.rewrite_globals(|m, new, _| match m.exprs[new] {
        Expr::Call { callee, .. } if m.exprs[callee] == Expr::Op(EXP) => m.call(callee, &[new], NO),
        _ => new,
    });
    assert!(changed);
    let body = main_body(&m);
    let uses = m.use_counts([body]);
    let calls = m
        .post_order([body])
        .into_iter()
        .filter(|&e| matches!(m.exprs[e], Expr::Call { .. }));
    assert_eq!(calls.map(|e| uses[e]).collect::<Vec<_>>(), [1, 2, 0]);
}

#[test]
fn copies_have_their_own_variables() {
    let mut m = sample("x", "y", false);
    let func = m.global_func(GlobalId(0)).expect("a function");
    let copy = m.copy_func(func);
    assert_ne!(m.funcs[copy].params, m.funcs[func].params);
    m.globals.push(Global {
        name: Symbol::new("other"),
        kind: GlobalKind::Func(copy),
        span: NO,
        prelude: false,
    });
    assert_eq!(m.verify(), Ok(()));
    let free = m.free_vars(m.funcs[copy].body);
    assert_eq!(free, m.funcs[copy].params);
}

#[test]
fn substitution_reaches_every_use() {
    let mut m = sample("x", "y", true);
    let body = main_body(&m);
    let c = m.constant(Tensor::scalar_i64(DType::I32, 3), NO);
    let new = m.substitute(
        body,
        &mut Memo::default(),
        &FxHashMap::from_iter([(VarId(0), c)]),
    );
    assert!(m.free_vars(new).is_empty());
    assert_eq!(m.free_vars(body), [VarId(0)]);
}

#[test]
fn shared_nodes_belong_to_the_scope_of_all_users() {
    let mut b = Build::new();
    let (p, px) = b.param("c");
    let (q, qx) = b.param("x");
    let shared = b.exp(qx);
    let inner = b.exp(shared);
    let then = b.sum(shared, inner);
    let otherwise = b.exp(shared);
    let body = b.m.add(
        Expr::If {
            cond: px,
            then,
            otherwise,
        },
        NO,
    );
    let m = b.main(&[p, q], body);
    let scopes = Scopes::new(&m, body);
    assert_eq!(scopes.of(shared), Some(Scopes::ROOT));
    let place = scopes.of(inner).expect("reached");
    assert_eq!(scopes.kind(place), ScopeKind::Then(body));
    assert_eq!(m.verify(), Ok(()));
}

#[test]
fn breaches_are_found() {
    // A variable that is used outside of its `let`.
    let mut b = Build::new();
    let (p, px) = b.param("x");
    let (v, e, value) = b.bind("y", px);
    let inside = b.exp(e);
    let bound = b.m.add(
        Expr::Let {
            var: v,
            value,
            body: inside,
        },
        NO,
    );
    let body = b.sum(bound, e);
    let m = b.main(&[p], body);
    let breach = m.verify().expect_err("%y escapes");
    assert_eq!(breach.invariant, 3);
    // A variable that is bound twice.
    let mut b = Build::new();
    let (p, px) = b.param("x");
    let body = b.exp(px);
    let m = b.main(&[p, p], body);
    assert_eq!(m.verify().expect_err("%x twice").invariant, 3);
    // A cycle.
    let mut m = sample("x", "y", true);
    let body = main_body(&m);
    m.exprs[body] = Expr::RefNew(body);
    assert_eq!(m.verify().expect_err("a cycle").invariant, 2);
}

#[test]
fn compaction_keeps_the_meaning_and_drops_the_rest() {
    let mut m = sample("x", "y", false);
    for _ in 0..10 {
        m.constant(Tensor::zeros(DType::F32, &[100]), NO);
    }
    m.script = Some(Default::default());
    let compacted = m.compact();
    assert_eq!(compacted.module.script, m.script);
    assert!(structural_equal(&m, &compacted.module));
    assert_eq!(compacted.module.consts.len(), 0);
    assert!(compacted.module.exprs.len() < m.exprs.len());
    assert_eq!(compacted.module.verify(), Ok(()));
}

#[test]
fn depth_is_data() {
    let chain = |n: u32| {
        let mut b = Build::new();
        let (p, mut last) = b.param("x");
        let mut links = Vec::new();
        for i in 0..n {
            let value = b.exp(last);
            let (v, e, value) = b.bind(&format!("x{i}"), value);
            links.push((v, value));
            last = e;
        }
        let mut body = last;
        for (var, value) in links.into_iter().rev() {
            body = b.m.add(Expr::Let { var, value, body }, NO);
        }
        // And a chain of the same depth without names.
        for _ in 0..n {
            body = b.exp(body);
        }
        b.main(&[p], body)
    };
    let (mut m, other) = (chain(100_000), chain(100_000));
    assert_eq!(m.verify(), Ok(()));
    assert!(structural_equal(&m, &other));
    assert!(!structural_equal(&m, &chain(99_999)));
    let body = main_body(&m);
    let copy = m.copy_fresh(body);
    assert_eq!(m.free_vars(copy).len(), 1);
    assert!(structural_equal(&m.compact().module, &other));
}
