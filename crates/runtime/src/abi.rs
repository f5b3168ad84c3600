//! The C interface as data: the signatures of its functions, and the layouts of its structures.
//!
//! A kernel is declared by its Rust function and structures alone. The code generator takes
//! symbols, signatures and offsets from here, so it cannot disagree with the kernel; a test keeps
//! the C headers equal to it.
//!
//! Invariant: nothing here that the compiler can derive is written by hand: offsets are
//! `offset_of!`, signatures and names of types are those of Rust's types.

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;

use crate::reach::Touches;
pub use crate::symbols::functions::*;

/// The representation of a value that is passed or stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The names are the types'.
pub enum Word {
    Int32,
    Int64,
    Float32,
    Float64,
    Pointer,
}

/// A type in C's terms.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Its name, with `const` after the type that it qualifies: `float const *`.
    pub name: String,
    /// Its fields, or those of the structure that it points to.
    pub structure: Option<&'static Structure>,
}

/// A type of the C interface.
pub trait CType {
    /// The representation in which it is passed; `None` for structures, and for elements that are
    /// only pointed to.
    const WORD: Option<Word> = None;
    /// Returns its description in C.
    fn describe() -> Type;
}

/// A structure of the C interface.
#[derive(PartialEq, Debug)]
pub struct Structure {
    /// Its name.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Its fields in the order of their offsets.
    pub members: &'static [Member],
}

/// A field of a structure.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// Its offset.
    pub offset: usize,
    /// Its type.
    pub ty: fn() -> Type,
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.offset) == (other.name, other.offset)
    }
}

/// A Rust structure that is one of the C interface.
pub trait CStructure: 'static {
    /// Its fields.
    const STRUCTURE: &'static Structure;
}

impl<T: CStructure> CType for T {
    fn describe() -> Type {
        Type {
            name: T::STRUCTURE.name.to_owned(),
            structure: Some(T::STRUCTURE),
        }
    }
}

/// Declares structures of the C interface.
#[macro_export]
macro_rules! c_structure {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$of_field:meta])* pub $field:ident: $ty:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($(#[$of_field])* pub $field: $ty,)*
        }

        impl $crate::abi::CStructure for $name {
            const STRUCTURE: &'static $crate::abi::Structure = &$crate::abi::Structure {
                name: stringify!($name),
                size: size_of::<$name>(),
                members: &[$($crate::abi::Member {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                    ty: <$ty as $crate::abi::CType>::describe,
                }),*],
            };
        }
    )*};
}

/// Declares an enumeration whose numbers a field of a structure holds.
#[macro_export]
macro_rules! c_enumeration {
    ($($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$of_value:meta])* $value:ident $(= $c:literal)?,)*
    })*) => {$(
        $(#[$meta])*
        #[repr(i32)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$of_value])* $value,)*
        }

        impl $name {
            /// All values, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];
            /// Their names in the C header, in the same order; empty where the header only counts
            /// them.
            pub const C: &'static [&'static str] = &[$($($c,)?)*];

            /// The value with a name in these sources.
            pub fn named(name: &str) -> Option<Self> {
                let names = [$(stringify!($value)),*];
                let at = names.iter().position(|n| *n == name)?;
                Some(Self::ALL[at])
            }

            /// The value of a number; `None` for other numbers.
            #[inline(always)]
            pub fn of(number: i32) -> Option<Self> {
                Self::ALL.get(usize::try_from(number).ok()?).copied()
            }
        }
    )*};
}

/// A field of the structure `S`, possibly of a structure nested in it: see
/// [`field!`](crate::field).
#[derive(Debug)]
pub struct Field<S> {
    /// Its offset.
    pub offset: usize,
    /// The representation in which it is stored.
    pub word: Word,
    of: PhantomData<fn(&S)>,
}

impl<S> Clone for Field<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Field<S> {}

