//! How operators work on operands with permuted axes: the rules of `convert-layout` that several
//! operators share.

use relax_ir::{AttrValue, Attrs};

use crate::{Layout, Operand, Order, Relaid, Relayout};

/// An axis attribute as a number from 0.
fn axis_from(value: i64, rank: usize) -> Option<usize> {
    let axis = if value < 0 {
        value + rank as i64
    } else {
        value
    };
    usize::try_from(axis).ok().filter(|a| *a < rank)
}

fn ints(attrs: &Attrs, name: &str) -> Option<Vec<i64>> {
    let value = attrs.get(name)?;
    value.as_ints().or_else(|| Some(vec![value.as_int()?]))
}

/// One call on one operand: it and the results have the same axis order.
fn like(s: &Relayout<'_>, attrs: Attrs, order: Order) -> Option<Relaid> {
    Some(Relaid::Call {
        attrs,
        operands: std::iter::once(Some(order.clone()))
            .chain(std::iter::repeat_n(None, s.operands.len() - 1))
            .collect(),
        results: vec![Some(order); s.results],
    })
}

/// Element by element: any order is supported.
pub fn same(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.clone()?;
    like(s, s.attrs.clone(), order)
}

/// Returns the axis order for operands that broadcast to one shape: that of the first of full rank
/// that was permuted.
fn common(operands: &[Operand]) -> Option<Order> {
    let ranks: Option<Vec<usize>> = operands.iter().map(Operand::rank).collect();
    let full = ranks?.into_iter().max()?;
    let moved = |o: &Operand| o.order.clone().filter(|o| o.rank() == full);
    operands.iter().find_map(moved)
}

/// Returns the order into which an operand under broadcasting has to be brought, if any; the outer
/// `None` means that it cannot be.
fn follow(operand: &Operand, order: &Order) -> Option<Option<Order>> {
    let dims = operand.dims.as_ref()?;
    if dims.is_empty() {
        return Some(None);
    }
    let lead = order.rank().checked_sub(dims.len())?;
    let mut full = vec![relax_sym::Dim::ONE; lead];
    full.extend(dims.iter().cloned());
    let order = order.broadcasting(&full);
    order.fits(&full).then_some(Some(order))
}

/// Element-wise operators on operands that broadcast against each other.
pub fn broadcast(s: &Relayout<'_>) -> Option<Relaid> {
    let order = common(s.operands)?;
    let operands = s.operands.iter().map(|o| follow(o, &order));
    Some(Relaid::Call {
        attrs: s.attrs.clone(),
        operands: operands.collect::<Option<_>>()?,
        results: vec![Some(order); s.results],
    })
}

/// The first two operands broadcast against each other, the others are their quantisation
/// parameters (quantised sums); `lhs_axis` and `rhs_axis` name axes of these.
pub fn quantised_broadcast(s: &Relayout<'_>) -> Option<Relaid> {
    let two = s.operands.get(..2)?;
    let order = common(two)?;
    let mut attrs = s.attrs.clone();
    for (name, operand) in ["lhs_axis", "rhs_axis"].into_iter().zip(two) {
        let given = s.attrs.get(name).and_then(AttrValue::as_int);
        if let Some(axis) = given {
            let lead = order.rank().checked_sub(operand.rank()?)?;
            let axis = axis_from(axis, operand.rank()?)? + lead;
            attrs.set(name, AttrValue::Int(order.place(axis)? as i64));
        }
    }
    let mut operands = Vec::new();
    for operand in two {
        operands.push(follow(operand, &order)?);
    }
    operands.resize(s.operands.len(), None);
    Some(Relaid::Call {
        attrs,
        operands,
        results: vec![Some(order); s.results],
    })
}

