//! The spellings of calls of operators in other releases of TVM.

use relax_base::Symbol;
use relax_ir::AttrValue;

use crate::Release;

/// An earlier form of an operator's calls.
#[derive(Clone, Copy, Debug)]
pub struct Former {
    /// The operator's name in that release; its current one where only attributes changed.
    pub name: &'static str,
    /// The last release with this spelling; [`Release::LAST`] for forms newer than the one that is
    /// printed.
    pub until: Release,
    /// Whether the old spelling may be valid today with another meaning: then every call is checked
    /// for the form. Others are recognised by a name, an unknown attribute, a missing operand, or
    /// the release.
    pub hidden: bool,
    /// Converts a call to the current form.
    pub rewrite: fn(&mut OldCall),
}

impl Former {
    /// A name up to a release, with everything else unchanged.
    pub const fn name(name: &'static str, until: u8) -> Former {
        Former {
            name,
            until: Release(until),
            hidden: false,
            rewrite: |_| {},
        }
    }
    /// A form up to a release.
    pub const fn form(name: &'static str, until: u8, rewrite: fn(&mut OldCall)) -> Former {
        Former {
            name,
            until: Release(until),
            hidden: false,
            rewrite,
        }
    }
    /// Marks a form that cannot be recognised by its spelling.
    pub const fn hidden(mut self) -> Former {
        self.hidden = true;
        self
    }
}

/// The attributes of a call as an earlier release wrote them. An attribute with the name of a
/// missing operand becomes that operand afterwards.
#[derive(Clone, Debug)]
pub struct OldCall {
    /// The release, where it is known.
    pub release: Option<Release>,
    /// Whether it was named, rather than guessed from the header: without that, a text has its
    /// current meaning.
    pub named: bool,
    /// Whether operands are missing.
    pub short: bool,
    /// The current operator of the call.
    pub op: &'static str,
    /// The attributes, in the order of the text.
    pub attrs: Vec<(Symbol, AttrValue)>,
}

impl OldCall {
    /// Returns whether the text is known to be of that release or an earlier one.
    pub fn up_to(&self, release: u8) -> bool {
        self.release.is_some_and(|r| r <= Release(release))
    }
    /// Returns the value of an attribute, if it is given.
    pub fn get(&self, name: &str) -> Option<&AttrValue> {
        self.attrs.iter().find(|a| a.0 == name).map(|a| &a.1)
    }
    /// Removes an attribute and returns its value.
    pub fn take(&mut self, name: &str) -> Option<AttrValue> {
        let at = self.attrs.iter().position(|a| a.0 == name)?;
        Some(self.attrs.remove(at).1)
    }
    /// Sets an attribute.
    pub fn set(&mut self, name: &str, value: AttrValue) {
        match self.attrs.iter_mut().find(|a| a.0 == name) {
            Some(attr) => attr.1 = value,
            None => self.attrs.push((Symbol::new(name), value)),
        }
    }
    /// Sets an attribute that is not given.
    pub fn absent(&mut self, name: &str, value: AttrValue) {
        if self.get(name).is_none() {
            self.set(name, value);
        }
    }
    /// Renames an attribute.
    pub fn rename(&mut self, was: &str, is: &str) {
        if let Some(attr) = self.attrs.iter_mut().find(|a| a.0 == was) {
            attr.0 = Symbol::new(is);
        }
    }
    /// Renames a value of an attribute.
    pub fn value(&mut self, name: &str, was: &str, is: &str) {
        if self.get(name).and_then(AttrValue::as_str) == Some(was) {
            self.set(name, AttrValue::Str(is.into()));
        }
    }
}

/// `reverse`, up to 0.7: the extents are matched from the last one. That is another operator now.
pub(crate) fn reversed(call: &mut OldCall) {
    if call.take("reverse").and_then(|v| v.as_bool()) == Some(true) {
        call.op = "contrib_reverse_reshape";
    }
}

/// `reverse` of the operator that takes the extents as a tensor: only the default has a meaning.
pub(crate) fn unreversed(call: &mut OldCall) {
    if call.get("reverse").and_then(AttrValue::as_bool) == Some(false) {
        call.take("reverse");
    }
}

