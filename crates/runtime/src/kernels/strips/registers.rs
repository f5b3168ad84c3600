//! The steps of a chain, run in banks of vector registers.

use super::{Op, RxStripOp, apply};
use crate::kernels::simd::{Simd, dispatch};
use std::ptr::{null, null_mut};

/// The form of a step. `a` is the upper bank, `b` the lower one; `x` and `y` are strip
/// operands, `s` is a single number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Form {
    /// `a = x`.
    Load,
    /// `a = s`.
    LoadNumber,
    /// `b = a`.
    Push,
    /// `a = b`.
    Pop,
    /// `x = a`.
    Store,
    /// `a = op a`.
    Unary,
    /// `a = a op x`.
    Right,
    /// `a = a op s`.
    RightNumber,
    /// `a = x op a`.
    Left,
    /// `a = s op a`.
    LeftNumber,
    /// `a = b op a`.
    Both,
    /// `a = a op b`.
    Turned,
    /// `a = x op y`.
    Two,
    /// `a = x op s`.
    TwoNumber,
    /// Any operation of the program (number `x`), through memory; the banks are empty before and
    /// after.
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Its form.
    pub form: Form,
    /// What is done: see [`code`].
    pub code: u8,
    /// The first operand in memory.
    pub x: u8,
    /// The second one.
    pub y: u8,
}

