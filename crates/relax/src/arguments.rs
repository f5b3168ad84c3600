//! Argument conversion for the evaluator.

use relax_interp::{Node, Value as Inner};
use relax_ir::{CtorId, Module, Type};
use relax_tensor::Value;

use crate::fit::{Taking, fit};
use crate::param::Param;
use crate::types::{Bound, Scopes};

/// A work item of the traversal of an argument.
enum Step<'v> {
    See(&'v Value, Bound, String),
    Join(Option<CtorId>, usize),
}

/// Converts the arguments of a call to evaluator values and checks them against the parameter
/// types; on failure returns every mismatch.
pub(crate) fn fitted(
    m: &Module,
    params: &[Param],
    arguments: &[Value],
    taking: Taking,
) -> Result<Vec<Inner>, Vec<String>> {
    if params.len() != arguments.len() {
        let (want, have) = (params.len(), arguments.len());
        return Err(vec![format!(
            "it has {want} parameters, and {have} are given"
        )]);
    }
    let mut problems = Vec::new();
    let mut out = Vec::with_capacity(arguments.len());
    for (param, value) in params.iter().zip(arguments) {
        out.extend(one(m, param, value, taking, &mut problems));
    }
    match problems.is_empty() {
        true => Ok(out),
        false => Err(problems),
    }
}

/// Converts one argument; mismatches are appended to `problems`.
fn one(
    m: &Module,
    param: &Param,
    value: &Value,
    taking: Taking,
    problems: &mut Vec<String>,
) -> Option<Inner> {
    let mut scopes = Scopes::new(m);
    let mut done: Vec<Inner> = Vec::new();
    let whole = Step::See(value, Bound::outer(param.ty), param.name.clone());
    let mut work = vec![whole];
    while let Some(step) = work.pop() {
        let (value, ty, name) = match step {
            Step::See(value, ty, name) => (value, scopes.behind(ty), name),
            Step::Join(ctor, n) => {
                let fields = done.split_off(done.len().checked_sub(n)?);
                done.push(match ctor {
                    Some(ctor) => Inner::Node(Node::Adt(ctor, fields).into()),
                    None => Inner::tuple(fields),
                });
                continue;
            }
        };
        let (tag, fields) = match value {
            Value::Tensor(tensor) => {
                match fit(m, &Param { name, ty: ty.ty }, tensor, taking) {
                    Ok(tensor) => done.push(Inner::from(tensor)),
                    Err(problem) => {
                        problems.push(problem.to_string());
                        return None;
                    }
                }
                continue;
            }
            Value::Tuple(fields) => (None, &fields[..]),
            Value::Adt(tag, fields) => (Some(*tag), &fields[..]),
            Value::Opaque(_) => (None, &[][..]),
        };
        let types = scopes.fields(ty, tag);
        let types = types.filter(|t| t.len() == fields.len() && !matches!(value, Value::Opaque(_)));
        let Some(types) = types else {
            problems.push(format!("%{name} must be {}", m.show_type(ty.ty)));
            return None;
        };
        let ctor = match (&m.types[ty.ty], tag) {
            (Type::Adt(adt, _), Some(tag)) => m.adts[*adt].ctors.get(tag as usize).copied(),
            _ => None,
        };
        work.push(Step::Join(ctor, fields.len()));
        let see = |(i, (field, ty))| Step::See(field, ty, format!("{name}.{i}"));
        let inner = fields.iter().zip(types).enumerate();
        work.extend(inner.map(see).collect::<Vec<_>>().into_iter().rev());
    }
    done.pop()
}
