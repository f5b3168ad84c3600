use proptest::prelude::*;
use relax_tensor::{DType, Tensor};

use crate::{BinOp, Builder, Combiner, Ex, ExecFault, Program, TensorRef, UnOp, execute};

/// Evaluates `f` on elements of inputs of one shape, as strips (`Compute`) or as a nest.
fn map(inputs: &[Tensor], nest: bool, f: impl FnOnce(&[Ex]) -> Ex) -> Tensor {
    let mut b = Builder::new("map");
    let shape: Vec<_> = inputs[0].shape().iter().map(|d| Some(*d)).collect();
    let refs: Vec<TensorRef> = inputs
        .iter()
        .enumerate()
        .map(|(k, t)| b.input(&format!("x{k}"), t.dtype(), &shape))
        .collect();
    let shape = refs[0].shape.clone();
    let element = |i: &[Ex]| f(&refs.iter().map(|r| r.at(i)).collect::<Vec<_>>());
    if nest {
        let mut f = Some(element);
        let mut out = None;
        b.nest(|n| {
            n.grid(&shape, |n, i| {
                let value = f.take().expect("once")(i);
                let t = n.local("unused", value.dtype(), &[]);
                n.set(&t, value.clone());
                out = Some((i.to_vec(), value));
            });
        });
        let (i, value) = out.expect("the nest was written");
        let t = b.temp("out", value.dtype(), &shape);
        b.program.stages.clear();
        b.nest(|n| {
            n.grid(&shape, |n, j| {
                let value = crate::substitute(&value, &|v| {
                    i.iter()
                        .position(|e| *e == Ex::var(v, DType::I64))
                        .map(|k| j[k].clone())
                });
                n.store(&t, j, value);
            })
        });
        b.output(&t);
    } else {
        let t = b.compute("out", &shape, element);
        b.output(&t);
    }
    execute(&b.program, inputs).expect("it runs").remove(0)
}

fn both(inputs: &[Tensor], f: impl Fn(&[Ex]) -> Ex) -> Tensor {
    let strips = map(inputs, false, &f);
    assert_eq!(
        strips.bytes(),
        map(inputs, true, &f).bytes(),
        "strips and scalar code agree"
    );
    strips
}

fn i8s(v: &[i8]) -> Tensor {
    Tensor::from_slice(&[v.len() as i64], v)
}
fn f32s(v: &[f32]) -> Tensor {
    Tensor::from_slice(&[v.len() as i64], v)
}

#[test]
fn integers_wrap_and_divide() {
    let (a, b) = (i8s(&[-128, 127, -7, 7, -7, 5]), i8s(&[-1, 1, 2, -2, -2, 0]));
    let two = [a, b];
    let run = |op: BinOp| {
        both(&two, |x| x[0].binary(op, &x[1]))
            .slice::<i8>()
            .to_vec()
    };
    assert_eq!(run(BinOp::Add), [127, -128, -5, 5, -9, 5]);
    assert_eq!(run(BinOp::Div), [-128, 127, -3, -3, 3, 0]);
    assert_eq!(run(BinOp::FloorDiv), [-128, 127, -4, -4, 3, 0]);
    assert_eq!(run(BinOp::FloorMod), [0, 0, 1, -1, -1, 0]);
    assert_eq!(run(BinOp::Rem), [0, 0, -1, 1, -1, 0]);
    assert_eq!(run(BinOp::Mul), [-128, 127, -14, -14, 14, 0]);
    let abs = both(&two, |x| x[0].unary(UnOp::Abs));
    assert_eq!(abs.slice::<i8>(), [-128, 127, 7, 7, 7, 5]);
    let pow = both(&[i8s(&[2, 2, -1, 3]), i8s(&[6, 7, -3, -1])], |x| {
        x[0].pow(&x[1])
    });
    assert_eq!(pow.slice::<i8>(), [64, -128, -1, 0]);
}

