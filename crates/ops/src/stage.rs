//! Calls of operators among the stages of a tensor program: `%y = nn.softmax(%x);`,
//! `(%values, %indices) = topk(%x, k=5);`.
//!
//! The text of a program may call operators on its buffers. Such a call is the operator's own tensor
//! program, spliced in with its hints, so that engines and passes see ordinary stages.

use std::fmt;

use relax_base::Span;
use relax_ir::{Attrs, DTy, DimInfo, Module, OpId, Shape, Type, TypeId};
use relax_loops::compose::append_into;
use relax_loops::{Buf, Ex, ExKind, Program, TensorRef, Var, extents, settle};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::call_requirements::{Arg, call_type_or_why, requirements};
use crate::extents::dim;
use crate::hinted::HintSite;
use crate::{NoProgram, Request, TensorInfo, registry};

/// An argument of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Argument {
    /// A buffer.
    Buf(Buf),
    /// A tuple of buffers.
    Tuple(Vec<Buf>),
}

/// The call of a built-in operator on buffers of a program.
#[derive(Clone, PartialEq, Debug)]
pub struct StageCall {
    /// The operator.
    pub op: OpId,
    /// The arguments.
    pub args: Vec<Argument>,
    /// The attributes, complete.
    pub attrs: Attrs,
    /// The buffers that are written, one for each result.
    pub outs: Vec<Buf>,
}

/// The reason why a call has no stages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoStages {
    /// The type relation refuses the arguments.
    Refused(String),
    /// A result is no tensor of a known type.
    NoTensor,
    /// It has so many results, and so many buffers are written.
    Results(usize, usize),
    /// The buffers that are written have another type than the result: this one, and the result's.
    Result(String, String),
    /// The extents of a buffer are no dimensions.
    Extents(Buf),
    /// The operator has no program for these arguments.
    NoProgram(NoProgram),
}

impl fmt::Display for NoStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoStages::Refused(why) => f.write_str(why),
            NoStages::NoTensor => f.write_str("the type of the result is not known here"),
            NoStages::Results(n, written) => {
                let [s, t] = [n, written].map(|n| if *n == 1 { "" } else { "s" });
                write!(f, "it has {n} result{s}, and {written} buffer{t} to write")
            }
            NoStages::Result(own, result) => write!(f, "the result is {result}, and not {own}"),
            NoStages::Extents(_) => f.write_str("an extent is no dimension"),
            NoStages::NoProgram(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for NoStages {}

/// Appends the stages of a call to a program. `span` is the place that its checks name.
///
/// # Errors
/// The call has none; the program is unchanged.
pub fn splice(program: &mut Program, call: &StageCall, span: Span) -> Result<(), NoStages> {
    let (part, keys) = Site::new(program).part(call)?;
    let mut part = part;
    extents::share(&mut part, &keys);
    settle(&mut part);
    let mut given: FxHashMap<Var, Ex> = FxHashMap::default();
    for (own, extent) in (part.outputs.iter())
        .flat_map(|&o| part.bufs[o].shape.iter())
        .zip(call.outs.iter().flat_map(|&o| program.bufs[o].shape.iter()))
    {
        // Variables that inputs bind are known before.
        if let ExKind::Var(v) = own.kind() {
            given.entry(*v).or_insert_with(|| extent.clone());
        }
    }
    let tensor = |&buf: &Buf| TensorRef {
        buf,
        shape: program.bufs[buf].shape.clone(),
        dtype: program.bufs[buf].dtype,
    };
    let inputs: Vec<TensorRef> = bufs(&call.args).map(tensor).collect();
    program.parts.push(span);
    append_into(program, &part, &inputs, &call.outs, given);
    Ok(())
}

/// The calls whose computation may have the hint of a buffer: [`splice`] tells which has it.
pub fn hinted_calls(program: &Program, out: Buf) -> Vec<StageCall> {
    let site = HintSite { program, out };
    let Some(hint) = program.hint(out) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (op, def) in registry().iter() {
        let Some(hinted) = def.hooks.hinted else {
            continue;
        };
        for call in hinted(hint, &site) {
            let mut attrs = def.default_attrs();
            for (name, value) in call.attrs {
                attrs.set(name, value);
            }
            found.push(StageCall {
                op,
                args: call.args.into_iter().map(Argument::Buf).collect(),
                attrs,
                outs: call.outs.unwrap_or_else(|| vec![out]),
            });
        }
    }
    found
}

/// The buffers of arguments, in order.
pub fn bufs(args: &[Argument]) -> impl Iterator<Item = &Buf> {
    args.iter().flat_map(|a| match a {
        Argument::Buf(b) => std::slice::from_ref(b),
        Argument::Tuple(all) => all.as_slice(),
    })
}

/// A program's buffers as types, in a module that holds nothing else.
struct Site<'p> {
    program: &'p Program,
    types: Module,
}

