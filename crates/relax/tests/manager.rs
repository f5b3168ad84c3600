//! The pass manager: caching of analyses, results independent of the number of threads, rejected
//! passes.

use relax::{PassConfig, Pipeline, ReadOptions, Session, Silent, Style, run_pipeline};
use relax_ir::{Expr, GlobalKind, Module};
use relax_passes::{
    Contract, Form, Found, Options, Outcome, PassDef, PassRun, Step, codes, each_block,
};
use relax_testkit::{Features, program};

fn read(text: &str) -> (Session, Module) {
    let mut session = Session::new(ReadOptions::default());
    let (module, errors) = session.read("test", text.as_bytes().to_vec());
    assert!(!errors.has_errors(), "{text}");
    (session, module)
}

/// Returns the number of type inferences during a pipeline.
fn inferred(text: &str, pipeline: &str) -> usize {
    let (mut session, mut module) = read(text);
    let pipeline = session.pipeline(pipeline).expect("a pipeline");
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    assert!(outcome.failure.is_none());
    outcome.found.types
}

const NOTHING_TO_DO: &str = "def @main(%x: Tensor[(2,), float32]) { tanh(%x) }";

#[test]
fn types_are_found_once_while_the_module_stays() {
    let passes = "infer-type,fold-constant,eliminate-common-subexpr,dead-code-elimination";
    assert_eq!(inferred(NOTHING_TO_DO, passes), 1);
}

#[test]
fn types_are_found_again_after_a_change() {
    let text = "def @main(%x: Tensor[(2,), float32]) { add(%x, add(1f, 2f)) }";
    // The first pass changes the module, the others do not.
    let passes = "fold-constant,eliminate-common-subexpr,dead-code-elimination";
    assert_eq!(inferred(text, passes), 2);
    assert_eq!(inferred(text, "fold-constant,fuse-ops,infer-type"), 3);
}

/// Returns the result of a pipeline with `n` threads, either function by function where a pass
/// allows it, or on all functions at once.
fn with_threads(n: usize, shares: bool, text: &str, pipeline: &str) -> String {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build();
    pool.expect("threads").install(|| {
        let (mut session, mut module) = read(text);
        let pipeline = session.pipeline(pipeline).expect("a pipeline");
        let config = PassConfig {
            parallel_from: if shares { 0 } else { usize::MAX },
            check_preserved: true,
            ..PassConfig::default()
        };
        let outcome = run_pipeline(&pipeline, &mut module, &config, &mut Silent);
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        relax::print(
            &module,
            Style::Pretty,
            outcome
                .typing
                .as_deref()
                .map(|typing| relax::TypedModule {
                    module: &module,
                    typing,
                })
                .as_ref()
                .map(|t| t as &dyn relax::TypeSource),
        )
    })
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut texts: Vec<String> = (0..8).map(|s| program(s, &Features::ALL).text).collect();
    let one = |i: usize| {
        format!(
            "def @f{i}(%x: Tensor[({}, 4), float32]) {{ add(tanh(exp(%x)), sqrt(%x)) }}\n",
            i + 1
        )
    };
    texts.push((0..64).map(one).collect());
    for text in texts {
        for pipeline in ["O3", "fuse-ops,legalize,plan-memory"] {
            let alone = with_threads(1, false, &text, pipeline);
            for n in [1, 2, 7] {
                assert_eq!(alone, with_threads(n, true, &text, pipeline), "{n} threads");
            }
        }
    }
}

