//! The bytecode verifier.
//!
//! A verified program never refers to a register, constant, function or instruction that does not
//! exist, reads no register that is unwritten or moved out on some path, and its tensor programs
//! stay inside their buffers, as ensured by [`relax_loops::verify`] and run-time checks. The kinds
//! of values are checked by the engine at run time.

use relax_loops::Program;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;

use crate::builtin::{Arity, Builtin, Plain};
use crate::code::{Arg, Callee, Executable, Function, Inst, Reg};

mod hints;

/// The limit on registers times jump targets, above what any real function needs.
const MOST_BITS: usize = 1 << 33;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The function or kernel concerned, if any.
    pub name: String,
    /// The instruction concerned, if any.
    pub at: Option<u32>,
    /// A description of the violation.
    pub message: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "@{}", self.name)?;
            if let Some(at) = self.at {
                write!(f, ", instruction {at}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Breach {}

type Result<T> = std::result::Result<T, String>;

/// Verifies a program: its code, and the tensor programs it calls.
///
/// # Errors
/// The first violation.
pub fn verify(program: &Executable) -> std::result::Result<(), Breach> {
    program.kernels.iter().try_for_each(|k| k.verify())?;
    code(program)
}

/// Verifies a tensor program.
pub(crate) fn program(p: &Program) -> Result<()> {
    let problems = relax_loops::verify(p).diagnostics(p);
    if let Some(d) = problems.iter().find(|d| d.is_error()) {
        return Err(d.message.clone());
    }
    let kernels = |k| relax_loops::select::check(p, k).is_ok();
    match hints::sound(p) && p.kernels.iter().all(kernels) {
        true => Ok(()),
        false => Err("its tensor program is said to be what it cannot be".to_owned()),
    }
}

/// Verifies everything except the tensor programs.
pub(crate) fn code(program: &Executable) -> std::result::Result<(), Breach> {
    let breach = |name: &str, at, message: String| Breach {
        name: name.to_owned(),
        at,
        message,
    };
    let funcs = unique(program.funcs.iter().map(|f| f.name.as_str()));
    let message = "the name is empty, or another function's".to_owned();
    funcs.map_err(|name| breach(name, None, message))?;
    let kernels = unique(program.kernels.iter().map(|k| k.name.as_str()));
    let message = "the name is empty, or another kernel's".to_owned();
    kernels.map_err(|name| breach(name, None, message))?;
    for entry in &program.entries {
        let f = program.funcs.get(entry.func as usize);
        let fits = f.is_some_and(|f| {
            !f.closure
                && f.params as usize == entry.params.len()
                && entry.types.len() == entry.params.len() + 1
        });
        if !fits {
            let message =
                "the entry's function takes other parameters, or there is none".to_owned();
            return Err(breach(&entry.name, None, message));
        }
    }
    for f in &program.funcs {
        let rules = Rules { program, f };
        rules
            .whole()
            .map_err(|message| breach(&f.name, None, message))?;
        for (at, inst) in f.code.iter().enumerate() {
            let checked = rules.inst(inst, at as u32);
            checked.map_err(|message| breach(&f.name, Some(at as u32), message))?;
        }
        let jumps = f
            .code
            .iter()
            .filter(|i| matches!(i, Inst::If(..) | Inst::Goto(_)));
        if jumps.count().saturating_mul(f.registers as usize) > MOST_BITS {
            let message = "the function is too large".to_owned();
            return Err(breach(&f.name, None, message));
        }
        if let Some((at, r)) = unwritten(f) {
            let message = format!("register %{r} is read where it may hold nothing");
            return Err(breach(&f.name, Some(at), message));
        }
    }
    Ok(())
}

/// Returns the first name that is empty or a duplicate, as the error.
fn unique<'n>(names: impl Iterator<Item = &'n str>) -> std::result::Result<(), &'n str> {
    let mut known = FxHashSet::default();
    for name in names {
        if name.is_empty() || !known.insert(name) {
            return Err(name);
        }
    }
    Ok(())
}

struct Rules<'p> {
    program: &'p Executable,
    f: &'p Function,
}

