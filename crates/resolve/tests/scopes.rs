//! Resolution of names.

mod common;

use common::{call, errors, function, good};
use relax_ir::{Expr, Type, VarStyle};

#[test]
fn locals_shadow() {
    let m = good("def @main(%x: float32) { let %y = exp(%x); let %x = tanh(%y); add(%x, %y) }");
    let f = function(&m, "main");
    let Expr::Let {
        var: y,
        value,
        body,
    } = m.exprs[f.body]
    else {
        panic!()
    };
    let (_, args) = call(&m, value);
    assert_eq!(m.exprs[args[0]], Expr::Var(f.params[0]));
    let Expr::Let { var: x, body, .. } = m.exprs[body] else {
        panic!()
    };
    let (_, args) = call(&m, body);
    assert_eq!(m.exprs[args[0]], Expr::Var(x));
    assert_eq!(m.exprs[args[1]], Expr::Var(y));
}

#[test]
fn a_let_is_in_scope_in_its_value_only_when_that_is_a_function() {
    good("def @main() { let %f = fn (%n: int32) { %f(%n) }; %f(1) }");
    let all = errors("def @main() { let %f = exp(%f); %f }");
    assert_eq!(all, ["RX0201 1:28 there is no variable `%f` here"]);
}

#[test]
fn graph_bindings_are_shared_nodes_and_leave_their_scope() {
    let m = good(
        "def @main(%c: bool, %x: float32) {
           %1 = if (%c) { %0 = exp(%x); add(%0, %0) } else { tanh(%0) };
           %1
         }",
    );
    let Expr::If {
        then, otherwise, ..
    } = m.exprs[function(&m, "main").body]
    else {
        panic!()
    };
    let (_, sum) = call(&m, then);
    assert_eq!(sum[0], sum[1]);
    assert_eq!(call(&m, otherwise).1[0], sum[0]);
    let all = errors("def @main(%x: float32) { %0 = exp(%x); add(%0, %7) }");
    assert_eq!(
        all,
        ["RX0206 1:48 `%7` has not been bound before this place"]
    );
}

#[test]
fn patterns_and_branches_are_scopes() {
    let text = "type Box[A] { Full(A), Empty, }
def @main(%b: Box[int32]) { match (%b) { Full(%v) => %v, Empty => 0, } }";
    let m = good(text);
    assert_eq!(m.ctors.len(), 2);
    let all = errors(&text.replace("Empty => 0", "Empty => %v"));
    assert_eq!(all, ["RX0201 2:67 there is no variable `%v` here"]);
}

#[test]
fn dataflow_shows_its_outputs_only() {
    let text = "def @main(%x: Tensor[(n, 4), float32]) {
  dataflow {
    %a = exp(%x);
    %s = match_shape(%a, (k, 4));
    output(%a);
  };
  %z = shape(k * 2);
  %a
}";
    let m = good(text);
    let block = m.blocks.values().next().expect("a block");
    assert_eq!((block.bindings.len(), block.outputs.len()), (2, 1));
    let all = errors(&text.replace("%a\n}", "%s\n}"));
    assert_eq!(all.len(), 1);
    assert!(
        all[0].starts_with("RX0201 8:3 there is no variable `%s` here"),
        "{all:?}"
    );
    let all = errors(
        &text
            .replace("output(%a)", "output(%x)")
            .replace("%a\n}", "%x\n}"),
    );
    assert_eq!(
        all,
        ["RX0216 5:12 `%x` is not bound in this dataflow block"]
    );
}

#[test]
fn dimensions_are_bound_in_signatures() {
    let m = good("def @main(%x: Tensor[(n, m), float32], %y: Tensor[(m,), float32]) { %x }");
    assert_eq!(function(&m, "main").dims.len(), 2);
    let all =
        errors("def @f(%x: Tensor[(n,), float32]) { let %y: Tensor[(k,), float32] = %x; %y }");
    assert_eq!(all, ["RX0410 1:53 there is no dimension variable `k` here"]);
}

#[test]
fn globals_are_known_before_their_place() {
    good("def @a() { @b() } def @b() { @a() }");
    let all = errors("def @a() { @boxx() } def @box() { 1 } def @box() { 2 }");
    assert_eq!(
        all,
        [
            "RX0202 1:12 there is no global `@boxx` -> @box",
            "RX0205 1:43 `@box` is defined twice"
        ]
    );
}

#[test]
fn free_variables_are_the_parameters_of_an_expression() {
    let m = good("free_var %x: float32;\nadd(%x, add(%y, %y))");
    let main = m.globals[m.expression.expect("an expression")].name;
    let f = function(&m, main.as_str());
    assert_eq!(f.params.len(), 2);
    assert!(f.params.iter().all(|&p| m.vars[p].style == VarStyle::Free));
    let all = errors("add(%y, %y)");
    assert_eq!(
        all,
        ["RX0207 1:5 `%y` is not declared; it is taken as a free variable"]
    );
}

#[test]
fn dimensions_of_free_variables_are_the_expressions_own() {
    let m = good(
        "free_var %x: Tensor[(n, 4), float32];
%y = match_shape(%x, (k, 4));
shape(n, k)",
    );
    let main = m.globals[m.expression.expect("an expression")].name;
    let dims = &function(&m, main.as_str()).dims;
    assert_eq!(dims.len(), 1);
    assert_eq!(m.dims[dims[0]].name, "n");
}

#[test]
fn kinds_are_checked() {
    let m = good("fn <s: Shape, t: BaseType>(%x: Tensor[s, t]) { %x }");
    assert!(
        m.vars
            .values()
            .any(|v| v.ty.is_some_and(|t| matches!(m.types[t], Type::Tensor(_))))
    );
    let all = errors("fn [s](%x: Tensor[s, float32]) { %x }");
    assert_eq!(
        all,
        ["RX0310 1:19 `s` has kind Type and cannot stand for a shape"]
    );
    let all = errors("fn [s: Shap](%x: s) { %x }");
    assert_eq!(all, ["RX0310 1:5 there is no kind `Shap` -> Shape"]);
}

#[test]
fn function_types_have_scopes_of_their_own() {
    let m = good("def @f(%g: fn [A](A, Tensor[(k,), float32]) -> A) { %g }");
    assert!(function(&m, "f").dims.is_empty());
    assert!(function(&m, "f").type_params.is_empty());
    let ty = m.vars[function(&m, "f").params[0]].ty.expect("annotated");
    let Type::Func(f) = &m.types[ty] else {
        panic!()
    };
    assert_eq!((f.params.len(), f.dims.len(), f.args.len()), (1, 1, 2));
}
