//! Binding of named arrays to the parameters of an entry function.

use crate::Typing;
use relax_ir::{DTy, FuncId, GlobalId, Module, Shape, Type, TypeId};
use relax_passes::Bound;
use relax_sym::Atom;
use relax_tensor::Tensor;

use crate::fit::{Taking, fit};
pub use crate::param::{Param, shown};
pub use crate::random::random;
use crate::random::{self, Extents, Random};

/// The parameters of a function, with their inferred types.
pub fn params(m: &Module, typing: &Typing, f: FuncId) -> Vec<Param> {
    let param = |&v: &relax_ir::VarId| Param {
        name: m.vars[v].name.to_string(),
        ty: typing.vars[v],
    };
    m.funcs[f].params.iter().map(param).collect()
}

/// Flattens parameters into slots, the tensors that a call takes: one for each parameter, or for
/// each field of a tuple parameter, in order. A field of `%p` is named `p.0`, a nested one `p.0.1`.
pub fn slots(m: &Module, params: &[Param]) -> Vec<Param> {
    let mut out = Vec::new();
    let mut work: Vec<Param> = params.iter().rev().cloned().collect();
    while let Some(p) = work.pop() {
        let Type::Tuple(fields) = &m.types[p.ty] else {
            out.push(p);
            continue;
        };
        let field = |(i, &ty): (usize, &TypeId)| Param {
            name: format!("{}.{i}", p.name),
            ty,
        };
        work.extend(fields.iter().enumerate().map(field).rev());
    }
    out
}

/// A step of rebuilding a parameter from its slots.
enum Part {
    See(TypeId),
    Join(usize),
}

/// Rebuilds a value of the given type from its slots' values. Returns `None` if there are too few.
pub fn assemble<T>(
    m: &Module,
    ty: TypeId,
    slots: &mut impl Iterator<Item = T>,
    tuple: impl Fn(Vec<T>) -> T,
) -> Option<T> {
    let (mut work, mut done) = (vec![Part::See(ty)], Vec::new());
    while let Some(part) = work.pop() {
        match part {
            Part::See(ty) => match &m.types[ty] {
                Type::Tuple(fields) => {
                    work.push(Part::Join(fields.len()));
                    work.extend(fields.iter().rev().map(|&f| Part::See(f)));
                }
                _ => done.push(slots.next()?),
            },
            Part::Join(n) => {
                let fields = done.split_off(done.len() - n);
                done.push(tuple(fields));
            }
        }
    }
    done.pop()
}

/// Returns the parameters of a function that has not been type-checked: with their annotated types,
/// or an unknown tensor type where there is no annotation.
pub fn annotated(m: &mut Module, f: FuncId) -> Vec<Param> {
    let any = m.types.intern(Type::Tensor(relax_ir::TensorType {
        shape: Shape::Unknown,
        dtype: DTy::Unknown,
    }));
    let param = |&v: &relax_ir::VarId| Param {
        name: m.vars[v].name.to_string(),
        ty: m.vars[v].ty.unwrap_or(any),
    };
    m.funcs[f].params.iter().map(param).collect()
}

