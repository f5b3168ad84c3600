//! Names in Python: unique in the whole text for symbols, within their function for variables.

use relax_base::Symbol;
use relax_ir::{FuncId, Module, VarId};
use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

/// Words that cannot be names.
const WORDS: [&str; 45] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield", "R", "I", "T", "Tx", "cls", "metadata", "tvm", "TypeVar", "relax", "float",
];

/// The names of one text.
#[derive(Default)]
pub(super) struct Names {
    /// Names of symbols that are declared above the class, in order.
    pub declared: Vec<String>,
    taken: FxHashSet<String>,
    dims: FxHashMap<DimVar, String>,
    vars: FxHashMap<VarId, String>,
    /// Names of the variables of the function being printed.
    local: FxHashSet<String>,
    /// The number of times each name was made unique by a suffix.
    counts: FxHashMap<String, u32>,
    /// Names of symbols that signatures bind.
    pub signature: FxHashSet<DimVar>,
}

/// Converts a name to a Python identifier.
pub(crate) fn python(name: &str) -> String {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let starts = name.bytes().next().is_some_and(|c| !c.is_ascii_digit());
    if starts && name.bytes().all(word) && !WORDS.contains(&name) {
        return name.to_owned();
    }
    let mut out = String::with_capacity(name.len());
    for (i, c) in name.chars().enumerate() {
        let fine = c == '_'
            || if i == 0 {
                c.is_alphabetic()
            } else {
                c.is_alphanumeric()
            };
        if fine {
            out.push(c);
        } else {
            if i == 0 && c.is_alphanumeric() {
                out.push('v');
                out.push(c);
                continue;
            }
            out.push('_');
        }
    }
    if out.is_empty() {
        out.push('v');
    }
    if WORDS.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

impl Names {
    /// Reserves a name that occurs in a text that is printed verbatim.
    pub fn declare(&mut self, name: Symbol) {
        if self.taken.insert(name.to_string()) {
            self.declared.push(name.to_string());
        }
    }

    /// Names the symbols of a function's signature: those of other functions may have the same
    /// name.
    pub fn signature(&mut self, m: &Module, func: FuncId) {
        let mut own: FxHashSet<String> = FxHashSet::default();
        for &d in &m.funcs[func].dims {
            self.signature.insert(d);
            if self.dims.contains_key(&d) {
                own.insert(self.dims[&d].clone());
                continue;
            }
            let base = python(m.dims[d].name.as_str());
            let mut name = base.clone();
            let mut i = 1;
            while own.contains(&name) {
                name = format!("{base}_{i}");
                i += 1;
            }
            own.insert(name.clone());
            self.declare(Symbol::new(&name));
            self.dims.insert(d, name);
        }
    }

    /// Returns the name of a symbol; one that no signature binds gets a unique name.
    pub fn dim(&mut self, m: &Module, d: DimVar) -> String {
        if let Some(name) = self.dims.get(&d) {
            return name.clone();
        }
        let base = python(m.dims[d].name.as_str());
        let name = self.fresh(&base);
        self.taken.insert(name.clone());
        self.dims.insert(d, name.clone());
        name
    }

    fn fresh(&mut self, base: &str) -> String {
        let free = |names: &Self, n: &str| !names.taken.contains(n) && !names.local.contains(n);
        if free(self, base) {
            return base.to_owned();
        }
        let mut i = self.counts.get(base).copied().unwrap_or(0);
        loop {
            i += 1;
            let name = format!("{base}_{i}");
            if free(self, &name) {
                self.counts.insert(base.to_owned(), i);
                return name;
            }
        }
    }

    /// Begins a function of the module.
    pub fn begin(&mut self) {
        self.local.clear();
        self.counts.clear();
    }

    /// Returns the name of a variable.
    pub fn var(&mut self, m: &Module, v: VarId) -> String {
        if let Some(name) = self.vars.get(&v) {
            return name.clone();
        }
        let base = python(m.vars[v].name.as_str());
        let name = self.fresh(&base);
        self.local.insert(name.clone());
        self.vars.insert(v, name.clone());
        name
    }

    /// Returns a new name for an unnamed value.
    pub fn new_name(&mut self, base: &str) -> String {
        let name = self.fresh(base);
        self.local.insert(name.clone());
        name
    }
}
