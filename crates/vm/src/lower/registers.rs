//! Register allocation: linear scan over the function, in block order. A value's register is free
//! after its last use.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::End;
use super::live::{Code, Lives, registers};
use crate::builtin::{Builtin, Plain};
use crate::code::{Arg, Callee, Reg};

/// A live range; an instruction's reads come before its writes.
#[derive(Clone, Copy)]
struct Span {
    from: u32,
    to: u32,
}

/// Assigns registers, and marks the last uses of values that own memory. Returns the number of
/// registers.
pub(super) fn assign(code: &mut Code, lives: &Lives, order: &[usize]) -> u32 {
    let spans = spans(code, lives, order);
    mark(code, lives, order);
    let (numbers, count) = scan(code, &spans, order);
    let name = |r: &mut Reg| *r = numbers[*r as usize];
    for block in &mut code.blocks {
        for call in &mut block.calls {
            for arg in &mut call.args {
                if let Arg::Reg(r) | Arg::Last(r) = arg {
                    name(r);
                }
            }
            call.dst.iter_mut().for_each(name);
        }
        match &mut block.end {
            End::Ret(Arg::Reg(r) | Arg::Last(r)) | End::If(r, ..) => name(r),
            End::Ret(_) | End::Goto(_) => {}
        }
        // Copies whose source and destination were assigned the same register.
        block.calls.retain(|c| {
            let copy = c.callee == Callee::Builtin(Builtin::Plain(Plain::Copy));
            let same = |a: &Arg| matches!(a, Arg::Reg(r) | Arg::Last(r) if Some(*r) == c.dst);
            !(copy && same(&c.args[0]))
        });
    }
    count
}

fn spans(code: &Code, lives: &Lives, order: &[usize]) -> Vec<Option<Span>> {
    let mut spans: Vec<Option<Span>> = vec![None; code.registers as usize];
    let mut note = |r: Reg, at: u32| {
        let span = spans[r as usize].get_or_insert(Span { from: at, to: at });
        span.from = span.from.min(at);
        span.to = span.to.max(at);
    };
    (0..code.params).for_each(|r| note(r, 0));
    let mut at = 2;
    for &k in order {
        lives.at_start[k].iter().for_each(|&r| note(r, at));
        for call in &code.blocks[k].calls {
            registers(&call.args).for_each(|r| note(r, at));
            call.dst.into_iter().for_each(|r| note(r, at + 1));
            at += 2;
        }
        code.blocks[k].last().into_iter().for_each(|r| note(r, at));
        lives.at_end[k].iter().for_each(|&r| note(r, at + 1));
        at += 2;
    }
    spans
}

/// Marks last uses.
fn mark(code: &mut Code, lives: &Lives, order: &[usize]) {
    let owners = &code.owners;
    for &k in order {
        let mut needed = lives.at_end[k].clone();
        let block = &mut code.blocks[k];
        match &mut block.end {
            End::Ret(value) => {
                if let Arg::Reg(r) = *value {
                    needed.insert(r);
                    *value = Arg::Last(r);
                }
            }
            End::If(r, ..) => {
                needed.insert(*r);
            }
            End::Goto(_) => {}
        }
        for call in block.calls.iter_mut().rev() {
            if let Some(dst) = call.dst {
                needed.remove(&dst);
            }
            for arg in call.args.iter_mut().rev() {
                if let Arg::Reg(r) = *arg
                    && needed.insert(r)
                    && owners.contains(&r)
                {
                    *arg = Arg::Last(r);
                }
            }
        }
    }
}

/// Returns the register of each value.
fn scan(code: &Code, spans: &[Option<Span>], order: &[usize]) -> (Vec<Reg>, u32) {
    let mut numbers: Vec<Reg> = vec![0; spans.len()];
    // Values that are copied into others, which prefer the same register.
    let mut wish: Vec<Option<Reg>> = vec![None; spans.len()];
    for call in order.iter().flat_map(|&k| &code.blocks[k].calls) {
        if call.callee == Callee::Builtin(Builtin::Plain(Plain::Copy))
            && let (Some(dst), Some(Arg::Reg(r) | Arg::Last(r))) = (call.dst, call.args.first())
        {
            wish[dst as usize].get_or_insert(*r);
            wish[*r as usize].get_or_insert(dst);
        }
    }
    let mut values: Vec<(Span, Reg)> = (0..spans.len() as u32)
        .filter_map(|r| Some((spans[r as usize]?, r)))
        .collect();
    // Parameters come first: their registers are fixed.
    values.sort_by_key(|(span, r)| (*r >= code.params, span.from, *r));
    let mut free_from: Vec<u32> = Vec::new();
    let mut given: Vec<bool> = vec![false; spans.len()];
    let mut free: BinaryHeap<Reverse<Reg>> = BinaryHeap::new();
    let mut busy: BinaryHeap<Reverse<(u32, Reg)>> = BinaryHeap::new();
    for (span, r) in values {
        while let Some(&Reverse((to, number))) = busy.peek() {
            if to >= span.from {
                break;
            }
            busy.pop();
            free.push(Reverse(number));
        }
        let number = if r < code.params {
            free_from.push(0);
            r
        } else {
            let wished = wish[r as usize].filter(|&w| given[w as usize]);
            let wished = wished.map(|w| numbers[w as usize]);
            match wished.filter(|&n| free_from[n as usize] < span.from) {
                Some(n) => {
                    free.retain(|f| f.0 != n);
                    n
                }
                None => match free.pop() {
                    Some(Reverse(n)) => n,
                    None => {
                        free_from.push(0);
                        free_from.len() as u32 - 1
                    }
                },
            }
        };
        given[r as usize] = true;
        numbers[r as usize] = number;
        free_from[number as usize] = span.to;
        busy.push(Reverse((span.to, number)));
    }
    (numbers, free_from.len() as u32)
}
