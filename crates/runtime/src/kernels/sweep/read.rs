//! Elements of inputs and constants brought into strips.

use super::chains::Source;
use super::space::{Cursor, Space};
use super::{INDEX, INPUTS, LINE, OPERANDS, Plan, STRIP, register};
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::simd::{Simd, dispatch};
use half::f16;

/// The operands of one strip.
pub(super) struct Strip {
    pub(super) operands: [*const u8; OPERANDS],
    pub(super) room: *mut u8,
    /// Inputs that are one number for a strip and have been spread: where they were read.
    spread: [*const u8; INPUTS],
    /// Inputs of indices that have been counted for a whole row: the first one.
    counted: [Option<i64>; INPUTS],
    /// The bytes by which each input's operand moves from an element to the next one.
    moves: [usize; INPUTS],
    /// Inputs whose narrow floats are read as they lie.
    narrow: [bool; INPUTS],
    /// The elements for which operations that give one number for a whole row have been done.
    pub(super) computed: usize,
    /// The elements of the row after this strip whose operands are those of this one, moved.
    left: usize,
}

impl Strip {
    /// Moves the operands past `n` elements, to a strip of `next`. Returns `false` where they must
    /// be read anew.
    pub(super) fn moved(&mut self, inputs: usize, n: usize, next: usize) -> bool {
        if next > self.left {
            return false;
        }
        self.left -= next;
        for (at, step) in self.operands.iter_mut().zip(self.moves).take(inputs) {
            *at = at.wrapping_add(n * step);
        }
        true
    }

    /// What a chain reads of an input.
    #[inline(always)]
    pub(super) fn source(&self, p: &Plan<'_>, input: usize) -> Source {
        let kind = Kind::of(p.kinds[input]).unwrap_or(Kind::F32);
        Source {
            kind: if self.narrow[input] {
                kind
            } else {
                register(kind)
            },
            one: p.is_line(input),
            at: self.operands[input],
        }
    }
}

