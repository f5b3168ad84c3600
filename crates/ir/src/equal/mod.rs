//! Structural equality of modules, up to the names of locals, type parameters and dimension
//! variables.
//!
//! The rules are TVM's: variables correspond one to one, and where one module shares a graph node
//! the other must share the corresponding one. Constants compare by value, attributes by name and
//! value, globals, data types and constructors by name. Definitions are matched by name, in any
//! order. Source positions and the syntactic form of bindings are ignored.
//!
//! Invariant: comparison takes time linear in the size of the modules and does not recurse over
//! their depth.

mod exprs;
mod items;
mod relations;
mod report;
mod types;

use std::hash::Hash;

use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

pub use self::report::Difference;
use self::report::Trail;
use crate::{ExprId, FuncId, GlobalId, Module, OpId, TypeId, TypeParamId, VarId};

/// Options for structural equality.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EqualOptions {
    /// Whether an annotation (of a variable or a result) that is present on one side only is a
    /// difference.
    pub annotations: bool,
    /// Whether floats in attributes are equal if they differ by less than TVM's tolerance, 1e-9:
    /// printed texts have fewer digits than the program.
    pub close_floats: bool,
}

impl Default for EqualOptions {
    fn default() -> Self {
        EqualOptions {
            annotations: true,
            close_floats: false,
        }
    }
}

/// Creates a comparer with no correspondences.
fn comparer<'m>(
    left: &'m Module,
    right: &'m Module,
    options: EqualOptions,
    op: &'m dyn Fn(OpId) -> String,
) -> Comparer<'m> {
    Comparer {
        a: left,
        b: right,
        options,
        op,
        vars: Pairs::default(),
        params: Pairs::default(),
        dims: Pairs::default(),
        nodes: Pairs::default(),
        renamed_left: FxHashSet::default(),
        renamed_right: FxHashSet::default(),
        global_pairs: Pairs::default(),
        renamed: Vec::new(),
        types: FxHashSet::default(),
        trail: Vec::new(),
        stack: Vec::new(),
        item: String::new(),
    }
}

/// Returns whether two functions of a module, without free variables, are structurally equal;
/// annotations count only where both have one.
pub fn functions_equal(m: &Module, f: FuncId, g: FuncId) -> bool {
    let op = |op| format!("{op:?}");
    let options = EqualOptions {
        annotations: false,
        ..EqualOptions::default()
    };
    let mut cmp = comparer(m, m, options, &op);
    cmp.functions(f, g, None).is_ok() && cmp.run(m.funcs[f].body, m.funcs[g].body).is_ok()
}

/// Compares two modules; returns the first difference, in the order of names and then of the text.
/// `op` maps built-in operators to names for messages.
pub fn structural_difference(
    left: &Module,
    right: &Module,
    options: EqualOptions,
    op: &dyn Fn(OpId) -> String,
) -> Option<Difference> {
    let mut cmp = comparer(left, right, options, op);
    cmp.modules().err().map(|d| *d)
}

/// Returns whether two modules are structurally equal, annotations included.
pub fn structural_equal(left: &Module, right: &Module) -> bool {
    let op = |op| format!("{op:?}");
    structural_difference(left, right, EqualOptions::default(), &op).is_none()
}

/// A growing one-to-one correspondence (a bijection).
struct Pairs<T> {
    there: FxHashMap<T, T>,
    back: FxHashMap<T, T>,
}

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Pairs {
            there: FxHashMap::default(),
            back: FxHashMap::default(),
        }
    }
}

impl<T: Copy + Eq + Hash> Pairs<T> {
    /// Returns whether the two correspond; a pair of unseen elements is added to the
    /// correspondence.
    fn pair(&mut self, a: T, b: T) -> bool {
        match (self.there.get(&a), self.back.get(&b)) {
            (Some(&x), Some(&y)) => x == b && y == a,
            (None, None) => {
                self.there.insert(a, b);
                self.back.insert(b, a);
                true
            }
            _ => false,
        }
    }

    /// Lets two elements correspond from here on, whatever they corresponded to before.
    fn bind(&mut self, a: T, b: T) {
        self.there.insert(a, b);
        self.back.insert(b, a);
    }

    /// Forgets what these elements of both sides corresponded to.
    fn unbind(&mut self, left: &[T], right: &[T]) {
        for a in left {
            if let Some(b) = self.there.remove(a) {
                self.back.remove(&b);
            }
        }
        for b in right {
            if let Some(a) = self.back.remove(b) {
                self.there.remove(&a);
            }
        }
    }

    fn known(&self, a: T, b: T) -> bool {
        self.there.get(&a) == Some(&b)
    }
}

struct Pair {
    a: ExprId,
    b: ExprId,
    trail: u32,
}

type Check = Result<(), Box<Difference>>;

struct Comparer<'m> {
    a: &'m Module,
    b: &'m Module,
    options: EqualOptions,
    op: &'m dyn Fn(OpId) -> String,
    vars: Pairs<VarId>,
    params: Pairs<TypeParamId>,
    dims: Pairs<DimVar>,
    nodes: Pairs<ExprId>,
    /// Globals whose names exist on one side only, and their correspondence.
    renamed_left: FxHashSet<GlobalId>,
    renamed_right: FxHashSet<GlobalId>,
    global_pairs: Pairs<GlobalId>,
    /// Corresponding ones that remain to be compared.
    renamed: Vec<(GlobalId, GlobalId)>,
    /// Pairs of types already found equal.
    types: FxHashSet<(TypeId, TypeId)>,
    trail: Vec<Trail>,
    stack: Vec<Pair>,
    item: String,
}
