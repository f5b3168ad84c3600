//! Programs for the virtual machine.

use relax_base::{Diagnostic, Diagnostics, Span};
use relax_ir::Module;
use relax_lower::lir::Lowered;
use relax_syntax::Style;
use relax_tensor::Value;
use relax_vm::{Entry, Executable, Fault, Node, Value as V};
use rustc_hash::FxHashSet;
use std::fmt::Write as _;

use crate::failure::Places;

#[cfg(all(target_arch = "x86_64", unix))]
mod beside;
mod native;

#[cfg(all(target_arch = "x86_64", unix))]
pub use beside::{native_file, open_native};
pub use native::Native;

/// Translates a lowered program. `module` is what it was lowered from.
///
/// # Errors
/// It has no form for the machine.
pub fn program(lowered: &Lowered, module: &Module) -> Result<Executable, Diagnostics> {
    let refused = |text: String| {
        let mut all = Diagnostics::new();
        all.push(Diagnostic::error(
            relax_lower::codes::UNSUPPORTED,
            Span::NONE,
            text,
        ));
        all
    };
    let mut program = relax_vm::translate(lowered)
        .map_err(|e| refused(format!("the virtual machine does not support {}", e.0)))?;
    program.interface = interface(module, &program.entries);
    relax_vm::verify(&program).map_err(|b| refused(format!("a defect of the lowering: {b}")))?;
    Ok(program)
}

/// Returns what callers know of a program, as a text: data types, and functions that call
/// themselves.
fn interface(module: &Module, entries: &[Entry]) -> String {
    let known = entries.iter().filter_map(|e| {
        let (result, types) = e.types.split_last()?;
        let params = e.params.iter().zip(types);
        let params = params.map(|(p, t)| (p.as_str(), t.as_str())).collect();
        Some((e.name.as_str(), params, result.as_str()))
    });
    described(module, known)
}

/// A function as callers know it: its name, the names and types of its parameters, the type of its
/// result.
pub(crate) type Known<'e> = (&'e str, Vec<(&'e str, &'e str)>, &'e str);

/// The text of [`interface`] for functions of a module.
pub(crate) fn described<'e>(module: &Module, functions: impl Iterator<Item = Known<'e>>) -> String {
    let mut types = module.clone();
    types.retain_globals(&FxHashSet::default());
    types.expression = None;
    let mut out = crate::print(&types, Style::Pretty, None);
    for (name, params, result) in functions {
        let heads: Vec<String> = params.iter().map(|(p, t)| format!("%{p}: {t}")).collect();
        let args: Vec<String> = params.iter().map(|(p, _)| format!("%{p}")).collect();
        let (heads, args) = (heads.join(", "), args.join(", "));
        let _ = write!(
            out,
            "\ndef @{name}({heads}) -> {result} {{ @{name}({args}) }}\n"
        );
    }
    out
}

/// A value as the machine has it; `None` where something is in it that has no form there.
pub fn inner(value: &Value) -> Option<V> {
    let join = |tag, fields| match tag {
        Some(tag) => Node::Adt(tag, fields).into(),
        None => V::tuple(fields),
    };
    value.fold(|t| Some(V::from(t.clone())), |tag, f| Some(join(tag, f)))
}

/// A value that the machine gave.
pub fn outer(value: &V) -> Value {
    Value::unfold(value, |v| {
        if let Some(t) = v.tensor() {
            return Err(Value::Tensor((*t).clone()));
        }
        match v {
            V::Node(node) => match &**node {
                Node::Tuple(fields) => Ok((None, fields.iter().collect())),
                Node::Adt(tag, fields) => Ok((Some(*tag), fields.iter().collect())),
                Node::Closure(..) => Err(Value::Opaque("a function")),
                Node::Ref(_) => Err(Value::Opaque("a reference")),
            },
            V::Shape(_) => Err(Value::Opaque("a shape")),
            V::Text(_) => Err(Value::Opaque("a text")),
            _ => Err(Value::Opaque("a foreign value")),
        }
    })
}

/// A fault as the other engines report it; `None` where its place is in no text that is at hand.
pub fn diagnostic(places: &Places, fault: &Fault) -> Option<Diagnostic> {
    let d = Diagnostic::error(
        fault.code,
        places.find(&fault.place)?,
        fault.message.clone(),
    );
    let d = match fault.called.as_ref().and_then(|p| places.find(p)) {
        Some(span) => d.label(span, "called here"),
        None => d,
    };
    // Where only one function runs, the place says all.
    let (Some(inner), true) = (fault.stack.first(), fault.stack.len() > 1) else {
        return Some(d);
    };
    let call = |(name, at): &(String, u32)| format!("@{name}, instruction {at}");
    let outer: Vec<String> = fault.stack[1..].iter().map(call).collect();
    let text = format!("in {}, called from {}", call(inner), outer.join(", from "));
    Some(d.note(text))
}
