//! The library from its users' point of view: errors are reported, results outlive programs,
//! threads share a program.
#![cfg(feature = "native")]

use relax::fit::Taking;
use relax::{CompileOptions, DType, Error, Module, Program, Tensor, Value};

/// The program of the README.
mod call {
    include!("readme/call.rs");

    pub fn run() -> Result<(), relax::Error> {
        main()
    }
}

fn compiled(text: &str) -> Program {
    let module = Module::parse(text).expect("it reads");
    module
        .compile(&CompileOptions::default())
        .expect("it compiles")
}

fn floats(n: i64) -> Value {
    let all: Vec<f32> = (0..n).map(|i| i as f32).collect();
    Value::Tensor(Tensor::from_slice(&[n], &all))
}

fn elements(value: &Value) -> &[f32] {
    let Value::Tensor(tensor) = value else {
        panic!("{value:?} is no tensor");
    };
    tensor.slice()
}

#[test]
fn the_program_of_the_readme_runs() {
    let readme = include_str!("../../../README.md");
    assert!(
        readme.contains(include_str!("readme/call.rs")),
        "README.md shows another program"
    );
    call::run().expect("it runs");
}

#[test]
fn large_results_outlive_their_program() {
    let program = compiled("def @main(%x: Tensor[(n,), float32]) { (%x + 1f, %x * 2f) }");
    let results = [program.call(&[floats(5000)]), program.call(&[floats(5000)])];
    drop(program);
    for result in results {
        let Value::Tuple(fields) = &result.expect("it runs") else {
            panic!("a tuple");
        };
        assert_eq!(elements(&fields[0])[4999], 5000.0);
        assert_eq!(elements(&fields[1])[4999], 9998.0);
    }
}

#[test]
fn an_argument_that_is_the_result_is_copied() {
    let program = compiled("def @main(%x: Tensor[(n,), float32]) { %x }");
    let result = program.call(&[floats(5000)]).expect("it runs");
    assert_eq!(elements(&result)[4999], 4999.0);
}

#[test]
fn threads_share_a_program() {
    let program = compiled("def @main(%x: Tensor[(n,), float32]) { exp(%x * 0f) + %x }");
    std::thread::scope(|scope| {
        for n in [3, 2000, 5000] {
            let program = &program;
            scope.spawn(move || {
                for _ in 0..50 {
                    let result = program.call(&[floats(n)]).expect("it runs");
                    assert_eq!(elements(&result)[n as usize - 1], n as f32);
                }
            });
        }
    });
}

#[test]
fn mistakes_have_places() {
    let Err(Error::Invalid(report)) = Module::parse("def @main(%x: int32) {\n  %y\n}") else {
        panic!("%y is nothing");
    };
    let finding = &report.findings()[0];
    assert_eq!((finding.places[0].line, finding.places[0].column), (2, 3));
    assert!(report.to_string().contains("<text>:2:3"), "{report}");

    let mut module = Module::parse("def @main() { 1 }").expect("it reads");
    assert!(matches!(
        module.optimise("no-such-pass"),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        module.evaluate("other", &[]),
        Err(Error::Misused(_))
    ));
    assert!(matches!(
        module.evaluate("main", &[floats(1)]),
        Err(Error::Unfit(..))
    ));

    let program = compiled("def @main(%x: Tensor[(3,), float32]) { %x }");
    let Err(Error::Failed(message, report)) = program.call(&[floats(4)]) else {
        panic!("four are not three");
    };
    assert!(message.contains("should be 3, but is 4"), "{message}");
    assert_eq!(report.findings()[0].places[0].line, 1);
}

#[test]
fn parameters_become_constants() {
    let mut module = Module::parse(
        "def @main(%x: Tensor[(2,), float32], %w: Tensor[(2,), float32]) { %x + %w }",
    )
    .expect("it reads");
    let w = Tensor::from_slice(&[2], &[10f32, 20.0]);
    let bound = module.bind(
        "main",
        vec![("w".to_owned(), w)],
        relax::fit::Taking::default(),
    );
    bound.expect("it fits");
    assert_eq!(module.functions()[0].params.len(), 1);
    let result = module.evaluate("main", &[floats(2)]).expect("it runs");
    assert_eq!(elements(&result), [10.0, 21.0]);
}