/// The attribute `axis` names an axis of the first operand; the others are vectors along it. The
/// first result has the operand's axis order.
pub fn along_axis(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.clone()?;
    let axis = axis_from(s.attrs.get("axis")?.as_int()?, order.rank())?;
    let mut attrs = s.attrs.clone();
    attrs.set("axis", AttrValue::Int(order.place(axis)? as i64));
    let mut operands = vec![None; s.operands.len()];
    let mut results = vec![None; s.results];
    *results.first_mut()? = Some(order.clone());
    operands[0] = Some(order);
    Some(Relaid::Call {
        attrs,
        operands,
        results,
    })
}

/// The same for operators that work on each sample: the first axis stays first.
pub fn along_axis_of_samples(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.as_ref()?;
    (order.place(0) == Some(0)).then(|| along_axis(s)).flatten()
}

/// The attribute `axis` names an axis along which the tensor is split, or made longer; all parts have
/// the same axis order.
pub fn cut(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.clone()?;
    let axis = axis_from(s.attrs.get("axis")?.as_int()?, order.rank())?;
    let place = order.place(axis)?;
    let attrs = s.attrs.clone().with("axis", AttrValue::Int(place as i64));
    like(s, attrs, order)
}

/// The attribute `axis` names the axis along which all operands are concatenated.
pub fn joined(s: &Relayout<'_>) -> Option<Relaid> {
    join(s, s.operands.len())
}

/// The same for quantised tensors: a third of the operands are tensors, the rest are quantisation
/// parameters of them and of the result.
pub fn quantised_joined(s: &Relayout<'_>) -> Option<Relaid> {
    join(s, s.operands.len().checked_sub(2)? / 3)
}

fn join(s: &Relayout<'_>, tensors: usize) -> Option<Relaid> {
    let parts = s.operands.get(..tensors)?;
    let order = parts.iter().find_map(|o| o.order.clone())?;
    let fits = |o: &Operand| o.dims.as_ref().is_some_and(|d| order.fits(d));
    let axis = axis_from(s.attrs.get("axis")?.as_int()?, order.rank())?;
    let place = order.place(axis)?;
    let mut operands = vec![Some(order.clone()); tensors];
    operands.resize(s.operands.len(), None);
    parts.iter().all(fits).then(|| Relaid::Call {
        attrs: s.attrs.clone().with("axis", AttrValue::Int(place as i64)),
        operands,
        results: vec![Some(order.clone()); s.results],
    })
}

/// Returns the axes that a reduction removes, in the program's original axis order.
fn reduced(s: &Relayout<'_>, rank: usize) -> Option<Vec<usize>> {
    let given = ints(s.attrs, "axis").unwrap_or_default();
    if given.is_empty() {
        return Some((0..rank).collect());
    }
    let chosen: Vec<usize> = given
        .into_iter()
        .map(|a| axis_from(a, rank))
        .collect::<Option<_>>()?;
    let exclude = s.attrs.get("exclude").and_then(AttrValue::as_bool);
    let excluded = exclude.unwrap_or(false);
    Some(
        (0..rank)
            .filter(|a| chosen.contains(a) != excluded)
            .collect(),
    )
}

/// A reduction over `axis`, with `keepdims` and `exclude`. All operands have the same rank.
pub fn reduce(s: &Relayout<'_>) -> Option<Relaid> {
    let order = common(s.operands)?;
    let gone = reduced(s, order.rank())?;
    let keep = s.attrs.get("keepdims").and_then(AttrValue::as_bool)?;
    if keep && gone.iter().any(|&a| order.is_split(a)) {
        return None;
    }
    let mut places: Vec<i64> = Vec::new();
    for &axis in &gone {
        places.extend(order.places(axis).into_iter().map(|p| p as i64));
    }
    places.sort_unstable();
    let mut attrs = s.attrs.clone();
    if !ints(s.attrs, "axis").unwrap_or_default().is_empty() {
        attrs.set("axis", AttrValue::ints(&places));
        attrs.set("exclude", AttrValue::Bool(false));
    }
    let operands = s.operands.iter().map(|o| follow(o, &order));
    let result = if keep {
        Some(order.clone())
    } else {
        order.without(&gone).moved()
    };
    Some(Relaid::Call {
        attrs,
        operands: operands.collect::<Option<_>>()?,
        results: vec![result; s.results],
    })
}

