//! Explicit memory: storage blocks, tensors in them, and destination-passing calls.
//!
//! Values are immutable here too: a write produces a new tensor. The evaluator additionally tracks
//! the location of each tensor, so that an incorrect memory plan is an error rather than a wrong
//! result: a tensor whose bytes were reused, or that was killed, can no longer be read.

use std::ops::Range;
use std::rc::{Rc, Weak};

use relax_base::Diagnostic;
use relax_ir::{ExprId, GlobalKind};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use super::Result;
use crate::types::{Dims, eval};
use crate::value::{Node, Value};
use crate::{Interp, codes, plan};

/// A tensor in a storage block.
struct Place {
    /// Keeps the address, so that no other tensor can have it.
    tensor: Weak<Tensor>,
    /// The block, represented by a shape value.
    block: Rc<[i64]>,
    bytes: Range<i64>,
    /// The reason why it can no longer be read.
    dead: Option<&'static str>,
}

/// The locations of tensors.
#[derive(Default)]
pub(crate) struct Places {
    of: FxHashMap<*const Tensor, Place>,
    /// The live tensors of each block.
    live: FxHashMap<*const i64, Vec<*const Tensor>>,
    /// The number of entries at which those of dropped tensors are purged.
    limit: usize,
}

const OVERWRITTEN: &str = "its memory was given to another tensor";
const KILLED: &str = "it was killed";

impl Places {
    fn put(&mut self, tensor: &Rc<Tensor>, block: Rc<[i64]>, bytes: Range<i64>) {
        if self.of.len() >= self.limit.max(1 << 10) {
            self.of.retain(|_, p| p.tensor.strong_count() > 0);
            let of = &self.of;
            for all in self.live.values_mut() {
                all.retain(|t| of.contains_key(t));
            }
            self.live.retain(|_, all| !all.is_empty());
            self.limit = 2 * self.of.len();
        }
        let key = Rc::as_ptr(tensor);
        self.live.entry(block.as_ptr()).or_default().push(key);
        let tensor = Rc::downgrade(tensor);
        let place = Place {
            tensor,
            block,
            bytes,
            dead: None,
        };
        self.of.insert(key, place);
    }

    /// Kills the tensors that overlap these bytes.
    fn end(&mut self, block: &Rc<[i64]>, bytes: &Range<i64>, why: &'static str) {
        let Some(all) = self.live.get_mut(&block.as_ptr()) else {
            return;
        };
        let of = &mut self.of;
        all.retain(|t| {
            let Some(place) = of.get_mut(t) else {
                return false;
            };
            let apart = place.bytes.end <= bytes.start || bytes.end <= place.bytes.start;
            if !apart {
                place.dead = Some(why);
            }
            apart
        });
        if all.is_empty() {
            self.live.remove(&block.as_ptr());
        }
    }

    fn find(&self, tensor: &Rc<Tensor>) -> Option<(Rc<[i64]>, Range<i64>)> {
        let place = self.of.get(&Rc::as_ptr(tensor))?;
        Some((place.block.clone(), place.bytes.clone()))
    }

    /// Executes `memory.kill` on a tensor, or on a block with all tensors in it.
    pub(super) fn kill(&mut self, value: &Value) {
        match value {
            Value::Tensor(t) => {
                if let Some((block, bytes)) = self.find(t) {
                    self.end(&block, &bytes, KILLED);
                }
            }
            Value::Shape(block) => self.end(block, &(0..i64::MAX), KILLED),
            _ => {}
        }
    }

