//! The operator for TVMScript calls without an entry here: preserved unchanged, with their given
//! types.

use relax_ir::{AttrValue, Type};

use crate::AttrTy::{Any, Str};
use crate::{AttrDef, Default, Effects, OpDef, RelCx, RelResult, Subject, attr};

const KEPT: &[AttrDef] = &[
    attr(
        "name",
        Str,
        Default::Required,
        "the operator's name, without `R.`",
    ),
    attr(
        "given",
        Any,
        Default::Required,
        "the parameter that each argument is for",
    ),
    attr("attrs", Any, Default::Required, "its attributes"),
];
const WHY: &str = "the operator of Relax that it names has no entry here";

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "relax.op",
        "An operator of Relax that has no entry here: kept with its name, arguments and attributes.",
        kept,
    )
    .uncomputed(WHY)
    .not_computed()
    .told()
    .variadic()
    .attrs(KEPT),
    OpDef::new("relax.effect", "The same for an operator that does more than give a value.", kept)
        .uncomputed(WHY)
        .not_computed()
        .told()
        .variadic()
        .attrs(KEPT)
        .effects(Effects::Effect),
    OpDef::new("relax.null_value", "The value that stands for none.", null_value)
        .uncomputed("it stands for no value")
        .not_computed(),
];

/// The result has the type that the call gives, or any type.
fn kept(cx: &mut RelCx<'_>) -> RelResult {
    if cx.attr("name").as_str().is_none_or(str::is_empty) {
        return cx.refuse(
            Subject::Attr("name"),
            "`name` must be the name of an operator",
        );
    }
    let given = cx.attr("given").as_array().map(<[AttrValue]>::len);
    if given != Some(cx.args.len()) {
        return cx.refuse(
            Subject::Attr("given"),
            "`given` must name a parameter for each argument",
        );
    }
    Ok(())
}

fn null_value(cx: &mut RelCx<'_>) -> RelResult {
    let object = cx.host.types_mut().intern(Type::Object);
    cx.set_out(object)
}
