//! Unary operators on each element, and the relation they share.

use relax_loops::UnOp;

use crate::{ComputeError, Fusion, OpDef, RelCx, RelResult, Te, input};

/// The result has the type of the first argument.
pub fn identity(cx: &mut RelCx<'_>) -> RelResult {
    cx.tensor(0)?;
    let ty = cx.arg(0);
    cx.set_out(ty)
}

macro_rules! unary {
    ($($name:literal $op:ident $doc:literal;)*) => {
        /// The family.
        pub static OPS: &[OpDef] = &[$(
            OpDef::new($name, $doc, identity)
                .inputs(&[input("data", "the input")])
                .fusion(Fusion::Elementwise)
                .compute(|te: &mut Te<'_>| -> Result<(), ComputeError> {
                    te.elementwise(|x| x.unary(UnOp::$op))
                }),
        )*];
    };
}

unary! {
    "exp" Exp "e to the power of each element.";
    "tanh" Tanh "The hyperbolic tangent of each element.";
    "erf" Erf "The error function of each element.";
}
