//! Reader of NumPy's `.npy` format: one array.
//!
//! The file is untrusted: the header is a dictionary of three known keys, parsed by a scanner that
//! neither recurses nor allocates more than the file's length, and the elements must all be
//! present.

use relax_tensor::{DType, Tensor, TypeCode};

/// The magic number of the format.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// The maximum rank: above NumPy's own limit (64) and that of any model.
const MOST_AXES: usize = 64;

/// The parsed header of an array.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// The element type; two-byte void elements are read as `uint16`.
    pub dtype: DType,
    /// Whether elements are stored in the non-native byte order.
    pub swapped: bool,
    /// Whether the array is stored in column-major (Fortran) order.
    pub fortran: bool,
    /// The extents, all non-negative.
    pub shape: Vec<i64>,
    /// The offset of the elements.
    pub data: usize,
    /// The size of the elements in bytes.
    pub len: usize,
}

impl Header {
    /// Returns whether the elements can be used as they lie in the file, without conversion.
    pub(crate) fn plain(&self) -> bool {
        let line = self.shape.iter().filter(|&&d| d > 1).count() < 2;
        !self.swapped && (!self.fortran || line) && self.dtype != DType::BOOL
    }
}

/// Parses the header and checks that the elements are present. With `whole`, nothing may follow
/// them.
pub(crate) fn header(bytes: &[u8], whole: bool) -> Result<Header, String> {
    let cut = || "the header is cut off".to_owned();
    if !bytes.starts_with(MAGIC) {
        return Err("it does not begin as .npy files do".into());
    }
    let (begin, length) = match bytes.get(6).ok_or_else(cut)? {
        1 => {
            let two = bytes.get(8..10).ok_or_else(cut)?;
            (10, usize::from(u16::from_le_bytes([two[0], two[1]])))
        }
        2 | 3 => {
            let four = bytes.get(8..12).ok_or_else(cut)?;
            let length = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            (12, length as usize)
        }
        other => return Err(format!("version {other} of the format is unknown")),
    };
    let data = begin + length;
    let text = bytes.get(begin..data).ok_or_else(cut)?;
    let text = std::str::from_utf8(text).map_err(|_| "the header is no text")?;
    let Described {
        dtype,
        swapped,
        fortran,
        shape,
    } = described(text)?;
    let len = Tensor::byte_len(dtype, &shape);
    let len = len.ok_or_else(|| format!("the extents {shape:?} are more than memory holds"))?;
    let there = bytes.len() - data;
    if there < len || whole && there > len {
        return Err(format!(
            "the elements of {} take {len} bytes, but there are {there}",
            crate::param::shown(dtype, &shape)
        ));
    }
    Ok(Header {
        dtype,
        swapped,
        fortran,
        shape,
        data,
        len,
    })
}

/// Reads the array of a file, or of a part of one: see [`header`].
pub(crate) fn read(bytes: &[u8], whole: bool) -> Result<Tensor, String> {
    let h = header(bytes, whole)?;
    let elements = &bytes[h.data..h.data + h.len];
    let size = h.dtype.size();
    let turned: Vec<i64> = match h.fortran {
        true => h.shape.iter().rev().copied().collect(),
        false => h.shape.clone(),
    };
    let mut t = Tensor::from_bytes(h.dtype, &turned, elements).ok_or("wrong size")?;
    if h.swapped {
        (t.bytes_mut().chunks_exact_mut(size)).for_each(<[u8]>::reverse);
    }
    if h.dtype == DType::BOOL {
        // Booleans are normalised to 0 or 1, whatever the file holds.
        (t.bytes_mut().iter_mut()).for_each(|b| *b = u8::from(*b != 0));
    }
    let line = h.shape.iter().filter(|&&d| d > 1).count() < 2;
    Ok(match h.fortran && !line {
        true => transposed(&t, &h.shape),
        false if h.fortran => {
            let t = Tensor::from_bytes(h.dtype, &h.shape, t.bytes());
            t.ok_or("wrong size")?
        }
        false => t,
    })
}