#[test]
fn shifts_beyond_the_width() {
    let (a, n) = (i8s(&[-64, -64, 64, 1, 1, -1]), i8s(&[3, 8, 9, 7, 8, -1]));
    let shr = both(&[a.clone(), n.clone()], |x| x[0].shr(&x[1]));
    assert_eq!(shr.slice::<i8>(), [-8, -1, 0, 0, 0, -1]);
    let shl = both(&[a, n], |x| x[0].shl(&x[1]));
    assert_eq!(shl.slice::<i8>(), [0, 0, 0, -128, 0, 0]);
    let u = Tensor::from_slice(&[2], &[u64::MAX, 1 << 63]);
    let n = Tensor::from_slice(&[2], &[63u64, 64]);
    assert_eq!(both(&[u, n], |x| x[0].shr(&x[1])).slice::<u64>(), [1, 0]);
}

#[test]
fn uint64_is_unsigned() {
    let a = Tensor::from_slice(&[2], &[u64::MAX, 3]);
    let b = Tensor::from_slice(&[2], &[2u64, u64::MAX]);
    let two = [a, b];
    assert_eq!(
        both(&two, |x| x[0].max(&x[1])).slice::<u64>(),
        [u64::MAX, u64::MAX]
    );
    assert_eq!(
        both(&two, |x| x[0].floor_div(&x[1])).slice::<u64>(),
        [u64::MAX / 2, 0]
    );
    assert_eq!(both(&two, |x| x[0].lt(&x[1])).bytes(), [0, 1]);
    let float = both(&two, |x| x[0].cast(DType::F32));
    assert_eq!(float.slice::<f32>(), [u64::MAX as f32, 3.0]);
}

#[test]
fn minimum_and_maximum_give_the_second_on_nan() {
    let (a, b) = (f32s(&[f32::NAN, 1.0, 2.0]), f32s(&[1.0, f32::NAN, 3.0]));
    let run = |op| {
        both(&[a.clone(), b.clone()], |x| x[0].binary(op, &x[1]))
            .slice::<f32>()
            .to_vec()
    };
    assert_eq!(run(BinOp::Max)[0], 1.0);
    assert!(run(BinOp::Min)[1].is_nan());
    assert_eq!(run(BinOp::Max)[2], 3.0);
    let ne = both(&[a, b], |x| x[0].ne(&x[0]));
    assert_eq!(ne.bytes(), [1, 0, 0]);
}

#[test]
fn casts_saturate_or_wrap() {
    let x = f32s(&[300.0, -1.9, f32::NAN, f32::INFINITY, 0.5]);
    let to = |t| both(std::slice::from_ref(&x), |x| x[0].cast(t));
    assert_eq!(to(DType::I8).slice::<i8>(), [127, -1, 0, 127, 0]);
    assert_eq!(to(DType::U8).slice::<u8>(), [255, 0, 0, 255, 0]);
    assert_eq!(to(DType::BOOL).bytes(), [1, 1, 1, 1, 1]);
    let n = Tensor::from_slice(&[2], &[300i32, -1]);
    assert_eq!(
        both(&[n], |x| x[0].cast(DType::U8)).slice::<u8>(),
        [44, 255]
    );
}

#[test]
fn narrow_floats_round_after_every_operation() {
    let h = Tensor::from_slice(
        &[2],
        &[half::f16::from_f32(2048.0), half::f16::from_f32(1.0)],
    );
    // 2048 + 1 rounds back to 2048 in float16, twice.
    let sum = both(&[h], |x| &(&x[0] + &x[0].same(1.0)) + &x[0].same(1.0));
    assert_eq!(sum.get_f64(0), 2048.0);
    assert_eq!(sum.get_f64(1), 3.0);
    let b = Tensor::from_slice(&[1], &[half::bf16::from_f32(256.0)]);
    assert_eq!(both(&[b], |x| &x[0] + &x[0].same(1.0)).get_f64(0), 256.0);
}

