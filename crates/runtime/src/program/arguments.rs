//! The assignment of files to arguments.

use std::ffi::OsString;
use std::path::Path;

use super::npy::Array;
use super::{npy, said, zip};
use crate::context::RxContext;
use crate::object::RxObject;
use crate::tensor::copy;
use crate::values;

/// A parameter of the entry, and its arrays: itself, or the fields of a tuple.
#[derive(Clone, Debug)]
pub struct Parameter {
    name: String,
    ty: String,
    slots: Vec<Slot>,
}

/// The role of one array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// `p`, or `p.0` for a field.
    pub name: String,
    /// The type, as it is written.
    pub ty: String,
    /// The number of tuples that begin before it, and that end after it.
    tuples: (usize, usize),
}

/// Why there are no arguments.
#[derive(Debug)]
pub enum Wrong {
    /// The program was called incorrectly.
    Called(String),
    /// This file cannot be used.
    File(String, String),
}

impl Parameter {
    /// A parameter of a type as it is written.
    pub fn new(name: String, ty: String) -> Parameter {
        let slots = slots(&name, &ty);
        Parameter { name, ty, slots }
    }
}

/// Returns the leaves of a type: tuples are in parentheses, and any other brackets belong to a
/// leaf.
fn slots(name: &str, ty: &str) -> Vec<Slot> {
    let mut out: Vec<Slot> = Vec::new();
    let mut path: Vec<usize> = Vec::new();
    let mut leaf = String::new();
    let (mut depth, mut opened) = (0usize, 0);
    let full = |path: &[usize]| {
        let fields: String = path.iter().map(|i| format!(".{i}")).collect();
        format!("{name}{fields}")
    };
    for c in ty.chars().chain(['\0']) {
        let inside = depth > 0;
        match c {
            '(' if leaf.trim().is_empty() && !inside => {
                opened += 1;
                path.push(0);
                continue;
            }
            ',' | ')' | '\0' if !inside => {
                let own = std::mem::take(&mut leaf).trim().to_owned();
                if !own.is_empty() {
                    out.push(Slot {
                        name: full(&path),
                        ty: own,
                        tuples: (std::mem::take(&mut opened), 0),
                    });
                }
                if c == ')' {
                    path.pop();
                    if let Some(last) = out.last_mut() {
                        last.tuples.1 += 1;
                    }
                } else if let Some(at) = path.last_mut() {
                    *at += 1;
                }
                continue;
            }
            '(' | '[' | '<' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '>' if !leaf.ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        leaf.push(c);
    }
    out
}

/// Returns the usage line of a program.
pub fn usage(program: &str, parameters: &[Parameter], result: &str) -> String {
    let slots: Vec<&Slot> = parameters.iter().flat_map(|p| &p.slots).collect();
    let files: String = slots.iter().map(|s| format!(" {}.npy", s.name)).collect();
    let mut out = format!("usage: {program}{files}\n");
    if !slots.is_empty() {
        out.push_str(&format!("       {program} ARRAYS.npz [FILE.npy]…\n"));
    }
    for s in &slots {
        out.push_str(&format!("  {}.npy: {}\n", s.name, s.ty));
    }
    if result.is_empty() {
        return out;
    }
    if !slots.is_empty() {
        out.push_str(
            "\nEach argument is an array as NumPy saves it (np.save). An archive (np.savez) has arrays by these names, or\n\
             in0, in1, … by position; what it does not have comes from .npy files, in order.\n",
        );
    }
    for p in parameters.iter().filter(|p| p.slots.len() != 1) {
        out.push_str(&format!("{} is of type {}.\n", p.name, p.ty));
    }
    out.push_str(&format!(
        "\nThe result, {result}, is printed: each tensor as a line with its shape and a line for each element.\n\
         RELAX_THREADS is how many threads share loops, one unless it is set; 0 is one for each processor.\n\
         Exit codes: 0 it ran; 1 it failed; 2 wrongly called, or a file cannot be read.\n"
    ));
    out
}

/// Reads the arguments into objects with a reference each that is `out`'s, also on failure.
pub fn read(
    context: &mut RxContext,
    parameters: &[Parameter],
    words: &[OsString],
    out: &mut Vec<*mut RxObject>,
) -> Result<(), Wrong> {
    let slots: Vec<&Slot> = parameters.iter().flat_map(|p| &p.slots).collect();
    let arrays = files(words, &slots)?;
    let mut arrays = arrays.into_iter();
    for p in parameters {
        // Tuples that have begun, each with its fields so far.
        let mut open: Vec<Vec<*mut RxObject>> = Vec::new();
        let first = out.len();
        for slot in &p.slots {
            open.extend((0..slot.tuples.0).map(|_| Vec::new()));
            let (path, array) = arrays.next().ok_or_else(|| missing(slot))?;
            let made = copy(context, array.dtype, array.shape[..].into(), &array.bytes);
            let Ok(object) = made else {
                return Err(Wrong::File(path, said(context)));
            };
            let object: *mut RxObject = object.as_ptr().cast();
            // Owned by `out` until a tuple owns it.
            out.push(object);
            if let Some(fields) = open.last_mut() {
                fields.push(object);
            }
            for _ in 0..slot.tuples.1 {
                let fields = open.pop().unwrap_or_default();
                let Some(object) = tuple(context, &fields) else {
                    return Err(Wrong::File(path, said(context)));
                };
                out.retain(|o| !fields.contains(o));
                out.push(object);
                if let Some(around) = open.last_mut() {
                    around.push(object);
                }
            }
        }
        if p.slots.is_empty() {
            let Some(object) = tuple(context, &[]) else {
                return Err(Wrong::Called(said(context)));
            };
            out.push(object);
        }
        debug_assert_eq!(out.len(), first + 1);
    }
    Ok(())
}

/// A tuple that owns its fields.
fn tuple(context: &mut RxContext, fields: &[*mut RxObject]) -> Option<*mut RxObject> {
    let tuple = values::tuple(context, fields.len() as u32).ok()?;
    // SAFETY: the tuple is new, with as many fields.
    unsafe { values::set_fields(tuple, fields) };
    Some(tuple.as_ptr())
}

fn missing(slot: &Slot) -> Wrong {
    Wrong::Called(format!("{} is missing, {}", slot.name, slot.ty))
}

/// The array of each slot, with the file that it came from.
fn files(words: &[OsString], slots: &[&Slot]) -> Result<Vec<(String, Array)>, Wrong> {
    let mut found: Vec<Option<(String, Array)>> = slots.iter().map(|_| None).collect();
    let mut single = Vec::new();
    for word in words {
        let path = word.to_string_lossy().into_owned();
        if path.starts_with('-') && path != "-" {
            return Err(Wrong::Called(format!("there is no option {path}")));
        }
        let bytes = std::fs::read(Path::new(word));
        let bytes = bytes.map_err(|e| Wrong::File(path.clone(), format!("cannot be read: {e}")))?;
        if !zip::is(&bytes) {
            single.push((path, bytes));
            continue;
        }
        let unfit = |why: String| Wrong::File(path.clone(), why);
        for member in zip::members(&bytes).map_err(|why| unfit(why.0))? {
            let name = member.name.strip_suffix(".npy").unwrap_or(&member.name);
            let by_name = slots.iter().position(|s| s.name == name);
            let numbered = |i: &usize| name == format!("in{i}") || name == format!("arr_{i}");
            let at = by_name.or_else(|| (0..slots.len()).find(numbered));
            let at = at.ok_or_else(|| unfit(format!("`{name}` belongs to no parameter")))?;
            let array = zip::contents(&bytes, &member)
                .and_then(|bytes| npy::read(&bytes, &slots[at].ty))
                .map_err(|why| unfit(format!("`{name}` {why}")))?;
            found[at] = Some((path.clone(), array));
        }
    }
    let mut single = single.into_iter();
    let mut out = Vec::with_capacity(slots.len());
    for (slot, found) in slots.iter().zip(found) {
        out.push(match (found, single.len()) {
            (Some(found), _) => found,
            (None, 0) => return Err(missing(slot)),
            (None, _) => {
                let (path, bytes) = single.next().unwrap_or_default();
                let array = npy::read(&bytes, &slot.ty);
                (path.clone(), array.map_err(|why| Wrong::File(path, why.0))?)
            }
        });
    }
    match single.next() {
        Some((path, _)) => Err(Wrong::Called(format!("{path} is one file too many"))),
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_have_a_slot_for_each_field() {
        let shown = |ty: &str| -> Vec<String> {
            let each = |s: Slot| format!("{}: {} {:?}", s.name, s.ty, s.tuples);
            slots("p", ty).into_iter().map(each).collect()
        };
        assert_eq!(
            shown("Tensor[(n, 4), float32]"),
            ["p: Tensor[(n, 4), float32] (0, 0)"]
        );
        assert_eq!(
            shown("(Tensor[(4,), float32], (int32, (bool,)))"),
            [
                "p.0: Tensor[(4,), float32] (1, 0)",
                "p.1.0: int32 (1, 0)",
                "p.1.1.0: bool (1, 3)",
            ]
        );
        assert_eq!(shown("fn (int32, int32) -> (int32, int32)").len(), 1);
        assert_eq!(shown("List[(int32, int32)]").len(), 1);
        assert_eq!(shown("()"), [""; 0]);
    }
}
