//! Attention against plain loops in float64, over odd sizes, masks, layouts, instruction sets and
//! threads.

mod common;

use common::{Random, close, everywhere};
use relax_runtime::capi::kernels::rx_attention_f32;
use relax_runtime::context::RxContext;
use relax_runtime::kernels::attention::RxAttentionF32;
use std::ptr::null;

/// Further than all keys.
const FAR: i64 = 1 << 60;

struct Case {
    batch: usize,
    rows: usize,
    keys: usize,
    depth: usize,
    width: usize,
    /// Whether keys and values are stored transposed.
    turned: (bool, bool),
    /// Whether all batches share keys and values.
    shared: bool,
    /// 0 none, 1 per batch, row and key, 2 per key, 3 per row, 4 causal; 5 and 6 like 1, of bytes
    /// that keep or replace.
    mask: usize,
    /// Heads of a batch, and how many share keys, and values.
    heads: (usize, usize, usize),
    /// The keys that a query sees, from its index on.
    seen: (i64, i64),
}

/// A matrix of `rows` by `columns` per batch as the kernel reads it: elements, and strides of rows
/// and columns.
fn strides(rows: usize, columns: usize, turned: bool) -> (usize, usize) {
    if turned { (1, rows) } else { (columns, 1) }
}

/// Steps from one batch to the next, where there is more than one, and from one head to the next.
fn steps(of: usize, heads: usize, size: usize) -> [usize; 2] {
    [if of == 1 { 0 } else { heads * size }, size]
}

fn check(ctx: *mut RxContext, c: &Case, random: &mut Random) {
    let (heads, k_share, v_share) = c.heads;
    let (q_size, k_size, v_size) = (c.rows * c.depth, c.depth * c.keys, c.keys * c.width);
    let of = if c.shared { 1 } else { c.batch };
    let q: Vec<f32> = random
        .floats(c.batch * heads * q_size)
        .iter()
        .map(|x| x * 4.0)
        .collect();
    let k = random.floats(of * heads / k_share * k_size);
    let v = random.floats(of * heads / v_share * v_size);
    let (mask_of, mask_rows, mask_keys) = match c.mask {
        1 | 5 | 6 => (c.batch, c.rows, c.keys),
        2 => (1, 1, c.keys),
        3 => (1, c.rows, 1),
        _ => (1, c.rows, c.keys),
    };
    let mut mask = random.floats(mask_of * heads * mask_rows * mask_keys);
    if c.mask == 4 {
        for h in 0..heads {
            for i in 0..c.rows {
                for j in 0..c.keys {
                    // The later keys come first, so that whole pieces are masked out before one is
                    // not.
                    mask[(h * c.rows + i) * c.keys + j] = if c.keys - 1 - j <= i {
                        0.0
                    } else {
                        f32::NEG_INFINITY
                    };
                }
            }
        }
    }
    let bytes: Vec<u8> = mask.iter().map(|x| u8::from(*x > 0.0)).collect();
    let fill = -0.5f32;
    let step = |n: usize, size: usize| if n == 1 { 0 } else { size };
    let (k_rs, k_cs) = strides(c.depth, c.keys, c.turned.0);
    let (v_rs, v_cs) = strides(c.keys, c.width, c.turned.1);
    let [k_step, k_head] = steps(of, heads / k_share, k_size);
    let [v_step, v_head] = steps(of, heads / v_share, v_size);
    let [mask_step, mask_head] = steps(mask_of, heads, mask_rows * mask_keys);
    let mask_steps = [step(mask_rows, mask_keys), usize::from(mask_keys > 1)];
    // Heads lie one after another, or beside each other in a row.
    let beside = c.turned.0;
    let laid = |size: usize| match beside {
        true => [heads * size * c.rows, size, heads * size],
        false => [heads * size * c.rows, size * c.rows, size],
    };
    let (q_laid, out_laid) = (laid(c.depth), laid(c.width));
    let scale = 0.7f32;
    let mut out = vec![f32::NAN; c.batch * heads * c.rows * c.width];
    let g = RxAttentionF32 {
        batch: c.batch as i64,
        heads: heads as i64,
        rows: c.rows as i64,
        keys: c.keys as i64,
        depth: c.depth as i64,
        width: c.width as i64,
        q: q.as_ptr(),
        q_step: q_laid[0] as i64,
        q_head: q_laid[1] as i64,
        q_rs: q_laid[2] as i64,
        k: k.as_ptr(),
        k_step: k_step as i64,
        k_head: k_head as i64,
        k_share: k_share as i64,
        k_rs: k_rs as i64,
        k_cs: k_cs as i64,
        v: v.as_ptr(),
        v_step: v_step as i64,
        v_head: v_head as i64,
        v_share: v_share as i64,
        v_rs: v_rs as i64,
        v_cs: v_cs as i64,
        mask: match c.mask {
            0 => null(),
            5 | 6 => bytes.as_ptr().cast(),
            _ => mask.as_ptr().cast(),
        },
        mask_step: mask_step as i64,
        mask_head: mask_head as i64,
        mask_rs: mask_steps[0] as i64,
        mask_cs: mask_steps[1] as i64,
        out: out.as_mut_ptr(),
        out_step: out_laid[0] as i64,
        out_head: out_laid[1] as i64,
        out_rs: out_laid[2] as i64,
        first: c.seen.0,
        last: c.seen.1,
        scale,
        mask_kind: [0, 0, 0, 0, 0, 1, 2][c.mask],
        fill,
        reserved: 0,
    };
    // SAFETY: all arrays have the sizes that are stated.
    assert_eq!(unsafe { rx_attention_f32(ctx, &g) }, 0);
    let mut wanted = vec![f32::NAN; out.len()];
    for (b, h) in (0..c.batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        let (own_k, own_v) = (
            b * k_step + h / k_share * k_head,
            b * v_step + h / v_share * v_head,
        );
        for i in 0..c.rows {
            let query = b * q_laid[0] + h * q_laid[1] + i * q_laid[2];
            let scores: Vec<f64> = (0..c.keys)
                .map(|j| {
                    let dot: f64 = (0..c.depth)
                        .map(|d| {
                            f64::from(q[query + d]) * f64::from(k[own_k + d * k_rs + j * k_cs])
                        })
                        .sum();
                    let at = b * mask_step + h * mask_head + i * mask_steps[0] + j * mask_steps[1];
                    let scaled = dot * f64::from(scale);
                    if !(c.seen.0..c.seen.1).contains(&(j as i64 - i as i64)) {
                        return f64::NEG_INFINITY;
                    }
                    match c.mask {
                        0 => scaled,
                        5 | 6 if (bytes[at] == 0) == (c.mask == 5) => f64::from(fill),
                        5 | 6 => scaled,
                        _ => scaled + f64::from(mask[at]),
                    }
                })
                .collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for j in 0..c.width {
                let sum: f64 = (weights.iter().enumerate())
                    .map(|(p, w)| w * f64::from(v[own_v + p * v_rs + j * v_cs]))
                    .sum();
                wanted[b * out_laid[0] + h * out_laid[1] + i * out_laid[2] + j] =
                    (sum / total) as f32;
            }
        }
    }
    let what = format!(
        "{} x {} x {} x {} x {}, mask {}, heads {:?}, seen {:?}",
        c.batch, c.rows, c.keys, c.depth, c.width, c.mask, c.heads, c.seen
    );
    close(&what, &out, &wanted, 2e-5);
}