#[test]
fn rounding_and_tests() {
    let x = f32s(&[0.5, 1.5, -0.5, 2.5]);
    let run = |op| both(std::slice::from_ref(&x), |x| x[0].unary(op));
    assert_eq!(run(UnOp::Round).slice::<f32>(), [1.0, 2.0, -1.0, 3.0]);
    assert_eq!(run(UnOp::RoundEven).slice::<f32>(), [0.0, 2.0, 0.0, 2.0]);
    let x = f32s(&[f32::NAN, f32::INFINITY, 1.0]);
    assert_eq!(
        both(&[x], |x| x[0].unary(UnOp::IsFinite)).bytes(),
        [0, 0, 1]
    );
    let n = Tensor::from_slice(&[2], &[1u8, 255]);
    assert_eq!(
        both(std::slice::from_ref(&n), |x| x[0].unary(UnOp::Clz)).bytes(),
        [7, 0]
    );
    assert_eq!(both(&[n], |x| x[0].unary(UnOp::Popcount)).bytes(), [1, 8]);
    let bits = both(&[f32s(&[1.0])], |x| x[0].reinterpret(DType::I32));
    assert_eq!(bits.slice::<i32>(), [0x3f80_0000]);
}

#[allow(clippy::too_many_arguments)]
fn conv(
    n: i64,
    ci: i64,
    co: i64,
    size: i64,
    k: i64,
    stride: i64,
    pad: i64,
    pad_first: bool,
) -> Program {
    let mut b = Builder::new("conv2d");
    let some = |d: &[i64]| d.iter().map(|d| Some(*d)).collect::<Vec<_>>();
    let x = b.input("x", DType::F32, &some(&[n, ci, size, size]));
    let w = b.input("w", DType::F32, &some(&[co, ci, k, k]));
    let out = (size + 2 * pad - k) / stride + 1;
    let read = |t: &TensorRef, i: &[Ex]| {
        let (h, w) = (&i[2] - pad, &i[3] - pad);
        let inside = h.ge(0) & h.lt(size) & w.ge(0) & w.lt(size);
        Ex::where_(
            &inside,
            &t.at(&[i[0].clone(), i[1].clone(), h, w]),
            &Ex::float(DType::F32, 0.0),
        )
    };
    let ix = |d: &[i64]| d.iter().map(|d| Ex::idx(*d)).collect::<Vec<_>>();
    let padded = pad_first.then(|| {
        b.compute("pad", &ix(&[n, ci, size + 2 * pad, size + 2 * pad]), |i| {
            read(&x, i)
        })
    });
    let y = b.reduce(
        "y",
        &ix(&[n, co, out, out]),
        &ix(&[ci, k, k]),
        Combiner::Sum,
        |i, r| {
            let at = [
                i[0].clone(),
                r[0].clone(),
                &i[2] * stride + &r[1],
                &i[3] * stride + &r[2],
            ];
            let value = match &padded {
                Some(p) => p.at(&at),
                None => read(&x, &at),
            };
            value * w.at(&[i[1].clone(), r[0].clone(), r[1].clone(), r[2].clone()])
        },
    );
    b.output(&y);
    b.program
}

fn numbers(shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>() as usize;
    let v: Vec<f32> = (0..n)
        .map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0)
        .collect();
    Tensor::from_slice(shape, &v)
}

fn close(a: &Tensor, b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.slice::<f32>().iter().zip(b) {
        assert!((a - b).abs() <= 1e-4 * b.abs() + 1e-5, "{a} is not {b}");
    }
}

#[test]
fn convolution_padded_and_guarded() {
    for (size, stride) in [(5i64, 1i64), (9, 2), (20, 1)] {
        let (ci, co, k, pad) = (3, 4, 3, 1);
        let (x, w) = (numbers(&[2, ci, size, size]), numbers(&[co, ci, k, k]));
        let out = (size + 2 * pad - k) / stride + 1;
        let mut expect = Vec::new();
        for n in 0..2 {
            for o in 0..co {
                for p in 0..out {
                    for q in 0..out {
                        let mut sum = 0.0f64;
                        for (c, u, v) in (0..ci)
                            .flat_map(|c| (0..k).flat_map(move |u| (0..k).map(move |v| (c, u, v))))
                        {
                            let (h, j) = (p * stride + u - pad, q * stride + v - pad);
                            if h >= 0 && h < size && j >= 0 && j < size {
                                sum += x.get_f64((((n * ci + c) * size + h) * size + j) as usize)
                                    * w.get_f64((((o * ci + c) * k + u) * k + v) as usize);
                            }
                        }
                        expect.push(sum as f32);
                    }
                }
            }
        }
        for first in [false, true] {
            let p = conv(2, ci, co, size, k, stride, pad, first);
            close(
                &execute(&p, &[x.clone(), w.clone()]).expect("it runs")[0],
                &expect,
            );
        }
    }
}

