//! Elements as keys: signed integers of 32 or 64 bits that are ordered like them. What sorts and
//! selects knows only keys, so that its code exists for two types, not for each.

use super::order::Ordered;
use super::{Element, RxLines};
use crate::kernels::simd::{Simd, dispatch_of};
use std::ffi::c_void;

/// A key.
pub(super) trait Key: Ordered + Send + Sync {
    /// The key of an element's bits, in their order.
    fn of(bits: u64) -> Self;
    /// The bits of an element.
    fn bits(self) -> u64;
    /// The key in the reverse order, where `turn` is -1; itself, where it is 0.
    fn turned(self, turn: Self) -> Self;
    /// -1 or 0.
    fn turn(turns: bool) -> Self;
}

macro_rules! key {
    ($($k:ty, $bits:ty);*) => {$(
        impl Key for $k {
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn of(bits: u64) -> Self {
                bits as $k ^ <$k>::MIN
            }
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn bits(self) -> u64 {
                (self ^ <$k>::MIN) as $bits as u64
            }
            #[inline(always)]
            fn turned(self, turn: Self) -> Self {
                self ^ turn
            }
            #[inline(always)]
            fn turn(turns: bool) -> Self {
                if turns { -1 } else { 0 }
            }
        }
    )*};
}
key!(i32, u32; i64, u64);

/// Rows of adjacent elements.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub from: *const c_void,
    pub rows: usize,
    /// The distance of a row from the next one, in elements.
    pub step: usize,
    /// Elements of a row.
    pub wide: usize,
}

/// What depends on the type of elements.
#[derive(Clone, Copy)]
pub(super) struct Elements<K> {
    /// The keys of a tile, its rows one behind the other.
    pub read: unsafe fn(tile: &Tile, turn: K, to: *mut K),
    /// The elements of `n` keys, `step` apart.
    pub write: unsafe fn(from: *const K, turn: K, n: usize, to: *mut c_void, step: usize),
    /// Puts the zeros of a line in the places of its result from `first` on, in their order, up to
    /// the last one that is kept: they have one key, but two signs.
    pub zeros: Option<unsafe fn(lines: &RxLines, line: usize, first: usize)>,
    /// The key of zero.
    pub zero: K,
    /// The least and the greatest key of elements that are ordered: others are NaN.
    pub bounds: (K, K),
    /// Bytes of an element.
    pub size: usize,
}

impl<K: Key> Elements<K> {
    /// Those of a type of at most as many bytes as keys have.
    pub(super) fn of<T: Element>() -> Self {
        let (least, greatest) = T::bounds();
        Self {
            read: read::<T, K>,
            write: write::<T, K>,
            zeros: T::SIGNED_ZERO.then_some(zeros::<T>),
            zero: K::of(T::default().key()),
            bounds: (K::of(least), K::of(greatest)),
            size: size_of::<T>(),
        }
    }
}

unsafe fn read<T: Element, K: Key>(tile: &Tile, turn: K, to: *mut K) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn all<S: Simd, T: Element, K: Key>(tile: &Tile, turn: K, to: *mut K) {
        // SAFETY: the tile's elements are there, and `to` has room for their keys.
        unsafe {
            for row in 0..tile.rows {
                let from = tile.from.cast::<T>().add(row * tile.step);
                let to = to.add(row * tile.wide);
                for i in 0..tile.wide {
                    *to.add(i) = K::of((*from.add(i)).key()).turned(turn);
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe { dispatch_of!(all<T: Element, K: Key>(tile: &Tile, turn: K, to: *mut K)) };
}

unsafe fn write<T: Element, K: Key>(
    from: *const K,
    turn: K,
    n: usize,
    to: *mut c_void,
    step: usize,
) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn all<S: Simd, T: Element, K: Key>(from: *const K, turn: K, n: usize, to: *mut T) {
        for i in 0..n {
            // SAFETY: there are `n` keys, and `to` has room for as many elements.
            unsafe { *to.add(i) = T::of_key((*from.add(i)).turned(turn).bits()) };
        }
    }
    let to = to.cast::<T>();
    // SAFETY: there are `n` keys, and `to` has as many places.
    unsafe {
        if step == 1 {
            dispatch_of!(all<T: Element, K: Key>(from: *const K, turn: K, n: usize, to: *mut T));
            return;
        }
        for i in 0..n {
            *to.add(i * step) = T::of_key((*from.add(i)).turned(turn).bits());
        }
    }
}

unsafe fn zeros<T: Element>(lines: &RxLines, line: usize, first: usize) {
    let inner = lines.inner as usize;
    let (n, keep) = (lines.extent.max(0) as usize, lines.keep.max(0) as usize);
    let mut place = first;
    // SAFETY: the line is one of the array's and of the result's.
    unsafe {
        let x = lines.x.cast::<T>().add(lines.begin(line, lines.extent));
        let to = lines.values.cast::<T>().add(lines.begin(line, lines.keep));
        for i in 0..n {
            if place >= keep {
                return;
            }
            let x = *x.add(i * inner);
            if x == T::default() {
                *to.add(place * inner) = x;
                place += 1;
            }
        }
    }
}

/// A sorted item: a key, with its index as the less significant part, or alone.
pub(super) trait Sorted: Ord + Copy {
    /// The key's bits.
    fn bits(self) -> u64;
    /// The item of a key and an index.
    fn of(key: u64, index: usize) -> Self;
    /// The index.
    fn index(self) -> u32;
}
impl Sorted for u64 {
    #[inline(always)]
    fn bits(self) -> u64 {
        self >> 32
    }
    #[inline(always)]
    fn of(key: u64, index: usize) -> Self {
        key << 32 | index as u64
    }
    #[inline(always)]
    fn index(self) -> u32 {
        self as u32
    }
}
impl Sorted for (u64, u32) {
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn of(key: u64, index: usize) -> Self {
        (key, index as u32)
    }
    #[inline(always)]
    fn index(self) -> u32 {
        self.1
    }
}

/// A key without an index, less half of its range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct Alone<K>(pub K);
impl<K: Key> Sorted for Alone<K> {
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0.bits()
    }
    #[inline(always)]
    fn of(key: u64, _: usize) -> Self {
        Self(K::of(key))
    }
    #[inline(always)]
    fn index(self) -> u32 {
        0
    }
}

/// Keys as items without an index.
pub(super) fn alone<K>(keys: &mut [K]) -> &mut [Alone<K>] {
    // SAFETY: an item is laid out as its key.
    unsafe { &mut *(std::ptr::from_mut(keys) as *mut [Alone<K>]) }
}
