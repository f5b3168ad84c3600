//! Functions for tests.

use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Type, Value};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// A function of parameters and a result. `build` fills its first block and adds others; the last
/// one returns the value.
pub(crate) fn function(
    params: &[Type],
    result: Type,
    build: impl FnOnce(&mut FunctionBuilder<'_>, &[Value]) -> Value,
) -> Function {
    let mut f = Function::new();
    f.signature.call_conv = CallConv::SystemV;
    let params = params.iter().map(|&ty| AbiParam::new(ty));
    f.signature.params.extend(params);
    f.signature.returns.push(AbiParam::new(result));
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut f, &mut context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    let result = build(&mut b, &params);
    b.ins().return_(&[result]);
    b.seal_all_blocks();
    b.finalize(TargetFrontendConfig {
        default_call_conv: CallConv::SystemV,
        pointer_width: target_lexicon::PointerWidth::U64,
        page_size_align_log2: 12,
    });
    f
}