#[test]
fn rows_are_read_along_their_lanes() {
    let x = numbers(&[2, 300]);
    let row = |extent: i64, element: &dyn Fn(&TensorRef, &[Ex]) -> Ex| {
        let mut b = Builder::new("f");
        let input = b.input("x", DType::F32, &[Some(2), Some(300)]);
        let shape = [Ex::idx(2), Ex::idx(extent)];
        let t = b.compute("out", &shape, |i| element(&input, i));
        b.output(&t);
        execute(&b.program, std::slice::from_ref(&x))
    };
    let at = |r: i64, c: i64| x.get_f64((300 * r + c) as usize) as f32;
    let expect = |extent: i64, of: &dyn Fn(i64, i64) -> f32| -> Vec<f32> {
        let all = (0..2).flat_map(|r| (0..extent).map(move |c| (r, c)));
        all.map(|(r, c)| of(r, c)).collect()
    };
    // Past the end only in lanes, and in strips, that a select masks.
    let zero = Ex::float(DType::F32, 0.0);
    let padded = |x: &TensorRef, i: &[Ex]| Ex::where_(&i[1].lt(300), &x.at(i), &zero);
    let filled = |r, c| if c < 300 { at(r, c) } else { 0.0 };
    close(
        &row(700, &padded).expect("it runs")[0],
        &expect(700, &filled),
    );
    let part = |x: &TensorRef, i: &[Ex]| x.at(&[i[0].clone(), &i[1] + 40]);
    close(
        &row(260, &part).expect("it runs")[0],
        &expect(260, &|r, c| at(r, c + 40)),
    );
    let fault = row(261, &part).expect_err("the last element lies outside");
    assert!(
        matches!(
            fault.fault,
            ExecFault::OutOfBounds {
                axis: 1,
                index: 300,
                ..
            }
        ),
        "{fault:?}"
    );
}

#[test]
fn matmul_and_softmax_with_symbolic_extents() {
    let mut b = Builder::new("f");
    let x = b.input("x", DType::F32, &[None, Some(7)]);
    let w = b.input("w", DType::F32, &[Some(5), Some(7)]);
    let shape = [x.shape[0].clone(), Ex::idx(5)];
    let y = b.reduce("y", &shape, &[Ex::idx(7)], Combiner::Sum, |i, r| {
        x.at(&[i[0].clone(), r[0].clone()]) * w.at(&[i[1].clone(), r[0].clone()])
    });
    let row = [shape[0].clone()];
    let five = [Ex::idx(5)];
    let most = b.reduce("m", &row, &five, Combiner::Max, |i, r| {
        y.at(&[i[0].clone(), r[0].clone()])
    });
    let e = b.compute("e", &shape, |i| {
        (y.at(i) - most.at(&i[..1])).unary(UnOp::Exp)
    });
    let sum = b.reduce("s", &row, &five, Combiner::Sum, |i, r| {
        e.at(&[i[0].clone(), r[0].clone()])
    });
    let z = b.compute("z", &shape, |i| e.at(i) / sum.at(&i[..1]));
    b.output(&z);
    for n in [0i64, 1, 3, 300] {
        let (xt, wt) = (numbers(&[n, 7]), numbers(&[5, 7]));
        let out = execute(&b.program, &[xt.clone(), wt.clone()])
            .expect("it runs")
            .remove(0);
        assert_eq!(out.shape(), [n, 5]);
        let mut expect = Vec::new();
        for i in 0..n as usize {
            let y: Vec<f64> = (0..5)
                .map(|j| {
                    (0..7)
                        .map(|k| xt.get_f64(i * 7 + k) * wt.get_f64(j * 7 + k))
                        .sum()
                })
                .collect();
            let s: f64 = y.iter().map(|v: &f64| v.exp()).sum();
            expect.extend(y.iter().map(|v| (v.exp() / s) as f32));
        }
        close(&out, &expect);
    }
}

