//! A whole lowered program into one object file or into memory.

use std::mem::offset_of;

use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    Function, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataId, FuncId, Linkage, Module};
use relax_base::{Diagnostic, Symbol};
use relax_loops::Buf;
use relax_lower::codes;
use relax_lower::lir::{FnId, KernelDef, LFunc};
use relax_runtime::abi;
use relax_runtime::context::RxContext;
use rustc_hash::FxHashMap;

use crate::data::{bytes_of, objects};
use crate::env::Env;
use crate::func::{self, Program};
use crate::functions::Queue;
use crate::kernel;
use crate::prepack::Prepacked;
use crate::settle::settle;

/// What C symbols of entries begin with.
const PREFIX: &str = "relax";

/// The C symbol of an entry: `relax_`, or the prefix and `_`, and the global's name, other characters as `_`.
pub fn entry_symbol(prefix: Option<&str>, name: Symbol) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.as_str().chars().map(clean).collect();
    format!("{}_{name}", prefix.unwrap_or(PREFIX))
}

/// Bytes of code and data by name, for size reports.
pub type Sizes = Vec<(String, usize)>;

/// What was made: the entries' functions, the sizes of all, and the code as text where it was wanted.
pub(crate) struct Compiled {
    pub entries: Vec<(Symbol, FuncId)>,
    pub sizes: Sizes,
    pub listing: String,
}

/// Code as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listing {
    /// Cranelift's intermediate representation.
    Clif,
    /// The target's instructions.
    Asm,
}

/// What is made beside the code.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Extras<'a> {
    /// What C symbols of entries begin with, if not as usual.
    pub prefix: Option<&'a str>,
    /// Code that measures its kernels.
    pub profile: bool,
    /// The code as text.
    pub listing: Option<Listing>,
}

/// Compiles `lowered` into `module`.
pub(crate) fn compile(
    weights: &Prepacked,
    module: &mut dyn Module,
    extras: Extras<'_>,
) -> Result<Compiled, Box<Diagnostic>> {
    let lowered = &weights.lowered;
    let mut env = Env::new(module);
    env.checks = lowered.checks;
    let mut program = Program {
        lowered,
        funcs: FxHashMap::default(),
        entries: FxHashMap::default(),
        kernels: FxHashMap::default(),
        tensors: FxHashMap::default(),
        ctors: FxHashMap::default(),
        closures: FxHashMap::default(),
        texts: FxHashMap::default(),
        profile: extras.profile,
    };
    declare(&mut env, &mut program);
    let table = objects(&mut env, &mut program, weights);
    let mut build = Build::new(env, table, extras.listing);
    for (id, f) in lowered.funcs.iter() {
        let sig = func::signature(f);
        let name = f.name.to_string();
        build.define(program.funcs[&id], sig, &name, |b, env| {
            func::emit(b, env, &program, f).map_err(|kernel::Unsupported(text)| {
                let text = format!("`@{}`: native code does not support {text}", f.name);
                Box::new(Diagnostic::error(codes::UNSUPPORTED, f.span, text))
            })
        })?;
        if f.captures.is_some() {
            build.closure_entry(&program, id)?;
        }
    }
    let mut entries = Vec::new();
    for entry in &lowered.entries {
        let id = build.c_entry(&program, entry.func, entry.name, extras.prefix)?;
        entries.push((entry.name, id));
    }
    // What calls kernels is larger than each of them: it is compiled while they are made.
    build.queue.begin(build.env.module);
    for (id, def) in lowered.kernels.iter() {
        let packed = weights.packed.get(&id).map_or(&[][..], |p| &p[..]);
        build.kernel(program.kernels[&id], id.0 as usize, def, packed)?;
    }
    build.flush()?;
    for (id, t) in lowered.data.iter() {
        build
            .sizes
            .push((format!("constant {} {:?}", id.0, t), bytes_of(t)));
    }
    Ok(Compiled {
        entries,
        sizes: build.sizes,
        listing: build.listing,
    })
}

/// Compiles kernels alone into `module`, each with the inputs that come packed: their functions, in order.
pub(crate) fn compile_kernels(
    module: &mut dyn Module,
    kernels: &[(KernelDef, Vec<Buf>)],
    checks: bool,
) -> Result<Vec<FuncId>, Box<Diagnostic>> {
    let mut env = Env::new(module);
    env.checks = checks;
    let mut build = Build::new(env, None, None);
    let sig = build.env.signature("ppp>i");
    let mut ids = Vec::with_capacity(kernels.len());
    for (number, (def, packed)) in kernels.iter().enumerate() {
        let id = local(&mut build.env, &format!("relax.kernel.{number}"), &sig);
        build.kernel(id, number, def, packed)?;
        ids.push(id);
    }
    build.flush()?;
    Ok(ids)
}