/// Builds a list of numbers with the tags of `Cons` and `Nil`.
fn list(numbers: &[f32], cons: u32, nil: u32) -> Value {
    let cell = |rest, &x: &f32| {
        let first = Value::Tensor(Tensor::from_slice(&[], &[x]));
        Value::Adt(cons, vec![first, rest])
    };
    (numbers.iter().rev()).fold(Value::Adt(nil, Vec::new()), cell)
}

#[test]
fn values_are_walked_over_with_their_types() {
    let module = Module::parse(
        "def @main(%l: List[float32], %o: Option[(int32, float32)]) -> List[float32] { %l }",
    )
    .expect("it is right");
    let types = module.types();
    let mut walk = types.walk();
    let of = |i| types.param(0, i).expect("a parameter");
    assert_eq!((walk.data(of(0)), types.param(0, 2)), (Some("List"), None));
    let several = walk.several(of(0)).expect("a list");
    assert_eq!(walk.constructor(of(0), several.some), Some("Cons"));
    assert_eq!(walk.constructor(of(0), several.none), Some("Nil"));
    let fields = walk.fields(of(0), Some(several.some)).expect("two fields");
    assert_eq!(
        walk.tensor(fields[0]).and_then(|t| t.dtype),
        Some(DType::F32)
    );
    let rest = walk
        .fields(fields[1], Some(several.some))
        .expect("the same");
    assert_eq!(walk.tensor(rest[0]), walk.tensor(fields[0]));
    assert!(walk.fields(of(0), None).is_none() && walk.fields(of(0), Some(9)).is_none());
    let option = walk.several(of(1)).expect("an option");
    assert_eq!(walk.fields(option.of, None).map(|f| f.len()), Some(2));
    assert_eq!(types.result(0), Some(of(0)));
    let data = types.data_types();
    let list = data.iter().find(|d| d.name == "List").expect("it is used");
    assert_eq!(list.constructors.len(), 2);
}

#[test]
fn data_goes_into_both_engines() {
    let text = "def @sum(%l: List[float32]) -> float32 {
        match (%l) { Cons(%h, %t) => %h + @sum(%t), Nil => 0f } }
        def @main(%l: List[float32]) -> float32 { @sum(%l) }";
    let module = Module::parse(text).expect("it is right");
    let types = module.types();
    let several = types.param(1, 0).and_then(|ty| types.walk().several(ty));
    let several = several.expect("a list");
    let given = [list(&[1.0, 2.0, 3.5], several.some, several.none)];
    let program = module
        .compile(&CompileOptions::default())
        .expect("it compiles");
    for value in [module.evaluate("main", &given), program.call(&given)] {
        let Ok(Value::Tensor(sum)) = &value else {
            panic!("{value:?}")
        };
        assert_eq!(sum.slice::<f32>(), [6.5]);
    }
    let wrong = [Value::Adt(7, Vec::new())];
    let error = module
        .evaluate("main", &wrong)
        .expect_err("there is no such constructor");
    assert!(
        error.to_string().contains("%l must be List[float32]"),
        "{error}"
    );
}

