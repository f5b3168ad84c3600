//! Products of matrices against plain loops, over odd sizes, edges, instruction sets and thread
//! counts.

mod common;

use common::{Random, close, dense, dense_f32, everywhere, finish};
use relax_runtime::capi::kernels::{
    rx_batch_gemm_f32, rx_gemm_f32, rx_gemm_f64, rx_gemm_i8_i8_i32, rx_gemm_i16_i16_i32,
    rx_gemm_i32_i32_i32, rx_gemm_i64_i64_i64, rx_gemm_u8_i8_i32, rx_gemm_u8_u8_i32,
};
use relax_runtime::capi::packing::{
    rx_pack_a_f32, rx_pack_a_f32_size, rx_pack_b_f32, rx_pack_b_f32_size,
};
use relax_runtime::context::RxContext;
use relax_runtime::kernels::gemm::epilogue::{Rounding, RxEpilogue};
use relax_runtime::kernels::gemm::other::*;
use relax_runtime::kernels::gemm::*;
use std::ptr::null;

struct Product {
    m: usize,
    n: usize,
    k: usize,
    /// Whether A and B are stored transposed.
    a_t: bool,
    b_t: bool,
    packed: (bool, bool),
    accumulate: bool,
    /// 0 nothing, 1 bias per row, 2 scale and bias per column and relu, 3 residual and clip.
    epilogue: usize,
}

fn check_product(ctx: *mut RxContext, p: &Product, random: &mut Random) {
    let &Product { m, n, k, .. } = p;
    let (a, b) = (random.floats(m * k), random.floats(k * n));
    let old = random.floats(m * (n + 3));
    let (row_bias, column_bias) = (random.floats(m), random.floats(n));
    let (row_scale, column_scale) = (random.floats(m), random.floats(n));
    let mut residual = random.floats(m * (n + 1));
    if let Some(first) = residual.first_mut() {
        *first = f32::NAN;
    }
    let (mut c, mut rounded) = (old.clone(), old.clone());
    let mut e = RxEpilogue::default();
    match p.epilogue {
        1 => e.bias = row_bias.as_ptr(),
        2 => {
            (e.bias, e.bias_axis, e.activation) = (column_bias.as_ptr(), 1, 1);
            e.scale = column_scale.as_ptr();
        }
        3 => {
            (e.residual, e.residual_ld) = (residual.as_ptr(), n as i64 + 1);
            (e.activation, e.lo, e.hi) = (2, -0.25, 0.5);
        }
        4 => {
            (e.offset, e.scale, e.bias) =
                (row_bias.as_ptr(), row_scale.as_ptr(), row_bias.as_ptr());
            (e.residual, e.residual_ld) = (residual.as_ptr(), n as i64 + 1);
            (e.activation, e.lo, e.hi) = (3 + random.below(2) as i32, -0.25, 0.5);
        }
        _ => {}
    }
    let (a_rs, a_cs) = if p.a_t { (1, m) } else { (k, 1) };
    let (b_rs, b_cs) = if p.b_t { (1, k) } else { (n, 1) };
    let mut a_packed = vec![0.0; rx_pack_a_f32_size(m as i64, k as i64) as usize];
    let mut b_packed = vec![0.0; rx_pack_b_f32_size(k as i64, n as i64) as usize];
    // SAFETY: all arrays have the sizes that the product states.
    unsafe {
        rx_pack_a_f32(
            m as i64,
            k as i64,
            a.as_ptr(),
            a_rs as i64,
            a_cs as i64,
            a_packed.as_mut_ptr(),
        );
        rx_pack_b_f32(
            k as i64,
            n as i64,
            b.as_ptr(),
            b_rs as i64,
            b_cs as i64,
            b_packed.as_mut_ptr(),
        );
        let mut g = RxGemmF32 {
            m: m as i64,
            n: n as i64,
            k: k as i64,
            a: if p.packed.0 { null() } else { a.as_ptr() },
            a_rs: a_rs as i64,
            a_cs: a_cs as i64,
            b: if p.packed.1 { null() } else { b.as_ptr() },
            b_rs: b_rs as i64,
            b_cs: b_cs as i64,
            a_packed: if p.packed.0 {
                a_packed.as_ptr()
            } else {
                null()
            },
            b_packed: if p.packed.1 {
                b_packed.as_ptr()
            } else {
                null()
            },
            c: c.as_mut_ptr(),
            c_ld: n as i64 + 3,
            accumulate: i32::from(p.accumulate),
            reserved: 0,
            epilogue: e,
        };
        assert_eq!(rx_gemm_f32(ctx, &g), 0);
        (g.c, g.epilogue.rounding) = (rounded.as_mut_ptr(), Rounding::Half as i32);
        assert_eq!(rx_gemm_f32(ctx, &g), 0);
    }
    let mut wanted = old;
    for i in 0..m {
        for j in 0..n {
            let at = i * (n + 3) + j;
            let products = (0..k)
                .map(|q| f64::from(a[i * a_rs + q * a_cs]) * f64::from(b[q * b_rs + j * b_cs]));
            let sum = products.sum::<f64>() as f32 + if p.accumulate { wanted[at] } else { 0.0 };
            let bias = if e.bias_axis == 0 { i } else { j };
            wanted[at] = finish(&e, sum, bias, i * (n + 1) + j);
        }
    }
    let what = format!(
        "{m} x {n} x {k}, transposed {} {}, packed {:?}, accumulate {}, epilogue {}",
        p.a_t, p.b_t, p.packed, p.accumulate, p.epilogue
    );
    close(&what, &c, &wanted, 1e-5 * (k as f32).sqrt().max(1.0));
    let lines = c.chunks(n + 3).zip(rounded.chunks(n + 3));
    for (plain, rounded) in lines {
        common::halved(&what, &rounded[..n], &plain[..n]);
    }
}

