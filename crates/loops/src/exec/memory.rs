//! Buffers at run time, and the transfer of elements between them and register lanes.

use half::{bf16, f16};
use relax_base::Id;
use relax_tensor::{DType, Tensor};

use super::error::Fault;
use super::num::Num;
use crate::Buf;

/// A buffer that exists.
pub(super) struct Memory {
    /// The first byte. Points into `own`, or into an input tensor that outlives the execution.
    ptr: *mut u8,
    own: Vec<u64>,
    dtype: DType,
    pub(super) num: Num,
    pub(super) shape: Vec<i64>,
    writable: bool,
}

impl Memory {
    /// Borrows an input; `None` for element types without arithmetic.
    ///
    /// # Safety
    /// `tensor` must outlive the result, unmoved.
    pub(super) unsafe fn input(tensor: &Tensor) -> Option<Memory> {
        Some(Memory {
            ptr: tensor.bytes().as_ptr().cast_mut(),
            own: Vec::new(),
            dtype: tensor.dtype(),
            num: Num::of(tensor.dtype())?,
            shape: tensor.shape().to_vec(),
            writable: false,
        })
    }
    /// Allocates fresh memory, zeroed; `None` when the size is invalid or the memory is not
    /// available.
    pub(super) fn fresh(dtype: DType, shape: Vec<i64>) -> Option<Memory> {
        let words = Tensor::byte_len(dtype, &shape)?.div_ceil(8);
        // Reserved first, so that a size beyond the machine is an error rather than an abort; the
        // zeroed allocation itself uses no pages until they are written.
        Vec::<u64>::new().try_reserve_exact(words).ok()?;
        let mut own = vec![0u64; words];
        Some(Memory {
            ptr: own.as_mut_ptr().cast(),
            own,
            dtype,
            num: Num::of(dtype)?,
            shape,
            writable: true,
        })
    }
    /// Zeroes it for reuse with the same extents.
    pub(super) fn clear(&mut self) {
        self.own.fill(0);
        self.ptr = self.own.as_mut_ptr().cast();
    }
    /// Returns the elements as a tensor.
    pub(super) fn tensor(self) -> Tensor {
        let sized = "the size was checked when it came to exist";
        if self.writable {
            return Tensor::from_words(self.dtype, &self.shape, self.own).expect(sized);
        }
        let len = Tensor::byte_len(self.dtype, &self.shape).expect(sized);
        // SAFETY: `ptr` holds as many bytes as dtype and shape say, by construction.
        let bytes = unsafe { std::slice::from_raw_parts(self.ptr, len) };
        Tensor::from_bytes(self.dtype, &self.shape, bytes).expect(sized)
    }
    /// Returns the offset of an element; the axis where `index` is out of bounds otherwise.
    #[inline]
    pub(super) fn offset(&self, index: impl Iterator<Item = i64>) -> Result<usize, (usize, i64)> {
        let mut flat = 0;
        for (axis, (i, n)) in index.zip(&self.shape).enumerate() {
            if i < 0 || i >= *n {
                return Err((axis, i));
            }
            flat = flat * n + i;
        }
        Ok(flat as usize)
    }
}

