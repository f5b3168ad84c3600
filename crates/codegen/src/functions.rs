//! The queue of functions to be compiled, in batches and in parallel.
//!
//! Cranelift takes most of the time from text to first result, and compiles each function
//! independently. Results are added to the module in the order in which the functions were given,
//! so that the same program gives the same bytes for any number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_module::{FuncId, Module, ModuleReloc, ModuleRelocTarget};

use crate::alike::{self, Definition, Given, Job};
use crate::demote::demote;
use crate::effort::{self, Effort};

/// Instructions for which one more thread pays: starting it costs some 50 µs, compiling them 10 ms.
const SHARE: usize = 2_000;

/// The maximum number of queued instructions, to limit memory.
const FULL: usize = 200_000;

/// Queued code.
struct Waiting {
    id: FuncId,
    instructions: usize,
    effort: Effort,
    /// The function, until a thread compiles it.
    work: Mutex<Work>,
}

enum Work {
    Function(Box<Function>),
    Done(Result<Made, String>),
}

/// The result of compiling a function.
struct Made {
    bytes: Vec<u8>,
    alignment: u64,
    relocs: Vec<ModuleReloc>,
    listing: Option<String>,
}

/// A function that has been added to the module.
pub(crate) struct Defined {
    pub name: String,
    pub bytes: usize,
    /// Its instructions as text, if requested.
    pub listing: Option<String>,
}

/// Functions compiled in parallel by whichever threads are free.
struct Batch {
    waiting: Vec<Waiting>,
    /// Largest first, so that the last to start finishes soon.
    order: Vec<usize>,
    next: AtomicUsize,
    targets: Targets,
    /// Whether to return the instructions as text.
    listings: bool,
}

/// Cranelift's settings for each effort.
type Targets = Vec<(Effort, OwnedTargetIsa)>;

impl Batch {
    /// Compiles until every queued function has been started.
    fn work(&self) {
        let mut context = Context::new();
        while let Some(&k) = self.order.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let w = &self.waiting[k];
            let Some((_, isa)) = self.targets.iter().find(|t| t.0 == w.effort) else {
                continue;
            };
            let mut work = w.work.lock().unwrap_or_else(PoisonError::into_inner);
            if let Work::Function(f) = &mut *work {
                context.clear();
                context.set_disasm(self.listings);
                std::mem::swap(&mut context.func, &mut **f);
                if w.effort == Effort::Least {
                    demote(&mut context.func);
                }
                *work = Work::Done(compile(&mut context, &**isa, w.id));
            }
        }
    }

    fn instructions(&self) -> usize {
        self.waiting.iter().map(|w| w.instructions).sum()
    }
}

/// A batch compiled ahead of the rest, possibly in the background.
struct Front {
    batch: Arc<Batch>,
    definitions: Vec<Definition>,
    thread: Option<JoinHandle<()>>,
}

/// The functions to be compiled.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Vec<Given>,
    instructions: usize,
    /// Whether to return the instructions as text.
    listings: bool,
    /// Whether the program is one that [`effort::is_network`] recognises.
    network: bool,
    /// The targets created so far.
    targets: Targets,
    front: Option<Front>,
}

/// Returns how many helper threads a number of instructions is worth.
fn helpers(instructions: usize) -> usize {
    match instructions / SHARE {
        0 => 0,
        shares => shares.min(relax_base::helpers()),
    }
}

impl Queue {
    /// An empty queue. `listings`: return the instructions as text. `network`: see
    /// [`effort::is_network`].
    pub fn new(listings: bool, network: bool) -> Queue {
        Queue {
            listings,
            network,
            ..Queue::default()
        }
    }

    /// Queues a function. Returns whether the queue is full enough to be compiled now.
    pub fn push(&mut self, id: FuncId, name: String, function: Function) -> bool {
        self.instructions += function.dfg.num_insts();
        self.waiting.push(Given { id, name, function });
        self.instructions > FULL
    }

    /// Takes the queued functions out: the code to compile, and the definitions that it implements.
    fn batch(&mut self, module: &mut dyn Module) -> (Batch, Vec<Definition>) {
        self.instructions = 0;
        let (jobs, definitions) = alike::share(module, std::mem::take(&mut self.waiting));
        let waiting: Vec<Waiting> = (jobs.into_iter())
            .map(|Job { id, function }| Waiting {
                id,
                instructions: function.dfg.num_insts(),
                effort: effort::of(&function, self.network),
                work: Mutex::new(Work::Function(Box::new(function))),
            })
            .collect();
        for w in &waiting {
            if !self.targets.iter().any(|t| t.0 == w.effort) {
                let target = effort::target(module.isa(), w.effort);
                let target = target.or_else(|| effort::target(module.isa(), Effort::Full));
                self.targets.extend(target.map(|t| (w.effort, t)));
            }
        }
        let mut order: Vec<usize> = (0..waiting.len()).collect();
        order.sort_by_key(|&k| std::cmp::Reverse(waiting[k].instructions));
        let batch = Batch {
            waiting,
            order,
            next: AtomicUsize::new(0),
            targets: self.targets.clone(),
            listings: self.listings,
        };
        (batch, definitions)
    }

