//! Propagation of constants through parameters and captured variables.
//!
//! A recursive function passes its weights to itself, a closure captures them: where every call
//! passes the same constant, the function reads the constant itself, and neither takes it nor keeps
//! it alive. A kernel that reads it there gets it packed (`relax_codegen`). This is interprocedural
//! conditional constant propagation over the calls of the whole program, restricted to tensors in
//! its text (Callahan, Cooper, Kennedy and Torczon, "Interprocedural Constant Propagation", 1986).

use rustc_hash::FxHashMap;

use crate::lir::{BlockId, DataId, FnId, Inst, LFunc, Lowered, Reg, Term};

/// The lattice value of a parameter or captured variable.
#[derive(Clone, Copy, PartialEq, Default)]
enum Known {
    /// No call has been seen yet.
    #[default]
    Nothing,
    /// All calls seen so far pass this constant.
    Always(DataId),
    Varies,
}

impl Known {
    fn meet(&mut self, other: Known) -> bool {
        let met = match (*self, other) {
            (k, Known::Nothing) | (Known::Nothing, k) => k,
            (a, b) if a == b => a,
            _ => Known::Varies,
        };
        std::mem::replace(self, met) != met
    }
}

/// The facts about the parameters and the captured values of a function.
struct Places {
    params: Vec<Known>,
    captures: Vec<Known>,
}

/// Moves constants into the functions that they reach.
pub(crate) fn propagate(out: &mut Lowered) {
    let mut places: Vec<Places> = (out.funcs.values())
        .map(|f| {
            // Closures have unknown callers, entries have callers outside.
            let open = f.captures.is_some() || f.forms.is_entry;
            let start = if open { Known::Varies } else { Known::Nothing };
            Places {
                params: vec![start; f.params.len()],
                captures: vec![Known::Nothing; f.captures.unwrap_or(0) as usize],
            }
        })
        .collect();
    let mut work: Vec<FnId> = out.funcs.ids().rev().collect();
    let mut queued = vec![true; out.funcs.len()];
    while let Some(id) = work.pop() {
        queued[id.0 as usize] = false;
        let f = &out.funcs[id];
        let known = constants(f, &places[id.0 as usize]);
        let mut give = |func: FnId, captures: bool, args: &[Reg]| {
            let to = &mut places[func.0 as usize];
            let to = if captures {
                &mut to.captures
            } else {
                &mut to.params
            };
            let mut changed = false;
            for (place, r) in to.iter_mut().zip(args) {
                changed |= place.meet(known.get(r).copied().unwrap_or(Known::Varies));
            }
            if changed && !std::mem::replace(&mut queued[func.0 as usize], true) {
                work.push(func);
            }
        };
        for block in f.blocks.values() {
            for inst in &block.insts {
                match inst {
                    Inst::Call { func, args, .. } => give(*func, false, args),
                    Inst::Closure { func, captures, .. } => give(*func, true, captures),
                    _ => {}
                }
            }
            if let Term::TailCall { func, args, .. } = &block.term {
                give(*func, false, args);
            }
        }
    }
    let is_constant = |k: &Known| matches!(k, Known::Always(_));
    let any = |p: &Places| p.params.iter().chain(&p.captures).any(is_constant);
    if places.iter().any(any) {
        for id in out.funcs.ids() {
            rewrite(&mut out.funcs[id], id, &places);
        }
    }
}

/// Returns the registers of a function whose value is a constant, or not known yet.
fn constants(f: &LFunc, places: &Places) -> FxHashMap<Reg, Known> {
    let mut known: FxHashMap<Reg, Known> = FxHashMap::default();
    known.extend(f.params.iter().copied().zip(places.params.iter().copied()));
    for inst in f.blocks.values().flat_map(|b| &b.insts) {
        match inst {
            Inst::Const { dst, data } => {
                known.insert(*dst, Known::Always(*data));
            }
            Inst::Capture { dst, index } => {
                known.insert(*dst, places.captures[*index as usize]);
            }
            _ => {}
        }
    }
    known
}

/// Rewrites a function without the parameters and captured values that are constants, and with
/// calls that do not pass them.
fn rewrite(f: &mut LFunc, id: FnId, places: &[Places]) {
    let own = &places[id.0 as usize];
    let mut consts: Vec<Inst> = Vec::new();
    for (&dst, k) in f.params.iter().zip(&own.params) {
        if let Known::Always(data) = *k {
            consts.push(Inst::Const { dst, data });
        }
    }
    leave(&mut f.params, &own.params);
    f.captures = (f.captures).map(|_| own.captures.iter().filter(|k| stays(k)).count() as u32);
    for block in f.blocks.values_mut() {
        for inst in &mut block.insts {
            match inst {
                Inst::Call { func, args, .. } => leave(args, &places[func.0 as usize].params),
                Inst::Closure { func, captures, .. } => {
                    leave(captures, &places[func.0 as usize].captures);
                }
                Inst::Capture { dst, index } => {
                    let at = *index as usize;
                    if let Known::Always(data) = own.captures[at] {
                        *inst = Inst::Const { dst: *dst, data };
                    } else {
                        *index = own.captures[..at].iter().filter(|k| stays(k)).count() as u32;
                    }
                }
                _ => {}
            }
        }
        if let Term::TailCall { func, args, .. } = &mut block.term {
            leave(args, &places[func.0 as usize].params);
        }
    }
    if !f.blocks.is_empty() {
        f.blocks[BlockId(0)].insts.splice(0..0, consts);
    }
}

fn stays(k: &Known) -> bool {
    !matches!(k, Known::Always(_))
}

/// Removes parameters, or arguments for them, that are constants.
fn leave(regs: &mut Vec<Reg>, places: &[Known]) {
    let mut k = 0;
    regs.retain(|_| {
        k += 1;
        stays(&places[k - 1])
    });
}