impl<S> Field<S> {
    /// The field that `_type` reads.
    #[doc(hidden)]
    pub const fn at<T: CType>(offset: usize, _type: fn(&S) -> &T) -> Self {
        match T::WORD {
            Some(word) => Self {
                offset,
                word,
                of: PhantomData,
            },
            None => panic!("the field is no number"),
        }
    }
}

/// A [`Field`](crate::abi::Field) by its path: `field!(RxGemmF32, epilogue.bias)`.
#[macro_export]
macro_rules! field {
    ($structure:ty, $($path:ident).+) => {
        const {
            $crate::abi::Field::<$structure>::at(
                std::mem::offset_of!($structure, $($path).+),
                |s: &$structure| &s.$($path).+,
            )
        }
    };
}

/// A structure `P` in the structure `S`: see [`part!`](crate::part).
#[derive(Debug)]
pub struct Part<S, P> {
    offset: usize,
    of: PhantomData<fn(&S) -> &P>,
}

impl<S, P> Clone for Part<S, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, P> Copy for Part<S, P> {}

impl<S, P> Part<S, P> {
    /// The part that `_of` reads.
    #[doc(hidden)]
    pub const fn at(offset: usize, _of: fn(&S) -> &P) -> Self {
        Self {
            offset,
            of: PhantomData,
        }
    }

    /// A field of the part as one of the whole.
    pub const fn field(self, field: Field<P>) -> Field<S> {
        Field {
            offset: self.offset + field.offset,
            word: field.word,
            of: PhantomData,
        }
    }
}

/// A [`Part`](crate::abi::Part) by its path: `part!(RxGemmF32, epilogue)`.
#[macro_export]
macro_rules! part {
    ($structure:ty, $($path:ident).+) => {
        const {
            $crate::abi::Part::<$structure, _>::at(
                std::mem::offset_of!($structure, $($path).+),
                |s: &$structure| &s.$($path).+,
            )
        }
    };
}

/// Fields with their values: `fields!(RxPick { x: data, out: result })`.
#[macro_export]
macro_rules! fields {
    ($structure:ty { $($($path:ident).+: $value:expr),* $(,)? }) => {
        [$(($crate::field!($structure, $($path).+), $value)),*]
    };
}

/// A function of the C interface, or one of C.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its symbol.
    pub name: &'static str,
    /// Its address in this process.
    pub address: *const u8,
    /// Its signature.
    pub signature: Signature,
    /// For kernels that generated code calls: the memory that a call touches, for checked code.
    pub touches: Option<Touches>,
}

/// The signature of a function.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// Its parameters.
    pub params: &'static [Param],
    /// Its result.
    pub result: Param,
}

/// A parameter, or a result.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The representation in which it is passed; `None` for no result.
    pub word: Option<Word>,
    /// Its type.
    pub ty: fn() -> Type,
}

impl Param {
    const fn of<T: CType>() -> Param {
        Param {
            word: T::WORD,
            ty: T::describe,
        }
    }
}

/// A Rust function that C calls.
pub trait CFunction: Copy {
    /// Its signature.
    const SIGNATURE: Signature;
}

/// The signature of a function.
pub const fn signature<F: CFunction>(_: F) -> Signature {
    F::SIGNATURE
}

/// Returns the first element, if there is one.
#[doc(hidden)]
pub const fn first(touches: &[Touches]) -> Option<Touches> {
    match touches {
        [touches, ..] => Some(*touches),
        [] => None,
    }
}

