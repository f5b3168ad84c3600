//! Borrow inference: which parameters are lent rather than passed with ownership.
//!
//! A function that only reads an instance of a data type need not own it: its caller keeps the
//! instance alive, and neither counts references, also not for the parts that the function takes
//! out of it and only reads (Ullrich and de Moura, "Counting Immutable Beans", 2019, section 5).
//! Registers are lent unless something requires their ownership:
//!
//! - something consumes them, or they were created here;
//! - they are a part of a value that is owned, which may be released before they are, or a part of
//!   them is owned: then the last use of the whole value can pass its parts on;
//! - a caller tail-calls the function with a value of its own, which nobody remains to release.
//!
//! Tensors are always passed with ownership: a kernel may write its result into the memory of an
//! argument that dies, and memory is released as early as possible.

use relax_base::Arena;

use crate::lir::{FnId, Hold, Inst, LFunc, Lowered, Reg, Term};

/// The owned parameters of each function.
type Owned = Vec<Vec<bool>>;

/// Runs the inference for all functions, and records the result in their registers and calls.
pub(crate) fn infer(out: &mut Lowered) {
    let mut owned: Owned = out.funcs.values().map(not_candidates).collect();
    if owned.iter().flatten().all(|o| *o) {
        return;
    }
    settle(&out.funcs, &mut owned);
    for id in out.funcs.ids() {
        let held = registers(id, &out.funcs[id], &owned);
        mark(&mut out.funcs[id], &held, &owned);
    }
}

fn not_candidates(f: &LFunc) -> Vec<bool> {
    let lent = |r: &Reg| f.captures.is_none() && !f.forms.is_entry && f.forms.data.contains(r);
    f.params.iter().map(|r| !lent(r)).collect()
}

/// Returns which registers a function owns, given the owned parameters in `owned`.
fn registers(id: FnId, f: &LFunc, owned: &Owned) -> Vec<bool> {
    let mut held = vec![false; f.regs.len()];
    let mut work: Vec<Reg> = Vec::new();
    // Registers with common ownership: parts and wholes, arguments and parameters of blocks.
    let mut together: Vec<Vec<Reg>> = vec![Vec::new(); f.regs.len()];
    let mut join = |a: Reg, b: Reg| {
        together[a.0 as usize].push(b);
        together[b.0 as usize].push(a);
    };
    let given = |func: &FnId, args: &[Reg], work: &mut Vec<Reg>| {
        let takes = &owned[func.0 as usize];
        let own = args.iter().zip(takes).filter(|(_, o)| **o);
        work.extend(own.map(|(r, _)| *r));
    };
    let own = f.params.iter().zip(&owned[id.0 as usize]);
    work.extend(own.filter(|(_, o)| **o).map(|(r, _)| *r));
    for block in f.blocks.values() {
        for inst in &block.insts {
            match inst {
                Inst::Field { dst, src, .. } => join(*dst, *src),
                Inst::Call {
                    dst, func, args, ..
                } => {
                    given(func, args, &mut work);
                    work.push(*dst);
                }
                _ => {
                    work.extend(inst.consumes());
                    work.extend(inst.defines());
                }
            }
        }
        match &block.term {
            Term::Jump(to, args) => {
                let to = &f.blocks[*to].params;
                args.iter().zip(to).for_each(|(&a, &p)| join(a, p));
            }
            Term::TailCall { func, args, .. } => given(func, args, &mut work),
            term => work.extend(term.consumes()),
        }
    }
    while let Some(r) = work.pop() {
        if f.is_counted(r) && !std::mem::replace(&mut held[r.0 as usize], true) {
            work.extend(&together[r.0 as usize]);
        }
    }
    held
}

/// Adds ownership to parameters until every call is consistent.
fn settle(funcs: &Arena<FnId, LFunc>, owned: &mut Owned) {
    let mut callers: Vec<Vec<FnId>> = vec![Vec::new(); funcs.len()];
    for (id, f) in funcs.iter() {
        for block in f.blocks.values() {
            for inst in &block.insts {
                if let Inst::Call { func, .. } = inst {
                    callers[func.0 as usize].push(id);
                }
            }
            if let Term::TailCall { func, .. } = &block.term {
                callers[func.0 as usize].push(id);
            }
        }
    }
    let mut work: Vec<FnId> = funcs.ids().rev().collect();
    let mut queued = vec![true; funcs.len()];
    while let Some(id) = work.pop() {
        queued[id.0 as usize] = false;
        let f = &funcs[id];
        let held = registers(id, f, owned);
        let mut changed = Vec::new();
        for (k, r) in f.params.iter().enumerate() {
            if held[r.0 as usize] && !std::mem::replace(&mut owned[id.0 as usize][k], true) {
                changed.push(id);
            }
        }
        for block in f.blocks.values() {
            let Term::TailCall { func, args, .. } = &block.term else {
                continue;
            };
            if f.forms.is_entry {
                // Nothing calls it, so a call at its end need not be a jump.
                continue;
            }
            for (k, r) in args.iter().enumerate() {
                let takes = &mut owned[func.0 as usize][k];
                if held[r.0 as usize] && !std::mem::replace(takes, true) {
                    changed.push(*func);
                }
            }
        }
        for g in changed {
            for &c in callers[g.0 as usize].iter().chain([&g]) {
                if !std::mem::replace(&mut queued[c.0 as usize], true) {
                    work.push(c);
                }
            }
        }
    }
}

/// Records the result.
fn mark(f: &mut LFunc, held: &[bool], owned: &Owned) {
    for (hold, held) in f.regs.iter_mut().zip(held) {
        if *hold == Hold::Value && !held {
            *hold = Hold::Lent;
        }
    }
    let lends = |func: &FnId| -> Vec<bool> {
        let takes = &owned[func.0 as usize];
        if takes.iter().all(|o| *o) {
            return Vec::new();
        }
        takes.iter().map(|o| !o).collect()
    };
    let mut ends = Vec::new();
    for (id, block) in f.blocks.iter() {
        if matches!(&block.term, Term::TailCall { func, .. } if !lends(func).is_empty()) {
            ends.push(id);
        }
    }
    for block in f.blocks.values_mut() {
        for inst in &mut block.insts {
            if let Inst::Call { func, lent, .. } = inst {
                *lent = lends(func);
            }
        }
        if let Term::TailCall { func, lent, .. } = &mut block.term {
            *lent = lends(func);
        }
    }
    if !f.forms.is_entry {
        return;
    }
    for id in ends {
        let dst = f.reg(Hold::Value);
        if let Term::TailCall { func, args, lent } =
            std::mem::replace(&mut f.blocks[id].term, Term::Return(dst))
        {
            let call = Inst::Call {
                dst,
                func,
                args,
                lent,
            };
            f.blocks[id].insts.push(call);
        }
    }
}
