//! The interpreter loop of the virtual machine.
//!
//! Invariant: neither deep recursion nor deep values use the native stack; tail calls use no
//! memory.
//!
//! Invariant: whatever the program and its arguments, a run that terminates ends with a value or a
//! fault.

use relax_loops::STEP;
use relax_tensor::DType;
use std::rc::Rc;

use crate::builtin::{Builtin, Plain};
use crate::code::{Arg, Callee, Const, Executable, Function, Inst, Reg};
use crate::fault::{ENDED, Fault, STACK, STEPS, Trouble};
use crate::kernels::Kernels;
use crate::packed::{NoPacked, Packed};
use crate::value::{Node, Value};

/// An observer of a run, called before each instruction.
pub trait Watch {
    /// Observes the next instruction. Returns whether the run continues.
    fn step(&mut self, moment: &Moment<'_>) -> bool;
}

/// The state of a run before an instruction.
pub struct Moment<'m> {
    /// The program.
    pub program: &'m Executable,
    /// The current function.
    pub function: &'m Function,
    /// The index of the instruction.
    pub at: u32,
    /// The function's registers.
    pub registers: &'m [Value],
    frames: &'m [Frame],
}

impl Moment<'_> {
    /// Returns the depth of the call stack.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Iterates over the call stack, innermost first, as function names with instruction indices.
    pub fn calls(&self) -> impl Iterator<Item = (&str, u32)> {
        let name = |f: &Frame| self.program.funcs[f.func as usize].name.as_str();
        let outer = self.frames.iter().rev().skip(1);
        let outer = outer.map(move |f| (name(f), f.at.saturating_sub(1)));
        std::iter::once((self.function.name.as_str(), self.at)).chain(outer)
    }
}

mod quick;

/// The default limit on the registers of all frames: 2 GiB of them.
const MOST_REGISTERS: usize = (2 << 30) / size_of::<Value>();

/// The number of calls shown in a fault's message.
const SHOWN_CALLS: usize = 16;

struct Frame {
    func: u32,
    /// The index of the next instruction.
    at: u32,
    /// The first register.
    base: usize,
    /// The caller's destination register for the result.
    dst: Option<Reg>,
}

/// A machine that runs one program.
pub struct Machine<'e> {
    program: &'e Executable,
    kernels: Box<dyn Kernels + 'e>,
    packed: Box<dyn Packed + 'e>,
    watch: Option<Box<dyn Watch + 'e>>,
    consts: Vec<Value>,
    registers: Vec<Value>,
    frames: Vec<Frame>,
    /// The arguments of the current call.
    args: Vec<Value>,
    most_registers: usize,
    steps: u64,
}

