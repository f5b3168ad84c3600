//! Language semantics in the reference evaluator.

use relax_base::{BoxError, Diagnostic, SourceMap};
use relax_infer::{InferOptions, Typing, infer};
use relax_interp::{Interp, Packed, Value};
use relax_ir::Module;
use relax_resolve::Options;
use relax_tensor::{DType, Tensor};

fn read(text: &str) -> (Module, Typing) {
    let mut sources = SourceMap::new();
    let file = sources.add("test.relay", text.to_owned()).expect("small");
    let parsed = relax_syntax::parse(&file);
    let errors = |all: &relax_base::Diagnostics| {
        all.iter()
            .filter(|d| d.is_error())
            .map(|d| d.message.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(errors(&parsed.diagnostics), [""; 0]);
    let (mut module, diagnostics) = relax_resolve::resolve(&parsed.ast, &file, &Options::default());
    assert_eq!(errors(&diagnostics), [""; 0]);
    let (typing, diagnostics) = infer(&mut module, &InferOptions::default());
    assert_eq!(errors(&diagnostics), [""; 0]);
    (module, typing)
}

fn try_run(text: &str, inputs: &[Tensor]) -> Result<Value, Diagnostic> {
    let (module, typing) = read(text);
    let main = module
        .expression
        .or(module.global("main"))
        .expect("an entry");
    let inputs = inputs.iter().cloned().map(Value::from).collect();
    Interp::new(&module, &typing).run(main, inputs)
}

fn run(text: &str, inputs: &[Tensor]) -> Vec<f64> {
    let value = try_run(text, inputs).expect("it runs");
    let tensors = value.flatten().expect("tensors");
    tensors
        .iter()
        .flat_map(|t| (0..t.len()).map(|i| t.get_f64(i)))
        .collect()
}

fn f32s(shape: &[i64], v: &[f32]) -> Tensor {
    Tensor::from_slice(shape, v)
}

const LIST: &str = "type List[A] { Cons(A, List[A]), Nil, }\n";

#[test]
fn tuples_lets_and_graphs() {
    let text = "def @main(%x: Tensor[(2), float32]) {
        %0 = add(%x, %x);
        let %t = (%0, multiply(%0, %0));
        add(%t.0, %t.1)
    }";
    assert_eq!(run(text, &[f32s(&[2], &[1.0, 2.0])]), [6.0, 20.0]);
}

#[test]
fn closures_capture_values_and_each_other() {
    let text = "def @main(%x: int32, %y: int32) {
        let %f = fn (%a: int32) { fn (%b: int32) { fn (%c: int32) { %a * 100 + %b * 10 + %c + %x } } };
        let %g = %f(1);
        let %h = %g(%y);
        %h(3)
    }";
    let i = |v| Tensor::scalar_i64(DType::I32, v);
    assert_eq!(run(text, &[i(1000), i(2)]), [1123.0]);
}

#[test]
fn lists_and_higher_order_functions() {
    let text = format!(
        "{LIST}
        def @map[A, B](%f: fn(A) -> B, %l: List[A]) -> List[B] {{
            match (%l) {{ Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil, }}
        }}
        def @fold[A, B](%f: fn(B, A) -> B, %z: B, %l: List[A]) -> B {{
            match (%l) {{ Cons(%h, %t) => @fold(%f, %f(%z, %h), %t), Nil => %z, }}
        }}
        def @main(%k: int32) {{
            let %l = @map(fn (%v: int32) -> int32 {{ %v * %k }}, Cons(1, Cons(2, Cons(3, Nil))));
            @fold(fn (%a: int32, %b: int32) -> int32 {{ %a * 10 + %b }}, 0, %l)
        }}"
    );
    assert_eq!(run(&text, &[Tensor::scalar_i64(DType::I32, 2)]), [246.0]);
}

