//! The entry points for external callers: C entries of functions and closures.

use std::mem::offset_of;

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, types};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{FuncId, Linkage, Module};
use relax_base::{Diagnostic, Symbol};
use relax_lower::codes;
use relax_lower::lir::{FnId, LFunc};
use relax_runtime::abi;
use relax_runtime::context::RxContext;

use super::{Build, entry_symbol, local};
use crate::env::Env;
use crate::func::Program;

impl Build<'_> {
    /// The C entry of a closure: arguments owned.
    pub(super) fn closure_entry(
        &mut self,
        program: &Program<'_>,
        id: FnId,
    ) -> Result<(), Box<Diagnostic>> {
        let sig = self.env.signature("pppip>i");
        let n = program.lowered.funcs[id].params.len();
        let name = format!("{} (C entry)", program.lowered.funcs[id].name);
        self.define(program.entries[&id], sig, &name, |b, env| {
            let entry = b.create_block();
            b.append_block_params_for_function_params(entry);
            b.switch_to_block(entry);
            let given = b.block_params(entry).to_vec();
            let mut all = vec![given[0], given[1]];
            for i in 0..n {
                all.push(
                    b.ins()
                        .load(types::I64, MemFlagsData::trusted(), given[2], 8 * i as i32),
                );
            }
            checked_arguments(b, env, &program.lowered.funcs[id], &all);
            // The code releases the closure that it runs, which the caller keeps.
            let retain = env.import(abi::rx_retain, b.func);
            b.ins().call(retain, &[given[1]]);
            finish_entry(b, env, program, id, &all, given[4]);
            Ok(())
        })
    }

    /// `int32_t relax_NAME(ctx, args, nargs, out)`: borrows the arguments, runs on the context's
    /// stack.
    pub(super) fn c_entry(
        &mut self,
        program: &Program<'_>,
        id: FnId,
        name: Symbol,
        prefix: Option<&str>,
    ) -> Result<FuncId, Box<Diagnostic>> {
        let n = program.lowered.funcs[id].params.len();
        let symbol = entry_symbol(prefix, name);
        let sig = self.env.signature("pp>i");
        let inner = local(&mut self.env, &format!("relax.run.{name}"), &sig);
        self.define(inner, sig, &format!("@{name} (on its stack)"), |b, env| {
            let entry = b.create_block();
            b.append_block_params_for_function_params(entry);
            b.switch_to_block(entry);
            let (ctx, frame) = (b.block_params(entry)[0], b.block_params(entry)[1]);
            let args = b.ins().load(types::I64, MemFlagsData::trusted(), frame, 0);
            let out = b.ins().load(types::I64, MemFlagsData::trusted(), frame, 8);
            let mut all = vec![ctx];
            let retain = env.import(abi::rx_retain, b.func);
            for i in 0..n {
                let v = b
                    .ins()
                    .load(types::I64, MemFlagsData::trusted(), args, 8 * i as i32);
                b.ins().call(retain, &[v]);
                all.push(v);
            }
            finish_entry(b, env, program, id, &all, out);
            Ok(())
        })?;
        let sig = self.env.signature("ppip>i");
        let declared = self
            .env
            .module
            .declare_function(&symbol, Linkage::Export, &sig);
        let outer = declared.map_err(|_| {
            let text = format!("two functions have the C name `{symbol}`");
            Box::new(Diagnostic::error(
                codes::UNSUPPORTED,
                relax_base::Span::NONE,
                text,
            ))
        })?;
        let table = self.table;
        self.define(outer, sig, &format!("@{name} (C entry)"), |b, env| {
            let entry = b.create_block();
            b.append_block_params_for_function_params(entry);
            b.switch_to_block(entry);
            let [ctx, args, count, out] = [0, 1, 2, 3].map(|i| b.block_params(entry)[i]);
            let (ok, bad) = (b.create_block(), b.create_block());
            let place = env.text(&format!("@{name}"), b.func);
            let place = b.ins().symbol_value(types::I64, place);
            let wanted = b.ins().iconst(types::I32, n as i64);
            let check = env.import(abi::rx_check_call, b.func);
            let call = (b.ins()).call(check, &[ctx, place, args, count, wanted, out]);
            let status = b.inst_results(call)[0];
            b.set_cold_block(bad);
            b.ins().brif(status, bad, &[], ok, &[]);
            b.switch_to_block(bad);
            b.ins().return_(&[status]);
            b.switch_to_block(ok);
            if let Some(table) = table {
                let gv = env.module.declare_data_in_func(table, b.func);
                let table = b.ins().symbol_value(types::I64, gv);
                let map = env.import(abi::rx_weights_map, b.func);
                let call = b.ins().call(map, &[ctx, table]);
                let status = b.inst_results(call)[0];
                let (mapped, failed) = (b.create_block(), b.create_block());
                b.set_cold_block(failed);
                b.ins().brif(status, failed, &[], mapped, &[]);
                b.switch_to_block(failed);
                b.ins().return_(&[status]);
                b.switch_to_block(mapped);
            }
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 3);
            let slot = b.create_sized_stack_slot(slot);
            b.ins().stack_store(types::I64, args, slot, 0);
            b.ins().stack_store(types::I64, out, slot, 8);
            let frame = b.ins().stack_addr(types::I64, slot, 0);
            let f = env.module.declare_func_in_func(inner, b.func);
            let code = b.ins().func_addr(types::I64, f);
            let run = env.import(abi::rx_call_on_stack, b.func);
            let call = b.ins().call(run, &[ctx, code, frame]);
            let status = b.inst_results(call)[0];
            b.ins().return_(&[status]);
            Ok(())
        })?;
        Ok(outer)
    }
}

