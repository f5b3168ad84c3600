//! TensorIR programs as loops: `T.prim_func` of nested loops and blocks.
//!
//! The lowered program runs on every engine; the text is kept beside it for printing. A program
//! that cannot be represented as loops (bound threads, tensor intrinsics, views of memory …) is
//! kept as text only.

mod calls;
mod scalar;
mod stmts;
mod value;

use std::sync::Arc;

use relax_base::{Span, Symbol};
use relax_ir::Inplace;
use relax_loops::{
    Access, Buf, Buffer, Compute, Ex, ExKind, Program, Role, Stage, Stmt, Var, statements,
};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Reader;
use crate::ast::{Ast, Node, NodeId, StmtKind};
use scalar::Sc;
use value::Tv;

/// The result for a part of a program, or the construct that loops cannot represent.
type Out<T> = Result<T, &'static str>;

/// The meaning of a name.
#[derive(Clone)]
enum Named {
    Number(Sc),
    Buffer(Buf),
    /// A parameter whose buffer is declared by `T.match_buffer`.
    Handle(usize),
}

/// A buffer's extents and element type.
#[derive(Clone)]
struct Form {
    shape: Vec<Sc>,
    dtype: DType,
}

/// A program under construction.
struct Lower<'r, 's> {
    text: &'s str,
    /// The offset of the text in the source map.
    start: u32,
    ast: &'r mut Ast,
    /// Symbols declared above the class.
    type_vars: &'r FxHashMap<Symbol, Span>,
    program: Program,
    names: FxHashMap<&'s str, Named>,
    hidden: Vec<(&'s str, Option<Named>)>,
    /// The buffer of each parameter, once it is declared.
    params: Vec<Option<Buf>>,
    /// The parameters' buffers, in order.
    order: Vec<Buf>,
    /// The values of the statement's expressions, and the node that the first belongs to.
    vals: Vec<Tv<'s>>,
    first: u32,
    /// The values of reduction axes, for each enclosing block.
    reduced: Vec<Vec<Sc>>,
}

impl Reader<'_> {
    /// Returns the loops of the definition at `at`, or the construct that they cannot represent.
    pub(super) fn tensor_program(&mut self, name: Symbol, at: u32) -> Out<Made> {
        let file = self.file;
        let mut lower = Lower {
            text: &file.text,
            start: file.start,
            ast: &mut self.ast,
            type_vars: &self.type_vars,
            program: Program::new(name),
            names: FxHashMap::default(),
            hidden: Vec::new(),
            params: Vec::new(),
            order: Vec::new(),
            vals: Vec::new(),
            first: 0,
            reduced: Vec::new(),
        };
        lower.program.span = lower.ast.stmts[at as usize].span;
        lower.signature(at)?;
        let end = lower.ast.stmts[at as usize].end;
        let body = lower.block(at + 1, end, 0)?;
        lower.finish(body)?;
        let whole = |p: &Program| relax_loops::verify(p).problems.is_empty();
        if lower.outputs_last() && whole(&lower.program) {
            return Ok(Made::Program(Arc::new(lower.program)));
        }
        let inplace = inplace(lower.program, &lower.order);
        if whole(&inplace.program) {
            return Ok(Made::Inplace(inplace));
        }
        Err("a tensor program that breaks a rule of loops")
    }
}

/// The result of lowering a text.
pub(super) enum Made {
    /// A program that writes its outputs, which come last, and only reads the other buffers.
    Program(Arc<Program>),
    /// A program that modifies its arguments.
    Inplace(Inplace),
}

