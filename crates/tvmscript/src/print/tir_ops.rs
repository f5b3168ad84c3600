//! Numbers of TensorIR, and the syntax of its operations.

use relax_loops::{BinOp, Ex, UnOp};
use relax_tensor::DType;

/// A pending part of an expression; the next one is last.
pub(super) enum Part<'p> {
    Text(&'static str),
    Owned(String),
    Value(&'p Ex),
}

pub(super) fn integer(d: DType, v: i64) -> String {
    if d.is_bool() {
        return format!("T.bool({})", if v != 0 { "True" } else { "False" });
    }
    if d == DType::U64 {
        return format!("T.{d}({})", v as u64);
    }
    format!("T.{d}({v})")
}

pub(super) fn float(d: DType, x: f64) -> String {
    if x.is_finite() {
        format!("T.{d}({x:?})")
    } else {
        let text = if x.is_nan() {
            "nan"
        } else if x > 0.0 {
            "inf"
        } else {
            "-inf"
        };
        format!("T.{d}(\"{text}\")")
    }
}

pub(super) fn unary<'e>(op: UnOp, x: &'e Ex, d: DType, out: &mut Vec<Part<'e>>) {
    let name = match op {
        UnOp::Neg => {
            out.push(Part::Text("(-"));
            out.push(Part::Value(x));
            out.push(Part::Text(")"));
            return;
        }
        UnOp::Not if x.dtype().is_bool() => {
            out.push(Part::Text("(not "));
            out.push(Part::Value(x));
            out.push(Part::Text(")"));
            return;
        }
        // `T.round` rounds halves to even.
        UnOp::Round if d.is_float() => {
            let (name, wide) = if d.bits == 64 {
                ("round", d)
            } else {
                ("roundf", DType::F32)
            };
            let call = format!("T.call_pure_extern(\"{wide}\", \"{name}\", ");
            let (open, close) = match wide == d {
                true => (call, ")"),
                false => (format!("T.Cast(\"{d}\", {call}T.Cast(\"{wide}\", "), ")))"),
            };
            out.push(Part::Owned(open));
            out.push(Part::Value(x));
            out.push(Part::Text(close));
            return;
        }
        UnOp::Not => "bitwise_not",
        UnOp::RoundEven => "nearbyint",
        op => op.name(),
    };
    // Functions of real numbers require floats.
    let real = op.is_real() && !x.dtype().is_float();
    if real {
        out.push(Part::Owned(format!(
            "T.Cast(\"{d}\", T.{name}(T.Cast(\"float64\", "
        )));
    } else {
        out.push(Part::Owned(format!("T.{name}(")));
    }
    out.push(Part::Value(x));
    out.push(Part::Text(if real { ")))" } else { ")" }));
}

/// The syntax of a binary operation.
pub(super) struct Form {
    pub before: &'static str,
    pub between: &'static str,
    pub after: &'static str,
}

impl Form {
    /// Formats the operation with these operands.
    pub fn text(&self, a: &str, b: &str) -> String {
        format!("{}{a}{}{b}{}", self.before, self.between, self.after)
    }
}

pub(super) fn binary(op: BinOp, d: DType) -> Form {
    let infix = |between| Form {
        before: "(",
        between,
        after: ")",
    };
    let call = |before| Form {
        before,
        between: ", ",
        after: ")",
    };
    let (float, truth) = (d.is_float(), d.is_bool());
    match op {
        // TVM has no addition of booleans.
        BinOp::Add if truth => infix(" or "),
        BinOp::Mul if truth => infix(" and "),
        BinOp::Add => infix(" + "),
        BinOp::Sub => infix(" - "),
        BinOp::Mul => infix(" * "),
        BinOp::Div if float => infix(" / "),
        BinOp::Div => call("T.truncdiv("),
        BinOp::FloorDiv if float => Form {
            before: "T.floor(",
            between: " / ",
            after: ")",
        },
        BinOp::FloorDiv => infix(" // "),
        BinOp::FloorMod => infix(" % "),
        BinOp::Rem if float => call("T.fmod("),
        BinOp::Rem => call("T.truncmod("),
        BinOp::Min => call("T.min("),
        BinOp::Max => call("T.max("),
        BinOp::Pow => call("T.pow("),
        BinOp::Atan2 => call("T.atan2("),
        BinOp::And if truth => infix(" and "),
        BinOp::Or if truth => infix(" or "),
        BinOp::Xor if truth => infix(" != "),
        BinOp::And => call("T.bitwise_and("),
        BinOp::Or => call("T.bitwise_or("),
        BinOp::Xor => call("T.bitwise_xor("),
        BinOp::Shl => call("T.shift_left("),
        BinOp::Shr => call("T.shift_right("),
        BinOp::Eq => infix(" == "),
        BinOp::Ne => infix(" != "),
        BinOp::Lt => infix(" < "),
        BinOp::Le => infix(" <= "),
        BinOp::Gt => infix(" > "),
        BinOp::Ge => infix(" >= "),
    }
}