#[test]
fn passes_over_each_function_make_the_same_of_it_among_others_and_alone() {
    let mut texts: Vec<String> = (20..32).map(|s| program(s, &Features::ALL).text).collect();
    texts.push(
        "def @f(%x: Tensor[(2, 2), float32], %c: bool) {
           let %r = ref(%x);
           let %y = if (%c) { nn.relu(%x) } else { add(%x, add(1f, 2f)) };
           ref_write(%r, %y);
           add(ref_read(%r), nn.bias_add(%y, ones(shape=[2], dtype=\"float32\")))
         }
         def @g(%x: Tensor[(2, 2), float32]) { let %u = @f(%x, True); let %v = exp(%x); (%v, exp(%x)) }
         def @h(%x: Tensor[(2, 2), float32]) { let %u = @g(%x); tanh(cast(cast(%x, dtype=\"float64\"), dtype=\"float32\")) }
         def @k(%x: Tensor[(2, 2), float32]) { let %unused = @g(%x); let %gone = exp(%x); divide(%x, 4f) }
        "
        .into(),
    );
    let each: Vec<&str> = (relax_passes::all().iter())
        .filter(|p| p.contract.each_function)
        .map(|p| p.name)
        .collect();
    assert!(each.len() > 15, "{each:?}");
    for text in &texts {
        for pass in &each {
            let at_once = with_threads(1, false, text, pass);
            assert_eq!(
                at_once,
                with_threads(3, true, text, pass),
                "{pass} on\n{text}"
            );
        }
    }
}

#[test]
fn what_is_known_of_functions_that_stay_is_kept() {
    // Only @f has dead code; @g and @h are unchanged.
    let text = "def @f(%x: float32) { let %y = exp(%x); %x }
                def @g(%x: float32) { let %y = exp(%x); %y }
                def @h(%x: float32) { let %y = @g(%x); tanh(%y) }";
    let (mut session, mut module) = read(text);
    let passes = "dead-code-elimination,infer-type,dead-code-elimination,eliminate-common-subexpr";
    let pipeline = session.pipeline(passes).expect("a pipeline");
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    assert!(outcome.failure.is_none());
    // Effects are computed once, as the pass declares that it preserves them. The second run of the
    // pass has nothing to do. Types are inferred before and after it, and for all functions by
    // `infer-type`, which reports all warnings.
    assert_eq!((outcome.found.types, outcome.found.effects), (3, 1));
    assert_eq!(outcome.found.of_functions, 3);
    let (mut session, mut module) = read(text);
    let pipeline = session.pipeline("dead-code-elimination,to-graph-normal-form");
    let pipeline = pipeline.expect("a pipeline");
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    // Three functions, and @f again.
    assert_eq!(outcome.found.of_functions, 4);
    assert_eq!(outcome.found.effects, 1);
}

/// Runs passes of the library, then one of this test; returns the module and the outcome. Types that
/// inference from scratch would find otherwise are a panic.
fn outcome_of(text: &str, passes: &str, pass: &'static PassDef) -> (Module, Outcome) {
    let (mut session, mut module) = read(text);
    let mut pipeline = session.pipeline(passes).expect("a pipeline");
    pipeline.steps.push(Step::Pass(PassRun {
        pass,
        options: Options::defaults(pass),
    }));
    let config = PassConfig {
        check_preserved: true,
        ..PassConfig::default()
    };
    let outcome = run_pipeline(&pipeline, &mut module, &config, &mut Silent);
    (module, outcome)
}

/// The same; returns the computed analyses, and the error.
fn and_then(text: &str, passes: &str, pass: &'static PassDef) -> (Found, Option<String>) {
    let (_, outcome) = outcome_of(text, passes, pass);
    let said = |(_, errors): (_, relax_base::Diagnostics)| {
        let text: Vec<String> = errors.iter().map(|d| d.message.to_string()).collect();
        text.join("; ")
    };
    (outcome.found, outcome.failure.map(said))
}

/// Makes @f return a pair.
static PAIRS: PassDef = PassDef {
    name: "pairs",
    doc: "Makes @f give its result twice.",
    options: &[],
    contract: Contract::TYPED,
    run: |cx| {
        let m = &mut *cx.module;
        let f = m.global("f").expect("there is @f");
        let GlobalKind::Func(func) = m.globals[f].kind else {
            return Ok(());
        };
        let body = m.funcs[func].body;
        let pair = m.tuple(&[body, body], m.span(body));
        m.set_global_body(f, pair);
        Ok(())
    },
};

/// Binds the value of the first `let` of @main to a variable that is annotated otherwise.
static ANNOTATES_OTHERWISE: PassDef = PassDef {
    name: "annotates-otherwise",
    doc: "Says that @main's first value is a number.",
    options: &[],
    contract: Contract::TYPED,
    run: |cx| {
        let m = &mut *cx.module;
        let main = m.global("main").expect("there is @main");
        let func = m.global_func(main).expect("a function");
        let Expr::Let { value, .. } = m.exprs[m.funcs[func].body] else {
            return Ok(());
        };
        let ty = m.types.scalar(relax_tensor::DType::F32);
        let (var, body) = m.fresh_var("z", Some(ty), relax_ir::VarStyle::Binding);
        let body = m.add(Expr::Let { var, value, body }, m.span(value));
        m.set_global_body(main, body);
        Ok(())
    },
};

#[test]
fn a_call_that_stays_has_the_type_of_the_variable_that_it_is_bound_to() {
    // Nothing but the annotation says what the packed function gives.
    let text = "def @main(%x: Tensor[(2,), float32]) {
                  let %y: Tensor[(2,), float32] = call_packed(\"f\", %x);
                  %y
                }";
    let (module, outcome) = outcome_of(text, "infer-type", &ANNOTATES_OTHERWISE);
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let typing = outcome.typing.expect("the verifier found them");
    let main = module.global_func(module.global("main").expect("it stays"));
    let body = module.funcs[main.expect("a function")].body;
    let Expr::Let { value, .. } = module.exprs[body] else {
        panic!("the pass made a binding");
    };
    let said = module.show_type(typing.exprs[value]).to_string();
    assert_eq!(said, "float32");
}

#[test]
fn only_functions_that_changed_are_typed_and_verified_again() {
    // The first pass changes @f, the second @g, the third nothing.
    let text = "def @f(%x: float32) { let %y = exp(%x); %x }
                def @g(%x: float32) { add(exp(%x), exp(%x)) }
                def @h(%x: float32) { tanh(@g(%x)) }
                def @k(%x: float32) -> float32 { tanh(@f(%x)) }";
    let (mut session, mut module) = read(text);
    let passes = "dead-code-elimination,eliminate-common-subexpr,dead-code-elimination";
    let pipeline = session.pipeline(passes).expect("a pipeline");
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    assert!(outcome.failure.is_none());
    let Found {
        typed, verified, ..
    } = outcome.found;
    // All four once, then @f, then @g: their types are unchanged, so @h and @k are skipped.
    assert_eq!((typed, verified), (4 + 1 + 1, 4 + 1));
}

#[test]
fn functions_stay_typed_when_others_are_removed() {
    let text = "def @unused(%x: float32) { exp(%x) }
                def @g(%x: float32) { (%x, exp(%x)) }
                def @main(%x: float32) { @g(%x) }";
    let (mut session, mut module) = read(text);
    let pipeline = session.pipeline("remove-unused-functions");
    let pipeline = pipeline.expect("a pipeline");
    // Types that inference from scratch would find otherwise are a panic.
    let config = PassConfig {
        check_preserved: true,
        ..PassConfig::default()
    };
    let outcome = run_pipeline(&pipeline, &mut module, &config, &mut Silent);
    assert!(outcome.failure.is_none() && module.global("unused").is_none());
    assert_eq!(outcome.found.typed, 3);
}

#[test]
fn functions_that_refer_to_one_of_another_type_are_typed_again() {
    let text = "def @f(%x: float32) { exp(%x) }
                def @g(%x: float32) { @f(%x) }
                def @h(%x: float32) { let %y = @g(%x); (%y, %x) }
                def @k(%x: float32) -> float32 { tanh(%x) }
                def @l(%x: float32) { @k(%x) }";
    let (found, failure) = and_then(text, "infer-type", &PAIRS);
    assert_eq!(failure, None);
    // `infer-type` visits all five and is not counted. Then @f; its type changes, so @g and
    // therefore @h are inferred again together with @f.
    assert_eq!(found.typed, 5 + 1 + 3);
    // Type errors that arise are detected too.
    let text = "def @f(%x: float32) { exp(%x) }
                def @g(%x: float32) -> float32 { @f(%x) }";
    let (_, failure) = and_then(text, "infer-type", &PAIRS);
    assert!(
        failure.is_some_and(|f| f.starts_with("`pairs` left a module whose types do not fit")),
        "@g gives a pair where it says that it gives a number"
    );
}

/// A pass over dataflow blocks that changes the types of outputs.
static OTHER_TYPES: PassDef = PassDef {
    name: "other-types",
    doc: "Binds a pair last.",
    options: &[],
    contract: Contract::TYPED.each_block(),
    run: |cx| {
        each_block(cx, |b| {
            if let Some(last) = b.bindings.last_mut() {
                let span = b.module.span(last.value);
                last.value = b.module.tuple(&[last.value, last.value], span);
            }
            Ok(())
        })
    },
};

/// A pass that claims to change only dataflow blocks, and changes code after them.
static OUTSIDE: PassDef = PassDef {
    name: "outside",
    doc: "Makes all functions give pairs.",
    options: &[],
    contract: Contract::TYPED.each_block(),
    run: |cx| {
        for (global, body) in cx.module.global_bodies() {
            let m = &mut *cx.module;
            let pair = m.tuple(&[body, body], m.span(body));
            m.set_global_body(global, pair);
        }
        Ok(())
    },
};

/// A pass that drops an output of the block.
static FORGETS: PassDef = PassDef {
    name: "forgets",
    doc: "Drops the last binding.",
    options: &[],
    contract: Contract::TYPED.each_block(),
    run: |cx| {
        each_block(cx, |b| {
            assert!(!b.outputs().is_empty());
            b.bindings.pop();
            b.count("bindings dropped", 1);
            Ok(())
        })
    },
};

#[test]
fn what_leaves_dataflow_blocks_stays_what_it_is() {
    let text = "def @main(%x: Tensor[(2,), float32]) {
                  dataflow { %a = exp(%x); %b = tanh(%a); output(%b); };
                  (%b, %x)
                }";
    for (pass, said) in [
        (
            &OTHER_TYPES,
            "`other-types` sees dataflow blocks only, but %b, which leaves one, had type",
        ),
        (
            &OUTSIDE,
            "`outside` sees dataflow blocks only, but something outside of the dataflow blocks",
        ),
        (&FORGETS, "`forgets` left a broken module"),
    ] {
        let (_, failure) = and_then(text, "infer-type", pass);
        let failure = failure.expect("refused");
        assert!(failure.starts_with(said), "{failure}");
    }
}

/// A pass that claims to preserve effects, and adds one.
static LIES: PassDef = PassDef {
    name: "lies",
    doc: "Puts a write to memory into functions.",
    options: &[],
    contract: Contract::TYPED.preserves(&[relax_passes::Analysis::Effects]),
    run: |cx| {
        for (global, body) in cx.module.global_bodies() {
            let m = &mut *cx.module;
            let span = m.span(body);
            let cell = m.add(Expr::RefNew(body), span);
            let read = m.add(Expr::RefRead(cell), span);
            m.set_global_body(global, read);
        }
        Ok(())
    },
};

#[test]
#[should_panic(expected = "`lies` does not preserve [Effects]")]
fn what_a_pass_declares_to_preserve_is_checked() {
    let (mut session, mut module) = read("def @main(%x: float32) { let %y = exp(%x); tanh(%y) }");
    let mut pipeline = session
        .pipeline("dead-code-elimination")
        .expect("a pipeline");
    pipeline.steps.push(Step::Pass(PassRun {
        pass: &LIES,
        options: Options::defaults(&LIES),
    }));
    let config = PassConfig {
        check_preserved: true,
        ..PassConfig::default()
    };
    run_pipeline(&pipeline, &mut module, &config, &mut Silent);
}

/// A pass that requires a form.
static NEEDS: PassDef = PassDef {
    name: "needs-names",
    doc: "Does nothing.",
    options: &[],
    contract: Contract::PLAIN.needs(&[Form::ANormal]),
    run: |_| Ok(()),
};

/// Runs passes, then [`NEEDS`]; returns the code of the error, and its note.
fn then_needs(before: &str) -> Option<(relax_base::Code, String)> {
    let (mut session, mut module) = read("def @main(%x: float32) { tanh(exp(%x)) }");
    let mut pipeline: Pipeline = session.pipeline(before).expect("a pipeline");
    pipeline.steps.push(Step::Pass(PassRun {
        pass: &NEEDS,
        options: Options::defaults(&NEEDS),
    }));
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    outcome.failure.map(|(_, errors)| {
        let error = errors.iter().next().expect("an error");
        let notes: Vec<String> = error.notes.iter().map(|n| n.to_string()).collect();
        (error.code, notes.join("\n"))
    })
}

#[test]
fn a_form_that_no_pass_gave_is_asked_for() {
    let (code, notes) = then_needs("infer-type").expect("refused");
    assert_eq!(code, codes::FORM);
    assert!(notes.contains("`to-a-normal-form,needs-names`"), "{notes}");
    assert_eq!(then_needs("to-a-normal-form"), None);
    // Passes that preserve the form keep it valid; others invalidate it when they change something.
    assert_eq!(then_needs("to-a-normal-form,infer-type"), None);
    let lost = then_needs("to-a-normal-form,to-graph-normal-form");
    assert_eq!(lost.map(|l| l.0), Some(codes::FORM));
}