#[test]
fn modules_come_apart_and_together() {
    let text = "def @main(%x: Tensor[(n, 2), float32], %w: Tensor[(3, 2), float32]) { nn.dense(%x, %w, units=3) }";
    let mut module = Module::parse(text).expect("it is right");
    let before = module.clone();
    let weights = Tensor::from_slice(&[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let bound = module.bind(
        "main",
        vec![("w".into(), weights.clone())],
        Taking::default(),
    );
    bound.expect("it fits");
    assert!(before.structural_equal(&Module::parse(text).expect("it is right")));
    let (text, constants) = module.apart();
    assert_eq!(constants, std::slice::from_ref(&weights));
    let again = Module::together(&text, constants).expect("it is what it was");
    assert!(again.structural_equal(&module));
    assert!(Module::together(&text, vec![weights.clone(), weights]).is_err());
    assert!(Module::together(&text, Vec::new()).is_err());
}

#[test]
fn kernels_have_costs() {
    let module = Module::parse("def @main(%x: Tensor[(64,), float32]) { exp(%x) }");
    let options = CompileOptions {
        profile: true,
        ..CompileOptions::default()
    };
    let program = module
        .and_then(|m| m.compile(&options))
        .expect("it compiles");
    assert!(program.costs().is_empty());
    let x = Value::Tensor(Tensor::zeros(DType::F32, &[64]));
    program.call(&[x]).expect("it runs");
    assert_eq!(program.costs()[0].calls, 1);
}

/// Returns whether every element of an SVG image is closed, in order.
fn well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    let tags = svg
        .split('<')
        .skip(1)
        .map(|t| t.split('>').next().unwrap_or(""));
    for tag in tags {
        let name = |t: &str| t.split([' ', '\n']).next().unwrap_or("").to_owned();
        match tag.strip_prefix('/') {
            Some(end) if open.pop() != Some(name(end)) => return false,
            Some(_) => {}
            None if tag.ends_with('/') => {}
            None => open.push(name(tag)),
        }
    }
    open.is_empty()
}

#[test]
fn functions_have_pictures() {
    let text = "def @main(%x: Tensor[(4,), float32], %p: (bool, List[float32])) {
        let %f = fn (%a: float32) { %a * 2f };
        let %n = match (%p.1) { Cons(%h, _) => %f(%h), Nil => 0f };
        (if (%p.0) { exp(%x) } else { %x }, ref(%n))
    }";
    let module = Module::parse(text).expect("it is right");
    let graph = module.graph(None).expect("there is a function");
    let labels: Vec<&str> = graph.groups.iter().map(|g| g.label.as_str()).collect();
    for label in ["fn", "Cons", "Nil", "then", "else"] {
        assert!(labels.contains(&label), "{label} in {labels:?}");
    }
    assert!(graph.edges.iter().all(|e| e.from < e.to), "{graph:?}");
    assert!(well_formed(&graph.svg()), "{}", graph.svg());
    assert!(module.graph(Some("other")).is_err());
}

#[test]
fn deep_programs_have_pictures() {
    const DEEP: usize = 10_000;
    let chain = format!("{}%x{}", "exp(".repeat(DEEP), ")".repeat(DEEP));
    let tuples = format!("{}%x{}", "(".repeat(DEEP), ",)".repeat(DEEP));
    let branches = format!(
        "{}%x{}",
        "if (%c) { ".repeat(DEEP),
        " } else { %x }".repeat(DEEP)
    );
    for body in [chain, tuples, branches] {
        let text = format!("def @main(%c: bool, %x: Tensor[(4,), float32]) {{ {body} }}");
        let module = Module::parse(&text).expect("it is right");
        let graph = module.graph(None).expect("there is a function");
        assert!(well_formed(&graph.svg()));
        assert!(graph.dot().ends_with("}\n") && graph.mermaid().starts_with("flowchart"));
    }
}

