//! Constant weights in the form in which kernels read them.
//!
//! A matrix product or convolution whose weight is a constant packs it on every call. Here it is
//! packed once, while the program is compiled: the call gets the packed constant, and a kernel of
//! its own that expects it. The packed form is the same on every processor (`docs/kernels.md`).

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::MmapMut;
use relax_loops::fused_bytes::FusedBytes;
use relax_loops::select::{Weights, Work, select};
use relax_loops::{Buf, ExKind, Hint, Program, Stage};
use relax_lower::lir::{DataId, Hold, Inst, KernelId, Lowered, Reg};
use relax_runtime::kernels::conv::{self, RxConv2dSizes};
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::kernel::windows::{Conv, layout_of};
use crate::packed_forms::{Form, fill, pack, packed_size};

/// A program with packed weights.
pub(crate) struct Prepacked {
    pub lowered: Lowered,
    /// The inputs of kernels that come packed.
    pub packed: FxHashMap<KernelId, Vec<Buf>>,
    /// Constants whose elements are not part of the module.
    pub outside: Vec<DataId>,
    /// The file for the elements of `outside`, where compiled code maps them itself.
    pub file: Option<WeightsFile>,
}

/// A file of weights, and the position of each constant's elements.
pub struct WeightsFile {
    pub(crate) name: String,
    /// The constants in the order of the file, with the position of each.
    pub(crate) parts: Vec<(DataId, Tensor, u64)>,
    /// The bytes of the file.
    pub(crate) len: u64,
    /// Its fingerprint.
    pub(crate) hash: u64,
}

/// The alignment of each constant's elements in a file.
const ALIGNMENT: usize = 64;

impl WeightsFile {
    fn new(name: &str, constants: impl Iterator<Item = (DataId, Tensor)>) -> WeightsFile {
        let (mut parts, mut len) = (Vec::new(), 0);
        for (id, t) in constants {
            let at = usize::next_multiple_of(len, ALIGNMENT);
            len = at + t.bytes().len();
            parts.push((id, t, at as u64));
        }
        let mut file = WeightsFile {
            name: name.to_owned(),
            parts,
            len: len as u64,
            hash: 0,
        };
        let mut hash = relax_runtime::weights::Hash::default();
        file.each(|bytes| hash.add(bytes));
        file.hash = hash.finish();
        file
    }

    /// The file's bytes, piece by piece.
    fn each(&self, mut piece: impl FnMut(&[u8])) {
        let mut len = 0;
        for (_, t, at) in &self.parts {
            piece(&[0; ALIGNMENT][..(*at - len) as usize]);
            piece(t.bytes());
            len = *at + t.bytes().len() as u64;
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// `out` cannot be written to.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut result = Ok(());
        self.each(|bytes| {
            if result.is_ok() {
                result = out.write_all(bytes);
            }
        });
        result
    }
}

/// Constants from this many bytes on are not copied into the module.
pub(crate) const LARGE: usize = 4096;

impl Prepacked {
    /// The constants that are too large to copy.
    pub fn large(&self) -> Vec<DataId> {
        let all = self.lowered.data.iter();
        all.filter(|(_, t)| t.bytes().len() >= LARGE)
            .map(|(id, _)| id)
            .collect()
    }