impl Plan<'_> {
    pub(super) unsafe fn begin(&self, room: *mut u8) -> Strip {
        let (inputs, constants) = (self.v.inputs as usize, self.v.constants as usize);
        let mut operands = [std::ptr::null(); OPERANDS];
        // SAFETY: `room` has as many strips, constants are eight bytes each.
        unsafe {
            for (k, at) in operands.iter_mut().enumerate().take(self.operands()) {
                *at = room.add(k * STRIP).cast_const();
            }
            // What is done in registers reads no strips.
            let registers = self.narrow.is_some() || self.chain.helps();
            let filled = if registers { 0 } else { constants };
            for k in 0..filled {
                let to = room.add((inputs + k) * STRIP);
                let from = self.v.values.add(k).cast::<u8>();
                // Which width a constant has is said by those that use it.
                let size = self.constant_size(inputs + k);
                // Strips that need no memory are longer than those that have some.
                let most = if self.is_line(inputs + k) {
                    LINE
                } else {
                    STRIP / size
                };
                fill(size, from, to, self.strip.min(most));
            }
        }
        Strip {
            operands,
            room,
            spread: [std::ptr::null(); INPUTS],
            counted: [None; INPUTS],
            moves: [0; INPUTS],
            narrow: [false; INPUTS],
            computed: 0,
            left: 0,
        }
    }

    /// The bytes of a constant's elements.
    fn constant_size(&self, operand: usize) -> usize {
        for op in self.ops {
            for (place, &arg) in op.args.iter().enumerate() {
                if arg == operand as i32
                    && let Some(kind) = op.argument(place)
                {
                    return register(kind).size();
                }
            }
        }
        8
    }

    /// Brings `n` elements from a place of the spaces on into strips.
    pub(super) unsafe fn read(&self, s: &mut Strip, cursor: &Cursor, space: &Space, n: usize) {
        let inputs = self.v.inputs as usize;
        s.computed = 0;
        let after = (space.inner() - cursor.inner).checked_sub(n);
        let whole = after.is_some();
        s.left = after.unwrap_or(0);
        for k in 0..inputs {
            // SAFETY: the elements lie in the input, and a strip has room for `n` of them.
            unsafe {
                let to = s.room.add(k * STRIP);
                let step = space.inner_step(k);
                if self.kinds[k] == INDEX {
                    s.left = 0;
                    s.operands[k] = to;
                    let base = self.data[k].addr() as i64;
                    let to = to.cast::<i64>();
                    let count = |first: i64, done: usize, len: usize| {
                        for i in 0..len {
                            *to.add(done + i) = first.wrapping_add(i as i64 * step as i64);
                        }
                    };
                    if whole {
                        // The rows that follow may begin with the same index; none is longer.
                        let first = base.wrapping_add(cursor.offset[k] as i64);
                        if s.counted[k].replace(first) != Some(first) {
                            count(first, 0, self.strip.min(space.inner()));
                        }
                    } else {
                        s.counted[k] = None;
                        let row = |at: isize, done: usize, len: usize| {
                            count(base.wrapping_add(at as i64), done, len);
                        };
                        match space.repeats(k) {
                            true => repeated((cursor, space, k), n, (8, to.cast()), row),
                            false => cursor.rows(space, k, n, row),
                        }
                    }
                    continue;
                }
                let Some(kind) = Kind::of(self.kinds[k]) else {
                    continue;
                };
                let size = kind.size();
                let data = self.data[k].cast::<u8>();
                let from = data.offset(cursor.offset[k] * size as isize);
                let lies = self.dense[k] || whole && step == 1;
                let whole_type = register(kind) == kind;
                let raw = kind != Kind::Bool || self.raw[k];
                // A chain widens narrow floats itself.
                s.narrow[k] = lies && !whole_type && self.chain.helps();
                if lies && (whole_type && (raw || are_truths(from, n)) || s.narrow[k]) {
                    s.operands[k] = from;
                    s.moves[k] = size;
                    if !raw {
                        // The truth values that follow have not been looked at.
                        s.left = 0;
                    }
                    continue;
                }
                if whole {
                    s.operands[k] = to;
                    if step == 0 {
                        s.moves[k] = 0;
                        if s.spread[k] != from {
                            s.spread[k] = from;
                            // The rows that follow may read the same element; none is longer.
                            let most = if self.is_line(k) { LINE } else { self.strip };
                            spread(kind, from, to, most.min(self.strip).min(space.inner()));
                        }
                        continue;
                    }
                    s.left = 0;
                    gathered(kind, from, step, n, to);
                    continue;
                }
                s.left = 0;
                s.operands[k] = to;
                let repeats = space.repeats(k);
                if repeats && step == 0 {
                    // One number for all.
                    if s.spread[k] != from {
                        s.spread[k] = from;
                        spread(kind, from, to, self.strip.min(space.count()));
                    }
                    continue;
                }
                s.spread[k] = std::ptr::null();
                let width = register(kind).size();
                let row = |at: isize, done: usize, len: usize| {
                    let from = data.offset(at * size as isize);
                    gathered(kind, from, step, len, to.add(done * width));
                };
                macro_rules! held {
                    (|$x:ident: $t:ty| $value:expr) => {{
                        let from = data.cast::<$t>();
                        cursor.rows(space, k, n, |at, done, len| {
                            let $x = from.offset(at).read_unaligned();
                            held($value, to, (done, len));
                        });
                    }};
                }
                match (kind, size) {
                    _ if repeats => repeated((cursor, space, k), n, (width, to), row),
                    _ if step != 0 => cursor.rows(space, k, n, row),
                    (Kind::BF16, _) => held!(|x: u16| u32::from(x) << 16),
                    (Kind::F16, _) => held!(|x: u16| f16::from_bits(x).to_f32()),
                    (Kind::Bool, _) => held!(|x: u8| u8::from(x != 0)),
                    (_, 1) => held!(|x: u8| x),
                    (_, 2) => held!(|x: u16| x),
                    (_, 4) => held!(|x: u32| x),
                    _ => held!(|x: u64| x),
                }
            }
        }
    }
}

/// Brings `n` elements of rows that are all alike, by what brings a part of a row: two rows at
/// most, which are then repeated. `to` is where they go, with the bytes of one.
#[inline(always)]
unsafe fn repeated(
    (cursor, space, input): (&Cursor, &Space, usize),
    n: usize,
    (width, to): (usize, *mut u8),
    mut row: impl FnMut(isize, usize, usize),
) {
    let len = space.inner();
    let first = len - cursor.inner;
    let known = n.min(first + len);
    cursor.rows(space, input, known, &mut row);
    let mut done = known;
    while done < n {
        // A whole number of rows, but for the last time.
        let more = (done - first).min(n - done);
        // SAFETY: there is room for `n`, of which `done` have been written, and none is read twice.
        unsafe {
            let from = to.add(first * width).cast_const();
            std::ptr::copy_nonoverlapping(from, to.add(done * width), more * width);
        }
        done += more;
    }
}