impl Rules<'_> {
    fn whole(&self) -> Result<()> {
        let f = self.f;
        // Each register other than a parameter is written by some instruction.
        let most = f.code.len() as u64 + u64::from(f.params);
        if f.params > f.registers || u64::from(f.registers) > most {
            return Err(format!(
                "{} registers, {} of them parameters",
                f.registers, f.params
            ));
        }
        if f.closure && f.params == 0 {
            return Err("the code of closures takes the closure".to_owned());
        }
        if !matches!(f.code.last(), Some(Inst::Ret(_) | Inst::Goto(_))) {
            return Err("the code goes on behind its end".to_owned());
        }
        let in_order = f.places.windows(2).all(|w| w[0].0 < w[1].0);
        if !in_order
            || f.places
                .last()
                .is_some_and(|p| p.0 as usize >= f.code.len())
        {
            return Err("the list of places is not in order".to_owned());
        }
        Ok(())
    }

    fn register(&self, r: Reg) -> Result<()> {
        if r < self.f.registers {
            return Ok(());
        }
        Err(format!("there is no register %{r}"))
    }

    fn target(&self, to: u32) -> Result<()> {
        if (to as usize) < self.f.code.len() {
            return Ok(());
        }
        Err(format!("there is no instruction {to}"))
    }

    fn arg(&self, arg: Arg, may_be_func: bool) -> Result<()> {
        match arg {
            Arg::Void | Arg::Int(_) => Ok(()),
            Arg::Reg(r) | Arg::Last(r) => self.register(r),
            Arg::Const(c) if (c as usize) < self.program.consts.len() => Ok(()),
            Arg::Const(c) => Err(format!("there is no constant c[{c}]")),
            Arg::Func(f) => match self.program.funcs.get(f as usize) {
                Some(f) if f.closure && may_be_func => Ok(()),
                _ => Err("a function stands where none can".to_owned()),
            },
        }
    }

    fn inst(&self, inst: &Inst, at: u32) -> Result<()> {
        match inst {
            Inst::Call { callee, args, dst } => {
                let makes = *callee == Callee::Builtin(Builtin::Plain(Plain::MakeClosure));
                for (i, &arg) in args.iter().enumerate() {
                    self.arg(arg, makes && i == 0)?;
                }
                if makes && !matches!(args.first(), Some(Arg::Func(_))) {
                    return Err("a closure is made of a function".to_owned());
                }
                dst.map_or(Ok(()), |r| self.register(r))?;
                self.callee(*callee, args.len())
            }
            Inst::Ret(value) => self.arg(*value, false),
            Inst::If(r, to) => {
                self.register(*r)?;
                if at as usize + 1 == self.f.code.len() {
                    return Err("the code goes on behind its end".to_owned());
                }
                self.target(*to)
            }
            Inst::Goto(to) => self.target(*to),
        }
    }

    fn callee(&self, callee: Callee, n: usize) -> Result<()> {
        let arity = match callee {
            Callee::Func(f) => match self.program.funcs.get(f as usize) {
                Some(f) if !f.closure => Arity::Just(f.params as usize),
                _ => return Err("there is no such function, or it is a closure's code".to_owned()),
            },
            Callee::Kernel(k) => match self.program.kernels.get(k as usize) {
                Some(k) => Arity::Just(k.inputs() + k.outputs()),
                None => return Err("there is no such kernel".to_owned()),
            },
            Callee::Builtin(b) => b.arity(),
        };
        let (fine, wanted) = match arity {
            Arity::Just(k) => (n == k, k.to_string()),
            Arity::Least(k) => (n >= k, format!("{k} or more")),
        };
        if fine {
            return Ok(());
        }
        Err(format!("{n} arguments for what takes {wanted}"))
    }
}

/// A set of registers that hold a value.
#[derive(Clone, PartialEq)]
struct Held(Vec<u64>);

impl Held {
    fn has(&self, r: Reg) -> bool {
        self.0[r as usize / 64] & (1 << (r % 64)) != 0
    }
    fn set(&mut self, r: Reg, held: bool) {
        let word = &mut self.0[r as usize / 64];
        match held {
            true => *word |= 1 << (r % 64),
            false => *word &= !(1 << (r % 64)),
        }
    }
    /// Intersects with the other set; returns whether that changed anything.
    fn meet(&mut self, other: &Held) -> bool {
        let mut changed = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            changed |= *a & !*b != 0;
            *a &= b;
        }
        changed
    }
}

/// Returns the first instruction that may read an empty register, and the register.
fn unwritten(f: &Function) -> Option<(u32, Reg)> {
    let mut start = Held(vec![0; (f.registers as usize).div_ceil(64)]);
    (0..f.params).for_each(|r| start.set(r, true));
    let goals: FxHashSet<u32> = (f.code.iter())
        .filter_map(|i| match i {
            Inst::If(_, to) | Inst::Goto(to) => Some(*to),
            _ => None,
        })
        .collect();
    let mut known: FxHashMap<u32, Held> = FxHashMap::default();
    let mut work = vec![(0, start)];
    while let Some((from, held)) = work.pop() {
        let mut held = match known.get_mut(&from) {
            Some(before) => match before.meet(&held) {
                true => before.clone(),
                false => continue,
            },
            None => {
                known.insert(from, held.clone());
                held
            }
        };
        let mut at = from;
        loop {
            let read = |arg: Arg, held: &mut Held| match arg {
                Arg::Reg(r) => (!held.has(r)).then_some(r),
                Arg::Last(r) => {
                    let missing = !held.has(r);
                    held.set(r, false);
                    missing.then_some(r)
                }
                _ => None,
            };
            match &f.code[at as usize] {
                Inst::Call { args, dst, .. } => {
                    if let Some(r) = args.iter().find_map(|&a| read(a, &mut held)) {
                        return Some((at, r));
                    }
                    if let Some(dst) = dst {
                        held.set(*dst, true);
                    }
                }
                Inst::Ret(value) => match read(*value, &mut held) {
                    Some(r) => return Some((at, r)),
                    None => break,
                },
                Inst::If(r, to) => {
                    if !held.has(*r) {
                        return Some((at, *r));
                    }
                    work.push((*to, held.clone()));
                }
                Inst::Goto(to) => {
                    work.push((*to, held));
                    break;
                }
            }
            at += 1;
            if goals.contains(&at) {
                work.push((at, held));
                break;
            }
        }
    }
    None
}