fn declare(env: &mut Env<'_>, program: &mut Program<'_>) {
    let lowered = program.lowered;
    for (id, f) in lowered.funcs.iter() {
        let sig = func::signature(f);
        program.funcs.insert(
            id,
            local(env, &format!("relax.fn.{}.{}", id.0, f.name), &sig),
        );
        if f.captures.is_some() {
            let sig = env.signature("pppip>i");
            program
                .entries
                .insert(id, local(env, &format!("relax.entry.{}", id.0), &sig));
        }
    }
    let sig = env.signature("ppp>i");
    for (id, _) in lowered.kernels.iter() {
        program
            .kernels
            .insert(id, local(env, &format!("relax.kernel.{}", id.0), &sig));
    }
}

fn local(env: &mut Env<'_>, name: &str, sig: &Signature) -> FuncId {
    let declared = env.module.declare_function(name, Linkage::Local, sig);
    declared.expect("names with numbers are fresh")
}

struct Build<'m> {
    env: Env<'m>,
    context: Context,
    builders: FunctionBuilderContext,
    /// The table of the tensors whose elements are mapped when an entry is first called.
    table: Option<DataId>,
    /// What waits to be compiled.
    queue: Queue,
    sizes: Sizes,
    wanted: Option<Listing>,
    listing: String,
}

impl<'m> Build<'m> {
    fn new(env: Env<'m>, table: Option<DataId>, wanted: Option<Listing>) -> Build<'m> {
        Build {
            env,
            context: Context::new(),
            builders: FunctionBuilderContext::new(),
            table,
            queue: Queue::new(wanted == Some(Listing::Asm)),
            sizes: Vec::new(),
            wanted,
            listing: String::new(),
        }
    }

    /// A kernel, some of whose inputs come packed.
    fn kernel(
        &mut self,
        id: FuncId,
        number: usize,
        def: &KernelDef,
        packed: &[Buf],
    ) -> Result<(), Box<Diagnostic>> {
        let sig = self.env.signature("ppp>i");
        let name = format!("kernel {number} ({})", def.label);
        self.define(id, sig, &name, |b, env| {
            kernel::emit(b, env, def, packed).map_err(|kernel::Unsupported(text)| {
                let text = format!("`{}`: native code does not support {text}", def.label);
                let span = def.program.span;
                Box::new(Diagnostic::error(codes::UNSUPPORTED, span, text))
            })
        })
    }

    fn define(
        &mut self,
        id: FuncId,
        sig: Signature,
        name: &str,
        emit: impl FnOnce(&mut FunctionBuilder<'_>, &mut Env<'_>) -> Result<(), Box<Diagnostic>>,
    ) -> Result<(), Box<Diagnostic>> {
        self.env.module.clear_context(&mut self.context);
        self.context.func.signature = sig;
        let mut b = FunctionBuilder::new(&mut self.context.func, &mut self.builders);
        // Half a function is nothing that Cranelift takes.
        emit(&mut b, &mut self.env)?;
        b.seal_all_blocks();
        b.finalize(self.env.module.target_config());
        self.finish(id, name)?;
        for (k, (id, function)) in std::mem::take(&mut self.env.parts).into_iter().enumerate() {
            let name = format!("{name}, shared loop {k}");
            self.env.module.clear_context(&mut self.context);
            self.context.func = function;
            self.finish(id, &name)?;
        }
        Ok(())
    }

    /// Hands the function in the context on, to be compiled with others.
    fn finish(&mut self, id: FuncId, name: &str) -> Result<(), Box<Diagnostic>> {
        let mut function = std::mem::replace(&mut self.context.func, Function::new());
        settle(&mut function);
        if self.wanted == Some(Listing::Clif) {
            let text = format!("; {name}\n{}\n", function.display());
            self.listing.push_str(&text);
        }
        if self.queue.push(id, name.to_owned(), function) {
            self.flush()?;
        }
        Ok(())
    }

    /// Compiles what waits.
    fn flush(&mut self) -> Result<(), Box<Diagnostic>> {
        let defined = self.queue.flush(self.env.module);
        let defined = defined.map_err(|(name, why)| {
            let text = format!("code generation failed for {name}: {why}");
            Box::new(Diagnostic::error(
                codes::UNSUPPORTED,
                relax_base::Span::NONE,
                text,
            ))
        })?;
        for d in defined {
            if let Some(code) = d.listing {
                self.listing.push_str(&format!("; {}\n{code}\n", d.name));
            }
            self.sizes.push((d.name, d.bytes));
        }
        Ok(())
    }

    /// The C entry of a closure: arguments owned.
    fn closure_entry(&mut self, program: &Program<'_>, id: FnId) -> Result<(), Box<Diagnostic>> {
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
            // The code gives up the function that runs, which stays the caller's.
            let retain = env.import(abi::rx_retain, b.func);
            b.ins().call(retain, &[given[1]]);
            finish_entry(b, env, program, id, &all, given[4]);
            Ok(())
        })
    }

    /// `int32_t relax_NAME(ctx, args, nargs, out)`: arguments borrowed, run on the context's stack.
    fn c_entry(
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

/// Holds the arguments of a closure against what it takes; one that is not that gives them up, as the code would have.
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
