//! Values of the core operators: edge cases first.

mod common;

use common::{f, gives, i, ints, l, t, text};
use relax_ir::AttrValue;
use relax_tensor::DType;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn flag(v: bool) -> AttrValue {
    AttrValue::Bool(v)
}
fn int(v: i64) -> AttrValue {
    AttrValue::Int(v)
}
fn b(shape: &[i64], elements: &[f64]) -> relax_tensor::Tensor {
    t(DType::BOOL, shape, elements)
}

#[test]
fn unary_operators_know_the_edges() {
    let x = [f(&[5], &[-2.5, -0.5, 0.5, 2.5, NAN])];
    gives(
        "round",
        &[],
        &[&x],
        &[f(&[5], &[-3.0, -1.0, 1.0, 3.0, NAN])],
    );
    gives("sign", &[], &[&x], &[f(&[5], &[-1.0, -1.0, 1.0, 1.0, 0.0])]);
    gives(
        "floor",
        &[],
        &[&[i(&[2], &[-3.0, 3.0])]],
        &[i(&[2], &[-3.0, 3.0])],
    );
    gives(
        "abs",
        &[],
        &[&[t(DType::I8, &[2], &[-128.0, -1.0])]],
        &[t(DType::I8, &[2], &[-128.0, 1.0])],
    );
    gives("isnan", &[], &[&x], &[b(&[5], &[0.0, 0.0, 0.0, 0.0, 1.0])]);
    gives(
        "isfinite",
        &[],
        &[&[f(&[2], &[INF, 1.0])]],
        &[b(&[2], &[0.0, 1.0])],
    );
    gives("isfinite", &[], &[&[i(&[1], &[1.0])]], &[b(&[1], &[1.0])]);
    let bounds = [
        ("a_min", AttrValue::Float(-1.0)),
        ("a_max", AttrValue::Float(1.0)),
    ];
    gives(
        "clip",
        &bounds,
        &[&x],
        &[f(&[5], &[-1.0, -0.5, 0.5, 1.0, 1.0])],
    );
    let wide = [
        ("a_min", AttrValue::Float(-1000.0)),
        ("a_max", AttrValue::Float(1000.0)),
    ];
    gives(
        "clip",
        &wide,
        &[&[t(DType::U8, &[2], &[0.0, 255.0])]],
        &[t(DType::U8, &[2], &[0.0, 255.0])],
    );
    gives("exp", &[], &[&[f(&[0, 3], &[])]], &[f(&[0, 3], &[])]);
}

#[test]
fn division_and_remainder_have_tvms_signs() {
    let (x, y) = (
        [i(&[4], &[7.0, -7.0, 7.0, -7.0])],
        [i(&[4], &[2.0, 2.0, -2.0, -2.0])],
    );
    gives(
        "divide",
        &[],
        &[&x, &y],
        &[i(&[4], &[3.0, -3.0, -3.0, 3.0])],
    );
    gives(
        "floor_divide",
        &[],
        &[&x, &y],
        &[i(&[4], &[3.0, -4.0, -4.0, 3.0])],
    );
    gives("mod", &[], &[&x, &y], &[i(&[4], &[1.0, -1.0, 1.0, -1.0])]);
    gives(
        "floor_mod",
        &[],
        &[&x, &y],
        &[i(&[4], &[1.0, 1.0, -1.0, -1.0])],
    );
    let (x, y) = ([f(&[2], &[-7.0, 7.0])], [f(&[], &[2.0])]);
    gives("trunc_divide", &[], &[&x, &y], &[f(&[2], &[-3.0, 3.0])]);
    gives("floor_divide", &[], &[&x, &y], &[f(&[2], &[-4.0, 3.0])]);
    let big = [t(DType::I8, &[1], &[127.0])];
    gives(
        "add",
        &[],
        &[&big, &[t(DType::I8, &[], &[1.0])]],
        &[t(DType::I8, &[1], &[-128.0])],
    );
}

