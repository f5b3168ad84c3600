//! The simplifications and proofs that shapes need, case by case.

use relax_sym::{Atom, Dim, DimError, DimInfer, DimVar, Facts, Overflow, Proof, Solution, solve};

const NAMES: [&str; 6] = ["n", "m", "h", "k", "s", "p"];

fn show(dim: &Dim) -> String {
    dim.display(&|var| NAMES[var.0 as usize].to_string())
        .to_string()
}

fn vars() -> [Dim; 6] {
    std::array::from_fn(|index| Dim::var(DimVar(index as u32)))
}

fn int(value: i64) -> Dim {
    Dim::from(value)
}

#[track_caller]
fn check(dim: Dim, text: &str) {
    assert_eq!(show(&dim), text);
    let again = dim.substitute(&|atom| Some(Dim::atom(atom)));
    assert_eq!(again, dim, "rebuilding a normal form changes nothing");
}

#[test]
fn a_dimension_is_small() {
    assert!(size_of::<Dim>() <= 16);
    assert!(size_of::<Option<Dim>>() <= 16);
}

/// Other names for the variables of a polynomial: what is substituted is what would have been built
/// of them, also where terms and factors become the same, cancel out or change their order.
#[test]
fn renamed_variables() {
    let [n, m, h, ..] = vars();
    let build = |n: &Dim, m: &Dim, h: &Dim| n * m * 2 + n * n + m - n + h * 3 + 1;
    let of = build(&n, &m, &h);
    for new in [
        [&m, &n, &h],
        [&h, &n, &m],
        [&n, &n, &h],
        [&h, &h, &h],
        [&m, &m, &n],
    ] {
        let renamed = of.substitute(&|atom| match atom {
            Atom::Var(DimVar(i)) => Some(new[i as usize].clone()),
            Atom::Infer(_) => None,
        });
        assert_eq!(renamed, build(new[0], new[1], new[2]));
    }
    let difference = &n * 2 - &m * 2;
    assert_eq!(difference.substitute(&|_| Some(h.clone())), int(0));
}

#[test]
fn sums_and_products() {
    let [n, m, h, ..] = vars();
    check(4 + &n, "n + 4");
    check(4 - &n, "4 - n");
    check(&n * 4, "n * 4");
    check(&m * &n, "n * m");
    check((&n + 1) * (&n - 1), "n * n - 1");
    check(&n + &m - &n, "m");
    check(&n - &n, "0");
    check(-&n, "0 - n");
    check(-&n * 3 - 2, "0 - n * 3 - 2");
    check(&h + &m * &n + &n * 2 - 7, "n * m + n * 2 + h - 7");
    check((&n + &m) * (&n + &m) - &n * &n - &m * &m, "n * m * 2");
}

#[test]
fn quotients() {
    let [n, m, h, k, s, p] = vars();
    check((&n * 4).floordiv(&int(4)), "n");
    check((3 * &n).floordiv(&int(3)), "n");
    check((&n * &m).floordiv(&m), "n");
    check((&n * &m * 6).floordiv(&(&m * 2)), "n * 3");
    check((&n * 4 + 3).floordiv(&int(4)), "n");
    check((&n * 4 + 5).floordiv(&int(4)), "n + 1");
    check((&n * 4 - 1).floordiv(&int(4)), "n - 1");
    check((&n * 2 + &m).floordiv(&int(4)), "(n * 2 + m) // 4");
    check((&n * 2 + 1).floordiv(&int(4)), "n // 2");
    check(&n.floordiv(&int(2)) * 2, "n // 2 * 2");
    check(&n * n.floordiv(&int(2)), "n * (n // 2)");
    check((2 * h.floordiv(&int(2))).floordiv(&int(2)), "h // 2");
    check(n.floordiv(&int(2)).floordiv(&int(3)), "n // 6");
    check((n.floordiv(&int(2)) + 1).floordiv(&int(3)), "(n + 2) // 6");
    check(n.floordiv(&m).floordiv(&h), "n // (m * h)");
    check(n.floordiv(&int(1)), "n");
    check(n.floordiv(&n), "1");
    check(n.floordiv(&int(-4)), "0 - (n + 3) // 4");
    check(n.ceildiv(&int(4)), "(n + 3) // 4");
    check(n.ceildiv(&m), "(n - 1) // m + 1");
    check((&n + &m - 1).floordiv(&m), "(n - 1) // m + 1");
    check((&n - 1).floordiv(&int(2)) + 1, "(n + 1) // 2");
    check(
        (&h + 2 * &p - &k).floordiv(&s) + 1,
        "(h + p * 2 - k) // s + 1",
    );
    check(
        (&h + 2 * &p - &k + &s).floordiv(&s),
        "(h + p * 2 - k) // s + 1",
    );
    check((&n * &n + &n * 2 + 1).floordiv(&(&n + 1)), "n + 1");
    check((&n * &m).floordiv(&(&n * &h)), "m // h");
    check((&n * &m + &m * 3).floordiv(&(&m * &h)), "(n + 3) // h");
    check(n.floordiv(&(&n + 1)), "0");
    check((&n * 4 + m.modulo(&int(4))).floordiv(&int(4)), "n");
    check((&n * 4 + m.modulo(&int(4))).floordiv(&int(8)), "n // 2");
    check((-&n).floordiv(&(-&m)), "n // m");
    check(int(7).floordiv(&int(-2)), "-4");
    check(int(-7).floordiv(&int(2)), "-4");
    check(n.floordiv(&(&m * 2)), "n // (m * 2)");
    check(n.floordiv(&m.floordiv(&int(2))), "n // (m // 2)");
}

