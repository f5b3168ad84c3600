//! `convert-to-dataflow` and `to-non-dataflow`: insert and remove the boundaries of dataflow
//! blocks.

use relax_base::Diagnostics;
use relax_ir::{Expr, Module, Type, VarId, VarStyle};

use super::canonical;
use crate::abstracted::mention_type_params;
use crate::code::{Bind, Code, Part, Value, each_code};
use crate::impurity::Impurity;
use crate::util::opened_block;
use crate::{Contract, Form, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[
    PassDef {
        name: "convert-to-dataflow",
        doc: "Puts runs of bindings without effects and branches into dataflow blocks.",
        options: &[OptionDef {
            name: "min-size",
            ty: OptionType::Int,
            default: "2",
            doc: "fewer bindings become no block",
        }],
        contract: Contract::RELAX,
        run: convert,
    },
    PassDef {
        name: "to-non-dataflow",
        doc: "Opens dataflow blocks: their bindings become plain ones.",
        options: &[],
        contract: Contract::PLAIN.idempotent().keeps(&[
            Form::ANormal,
            Form::GraphNormal,
            Form::BasicBlockNormal,
        ]),
        run: open,
    },
];

fn convert(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let least = usize::try_from(cx.options.int("min-size")).unwrap_or(usize::MAX);
    let typing = cx.typing()?;
    let mut found = 0;
    let impurity = Impurity::of(cx)?;
    each_code(cx.module, |m, _, code| {
        let closures = impurity.closures(m, code);
        let leaves = |b: &Bind| match b.value {
            Value::If { .. } => true,
            // Only a binding outside of blocks is visible in its own value, and has the type
            // parameters that inference makes up, its own or those of the function around it.
            Value::Func { func, .. } => {
                let ty = typing.vars[b.var];
                let generic = matches!(&m.types[ty], Type::Func(f) if !f.params.is_empty());
                generic
                    || mention_type_params(m, vec![ty])
                    || m.free_vars(m.funcs[func].body).contains(&b.var)
            }
            Value::Plain(_) => impurity.bind(m, b, &closures),
        };
        let mut changed = false;
        for s in 0..code.seqs.len() {
            changed |= blocks(m, code, s, least, &leaves, &mut found);
        }
        canonical::canonicalize(m, &typing, code, false) || changed
    });
    cx.count("dataflow blocks found", found);
    Ok(())
}

/// Rebuilds the blocks of one body, outside of which the bindings are that `leaves` names; returns
/// whether they changed. Variables that nothing can name are no outputs.
fn blocks(
    m: &Module,
    code: &mut Code,
    s: usize,
    least: usize,
    leaves: &dyn Fn(&Bind) -> bool,
    found: &mut u64,
) -> bool {
    let old = std::mem::take(&mut code.seqs[s].parts);
    let (mut parts, mut plain) = (Vec::<Part>::new(), Vec::new());
    // A run that may become a block, the size of a part of it that already was one, and its
    // outputs.
    let (mut run, mut given, mut outputs) = (Vec::new(), None::<usize>, Vec::new());
    let mut changed = false;
    let span = old.first().map_or(relax_base::Span::NONE, |p| p.span);
    let mut close = |run: &mut Vec<_>,
                     given: &mut Option<usize>,
                     outputs: &mut Vec<VarId>,
                     plain: &mut Vec<_>,
                     parts: &mut Vec<Part>| {
        if run.is_empty() {
            return;
        }
        if run.len() < least && given.is_none() {
            plain.append(run);
            outputs.clear();
            return;
        }
        changed |= *given != Some(run.len());
        *found += u64::from(given.is_none());
        let part = |flow, binds, outputs| Part {
            flow,
            binds,
            outputs,
            span,
        };
        if !plain.is_empty() {
            parts.push(part(false, std::mem::take(plain), Vec::new()));
        }
        parts.push(part(true, std::mem::take(run), std::mem::take(outputs)));
        *given = None;
    };
    for part in old {
        if part.flow {
            given = Some(part.binds.len());
            outputs.extend(part.outputs);
            run.extend(part.binds);
            continue;
        }
        for b in part.binds {
            if leaves(&b) {
                close(&mut run, &mut given, &mut outputs, &mut plain, &mut parts);
                plain.push(b);
            } else {
                outputs.extend(Some(b.var).filter(|&v| m.vars[v].style != VarStyle::Effect));
                run.push(b);
            }
        }
    }
    close(&mut run, &mut given, &mut outputs, &mut plain, &mut parts);
    if !plain.is_empty() {
        parts.push(Part {
            flow: false,
            binds: plain,
            outputs: Vec::new(),
            span,
        });
    }
    code.seqs[s].parts = parts;
    changed
}

fn open(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let mut opened = 0;
    cx.module.rewrite_globals(|m, new, _| {
        opened += u64::from(matches!(m.exprs[new], Expr::Dataflow { .. }));
        opened_block(m, new)
    });
    cx.count("dataflow blocks opened", opened);
    Ok(())
}