#[test]
fn broadcasting_aligns_at_the_last_axis() {
    let (x, y) = ([f(&[2, 1], &[1.0, 2.0])], [f(&[3], &[10.0, 20.0, 30.0])]);
    gives(
        "add",
        &[],
        &[&x, &y],
        &[f(&[2, 3], &[11.0, 21.0, 31.0, 12.0, 22.0, 32.0])],
    );
    gives(
        "less",
        &[],
        &[&x, &[f(&[], &[2.0])]],
        &[b(&[2, 1], &[1.0, 0.0])],
    );
    gives(
        "logical_and",
        &[],
        &[&[b(&[2], &[1.0, 0.0])], &[b(&[1], &[1.0])]],
        &[b(&[2], &[1.0, 0.0])],
    );
    gives(
        "maximum",
        &[],
        &[&[f(&[2], &[NAN, 1.0])], &[f(&[2], &[1.0, NAN])]],
        &[f(&[2], &[1.0, NAN])],
    );
    gives(
        "broadcast_to",
        &[("shape", ints(&[2, 2, 1]))],
        &[&x],
        &[f(&[2, 2, 1], &[1.0, 2.0, 1.0, 2.0])],
    );
    gives(
        "dyn.broadcast_to",
        &[],
        &[&x, &[l(&[2], &[2.0, 2.0])]],
        &[f(&[2, 2], &[1.0, 1.0, 2.0, 2.0])],
    );
    let sums = [f(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])];
    gives(
        "collapse_sum_like",
        &[],
        &[&sums, &[f(&[2, 1], &[0.0; 2])]],
        &[f(&[2, 1], &[6.0, 15.0])],
    );
    gives(
        "collapse_sum_like",
        &[],
        &[&sums, &[f(&[3], &[0.0; 3])]],
        &[f(&[3], &[5.0, 7.0, 9.0])],
    );
    gives(
        "collapse_sum_to",
        &[("shape", ints(&[1]))],
        &[&sums, &[l(&[1], &[1.0])]],
        &[f(&[1], &[21.0])],
    );
}

#[test]
fn reductions_over_any_axes() {
    let x = [f(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])];
    gives("sum", &[], &[&x], &[f(&[], &[21.0])]);
    gives(
        "sum",
        &[("axis", ints(&[-1])), ("keepdims", flag(true))],
        &[&x],
        &[f(&[2, 1], &[6.0, 15.0])],
    );
    gives(
        "prod",
        &[("axis", ints(&[1])), ("exclude", flag(true))],
        &[&x],
        &[f(&[3], &[4.0, 10.0, 18.0])],
    );
    gives(
        "max",
        &[("axis", ints(&[0]))],
        &[&[f(&[2], &[-INF, -INF])]],
        &[f(&[], &[f64::from(f32::MIN)])],
    );
    gives(
        "mean",
        &[("axis", int(0))],
        &[&[i(&[2], &[1.0, 2.0])]],
        &[i(&[], &[1.0])],
    );
    gives(
        "mean",
        &[],
        &[&[i(&[2], &[-1.0, -2.0])]],
        &[i(&[], &[-1.0])],
    );
    gives(
        "sum",
        &[("axis", ints(&[0]))],
        &[&[f(&[0, 2], &[])]],
        &[f(&[2], &[0.0, 0.0])],
    );
    gives(
        "all",
        &[("axis", ints(&[1]))],
        &[&[b(&[2, 2], &[1.0, 1.0, 0.0, 1.0])]],
        &[b(&[2], &[1.0, 0.0])],
    );
    gives("any", &[], &[&[b(&[2], &[0.0, 1.0])]], &[b(&[], &[1.0])]);
    let mean = [f(&[2, 1], &[2.0, 5.0])];
    gives(
        "variance",
        &[("axis", ints(&[1]))],
        &[&x, &mean],
        &[f(&[2], &[2.0 / 3.0, 2.0 / 3.0])],
    );
    let unbiased = [
        ("axis", ints(&[1])),
        ("unbiased", flag(true)),
        ("keepdims", flag(true)),
    ];
    gives(
        "variance",
        &unbiased,
        &[&x, &mean],
        &[f(&[2, 1], &[1.0, 1.0])],
    );
}

