//! Values of programs: tensors and composite values.

use crate::Tensor;

/// A value as seen from outside of a program: an argument or a result of a call.
///
/// ```
/// use relax_tensor::{Tensor, Value};
///
/// // `Cons(1, Nil)`: constructors are numbered in the order of the type.
/// let one = Value::Tensor(Tensor::from_slice(&[], &[1i32]));
/// let list = Value::Adt(0, vec![one, Value::Adt(1, vec![])]);
/// let count = list.fold(|_| Some(1), |_, parts| Some(parts.into_iter().sum::<usize>()));
/// assert_eq!(count, Some(1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A data type instance: the constructor's tag and the fields.
    Adt(u32, Vec<Value>),
    /// A value without an external form: a closure, a reference, or a part beyond the size limit.
    Opaque(&'static str),
}

impl Value {
    /// Builds a value bottom-up from parts of another kind. `look` returns a part's fields, with
    /// the tag of its constructor if it has one, or the value of a part without fields. It uses an
    /// explicit stack, and stops after `MOST_PARTS` parts.
    pub fn unfold<N>(root: N, look: impl Fn(N) -> Result<(Option<u32>, Vec<N>), Value>) -> Value {
        enum Step<N> {
            See(N),
            Join(Option<u32>, usize),
        }
        let (mut work, mut done) = (vec![Step::See(root)], Vec::new());
        let mut seen = 0;
        while let Some(step) = work.pop() {
            let part = match step {
                Step::See(part) => part,
                Step::Join(tag, n) => {
                    let fields = done.split_off(done.len() - n);
                    done.push(match tag {
                        Some(tag) => Value::Adt(tag, fields),
                        None => Value::Tuple(fields),
                    });
                    continue;
                }
            };
            seen += 1;
            if seen > MOST_PARTS {
                done.push(Value::Opaque("…"));
                continue;
            }
            match look(part) {
                Ok((tag, fields)) => {
                    work.push(Step::Join(tag, fields.len()));
                    work.extend(fields.into_iter().rev().map(Step::See));
                }
                Err(leaf) => done.push(leaf),
            }
        }
        done.pop().unwrap_or(Value::Opaque("nothing"))
    }

    /// Folds a value bottom-up over tuples and data type instances; `None` if the value contains
    /// anything else, or if a step returns `None`. It uses an explicit stack.
    pub fn fold<T>(
        &self,
        mut tensor: impl FnMut(&Tensor) -> Option<T>,
        mut join: impl FnMut(Option<u32>, Vec<T>) -> Option<T>,
    ) -> Option<T> {
        enum Step<'v> {
            See(&'v Value),
            Join(Option<u32>, usize),
        }
        let (mut work, mut done) = (vec![Step::See(self)], Vec::new());
        while let Some(step) = work.pop() {
            match step {
                Step::See(Value::Tensor(t)) => done.push(tensor(t)?),
                Step::See(Value::Tuple(fields)) => {
                    work.push(Step::Join(None, fields.len()));
                    work.extend(fields.iter().rev().map(Step::See));
                }
                Step::See(Value::Adt(tag, fields)) => {
                    work.push(Step::Join(Some(*tag), fields.len()));
                    work.extend(fields.iter().rev().map(Step::See));
                }
                Step::See(Value::Opaque(_)) => return None,
                Step::Join(tag, n) => {
                    let fields = done.split_off(done.len() - n);
                    done.push(join(tag, fields)?);
                }
            }
        }
        done.pop()
    }
}

/// The limit on the parts of an unfolded value, shared ones counted at each occurrence; the rest
/// becomes [`Value::Opaque`].
const MOST_PARTS: usize = 1 << 24;

/// Drops deep values without recursion.
impl Drop for Value {
    fn drop(&mut self) {
        let mut open = Vec::new();
        let take = |v: &mut Value, open: &mut Vec<Value>| {
            if let Value::Tuple(fields) | Value::Adt(_, fields) = v {
                open.append(fields);
            }
        };
        take(self, &mut open);
        while let Some(mut value) = open.pop() {
            take(&mut value, &mut open);
        }
    }
}
