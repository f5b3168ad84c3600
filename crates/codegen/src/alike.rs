//! Functions that are alike are compiled once.
//!
//! A network calls the same few kinds of kernels with other extents, scales and constants each
//! time, and the code emitted for them differs only in constants and in names of data. Two
//! functions that differ only in names get the same instructions, with the names exchanged in
//! relocations. Those without loops that also differ in constants become one function that reads
//! them from a table, and small thunks that pass it their own. In loops constants stay immediate: a
//! known extent is worth more there than the compile time.
//!
//! Invariant: the behaviour of each function is unchanged.

use cranelift_codegen::ir::{
    AbiParam, BlockArg, Endianness, ExternalName, Function, GlobalValueData, Inst, InstBuilder,
    InstructionData, MemFlagsData, Opcode, Signature, TrapCode, Type, UserExternalName, Value,
    types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataDescription, FuncId, Linkage, Module};
use rustc_hash::FxHashMap;

use crate::effort::runs_through;

/// The number of instructions from which on it pays to share a function that needs a table.
const WORTH: usize = 60;

/// A function that is to be compiled.
pub(crate) struct Given {
    pub id: FuncId,
    pub name: String,
    pub function: Function,
}

/// Code to be compiled, shared by one or several functions.
pub(crate) struct Job {
    /// The first of the functions.
    pub id: FuncId,
    pub function: Function,
}

/// A function of the module and the job whose code implements it.
pub(crate) struct Definition {
    pub id: FuncId,
    pub name: String,
    /// The number of the job.
    pub job: usize,
    /// The replacement of each name in the code; the job's own names where there is none.
    pub names: FxHashMap<(u32, u32), (u32, u32)>,
}

/// The operands of instructions other than constants, by number.
#[derive(PartialEq, Eq, Hash)]
enum Part {
    Signature(Signature),
    Flags(MemFlagsData),
    Trap(TrapCode),
}

/// A name that an instruction mentions.
struct Name {
    inst: Inst,
    name: UserExternalName,
    called: bool,
}

/// The structure of a function, in pieces.
struct Form {
    /// Everything but the constants and the names.
    outline: Vec<u32>,
    /// Constants, as bits.
    numbers: Vec<(Inst, u64)>,
    names: Vec<Name>,
}

#[derive(Default)]
struct Forms {
    parts: FxHashMap<Part, u32>,
}

/// Numbers for entities in the order of first occurrence.
struct Met(Vec<u32>, u32);

impl Met {
    fn new(things: usize) -> Met {
        Met(vec![u32::MAX; things], 0)
    }

    fn number(&mut self, thing: usize) -> u32 {
        let Some(at) = self.0.get_mut(thing) else {
            return u32::MAX;
        };
        if *at == u32::MAX {
            *at = self.1;
            self.1 += 1;
        }
        *at
    }
}

/// The state of recording a function's structure.
struct Reading<'a> {
    f: &'a Function,
    values: Met,
    blocks: Met,
    form: Form,
}

impl Forms {
    fn part(&mut self, part: Part) -> u32 {
        let next = self.parts.len() as u32;
        *self.parts.entry(part).or_insert(next)
    }

    /// Returns the structure of a function; `None` where an instruction has an operand of an
    /// unsupported kind.
    fn of(&mut self, f: &Function) -> Option<Form> {
        let mut r = Reading {
            f,
            values: Met::new(f.dfg.num_values()),
            blocks: Met::new(f.dfg.num_blocks()),
            form: Form {
                outline: vec![self.part(Part::Signature(f.signature.clone()))],
                numbers: Vec::new(),
                names: Vec::new(),
            },
        };
        for slot in f.sized_stack_slots.values() {
            if slot.key.is_some() {
                return None;
            }
            let words = [slot.kind as u32, slot.size, slot.align_shift.into()];
            r.form.outline.extend(words);
        }
        for block in f.layout.blocks() {
            let number = r.blocks.number(block.as_u32() as usize);
            let params = f.dfg.block_params(block);
            let cold = f.layout.is_cold(block).into();
            r.form
                .outline
                .extend([u32::MAX, number, params.len() as u32, cold]);
            params.iter().for_each(|&p| r.defined(p));
            for inst in f.layout.block_insts(block) {
                self.inst(&mut r, inst)?;
            }
        }
        Some(r.form)
    }