#[test]
fn argmax_takes_the_first_or_the_last() {
    let x = [f(&[2, 3], &[3.0, 1.0, 3.0, 2.0, 2.0, 1.0])];
    gives(
        "argmax",
        &[("axis", ints(&[1]))],
        &[&x],
        &[i(&[2], &[0.0, 0.0])],
    );
    let last = [("axis", ints(&[1])), ("select_last_index", flag(true))];
    gives("argmax", &last, &[&x], &[i(&[2], &[2.0, 1.0])]);
    gives("argmin", &[], &[&x], &[i(&[], &[1.0])]);
    gives(
        "argmax",
        &[],
        &[&[f(&[2], &[-INF, -INF])]],
        &[i(&[], &[0.0])],
    );
}

#[test]
fn shapes_change_and_elements_stay() {
    let x = [f(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])];
    let as_is = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    gives(
        "reshape",
        &[("newshape", ints(&[3, -1]))],
        &[&x],
        &[f(&[3, 2], as_is)],
    );
    gives(
        "reshape",
        &[("newshape", ints(&[-4, 1, -1, -2]))],
        &[&x],
        &[f(&[1, 2, 3], as_is)],
    );
    gives(
        "reshape",
        &[("newshape", ints(&[-3, 1]))],
        &[&x],
        &[f(&[6, 1], as_is)],
    );
    gives(
        "contrib_reverse_reshape",
        &[("newshape", ints(&[-1, 0]))],
        &[&x],
        &[f(&[2, 3], as_is)],
    );
    gives(
        "dyn.reshape",
        &[],
        &[&x, &[l(&[3], &[0.0, -1.0, 1.0])]],
        &[f(&[2, 3, 1], as_is)],
    );
    gives(
        "dyn.reshape",
        &[],
        &[&x, &[l(&[1], &[-3.0])]],
        &[f(&[6], as_is)],
    );
    gives(
        "reshape_like",
        &[],
        &[&x, &[f(&[3, 2], &[0.0; 6])]],
        &[f(&[3, 2], as_is)],
    );
    gives(
        "transpose",
        &[],
        &[&x],
        &[f(&[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])],
    );
    gives(
        "transpose",
        &[("axes", ints(&[0, -1]))],
        &[&x],
        &[f(&[2, 3], as_is)],
    );
    gives(
        "expand_dims",
        &[("axis", int(-2))],
        &[&x],
        &[f(&[2, 1, 3], as_is)],
    );
    gives(
        "dyn.expand_dims",
        &[],
        &[&x, &[l(&[], &[1.0])]],
        &[f(&[2, 1, 3], as_is)],
    );
    let y = [f(&[1, 2, 1], &[1.0, 2.0])];
    gives(
        "squeeze",
        &[("axis", ints(&[-1]))],
        &[&y],
        &[f(&[1, 2], &[1.0, 2.0])],
    );
    gives(
        "dyn.squeeze",
        &[],
        &[&y, &[l(&[2], &[0.0, -1.0])]],
        &[f(&[2], &[1.0, 2.0])],
    );
    gives(
        "layout_transform",
        &[("src_layout", text("NC")), ("dst_layout", text("CN"))],
        &[&x],
        &[f(&[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])],
    );
}

