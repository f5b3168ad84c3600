//! The facts about a value that are known during translation.

use std::cell::RefCell;
use std::rc::Rc;

use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use crate::kind::Kind;
use crate::node::R;

/// The maximum rank.
const MOST_AXES: i64 = 64;

/// An element type, by ONNX's code. Types without native arithmetic are stored in the bits of
/// another type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elem(pub i32);

impl Elem {
    pub const F32: Elem = Elem(1);
    pub const U8: Elem = Elem(2);
    pub const I8: Elem = Elem(3);
    pub const U16: Elem = Elem(4);
    pub const I16: Elem = Elem(5);
    pub const I32: Elem = Elem(6);
    pub const I64: Elem = Elem(7);
    pub const BOOL: Elem = Elem(9);
    pub const F16: Elem = Elem(10);
    pub const F64: Elem = Elem(11);
    pub const U32: Elem = Elem(12);
    pub const U64: Elem = Elem(13);
    pub const BF16: Elem = Elem(16);

    /// Returns the type that stores it in a tensor: its own, or a byte type for 8- and 4-bit floats
    /// and 4- and 2-bit integers.
    pub fn storage(self) -> Option<DType> {
        Some(match self.0 {
            1 => DType::F32,
            2 | 17..=21 | 23..=25 => DType::U8,
            3 | 22 | 26 => DType::I8,
            4 => DType::U16,
            5 => DType::I16,
            6 => DType::I32,
            7 => DType::I64,
            9 => DType::BOOL,
            10 => DType::F16,
            11 => DType::F64,
            12 => DType::U32,
            13 => DType::U64,
            16 => DType::BF16,
            _ => return None,
        })
    }
    /// Returns the element type for a tensor's type.
    pub fn of(dtype: DType) -> Elem {
        const ALL: [Elem; 13] = [
            Elem::F32,
            Elem::U8,
            Elem::I8,
            Elem::U16,
            Elem::I16,
            Elem::I32,
            Elem::I64,
            Elem::BOOL,
            Elem::F16,
            Elem::F64,
            Elem::U32,
            Elem::U64,
            Elem::BF16,
        ];
        let same = |e: &&Elem| e.storage() == Some(dtype);
        ALL.iter().find(same).copied().unwrap_or(Elem::F32)
    }
    /// Returns the name of a type that is stored in a byte, as in the operators that convert it.
    pub fn narrow(self) -> Option<&'static str> {
        Some(match self.0 {
            17 => "float8_e4m3fn",
            18 => "float8_e4m3fnuz",
            19 => "float8_e5m2",
            20 => "float8_e5m2fnuz",
            21 => "uint4",
            22 => "int4",
            23 => "float4_e2m1",
            24 => "float8_e8m0",
            25 => "uint2",
            26 => "int2",
            _ => return None,
        })
    }
    /// Returns the name.
    pub fn name(self) -> String {
        match (self.narrow(), self.storage(), self.0) {
            (Some(name), _, _) => name.into(),
            (None, Some(dtype), _) => dtype.to_string(),
            (_, _, 8) => "string".into(),
            (_, _, 14) => "complex64".into(),
            (_, _, 15) => "complex128".into(),
            (_, _, n) => format!("element type {n}"),
        }
    }
    /// Returns whether it is a float with native arithmetic.
    pub fn is_float(self) -> bool {
        self.narrow().is_none() && self.storage().is_some_and(DType::is_float)
    }
    /// Returns whether it is an integer of at least 8 bits.
    pub fn is_integral(self) -> bool {
        self.narrow().is_none() && self.storage().is_some_and(DType::is_integral)
    }
}

/// A constant of the model.
#[derive(Debug)]
pub struct Constant {
    /// The elements.
    pub tensor: Tensor,
    /// The name in the model.
    pub hint: Rc<str>,
    /// The variable bound to it, created on first use.
    pub variable: RefCell<Option<u32>>,
}

/// The form of a value in the text.
#[derive(Clone, Debug)]
pub enum Source {
    /// A side-effect-free expression: a variable, or a field of one.
    Text(Rc<str>),
    /// A constant that was not used yet.
    Constant(Rc<Constant>),
}

/// A tensor.
#[derive(Clone, Debug)]
pub struct Val {
    /// The form in the text.
    pub source: Source,
    /// The element type.
    pub elem: Elem,
    /// The extents.
    pub dims: Rc<[Dim]>,
    /// The elements in row-major order, if they are known as dimension expressions.
    pub ints: Option<Rc<[Dim]>>,
    /// The elements if only some are known; `?` for the others.
    pub some: Option<Rc<[Dim]>>,
}

/// The limit on elements of an integer constant that are tracked as dimension expressions.
pub const MOST_INTS: usize = 256;

