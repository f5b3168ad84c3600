//! `convert-layout`: converts convolutions and similar operators to the data layout that suits the
//! target.
//!
//! The operators named by the user get the requested layouts; the operators that follow work on the
//! reordered tensors as far as their entries support it ([`relax_ops::LayoutFn`]), and axes are
//! moved back only where the original order is needed. Transposes in between cost nothing: they
//! only change the meaning of the axes of a reordered tensor.
//!
//! Each tensor thus has an order: none as long as its axes are in the original order.

mod walk;

use relax_base::{Diagnostic, Diagnostics, Span, did_you_mean};
use relax_ir::OpId;
use relax_ops::{Layout, registry};
use rustc_hash::FxHashMap;

pub(super) use self::walk::Walk;
use crate::edit::Edit;
use crate::{Analysis, Contract, OptionDef, OptionType, PassCx, PassDef, codes};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "convert-layout",
    doc: "Brings convolutions and the like to other data layouts, and what follows them.",
    options: &[OptionDef {
        name: "layouts",
        ty: OptionType::Text,
        default: "nn.conv2d: NHWC",
        doc: "operators with the layouts of data and weight: `nn.conv2d: NHWC HWIO, nn.max_pool2d: NHWC`; \
              without that of the weight, the usual one",
    }],
    contract: Contract::TYPED
        .idempotent()
        .reorders()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

/// The requested layouts of calls of operators: of the data, and possibly of the weight.
pub(super) type Wanted = FxHashMap<OpId, Vec<Layout>>;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let wanted = wanted(cx, cx.options.text("layouts"))?;
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let mut warnings = Diagnostics::new();
    let (mut moved, mut transforms) = (0, 0);
    for (global, body) in edit.m.global_bodies() {
        let func = edit.m.global_func(global).expect("it has a body");
        if crate::util::is_primitive(&edit.m.funcs[func]) {
            continue;
        }
        let mut walk = Walk::new(&mut edit, &wanted, &mut warnings);
        let new = walk.function(body);
        moved += walk.moved;
        transforms += walk.transforms;
        edit.m.set_global_body(global, new);
    }
    cx.diagnostics.extend(warnings);
    cx.count("calls brought to their layouts", moved);
    cx.count("layout transforms put in", transforms);
    Ok(())
}

/// Reads the option `layouts`, or a part of it.
pub(super) fn wanted(cx: &PassCx<'_>, list: &str) -> Result<Wanted, Diagnostics> {
    let (mut wanted, mut errors) = (Wanted::default(), Diagnostics::new());
    let option = cx.options.place("layouts");
    let text = cx.options.text("layouts");
    let mut error = |at: &str, message: String, note: String| {
        // `at` is a part of the text.
        let start = option.start + (at.as_ptr() as usize - text.as_ptr() as usize) as u32;
        let place = match option.is_none() {
            true => option,
            false => Span::new(start, start + at.len() as u32),
        };
        errors.push(Diagnostic::error(codes::OPTION_VALUE, place, message).note(note));
    };
    let ops = || registry().iter().filter(|o| o.1.has_layout_choice());
    for entry in list.split([',', ';']) {
        if entry.trim().is_empty() {
            continue;
        }
        let (name, layouts) = entry.split_once(':').unwrap_or((entry, ""));
        let name = name.trim();
        let found = registry()
            .find(name)
            .filter(|op| registry().get(*op).is_some_and(|d| d.has_layout_choice()));
        let Some(op) = found else {
            let note = match did_you_mean(name, ops().map(|o| o.1.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    let all: Vec<&str> = ops().map(|o| o.1.name).collect();
                    format!("these have one: {}", all.join(", "))
                }
            };
            error(
                name,
                format!("`{name}` is no operator with a layout to choose"),
                note,
            );
            continue;
        };
        let words: Vec<&str> = layouts.split_whitespace().collect();
        let parsed: Option<Vec<Layout>> = (words.iter())
            .filter(|w| **w != "default")
            .map(|w| Layout::parse(w))
            .collect();
        match parsed {
            Some(layouts) if (1..=2).contains(&layouts.len()) => {
                wanted.insert(op, layouts);
            }
            _ => error(
                entry.trim(),
                format!("`{}` is no layout for `{name}`", layouts.trim()),
                "a layout is a word like `NHWC` or `NCHW16c`; one for the data, perhaps one for the weight".into(),
            ),
        }
    }
    if errors.has_errors() {
        Err(errors)
    } else {
        Ok(wanted)
    }
}
