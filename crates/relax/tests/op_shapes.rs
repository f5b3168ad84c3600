//! For random shapes and the attributes of the cases in `tests/ops/`: the symbolically inferred
//! shape of an operator, evaluated, is the shape that its computation produces.
//!
//! The extents of a case become dimension variables, both with equal ones shared and with all
//! distinct; those that the relation only accepts as constants are kept. Extents are then drawn at
//! random, and the call is inferred with constants (which rejects invalid inputs), and evaluated.

#[allow(dead_code)] // Each test file uses a part of it.
mod op_cases;

use std::collections::BTreeMap;

use libtest_mimic::Failed;
use op_cases::{
    Case, Checked, Kind, checked, each_operator, filled, known, module_of, path_of, read,
};
use relax_interp::Value;
use relax_ir::{Module, Shape, Type, TypeId};
use relax_ops::OpDef;
use relax_sym::DimVar;
use relax_tensor::{DType, Tensor};

/// Operators that are not checked with other extents than those of the cases, and why.
const FIXED: &[(&str, &str)] = &[
    (
        "arange",
        "takes scalars; the extent of the result follows from attributes",
    ),
    (
        "broadcast_to",
        "the extents of the result are attributes, and decide those of the input",
    ),
    (
        "full",
        "takes a scalar; the extents of the result are attributes",
    ),
    (
        "dyn.full",
        "takes a scalar, and as many extents as the result has axes",
    ),
    ("dyn.ones", "takes as many extents as the result has axes"),
    ("dyn.zeros", "takes as many extents as the result has axes"),
    (
        "vm.reshape_tensor",
        "the extents of the result are attributes, and decide those of the input",
    ),
    ("random.normal", "takes a key of ten words and scalars"),
    ("random.threefry_generate", "takes a key of ten words"),
    ("random.threefry_split", "takes a key of ten words"),
    ("random.uniform", "takes a key of ten words and scalars"),
];

/// The number of random calls of each case.
const TRIES: usize = 12;
/// The limit on elements of tensors in random calls.
const LARGEST: i64 = 20_000;

fn main() {
    each_operator(run)
}

/// xorshift64* (Vigna, 2016).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize) % n
    }

    /// Returns a small extent, or a multiple of the one in the case.
    fn extent(&mut self, own: i64) -> i64 {
        match self.below(3) {
            0 if own > 0 => own * (1 + self.below(3) as i64),
            _ => 1 + self.below(7) as i64,
        }
    }
}

/// A parameter with its extents, the group of each, and the source of its elements.
struct Part<'a> {
    name: &'a str,
    dtype: DType,
    /// Extents of a group share one variable and value.
    shape: Vec<(i64, usize)>,
    elements: &'a str,
}

/// Formats the type of a parameter, with each extent printed by `dim`.
fn type_text(p: &Part<'_>, dim: &Dims<'_>) -> String {
    let dims: String = p.shape.iter().map(|&n| format!("{}, ", dim(n))).collect();
    format!("Tensor[({dims}), {}]", p.dtype)
}

type Dims<'a> = dyn Fn((i64, usize)) -> String + 'a;

fn module(items: &str, case: &Case, parts: &[Part<'_>], dim: &Dims<'_>) -> Checked {
    let params: Vec<(String, String)> = (parts.iter())
        .map(|p| (p.name.to_owned(), type_text(p, dim)))
        .collect();
    checked(module_of(items, &case.call, &params))
}

/// The extents of a type with tensors in tuples; `None` for unknown ones.
type Extents = Vec<Option<Vec<Option<i64>>>>;

fn extents(m: &Module, ty: TypeId, value: &dyn Fn(DimVar) -> Option<i64>) -> Extents {
    let (mut out, mut work) = (Vec::new(), vec![ty]);
    while let Some(ty) = work.pop() {
        match &m.types[ty] {
            Type::Tensor(t) => out.push(match &t.shape {
                Shape::Dims(dims) => {
                    Some(dims.iter().map(|d| d.eval(value).ok().flatten()).collect())
                }
                _ => None,
            }),
            Type::Tuple(fields) => work.extend(fields.iter().rev()),
            _ => out.push(None),
        }
    }
    out
}

/// Returns whether actual extents match the inferred ones, as far as these are known.
fn fit(inferred: &Extents, found: &[Tensor]) -> bool {
    let axes = |a: &[Option<i64>], b: &[i64]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_none_or(|a| a == *b))
    };
    inferred.len() == found.len()
        && (inferred.iter().zip(found)).all(|(a, b)| a.as_ref().is_none_or(|a| axes(a, b.shape())))
}

