//! Rows, reductions and copies against plain loops, over odd sizes, edges, instruction sets and
//! thread counts.

mod common;

use common::{Random, close, everywhere};
use relax_runtime::capi::arrays::{
    rx_copy, rx_copy_strided, rx_fill, rx_reduce_f32, rx_softmax, rx_transpose, rx_vbf16_to_f32,
    rx_vf16_to_f32, rx_vf32_to_bf16, rx_vf32_to_f16,
};
use relax_runtime::capi::kernels::rx_layer_norm_f32;
use relax_runtime::context::RxContext;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::rows::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Softmax of rows of float32.
///
/// # Safety
/// As the kernel's.
unsafe fn soft_max(
    ctx: *mut RxContext,
    (rows, cols): (i64, i64),
    x: *const f32,
    y: *mut f32,
    log: bool,
) -> i32 {
    // SAFETY: as the caller says.
    unsafe {
        rx_softmax(
            ctx,
            rows,
            cols,
            x.cast(),
            y.cast(),
            Kind::F32 as i32,
            i32::from(log),
        )
    }
}

/// Rows of narrow floats are those of float32, rounded.
#[test]
fn narrow_rows() {
    everywhere(|ctx, _| {
        for (rows, n) in [(1, 1), (1000, 7), (3, 2049), (70, 100)] {
            let halves: Vec<u16> = (Random(8).floats(rows * n).iter())
                .map(|x| half::f16::from_f32(x * 4.0).to_bits())
                .collect();
            let wide: Vec<f32> = halves
                .iter()
                .map(|x| half::f16::from_bits(*x).to_f32())
                .collect();
            let gamma = Random(9).floats(n);
            let (mut y, mut wanted) = (vec![0u16; rows * n], vec![0.0f32; rows * n]);
            let same = |y: &[u16], wanted: &[f32]| {
                for (y, w) in y.iter().zip(wanted) {
                    assert_eq!(*y, half::f16::from_f32(*w).to_bits());
                }
            };
            let mut g = RxLayerNormF32 {
                rows: rows as i64,
                cols: n as i64,
                channels: n as i64,
                inner: 1,
                x: wide.as_ptr().cast(),
                gamma: gamma.as_ptr().cast(),
                beta: gamma.as_ptr().cast(),
                y: wanted.as_mut_ptr().cast(),
                epsilon: 1e-3,
                centred: 1,
                kind: Kind::F32 as i32,
                factors: Kind::F32 as i32,
            };
            let (r, c) = (rows as i64, n as i64);
            // SAFETY: all arrays have the sizes that are stated.
            unsafe {
                assert_eq!(rx_layer_norm_f32(ctx, &g), 0);
                (g.x, g.y) = (halves.as_ptr().cast(), y.as_mut_ptr().cast());
                g.kind = Kind::F16 as i32;
                assert_eq!(rx_layer_norm_f32(ctx, &g), 0);
                same(&y, &wanted);
                assert_eq!(
                    soft_max(ctx, (r, c), wide.as_ptr(), wanted.as_mut_ptr(), true),
                    0
                );
                let (x, to) = (halves.as_ptr().cast(), y.as_mut_ptr().cast());
                assert_eq!(rx_softmax(ctx, r, c, x, to, Kind::F16 as i32, 1), 0);
                same(&y, &wanted);
                g.kind = Kind::F64 as i32;
                assert_ne!(rx_layer_norm_f32(ctx, &g), 0);
            }
        }
    });
}

