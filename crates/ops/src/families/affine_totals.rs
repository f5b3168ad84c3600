//! How sums and means compute with integers that stand for numbers: rules of
//! `fake-quantization-to-integer`.

use relax_ir::AttrValue;
use relax_tensor::{DType, Tensor};

use super::affine_rules::{Integers, number, reach, uniform};
use crate::{Affine, AffineSite, Build};

/// `sum` and `mean` along some axes: sums of 32 bits, where they fit.
fn totals(b: &mut dyn Build, s: &AffineSite, mean: bool, over: &[(&str, AttrValue)]) -> Integers {
    let (e, kind) = s.affine(0)?;
    let whole: i64 = b.extents(e)?.iter().product();
    let left: i64 = b.extents(s.site.call)?.iter().product();
    let (zero, n) = (uniform(b, kind.zero)?, whole / left.max(1));
    let fits = n > 0 && n.saturating_mul(2 * reach(kind.dtype)?) <= i64::from(i32::MAX);
    if !fits || kind.axis.is_some() || kind.dtype == DType::I16 {
        return None;
    }
    let scale = match (mean, b.value(kind.scale)) {
        (false, _) => kind.scale,
        (true, Some(v)) => {
            let mut v = v.clone();
            v.set_f64(0, f64::from(v.get_f64(0) as f32 / n as f32));
            b.constant(v)
        }
        (true, None) => {
            let n = b.constant(Tensor::scalar_f64(DType::F32, n as f64));
            b.call("divide", &[kind.scale, n], &[])
        }
    };
    let wide = b.call("cast", &[e], &[("dtype", AttrValue::DType(DType::I32))]);
    let y = b.call("sum", &[wide], over);
    let kind = Affine {
        scale,
        zero: number(b, DType::I32, zero as i64 * n),
        dtype: DType::I32,
        axis: None,
        even: false,
    };
    Some((y, kind))
}

fn along(s: &AffineSite) -> Vec<(&'static str, AttrValue)> {
    ["axis", "keepdims", "exclude"]
        .map(|name| (name, s.site.value(name)))
        .to_vec()
}

/// `sum`.
pub fn sum(b: &mut dyn Build, s: &AffineSite) -> Integers {
    totals(b, s, false, &along(s))
}

/// `mean`.
pub fn mean(b: &mut dyn Build, s: &AffineSite) -> Integers {
    totals(b, s, true, &along(s))
}

/// `nn.global_avg_pool2d`.
pub fn global_mean(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let axes: &[i64] = match s.site.value("layout").as_str()? {
        "NCHW" => &[2, 3],
        "NHWC" => &[1, 2],
        _ => return None,
    };
    let over = [
        ("axis", AttrValue::ints(axes)),
        ("keepdims", AttrValue::Bool(true)),
    ];
    totals(b, s, true, &over)
}
