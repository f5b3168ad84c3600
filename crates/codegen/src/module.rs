//! Compiles a whole lowered program into one object file or into memory.

mod entries;

use cranelift_codegen::Context;
use cranelift_codegen::ir::{Function, Signature};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataId, FuncId, Linkage, Module};
use relax_base::{Diagnostic, Symbol};
use relax_loops::Buf;
use relax_lower::codes;
use relax_lower::lir::KernelDef;
use rustc_hash::FxHashMap;

use crate::data::{bytes_of, objects};
use crate::effort::is_network;
use crate::env::Env;
use crate::func::{self, Program};
use crate::functions::Queue;
use crate::kernel;
use crate::prepack::Prepacked;
use crate::settle::settle;

/// The default prefix of entries' C symbols.
const PREFIX: &str = "relax";

/// The C symbol of an entry: `relax_`, or the prefix and `_`, and the global's name, other
/// characters as `_`.
pub fn entry_symbol(prefix: Option<&str>, name: Symbol) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.as_str().chars().map(clean).collect();
    format!("{}_{name}", prefix.unwrap_or(PREFIX))
}

/// Bytes of code and data by name, for size reports.
pub type Sizes = Vec<(String, usize)>;

/// The result of compilation: the entries' functions, the sizes of all, and the code as text if
/// requested.
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

/// Options of compilation, and what to return besides the code.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Extras<'a> {
    /// The prefix of entries' C symbols, if not the default.
    pub prefix: Option<&'a str>,
    /// Whether the code measures its kernels.
    pub profile: bool,
    /// Whether to return the code as text.
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
    let mut build = Build::new(env, table, extras.listing, is_network(lowered));
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
    // The functions that call kernels are larger than each kernel: they are compiled while kernels
    // are generated.
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

/// Compiles only kernels into `module`, each with its packed inputs; returns their functions, in
/// order.
pub(crate) fn compile_kernels(
    module: &mut dyn Module,
    kernels: &[(KernelDef, Vec<Buf>)],
    checks: bool,
) -> Result<Vec<FuncId>, Box<Diagnostic>> {
    let mut env = Env::new(module);
    env.checks = checks;
    let mut build = Build::new(env, None, None, false);
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
    /// The functions still to be compiled.
    queue: Queue,
    sizes: Sizes,
    wanted: Option<Listing>,
    listing: String,
}

impl<'m> Build<'m> {
    fn new(
        env: Env<'m>,
        table: Option<DataId>,
        wanted: Option<Listing>,
        network: bool,
    ) -> Build<'m> {
        Build {
            env,
            context: Context::new(),
            builders: FunctionBuilderContext::new(),
            table,
            queue: Queue::new(wanted == Some(Listing::Asm), network),
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
        // Cranelift does not accept an incomplete function.
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

    /// Queues the function in the context for compilation with others.
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

    /// Compiles the queued functions.
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
}