/// The elements that a load reads, after its bounds were checked.
pub(super) enum Lanes<'a> {
    /// Element `base + l * step` in lane `l`.
    Step(usize, usize),
    /// Runs of consecutive elements: (first lane, offset from the base), up to the next run's first
    /// lane.
    Runs(i64, &'a [(u32, i64)]),
    /// Element `base + offset[l]` in lane `l`.
    At(i64, &'a [i64]),
    /// Like `At`, in the lanes where the mask is not 0; the other lanes are ignored, but the buffer
    /// has a first element.
    Some(i64, &'a [i64], &'a [i64]),
}

/// # Safety
/// Every element that `lanes` names is among the `T`s at `src`.
#[inline(always)]
unsafe fn gather<T: Copy, R>(src: *const T, lanes: &Lanes<'_>, d: &mut [R], f: impl Fn(T) -> R) {
    // SAFETY: `src` has an element at the offset of every lane.
    unsafe {
        match *lanes {
            Lanes::Step(base, 1) => {
                let s = std::slice::from_raw_parts(src.add(base), d.len());
                for (d, s) in d.iter_mut().zip(s) {
                    *d = f(*s);
                }
            }
            Lanes::Step(base, step) => {
                for (l, d) in d.iter_mut().enumerate() {
                    *d = f(*src.add(base + l * step));
                }
            }
            Lanes::Runs(base, runs) => {
                for (k, &(first, offset)) in runs.iter().enumerate() {
                    let end = runs.get(k + 1).map_or(d.len(), |r| r.0 as usize);
                    let d = &mut d[first as usize..end];
                    let s =
                        std::slice::from_raw_parts(src.offset((base + offset) as isize), d.len());
                    for (d, s) in d.iter_mut().zip(s) {
                        *d = f(*s);
                    }
                }
            }
            Lanes::At(base, offsets) => {
                for (d, o) in d.iter_mut().zip(offsets) {
                    *d = f(*src.offset((base + o) as isize));
                }
            }
            Lanes::Some(base, offsets, mask) => {
                for ((d, o), m) in d.iter_mut().zip(offsets).zip(mask) {
                    *d = f(*src.offset(if *m != 0 { (base + o) as isize } else { 0 }));
                }
            }
        }
    }
}

/// Register lanes for a load to write.
pub(super) enum Dst<'a> {
    Int(&'a mut [i64]),
    Single(&'a mut [f32]),
    Double(&'a mut [f64]),
}

/// Register lanes for a store to read; a single lane is the same for all elements.
pub(super) enum Src<'a> {
    Int(&'a [i64]),
    Single(&'a [f32]),
    Double(&'a [f64]),
}

impl Memory {
    /// Loads lanes.
    ///
    /// # Safety
    /// Every element that `lanes` names is inside the buffer, and the register class is the
    /// element type's.
    #[inline]
    pub(super) unsafe fn load(&self, lanes: &Lanes<'_>, d: Dst<'_>) {
        let p = self.ptr;
        // SAFETY: passed on; the pointer is aligned for the element type.
        unsafe {
            match (d, self.num, self.dtype.size()) {
                (Dst::Single(d), Num::F32, _) => gather(p as *const f32, lanes, d, |v| v),
                (Dst::Single(d), Num::F16, _) => {
                    gather(p as *const u16, lanes, d, |v| f16::from_bits(v).to_f32());
                }
                (Dst::Single(d), _, _) => {
                    gather(p as *const u16, lanes, d, |v| bf16::from_bits(v).to_f32());
                }
                (Dst::Double(d), _, _) => gather(p as *const f64, lanes, d, |v| v),
                (Dst::Int(d), Num::Bool, _) => gather(p, lanes, d, |v: u8| i64::from(v != 0)),
                (Dst::Int(d), Num::I(_), 1) => gather(p as *const i8, lanes, d, i64::from),
                (Dst::Int(d), Num::I(_), 2) => gather(p as *const i16, lanes, d, i64::from),
                (Dst::Int(d), Num::I(_), 4) => gather(p as *const i32, lanes, d, i64::from),
                (Dst::Int(d), _, 1) => gather(p as *const u8, lanes, d, i64::from),
                (Dst::Int(d), _, 2) => gather(p as *const u16, lanes, d, i64::from),
                (Dst::Int(d), _, 4) => gather(p as *const u32, lanes, d, i64::from),
                (Dst::Int(d), _, _) => gather(p as *const i64, lanes, d, |v| v),
            }
        }
    }

    /// Stores `n` consecutive elements from `at` on.
    ///
    /// # Safety
    /// They are inside the buffer, and the register class is the element type's.
    #[inline]
    pub(super) unsafe fn store(&mut self, at: usize, n: usize, s: Src<'_>) {
        assert!(self.writable, "programs that write an input are refused");
        #[inline(always)]
        unsafe fn put<T, R: Copy>(p: *mut u8, at: usize, n: usize, s: &[R], f: impl Fn(R) -> T) {
            // SAFETY: `p` has `n` elements from element `at` on, which nobody else uses.
            let d = unsafe { std::slice::from_raw_parts_mut(p.cast::<T>().add(at), n) };
            if s.len() == n {
                for (d, s) in d.iter_mut().zip(s) {
                    *d = f(*s);
                }
            } else {
                for d in d {
                    *d = f(s[0]);
                }
            }
        }
        let p = self.ptr;
        // SAFETY: passed on; the pointer is aligned for the element type.
        unsafe {
            match (s, self.num, self.dtype.size()) {
                (Src::Single(s), Num::F32, _) => put(p, at, n, s, |v| v),
                (Src::Single(s), Num::F16, _) => put(p, at, n, s, |v| f16::from_f32(v).to_bits()),
                (Src::Single(s), _, _) => put(p, at, n, s, |v| bf16::from_f32(v).to_bits()),
                (Src::Double(s), _, _) => put(p, at, n, s, |v| v),
                (Src::Int(s), _, 1) => put(p, at, n, s, |v| v as u8),
                (Src::Int(s), _, 2) => put(p, at, n, s, |v| v as u16),
                (Src::Int(s), _, 4) => put(p, at, n, s, |v| v as u32),
                (Src::Int(s), _, _) => put(p, at, n, s, |v| v),
            }
        }
    }
}

/// The state of a run.
pub(super) struct Bufs {
    /// All buffers of the program that exist so far.
    pub(super) of: Vec<Option<Memory>>,
    /// The number of iterations that the run may still make.
    pub(super) left: u64,
}

impl Bufs {
    /// Counts an iteration of a loop, or the computation of a strip.
    #[inline]
    pub(super) fn iterate(&mut self) -> Result<(), Fault> {
        self.count(1)
    }

    /// Counts several of them.
    #[inline]
    pub(super) fn count(&mut self, iterations: u64) -> Result<(), Fault> {
        self.left = self.left.checked_sub(iterations).ok_or(Fault::Endless)?;
        Ok(())
    }
    /// The buffer; the program was compiled only after it came to exist.
    #[inline]
    pub(super) fn at(&self, buf: Buf) -> &Memory {
        self.of[buf.index()]
            .as_ref()
            .expect("stages run after their buffers exist")
    }
    /// Returns the fault of an index outside a buffer.
    #[cold]
    pub(super) fn outside(
        &self,
        buf: Buf,
        (axis, index): (usize, i64),
        place: Option<u32>,
    ) -> Fault {
        let extent = self.at(buf).shape.get(axis).copied().unwrap_or_default();
        Fault::Bounds {
            buf,
            axis,
            index,
            extent,
            place,
        }
    }
    #[inline]
    pub(super) fn at_mut(&mut self, buf: Buf) -> &mut Memory {
        self.of[buf.index()]
            .as_mut()
            .expect("stages run after their buffers exist")
    }
}

impl Bufs {
    /// Creates a local buffer, or creates it again.
    pub(super) fn local(&mut self, buf: Buf, shape: Vec<i64>) -> Result<(), Fault> {
        let slot = &mut self.of[buf.index()];
        match slot {
            Some(m) if m.shape == shape => m.clear(),
            Some(m) => {
                let dtype = m.dtype;
                *slot = Some(Memory::fresh(dtype, shape.clone()).ok_or(Fault::Size(buf, shape))?);
            }
            None => unreachable!("locals get an empty memory before their nest runs"),
        }
        Ok(())
    }
}
