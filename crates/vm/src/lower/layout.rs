//! Block layout and instruction emission.

use super::{Block, End};
use crate::code::Inst;

/// Orders the reachable blocks such that most are followed by a successor. Jumps through empty
/// blocks are threaded.
pub(super) fn order(blocks: &mut [Block]) -> Vec<usize> {
    let goal = |blocks: &[Block], mut to: usize| {
        // A cycle of empty blocks would never end.
        for _ in 0..blocks.len() {
            match blocks[to].end {
                End::Goto(next) if blocks[to].calls.is_empty() => to = next,
                _ => break,
            }
        }
        to
    };
    for k in 0..blocks.len() {
        let mut end = blocks[k].end.clone();
        match &mut end {
            End::Ret(_) => {}
            End::Goto(to) => *to = goal(blocks, *to),
            End::If(_, then, otherwise) => {
                *then = goal(blocks, *then);
                *otherwise = goal(blocks, *otherwise);
            }
        }
        blocks[k].end = end;
    }
    let mut order = Vec::with_capacity(blocks.len());
    let mut placed = vec![false; blocks.len()];
    let mut work = vec![0];
    while let Some(mut k) = work.pop() {
        while !placed[k] {
            placed[k] = true;
            order.push(k);
            match blocks[k].end {
                End::Ret(_) => break,
                End::Goto(to) => k = to,
                End::If(_, then, otherwise) => {
                    work.push(otherwise);
                    k = then;
                }
            }
        }
    }
    order
}

/// Returns the number of instructions of a block's terminator, given the block that is emitted
/// `next`.
fn length(end: &End, next: Option<usize>) -> usize {
    match end {
        End::Ret(_) => 1,
        End::Goto(to) => usize::from(next != Some(*to)),
        End::If(_, then, _) => 1 + usize::from(next != Some(*then)),
    }
}

/// Emits the instructions of blocks in an order, with the source locations of those that have one.
pub(super) fn code(blocks: &[Block], order: &[usize]) -> (Vec<Inst>, Vec<(u32, String)>) {
    let mut starts = vec![0u32; blocks.len()];
    let mut at = 0;
    for (i, &k) in order.iter().enumerate() {
        starts[k] = at as u32;
        at += blocks[k].calls.len() + length(&blocks[k].end, order.get(i + 1).copied());
    }
    let (mut code, mut places) = (Vec::with_capacity(at), Vec::new());
    for (i, &k) in order.iter().enumerate() {
        for call in &blocks[k].calls {
            if !call.place.as_str().is_empty() {
                places.push((code.len() as u32, call.place.to_string()));
            }
            code.push(Inst::Call {
                callee: call.callee,
                args: call.args.clone().into(),
                dst: call.dst,
            });
        }
        let next = order.get(i + 1).copied();
        match &blocks[k].end {
            End::Ret(value) => code.push(Inst::Ret(*value)),
            End::Goto(to) if next != Some(*to) => code.push(Inst::Goto(starts[*to])),
            End::Goto(_) => {}
            End::If(r, then, otherwise) => {
                code.push(Inst::If(*r, starts[*otherwise]));
                if next != Some(*then) {
                    code.push(Inst::Goto(starts[*then]));
                }
            }
        }
    }
    (code, places)
}
