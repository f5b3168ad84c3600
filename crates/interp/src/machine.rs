//! The machine: an explicit frame stack, so that recursion in a program is never recursion of the
//! evaluator.

mod checks;
pub(crate) mod memory;
mod operators;

use std::cell::RefCell;
use std::rc::Rc;

use relax_base::{Diagnostic, Span};
use relax_ir::{Expr, ExprId, FuncId, GlobalId, GlobalKind, OpId};
use relax_loops::{ExecFault, Program, STEP, execute_within};
use relax_ops::{Lowering, registry};
use relax_tensor::Tensor;

use crate::code::{Code, Ins, Slot, Src};
use crate::types::{Dims, match_type};
use crate::value::{Closure, Node, Value};
use crate::{Interp, codes, compile};

/// The limit on values of all frames: 2 GiB of them.
const MOST_VALUES: usize = 1 << 27;

/// Boxed, as errors are large and results frequent.
pub(crate) type Result<T> = std::result::Result<T, Box<Diagnostic>>;

struct Frame {
    code: Rc<Code>,
    pc: usize,
    base: usize,
    /// The caller's slot for the result.
    dst: Slot,
    dims: Dims,
}

/// The state of a run.
struct Run {
    frames: Vec<Frame>,
    values: Vec<Value>,
}

impl Run {
    /// Continues elsewhere in the running code.
    fn jump_to(&mut self, pc: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.pc = pc;
        }
    }

    /// The dimensions that are known in the running frame.
    fn dims(&self) -> Dims {
        (self.frames.last())
            .map(|f| f.dims.clone())
            .unwrap_or_default()
    }
}

/// The cache key of an operator call's program: the call, the operator, shapes and dimensions.
pub(crate) type PlanKey = (ExprId, OpId, Vec<i64>);

