//! The requirements of TVM's Relax on operators beyond those of their relations: checked only in
//! programs in TVMScript, because Relay required less.

use relax_ir::Type;

use super::util::shaped;
use crate::{RelCx, RelResult, Stop, Subject};

/// Refuses an argument whose elements are known not to be floats.
pub fn float_arg(cx: &mut RelCx<'_>, i: usize) -> RelResult {
    let dtype = cx.tensor(i)?.dtype;
    match dtype.known() {
        Some(d) if !d.is_float() => {
            let message = format!("`{}` takes floats, not {d}", cx.name);
            cx.refuse(Subject::Arg(i), message)
        }
        _ => Ok(()),
    }
}

/// The first argument holds floats.
pub fn floats(cx: &mut RelCx<'_>) -> RelResult {
    float_arg(cx, 0)
}

/// All arguments hold floats of one type.
pub fn same_floats(cx: &mut RelCx<'_>) -> RelResult {
    float_arg(cx, 0)?;
    one_type(cx)
}

/// All arguments have the same element type, where these are known.
pub fn one_type(cx: &mut RelCx<'_>) -> RelResult {
    let first = cx.tensor(0)?.dtype.known();
    for i in 1..cx.args.len() {
        let own = cx.tensor(i)?.dtype.known();
        if let (Some(a), Some(b)) = (first, own)
            && a != b
        {
            let message = format!("`{}` takes elements of one type, not {a} and {b}", cx.name);
            return cx.refuse(Subject::Arg(i), message);
        }
    }
    Ok(())
}

/// All arguments have the same element type, where the result's is not given.
pub fn one_type_unless_given(cx: &mut RelCx<'_>) -> RelResult {
    match cx.dtype("out_dtype") {
        Some(_) => Ok(()),
        None => one_type(cx),
    }
}

/// No axis is named twice.
pub fn distinct_axes(cx: &mut RelCx<'_>) -> RelResult {
    let (Some(axes), Some(dims)) = (cx.ints("axes")?, shaped(cx, 0)?.0) else {
        return Ok(());
    };
    let mut seen = Vec::with_capacity(axes.len());
    for v in axes {
        let a = cx.axis("axes", v, dims.len())?;
        if seen.contains(&a) {
            return cx.refuse(Subject::Attr("axes"), format!("axis {v} is named twice"));
        }
        seen.push(a);
    }
    Ok(())
}

/// The first argument holds booleans.
pub fn condition(cx: &mut RelCx<'_>) -> RelResult {
    match cx.tensor(0)?.dtype.known() {
        Some(d) if !d.is_bool() => {
            let message = format!("the condition holds truth values, not {d}");
            cx.refuse(Subject::Arg(0), message)
        }
        _ => Ok(()),
    }
}

/// The tensors of a tuple have the same element type, where these are known.
pub fn one_type_in_tuple(cx: &mut RelCx<'_>) -> RelResult {
    let mut first = None;
    for ty in cx.tuple(0)? {
        let ty = cx.host.resolve(ty);
        let own = match &cx.host.types()[ty] {
            Type::Tensor(t) => t.dtype.known(),
            Type::Infer(_) => return Err(Stop::Wait),
            _ => None,
        };
        match (first, own) {
            (Some(a), Some(b)) if a != b => {
                let message = format!("tensors of {a} and of {b} are not joined");
                return cx.refuse(Subject::Arg(0), message);
            }
            _ => first = first.or(own),
        }
    }
    Ok(())
}

/// Layouts whose axes are those of images: a batch, channels, and the given spatial ones, possibly
/// split into blocks.
fn layouts(cx: &RelCx<'_>, spatial: &str) -> RelResult {
    for name in ["layout", "out_layout"] {
        let text = cx.attr(name).as_str().unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        let mut own: Vec<char> = text.chars().filter(char::is_ascii_uppercase).collect();
        let mut wanted: Vec<char> = format!("NC{spatial}").chars().collect();
        own.sort_unstable();
        wanted.sort_unstable();
        if own != wanted {
            let message = format!("`{text}` is no layout of the axes N, C and {spatial}");
            return cx.refuse(Subject::Attr(name), message);
        }
    }
    Ok(())
}

/// Layouts of signals, of images, of volumes.
pub const LAYOUTS: [crate::RelFn; 3] = [
    |cx| layouts(cx, "W"),
    |cx| layouts(cx, "HW"),
    |cx| layouts(cx, "DHW"),
];

/// Images in a layout with as many axes as they have.
pub fn image(cx: &mut RelCx<'_>) -> RelResult {
    layouts(cx, "HW")?;
    let layout = cx.attr("layout").as_str().unwrap_or_default().len();
    if layout > 0
        && let Some(dims) = shaped(cx, 0)?.0
        && dims.len() != layout
    {
        let (rank, text) = (dims.len(), cx.attr("layout").as_str().unwrap_or_default());
        let message = format!("the layout `{text}` has {layout} axes, the image {rank}");
        return cx.refuse(Subject::Arg(0), message);
    }
    Ok(())
}
