//! `partition-graph`: outlines what an external library computes.
//!
//! Functions that `merge-composite` created belong to the library that their name begins with
//! (`lib` of `lib.conv_relu`). Adjacent calls of one library become one region, as long as nothing
//! outside would have to run in the middle of it (TVM: AnnotateTarget, MergeCompilerRegions,
//! PartitionGraph). A region becomes a global function marked `Compiler="lib"`, or a
//! `call_dps_packed` of the library's own function.

mod regions;

use relax_base::{Diagnostic, Diagnostics, Symbol};
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, Function, Global, GlobalKind, Memo, Shape, Type, TypeId,
    VarStyle,
};
use rustc_hash::FxHashMap;

use self::regions::{Regions, regions};
use crate::edit::Edit;
use crate::util::is_external;
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef, codes};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "partition-graph",
    doc: "Gives what `merge-composite` found to external libraries.",
    options: &[
        OptionDef {
            name: "compiler",
            ty: OptionType::Text,
            default: "",
            doc: "the library, `lib` for functions named `lib.…`; all libraries when empty",
        },
        OptionDef {
            name: "call",
            ty: OptionType::Choice(&["function", "packed"]),
            default: "function",
            doc: "what is called: a function marked `Compiler`, or the library's own by `call_dps_packed`",
        },
        OptionDef {
            name: "merge",
            ty: OptionType::Bool,
            default: "true",
            doc: "whether neighbours of one library become one region",
        },
    ],
    contract: Contract::TYPED.idempotent(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let (compiler, merge) = (cx.options.text("compiler"), cx.options.flag("merge"));
    let packed = cx.options.text("call") == "packed";
    let mut edit = Edit::new(cx.module, &typing);
    let mut warnings = Diagnostics::new();
    let mut count = 0;
    for (global, body) in edit.m.global_bodies() {
        let func = edit.m.global_func(global).expect("it has a body");
        if is_external(&edit.m.funcs[func]) {
            continue;
        }
        // A library's own function computes one composite.
        let scopes = cx.analyses.scopes(edit.m, func);
        let found = regions(edit.m, &scopes, body, compiler, merge && !packed);
        let within = edit.m.globals[global].name;
        let mut cut = Cut {
            edit: &mut edit,
            regions: &found,
            within,
            packed,
            warnings: &mut warnings,
            memo: Memo::default(),
            made: FxHashMap::default(),
        };
        let new = cut.expr(body);
        count += cut.made.len() as u64;
        edit.m.set_global_body(global, new);
    }
    cx.diagnostics.extend(warnings);
    cx.count("regions given away", count);
    Ok(())
}

struct Cut<'c, 'm> {
    edit: &'c mut Edit<'m>,
    regions: &'c Regions,
    /// The function being partitioned.
    within: Symbol,
    packed: bool,
    warnings: &'c mut Diagnostics,
    memo: Memo,
    /// The calls of regions.
    made: FxHashMap<usize, ExprId>,
}

impl Cut<'_, '_> {
    /// Rewrites an expression over the results of regions. A region is built when the first of its
    /// results is needed; by then all its inputs are available, because regions do not depend on
    /// themselves.
    fn expr(&mut self, root: ExprId) -> ExprId {
        let mut open = vec![(root, false)];
        while let Some((e, ready)) = open.pop() {
            if self.memo.contains_key(&e) {
                continue;
            }
            let region = self.regions.of.get(&e).copied();
            let mut parts = Vec::new();
            match region {
                Some(r) => parts.extend(self.regions.all[r].inputs.iter().copied()),
                None => self.edit.m.for_each_child(e, |c| parts.push(c)),
            }
            if !ready {
                open.push((e, true));
                open.extend(parts.into_iter().rev().map(|p| (p, false)));
                continue;
            }
            let new = match region {
                Some(r) => self.result(r, e),
                None => {
                    let memo = &self.memo;
                    self.edit.m.map_children(e, |c| memo[&c])
                }
            };
            if new != e {
                let ty = self.edit.ty(e);
                self.edit.set_ty(new, ty);
            }
            self.memo.insert(e, new);
        }
        self.memo[&root]
    }

    /// Returns the value outside of a region that replaces one of its members.
    fn result(&mut self, r: usize, member: ExprId) -> ExprId {
        let call = match self.made.get(&r) {
            Some(&call) => call,
            None => {
                let call = self.region(r);
                self.made.insert(r, call);
                call
            }
        };
        let outputs = &self.regions.all[r].outputs;
        if outputs.len() == 1 {
            return call;
        }
        // A member that only its region uses is not requested.
        let index = outputs.iter().position(|o| *o == member).unwrap_or(0);
        let span = self.edit.m.span(member);
        self.edit.field(call, index as u32, span)
    }