#[test]
fn parts_join_and_split() {
    let (x, y) = (f(&[1, 2], &[1.0, 2.0]), f(&[2, 2], &[3.0, 4.0, 5.0, 6.0]));
    let all = f(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    gives(
        "concatenate",
        &[],
        &[&[x.clone(), y.clone()]],
        std::slice::from_ref(&all),
    );
    gives(
        "concatenate",
        &[],
        &[&[x.clone(), f(&[0, 2], &[])]],
        std::slice::from_ref(&x),
    );
    gives(
        "stack",
        &[("axis", int(-1))],
        &[&[x.clone(), x.clone()]],
        &[f(&[1, 2, 2], &[1.0, 1.0, 2.0, 2.0])],
    );
    gives(
        "split",
        &[("indices_or_sections", ints(&[1]))],
        &[std::slice::from_ref(&all)],
        &[x, y],
    );
    gives(
        "split",
        &[("indices_or_sections", int(2)), ("axis", int(1))],
        &[&[all]],
        &[f(&[3, 1], &[1.0, 3.0, 5.0]), f(&[3, 1], &[2.0, 4.0, 6.0])],
    );
}

#[test]
fn slices_go_both_ways() {
    let x = [f(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0])];
    let slice = |b: i64, e: i64, s: i64| {
        [
            ("begin", ints(&[b])),
            ("end", ints(&[e])),
            ("strides", ints(&[s])),
        ]
    };
    gives(
        "strided_slice",
        &slice(1, 100, 2),
        &[&x],
        &[f(&[2], &[1.0, 3.0])],
    );
    gives(
        "strided_slice",
        &slice(-1, -6, -2),
        &[&x],
        &[f(&[3], &[4.0, 2.0, 0.0])],
    );
    gives("strided_slice", &slice(3, 3, 1), &[&x], &[f(&[0], &[])]);
    let mut size = slice(1, 2, 1).to_vec();
    size.push(("slice_mode", text("size")));
    gives("strided_slice", &size, &[&x], &[f(&[2], &[1.0, 2.0])]);
    let one = |v: f64| [l(&[1], &[v])];
    gives(
        "dyn.strided_slice",
        &[],
        &[&x, &one(-1.0), &one(-6.0), &one(-2.0)],
        &[f(&[3], &[4.0, 2.0, 0.0])],
    );
    gives(
        "dyn.strided_slice",
        &[],
        &[&x, &one(7.0), &one(9.0), &one(1.0)],
        &[f(&[0], &[])],
    );
    gives(
        "slice_like",
        &[],
        &[&x, &[f(&[2], &[0.0; 2])]],
        &[f(&[2], &[0.0, 1.0])],
    );
    let one = |v: f64| [i(&[1], &[v])];
    gives(
        "strided_set",
        &[],
        &[&x, &[f(&[2], &[8.0, 9.0])], &one(1.0), &one(4.0), &one(2.0)],
        &[f(&[5], &[0.0, 8.0, 2.0, 9.0, 4.0])],
    );
}

#[test]
fn indices_outside_are_clipped_or_wrapped() {
    let x = [f(&[3], &[10.0, 20.0, 30.0])];
    let at = [i(&[3], &[-1.0, 1.0, 3.0])];
    gives(
        "take",
        &[("axis", int(0))],
        &[&x, &at],
        &[f(&[3], &[10.0, 20.0, 30.0])],
    );
    gives(
        "take",
        &[("mode", text("wrap"))],
        &[&x, &at],
        &[f(&[3], &[30.0, 20.0, 10.0])],
    );
    let y = [f(&[2, 2], &[1.0, 2.0, 3.0, 4.0])];
    let batch = [("axis", int(1)), ("batch_dims", int(1))];
    gives(
        "take",
        &batch,
        &[&y, &[i(&[2, 1], &[1.0, 0.0])]],
        &[f(&[2, 1], &[2.0, 3.0])],
    );
    gives(
        "gather",
        &[("axis", int(1))],
        &[&y, &[i(&[2, 1], &[-1.0, 0.0])]],
        &[f(&[2, 1], &[2.0, 3.0])],
    );
    gives(
        "gather_nd",
        &[("index_rank", int(2))],
        &[&y, &[i(&[2, 2], &[0.0, 1.0, 1.0, 0.0])]],
        &[f(&[2], &[2.0, 3.0])],
    );
    gives(
        "adv_index",
        &[],
        &[&[y[0].clone(), i(&[2], &[1.0, 0.0]), i(&[1], &[1.0])]],
        &[f(&[2], &[4.0, 2.0])],
    );
    gives(
        "reverse",
        &[("axis", int(-1))],
        &[&y],
        &[f(&[2, 2], &[2.0, 1.0, 4.0, 3.0])],
    );
    gives(
        "reverse_sequence",
        &[],
        &[&y, &[i(&[2], &[1.0, 7.0])]],
        &[f(&[2, 2], &[1.0, 2.0, 4.0, 3.0])],
    );
    gives(
        "repeat",
        &[("repeats", int(2)), ("axis", int(1))],
        &[&y],
        &[f(&[2, 4], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0])],
    );
    gives(
        "tile",
        &[("reps", ints(&[2]))],
        &[&x],
        &[f(&[6], &[10.0, 20.0, 30.0, 10.0, 20.0, 30.0])],
    );
    gives(
        "dyn.tile",
        &[],
        &[&x, &[l(&[2], &[2.0, 1.0])]],
        &[f(&[2, 3], &[10.0, 20.0, 30.0, 10.0, 20.0, 30.0])],
    );
}

