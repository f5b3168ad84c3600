//! Evaluates the expressions of TensorIR, operands first.

use std::sync::Arc;

use relax_loops::{BinOp, Buf, Ex, ExKind, Mark, UnOp};
use relax_tensor::DType;

use super::scalar::{Sc, binary, choose};
use super::{Form, Lower, Named, Out, reads};
use crate::ast::{List, Node, NodeId, Operation};
use crate::strings;

/// The value of an expression.
#[derive(Clone)]
pub(super) enum Tv<'s> {
    Number(Sc),
    Buffer(Form),
    /// The name of a buffer.
    Named(Buf),
    Handle(usize),
    /// A dotted name of the language.
    Path(&'s str),
    /// A name that is not bound yet.
    Unbound,
    List(Vec<Tv<'s>>),
    /// A string, and its node.
    Text(Arc<str>, NodeId),
    /// `None`, dictionaries, declared reads and writes: they do not affect the computed values.
    Nothing,
    /// A region of a buffer.
    Region,
    /// Loops: the start, if it is not 0, and the extent of each.
    Loops(Mark, Vec<(Option<Sc>, Sc)>),
    /// Axes of a block, and whether they are reduced.
    Axes(Vec<(Sc, bool)>),
    Block,
    Init,
    Where(Ex),
    Alloc(Form),
    Match(usize, Form),
    /// `T.int64()`.
    Symbol(DType),
}

impl<'s> Lower<'_, 's> {
    /// Evaluates the expressions from one node to another.
    pub(super) fn values(&mut self, from: u32, to: u32) -> Out<()> {
        self.first = from;
        self.vals.clear();
        for i in from..to {
            let value = self.value(NodeId(i))?;
            self.vals.push(value);
        }
        Ok(())
    }

    /// Takes the value of an expression.
    pub(super) fn take(&mut self, id: NodeId) -> Tv<'s> {
        let at = id.0.checked_sub(self.first).map(|i| i as usize);
        match at.and_then(|i| self.vals.get_mut(i)) {
            Some(slot) => std::mem::replace(slot, Tv::Nothing),
            None => Tv::Nothing,
        }
    }

    pub(super) fn number(&mut self, id: NodeId) -> Out<Sc> {
        match self.take(id) {
            Tv::Number(n) => Ok(n),
            _ => Err("a value that is no number"),
        }
    }

    fn items(&mut self, list: List) -> Vec<Tv<'s>> {
        list.range().map(|i| self.take(self.ast.lists[i])).collect()
    }

    fn value(&mut self, id: NodeId) -> Out<Tv<'s>> {
        let span = self.ast.span(id);
        Ok(match self.ast.node(id) {
            Node::Name => self.name(self.slice(span)),
            Node::Path => match self.name(crate::read::root(self.slice(span))) {
                Tv::Path(_) => Tv::Path(self.slice(span)),
                _ => return Err("a member of a value"),
            },
            Node::Same(_) => return Err("a type of Relax"),
            Node::Int => {
                let value = strings::integer(self.slice(span)).ok_or("an integer of more bits")?;
                Tv::Number(Sc::literal(value))
            }
            Node::Float => {
                let value = self.slice(span).replace('_', "").parse::<f64>();
                let value = value.map_err(|_| "a number without a value")?;
                Tv::Number(Sc::of(Ex::float(DType::F32, value)))
            }
            Node::Bool(b) => Tv::Number(Sc::of(Ex::bool(b))),
            Node::Str => {
                let text = strings::unquote(self.slice(span)).ok_or("a string with an escape")?;
                Tv::Text(text.into(), id)
            }
            Node::None | Node::Dict(_) => Tv::Nothing,
            Node::Slice(_) => Tv::Region,
            Node::Tuple(list) | Node::List(list) => Tv::List(self.items(list)),
            Node::Attr(base, _) => match self.take(base) {
                Tv::Path(_) => Tv::Path(self.slice(span)),
                _ => return Err("a member of a value"),
            },
            Node::Call(func, args) => match self.take(func) {
                Tv::Path(path) => self.call(path, args)?,
                _ => return Err("a call of a value"),
            },
            Node::Index(base, index) => {
                let (base, index) = (self.take(base), self.take(index));
                self.element(base, index, id)?
            }
            Node::Unary(op, x) => {
                let x = self.number(x)?;
                Tv::Number(unary(op, &x)?)
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                Tv::Number(infix(op, &a, &b)?)
            }
            Node::Lambda(..) => return Err("a function over indices"),
        })
    }

    fn name(&mut self, text: &'s str) -> Tv<'s> {
        match self.names.get(text) {
            Some(Named::Number(n)) => return Tv::Number(n.clone()),
            Some(Named::Buffer(b)) => return Tv::Named(*b),
            Some(Named::Handle(i)) => return Tv::Handle(*i),
            None => {}
        }
        if self.type_vars.contains_key(&relax_base::Symbol::new(text)) {
            return Tv::Number(self.symbol(text, DType::I64));
        }
        match text {
            "T" | "tirx" | "tir" | "range" | "float" | "bool" | "int" | "min" | "max" => {
                Tv::Path(text)
            }
            _ => Tv::Unbound,
        }
    }

    /// Evaluates `A[i, j]`.
    fn element(&mut self, base: Tv<'s>, index: Tv<'s>, id: NodeId) -> Out<Tv<'s>> {
        let buf = match base {
            Tv::Named(buf) => buf,
            // `T.let[T.int32]`.
            Tv::Path(_) => return Ok(Tv::Nothing),
            _ => return Err("an element of what is no buffer"),
        };
        let items = match index {
            Tv::List(items) => items,
            one => vec![one],
        };
        let mut at = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Tv::Number(n) => at.push(n.index()?),
                Tv::Region => return Ok(Tv::Region),
                _ => return Err("an index that is no number"),
            }
        }
        let info = &self.program.bufs[buf];
        if info.shape.len() != at.len() {
            return Err("an element with another number of indices than axes");
        }
        let dtype = info.dtype;
        let span = self.ast.span(id);
        self.access(buf, &at, span);
        Ok(Tv::Number(Sc::of(Ex::new(ExKind::Load(buf, at), dtype))))
    }

    /// Returns extents: numbers, or strings that contain them.
    pub(super) fn extents(&mut self, value: Tv<'s>) -> Out<Vec<Sc>> {
        let items = match value {
            Tv::List(items) => items,
            one => vec![one],
        };
        let mut shape = Vec::with_capacity(items.len());
        for item in items {
            shape.push(match item {
                Tv::Number(n) => n,
                Tv::Text(text, id) => self.written(&text, id)?,
                _ => return Err("an extent that is no number"),
            });
        }
        Ok(shape)
    }

    /// Evaluates a number that is written as a string: `"n * T.int64(4)"`.
    fn written(&mut self, text: &str, id: NodeId) -> Out<Sc> {
        let from = self.ast.nodes.len() as u32;
        let at = self.ast.span(id).start + 1;
        let whole = crate::parse::expression(self.ast, text, at);
        let whole = whole.ok_or("an extent whose text is no expression")?;
        let to = self.ast.nodes.len() as u32;
        let (vals, first) = (std::mem::take(&mut self.vals), self.first);
        let done = self.values(from, to);
        let value = done.and_then(|()| match self.take(whole) {
            Tv::Number(n) => Ok(n),
            // A symbol that the body declares.
            Tv::Unbound => Ok(self.symbol(self.node_text(whole), DType::I64)),
            _ => Err("an extent whose text is no number"),
        });
        (self.vals, self.first) = (vals, first);
        value
    }
}

