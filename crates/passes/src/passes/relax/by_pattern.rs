//! `relax-fuse-ops-by-pattern`: outlines operators that match a pattern into a function.
//!
//! Patterns are declared, each with the name of a library function (`Composite`). Without any,
//! those of the libraries below are tried; a module that matches none of them gets functions of
//! operators that can be fused into one kernel.

use relax_base::{Diagnostics, Span};
use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, FuncId, Module, VarId};
use relax_ops::Fusion;
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::fuse::{Group, Made, emit};
use super::matched::{Found, matched};
use crate::code::{Bind, Code, Part, each_code, each_var};
use crate::declared::Declared;
use crate::passes::fuse_ops::groups::{Graph, Groups};
use crate::util::{called_op, is_settled};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-fuse-ops-by-pattern",
    doc: "Relax's fuse-ops-by-pattern: operators that belong together become a function.",
    options: &[
        OptionDef {
            name: "patterns",
            ty: OptionType::Source,
            default: "",
            doc: "functions of the text format, in quotes: `def @lib.conv_relu(%x, %w) { nn.relu(nn.conv2d(%x, %w)) }`; \
                  `@FILE` takes them from a file",
        },
        OptionDef {
            name: "annotate-codegen",
            ty: OptionType::Bool,
            default: "false",
            doc: "what matches one of `patterns` stands in a function that names the library (`Codegen`)",
        },
        OptionDef {
            name: "bind-constants",
            ty: OptionType::Bool,
            default: "true",
            doc: "constants stay in the functions",
        },
    ],
    contract: Contract::TYPED,
    run,
}];

/// The patterns that a library computes as one call.
struct Library {
    patterns: &'static str,
    types: &'static [DType],
    /// Whether TVM's own partitioning for it records the library's name.
    codegen: bool,
}

const LIBRARIES: &[Library] = &[
    Library {
        patterns: "def @dnnl.conv2d_relu(%x, %w) { nn.relu(nn.conv2d(%x, %w)) }
                   def @dnnl.conv2d(%x, %w) { nn.conv2d(%x, %w) }",
        types: &[DType::F32],
        codegen: false,
    },
    Library {
        patterns: "def @cublas.matmul_transposed(%x, %w) { relax.matmul(%x, transpose(%w)) }
                   def @cublas.matmul(%x, %w) { relax.matmul(%x, %w) }",
        types: &[DType::F16, DType::F32, DType::BF16],
        codegen: true,
    },
];

/// The maximum number of bindings in a function.
const MOST: usize = 256;

/// A pattern, and what is to be done with its matches.
pub(super) struct Wanted {
    pub pattern: Declared,
    /// The element types that a match may have; any if empty.
    pub types: &'static [DType],
    codegen: bool,
}

/// Returns the requested patterns.
fn wanted(cx: &PassCx<'_>) -> Result<Vec<Wanted>, Diagnostics> {
    let given = cx.options.text("patterns");
    let (mut all, mut errors) = (Vec::new(), Diagnostics::new());
    let mut add = |text: &str, place: Span, types, codegen| match Declared::parse(text, place) {
        Ok(patterns) => all.extend(patterns.into_iter().map(|pattern| Wanted {
            pattern,
            types,
            codegen,
        })),
        Err(found) => errors.extend(found),
    };
    if given.trim().is_empty() {
        for library in LIBRARIES {
            add(library.patterns, Span::NONE, library.types, library.codegen);
        }
    } else {
        let codegen = cx.options.flag("annotate-codegen");
        add(given, cx.options.place("patterns"), &[], codegen);
    }
    match errors.has_errors() {
        true => Err(errors),
        false => Ok(all),
    }
}

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let wanted = wanted(cx)?;
    let own = cx.options.text("patterns").trim().is_empty();
    let constants = cx.options.flag("bind-constants");
    let typing = cx.typing()?;
    let mut made = Made::default();
    each_block(cx.module, |m, part| {
        let found = matched(m, &typing, part, &wanted);
        replaced(m, &typing, part, (&wanted, found), constants, &mut made)
    });
    if own && made.count == 0 {
        each_block(cx.module, |m, part| grouped(m, &typing, part, &mut made));
    }
    cx.count("functions made", made.count);
    Ok(())
}

/// Rewrites the bindings of dataflow blocks, except in functions that are kernels or belong to an
/// external compiler.
fn each_block(m: &mut Module, mut f: impl FnMut(&mut Module, &Part) -> Option<Vec<Bind>>) {
    each_code(m, |m: &mut Module, func: FuncId, code: &mut Code| {
        if is_settled(&m.funcs[func]) {
            return false;
        }
        let mut changed = false;
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            if part.flow
                && let Some(binds) = f(m, part)
            {
                part.binds = binds;
                changed = true;
            }
        }
        changed
    });
}

/// Returns the bindings with matches replaced by calls of functions.
fn replaced(
    m: &mut Module,
    typing: &Typing,
    part: &Part,
    (wanted, found): (&[Wanted], Vec<Found>),
    constants: bool,
    made: &mut Made,
) -> Option<Vec<Bind>> {
    let mut root: Vec<usize> = (0..part.binds.len()).collect();
    let mut of_group: FxHashMap<usize, Group> = FxHashMap::default();
    for Found { pattern, binds } in found {
        let wanted = &wanted[pattern];
        let name = wanted.pattern.name.as_str();
        let library = name.split('.').next().unwrap_or(name);
        let g = *binds.last()?;
        for &i in &binds {
            root[i] = g;
        }
        let codegen = wanted.codegen.then(|| library.to_owned());
        let group = Group {
            primitive: codegen.is_none(),
            constants,
            codegen,
            ..group(m, part, binds, name)
        };
        of_group.insert(g, group);
    }
    (!of_group.is_empty()).then(|| emit(m, typing, part, &root, of_group, made))
}

/// Returns the group of bindings that matched the pattern of that name.
fn group(m: &Module, part: &Part, binds: Vec<usize>, composite: &str) -> Group {
    let outputs = binds.iter().map(|&i| part.binds[i].var);
    Group {
        outputs: outputs.filter(|v| part.outputs.contains(v)).collect(),
        names: names(m, part, &binds),
        binds,
        attrs: vec![("Composite", AttrValue::Str(composite.into()))],
        primitive: true,
        constants: false,
        codegen: None,
    }
}

/// Returns the parts of a function's name: its operators, as they are spelled in the text.
fn names(m: &Module, part: &Part, binds: &[usize]) -> Vec<String> {
    let name = |&i: &usize| {
        let e = part.binds[i].expr()?;
        let Expr::Call { callee, .. } = m.exprs[e] else {
            return None;
        };
        let Expr::Op(op) = m.exprs[callee] else {
            return None;
        };
        let written = m.script.as_deref().and_then(|s| s.operators.get(&op));
        let own = || relax_ops::registry().get(op).map(|d| d.name);
        let name = written.map(|s| s.as_str()).or_else(own)?;
        let name = name.strip_prefix("relax.").unwrap_or(name);
        Some(format!("relax_{}", name.replace('.', "_")))
    };
    binds.iter().filter_map(name).collect()
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

/// Returns the bindings with operators that can be one kernel replaced by calls of functions.
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
                    // An operand of the result's shape is accessed element-wise.
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
        if binds.iter().all(|&i| kinds[i] != Fusion::Opaque) {
            let composite = names(m, part, binds).join("_");
            of_group.insert(g, group(m, part, binds.clone(), &composite));
        }
    }
    (!of_group.is_empty()).then(|| emit(m, typing, part, &root, of_group, made))
}