#[test]
fn updates_arrive_in_order() {
    let x = [f(&[3], &[1.0, 2.0, 3.0])];
    let (at, new) = ([i(&[3], &[0.0, -1.0, 0.0])], [f(&[3], &[5.0, 6.0, 7.0])]);
    gives(
        "scatter_elements",
        &[],
        &[&x, &at, &new],
        &[f(&[3], &[7.0, 2.0, 6.0])],
    );
    gives(
        "scatter_elements",
        &[("reduction", text("add"))],
        &[&x, &at, &new],
        &[f(&[3], &[13.0, 2.0, 9.0])],
    );
    gives(
        "scatter_elements",
        &[("reduction", text("min"))],
        &[&x, &at, &new],
        &[f(&[3], &[1.0, 2.0, 3.0])],
    );
    gives(
        "scatter_nd",
        &[("mode", text("add"))],
        &[&x, &[i(&[1, 2], &[2.0, 2.0])], &[f(&[2], &[1.0, 1.0])]],
        &[f(&[3], &[1.0, 2.0, 5.0])],
    );
    let (rows, values) = ([i(&[2, 2], &[0.0, 1.0, 1.0, 0.0])], [f(&[2], &[5.0, 6.0])]);
    gives(
        "sparse_to_dense",
        &[("output_shape", ints(&[2, 2]))],
        &[&rows, &values, &[f(&[], &[9.0])]],
        &[f(&[2, 2], &[9.0, 5.0, 6.0, 9.0])],
    );
}

#[test]
fn conditions_choose() {
    gives(
        "where",
        &[],
        &[
            &[b(&[2], &[1.0, 0.0])],
            &[f(&[], &[1.0])],
            &[f(&[2, 1], &[2.0, 3.0])],
        ],
        &[f(&[2, 2], &[1.0, 2.0, 1.0, 3.0])],
    );
    let hot = [("depth", int(3)), ("dtype", AttrValue::DType(DType::F32))];
    gives(
        "one_hot",
        &hot,
        &[
            &[i(&[2], &[2.0, 5.0])],
            &[f(&[], &[1.0])],
            &[f(&[], &[0.0])],
        ],
        &[f(&[2, 3], &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0])],
    );
    let x = [f(&[2, 2], &[1.0, 2.0, 3.0, 4.0])];
    gives(
        "trilu",
        &[],
        &[&x, &[i(&[], &[0.0])]],
        &[f(&[2, 2], &[1.0, 2.0, 0.0, 4.0])],
    );
    gives(
        "trilu",
        &[("upper", flag(false))],
        &[&x, &[i(&[], &[-1.0])]],
        &[f(&[2, 2], &[0.0, 0.0, 3.0, 0.0])],
    );
    gives(
        "sequence_mask",
        &[("mask_value", AttrValue::Float(-1.0))],
        &[&x, &[i(&[2], &[1.0, 2.0])]],
        &[f(&[2, 2], &[1.0, 2.0, -1.0, 4.0])],
    );
    gives(
        "matrix_set_diag",
        &[],
        &[&x, &[f(&[2], &[8.0, 9.0])]],
        &[f(&[2, 2], &[8.0, 2.0, 3.0, 9.0])],
    );
    let two = [("k1", int(-1)), ("k2", int(0))];
    gives(
        "matrix_set_diag",
        &two,
        &[&x, &[f(&[2, 2], &[8.0, 9.0, 7.0, 0.0])]],
        &[f(&[2, 2], &[8.0, 2.0, 7.0, 9.0])],
    );
}

