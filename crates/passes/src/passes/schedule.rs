//! `schedule`: rewrites the loops of tensor programs.
//!
//! Without `steps`, every program gets the automatic schedule: outermost independent loops in
//! parallel, innermost ones vectorised. With steps, those are applied in order; steps that could
//! change a value are rejected.

use std::sync::Arc;

use relax_base::{Diagnostic, Diagnostics, Symbol};
use relax_ir::{GlobalId, GlobalKind};
use relax_loops::schedule::{Step, auto, schedule};

use crate::{Analysis, Contract, OptionDef, OptionType, PassCx, PassDef, codes};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "schedule",
    doc: "Tiles, reorders, vectorises, parallelises and unrolls loops of tensor programs.",
    options: &[
        OptionDef {
            name: "program",
            ty: OptionType::Text,
            default: "",
            doc: "the tensor programs, separated by spaces; all when empty",
        },
        OptionDef {
            name: "steps",
            ty: OptionType::Text,
            default: "",
            doc: "`tile(i, j, 8, 16); split(k, 4); reorder(j, i); vectorize(j_i, 4); parallel(i_o); unroll(k_i)`; \
                  empty for the automatic schedule",
        },
        OptionDef {
            name: "grain",
            ty: OptionType::Int,
            default: "4096",
            doc: "the automatic schedule runs loops in parallel from so many iterations on",
        },
    ],
    contract: Contract::PLAIN
        .reorders()
        .preserves(&[Analysis::Types, Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let named: Vec<Symbol> = (cx.options.text("program").split_whitespace())
        .map(|n| Symbol::from(n.trim_start_matches('@')))
        .collect();
    let (steps, grain) = (cx.options.text("steps"), cx.options.int("grain"));
    let span = relax_base::Span::NONE;
    let refuse = |message: String, span| {
        let mut all = Diagnostics::new();
        all.push(Diagnostic::error(codes::OPTION_VALUE, span, message));
        all
    };
    let parsed = parse(steps).map_err(|why| refuse(format!("`schedule`: {why}"), span))?;
    let m = &mut *cx.module;
    for name in &named {
        let found = m.global(name.as_str()).map(|g| &m.globals[g].kind);
        if !matches!(found, Some(GlobalKind::Prim(_))) {
            return Err(refuse(
                format!("`schedule`: there is no tensor program @{name}"),
                span,
            ));
        }
    }
    let all: Vec<GlobalId> = m.globals.ids().collect();
    let mut marked = 0;
    for g in all {
        let GlobalKind::Prim(program) = &m.globals[g].kind else {
            continue;
        };
        let (name, at) = (m.globals[g].name, m.globals[g].span);
        if !named.is_empty() && !named.contains(&name) {
            continue;
        }
        // A program that a tuned kernel computes is left to it, unless explicitly requested.
        if named.is_empty() && steps.is_empty() && !program.hints.is_empty() {
            continue;
        }
        let mut new = (**program).clone();
        if parsed.is_empty() {
            marked += auto(&mut new, grain as i64) as u64;
        } else {
            schedule(&mut new, &parsed)
                .map_err(|why| refuse(format!("`schedule` of @{name}: {why}"), at))?;
            marked += parsed.len() as u64;
        }
        m.globals[g].kind = GlobalKind::Prim(Arc::new(new));
    }
    cx.count("loops rewritten", marked);
    Ok(())
}

/// Parses `tile(i, j, 8, 16); parallel(i_o)`.
fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let bad = || format!("cannot read the step `{part}`");
        let (name, rest) = part.split_once('(').ok_or_else(bad)?;
        let rest = rest.strip_suffix(')').ok_or_else(bad)?;
        let args: Vec<&str> = rest
            .split(',')
            .map(|a| a.trim().trim_start_matches('%'))
            .collect();
        let vars: Vec<Symbol> = (args.iter())
            .take_while(|a| a.parse::<i64>().is_err())
            .map(|a| Symbol::from(*a))
            .collect();
        let numbers: Vec<i64> = (args[vars.len()..].iter())
            .map(|a| a.parse().map_err(|_| bad()))
            .collect::<Result<_, _>>()?;
        if vars.iter().any(|v| v.as_str().is_empty()) {
            return Err(bad());
        }
        steps.push(match (name.trim(), &vars[..], &numbers[..]) {
            ("split", [var], [factor]) => Step::Split {
                var: *var,
                factor: *factor,
            },
            ("tile", [_, ..], n) if n.len() == vars.len() => Step::Tile {
                vars,
                factors: numbers,
            },
            ("reorder", [_, _, ..], []) => Step::Reorder { vars },
            ("vectorize", [var], [width]) => Step::Vectorize {
                var: *var,
                width: u32::try_from(*width).map_err(|_| bad())?,
            },
            ("parallel", [var], []) => Step::Parallel { var: *var },
            ("unroll", [var], []) => Step::Unroll { var: *var },
            ("split" | "tile" | "reorder" | "vectorize" | "parallel" | "unroll", ..) => {
                return Err(format!(
                    "wrong arguments in `{part}`: the forms are split(i, 8), tile(i, j, 8, 16), \
                     reorder(j, i), vectorize(j, 4), parallel(i), unroll(k)"
                ));
            }
            (other, ..) => {
                let known = [
                    "split",
                    "tile",
                    "reorder",
                    "vectorize",
                    "parallel",
                    "unroll",
                ];
                let near = relax_base::did_you_mean(other, known);
                let hint = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
                return Err(format!("there is no step `{other}`{hint}"));
            }
        });
    }
    Ok(steps)
}
