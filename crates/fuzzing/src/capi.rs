//! A target that misuses the C interface: calls of the runtime and of compiled entries with values
//! of all kinds, including null.
//!
//! Misuse that the interface cannot detect (a pointer to something of another type) is not tried.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a call of the interface, which holds what it is given against what it is"
)]

use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use relax::{ReadOptions, Session, native};
use relax_codegen::{Entry, Jit};
use relax_runtime::capi::checks::rx_check_tensor;
use relax_runtime::capi::context::{rx_context_create, rx_context_destroy, rx_heap_stats};
use relax_runtime::capi::counts::{rx_is_unique, rx_release, rx_retain};
use relax_runtime::capi::dlpack::{rx_from_dlpack, rx_to_dlpack};
use relax_runtime::capi::errors::{rx_clear_error, rx_last_error, rx_last_status};
use relax_runtime::capi::fields::{
    rx_field, rx_field_count, rx_foreign_pointer, rx_kind, rx_ref_set, rx_shape_dims,
    rx_string_bytes, rx_tag,
};
use relax_runtime::capi::functions::{rx_call_closure, rx_call_dps_packed, rx_call_packed};
use relax_runtime::capi::tensors::{
    rx_tensor_borrow, rx_tensor_copy, rx_tensor_data, rx_tensor_elements, rx_tensor_nbytes,
    rx_tensor_ndim, rx_tensor_shape, rx_tensor_unique,
};
use relax_runtime::capi::values::{
    rx_alloc_closure, rx_alloc_ref, rx_make_adt, rx_make_foreign, rx_make_shape, rx_make_string,
    rx_make_tuple, rx_unit,
};
use relax_runtime::capi::views::{rx_tensor_reshape, rx_tensor_view};
use relax_runtime::context::RxContext;
use relax_runtime::dlpack::DLManagedTensor;
use relax_runtime::heap::RxHeapStats;
use relax_runtime::object::{DLDataType, RxObject};

/// Entries with parameters of all kinds.
const ENTRIES: &str = r#"
type Tree { Leaf, Node(Tree, Tensor[(2,), float32], Tree) }
def @list(%l: List[Tensor[(2,), float32]]) -> Tensor[(2,), float32] {
  match (%l) { Nil => zeros(shape=[2], dtype="float32"), Cons(%h, %t) => add(%h, @list(%t)) }
}
def @tree(%t: Tree) -> Tensor[(2,), float32] {
  match (%t) {
    Leaf => ones(shape=[2], dtype="float32"),
    Node(%a, %x, %b) => add(%x, add(@tree(%a), @tree(%b)))
  }
}
def @pair(%p: (Tensor[(n,), float32], (Tensor[(n, 3), int64], Tensor[(), bool]))) {
  if (%p.1.1) { sum(%p.0) } else { cast(sum(%p.1.0), dtype="float32") }
}
def @plus(%x: Tensor[(n,), float32], %y: Tensor[(n,), float32]) { add(%x, %y) }
def @bytes(%x: Tensor[(?,), uint8]) { add(%x, %x) }
def @apply(%f: fn (Tensor[(2,), float32]) -> Tensor[(2,), float32], %x: Tensor[(2,), float32])
    -> Tensor[(2,), float32] { %f(%x) }
def @adder(%x: Tensor[(2,), float32]) { fn (%y: Tensor[(2,), float32]) { add(%x, %y) } }
def @maybe(%o: Option[(Tensor[(), int32], Tensor[(?,), bool])]) -> Tensor[(?,), bool] {
  match (%o) { None => ones(shape=[1], dtype="bool"), Some(%p) => logical_not(%p.1) }
}
"#;
const NAMES: [&str; 8] = [
    "list", "tree", "pair", "plus", "bytes", "apply", "adder", "maybe",
];

fn entries() -> &'static [Entry] {
    static CODE: OnceLock<(Jit, Vec<Entry>)> = OnceLock::new();
    let (_, entries) = CODE.get_or_init(|| {
        let mut session = Session::new(ReadOptions::default());
        let (mut module, said) = session.read("entries.relay", ENTRIES.as_bytes().to_vec());
        assert!(!said.has_errors(), "{said:?}");
        let typing = native::optimise(&mut session, &mut module, "O2").expect("it optimises");
        let roots: Vec<_> = NAMES.iter().filter_map(|n| module.global(n)).collect();
        let lowered = native::lower(&module, &typing, &roots, &session.sources).expect("it lowers");
        let jit = native::jit(&lowered).expect("it compiles");
        let entries = NAMES.iter().filter_map(|n| jit.entry(n)).collect();
        (jit, entries)
    });
    entries
}

/// The limit on values held at a time.
const HELD: usize = 48;
/// The limit on calls per input.
const CALLS: usize = 200;
const DTYPES: [DLDataType; 6] = [
    DLDataType::F32,
    DLDataType::BOOL,
    dtype(0, 32),
    dtype(0, 64),
    dtype(1, 8),
    dtype(2, 16),
];

const fn dtype(code: u8, bits: u8) -> DLDataType {
    let lanes = 1;
    DLDataType { code, bits, lanes }
}