/// Converts a column-major array, given with reversed axes, to an array of `shape`.
fn transposed(turned: &Tensor, shape: &[i64]) -> Tensor {
    let size = turned.dtype().size();
    let mut out = Tensor::zeros(turned.dtype(), shape);
    let mut steps = vec![1usize; shape.len()];
    for axis in 1..shape.len() {
        steps[axis] = steps[axis - 1] * shape[axis - 1] as usize;
    }
    let (from, to) = (turned.bytes(), out.bytes_mut());
    let mut index = vec![0i64; shape.len()];
    let mut at = 0;
    for element in to.chunks_exact_mut(size) {
        element.copy_from_slice(&from[at * size..][..size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += steps[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= steps[axis] * index[axis] as usize;
            index[axis] = 0;
        }
    }
    out
}

/// The entries of the header dictionary.
struct Described {
    dtype: DType,
    swapped: bool,
    fortran: bool,
    shape: Vec<i64>,
}

/// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, keys in any order.
fn described(text: &str) -> Result<Described, String> {
    let mut s = Scanner(text);
    let (mut dtype, mut fortran, mut shape) = (None, None, None);
    s.expect('{')?;
    while !s.eat('}') {
        let key = s.string()?;
        s.expect(':')?;
        match key {
            "descr" => dtype = Some(element(&mut s)?),
            "fortran_order" => fortran = Some(s.truth()?),
            "shape" => shape = Some(s.shape()?),
            other => return Err(format!("the header has the unknown key `{other:.40}`")),
        }
        if !s.eat(',') {
            s.expect('}')?;
            break;
        }
    }
    if !s.rest().is_empty() {
        return Err("something follows the header's dictionary".into());
    }
    let lacks = |what: &str| format!("the header lacks `{what}`");
    let (dtype, swapped) = dtype.ok_or_else(|| lacks("descr"))?;
    Ok(Described {
        dtype,
        swapped,
        fortran: fortran.ok_or_else(|| lacks("fortran_order"))?,
        shape: shape.ok_or_else(|| lacks("shape"))?,
    })
}

/// Parses an element type, and whether its byte order is not the native one.
fn element(s: &mut Scanner<'_>) -> Result<(DType, bool), String> {
    if s.rest().starts_with('[') {
        return Err("records are not supported".into());
    }
    let text = s.string()?;
    let unknown = || {
        format!(
            "elements of type {text:.40} are no numbers that a tensor can hold (bool, int8 to int64, uint8 to uint64, \
             float16 to float64)"
        )
    };
    let mut chars = text.chars();
    let (order, kind) = (chars.next().ok_or_else(unknown)?, chars.next());
    let size: u16 = chars.as_str().parse().map_err(|_| unknown())?;
    let code = match (kind.ok_or_else(unknown)?, size) {
        ('f', 2 | 4 | 8) => TypeCode::Float,
        ('i', 1 | 2 | 4 | 8) => TypeCode::Int,
        ('u', 1 | 2 | 4 | 8) => TypeCode::UInt,
        ('b', 1) => return Ok((DType::BOOL, false)),
        // The package ml_dtypes stores bfloat16 as two-byte void elements.
        ('V', 2) => TypeCode::UInt,
        _ => return Err(unknown()),
    };
    let dtype = DType {
        code,
        bits: (size * 8) as u8,
        lanes: 1,
    };
    match order {
        '<' | '|' | '=' => Ok((dtype, false)),
        '>' => Ok((dtype, size > 1)),
        _ => Err(unknown()),
    }
}

/// The rest of a header that is yet to be scanned.
struct Scanner<'t>(&'t str);

impl<'t> Scanner<'t> {
    fn rest(&mut self) -> &'t str {
        self.0 = self.0.trim_start();
        self.0
    }
    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest().strip_prefix(c);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
    fn expect(&mut self, c: char) -> Result<(), String> {
        match self.eat(c) {
            true => Ok(()),
            false => Err(format!("the header lacks a `{c}`")),
        }
    }
    fn string(&mut self) -> Result<&'t str, String> {
        let quote = ['\'', '"'].into_iter().find(|q| self.eat(*q));
        let end = quote.and_then(|q| self.0.find(q));
        let end = end.ok_or("the header lacks a string")?;
        let text = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(text)
    }
    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.0 = rest;
        word
    }
    fn truth(&mut self) -> Result<bool, String> {
        match self.word() {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(format!("`fortran_order` is {other:.40}, no truth value")),
        }
    }
    fn shape(&mut self) -> Result<Vec<i64>, String> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.eat(')') {
            let word = self.word();
            // Python 2 wrote long integers as `3L`.
            let digits = word.strip_suffix('L').unwrap_or(word);
            let extent = digits.parse::<i64>();
            shape.push(extent.map_err(|_| format!("`{word:.40}` is no extent"))?);
            if shape.len() > MOST_AXES {
                return Err(format!("it has more than {MOST_AXES} axes"));
            }
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }
}