#[test]
fn rests() {
    let [n, m, ..] = vars();
    check(n.modulo(&int(1)), "0");
    check((&n * 6).modulo(&int(3)), "0");
    check((&n * 4 + 7).modulo(&int(4)), "3");
    check((&n * &m).modulo(&m), "0");
    check((&n * 2).modulo(&int(4)), "n % 2 * 2");
    check((&n * 2 + 1).modulo(&int(4)), "n % 2 * 2 + 1");
    check(n.modulo(&int(8)).modulo(&int(4)), "n % 4");
    check(n.modulo(&int(4)).modulo(&int(8)), "n % 4");
    check((n.modulo(&int(4)) + &m * 4).modulo(&int(4)), "n % 4");
    check((&n * 5).modulo(&int(4)), "n % 4");
    check(n.modulo(&m).modulo(&m), "n % m");
    check(n.modulo(&m).floordiv(&m), "0");
    check((-&n).modulo(&int(4)), "3 - (n + 3) % 4");
    check(int(-7).modulo(&int(4)), "1");
    check(int(7).modulo(&int(-4)), "-1");
    check(n.floordiv(&int(4)) * 4 + n.modulo(&int(4)), "n");
    check(n.floordiv(&m) * &m + n.modulo(&m), "n");
    check(
        (&n * 2).floordiv(&int(4)) * 4 + (&n * 2).modulo(&int(4)),
        "n * 2",
    );
    check((-&n).floordiv(&int(4)) * 4 + (-&n).modulo(&int(4)), "0 - n");
    check(
        n.floordiv(&int(4)) * 8 + n.modulo(&int(4)),
        "n // 4 * 8 + n % 4",
    );
    check(
        (n.floordiv(&int(4)) * 4 + n.modulo(&int(4))) * &m * 2,
        "n * m * 2",
    );
}

#[test]
fn extrema() {
    let [n, m, h, ..] = vars();
    check(n.min(&n), "n");
    check(m.min(&n), "min(n, m)");
    check(n.min(&int(4)), "min(n, 4)");
    check(n.min(&int(0)), "0");
    check(n.max(&int(0)), "n");
    check(n.min(&(&n + 1)), "n");
    check(n.max(&(&n + &m)), "n + m");
    check((&n + 1).min(&(&m + 1)), "min(n, m) + 1");
    check((&n * 2).max(&(&m * 2)), "max(n, m) * 2");
    check(n.min(&m).min(&h), "min(n, min(m, h))");
    check(n.min(&h).min(&n.min(&m)), "min(n, min(m, h))");
    check(h.min(&m).min(&n), "min(n, min(m, h))");
    check((-&n).min(&-&m), "0 - max(n, m)");
    check((&m - &n * 2).min(&(&h - &n)), "min(h, m - n) - n");
    check((&m + &n * 2).min(&(&h + &n)), "n + min(h, n + m)");
    check(n.max(&m).min(&n), "n");
    check(n.min(&m).max(&n), "n");
    check(int(3).max(&int(5)), "5");
    check(n.min(&m).floordiv(&int(2)), "min(n, m) // 2");
}