    fn inst(&mut self, r: &mut Reading<'_>, inst: Inst) -> Option<()> {
        use InstructionData as I;
        let f = r.f;
        let data = &f.dfg.insts[inst];
        let args = f.dfg.inst_args(inst);
        r.form
            .outline
            .extend([data.opcode() as u32, args.len() as u32]);
        args.iter().for_each(|&v| r.used(v));
        match *data {
            I::NullAry { .. } | I::Unary { .. } | I::Binary { .. } | I::Ternary { .. } => {}
            I::MultiAry { .. } => {}
            I::BinaryImm8 { imm, .. } | I::TernaryImm8 { imm, .. } => {
                r.form.outline.push(imm.into());
            }
            I::IntCompare { cond, .. } => r.form.outline.push(cond as u32),
            I::FloatCompare { cond, .. } => r.form.outline.push(cond as u32),
            I::Load { flags, offset, .. } | I::Store { flags, offset, .. } => {
                let flags = self.part(Part::Flags(f.dfg.mem_flags[flags]));
                r.form.outline.extend([flags, i32::from(offset) as u32]);
            }
            I::StackAddr {
                stack_slot, offset, ..
            } => {
                let words = [stack_slot.as_u32(), i32::from(offset) as u32];
                r.form.outline.extend(words);
            }
            I::Jump { destination, .. } => r.goes(&destination)?,
            I::Brif { blocks, .. } => blocks.iter().try_for_each(|to| r.goes(to))?,
            I::Trap { code, .. } | I::CondTrap { code, .. } => {
                let code = self.part(Part::Trap(code));
                r.form.outline.push(code);
            }
            I::Call { func_ref, .. } => self.function(r, inst, func_ref, true)?,
            I::FuncAddr { func_ref, .. } => self.function(r, inst, func_ref, false)?,
            I::CallIndirect { sig_ref, .. } => {
                let signature = self.part(Part::Signature(f.dfg.signatures[sig_ref].clone()));
                r.form.outline.push(signature);
            }
            I::UnaryImm { imm, .. } => r.form.numbers.push((inst, imm.bits() as u64)),
            I::UnaryIeee32 { imm, .. } => r.form.numbers.push((inst, imm.bits().into())),
            I::UnaryIeee64 { imm, .. } => r.form.numbers.push((inst, imm.bits())),
            I::UnaryGlobalValue { global_value, .. } => {
                let GlobalValueData::Symbol {
                    name: ExternalName::User(name),
                    offset,
                    colocated,
                    tls: false,
                } = f.global_values[global_value]
                else {
                    return None;
                };
                let at = offset.bits() as u64;
                let words = [at as u32, (at >> 32) as u32, colocated.into()];
                r.form.outline.extend(words);
                r.name(inst, f.params.user_named_funcs()[name].clone(), false);
            }
            _ => return None,
        }
        let results = f.dfg.inst_results(inst);
        r.form.outline.push(results.len() as u32);
        results.iter().for_each(|&v| r.defined(v));
        Some(())
    }

    fn function(
        &mut self,
        r: &mut Reading<'_>,
        inst: Inst,
        function: cranelift_codegen::ir::FuncRef,
        called: bool,
    ) -> Option<()> {
        let callee = &r.f.dfg.ext_funcs[function];
        let ExternalName::User(name) = callee.name else {
            return None;
        };
        let signature = r.f.dfg.signatures[callee.signature].clone();
        let words = [
            self.part(Part::Signature(signature)),
            callee.colocated.into(),
        ];
        r.form.outline.extend(words);
        r.name(inst, r.f.params.user_named_funcs()[name].clone(), called);
        Some(())
    }
}

impl Reading<'_> {
    fn used(&mut self, v: Value) {
        let v = self.f.dfg.resolve_aliases(v);
        let number = self.values.number(v.as_u32() as usize);
        self.form.outline.push(number);
    }

    fn defined(&mut self, v: Value) {
        self.used(v);
        let ty: Type = self.f.dfg.value_type(v);
        self.form.outline.push(ty.index() as u32);
    }

    fn goes(&mut self, to: &cranelift_codegen::ir::BlockCall) -> Option<()> {
        let pool = &self.f.dfg.value_lists;
        let block = self.blocks.number(to.block(pool).as_u32() as usize);
        self.form.outline.extend([block, to.len(pool) as u32]);
        for arg in to.args(pool) {
            let BlockArg::Value(v) = arg else {
                return None;
            };
            self.used(v);
        }
        Some(())
    }

    fn name(&mut self, inst: Inst, name: UserExternalName, called: bool) {
        self.form.names.push(Name { inst, name, called });
    }
}

