//! Element-wise expressions over few elements.
//!
//! The preparation by [`strips`](super::strips) for long arrays (axes joined, strips cut, work
//! split) takes longer than computing a handful of vectors. Contiguous arrays and single numbers
//! are read in place.

use crate::kernels::strips::{RxStripOp, RxStrips, apply};
use std::mem::MaybeUninit;

/// The maximum number of elements of a result.
const MOST: usize = 64;
/// The maximum number of inputs, constants and temporaries together.
const OPERANDS: usize = 16;

/// The layout of an input.
#[derive(Clone, Copy, PartialEq)]
enum Lies {
    /// Its elements are the result's, in order.
    Alike,
    /// One element is broadcast.
    Once,
}

/// Runs an expression; `false` when it is left to strips.
///
/// # Safety
/// As for [`evaluate`](super::strips::evaluate).
pub(crate) unsafe fn run(v: &RxStrips) -> bool {
    let operands = v.inputs + v.constants + v.temps;
    if v.reduced != 0 || operands as usize > OPERANDS || v.ops < 1 || v.axes < 0 {
        return false;
    }
    let (axes, inputs) = (v.axes as usize, v.inputs as usize);
    let mut n = 1usize;
    // SAFETY: the structure is live, and its lists are as long as it says.
    unsafe {
        for axis in 0..axes {
            n = n.saturating_mul((*v.extents.add(axis)).max(0) as usize);
        }
    }
    if n == 0 || n > MOST {
        return false;
    }
    let mut lies = [Lies::Alike; OPERANDS];
    for (k, to) in lies.iter_mut().enumerate().take(inputs) {
        let (mut alike, mut once, mut step) = (true, true, 1);
        // SAFETY: the structure is live, and its lists are as long as it says.
        unsafe {
            for axis in (0..axes).rev() {
                let extent = *v.extents.add(axis);
                if extent == 1 {
                    continue;
                }
                let found = *v.strides.add(k * axes + axis);
                alike &= found == step;
                once &= found == 0;
                step *= extent;
            }
        }
        *to = match (alike, once) {
            (true, _) => Lies::Alike,
            (_, true) => Lies::Once,
            _ => return false,
        };
    }
    // SAFETY: the structure is live, and its lists are as long as it says.
    unsafe {
        expression(v, n, &lies);
    }
    true
}

unsafe fn expression(v: &RxStrips, n: usize, lies: &[Lies; OPERANDS]) {
    let (inputs, constants) = (v.inputs as usize, v.constants as usize);
    let mut room = MaybeUninit::<[[f32; MOST]; OPERANDS]>::uninit();
    let room: *mut f32 = room.as_mut_ptr().cast();
    let fill = |k: usize, x: f32| {
        // SAFETY: inputs have the elements that they lie in, and the result and all rows of room `n`.
        unsafe {
            let at = room.add(k * MOST);
            for i in 0..n {
                *at.add(i) = x;
            }
            at.cast_const()
        }
    };
    let mut at = [std::ptr::null::<f32>(); OPERANDS];
    // SAFETY: inputs have the elements that they lie in, and the result and all rows of room `n`.
    unsafe {
        for (k, at) in at.iter_mut().enumerate() {
            *at = if k < inputs {
                let from = *v.data.add(k);
                match lies[k] {
                    Lies::Alike => from,
                    Lies::Once => fill(k, *from),
                }
            } else if k < inputs + constants {
                fill(k, *v.values.add(k - inputs))
            } else {
                room.add(k * MOST).cast_const()
            };
        }
    }
    // SAFETY: inputs have the elements that they lie in, and the result and all rows of room `n`.
    let ops: &[RxStripOp] = unsafe { std::slice::from_raw_parts(v.program, v.ops as usize) };
    // SAFETY: inputs have the elements that they lie in, and the result and all rows of room `n`.
    unsafe {
        for (k, op) in ops.iter().enumerate() {
            let to = if k + 1 == ops.len() {
                v.out
            } else {
                room.add((inputs + constants + op.dst as usize) * MOST)
            };
            let arg = |i: usize| at[op.args[i] as usize];
            apply(op.op(), [arg(0), arg(1), arg(2), arg(3)], to, n);
        }
    }
}
