//! The inferred types of programs.

mod common;
use common::check;
use relax_infer::CheckKind;

#[test]
fn operators_by_their_relations() {
    let c = check(
        "def @f(%x: Tensor[(2, 1, 3), float32], %y: Tensor[(4, 1), float32]) { add(%x, exp(%y)) }",
    )
    .fine();
    assert_eq!(
        c.ty("f"),
        "fn (Tensor[(2, 1, 3), float32], Tensor[(4, 1), float32]) -> Tensor[(2, 4, 3), float32]"
    );
}

#[test]
fn literals_follow_their_context() {
    let c = check(
        "def @f(%x: Tensor[(3,), float16]) { %x + 1 }
         def @g() { (1, 1.5) }
         def @h(%x: int64) { if (%x == 0) { 1 } else { %x } }",
    )
    .fine();
    assert_eq!(
        c.ty("f"),
        "fn (Tensor[(3,), float16]) -> Tensor[(3,), float16]"
    );
    assert!(c.ty("g").starts_with("fn () -> (int32, float"));
    assert_eq!(c.ty("h"), "fn (int64) -> int64");
    // The constants themselves are converted, so that later stages need not know.
    let all = c.module.exprs.iter().filter_map(|(e, x)| match x {
        relax_ir::Expr::Const(k) => Some((e, *k)),
        _ => None,
    });
    for (e, k) in all {
        let t = c
            .module
            .types
            .as_tensor(c.typing.exprs[e])
            .expect("a tensor");
        assert_eq!(t.dtype.known(), Some(c.module.consts[k].dtype()));
    }
}

#[test]
fn functions_without_annotations_are_generalised() {
    let c = check(
        "def @id(%x) { %x }
         def @use() { (@id(1), @id(True)) }
         def @sum(%x, %y) { add(%x, %y) }
         def @three(%x, %y, %z) { add(add(%x, %y), %z) }
         def @apply(%f, %x) { %f(%x) }
         def @give() { fn (%x, %y) { add(%x, %y) } }
         def @main(%a: Tensor[(2, 1), float32], %b: Tensor[(3,), float32]) { @sum(%a, %b) }",
    )
    .fine();
    assert_eq!(c.ty("id"), "fn [a](a) -> a");
    assert_eq!(c.ty("use"), "fn () -> (int32, bool)");
    assert_eq!(c.ty("sum"), "fn [a, b, c](a, b) -> c where Broadcast");
    assert!(
        c.ty("three").ends_with("where Broadcast, Broadcast"),
        "{}",
        c.ty("three")
    );
    assert_eq!(c.ty("apply"), "fn [a, b](fn (a) -> b, a) -> b");
    assert_eq!(
        c.ty("give"),
        "fn () -> fn [a, b, c](a, b) -> c where Broadcast"
    );
    assert!(c.ty("main").ends_with("-> Tensor[(2, 3), float32]"));
}

#[test]
fn let_bound_functions() {
    // Different uses make it polymorphic; uses that agree give it one type, as in TVM.
    let c = check(
        "def @poly() { let %f = fn (%x) { %x }; (%f(1), %f(True)) }
         def @mono(%a: Tensor[(3,), float32]) { let %f = fn (%x, %y) { add(%x, %y) }; (%f(%a, 1), %f(%a, 2)) }
         def @rec(%n: int32) -> int32 {
           let %f = fn (%i) { if (%i == 0) { 1 } else { %i * %f(%i - 1) } };
           %f(%n)
         }",
    )
    .fine();
    assert_eq!(c.ty("poly"), "fn () -> (int32, bool)");
    let f = c.module.vars.iter().filter(|(_, v)| v.name == "f");
    let types: Vec<String> = f
        .map(|(id, _)| relax_infer::show_type(&c.module, c.typing.vars[id]))
        .collect();
    assert_eq!(
        types,
        [
            "fn [a](a) -> a",
            "fn (Tensor[(3,), float32], float32) -> Tensor[(3,), float32]",
            "fn (int32) -> int32"
        ]
    );
}