impl Interp<'_> {
    /// Returns the code of a function that is not a closure.
    fn code_of(&mut self, func: FuncId) -> Rc<Code> {
        if let Some(&at) = self.funcs.get(&func) {
            return self.codes[at].clone();
        }
        let at = self.codes.len();
        self.codes
            .extend(compile::compile(self.m, self.typing, func, at));
        self.funcs.insert(func, at);
        self.codes[at].clone()
    }

    fn span(&self, e: ExprId) -> Span {
        self.m.spans[e]
    }
    fn error<T>(&self, code: relax_base::Code, e: ExprId, text: impl Into<String>) -> Result<T> {
        Err(Box::new(Diagnostic::error(code, self.span(e), text)))
    }

    /// Calls a global function on checked arguments.
    pub(crate) fn start(&mut self, entry: GlobalId, args: Vec<Value>) -> Result<Value> {
        let global = &self.m.globals[entry];
        let GlobalKind::Func(func) = global.kind else {
            let text = format!("@{} is a tensor program, not a function", global.name);
            return Err(Box::new(Diagnostic::error(
                codes::ARGUMENTS,
                global.span,
                text,
            )));
        };
        let params = &self.m.funcs[func].params;
        if params.len() != args.len() {
            let text = format!(
                "@{} takes {} arguments, got {}",
                global.name,
                params.len(),
                args.len()
            );
            return Err(Box::new(Diagnostic::error(
                codes::ARGUMENTS,
                global.span,
                text,
            )));
        }
        let mut dims = Dims::new();
        for (p, value) in params.iter().zip(&args) {
            if let Err(e) = match_type(self.m, &mut dims, value, self.typing.vars[*p]) {
                let what = format!("argument %{} of @{}", self.m.vars[*p].name, global.name);
                return self.misfit(self.m.vars[*p].span, &what, e);
            }
        }
        let code = self.code_of(func);
        let mut run = Run {
            frames: Vec::new(),
            values: Vec::new(),
        };
        // It must not be used up after the last step that is allowed.
        let most = self.max_steps.map(|n| n.saturating_add(1));
        self.left = most.map_or(u64::MAX, |n| n.saturating_mul(STEP));
        self.enter(&mut run, code, args, None, 0, Span::NONE)?;
        self.go(&mut run)
    }

    /// Pushes a frame.
    fn enter(
        &mut self,
        run: &mut Run,
        code: Rc<Code>,
        args: Vec<Value>,
        closure: Option<&Rc<Node>>,
        dst: Slot,
        at: Span,
    ) -> Result<()> {
        let base = run.values.len();
        if base + code.slots as usize > MOST_VALUES {
            let text = "the recursion is too deep for the evaluator's memory";
            return Err(Box::new(Diagnostic::error(codes::DEPTH, at, text)));
        }
        if args.len() != code.params as usize {
            let text = format!(
                "a function of {} parameters is called with {}",
                code.params,
                args.len()
            );
            return Err(Box::new(Diagnostic::error(codes::TYPE, at, text)));
        }
        let mut dims = Dims::new();
        let captured = closure.and_then(|n| match &**n {
            Node::Closure(c) => Some(c),
            _ => None,
        });
        if let Some(c) = captured {
            dims.clone_from(&c.dims);
        }
        for (i, ty) in &code.dims {
            if let Err(e) = match_type(self.m, &mut dims, &args[*i as usize], *ty) {
                let param = self.m.funcs[code.func].params[*i as usize];
                let what = format!("the argument for %{}", self.m.vars[param].name);
                return self.misfit(
                    if at.is_none() {
                        self.m.vars[param].span
                    } else {
                        at
                    },
                    &what,
                    e,
                );
            }
        }
        run.values.extend(args);
        run.values
            .resize(base + code.slots as usize, self.unit.clone());
        if let (Some(own), Some(n)) = (code.own, closure) {
            run.values[base + own as usize] = Value::Node(n.clone());
        }
        if let Some(c) = captured {
            for (slot, v) in code.captures.iter().zip(&c.captured) {
                run.values[base + *slot as usize] = v.clone();
            }
        }
        run.frames.push(Frame {
            code,
            pc: 0,
            base,
            dst,
            dims,
        });
        Ok(())
    }

    fn read(&mut self, run: &Run, base: usize, src: Src) -> Value {
        match src {
            Src::Slot(s) => run.values[base + s as usize].clone(),
            Src::Const(c) => {
                let m = self.m;
                self.consts
                    .entry(c)
                    .or_insert_with(|| m.consts[c].clone().into())
                    .clone()
            }
            Src::Global(g) => Value::Global(g),
            Src::Op(op) => Value::Op(op),
            Src::Ctor(c) => Value::Ctor(c),
            Src::Extern(name) => Value::Extern(name),
        }
    }

    fn read_all(&mut self, run: &Run, base: usize, srcs: &[Src]) -> Vec<Value> {
        srcs.iter().map(|s| self.read(run, base, *s)).collect()
    }

    /// Runs until the last frame returns.
    fn go(&mut self, run: &mut Run) -> Result<Value> {
        loop {
            self.left = self.left.saturating_sub(STEP);
            let frame = run
                .frames
                .last_mut()
                .expect("the last return leaves the loop");
            let (code, base, pc) = (frame.code.clone(), frame.base, frame.pc);
            frame.pc += 1;
            let slot = |s: &Slot| base + *s as usize;
            match &code.ins[pc] {
                Ins::Move(d, src) => run.values[slot(d)] = self.read(run, base, *src),
                Ins::Tuple(d, srcs) => {
                    run.values[slot(d)] = Value::tuple(self.read_all(run, base, srcs))
                }
                Ins::Construct(d, c, srcs) => {
                    let fields = self.read_all(run, base, srcs);
                    run.values[slot(d)] = Value::Node(Rc::new(Node::Adt(*c, fields)));
                }
                Ins::Field(d, src, index) => {
                    let value = self.read(run, base, *src);
                    run.values[slot(d)] = self.field(&code, &value, *index)?;
                }
                Ins::Closure(d, child, srcs) => {
                    let captured = self.read_all(run, base, srcs);
                    run.values[slot(d)] = Value::Node(Rc::new(Node::Closure(Closure {
                        code: self.codes[*child].clone(),
                        captured,
                        dims: run.dims(),
                    })));
                }
                Ins::Call {
                    dst,
                    at,
                    callee,
                    args,
                    tail,
                } => {
                    // Without calls, code only moves forward, and terminates.
                    if self.left == 0 {
                        return self.endless(*at);
                    }
                    let callee = self.read(run, base, *callee);
                    let args = self.read_all(run, base, args);
                    if let Some(value) = self.call(run, *at, callee, args, *dst, *tail)?
                        && let Some(result) = Self::give(run, base, *dst, value, *tail)
                    {
                        return Ok(result);
                    }
                }
                Ins::Branch(src, otherwise) => {
                    let cond = self.read(run, base, *src);
                    if !self.holds(&code, &cond)? {
                        run.jump_to(*otherwise);
                    }
                }
                Ins::Jump(to) => run.jump_to(*to),
                Ins::IfCtor(src, ctor, otherwise) => {
                    let value = self.read(run, base, *src);
                    if value.ctor() != Some(*ctor) {
                        run.jump_to(*otherwise);
                    }
                }
                Ins::NoMatch(e, src) => {
                    let value = self.read(run, base, *src);
                    return self.no_match(*e, &value);
                }
                Ins::RefNew(d, src) => {
                    let value = self.read(run, base, *src);
                    run.values[slot(d)] = Value::Node(Rc::new(Node::Ref(RefCell::new(value))));
                }
                Ins::RefRead(d, src) => {
                    let cell = self.read(run, base, *src);
                    run.values[slot(d)] = match cell.cell() {
                        Some(c) => c.borrow().clone(),
                        None => return self.broken(&code, "a read of no reference".into()),
                    };
                }
                Ins::RefWrite(d, cell, src) => {
                    let value = self.read(run, base, *src);
                    let cell = self.read(run, base, *cell);
                    match cell.cell() {
                        // The old value is dropped after the borrow has ended.
                        Some(c) => drop(c.replace(value)),
                        None => return self.broken(&code, "a write to no reference".into()),
                    }
                    run.values[slot(d)] = self.unit.clone();
                }
                Ins::Shape(d, e) => {
                    let frame = run.frames.last().expect("running");
                    run.values[slot(d)] = self.shape(&frame.dims, *e)?;
                }
                Ins::Match(e, src) => {
                    let value = self.read(run, base, *src);
                    let dims = &mut run.frames.last_mut().expect("running").dims;
                    self.match_value(*e, &value, dims)?;
                }
                Ins::Check(e, src) => {
                    let value = self.read(run, base, *src);
                    let dims = &mut run.frames.last_mut().expect("running").dims;
                    self.check(*e, &value, dims)?;
                }
                Ins::Broken(e) => {
                    return self.error(codes::BROKEN, *e, "this part of the program has an error");
                }
                Ins::Ret(src) => {
                    let value = self.read(run, base, *src);
                    if let Some(result) = Self::give(run, base, 0, value, true) {
                        return Ok(result);
                    }
                }
            }
        }
    }

    fn endless<T>(&self, at: ExprId) -> Result<T> {
        let most = self.max_steps.unwrap_or(u64::MAX);
        let text = format!("the program has not ended after {most} steps");
        self.error(codes::STEPS, at, text)
    }

    /// Executes a tensor program for a call.
    fn execute(
        &mut self,
        at: ExprId,
        program: &Program,
        inputs: &[Tensor],
        outputs: Option<&[Vec<i64>]>,
    ) -> Result<Vec<Tensor>> {
        match execute_within(program, inputs, outputs, &mut self.left) {
            Ok(outs) => Ok(outs),
            Err(e) if e.fault == ExecFault::Endless => self.endless(at),
            Err(e) => Err(Box::new(e.diagnostic(self.span(at)))),
        }
    }

    fn holds(&self, code: &Code, cond: &Value) -> Result<bool> {
        match cond.as_tensor() {
            Some(t) if t.len() == 1 => Ok(t.get_i64(0) != 0),
            _ => self.broken(code, "a condition is no scalar".into()),
        }
    }

    fn field(&self, code: &Code, value: &Value, index: u32) -> Result<Value> {
        let field = value.fields().and_then(|f| f.get(index as usize)).cloned();
        field.map_or_else(
            || self.broken(code, format!("{} has no field {index}", value.kind())),
            Ok,
        )
    }

    fn no_match<T>(&self, e: ExprId, value: &Value) -> Result<T> {
        let what = match value.ctor() {
            Some(c) => format!("a value made by {}", self.m.ctors[c].name),
            None => value.kind().into(),
        };
        let text = format!("no clause of this match fits {what}");
        self.error(codes::NO_MATCH, e, text)
    }

    /// Evaluates a shape expression.
    fn shape(&self, known: &Dims, e: ExprId) -> Result<Value> {
        let Expr::Shape(dims) = &self.m.exprs[e] else {
            unreachable!("made from a shape")
        };
        let mut shape = Vec::with_capacity(dims.len());
        for dim in dims {
            shape.push(self.dim(known, e, dim)?);
        }
        Ok(Value::Shape(shape.into()))
    }

    /// Stores a value in a slot of the current frame, or returns it to its caller; the last frame's
    /// value is returned.
    fn give(run: &mut Run, base: usize, dst: Slot, value: Value, ret: bool) -> Option<Value> {
        if !ret {
            run.values[base + dst as usize] = value;
            return None;
        }
        let frame = run.frames.pop()?;
        run.values.truncate(frame.base);
        match run.frames.last() {
            Some(caller) => {
                run.values[caller.base + frame.dst as usize] = value;
                None
            }
            None => Some(value),
        }
    }

    /// Creates an error for a case that inference rules out.
    fn broken<T>(&self, code: &Code, text: String) -> Result<T> {
        let span = self.m.funcs[code.func].span;
        Err(Box::new(Diagnostic::error(codes::TYPE, span, text)))
    }

    /// Executes a call; returns the value, or `None` if a frame was pushed for it.
    fn call(
        &mut self,
        run: &mut Run,
        at: ExprId,
        callee: Value,
        args: Vec<Value>,
        dst: Slot,
        tail: bool,
    ) -> Result<Option<Value>> {
        match &callee {
            Value::Node(n) => {
                let Node::Closure(c) = &**n else {
                    return self.error(codes::TYPE, at, format!("{} is called", callee.kind()));
                };
                let code = c.code.clone();
                self.jump(run, code, args, Some(n), dst, tail, at)?;
                Ok(None)
            }
            Value::Global(g) => match self.m.globals[*g].kind {
                GlobalKind::Func(f) => {
                    let code = self.code_of(f);
                    self.jump(run, code, args, None, dst, tail, at)?;
                    Ok(None)
                }
                GlobalKind::Prim(_) => self.error(
                    codes::TYPE,
                    at,
                    "a tensor program is called directly (use `call_tir`)",
                ),
            },
            Value::Ctor(c) => Ok(Some(Value::Node(Rc::new(Node::Adt(*c, args))))),
            Value::Extern(name) => {
                let before = args.clone();
                let mut args = args;
                let result = self.packed.call(name.as_str(), &mut args);
                let result = result.or_else(|e| self.error(codes::PACKED, at, e.to_string()))?;
                // All slots of this frame with a tensor that was updated in place see the update.
                let base = run.frames.last().map_or(0, |f| f.base);
                for (old, new) in before.iter().zip(&args) {
                    let (Value::Tensor(old), Value::Tensor(new)) = (old, new) else {
                        continue;
                    };
                    if Rc::ptr_eq(old, new) {
                        continue;
                    }
                    for v in &mut run.values[base..] {
                        if matches!(v, Value::Tensor(t) if Rc::ptr_eq(t, old)) {
                            *v = Value::Tensor(new.clone());
                        }
                    }
                }
                Ok(Some(result))
            }
            Value::Op(op) => {
                let dims = run.dims();
                let lowering = registry().get(*op).map(|d| d.hooks.lowering);
                Ok(Some(match lowering.unwrap_or_default() {
                    Lowering::Computed => self.operator(at, *op, args, &dims)?,
                    Lowering::CallTir => self.call_tir(at, args)?,
                    Lowering::CallDpsPacked => self.call_dps(at, args)?,
                    Lowering::CallTirInplace => self.call_tir_inplace(at, args)?,
                    Lowering::AllocStorage => self.alloc_storage(at, &args)?,
                    Lowering::AllocTensor => self.alloc_tensor(at, &args, &dims)?,
                    Lowering::Kill => {
                        args.iter().for_each(|a| self.places.kill(a));
                        self.unit.clone()
                    }
                }))
            }
            Value::Tensor(_) | Value::Shape(_) => {
                self.error(codes::TYPE, at, format!("{} is called", callee.kind()))
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn jump(
        &mut self,
        run: &mut Run,
        code: Rc<Code>,
        args: Vec<Value>,
        closure: Option<&Rc<Node>>,
        mut dst: Slot,
        tail: bool,
        at: ExprId,
    ) -> Result<()> {
        if tail && let Some(frame) = run.frames.pop() {
            run.values.truncate(frame.base);
            dst = frame.dst;
        }
        let span = self.span(at);
        self.enter(run, code, args, closure, dst, span)
    }
}
