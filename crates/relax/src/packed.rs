//! Packed functions for the evaluator, with the interface that compiled programs use.

use std::sync::Arc;

use relax_base::BoxError;
use relax_codegen::{Packed, Place};
use relax_interp::Value as Inner;
use relax_ir::Module as Ir;
use relax_tensor::{Tensor, Value};

use crate::{Error, Module, values};

impl Module {
    /// Like [`Module::evaluate`], with packed functions that the program may call.
    ///
    /// # Errors
    /// As for [`Module::evaluate`].
    pub fn evaluate_with(
        &self,
        function: &str,
        arguments: &[Value],
        packed: Arc<dyn Packed>,
    ) -> Result<Value, Error> {
        let functions = Functions {
            module: &self.ir,
            packed,
        };
        self.run(function, arguments, |e| e.with_packed(functions))
    }
}

/// Adapts packed functions to an evaluator of a module.
struct Functions<'m> {
    module: &'m Ir,
    packed: Arc<dyn Packed>,
}

impl relax_interp::Packed for Functions<'_> {
    fn call(&mut self, name: &str, args: &mut [Inner]) -> Result<Inner, BoxError> {
        let args: Vec<Value> = args.iter().map(|a| values::outer(self.module, a)).collect();
        let result = self.packed.call(name, &args)?;
        let tensor = |t: &Tensor| Some(Inner::from(t.clone()));
        let join = |tag: Option<u32>, fields| tag.is_none().then(|| Inner::tuple(fields));
        let none = "the evaluator takes tensors, and tuples of them, from functions of the host";
        result.fold(tensor, join).ok_or_else(|| none.into())
    }

    fn call_dps(
        &mut self,
        name: &str,
        args: &[Tensor],
        outs: &mut [Tensor],
    ) -> Result<(), BoxError> {
        let own = |t: &Tensor, own| {
            let bytes: Arc<[u64]> = words(t).into();
            let owner = Arc::new(Words(bytes, t.bytes().len()));
            let tensor = Tensor::from_owner(t.dtype(), t.shape(), owner, 0);
            let tensor = tensor.unwrap_or_else(|| t.clone());
            Place { tensor, own }
        };
        let given = args.iter().map(|t| Place {
            tensor: t.clone(),
            own: false,
        });
        let places: Vec<Place> = given.chain(outs.iter().map(|t| own(t, true))).collect();
        self.packed.call_dps(name, &places)?;
        for (out, place) in outs.iter_mut().zip(&places[args.len()..]) {
            // Copied, as the function may have kept a pointer to the buffer.
            let (dtype, shape) = (out.dtype(), out.shape().to_vec());
            let written = Tensor::from_bytes(dtype, &shape, place.tensor.bytes());
            *out = written.ok_or("a tensor has changed its size")?;
        }
        Ok(())
    }
}

/// An aligned buffer that is written in place.
struct Words(Arc<[u64]>, usize);

impl AsRef<[u8]> for Words {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the words were allocated to hold at least `self.1` bytes.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.1) }
    }
}

/// Copies a tensor's bytes into words, so that they are aligned.
fn words(t: &Tensor) -> Vec<u64> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    };
    t.bytes().chunks(8).map(word).collect()
}