#[test]
fn small_outputs_of_large_boxes() {
    let mut b = Builder::new("sum");
    let x = b.input("x", DType::I64, &[Some(3), Some(1000)]);
    let over = [Ex::idx(1000)];
    let s = b.reduce("s", &[Ex::idx(3)], &over, Combiner::Sum, |i, r| {
        x.at(&[i[0].clone(), r[0].clone()])
    });
    let m = b.reduce(
        "m",
        &[],
        &[Ex::idx(3), Ex::idx(1000)],
        Combiner::Max,
        |_, r| x.at(r),
    );
    let none = b.reduce(
        "none",
        &[Ex::idx(2)],
        &[Ex::idx(0)],
        Combiner::Min,
        |_, r| x.at(&[r[0].clone(), r[0].clone()]),
    );
    let no_axes = b.reduce("no_axes", &[Ex::idx(40)], &[], Combiner::Sum, |i, _| {
        x.at(&[Ex::idx(0), i[0].clone()])
    });
    for t in [&s, &m, &none, &no_axes] {
        b.output(t);
    }
    let data: Vec<i64> = (0..3000).map(|i| (i * i) % 977 - 400).collect();
    let out = execute(&b.program, &[Tensor::from_slice(&[3, 1000], &data)]).expect("it runs");
    let expect: Vec<i64> = data.chunks(1000).map(|c| c.iter().sum()).collect();
    assert_eq!(out[0].slice::<i64>(), expect);
    assert_eq!(out[1].get_i64(0), *data.iter().max().expect("not empty"));
    assert_eq!(out[2].slice::<i64>(), [i64::MAX; 2]);
    assert_eq!(out[3].slice::<i64>(), &data[..40]);
}

#[test]
fn argmax_by_a_nest() {
    let mut b = Builder::new("argmax");
    let x = b.input("x", DType::F32, &[None, None]);
    let out = b.temp("out", DType::I32, &x.shape[..1]);
    b.nest(|n| {
        n.for_(x.shape[0].clone(), |n, i| {
            let best = n.cell(x.at(&[i.clone(), Ex::idx(0)]));
            let at = n.cell(Ex::idx(0));
            n.for_(x.shape[1].clone(), |n, j| {
                let v = n.let_(x.at(&[i.clone(), j.clone()]));
                n.if_(v.gt(best.scalar()), |n| {
                    n.set(&best, &v);
                    n.set(&at, j);
                });
            });
            n.store(&out, std::slice::from_ref(i), at.scalar().cast(DType::I32));
        });
    });
    b.output(&out);
    let x = Tensor::from_slice(&[2, 3], &[1f32, 5.0, 5.0, -1.0, -3.0, -0.5]);
    assert_eq!(
        execute(&b.program, &[x]).expect("it runs")[0].slice::<i32>(),
        [1, 2]
    );
}