#[test]
fn sorting_is_stable() {
    let x = [f(&[2, 3], &[2.0, 1.0, 2.0, 0.0, 5.0, 0.0])];
    gives(
        "sort",
        &[],
        &[&x],
        &[f(&[2, 3], &[1.0, 2.0, 2.0, 0.0, 0.0, 5.0])],
    );
    gives(
        "argsort",
        &[("dtype", text("int32"))],
        &[&x],
        &[i(&[2, 3], &[1.0, 0.0, 2.0, 0.0, 2.0, 1.0])],
    );
    let down = [("is_ascend", flag(false)), ("axis", int(0))];
    gives(
        "argsort",
        &down,
        &[&x],
        &[i(&[2, 3], &[0.0, 1.0, 0.0, 1.0, 0.0, 1.0])],
    );
    let wanted = [f(&[2, 1], &[2.0, 5.0]), i(&[2, 1], &[0.0, 1.0])];
    gives("topk", &[("k", int(1))], &[&x], &wanted);
    gives("dyn.topk", &[], &[&x, &[l(&[], &[1.0])]], &wanted);
    gives(
        "topk",
        &[
            ("k", int(0)),
            ("ret_type", text("values")),
            ("is_ascend", flag(true)),
        ],
        &[&x],
        &[f(&[2, 3], &[1.0, 2.0, 2.0, 0.0, 0.0, 5.0])],
    );
    gives(
        "searchsorted",
        &[],
        &[&[f(&[3], &[1.0, 2.0, 2.0])], &[f(&[3], &[0.0, 2.0, 3.0])]],
        &[i(&[3], &[0.0, 1.0, 3.0])],
    );
    gives(
        "searchsorted",
        &[("right", flag(true))],
        &[&[f(&[3], &[1.0, 2.0, 2.0])], &[f(&[1], &[2.0])]],
        &[i(&[1], &[3.0])],
    );
    let v = [i(&[4], &[5.0, 3.0, 5.0, 4.0])];
    gives(
        "unique",
        &[("return_counts", flag(true))],
        &[&v],
        &[
            i(&[4], &[3.0, 4.0, 5.0, 0.0]),
            i(&[4], &[1.0, 3.0, 0.0, 4.0]),
            i(&[4], &[2.0, 0.0, 2.0, 1.0]),
            i(&[1], &[3.0]),
            i(&[4], &[1.0, 1.0, 2.0, 0.0]),
        ],
    );
    gives(
        "unique",
        &[("sorted", flag(false))],
        &[&v],
        &[
            i(&[4], &[5.0, 3.0, 4.0, 0.0]),
            i(&[4], &[0.0, 1.0, 3.0, 4.0]),
            i(&[4], &[0.0, 1.0, 0.0, 2.0]),
            i(&[1], &[3.0]),
        ],
    );
}

#[test]
fn running_sums() {
    let x = [i(&[2, 2], &[1.0, 2.0, 3.0, 4.0])];
    gives("cumsum", &[], &[&x], &[i(&[4], &[1.0, 3.0, 6.0, 10.0])]);
    gives(
        "cumsum",
        &[("axis", int(-1)), ("exclusive", flag(true))],
        &[&x],
        &[i(&[2, 2], &[0.0, 1.0, 0.0, 3.0])],
    );
    gives(
        "cumprod",
        &[("axis", int(0)), ("dtype", text("int64"))],
        &[&x],
        &[l(&[2, 2], &[1.0, 2.0, 3.0, 8.0])],
    );
}