    /// Moves the elements of large constants into a file.
    pub fn move_to_file(&mut self, name: &str) {
        self.outside = self.large();
        let constants = self.outside.iter();
        let constants = constants.map(|&id| (id, self.lowered.data[id].clone()));
        self.file = Some(WeightsFile::new(name, constants));
    }
}

/// An input that a kernel reads packed.
#[derive(Clone, Copy)]
pub(crate) struct Weight {
    /// Which one.
    pub input: usize,
    pub form: Form,
    /// The input that is its zero point.
    pub zero: Option<usize>,
}

/// Packs all constant weights of a program, and determines which kernels overwrite an argument.
/// `done` is called with every packed constant, once its own elements are no longer read.
pub(crate) fn prepack(lowered: &Lowered, done: &(dyn Fn(&Tensor) + Sync)) -> Prepacked {
    let (out, packing) = plan(lowered);
    let helpers = match packing.large() {
        true => relax_base::helpers(),
        false => 0,
    };
    relax_base::with_helpers(helpers, || packing.work(done));
    out
}

/// Returns a program with uninitialised memory for packed weights, and the packing to be done.
/// Until that is finished, constants of [`LARGE`] bytes or more must not be read.
pub(crate) fn plan(lowered: &Lowered) -> (Prepacked, Packing) {
    let mut out = Prepacked {
        lowered: lowered.clone(),
        packed: FxHashMap::default(),
        outside: Vec::new(),
        file: None,
    };
    let mut wanted: Vec<(DataId, DataId, Form, usize)> = Vec::new();
    let mut kernels: FxHashMap<(KernelId, Vec<usize>), KernelId> = FxHashMap::default();
    let mut data: FxHashMap<(DataId, Form), DataId> = FxHashMap::default();
    let mut once: FxHashMap<KernelId, bool> = FxHashMap::default();
    let forms: FxHashMap<KernelId, Vec<Weight>> = (lowered.kernels.iter())
        .map(|(id, def)| (id, weights(&def.program)))
        .filter(|(_, forms)| !forms.is_empty())
        .collect();
    for f in lowered.funcs.ids() {
        let constants: FxHashMap<Reg, DataId> = (lowered.funcs[f].blocks.values())
            .flat_map(|b| &b.insts)
            .filter_map(|inst| match inst {
                Inst::Const { dst, data } => Some((*dst, *data)),
                _ => None,
            })
            .collect();
        let blocks: Vec<_> = lowered.funcs[f].blocks.ids().collect();
        for block in blocks {
            let insts = std::mem::take(&mut out.lowered.funcs[f].blocks[block].insts);
            let mut new = Vec::with_capacity(insts.len());
            for mut inst in insts {
                if let Inst::Kernel { kernel, given, .. } = &mut inst
                    && !*once
                        .entry(*kernel)
                        .or_insert_with(|| writes_once(&lowered.kernels[*kernel].program))
                {
                    (given.iter_mut().flatten()).for_each(|out| out.reuse = None);
                }
                if let Inst::Kernel { kernel, args, .. } = &mut inst
                    && let Some(forms) = forms.get(kernel)
                {
                    let taken: Vec<(usize, Form, DataId)> = forms
                        .iter()
                        .filter_map(|&Weight { input, form, zero }| {
                            let constant = |i: usize| constants.get(&args[i]).copied();
                            let id = constant(input)?;
                            let form = match zero {
                                Some(zero) => {
                                    let zero = &lowered.data[constant(zero)?];
                                    form.with_zero(&lowered.data[id], zero)?
                                }
                                None => form,
                            };
                            let packed = match data.get(&(id, form)) {
                                Some(&packed) => packed,
                                None => {
                                    let size = packed_size(&lowered.data[id], form)?;
                                    let later = Tensor::zeros(DType::F32, &[0]);
                                    let packed = out.lowered.data.push(later);
                                    wanted.push((packed, id, form, size));
                                    data.insert((id, form), packed);
                                    packed
                                }
                            };
                            Some((input, form, packed))
                        })
                        .collect();
                    let which: Vec<usize> = taken.iter().map(|t| t.0).collect();
                    for &(i, _, packed) in &taken {
                        let dst = out.lowered.funcs[f].reg(Hold::Value);
                        // Constants are immortal: references to the new register are not counted.
                        new.push(Inst::Const { dst, data: packed });
                        args[i] = dst;
                    }
                    if !which.is_empty() {
                        let own = *kernels.entry((*kernel, which.clone())).or_insert_with(|| {
                            let def = lowered.kernels[*kernel].clone();
                            let bufs = which.iter().map(|&i| def.program.inputs[i]).collect();
                            let id = out.lowered.kernels.push(def);
                            out.packed.insert(id, bufs);
                            id
                        });
                        *kernel = own;
                    }
                }
                new.push(inst);
            }
            out.lowered.funcs[f].blocks[block].insts = new;
        }
    }
    let packing = room(&mut out.lowered, lowered, wanted);
    if !data.is_empty() {
        let kernels = out.lowered.remove_dead_kernels();
        let packed = std::mem::take(&mut out.packed);
        let packed = packed
            .into_iter()
            .filter_map(|(id, bufs)| Some((*kernels.get(&id)?, bufs)));
        out.packed = packed.collect();
    }
    (out, packing)
}

/// Memory for packed weights, on large pages as far as available.
struct Room(MmapMut);

impl AsRef<[u8]> for Room {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Weights to be packed by whichever threads are free.
#[derive(Default)]
pub(crate) struct Packing {
    tasks: Vec<Task>,
    next: AtomicUsize,
    bytes: usize,
    /// Keeps the memory.
    _room: Option<Arc<Room>>,
}

struct Task {
    weight: Tensor,
    form: Form,
    to: *mut f32,
}

// SAFETY: who takes a task, by its number, has it and the memory that it writes to alone.
unsafe impl Sync for Packing {}

impl Packing {
    /// Returns whether packing takes longer than starting a thread.
    pub fn large(&self) -> bool {
        self.bytes > 1 << 18
    }

