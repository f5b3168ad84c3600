//! Where scales along channels lie in the weights of convolutions and matrix products.

use relax_ir::{AttrValue, Attrs};
use relax_sym::Dim;

use crate::{Channels, Contraction, Layout, Lie, ScaleSite};

/// The layouts of a convolution, and the channels of its weight.
struct Conv {
    data: Layout,
    out: Layout,
    kernel: Layout,
    groups: i64,
    /// The extents of the weight's axes of channels: first those that groups lie along, then those
    /// of a group.
    extents: [Option<i64>; 2],
    letters: [char; 2],
}

impl Conv {
    /// Reads them; groups lie along the axis `letters[0]` of the weight. `None` for layouts in which
    /// only some of the channels are in blocks.
    fn of(s: &ScaleSite<'_>, letters: [char; 2]) -> Option<Conv> {
        let text = |name: &str| s.attrs.get(name)?.as_str().map(str::to_owned);
        let data = Layout::parse(&text("data_layout")?)?;
        let kernel = Layout::parse(&text("kernel_layout")?)?;
        let out = match text("out_layout").as_deref() {
            None | Some("") => data.clone(),
            Some(given) => Layout::parse(given)?,
        };
        let groups = s.attrs.get("groups").and_then(AttrValue::as_int)?;
        let extents = letters.map(|letter| {
            let at = kernel.position(letter)?;
            Some(s.weight.get(at)?.as_const()? * kernel.factor(letter))
        });
        let inner = letters.map(|letter| kernel.position(letter.to_ascii_lowercase()).is_some());
        let blocked = inner[0];
        let fits = |l: &Layout| l.position('C').is_some() && l.position('c').is_some() == blocked;
        let fits = inner[1] == blocked && fits(&data) && fits(&out) && groups > 0;
        fits.then_some(Conv {
            data,
            out,
            kernel,
            groups,
            extents,
            letters,
        })
    }

    fn channels(layout: &Layout, weight: Lie) -> Channels {
        let axes = ['C', 'c'].into_iter().filter_map(|c| layout.position(c));
        Channels {
            axes: axes.collect(),
            weight,
        }
    }

    /// The channels that one of the weight's axes of channels has all of.
    fn along(&self, which: usize) -> Lie {
        let letter = self.letters[which];
        let both = [letter, letter.to_ascii_lowercase()];
        let axes = both.into_iter().filter_map(|c| self.kernel.position(c));
        Lie::Along(axes.collect())
    }

    /// Channels of which each group has as many as the second axis, `repeats` times along the first.
    fn grouped(&self, groups: i64, repeats: i64) -> Option<Lie> {
        let [first, second] = self.letters.map(|letter| self.kernel.position(letter));
        let whole = self
            .kernel
            .position(self.letters[0].to_ascii_lowercase())
            .is_none();
        let axes = [first?, second?];
        whole.then_some(Lie::Groups {
            axes,
            groups: [groups, self.extents[1]?],
            repeats,
        })
    }

    /// The channels of a group along the second axis, and groups along the first.
    fn of_groups(&self) -> Option<Lie> {
        match self.groups {
            1 => Some(self.along(1)),
            groups => self.grouped(groups, self.extents[0]? / groups),
        }
    }
}

/// A convolution: the weight has all of the outputs, and the inputs of a group; or the channels, where
/// each has windows of its own, and how many these are.
pub fn convolution(s: &ScaleSite<'_>) -> Option<Contraction> {
    let conv = Conv::of(s, ['O', 'I'])?;
    let channels = s.data.get(conv.data.position('C')?)?.as_const();
    let channels = channels.map(|c| c * conv.data.factor('C'));
    let [outputs, inputs] = conv.extents;
    let depthwise = conv.groups > 1 && channels == Some(conv.groups) && outputs == channels;
    let (inputs, outputs) = match (depthwise, inputs) {
        (true, Some(1)) => (conv.along(0), conv.along(0)),
        (true, _) => (conv.along(0), conv.grouped(conv.groups, 1)?),
        (false, _) => (conv.of_groups()?, conv.along(0)),
    };
    Some(Contraction {
        inputs: Conv::channels(&conv.data, inputs),
        outputs: Conv::channels(&conv.out, outputs),
    })
}

/// A transposed convolution: the weight has all of the inputs, and the outputs of a group.
pub fn transposed_convolution(s: &ScaleSite<'_>) -> Option<Contraction> {
    let conv = Conv::of(s, ['I', 'O'])?;
    Some(Contraction {
        inputs: Conv::channels(&conv.data, conv.along(0)),
        outputs: Conv::channels(&conv.out, conv.of_groups()?),
    })
}

/// A product of rows with a matrix.
fn product(s: &ScaleSite<'_>, data: bool, weight: bool) -> Option<Contraction> {
    let last = |dims: &[Dim], turned: bool| dims.len().checked_sub(1 + usize::from(turned));
    Some(Contraction {
        inputs: Channels {
            axes: vec![last(s.data, data)?],
            weight: Lie::Along(vec![last(s.weight, !weight)?]),
        },
        outputs: Channels {
            axes: vec![last(s.result, false)?],
            weight: Lie::Along(vec![last(s.weight, weight)?]),
        },
    })
}

/// `nn.dense`: the weight has a row for each output.
pub fn dense(s: &ScaleSite<'_>) -> Option<Contraction> {
    product(s, false, true)
}

/// A product whose attributes say whether its operands are transposed.
pub fn matmul(s: &ScaleSite<'_>) -> Option<Contraction> {
    let flag = |attrs: &Attrs, name: &str| attrs.get(name).and_then(AttrValue::as_bool);
    let turned = |name: &str| flag(s.attrs, name).unwrap_or(false);
    product(s, turned("transpose_a"), turned("transpose_b"))
}
