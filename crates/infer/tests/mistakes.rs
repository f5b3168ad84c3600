//! Diagnostics about mistakes: one error each, at its location.

mod common;
use common::check;

#[test]
fn both_sides_say_where_they_come_from() {
    let c = check(
        "def @f(%x: Tensor[(3,), float32]) -> Tensor[(3,), float32] { %x }
         def @main(%y: Tensor[(4,), float32]) { @f(exp(%y)) }",
    );
    let d = c.one("RX0301", "exp(%y)");
    assert!(
        d.message.contains("Tensor[(3,), float32]") && d.message.contains("Tensor[(4,), float32]")
    );
    assert!(
        d.labels
            .iter()
            .any(|l| l.text.contains("the parameter `%x`"))
    );
    assert!(
        d.notes
            .iter()
            .any(|n| n.contains("dimension 0 differs: 4 and 3"))
    );
}

#[test]
fn one_mistake_one_error() {
    // Consequences of an error are not reported again; the same operands are not refused twice.
    let c = check(
        "def @main(%x: Tensor[(17, 10), float32], %y: Tensor[(10, 10), float32]) {
           %0 = add(%x, %y);
           %1 = subtract(%x, %y);
           %2 = multiply(%0, %1);
           let %a: Tensor[(1,), float32] = %2;
           (%a, %2.0)
         }",
    );
    c.one("RX0319", "add(%x, %y)");
}

#[test]
fn independent_mistakes_are_all_reported_in_order() {
    let c = check(
        "def @a(%x: float32) { if (%x) { 1 } else { 2 } }
         def @b(%x: float32) { %x.0 }
         def @c(%x: Tensor[(2,), float32]) -> Tensor[(3,), float32] { %x }
         def @d(%x: float32) { %x(1) }",
    );
    assert_eq!(c.codes(), ["RX0304", "RX0308", "RX0305", "RX0307"]);
}

#[test]
fn infinite_types() {
    let c = check("def @main() { let %f = fn (%x) { %x(%x) }; %f }");
    assert_eq!(c.codes(), ["RX0316"]);
}

#[test]
fn impossible_shapes() {
    check("def @f(%x: Tensor[(4611686018427387904, 4), float32]) { %x }");
    let c =
        check("def @f(%x: Tensor[(3037000500, 3037000500), float32]) { concatenate((%x, %x)) }");
    assert_eq!(c.codes(), ["RX0403"]);
}

#[test]
fn coverage() {
    let list = "type List[A] { Cons(A, List[A]), Nil, }\n";
    let m = |clauses: &str| {
        check(&format!(
            "{list}def @f(%l: (List[int32], List[int32])) {{ match (%l) {{ {clauses} }} }}"
        ))
    };
    m("(Cons(_, _), _) => 1, (_, Nil) => 2, (Nil, Cons(_, _)) => 3").fine();
    let c = m("(Nil, _) => 1, (Cons(_, Nil), Nil) => 2");
    let d = &c.diagnostics[0];
    assert_eq!(c.codes(), ["RX0601"]);
    assert!(
        d.message.contains("`(Cons(_, Cons(_, _)), _)`")
            && d.message.contains("`(Cons(_, Nil), Cons(_, _))`"),
        "{}",
        d.message
    );
    let c = m("(_, _) => 1, (Nil, Nil) => 2");
    c.one("RX0602", "(Nil, Nil)");
}

#[test]
fn deep_programs_need_no_stack() {
    // A small stack would overflow at once if anything recursed over the program.
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    let run = || {
        use relax_ir::*;
        let mut m = Module::new();
        let float = m.types.scalar(relax_tensor::DType::F32);
        let (x, mut e) = m.fresh_var("x", Some(float), VarStyle::Param);
        for i in 0..100_000 {
            e = match i % 3 {
                0 => m.tuple(&[e], relax_base::Span::NONE),
                1 => {
                    let (v, use_v) = m.fresh_var("v", None, VarStyle::Let);
                    m.add(
                        Expr::Let {
                            var: v,
                            value: e,
                            body: use_v,
                        },
                        relax_base::Span::NONE,
                    )
                }
                _ => m.add(Expr::Proj { tuple: e, index: 0 }, relax_base::Span::NONE),
            };
            if i % 3 == 2 {
                e = m.tuple(&[e, e], relax_base::Span::NONE);
                e = m.add(Expr::Proj { tuple: e, index: 1 }, relax_base::Span::NONE);
            }
        }
        let f = m.funcs.push(Function {
            type_params: vec![],
            dims: vec![],
            params: vec![x],
            ret: None,
            constraints: vec![],
            body: e,
            attrs: Attrs::new(),
            span: relax_base::Span::NONE,
        });
        m.globals.push(Global {
            name: "main".into(),
            kind: GlobalKind::Func(f),
            span: relax_base::Span::NONE,
            prelude: false,
        });
        let (_, said) = relax_infer::infer(&mut m, &Default::default());
        assert!(!said.has_errors(), "{said:?}");
    };
    small
        .spawn(run)
        .expect("a thread")
        .join()
        .expect("no overflow");
}