/// Repeats code for every vector of a block, with a constant index, so that banks stay in
/// registers.
macro_rules! unrolled {
    ($u:ident, $i:ident => $body:expr) => {
        unrolled!(@ $u, $i => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $u:ident, $i:ident => $body:expr; $($n:literal)*) => {{
        $(
            if $n < $u {
                #[allow(non_upper_case_globals)]
                const $i: usize = $n;
                $body;
            }
        )*
    }};
}

/// The most vectors of a block.
const MOST: usize = 16;

/// The number under which [`blocks`] finds what a step does, in one jump: the forms that are no
/// binary operation first, then eight for each of these.
pub(super) fn code(form: Form, op: Op) -> u8 {
    let binary = |form: u8| {
        let op = match op {
            Op::Add => 0,
            Op::Sub => 1,
            Op::Mul => 2,
            Op::Div => 3,
            Op::Min => 4,
            _ => 5,
        };
        16 + 8 * op + form
    };
    match form {
        Form::Load => 0,
        Form::LoadNumber => 1,
        Form::Push => 2,
        Form::Pop => 3,
        Form::Store => 4,
        Form::Unary => match op {
            Op::Neg => 5,
            Op::Abs => 6,
            Op::RoundEven => 7,
            _ => 8,
        },
        Form::Right => binary(0),
        Form::RightNumber => binary(1),
        Form::Left => binary(2),
        Form::LeftNumber => binary(3),
        Form::Both => binary(4),
        Form::Turned => binary(5),
        Form::Two => binary(6),
        Form::TwoNumber => binary(7),
        Form::Other => u8::MAX,
    }
}

/// Runs the steps over a strip of `n` elements and stores the result; with `stream`, whole blocks
/// are stored non-temporally.
///
/// # Safety
/// Operands are strips of at least `n` elements, or point to one element for single numbers;
/// temporaries are strips of `room` from operand `first` on, and `out` has `n` elements.
pub(super) unsafe fn run(
    steps: &[Step],
    ops: &[RxStripOp],
    operands: &[*const f32],
    (first, n): (usize, usize),
    out: *mut f32,
    stream: bool,
) {
    // Once for each instruction set, not wherever it is called: the steps are much code.
    // SAFETY: as the function asks for.
    unsafe {
        dispatch!(widest(
            steps: &[Step],
            ops: &[RxStripOp],
            operands: &[*const f32],
            first: usize,
            n: usize,
            out: *mut f32,
            stream: bool,
        ));
    }
}

/// Blocks are as long as registers allow, since each costs a jump for every step.
#[inline(always)]
unsafe fn widest<S: Simd>(
    steps: &[Step],
    ops: &[RxStripOp],
    operands: &[*const f32],
    first: usize,
    n: usize,
    out: *mut f32,
    stream: bool,
) {
    // SAFETY: as for `run`.
    unsafe {
        if S::LANES == 16 {
            in_parts::<S, 16, 8, 4>(steps, ops, operands, first, n, out, stream);
        } else {
            in_parts::<S, 12, 6, 2>(steps, ops, operands, first, n, out, stream);
        }
    }
}

/// Runs in blocks of `W` vectors where the lower bank is not used, else `U`; what is left has blocks
/// of `P`.
#[inline(always)]
unsafe fn in_parts<S: Simd, const W: usize, const U: usize, const P: usize>(
    mut steps: &[Step],
    ops: &[RxStripOp],
    operands: &[*const f32],
    first: usize,
    n: usize,
    out: *mut f32,
    stream: bool,
) {
    while let Some((step, rest)) = steps.split_first() {
        // SAFETY: operands have `n` elements, steps name operations that exist, and `out` has room
        // for `n` floats.
        unsafe {
            if step.form == Form::Other {
                let op = ops.get_unchecked(step.x as usize);
                let mut args = [null(); 4];
                for (to, arg) in args.iter_mut().zip(op.args) {
                    *to = *operands.get_unchecked(arg as usize);
                }
                let to = *operands.get_unchecked(first + op.dst as usize);
                apply(op.op(), args, to.cast_mut(), n);
                steps = rest;
                continue;
            }
        }
        let other = steps.iter().position(|s| s.form == Form::Other);
        let (now, later) = steps.split_at(other.unwrap_or(steps.len()));
        let out = if later.is_empty() { out } else { null_mut() };
        let mut at = 0;
        // SAFETY: operands have `n` elements, steps name operations that exist, and `out` has room
        // for `n` floats.
        unsafe {
            if n >= W * S::LANES && !now.iter().any(|s| s.form == Form::Push) {
                at = n / (W * S::LANES) * (W * S::LANES);
                blocks::<S, W, false>(now, operands, (0, at), out, stream);
            }
        }
        let whole = at + (n - at) / (U * S::LANES) * (U * S::LANES);
        // SAFETY: operands have `n` elements, steps name operations that exist, and `out` has room
        // for `n` floats.
        unsafe {
            if at < whole {
                blocks::<S, U, false>(now, operands, (at, whole), out, stream);
            }
            if whole < n {
                blocks::<S, P, true>(now, operands, (whole, n), out, false);
            }
        }
        steps = later;
    }
}

/// Runs steps in registers over the elements from `at` up to `end`; the upper bank is stored to
/// `out` at the end, unless that is null. These are whole blocks, or with `PART` any number: lanes
/// beyond the last element are neither read nor written.
#[inline(always)]
unsafe fn blocks<S: Simd, const U: usize, const PART: bool>(
    steps: &[Step],
    operands: &[*const f32],
    (mut at, end): (usize, usize),
    out: *mut f32,
    stream: bool,
) {
    let block = U * S::LANES;
    // SAFETY: operands have the elements up to `end`, and steps name registers that exist.
    unsafe {
        let mut left = [S::LANES; MOST];
        let mut lanes = [S::lanes(0, S::LANES); MOST];
        while at < end {
            if PART {
                for i in 0..U {
                    left[i] = (end - at).saturating_sub(i * S::LANES).min(S::LANES);
                    lanes[i] = S::lanes(0, left[i]);
                }
            }
            let mut a = [S::splat(0.0); MOST];
            let mut b = [S::splat(0.0); MOST];
            macro_rules! put {
                ($to:expr, $i:ident) => {
                    if PART {
                        a[$i].store_part($to.wrapping_add($i * S::LANES), left[$i])
                    } else {
                        a[$i].store($to.add($i * S::LANES))
                    }
                };
            }
            for step in steps {
                // Closures would not be inlined with the instruction set enabled.
                macro_rules! number {
                    ($p:ident) => {
                        S::splat(**operands.get_unchecked(step.$p as usize))
                    };
                }
                macro_rules! over {
                    ($p:ident) => {
                        operands.get_unchecked(step.$p as usize).add(at)
                    };
                }
                macro_rules! strip {
                    ($p:expr, $i:ident) => {
                        if PART {
                            S::load_lanes($p.wrapping_add($i * S::LANES), lanes[$i])
                        } else {
                            S::load($p.add($i * S::LANES))
                        }
                    };
                }
                macro_rules! table {
                    ($($op:ident $right:literal $right_number:literal $left:literal
                       $left_number:literal $both:literal $turned:literal $two:literal
                       $two_number:literal;)*) => {
                        match step.code {
                            0 => unrolled!(U, I => a[I] = strip!(over!(x), I)),
                            1 => unrolled!(U, I => a[I] = number!(x)),
                            2 => unrolled!(U, I => b[I] = a[I]),
                            3 => unrolled!(U, I => a[I] = b[I]),
                            4 => {
                                let x = over!(x).cast_mut();
                                unrolled!(U, I => put!(x, I));
                            }
                            5 => unrolled!(U, I => a[I] = S::splat(-0.0).sub(a[I])),
                            6 => unrolled!(U, I => a[I] = a[I].abs()),
                            7 => unrolled!(U, I => a[I] = a[I].round()),
                            8 => unrolled!(U, I => a[I] = a[I].sqrt()),
                            $(
                                $right => {
                                    let x = over!(x);
                                    unrolled!(U, I => a[I] = a[I].$op(strip!(x, I)));
                                }
                                $right_number => {
                                    let s = number!(x);
                                    unrolled!(U, I => a[I] = a[I].$op(s));
                                }
                                $left => {
                                    let x = over!(x);
                                    unrolled!(U, I => a[I] = strip!(x, I).$op(a[I]));
                                }
                                $left_number => {
                                    let s = number!(x);
                                    unrolled!(U, I => a[I] = s.$op(a[I]));
                                }
                                $both => unrolled!(U, I => a[I] = b[I].$op(a[I])),
                                $turned => unrolled!(U, I => a[I] = a[I].$op(b[I])),
                                $two => {
                                    let (x, y) = (over!(x), over!(y));
                                    unrolled!(U, I => a[I] = strip!(x, I).$op(strip!(y, I)));
                                }
                                $two_number => {
                                    let (x, s) = (over!(x), number!(y));
                                    unrolled!(U, I => a[I] = strip!(x, I).$op(s));
                                }
                            )*
                            _ => {}
                        }
                    };
                }
                table! {
                    add 16 17 18 19 20 21 22 23;
                    sub 24 25 26 27 28 29 30 31;
                    mul 32 33 34 35 36 37 38 39;
                    div 40 41 42 43 44 45 46 47;
                    min 48 49 50 51 52 53 54 55;
                    max 56 57 58 59 60 61 62 63;
                }
            }
            if stream && !out.is_null() {
                unrolled!(U, I => a[I].stream(out.add(at + I * S::LANES)));
            } else if !out.is_null() {
                unrolled!(U, I => put!(out.add(at), I));
            }
            at += block;
        }
    }
}