/// Binds named arrays to the slots of a call: by the slot's name; by position for `in0`, `in1`, …
/// (or `arr_0`, …, NumPy's names for unnamed arrays); or by the ONNX name that the slot's name was
/// derived from. With `rest`, missing arrays are generated.
///
/// # Errors
/// Arrays are missing, superfluous or of the wrong type: one line for each.
pub fn bind(
    m: &Module,
    slots: &[Param],
    arrays: &[(String, Tensor)],
    taking: Taking,
    rest: Option<Random<'_>>,
) -> Result<Vec<Tensor>, Vec<String>> {
    let mut problems = Vec::new();
    let mut used = vec![false; arrays.len()];
    let mut out: Vec<Option<Tensor>> = Vec::with_capacity(slots.len());
    let mut extents = Extents::default();
    for (i, p) in slots.iter().enumerate() {
        let (position, unnamed) = (format!("in{i}"), format!("arr_{i}"));
        let find = |name: &str| arrays.iter().position(|a| a.0 == name);
        let found = find(&p.name)
            .or_else(|| find(&position))
            .or_else(|| find(&unnamed))
            .or_else(|| arrays.iter().position(|a| numbered(&p.name, &a.0)))
            .or_else(|| arrays.iter().position(|a| imported(&p.name, &a.0)));
        match found {
            None if rest.is_some() => out.push(None),
            None => problems.push(format!(
                "%{} is missing: no array `{}` or `{position}` (it must be {})",
                p.name,
                p.name,
                m.show_type(p.ty)
            )),
            Some(k) => {
                used[k] = true;
                match fit(m, p, &arrays[k].1, taking) {
                    Ok(tensor) => {
                        extents.learn(m, p, &tensor);
                        out.push(Some(tensor));
                    }
                    Err(problem) => problems.push(problem.to_string()),
                }
            }
        }
    }
    for ((name, _), _) in arrays.iter().zip(&used).filter(|(_, used)| !**used) {
        problems.push(unknown(name, slots));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if let Some(how) = rest {
        extents.settle(m, slots, how);
    }
    let mut whole = Vec::with_capacity(slots.len());
    for (i, given) in out.into_iter().enumerate() {
        match (given, rest) {
            (Some(tensor), _) => whole.push(tensor),
            (None, Some(how)) => match random::tensor(m, slots, i, how, &extents) {
                Ok(tensor) => whole.push(tensor),
                Err(problem) => problems.push(problem.to_string()),
            },
            (None, None) => {}
        }
    }
    match problems.is_empty() {
        true => Ok(whole),
        false => Err(problems),
    }
}

/// Infers the values of symbolic extents in the slots' types from the tensors of a call. Returns
/// `None` if there are none to infer, or if two tensors disagree.
pub fn extents(m: &Module, slots: &[Param], tensors: &[Tensor]) -> Option<relax_passes::Extents> {
    let mut known = relax_passes::Extents::default();
    let mut open = false;
    for (slot, tensor) in slots.iter().zip(tensors) {
        let Type::Tensor(t) = &m.types[slot.ty] else {
            continue;
        };
        let dims = t.shape.dims().unwrap_or_default();
        open |= dims.len() != tensor.shape().len() || dims.iter().any(|d| d.as_const().is_none());
        for (dim, &n) in dims.iter().zip(tensor.shape()) {
            if let Some(Atom::Var(v)) = dim.as_atom()
                && *known.dims.entry(v).or_insert(n) != n
            {
                return None;
            }
        }
        let exact = (tensor.dtype(), tensor.shape().to_vec());
        known.tensors.insert(slot.name.clone(), exact);
    }
    open.then_some(known)
}

/// Describes an array that matches no slot.
fn unknown(name: &str, slots: &[Param]) -> String {
    let near = relax_base::did_you_mean(name, slots.iter().map(|p| p.name.as_str()));
    let hint = near.map_or(String::new(), |n| format!(" (did you mean `{n}`?)"));
    format!("the array `{name}` belongs to no parameter{hint}")
}

/// Binds weights to parameters of `entry` by name; with `all`, every parameter needs one. Returns
/// the bound values and all problems: arrays that match no parameter or not its type, and tuple
/// parameters that are only partly bound.
pub fn weights(
    m: &Module,
    entry: GlobalId,
    params: &[Param],
    arrays: Vec<(String, Tensor)>,
    (all, taking): (bool, Taking),
) -> (Vec<(String, Bound)>, Vec<String>) {
    let mut problems = Vec::new();
    let slots = slots(m, params);
    let mut given: Vec<Option<Tensor>> = vec![None; slots.len()];
    // A slot whose array has the wrong type is not reported as missing, too.
    let mut wrong = vec![false; slots.len()];
    for (name, tensor) in arrays {
        let at = (slots.iter().position(|p| p.name == name))
            .or_else(|| slots.iter().position(|p| numbered(&p.name, &name)));
        match at {
            None => problems.push(unknown(&name, &slots) + &elsewhere(m, entry, &name)),
            Some(k) => match fit(m, &slots[k], &tensor, taking) {
                Err(problem) => {
                    wrong[k] = true;
                    problems.push(problem.to_string());
                }
                Ok(tensor) => given[k] = Some(tensor),
            },
        }
    }
    let (mut out, mut at) = (Vec::new(), 0);
    for p in params {
        let count = self::slots(m, std::slice::from_ref(p)).len();
        let range = at..at + count;
        at += count;
        let whole: Option<Vec<Tensor>> = given[range.clone()].iter().cloned().collect();
        let whole = whole.filter(|_| count > 0).and_then(|tensors| {
            let mut tensors = tensors.into_iter().map(Bound::Tensor);
            assemble(m, p.ty, &mut tensors, Bound::Tuple)
        });
        match whole {
            Some(value) => out.push((p.name.clone(), value)),
            None => {
                let partly = given[range.clone()].iter().any(Option::is_some);
                let missing = range.filter(|&k| given[k].is_none() && !wrong[k] && (all || partly));
                problems.extend(missing.map(|k| {
                    let p = &slots[k];
                    let why = if all {
                        ""
                    } else {
                        ": a tuple is bound as a whole"
                    };
                    format!(
                        "%{} is missing{why} (it must be {})",
                        p.name,
                        m.show_type(p.ty)
                    )
                }));
            }
        }
    }
    (out, problems)
}

/// Suggests another function that has a parameter of this name.
fn elsewhere(m: &Module, entry: GlobalId, name: &str) -> String {
    let mut globals = m
        .globals
        .iter()
        .filter(|(id, g)| *id != entry && !g.prelude);
    let found = globals.find(|(id, _)| {
        let func = m.global_func(*id).map(|f| &m.funcs[f]);
        func.is_some_and(|f| f.params.iter().any(|&v| m.vars[v].name.as_str() == name))
    });
    found.map_or(String::new(), |(_, g)| {
        format!(
            "; @{} has one of that name (--entry {} runs it)",
            g.name, g.name
        )
    })
}

/// Returns whether `param` is `name` with the suffix that TVM's printer uses to keep parameters of
/// the same name apart (`data`, `data1`, …); the model's arrays still have the plain name.
fn numbered(param: &str, name: &str) -> bool {
    param
        .strip_prefix(name)
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns whether `param` is the ONNX name `name` turned into an identifier: `input_1` for
/// `input.1`.
fn imported(param: &str, name: &str) -> bool {
    name != param && relax_onnx::readable(name, "") == param
}
