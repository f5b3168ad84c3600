//! The distinct slices of a tensor, the positions of extremes in windows, and determinants: small
//! searches written as loops.

use relax_loops::{Ex, Nest, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::sort::{Outputs, sort_lines};
use super::util::{axis_attr, finish, finish_tuple, int_list, shaped, tensor_type};
use super::util_te::{Done, flat, with, without};
use crate::AttrTy::*;
use crate::{Default, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "unique_slices",
        "The distinct slices along an axis, where each occurs first, which one each slice is, and how often each occurs.",
        unique,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr("axis", Int, Default::Int(0), "the axis"),
        attr(
            "sorted",
            Bool,
            Default::Bool(true),
            "whether they are in order of their elements rather than of occurrence",
        ),
    ])
    .data_dependent()
    .compute(unique_compute),
    OpDef::new(
        "nn.max_pool_positions",
        "Where in the whole tensor the maximum of each window stands, in row-major order.",
        positions,
    )
    .inputs(&[input("data", "a batch, channels, and any number of spatial axes")])
    .attrs(&[
        attr("pool_size", Ints, Default::Required, "extents of the window"),
        attr("strides", Ints, Default::Required, "steps along the spatial axes"),
        attr("dilation", Ints, Default::Required, "distance of taps along the spatial axes"),
        attr("padding", Ints, Default::Required, "padding before all spatial axes, then behind them"),
        attr("ceil_mode", Bool, Default::Bool(false), "whether a last partial window counts"),
        attr(
            "column_major",
            Bool,
            Default::Bool(false),
            "whether the spatial axes are counted from the first rather than the last",
        ),
    ])
    .compute(positions_compute),
    OpDef::new("determinant", "The determinants of matrices.", determinant)
        .inputs(&[input("data", "any leading axes, then square matrices of floats")])
        .compute(determinant_compute),
];

fn unique(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(dims) = dims else {
        return cx.refuse(Subject::Arg(0), "the rank of the input must be known");
    };
    let axis = axis_attr(cx, "axis", dims.len())?;
    let mut kept = dims.clone();
    kept[axis] = Dim::ANY;
    let values = tensor_type(cx, kept, dtype)?;
    let some = tensor_type(cx, vec![Dim::ANY], DType::I64)?;
    let all = tensor_type(cx, vec![dims[axis].clone()], DType::I64)?;
    finish_tuple(cx, vec![values, some, all, some])
}

fn unique_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let sorted = te.flag("sorted");
    for t in distinct(te, &x, axis, sorted) {
        te.output(&t);
    }
    Ok(())
}

/// Returns the distinct slices, the first occurrence of each, the number of the distinct slice for
/// each slice, and the counts. Each slice is compared with those before it, and each distinct one
/// with the others.
pub(super) fn distinct(
    te: &mut Te<'_>,
    x: &TensorRef,
    axis: usize,
    sorted: bool,
) -> [TensorRef; 4] {
    let count = x.shape[axis].clone();
    let others = without(&x.shape, axis);
    let at = |i: &Ex, o: &[Ex]| x.at(&with(o, axis, i.clone()));
    let one = std::slice::from_ref;
    let first = te.temp("first", DType::I64, one(&count));
    let place = te.temp("place", DType::I64, one(&count));
    let total = te.temp("total", DType::I64, &[]);
    let marks = [&first, &place, &total];
    match others.iter().all(|n| n.as_int() == Some(1)) {
        true => by_order(te, x, axis, sorted, marks),
        false => by_comparison(te, x, axis, sorted, marks),
    }
    let mut shape = x.shape.clone();
    shape[axis] = total.scalar();
    let values = te.temp("values", x.dtype, &shape);
    let starts = te.temp("starts", DType::I64, &[total.scalar()]);
    let which = te.temp("which", DType::I64, one(&count));
    let counts = te.temp("counts", DType::I64, &[total.scalar()]);
    te.nest(|n| {
        n.for_(total.scalar(), |n, k| n.store(&counts, one(k), 0i64));
        n.for_(count.clone(), |n, a| {
            let from = n.let_(first.at(one(a)));
            let to = n.let_(place.at(one(&from)));
            n.store(&which, one(a), to.clone());
            n.store(&counts, one(&to), counts.at(one(&to)) + 1);
            n.if_(from.eq(a), |n| {
                n.store(&starts, one(&to), a);
                n.grid(&others, |n, o| {
                    n.store(&values, &with(o, axis, to.clone()), at(a, o));
                });
            });
        });
    });
    [values, starts, which, counts]
}