fn pair(name: &UserExternalName) -> (u32, u32) {
    (name.namespace, name.index)
}

/// Groups items by equal keys, in the order of each group's first.
fn grouped<K: std::hash::Hash + Eq>(items: impl Iterator<Item = (K, usize)>) -> Vec<Vec<usize>> {
    let mut known: FxHashMap<K, usize> = FxHashMap::default();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (key, item) in items {
        let at = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Returns the functions to be compiled, and which of the given ones is implemented by which.
pub(crate) fn share(module: &mut dyn Module, mut given: Vec<Given>) -> (Vec<Job>, Vec<Definition>) {
    let mut forms = Forms::default();
    // A number's low bytes come first in a table.
    if module.isa().endianness() == Endianness::Little {
        given = by_tables(module, &mut forms, given);
    }
    let (mut jobs, mut definitions) = (Vec::new(), Vec::with_capacity(given.len()));
    type Key = (Vec<u32>, Vec<u64>, Vec<u32>);
    let mut known: FxHashMap<Key, (usize, Vec<(u32, u32)>)> = FxHashMap::default();
    for Given { id, name, function } in given {
        let mut names = FxHashMap::default();
        let Some(form) = forms.of(&function) else {
            definitions.push(Definition {
                id,
                name,
                job: jobs.len(),
                names,
            });
            jobs.push(Job { id, function });
            continue;
        };
        // The equality of names is part of a function's structure.
        let mut met: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut own: Vec<(u32, u32)> = Vec::new();
        let pattern = (form.names.iter())
            .map(|n| {
                *met.entry(pair(&n.name)).or_insert_with(|| {
                    own.push(pair(&n.name));
                    own.len() as u32
                })
            })
            .collect();
        let numbers = form.numbers.iter().map(|n| n.1).collect();
        let job = match known.entry((form.outline, numbers, pattern)) {
            std::collections::hash_map::Entry::Occupied(e) => {
                let (job, theirs) = e.get();
                names = theirs.iter().copied().zip(own).collect();
                *job
            }
            std::collections::hash_map::Entry::Vacant(e) => {
                e.insert((jobs.len(), own));
                jobs.push(Job { id, function });
                jobs.len() - 1
            }
        };
        definitions.push(Definition {
            id,
            name,
            job,
            names,
        });
    }
    (jobs, definitions)
}

/// Merges functions without loops that differ in constants into one that reads them from a table.
fn by_tables(module: &mut dyn Module, forms: &mut Forms, given: Vec<Given>) -> Vec<Given> {
    let plain = |g: &Given| {
        let conv = g.function.signature.call_conv;
        conv != cranelift_codegen::isa::CallConv::Tail
            && g.function.dfg.num_insts() >= WORTH
            && runs_through(&g.function)
    };
    let own: Vec<Option<Form>> = (given.iter())
        .map(|g| plain(g).then(|| forms.of(&g.function)).flatten())
        .collect();
    let keys = own.iter().enumerate().filter_map(|(k, form)| {
        let form = form.as_ref()?;
        let called: Vec<_> = (form.names.iter().filter(|n| n.called))
            .map(|n| pair(&n.name))
            .collect();
        Some(((&form.outline, called), k))
    });
    let mut first: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for group in grouped(keys) {
        let members = || group.iter().filter_map(|&k| own[k].as_ref());
        let mut numbers = members().map(|f| f.numbers.iter().map(|n| n.1));
        let Some(one) = numbers.next() else { continue };
        if numbers.any(|other| !other.eq(one.clone())) {
            first.insert(group[0], group);
        }
    }
    let mut given: Vec<Option<Given>> = given.into_iter().map(Some).collect();
    let mut out: Vec<Option<Given>> = Vec::with_capacity(given.len());
    let mut shared: FxHashMap<usize, Given> = FxHashMap::default();
    for k in 0..given.len() {
        if let Some(group) = first.get(&k) {
            let all: Vec<&Form> = group.iter().filter_map(|&k| own[k].as_ref()).collect();
            let taken: Vec<Given> = group.iter().filter_map(|&k| given[k].take()).collect();
            let made = one_for(module, taken, &all);
            let mut made = made.into_iter();
            out.push(made.next());
            shared.extend(group.iter().copied().zip(made));
        }
        out.push(given[k].take().or_else(|| shared.remove(&k)));
    }
    out.into_iter().flatten().collect()
}

/// Creates one function for a group, and then the thunk of each member.
fn one_for(module: &mut dyn Module, group: Vec<Given>, forms: &[&Form]) -> Vec<Given> {
    let differ = |k: usize| {
        forms
            .iter()
            .any(|f| f.numbers[k].1 != forms[0].numbers[k].1)
    };
    let numbers: Vec<usize> = (0..forms[0].numbers.len()).filter(|&k| differ(k)).collect();
    let differ = |k: usize| {
        forms
            .iter()
            .any(|f| f.names[k].name != forms[0].names[k].name)
    };
    let names: Vec<usize> = (0..forms[0].names.len()).filter(|&k| differ(k)).collect();
    let mut f = group[0].function.clone();
    f.signature.params.push(AbiParam::new(types::I64));
    let table = match f.layout.entry_block() {
        Some(entry) => f.dfg.append_block_param(entry, types::I64),
        None => return group,
    };
    let flags = MemFlagsData::trusted().with_readonly();
    let flags = f.dfg.mem_flags.insert_unchecked(flags);
    let read = numbers.iter().map(|&k| forms[0].numbers[k].0);
    let read = read.chain(names.iter().map(|&k| forms[0].names[k].inst));
    for (word, inst) in read.enumerate() {
        f.dfg.insts[inst] = InstructionData::Load {
            opcode: Opcode::Load,
            arg: table,
            flags,
            offset: (8 * word as i32).into(),
        };
    }
    let name = format!("relax.alike.{}", group[0].id.as_u32());
    let declared = module.declare_function(&name, Linkage::Local, &f.signature);
    let id = declared.expect("each function is the first of one group at most");
    let mut out = vec![Given {
        id,
        name: format!("{}, and those like it", group[0].name),
        function: f,
    }];
    for (member, form) in group.into_iter().zip(forms) {
        let mut data = DataDescription::new();
        let own = numbers.iter().map(|&k| form.numbers[k].1);
        let mut bytes: Vec<u8> = own.flat_map(u64::to_le_bytes).collect();
        let begin = bytes.len();
        bytes.resize(begin + 8 * names.len(), 0);
        data.define(bytes.into());
        data.set_align(8);
        for (word, &k) in names.iter().enumerate() {
            let at = (begin + 8 * word) as u32;
            let (namespace, index) = pair(&form.names[k].name);
            if namespace == 0 {
                let f = module.declare_func_in_data(FuncId::from_u32(index), &mut data);
                data.write_function_addr(at, f);
            } else {
                let of = cranelift_module::DataId::from_u32(index);
                let of = module.declare_data_in_data(of, &mut data);
                data.write_data_addr(at, of, 0);
            }
        }
        let name = format!("relax.own.{}", member.id.as_u32());
        let table = module.declare_data(&name, Linkage::Local, false, false);
        let table = table.expect("each function has one table at most");
        module.define_data(table, &data).expect("defined once");
        out.push(Given {
            id: member.id,
            name: member.name,
            function: handing(module, &member.function.signature, id, table),
        });
    }
    out
}

/// Creates a function that passes its arguments and a table to another one.
fn handing(
    module: &mut dyn Module,
    signature: &Signature,
    to: FuncId,
    table: cranelift_module::DataId,
) -> Function {
    let mut f = Function::new();
    f.signature = signature.clone();
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut f, &mut context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let mut args = b.block_params(entry).to_vec();
    let table = module.declare_data_in_func(table, b.func);
    args.push(b.ins().symbol_value(types::I64, table));
    let to = module.declare_func_in_func(to, b.func);
    let call = b.ins().call(to, &args);
    let results = b.inst_results(call).to_vec();
    b.ins().return_(&results);
    b.seal_all_blocks();
    b.finalize(module.target_config());
    f
}
