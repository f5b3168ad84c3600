//! The guarantees of a pipeline, and the comparison of results under them.

use relax_passes::Floats;
use relax_tensor::Tensor;
use relax_testkit::{agree, same};

use crate::case::Case;

/// The floats among the inputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Among {
    /// Finite numbers.
    Finite,
    /// NaN and signed zeros too. Algebraic rewrites preserve NaN; they may turn an infinity into a
    /// NaN, which then is not preserved (`nn.relu` of NaN is 0).
    Nan,
    /// Infinities too.
    All,
}

/// How the type of `@main` and its results may change.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
enum Results {
    /// Unchanged.
    Same,
    /// Unchanged, with possibly less precise types.
    Coarser,
    /// Unchanged, with possibly more precise types.
    Finer,
    /// Converted to another element type.
    Other,
    /// Followed by additional ones.
    More,
}

/// Passes that intentionally change types.
const RESULTS: [(&str, Results); 6] = [
    // Naming a constant loses the extents of `arange(%x, %y, %z)`, as in TVM.
    ("to-a-normal-form", Results::Coarser),
    ("dynamic-to-static", Results::Finer),
    ("relax-eliminate-common-subexpr", Results::Finer),
    ("relay-to-relax", Results::Finer),
    ("gradient", Results::More),
    ("to-mixed-precision", Results::Other),
];

/// Passes that leave out products with the zeros of padding, so that a NaN of the other factor is
/// not seen.
const LEAVE_OUT_ZEROS: [&str; 1] = ["rewrite-for-kernels"];

/// The guarantees of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    results: Results,
    zeros_left_out: bool,
    finer: bool,
    floats: Floats,
    /// Whether it is idempotent, as it claims.
    pub idempotent: bool,
}

/// Pipelines that are tested like passes: combinations where the last pass acts on the output of
/// the others; other options; and those that the tools run.
const TOGETHER: [&str; 14] = [
    "legalize,lower-shapes,plan-memory",
    "legalize,schedule",
    "fold-scale-axis{direction=forward}",
    "combine-parallel-dense{batch=false}",
    "fuse-ops{level=0}",
    "gradient{mode=higher-order}",
    "to-mixed-precision{dtype=bfloat16,keep-output-dtype=true}",
    "to-a-normal-form,to-graph-normal-form",
    "O0",
    "O1",
    "O2",
    "O3",
    "native2",
    "native3",
];

/// Returns all single passes, those of Relax among them, and the pipelines; `RELAX_PASS` selects one.
pub fn pipelines() -> Vec<String> {
    if let Ok(only) = std::env::var("RELAX_PASS") {
        return vec![only];
    }
    let passes = [relax_passes::all(), relax_passes::of_relax()].concat();
    let all = passes.into_iter().map(|p| p.name);
    all.chain(TOGETHER).map(str::to_owned).collect()
}

impl Kept {
    /// Returns the combined guarantees of a pipeline's passes.
    pub fn of(case: &mut Case, pipeline: &str) -> Kept {
        let pipeline = case.session.pipeline(pipeline).expect("a pipeline");
        let passes = pipeline.passes();
        let mut kept = Kept {
            results: Results::Same,
            finer: false,
            zeros_left_out: false,
            floats: Floats::Exact,
            idempotent: passes.len() == 1 && passes[0].pass.contract.idempotent,
        };
        for run in passes {
            kept.zeros_left_out |= LEAVE_OUT_ZEROS.contains(&run.pass.name);
            if let Some((_, results)) = RESULTS.iter().find(|r| r.0 == run.pass.name) {
                kept.finer |= *results == Results::Finer;
                if *results > kept.results {
                    kept.results = *results;
                }
            }
            kept.floats = match (kept.floats, run.pass.contract.floats) {
                (Floats::Coarser, _) | (_, Floats::Coarser) => Floats::Coarser,
                (Floats::Exact, other) => other,
                (Floats::Laws(laws), _) | (_, Floats::Laws(laws)) => Floats::Laws(laws),
                (order, _) => order,
            };
        }
        kept
    }

