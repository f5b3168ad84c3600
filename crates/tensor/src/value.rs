//! Values of programs: tensors, and what is made of them.

use crate::Tensor;

/// A value of a program, outside of it: what a call takes and what it returns.
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
    /// An ADT instance: the constructor's number and the fields as they are known.
    Adt(u32, Vec<Value>),
    /// Something without a form outside: a closure, a reference, or what is one part too many.
    Opaque(&'static str),
}

impl Value {
    /// Builds a value of parts of another kind, from its leaves up. `look` gives a part's fields,
    /// with the number of its constructor if it has one, or what stands for a part without fields.
    /// However deep the parts are, this takes no stack; after `MOST_PARTS` of them it goes no
    /// further.
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

    /// Rebuilds a value from its leaves up, of tuples and of what constructors made by their
    /// numbers; `None` where something else is in it, or a step gives nothing. However deep the
    /// value is, this takes no stack.
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

/// A value is copied up to so many parts, those that several places share counted at each; what is
/// left is [`Value::Opaque`].
const MOST_PARTS: usize = 1 << 24;

/// However deep a value is, it goes without taking stack.
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
