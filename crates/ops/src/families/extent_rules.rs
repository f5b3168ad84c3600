//! Rules about extents, defined once for the dimensions of types and the extents of programs: the
//! special numbers of `reshape`, and index ranges.

use relax_loops::Ex;
use relax_sym::Dim;

/// The type that `reshape` computes with: dimensions or extents.
pub trait Extent: Clone {
    /// A constant.
    fn int(v: i64) -> Self;
    /// The product.
    fn times(&self, other: &Self) -> Self;
    /// The quotient, rounded down.
    fn over(&self, other: &Self) -> Self;
    /// The sum.
    fn plus(&self, other: &Self) -> Self;
    /// The difference.
    fn minus(&self, other: &Self) -> Self;
    /// The lesser one.
    fn least(&self, other: &Self) -> Self;
    /// The greater one.
    fn greatest(&self, other: &Self) -> Self;
    /// Returns whether it is unknown (`?`).
    fn is_any(&self) -> bool;
    /// The unknown extent.
    fn any() -> Self;
}

impl Extent for Dim {
    fn int(v: i64) -> Dim {
        Dim::from(v)
    }
    fn times(&self, other: &Dim) -> Dim {
        self * other
    }
    fn over(&self, other: &Dim) -> Dim {
        self.floordiv(other)
    }
    fn plus(&self, other: &Dim) -> Dim {
        self + other
    }
    fn minus(&self, other: &Dim) -> Dim {
        self - other
    }
    fn least(&self, other: &Dim) -> Dim {
        self.min(other)
    }
    fn greatest(&self, other: &Dim) -> Dim {
        self.max(other)
    }
    fn is_any(&self) -> bool {
        Dim::is_any(self)
    }
    fn any() -> Dim {
        Dim::ANY
    }
}

impl Extent for Ex {
    fn int(v: i64) -> Ex {
        Ex::idx(v)
    }
    fn times(&self, other: &Ex) -> Ex {
        self * other
    }
    fn over(&self, other: &Ex) -> Ex {
        self.floor_div(other)
    }
    fn plus(&self, other: &Ex) -> Ex {
        self + other
    }
    fn minus(&self, other: &Ex) -> Ex {
        self - other
    }
    fn least(&self, other: &Ex) -> Ex {
        self.min(other)
    }
    fn greatest(&self, other: &Ex) -> Ex {
        self.max(other)
    }
    fn is_any(&self) -> bool {
        false
    }
    fn any() -> Ex {
        unreachable!("extents of programs are never unknown")
    }
}

/// An item of `newshape`.
#[derive(Clone, Debug)]
pub enum Item<E> {
    /// A special number, or a constant.
    Int(i64),
    /// A symbolic extent.
    Sym(E),
}

/// Returns the new extents, by TVM's rules: 0 copies the extent at the same position (unless
/// `allow_zero`), -1 is inferred, -2 copies all that remain, -3 merges the next two, -4 splits the
/// next one by the two items that follow. The error says what is wrong with the numbers.
pub fn new_extents<E: Extent>(
    old: &[E],
    items: &[Item<E>],
    allow_zero: bool,
) -> Result<Vec<E>, String> {
    let mut new: Vec<E> = Vec::with_capacity(items.len());
    // Extents that correspond one to one are not used to infer -1.
    let (mut used_old, mut used_new) = (vec![false; old.len()], Vec::new());
    let mut at = 0;
    let mut open = None;
    let mut items = items.iter().enumerate();
    let next = |at: &mut usize, used: &mut Vec<bool>, code: i64| match old.get(*at) {
        Some(d) => {
            used[*at] = true;
            *at += 1;
            Ok(d.clone())
        }
        None => Err(format!(
            "{code} at this place needs an axis {at} of the input, which has {}",
            old.len()
        )),
    };
    while let Some((place, item)) = items.next() {
        let code = match item {
            Item::Int(v) => *v,
            Item::Sym(e) => {
                new.push(e.clone());
                used_new.push(false);
                at += 1;
                continue;
            }
        };
        match code {
            0 if !allow_zero => {
                new.push(next(&mut at, &mut used_old, 0)?);
                used_new.push(true);
            }
            0.. => {
                new.push(E::int(code));
                used_new.push(false);
                at += 1;
            }
            -1 => {
                if open.replace(new.len()).is_some() {
                    return Err("only one extent may be -1".into());
                }
                new.push(E::int(1));
                used_new.push(false);
                at += 1;
            }
            -2 => {
                while at < old.len() {
                    new.push(next(&mut at, &mut used_old, -2)?);
                    used_new.push(true);
                }
            }
            -3 => {
                let a = next(&mut at, &mut used_old, -3)?;
                let b = next(&mut at, &mut used_old, -3)?;
                new.push(if a.is_any() || b.is_any() {
                    E::any()
                } else {
                    a.times(&b)
                });
                used_new.push(true);
            }
            -4 => {
                let whole = next(&mut at, &mut used_old, -4)?;
                let mut part = || items.next().map(|(_, i)| i.clone());
                let (Some(a), Some(b)) = (part(), part()) else {
                    return Err(format!(
                        "-4 at place {place} must be followed by two extents"
                    ));
                };
                let (left, right) = split(&whole, &a, &b)?;
                new.extend([left, right]);
                used_new.extend([true, true]);
            }
            v => {
                return Err(format!(
                    "{v} has no meaning; extents are not negative, and special numbers are -1 to -4"
                ));
            }
        }
    }
    if let Some(open) = open {
        new[open] = inferred(old.iter().zip(used_old), new.iter().zip(used_new), open);
    }
    Ok(new)
}