    /// Returns whether results are preserved for such inputs.
    pub fn for_inputs(self, among: Among) -> bool {
        if self.zeros_left_out && among > Among::Finite {
            return false;
        }
        match self.floats {
            Floats::Exact => true,
            Floats::Laws(_) => among <= Among::Nan,
            Floats::Order | Floats::Coarser => among == Among::Finite,
        }
    }

    /// Returns whether the type of `@main` may replace an old one; `says(a, b)` is whether `a` is
    /// at least as precise as `b`.
    pub fn types(self, old: &str, new: &str, says: impl Fn(&str, &str) -> bool) -> bool {
        match self.results {
            Results::Same => says(new, old),
            Results::Coarser => says(new, old) || says(old, new),
            Results::Finer | Results::More | Results::Other => true,
        }
    }

    /// Returns whether the program may reject extents that the old one did not check.
    pub fn may_refuse(self) -> bool {
        self.finer
    }

    /// Returns why `new` is not an acceptable replacement of `old`.
    pub fn difference(self, old: &[Tensor], new: &[Tensor]) -> Option<String> {
        let fits = match self.results {
            Results::More => new.len() >= old.len(),
            _ => new.len() == old.len(),
        };
        if !fits {
            return Some(format!("{} results, now {}", old.len(), new.len()));
        }
        let holds = match self.floats {
            Floats::Exact => same,
            Floats::Order | Floats::Laws(_) => rounded,
            Floats::Coarser => near,
        };
        let at = (old.iter().zip(new)).position(|(a, b)| !holds(a, b))?;
        Some(format!("result {at}: {}", first(&old[at], &new[at])))
    }
}

/// Describes the first differing element.
fn first(a: &Tensor, b: &Tensor) -> String {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        return format!("{a:?} and {b:?}");
    }
    let differ = |&i: &usize| a.get_f64(i).to_bits() != b.get_f64(i).to_bits();
    let all: Vec<usize> = (0..a.len()).filter(differ).collect();
    let shown = all.iter().take(4);
    let shown: Vec<String> = shown
        .map(|&i| format!("[{i}] {:?} and {:?}", a.get_f64(i), b.get_f64(i)))
        .collect();
    format!("{} of {} differ: {}", all.len(), a.len(), shown.join(", "))
}

/// Returns whether tensors are equal up to the rounding of the element type, for sums of numbers
/// near the largest.
fn rounded(a: &Tensor, b: &Tensor) -> bool {
    let unit = match (a.dtype().is_float(), a.dtype().bits) {
        (true, 16) => 0.05,
        _ => 1e-3,
    };
    let sizes = (0..a.len()).map(|i| a.get_f64(i).abs());
    let largest = sizes.filter(|x| x.is_finite()).fold(1.0, f64::max);
    agree(a, b, unit, if unit > 1e-3 { unit * largest } else { unit })
}

/// The largest finite float16: above it, narrow results are infinite.
const F16_MAX: f64 = 65504.0;

/// Returns whether tensors agree within a fifth of the largest number (for cancelling sums in eight
/// bits), in any float type, as long as nothing overflows. A tenth of the elements may differ,
/// where a comparison of close numbers flips. Integers may depend on such comparisons: only their
/// shape is compared.
fn near(a: &Tensor, b: &Tensor) -> bool {
    if a.shape() != b.shape() || !a.dtype().is_float() || !b.dtype().is_float() {
        return a.shape() == b.shape();
    }
    let finite = (0..a.len()).map(|i| a.get_f64(i).abs());
    let largest = finite.filter(|&x| x < F16_MAX).fold(1.0, f64::max);
    let far = |&i: &usize| {
        let (x, y) = (a.get_f64(i), b.get_f64(i));
        let held = x.abs() < F16_MAX && y.abs() < F16_MAX;
        held && (x - y).abs() > 0.2 * largest
    };
    (0..a.len()).filter(far).count() <= a.len() / 10
}