impl<'p> Site<'p> {
    fn new(program: &'p Program) -> Site<'p> {
        let mut types = Module::new();
        for &v in &program.dims {
            types.dims.push(DimInfo {
                name: program.vars[v].name,
                span: Span::NONE,
            });
        }
        Site { program, types }
    }

    /// The operator's program for these arguments, and the extents of its inputs that are symbolic.
    #[allow(clippy::type_complexity)]
    fn part(mut self, call: &StageCall) -> Result<(Program, Vec<Vec<Option<Dim>>>), NoStages> {
        let program = self.program;
        let Some(op) = registry().get(call.op) else {
            return Err(NoStages::NoTensor);
        };
        let mut args = Vec::with_capacity(call.args.len());
        for a in &call.args {
            args.push(match a {
                Argument::Buf(b) => self.buffer(*b)?,
                Argument::Tuple(all) => {
                    let all = all.iter().map(|b| self.buffer(*b));
                    let all: Vec<TypeId> = all.collect::<Result<_, _>>()?;
                    self.types.types.tuple(all)
                }
            });
        }
        let mut own = Vec::with_capacity(call.outs.len());
        for &out in &call.outs {
            own.push(self.buffer(out)?);
        }
        let typed: Vec<Arg<'_>> = args.iter().map(|&ty| Arg { ty, value: None }).collect();
        let result = call_type_or_why(&mut self.types, call.op, &call.attrs, &typed)
            .map_err(|why| why.map_or(NoStages::NoTensor, NoStages::Refused))?;
        let results: Vec<TypeId> = self.types.types.leaves(result);
        if results.len() != own.len() {
            return Err(NoStages::Results(results.len(), own.len()));
        }
        if !results.iter().all(|&t| self.is_known_tensor(t)) {
            return Err(NoStages::NoTensor);
        }
        if results != own {
            let own = match own[..] {
                [one] => one,
                _ => self.types.types.tuple(own),
            };
            let show = |t| self.types.show_type(t);
            return Err(NoStages::Result(show(own), show(result)));
        }
        let info = |&b: &Buf| {
            let buffer = &program.bufs[b];
            TensorInfo {
                dtype: buffer.dtype,
                shape: buffer.shape.iter().map(Ex::as_int).collect(),
            }
        };
        let infos: Vec<Vec<TensorInfo>> = (call.args.iter())
            .map(|a| bufs(std::slice::from_ref(a)).map(info).collect())
            .collect();
        let outs: Vec<TensorInfo> = call.outs.iter().map(info).collect();
        let request = Request {
            op,
            args: &infos,
            consts: vec![None; args.len()],
            attrs: &call.attrs,
            outs: &outs,
        };
        let m = &self.types;
        let consts = vec![None; args.len()];
        let made = request.program(|te| {
            let needs = requirements(op, &m.types, &m.dims, &args, &consts, &call.attrs);
            te.require(&needs, &m.types, &args);
        });
        let part = made.map_err(NoStages::NoProgram)?.program;
        if part.outputs.len() != outs.len() {
            return Err(NoStages::Results(part.outputs.len(), outs.len()));
        }
        let symbolic = |e: &Ex| match e.as_int() {
            Some(_) => None,
            None => dim(program, e),
        };
        let keys = bufs(&call.args)
            .map(|&b| program.bufs[b].shape.iter().map(symbolic).collect())
            .collect();
        Ok((part, keys))
    }

    /// Returns whether a type is that of tensors whose extents and element type are known.
    fn is_known_tensor(&self, ty: TypeId) -> bool {
        let Type::Tensor(t) = &self.types.types[ty] else {
            return false;
        };
        match (&t.shape, t.dtype) {
            (Shape::Dims(dims), DTy::Known(_)) => dims.iter().all(Dim::is_known),
            _ => false,
        }
    }

    fn buffer(&mut self, buf: Buf) -> Result<TypeId, NoStages> {
        let buffer = &self.program.bufs[buf];
        let dims: Option<Vec<Dim>> = buffer.shape.iter().map(|e| dim(self.program, e)).collect();
        let dims = dims.ok_or(NoStages::Extents(buf))?;
        Ok(self.types.types.tensor(dims, buffer.dtype))
    }
}