/// A reduction that returns indices: along one axis only, since an index over several depends on
/// their order.
pub fn reduce_to_index(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.clone()?;
    let gone = reduced(s, order.rank())?;
    let [axis] = gone[..] else { return None };
    if order.is_split(axis) {
        return None;
    }
    reduce(s)
}

/// The attribute `axis` is a list of axes over which a shape-preserving computation runs.
pub fn along_axes(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.clone()?;
    let Some(given) = ints(s.attrs, "axis") else {
        return like(s, s.attrs.clone(), order);
    };
    let mut places = Vec::new();
    for axis in given {
        let axis = axis_from(axis, order.rank())?;
        places.extend(order.places(axis).into_iter().map(|p| p as i64));
    }
    let attrs = s.attrs.clone().with("axis", AttrValue::ints(&places));
    like(s, attrs, order)
}

/// The attributes `axes` and `channel_axis` name axes of the first operand over which a
/// shape-preserving computation runs; none of them may be split. Other operands keep the program's
/// axis order.
pub fn along_named_axes(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.clone()?;
    let place = |axis: i64| Some(order.place(axis_from(axis, order.rank())?)? as i64);
    let axes: Option<Vec<i64>> = ints(s.attrs, "axes")?.into_iter().map(place).collect();
    let mut attrs = s.attrs.clone();
    attrs.set("axes", AttrValue::ints(&axes?));
    if let Some(axis) = s.attrs.get("channel_axis").and_then(AttrValue::as_int) {
        attrs.set("channel_axis", AttrValue::Int(place(axis)?));
    }
    like(s, attrs, order)
}

/// The attribute `pad_width` has a pair for each axis; other operands are scalars.
pub fn padded(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.clone()?;
    let pads = s.attrs.get("pad_width")?.as_array()?.to_vec();
    let none = |p: &AttrValue| p.as_ints().is_some_and(|p| p.iter().all(|n| *n == 0));
    let mut moved = Vec::new();
    for part in order.parts() {
        let pad = pads.get(part.axis)?;
        if order.is_split(part.axis) && !none(pad) {
            return None;
        }
        moved.push(pad.clone());
    }
    let attrs = s.attrs.clone().with("pad_width", AttrValue::array(moved));
    like(s, attrs, order)
}

/// `begin`, `end` and `strides` are for the axes that `axes` names, or for the first ones: then
/// each may cover a different number of axes, and the shorter ones are completed as the operator
/// does.
pub fn sliced(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.clone()?;
    let mut attrs = s.attrs.clone();
    let axes = match ints(s.attrs, "axes") {
        Some(axes) => axes,
        None => {
            let list = |name: &str| Some(s.attrs.get(name)?.as_array()?.to_vec());
            let (mut begin, mut end, mut strides) =
                (list("begin")?, list("end")?, list("strides")?);
            let count = begin.len().max(end.len()).max(strides.len());
            strides.resize(count, AttrValue::Int(1));
            let steps: Vec<i64> = strides
                .iter()
                .map(AttrValue::as_int)
                .collect::<Option<_>>()?;
            for &step in &steps[begin.len()..] {
                begin.push(AttrValue::Int(super::slice::first(step)));
            }
            for &step in &steps[end.len()..] {
                end.push(AttrValue::Int(super::slice::last(step)));
            }
            for (name, list) in [("begin", begin), ("end", end), ("strides", strides)] {
                attrs.set(name, AttrValue::array(list));
            }
            (0..count as i64).collect()
        }
    };
    let mut places = Vec::new();
    for axis in axes {
        let axis = axis_from(axis, order.rank())?;
        places.push(order.place(axis)? as i64);
    }
    let attrs = attrs.with("axes", AttrValue::ints(&places));
    like(s, attrs, order)
}