#[test]
fn merge_sort_by_a_nest() {
    let mut b = Builder::new("sort");
    let x = b.input("x", DType::I64, &[None]);
    let n_ = x.shape[0].clone();
    let from = b.compute("from", &x.shape, |i| x.at(i));
    let to = b.temp("to", DType::I64, &x.shape);
    b.nest(|n| {
        let width = n.cell(Ex::idx(1));
        n.while_(width.scalar().lt(&n_), |n| {
            let w = n.let_(width.scalar());
            let pairs = (&n_ + &w * 2 - 1).floor_div(&(&w * 2));
            n.for_(pairs, |n, p| {
                let lo = n.let_(p * &(&w * 2));
                let mid = n.let_((&lo + &w).min(&n_));
                let hi = n.let_((&lo + &w * 2).min(&n_));
                let (i, j) = (n.cell(lo.clone()), n.cell(mid.clone()));
                n.for_(&hi - &lo, |n, k| {
                    let (a, c) = (n.let_(i.scalar()), n.let_(j.scalar()));
                    // The loads of the comparison execute only where both are in bounds.
                    let yes = Ex::bool(true);
                    let no = Ex::bool(false);
                    let less = from
                        .at(std::slice::from_ref(&a))
                        .le(from.at(std::slice::from_ref(&c)));
                    let left = Ex::where_(&a.ge(&mid), &no, &Ex::where_(&c.ge(&hi), &yes, &less));
                    n.if_else(
                        left,
                        |n| {
                            n.store(&to, &[&lo + k], from.at(std::slice::from_ref(&a)));
                            n.set(&i, &a + 1);
                        },
                        |n| {
                            n.store(&to, &[&lo + k], from.at(std::slice::from_ref(&c)));
                            n.set(&j, &c + 1);
                        },
                    );
                });
            });
            n.grid(&x.shape, |n, i| n.store(&from, i, to.at(i)));
            n.set(&width, &w * 2);
        });
    });
    b.output(&from);
    for n in [0i64, 1, 2, 7, 100] {
        let mut v: Vec<i64> = (0..n).map(|i| (i * 7919) % 53).collect();
        let out = execute(&b.program, &[Tensor::from_slice(&[n], &v)]).expect("it runs");
        v.sort();
        assert_eq!(out[0].slice::<i64>(), v);
    }
}

#[test]
fn an_output_as_long_as_the_data_say() {
    let mut b = Builder::new("nonzero");
    let x = b.input("x", DType::I32, &[None]);
    let count = b.reduce("count", &[], &x.shape, Combiner::Sum, |_, r| {
        x.at(r).ne(0).cast(DType::I64)
    });
    let out = b.temp("out", DType::I64, &[count.scalar()]);
    b.nest(|n| {
        let at = n.cell(Ex::idx(0));
        n.for_(x.shape[0].clone(), |n, i| {
            n.if_(x.at(std::slice::from_ref(i)).ne(0), |n| {
                n.store(&out, &[at.scalar()], i);
                n.set(&at, at.scalar() + 1);
            });
        });
    });
    b.output(&out);
    let run = |v: &[i32]| {
        execute(&b.program, &[Tensor::from_slice(&[v.len() as i64], v)]).expect("it runs")
    };
    assert_eq!(run(&[0, 3, 0, -1, 9])[0].slice::<i64>(), [1, 3, 4]);
    assert_eq!(run(&[0])[0].shape(), [0]);
}

#[test]
fn faults_have_names_and_numbers() {
    let mut b = Builder::new("f");
    let x = b.input("x", DType::F32, &[None]);
    let y = b.compute("y", &x.shape, |i| x.at(&[&i[0] + 1]));
    b.output(&y);
    let error = execute(&b.program, &[f32s(&[1.0, 2.0])]).expect_err("it reads beyond the end");
    assert!(
        matches!(&error.fault, ExecFault::OutOfBounds { buffer, axis: 0, index: 2, .. } if buffer.as_str() == "x"),
        "{error}"
    );

    let mut b = Builder::new("g");
    let x = b.input("x", DType::F32, &[None]);
    let y = b.input("y", DType::F32, &[None]);
    b.program.bufs[y.buf].shape = x.shape.clone();
    b.output(&x);
    let error =
        execute(&b.program, &[f32s(&[1.0]), f32s(&[1.0, 2.0])]).expect_err("extents differ");
    assert_eq!(
        error.to_string(),
        "tensor program `g`: axis 0 of `y` has extent 2 where the program needs 1"
    );

    let mut b = Builder::new("h");
    let t = b.temp("t", DType::F32, &[Ex::idx(-1)]);
    b.nest(|n| n.store(&t, &[Ex::idx(0)], 1.0));
    b.output(&t);
    let error = execute(&b.program, &[]).expect_err("a negative extent");
    assert!(matches!(error.fault, ExecFault::Size { .. }), "{error}");
}

#[test]
fn a_deep_expression_runs_and_drops_in_bounded_stack() {
    let mut b = Builder::new("deep");
    let x = b.input("x", DType::F32, &[Some(2)]);
    let y = b.compute("y", &x.shape, |i| {
        let x = x.at(i);
        (0..100_000).fold(x.clone(), |sum, _| sum + &x)
    });
    b.output(&y);
    let out = execute(&b.program, &[f32s(&[1.0, 0.5])]).expect("it runs");
    assert_eq!(out[0].slice::<f32>(), [100_001.0, 50_000.5]);
}

