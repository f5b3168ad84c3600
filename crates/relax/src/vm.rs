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

/// Translates a lowered program to bytecode. `module` is the module it was lowered from.
///
/// # Errors
/// Part of it has no bytecode form.
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

/// Returns a program's interface as text: its data types, and the signatures of its functions.
fn interface(module: &Module, entries: &[Entry]) -> String {
    let known = entries.iter().filter_map(|e| {
        let (result, types) = e.types.split_last()?;
        let params = e.params.iter().zip(types);
        let params = params.map(|(p, t)| (p.as_str(), t.as_str())).collect();
        Some((e.name.as_str(), params, result.as_str()))
    });
    described(module, known)
}

/// A function's signature: its name, the names and types of its parameters, the type of its result.
pub(crate) type Known<'e> = (&'e str, Vec<(&'e str, &'e str)>, &'e str);

/// Returns the text of [`interface`] for functions of a module.
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

/// Converts a value to the machine's; `None` if part of it has no form there.
pub fn inner(value: &Value) -> Option<V> {
    let join = |tag, fields| match tag {
        Some(tag) => Node::Adt(tag, fields).into(),
        None => V::tuple(fields),
    };
    value.fold(|t| Some(V::from(t.clone())), |tag, f| Some(join(tag, f)))
}

/// Converts a value from the machine.
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

/// Converts a fault to the diagnostic that the other engines report; `None` if its location is in
/// no available source.
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
    // With only one function on the stack, the location alone suffices.
    let (Some(inner), true) = (fault.stack.first(), fault.stack.len() > 1) else {
        return Some(d);
    };
    let call = |(name, at): &(String, u32)| format!("@{name}, instruction {at}");
    let outer: Vec<String> = fault.stack[1..].iter().map(call).collect();
    let text = format!("in {}, called from {}", call(inner), outer.join(", from "));
    Some(d.note(text))
}