impl<'e> Machine<'e> {
    /// Creates a machine for a program whose kernels are run by `kernels`.
    pub fn new(program: &'e Executable, kernels: impl Kernels + 'e) -> Machine<'e> {
        let value = |c: &Const| match c {
            Const::Tensor(t) => Value::Tensor(Rc::new(t.clone())),
            Const::Scalar(dtype, bits) => Value::Scalar(*dtype, *bits),
            Const::Shape(dims) => Value::Shape(Rc::new(dims.clone())),
            Const::Text(text) => Value::Text(Rc::new(text.clone())),
        };
        Machine {
            program,
            kernels: Box::new(kernels),
            packed: Box::new(NoPacked),
            watch: None,
            consts: program.consts.iter().map(value).collect(),
            registers: Vec::new(),
            frames: Vec::new(),
            args: Vec::new(),
            most_registers: MOST_REGISTERS,
            steps: u64::MAX,
        }
    }

    /// Sets the packed functions.
    #[must_use]
    pub fn with_packed(mut self, packed: impl Packed + 'e) -> Self {
        self.packed = Box::new(packed);
        self
    }

    /// Sets an observer.
    #[must_use]
    pub fn with_watch(mut self, watch: impl Watch + 'e) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Limits the number of steps; exceeding it is a fault. A step is an instruction, or a hundred
    /// iterations of loops in kernels, as their engine counts them: [`Loops`](crate::Loops) as it
    /// goes, native ones before a call.
    #[must_use]
    pub fn with_max_steps(mut self, steps: Option<u64>) -> Self {
        self.steps = steps.unwrap_or(u64::MAX);
        self
    }

    /// Limits the memory of the registers of all frames, in bytes.
    #[must_use]
    pub fn with_stack(mut self, bytes: u64) -> Self {
        self.most_registers = usize::try_from(bytes).unwrap_or(usize::MAX) / size_of::<Value>();
        self
    }

    /// Calls a function by index.
    ///
    /// # Errors
    /// The program fails, or the number of arguments is wrong.
    pub fn call(&mut self, func: u32, arguments: Vec<Value>) -> Result<Value, Fault> {
        let room = self.room(func, arguments.len(), 0);
        let result = room.and_then(|end| {
            self.registers.extend(arguments);
            self.start(func, 0, end, None);
            self.run()
        });
        let result = result.map_err(|t| self.fault(*t));
        self.frames.clear();
        self.registers.clear();
        self.args.clear();
        result
    }

    fn fault(&self, t: Trouble) -> Fault {
        let funcs = &self.program.funcs;
        let here = self.frames.last().map(|f| (f.func, f.at.saturating_sub(1)));
        let place = here
            .map_or("", |(func, at)| funcs[func as usize].place(at))
            .to_owned();
        let (place, called) = match t.own {
            Some((own, true)) => (own, Some(place).filter(|p| !p.is_empty())),
            Some((own, false)) => (own, None),
            None => (place, None),
        };
        let calls = self.frames.iter().rev().take(SHOWN_CALLS);
        Fault {
            code: t.code,
            message: t.message,
            place,
            called,
            stack: calls
                .map(|f| (funcs[f.func as usize].name.clone(), f.at.saturating_sub(1)))
                .collect(),
        }
    }

    /// Returns the end of the register window of a call that starts at `base`.
    fn room(&self, func: u32, args: usize, base: usize) -> Result<usize, Box<Trouble>> {
        let f = &self.program.funcs[func as usize];
        if args != f.params as usize {
            let wanted = f.params;
            return Err(Trouble::malformed(format_args!(
                "@{} takes {wanted} arguments, not {args}",
                f.name
            )));
        }
        let end = base + f.registers as usize;
        if end > self.most_registers || self.frames.len() >= self.most_registers {
            let bytes = self.most_registers * size_of::<Value>();
            let message = format!("calls nest deeper than the stack of {bytes} bytes allows");
            return Err(Trouble::new(STACK, message));
        }
        Ok(end)
    }

    /// Starts a call whose arguments were pushed after the other registers.
    #[inline]
    fn start(&mut self, func: u32, base: usize, end: usize, dst: Option<Reg>) {
        self.registers.resize_with(end, Value::default);
        self.frames.push(Frame {
            func,
            at: 0,
            base,
            dst,
        });
    }

    /// Calls a function with arguments read from the frame at `base`.
    fn enter(
        &mut self,
        func: u32,
        args: &[Arg],
        dst: Option<Reg>,
        base: usize,
        tail: bool,
    ) -> Result<(), Box<Trouble>> {
        let behind = self.registers.len();
        if !tail {
            let end = self.room(func, args.len(), behind)?;
            for &arg in args {
                let value = self.read(arg, base);
                self.registers.push(value);
            }
            self.start(func, behind, end, dst);
            return Ok(());
        }
        let end = self.room(func, args.len(), base)?;
        let mut values = std::mem::take(&mut self.args);
        values.extend(args.iter().map(|&a| self.read(a, base)));
        // A tail call: the caller's frame is popped first, so its location no longer appears in
        // faults.
        self.registers.truncate(base);
        self.registers.append(&mut values);
        self.args = values;
        let dst = self.frames.pop().and_then(|frame| frame.dst);
        self.start(func, base, end, dst);
        Ok(())
    }

    /// Runs until the first frame returns.
    fn run(&mut self) -> Result<Value, Box<Trouble>> {
        let mut left = self.steps;
        loop {
            let Some(frame) = self.frames.last() else {
                return Ok(Value::Void);
            };
            let (func, base, mut at) = (frame.func, frame.base, frame.at);
            let ended = self.stretch(func, base, &mut at, &mut left);
            match ended {
                // The frame was popped, or another one pushed.
                Ok(None) => {}
                Ok(Some(value)) => return Ok(value),
                Err(trouble) => {
                    self.note(at);
                    return Err(trouble);
                }
            }
        }
    }

    /// Sets the return address of the current function.
    #[inline]
    fn note(&mut self, at: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.at = at;
        }
    }

    /// Executes a frame's instructions until the current frame changes; returns the value when none
    /// is left.
    fn stretch(
        &mut self,
        func: u32,
        base: usize,
        at: &mut u32,
        left: &mut u64,
    ) -> Result<Option<Value>, Box<Trouble>> {
        let program = self.program;
        let f = &program.funcs[func as usize];
        let watched = self.watch.is_some();
        loop {
            let here = *at;
            *at += 1;
            if watched {
                self.watch(f, here, base)?;
            }
            if *left == 0 {
                let message = format!("the run has taken more than {} steps", self.steps);
                return Err(Trouble::new(STEPS, message));
            }
            *left -= 1;
            match &f.code[here as usize] {
                Inst::Call { callee, args, dst } => {
                    if let Callee::Builtin(b) = callee
                        && let Some(value) = self.quick(*b, args, base)?
                    {
                        self.keep(*dst, base, value);
                        continue;
                    }
                    self.note(*at);
                    let tail = is_tail(&f.code, here, *dst);
                    if self.invoke(*callee, args, (*dst, base, tail), left)? {
                        return Ok(None);
                    }
                }
                Inst::Ret(value) => {
                    let value = self.read(*value, base);
                    return Ok(self.leave(value));
                }
                Inst::If(cond, otherwise) => {
                    let holds = match &self.registers[base + *cond as usize] {
                        Value::Scalar(_, bits) => *bits != 0,
                        other => match other.scalar() {
                            Some((_, bits)) => bits != 0,
                            None => {
                                return Err(Trouble::malformed("a condition is no truth value"));
                            }
                        },
                    };
                    if !holds {
                        *at = *otherwise;
                    }
                }
                Inst::Goto(to) => *at = *to,
            }
        }
    }

    /// Passes an instruction to the observer.
    #[cold]
    fn watch(&mut self, function: &Function, at: u32, base: usize) -> Result<(), Box<Trouble>> {
        let moment = Moment {
            program: self.program,
            function,
            at,
            registers: &self.registers[base..],
            frames: &self.frames,
        };
        match self.watch.as_mut().is_none_or(|w| w.step(&moment)) {
            true => Ok(()),
            false => Err(Trouble::new(ENDED, "the run was ended from outside")),
        }
    }

    /// Pops a frame; returns the value if it was the last one.
    fn leave(&mut self, value: Value) -> Option<Value> {
        let frame = self.frames.pop()?;
        self.registers.truncate(frame.base);
        let Some(caller) = self.frames.last() else {
            return Some(value);
        };
        if let Some(dst) = frame.dst {
            self.registers[caller.base + dst as usize] = value;
        }
        None
    }

    /// Returns the value of an argument.
    #[inline]
    fn read(&mut self, arg: Arg, base: usize) -> Value {
        match arg {
            Arg::Void => Value::Void,
            Arg::Reg(r) => self.registers[base + r as usize].clone(),
            Arg::Last(r) => std::mem::take(&mut self.registers[base + r as usize]),
            Arg::Int(v) => Value::Scalar(DType::I64, v as u64),
            Arg::Const(c) => self.consts[c as usize].clone(),
            // Closures store the index of their code.
            Arg::Func(f) => Value::Scalar(DType::U32, u64::from(f)),
        }
    }

    /// Calls a callee other than a fast-path builtin; returns whether the current frame changed.
    fn invoke(
        &mut self,
        callee: Callee,
        args: &[Arg],
        (dst, base, tail): (Option<Reg>, usize, bool),
        left: &mut u64,
    ) -> Result<bool, Box<Trouble>> {
        if let Callee::Func(func) = callee {
            return self.enter(func, args, dst, base, tail).map(|()| true);
        }
        if let Callee::Builtin(Builtin::Plain(Plain::InvokeClosure)) = callee {
            let func = match self.look(args[0], base).and_then(Value::node) {
                Some(Node::Closure(f, _)) => *f,
                _ => return Err(Trouble::malformed("what is called is no closure")),
            };
            return self.enter(func, args, dst, base, tail).map(|()| true);
        }
        let mut values = std::mem::take(&mut self.args);
        values.extend(args.iter().map(|&a| self.read(a, base)));
        let value = match callee {
            Callee::Kernel(k) => self.kernel(k, &values, left),
            Callee::Builtin(b) => crate::builtins::run(b, &mut values, &mut *self.packed),
            Callee::Func(_) => Ok(Value::Void),
        };
        values.clear();
        self.args = values;
        self.keep(dst, base, value?);
        Ok(false)
    }

    #[inline]
    fn keep(&mut self, dst: Option<Reg>, base: usize, value: Value) {
        if let Some(dst) = dst {
            self.registers[base + dst as usize] = value;
        }
    }

    /// Runs a kernel, whose iterations are taken from the steps that are left.
    fn kernel(
        &mut self,
        number: u32,
        values: &[Value],
        left: &mut u64,
    ) -> Result<Value, Box<Trouble>> {
        let kernel = &self.program.kernels[number as usize];
        let (inputs, targets) = values.split_at(kernel.inputs().min(values.len()));
        let inputs: Option<Vec<_>> = inputs.iter().map(Value::tensor).collect();
        let inputs = inputs.ok_or_else(|| Trouble::malformed("a kernel takes tensors"))?;
        let mut shapes = Vec::with_capacity(targets.len());
        for t in targets {
            match t {
                Value::Void => {}
                _ => match t.info() {
                    Some((_, dims)) => shapes.push(dims),
                    None => return Err(Trouble::malformed("a kernel's result has no shape")),
                },
            }
        }
        if shapes.iter().flatten().any(|&n| n < 0) {
            let message = format!("a result cannot have the extents {shapes:?}");
            return Err(Trouble::new(crate::fault::SHAPE, message));
        }
        let known = (shapes.len() == targets.len()).then_some(&shapes[..]);
        // Without a limit, this stays at the maximum.
        let most = left.saturating_mul(STEP);
        let mut iterations = most;
        let results = (self.kernels).run(number, kernel, &inputs, known, &mut iterations);
        *left -= (most - iterations).div_ceil(STEP);
        let results = results.map_err(|e| e.trouble(kernel))?;
        let mut results = results
            .into_iter()
            .zip(targets)
            .map(|(t, target)| match target {
                Value::Placed(p) => {
                    *p.tensor.borrow_mut() = Rc::new(t);
                    target.clone()
                }
                _ => Value::from(t),
            });
        Ok(match kernel.outputs() {
            1 => results.next().unwrap_or_default(),
            _ => Value::tuple(results.collect()),
        })
    }
}

/// Returns whether a call is in tail position: its result is what the function returns next.
#[inline]
fn is_tail(code: &[Inst], at: u32, dst: Option<Reg>) -> bool {
    match (dst, code.get(at as usize + 1)) {
        (Some(dst), Some(Inst::Ret(Arg::Last(r) | Arg::Reg(r)))) => dst == *r,
        _ => false,
    }
}
