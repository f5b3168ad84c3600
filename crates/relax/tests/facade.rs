//! The library as its users see it: what goes wrong is said, results outlive programs, threads share one.
#![cfg(feature = "native")]

use relax::{CompileOptions, Error, Module, Program, Tensor, Value};

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