#[test]
fn attention() {
    everywhere(|ctx, _| {
        let mut random = Random(21);
        for (case, (batch, rows, keys, depth, width)) in [
            (1, 1, 1, 1, 1),
            (2, 1, 17, 8, 8),
            (1, 4, 33, 16, 5),
            (3, 5, 7, 3, 2),
            (2, 64, 64, 16, 16),
            (1, 65, 513, 9, 17),
            (2, 70, 1100, 12, 33),
            (1, 3, 1030, 20, 40),
            (5, 130, 100, 64, 64),
        ]
        .into_iter()
        .enumerate()
        {
            for mask in 0..7 {
                // All keys; those up to the query's own, which is the last; some before it.
                let own = keys as i64 - rows as i64;
                let seen = [(-FAR, FAR), (-FAR, own + 1), (own - 3, own + 1), (-2, FAR)];
                let turned = [(false, false), (true, false), (true, true), (false, true)];
                check(
                    ctx,
                    &Case {
                        batch,
                        rows,
                        keys,
                        depth,
                        width,
                        turned: turned[(case + mask) % 4],
                        shared: (case + mask) % 3 == 0,
                        mask,
                        heads: [(1, 1, 1), (4, 2, 2), (6, 6, 3), (8, 8, 8), (2, 1, 2)]
                            [(case + 2 * mask) % 5],
                        seen: seen[(case + 3 * mask) % 4],
                    },
                    &mut random,
                );
            }
        }
    });
}

#[test]
fn what_is_masked_out_whole_has_no_answer() {
    everywhere(|ctx, _| {
        let (q, mask) = ([1.0f32; 2], [f32::NEG_INFINITY; 3]);
        let (k, v, mut out) = ([1.0f32; 6], [1.0f32; 6], [0.0f32; 2]);
        let mut g = RxAttentionF32 {
            batch: 1,
            heads: 1,
            rows: 1,
            keys: 3,
            depth: 2,
            width: 2,
            q: q.as_ptr(),
            q_step: 0,
            q_head: 0,
            q_rs: 2,
            k: k.as_ptr(),
            k_step: 0,
            k_head: 0,
            k_share: 1,
            k_rs: 1,
            k_cs: 2,
            v: v.as_ptr(),
            v_step: 0,
            v_head: 0,
            v_share: 1,
            v_rs: 2,
            v_cs: 1,
            mask: mask.as_ptr().cast(),
            mask_step: 0,
            mask_head: 0,
            mask_rs: 0,
            mask_cs: 1,
            out: out.as_mut_ptr(),
            out_step: 0,
            out_head: 0,
            out_rs: 2,
            first: -FAR,
            last: FAR,
            scale: 1.0,
            mask_kind: 0,
            fill: 0.0,
            reserved: 0,
        };
        // SAFETY: as above.
        assert_eq!(unsafe { rx_attention_f32(ctx, &g) }, 0);
        assert!(
            out.iter().all(|x| x.is_nan()),
            "as the softmax says: {out:?}"
        );
        // No keys: empty sums.
        g.keys = 0;
        g.out = out.as_mut_ptr();
        // SAFETY: as above.
        assert_eq!(unsafe { rx_attention_f32(ctx, &g) }, 0);
        assert_eq!(out, [0.0; 2]);
    });
}