/// The two extents that -4 splits `whole` into, as the items behind it say.
fn split<E: Extent>(whole: &E, a: &Item<E>, b: &Item<E>) -> Result<(E, E), String> {
    let rest = |by: &Item<E>| match by {
        _ if whole.is_any() => Ok(E::any()),
        Item::Int(v) if *v <= 0 => Err(format!("-4 cannot split an extent by {v}")),
        Item::Int(v) => Ok(whole.over(&E::int(*v))),
        Item::Sym(e) => Ok(whole.over(e)),
    };
    let given = |i: &Item<E>| match i {
        Item::Int(v) if *v < 0 => Err(format!("an extent after -4 may not be {v}")),
        Item::Int(v) => Ok(E::int(*v)),
        Item::Sym(e) => Ok(e.clone()),
    };
    match (a, b) {
        (Item::Int(-1), Item::Int(-1)) => Err("-4 cannot be followed by two -1".into()),
        (Item::Int(-1), b) => Ok((rest(b)?, given(b)?)),
        (a, Item::Int(-1)) => Ok((given(a)?, rest(a)?)),
        (a, b) => Ok((given(a)?, given(b)?)),
    }
}

/// The extent for -1 at place `open`: what is left of the old extents beside the new ones, where
/// both do not count those that correspond one to one.
fn inferred<'e, E: Extent + 'e>(
    old: impl Iterator<Item = (&'e E, bool)>,
    new: impl Iterator<Item = (&'e E, bool)>,
    open: usize,
) -> E {
    let product = |all: E, d: &E| match d.is_any() || all.is_any() {
        true => E::any(),
        false => all.times(d),
    };
    let whole = old.filter(|(_, used)| !used);
    let whole = whole.fold(E::int(1), |all, (d, _)| product(all, d));
    let parts = new.enumerate().filter(|(k, (_, used))| !used && *k != open);
    let parts = parts.fold(E::int(1), |all, (_, (d, _))| product(all, d));
    match whole.is_any() || parts.is_any() {
        true => E::any(),
        false => whole.over(&parts),
    }
}

/// Normalises a bound of an index range: a constant counts from the end when negative, and is
/// clamped to the extent; a symbolic one is not negative.
fn bound<E: Extent>(at: &Item<E>, extent: &E, back: bool) -> E {
    // Ranges with negative strides run from extent-1 to -1, exclusive.
    let (low, high) = match back {
        false => (0, extent.clone()),
        true => (-1, extent.minus(&E::int(1))),
    };
    let at = match at {
        Item::Int(v) if *v >= FAR => return high,
        Item::Int(v) if *v <= -FAR => return E::int(low),
        Item::Int(v) if *v < 0 => extent.plus(&E::int(*v)),
        Item::Int(v) => E::int(*v),
        Item::Sym(e) => e.clone(),
    };
    at.greatest(&E::int(low)).least(&high)
}

/// Beyond every extent.
const FAR: i64 = i32::MAX as i64;

/// Returns the first index and the number of indices of `begin..end` by `stride`, which is not 0.
pub fn range<E: Extent>(begin: &Item<E>, end: &Item<E>, stride: i64, extent: &E) -> (E, E) {
    let back = stride < 0;
    let (from, to) = (bound(begin, extent, back), bound(end, extent, back));
    let way = if back {
        from.minus(&to)
    } else {
        to.minus(&from)
    };
    let step = stride.checked_abs().unwrap_or(i64::MAX);
    let way = way.greatest(&E::int(0));
    let count = if step == 1 {
        way
    } else {
        way.plus(&E::int(step - 1)).over(&E::int(step))
    };
    (from, count)
}
