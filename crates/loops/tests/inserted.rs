//! Stages that the choice of kernels inserts before others: parts of elements that depend on some of
//! the axes, and reductions in two.

use std::borrow::Cow;

use relax_loops::select::{Alone, Selection, Weights, Work, select, state};
use relax_loops::{Builder, Combiner, Ex, Program, TensorRef, UnOp, execute};
use relax_tensor::{DType, Tensor};

/// An image of channels read at places that a grid names, or a weight of each place
/// where that is greater: no sum, which would have a kernel that makes tables of both.
fn sampled(channels_last: bool) -> Program {
    let mut b = Builder::new("sampled");
    let shape = |n| {
        if channels_last {
            [Some(40), n]
        } else {
            [n, Some(40)]
        }
    };
    let x = b.input("x", DType::F32, &shape(Some(16)));
    let grid = b.input("grid", DType::F32, &[Some(300)]);
    let extents: Vec<Ex> = match channels_last {
        true => [300, 16].map(Ex::idx).into(),
        false => [16, 300].map(Ex::idx).into(),
    };
    let y = b.compute("y", &extents, |i| {
        let (place, channel) = if channels_last {
            (&i[0], &i[1])
        } else {
            (&i[1], &i[0])
        };
        let v = grid.at(std::slice::from_ref(place)) * Ex::float(DType::F32, 39.0);
        let low = v.unary(UnOp::Floor);
        let weight = &v - &low;
        let at = low.cast(DType::I64).max(0i64).min(39i64);
        let from = if channels_last {
            [at, channel.clone()]
        } else {
            [channel.clone(), at]
        };
        x.at(&from).max(weight)
    });
    b.output(&y);
    b.program
}

/// The sums of groups of four channels, which lie side by side, over all places.
fn grouped() -> Program {
    let mut b = Builder::new("grouped");
    let x = b.input("x", DType::F64, &[Some(100), Some(16)]);
    let over = [Ex::idx(100), Ex::idx(4)];
    let y = b.reduce("y", &[Ex::idx(4)], &over, Combiner::Sum, |i, r| {
        x.at(&[r[0].clone(), &i[0] * 4 + &r[1]])
    });
    b.output(&y);
    b.program
}

/// The sums of all but the channels.
fn of_channels(dtype: DType) -> Program {
    let mut b = Builder::new("channels");
    let x: TensorRef = b.input("x", dtype, &[Some(3), Some(5), Some(10), Some(20)]);
    let over = [3, 10, 20].map(Ex::idx);
    let y = b.reduce("y", &[Ex::idx(5)], &over, Combiner::Sum, |i, r| {
        x.at(&[r[0].clone(), i[0].clone(), r[1].clone(), r[2].clone()])
    });
    b.output(&y);
    b.program
}

/// A factor for each group of four channels, which lie side by side.
fn scaled() -> Program {
    let mut b = Builder::new("scaled");
    let x = b.input("x", DType::F32, &[Some(300), Some(16)]);
    let factor = b.input("factor", DType::F32, &[Some(4)]);
    let y = b.compute("y", &x.shape, |i| x.at(i) * factor.at(&[i[1].floor_div(4)]));
    b.output(&y);
    b.program
}

fn selected(program: &Program) -> Selection<'_> {
    select(Cow::Borrowed(program), Weights::Any)
}

/// Small whole numbers, whose sums no order rounds; the grid's are between 0 and 1.
fn inputs(program: &Program) -> Vec<Tensor> {
    let of = |k: usize, n: i64| match k {
        0 => ((n * 37 + 5) % 19 - 9) as f64,
        _ => ((n * 29) % 64) as f64 / 64.0,
    };
    let make = |(k, buf)| {
        let info = &program.bufs[buf];
        let shape: Vec<i64> = info.shape.iter().filter_map(Ex::as_int).collect();
        let count = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|n| of(k, n)).collect();
        match info.dtype {
            DType::F64 => Tensor::from_slice(&shape, &values),
            _ => {
                let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
                Tensor::from_slice(&shape, &values)
            }
        }
    };
    program
        .inputs
        .iter()
        .copied()
        .enumerate()
        .map(make)
        .collect()
}

/// Asserts that the program with the inserted stages has the results of the one without.
fn check(program: &Program, inserted: usize) {
    let new = selected(program);
    assert_eq!(new.program.stages.len(), program.stages.len() + inserted);
    let inputs = inputs(program);
    let results = |p: &Program| execute(p, &inputs).expect("no index is outside");
    assert_eq!(results(&new.program), results(program));
}

#[test]
fn what_all_channels_share_is_computed_once() {
    // The place and the weight.
    check(&sampled(false), 2);
    // Channels that are the innermost loop share what is computed before it.
    check(&sampled(true), 0);
}

#[test]
fn few_elements_side_by_side_are_reduced_last() {
    check(&grouped(), 1);
}

#[test]
fn long_rows_of_floats_are_summed_first() {
    check(&of_channels(DType::F32), 1);
    check(&of_channels(DType::F64), 0);
}

#[test]
fn a_factor_for_each_group_is_laid_out_for_each_channel() {
    check(&scaled(), 1);
}

/// A program that states its kernels has the inserted stages, too: its text does not show them.
#[test]
fn stated_kernels_are_computed_the_same_way() {
    for program in [sampled(false), grouped(), of_channels(DType::F32), scaled()] {
        let mut stated = program.clone();
        state(&mut stated);
        assert_eq!(stated.stages, program.stages);
        let kinds = |p: &Program| -> Vec<_> {
            let steps = selected(p).steps;
            steps.iter().map(|s| s.work.kind()).collect()
        };
        assert_eq!(kinds(&stated), kinds(&program), "{}", program.name);
    }
    let code = selected(&sampled(false)).steps.pop().expect("a stage");
    assert!(matches!(code.work, Work::Alone(Alone::Code)));
}
