//! Implementation of the builtins that are not scalar functions.

use relax_tensor::{DType, Tensor};
use std::cell::RefCell;
use std::rc::Rc;

use crate::builtin::{Builtin, Plain};
use crate::code::computes;
use crate::fault::{KIND, MATCH, MEMORY, OVERLAP, PACKED, SHAPE, Trouble};
use crate::packed::Packed;
use crate::value::{Node, PlaceError, Storage, Value};

type Result<T> = std::result::Result<T, Box<Trouble>>;

/// Executes a builtin. The verifier has checked the number of arguments.
pub(crate) fn run(b: Builtin, args: &mut Vec<Value>, packed: &mut dyn Packed) -> Result<Value> {
    let Builtin::Plain(plain) = b else {
        return Err(Trouble::malformed(format_args!("{b} is not called so")));
    };
    let wrong = || Trouble::malformed(format_args!("an argument of {b} is of another kind"));
    Ok(match plain {
        Plain::Copy => args.swap_remove(0),
        Plain::Kill => Value::Void,
        Plain::MakeTuple => Value::tuple(std::mem::take(args)),
        Plain::GetItem => {
            let fields = match args[0].node() {
                Some(Node::Tuple(f) | Node::Adt(_, f) | Node::Closure(_, f)) => f,
                _ => return Err(wrong()),
            };
            let at = args[1].int().and_then(|i| usize::try_from(i).ok());
            at.and_then(|i| fields.get(i)).ok_or_else(wrong)?.clone()
        }
        Plain::MakeAdt => {
            let fields = args.split_off(1);
            let tag = args[0].int().and_then(|t| u32::try_from(t).ok());
            Node::Adt(tag.ok_or_else(wrong)?, fields).into()
        }
        Plain::GetTag => match args[0].node() {
            Some(Node::Adt(tag, _)) => int(i64::from(*tag)),
            _ => return Err(wrong()),
        },
        Plain::MakeClosure => {
            let held = args.split_off(1);
            match args[0] {
                Value::Scalar(DType::U32, func) => Node::Closure(func as u32, held).into(),
                _ => return Err(wrong()),
            }
        }
        // Handled by the machine itself.
        Plain::InvokeClosure => return Err(wrong()),
        Plain::RefNew => Node::Ref(RefCell::new(args.swap_remove(0))).into(),
        Plain::RefRead => match args[0].node() {
            Some(Node::Ref(cell)) => cell.borrow().clone(),
            _ => return Err(wrong()),
        },
        Plain::RefWrite => {
            let value = args.swap_remove(1);
            match args[0].node() {
                Some(Node::Ref(cell)) => drop(cell.replace(value)),
                _ => return Err(wrong()),
            }
            Value::Void
        }
        Plain::MakeShape => {
            let dims: Option<Vec<i64>> = args.iter().map(Value::int).collect();
            Value::Shape(Rc::new(dims.ok_or_else(wrong)?))
        }
        Plain::Extent => {
            let (_, dims) = args[0].info().ok_or_else(wrong)?;
            let axis = args[1]
                .int()
                .and_then(|i| usize::try_from(i).ok())
                .ok_or_else(wrong)?;
            match dims.get(axis) {
                Some(&n) => int(n),
                None => return Err(Trouble::new(SHAPE, format!("there is no axis {axis}"))),
            }
        }
        Plain::Element => {
            let (dtype, bits) = args[0].scalar().ok_or_else(wrong)?;
            Value::Scalar(dtype, bits)
        }
        Plain::Select => {
            let (_, bits) = args[0].scalar().ok_or_else(wrong)?;
            args.swap_remove(if bits != 0 { 1 } else { 2 })
        }
        Plain::CheckTensor => check_tensor(args).and_then(|fine| fine.ok_or_else(wrong))?,
        Plain::CheckKind => check_kind(args).and_then(|fine| fine.ok_or_else(wrong))?,
        Plain::CheckEqual => check_equal(args).and_then(|fine| fine.ok_or_else(wrong))?,
        Plain::NoMatch => {
            return Err(Trouble::new(
                MATCH,
                "no clause of the match applies to the value",
            ));
        }
        Plain::AllocStorage => {
            let bytes = args[0].int().ok_or_else(wrong)?;
            let Ok(size) = u64::try_from(bytes) else {
                return Err(Trouble::new(
                    MEMORY,
                    format!("a block of memory of {bytes} bytes"),
                ));
            };
            Value::Storage(Rc::new(Storage::new(size)))
        }
        Plain::AllocTensor => place(args)?.ok_or_else(wrong)?,
        Plain::CallPacked => {
            let name = args[0].text().ok_or_else(wrong)?;
            let result = packed.call(name, &args[1..]);
            result.map_err(|e| Trouble::new(PACKED, e.to_string()))?
        }
        Plain::CallDps => call_dps(args, packed)?.ok_or_else(wrong)?,
    })
}

fn int(v: i64) -> Value {
    Value::Scalar(DType::I64, v as u64)
}

/// In the following functions, `None` means that an argument has the wrong kind.
fn check_tensor(args: &[Value]) -> Result<Option<Value>> {
    let (Some((dtype, dims)), Some(rank)) = (args[0].info(), args[1].int()) else {
        return Ok(None);
    };
    if rank >= 0 && dims.len() as i64 != rank {
        let message = format!("the rank should be {rank}, but is {}", dims.len());
        return Err(Trouble::new(SHAPE, message));
    }
    match (&args[2], dtype) {
        (Value::Void, _) => {}
        (Value::Text(wanted), Some(found)) if found.to_string() == **wanted => {}
        (Value::Text(wanted), _) => {
            return Err(Trouble::new(
                KIND,
                format!("the element type is not {wanted}"),
            ));
        }
        _ => return Ok(None),
    }
    Ok(Some(Value::Void))
}