#[test]
fn numbers_about_shapes() {
    let x = [f(&[2, 3], &[0.0, 1.0, 0.0, 2.0, 0.0, NAN])];
    gives("shape_of", &[], &[&x], &[i(&[2], &[2.0, 3.0])]);
    gives("ndarray_size", &[], &[&x], &[i(&[], &[6.0])]);
    gives(
        "argwhere",
        &[],
        &[&x],
        &[i(&[3, 2], &[0.0, 1.0, 1.0, 0.0, 1.0, 2.0])],
    );
    gives(
        "argwhere",
        &[],
        &[&[b(&[2], &[0.0, 0.0])]],
        &[i(&[0, 1], &[])],
    );
    gives(
        "unravel_index",
        &[],
        &[&[i(&[2], &[22.0, 41.0])], &[i(&[2], &[7.0, 6.0])]],
        &[i(&[2, 2], &[3.0, 6.0, 4.0, 5.0])],
    );
    gives(
        "invert_permutation",
        &[],
        &[&[i(&[3], &[2.0, 0.0, 1.0])]],
        &[i(&[3], &[1.0, 2.0, 0.0])],
    );
    gives(
        "meshgrid",
        &[("indexing", text("xy"))],
        &[&[f(&[2], &[1.0, 2.0]), f(&[1], &[3.0])]],
        &[f(&[1, 2], &[1.0, 2.0]), f(&[1, 2], &[3.0, 3.0])],
    );
    gives(
        "arange",
        &[],
        &[&[f(&[], &[1.0])], &[f(&[], &[2.0])], &[f(&[], &[0.4])]],
        &[f(&[3], &[1.0, 1.4, 1.8])],
    );
    gives(
        "dyn.full",
        &[],
        &[&[f(&[], &[7.0])], &[l(&[2], &[1.0, 2.0])]],
        &[f(&[1, 2], &[7.0, 7.0])],
    );
    gives(
        "zeros",
        &[("shape", ints(&[0, 2]))],
        &[],
        &[f(&[0, 2], &[])],
    );
}

#[test]
fn sparse_rows_and_shapes() {
    let rows = [l(&[3, 2], &[1.0, 1.0, 1.0, 3.0, 4.0, 0.0])];
    gives(
        "sparse_fill_empty_rows",
        &[],
        &[
            &rows,
            &[l(&[3], &[5.0, 6.0, 7.0])],
            &[l(&[2], &[6.0, 4.0])],
            &[l(&[], &[9.0])],
        ],
        &[
            l(
                &[7, 2],
                &[
                    0.0, 0.0, 1.0, 1.0, 1.0, 3.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0, 5.0, 0.0,
                ],
            ),
            l(&[7], &[9.0, 5.0, 6.0, 9.0, 9.0, 7.0, 9.0]),
            l(&[6], &[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]),
        ],
    );
    gives(
        "sparse_reshape",
        &[],
        &[&rows, &[l(&[2], &[6.0, 4.0])], &[l(&[2], &[3.0, -1.0])]],
        &[
            l(&[3, 2], &[0.0, 5.0, 0.0, 7.0, 2.0, 0.0]),
            l(&[2], &[3.0, 8.0]),
        ],
    );
}

#[test]
fn sums_by_equation() {
    let (x, y) = (
        f(&[2, 2], &[1.0, 2.0, 3.0, 4.0]),
        f(&[2, 2], &[5.0, 6.0, 7.0, 8.0]),
    );
    let by = |e: &str| [("equation", text(e))];
    gives(
        "einsum",
        &by("ij,jk->ik"),
        &[&[x.clone(), y.clone()]],
        &[f(&[2, 2], &[19.0, 22.0, 43.0, 50.0])],
    );
    gives(
        "einsum",
        &by("ij,jk"),
        &[&[x.clone(), y]],
        &[f(&[2, 2], &[19.0, 22.0, 43.0, 50.0])],
    );
    gives(
        "einsum",
        &by("ii->i"),
        &[std::slice::from_ref(&x)],
        &[f(&[2], &[1.0, 4.0])],
    );
    gives(
        "einsum",
        &by("...i->..."),
        &[std::slice::from_ref(&x)],
        &[f(&[2], &[3.0, 7.0])],
    );
    gives("einsum", &by("ij->"), &[&[x]], &[f(&[], &[10.0])]);
}

