//! Splits a module into a text and the constants that are too large to print in it.

use relax_ir::{ExprId, FuncId, TypeId, VarId};
use relax_tensor::Tensor;

use crate::{
    Error, Module, PrintMode, ReadOptions, Stubs, Style, TextOptions, TypeSource, TypedModule,
    listed_constants, print_as,
};

/// Expression types, needed when a constant is bound without a metadata section; expressions
/// without annotations stay unannotated.
struct Expressions<'a>(TypedModule<'a>);

impl TypeSource for Expressions<'_> {
    fn expr(&self, id: ExprId) -> Option<TypeId> {
        self.0.expr(id)
    }
    fn var(&self, _: VarId) -> Option<TypeId> {
        None
    }
    fn ret(&self, _: FuncId) -> Option<TypeId> {
        None
    }
}

impl Module {
    /// Returns the module as text plus the constants that the text refers to, in index order.
    /// [`Module::together`] rebuilds the same module from the two without printing any element as
    /// text.
    ///
    /// ```
    /// let module = relax::Module::parse("def @main(%x: Tensor[(2,), float32]) { %x * 2f }")?;
    /// let (text, constants) = module.apart();
    /// assert!(relax::Module::together(&text, constants)?.structural_equal(&module));
    /// # Ok::<(), relax::Error>(())
    /// ```
    #[must_use]
    pub fn apart(&self) -> (String, Vec<Tensor>) {
        let listed = listed_constants(&self.ir);
        // Other metadata can only be stored in the metadata section.
        if listed.is_empty() || self.ir.metadata.raw.is_some() {
            return (self.to_string(), Vec::new());
        }
        let types = Expressions(TypedModule {
            module: &self.ir,
            typing: &self.typing,
        });
        let mode = PrintMode {
            style: Style::Tvm,
            types: Some(&types),
            no_metadata: true,
            ..PrintMode::default()
        };
        let constants = listed.into_iter().map(|id| self.ir.consts[id].clone());
        (print_as(&self.ir, &mode), constants.collect())
    }

    /// Rebuilds a module from the output of [`Module::apart`].
    ///
    /// # Errors
    /// The text has errors, or the constants do not match its references.
    pub fn together(text: &str, constants: Vec<Tensor>) -> Result<Module, Error> {
        let options = ReadOptions {
            text: TextOptions {
                stub_constants: (!constants.is_empty()).then_some(Stubs::Awaited),
                ..TextOptions::default()
            },
            format: Some(crate::Format::Relay),
            ..ReadOptions::default()
        };
        let mut module = Module::read("<text>", text.as_bytes().to_vec(), options)?;
        let name = |(i, t)| (format!("meta[relay.Constant][{i}]"), t);
        let rest = module.give(constants.into_iter().enumerate().map(name).collect())?;
        match rest.is_empty() {
            true => Ok(module),
            false => Err(Error::Misused(format!(
                "the text refers to {} constants fewer than there are",
                rest.len()
            ))),
        }
    }

    /// Binds the constants that the text refers to; returns the values that match no reference.
    pub(crate) fn give(
        &mut self,
        mut values: Vec<(String, Tensor)>,
    ) -> Result<Vec<(String, Tensor)>, Error> {
        // Stubs that the caller asked for may remain.
        let stubs = self.session.options.text.stub_constants != Some(Stubs::Awaited);
        let problems = crate::weights::constants(&mut self.ir, &mut values, stubs);
        match problems.is_empty() {
            true => Ok(values),
            false => Err(Error::Unfit(
                "the constants do not fit the text".into(),
                problems,
            )),
        }
    }
}
