//! The layouts of values, as `include/relax_runtime.h` states them.
//!
//! Invariant: these structures and the C header agree byte for byte (`tests/layout.rs`).

use std::ffi::c_void;
use std::ptr::NonNull;

/// Counts with this bit are immortal: never written, the object never freed.
pub const IMMORTAL: u32 = 0x8000_0000;

/// The kind of an object; the header's `kind` byte.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A dense array.
    Tensor = 1,
    /// A tuple; the unit value is the empty one.
    Tuple = 2,
    /// A constructor applied to its fields.
    Adt = 3,
    /// A function with its captured values.
    Closure = 4,
    /// A mutable cell.
    Ref = 5,
    /// A shape value.
    Shape = 6,
    /// A host pointer with a destructor.
    Foreign = 7,
    /// UTF-8 text.
    String = 8,
    /// Scratch memory, no value of a program.
    Raw = 9,
}

/// The 16 bytes before every value.
#[repr(C)]
#[derive(Debug)]
pub struct RxObject {
    /// Reference count, plain; `>= IMMORTAL` is never written.
    pub refs: u32,
    /// A [`Kind`].
    pub kind: u8,
    /// Zero for now.
    pub flags: u8,
    /// Size class of the block; 0 for objects that no heap made.
    pub cls: u16,
    /// Constructor number, arity, or a tensor's [`Storage`].
    pub tag: u32,
    /// Fields, captures, dimensions or bytes.
    pub count: u32,
}

/// DLPack's element type.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDataType {
    /// See the `DL_*` constants.
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Lanes of one element; 1 but for vector types.
    pub lanes: u16,
}

/// Signed integers.
pub const DL_INT: u8 = 0;
/// Unsigned integers.
pub const DL_UINT: u8 = 1;
/// IEEE floating point.
pub const DL_FLOAT: u8 = 2;
/// bfloat16.
pub const DL_BFLOAT: u8 = 4;
/// Booleans, a byte each.
pub const DL_BOOL: u8 = 6;

impl DLDataType {
    /// float32.
    pub const F32: Self = Self::new(DL_FLOAT, 32);
    /// float64.
    pub const F64: Self = Self::new(DL_FLOAT, 64);
    /// int32.
    pub const I32: Self = Self::new(DL_INT, 32);
    /// int64.
    pub const I64: Self = Self::new(DL_INT, 64);
    /// uint8.
    pub const U8: Self = Self::new(DL_UINT, 8);
    /// Booleans as the runtime keeps them.
    pub const BOOL: Self = Self::new(DL_BOOL, 8);