/// Axes of extent 1 go.
pub fn squeezed(s: &Relayout<'_>) -> Option<Relaid> {
    let operand = s.operands.first()?;
    let (order, dims) = (operand.order.clone()?, operand.dims.as_ref()?);
    let gone = match ints(s.attrs, "axis") {
        Some(given) => (given.into_iter())
            .map(|a| axis_from(a, dims.len()))
            .collect::<Option<Vec<_>>>()?,
        None => (0..dims.len())
            .filter(|&a| dims[a].as_const() == Some(1))
            .collect(),
    };
    let places: Option<Vec<i64>> = gone.iter().map(|&a| Some(order.place(a)? as i64)).collect();
    Some(Relaid::Call {
        attrs: s.attrs.clone().with("axis", AttrValue::ints(&places?)),
        results: vec![order.without(&gone).moved()],
        operands: vec![Some(order)],
    })
}

/// Permutes the axes: reordered data is not touched, only the meaning of its axes changes.
pub fn transposed(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.as_ref()?;
    let rank = order.rank();
    let axes = match ints(s.attrs, "axes").filter(|a| !a.is_empty()) {
        Some(axes) => (axes.into_iter())
            .map(|a| axis_from(a, rank))
            .collect::<Option<Vec<_>>>()?,
        None => (0..rank).rev().collect(),
    };
    Some(Relaid::Operand(order.after_transpose(&axes)?))
}

/// A change of layout: handled like `transposed` where it moves whole axes.
pub fn transformed(s: &Relayout<'_>) -> Option<Relaid> {
    let order = s.operands.first()?.order.as_ref()?;
    let layout = |name: &str| Layout::parse(s.attrs.get(name)?.as_str()?);
    let moves = Order::between(&layout("src_layout")?, &layout("dst_layout")?)?;
    let axes: Vec<usize> = moves.parts().iter().map(|p| p.axis).collect();
    if moves.parts().iter().any(|p| p.inner > 0) || axes.len() != order.rank() {
        return None;
    }
    Some(Relaid::Operand(order.after_transpose(&axes)?))
}

/// Returns whether only the channels are split into blocks, in an axis order of images.
fn only_channels(order: &Order, layout: &Layout) -> bool {
    let channel = layout.position('C');
    (0..order.rank()).all(|a| !order.is_split(a) || Some(a) == channel)
}

/// The attribute `layout` names the axes of the first operand and of the result (pooling,
/// resizing): the operand's order, or the requested layout. `out_layout` stays that of the data.
pub fn image(s: &Relayout<'_>) -> Option<Relaid> {
    let now = Layout::parse(s.attrs.get("layout")?.as_str()?)?;
    let own_out = s.attrs.get("out_layout").and_then(AttrValue::as_str);
    if own_out.is_some_and(|o| !o.is_empty() && Layout::parse(o).as_ref() != Some(&now)) {
        return None;
    }
    let operand = s.operands.first()?;
    let order = match s.wanted {
        Some([data, ..]) => Order::between(&now, data)?,
        _ => operand.order.clone()?,
    };
    if !only_channels(&order, &now) || !order.fits(operand.dims.as_ref()?) {
        return None;
    }
    let word = order.apply(&now)?;
    let mut attrs = s.attrs.clone();
    if own_out.is_some_and(|o| !o.is_empty()) {
        attrs.set("out_layout", AttrValue::Str(word.as_str().into()));
    }
    attrs.set("layout", AttrValue::Str(word.as_str().into()));
    like(s, attrs, order)
}

/// Like `image`, where the layout must not split axes into blocks.
pub fn whole_image(s: &Relayout<'_>) -> Option<Relaid> {
    let relaid = image(s)?;
    let Relaid::Call { operands, .. } = &relaid else {
        return None;
    };
    let order = operands.first()?.as_ref()?;
    (order.parts().iter().all(|p| p.inner == 0)).then_some(relaid)
}