/// Memory that tensors borrow.
#[repr(align(64))]
struct Block([u8; 1024]);

struct Caller<'d> {
    ctx: *mut RxContext,
    /// Owned references, or null.
    held: Vec<*mut RxObject>,
    choices: std::slice::Iter<'d, u8>,
    block: Box<Block>,
}

/// Runs the calls and arguments chosen by the bytes.
pub(crate) fn capi(data: &[u8]) {
    let mut caller = Caller {
        ctx: rx_context_create(),
        held: vec![null_mut()],
        choices: data.iter(),
        block: Box::new(Block([1; 1024])),
    };
    for _ in 0..CALLS {
        let Some(&choice) = caller.choices.next() else {
            break;
        };
        caller.call(choice);
    }
    caller.end();
}

impl Caller<'_> {
    /// Returns a number below `n`; 0 at the end of the input.
    fn below(&mut self, n: usize) -> usize {
        self.choices.next().map_or(0, |&b| usize::from(b) % n)
    }

    /// Returns some value, or null; still owned by the list.
    fn any(&mut self) -> *mut RxObject {
        let k = self.below(self.held.len());
        self.held[k]
    }

    /// Returns some values, each with its own reference.
    fn owned(&mut self) -> Vec<*mut RxObject> {
        let n = self.below(4);
        let values: Vec<_> = (0..n).map(|_| self.any()).collect();
        // SAFETY: each is null or lives.
        values.iter().for_each(|&v| unsafe { rx_retain(v) });
        values
    }

    fn shape(&mut self) -> Vec<i64> {
        let extent = |b: usize| [2, 3, 0, 1, 4, 2, -1, i64::MAX][b];
        (0..self.below(4)).map(|_| extent(self.below(8))).collect()
    }

    fn keep(&mut self, value: *mut RxObject) {
        if value.is_null() {
            return self.failed();
        }
        if self.held.len() < HELD {
            self.held.push(value);
        } else {
            let k = 1 + self.below(HELD - 1);
            let old = std::mem::replace(&mut self.held[k], value);
            // SAFETY: it was owned by the list.
            unsafe { rx_release(self.ctx, old) };
        }
    }

    /// Checks that after a failed call the context has the reason.
    fn failed(&mut self) {
        // SAFETY: the context lives.
        let (status, said) = unsafe {
            (
                rx_last_status(self.ctx),
                CStr::from_ptr(rx_last_error(self.ctx)),
            )
        };
        assert_ne!(status, 0, "a call failed, and there is no error");
        assert_ne!(status, 9, "a defect of the runtime: {said:?}");
        assert!(!said.is_empty());
        rx_clear_error(self.ctx);
    }

    fn settled(&mut self, status: i32) {
        if status != 0 {
            self.failed();
        }
    }

    fn call(&mut self, choice: u8) {
        match choice % 20 {
            0..=2 => self.tensor(),
            3 => self.borrowed(),
            4..=5 => {
                let fields = self.owned();
                // SAFETY (here and below): values live or are null, lengths are as they are, the
                // context lives.
                let made = unsafe { rx_make_tuple(self.ctx, fields.len() as u32, fields.as_ptr()) };
                self.keep(made);
            }
            6..=7 => {
                let (tag, fields) = (self.below(4) as u32, self.owned());
                let made =
                    unsafe { rx_make_adt(self.ctx, tag, fields.len() as u32, fields.as_ptr()) };
                self.keep(made);
            }
            8 => self.other(),
            9 => self.viewed(),
            10 => self.shared(),
            11..=14 => self.entry(),
            15 => self.closure(),
            16 => self.packed(),
            17 => self.looked(),
            18 => {
                let value = self.any();
                unsafe { rx_retain(value) };
                let unique = unsafe { rx_tensor_unique(self.ctx, value) };
                if value.is_null() {
                    assert!(unique.is_null());
                } else {
                    self.keep(unique);
                }
            }
            _ => {
                let k = self.below(self.held.len());
                let value = std::mem::replace(&mut self.held[k], null_mut());
                unsafe { rx_release(self.ctx, value) };
            }
        }
    }

    fn tensor(&mut self) {
        let (dtype, shape) = (DTYPES[self.below(DTYPES.len())], self.shape());
        let data = match self.below(8) {
            0 => null(),
            _ => self.block.0.as_ptr(),
        };
        let bytes = shape.iter().try_fold(8i64, |n, &d| n.checked_mul(d.max(0)));
        if bytes.is_some_and(|n| n > 1024) {
            return;
        }
        let made = unsafe {
            rx_tensor_copy(
                self.ctx,
                dtype,
                shape.len() as i32,
                shape.as_ptr(),
                data.cast(),
            )
        };
        self.keep(made);
    }

    fn borrowed(&mut self) {
        let (dtype, n, at) = (
            DTYPES[self.below(DTYPES.len())],
            self.below(5) as i64,
            self.below(12),
        );
        let data = self.block.0[at..].as_mut_ptr().cast();
        let made = unsafe { rx_tensor_borrow(self.ctx, dtype, 1, [n].as_ptr(), data) };
        self.keep(made);
    }

    fn other(&mut self) {
        let made = match self.below(7) {
            0 => {
                let dims = self.shape();
                unsafe { rx_make_shape(self.ctx, dims.len() as u32, dims.as_ptr()) }
            }
            1 => unsafe { rx_make_string(self.ctx, c"text".as_ptr(), 4) },
            2 => unsafe { rx_make_foreign(self.ctx, null_mut(), None) },
            3 => unsafe { rx_alloc_closure(self.ctx, 1, 0) },
            4 => rx_unit(),
            5 => {
                let value = self.any();
                unsafe { rx_retain(value) };
                unsafe { rx_alloc_ref(self.ctx, value) }
            }
            // A value that is not a cell cannot become part of a cycle.
            _ => {
                let cell = self.held.iter().find(|&&v| unsafe { rx_kind(v) } != 5);
                let cell = cell.copied().unwrap_or_default();
                let value = self.any();
                unsafe { rx_retain(value) };
                unsafe { rx_ref_set(self.ctx, cell, value) };
                return self.failed();
            }
        };
        self.keep(made);
    }

    fn viewed(&mut self) {
        let (value, dtype, shape) = (self.any(), DTYPES[self.below(DTYPES.len())], self.shape());
        let (rank, dims) = (shape.len() as i32, shape.as_ptr());
        let made = match self.below(2) {
            0 => {
                let at = self.below(16) as u64;
                unsafe { rx_tensor_view(self.ctx, value, at, dtype, rank, dims) }
            }
            _ => {
                unsafe { rx_retain(value) };
                unsafe { rx_tensor_reshape(self.ctx, value, rank, dims) }
            }
        };
        self.keep(made);
    }

    /// Exports a value via DLPack, and possibly imports it again.
    fn shared(&mut self) {
        let value = self.any();
        unsafe { rx_retain(value) };
        let out: *mut DLManagedTensor = unsafe { rx_to_dlpack(self.ctx, value) };
        if out.is_null() {
            return self.failed();
        }
        match self.below(2) {
            0 => {
                let made = unsafe { rx_from_dlpack(self.ctx, out) };
                self.keep(made);
            }
            _ => {
                let end = unsafe { (*out).deleter }.expect("ours has one");
                unsafe { end(out) };
            }
        }
    }

    fn entry(&mut self) {
        let entry = entries()[self.below(NAMES.len())];
        let n = 1 + self.below(2);
        let args: Vec<_> = (0..n).map(|_| self.any()).collect();
        let mut out: *mut RxObject = null_mut();
        let (args, given) = match self.below(16) {
            0 => (null(), n),
            _ => (args.as_ptr(), n),
        };
        let status = unsafe {
            entry(
                self.ctx.cast(),
                args.cast(),
                given as i32,
                (&raw mut out).cast(),
            )
        };
        match status {
            0 => self.keep(out),
            _ => self.failed(),
        }
    }

    fn closure(&mut self) {
        let (callee, args) = (self.any(), self.owned());
        let mut out = null_mut();
        let n = args.len() as i32;
        let status = unsafe { rx_call_closure(self.ctx, callee, args.as_ptr(), n, &mut out) };
        match status {
            0 => self.keep(out),
            _ => self.failed(),
        }
    }

    fn packed(&mut self) {
        let args = [self.any(), self.any()];
        let mut out = null_mut();
        let name = c"unknown".as_ptr();
        let status = match self.below(2) {
            0 => unsafe { rx_call_packed(self.ctx, name, args.as_ptr(), 2, &mut out) },
            _ => unsafe { rx_call_dps_packed(self.ctx, name, args.as_ptr(), 2) },
        };
        self.settled(status);
    }

    /// Calls every query on a value.
    fn looked(&mut self) {
        let (value, k) = (self.any(), self.below(4) as u32);
        let status = unsafe {
            rx_kind(value);
            rx_tag(value);
            rx_field_count(value);
            rx_field(value, k);
            rx_shape_dims(value);
            rx_string_bytes(value);
            rx_foreign_pointer(value);
            rx_is_unique(value);
            rx_tensor_ndim(value);
            rx_tensor_shape(value);
            rx_tensor_elements(value);
            let bytes = rx_tensor_nbytes(value) as usize;
            if bytes > 0 {
                let data = std::slice::from_raw_parts(rx_tensor_data(value).cast::<u8>(), bytes);
                std::hint::black_box(data.iter().fold(0u8, |a, b| a.wrapping_add(*b)));
            }
            let what = c"it".as_ptr();
            rx_check_tensor(self.ctx, value, what, DLDataType::F32, 1, [2].as_ptr())
        };
        self.settled(status);
    }

    /// Releases everything; checks that nothing leaks.
    fn end(mut self) {
        for value in self.held.drain(..) {
            unsafe { rx_release(self.ctx, value) };
        }
        let mut stats = RxHeapStats::default();
        unsafe { rx_heap_stats(self.ctx, &mut stats) };
        assert_eq!(stats.live_objects, 0, "objects are left behind");
        unsafe { rx_context_destroy(self.ctx) };
    }
}
