//! Property tests: every simplification, proof and solution against evaluation, on random
//! expressions and assignments.

use proptest::prelude::*;
use relax_sym::{Atom, Dim, DimInfer, DimVar, Facts, Overflow, Proof, Solution, solve};

/// An expression as written, which the normal form must agree with.
#[derive(Clone, Debug)]
enum Written {
    Const(i64),
    Var(u32),
    Op(char, Box<Written>, Box<Written>),
}

const VARS: usize = 4;

impl Written {
    fn dim(&self) -> Dim {
        match self {
            Written::Const(value) => Dim::from(*value),
            Written::Var(id) => Dim::var(DimVar(*id)),
            Written::Op(op, a, b) => {
                let (a, b) = (a.dim(), b.dim());
                match op {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    '/' => a.floordiv(&b),
                    '%' => a.modulo(&b),
                    '<' => a.min(&b),
                    _ => a.max(&b),
                }
            }
        }
    }

    /// Returns `None` on division by zero or 128-bit overflow.
    fn eval(&self, values: &[i64; VARS]) -> Option<i128> {
        Some(match self {
            Written::Const(value) => i128::from(*value),
            Written::Var(id) => i128::from(values[*id as usize]),
            Written::Op(op, a, b) => {
                let (a, b) = (a.eval(values)?, b.eval(values)?);
                let floor = || -> Option<i128> {
                    let quotient = a.checked_div(b)?;
                    Some(if a % b != 0 && (a < 0) != (b < 0) {
                        quotient - 1
                    } else {
                        quotient
                    })
                };
                match op {
                    '+' => a.checked_add(b)?,
                    '-' => a.checked_sub(b)?,
                    '*' => a.checked_mul(b)?,
                    '/' => floor()?,
                    '%' => a.checked_sub(floor()?.checked_mul(b)?)?,
                    '<' => a.min(b),
                    _ => a.max(b),
                }
            }
        })
    }

    /// Returns whether a part of it has a value of more than 64 bits.
    fn exceeds_64_bits(&self, values: &[i64; VARS]) -> bool {
        let own = self.eval(values).is_some_and(|v| i64::try_from(v).is_err());
        let within = match self {
            Written::Op(_, a, b) => a.exceeds_64_bits(values) || b.exceeds_64_bits(values),
            Written::Const(_) | Written::Var(_) => false,
        };
        own || within
    }

    fn replaced(&self, with: &[Written]) -> Written {
        match self {
            Written::Const(_) => self.clone(),
            Written::Var(id) => with[*id as usize].clone(),
            Written::Op(op, a, b) => {
                Written::Op(*op, Box::new(a.replaced(with)), Box::new(b.replaced(with)))
            }
        }
    }
}

fn constant() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => -9i64..=9,
        2 => prop::sample::select(vec![12, 16, 24, 32, -16, 60]),
        1 => prop::sample::select(vec![i64::MAX, i64::MIN, i64::MAX - 1, 1 << 40, -(1 << 33)]),
    ]
}

fn written() -> impl Strategy<Value = Written> {
    let leaf = prop_oneof![
        2 => (0..VARS as u32).prop_map(Written::Var),
        1 => constant().prop_map(Written::Const),
    ];
    leaf.prop_recursive(6, 40, 2, |inner| {
        let op = prop::sample::select(vec!['+', '+', '-', '*', '/', '/', '%', '%', '<', '>']);
        (op, inner.clone(), inner).prop_map(|(op, a, b)| Written::Op(op, a.into(), b.into()))
    })
}

/// Generates expressions that are never negative, so that they can be substituted for a variable.
fn extent() -> impl Strategy<Value = Written> {
    let leaf = prop_oneof![
        2 => (0..VARS as u32).prop_map(Written::Var),
        1 => (0i64..9).prop_map(Written::Const),
    ];
    leaf.prop_recursive(3, 10, 2, |inner| {
        let op = prop::sample::select(vec!['+', '*', '/', '%', '<', '>']);
        (op, inner.clone(), inner).prop_map(|(op, a, b)| Written::Op(op, a.into(), b.into()))
    })
}

fn values() -> impl Strategy<Value = [i64; VARS]> {
    let value = prop_oneof![
        3 => Just(0i64),
        3 => Just(1),
        12 => 0i64..40,
        2 => 0i64..100_000,
        1 => prop::sample::select(vec![i64::MAX, i64::MAX / 2, 1 << 40]),
    ];
    prop::array::uniform4(value)
}

fn assignment(values: [i64; VARS]) -> impl Fn(DimVar) -> Option<i64> {
    move |var| values.get(var.0 as usize).copied()
}