#[test]
fn deep_recursion_and_deep_values_need_no_stack() {
    // A list of 200,000 cells, built by non-tail calls, folded by tail calls.
    let text = format!(
        "{LIST}
        def @make(%n: int32) -> List[int32] {{
            if (%n == 0) {{ Nil }} else {{ Cons(%n, @make(%n - 1)) }}
        }}
        def @sum(%l: List[int32], %s: int32) -> int32 {{
            match (%l) {{ Cons(%h, %t) => @sum(%t, %s + 1), Nil => %s, }}
        }}
        def @main(%n: int32) {{ @sum(@make(%n), 0) }}"
    );
    assert_eq!(
        run(&text, &[Tensor::scalar_i64(DType::I32, 200_000)]),
        [200_000.0]
    );
}

#[test]
fn recursion_by_let_and_tail_calls() {
    let text = "def @main(%n: int32) {
        let %loop = fn (%i: int32, %s: int32) -> int32 {
            if (%i == 0) { %s } else { %loop(%i - 1, %s + %i) }
        };
        %loop(%n, 0)
    }";
    assert_eq!(
        run(text, &[Tensor::scalar_i64(DType::I32, 1000)]),
        [500_500.0]
    );
}

#[test]
fn references_change() {
    let text = "def @main(%x: int32) {
        let %r = ref(%x);
        let %u = ref_write(%r, add(ref_read(%r), 1));
        let %v = ref_write(%r, multiply(ref_read(%r), 10));
        ref_read(%r)
    }";
    assert_eq!(run(text, &[Tensor::scalar_i64(DType::I32, 4)]), [50.0]);
}

#[test]
fn a_shared_node_is_evaluated_once() {
    let text = "def @main(%x: int32) {
        let %r = ref(%x);
        let %bump = fn () { let %u = ref_write(%r, add(ref_read(%r), 1)); ref_read(%r) };
        %0 = %bump();
        let %sum = add(%0, %0);
        (%sum, ref_read(%r))
    }";
    assert_eq!(run(text, &[Tensor::scalar_i64(DType::I32, 1)]), [4.0, 2.0]);
}

#[test]
fn nested_patterns_fall_through() {
    let text = format!(
        "{LIST}
        def @f(%l: List[(int32, int32)]) -> int32 {{
            match (%l) {{
                Cons((%a, _), Cons((_, %b), Nil)) => %a * 10 + %b,
                Cons((%a, %b), _) => %a + %b,
                Nil => 0,
            }}
        }}
        def @main() {{
            (@f(Cons((1, 2), Cons((3, 4), Nil))), @f(Cons((1, 2), Nil)), @f(Nil))
        }}"
    );
    assert_eq!(run(&text, &[]), [14.0, 3.0, 0.0]);
}

#[test]
fn an_incomplete_match_says_what_it_met() {
    let text = format!(
        "{LIST}
        def @main() {{
            let %l: List[int32] = Nil;
            match? (%l) {{ Cons(%h, _) => %h, }}
        }}"
    );
    let error = try_run(&text, &[]).expect_err("no clause fits");
    assert_eq!(error.code, relax_interp::codes::NO_MATCH);
    assert_eq!(
        error.message,
        "no clause of this match fits a value made by Nil"
    );
}

#[test]
fn symbolic_dimensions_take_their_values_from_arguments() {
    let text = "def @main(%x: Tensor[(n, m), float32], %y: Tensor[(m,), float32]) { add(%x, %y) }";
    let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        run(text, &[x.clone(), f32s(&[2], &[10.0, 20.0])]),
        [11.0, 22.0, 13.0, 24.0]
    );
    let error = try_run(text, &[x, f32s(&[3], &[0.0; 3])]).expect_err("m is two things");
    assert_eq!(error.code, relax_interp::codes::DIMENSION);
    assert_eq!(
        error.message,
        "argument %y of @main: axis 0, m, should be 2, but is 3"
    );
}

