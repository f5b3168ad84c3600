//! The members of `T`: types, functions, loops, blocks and their axes.

use relax_loops::{BinOp, Combiner, Ex, Mark, UnOp};
use relax_tensor::DType;

use super::scalar::{self, Sc, binary, choose};
use super::value::Tv;
use super::{Form, Lower, Out};
use crate::ast::List;

/// Properties of a buffer that do not affect the computed values.
const PLACEMENT: [&str; 6] = [
    "scope",
    "align",
    "offset_factor",
    "layout",
    "buffer_type",
    "annotations",
];

/// Positional and keyword arguments.
struct Args<'s> {
    plain: std::vec::IntoIter<Tv<'s>>,
    named: Vec<(&'s str, Tv<'s>)>,
}

impl<'s> Args<'s> {
    fn next(&mut self, name: &str) -> Option<Tv<'s>> {
        match self.plain.next() {
            Some(v) => Some(v),
            None => {
                let at = self.named.iter().position(|n| n.0 == name)?;
                Some(self.named.swap_remove(at).1)
            }
        }
    }
    fn number(&mut self, name: &str) -> Out<Sc> {
        match self.next(name) {
            Some(Tv::Number(n)) => Ok(n),
            _ => Err("a call whose argument is no number"),
        }
    }
    /// Returns all arguments as numbers.
    fn numbers(self) -> Out<Vec<Sc>> {
        let numbers = self.plain.map(|v| match v {
            Tv::Number(n) => Ok(n),
            _ => Err("a call whose argument is no number"),
        });
        numbers.collect()
    }
}

impl<'s> Lower<'_, 's> {
    fn args(&mut self, list: List) -> Args<'s> {
        let (mut plain, mut named) = (Vec::new(), Vec::new());
        for i in list.range() {
            let arg = self.ast.args[i];
            let value = self.take(arg.value);
            match arg.name {
                Some(name) => named.push((self.slice(name), value)),
                None => plain.push(value),
            }
        }
        let plain = plain.into_iter();
        Args { plain, named }
    }

    pub(super) fn call(&mut self, path: &str, list: List) -> Out<Tv<'s>> {
        let mut args = self.args(list);
        let name = path.split_once('.').map_or(path, |p| p.1);
        Ok(match name {
            "func_attr" | "reads" | "writes" | "sblock_attr" | "block_attr" => Tv::Nothing,
            "evaluate" => match args.next("value") {
                Some(Tv::Number(n)) if n.ex.as_int().is_some() => Tv::Nothing,
                _ => return Err("a call for its effect"),
            },
            "sblock" | "block" => Tv::Block,
            "init" => Tv::Init,
            "where" => Tv::Where(args.number("predicate")?.condition()),
            "Buffer" => Tv::Buffer(self.form(args)?),
            "sblock_alloc_buffer" | "alloc_buffer" => Tv::Alloc(self.form(args)?),
            "match_buffer" => match args.next("param") {
                Some(Tv::Handle(i)) => Tv::Match(i, self.form(args)?),
                _ => return Err("a view of a buffer"),
            },
            "grid" => Tv::Loops(
                Mark::Serial,
                args.numbers()?.into_iter().map(|n| (None, n)).collect(),
            ),
            "serial" | "range" | "unroll" | "vectorized" => one_loop(Mark::Serial, args)?,
            "parallel" => one_loop(Mark::Parallel, args)?,
            "axis.remap" => self.remap(args)?,
            "axis.spatial" | "axis.S" => Tv::Axes(vec![(axis(args)?, false)]),
            "axis.reduce" | "axis.R" => Tv::Axes(vec![(axis(args)?, true)]),
            _ => return function(name, args),
        })
    }

    /// Evaluates `T.Buffer(shape, dtype)` and similar calls.
    fn form(&mut self, mut args: Args<'s>) -> Out<Form> {
        let shape = args.next("shape").ok_or("a buffer without extents")?;
        let shape = self.extents(shape)?;
        let dtype = match args.next("dtype") {
            None => DType::F32,
            Some(Tv::Text(name, _)) => scalar::element(&name)?,
            Some(_) => return Err("a buffer without an element type"),
        };
        // The start of a buffer, if it is chosen by the caller.
        for (name, value) in &args.named {
            if let ("elem_offset", Tv::Number(n)) = (*name, value)
                && let Some(var) = Lower::plain(&n.ex)
            {
                self.program.dims.retain(|d| *d != var);
            }
        }
        let plain = |(name, value): &(&str, Tv)| match value {
            _ if PLACEMENT.contains(name) => true,
            Tv::Nothing => true,
            Tv::Number(n) if *name == "elem_offset" => {
                n.ex.as_int() == Some(0) || Lower::plain(&n.ex).is_some()
            }
            Tv::List(items) => items.is_empty(),
            _ => false,
        };
        if args.plain.next().is_some() || !args.named.iter().all(plain) {
            return Err("a buffer that lies in memory in its own way");
        }
        Ok(Form { shape, dtype })
    }

    /// Evaluates `T.axis.remap("SR", [i, j])`.
    fn remap(&mut self, mut args: Args<'s>) -> Out<Tv<'s>> {
        let (Some(Tv::Text(kinds, _)), Some(Tv::List(items))) =
            (args.next("kinds"), args.next("bindings"))
        else {
            return Err("axes of another form");
        };
        let mut axes = Vec::with_capacity(items.len());
        for (kind, item) in kinds.chars().zip(items) {
            match (kind, item) {
                ('S' | 'R', Tv::Number(n)) => axes.push((n, kind == 'R')),
                _ => return Err("axes of another form"),
            }
        }
        Ok(Tv::Axes(axes))
    }
}

