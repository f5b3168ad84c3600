//! Element-wise expressions in registers.
//!
//! Executing a chain of operations over strips reads and writes every intermediate value. Here most
//! of them stay in two banks of vector registers, which act as a stack of two slots: a block of
//! elements passes through all steps at once, and only inputs are loaded and the result stored.
//! Values needed later than that allows, and operations that are not arithmetic, use the strips of
//! temporaries.

use super::registers::{Form, Step, code};
use super::{OPS, Op, RxStripOp};
use std::mem::MaybeUninit;

/// The maximum number of steps: an operation may need a load and a store besides its own step.
const STEPS: usize = 3 * OPS;
/// The writer of an input or a constant: none.
const NOBODY: u8 = u8::MAX;

/// A program as steps; empty where registers would not help.
pub(super) struct Chain {
    /// Invariant: the first `count` are initialised.
    steps: [MaybeUninit<Step>; STEPS],
    count: usize,
}

/// The location of an operand when an operation needs it.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Upper,
    Lower,
    Strip,
    Number,
}

/// Returns the number of operands of an operation that is done in registers; `None` for others.
fn quick(op: Op) -> Option<usize> {
    match op {
        Op::Neg | Op::Abs | Op::Sqrt | Op::RoundEven => Some(1),
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Min | Op::Max => Some(2),
        _ => None,
    }
}

/// The state of generating steps.
struct Maker<'a> {
    ops: &'a [RxStripOp],
    /// The first operand that is a temporary.
    first: usize,
    /// Whether an operand is a single number.
    number: &'a dyn Fn(usize) -> bool,
    /// The operation that wrote each operand of each operation, or [`NOBODY`].
    from: &'a [[u8; 4]; OPS],
    /// The number of remaining reads of each operation's value.
    left: [u8; OPS],
    /// A bit per operation: its value is kept in its strip.
    kept: u64,
    upper: Option<usize>,
    lower: Option<usize>,
    out: &'a mut Chain,
}

/// The number of arguments that an operation reads.
pub(super) fn arity(op: Op) -> usize {
    match op {
        Op::SelectLt | Op::SelectLe | Op::SelectEq => 4,
        Op::MulAdd => 3,
        Op::Pow => 2,
        _ => quick(op).unwrap_or(1),
    }
}

impl Chain {
    /// No steps.
    pub(super) const fn new() -> Self {
        Self {
            steps: [const { MaybeUninit::uninit() }; STEPS],
            count: 0,
        }
    }

    /// The steps.
    pub(super) fn steps(&self) -> &[Step] {
        // SAFETY: the first `count` are initialised, and `MaybeUninit` has the layout of what it
        // holds.
        unsafe { std::slice::from_raw_parts(self.steps.as_ptr().cast(), self.count) }
    }

    /// Returns whether there are steps.
    pub(super) fn helps(&self) -> bool {
        self.count > 0
    }

    /// Returns whether whole blocks use registers only: of a constant, one number is read.
    pub(super) fn alone(&self) -> bool {
        self.helps() && !self.steps().iter().any(|s| s.form == Form::Other)
    }

    /// Returns whether steps read only inputs and single numbers, and write only the result.
    pub(super) fn bare(&self) -> bool {
        self.alone() && !self.steps().iter().any(|s| s.form == Form::Store)
    }

    /// Makes the steps of a program, where `number` tells whether an operand is a single number;
    /// empty where registers would not help.
    pub(super) fn make(&mut self, ops: &[RxStripOp], first: usize, number: &dyn Fn(usize) -> bool) {
        // One operation is worth it where an operand would have to be spread otherwise.
        let one = |op: &RxStripOp| {
            let args = op.args.iter().take(arity(op.op()));
            quick(op.op()).is_some() && args.into_iter().any(|&k| number(k as usize))
        };
        let several = ops.iter().filter(|op| quick(op.op()).is_some()).count() > 1;
        if ops.len() > OPS || !several && !matches!(ops, [op] if one(op)) {
            return;
        }
        let mut writer = [NOBODY; super::OPERANDS];
        let (mut from, mut uses) = ([[NOBODY; 4]; OPS], [0u8; OPS]);
        for (k, op) in ops.iter().enumerate() {
            for (of, arg) in from[k].iter_mut().zip(op.args).take(arity(op.op())) {
                *of = writer[arg as usize];
                if *of != NOBODY {
                    uses[usize::from(*of)] += 1;
                }
            }
            writer[first + op.dst as usize] = k as u8;
        }
        let mut kept = 0;
        // Each round keeps one more value in memory.
        loop {
            self.count = 0;
            let mut maker = Maker {
                ops,
                first,
                number,
                from: &from,
                left: uses,
                kept,
                upper: None,
                lower: None,
                out: self,
            };
            match (0..ops.len()).try_for_each(|k| maker.operation(k)) {
                Ok(()) => return,
                Err(value) if value < OPS && kept & 1 << value == 0 => kept |= 1 << value,
                Err(_) => {
                    self.count = 0;
                    return;
                }
            }
        }
    }
}