/// Checks the arguments of a closure against its parameter types; on a mismatch releases them, as
/// the code would have.
fn checked_arguments(
    b: &mut FunctionBuilder<'_>,
    env: &mut Env<'_>,
    f: &LFunc,
    all: &[cranelift_codegen::ir::Value],
) {
    let place = env.text(&format!("{}: an argument of @{}", f.place, f.name), b.func);
    let place = b.ins().symbol_value(types::I64, place);
    let bad = b.create_block();
    b.set_cold_block(bad);
    b.append_block_param(bad, types::I32);
    for (given, &argument) in f.forms.given.iter().zip(&all[2..]) {
        let words = crate::described::data(env, given);
        let words = env.module.declare_data_in_func(words, b.func);
        let words = b.ins().symbol_value(types::I64, words);
        let check = env.import(abi::rx_check_value, b.func);
        let call = b.ins().call(check, &[all[0], argument, words, place]);
        let status = b.inst_results(call)[0];
        let fine = b.create_block();
        b.ins().brif(status, bad, &[status.into()], fine, &[]);
        b.switch_to_block(fine);
    }
    let fine = b.create_block();
    b.ins().jump(fine, &[]);
    b.switch_to_block(bad);
    let release = env.import(abi::rx_release, b.func);
    for &argument in &all[2..] {
        b.ins().call(release, &[all[0], argument]);
    }
    let status = b.block_params(bad)[0];
    b.ins().return_(&[status]);
    b.switch_to_block(fine);
}

/// Calls a function's code, stores the value at `out`, and returns 0 or the recorded status.
fn finish_entry(
    b: &mut FunctionBuilder<'_>,
    env: &mut Env<'_>,
    program: &Program<'_>,
    id: FnId,
    args: &[cranelift_codegen::ir::Value],
    out: cranelift_codegen::ir::Value,
) {
    let f = env.module.declare_func_in_func(program.funcs[&id], b.func);
    let call = b.ins().call(f, args);
    let value = b.inst_results(call)[0];
    let (ok, bad) = (b.create_block(), b.create_block());
    b.ins().brif(value, ok, &[], bad, &[]);
    b.switch_to_block(bad);
    let at = offset_of!(RxContext, status) as i32;
    let status = (b.ins()).load(types::I32, MemFlagsData::trusted(), args[0], at);
    b.ins().return_(&[status]);
    b.switch_to_block(ok);
    b.ins().store(MemFlagsData::trusted(), value, out, 0);
    let zero = b.ins().iconst(types::I32, 0);
    b.ins().return_(&[zero]);
}