#[test]
fn a_function_that_calls_itself_can_be_given_its_weights() -> Result<(), Error> {
    let mut module = Module::parse(
        "def @main(%steps: int32, %x: Tensor[(n,), float32], %w: Tensor[(1,), float32]) -> Tensor[(n,), float32] {
           if (%steps == 0) { %x } else { @main(%steps - 1, %x * %w, %w) }
         }
         def @twice(%x: Tensor[(n,), float32], %w: Tensor[(1,), float32]) { @main(2, %x, %w) }",
    )?;
    let weight = Tensor::from_slice(&[1], &[3f32]);
    module.bind(
        "main",
        vec![("w".into(), weight.clone())],
        Taking::default(),
    )?;
    let x = Tensor::from_slice(&[2], &[1f32, 2.0]);
    let [steps, x] = [Tensor::from_slice(&[], &[2i32]), x].map(Value::Tensor);
    let mut given = vec![steps, x.clone()];
    let Value::Tensor(y) = &module.evaluate("main", &given)? else {
        panic!()
    };
    assert_eq!(y.slice::<f32>(), [9.0, 18.0]);
    let program = module.compile(&CompileOptions::default())?;
    let Value::Tensor(y) = &program.call_entry("main", &given)? else {
        panic!()
    };
    assert_eq!(y.slice::<f32>(), [9.0, 18.0]);
    // Other threads call it as before.
    given = vec![x, Value::Tensor(weight)];
    let Value::Tensor(y) = &module.evaluate("twice", &given)? else {
        panic!()
    };
    assert_eq!(y.slice::<f32>(), [9.0, 18.0]);
    Ok(())
}

/// Returns the rectangles of a picture: boxes of groups, and nodes.
fn rectangles(svg: &str) -> (Vec<[f64; 4]>, Vec<[f64; 4]>) {
    let number = |tag: &str, name: &str| -> f64 {
        let at = tag.find(&format!(" {name}=\"")).expect("an attribute") + name.len() + 3;
        let text = &tag[at..];
        text[..text.find('"').expect("its end")]
            .parse()
            .expect("a number")
    };
    let (mut groups, mut nodes) = (Vec::new(), Vec::new());
    for tag in svg.split("<rect").skip(1) {
        if tag.contains("100%") {
            continue;
        }
        let (x, y) = (number(tag, "x"), number(tag, "y"));
        let around = [x, y, x + number(tag, "width"), y + number(tag, "height")];
        match tag.contains("fill-opacity") {
            true => groups.push(around),
            false => nodes.push(around),
        }
    }
    (groups, nodes)
}

#[test]
fn boxes_cover_nothing_that_is_not_theirs() {
    let text = "def @main(%x: Tensor[(4, 4), float32], %c: bool, %p: (bool, List[float32])) {
        let %a = exp(%x) + 1f;
        let %b = if (%c) { nn.relu(%a) * exp(%x) } else { if (%p.0) { log(%a) } else { %a - %x } };
        let %n = match (%p.1) { Cons(%h, _) => %h * sum(%a), Nil => 0f };
        (nn.softmax(%b + %a), sqrt(%b), %n, %a)
    }";
    for pipeline in ["infer-type", "infer-type,fuse-ops", "normalize"] {
        let mut module = Module::parse(text).expect("it is right");
        module.optimise(pipeline).expect("passes run");
        let graph = module.graph(None).expect("there is a function");
        let (groups, nodes) = rectangles(&graph.svg());
        assert!(!groups.is_empty(), "{pipeline}");
        let apart =
            |a: &[f64; 4], b: &[f64; 4]| a[2] < b[0] || b[2] < a[0] || a[3] < b[1] || b[3] < a[1];
        let inside = |a: &[f64; 4], b: &[f64; 4]| {
            a[0] >= b[0] && a[1] >= b[1] && a[2] <= b[2] && a[3] <= b[3]
        };
        for (i, a) in groups.iter().enumerate() {
            for b in groups.iter().skip(i + 1).chain(&nodes) {
                assert!(apart(a, b) || inside(b, a) || inside(a, b), "{a:?} {b:?}");
            }
        }
        let held = |g: &[f64; 4]| nodes.iter().filter(|n| inside(n, g)).count();
        assert!(groups.iter().all(|g| held(g) > 0 && held(g) < nodes.len()));
    }
}

