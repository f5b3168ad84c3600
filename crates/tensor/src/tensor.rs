//! Dense row-major tensors in host memory.

use std::sync::Arc;

use half::{bf16, f16};

use crate::{DType, TypeCode};

/// The storage of a tensor. Small ones are stored inline, so that a program with a million scalar
/// constants makes no allocations for them; external ones borrow from a mapped file.
#[derive(Clone)]
enum Data {
    Small {
        len: u8,
        word: [u64; 1],
    },
    /// `u64`s, so that every element type is aligned; `len` is in bytes.
    Owned {
        words: Arc<Vec<u64>>,
        len: usize,
    },
    External {
        owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
        offset: usize,
        len: usize,
    },
}

/// A dense, row-major, host tensor. Cloning shares the data.
///
/// Invariant: the data holds exactly `shape.product() * dtype.size()` bytes, little-endian.
///
/// ```
/// use relax_tensor::{DType, Tensor};
///
/// let t = Tensor::from_slice(&[2, 2], &[1f32, 2.0, 3.0, 4.0]);
/// assert_eq!((t.dtype(), t.shape(), t.get_f64(3)), (DType::F32, &[2, 2][..], 4.0));
/// ```
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Box<[i64]>,
    data: Data,
}

/// A Rust type that corresponds to an element type.
pub trait Element: Copy + Default + 'static {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($t:ty => $d:ident),*) => {$(impl Element for $t { const DTYPE: DType = DType::$d; })*};
}
elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
          f16 => F16, bf16 => BF16, f32 => F32, f64 => F64);

impl Tensor {
    /// Creates a zero-initialised tensor.
    ///
    /// # Panics
    /// The size overflows, or an extent is negative; for untrusted shapes, check
    /// [`Tensor::byte_len`] first.
    pub fn zeros(dtype: DType, shape: &[i64]) -> Tensor {
        let len = Self::byte_len(dtype, shape).expect("the shape has a size");
        let data = if len <= 8 {
            Data::Small {
                len: len as u8,
                word: [0],
            }
        } else {
            Data::Owned {
                words: Arc::new(vec![0; len.div_ceil(8)]),
                len,
            }
        };
        Tensor {
            dtype,
            shape: shape.into(),
            data,
        }
    }

    /// Returns the size of a tensor in bytes; `None` for negative extents and sizes beyond `isize`.
    ///
    /// ```
    /// use relax_tensor::{DType, Tensor};
    ///
    /// assert_eq!(Tensor::byte_len(DType::F32, &[2, 3]), Some(24));
    /// assert_eq!(Tensor::byte_len(DType::F32, &[-1]), None);
    /// ```
    pub fn byte_len(dtype: DType, shape: &[i64]) -> Option<usize> {
        let mut len = dtype.size();
        if shape.contains(&0) {
            return shape.iter().all(|&d| d >= 0).then_some(0);
        }
        for &d in shape {
            len = len.checked_mul(usize::try_from(d).ok()?)?;
        }
        isize::try_from(len).ok().map(|l| l as usize)
    }