fn check_kind(args: &[Value]) -> Result<Option<Value>> {
    let (Some(kind), Some(n)) = (args[1].text(), args[2].int()) else {
        return Ok(None);
    };
    let tensor = matches!(
        args[0],
        Value::Tensor(_) | Value::Placed(_) | Value::Scalar(..)
    );
    let (fine, what) = match kind {
        "tensor" => (tensor, "is no tensor".to_owned()),
        "shape" => (matches!(args[0], Value::Shape(_)), "is no shape".to_owned()),
        "adt" => {
            let adt = matches!(args[0].node(), Some(Node::Adt(..)));
            (adt, "is no instance of a data type".to_owned())
        }
        "tuple" => {
            let fine = matches!(args[0].node(), Some(Node::Tuple(f)) if f.len() as i64 == n);
            (fine, format!("is no tuple of {n} fields"))
        }
        _ => return Ok(None),
    };
    if fine {
        Ok(Some(Value::Void))
    } else {
        Err(Trouble::new(KIND, what))
    }
}

fn check_equal(args: &[Value]) -> Result<Option<Value>> {
    let (Some(a), Some(b), Some(or_one)) = (args[0].int(), args[1].int(), args[2].int()) else {
        return Ok(None);
    };
    let Some(message) = args[3].text() else {
        return Ok(None);
    };
    if a == b || or_one == 1 && a.min(b) == 1 {
        return Ok(Some(Value::Void));
    }
    let message = message
        .replacen("{}", &a.to_string(), 1)
        .replacen("{}", &b.to_string(), 1);
    Err(Trouble::new(SHAPE, message))
}

fn dims_of(value: &Value) -> Option<&[i64]> {
    match value {
        Value::Shape(dims) => Some(dims),
        _ => None,
    }
}

/// Creates a zero-initialised tensor.
fn zeros(dtype: &str, dims: &[i64]) -> Result<Option<Tensor>> {
    let dtype = dtype.parse::<DType>().ok();
    let Some(dtype) = dtype.filter(|&t| computes(t)) else {
        return Ok(None);
    };
    let most = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
    if Tensor::byte_len(dtype, dims).is_none_or(|n| n > most) {
        return Err(Trouble::new(
            MEMORY,
            format!("no tensor has the extents {dims:?}"),
        ));
    }
    // Exhausted memory must fail the program, not abort the process.
    let bytes = Tensor::byte_len(dtype, dims).unwrap_or(0);
    if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
        return Err(Trouble::new(
            MEMORY,
            format!("out of memory: {bytes} bytes could not be allocated"),
        ));
    }
    Ok(Some(Tensor::zeros(dtype, dims)))
}

/// An upper bound on the size of a tensor, beyond any machine's memory.
const MOST_BYTES: u64 = 1 << 42;

fn place(args: &[Value]) -> Result<Option<Value>> {
    let (Value::Storage(block), Some(from)) = (&args[0], args[1].int()) else {
        return Ok(None);
    };
    let (Some(dims), Some(dtype)) = (dims_of(&args[2]), args[3].text()) else {
        return Ok(None);
    };
    let Some(tensor) = zeros(dtype, dims)? else {
        return Ok(None);
    };
    let Ok(from) = u64::try_from(from) else {
        return Err(Trouble::new(
            MEMORY,
            format!("a tensor cannot begin at byte {from} of a block of memory"),
        ));
    };
    let placed = block.place(from, tensor).map_err(|e| match e {
        PlaceError::Outside { from, bytes, block } => Trouble::new(
            MEMORY,
            format!("a tensor of {bytes} bytes at byte {from} does not fit into a block of memory of {block} bytes"),
        ),
        PlaceError::Used(low, high, from, to) => Trouble::new(
            OVERLAP,
            format!(
                "a tensor in bytes {low} to {high} of a block of memory is still used: bytes {from} to {to} cannot be given to another"
            ),
        ),
    })?;
    let placed = Rc::new(placed);
    block.note(from, &placed);
    Ok(Some(Value::Placed(placed)))
}

fn call_dps(args: &[Value], packed: &mut dyn Packed) -> Result<Option<Value>> {
    let (Some(name), Some(n)) = (
        args[0].text(),
        args[1].int().and_then(|n| usize::try_from(n).ok()),
    ) else {
        return Ok(None);
    };
    let Some(shapes) = n
        .checked_mul(2)
        .and_then(|k| args.get(2..k.checked_add(2)?))
    else {
        return Ok(None);
    };
    let mut outs = Vec::with_capacity(n);
    for pair in shapes.chunks(2) {
        let (Some(dims), Some(dtype)) = (dims_of(&pair[0]), pair[1].text()) else {
            return Ok(None);
        };
        let Some(out) = zeros(dtype, dims)? else {
            return Ok(None);
        };
        outs.push(out);
    }
    let inputs: Option<Vec<_>> = args[2 + 2 * n..].iter().map(Value::tensor).collect();
    let Some(inputs) = inputs else {
        return Ok(None);
    };
    let done = packed.call_dps(name, &inputs, &mut outs);
    done.map_err(|e| Trouble::new(PACKED, e.to_string()))?;
    let mut outs: Vec<Value> = outs.into_iter().map(Value::from).collect();
    Ok(Some(match outs.len() {
        1 => outs.swap_remove(0),
        _ => Value::tuple(outs),
    }))
}