/// Converts a program that modifies its arguments to one with new results: modified buffers are
/// copied first.
fn inplace(mut program: Program, params: &[Buf]) -> Inplace {
    let unwritten = relax_loops::unwritten(&program);
    let mut read: FxHashSet<Buf> = FxHashSet::default();
    for stage in &program.stages {
        if let Stage::Nest(body) = stage {
            for e in statements(body).flat_map(Stmt::exprs) {
                relax_loops::visit_expr(e, |x| {
                    if let ExKind::Load(b, _) = x.kind() {
                        read.insert(*b);
                    }
                });
            }
        }
    }
    let (mut kinds, mut copies) = (Vec::new(), Vec::new());
    program.inputs.clear();
    for &buf in params {
        let output = program.bufs[buf].role == Role::Output;
        let input = !output || read.contains(&buf) || unwritten.contains(&buf);
        kinds.push((input, output));
        if !output {
            program.inputs.push(buf);
        } else if input {
            let mut given = program.bufs[buf].clone();
            given.role = Role::Input;
            let (shape, dtype) = (given.shape.clone(), given.dtype);
            let given = program.bufs.push(given);
            program.inputs.push(given);
            let (axes, index) = shape.iter().map(|_| program.fresh("i", DType::I64)).unzip();
            copies.push(Stage::Compute(Compute {
                out: buf,
                axes,
                reduce: None,
                value: Ex::new(ExKind::Load(given, index), dtype),
            }));
        }
    }
    program.stages.splice(0..0, copies);
    let program = Arc::new(program);
    let params = kinds.into();
    Inplace { program, params }
}

