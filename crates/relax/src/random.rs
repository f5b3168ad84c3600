//! Generation of random tensors as arguments of a program.

use relax_ir::{DTy, Module, Shape, Type};
use relax_sym::{Atom, Dim, DimVar};
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::param::{Param, shown};
use crate::{Error, Typing};

mod settle;

/// Options for generating tensors.
#[derive(Clone, Copy, Debug)]
pub struct Random<'t> {
    /// The seed; equal seeds give equal tensors.
    pub seed: u64,
    /// The value of extents that nothing else determines.
    pub extent: i64,
    /// The program's types, including its run-time checks. If given, extents are chosen close to
    /// `extent` such that equality checks hold and no intermediate tensor is empty. If `None`,
    /// every open extent is `extent`, whatever the program checks.
    pub typing: Option<&'t Typing>,
}

/// Extents known from given tensors, used to generate the missing ones.
#[derive(Clone, Debug, Default)]
pub struct Extents(FxHashMap<DimVar, i64>);

impl Extents {
    /// Records the extents of a tensor that is given for a parameter.
    pub fn learn(&mut self, m: &Module, param: &Param, given: &Tensor) {
        let Type::Tensor(t) = &m.types[param.ty] else {
            return;
        };
        let dims = t.shape.dims().unwrap_or_default();
        for (dim, &n) in dims.iter().zip(given.shape()) {
            if let Some(Atom::Var(v)) = dim.as_atom() {
                self.0.entry(v).or_insert(n);
            }
        }
    }

    /// Evaluates an extent; unknown variables have the value `otherwise`.
    fn of(&self, dim: &Dim, otherwise: i64) -> i64 {
        let value = |v| Some(self.0.get(&v).copied().unwrap_or(otherwise));
        let known = dim.eval(&value).ok().flatten();
        known.filter(|n| *n >= 0).unwrap_or(otherwise)
    }
}

/// Returns whether a tensor of this shape fits in memory.
fn affordable(dtype: DType, shape: &[i64]) -> bool {
    let bytes = shape
        .iter()
        .all(|&d| d >= 0)
        .then(|| Tensor::byte_len(dtype, shape));
    (bytes.flatten()).is_some_and(|n| Vec::<u8>::new().try_reserve_exact(n).is_ok())
}

/// Generates a tensor for each parameter, see [`tensor`].
///
/// # Errors
/// The parameters for which no tensor can be generated, one per line.
pub fn random(m: &Module, params: &[Param], how: Random<'_>) -> Result<Vec<Tensor>, Vec<String>> {
    let mut extents = Extents::default();
    extents.settle(m, params, how);
    let (mut out, mut problems) = (Vec::new(), Vec::new());
    for i in 0..params.len() {
        match tensor(m, params, i, how, &extents) {
            Ok(made) => out.push(made),
            Err(problem) => problems.push(problem.to_string()),
        }
    }
    match problems.is_empty() {
        true => Ok(out),
        false => Err(problems),
    }
}

/// Generates a tensor for the `i`th parameter. Its elements depend only on the seed, the
/// parameter's position and the element's index: floats in [-1, 1), small integers. To keep the
/// results of whole models in a sensible range, parameters named `…weight` are scaled by their
/// fan-in, and those named `…gamma` and `…var` lie around 1.
///
/// # Errors
/// [`Error::Unfit`]: no tensor can be generated for the parameter's type.
pub fn tensor(
    m: &Module,
    params: &[Param],
    i: usize,
    how: Random<'_>,
    extents: &Extents,
) -> Result<Tensor, Error> {
    let unfit = |text: String| Error::Unfit(text, Vec::new());
    let p = &params[i];
    let Type::Tensor(t) = &m.types[p.ty] else {
        return Err(unfit(format!(
            "%{} has type {}: no random input for it; run a function that makes such a value from tensors",
            p.name,
            m.show_type(p.ty)
        )));
    };
    let (Shape::Dims(dims), DTy::Known(dtype)) = (&t.shape, t.dtype) else {
        let text = format!("%{}: rank and element type must be known", p.name);
        return Err(unfit(text));
    };
    let shape: Vec<i64> = dims.iter().map(|d| extents.of(d, how.extent)).collect();
    if !affordable(dtype, &shape) {
        return Err(unfit(format!(
            "%{}: no memory for {}",
            p.name,
            shown(dtype, &shape)
        )));
    }
    let mut tensor = Tensor::zeros(dtype, &shape);
    let (offset, scale) = range(&p.name, &shape);
    let mut state = (how.seed ^ (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1;
    for k in 0..tensor.len() {
        // xorshift64* (Vigna, 2016).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
        if dtype.is_float() {
            tensor.set_f64(k, offset + scale * (bits as f64 / f64::from(1 << 23) - 1.0));
        } else {
            tensor.set_i64(k, (bits % 8) as i64);
        }
    }
    Ok(tensor)
}

/// Returns the centre and the radius of a parameter's random floats.
fn range(name: &str, shape: &[i64]) -> (f64, f64) {
    let fan_in: i64 = shape.iter().skip(1).product();
    match name {
        n if n.ends_with("var") => (1.0, 0.2),
        n if n.ends_with("gamma") => (1.0, 0.1),
        n if n.ends_with("weight") && fan_in > 0 => (0.0, (3.0 / fan_in as f64).sqrt()),
        _ => (0.0, 1.0),
    }
}