    /// An element type of one lane.
    pub const fn new(code: u8, bits: u8) -> Self {
        Self {
            code,
            bits,
            lanes: 1,
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> u64 {
        (u64::from(self.bits) * u64::from(self.lanes)).div_ceil(8)
    }

    /// Returns the canonical type: TVM writes booleans as one-bit unsigned integers in a byte each;
    /// here they are [`DLDataType::BOOL`].
    pub fn canonical(self) -> Self {
        match self {
            Self {
                code: DL_UINT | DL_BOOL,
                bits: 1,
                lanes: 1,
            } => Self::BOOL,
            other => other,
        }
    }
}

/// The owner of a tensor's data; the header's `tag`.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// The tensor's own block.
    Own = 0,
    /// External memory, which its owner keeps alive.
    Borrowed = 1,
    /// The tensor `owner`, retained.
    View = 2,
    /// The `DLManagedTensor` `owner`.
    DLPack = 3,
}

/// A dense, compact, row-major tensor.
#[repr(C)]
#[derive(Debug)]
pub struct RxTensor {
    /// `tag` is a [`Storage`].
    pub header: RxObject,
    /// Element type.
    pub dtype: DLDataType,
    /// Rank.
    pub ndim: i32,
    /// First element.
    pub data: *mut c_void,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// Bytes of the data.
    pub nbytes: u64,
    /// See [`Storage`].
    pub owner: *mut c_void,
    /// The element of a tensor of rank 0.
    pub scalar: u64,
}

/// Tuple or ADT; the fields follow.
#[repr(C)]
pub struct RxFields {
    /// `count` is the number of fields.
    pub header: RxObject,
    /// The fields.
    pub fields: [*mut RxObject; 0],
}

/// The C entry of a closure: owned arguments in, an owned result out.
pub type ClosureEntry = unsafe extern "C" fn(
    *mut crate::context::RxContext,
    *mut RxClosure,
    *const *mut RxObject,
    i32,
    *mut *mut RxObject,
) -> i32;

/// A function value.
#[repr(C)]
pub struct RxClosure {
    /// `tag` is the arity, `count` the number of captures.
    pub header: RxObject,
    /// Generated code; the runtime never calls it.
    pub code: *const c_void,
    /// The same function for C callers.
    pub entry: Option<ClosureEntry>,
    /// The captured values.
    pub captures: [*mut RxObject; 0],
}

/// A mutable cell.
#[repr(C)]
pub struct RxRef {
    /// The header.
    pub header: RxObject,
    /// Its value, owned.
    pub value: *mut RxObject,
}

/// A shape value.
#[repr(C)]
pub struct RxShape {
    /// `count` is the rank.
    pub header: RxObject,
    /// The extents.
    pub dims: [i64; 0],
}

/// A host pointer.
#[repr(C)]
pub struct RxForeign {
    /// The header.
    pub header: RxObject,
    /// The host's pointer.
    pub pointer: *mut c_void,
    /// Called with `pointer` when the object is freed.
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Text.
#[repr(C)]
pub struct RxString {
    /// `count` is the number of bytes, without the final NUL.
    pub header: RxObject,
    /// UTF-8, then a NUL.
    pub bytes: [u8; 0],
}

#[repr(transparent)]
struct Shared(RxObject);
// SAFETY: an immortal object is never written: its count has `IMMORTAL` set, and it has no fields.
unsafe impl Sync for Shared {}

static UNIT: Shared = Shared(RxObject {
    refs: IMMORTAL,
    kind: Kind::Tuple as u8,
    flags: 0,
    cls: 0,
    tag: 0,
    count: 0,
});

/// The immortal unit value.
pub fn unit() -> NonNull<RxObject> {
    NonNull::from(&UNIT.0)
}

/// Returns the owned object pointers inside an object: fields, captures or the cell's value.
///
/// # Safety
/// `object` is a live value whose fields are filled.
pub unsafe fn children<'a>(object: *const RxObject) -> &'a [*mut RxObject] {
    // SAFETY: a live value.
    let (count, kind) = unsafe { ((*object).count as usize, (*object).kind) };
    // The unit value ends with its fixed part: there is no memory for fields after it.
    let none = count == 0 && kind != Kind::Ref as u8;
    // SAFETY: addresses of the layout of each kind; nothing is read.
    let (start, count) = unsafe {
        if none {
            return &[];
        } else if kind == Kind::Tuple as u8 || kind == Kind::Adt as u8 {
            (fields(object.cast_mut()).cast_const(), count)
        } else if kind == Kind::Closure as u8 {
            (
                (&raw const (*object.cast::<RxClosure>()).captures).cast(),
                count,
            )
        } else if kind == Kind::Ref as u8 {
            (&raw const (*object.cast::<RxRef>()).value, 1)
        } else {
            return &[];
        }
    };
    // SAFETY: the block of a tuple, constructor or closure has `count` pointers behind the fixed
    // part (`values::alloc`), and a cell has one.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// Returns the address of the first field of a tuple or constructor.
///
/// # Safety
/// `object` is a live value of one of these kinds.
#[inline]
pub unsafe fn fields(object: *mut RxObject) -> *mut *mut RxObject {
    // SAFETY: an address within the value, or at its end.
    unsafe { (&raw mut (*object.cast::<RxFields>()).fields).cast() }
}

impl RxTensor {
    /// Its extents.
    #[inline]
    pub fn extents(&self) -> &[i64] {
        if self.ndim <= 0 || self.shape.is_null() {
            return &[];
        }
        // SAFETY: a tensor of rank 1 or more has `ndim` extents at `shape`: `tensor::block` and
        // `data` sections of compiled programs lay it out so.
        unsafe { std::slice::from_raw_parts(self.shape, self.ndim as usize) }
    }

    /// Its elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.nbytes == 0 || self.data.is_null() {
            return &[];
        }
        // SAFETY: a live tensor has `nbytes` bytes at `data`, in its block or kept by its owner.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.nbytes as usize) }
    }
}