/// Finds for each of the elements of a line the first that equals it, the places of these, and how
/// many there are: equal ones are adjacent in the stable order of all.
fn by_order(
    te: &mut Te<'_>,
    x: &TensorRef,
    axis: usize,
    sorted: bool,
    [first, place, total]: [&TensorRef; 3],
) {
    let (count, one) = (&x.shape[axis], std::slice::from_ref);
    let line = vec![Ex::idx(0); x.rank() - 1];
    let within = |k: Ex| with(&line, axis, k);
    let order = te.temp("order", DType::I64, &x.shape);
    let out = Outputs {
        values: None,
        indices: Some(order.clone()),
    };
    sort_lines(te, x, (axis, true), count, &out);
    te.nest(|n| {
        let (found, start) = (n.cell(Ex::idx(0)), n.cell(Ex::idx(0)));
        n.for_(count.clone(), |n, k| {
            let at = n.let_(order.at(&within(k.clone())));
            let before = n.let_(order.at(&within((k - 1).max(0i64))));
            // NaN equals nothing, not even itself.
            let new = k.eq(0i64) | x.at(&within(at.clone())).ne(x.at(&within(before)));
            n.if_(new, |n| {
                n.set(&start, at.clone());
                n.store(place, one(&at), found.scalar());
                n.set(&found, found.scalar() + 1);
            });
            n.store(first, &[at], start.scalar());
        });
        n.set(total, found.scalar());
        if !sorted {
            let next = n.cell(Ex::idx(0));
            n.for_(count.clone(), |n, a| {
                n.if_(first.at(one(a)).eq(a), |n| {
                    n.store(place, one(a), next.scalar());
                    n.set(&next, next.scalar() + 1);
                });
            });
        }
    });
}

/// The same of slices of any extents, each compared with all others.
fn by_comparison(
    te: &mut Te<'_>,
    x: &TensorRef,
    axis: usize,
    sorted: bool,
    [first, place, total]: [&TensorRef; 3],
) {
    let (count, one) = (x.shape[axis].clone(), std::slice::from_ref);
    let others = without(&x.shape, axis);
    let at = |i: &Ex, o: &[Ex]| x.at(&with(o, axis, i.clone()));
    te.nest(|n| {
        n.for_(count.clone(), |n, a| {
            let found = n.cell(Ex::idx(-1));
            n.for_(count.clone(), |n, b| {
                n.if_(found.scalar().lt(0i64), |n| {
                    let same = n.cell(Ex::bool(true));
                    n.grid(&others, |n, o| {
                        n.if_(at(a, o).ne(at(b, o)), |n| n.set(&same, Ex::bool(false)));
                    });
                    n.if_(same.scalar(), |n| n.set(&found, b));
                });
            });
            // NaN equals nothing, not even itself.
            let own = Ex::where_(&found.scalar().lt(0i64), a, &found.scalar());
            n.store(first, one(a), own);
        });
        n.set(total, 0i64);
        n.for_(count.clone(), |n, a| {
            let before = n.cell(Ex::idx(0));
            n.if_(first.at(one(a)).eq(a), |n| {
                n.set(total, total.scalar() + 1);
                n.for_(count.clone(), |n, c| {
                    n.if_(first.at(one(c)).eq(c), |n| {
                        let earlier = earlier(n, sorted, a, c, &others, &at);
                        n.if_(earlier, |n| n.set(&before, before.scalar() + 1));
                    });
                });
            });
            n.store(place, one(a), before.scalar());
        });
    });
}