/// One number `n` times behind `done` others, in a row that is short.
#[inline(always)]
unsafe fn held<T: Copy>(x: T, to: *mut u8, (done, n): (usize, usize)) {
    let to = to.cast::<T>();
    for i in done..done + n {
        // SAFETY: there is room for all of them.
        unsafe { *to.add(i) = x };
    }
}

/// Returns whether `n` bytes are truth values as operations compute them: 0 or 1.
unsafe fn are_truths(from: *const u8, n: usize) -> bool {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn looked_at<S: Simd>(from: *const u8, n: usize) -> bool {
        let mut bits = 0;
        for i in 0..n {
            // SAFETY: there are `n` bytes.
            bits |= unsafe { *from.add(i) };
        }
        bits <= 1
    }
    // SAFETY: there are `n` bytes.
    unsafe { dispatch!(looked_at(from: *const u8, n: usize) -> bool) }
}

/// One element of an array `n` times, as it is held in strips.
unsafe fn spread(kind: Kind, from: *const u8, to: *mut u8, n: usize) {
    let mut one = [0u8; 8];
    // SAFETY: `from` has one element, of at most eight bytes, and `to` room for `n`.
    unsafe {
        gathered(kind, from, 1, 1, one.as_mut_ptr());
        fill(register(kind).size(), one.as_ptr(), to, n);
    }
}

/// The bytes of one element `n` times.
pub(super) unsafe fn fill(size: usize, from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: `from` has one element, and `to` room for `n`.
    unsafe { dispatch!(filled(size: usize, from: *const u8, to: *mut u8, n: usize)) }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn filled<S: Simd>(size: usize, from: *const u8, to: *mut u8, n: usize) {
    macro_rules! fill {
        ($t:ty) => {{
            let (x, to) = (from.cast::<$t>().read_unaligned(), to.cast::<$t>());
            for i in 0..n {
                *to.add(i) = x;
            }
        }};
    }
    // SAFETY: `from` has one element, and `to` room for `n`.
    unsafe {
        match size {
            1 => fill!(u8),
            2 => fill!(u16),
            4 => fill!(u32),
            _ => fill!(u64),
        }
    }
}

/// Elements of an array, each `step` behind the last, as they are held in strips.
#[inline(always)]
pub(super) unsafe fn gathered(kind: Kind, from: *const u8, step: isize, n: usize, to: *mut u8) {
    macro_rules! each {
        ($t:ty) => {{
            let (from, to) = (from.cast::<$t>(), to.cast::<$t>());
            match step {
                1 => std::ptr::copy_nonoverlapping(from, to, n),
                step => {
                    for i in 0..n {
                        *to.add(i) = *from.offset(i as isize * step);
                    }
                }
            }
        }};
    }
    // SAFETY: `from` has `n` elements, `step` apart, and `to` room for as many.
    unsafe {
        if step == 0 {
            return spread(kind, from, to, n);
        }
        match kind {
            Kind::F16 | Kind::BF16 if step == 1 => {
                f32::widen(kind, n, from, to.cast());
            }
            Kind::F16 | Kind::BF16 => {
                let from = from.cast::<u16>();
                let mut i = 0;
                while i < n {
                    let part = (n - i).min(64);
                    let mut line = [0u16; 64];
                    for (j, x) in line.iter_mut().enumerate().take(part) {
                        *x = *from.offset((i + j) as isize * step);
                    }
                    let to = to.cast::<f32>().add(i);
                    f32::widen(kind, part, line.as_ptr().cast(), to);
                    i += part;
                }
            }
            Kind::Bool => {
                for i in 0..n {
                    *to.add(i) = u8::from(*from.offset(i as isize * step) != 0);
                }
            }
            kind => match kind.size() {
                1 => each!(u8),
                2 => each!(u16),
                4 => each!(u32),
                _ => each!(u64),
            },
        }
    }
}
