//! `relax-fuse-ops-by-pattern`: operators that belong together become a private function.
//!
//! A product or convolution takes along the element-wise operators behind it; such operators that follow each other stand
//! together. The function says what it is made of (`Composite`).

use relax_base::Diagnostics;
use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, Module, VarId};
use relax_ops::Fusion;
use rustc_hash::FxHashMap;

use super::fuse::{Group, Made, emit};
use crate::code::{Bind, Part, each_code, each_var};
use crate::passes::fuse_ops::groups::{Graph, Groups};
use crate::util::{called_op, is_primitive};
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-fuse-ops-by-pattern",
    doc: "Relax's fuse-ops-by-pattern: operators that belong together become a function.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

/// A function holds at most so many bindings.
const MOST: usize = 256;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut made = Made::default();
    each_code(cx.module, |m, func, code| {
        if is_primitive(&m.funcs[func]) || m.funcs[func].attrs.get("Codegen").is_some() {
            return false;
        }
        let mut changed = false;
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            if part.flow
                && let Some(binds) = grouped(m, &typing, part, &mut made)
            {
                part.binds = binds;
                changed = true;
            }
        }
        changed
    });
    cx.count("functions made", made.count);
    Ok(())
}

fn kind(m: &Module, b: &Bind) -> Fusion {
    let Some(e) = b
        .expr()
        .filter(|e| matches!(m.exprs[*e], Expr::Call { .. }))
    else {
        return Fusion::Opaque;
    };
    match called_op(m, e).map(|d| d.fusion) {
        Some(k) if k <= Fusion::OutElementwise && k != Fusion::Reduction => k,
        _ => Fusion::Opaque,
    }
}

fn grouped(m: &mut Module, typing: &Typing, part: &Part, made: &mut Made) -> Option<Vec<Bind>> {
    let kinds: Vec<Fusion> = part.binds.iter().map(|b| kind(m, b)).collect();
    let at: FxHashMap<VarId, usize> = (part.binds.iter().enumerate())
        .map(|(i, b)| (b.var, i))
        .collect();
    let mut graph = Graph::numbered(kinds.clone());
    for (i, b) in part.binds.iter().enumerate() {
        if let Some(e) = b.expr() {
            each_var(m, e, |v| {
                if let Some(&from) = at.get(&v) {
                    // What has the result's shape is seen one element at a time.
                    let same = typing.vars[v] == typing.vars[b.var];
                    let kind = match kinds[i] {
                        Fusion::Broadcast if same => Fusion::Elementwise,
                        kind => kind,
                    };
                    graph.numbered_edge(from, i, kind);
                }
            });
        }
    }
    for v in &part.outputs {
        if let Some(&i) = at.get(v) {
            graph.numbered_leave(i);
        }
    }
    graph.close();
    let mut groups = Groups::new(&graph, true, MOST);
    let root: Vec<usize> = (0..kinds.len()).map(|i| groups.root(i)).collect();
    let mut members: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (i, &g) in root.iter().enumerate() {
        members.entry(g).or_default().push(i);
    }
    let mut of_group: FxHashMap<usize, Group> = FxHashMap::default();
    for (&g, binds) in &members {
        let product = binds.iter().any(|&i| kinds[i] == Fusion::OutElementwise);
        let opaque = binds.iter().any(|&i| kinds[i] == Fusion::Opaque);
        if opaque || binds.len() < 2 && !product {
            continue;
        }
        let name = |&i: &usize| {
            let def = called_op(m, part.binds[i].expr()?)?;
            let name = def.name.strip_prefix("relax.").unwrap_or(def.name);
            Some(format!("relax_{}", name.replace('.', "_")))
        };
        let names: Vec<String> = binds.iter().filter_map(name).collect();
        let composite = names.join("_");
        let outputs = binds.iter().map(|&i| part.binds[i].var);
        of_group.insert(
            g,
            Group {
                binds: binds.clone(),
                outputs: outputs.filter(|v| part.outputs.contains(v)).collect(),
                names,
                attrs: vec![("Composite", AttrValue::Str(composite.as_str().into()))],
                primitive: true,
            },
        );
    }
    if of_group.is_empty() {
        return None;
    }
    Some(emit(m, typing, part, &root, of_group, made))
}