    /// Returns the reason why a tensor of a value can no longer be read.
    pub(super) fn dead(&self, value: &Value) -> Option<&'static str> {
        if self.of.is_empty() {
            return None;
        }
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            match value {
                Value::Tensor(t) => {
                    if let Some(why) = self.of.get(&Rc::as_ptr(t)).and_then(|p| p.dead) {
                        return Some(why);
                    }
                }
                Value::Node(n) => {
                    if let Node::Tuple(fields) = &**n {
                        work.extend(fields);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

impl Interp<'_> {
    /// Reads a byte count: a shape value with one extent, or an integer scalar.
    fn bytes(&self, at: ExprId, value: Option<&Value>, what: &str) -> Result<i64> {
        let found = match value {
            Some(Value::Shape(s)) if s.len() == 1 => Some(s[0]),
            Some(Value::Tensor(t)) if t.is_scalar() && t.dtype().is_int() => Some(t.get_i64(0)),
            _ => None,
        };
        match found.filter(|n| *n >= 0) {
            Some(n) => Ok(n),
            None => self.error(codes::TYPE, at, format!("{what} is no number of bytes")),
        }
    }

    /// Allocates a block: a shape value with its size, identified by address.
    pub(super) fn alloc_storage(&self, at: ExprId, args: &[Value]) -> Result<Value> {
        let size = self.bytes(at, args.first(), "the size")?;
        Ok(Value::Shape(Rc::from([size])))
    }

    pub(super) fn alloc_tensor(
        &mut self,
        at: ExprId,
        args: &[Value],
        dims: &Dims,
    ) -> Result<Value> {
        let [Value::Shape(block), offset, shape] = args else {
            return self.error(codes::TYPE, at, "the first argument is no block of memory");
        };
        let from = self.bytes(at, Some(offset), "the offset")?;
        let shape: Vec<i64> = match (shape, self.attrs(at).get("assert_shape")) {
            (_, Some(given)) if given.as_array().is_some() => {
                let extents = given.as_array().unwrap_or_default();
                let one = |v: &relax_ir::AttrValue| v.as_dim().and_then(|d| eval(dims, &d));
                match extents.iter().map(one).collect() {
                    Some(shape) => shape,
                    None => return self.error(codes::DIMENSION, at, "`assert_shape` has no value"),
                }
            }
            (Value::Shape(s), _) => s.to_vec(),
            (Value::Tensor(t), _) => (0..t.len()).map(|i| t.get_i64(i)).collect(),
            _ => return self.error(codes::TYPE, at, "the shape is no shape value"),
        };
        let dtype = plan::dtypes(self.attrs(at), 1).unwrap_or_default();
        let Some((dtype, size)) = dtype
            .first()
            .and_then(|d| Some((*d, Tensor::byte_len(*d, &shape)?)))
        else {
            let text = format!("there is no tensor of shape {shape:?}");
            return self.error(codes::DIMENSION, at, text);
        };
        let (block, room) = (block.clone(), block[0]);
        let to = i64::try_from(size).ok().and_then(|n| from.checked_add(n));
        let Some(to) = to.filter(|to| *to <= room) else {
            let text = format!("{size} bytes at {from} do not lie within {room} bytes");
            return self.error(codes::DIMENSION, at, text);
        };
        let tensor = Rc::new(Tensor::zeros(dtype, &shape));
        self.places.put(&tensor, block, from..to);
        Ok(Value::Tensor(tensor))
    }

    pub(super) fn call_tir_inplace(&mut self, at: ExprId, args: Vec<Value>) -> Result<Value> {
        let [Value::Global(g), given] = &args[..] else {
            return self.error(
                codes::TYPE,
                at,
                "this form of call needs a tensor program and tensors",
            );
        };
        let m = self.m;
        let GlobalKind::Prim(program) = &m.globals[*g].kind else {
            let text = format!("@{} is no tensor program", m.globals[*g].name);
            return self.error(codes::TYPE, at, text);
        };
        let fields = given.fields().map(<[Value]>::to_vec);
        let mut given = fields.unwrap_or_else(|| vec![given.clone()]);
        let Some(first) = given.len().checked_sub(program.outputs.len()) else {
            return self.error(codes::TYPE, at, "there are fewer tensors than outputs");
        };
        let targets = given.split_off(first);
        let mut places = Vec::with_capacity(targets.len());
        let mut shapes = Vec::with_capacity(targets.len());
        for target in &targets {
            let place = match target {
                Value::Tensor(t) => self.places.find(t).map(|p| (t, p)),
                _ => None,
            };
            let Some((tensor, place)) = place else {
                return self.error(
                    codes::TYPE,
                    at,
                    "an output is no tensor of `memory.alloc_tensor`, so nothing may be written into it",
                );
            };
            shapes.push(tensor.shape().to_vec());
            places.push(place);
        }
        let mut inputs = Vec::with_capacity(given.len());
        for value in &given {
            inputs.extend(self.tensors(at, value)?);
        }
        let outs = self.execute(at, program, &inputs, Some(&shapes))?;
        let mut values = Vec::with_capacity(outs.len());
        for (out, (block, bytes)) in outs.into_iter().zip(places) {
            let out = Rc::new(out);
            self.places.end(&block, &bytes, OVERWRITTEN);
            self.places.put(&out, block, bytes);
            values.push(Value::Tensor(out));
        }
        Ok(match &values[..] {
            [one] => one.clone(),
            _ => Value::tuple(values),
        })
    }

    /// Checks that a value's memory has not been reused.
    pub(super) fn readable(&self, at: ExprId, value: &Value) -> Result<()> {
        match self.places.dead(value) {
            None => Ok(()),
            Some(why) => Err(Box::new(
                Diagnostic::error(
                    codes::MEMORY,
                    self.span(at),
                    format!("a tensor is read here after {why}"),
                )
                .note(
                    "the plan of the program's memory is wrong: `memory.kill` and \
                       `memory.alloc_tensor` say how long a tensor keeps its bytes",
                ),
            )),
        }
    }
}