/// Returns the value of an axis: the argument after its extent.
fn axis(mut args: Args<'_>) -> Out<Sc> {
    args.next("dom").ok_or("axes of another form")?;
    args.number("binding")
}

/// Evaluates `T.serial(n)`, `range(a, b)`.
fn one_loop<'s>(mark: Mark, mut args: Args<'s>) -> Out<Tv<'s>> {
    let first = args.number("start")?;
    let range = match args.next("stop") {
        Some(Tv::Number(stop)) => (Some(first), stop),
        None => (None, first),
        Some(_) => return Err("a loop without an extent"),
    };
    if args.plain.next().is_some() || args.named.iter().any(|n| n.0 == "step") {
        return Err("a loop with a step");
    }
    let range = match range {
        (Some(start), stop) if start.ex.as_int() != Some(0) => {
            let extent = binary(BinOp::Sub, &stop, &start)?;
            (Some(start), extent)
        }
        (_, stop) => (None, stop),
    };
    Ok(Tv::Loops(mark, vec![range]))
}

/// Evaluates a function of numbers.
fn function<'s>(name: &str, mut args: Args<'s>) -> Out<Tv<'s>> {
    if let Ok(dtype) = name.parse::<DType>() {
        return conversion(dtype, args);
    }
    let number = match name {
        "Cast" | "cast" | "reinterpret" => {
            let (a, b) = (args.next("dtype"), args.next("value"));
            let ((Some(Tv::Text(dtype, _)), Some(Tv::Number(n)))
            | (Some(Tv::Number(n)), Some(Tv::Text(dtype, _)))) = (a, b)
            else {
                return Err("a conversion of another form");
            };
            let dtype = scalar::element(&dtype)?;
            if name != "reinterpret" {
                n.cast(dtype)
            } else if n.ty.size() == dtype.size() && !n.ty.is_bool() && !dtype.is_bool() {
                Sc::of(n.real().reinterpret(dtype))
            } else {
                return Err("bits of another width");
            }
        }
        // TVM's spelling of rounding halves away from zero.
        "call_pure_extern" => match (args.next("dtype"), args.next("name"), args.next("args")) {
            (Some(Tv::Text(dtype, _)), Some(Tv::Text(name, _)), Some(Tv::Number(n)))
                if matches!(&*name, "round" | "roundf") && *dtype == *n.ty.to_string() =>
            {
                Sc::of(n.real().unary(UnOp::Round))
            }
            _ => return Err("a call of a function outside"),
        },
        "min_value" | "max_value" | "infinity" => {
            let Some(Tv::Text(dtype, _)) = args.next("dtype") else {
                return Err("a limit of another form");
            };
            let dtype = scalar::element(&dtype)?;
            Sc::of(match name {
                "min_value" => Combiner::Max.identity(dtype),
                "max_value" => Combiner::Min.identity(dtype),
                _ if dtype.is_float() => Ex::float(dtype, f64::INFINITY),
                _ => return Err("a limit of another form"),
            })
        }
        _ => {
            let numbers = args.numbers()?;
            match &numbers[..] {
                [x] => unary(name, x)?,
                [a, b] => two(name, a, b)?,
                [c, a, b] if matches!(name, "if_then_else" | "Select") => choose(c, a, b),
                _ => return Err("a function that is not known"),
            }
        }
    };
    Ok(Tv::Number(number))
}

