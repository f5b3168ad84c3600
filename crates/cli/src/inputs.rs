//! Which tensors go into which parameter of the entry function.

use relax_driver::Typing;
use relax_ir::{DTy, FuncId, Module, Shape, Type, TypeId};
use relax_tensor::Tensor;

/// What a parameter of an entry function must be given.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name, without sigil.
    pub name: String,
    /// Its type.
    pub ty: TypeId,
}

/// The parameters of a function, with their inferred types.
pub fn params(m: &Module, typing: &Typing, f: FuncId) -> Vec<Param> {
    let param = |&v: &relax_ir::VarId| Param {
        name: m.vars[v].name.to_string(),
        ty: typing.vars[v],
    };
    m.funcs[f].params.iter().map(param).collect()
}

/// Takes the parameters' tensors out of named arrays: by parameter name, or `in0`, `in1`, … by
/// position. Every missing, superfluous or misshapen one is listed in the error.
pub fn bind(
    m: &Module,
    params: &[Param],
    arrays: Vec<(String, Tensor)>,
) -> Result<Vec<Tensor>, Vec<String>> {
    let mut problems = Vec::new();
    let mut used = vec![false; arrays.len()];
    let mut out = Vec::with_capacity(params.len());
    for (i, p) in params.iter().enumerate() {
        let position = format!("in{i}");
        let found = arrays
            .iter()
            .position(|a| a.0 == p.name)
            .or_else(|| arrays.iter().position(|a| a.0 == position))
            .or_else(|| arrays.iter().position(|a| numbered(&p.name, &a.0)));
        match found {
            None => problems.push(format!(
                "%{} is missing: no array `{}` or `{position}` (it must be {})",
                p.name,
                p.name,
                m.show_type(p.ty)
            )),
            Some(k) => {
                used[k] = true;
                let t = &arrays[k].1;
                if let Some(problem) = mismatch(m, p, t) {
                    problems.push(problem);
                }
                out.push(t.clone());
            }
        }
    }
    for ((name, _), _) in arrays.iter().zip(&used).filter(|(_, used)| !**used) {
        problems.push(format!("the array `{name}` belongs to no parameter"));
    }
    if problems.is_empty() {
        Ok(out)
    } else {
        Err(problems)
    }
}

/// Takes weights for some of the parameters, by name. The result has the parameters' own names; the
/// error lists every array that belongs to no parameter or does not fit its type.
pub fn weights(
    m: &Module,
    params: &[Param],
    arrays: Vec<(String, Tensor)>,
) -> Result<Vec<(String, Tensor)>, Vec<String>> {
    let mut problems = Vec::new();
    let mut out = Vec::with_capacity(arrays.len());
    for (name, tensor) in arrays {
        let param = (params.iter().find(|p| p.name == name))
            .or_else(|| params.iter().find(|p| numbered(&p.name, &name)));
        match param {
            None => {
                let near = relax_base::did_you_mean(&name, params.iter().map(|p| p.name.as_str()));
                let hint = near.map_or(String::new(), |n| format!(" (did you mean `{n}`?)"));
                problems.push(format!("the array `{name}` belongs to no parameter{hint}"));
            }
            Some(p) => match mismatch(m, p, &tensor) {
                Some(problem) => problems.push(problem),
                None => out.push((p.name.clone(), tensor)),
            },
        }
    }
    if problems.is_empty() {
        Ok(out)
    } else {
        Err(problems)
    }
}

/// What is missing when nothing but weights is given: the parameters without one.
pub fn missing(m: &Module, params: &[Param], weights: &[(String, Tensor)]) -> Vec<String> {
    params
        .iter()
        .filter(|p| weights.iter().all(|w| w.0 != p.name))
        .map(|p| format!("%{} is missing (it must be {})", p.name, m.show_type(p.ty)))
        .collect()
}

/// Whether TVM's printer made `param` of a second parameter called `name`: it numbers parameters of
/// the same name (`data`, `data1`, …), and the model's arrays still have the one name.
fn numbered(param: &str, name: &str) -> bool {
    param
        .strip_prefix(name)
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// What is wrong with a tensor for a parameter.
fn mismatch(m: &Module, p: &Param, t: &Tensor) -> Option<String> {
    let shown = || {
        let dims: Vec<String> = t.shape().iter().map(i64::to_string).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        format!("Tensor[({}{comma}), {}]", dims.join(", "), t.dtype())
    };
    let wrong = || {
        Some(format!(
            "%{} must be {}, but the array is {}",
            p.name,
            m.show_type(p.ty),
            shown()
        ))
    };
    let Type::Tensor(want) = &m.types[p.ty] else {
        return Some(format!(
            "%{} has type {}, which no array can stand for",
            p.name,
            m.show_type(p.ty)
        ));
    };
    if let DTy::Known(d) = want.dtype
        && d != t.dtype()
    {
        return wrong();
    }
    if let Shape::Dims(dims) = &want.shape {
        let fits = dims.len() == t.shape().len()
            && dims
                .iter()
                .zip(t.shape())
                .all(|(d, &n)| d.as_const().is_none_or(|d| d == n));
        if !fits {
            return wrong();
        }
    }
    None
}

/// Tensors of numbers that depend only on the seed, the parameter's position and the element: floats
/// in [-1, 1), small integers. Symbolic and unknown extents become `extent`. So that whole models give
/// sensible numbers, parameters named `…weight` are scaled by their fan-in, those named `…gamma` and
/// `…var` lie around 1.
pub fn random(
    m: &Module,
    params: &[Param],
    seed: u64,
    extent: i64,
) -> Result<Vec<Tensor>, Vec<String>> {
    let mut problems = Vec::new();
    let mut out = Vec::new();
    for (i, p) in params.iter().enumerate() {
        let Type::Tensor(t) = &m.types[p.ty] else {
            problems.push(format!(
                "%{} has type {}: no random input for it",
                p.name,
                m.show_type(p.ty)
            ));
            continue;
        };
        let (Shape::Dims(dims), DTy::Known(dtype)) = (&t.shape, t.dtype) else {
            problems.push(format!("%{}: rank and element type must be known", p.name));
            continue;
        };
        let shape: Vec<i64> = dims
            .iter()
            .map(|d| d.as_const().unwrap_or(extent))
            .collect();
        let mut tensor = Tensor::zeros(dtype, &shape);
        let fan_in: i64 = shape.iter().skip(1).product();
        let (offset, scale) = match p.name.as_str() {
            n if n.ends_with("var") => (1.0, 0.2),
            n if n.ends_with("gamma") => (1.0, 0.1),
            n if n.ends_with("weight") && fan_in > 0 => (0.0, (3.0 / fan_in as f64).sqrt()),
            _ => (0.0, 1.0),
        };
        let mut state = (seed ^ (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1;
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
        out.push(tensor);
    }
    if problems.is_empty() {
        Ok(out)
    } else {
        Err(problems)
    }
}