/// Moves the padding value, which up to 0.7 was an attribute.
pub(crate) fn pad_value(call: &mut OldCall) {
    call.rename("pad_value", "pad_val");
    if call.short && call.up_to(7) {
        call.absent("pad_val", AttrValue::Float(0.0));
    }
}

/// Up to 0.7, slices were of the first axes, and strides were 1 where none were given.
pub(crate) fn first_axes(call: &mut OldCall) {
    no_axes(call);
    let axes = call.get("begin").and_then(AttrValue::as_array);
    let ones = vec![1; axes.map_or(1, |a| a.len())];
    call.absent("strides", AttrValue::ints(&ones));
}

/// `axes` came with 0.8.
pub(crate) fn no_axes(call: &mut OldCall) {
    call.absent("axes", AttrValue::None);
}

/// `image.resize` up to 0.7: methods and corners had other names.
pub(crate) fn resize(call: &mut OldCall) {
    let corners = call.take("align_corners").and_then(|v| v.as_bool());
    let corners = corners.or(call.up_to(6).then_some(true));
    if let Some(corners) = corners {
        let mode = if corners {
            "align_corners"
        } else {
            "asymmetric"
        };
        call.set(
            "coordinate_transformation_mode",
            AttrValue::Str(mode.into()),
        );
    }
    let mode = call.get("coordinate_transformation_mode");
    let rounded = mode.and_then(AttrValue::as_str) == Some("align_corners");
    if call.get("method").and_then(AttrValue::as_str) == Some("nearest_neighbor") && !rounded {
        call.set("rounding_method", AttrValue::Str("floor".into()));
    }
    methods(call);
}

/// The same with the extents as a tensor; there was no region of interest.
pub(crate) fn dyn_resize(call: &mut OldCall) {
    resize(call);
    if call.short {
        call.absent("roi", AttrValue::array([]));
    }
}

/// Names of interpolations up to 0.7.
pub(crate) fn methods(call: &mut OldCall) {
    call.value("method", "bilinear", "linear");
    call.value("method", "trilinear", "linear");
    call.value("method", "bicubic", "cubic");
}

/// `mode=""`, which 0.7 wrote where the mode has no meaning.
pub(crate) fn no_mode(call: &mut OldCall) {
    if call.get("mode").and_then(AttrValue::as_str) == Some("") {
        call.take("mode");
    }
}

/// Up to 0.8, the letters O and I of a transposed convolution's weight were exchanged; from 0.9 to
/// 0.11 they were right, but the default weight layout had them the other way round.
pub(crate) fn transposed_2d(call: &mut OldCall) {
    if call.up_to(8) {
        swap_letters(call);
    } else if call.up_to(11) {
        call.absent("kernel_layout", AttrValue::Str("OIHW".into()));
    }
}

/// The letters O and I of a transposed convolution's weight were exchanged up to 0.11.
pub(crate) fn swap_letters(call: &mut OldCall) {
    let Some(layout) = call.get("kernel_layout").and_then(AttrValue::as_str) else {
        return;
    };
    let swapped = |c| match c {
        'O' => 'I',
        'I' => 'O',
        'o' => 'i',
        'i' => 'o',
        c => c,
    };
    if call.named && call.up_to(11) {
        let layout: String = layout.chars().map(swapped).collect();
        call.set("kernel_layout", AttrValue::Str(layout.into()));
    }
}

/// The weight of a quantised product was called a kernel in 0.6.
pub(crate) fn kernel_parameters(call: &mut OldCall) {
    call.rename("kernel_zero_point", "weight_zero_point");
    call.rename("kernel_scale", "weight_scale");
}

/// `k` was 1 where it was not given, in 0.6.
pub(crate) fn one_of_topk(call: &mut OldCall) {
    if call.up_to(6) {
        call.absent("k", AttrValue::Int(1));
    }
}

/// Since 0.15, the tiles of a weight are named by the axes of the product.
pub(crate) fn named_tiles(call: &mut OldCall) {
    call.rename("tile_N", "tile_rows");
    call.rename("tile_K", "tile_cols");
}