#[test]
fn products_of_all_sizes_and_strides() {
    everywhere(|ctx, _| {
        let mut random = Random(1);
        let edges = [
            0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 65,
        ];
        let product = |m, n, k, random: &mut Random| {
            let p = Product {
                m,
                n,
                k,
                a_t: random.below(2) == 1,
                b_t: random.below(2) == 1,
                packed: (random.below(3) == 0, random.below(3) == 0),
                accumulate: random.below(3) == 0,
                epilogue: random.below(5),
            };
            check_product(ctx, &p, random);
        };
        for m in edges {
            for n in edges {
                product(m, n, edges[random.below(edges.len())], &mut random);
            }
        }
        // Across the borders of blocks, and large enough for two threads.
        for (m, n, k) in [
            (130, 130, 130),
            (9, 500, 1030),
            (70, 485, 515),
            (1, 700, 1100),
            (3, 300, 600),
            // Rows of B that lie far apart, or collide in the caches.
            (51, 1700, 60),
            (70, 256, 300),
        ] {
            for _ in 0..4 {
                product(m, n, k, &mut random);
            }
        }
    });
}

#[test]
fn a_product_of_many_rows_is_cut_into_blocks() {
    everywhere(|ctx, _| {
        for packed in [false, true] {
            let p = Product {
                m: 2100,
                n: 20,
                k: 17,
                a_t: false,
                b_t: false,
                packed: (packed, packed),
                accumulate: true,
                epilogue: 2,
            };
            check_product(ctx, &p, &mut Random(2));
        }
    });
}