/// Returns whether slice `c` is ordered before slice `a`.
fn earlier(
    n: &mut Nest<'_>,
    sorted: bool,
    a: &Ex,
    c: &Ex,
    others: &[Ex],
    at: &dyn Fn(&Ex, &[Ex]) -> Ex,
) -> Ex {
    if !sorted {
        return c.lt(a);
    }
    let order = n.cell(Ex::idx(0));
    n.grid(others, |n, o| {
        n.if_(order.scalar().eq(0i64), |n| {
            n.if_(at(c, o).lt(at(a, o)), |n| n.set(&order, -1i64));
            n.if_(at(c, o).gt(at(a, o)), |n| n.set(&order, 1i64));
        });
    });
    order.scalar().lt(0i64)
}

/// A window: extents, strides, dilations, and padding before and after.
struct Window {
    size: Vec<i64>,
    strides: Vec<i64>,
    dilation: Vec<i64>,
    padding: Vec<i64>,
    ceil: bool,
}

impl Window {
    /// Returns the number of windows along spatial axis `a`.
    fn count<E>(&self, a: usize, extent: &E, f: &dyn Fn(&E, i64, i64) -> E) -> E {
        let k = self.size.len();
        let reach = (self.size[a] - 1) * self.dilation[a] + 1;
        let more = self.padding[a] + self.padding[k + a] - reach
            + if self.ceil { self.strides[a] - 1 } else { 0 };
        f(extent, more, self.strides[a])
    }
}

fn positions(cx: &mut RelCx<'_>) -> RelResult {
    let window = Window {
        size: int_list(cx, "pool_size")?,
        strides: int_list(cx, "strides")?,
        dilation: int_list(cx, "dilation")?,
        padding: int_list(cx, "padding")?,
        ceil: cx.flag("ceil_mode"),
    };
    let (dims, _) = shaped(cx, 0)?;
    let Some(dims) = dims else {
        return cx.finish_unranked(DType::I64);
    };
    let k = dims.len().saturating_sub(2);
    let lists = [&window.size, &window.strides, &window.dilation];
    if k == 0 || lists.iter().any(|l| l.len() != k) || window.padding.len() != 2 * k {
        return cx.refuse(
            Subject::Call,
            format!("the window's numbers do not fit {k} spatial axes"),
        );
    }
    if lists.iter().any(|l| l.iter().any(|&v| v < 1)) {
        return cx.refuse(
            Subject::Call,
            "extents, steps and distances must be positive",
        );
    }
    let mut out = dims[..2].to_vec();
    for a in 0..k {
        let count = |d: &Dim, more: i64, step: i64| (d + more).floordiv(&Dim::from(step)) + 1;
        out.push(window.count(a, &dims[2 + a], &count));
    }
    finish(cx, out, DType::I64)
}

fn positions_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let list = |name: &str| te.ints(name).ok_or_else(|| format!("`{name}` is missing"));
    let window = Window {
        size: list("pool_size")?,
        strides: list("strides")?,
        dilation: list("dilation")?,
        padding: list("padding")?,
        ceil: te.flag("ceil_mode"),
    };
    let columns = te.flag("column_major");
    let k = window.size.len();
    let mut shape = x.shape[..2].to_vec();
    for a in 0..k {
        let count = |n: &Ex, more: i64, step: i64| (n + more).floor_div(step) + 1;
        shape.push(window.count(a, &x.shape[2 + a], &count));
    }
    let y = te.temp("y", DType::I64, &shape);
    let taps: Vec<Ex> = window.size.iter().map(|&s| Ex::idx(s)).collect();
    te.nest(|n| {
        n.grid(&shape, |n, i| {
            let best = n.cell(Ex::int(x.dtype, 0));
            let place = n.cell(Ex::idx(-1));
            n.grid(&taps, |n, r| {
                let mut at = i[..2].to_vec();
                let mut inside = Ex::bool(true);
                for a in 0..k {
                    let p = &i[2 + a] * window.strides[a] + &r[a] * window.dilation[a]
                        - window.padding[a];
                    let here = p.ge(0i64) & p.lt(&x.shape[2 + a]);
                    inside = if a == 0 { here } else { inside & here };
                    at.push(p);
                }
                n.if_(inside, |n| {
                    let v = n.let_(x.at(&at));
                    let keep = place.scalar().ge(0i64) & best.scalar().ge(&v);
                    n.if_(!keep, |n| {
                        n.set(&best, v.clone());
                        n.set(&place, place_of(&at, &x, columns));
                    });
                });
            });
            n.store(&y, i, place.scalar());
        });
    });
    te.output(&y);
    Ok(())
}

