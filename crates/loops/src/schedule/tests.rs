//! Schedules preserve the values of a program, and reject rewrites that could change them.

use super::*;
use crate::{Builder, Combiner, execute, verify};
use proptest::prelude::*;
use relax_tensor::Tensor;

/// A matrix product with a shift, `m` by `n` over `k`.
fn product(m: Option<i64>, n: i64, k: i64) -> Program {
    let mut b = Builder::new("product");
    let x = b.input("x", DType::F32, &[m, Some(k)]);
    let y = b.input("y", DType::F32, &[Some(k), Some(n)]);
    let shape = [x.shape[0].clone(), y.shape[1].clone()];
    let t = b.reduce("t", &shape, &x.shape[1..], Combiner::Sum, |i, r| {
        x.at(&[i[0].clone(), r[0].clone()]) * y.at(&[r[0].clone(), i[1].clone()])
    });
    let z = b.compute("z", &shape, |i| t.at(i) + 1);
    b.output(&z);
    b.program
}

fn inputs(m: i64, n: i64, k: i64) -> [Tensor; 2] {
    let numbers = |count: i64| (0..count).map(|i| ((i * 37) % 19) as f32 * 0.3 - 2.0);
    [
        Tensor::from_slice(&[m, k], &numbers(m * k).collect::<Vec<f32>>()),
        Tensor::from_slice(&[k, n], &numbers(k * n).collect::<Vec<f32>>()),
    ]
}

fn s(name: &str) -> Symbol {
    Symbol::new(name)
}

#[test]
fn what_could_change_a_value_is_refused() {
    let p = product(Some(4), 6, 5);
    let refused = |steps: &[Step]| schedule(&mut p.clone(), steps).unwrap_err().to_string();
    assert_eq!(
        refused(&[Step::Parallel { var: s("r0") }]),
        "the iterations of the loop over `%r0` depend on each other: \
         all of them write the same elements of `%t`"
    );
    assert_eq!(
        refused(&[
            Step::Split {
                var: s("r0"),
                factor: 2
            },
            Step::Reorder {
                vars: vec![s("r0_i"), s("r0_o")]
            }
        ]),
        "`%r0_o` and `%r0_i` run over one reduction, whose order is part of its value"
    );
    assert_eq!(
        refused(&[Step::Unroll { var: s("q") }]),
        "there is no loop over `%q`"
    );
    let mut open = product(None, 6, 5);
    let axis = axes(&open)[0];
    let wrong = schedule(&mut open, &[Step::Unroll { var: axis }]);
    assert_eq!(wrong, Err(NoSchedule::Extent(axis)));
}

/// The names of the loops over the first stage's output.
fn axes(p: &Program) -> Vec<Symbol> {
    match &p.stages[0] {
        Stage::Compute(c) => c.axes.iter().map(|v| p.vars[*v].name).collect(),
        Stage::Nest(_) => Vec::new(),
    }
}

#[test]
fn the_automatic_schedule_marks_what_is_independent() {
    let mut p = product(None, 8, 5);
    as_nests(&mut p);
    let before = execute(&p, &inputs(3, 8, 5));
    // Both nests are parallel, the shift's inner loop is vectorised; the sum's inner loop is not.
    assert_eq!(auto(&mut p, 1), 3);
    assert_eq!(verify(&p).problems, vec![]);
    assert_eq!(execute(&p, &inputs(3, 8, 5)), before);
}

/// The last block of some elements may be shorter, and none is longer than the distance of blocks.
#[test]
fn blocks_are_independent_unless_they_overlap() {
    for (most, free) in [(16i64, true), (17, false)] {
        let mut b = Builder::new("blocks");
        let x = b.input("x", DType::F32, &[None]);
        let count = x.shape[0].clone();
        let y = b.temp("y", DType::F32, &x.shape);
        b.nest(|n| {
            n.for_((&count + 15).floor_div(16), |n, block| {
                let first = block * 16;
                n.for_((&count - &first).min(most), |n, j| {
                    let at = [&first + j];
                    n.store(&y, &at, x.at(&at) + 1);
                });
            });
        });
        b.output(&y);
        let Some(Stage::Nest(nest)) = b.program.stages.first() else {
            panic!("the nest is a stage");
        };
        let [Stmt::For { var, body, .. }] = &nest[..] else {
            panic!("a loop over blocks");
        };
        assert_eq!(independent(&b.program, *var, body).is_ok(), free, "{most}");
    }
}

fn step(names: Vec<Symbol>) -> impl Strategy<Value = Step> {
    let name = proptest::sample::select(names);
    let pair = (name.clone(), name.clone(), 1i64..6, 1i64..6);
    prop_oneof![
        (name.clone(), 1i64..6).prop_map(|(var, factor)| Step::Split { var, factor }),
        pair.prop_map(|(a, b, x, y)| Step::Tile {
            vars: vec![a, b],
            factors: vec![x, y]
        }),
        (name.clone(), name.clone()).prop_map(|(a, b)| Step::Reorder { vars: vec![a, b] }),
        (name.clone(), 2u32..8).prop_map(|(var, width)| Step::Vectorize { var, width }),
        name.clone().prop_map(|var| Step::Parallel { var }),
        name.prop_map(|var| Step::Unroll { var }),
    ]
}

proptest! {
    /// Whatever steps are applied, the values are bitwise the same.
    #[test]
    fn schedules_keep_values(
        m in 1i64..7, n in 1i64..9, k in 1i64..9, open in any::<bool>(),
        steps in {
            let p = product(Some(1), 1, 1);
            let mut names = axes(&p);
            names.push(s("r0"));
            for end in ["_o", "_i", "_o_i"] {
                let more: Vec<_> = names.iter().take(3).map(|v| s(&format!("{v}{end}"))).collect();
                names.extend(more);
            }
            proptest::collection::vec(step(names), 1..8)
        }
    ) {
        let mut p = product((!open).then_some(m), n, k);
        // A computation over indices leaves the order of a sum to the engine, a nest does not.
        as_nests(&mut p);
        let before = execute(&p, &inputs(m, n, k));
        prop_assert!(before.is_ok());
        for step in &steps {
            // A step that does not apply leaves the program unchanged.
            let old = p.clone();
            if apply(&mut p, step).is_err() && !matches!(step, Step::Tile { .. }) {
                prop_assert_eq!(&p.stages, &old.stages);
            }
        }
        prop_assert_eq!(verify(&p).problems, vec![]);
        prop_assert_eq!(execute(&p, &inputs(m, n, k)), before);
    }
}