    /// Starts compiling the queued functions in the background, while other functions are
    /// generated. They are added to the module after those.
    pub fn begin(&mut self, module: &mut dyn Module) {
        let (batch, definitions) = self.batch(module);
        let batch = Arc::new(batch);
        let own = Arc::clone(&batch);
        // Where no thread can be started, it is compiled with the others.
        let thread = (helpers(batch.instructions()) > 0)
            .then(|| std::thread::Builder::new().spawn(move || own.work()).ok());
        self.front = Some(Front {
            batch,
            definitions,
            thread: thread.flatten(),
        });
    }

    /// Compiles the queued functions and defines them in the module, in order.
    ///
    /// # Errors
    /// The name of a function that Cranelift or the module rejects, and the reason.
    pub fn flush(&mut self, module: &mut dyn Module) -> Result<Vec<Defined>, (String, String)> {
        let (batch, definitions) = self.batch(module);
        let front = self.front.take();
        let work = || {
            if let Some(front) = &front {
                front.batch.work();
            }
            batch.work();
        };
        relax_base::with_helpers(helpers(batch.instructions()), work);
        let mut defined = Vec::with_capacity(definitions.len());
        define(module, &batch, definitions, &mut defined)?;
        if let Some(front) = front {
            if let Some(Err(panic)) = front.thread.map(JoinHandle::join) {
                std::panic::resume_unwind(panic);
            }
            define(module, &front.batch, front.definitions, &mut defined)?;
        }
        Ok(defined)
    }
}

/// Adds compiled functions to the module.
fn define(
    module: &mut dyn Module,
    batch: &Batch,
    definitions: Vec<Definition>,
    defined: &mut Vec<Defined>,
) -> Result<(), (String, String)> {
    for d in definitions {
        let w = &batch.waiting[d.job];
        let work = w.work.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match &*work {
            Work::Done(made) => made.as_ref().map_err(Clone::clone),
            Work::Function(_) => Err("it was not compiled".to_owned()),
        };
        let fine = made.and_then(|made| {
            let relocs = made.relocs.iter().map(|r| renamed(r, w.id, &d));
            let relocs: Vec<ModuleReloc> = relocs.collect();
            module
                .define_function_bytes(d.id, made.alignment, &made.bytes, &relocs)
                .map_err(|e| e.to_string())?;
            Ok(made)
        });
        match fine {
            Ok(made) => defined.push(Defined {
                bytes: made.bytes.len(),
                listing: made.listing.clone(),
                name: d.name,
            }),
            Err(why) => return Err((d.name, why)),
        }
    }
    Ok(())
}

/// Returns a relocation for a function that shares the code of another one.
fn renamed(reloc: &ModuleReloc, first: FuncId, d: &Definition) -> ModuleReloc {
    let mut reloc = reloc.clone();
    reloc.name = match reloc.name {
        ModuleRelocTarget::User { namespace, index } => {
            let own = d.names.get(&(namespace, index));
            let (namespace, index) = own.copied().unwrap_or((namespace, index));
            ModuleRelocTarget::User { namespace, index }
        }
        ModuleRelocTarget::FunctionOffset(id, offset) if id == first => {
            ModuleRelocTarget::FunctionOffset(d.id, offset)
        }
        other => other,
    };
    reloc
}

/// Compiles the function in the context.
fn compile(context: &mut Context, isa: &dyn TargetIsa, id: FuncId) -> Result<Made, String> {
    let compiled = context.compile(isa, &mut ControlPlane::default());
    let (bytes, alignment, relocs) = match compiled {
        Ok(code) => (
            code.code_buffer().to_vec(),
            u64::from(code.buffer.alignment),
            code.buffer.relocs().to_vec(),
        ),
        Err(e) => return Err(e.inner.to_string()),
    };
    let relocs = (relocs.iter())
        .map(|r| ModuleReloc::from_mach_reloc(r, &context.func, id))
        .collect();
    let code = context.compiled_code();
    Ok(Made {
        bytes,
        alignment,
        relocs,
        listing: code.and_then(|c| c.vcode.clone()),
    })
}