/// A convolution of the first operand by the second.
pub fn convolution(s: &Relayout<'_>) -> Option<Relaid> {
    conv(s, 1, false)
}
/// A transposed convolution.
pub fn transposed_convolution(s: &Relayout<'_>) -> Option<Relaid> {
    conv(s, 1, true)
}
/// A deformable convolution: the second operand, the offsets, has the data's layout.
pub fn deformable_convolution(s: &Relayout<'_>) -> Option<Relaid> {
    conv(s, 2, false)
}

/// Convolutions accept only the requested layout: the weight's layout is the user's choice, too.
fn conv(s: &Relayout<'_>, weight: usize, transposed: bool) -> Option<Relaid> {
    let layout = |name: &str| Layout::parse(s.attrs.get(name)?.as_str()?);
    let (data, kernel) = (layout("data_layout")?, layout("kernel_layout")?);
    let own_out = s.attrs.get("out_layout").and_then(AttrValue::as_str)?;
    let out = if own_out.is_empty() {
        data.clone()
    } else {
        Layout::parse(own_out)?
    };
    let (want, want_kernel) = match s.wanted? {
        [data] => (data, usual_kernel(s.attrs, data, &kernel, transposed)?),
        [data, kernel] => (data, kernel.clone()),
        _ => return None,
    };
    let (to, kernel_to) = (
        Order::between(&data, want)?,
        Order::between(&kernel, &want_kernel)?,
    );
    let result = Order::between(&out, want)?;
    let fits = |i: usize, o: &Order| {
        let dims = s.operands.get(i).and_then(|o| o.dims.as_ref());
        dims.is_some_and(|d| o.fits(d))
    };
    if !(fits(0, &to) && fits(weight, &kernel_to) && only_channels(&to, &data)) {
        return None;
    }
    let mut attrs = s.attrs.clone();
    let word = |o: &Order, l: &Layout| Some(AttrValue::Str(o.apply(l)?.as_str().into()));
    attrs.set("data_layout", word(&to, &data)?);
    attrs.set("kernel_layout", word(&kernel_to, &kernel)?);
    if !own_out.is_empty() {
        attrs.set("out_layout", word(&result, &out)?);
    }
    let mut operands = vec![None; s.operands.len()];
    for operand in operands.iter_mut().take(weight) {
        *operand = to.clone().moved();
    }
    operands[weight] = kernel_to.moved();
    Some(Relaid::Call {
        attrs,
        operands,
        results: vec![result.moved(); s.results],
    })
}

/// Returns the usual layout of the weight for data in a plain layout: channels first in both, or
/// channels last in both, output channels before input channels in depthwise and transposed
/// convolutions.
fn usual_kernel(attrs: &Attrs, data: &Layout, kernel: &Layout, transposed: bool) -> Option<Layout> {
    if data
        .axes()
        .iter()
        .chain(kernel.axes())
        .any(|a| a.factor > 0)
    {
        return None;
    }
    let spatial: String = kernel.axes().iter().map(|a| a.letter).collect();
    let spatial = spatial.replace(['I', 'O'], "");
    let mut in_order: Vec<char> = spatial.chars().collect();
    in_order.sort_by_key(|c| data.position(*c));
    let spatial: String = in_order.iter().collect();
    let last = data.position('C')? > data.position(*in_order.first()?)?;
    let int = |name: &str| attrs.get(name).and_then(AttrValue::as_int);
    let depthwise = int("groups").is_some_and(|g| g > 1 && int("channels") == Some(g));
    let text = match (last, transposed) {
        (true, false) if depthwise => format!("{spatial}OI"),
        (true, false) => format!("{spatial}IO"),
        (true, true) => format!("{spatial}OI"),
        (false, false) => format!("OI{spatial}"),
        (false, true) => format!("IO{spatial}"),
    };
    Layout::parse(&text)
}
