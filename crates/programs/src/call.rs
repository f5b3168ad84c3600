//! Calls of operators in a typed module.

use relax_base::{Diagnostic, Span};
use relax_infer::Typing;
use relax_ir::{Attrs, Expr, ExprId, Module, OpId, TypeId, UserOp};
use relax_loops::{Program, extents};
use relax_ops::{OpDef, call_requirements, registry};
use relax_tensor::Tensor;

use crate::{Made, NoProgram, Request, codes, flatten, item_program, known_extents};

/// An operator in a module.
#[derive(Clone, Copy)]
pub enum Operator<'a> {
    /// A built-in operator.
    BuiltIn(&'static OpDef),
    /// An `op` item of the text.
    Item(&'a UserOp),
}

impl<'a> Operator<'a> {
    /// Returns the operator with an id.
    pub fn find(m: &'a Module, op: OpId) -> Option<Operator<'a>> {
        let built_in = registry().get(op).map(Operator::BuiltIn);
        built_in.or_else(|| m.user_op(op).map(Operator::Item))
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        match self {
            Operator::BuiltIn(def) => def.name,
            Operator::Item(op) => op.name.as_str(),
        }
    }
}

/// A call of an operator in a typed module.
pub struct Call<'a> {
    /// The module.
    pub m: &'a Module,
    /// The operator.
    pub op: Operator<'a>,
    /// The types of the arguments.
    pub args: Vec<TypeId>,
    /// The type of the result.
    pub out: TypeId,
    /// The attributes.
    pub attrs: &'a Attrs,
    /// The values of constant arguments, where the computation may use them.
    pub consts: Vec<Option<Tensor>>,
    /// The source location of the call, for errors.
    pub span: Span,
}

impl<'a> Call<'a> {
    /// The call at `e`, whose computation may use constants of at most `most` elements. `None`
    /// where `e` is not a call of an operator.
    pub fn find(m: &'a Module, typing: &Typing, e: ExprId, most: usize) -> Option<Call<'a>> {
        let Expr::Call {
            callee,
            args,
            attrs,
            ..
        } = m.exprs[e]
        else {
            return None;
        };
        let Expr::Op(op) = m.exprs[callee] else {
            return None;
        };
        let args = m.list(args);
        let constant = |a: &ExprId| match m.exprs[*a] {
            Expr::Const(c) => Some(&m.consts[c]).filter(|t| t.len() <= most).cloned(),
            _ => None,
        };
        Some(Call {
            m,
            op: Operator::find(m, op)?,
            args: args.iter().map(|&a| typing.type_of(m, a)).collect(),
            out: typing.exprs[e],
            attrs: m.attrs(attrs),
            consts: args.iter().map(constant).collect(),
            span: m.span(e),
        })
    }

    /// Returns the key that determines the program, except for the values of constant arguments:
    /// calls with the same key are calls of one kernel.
    pub fn key(&self) -> String {
        let m = self.m;
        let shown: Vec<String> = self.args.iter().map(|&t| m.show_type(t)).collect();
        // Dimensions are numbered, since two may have the same name.
        let extents = known_extents(m, self.args.iter().copied());
        let flat: Vec<_> = extents.iter().flatten().collect();
        let first = |d| flat.iter().position(|x| *x == d);
        let equal: Vec<_> = flat.iter().map(|d| first(*d)).collect();
        let (name, out, attrs) = (self.op.name(), m.show_type(self.out), self.attrs);
        format!("{name} {shown:?} {equal:?} {out} {attrs:?}")
    }

    /// The program of the call.
    ///
    /// # Errors
    /// An argument has an unknown rank or element type, or the operator has no computation for such
    /// arguments.
    pub fn program(&self) -> Result<Made, Diagnostic> {
        match self.op {
            Operator::BuiltIn(def) => self.built_in(def),
            Operator::Item(op) => {
                let program = self.item(op)?;
                let by_value = false;
                Ok(Made { program, by_value })
            }
        }
    }

    fn built_in(&self, op: &OpDef) -> Result<Made, Diagnostic> {
        let m = self.m;
        let mut infos = Vec::with_capacity(self.args.len());
        for (i, &ty) in self.args.iter().enumerate() {
            infos.push(flatten(m, ty).ok_or_else(|| self.unknown(&argument(i), ty))?);
        }
        let unknown = || self.unknown("the result", self.out);
        let outs = flatten(m, self.out).ok_or_else(unknown)?;
        let (args, consts) = (&self.args, &self.consts);
        let request = Request {
            op,
            args: &infos,
            consts: consts.clone(),
            attrs: self.attrs,
            outs: &outs,
        };
        let made = request.program(|te| {
            let needs =
                call_requirements::requirements(op, &m.types, &m.dims, args, consts, self.attrs);
            te.require(&needs, &m.types, args);
        });
        let mut made = made.map_err(|why| self.refused(&why))?;
        if !made.program.dims.is_empty() {
            let known = known_extents(m, args.iter().copied());
            extents::share(&mut made.program, &known);
        }
        Ok(made)
    }

    fn item(&self, op: &UserOp) -> Result<Program, Diagnostic> {
        let mut tensors = Vec::with_capacity(self.args.len());
        for (i, &ty) in self.args.iter().enumerate() {
            // Each argument is one tensor.
            let tensor = flatten(self.m, ty).and_then(|all| all.into_iter().next());
            tensors.push(tensor.ok_or_else(|| self.unknown(&argument(i), ty))?);
        }
        item_program(op, &self.m.types, self.attrs, &tensors).map_err(|why| self.refused(&why))
    }

    fn refused(&self, why: &NoProgram) -> Diagnostic {
        let d = Diagnostic::error(codes::NO_COMPUTATION, self.span, why.to_string());
        match why {
            NoProgram::NoComputation(_) => {
                d.note("another pass has to replace it before code is generated")
            }
            NoProgram::Unsupported(_) => d,
        }
    }

    fn unknown(&self, what: &str, ty: TypeId) -> Diagnostic {
        let (op, text) = (self.op.name(), self.m.show_type(ty));
        let message = format!("`{op}` cannot be compiled here: {what} has type {text}");
        Diagnostic::error(codes::UNKNOWN_RANK, self.span, message)
            .note("native code needs the rank and element type of every tensor; annotate it")
    }
}

/// Returns the name of an argument in messages.
fn argument(i: usize) -> String {
    format!("argument {}", i + 1)
}