    fn region(&mut self, r: usize) -> ExprId {
        let region = &self.regions.all[r];
        let lib = region.compiler;
        let name = self.fresh(&format!("{lib}_{}_{r}", self.within));
        let span = self.edit.m.span(region.members[0]);
        let (mut memo, mut params, mut args) = (Memo::default(), Vec::new(), Vec::new());
        for &input in &region.inputs {
            // Constants are kept inside a function, but are operands of a library's own.
            if !self.packed && matches!(self.edit.m.exprs[input], Expr::Const(_)) {
                memo.insert(input, input);
                continue;
            }
            let ty = self.edit.ty(input);
            let param = Symbol::from(format!("{lib}_{r}_i{}", params.len()).as_str());
            let (var, reference) = self.edit.fresh_var(param, ty, VarStyle::Param);
            params.push(var);
            args.push(self.memo[&input]);
            memo.insert(input, reference);
        }
        for &member in &region.members {
            let mut callee = true;
            let new = self.edit.m.map_children(member, |c| {
                if std::mem::take(&mut callee) {
                    c
                } else {
                    memo[&c]
                }
            });
            let ty = self.edit.ty(member);
            self.edit.set_ty(new, ty);
            memo.insert(member, new);
        }
        let outputs: Vec<ExprId> = region.outputs.iter().map(|o| memo[o]).collect();
        let types: Vec<TypeId> = region.outputs.iter().map(|o| self.edit.ty(*o)).collect();
        let (body, ret) = match (&outputs[..], &types[..]) {
            ([one], [ty]) => (*one, *ty),
            _ => {
                let tuple = self.edit.tuple(&outputs, span);
                (tuple, self.edit.m.types.tuple(types.clone()))
            }
        };
        if self.packed {
            let function = self.composite(region.members[0]);
            match self.packed_call(function, &args, &types, span) {
                Some(call) => {
                    self.edit.set_ty(call, ret);
                    return call;
                }
                None => {
                    let message = format!("`{lib}` is not called by `call_dps_packed` here");
                    let note =
                        "that takes tensors and gives tensors of known ranks and element types";
                    let d = Diagnostic::warning(codes::NOT_PACKED, span, message);
                    self.warnings.push(d.note(note));
                }
            }
        }
        let mut attrs = Attrs::new();
        attrs.set("Compiler", AttrValue::Str(lib.as_str().into()));
        attrs.set("Inline", AttrValue::Int(1));
        attrs.set("Primitive", AttrValue::Int(1));
        attrs.set("global_symbol", AttrValue::Str(name.as_str().into()));
        let function = self.edit.m.funcs.push(Function {
            type_params: Vec::new(),
            dims: Vec::new(),
            params,
            ret: Some(ret),
            constraints: Vec::new(),
            body,
            attrs,
            span,
        });
        // Dimension variables of the context become the function's own.
        let function = self.edit.m.copy_func(function);
        let global = self.edit.m.globals.push(Global {
            name,
            kind: GlobalKind::Func(function),
            span,
            prelude: false,
        });
        let callee = self.edit.m.add(Expr::Global(global), span);
        let call = self.edit.m.call(callee, &args, span);
        self.edit.set_ty(call, ret);
        call
    }

    /// Returns the name of the function of a region's call.
    fn composite(&self, call: ExprId) -> Symbol {
        let m = &*self.edit.m;
        let Expr::Call { callee, .. } = m.exprs[call] else {
            unreachable!("regions consist of calls");
        };
        let Expr::Func(f) = m.exprs[callee] else {
            unreachable!("regions consist of calls of functions");
        };
        let name = m.funcs[f]
            .attrs
            .get("Composite")
            .and_then(AttrValue::as_str);
        Symbol::from(name.unwrap_or_default())
    }

    fn fresh(&self, name: &str) -> Symbol {
        let taken = |n: &str| self.edit.m.global(n).is_some();
        let mut text = name.to_owned();
        let mut k = 0;
        while taken(&text) {
            k += 1;
            text = format!("{name}_{k}");
        }
        Symbol::from(text.as_str())
    }

    /// Creates a `call_dps_packed("name", (args,), shapes, dtype)`.
    fn packed_call(
        &mut self,
        name: Symbol,
        args: &[ExprId],
        types: &[TypeId],
        span: relax_base::Span,
    ) -> Option<ExprId> {
        let tensor = |e: &ExprId| matches!(self.edit.m.types[self.edit.ty(*e)], Type::Tensor(_));
        // Rewritten expressions have their types; references to parameters have theirs, too.
        if !args.iter().all(tensor) {
            return None;
        }
        let (mut shapes, mut dtypes) = (Vec::new(), Vec::new());
        for &ty in types {
            let t = self.edit.m.types.as_tensor(ty)?.clone();
            let dims = t.shape.dims()?.to_vec();
            if dims.iter().any(relax_sym::Dim::is_any) {
                return None;
            }
            dtypes.push(AttrValue::DType(t.dtype.known()?));
            let shape = self.edit.m.add(Expr::Shape(dims.clone().into()), span);
            let ty = self
                .edit
                .m
                .types
                .intern(Type::Shape(Shape::Dims(dims.into())));
            self.edit.set_ty(shape, ty);
            shapes.push(shape);
        }
        let callee = self.edit.m.add(Expr::Extern(name), span);
        let inputs = self.edit.tuple(args, span);
        let (shape, dtype) = match (&shapes[..], &dtypes[..]) {
            ([shape], [dtype]) => (*shape, dtype.clone()),
            _ => (self.edit.tuple(&shapes, span), AttrValue::array(dtypes)),
        };
        let given = [("dtype", dtype)];
        Some(
            self.edit
                .call("call_dps_packed", &[callee, inputs, shape], &given, span),
        )
    }
}
