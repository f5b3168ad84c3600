//! Indices that certainly leave their axis.
//!
//! An index that is linear in loop variables takes its minimum and its maximum when these are at
//! their bounds, and all of them are at once: loops are independent where no extent depends on
//! another loop. What is reported here holds whenever the loops around the access run at all.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use relax_tensor::DType;

use crate::{BinOp, Ex, ExKind, UnOp, Var};

/// The maximum nesting depth of sums and products that is analysed.
pub(crate) const DEEPEST: u32 = 64;

/// `constant + Σ factor · variable`; no factor is 0.
#[derive(Clone, Default)]
pub(crate) struct Linear {
    pub(crate) constant: i128,
    pub(crate) factors: BTreeMap<Var, i128>,
}

/// Returns whether two expressions are the same number, by their structure.
pub(crate) fn same_number(a: &Ex, b: &Ex) -> bool {
    let difference = || {
        let mut sum = Linear::of(a, DEEPEST)?;
        sum.add(&Linear::of(b, DEEPEST)?, -1)?;
        Some(sum.is_zero())
    };
    a == b || difference() == Some(true)
}

impl Linear {
    fn add(&mut self, other: &Linear, times: i128) -> Option<()> {
        self.constant = (self.constant).checked_add(other.constant.checked_mul(times)?)?;
        for (&v, &f) in &other.factors {
            let sum = self.factors.entry(v).or_default();
            *sum = sum.checked_add(f.checked_mul(times)?)?;
            if *sum == 0 {
                self.factors.remove(&v);
            }
        }
        Some(())
    }

    /// Returns `None` for expressions that are not linear, or too deep.
    pub(crate) fn of(e: &Ex, depth: u32) -> Option<Linear> {
        let depth = depth.checked_sub(1)?;
        let mut sum = Linear::default();
        match e.kind() {
            _ if e.dtype() != DType::I64 => return None,
            ExKind::Int(v) => sum.constant = i128::from(*v),
            ExKind::Var(v) => {
                sum.factors.insert(*v, 1);
            }
            ExKind::Unary(UnOp::Neg, a) => sum.add(&Linear::of(a, depth)?, -1)?,
            ExKind::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) => {
                sum.add(&Linear::of(a, depth)?, 1)?;
                let sign = if *op == BinOp::Add { 1 } else { -1 };
                sum.add(&Linear::of(b, depth)?, sign)?;
            }
            ExKind::Binary(BinOp::Mul, a, b) => {
                let (a, b) = (Linear::of(a, depth)?, Linear::of(b, depth)?);
                let (factor, of) = if a.factors.is_empty() { (a, b) } else { (b, a) };
                if !factor.factors.is_empty() {
                    return None;
                }
                sum.add(&of, factor.constant)?;
            }
            _ => return None,
        }
        Some(sum)
    }

    /// Returns whether it is 0 whatever the variables are.
    pub(crate) fn is_zero(&self) -> bool {
        self.constant == 0 && self.factors.is_empty()
    }

    fn show(&self, name: &dyn Fn(Var) -> String) -> String {
        let mut text = String::new();
        let mut put = |negative: bool, part: String| {
            let sign = match (text.is_empty(), negative) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            let _ = write!(text, "{sign}{part}");
        };
        for (&v, &f) in &self.factors {
            let part = match f.unsigned_abs() {
                1 => name(v),
                n => format!("{} * {n}", name(v)),
            };
            put(f < 0, part);
        }
        if self.constant != 0 || self.factors.is_empty() {
            put(self.constant < 0, self.constant.unsigned_abs().to_string());
        }
        text
    }
}

/// The facts about a variable.
pub(crate) enum Known<'a> {
    /// A loop's index, and the loop's extent.
    Index(&'a Ex),
    /// A dimension.
    Dim,
    /// Anything else, about which nothing is claimed.
    Other,
}

/// Returns how an access that is always reached is out of bounds on one axis: a sentence without a
/// full stop. `running` are the extents of the loops around it, which are at least 1 where it is
/// reached.
pub(crate) fn outside<'a>(
    index: &Ex,
    extent: &Ex,
    known: &dyn Fn(Var) -> Known<'a>,
    running: &[&Ex],
    name: &dyn Fn(Var) -> String,
) -> Option<String> {
    let form = Linear::of(index, DEEPEST)?;
    let extent = Linear::of(extent, DEEPEST)?;
    let dims = |l: &Linear| l.factors.keys().all(|v| matches!(known(*v), Known::Dim));
    if !dims(&extent) {
        return None;
    }
    // A loop that never runs reaches nothing.
    if running.iter().any(|e| e.as_int().is_some_and(|n| n < 1)) {
        return None;
    }
    let least = |v: Var| {
        let runs = |e: &&Ex| matches!(e.kind(), ExKind::Var(w) if *w == v);
        i128::from(running.iter().any(runs))
    };
    // The index where every loop is at the bound that makes it greatest, or least.
    let end = |greatest: bool| -> Option<Linear> {
        let mut at = Linear {
            constant: form.constant,
            ..Linear::default()
        };
        for (&v, &f) in &form.factors {
            match known(v) {
                Known::Dim => {
                    let one = [(v, 1)].into();
                    let var = Linear {
                        constant: 0,
                        factors: one,
                    };
                    at.add(&var, f)?;
                }
                Known::Index(extent) if (f > 0) == greatest => {
                    let mut last = Linear::of(extent, DEEPEST)?;
                    if !dims(&last) {
                        return None;
                    }
                    last.constant -= 1;
                    at.add(&last, f)?;
                }
                Known::Index(_) => {}
                Known::Other => return None,
            }
        }
        Some(at)
    };
    let greatest = end(true)?;
    let mut over = greatest.clone();
    over.add(&extent, -1)?;
    let lowest: i128 = (over.factors.iter())
        .try_fold(over.constant, |sum, (&v, &f)| {
            (f > 0).then(|| sum.saturating_add(f.saturating_mul(least(v))))
        })
        .unwrap_or(-1);
    if lowest >= 0 {
        let (at, extent) = (greatest.show(name), extent.show(name));
        return Some(format!("reaches {at}, and the axis has extent {extent}"));
    }
    let smallest = end(false)?;
    let highest: i128 = (smallest.factors.iter())
        .try_fold(smallest.constant, |sum, (&v, &f)| {
            (f < 0).then(|| sum.saturating_add(f.saturating_mul(least(v))))
        })
        .unwrap_or(0);
    (highest < 0).then(|| format!("goes down to {}", smallest.show(name)))
}
