//! Checks of values from outside against descriptions of their types.
//!
//! A description is words in read-only data, which the compiler emitted: parts, each a form and its
//! operands, that refer to other parts by their offsets. The first part is the whole value.
//!
//! Invariant: keeps its own stack, and visits a part that several values share once.

use std::collections::HashSet;

use crate::context::Status;
use crate::object::{Kind, RxClosure, RxObject, RxTensor, children};
use crate::tensor::look::tensor as tensor_of;

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

/// A description of a type.
#[derive(Clone, Copy)]
pub struct Description(*const i64);

impl Description {
    /// The description whose words begin here.
    ///
    /// # Safety
    /// The compiler emitted the words, in read-only data of a program that lives: every part has
    /// the operands of its form, and every offset in them is that of another part.
    pub unsafe fn at(words: *const i64) -> Description {
        Description(words)
    }

    /// The word at an offset: that of a part, or of an operand of a part.
    fn word(self, at: i64) -> i64 {
        // SAFETY: an offset of a part came from the description, which has it, and is followed by
        // the operands of the part's form, which are all that `Walk` asks for.
        unsafe { self.0.offset(at as isize).read() }
    }
}

struct Walk {
    words: Description,
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
    fn add(&mut self, value: *const RxObject, part: i64) -> Result<(), Wrong> {
        let room = self.work.try_reserve(1);
        room.map_err(|_| (Status::Memory, "there is no memory to look at it".into()))?;
        self.work.push((value, part));
        Ok(())
    }

    /// Returns true if a value was checked against this part before. One with a single reference is
    /// visited once.
    fn again(&mut self, value: &RxObject, part: i64) -> bool {
        let task = (&raw const *value, part);
        value.refs != 1 && self.seen.try_reserve(1).is_ok() && !self.seen.insert(task)
    }

    /// Pushes the fields of a value, with their parts from some word on.
    fn fields(&mut self, fields: &[*mut RxObject], at: i64) -> Result<(), Wrong> {
        for (i, &field) in fields.iter().enumerate() {
            let part = self.words.word(at + i as i64);
            self.add(field, part)?;
        }
        Ok(())
    }

    /// Checks one value against a part, and pushes what it holds.
    ///
    /// # Safety
    /// `value` is null or live.
    unsafe fn look(&mut self, value: *const RxObject, part: i64) -> Result<(), Wrong> {
        // SAFETY: null or a live value.
        let Some(header) = (unsafe { value.as_ref() }) else {
            return Err((Status::Argument, "is or holds NULL".into()));
        };
        let (kind, count) = (i32::from(header.kind), header.count);
        let words = self.words;
        let what = words.word(part);
        let first = words.word(if what == form::ANY { part } else { part + 1 });
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
        if self.again(header, part) {
            return Ok(());
        }
        // SAFETY: a live value has as many fields as its header says.
        let inside = unsafe { children(value) };
        match what {
            // SAFETY: a live value.
            form::TENSOR => match unsafe { tensor_of(value) } {
                Some(t) => tensor(t, first, words.word(part + 2)),
                None => Err(wrong("is no tensor")),
            },
            form::SHAPE if first >= 0 && i64::from(count) != first => {
                let text = format!("the rank should be {first}, but is {count}");
                Err((Status::Shape, text))
            }
            form::TUPLE => self.fields(inside, part + 2),
            form::ADT => self.constructor(header, inside, (first, part + 2)),
            // SAFETY: a live closure.
            form::CLOSURE => closure(unsafe { &*value.cast() }, first),
            form::CELL => inside.iter().try_for_each(|&held| self.add(held, first)),
            _ => Ok(()),
        }
    }

    /// Checks an instance of a data type with so many constructors, whose parts begin at some word.
    fn constructor(
        &mut self,
        value: &RxObject,
        inside: &[*mut RxObject],
        (constructors, table): (i64, i64),
    ) -> Result<(), Wrong> {
        let (tag, count) = (i64::from(value.tag), value.count);
        if tag >= constructors {
            let text = format!("has constructor {tag}, and its type has {constructors}");
            return Err(wrong(text));
        }
        let at = self.words.word(table + tag);
        let fields = self.words.word(at);
        if fields != i64::from(count) {
            let text = format!(
                "constructor {tag} of its type takes {fields} values, but there are {count}"
            );
            return Err(wrong(text));
        }
        self.fields(inside, at + 1)
    }
}

/// A function's number of parameters, and that it has code.
fn closure(closure: &RxClosure, wanted: i64) -> Result<(), Wrong> {
    let arity = closure.header.tag;
    if i64::from(arity) != wanted {
        let text = format!("takes {arity} arguments, but should take {wanted}");
        return Err(wrong(text));
    }
    match closure.code.is_null() {
        true => Err(wrong("is a function without code")),
        false => Ok(()),
    }
}

/// Rank and element type of a tensor.
fn tensor(tensor: &RxTensor, rank: i64, dtype: i64) -> Result<(), Wrong> {
    let (ndim, found) = (tensor.ndim, tensor.dtype);
    if rank >= 0 && i64::from(ndim) != rank {
        let text = format!("the rank should be {rank}, but is {ndim}");
        return Err((Status::Shape, text));
    }
    let [low, high] = found.lanes.to_le_bytes();
    let found = i64::from(u32::from_le_bytes([found.code, found.bits, low, high]));
    match dtype >= 0 && found != dtype {
        true => Err(wrong("an element type is another one")),
        false => Ok(()),
    }
}

/// Fails unless a value matches a description, part by part.
///
/// # Safety
/// `value` is null or a live value.
///
/// # Errors
/// The status and text of the first part that does not.
pub unsafe fn check(value: *const RxObject, words: Description) -> Result<(), (Status, String)> {
    let mut walk = Walk {
        words,
        work: vec![(value, 0)],
        seen: HashSet::new(),
    };
    while let Some((value, part)) = walk.work.pop() {
        // SAFETY: the value is null or live, or a field of a live value, which is.
        unsafe { walk.look(value, part)? };
    }
    Ok(())
}