    /// Packs until every task has been started.
    pub fn work(&self, done: &(dyn Fn(&Tensor) + Sync)) {
        while let Some(task) = self.tasks.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            // SAFETY: the plan made as much room as the form takes.
            unsafe { fill(&task.weight, task.form, task.to) };
            done(&task.weight);
        }
    }
}

/// Allocates memory for packed weights; small ones are packed at once.
fn room(
    out: &mut Lowered,
    lowered: &Lowered,
    wanted: Vec<(DataId, DataId, Form, usize)>,
) -> Packing {
    let bytes = |size: usize| (4 * size).next_multiple_of(ALIGNMENT);
    let (large, small): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|w| 4 * w.3 >= LARGE);
    let total: usize = large.iter().map(|w| bytes(w.3)).sum();
    let map = MmapMut::map_anon(total).ok().filter(|_| total > 0);
    let at_once = match &map {
        Some(_) => small,
        None => [large.clone(), small].concat(),
    };
    for (packed, id, form, _) in at_once {
        if let Some(t) = pack(&lowered.data[id], form) {
            out.data[packed] = t;
        }
    }
    let Some(mut map) = map else {
        return Packing::default();
    };
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    let begin = map.as_mut_ptr();
    let room = Arc::new(Room(map));
    let (mut at, mut tasks) = (0, Vec::with_capacity(large.len()));
    for (packed, id, form, size) in large {
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::clone(&room) as _;
        if let Some(t) = Tensor::from_owner(DType::F32, &[size as i64], owner, at) {
            out.data[packed] = t;
            tasks.push(Task {
                weight: lowered.data[id].clone(),
                form,
                // SAFETY: the room is large enough for all of them.
                to: unsafe { begin.add(at) }.cast(),
            });
        }
        at += bytes(size);
    }
    Packing {
        tasks,
        next: AtomicUsize::new(0),
        bytes: total,
        _room: Some(room),
    }
}

/// Returns the number of the input that a buffer is, if one stage alone reads it.
fn read_once(program: &Program, buf: Buf) -> Option<usize> {
    let readers = |s: &&Stage| relax_loops::reads_buffer(s, buf);
    let once = program.stages.iter().filter(readers).count() == 1;
    let input = program.inputs.iter().position(|&b| b == buf)?;
    (once && !program.outputs.contains(&buf)).then_some(input)
}

/// The inputs that a program's kernels read packed: those without other readers.
pub(crate) fn weights(program: &Program) -> Vec<Weight> {
    let chosen = select(Cow::Borrowed(program), Weights::Any);
    let found = (chosen.steps.iter()).filter_map(|step| match &step.work {
        Work::QuantizedProduct(f) => of_bytes(program, f),
        Work::Hinted(h) => of_floats(program, h.sums, &h.hint),
        Work::PooledConvolution(p, _) => match &chosen.program.stages[p.conv] {
            Stage::Compute(c) => of_floats(program, c.out, program.hint(c.out)?),
            Stage::Nest(_) => None,
        },
        _ => None,
    });
    found.collect()
}