impl Maker<'_> {
    fn step(&mut self, form: Form, op: Op, x: usize, y: usize) {
        let (code, x, y) = (code(form, op), x as u8, y as u8);
        self.out.steps[self.out.count].write(Step { form, code, x, y });
        self.out.count += 1;
    }

    fn is_kept(&self, value: usize) -> bool {
        self.kept & 1 << value != 0
    }

    /// Returns the operation that wrote an argument of an operation.
    fn writer(&self, k: usize, arg: usize) -> Option<usize> {
        let value = self.from[k][arg];
        (value != NOBODY).then_some(usize::from(value))
    }

    /// Returns whether a bank's value is read again and is not in memory.
    fn live(&self, bank: Option<usize>) -> bool {
        bank.is_some_and(|v| self.left[v] > 0 && !self.is_kept(v))
    }

    /// Frees the upper bank. The error is a value that must be kept in memory instead.
    fn free(&mut self) -> Result<(), usize> {
        if self.live(self.upper) {
            if self.live(self.lower) {
                return Err(self.lower.unwrap_or_default());
            }
            self.step(Form::Push, Op::Copy, 0, 0);
            self.lower = self.upper;
        }
        Ok(())
    }

    /// Returns the location of an argument of an operation.
    fn place(&self, k: usize, arg: usize) -> Result<Place, usize> {
        let Some(value) = self.writer(k, arg) else {
            let number = (self.number)(self.ops[k].args[arg] as usize);
            return Ok(if number { Place::Number } else { Place::Strip });
        };
        if self.upper == Some(value) {
            return Ok(Place::Upper);
        }
        if self.is_kept(value) {
            return Ok(Place::Strip);
        }
        if self.lower == Some(value) {
            Ok(Place::Lower)
        } else {
            Err(value)
        }
    }

    /// Records that the arguments of an operation were read.
    fn read(&mut self, k: usize, count: usize) {
        for arg in 0..count {
            if let Some(value) = self.writer(k, arg) {
                self.left[value] -= 1;
            }
        }
    }

    fn operation(&mut self, k: usize) -> Result<(), usize> {
        let op = self.ops[k];
        let Some(count) = quick(op.op()) else {
            for arg in 0..arity(op.op()) {
                if let Some(value) = self.writer(k, arg).filter(|&v| !self.is_kept(v)) {
                    return Err(value);
                }
            }
            if !self.is_kept(k) && k + 1 < self.ops.len() {
                return Err(k);
            }
            self.read(k, arity(op.op()));
            // Its vectors need the registers.
            for bank in [self.upper, self.lower] {
                if self.live(bank) {
                    return Err(bank.unwrap_or_default());
                }
            }
            (self.upper, self.lower) = (None, None);
            self.step(Form::Other, op.op(), k, 0);
            if k + 1 == self.ops.len() {
                // The result was written to the last strip; the last step stores it from the bank.
                self.step(Form::Load, Op::Copy, self.first + op.dst as usize, 0);
            }
            return Ok(());
        };
        use Place::{Lower, Number, Strip, Upper};
        let (x, y) = (op.args[0] as usize, op.args[1] as usize);
        let mut at = [
            self.place(k, 0)?,
            if count == 2 { self.place(k, 1)? } else { Strip },
        ];
        // The same value twice: the second operand comes from memory.
        if let Some(value) = self.writer(k, 0)
            && count == 2
            && self.writer(k, 1) == Some(value)
        {
            if !self.is_kept(value) {
                return Err(value);
            }
            at[1] = Strip;
        }
        let inside = |p: Place| matches!(p, Upper | Lower);
        // A value that is only in the lower bank moves up.
        if inside(at[0]) != (count == 2 && inside(at[1])) {
            let one = usize::from(!inside(at[0]));
            if at[one] == Lower {
                if self.live(self.upper) {
                    return Err(usize::from(self.from[k][one]));
                }
                self.step(Form::Pop, Op::Copy, 0, 0);
                (self.upper, self.lower) = (self.lower, None);
                at[one] = Upper;
            }
        }
        self.read(k, count);
        let fresh = !at.iter().take(count).any(|&p| inside(p));
        if fresh {
            self.free()?;
        } else if self.live(self.upper) {
            // The operand in the upper bank is needed again later.
            let value = self.upper.unwrap_or_default();
            if self.live(self.lower) || at.contains(&Lower) {
                return Err(value);
            }
            self.step(Form::Push, Op::Copy, 0, 0);
            self.lower = self.upper;
        }
        if count == 1 {
            if fresh {
                let form = if at[0] == Number {
                    Form::LoadNumber
                } else {
                    Form::Load
                };
                self.step(form, Op::Copy, x, 0);
            }
            self.step(Form::Unary, op.op(), 0, 0);
        } else {
            match (at[0], at[1]) {
                (Upper, Strip) => self.step(Form::Right, op.op(), y, 0),
                (Upper, Number) => self.step(Form::RightNumber, op.op(), y, 0),
                (Strip, Upper) => self.step(Form::Left, op.op(), x, 0),
                (Number, Upper) => self.step(Form::LeftNumber, op.op(), x, 0),
                (Lower, Upper) => self.step(Form::Both, op.op(), 0, 0),
                (Upper, Lower) => self.step(Form::Turned, op.op(), 0, 0),
                (Strip, Strip) => self.step(Form::Two, op.op(), x, y),
                (Strip, Number) => self.step(Form::TwoNumber, op.op(), x, y),
                (Number, Strip) => {
                    self.step(Form::Load, Op::Copy, y, 0);
                    self.step(Form::LeftNumber, op.op(), x, 0);
                }
                (Number, Number) => {
                    self.step(Form::LoadNumber, Op::Copy, x, 0);
                    self.step(Form::RightNumber, op.op(), y, 0);
                }
                (Lower, _) | (_, Lower) | (Upper, Upper) => return Err(usize::MAX),
            }
        }
        self.upper = Some(k);
        if self.is_kept(k) {
            self.step(Form::Store, Op::Copy, self.first + op.dst as usize, 0);
        }
        Ok(())
    }
}