impl Val {
    /// Creates a constant.
    pub fn constant(tensor: Tensor, elem: Elem, hint: &str) -> Val {
        let dims = tensor.shape().iter().map(|&d| Dim::from(d)).collect();
        let few = elem.is_integral() && tensor.len() <= MOST_INTS;
        let ints = few.then(|| {
            (0..tensor.len())
                .map(|i| Dim::from(tensor.get_i64(i)))
                .collect()
        });
        let constant = Constant {
            tensor,
            hint: hint.into(),
            variable: RefCell::default(),
        };
        Val {
            source: Source::Constant(Rc::new(constant)),
            elem,
            dims,
            ints,
            some: None,
        }
    }
    /// Returns the rank.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
    /// Returns the element type in the text.
    pub fn dtype(&self) -> DType {
        Val::stored(self.elem)
    }
    /// Returns the type that elements have in the text.
    pub fn stored(elem: Elem) -> DType {
        elem.storage().unwrap_or(DType::F32)
    }
    /// Returns the tensor, if it is a constant.
    pub fn tensor(&self) -> Option<&Tensor> {
        match &self.source {
            Source::Constant(c) => Some(&c.tensor),
            Source::Text(_) => None,
        }
    }
    /// Returns whether its single element is nonzero, if known.
    pub fn truth(&self) -> Option<bool> {
        let tensor = self.tensor().filter(|t| !t.is_empty())?;
        Some(tensor.get_i64(0) != 0)
    }
    /// Returns its elements, if they are known integers.
    pub fn const_ints(&self) -> Option<Vec<i64>> {
        match (&self.ints, self.tensor()) {
            (Some(ints), _) => ints.iter().map(Dim::as_const).collect(),
            (None, Some(t)) if self.elem.is_integral() || self.elem == Elem::BOOL => {
                Some((0..t.len()).map(|i| t.get_i64(i)).collect())
            }
            _ => None,
        }
    }
    /// Returns its elements, if they are known numbers.
    pub fn const_floats(&self) -> Option<Vec<f64>> {
        match self.tensor() {
            Some(t) if self.elem.narrow().is_none() => {
                Some((0..t.len()).map(|i| t.get_f64(i)).collect())
            }
            _ => Some(self.const_ints()?.into_iter().map(|i| i as f64).collect()),
        }
    }
    /// Returns what is known about its elements as extents, `?` for unknown ones.
    pub fn hints(&self) -> Option<&[Dim]> {
        self.ints.as_deref().or(self.some.as_deref())
    }
    /// Returns one of its extents.
    pub fn dim(&self, axis: usize) -> R<&Dim> {
        let rank = self.rank();
        let dim = self.dims.get(axis);
        dim.ok_or_else(|| format!("a tensor of rank {rank} has no axis {axis}").into())
    }
    /// Returns the number of axes that a vector describes, which has an element for each.
    pub fn axes(&self) -> R<usize> {
        let count = self
            .dim(0)?
            .as_const()
            .filter(|n| (0..=MOST_AXES).contains(n));
        let count = count.ok_or("the number of axes must be known, and small")?;
        Ok(count as usize)
    }
    /// Returns some of its extents.
    pub fn part<I: std::slice::SliceIndex<[Dim], Output = [Dim]>>(&self, axes: I) -> R<&[Dim]> {
        let rank = self.rank();
        let part = self.dims.get(axes);
        part.ok_or_else(|| format!("a tensor of rank {rank} has too few axes").into())
    }
    /// Returns the rank minus `axes`.
    pub fn but(&self, axes: usize) -> R<usize> {
        let rank = self.rank();
        let left = rank.checked_sub(axes);
        left.ok_or_else(|| format!("a tensor of rank {rank} has too few axes").into())
    }
    /// Returns the number of elements.
    pub fn size(&self) -> Dim {
        self.dims.iter().fold(Dim::ONE, |n, d| n * d)
    }
    /// Normalises an axis, which may be negative.
    pub fn axis(&self, axis: i64) -> R<usize> {
        axis_of(axis, self.rank())
    }
}

/// Normalises an axis of a tensor of this rank.
pub fn axis_of(axis: i64, rank: usize) -> R<usize> {
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(at)
        .ok()
        .filter(|&a| a < rank)
        .ok_or_else(|| format!("axis {axis} is out of range for rank {rank}").into())
}

/// A value of a graph.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Val),
    /// A sequence of known length: its elements.
    Seq(Rc<[Value]>),
    /// An expression of another type: a list, an option, a tensor of any rank.
    Other(Rc<str>, Rc<Kind>),
    /// No value: an omitted input, or an empty optional.
    Nothing,
    /// The result of a node that could not be translated, which was reported.
    Failed,
}

impl From<Val> for Value {
    fn from(v: Val) -> Value {
        Value::Tensor(v)
    }
}