#[test]
fn rows_are_normalised() {
    everywhere(|ctx, _| {
        for (rows, n) in [
            (0, 5),
            (1, 1),
            (3, 2),
            (33, 7),
            (16, 11),
            (40, 1),
            (5, 15),
            (4, 16),
            (3, 17),
            (7, 63),
            (65, 1000),
        ] {
            let x: Vec<f32> = Random(8)
                .floats(rows * n)
                .iter()
                .map(|x| x * 20.0 + 100.0)
                .collect();
            let (gamma, beta) = (Random(9).floats(n), Random(10).floats(n));
            let mut soft = vec![0.0f32; rows * n];
            let (mut log, mut norm) = (soft.clone(), soft.clone());
            let mut inplace = x.clone();
            let (r, c) = (rows as i64, n as i64);
            // SAFETY: all arrays have the sizes that are stated.
            unsafe {
                assert_eq!(
                    soft_max(ctx, (r, c), x.as_ptr(), soft.as_mut_ptr(), false),
                    0
                );
                assert_eq!(
                    soft_max(ctx, (r, c), inplace.as_ptr(), inplace.as_mut_ptr(), false),
                    0
                );
                assert_eq!(soft_max(ctx, (r, c), x.as_ptr(), log.as_mut_ptr(), true), 0);
                let g = RxLayerNormF32 {
                    rows: r,
                    cols: c,
                    channels: c,
                    inner: 1,
                    x: x.as_ptr().cast(),
                    gamma: gamma.as_ptr().cast(),
                    beta: beta.as_ptr().cast(),
                    y: norm.as_mut_ptr().cast(),
                    epsilon: 1e-5,
                    centred: 1,
                    kind: Kind::F32 as i32,
                    factors: Kind::F32 as i32,
                };
                assert_eq!(rx_layer_norm_f32(ctx, &g), 0);
            }
            assert_eq!(soft, inplace);
            for row in 0..rows {
                let line = row * n..(row + 1) * n;
                let wide: Vec<f64> = x[line.clone()].iter().map(|x| f64::from(*x)).collect();
                let max = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = wide.iter().map(|x| (x - max).exp()).sum();
                let wanted: Vec<f32> = wide
                    .iter()
                    .map(|x| ((x - max).exp() / total) as f32)
                    .collect();
                close("softmax", &soft[line.clone()], &wanted, 1e-6);
                let wanted: Vec<f32> = wide.iter().map(|x| (x - max - total.ln()) as f32).collect();
                close("log_softmax", &log[line.clone()], &wanted, 1e-5);
                let mean = wide.iter().sum::<f64>() / n as f64;
                let variance = wide.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                let wanted: Vec<f32> = (0..n)
                    .map(|i| {
                        let unit = (wide[i] - mean) / (variance + 1e-5).sqrt();
                        (unit * f64::from(gamma[i]) + f64::from(beta[i])) as f32
                    })
                    .collect();
                close("layer_norm", &norm[line], &wanted, 1e-4);
            }
        }
        // Infinities.
        let x = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
        let mut y = [9.0f32; 3];
        // SAFETY: as above.
        unsafe { soft_max(ctx, (1, 3), x.as_ptr(), y.as_mut_ptr(), false) };
        assert_eq!(y, [0.0, 1.0, 0.0]);
    });
}

#[test]
fn reductions() {
    everywhere(|ctx, _| {
        for (outer, axis, inner) in [
            (1, 0, 1),
            (2, 0, 3),
            (1, 1, 1),
            (3, 7, 1),
            (5, 64, 1),
            (2, 65, 1),
            (3, 1000, 1),
            (4, 5, 3),
            (2, 130, 17),
            (3, 9, 70),
            (1, 100_003, 1),
            (600, 100, 1),
            (3, 200, 300),
        ] {
            let x = Random(11).floats(outer * axis * inner);
            for op in 0..6 {
                let mut y = vec![0.0f32; outer * inner];
                let (o, a, i) = (outer as i64, axis as i64, inner as i64);
                // SAFETY: both arrays have the sizes that are stated.
                let status = unsafe { rx_reduce_f32(ctx, op, o, a, i, x.as_ptr(), y.as_mut_ptr()) };
                assert_eq!(status, 0);
                let wanted: Vec<f32> = (0..outer * inner)
                    .map(|at| {
                        let line = (0..axis)
                            .map(|q| f64::from(x[(at / inner * axis + q) * inner + at % inner]));
                        (match op {
                            0 => line.sum::<f64>(),
                            1 => line.sum::<f64>() / axis as f64,
                            2 => line.fold(f64::NEG_INFINITY, f64::max),
                            3 => line.fold(f64::INFINITY, f64::min),
                            4 => line.product(),
                            _ => line.map(|x| x * x).sum(),
                        }) as f32
                    })
                    .collect();
                close(
                    &format!("{op} of {outer} {axis} {inner}"),
                    &y,
                    &wanted,
                    3e-6,
                );
            }
        }
        // A sum of ten million tenths: a single chain of additions would be off by a percent or
        // more.
        let x = vec![0.1f32; 10_000_000];
        let mut y = [0.0f32];
        // SAFETY: as above.
        unsafe { rx_reduce_f32(ctx, 0, 1, x.len() as i64, 1, x.as_ptr(), y.as_mut_ptr()) };
        assert!((y[0] - 1_000_000.0).abs() < 0.5, "{}", y[0]);
        for n in [1, 20, 100] {
            for at in [0, n / 2, n - 1] {
                for op in [2, 3] {
                    let mut x = Random(12).floats(n);
                    x[at] = f32::NAN;
                    // SAFETY: as above.
                    unsafe { rx_reduce_f32(ctx, op, 1, n as i64, 1, x.as_ptr(), y.as_mut_ptr()) };
                    assert!(y[0].is_nan(), "{op} of {n} with NaN at {at}");
                }
            }
        }
    });
}