#[test]
fn repeated_layers_are_drawn_once() {
    use std::fmt::Write as _;
    let mut text = String::from("def @main(%x: Tensor[(2, 8), float32]");
    for i in 0..12 {
        let _ = write!(
            text,
            ", %w{i}: Tensor[(8, 8), float32], %b{i}: Tensor[(8,), float32]"
        );
    }
    text.push_str(") {\n  let %h0 = exp(%x);\n");
    for i in 0..12 {
        let next = i + 1;
        let _ = writeln!(
            text,
            "  let %h{next} = nn.relu(add(nn.dense(%h{i}, %w{i}, units=8), %b{i})) + %h{i};"
        );
    }
    text.push_str("  sum(%h12)\n}\n");
    for pipeline in ["infer-type", "infer-type,fuse-ops"] {
        let mut module = Module::parse(&text).expect("it is right");
        module.optimise(pipeline).expect("passes run");
        let graph = module.graph(None).expect("there is a function");
        let folded = graph.folded();
        let labels: Vec<&str> = folded.groups.iter().map(|g| g.label.as_str()).collect();
        assert!(
            labels.iter().any(|l| l.ends_with('×')),
            "{pipeline}: {labels:?}"
        );
        let count =
            |g: &relax::picture::Graph| g.nodes.iter().filter(|n| n.label == "nn.dense").count();
        assert_eq!(count(&graph), 12);
        assert!(count(&folded) <= 2, "{pipeline}: {}", folded.dot());
        assert!(folded.nodes.len() < 20, "{}", folded.dot());
        assert!(folded.edges.iter().all(|e| e.from < e.to));
        assert!(well_formed(&folded.svg()));
    }
    // Short or infrequent repetitions are not folded.
    let module = Module::parse("def @main(%x: float32) { exp(exp(exp(%x))) }").expect("right");
    let graph = module.graph(None).expect("there is a function");
    assert_eq!(graph.folded(), graph);
}

#[test]
fn onnx_models_are_computed_with_integers_unless_they_are_kept() {
    let text = "def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(3, 4), int8]) {
      let %q = qnn.quantize(%x, 0.5f, 3, out_dtype=\"uint8\", rounding=\"TOEVEN\");
      let %y = nn.dense(qnn.dequantize(%q, 0.5f, 3), qnn.dequantize(%w, 0.25f, 0), units=3);
      qnn.quantize(%y, 1f, 7, out_dtype=\"uint8\", rounding=\"TOEVEN\")
    }";
    let module = Module::parse(text).expect("it is right");
    let model = module.to_onnx("main").expect("all of it has a form");
    let read = |keep_qdq| {
        let options = relax::ReadOptions {
            keep_qdq,
            ..relax::ReadOptions::default()
        };
        Module::read("model.onnx", model.clone(), options).expect("a model")
    };
    let (integers, kept) = (read(false), read(true));
    let printed = |m: &Module| m.print(relax::Style::Tvm, false);
    let (of_integers, of_kept) = (printed(&integers), printed(&kept));
    assert!(of_integers.contains("qnn.dense"), "{of_integers}");
    assert!(!of_integers.contains("qnn.dequantize"), "{of_integers}");
    assert!(of_kept.contains("nn.dense"), "{of_kept}");
    assert!(of_kept.contains("qnn.dequantize"), "{of_kept}");
    // Both say the same, the way back included.
    let again = integers.to_onnx("main").expect("integers have a form too");
    let again = Module::read("again.onnx", again, relax::ReadOptions::default()).expect("a model");
    let x = Tensor::from_slice(&[2, 4], &[1.0f32, -2.0, 30.0, 4.0, 0.5, 6.0, -70.0, 8.0]);
    let w = Tensor::from_slice(&[3, 4], &[1i8, 2, 3, 4, -5, 6, -7, 8, 90, -100, 110, -120]);
    let values = [Value::Tensor(x), Value::Tensor(w)];
    let run = |m: &Module| m.evaluate("main", &values).expect("it runs");
    let want = run(&kept);
    for module in [&integers, &again] {
        assert_eq!(format!("{:?}", run(module)), format!("{want:?}"));
    }
}