/// Checks one case with a variable per distinct extent, and with a variable for each extent;
/// returns the number of random calls that were evaluated.
fn check(items: &str, case: &Case, random: &mut Random) -> Result<usize, String> {
    let fixed = checked(module_of(items, &case.call, &case.typed()));
    if fixed.has_errors() {
        return Ok(0);
    }
    let mut done = 0;
    for apart in [false, true] {
        let (mut parts, mut count) = (Vec::new(), 0);
        let mut seen: Vec<i64> = Vec::new();
        for (p, ty) in case.params.iter().zip(fixed.params()) {
            let known = known(&fixed.module, ty);
            let (Some((dtype, shape)), Some(elements)) = (known, &p.elements) else {
                return Ok(0);
            };
            let mut group = |n: i64| match seen.iter().position(|&m| m == n) {
                Some(at) if !apart => at,
                _ => {
                    seen.push(n);
                    count += 1;
                    count - 1
                }
            };
            let shape = shape.into_iter().map(|n| (n, group(n))).collect();
            parts.push(Part {
                name: &p.name,
                dtype,
                shape,
                elements,
            });
        }
        done += check_parts(items, case, &parts, count, random)?;
    }
    Ok(done)
}

fn check_parts(
    items: &str,
    case: &Case,
    parts: &[Part<'_>],
    groups: usize,
    random: &mut Random,
) -> Result<usize, String> {
    // The extents that may be variables: those for which the relation neither rejects nor warns.
    let mut free: Vec<usize> = Vec::new();
    for group in 0..groups {
        free.push(group);
        let tried = module(items, case, parts, &|d| name(&free, d));
        if !tried.diagnostics.is_empty() || tried.result().is_none() {
            free.pop();
        }
    }
    if free.is_empty() {
        return Ok(0);
    }
    let symbolic = module(items, case, parts, &|d| name(&free, d));
    let result = symbolic.result().ok_or("no result")?;
    let mut own = vec![1; groups];
    for (n, group) in parts.iter().flat_map(|p| &p.shape) {
        own[*group] = *n;
    }
    let mut done = 0;
    for _ in 0..TRIES {
        let drawn: BTreeMap<usize, i64> =
            free.iter().map(|&g| (g, random.extent(own[g]))).collect();
        let value = |(n, group): (i64, usize)| drawn.get(&group).copied().unwrap_or(n);
        let constant = module(items, case, parts, &|d| value(d).to_string());
        let shapes: Vec<Vec<i64>> = parts
            .iter()
            .map(|p| p.shape.iter().map(|&n| value(n)).collect())
            .collect();
        let large = shapes.iter().any(|s| s.iter().product::<i64>() > LARGEST);
        if large || constant.has_errors() {
            continue;
        }
        let inputs = (parts.iter().zip(&shapes))
            .map(|(p, s)| filled(p.dtype, s, p.elements))
            .collect::<Result<Vec<_>, _>>()?;
        // The elements may be invalid for other extents: indices out of range, and the like.
        let Some(found) = constant.run(&inputs).ok().as_ref().and_then(Value::flatten) else {
            continue;
        };
        let of = |var: DimVar| {
            let own = symbolic.module.dims[var].name.as_str();
            let group = free.iter().find(|&&g| format!("d{g}") == own)?;
            drawn.get(group).copied()
        };
        let evaluated = extents(&symbolic.module, result, &of);
        let inferred = constant.result().ok_or("no result")?;
        let inferred = extents(&constant.module, inferred, &|_| None);
        if !fit(&evaluated, &found) || !fit(&inferred, &found) {
            let shapes: Vec<&[i64]> = found.iter().map(Tensor::shape).collect();
            return Err(format!(
                "{}\nwith {drawn:?}: inferred {evaluated:?} (symbolic), {inferred:?} (constants), \
                 computed {shapes:?}",
                symbolic.text
            ));
        }
        done += 1;
    }
    Ok(done)
}

/// Returns an extent as in the symbolic program.
fn name(free: &[usize], (n, group): (i64, usize)) -> String {
    if free.contains(&group) {
        format!("d{group}")
    } else {
        n.to_string()
    }
}

fn run(op: &OpDef) -> Result<(), Failed> {
    let file = read(&path_of(op.name))?;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut done = 0;
    for case in file.cases.iter().filter(|c| c.kind == Kind::Value) {
        done += check(&file.items, case, &mut random)?;
    }
    let why = FIXED.iter().find(|f| f.0 == op.name).map(|f| f.1);
    match (done, why) {
        (0, None) => Err("no case of this operator works with other extents than its own".into()),
        (1.., Some(_)) => Err("the operator is no exception any more".into()),
        _ => Ok(()),
    }
}
