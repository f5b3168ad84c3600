//! Indices as digits of loop variables.

use relax_base::Id;
use relax_loops::{Digits, Ex, Var, substitute};
use relax_tensor::DType;

/// Three variables below 6, 4 and 8.
fn vars() -> [Ex; 3] {
    [0, 1, 2].map(|v: usize| Ex::var(Var::from_index(v), DType::I64))
}

fn extent(v: Var) -> Option<i64> {
    [6, 4, 8].get(v.index()).copied()
}

/// Indices with equal digits are equal for all values, and these are recognised.
#[test]
fn equal_digits_are_equal_numbers() {
    let [i, j, k] = vars();
    let flat = (&i * 4 + &j) * 8 + &k;
    let same = [
        (flat.floor_div(32), i.clone()),
        (flat.floor_mod(8), k.clone()),
        (flat.floor_div(8).floor_mod(4), j.clone()),
        (flat.floor_mod(32), &j * 8 + &k),
        (flat.floor_div(16) * 16 + flat.floor_mod(16), flat.clone()),
    ];
    for (a, b) in same {
        let (x, y) = (Digits::of(&a, &extent), Digits::of(&b, &extent));
        assert!(x.is_some() && x == y, "{a:?} and {b:?}: {x:?}, {y:?}");
        for point in 0..6 * 4 * 8 {
            let values = [point / 32, point / 8 % 4, point % 8];
            let at = |e: &Ex| substitute(e, &|v| Some(Ex::idx(values[v.index()]))).as_int();
            assert_eq!(at(&a), at(&b), "{a:?} and {b:?} at {values:?}");
        }
    }
}

#[test]
fn other_numbers_have_other_digits() {
    let [i, j, k] = vars();
    let row = (&i * 4 + &j) * 8 + &k;
    let column = (&k * 4 + &j) * 6 + &i;
    let of = |e: &Ex| Digits::of(e, &extent).expect("digits");
    assert_ne!(of(&row), of(&column));
    assert_ne!(of(&(&row + 1)), of(&row));
    assert!(Digits::of(&(&i * &j), &extent).is_none());
    assert!(Digits::of(&row.floor_div(0), &extent).is_none());
    // Digits that carry, or are split unevenly, are not recognised.
    assert!(Digits::of(&(&row + 5).floor_mod(64), &extent).is_none());
    assert!(Digits::of(&row.floor_div(4).floor_div(3), &extent).is_none());
}