/// By factors, by halves of odd ones and as a convolution, against the sum that defines it.
#[test]
fn transforms_of_any_extent() {
    for n in [1, 2, 6, 17, 34, 64, 127, 257, 271] {
        let number = |k: usize, a: usize| ((k * a + 3) % 11) as f64 - 5.0;
        let (x, y): (Vec<f64>, Vec<f64>) = (0..2 * n).map(|k| (number(k, 7), number(k, 5))).unzip();
        for inverse in [false, true] {
            let (mut re, mut im) = (vec![], vec![]);
            for k in 0..2 * n {
                let (mut a, mut b) = (0.0, 0.0);
                for j in 0..n {
                    let turns = (j * (k % n) % n) as f64 / n as f64;
                    let angle = std::f64::consts::TAU * if inverse { turns } else { -turns };
                    let (x, y) = (x[k / n * n + j], y[k / n * n + j]);
                    a += x * angle.cos() - y * angle.sin();
                    b += x * angle.sin() + y * angle.cos();
                }
                let scale = if inverse { 1.0 / n as f64 } else { 1.0 };
                re.push(a * scale);
                im.push(b * scale);
            }
            let [x, y, re, im] = [&x, &y, &re, &im].map(|v| [f(&[2, n as i64], v)]);
            let [re, im] = [re, im].map(|[v]| v);
            gives("dft", &[("inverse", flag(inverse))], &[&x, &y], &[re, im]);
        }
    }
}

#[test]
fn transforms_of_signals() {
    let x = [f(&[4], &[1.0, 2.0, 3.0, 4.0])];
    let zero = [f(&[4], &[0.0; 4])];
    let (re, im) = (
        f(&[4], &[10.0, -2.0, -2.0, -2.0]),
        f(&[4], &[0.0, 2.0, 0.0, -2.0]),
    );
    gives("dft", &[], &[&x, &zero], &[re.clone(), im.clone()]);
    gives(
        "dft",
        &[("inverse", flag(true))],
        &[&[re], &[im]],
        &[x[0].clone(), zero[0].clone()],
    );
    let sizes = [
        ("n_fft", int(3)),
        ("hop_length", int(3)),
        ("win_length", int(3)),
    ];
    gives(
        "stft",
        &sizes,
        &[
            &[f(&[1, 6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])],
            &[f(&[3], &[4.0, 3.0, 2.0])],
        ],
        &[f(
            &[1, 2, 2, 2],
            &[16.0, 0.0, 43.0, 0.0, -2.0, 0.0, 2.5, -2.598_076],
        )],
    );
    let window = [
        ("axis", int(0)),
        ("window_shape", ints(&[2])),
        ("strides", ints(&[1])),
    ];
    gives(
        "sliding_window",
        &window,
        &[&x],
        &[f(&[3, 2], &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0])],
    );
}

#[test]
fn fixed_point_products_round() {
    let x = [i(&[4], &[3.0, -3.0, 5.0, -5.0])];
    let half = [("multiplier", int(1 << 30)), ("shift", int(0))];
    gives(
        "fixed_point_multiply",
        &half,
        &[&x],
        &[i(&[4], &[2.0, -1.0, 3.0, -2.0])],
    );
    let one_and_half = [("multiplier", int(3 << 29)), ("shift", int(1))];
    gives(
        "fixed_point_multiply",
        &one_and_half,
        &[&x],
        &[i(&[4], &[5.0, -4.0, 8.0, -7.0])],
    );
}
