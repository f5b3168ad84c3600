//! Elements selected axis by axis, and bytes looked up, against plain loops.

mod common;

use common::{Random, everywhere};
use relax_runtime::capi::arrays::rx_lookup_bytes;
use relax_runtime::capi::kernels::rx_pick;
use relax_runtime::kernels::pick::RxPick;

/// A table as padding, gathering or repeating creates it.
fn table(random: &mut Random, n: usize, step: i64, reach: i64) -> Vec<i64> {
    let at = |i: i64| i.rem_euclid(reach) * step;
    let n = n as i64;
    match random.below(7) {
        0 => (0..n).map(at).collect(),
        1 => (0..n)
            .map(|i| if i < 2 || i >= n - 1 { -1 } else { at(i) })
            .collect(),
        2 => (0..n).map(|i| at((i - 2).clamp(0, reach - 1))).collect(),
        3 => (0..n).map(|i| at(n - 1 - i)).collect(),
        4 => (0..n).map(|i| at(i / 2)).collect(),
        5 => (0..n)
            .map(|i| if i % 3 == 0 { at(i / 3) } else { -1 })
            .collect(),
        _ => (0..n)
            .map(|_| at(random.below(reach as usize) as i64))
            .collect(),
    }
}

fn check<T: Copy + PartialEq + std::fmt::Debug>(
    ctx: *mut relax_runtime::context::RxContext,
    random: &mut Random,
    of: impl Fn(usize) -> T,
    fill: (u64, T),
) {
    let rank = 1 + random.below(4);
    let most = [400, 70, 18, 9][rank - 1];
    let extents: Vec<i64> = (0..rank).map(|_| 1 + random.below(most) as i64).collect();
    // Of a single axis, runs may be long.
    let longest = if rank == 1 { 300 } else { 9 };
    let shape: Vec<i64> = (0..rank)
        .map(|_| 1 + random.below(longest) as i64)
        .collect();
    let mut tables = Vec::new();
    let mut step = 1;
    for (&n, &reach) in extents.iter().zip(&shape).rev() {
        tables.insert(0, table(random, n as usize, step, reach));
        step *= reach;
    }
    compare(ctx, (&extents, &tables, step as usize), of, fill);
}

/// Picks elements of an array of some elements, and compares them.
fn compare<T: Copy + PartialEq + std::fmt::Debug>(
    ctx: *mut relax_runtime::context::RxContext,
    (extents, tables, elements): (&[i64], &[Vec<i64>], usize),
    of: impl Fn(usize) -> T,
    fill: (u64, T),
) {
    let x: Vec<T> = (0..elements).map(&of).collect();
    let count = extents.iter().product::<i64>() as usize;
    let mut out = vec![of(99); count + 1];
    let all = tables.concat();
    let pick = RxPick {
        axes: extents.len() as i32,
        size: size_of::<T>() as i32,
        extents: extents.as_ptr(),
        tables: all.as_ptr(),
        x: x.as_ptr().cast(),
        fill: fill.0,
        out: out.as_mut_ptr().cast(),
    };
    // SAFETY: tables lead to elements of `x`, the result has room.
    assert_eq!(unsafe { rx_pick(ctx, &pick) }, 0);
    for (place, found) in out[..count].iter().enumerate() {
        let (mut rest, mut at, mut hole) = (place, 0, false);
        for (table, &n) in tables.iter().zip(extents).rev() {
            let t = table[rest % n as usize];
            rest /= n as usize;
            hole |= t < 0;
            at += t;
        }
        let wanted = if hole { fill.1 } else { x[at as usize] };
        assert_eq!(*found, wanted, "element {place} of {extents:?}, {tables:?}");
    }
    assert_eq!(out[count], of(99));
}

#[test]
fn chosen_elements_are_what_loops_give() {
    everywhere(|ctx, _| {
        let mut random = Random(23);
        for _ in 0..150 {
            check(ctx, &mut random, |i| i as u8, (5, 5u8));
            check(ctx, &mut random, |i| i as u16, (7, 7u16));
            let one = f32::to_bits(-1.5).into();
            check(ctx, &mut random, |i| i as f32, (one, -1.5f32));
            check(ctx, &mut random, |i| i as i64, (u64::MAX, -1i64));
        }
    });
}

/// Images with channels last, whose padded rows are longer than most tables: runs of the last axis
/// that lie beside each other are one, and those that do not are several.
#[test]
fn padded_rows_are_what_loops_give() {
    everywhere(|ctx, _| {
        let mut random = Random(29);
        for (wide, channels) in [(45, 130), (300, 16), (1100, 32), (70, 64)] {
            for whole in [true, false] {
                let step = if whole { channels } else { channels + 3 };
                let channel: Vec<i64> = (0..channels).collect();
                let column = table(&mut random, wide as usize, step, wide);
                let row = table(&mut random, 9, step * wide, 7);
                let image = table(&mut random, 2, step * wide * 7, 2);
                let extents = [2, 9, wide, channels];
                let all = (step * wide * 14) as usize;
                let tables = [image, row, column, channel];
                compare(ctx, (&extents, &tables, all), |i| i as u8, (5, 5u8));
                compare(ctx, (&extents, &tables, all), |i| i as u16, (7, 7u16));
            }
        }
    });
}

/// Any number of bytes, into another array or in place.
#[test]
fn bytes_are_looked_up() {
    let mut random = Random(31);
    let table: Vec<u8> = (0..256).map(|_| random.bits() as u8).collect();
    for n in [0usize, 1, 63, 64, 65, 300, 4096, 10_001, 300_000] {
        let x: Vec<u8> = (0..n).map(|_| random.bits() as u8).collect();
        for flip in [0u8, 128] {
            let look = |x: &u8| table[usize::from(*x ^ flip)];
            let wanted: Vec<u8> = x.iter().map(look).collect();
            everywhere(|ctx, isa| {
                // One byte beyond, which stays.
                let mut y = vec![7u8; n + 1];
                let (from, of, to) = (x.as_ptr(), table.as_ptr(), y.as_mut_ptr());
                let flip = i32::from(flip);
                // SAFETY: both arrays have `n` bytes, the table 256.
                let status = unsafe {
                    rx_lookup_bytes(ctx, n as i64, from.cast(), of.cast(), to.cast(), flip)
                };
                assert_eq!((status, &y[..n], y[n]), (0, &wanted[..], 7), "{n} {isa:?}");
                y[..n].copy_from_slice(&x);
                let to = y.as_mut_ptr();
                // SAFETY: as above.
                unsafe { rx_lookup_bytes(ctx, n as i64, to.cast(), of.cast(), to.cast(), flip) };
                assert_eq!((&y[..n], y[n]), (&wanted[..], 7), "{n} {isa:?}, in place");
            });
        }
    }
}
