//! Checks of values from callers against descriptions of their types.
//!
//! A description is words in read-only data, which the compiler emitted: parts, each a form and its
//! operands, that refer to other parts by their offsets. The first part is the whole value.
//!
//! Invariant: keeps its own stack, and visits a part that several values share once.

use std::collections::HashSet;
use std::ffi::c_char;

use crate::context::{RxContext, Status, guard, text};
use crate::object::{Kind, RxClosure, RxFields, RxObject, RxRef, RxTensor};

/// The forms of parts.
pub mod form {
    /// Anything but null.
    pub const ANY: i64 = 0;
    /// The part at the offset in the next word.
    pub const SAME: i64 = 1;
    /// A tensor: rank and element type as DLPack's word follow, -1 for any.
    pub const TENSOR: i64 = 2;
    /// A shape: its rank follows.
    pub const SHAPE: i64 = 3;
    /// A tuple: the number of its fields and their parts follow.
    pub const TUPLE: i64 = 4;
    /// An instance of a data type: the number of constructors follows, and where each has the
    /// number and parts of its fields.
    pub const ADT: i64 = 5;
    /// A function: the number of its parameters follows.
    pub const CLOSURE: i64 = 6;
    /// A reference cell: the part of its value follows.
    pub const CELL: i64 = 7;
}

/// A value, and where its part begins.
type Task = (*const RxObject, i64);

struct Walk {
    words: *const i64,
    work: Vec<Task>,
    /// Shared values that were checked against these parts.
    seen: HashSet<Task>,
}

/// Why a value does not match its description.
type Wrong = (Status, String);

fn wrong(text: impl Into<String>) -> Wrong {
    (Status::Dtype, text.into())
}

impl Walk {
    /// A word of the description.
    unsafe fn word(&self, at: i64) -> i64 {
        // SAFETY: the compiler wrote as many as it refers to.
        unsafe { *self.words.add(at as usize) }
    }

    fn add(&mut self, value: *const RxObject, part: i64) -> Result<(), Wrong> {
        let room = self.work.try_reserve(1);
        room.map_err(|_| (Status::Memory, "there is no memory to look at it".into()))?;
        self.work.push((value, part));
        Ok(())
    }

    /// Returns whether a value was checked against this part before. One with a single reference is
    /// visited once.
    unsafe fn again(&mut self, value: *const RxObject, part: i64) -> bool {
        // SAFETY: the value lives.
        let shared = unsafe { (*value).refs } != 1;
        shared && self.seen.try_reserve(1).is_ok() && !self.seen.insert((value, part))
    }

    /// Pushes the fields of a value, with their parts from some word on.
    unsafe fn fields(&mut self, value: *const RxObject, n: u32, at: i64) -> Result<(), Wrong> {
        // SAFETY: tuples and instances have as many fields as they say.
        unsafe {
            let fields = (&raw const (*value.cast::<RxFields>()).fields).cast::<*mut RxObject>();
            for i in 0..n as usize {
                let part = self.word(at + i as i64);
                self.add(*fields.add(i), part)?;
            }
        }
        Ok(())
    }

    unsafe fn look(&mut self, value: *const RxObject, part: i64) -> Result<(), Wrong> {
        if value.is_null() {
            return Err((Status::Argument, "is or holds NULL".into()));
        }
        // SAFETY: values live, and are what their headers say.
        unsafe {
            let (kind, count) = (i32::from((*value).kind), (*value).count);
            let what = self.word(part);
            let first = self.word(if what == form::ANY { part } else { part + 1 });
            let is = |wanted: Kind| kind == wanted as i32;
            match what {
                form::SAME => return self.add(value, first),
                form::TENSOR if !is(Kind::Tensor) => return Err(wrong("is no tensor")),
                form::SHAPE if !is(Kind::Shape) => return Err(wrong("is no shape")),
                form::TUPLE if !is(Kind::Tuple) || i64::from(count) != first => {
                    return Err(wrong(format!("is no tuple of {first} fields")));
                }
                form::ADT if !is(Kind::Adt) => {
                    return Err(wrong("is no instance of a data type"));
                }
                form::CLOSURE if !is(Kind::Closure) => return Err(wrong("is no function")),
                form::CELL if !is(Kind::Ref) => return Err(wrong("is no reference")),
                _ => {}
            }
            if self.again(value, part) {
                return Ok(());
            }
            match what {
                form::TENSOR => tensor(value.cast(), first, self.word(part + 2)),
                form::SHAPE if first >= 0 && i64::from(count) != first => {
                    let text = format!("the rank should be {first}, but is {count}");
                    Err((Status::Shape, text))
                }
                form::TUPLE => self.fields(value, count, part + 2),
                form::ADT => {
                    let tag = i64::from((*value).tag);
                    if tag >= first {
                        let text = format!("has constructor {tag}, and its type has {first}");
                        return Err(wrong(text));
                    }
                    let at = self.word(part + 2 + tag);
                    let fields = self.word(at);
                    if fields != i64::from(count) {
                        let text = format!(
                            "constructor {tag} of its type takes {fields} values, but there are {count}"
                        );
                        return Err(wrong(text));
                    }
                    self.fields(value, count, at + 1)
                }
                form::CLOSURE => {
                    let arity = (*value).tag;
                    if i64::from(arity) != first {
                        let text = format!("takes {arity} arguments, but should take {first}");
                        return Err(wrong(text));
                    }
                    match (*value.cast::<RxClosure>()).code.is_null() {
                        true => Err(wrong("is a function without code")),
                        false => Ok(()),
                    }
                }
                form::CELL => self.add((*value.cast::<RxRef>()).value, first),
                _ => Ok(()),
            }
        }
    }
}

/// Rank and element type of a live tensor.
unsafe fn tensor(tensor: *const RxTensor, rank: i64, dtype: i64) -> Result<(), Wrong> {
    // SAFETY: `tensor` is live.
    let (ndim, found) = unsafe { ((*tensor).ndim, (*tensor).dtype) };
    if rank >= 0 && i64::from(ndim) != rank {
        let text = format!("the rank should be {rank}, but is {ndim}");
        return Err((Status::Shape, text));
    }
    let found = i64::from(u32::from_le_bytes([
        found.code,
        found.bits,
        found.lanes.to_le_bytes()[0],
        found.lanes.to_le_bytes()[1],
    ]));
    match dtype >= 0 && found != dtype {
        true => Err(wrong("an element type is another one")),
        false => Ok(()),
    }
}

/// Fails unless a value matches a description, part by part.
///
/// # Safety
/// `ctx` is a context, `value` null or a live value, `words` a description, `place` null or
/// NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_check_value(
    ctx: *mut RxContext,
    value: *const RxObject,
    words: *const i64,
    place: *const c_char,
) -> i32 {
    guard(ctx, |context| {
        let mut walk = Walk {
            words,
            work: vec![(value, 0)],
            seen: HashSet::new(),
        };
        while let Some((value, part)) = walk.work.pop() {
            // SAFETY: `value` is null or live; parts of live values live.
            if let Err((status, what)) = unsafe { walk.look(value, part) } {
                // SAFETY: `place` ends with a zero.
                let place = unsafe { text(place) };
                return context.fail_at(status as i32, &place, &what);
            }
        }
        0
    })
}