    /// Creates a tensor from a copy of little-endian bytes; `None` if their number is wrong.
    pub fn from_bytes(dtype: DType, shape: &[i64], bytes: &[u8]) -> Option<Tensor> {
        if Self::byte_len(dtype, shape)? != bytes.len() {
            return None;
        }
        // Written once, not zeroed before.
        let mut words = Vec::with_capacity(bytes.len().div_ceil(8));
        let (whole, rest) = bytes.as_chunks();
        words.extend(whole.iter().map(|&word| u64::from_ne_bytes(word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            words.push(u64::from_ne_bytes(last));
        }
        Self::from_words(dtype, shape, words)
    }

    /// Creates a tensor of its memory, eight bytes a word; `None` if their number is wrong.
    pub fn from_words(dtype: DType, shape: &[i64], words: Vec<u64>) -> Option<Tensor> {
        let len = Self::byte_len(dtype, shape)?;
        if len.div_ceil(8) != words.len() {
            return None;
        }
        let data = match words.as_slice() {
            [] => Data::Small { len: 0, word: [0] },
            &[word] => Data::Small {
                len: len as u8,
                word: [word],
            },
            _ => Data::Owned {
                words: Arc::new(words),
                len,
            },
        };
        Some(Tensor {
            dtype,
            shape: shape.into(),
            data,
        })
    }

    /// Creates a tensor that borrows `len` bytes at `offset` of `owner` (a memory-mapped file);
    /// `None` if they are too few or misaligned for the element type.
    pub fn from_owner(
        dtype: DType,
        shape: &[i64],
        owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
        offset: usize,
    ) -> Option<Tensor> {
        let len = Self::byte_len(dtype, shape)?;
        let bytes = (*owner).as_ref().get(offset..offset.checked_add(len)?)?;
        let align = (dtype.bits as usize).div_ceil(8).next_power_of_two();
        if !(bytes.as_ptr() as usize).is_multiple_of(align) {
            return None;
        }
        Some(Tensor {
            dtype,
            shape: shape.into(),
            data: Data::External { owner, offset, len },
        })
    }

    /// Creates a tensor from elements.
    ///
    /// # Panics
    /// Their number does not match the shape.
    pub fn from_slice<T: Element>(shape: &[i64], elements: &[T]) -> Tensor {
        let mut t = Tensor::zeros(T::DTYPE, shape);
        t.slice_mut::<T>().copy_from_slice(elements);
        t
    }

    /// Creates a scalar of any element type from a float, converted as by [`Tensor::set_f64`].
    pub fn scalar_f64(dtype: DType, value: f64) -> Tensor {
        let mut t = Tensor::zeros(dtype, &[]);
        t.set_f64(0, value);
        t
    }

    /// Creates a scalar of any element type from an integer, wrapped to its width.
    pub fn scalar_i64(dtype: DType, value: i64) -> Tensor {
        let mut t = Tensor::zeros(dtype, &[]);
        t.set_i64(0, value);
        t
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The extents.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }
    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns whether the rank is 0.
    pub fn is_scalar(&self) -> bool {
        self.shape.is_empty()
    }

    /// Returns the same elements with another shape of the same size; `None` if sizes differ.
    ///
    /// ```
    /// use relax_tensor::Tensor;
    ///
    /// let t = Tensor::from_slice(&[4], &[1u8, 2, 3, 4]);
    /// assert_eq!(t.reshape(&[2, 2]).expect("as many elements").shape(), [2, 2]);
    /// assert!(t.reshape(&[3]).is_none());
    /// ```
    pub fn reshape(&self, shape: &[i64]) -> Option<Tensor> {
        (Self::byte_len(self.dtype, shape)? == self.bytes().len()).then(|| Tensor {
            shape: shape.into(),
            ..self.clone()
        })
    }

    /// Returns the little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Small { len, word } => {
                // SAFETY: a small tensor has at most the eight bytes of its word.
                unsafe { std::slice::from_raw_parts(word.as_ptr().cast(), *len as usize) }
            }
            Data::Owned { words, len } => {
                // SAFETY: `words` owns at least `len` initialised bytes.
                unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), *len) }
            }
            Data::External { owner, offset, len } => &(**owner).as_ref()[*offset..*offset + *len],
        }
    }

    /// Returns the bytes mutably, after copying them if they are shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if let Data::External { .. } = self.data {
            let copy = self.bytes().to_vec();
            let mut fresh = Tensor::zeros(self.dtype, &self.shape);
            fresh.bytes_mut().copy_from_slice(&copy);
            self.data = fresh.data;
        }
        match &mut self.data {
            Data::Small { len, word } => {
                // SAFETY: a small tensor has at most the eight bytes of its word.
                unsafe { std::slice::from_raw_parts_mut(word.as_mut_ptr().cast(), *len as usize) }
            }
            Data::Owned { words, len } => {
                let words = Arc::make_mut(words);
                // SAFETY: `words` owns at least `len` initialised bytes, and is unique now.
                unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), *len) }
            }
            Data::External { .. } => unreachable!("made owned above"),
        }
    }

    fn check_element<T: Element>(&self) {
        let same = T::DTYPE == self.dtype || T::DTYPE == DType::U8 && self.dtype.is_bool();
        assert!(same, "a {:?} tensor read as {:?}", self.dtype, T::DTYPE);
    }

    /// Returns the elements (`bool` reads as `u8`).
    ///
    /// # Panics
    /// `T` is not the element type.
    pub fn slice<T: Element>(&self) -> &[T] {
        self.check_element::<T>();
        let bytes = self.bytes();
        // SAFETY: the constructors guarantee alignment and size, and every bit pattern is a valid
        // `T`.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }

    /// Returns the elements mutably, after copying them if they are shared.
    ///
    /// # Panics
    /// As for [`Tensor::slice`].
    pub fn slice_mut<T: Element>(&mut self) -> &mut [T] {
        self.check_element::<T>();
        let bytes = self.bytes_mut();
        // SAFETY: as in `slice`; the borrow is unique.
        unsafe {
            std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>())
        }
    }

    fn raw(&self, i: usize) -> u64 {
        let size = self.dtype.size();
        let mut word = [0u8; 8];
        word[..size].copy_from_slice(&self.bytes()[i * size..(i + 1) * size]);
        u64::from_le_bytes(word)
    }

    /// Returns element `i` (row-major) as a float; integers are converted.
    pub fn get_f64(&self, i: usize) -> f64 {
        let raw = self.raw(i);
        match (self.dtype.code, self.dtype.bits) {
            (TypeCode::Float, 16) => f16::from_bits(raw as u16).to_f64(),
            (TypeCode::BFloat, _) => bf16::from_bits(raw as u16).to_f64(),
            (TypeCode::Float, 32) => f32::from_bits(raw as u32).into(),
            (TypeCode::Float, _) => f64::from_bits(raw),
            (TypeCode::UInt, 64) => raw as f64,
            _ => self.get_i64(i) as f64,
        }
    }

    /// Returns element `i` as an integer, sign-extended; floats are truncated, `uint64` is
    /// reinterpreted.
    pub fn get_i64(&self, i: usize) -> i64 {
        match self.dtype.code {
            TypeCode::Int => {
                let shift = 64 - 8 * self.dtype.size() as u32;
                ((self.raw(i) << shift) as i64) >> shift
            }
            TypeCode::UInt | TypeCode::Handle | TypeCode::Param => self.raw(i) as i64,
            TypeCode::Float | TypeCode::BFloat => self.get_f64(i) as i64,
        }
    }

    fn set_raw(&mut self, i: usize, raw: u64) {
        let size = self.dtype.size();
        self.bytes_mut()[i * size..(i + 1) * size].copy_from_slice(&raw.to_le_bytes()[..size]);
    }

    /// Sets element `i` from a float, rounded to nearest even for narrower floats and truncated
    /// toward zero (saturating) for integers.
    pub fn set_f64(&mut self, i: usize, v: f64) {
        match (self.dtype.code, self.dtype.bits) {
            (TypeCode::Float, 16) => self.set_raw(i, f16::from_f64(v).to_bits().into()),
            (TypeCode::BFloat, _) => self.set_raw(i, bf16::from_f64(v).to_bits().into()),
            (TypeCode::Float, 32) => self.set_raw(i, (v as f32).to_bits().into()),
            (TypeCode::Float, _) => self.set_raw(i, v.to_bits()),
            (TypeCode::UInt, 64) => self.set_raw(i, v as u64),
            _ => self.set_i64(i, v as i64),
        }
    }

    /// Sets element `i` from an integer, wrapped to the width; `bool` becomes 0 or 1.
    pub fn set_i64(&mut self, i: usize, v: i64) {
        if self.dtype.is_float() {
            self.set_f64(i, v as f64);
        } else if self.dtype.is_bool() {
            self.set_raw(i, u64::from(v != 0));
        } else {
            self.set_raw(i, v as u64);
        }
    }
}

impl PartialEq for Tensor {
    /// Compares type, shape and bits (so that a NaN equals the same NaN).
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}

impl Eq for Tensor {}

impl std::hash::Hash for Tensor {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.dtype.hash(state);
        self.shape.hash(state);
        self.bytes().hash(state);
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor[{:?}, {}]", self.shape, self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_read_back() {
        let mut t = Tensor::zeros(DType::F16, &[2, 3]);
        t.set_f64(4, 1.5);
        assert_eq!(t.get_f64(4), 1.5);
        let mut t = Tensor::zeros(DType::I8, &[10]);
        t.set_i64(9, 200);
        assert_eq!(t.get_i64(9), -56);
        assert_eq!(Tensor::byte_len(DType::F32, &[1 << 40, 1 << 40]), None);
        assert_eq!(
            Tensor::byte_len(DType::F32, &[1 << 40, 1 << 40, 0]),
            Some(0)
        );
    }

    #[test]
    fn writing_does_not_reach_a_clone() {
        let a = Tensor::from_slice(&[3], &[1i64, 2, 3]);
        let mut b = a.clone();
        b.slice_mut::<i64>()[0] = 9;
        assert_eq!(a.slice::<i64>(), [1, 2, 3]);
    }
}