/// Returns the functions of two tables, which are `N`.
#[doc(hidden)]
pub const fn joined<const N: usize>([first, second]: [&[Function]; 2]) -> [Function; N] {
    assert!(first.len() + second.len() == N);
    let mut all = [first[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = match i < first.len() {
            true => first[i],
            false => second[i - first.len()],
        };
        i += 1;
    }
    all
}

/// Creates constants for functions: `module => name(_, _)`, with a `_` or its type per parameter;
/// `=> touches` after a kernel is the [`Touches`](crate::reach::Touches) of its calls. `FUNCTIONS`
/// lists all of them.
#[macro_export]
macro_rules! c_functions {
    ($($path:path => $($name:ident($($param:ty),* $(,)?) $(=> $touches:path)?)*;)*) => {
        $($(
            #[doc = concat!("`", stringify!($name), "`")]
            pub const $name: $crate::abi::Function = {
                use $path as module;
                $crate::abi::Function {
                    name: stringify!($name),
                    address: module::$name as *const u8,
                    signature: $crate::abi::signature(
                        module::$name as unsafe extern "C" fn($($param),*) -> _
                    ),
                    touches: $crate::abi::first(&[$($touches as $crate::reach::Touches)?]),
                }
            };
        )*)*

        /// All of these functions, in a fixed order.
        pub const FUNCTIONS: &[$crate::abi::Function] = &[$($($name),*),*];
    };
}

macro_rules! c_types {
    ($($t:ty = $name:literal $($word:ident)?;)*) => {$(
        impl CType for $t {
            $(const WORD: Option<Word> = Some(Word::$word);)?
            fn describe() -> Type {
                Type { name: $name.to_owned(), structure: None }
            }
        }
    )*};
}

c_types! {
    i32 = "int32_t" Int32;
    u32 = "uint32_t" Int32;
    i64 = "int64_t" Int64;
    u64 = "uint64_t" Int64;
    f32 = "float" Float32;
    f64 = "double" Float64;
    crate::object::DLDataType = "DLDataType" Int32;
    () = "void";
    c_void = "void";
    c_char = "char";
    u16 = "uint16_t";
    usize = "size_t" Int64;
    crate::context::RxContext = "RxContext";
    crate::dlpack::DLManagedTensor = "DLManagedTensor";
    crate::heap::RxAllocator = "RxAllocator";
    crate::heap::RxHeapStats = "RxHeapStats";
    crate::launch::RxLaunch = "RxLaunch";
    crate::object::RxObject = "RxObject";
    crate::object::RxTensor = "RxObject";
    crate::profile::RxProfileRow = "RxProfileRow";
    crate::reach::RxArray = "RxArray";
    crate::weights::RxWeights = "RxWeights";
}

macro_rules! c_pointers {
    ($($pointer:ident $text:literal),*) => {$(
        impl<T: CType> CType for *$pointer T {
            const WORD: Option<Word> = Some(Word::Pointer);
            fn describe() -> Type {
                let Type { name, structure } = T::describe();
                Type { name: format!($text, name), structure }
            }
        }
    )*};
}
c_pointers!(const "{} const *", mut "{} *");

impl<T: CType, const N: usize> CType for [T; N] {
    fn describe() -> Type {
        let Type { name, structure } = T::describe();
        Type {
            name: format!("{name}[{N}]"),
            structure,
        }
    }
}

/// The name used for pointers to functions.
pub const CALLBACK: &str = "(*)";

macro_rules! c_functions_of {
    ($($($param:ident)*;)*) => {$(
        impl<$($param: CType,)* R: CType> CFunction for unsafe extern "C" fn($($param),*) -> R {
            const SIGNATURE: Signature = Signature {
                params: &[$(Param::of::<$param>()),*],
                result: Param::of::<R>(),
            };
        }

        impl<$($param,)* R> CType for unsafe extern "C" fn($($param),*) -> R {
            const WORD: Option<Word> = Some(Word::Pointer);
            fn describe() -> Type {
                Type { name: CALLBACK.to_owned(), structure: None }
            }
        }

        impl<$($param,)* R> CType for Option<unsafe extern "C" fn($($param),*) -> R> {
            const WORD: Option<Word> = Some(Word::Pointer);
            fn describe() -> Type {
                Type { name: CALLBACK.to_owned(), structure: None }
            }
        }
    )*};
}

c_functions_of! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