fn unary(op: Operation, x: &Sc) -> Out<Sc> {
    Ok(match op {
        Operation::Neg => x.negated(),
        Operation::Pos => x.clone(),
        Operation::Not => Sc::of(x.condition().unary(UnOp::Not)),
        Operation::Invert if !x.ty.is_float() => Sc::of(x.real().unary(UnOp::Not)),
        _ => return Err("an operation on bits of a float"),
    })
}

fn infix(op: Operation, a: &Sc, b: &Sc) -> Out<Sc> {
    use Operation as O;
    let op = match op {
        O::Add => BinOp::Add,
        O::Sub => BinOp::Sub,
        O::Mul => BinOp::Mul,
        O::Div if a.ty.is_float() || b.ty.is_float() => BinOp::Div,
        O::FloorDiv => BinOp::FloorDiv,
        O::Mod => BinOp::FloorMod,
        O::Pow => BinOp::Pow,
        O::Shl => BinOp::Shl,
        O::Shr => BinOp::Shr,
        O::BitAnd => BinOp::And,
        O::BitOr => BinOp::Or,
        O::BitXor => BinOp::Xor,
        O::Eq => BinOp::Eq,
        O::Ne => BinOp::Ne,
        O::Lt => BinOp::Lt,
        O::Le => BinOp::Le,
        O::Gt => BinOp::Gt,
        O::Ge => BinOp::Ge,
        O::And | O::Or => return Ok(joined(op == O::And, a, b)),
        _ => return Err("a division whose rounding is not said"),
    };
    binary(op, a, b)
}

/// Evaluates `a and b`, `a or b` with short-circuiting.
fn joined(both: bool, a: &Sc, b: &Sc) -> Sc {
    let (x, y) = (a.condition(), b.condition());
    if !reads(&y) {
        let op = if both { BinOp::And } else { BinOp::Or };
        return Sc::of(x.binary(op, &y));
    }
    let (x, y) = (Sc::of(x), Sc::of(y));
    let fixed = Sc::of(Ex::bool(!both));
    if both {
        choose(&x, &y, &fixed)
    } else {
        choose(&x, &fixed, &y)
    }
}