#[test]
fn batches_step_through_their_operands() {
    everywhere(|ctx, _| {
        for (batch, m, n, k) in [
            // More products than threads, that are cut along their rows.
            (3, 201, 50, 33),
            (0, 3, 4, 5),
            (1, 3, 4, 5),
            (7, 5, 33, 9),
            (5, 64, 64, 64),
            (1, 90, 90, 90),
        ] {
            let mut random = Random(3);
            let (a, b) = (random.floats(batch * m * k), random.floats(k * n));
            let mut c = vec![0.0f32; batch * m * n];
            let g = dense_f32((m, n, k), false, &a, &b, &mut c);
            // SAFETY: all arrays have the sizes that the products state.
            let status = unsafe {
                rx_batch_gemm_f32(ctx, &g, batch as i64, (m * k) as i64, 0, (m * n) as i64)
            };
            assert_eq!(status, 0);
            let wanted: Vec<f32> = (0..batch * m * n)
                .map(|x| {
                    let (i, j) = (x / n, x % n);
                    (0..k)
                        .map(|q| f64::from(a[i * k + q]) * f64::from(b[q * n + j]))
                        .sum::<f64>() as f32
                })
                .collect();
            close("batch", &c, &wanted, 1e-5);
        }
    });
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |ctx: *mut RxContext, k: usize| {
        let mut random = Random(4);
        let (m, n) = (150, 170);
        let (a, b) = (random.floats(m * k), random.floats(k * n));
        let mut c = vec![0.0f32; m * n];
        let g = dense_f32((m, n, k), true, &a, &b, &mut c);
        // SAFETY: all arrays have the sizes that the product states.
        assert_eq!(unsafe { rx_gemm_f32(ctx, &g) }, 0);
        c
    };
    let seen = std::cell::RefCell::new(Vec::new());
    everywhere(|ctx, isa| {
        let c = run(ctx, 700);
        // SAFETY: a live context.
        if unsafe { (*ctx).threads } == 1 {
            seen.borrow_mut().push((isa, c));
        } else {
            let seen = seen.borrow();
            let (first, one) = seen.last().expect("one thread came first");
            assert!(*first == isa && *one == c, "{isa:?}");
        }
    });
}

type Entry = unsafe extern "C" fn(*mut RxContext, *const RxGemm) -> i32;

fn check_other<A, C>(
    ctx: *mut RxContext,
    entry: Entry,
    a: impl Fn(u64) -> A,
    wide: impl Fn(&A) -> i128,
    narrow: impl Fn(i128) -> C,
) where
    C: Copy + PartialEq + std::fmt::Debug,
{
    for (m, n, k) in [
        (1, 1, 0),
        (1, 1, 1),
        (3, 65, 130),
        (9, 7, 300),
        (40, 70, 20),
    ] {
        let mut random = Random(5);
        let x: Vec<A> = (0..m * k).map(|_| a(random.bits())).collect();
        let y: Vec<A> = (0..k * n).map(|_| a(random.bits())).collect();
        let mut c: Vec<C> = (0..m * n).map(|i| narrow(i as i128)).collect();
        let g = RxGemm {
            accumulate: 1,
            ..dense((m, n, k), true, &x, &y, &mut c)
        };
        // SAFETY: all arrays have the sizes that the product states.
        assert_eq!(unsafe { entry(ctx, &g) }, 0);
        for (i, c) in c.iter().enumerate() {
            let products = (0..k).map(|q| wide(&x[i / n * k + q]) * wide(&y[i % n * k + q]));
            assert_eq!(
                *c,
                narrow(products.sum::<i128>() + i as i128),
                "{m} {n} {k} at {i}"
            );
        }
    }
}

#[test]
fn products_of_other_types() {
    everywhere(|ctx, _| {
        let i32_of = |x: i128| x as i32;
        check_other(
            ctx,
            rx_gemm_i8_i8_i32,
            |r| r as i8,
            |x| i128::from(*x),
            i32_of,
        );
        check_other(
            ctx,
            rx_gemm_u8_u8_i32,
            |r| r as u8,
            |x| i128::from(*x),
            i32_of,
        );
        check_other(
            ctx,
            rx_gemm_i16_i16_i32,
            |r| r as i16,
            |x| i128::from(*x),
            i32_of,
        );
        check_other(
            ctx,
            rx_gemm_i32_i32_i32,
            |r| r as i32,
            |x| i128::from(*x),
            i32_of,
        );
        check_other(
            ctx,
            rx_gemm_i64_i64_i64,
            |r| r as i64,
            |x| i128::from(*x),
            |x| x as i64,
        );
        let small = |r: u64| (r % 1000) as f64;
        check_other(ctx, rx_gemm_f64, small, |x| *x as i128, |x| x as f64);
        // The entry with two different types.
        let (a, b, mut c) = ([200u8, 3], [-5i8, 7], [0i32]);
        let g = dense((1, 1, 2), true, &a, &b, &mut c);
        // SAFETY: as above.
        assert_eq!(unsafe { rx_gemm_u8_i8_i32(ctx, &g) }, 0);
        assert_eq!(c, [-979]);
    });
}
