//! Printing and comparison of modules.

use relax_base::Span;
use relax_ir::{Difference, EqualOptions, ExprId, Module, OpId};
use relax_resolve::print::module_to_ast;
use relax_syntax::PrintOptions;

pub use relax_ir::TypeSource;
pub use relax_resolve::print::{PrintMode, listed_constants};
pub use relax_syntax::Style;

/// Prints a module. With `types`, TVM's `/* ty=… */` comments and the inferred result types are
/// included.
///
/// ```
/// let (module, _) = relax::Session::default().read("a", b"def @main() { 1+2 }".to_vec());
/// let text = relax::print(&module, relax::Style::Pretty, None);
/// assert!(text.contains("def @main"));
/// ```
pub fn print(module: &Module, style: Style, types: Option<&dyn TypeSource>) -> String {
    let mode = PrintMode {
        style,
        types,
        ..PrintMode::default()
    };
    print_as(module, &mode)
}

/// Like [`print()`], with all options.
pub fn print_as(module: &Module, mode: &PrintMode<'_>) -> String {
    let ast = module_to_ast(module, mode);
    let options = PrintOptions {
        style: mode.style,
        types: mode.types.is_some(),
        ..PrintOptions::default()
    };
    relax_syntax::print(&ast, &options)
}

/// Returns the name of a built-in operator.
pub(crate) fn op_name(op: OpId) -> String {
    match relax_ops::registry().get(op) {
        Some(def) => def.name.to_owned(),
        None => format!("{op:?}"),
    }
}

/// The first structural difference between two modules, formatted for users.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// A description of the difference, its location, and the two expressions.
    pub text: String,
    /// The span of the left expression; [`Span::NONE`] if a pass created it.
    pub left: Span,
    /// The span of the right expression.
    pub right: Span,
}

/// Returns the first structural difference between two modules.
pub fn difference(left: &Module, right: &Module, options: EqualOptions) -> Option<Mismatch> {
    let found: Difference = relax_ir::structural_difference(left, right, options, &op_name)?;
    let mut text = found.to_string();
    let mut side = |name: &str, module: &Module, expr: Option<ExprId>| {
        let Some(expr) = expr else { return Span::NONE };
        let shown = module.show_expr(expr, &op_name);
        text.push_str(&format!("\n  {name}: {shown}"));
        module.spans[expr]
    };
    let left = side("left ", left, found.left);
    let right = side("right", right, found.right);
    Some(Mismatch { text, left, right })
}