/// Checks that the normal form has the written expression's value wherever there is one, or is in
/// an error state.
fn agrees(dim: &Dim, written: &Written, values: [i64; VARS]) -> Result<(), TestCaseError> {
    let Some(expected) = written.eval(&values) else {
        return Ok(());
    };
    if dim.error().is_some() {
        return Ok(());
    }
    match dim.eval(&assignment(values)) {
        Ok(Some(value)) => prop_assert_eq!(i128::from(value), expected, "{:?}", dim),
        Ok(None) => prop_assert!(false, "{dim:?} lost its value {expected}"),
        // A sum of large terms may exceed 128 bits, or its value 64 bits, and what is written in
        // more than 64 bits may exceed 128 where divisors are multiplied.
        Err(Overflow) => {
            let large =
                values.iter().any(|value| *value > 1 << 30) || written.exceeds_64_bits(&values);
            prop_assert!(
                i64::try_from(expected).is_err() || large,
                "{:?} overflows",
                dim
            );
        }
    }
    Ok(())
}

/// Returns facts that the assignment satisfies.
fn facts(values: [i64; VARS], choices: [u8; VARS]) -> Facts {
    let mut facts = Facts::default();
    for (index, (value, choice)) in values.into_iter().zip(choices).enumerate() {
        let var = DimVar(index as u32);
        if choice & 1 != 0 {
            facts.add_lower(var, value - value % i64::from(choice / 4 + 1));
        }
        if choice & 2 != 0 {
            facts.add_upper(var, value.saturating_add(i64::from(choice / 16)));
        }
        let divisor = i64::from(choice / 8 % 8 + 1);
        if value % divisor == 0 {
            facts.add_multiple_of(var, divisor);
        }
    }
    facts
}

/// At least 4,000 cases; more with `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.max(4000),
        failure_persistence: None,
        ..default
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn normal_forms_keep_values(written in written(), values in prop::array::uniform8(values())) {
        let dim = written.dim();
        for values in values {
            agrees(&dim, &written, values)?;
        }
    }

    #[test]
    fn simplifying_with_facts_keeps_values(
        written in written(), values in values(), choices in any::<[u8; VARS]>(),
    ) {
        let simple = facts(values, choices).simplify(&written.dim());
        agrees(&simple, &written, values)?;
    }

    #[test]
    fn substitution_commutes_with_evaluation(
        written in written(), with in prop::collection::vec(extent(), VARS), values in values(),
    ) {
        let dims: Vec<_> = with.iter().map(Written::dim).collect();
        let replaced = written.dim().substitute(&|atom| match atom {
            Atom::Var(var) => Some(dims[var.0 as usize].clone()),
            Atom::Infer(_) => None,
        });
        // A replacement without a value leaves the variable without one.
        if with.iter().all(|written| written.eval(&values).is_some()) {
            agrees(&replaced, &written.replaced(&with), values)?;
        }
    }

    #[test]
    fn proofs_are_never_wrong(
        a in written(), b in written(), same in any::<bool>(), shift in -3i64..=3,
        values in values(), choices in any::<[u8; VARS]>(),
    ) {
        let b = if same {
            Written::Op('+', Box::new(a.clone()), Box::new(Written::Const(shift)))
        } else {
            b
        };
        let (x, y) = (a.dim(), b.dim());
        let facts = facts(values, choices);
        if let (Some(left), Some(right)) = (a.eval(&values), b.eval(&values)) {
            let check = |proof: Proof, holds: bool, what: &str| -> Result<(), TestCaseError> {
                let wrong = if holds { Proof::Refuted } else { Proof::Proven };
                prop_assert_ne!(proof, wrong, "{:?} {} {:?}", x, what, y);
                Ok(())
            };
            check(facts.eq(&x, &y), left == right, "==")?;
            check(facts.le(&x, &y), left <= right, "<=")?;
            check(facts.lt(&x, &y), left < right, "<")?;
            let (lower, upper) = facts.bounds(&x);
            prop_assert!(lower.is_none_or(|lower| i128::from(lower) <= left), "{:?} >= {:?}", x, lower);
            prop_assert!(upper.is_none_or(|upper| left <= i128::from(upper)), "{:?} <= {:?}", x, upper);
            let divisor = i64::from(choices[0] % 12);
            let divides = if divisor == 0 { left == 0 } else { left % i128::from(divisor) == 0 };
            check(facts.divides(divisor, &x), divides, "is divided")?;
        }
    }

    #[test]
    fn solutions_satisfy(a in written(), b in written(), values in values()) {
        let unknown = |dim: Dim| dim.substitute(&|atom| {
            (atom == DimVar(0).into()).then(|| Dim::infer(DimInfer(7)))
        });
        let (x, y) = (unknown(a.dim()), unknown(b.dim()));
        let equal = a.eval(&values).zip(b.eval(&values)).map(|(left, right)| left == right);
        match solve(&x, &y, &|atom| matches!(atom, Atom::Infer(_))) {
            Solution::Equal => prop_assert_ne!(equal, Some(false)),
            Solution::Different => prop_assert_ne!(equal, Some(true)),
            Solution::Stuck => {}
            Solution::Solved(solved) => {
                let [(atom, value)] = solved.as_slice() else {
                    return Err(TestCaseError::fail("one unknown, one solution"));
                };
                prop_assert_eq!(*atom, DimInfer(7).into());
                prop_assert!(!value.atoms().contains(atom), "occurs check");
                // It holds if and only if the inference variable has this value.
                if let (Some(equal), Ok(Some(value))) = (equal, value.eval(&assignment(values))) {
                    prop_assert_eq!(equal, value == values[0]);
                }
                let mut chosen = values;
                if let Ok(Some(value)) = value.eval(&assignment(values)) && value >= 0 {
                    chosen[0] = value;
                    if let (Some(left), Some(right)) = (a.eval(&chosen), b.eval(&chosen)) {
                        prop_assert_eq!(left, right);
                    }
                }
            }
        }
    }

    #[test]
    fn sums_do_not_depend_on_order(parts in prop::collection::vec(extent(), 1..8), by in any::<u64>()) {
        let dims: Vec<_> = parts.iter().map(Written::dim).collect();
        let mut turned = dims.clone();
        turned.rotate_left((by % dims.len() as u64) as usize);
        let sum: Dim = dims.iter().cloned().sum();
        let other: Dim = turned.into_iter().sum();
        let equal = Facts::default().eq(&sum, &other);
        prop_assert!(equal == Proof::Proven || !sum.is_known() || !other.is_known(), "{sum:?} {other:?}");
    }

    #[test]
    fn text_shows_the_value(written in written(), values in values()) {
        let dim = written.dim();
        let text = dim.display(&|var| format!("v{}", var.0)).to_string();
        // The least integer has no literal, as its digits alone overflow.
        if dim.is_known() && !text.contains("9223372036854775808") {
            let read = read(&text);
            let expected = dim.eval(&assignment(values));
            if let (Ok(Some(expected)), Some(value)) = (expected, read.eval(&values)) {
                prop_assert_eq!(value, i128::from(expected), "{}", text);
            }
        }
    }
}

