//! The inference forms of layers that behave differently in training.

use relax_ir::{AttrValue, ExprId};
use relax_tensor::Tensor;

use crate::{Build, Site};

fn bi(b: &mut dyn Build, op: &'static str, x: ExprId, y: ExprId) -> ExprId {
    b.call(op, &[x, y], &[])
}
fn un(b: &mut dyn Build, op: &'static str, x: ExprId) -> ExprId {
    b.call(op, &[x], &[])
}
fn number(b: &mut dyn Build, like: ExprId, value: f64) -> Option<ExprId> {
    let dtype = b.dtype(like)?;
    // TVM stores attributes of this kind in single precision.
    let value = Tensor::scalar_f64(dtype, f64::from(value as f32));
    Some(b.constant(value))
}
/// Only float computations have another form: integers are truncated at each step, so that other
/// steps would give other values.
fn of_floats(b: &dyn Build, data: ExprId) -> Option<()> {
    b.dtype(data)?.is_float().then_some(())
}
/// Reshapes a vector along one axis, with axes of extent 1 after it.
fn along(b: &mut dyn Build, x: ExprId, rank: usize, axis: usize) -> ExprId {
    let after = rank - axis - 1;
    if after == 0 {
        return x;
    }
    let attrs = [
        ("axis", AttrValue::Int(1)),
        ("num_newaxis", AttrValue::Int(after as i64)),
    ];
    b.call("expand_dims", &[x], &attrs)
}
fn axis_of(b: &mut dyn Build, site: &Site) -> Option<(usize, usize)> {
    let rank = b.rank(site.args[0])?;
    let axis = site.int("axis")?;
    let axis = if axis < 0 { axis + rank as i64 } else { axis } as usize;
    (axis < rank).then_some((rank, axis))
}

/// The inference form of `nn.batch_norm`: its first result.
pub fn batch_norm(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let [data, gamma, beta, mean, var] = site.args[..] else {
        return None;
    };
    let (rank, axis) = axis_of(b, site)?;
    of_floats(b, data)?;
    let epsilon = number(b, data, site.float("epsilon")?)?;
    let var = bi(b, "add", var, epsilon);
    let root = un(b, "sqrt", var);
    let one = number(b, data, 1.0)?;
    let mut scale = bi(b, "divide", one, root);
    if site.flag("scale") {
        scale = bi(b, "multiply", scale, gamma);
    }
    let negative = un(b, "negative", mean);
    let mut shift = bi(b, "multiply", negative, scale);
    if site.flag("center") {
        shift = bi(b, "add", shift, beta);
    }
    let scale = along(b, scale, rank, axis);
    let shift = along(b, shift, rank, axis);
    let out = bi(b, "multiply", data, scale);
    Some(bi(b, "add", out, shift))
}

/// The inference form of Relax's batch normalisation: all of its results, in TVM's steps.
pub fn relax_batch_norm(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let [data, gamma, beta, mean, var] = site.args[..] else {
        return None;
    };
    let (rank, axis) = axis_of(b, site)?;
    let others: Vec<i64> = (0..rank as i64).filter(|&a| a != axis as i64).collect();
    let epsilon = number(b, data, site.float("epsilon")?)?;
    let wide = |b: &mut dyn Build, x: ExprId| match others.is_empty() {
        true => x,
        false => b.call(
            "relax.expand_dims",
            &[x],
            &[("axis", AttrValue::ints(&others))],
        ),
    };
    let (wide_mean, wide_var) = (wide(b, mean), wide(b, var));
    let centred = bi(b, "subtract", data, wide_mean);
    let sum = bi(b, "add", wide_var, epsilon);
    let root = un(b, "sqrt", sum);
    let mut out = bi(b, "divide", centred, root);
    if site.flag("scale") {
        let gamma = wide(b, gamma);
        out = bi(b, "multiply", out, gamma);
    }
    if site.flag("center") {
        let beta = wide(b, beta);
        out = bi(b, "add", out, beta);
    }
    Some(b.tuple(&[out, mean, var]))
}

/// The inference form of `nn.dropout`: its first result.
pub fn dropout(_: &mut dyn Build, site: &Site) -> Option<ExprId> {
    site.args.first().copied()
}

/// `(data - mean) / sqrt(variance + epsilon)` over some axes.
fn normal(b: &mut dyn Build, site: &Site, data: ExprId, axes: &[i64]) -> Option<ExprId> {
    of_floats(b, data)?;
    let epsilon = number(b, data, site.float("epsilon")?)?;
    let attrs = [
        ("axis", AttrValue::ints(axes)),
        ("keepdims", AttrValue::Bool(true)),
        ("exclude", AttrValue::Bool(false)),
    ];
    let mean = b.call("mean", &[data], &attrs);
    let var = b.call("variance", &[data, mean], &attrs);
    let sum = bi(b, "add", var, epsilon);
    let root = un(b, "sqrt", sum);
    let centred = bi(b, "subtract", data, mean);
    Some(bi(b, "divide", centred, root))
}

fn scaled(b: &mut dyn Build, site: &Site, mut out: ExprId, rank: usize, axis: usize) -> ExprId {
    if site.flag("scale") {
        let gamma = along(b, site.args[1], rank, axis);
        out = bi(b, "multiply", out, gamma);
    }
    if site.flag("center") {
        let beta = along(b, site.args[2], rank, axis);
        out = bi(b, "add", out, beta);
    }
    out
}

/// The inference form of `nn.layer_norm`.
pub fn layer_norm(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let (rank, axis) = axis_of(b, site)?;
    let given = site.int("axis")?;
    let out = normal(b, site, site.args[0], &[given])?;
    Some(scaled(b, site, out, rank, axis))
}

/// The inference form of `nn.instance_norm`.
pub fn instance_norm(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let (rank, axis) = axis_of(b, site)?;
    let axes: Vec<i64> = (1..rank as i64).filter(|&a| a != axis as i64).collect();
    let out = normal(b, site, site.args[0], &axes)?;
    Some(scaled(b, site, out, rank, axis))
}

/// The inference form of `nn.group_norm`.
pub fn group_norm(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let (rank, axis) = axis_of(b, site)?;
    of_floats(b, site.args[0])?;
    let old = b.extents(site.args[0])?;
    let groups = site.int("num_groups")?;
    let (mut new, mut axes) = (Vec::new(), Vec::new());
    for (i, &n) in old.iter().enumerate() {
        if i == axis {
            new.extend([groups, n.checked_div(groups)?]);
        } else {
            new.push(n);
        }
        if i >= axis {
            axes.push(i as i64 + 1);
        }
    }
    let data = b.call(
        "reshape",
        &[site.args[0]],
        &[("newshape", AttrValue::ints(&new))],
    );
    let out = normal(b, site, data, &axes)?;
    let out = b.call("reshape", &[out], &[("newshape", AttrValue::ints(&old))]);
    Some(scaled(b, site, out, rank, axis))
}

/// The inference form of `nn.l2_normalize`.
pub fn l2_normalize(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let data = site.args[0];
    // For integers, the computation truncates elsewhere.
    b.dtype(data).filter(|d| d.is_float())?;
    let epsilon = number(b, data, site.float("eps")?)?;
    let square = bi(b, "multiply", data, data);
    let attrs = [
        ("axis", site.value("axis")),
        ("keepdims", AttrValue::Bool(true)),
        ("exclude", AttrValue::Bool(false)),
    ];
    let sum = b.call("sum", &[square], &attrs);
    let sum = bi(b, "maximum", sum, epsilon);
    let root = un(b, "sqrt", sum);
    Some(bi(b, "divide", data, root))
}