fn check_transpose<T: Copy + PartialEq + std::fmt::Debug>(
    ctx: *mut RxContext,
    shape: &[i64],
    axes: &[i32],
    make: impl Fn(usize) -> T,
) {
    let n: i64 = shape.iter().product();
    let src: Vec<T> = (0..n as usize).map(&make).collect();
    let mut dst = vec![make(0); n as usize];
    // SAFETY: both arrays have the sizes that the shape states.
    let status = unsafe {
        rx_transpose(
            ctx,
            size_of::<T>() as i32,
            shape.len() as i32,
            shape.as_ptr(),
            axes.as_ptr(),
            src.as_ptr().cast(),
            dst.as_mut_ptr().cast(),
        )
    };
    assert_eq!(status, 0);
    let mut index = vec![0i64; shape.len()];
    for found in dst {
        let mut at = 0;
        for (axis, extent) in shape.iter().enumerate() {
            let place = axes
                .iter()
                .position(|a| *a as usize == axis)
                .expect("a permutation");
            at = at * extent + index[place];
        }
        assert_eq!(found, src[at as usize], "{shape:?} {axes:?} {index:?}");
        for place in (0..shape.len()).rev() {
            index[place] += 1;
            if index[place] < shape[axes[place] as usize] {
                break;
            }
            index[place] = 0;
        }
    }
}

#[test]
fn transposition_copying_and_filling() {
    everywhere(|ctx, _| {
        for (shape, axes) in [
            (vec![], vec![]),
            (vec![5], vec![0]),
            (vec![3, 0], vec![1, 0]),
            (vec![33, 50], vec![1, 0]),
            (vec![2, 3, 4], vec![2, 0, 1]),
            (vec![4, 7, 18], vec![0, 2, 1]),
            (vec![2, 17, 5, 19], vec![0, 2, 3, 1]),
            (vec![2, 17, 5, 19], vec![3, 1, 0, 2]),
            (vec![1, 6, 1, 7, 3], vec![4, 3, 2, 1, 0]),
            (vec![3, 200, 150], vec![0, 2, 1]),
        ] {
            check_transpose(ctx, &shape, &axes, |i| i as u8);
            check_transpose(ctx, &shape, &axes, |i| i as u16);
            check_transpose(ctx, &shape, &axes, |i| i as f32);
            check_transpose(ctx, &shape, &axes, |i| i as f64);
            check_transpose(ctx, &shape, &axes, |i| [i as f64; 2]);
        }
        // Two or three elements that are repeated, interleaved or taken apart.
        for n in [2i64, 3] {
            for (inner, outer) in [([0, 1], [1, n]), ([50, 1], [1, n]), ([1, 50], [n, 1])] {
                let src: Vec<u8> = (0..200).collect();
                let mut dst = [0u8; 200];
                let (shape, from, to) = ([37, n], [outer[0], inner[0]], [outer[1], inner[1]]);
                // SAFETY: the last element is before the 150th of both.
                let status = unsafe {
                    rx_copy_strided(
                        ctx,
                        1,
                        2,
                        shape.as_ptr(),
                        src.as_ptr().cast(),
                        from.as_ptr(),
                        dst.as_mut_ptr().cast(),
                        to.as_ptr(),
                    )
                };
                assert_eq!(status, 0);
                let mut wanted = [0u8; 200];
                for (i, j) in (0..37).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let (k, l) = (i * from[0] + j * from[1], i * to[0] + j * to[1]);
                    wanted[l as usize] = src[k as usize];
                }
                assert_eq!(dst, wanted, "{n} {inner:?} {outer:?}");
            }
        }
        let src = [1i32, 2, 3];
        let mut dst = [0i32; 6];
        // SAFETY: two rows of the same three numbers, backwards.
        unsafe {
            let from: *const c_void = src.as_ptr().add(2).cast();
            let (shape, from_strides, to_strides) = ([2i64, 3], [0i64, -1], [3i64, 1]);
            let status = rx_copy_strided(
                ctx,
                4,
                2,
                shape.as_ptr(),
                from,
                from_strides.as_ptr(),
                dst.as_mut_ptr().cast(),
                to_strides.as_ptr(),
            );
            assert_eq!((status, dst), (0, [3, 2, 1, 3, 2, 1]));
            rx_fill(4, 5, (&raw const src[1]).cast(), dst.as_mut_ptr().cast());
            assert_eq!(dst, [2, 2, 2, 2, 2, 1]);
            rx_copy(8, src.as_ptr().cast(), dst.as_mut_ptr().cast());
            assert_eq!(dst[..3], [1, 2, 2]);
            assert_eq!(
                rx_transpose(ctx, 4, 17, null(), null(), null(), null_mut()),
                7
            );
        }
    });
}