impl<'s> Lower<'_, 's> {
    fn slice(&self, span: Span) -> &'s str {
        let at = |i: u32| (i - self.start) as usize;
        self.text.get(at(span.start)..at(span.end)).unwrap_or("")
    }
    fn node_text(&self, id: NodeId) -> &'s str {
        self.slice(self.ast.span(id))
    }

    fn bind(&mut self, name: &'s str, value: Named) {
        let old = self.names.insert(name, value);
        self.hidden.push((name, old));
    }
    /// Ends a block that began when `mark` names were hidden.
    fn leave(&mut self, mark: usize) {
        for (name, old) in self.hidden.drain(mark..).rev() {
            match old {
                Some(value) => self.names.insert(name, value),
                None => self.names.remove(name),
            };
        }
    }

    /// Creates a dimension of the program for a symbol.
    fn symbol(&mut self, name: &'s str, dtype: DType) -> Sc {
        let (var, ex) = self.program.fresh(name, DType::I64);
        self.program.dims.push(var);
        let value = Sc { ex, ty: dtype };
        self.names.insert(name, Named::Number(value.clone()));
        value
    }

    /// Reads the parameters: buffers, numbers, and handles that the body declares buffers for.
    fn signature(&mut self, at: u32) -> Out<()> {
        let stmt = self.ast.stmts[at as usize];
        let StmtKind::Def { params, ret, .. } = stmt.kind else {
            return Err("a definition that is none");
        };
        if ret.is_some_and(|r| self.ast.node(r) != Node::None) {
            return Err("a tensor program that returns a number");
        }
        let params = self.ast.func_params(params).to_vec();
        let alone = self.lone_extents(&params);
        for (i, p) in params.iter().enumerate() {
            let (name, Some(ty)) = (self.slice(p.name), p.ty) else {
                return Err("a parameter without a type");
            };
            self.params.push(None);
            let path = self.node_text(ty);
            let Some(dtype) = path.strip_prefix("T.") else {
                continue;
            };
            if dtype == "handle" {
                self.names.insert(name, Named::Handle(i));
            } else if matches!(self.ast.node(ty), Node::Path | Node::Attr(..)) {
                let dtype = scalar::element(dtype)?;
                let buf = self.buffer(name, dtype, Vec::new(), Role::Input);
                self.params[i] = Some(buf);
                if alone.contains(name) && matches!(dtype, DType::I64 | DType::I32) {
                    self.symbol(name, dtype);
                } else {
                    let value = Sc::of(Ex::new(ExKind::Load(buf, Vec::new()), dtype));
                    self.names.insert(name, Named::Number(value));
                }
            }
        }
        self.values(stmt.nodes.0, stmt.nodes.1)?;
        for (i, p) in params.iter().enumerate() {
            let (name, Some(ty)) = (self.slice(p.name), p.ty) else {
                continue;
            };
            match self.take(ty) {
                Tv::Buffer(form) => {
                    let buf = self.declare(name, form, Role::Input)?;
                    self.params[i] = Some(buf);
                }
                Tv::Path(_) => {}
                _ => return Err("a parameter that is no buffer"),
            }
        }
        Ok(())
    }

    /// Returns the names that are an extent of a parameter by themselves, so that arguments
    /// determine their values.
    fn lone_extents(&self, params: &[crate::ast::Param]) -> FxHashSet<&'s str> {
        let mut found = FxHashSet::default();
        for p in params {
            let Some(Node::Call(_, args)) = p.ty.map(|t| self.ast.node(t)) else {
                continue;
            };
            let Some(shape) = self.ast.call_args(args).first() else {
                continue;
            };
            if let Node::Tuple(items) | Node::List(items) = self.ast.node(shape.value) {
                for &item in self.ast.list(items) {
                    if self.ast.node(item) == Node::Name {
                        found.insert(self.node_text(item));
                    }
                }
            }
        }
        found
    }

    fn buffer(&mut self, name: &str, dtype: DType, shape: Vec<Ex>, role: Role) -> Buf {
        self.program.bufs.push(Buffer {
            name: Symbol::new(name),
            dtype,
            shape,
            role,
        })
    }

    /// Creates a buffer and binds its name.
    fn declare(&mut self, name: &'s str, form: Form, role: Role) -> Out<Buf> {
        let mut shape = Vec::with_capacity(form.shape.len());
        for (axis, extent) in form.shape.iter().enumerate() {
            let extent = extent.index()?;
            // The shape of an argument is checked against extents only, not against numbers that
            // are passed.
            if role == Role::Input && reads(&extent) {
                let (var, own) = self.program.fresh(&format!("{name}_d{axis}"), DType::I64);
                self.program.dims.push(var);
                shape.push(own);
            } else {
                shape.push(extent);
            }
        }
        let buf = self.buffer(name, form.dtype, shape, role);
        self.bind(name, Named::Buffer(buf));
        Ok(buf)
    }

    /// Records the span of an access.
    fn access(&mut self, buf: Buf, index: &[Ex], span: Span) {
        let index = index.to_vec();
        self.program.accesses.push(Access { buf, index, span });
    }

    /// Sets the inputs, the outputs and the stages.
    fn finish(&mut self, body: Vec<Stmt>) -> Out<()> {
        let written: FxHashSet<Buf> = statements(&body)
            .filter_map(|s| match s {
                Stmt::Store { buf, .. } => Some(*buf),
                _ => None,
            })
            .collect();
        for buf in std::mem::take(&mut self.params) {
            let buf = buf.ok_or("a parameter without a buffer")?;
            self.order.push(buf);
            if written.contains(&buf) {
                self.program.bufs[buf].role = Role::Output;
                self.program.outputs.push(buf);
            } else {
                self.program.inputs.push(buf);
            }
        }
        let named = body.iter().any(|s| matches!(s, Stmt::Let { .. }));
        if named {
            self.program.stages.push(Stage::Nest(body));
        } else {
            let stages = body.into_iter().map(|s| Stage::Nest(vec![s]));
            self.program.stages.extend(stages);
        }
        Ok(())
    }

    /// Returns whether written buffers come after those that are read.
    fn outputs_last(&self) -> bool {
        let output = |b: &Buf| self.program.bufs[*b].role == Role::Output;
        self.order.is_sorted_by_key(output)
    }

    /// Returns the variable, if the expression is one.
    fn plain(e: &Ex) -> Option<Var> {
        match e.kind() {
            ExKind::Var(v) => Some(*v),
            _ => None,
        }
    }
}

/// Returns whether an expression reads a buffer.
fn reads(e: &Ex) -> bool {
    let mut found = false;
    relax_loops::visit_expr(e, |x| found |= matches!(x.kind(), ExKind::Load(..)));
    found
}