/// Evaluates `T.float32(1.0)`, `T.int64()`.
fn conversion<'s>(dtype: DType, mut args: Args<'s>) -> Out<Tv<'s>> {
    let dtype = scalar::element(&dtype.to_string())?;
    let number = match args.next("expr") {
        None => return Ok(Tv::Symbol(dtype)),
        Some(Tv::Number(n)) => match n.ex.as_float() {
            // A literal is rounded only once.
            Some(x) if dtype.is_float() && n.ex.as_int().is_none() => Sc::of(Ex::float(dtype, x)),
            _ => n.cast(dtype),
        },
        Some(Tv::Text(text, _)) => match text.trim().parse::<f64>() {
            Ok(x) if dtype.is_float() => Sc::of(Ex::float(dtype, x)),
            _ => return Err("a number written as text"),
        },
        Some(_) => return Err("a conversion of another form"),
    };
    Ok(Tv::Number(number))
}

fn unary(name: &str, x: &Sc) -> Out<Sc> {
    let real = UnOp::named(name).filter(|op| op.is_real());
    let op = match name {
        _ if let Some(op) = real => op,
        "abs" | "fabs" => UnOp::Abs,
        "floor" | "ceil" | "trunc" | "round" | "nearbyint" if !x.ty.is_float() => {
            return Ok(x.clone());
        }
        "floor" => UnOp::Floor,
        "ceil" => UnOp::Ceil,
        "trunc" => UnOp::Trunc,
        // TVM's generated code rounds halves to even.
        "round" | "nearbyint" => UnOp::RoundEven,
        "isnan" if x.ty.is_float() => UnOp::IsNan,
        "isinf" if x.ty.is_float() => UnOp::IsInf,
        "isfinite" if x.ty.is_float() => UnOp::IsFinite,
        "popcount" if !x.ty.is_float() => UnOp::Popcount,
        "clz" if !x.ty.is_float() => UnOp::Clz,
        "bitwise_not" if !x.ty.is_float() => UnOp::Not,
        "Not" => return Ok(Sc::of(x.condition().unary(UnOp::Not))),
        "likely" => return Ok(x.clone()),
        "exp2" if x.ty.is_float() => return Ok(Sc::of(x.real().same(2.0).pow(x.real()))),
        _ => return Err("a function that is not known"),
    };
    if op.is_real() && !x.ty.is_float() {
        return Err("a function of real numbers on integers");
    }
    Ok(Sc::of(x.real().unary(op)))
}

fn two(name: &str, a: &Sc, b: &Sc) -> Out<Sc> {
    let op = match name {
        "max" | "Max" => BinOp::Max,
        "min" | "Min" => BinOp::Min,
        "pow" | "power" => BinOp::Pow,
        "atan2" => BinOp::Atan2,
        "Add" | "add" => BinOp::Add,
        "Sub" | "subtract" => BinOp::Sub,
        "Mul" | "multiply" => BinOp::Mul,
        "Div" | "truncdiv" | "div" | "indexdiv" => BinOp::Div,
        "truncmod" | "Mod" | "fmod" | "indexmod" => BinOp::Rem,
        "floordiv" | "FloorDiv" => BinOp::FloorDiv,
        "floormod" | "FloorMod" => BinOp::FloorMod,
        "bitwise_and" => BinOp::And,
        "bitwise_or" => BinOp::Or,
        "bitwise_xor" => BinOp::Xor,
        "shift_left" => BinOp::Shl,
        "shift_right" => BinOp::Shr,
        "EQ" => BinOp::Eq,
        "NE" => BinOp::Ne,
        "LT" => BinOp::Lt,
        "LE" => BinOp::Le,
        "GT" => BinOp::Gt,
        "GE" => BinOp::Ge,
        "And" => return Ok(choose(a, &Sc::of(b.condition()), &Sc::of(Ex::bool(false)))),
        "Or" => return Ok(choose(a, &Sc::of(Ex::bool(true)), &Sc::of(b.condition()))),
        "ceildiv" => {
            let (a, b) = (a.negated(), b.clone());
            return Ok(binary(BinOp::FloorDiv, &a, &b)?.negated());
        }
        _ => return Err("a function that is not known"),
    };
    if matches!(op, BinOp::Atan2) && !(a.ty.is_float() && b.ty.is_float()) {
        return Err("a function of real numbers on integers");
    }
    binary(op, a, b)
}
