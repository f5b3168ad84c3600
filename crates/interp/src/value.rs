//! Values.

use std::cell::RefCell;
use std::rc::Rc;

use relax_base::Symbol;
use relax_ir::{CtorId, GlobalId, OpId};
use relax_sym::DimVar;
use relax_tensor::Tensor;

use crate::code::Code;

/// A value. Cloning is shallow.
///
/// Invariant: dropping a value takes bounded stack, however deep it is.
#[derive(Clone)]
pub enum Value {
    /// A tensor.
    Tensor(Rc<Tensor>),
    /// A shape value.
    Shape(Rc<[i64]>),
    /// A tuple, a data type instance, a closure or a reference cell.
    Node(Rc<Node>),
    /// A global function or tensor program.
    Global(GlobalId),
    /// An operator as a value.
    Op(OpId),
    /// A constructor as a value.
    Ctor(CtorId),
    /// A packed function.
    Extern(Symbol),
}

/// A composite value.
pub enum Node {
    /// A tuple.
    Tuple(Vec<Value>),
    /// A data type instance.
    Adt(CtorId, Vec<Value>),
    /// A closure.
    Closure(Closure),
    /// A reference cell.
    Ref(RefCell<Value>),
}

/// A function with its captured values.
pub struct Closure {
    pub(crate) code: Rc<Code>,
    pub(crate) captured: Vec<Value>,
    pub(crate) dims: Vec<(DimVar, i64)>,
}

impl Drop for Node {
    fn drop(&mut self) {
        fn take(node: &mut Node, work: &mut Vec<Value>) {
            match node {
                Node::Tuple(fields) | Node::Adt(_, fields) => work.append(fields),
                Node::Closure(c) => work.append(&mut c.captured),
                Node::Ref(cell) => work.push(cell.replace(Value::Shape(Rc::from([])))),
            }
        }
        let mut work = Vec::new();
        take(self, &mut work);
        while let Some(value) = work.pop() {
            if let Value::Node(rc) = value
                && let Ok(mut node) = Rc::try_unwrap(rc)
            {
                take(&mut node, &mut work);
            }
        }
    }
}

impl Value {
    /// Creates a tuple.
    pub fn tuple(fields: Vec<Value>) -> Value {
        Value::Node(Rc::new(Node::Tuple(fields)))
    }
    /// Returns the fields of a tuple or a data type instance.
    pub fn fields(&self) -> Option<&[Value]> {
        match self {
            Value::Node(n) => match &**n {
                Node::Tuple(fields) | Node::Adt(_, fields) => Some(fields),
                _ => None,
            },
            _ => None,
        }
    }
    /// Returns the constructor of a data type instance.
    pub fn ctor(&self) -> Option<CtorId> {
        match self {
            Value::Node(n) => match &**n {
                Node::Adt(c, _) => Some(*c),
                _ => None,
            },
            _ => None,
        }
    }
    /// Returns the contents of a reference.
    pub(crate) fn cell(&self) -> Option<&RefCell<Value>> {
        match self {
            Value::Node(n) => match &**n {
                Node::Ref(cell) => Some(cell),
                _ => None,
            },
            _ => None,
        }
    }
    /// Returns the tensor, if it is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        if let Value::Tensor(t) = self {
            Some(t)
        } else {
            None
        }
    }
    /// Describes the kind of value.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::Shape(_) => "a shape",
            Value::Global(_) | Value::Op(_) | Value::Ctor(_) | Value::Extern(_) => "a function",
            Value::Node(n) => match &**n {
                Node::Tuple(_) => "a tuple",
                Node::Adt(..) => "a data value",
                Node::Closure(_) => "a function",
                Node::Ref(_) => "a reference",
            },
        }
    }
    /// Returns the tensors of a value, tuples flattened in order; `None` if it contains anything
    /// else.
    pub fn flatten(&self) -> Option<Vec<Tensor>> {
        let mut out = Vec::new();
        let mut work = vec![self];
        while let Some(v) = work.pop() {
            match v {
                Value::Tensor(t) => out.push((**t).clone()),
                Value::Node(n) => match &**n {
                    Node::Tuple(fields) => work.extend(fields.iter().rev()),
                    _ => return None,
                },
                _ => return None,
            }
        }
        Some(out)
    }
}

impl From<Tensor> for Value {
    fn from(t: Tensor) -> Value {
        Value::Tensor(Rc::new(t))
    }
}

impl std::fmt::Debug for Value {
    /// One level only, as values may be deep.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Tensor(t) => write!(f, "{t:?}"),
            Value::Shape(s) => write!(f, "shape{s:?}"),
            _ => f.write_str(self.kind()),
        }
    }
}
