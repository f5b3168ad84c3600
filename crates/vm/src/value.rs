//! The values in registers.

use relax_tensor::{DType, Tensor};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A value. Cloning is shallow.
///
/// Invariant: dropping a value takes bounded stack, however deep it is.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value.
    #[default]
    Void,
    /// A scalar, by its bits; also a tensor of rank 0 as long as no one needs it in memory.
    Scalar(DType, u64),
    /// A tensor.
    Tensor(Rc<Tensor>),
    /// A tensor in a storage block.
    Placed(Rc<Placed>),
    /// A shape.
    Shape(Rc<Vec<i64>>),
    /// A string.
    Text(Rc<String>),
    /// A storage block.
    Storage(Rc<Storage>),
    /// A composite value.
    Node(Rc<Node>),
}

/// A composite value.
#[derive(Debug)]
pub enum Node {
    /// A tuple.
    Tuple(Vec<Value>),
    /// A data type instance: the constructor's tag, the fields.
    Adt(u32, Vec<Value>),
    /// A closure: the index of its function, the captured values.
    Closure(u32, Vec<Value>),
    /// A reference cell.
    Ref(RefCell<Value>),
}

impl Node {
    /// Returns the components; none for a cell, whose content may change.
    pub fn fields(&self) -> &[Value] {
        match self {
            Node::Tuple(f) | Node::Adt(_, f) | Node::Closure(_, f) => f,
            Node::Ref(_) => &[],
        }
    }
}

/// A storage block that a program manages.
#[derive(Debug)]
pub struct Storage {
    bytes: u64,
    /// The tensors allocated in it, including dead ones.
    placed: RefCell<Vec<(u64, u64, Weak<Placed>)>>,
}

/// A tensor in a storage block.
#[derive(Debug)]
pub struct Placed {
    /// The value written last.
    pub tensor: RefCell<Rc<Tensor>>,
    /// Keeps the block alive.
    _storage: Rc<Storage>,
}

impl Storage {
    /// Creates a block of this many bytes.
    pub fn new(bytes: u64) -> Storage {
        Storage {
            bytes,
            placed: RefCell::default(),
        }
    }

    /// Allocates a zero-initialised tensor at a byte offset of a block.
    ///
    /// # Errors
    /// It does not fit, or overlaps a live tensor.
    pub fn place(self: &Rc<Storage>, from: u64, tensor: Tensor) -> Result<Placed, PlaceError> {
        let to = from.checked_add(tensor.bytes().len() as u64);
        let to = to
            .filter(|&to| to <= self.bytes)
            .ok_or(PlaceError::Outside {
                from,
                bytes: tensor.bytes().len() as u64,
                block: self.bytes,
            })?;
        let placed = self.placed.borrow();
        let alive = placed.iter().filter(|p| p.2.strong_count() > 0);
        if let Some((low, high, _)) = alive.into_iter().find(|p| p.0.max(from) < p.1.min(to)) {
            return Err(PlaceError::Used(*low, *high, from, to));
        }
        Ok(Placed {
            tensor: RefCell::new(Rc::new(tensor)),
            _storage: self.clone(),
        })
    }

    /// Records an allocation.
    pub fn note(&self, from: u64, placed: &Rc<Placed>) {
        let to = from + placed.tensor.borrow().bytes().len() as u64;
        let mut all = self.placed.borrow_mut();
        all.retain(|p| p.2.strong_count() > 0);
        all.push((from, to, Rc::downgrade(placed)));
    }
}

/// The reason why a tensor cannot be allocated.
#[derive(Debug)]
pub enum PlaceError {
    /// It extends past the end of the block.
    Outside {
        /// The offset of its first byte.
        from: u64,
        /// Its size in bytes.
        bytes: u64,
        /// The size of the block.
        block: u64,
    },
    /// The range that is still in use, and the requested one.
    Used(u64, u64, u64, u64),
}

impl Drop for Node {
    fn drop(&mut self) {
        fn take(node: &mut Node, work: &mut Vec<Value>) {
            match node {
                Node::Tuple(fields) | Node::Adt(_, fields) | Node::Closure(_, fields) => {
                    work.append(fields)
                }
                Node::Ref(cell) => work.push(cell.take()),
            }
        }
        // Most values own only leaves.
        let deep = |v: &Value| matches!(v, Value::Node(rc) if Rc::strong_count(rc) == 1);
        let last = match self {
            Node::Tuple(f) | Node::Adt(_, f) | Node::Closure(_, f) => f.iter().any(deep),
            Node::Ref(cell) => deep(&cell.borrow()),
        };
        if !last {
            return;
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

impl From<Tensor> for Value {
    fn from(t: Tensor) -> Value {
        Value::Tensor(Rc::new(t))
    }
}

impl From<Node> for Value {
    fn from(node: Node) -> Value {
        Value::Node(Rc::new(node))
    }
}

/// Returns the bits of a tensor's only element.
pub(crate) fn element(t: &Tensor) -> Option<u64> {
    let bytes = t.bytes();
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    t.is_scalar().then_some(u64::from_le_bytes(word))
}

impl Value {
    /// Creates a tuple.
    pub fn tuple(fields: Vec<Value>) -> Value {
        Node::Tuple(fields).into()
    }

    /// Returns the value as a tensor; a scalar becomes one of rank 0.
    pub fn tensor(&self) -> Option<Rc<Tensor>> {
        match self {
            Value::Tensor(t) => Some(t.clone()),
            Value::Placed(p) => Some(p.tensor.borrow().clone()),
            Value::Scalar(dtype, bits) => {
                let bytes = bits.to_le_bytes();
                let t = Tensor::from_bytes(*dtype, &[], bytes.get(..dtype.size())?)?;
                Some(Rc::new(t))
            }
            _ => None,
        }
    }

    /// Returns the value as a scalar, or the only element of a tensor of rank 0.
    pub(crate) fn scalar(&self) -> Option<(DType, u64)> {
        match self {
            Value::Scalar(dtype, bits) => Some((*dtype, *bits)),
            Value::Tensor(t) => Some((t.dtype(), element(t)?)),
            Value::Placed(p) => {
                let t = p.tensor.borrow();
                Some((t.dtype(), element(&t)?))
            }
            _ => None,
        }
    }

    /// Returns the value as an `int64` integer.
    pub(crate) fn int(&self) -> Option<i64> {
        match self.scalar()? {
            (DType::I64, bits) => Some(bits as i64),
            _ => None,
        }
    }

    /// Returns element type and extents of a tensor; a shape has no element type.
    pub(crate) fn info(&self) -> Option<(Option<DType>, Vec<i64>)> {
        match self {
            Value::Tensor(t) => Some((Some(t.dtype()), t.shape().to_vec())),
            Value::Placed(p) => {
                let t = p.tensor.borrow();
                Some((Some(t.dtype()), t.shape().to_vec()))
            }
            Value::Scalar(dtype, _) => Some((Some(*dtype), Vec::new())),
            Value::Shape(dims) => Some((None, dims.to_vec())),
            _ => None,
        }
    }

    pub(crate) fn node(&self) -> Option<&Node> {
        match self {
            Value::Node(n) => Some(n),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(t) => Some(t),
            _ => None,
        }
    }
}
