//! Products with weights quantised in blocks against plain loops, over few and many rows, sizes of
//! blocks, instruction sets and thread counts.

mod common;

use common::{Random, everywhere};
use relax_runtime::capi::kernels::rx_blockwise_f32;
use relax_runtime::context::RxContext;
use relax_runtime::kernels::blockwise::RxBlockwiseF32;

struct Product {
    m: usize,
    n: usize,
    blocks: usize,
    block: usize,
    bits: usize,
}

/// The result, and one element behind it that nothing writes.
fn multiplied(
    ctx: *mut RxContext,
    p: &Product,
    x: &[f32],
    weight: &[i8],
    scale: &[f32],
) -> Vec<f32> {
    let mut y = vec![f32::NAN; p.m * p.n + 1];
    let q = RxBlockwiseF32 {
        m: p.m as i64,
        n: p.n as i64,
        blocks: p.blocks as i64,
        block: p.block as i64,
        bits: p.bits as i32,
        reserved: 0,
        x: x.as_ptr(),
        weight: weight.as_ptr().cast(),
        scale: scale.as_ptr(),
        y: y.as_mut_ptr(),
    };
    // SAFETY: the arrays have the sizes that the descriptor states.
    assert_eq!(unsafe { rx_blockwise_f32(ctx, &q) }, 0);
    y
}

fn check(ctx: *mut RxContext, p: &Product, random: &mut Random) {
    let &Product {
        m,
        n,
        blocks,
        block,
        bits,
    } = p;
    let k = blocks * block;
    let x = random.floats(m * k);
    let weight: Vec<i8> = (0..n * k * bits / 8).map(|_| random.bits() as i8).collect();
    let scale = random.floats(n * blocks);
    let y = multiplied(ctx, p, &x, &weight, &scale);
    let number = |j: usize, t: usize| {
        let byte = weight[(j * k + t) * bits / 8];
        match (bits, t % 2) {
            (8, _) => byte,
            (_, 0) => byte << 4 >> 4,
            _ => byte >> 4,
        }
    };
    for i in 0..m {
        for j in 0..n {
            let term = |t: usize| {
                f64::from(x[i * k + t])
                    * f64::from(number(j, t))
                    * f64::from(scale[j * blocks + t / block])
            };
            let wanted: f64 = (0..k).map(term).sum();
            let size: f64 = (0..k).map(|t| term(t).abs()).sum();
            let found = y[i * n + j];
            assert!(
                (f64::from(found) - wanted).abs() <= 1e-6 * size.max(1e-30),
                "{m}x{n}, {blocks} blocks of {block}, {bits} bits, at {i},{j}: {found} {wanted}"
            );
        }
    }
    assert!(y[m * n].is_nan(), "written behind the end");
}

#[test]
fn blocks_of_all_sizes_are_multiplied() {
    everywhere(|ctx, _| {
        let mut random = Random(7);
        for bits in [8, 4] {
            for (block, blocks) in [(32, 3), (16, 5), (64, 2), (128, 1), (2, 7), (20, 3), (8, 9)] {
                for m in [1, 2, 4, 7, 8, 9, 33] {
                    for n in [1, 2, 5, 50, 211] {
                        let p = Product {
                            m,
                            n,
                            blocks,
                            block,
                            bits,
                        };
                        check(ctx, &p, &mut random);
                    }
                }
            }
            for (m, n, blocks, block) in [
                (1, 1000, 70, 32),
                (3, 517, 40, 64),
                (40, 517, 40, 32),
                (9, 100, 300, 32),
                (1, 9, 0, 32),
                (20, 9, 0, 32),
                (0, 9, 2, 32),
                (3, 0, 2, 32),
                (4, 3, 4, 1 << (8 / bits)),
            ] {
                let p = Product {
                    m,
                    n,
                    blocks,
                    block,
                    bits,
                };
                check(ctx, &p, &mut random);
            }
        }
    });
}

#[test]
fn infinities_and_nan_reach_only_their_row() {
    everywhere(|ctx, _| {
        for (bits, m) in [(8, 2), (4, 2), (8, 20), (4, 20)] {
            let (n, block) = (3, 32);
            let mut x = vec![1.0f32; m * block];
            (x[1], x[block + 3]) = (f32::INFINITY, f32::NAN);
            // Twos: in both halves of a byte with 4 bits.
            let weight = vec![if bits == 8 { 2i8 } else { 0x22 }; n * block * bits / 8];
            let scale = vec![0.5f32; n];
            let p = Product {
                m,
                n,
                blocks: 1,
                block,
                bits,
            };
            let y = multiplied(ctx, &p, &x, &weight, &scale);
            for (i, row) in y[..m * n].chunks(n).enumerate() {
                for &found in row {
                    match i {
                        0 => assert_eq!(found, f32::INFINITY),
                        1 => assert!(found.is_nan()),
                        _ => assert_eq!(found, block as f32),
                    }
                }
            }
        }
    });
}