/// Parses a dimension expression: `+ -` bind more loosely than `* // %`, all are left-associative.
fn read(text: &str) -> Written {
    let mut rest = text;
    let result = sum(&mut rest);
    assert_eq!(rest, "", "the whole of {text} is read");
    result
}

fn eat(rest: &mut &str, token: &str) -> bool {
    let trimmed = rest.trim_start();
    let found = trimmed.strip_prefix(token);
    *rest = found.unwrap_or(trimmed);
    found.is_some()
}

fn sum(rest: &mut &str) -> Written {
    let mut left = product(rest);
    loop {
        let op = if eat(rest, "+") {
            '+'
        } else if eat(rest, "-") {
            '-'
        } else {
            return left;
        };
        left = Written::Op(op, left.into(), product(rest).into());
    }
}

fn product(rest: &mut &str) -> Written {
    let mut left = unary(rest);
    loop {
        let op = if eat(rest, "*") {
            '*'
        } else if eat(rest, "//") {
            '/'
        } else if eat(rest, "%") {
            '%'
        } else {
            return left;
        };
        left = Written::Op(op, left.into(), unary(rest).into());
    }
}

fn unary(rest: &mut &str) -> Written {
    let negative = eat(rest, "-");
    let magnitude = |digits: &str| {
        let value: i128 = digits.parse().expect("digits");
        i64::try_from(if negative { -value } else { value }).expect("fits")
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits > 0 {
        let (number, tail) = rest.split_at(digits);
        *rest = tail;
        return Written::Const(magnitude(number));
    }
    let call = [("min(", '<'), ("max(", '>')]
        .into_iter()
        .find(|(name, _)| eat(rest, name));
    let value = if call.is_none() && eat(rest, "(") {
        let inner = sum(rest);
        assert!(eat(rest, ")"));
        inner
    } else if let Some((_, op)) = call {
        let a = sum(rest);
        assert!(eat(rest, ","));
        let b = sum(rest);
        assert!(eat(rest, ")"));
        Written::Op(op, a.into(), b.into())
    } else {
        assert!(eat(rest, "v"), "an operand at {rest}");
        let id = rest
            .chars()
            .next()
            .and_then(|c| c.to_digit(10))
            .expect("an id");
        *rest = &rest[1..];
        Written::Var(id)
    };
    if negative {
        // Unary minus binds tighter than `*`; for `-a // b` the printer must not rely on it.
        return Written::Op('*', Box::new(Written::Const(-1)), value.into());
    }
    value
}
