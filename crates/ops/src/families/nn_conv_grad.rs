//! The gradient of convolution with respect to its weight.

use relax_loops::{Combiner, Ex};
use relax_sym::Dim;

use super::nn_conv::{
    CONV2D_ATTRS, Layouts, at_canonical, canonical_arg, numbers, padded, padding_of, pairs, steps,
};
use crate::{ComputeError, Fusion, Layout, OpDef, RelCx, RelResult, Subject, Te, input};

/// The family.
pub static OPS: &[OpDef] = &[OpDef::new(
    "nn.conv2d_backward_weight",
    "The gradient of `nn.conv2d` with respect to its weight.",
    backward_weight_rel,
)
.result_dtype("out_dtype")
.inputs(&[
    input("grad", "gradient of the result"),
    input("data", "the data"),
])
.attrs(CONV2D_ATTRS)
.fusion(Fusion::OutElementwise)
.compute(backward_weight)];

/// A layout that is known to be one.
fn plain(text: &str) -> Layout {
    Layout::parse(text).expect("a layout")
}

/// The layouts of gradient, data and weight. TVM names them `data_layout`, `kernel_layout` and
/// `out_layout` here; the defaults, which do not fit, denote the plain layouts.
fn backward_layouts(get: &dyn Fn(&str) -> String) -> Result<[Layout; 3], (&'static str, String)> {
    let read = |name: &'static str, unset: &str, form: &str| {
        let text = match get(name) {
            text if text == unset => form.to_owned(),
            text => text,
        };
        let layout = Layout::parse(&text).filter(|l| l.convertible(&plain(form)));
        layout.ok_or_else(|| (name, format!("`{name}=\"{text}\"` is no layout of {form}")))
    };
    Ok([
        read("data_layout", "", "NCHW")?,
        read("kernel_layout", "OIHW", "NCHW")?,
        read("out_layout", "", "OIHW")?,
    ])
}

fn backward_weight_rel(cx: &mut RelCx<'_>) -> RelResult {
    let get = |name: &str| cx.attr(name).as_str().unwrap_or("").to_owned();
    let [of_grad, of_data, of_weight] = match backward_layouts(&get) {
        Ok(l) => l,
        Err((name, message)) => return cx.refuse(Subject::Attr(name), message),
    };
    let (canonical, canonical_weight) = (plain("NCHW"), plain("OIHW"));
    let (grad, dtype) = canonical_arg(cx, 0, &of_grad, &canonical)?;
    let (data, _) = canonical_arg(cx, 1, &of_data, &canonical)?;
    let Some(kernel) = cx.ints("kernel_size")?.filter(|k| k.len() == 2) else {
        return cx.refuse(
            Subject::Attr("kernel_size"),
            "`kernel_size` must give two numbers",
        );
    };
    let groups = Dim::from(cx.int("groups")?.max(1));
    let depthwise = data[1] == groups && grad[1] == groups;
    let per_group = if depthwise && !cx.attr("channels").is_none() {
        Dim::from(cx.int("channels")?).floordiv(&groups)
    } else {
        data[1].floordiv(&groups)
    };
    let (padding, strides) = (padding_of(cx, 2)?, steps(cx, "strides", 2, 1)?);
    let dilation = steps(cx, "dilation", 2, 1)?;
    for i in 0..2 {
        // The gradient's window must fit: TVM derives the weight's extent from it.
        let reach = (&grad[2 + i] - &Dim::ONE) * Dim::from(strides[i]) + Dim::ONE;
        let room = &data[2 + i] + &Dim::from(padding[i].0.saturating_add(padding[i].1)) - reach;
        let most = room.floordiv(&Dim::from(dilation[i])) + Dim::ONE;
        if most.as_const().is_some_and(|m| m < kernel[i]) {
            return cx.refuse(
                Subject::Attr("kernel_size"),
                "the gradient, data and `kernel_size` do not fit",
            );
        }
    }
    let shape = [
        grad[1].clone(),
        per_group,
        Dim::from(kernel[0]),
        Dim::from(kernel[1]),
    ];
    let shape = canonical_weight.convert_dims(&of_weight, &shape);
    let dtype = cx.dtype("out_dtype").map_or(dtype, Into::into);
    cx.set_tensor(shape, dtype)
}

fn backward_weight(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let layouts = backward_layouts(&|name| te.str(name).to_owned());
    let [of_grad, of_data, of_weight] = layouts.map_err(|e| ComputeError(e.1))?;
    let (canonical, canonical_weight) = (plain("NCHW"), plain("OIHW"));
    let l = Layouts {
        data: of_data,
        kernel: of_weight.clone(),
        out: canonical.clone(),
        canonical: canonical.clone(),
        canonical_kernel: canonical_weight.clone(),
    };
    let (grad, x) = (te.arg(0), te.arg(1));
    let dtype = te.out(0).dtype;
    let groups = te.int("groups")?.max(1);
    let (strides, dilation) = (numbers(te, "strides", 2), numbers(te, "dilation", 2));
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), 2).ok_or("`padding` has a wrong length")?;
    let kernel = te.ints("kernel_size").ok_or("`kernel_size` is missing")?;
    let g = of_grad.convert_extents(&canonical, &grad.shape);
    let d = l.data.convert_extents(&l.canonical, &x.shape);
    let p = padded(te, &x, (&l.data, &l.canonical), &padding, 0.0);
    let per_group = d[1].floor_div(groups);
    let shape = [
        g[1].clone(),
        per_group.clone(),
        Ex::idx(kernel[0]),
        Ex::idx(kernel[1]),
    ];
    let shape = l.canonical_kernel.convert_extents(&l.kernel, &shape);
    let over = [g[0].clone(), g[2].clone(), g[3].clone()];
    let y = te.reduce(
        "conv_backward_weight",
        &shape,
        &over,
        Combiner::Sum,
        |i, r| {
            let at = l.canonical_kernel.index_from(&l.kernel, i);
            let group = at[0].floor_div(g[1].floor_div(groups));
            let x_at = [
                r[0].clone(),
                group * &per_group + &at[1],
                &r[1] * strides[0] + &at[2] * dilation[0],
                &r[2] * strides[1] + &at[3] * dilation[1],
            ];
            let g_at = [r[0].clone(), at[0].clone(), r[1].clone(), r[2].clone()];
            at_canonical(&grad, &of_grad, &canonical, &g_at).cast(dtype) * p.at(&x_at).cast(dtype)
        },
    );
    te.output(&y);
    Ok(())
}