/// The weight of a product or a convolution of floats. Integer kernels read weights unpacked.
fn of_floats(program: &Program, sums: Buf, hint: &Hint) -> Option<Weight> {
    if program.bufs.get(sums)?.dtype != DType::F32 {
        return None;
    }
    let (buf, form) = match hint {
        Hint::Gemm { b, transpose_b, .. } => {
            let s = constant(program, *b)?;
            let form = if *transpose_b {
                [s[1], s[0], 1, s[1]]
            } else {
                [s[0], s[1], s[1], 1]
            };
            (*b, Form::Columns(form))
        }
        // The weight is the left operand of a product: all other extents by input channels.
        Hint::Conv2dTranspose {
            weight, groups: 1, ..
        } => {
            let s = constant(program, *weight)?;
            let rows = s[1..].iter().product();
            (*weight, Form::Rows([rows, s[0], 1, rows]))
        }
        Hint::Conv2d { weight, .. } => {
            let (sizes, layout) = conv_sizes(program, sums, hint)?;
            (*weight, Form::Conv(sizes, layout))
        }
        _ => return None,
    };
    Some(Weight {
        input: read_once(program, buf)?,
        form,
        zero: None,
    })
}

/// The weight of a product of bytes that become bytes at once.
fn of_bytes(program: &Program, f: &FusedBytes) -> Option<Weight> {
    let (sizes, layout, steps) = match f.hint {
        Hint::Conv2d { .. } => {
            let (sizes, layout) = conv_sizes(program, f.sums, &f.hint)?;
            let (inner, taps) = (sizes.c / sizes.groups.max(1), sizes.kh * sizes.kw);
            let steps = match layout == conv::Layout::Nhwc as i32 {
                true => [inner * sizes.o, sizes.o, 1],
                false => [1, taps, inner * taps],
            };
            (sizes, layout, steps)
        }
        Hint::Gemm { b, transpose_b, .. } => {
            let [rows, columns] = constant(program, b)?[..] else {
                return None;
            };
            let (c, o, steps) = match transpose_b {
                true => (columns, rows, [0, 1, columns]),
                false => (rows, columns, [0, columns, 1]),
            };
            let sizes = RxConv2dSizes {
                c,
                o,
                ..RxConv2dSizes::ONE
            };
            (sizes, conv::Layout::Nhwc as i32, steps)
        }
        _ => return None,
    };
    let buf = *f.hint.operands().get(1)?;
    let input = read_once(program, buf)?;
    let (zero, known) = match (f.zeros[1].kind(), f.zeros[1].as_int()) {
        (_, Some(zero)) => (None, i32::try_from(zero).ok()?),
        (ExKind::Load(b, _), _) => (Some(program.inputs.iter().position(|i| i == b)?), 0),
        _ => return None,
    };
    let signed = program.bufs[buf].dtype == DType::I8;
    if zero.is_none() && signed != (known == 0) {
        return None;
    }
    Some(Weight {
        input,
        form: Form::Bytes(sizes, layout, steps, known),
        zero,
    })
}

/// Returns the extents of a buffer, if all are known.
fn constant(program: &Program, buf: Buf) -> Option<Vec<i64>> {
    program.bufs[buf].shape.iter().map(|e| e.as_int()).collect()
}

/// The sizes and the layout of a convolution, where all extents but the number of images are known:
/// the packed weight does not depend on that.
fn conv_sizes(program: &Program, out: Buf, hint: &Hint) -> Option<(RxConv2dSizes, i32)> {
    let Hint::Conv2d { .. } = hint else {
        return None;
    };
    let images = |buf: Buf| -> Option<Vec<i64>> {
        let (first, rest) = program.bufs[buf].shape.split_first()?;
        let rest = rest.iter().map(|e| e.as_int());
        std::iter::once(first.as_int().or(Some(1)))
            .chain(rest)
            .collect()
    };
    let c = Conv::of(hint);
    let sizes = c.sizes(
        &images(c.data)?,
        &constant(program, c.weight)?,
        &images(out)?,
    );
    Some((sizes, layout_of(c.nhwc) as i32))
}

/// Returns whether a kernel that was planned to overwrite an argument can do so: a convolution must
/// write each element exactly once.
fn writes_once(program: &Program) -> bool {
    program.hints.iter().all(|(out, hint)| {
        conv_sizes(program, *out, hint)
            .is_some_and(|(sizes, layout)| conv::writes_once(&sizes, layout))
    })
}