#[test]
fn any_absorbs() {
    let [n, ..] = vars();
    for dim in [
        &n + Dim::ANY,
        Dim::ANY * 3,
        Dim::ANY.floordiv(&n),
        n.modulo(&Dim::ANY),
        n.min(&Dim::ANY),
        Dim::ANY - Dim::ANY,
        (&n * 2 + 1).substitute(&|_| Some(Dim::ANY)),
        (&n + n.floordiv(&int(3)) + 1).substitute(&|_| Some(Dim::ANY)),
    ] {
        assert!(dim.is_any(), "{dim:?}");
    }
    assert_eq!(Dim::ANY * Dim::ZERO, Dim::ZERO);
    let facts = Facts::default();
    assert_eq!(facts.eq(&Dim::ANY, &Dim::ANY), Proof::Unknown);
    assert_eq!(facts.bounds(&Dim::ANY), (None, None));
    assert_eq!(facts.divides(3, &Dim::ANY), Proof::Unknown);
}

#[test]
fn errors_are_states() {
    let [n, ..] = vars();
    let most = int(i64::MAX);
    assert_eq!((&most + 1).error(), Some(DimError::Overflow));
    assert_eq!((&most * &n * 2).error(), Some(DimError::Overflow));
    assert_eq!(
        int(i64::MIN).floordiv(&int(-1)).error(),
        Some(DimError::Overflow)
    );
    assert_eq!((-int(i64::MIN)).error(), Some(DimError::Overflow));
    assert_eq!(int(i64::MIN).modulo(&int(-1)), Dim::ZERO);
    assert_eq!(
        n.floordiv(&Dim::ZERO).error(),
        Some(DimError::DivisionByZero)
    );
    assert_eq!(
        (n.modulo(&Dim::ZERO) + Dim::ANY).error(),
        Some(DimError::DivisionByZero)
    );
    // Extreme constants beside variables, in every operation: the result is a value or an error,
    // never a panic.
    let extremes = [i64::MIN, i64::MIN + 1, -1, 1, i64::MAX];
    for a in extremes {
        for b in extremes {
            for left in [int(a), &n * a + b, &n + a] {
                for right in [int(b), &n * b + a, &n + b] {
                    for dim in [
                        &left + &right,
                        &left - &right,
                        &left * &right,
                        left.floordiv(&right),
                        left.modulo(&right),
                        left.min(&right),
                        left.max(&right),
                    ] {
                        let _ = (
                            show(&dim),
                            Facts::default().bounds(&dim),
                            dim.eval(&|_| Some(3)),
                        );
                        let _ = (
                            Facts::default().eq(&dim, &left),
                            solve(&dim, &right, &|_| true),
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn evaluation() {
    let [n, m, ..] = vars();
    let dim = &n * &m + n.floordiv(&m);
    assert_eq!(dim.eval(&|_| Some(3)), Ok(Some(10)));
    assert_eq!(dim.eval(&|_| Some(0)), Ok(None));
    assert_eq!(dim.eval(&|var| (var.0 == 0).then_some(1)), Ok(None));
    assert_eq!((&n * &n).eval(&|_| Some(i64::MAX)), Err(Overflow));
    assert_eq!((int(i64::MAX) + &n).eval(&|_| Some(1)), Err(Overflow));
    assert_eq!(Dim::infer(DimInfer(0)).eval(&|_| Some(1)), Ok(None));
}

#[test]
fn equality() {
    use Proof::{Proven, Refuted, Unknown};
    let [n, m, ..] = vars();
    let facts = Facts::default();
    let eq = |a: &Dim, b: &Dim| facts.eq(a, b);
    assert_eq!(eq(&n, &n), Proven);
    assert_eq!(eq(&n, &(&n + 1)), Refuted);
    assert_eq!(eq(&n, &m), Unknown);
    assert_eq!(eq(&n, &(&n * 2)), Unknown);
    assert_eq!(eq(&(&n * 4), &int(7)), Refuted);
    assert_eq!(eq(&(&n * 4 + 2), &(&m * 6 + 1)), Refuted);
    assert_eq!(eq(&n, &int(-1)), Refuted);
    assert_eq!(eq(&(&n + 1), &(-&m)), Refuted);
    assert_eq!(eq(&(&n + 1), &Dim::ZERO), Refuted);
    assert_eq!(eq(&n.modulo(&int(4)), &int(4)), Refuted);
    assert_eq!(eq(&n.floordiv(&int(4)), &(&n * 3 + 1)), Refuted);
    assert_eq!(
        eq(&(&n - n.modulo(&int(4))), &(n.floordiv(&int(4)) * 4)),
        Proven
    );
    let bits = n.floordiv(&int(4)).modulo(&int(8));
    assert_eq!(eq(&bits, &n.modulo(&int(32)).floordiv(&int(4))), Proven);
    assert_eq!(eq(&n.min(&m), &(n.max(&m) + 1)), Refuted);
}

#[test]
fn order_and_bounds() {
    use Proof::{Proven, Refuted, Unknown};
    let [n, m, ..] = vars();
    let facts = Facts::default();
    assert_eq!(facts.le(&n, &(&n + &m)), Proven);
    assert_eq!(facts.lt(&n, &(&n + &m)), Unknown);
    assert_eq!(facts.lt(&n, &(&n + 1)), Proven);
    assert_eq!(facts.le(&(&n + 1), &n), Refuted);
    assert_eq!(facts.le(&n.floordiv(&int(2)), &n), Proven);
    assert_eq!(facts.le(&(n.floordiv(&int(2)) * 2), &n), Proven);
    assert_eq!(facts.le(&n.modulo(&int(3)), &n), Proven);
    assert_eq!(facts.lt(&n.modulo(&m), &m), Proven);
    assert_eq!(facts.le(&(n.floordiv(&m) * &m), &n), Proven);
    assert_eq!(facts.le(&n.min(&m), &n), Proven);
    assert_eq!(facts.le(&n.min(&m), &n.max(&m)), Proven);
    assert_eq!(facts.le(&n, &n.floordiv(&int(2))), Unknown);
    assert_eq!(facts.bounds(&(&n * 2 + 3)), (Some(3), None));
    assert_eq!(facts.bounds(&n.modulo(&int(5))), (Some(0), Some(4)));
    assert_eq!(facts.bounds(&(3 - n.modulo(&int(5)))), (Some(-1), Some(3)));
    assert_eq!(facts.bounds(&n.min(&int(9))), (Some(0), Some(9)));
    assert_eq!(facts.bounds(&(&n - &m)), (None, None));
}

#[test]
fn more_facts_prove_more() {
    use Proof::{Proven, Refuted, Unknown};
    let [n, m, ..] = vars();
    let mut facts = Facts::default();
    facts.add_lower(DimVar(0), 1);
    facts.add_upper(DimVar(0), 10);
    facts.add_multiple_of(DimVar(0), 4);
    facts.add_lower(DimVar(1), 1);
    assert_eq!(facts.eq(&n, &(&n * 2)), Refuted);
    assert_eq!(facts.le(&m, &(&n * &m)), Proven);
    assert_eq!(facts.lt(&m, &(&n * &m)), Proven, "n is at least 4");
    assert_eq!(facts.bounds(&n), (Some(4), Some(8)));
    assert_eq!(facts.eq(&(n.floordiv(&int(4)) * 4), &n), Proven);
    assert_eq!(facts.divides(4, &(&n * &m)), Proven);
    assert_eq!(facts.divides(2, &(&n + 1)), Refuted);
    assert_eq!(facts.divides(8, &n), Unknown);
    assert_eq!(facts.divides(3, &n), Refuted, "n is 4 or 8");
    assert_eq!(facts.divides(5, &(&n * 5 + 2)), Refuted);
    assert_eq!(facts.simplify(&n.modulo(&int(2))), Dim::ZERO);
    assert_eq!(facts.simplify(&n.min(&int(12))), n);
    assert_eq!(facts.simplify(&n.floordiv(&int(16))), Dim::ZERO);
    let x = Dim::infer(DimInfer(0));
    let solved = facts.solve(&(&x * &n), &(&n * 3), &|atom| {
        matches!(atom, Atom::Infer(_))
    });
    assert_eq!(solved, Solution::Solved(vec![(DimInfer(0).into(), int(3))]));
}

#[test]
fn contradictory_facts_do_no_harm() {
    let [n, m, ..] = vars();
    let mut facts = Facts::default();
    facts.add_lower(DimVar(0), i64::MAX);
    facts.add_upper(DimVar(0), i64::MIN);
    facts.add_multiple_of(DimVar(0), i64::MAX - 1);
    facts.add_multiple_of(DimVar(0), 6);
    facts.add_upper(DimVar(1), -1);
    facts.add_multiple_of(DimVar(1), 0);
    for dim in [
        &n * &m,
        n.floordiv(&m),
        m.modulo(&n),
        n.min(&m) * &n - &m.max(&n),
    ] {
        let _ = (
            facts.bounds(&dim),
            facts.eq(&dim, &m),
            facts.le(&dim, &n),
            facts.simplify(&dim),
        );
        let _ = (
            facts.divides(i64::MIN, &dim),
            facts.solve(&dim, &n, &|_| true),
        );
    }
}

#[test]
fn solving() {
    let [n, m, ..] = vars();
    let (x, y) = (Dim::infer(DimInfer(0)), Dim::infer(DimInfer(1)));
    let go = |a: &Dim, b: &Dim| solve(a, b, &|atom| matches!(atom, Atom::Infer(_)));
    let is = |id: u32, dim: Dim| Solution::Solved(vec![(DimInfer(id).into(), dim)]);
    assert_eq!(go(&x, &n), is(0, n.clone()));
    assert_eq!(go(&(&n + &m), &(&x + 3)), is(0, &n + &m - 3));
    assert_eq!(go(&(4 * &x), &(4 * &n)), is(0, n.clone()));
    assert_eq!(go(&(2 * &x), &int(6)), is(0, int(3)));
    assert_eq!(go(&(2 * &x), &int(7)), Solution::Different);
    assert_eq!(go(&(2 * &x), &n), Solution::Stuck);
    assert_eq!(
        go(&(&x + 5), &int(3)),
        Solution::Different,
        "extents are not negative"
    );
    assert_eq!(go(&x, &x), Solution::Equal);
    assert_eq!(go(&x, &(&x + 1)), Solution::Different);
    // This also implies `n == 0`: checking that the value is a valid extent is up to the caller.
    assert_eq!(go(&x, &(&x * 2 + &n)), is(0, -&n));
    assert_eq!(go(&x, &y), is(1, x.clone()));
    assert_eq!(go(&x, &(&x * &n)), Solution::Stuck);
    assert_eq!(go(&(&x * &n), &(&n * 4)), Solution::Stuck, "n may be zero");
    assert_eq!(go(&x.floordiv(&int(4)), &n), Solution::Stuck);
    assert_eq!(go(&x, &Dim::ANY), Solution::Stuck);
    assert_eq!(go(&(&x + &y * 2), &(&n * 2)), is(0, &n * 2 - &y * 2));
    assert_eq!(
        solve(&n, &m, &|_| true),
        Solution::Solved(vec![(DimVar(1).into(), n.clone())])
    );
    assert_eq!(solve(&n, &m, &|_| false), Solution::Stuck);
}

#[test]
fn blow_ups_end() {
    let vars: Vec<_> = (0..64).map(|id| Dim::var(DimVar(id))).collect();
    let mut product = Dim::ONE;
    for pair in vars.windows(2) {
        product = product * (&pair[0] + &pair[1] + 1);
    }
    assert_eq!(product.error(), Some(DimError::TooLarge));
    assert_eq!(Facts::default().eq(&product, &product), Proof::Unknown);
    assert_eq!(product.eval(&|_| Some(1)), Ok(None));
    assert_eq!(&product * Dim::ZERO, Dim::ZERO);

    // Deep nesting.
    let mut deep = vars[0].clone();
    for step in 0..100_000 {
        deep = (deep * 3 + &vars[step % 64]).floordiv(&vars[(step + 1) % 64]);
    }
    assert_eq!(deep.error(), Some(DimError::TooLarge));

    // Sharing that doubles the printed size at each step.
    let mut shared = vars[0].clone();
    for _ in 0..100 {
        shared = shared.floordiv(&vars[1]) + (&shared + 1).floordiv(&vars[2]);
    }
    assert_eq!(shared.error(), Some(DimError::TooLarge));

    // Powers.
    let mut power = vars[0].clone();
    for _ in 0..60 {
        power = &power * &power;
    }
    assert_eq!(power.error(), Some(DimError::TooLarge));
}
