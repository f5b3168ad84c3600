//! What registers hold.

use relax_tensor::{DType, Tensor};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A value. Cloning shares it.
///
/// Invariant: dropping a value runs in bounded stack, however deep it is.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    Void,
    /// An element, by its bits; also a tensor of rank 0 whose element nobody asked to lie in
    /// memory.
    Scalar(DType, u64),
    /// A tensor.
    Tensor(Rc<Tensor>),
    /// A tensor in a block of memory.
    Placed(Rc<Placed>),
    /// A shape.
    Shape(Rc<Vec<i64>>),
    /// A text.
    Text(Rc<String>),
    /// A block of memory.
    Storage(Rc<Storage>),
    /// A value that holds others.
    Node(Rc<Node>),
}

/// A value that holds others.
#[derive(Debug)]
pub enum Node {
    /// A tuple.
    Tuple(Vec<Value>),
    /// An instance of a data type: the constructor's number, the fields.
    Adt(u32, Vec<Value>),
    /// A closure: the number of its function, what it holds.
    Closure(u32, Vec<Value>),
    /// A reference cell.
    Ref(RefCell<Value>),
}

impl Node {
    /// The values that it holds; none of a cell, which may hold another soon.
    pub fn fields(&self) -> &[Value] {
        match self {
            Node::Tuple(f) | Node::Adt(_, f) | Node::Closure(_, f) => f,
            Node::Ref(_) => &[],
        }
    }
}

/// A block of memory that a program manages.
#[derive(Debug)]
pub struct Storage {
    bytes: u64,
    /// The tensors that were placed in it, those that are gone too.
    placed: RefCell<Vec<(u64, u64, Weak<Placed>)>>,
}

/// A tensor that lies in a block of memory.
#[derive(Debug)]
pub struct Placed {
    /// What was written there last.
    pub tensor: RefCell<Rc<Tensor>>,
    /// Keeps the block alive.
    _storage: Rc<Storage>,
}

impl Storage {
    /// A block of so many bytes.
    pub fn new(bytes: u64) -> Storage {
        Storage {
            bytes,
            placed: RefCell::default(),
        }
    }

    /// A tensor of zeros so many bytes from the start of a block.
    ///
    /// # Errors
    /// It does not fit, or what lies there is still used.
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

    /// Notes what was placed.
    pub fn note(&self, from: u64, placed: &Rc<Placed>) {
        let to = from + placed.tensor.borrow().bytes().len() as u64;
        let mut all = self.placed.borrow_mut();
        all.retain(|p| p.2.strong_count() > 0);
        all.push((from, to, Rc::downgrade(placed)));
    }
}

/// Why a tensor cannot be placed.
#[derive(Debug)]
pub enum PlaceError {
    /// It ends behind the block.
    Outside {
        /// Its first byte.
        from: u64,
        /// How many it takes.
        bytes: u64,
        /// How many there are.
        block: u64,
    },
    /// Bytes that are still used, and those that were asked for.
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
        // Most hold nothing that goes with them but leaves.
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

/// The bits of a tensor's only element.
pub(crate) fn element(t: &Tensor) -> Option<u64> {
    let bytes = t.bytes();
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    t.is_scalar().then_some(u64::from_le_bytes(word))
}

impl Value {
    /// A tuple.
    pub fn tuple(fields: Vec<Value>) -> Value {
        Node::Tuple(fields).into()
    }

    /// The tensor that a value is; one of rank 0 for an element.
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

    /// The element that a value is, or the only one of a tensor of rank 0.
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

    /// An integer of type `int64`.
    pub(crate) fn int(&self) -> Option<i64> {
        match self.scalar()? {
            (DType::I64, bits) => Some(bits as i64),
            _ => None,
        }
    }

    /// Element type and extents of a tensor; no element type for a shape.
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