#[test]
fn match_cast_checks_at_run_time() {
    let text = "def @main(%x: Tensor[_, float32]) {
        %y = match_cast(%x, Tensor[(a, a), float32]);
        %y
    }";
    assert_eq!(run(text, &[f32s(&[1, 1], &[5.0])]), [5.0]);
    let error = try_run(text, &[f32s(&[1, 2], &[5.0, 6.0])]).expect_err("not square");
    assert_eq!(error.code, relax_interp::codes::DIMENSION);
    assert_eq!(error.message, "axis 1, a, should be 1, but is 2");
    let error = try_run(text, &[f32s(&[2], &[5.0, 6.0])]).expect_err("another rank");
    assert_eq!(error.code, relax_interp::codes::TYPE);
}

#[test]
fn tensor_programs_and_shapes() {
    let text = "prim_func @exp1(%X: Buffer[(k,), float32], %Y: Buffer[(k,), float32]) {
            for %i in grid(k) { %Y[%i] = %X[%i] + 1.0; }
        }
        def @main(%x: Tensor[(n, m), float32]) {
            %s = match_shape(%x, (a, b));
            %lv1 = reshape(%x, newshape=[-1]);
            %gv = call_tir(@exp1, (%lv1,), shape(a * b), dtype=float32);
            %gv
        }";
    assert_eq!(run(text, &[f32s(&[2, 1], &[1.0, 2.0])]), [2.0, 3.0]);
}

/// Doubles in place; copies twice.
struct Functions;

impl Packed for Functions {
    fn call(&mut self, name: &str, args: &mut [Value]) -> Result<Value, BoxError> {
        let Some(Value::Tensor(t)) = args.first() else {
            return Err("no tensor".into());
        };
        let mut new = (**t).clone();
        new.slice_mut::<f32>().iter_mut().for_each(|v| *v *= 2.0);
        args[0] = new.into();
        if name == "double" {
            Ok(Value::tuple(vec![]))
        } else {
            Err(format!("{name}?").into())
        }
    }
    fn call_dps(&mut self, _: &str, args: &[Tensor], outs: &mut [Tensor]) -> Result<(), BoxError> {
        let half = args[0].len();
        outs[0].slice_mut::<f32>()[..half].copy_from_slice(args[0].slice::<f32>());
        outs[0].slice_mut::<f32>()[half..].copy_from_slice(args[0].slice::<f32>());
        Ok(())
    }
}

#[test]
fn packed_functions_update_in_place_and_write_outputs() {
    let text = "def @main(%x: Tensor[(n,), float32]) {
            %y = add(%x, %x);
            call_packed(\"double\", %y);
            %z = call_dps_packed(\"twice\", (%y,), shape(n * 2), dtype=float32);
            %z
        }";
    let (module, typing) = read(text);
    let main = module.global("main").expect("main");
    let mut interp = Interp::new(&module, &typing).with_packed(Functions);
    let value = interp
        .run(main, vec![f32s(&[2], &[1.0, 3.0]).into()])
        .expect("it runs");
    assert_eq!(
        value.as_tensor().map(|t| t.slice::<f32>().to_vec()),
        Some(vec![4.0, 12.0, 4.0, 12.0])
    );
    let error = Interp::new(&module, &typing).run(main, vec![f32s(&[1], &[1.0]).into()]);
    assert_eq!(
        error.expect_err("nothing registered").code,
        relax_interp::codes::PACKED
    );
}

#[test]
fn wrong_arguments_are_refused() {
    let text = "def @main(%x: Tensor[(2), float32]) { %x }";
    let count = try_run(text, &[]).expect_err("one is missing");
    assert_eq!(count.message, "@main takes 1 arguments, got 0");
    let dtype = try_run(text, &[Tensor::from_slice(&[2], &[1i32, 2])]).expect_err("integers");
    assert_eq!(dtype.code, relax_interp::codes::TYPE);
}

#[test]
fn deep_texts_run() {
    let lets: String = (1..20_000)
        .map(|i| format!("let %x{i} = add(%x{}, %x0);\n", i - 1))
        .collect();
    let text = format!("def @main(%x0: int32) {{ {lets} %x19999 }}");
    assert_eq!(run(&text, &[Tensor::scalar_i64(DType::I32, 1)]), [20_000.0]);
}