#[test]
fn halves_round_to_even() {
    let x = [
        0.0f32,
        1.0,
        -2.5,
        65504.0,
        1e6,
        1.0 + 1.0 / 2048.0,
        f32::NAN,
        3e-8,
    ];
    let (mut half, mut brain, mut back) = ([0u16; 8], [0u16; 8], [0.0f32; 8]);
    // SAFETY: all have eight elements.
    unsafe {
        rx_vf32_to_f16(8, x.as_ptr(), half.as_mut_ptr());
        rx_vf16_to_f32(8, half.as_ptr(), back.as_mut_ptr());
        assert_eq!(back[..6], [0.0, 1.0, -2.5, 65504.0, f32::INFINITY, 1.0]);
        assert!(back[6].is_nan() && (back[7] - 3e-8).abs() < 3e-8);
        rx_vf32_to_bf16(8, x.as_ptr(), brain.as_mut_ptr());
        rx_vbf16_to_f32(8, brain.as_ptr(), back.as_mut_ptr());
        assert_eq!(back[..4], [0.0, 1.0, -2.5, 65536.0]);
    }
}

/// Groups of channels, whose elements share a factor each, or have one each; rows that are not centred.
#[test]
fn norms_of_groups() {
    everywhere(|ctx, _| {
        for (images, channels, groups, inner) in [
            (2, 3, 3, 7),
            (3, 6, 2, 16),
            (2, 8, 4, 1),
            (1, 4, 1, 37),
            (2, 2, 2, 1024),
            (64, 64, 8, 32),
        ] {
            for centred in [true, false] {
                let (rows, n) = (images * groups, channels / groups * inner);
                let x: Vec<f32> = (Random(3).floats(rows * n).iter())
                    .map(|x| x * 2.0 + 5.0)
                    .collect();
                let (gamma, beta) = (Random(4).floats(channels), Random(5).floats(channels));
                let mut y = vec![0.0f32; rows * n];
                let g = RxLayerNormF32 {
                    rows: rows as i64,
                    cols: n as i64,
                    channels: channels as i64,
                    inner: inner as i64,
                    x: x.as_ptr().cast(),
                    gamma: gamma.as_ptr().cast(),
                    beta: if centred {
                        beta.as_ptr().cast()
                    } else {
                        std::ptr::null()
                    },
                    y: y.as_mut_ptr().cast(),
                    epsilon: 1e-3,
                    centred: i32::from(centred),
                    kind: Kind::F32 as i32,
                    factors: Kind::F32 as i32,
                };
                // SAFETY: all arrays have the sizes that are stated.
                assert_eq!(unsafe { rx_layer_norm_f32(ctx, &g) }, 0);
                for row in 0..rows {
                    let wide: Vec<f64> = (x[row * n..(row + 1) * n].iter())
                        .map(|x| f64::from(*x))
                        .collect();
                    let mean = if centred {
                        wide.iter().sum::<f64>() / n as f64
                    } else {
                        0.0
                    };
                    let square = wide.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                    let wanted: Vec<f32> = (wide.iter().enumerate())
                        .map(|(i, x)| {
                            let channel = (row * n + i) / inner % channels;
                            let unit =
                                (x - mean) / (square + 1e-3).sqrt() * f64::from(gamma[channel]);
                            (unit
                                + if centred {
                                    f64::from(beta[channel])
                                } else {
                                    0.0
                                }) as f32
                        })
                        .collect();
                    close("norm", &y[row * n..(row + 1) * n], &wanted, 1e-4);
                }
            }
        }
    });
}