fn place_of(at: &[Ex], x: &TensorRef, columns: bool) -> Ex {
    if !columns {
        return flat(at, &x.shape);
    }
    let turned = |v: &[Ex]| {
        let space = v[2..].iter().rev();
        v[..2].iter().chain(space).cloned().collect::<Vec<_>>()
    };
    flat(&turned(at), &turned(&x.shape))
}

fn determinant(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    if dims.len() < 2 {
        let rank = dims.len();
        return cx.refuse(
            Subject::Arg(0),
            format!("a tensor of rank {rank} holds no matrices"),
        );
    }
    if let relax_ir::DTy::Known(d) = dtype
        && !d.is_float()
    {
        return cx.refuse(Subject::Arg(0), format!("it takes floats, not {d}"));
    }
    let lead = dims.len() - 2;
    cx.require_eq(
        &dims[lead],
        &dims[lead + 1],
        Subject::Arg(0),
        "the matrices are square",
    )?;
    finish(cx, dims[..lead].to_vec(), dtype)
}

/// Gaussian elimination with partial pivoting: the pivot is the greatest element of the column.
fn determinant_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let lead = x.rank() - 2;
    let size = x.shape[lead].clone();
    let wide = if x.dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let y = te.temp("y", x.dtype, &x.shape[..lead]);
    te.nest(|n| {
        n.grid(&x.shape[..lead], |n, i| {
            let m = n.local("m", wide, &[size.clone(), size.clone()]);
            n.grid(&[size.clone(), size.clone()], |n, rc| {
                let at: Vec<Ex> = i.iter().chain(rc).cloned().collect();
                n.store(&m, rc, x.at(&at).cast(wide));
            });
            let det = n.cell(Ex::int(wide, 1));
            n.for_(size.clone(), |n, c| {
                let pivot = n.cell(c.clone());
                n.for_(&size - c, |n, r| {
                    let r = n.let_(r + c);
                    let size_of = |row: &Ex| {
                        m.at(&[row.clone(), c.clone()])
                            .unary(relax_loops::UnOp::Abs)
                    };
                    n.if_(size_of(&r).gt(size_of(&pivot.scalar())), |n| {
                        n.set(&pivot, &r)
                    });
                });
                let p = n.let_(pivot.scalar());
                n.if_(p.ne(c), |n| {
                    n.set(&det, -det.scalar());
                    n.for_(size.clone(), |n, k| {
                        let (a, b) = ([p.clone(), k.clone()], [c.clone(), k.clone()]);
                        let held = n.let_(m.at(&a));
                        n.store(&m, &a, m.at(&b));
                        n.store(&m, &b, held);
                    });
                });
                let head = n.let_(m.at(&[c.clone(), c.clone()]));
                n.set(&det, det.scalar() * &head);
                n.if_(head.ne(0.0), |n| {
                    n.for_(&size - c - 1, |n, r| {
                        let r = n.let_(r + c + 1);
                        let by = n.let_(m.at(&[r.clone(), c.clone()]) / &head);
                        n.for_(&size - c, |n, k| {
                            let k = n.let_(k + c);
                            let at = [r.clone(), k.clone()];
                            let new = m.at(&at) - &by * m.at(&[c.clone(), k.clone()]);
                            n.store(&m, &at, new);
                        });
                    });
                });
            });
            n.store(&y, i, det.scalar().cast(x.dtype));
        });
    });
    te.output(&y);
    Ok(())
}