#[test]
fn shared_types_are_not_unfolded() {
    // Sixty doublings: 2^60 leaves, sixty-one nodes.
    let mut text = String::from("def @main(%x0, %y0) {\n");
    for i in 0..60 {
        text += &format!(
            "let %x{0} = (%x{i}, %x{i}); let %y{0} = (%y{i}, %y{i});\n",
            i + 1
        );
    }
    text += "if (True) { %x60 } else { %y60 }\n}";
    let c = check(&text).fine();
    assert!(c.ty("main").starts_with("fn [a](a, a) -> "));
}

/// Asserts that a text has one error, about types that grow too large.
fn grows_too_large(text: &str) {
    let c = check(text);
    assert_eq!(c.codes(), ["RX0318"]);
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "reaching the bound takes long without optimisation"
)]
fn types_that_double_along_a_chain_end_in_an_error() {
    // Each function nests its argument twice as deep as the previous one: 2^39 levels.
    let mut text = String::from("def @main(%z: float32) {\nlet %f0 = fn (%x) { (%x, %x) };\n");
    for i in 1..40 {
        let f = i - 1;
        text += &format!("let %f{i} = fn (%x) {{ %f{f}(%f{f}(%x)) }};\n");
    }
    grows_too_large(&(text.clone() + "%f39(%z)\n}"));
    grows_too_large(&(text + "1\n}"));
}

#[test]
fn deep_polymorphism_costs_its_text() {
    // 2^60 leaves, but the type of each pair is shared.
    let mut text = String::from("def @main() {\nlet %f0 = fn (%x, %y) { (%x, %y) };\n");
    for i in 1..60 {
        let f = i - 1;
        text += &format!("let %f{i} = fn (%x, %y) {{ (%f{f}(%x, %y), %f{f}(%y, %x)) }};\n");
    }
    check(&(text + "%f59(1, 2f)\n}")).fine();
    let (open, close) = ("(".repeat(3000), ",)".repeat(3000));
    check(&format!(
        "def @main(%x) {{ let %f = fn (%y) {{ {open}%y{close} }}; %f(%x) }}"
    ))
    .fine();
}

/// Returns `count` functions, each calling the next one, the last one the first.
fn ring(count: usize, function: impl Fn(usize, usize) -> String) -> String {
    (0..count).map(|i| function(i, (i + 1) % count)).collect()
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation")]
fn ten_thousand_mutually_recursive_functions() {
    let text = ring(10_000, |i, next| {
        format!(
            "def @f{i}(%x, %y, %n: int32) {{
               if (%n == 0) {{ (%x, %y) }} else {{ @f{next}(%y, %x, %n - 1) }}
             }}\n"
        )
    });
    check(&text).fine();
    // Around the cycle the argument would contain itself; types that grow on the way are bounded.
    let grows = |i: usize, next: usize| {
        format!(
            "def @f{i}(%x, %n: int32) {{
               if (%n == 0) {{ %x }} else {{ @f{next}((%x, %x), %n - 1).0 }}
             }}\n"
        )
    };
    grows_too_large(&ring(10_000, grows));
}

#[test]
fn a_ring_of_functions_that_nest_their_argument() {
    let text = ring(100, |i, next| {
        format!(
            "def @f{i}(%x, %n: int32) {{
               if (%n == 0) {{ %x }} else {{ @f{next}((%x, %x), %n - 1).0 }}
             }}\n"
        )
    });
    assert_eq!(check(&text).codes(), ["RX0316"]);
}

#[test]
fn dimensions_that_blow_up_end_in_one_error() {
    let chain = |dim: &str| {
        let mut text = format!(
            "def @f(%x: Tensor[(n,), float32]) -> Tensor[({dim},), float32] {{
               zeros(shape({dim}), dtype=\"float32\")
             }}
             def @main(%x0: Tensor[(n,), float32]) {{\n"
        );
        for i in 0..60 {
            text += &format!("%x{} = @f(%x{i});\n", i + 1);
        }
        text + "%x60\n}"
    };
    for dim in ["n * n + n", "n // 2 + n // 3 + n % 5"] {
        let c = check(&chain(dim));
        assert_eq!(c.codes(), ["RX0403"], "{dim}");
        assert!(c.diagnostics[0].message.contains("too large"));
    }
}

#[test]
fn a_thousand_terms() {
    let (terms, params): (Vec<_>, Vec<_>) = (0..1000)
        .map(|i| {
            (
                format!("v{i} * {}", i % 7 + 1),
                format!("%p{i}: Tensor[(v{i},), float32]"),
            )
        })
        .unzip();
    let (params, terms) = (params.join(", "), terms.join(" + "));
    check(&format!(
        "def @main({params}, %x: Tensor[({terms}, 4), float32]) {{
           %twice = reshape(concatenate((%x, %x), axis=0), newshape=[2, -1]);
           add(reshape(%x, newshape=[-1]), %twice)
         }}"
    ))
    .fine();
}