/// Random expressions over two axes, two loads and constants.
fn expression(i: [Ex; 2], x: TensorRef, z: TensorRef) -> impl Strategy<Value = Ex> {
    let index = {
        let i = i.clone();
        let leaf = prop_oneof![
            Just(i[0].clone()),
            Just(i[1].clone()),
            (0i64..4).prop_map(Ex::idx),
        ];
        leaf.prop_recursive(3, 8, 2, |e| {
            prop_oneof![
                (e.clone(), e.clone()).prop_map(|(a, b)| a + b),
                (e.clone(), e.clone()).prop_map(|(a, b)| a - b),
                (e.clone(), 1i64..4).prop_map(|(a, k)| a * k),
                (e.clone(), 1i64..4).prop_map(|(a, k)| a.floor_div(k)),
                (e.clone(), 1i64..6).prop_map(|(a, k)| a.floor_mod(k)),
                (e, 0i64..5).prop_map(|(a, k)| a.min(k)),
            ]
        })
    };
    let rows = x.shape.clone();
    let clamp = move |a: Ex, b: Ex| {
        let top = |e: &Ex, k: usize| e.max(0).min(&(&rows[k] - 1));
        [top(&a, 0), top(&b, 1)]
    };
    let inside = {
        let shape = x.shape.clone();
        move |a: &Ex, b: &Ex| a.ge(0) & a.lt(&shape[0]) & b.ge(0) & b.lt(&shape[1])
    };
    let (x2, z2) = (x.clone(), z.clone());
    let leaf = prop_oneof![
        (index.clone(), index.clone()).prop_map(move |(a, b)| x.at(&clamp(a, b))),
        // Guarded by a select: masked lanes.
        (index.clone(), index.clone()).prop_map(move |(a, b)| {
            Ex::where_(&inside(&a, &b), &x2.at(&[a, b]), &Ex::int(DType::I32, -5))
        }),
        // Unguarded: both ways of execution must fail together.
        (index.clone(),).prop_map(move |(a,)| z2.at(&[a])),
        (-3i64..50).prop_map(|v| Ex::int(DType::I32, v)),
        index.prop_map(|e| e.cast(DType::I32)),
    ];
    leaf.prop_recursive(4, 24, 3, |e| {
        let ops = prop_oneof![
            Just(BinOp::Add),
            Just(BinOp::Sub),
            Just(BinOp::Mul),
            Just(BinOp::Div),
            Just(BinOp::FloorMod),
            Just(BinOp::Max),
            Just(BinOp::Xor),
        ];
        prop_oneof![
            (ops, e.clone(), e.clone()).prop_map(|(op, a, b)| a.binary(op, &b)),
            (e.clone(), e.clone(), e.clone()).prop_map(|(c, a, b)| Ex::where_(&c.gt(2), &a, &b)),
            e.prop_map(|a| a.cast(DType::F32).unary(UnOp::Sqrt).cast(DType::I32)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The same expression as a computation over indices, as a reduction and as loop nests.
    #[test]
    fn strips_and_scalar_code_agree(
        (extents, value, program) in (1i64..7, 1i64..60).prop_flat_map(|(n, m)| {
            let mut b = Builder::new("random");
            let x = b.input("x", DType::I32, &[Some(n), Some(m)]);
            let z = b.input("z", DType::I32, &[Some(40)]);
            let (_, i) = b.program.fresh("i", DType::I64);
            let (_, j) = b.program.fresh("j", DType::I64);
            let program = b.program;
            (Just([n, m]), expression([i, j], x, z), Just(program))
        })
    ) {
        use crate::{Compute, ExKind, Reduce, Role, Stage, Stmt, Mark};
        let [n, m] = extents;
        let (i, j) = (crate::Var(0), crate::Var(1));
        let data: Vec<i32> = (0..n * m).map(|k| ((k * 31) % 23 - 9) as i32).collect();
        let z: Vec<i32> = (0..40).map(|k| (k * 13) % 17).collect();
        let inputs = [Tensor::from_slice(&[n, m], &data), Tensor::from_slice(&[40], &z)];
        let base = Builder { program };

        let mut strips = Builder { program: base.program.clone() };
        let out = strips.buffer("out", DType::I32, vec![Ex::idx(n), Ex::idx(m)], Role::Output);
        strips.program.outputs.push(out.buf);
        let mut nest = strips.program.clone();
        strips.program.stages.push(Stage::Compute(Compute {
            out: out.buf, axes: vec![i, j], reduce: None, value: value.clone(),
        }));
        let at = |v| Ex::new(ExKind::Var(v), DType::I64);
        let wrap = |var, extent, body| Stmt::For { var, extent: Ex::idx(extent), mark: Mark::Serial, body };
        let store = Stmt::Store { buf: out.buf, index: vec![at(i), at(j)], value: value.clone() };
        nest.stages.push(Stage::Nest(vec![wrap(i, n, vec![wrap(j, m, vec![store])])]));
        let a = execute(&strips.program, &inputs);
        let b = execute(&nest, &inputs);
        prop_assert_eq!(a.is_ok(), b.is_ok());
        if let (Ok(a), Ok(b)) = (&a, &b) {
            prop_assert_eq!(a[0].slice::<i32>(), b[0].slice::<i32>());
        }

        // Reductions over either axis, and over both: the same sums as from the elements above.
        for over in [vec![i], vec![j], vec![i, j]] {
            let free: Vec<_> = [i, j].into_iter().filter(|v| !over.contains(v)).collect();
            let extent = |v: &crate::Var| if *v == i { n } else { m };
            let mut p = Builder { program: base.program.clone() };
            let shape = free.iter().map(|v| Ex::idx(extent(v))).collect();
            let s = p.buffer("s", DType::I32, shape, Role::Output);
            p.program.outputs.push(s.buf);
            p.program.stages.push(Stage::Compute(Compute {
                out: s.buf,
                axes: free.clone(),
                reduce: Some(Reduce {
                    axes: over.iter().map(|v| (*v, Ex::idx(extent(v)))).collect(),
                    combiner: Combiner::Sum,
                }),
                value: value.clone(),
            }));
            let sums = execute(&p.program, &inputs);
            prop_assert_eq!(sums.is_ok(), b.is_ok());
            if let (Ok(sums), Ok(b)) = (&sums, &b) {
                let mut expect = vec![0i32; sums[0].len()];
                for (k, v) in b[0].slice::<i32>().iter().enumerate() {
                    let (row, column) = (k / m as usize, k % m as usize);
                    let to = match (free.contains(&i), free.contains(&j)) {
                        (true, _) => row,
                        (_, true) => column,
                        _ => 0,
                    };
                    expect[to] = expect[to].wrapping_add(*v);
                }
                prop_assert_eq!(sums[0].slice::<i32>(), expect);
            }
        }
    }
}

/// Not an assertion but a benchmark:
/// `cargo test --release -p relax-loops -- --ignored --nocapture`.
#[test]
#[ignore = "a yardstick"]
fn resnet18_layers_take_seconds() {
    for (ci, co, size, k, stride) in [
        (3, 64, 224, 7, 2),
        (64, 64, 56, 3, 1),
        (128, 128, 28, 3, 1),
        (256, 256, 14, 3, 1),
        (512, 512, 7, 3, 1),
    ] {
        for first in [true, false] {
            let p = conv(1, ci, co, size, k, stride, k / 2, first);
            let inputs = [numbers(&[1, ci, size, size]), numbers(&[co, ci, k, k])];
            let start = std::time::Instant::now();
            let out = execute(&p, &inputs).expect("it runs").remove(0);
            let macs = out.len() as f64 * (ci * k * k) as f64;
            let time = start.elapsed().as_secs_f64();
            println!(
                "{ci}x{size}: {:.2} s, {:.2} GMAC/s",
                time,
                macs / time / 1e9
            );
        }
    }
}