#[test]
fn recursion() {
    let c = check(
        "def @even(%n: int32) { if (%n == 0) { True } else { @odd(%n - 1) } }
         def @odd(%n: int32) { if (%n == 0) { False } else { @even(%n - 1) } }
         type List[A] { Cons(A, List[A]), Nil, }
         def @len[A](%l: List[A]) -> int32 { match (%l) { Cons(_, %t) => 1 + @len(%t), Nil => 0 } }
         def @main() { @len(Cons(1, Cons(2, Nil))) }",
    )
    .fine();
    assert_eq!(c.ty("even"), "fn (int32) -> bool");
    assert_eq!(c.ty("len"), "fn [A](List[A]) -> int32");
    assert_eq!(c.ty("main"), "fn () -> int32");
}

#[test]
fn recursion_at_another_shape_is_checked() {
    // The recursive call gives `2 * n` elements where `n` are needed: equal only if there are none,
    // so an error.
    let c = check(
        "def @f(%x: Tensor[(n,), float32], %c: bool) {
           if (%c) { %x } else { @f(concatenate((%x, %x)), %c) }
         }",
    );
    assert_eq!(c.codes(), ["RX0315"]);
    let c = check(
        "def @f(%x: Tensor[(n,), float32], %c: bool) {
           if (%c) { %x } else { @f(concatenate((%x, zeros(shape=[1], dtype=\"float32\"))), %c) }
         }",
    );
    assert_eq!(c.codes(), ["RX0315"]);
}

#[test]
fn symbolic_shapes() {
    let c = check(
        "def @there(%x: Tensor[(n, 4), float32]) -> Tensor[(n * 4,), float32] { reshape(%x, newshape=[n * 4]) }
         def @back(%x: Tensor[(n * 4,), float32]) -> Tensor[(n, 4), float32] { reshape(%x, newshape=[n, 4]) }
         def @both(%x: Tensor[(m, 4), float32]) { @back(@there(%x)) }
         def @known() { @there(zeros(shape=[5, 4], dtype=\"float32\")) }
         def @join(%x: Tensor[(n, 3), float32], %y: Tensor[(m, 3), float32]) { concatenate((%x, %y)) }
         def @one(%x: Tensor[(n, 1), float32], %y: Tensor[(m,), float32]) { add(%x, %y) }",
    )
    .fine();
    assert!(
        c.ty("both").ends_with("-> Tensor[(m, 4), float32]"),
        "{}",
        c.ty("both")
    );
    assert!(
        c.ty("known").ends_with("-> Tensor[(20,), float32]"),
        "{}",
        c.ty("known")
    );
    assert!(
        c.ty("join").ends_with("-> Tensor[(n + m, 3), float32]"),
        "{}",
        c.ty("join")
    );
    assert!(
        c.ty("one").ends_with("-> Tensor[(n, m), float32]"),
        "{}",
        c.ty("one")
    );
}

#[test]
fn what_is_not_decided_becomes_a_check() {
    let text = "def @f(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) { add(%x, %y) }";
    let c = check(text);
    c.one("RX0402", "add(%x, %y)");
    assert!(!c.diagnostics[0].is_error());
    assert!(matches!(&c.typing.checks[..], [k] if matches!(k.kind, CheckKind::Broadcast(..))));
    let strict = relax_infer::InferOptions {
        strict_shapes: true,
    };
    assert!(common::check_with(text, &strict).diagnostics[0].is_error());
}

#[test]
fn a_multiple_is_divided() {
    let c = check(
        "def @f(%x: Tensor[(3 * n,), float32]) -> Tensor[(n, 3), float32] { reshape(%x, newshape=[n, 3]) }
         def @a(%x: Tensor[(12,), float32]) { @f(%x) }
         def @b(%x: Tensor[(q,), float32]) { @f(%x) }",
    );
    assert!(c.ty("a").ends_with("-> Tensor[(4, 3), float32]"));
    assert!(
        c.ty("b").ends_with("-> Tensor[(q // 3, 3), float32]"),
        "{}",
        c.ty("b")
    );
    assert_eq!(c.codes(), ["RX0402"]);
    let no = check(
        "def @f(%x: Tensor[(3 * n,), float32]) -> float32 { 1f }
         def @a(%x: Tensor[(13,), float32]) { @f(%x) }",
    );
    no.one("RX0301", "%x");
}

#[test]
fn relax_bindings() {
    let c = check(
        "def @f(%x: Tensor[(n, 2, 2), float32]) {
           dataflow {
             %a: Tensor[(n * 4,), float32] = reshape(%x, newshape=[n * 4]);
             %s: Shape = call_packed(\"shapes\", shape(n * 4), pure=True);
             %b = call_dps_packed(\"g\", (%a,), %s, dtype=float32);
             %c = match_shape(%b, (m,));
             %d = exp(%c);
             output(%d);
           };
           %d
         }",
    )
    .fine();
    // `m` is bound inside: outside, nothing is known about it.
    assert_eq!(
        c.ty("f"),
        "fn (Tensor[(n, 2, 2), float32]) -> Tensor[(?,), float32]"
    );
    assert!(
        c.typing
            .checks
            .iter()
            .any(|k| matches!(k.kind, CheckKind::HasShape(_)))
    );
}

#[test]
fn matches_bind_dimensions_to_what_is_known() {
    let c = check(
        "def @f(%x: Tensor[(n, 8), float32]) { %y = match_shape(%x, (a, b)); reshape(%y, newshape=[a * 8]) }",
    )
    .fine();
    assert_eq!(
        c.ty("f"),
        "fn (Tensor[(n, 8), float32]) -> Tensor[(n * 8,), float32]"
    );
}

#[test]
fn tensor_programs() {
    let program = "prim_func @mm(%A: Buffer[(m, n), float32], %B: Buffer[(n, k), float32], %C: Buffer[(m, k), float32]) {
           for %i, %j in grid(m, k) { %C[%i, %j] = 0f; }
         }\n";
    let f = |call: &str| {
        format!(
            "{program}def @f(%x: Tensor[(a, b), float32], %y: Tensor[(b, 7), float32]) {{ {call} }}"
        )
    };
    let c = check(&f("call_tir(@mm, (%x, %y), shape(a, 7), dtype=float32)")).fine();
    assert!(c.ty("f").ends_with("-> Tensor[(a, 7), float32]"));
    check(&f("call_tir(@mm, (%y, %y), shape(b, 7), dtype=float32)")).one(
        "RX0402",
        "call_tir(@mm, (%y, %y), shape(b, 7), dtype=float32)",
    );
    check(&f("call_tir(@mm, (%x, %y), shape(a, 7), dtype=int32)")).one("RX0319", "shape(a, 7)");
    check(&f("call_tir(@mm, (%x,), shape(a, 7), dtype=float32)"))
        .one("RX0319", "call_tir(@mm, (%x,), shape(a, 7), dtype=float32)");
    check(&f("@mm(%x, %y)")).one("RX0322", "@mm(%x, %y)");
}

#[test]
fn relations_of_the_text_format() {
    let c = check(
        "rel Flatten(Tensor[(d, *rest), t]) -> Tensor[(d, prod(rest)), t];
         def @f[a, b](%x: a) -> b where Flatten { %r }
         def @g(%x: Tensor[(2, 3, n), int8]) { @h(%x) }
         def @h[a, b](%x: a) -> b where Flatten { @h(%x) }"
            .replace("def @f[a, b](%x: a) -> b where Flatten { %r }\n", "")
            .as_str(),
    )
    .fine();
    assert!(
        c.ty("g").ends_with("-> Tensor[(2, n * 3), int8]"),
        "{}",
        c.ty("g")
    );
}
