//! Expressions, statements, patterns, functions.

use relax_base::{Span, Symbol};

use super::{
    AttrId, BinderId, ClauseId, ExprId, FnId, List, LoopId, PatId, StmtId, TypeId, TypeParamId,
};

/// An expression and its source location.
#[derive(Clone, Copy, Debug)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Its source location.
    pub span: Span,
}

/// The index of an object that is written inline rather than referred to:
/// `VirtualDevice(device_type=1)`.
pub const VERBATIM: u32 = u32::MAX;

/// The forms of expressions. Attribute values are expressions too ([`ExprKind::List`] occurs only
/// there).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ExprKind {
    /// Unreadable text; an error has been reported.
    Error,
    /// `%x`, the name without its sigil.
    Local(Symbol),
    /// `%0`
    Graph(u32),
    /// `@f`, the name without its sigil.
    Global(Symbol),
    /// `nn.conv2d`, `Cons`, `n`, and in attributes `None` and `float32`.
    Name(Symbol),
    /// `1`, `1i64`, `-1`
    Int {
        /// The value, sign included.
        value: i64,
        /// The suffix.
        suffix: NumSuffix,
    },
    /// `1.5f`, `1f`, `inff`, `-nan`
    Float {
        /// The value, sign included.
        value: f64,
        /// The suffix.
        suffix: NumSuffix,
    },
    /// `True`, `False`
    Bool(bool),
    /// A string, with escapes resolved.
    Str(Symbol),
    /// `meta[key][index]`
    Meta {
        /// `relay.Constant`, or the whole text of an inline object.
        key: Symbol,
        /// The index in the section's list for that key; [`VERBATIM`] for an inline object.
        index: u32,
    },
    /// `(a, b)`, `(a,)`, `()`
    Tuple(List<ExprId>),
    /// `(e)`, `((e))`: an expression that is not itself parenthesised, and the number of pairs of
    /// parentheses.
    Paren(ExprId, u32),
    /// `[a, b]`, in attributes.
    List(List<ExprId>),
    /// `{a=1, b=2}`, in attributes.
    Map(List<AttrId>),
    /// `e.0`
    Proj {
        /// The tuple.
        tuple: ExprId,
        /// The index.
        index: u32,
    },
    /// `f(a, b, key=value)`
    Call {
        /// The callee.
        callee: ExprId,
        /// Arguments.
        args: List<ExprId>,
        /// Attributes.
        attrs: List<AttrId>,
    },
    /// `f<T, (10, 10)>`
    TypeApply {
        /// The function.
        callee: ExprId,
        /// Type arguments.
        args: List<TypeId>,
    },
    /// `fn (%x) { … }`
    Fn(FnId),
    /// `if (c) { a } else { b }`; `otherwise` is a block, or an `if` for `else if`.
    If {
        /// The condition, without its parentheses.
        cond: ExprId,
        /// A block.
        then: ExprId,
        /// A block or an `if`; `None` if there is no `else`, which only tensor programs may omit.
        otherwise: Option<ExprId>,
    },
    /// `match (e) { … }`, `match? (e) { … }`
    Match {
        /// The scrutinee.
        scrutinee: ExprId,
        /// The clauses.
        clauses: List<ClauseId>,
        /// False for `match?`.
        complete: bool,
    },
    /// `{ stmts tail }`; without braces if `braces` is false (inside parentheses, the right-hand
    /// side of a match clause, a whole file).
    Block {
        /// The statements.
        stmts: List<StmtId>,
        /// The result. `None` means the unit value.
        tail: Option<ExprId>,
        /// Whether the block is written in braces.
        braces: bool,
    },
    /// `ref(e)`
    RefNew(ExprId),
    /// `ref_read(e)`
    RefRead(ExprId),
    /// `ref_write(r, e)`
    RefWrite {
        /// The reference.
        target: ExprId,
        /// The new value.
        value: ExprId,
    },
    /// `a + b`
    Binary {
        /// The operator.
        op: BinOp,
        /// Left operand.
        lhs: ExprId,
        /// Right operand.
        rhs: ExprId,
    },
    /// `%X[%i, %j]`
    Index {
        /// The buffer.
        base: ExprId,
        /// Indices.
        indices: List<ExprId>,
    },
    /// `shape(n, m * 2)`
    Shape(List<TypeId>),
    /// `match_shape(e, (n, m))`
    MatchShape {
        /// The tensor or shape.
        value: ExprId,
        /// The dimensions.
        dims: List<TypeId>,
    },
    /// `match_cast(e, T)`
    MatchCast {
        /// The value.
        value: ExprId,
        /// The type.
        ty: TypeId,
    },
}

/// The suffix of a numeric literal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum NumSuffix {
    /// None: the type comes from the context.
    #[default]
    None,
    /// `f`: float32.
    F,
    /// `i<bits>`
    I(u8),
    /// `u<bits>`
    U(u8),
    /// `f<bits>`
    Float(u8),
    /// `bf16`
    Bf16,
}

impl NumSuffix {
    /// Parses a suffix.
    pub fn parse(text: &str) -> Option<NumSuffix> {
        Some(match text {
            "" => NumSuffix::None,
            "f" => NumSuffix::F,
            "bf16" => NumSuffix::Bf16,
            _ => {
                let bits: u8 = text.get(1..)?.parse().ok()?;
                match (&text[..1], bits) {
                    ("f", 16 | 32 | 64) => NumSuffix::Float(bits),
                    ("i", 1 | 4 | 8 | 16 | 32 | 64) => NumSuffix::I(bits),
                    ("u", 1 | 4 | 8 | 16 | 32 | 64) => NumSuffix::U(bits),
                    _ => return None,
                }
            }
        })
    }
    /// Returns whether the suffix is that of a float.
    pub fn is_float(self) -> bool {
        matches!(self, NumSuffix::F | NumSuffix::Float(_) | NumSuffix::Bf16)
    }
}

impl std::fmt::Display for NumSuffix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NumSuffix::None => Ok(()),
            NumSuffix::F => f.write_str("f"),
            NumSuffix::I(b) => write!(f, "i{b}"),
            NumSuffix::U(b) => write!(f, "u{b}"),
            NumSuffix::Float(b) => write!(f, "f{b}"),
            NumSuffix::Bf16 => f.write_str("bf16"),
        }
    }
}

/// Binary operators, all left-associative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinOp {
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `//`, in indices only.
    FloorDiv,
    /// `%`
    Mod,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `&&`
    And,
    /// `||`
    Or,
}

impl BinOp {
    /// Returns the operator's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            BinOp::Mul => "*",
            BinOp::Div => "/",
            BinOp::FloorDiv => "//",
            BinOp::Mod => "%",
            BinOp::Add => "+",
            BinOp::Sub => "-",
            BinOp::Lt => "<",
            BinOp::Le => "<=",
            BinOp::Gt => ">",
            BinOp::Ge => ">=",
            BinOp::Eq => "==",
            BinOp::Ne => "!=",
            BinOp::And => "&&",
            BinOp::Or => "||",
        }
    }
    /// Returns its precedence; higher binds tighter. The numbers are TVM's, `&&` and `||` below.
    pub fn precedence(self) -> u8 {
        match self {
            BinOp::Mul | BinOp::Div | BinOp::FloorDiv | BinOp::Mod => 12,
            BinOp::Add | BinOp::Sub => 10,
            BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => 8,
            BinOp::Eq | BinOp::Ne => 7,
            BinOp::And => 5,
            BinOp::Or => 4,
        }
    }
}

/// `key=value`
#[derive(Clone, Copy, Debug)]
pub struct Attr {
    /// The key, including dots.
    pub key: Symbol,
    /// The value.
    pub value: ExprId,
    /// The location of the whole attribute.
    pub span: Span,
}

/// A binder: `%x`, `%x: T`, `%x {virtual_device=…}: T`; in operators also `name: T = 1`.
#[derive(Clone, Copy, Debug)]
pub struct Binder {
    /// The name without its sigil.
    pub name: Symbol,
    /// Whether the name has the `%` sigil (attributes of `op` items have none).
    pub sigil: bool,
    /// The annotation.
    pub ty: Option<TypeId>,
    /// The attributes in braces after the name.
    pub attrs: List<AttrId>,
    /// The default value (parameters of `op` items).
    pub default: Option<ExprId>,
    /// The location of the name.
    pub span: Span,
}

/// A type parameter: `A`, `A: Shape`.
#[derive(Clone, Copy, Debug)]
pub struct TypeParam {
    /// The name.
    pub name: Symbol,
    /// The kind, if specified.
    pub kind: Option<Symbol>,
    /// The location of the whole parameter.
    pub span: Span,
}

/// The common parts of `def @f` and `fn`.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Type parameters.
    pub type_params: List<TypeParamId>,
    /// Whether they are written in `<…>`.
    pub angle: bool,
    /// Parameters.
    pub params: List<BinderId>,
    /// Attributes between the parentheses.
    pub attrs: List<AttrId>,
    /// The result type.
    pub ret: Option<TypeId>,
    /// The relations after `where`.
    pub relations: List<TypeId>,
    /// The body, a block in braces.
    pub body: ExprId,
    /// The location from the keyword to the closing parenthesis of the parameters or to the result
    /// type.
    pub header: Span,
}

/// A statement and its source location.
#[derive(Clone, Copy, Debug)]
pub struct Stmt {
    /// Its kind.
    pub kind: StmtKind,
    /// Its source location, including its `;`.
    pub span: Span,
}

/// The forms of statements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StmtKind {
    /// Unreadable text; an error has been reported.
    Error,
    /// `let %x: T = e;`
    Let {
        /// The bound variable.
        binder: BinderId,
        /// Its value.
        value: ExprId,
    },
    /// `%x: T = e;`
    Bind {
        /// The bound variable.
        binder: BinderId,
        /// Its value.
        value: ExprId,
    },
    /// `%0 = e;`
    Graph {
        /// The number.
        index: u32,
        /// Its value.
        value: ExprId,
    },
    /// `e;`
    Expr(ExprId),
    /// `free_var %x: T;`
    FreeVar(BinderId),
    /// `dataflow { … };`, the body a block in braces.
    Dataflow(ExprId),
    /// `output(%a, %b);`
    Output(List<ExprId>),
    /// `for %i, %j in grid(m, n) { … }`, the body a block in braces.
    For {
        /// The execution mode of the iterations.
        kind: ForKind,
        /// The loop variables and extents.
        loops: List<LoopId>,
        /// The body.
        body: ExprId,
    },
    /// `while (%low[] < %high[]) { … }`, the body a block in braces.
    While {
        /// The condition, evaluated before each iteration; the loop ends when it is false.
        cond: ExprId,
        /// The body.
        body: ExprId,
    },
    /// `%Y[%i] = e;`, `%Y[%i] += e;`, `(%values, %indices) = e;`
    Store {
        /// An [`ExprKind::Index`], or with [`StoreOp::Set`] an [`ExprKind::Tuple`] of one
        /// [`ExprKind::Local`] or more.
        target: ExprId,
        /// The kind of store.
        op: StoreOp,
        /// The value.
        value: ExprId,
    },
    /// `alloc %T: Buffer[(64,), float32];`
    Alloc(BinderId),
    /// `init { … }`, a block in braces.
    Init(ExprId),
    /// `kernel product { … }`: stages of a tensor program that one kernel computes together.
    Kernel {
        /// The kernel's name, an [`ExprKind::Name`].
        name: ExprId,
        /// A block in braces.
        body: ExprId,
    },
    /// `compute e` or `compute [%i, %j] => e` in an `op` item: an expression over whole tensors, or
    /// the element at the given indices.
    Compute {
        /// Index variables; empty in the first form.
        indices: List<BinderId>,
        /// The value.
        value: ExprId,
    },
}

/// The execution mode of a loop's iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ForKind {
    /// Sequential.
    Serial,
    /// `parallel for`
    Parallel,
    /// `vectorize(w) for`
    Vectorize(u32),
    /// `unroll for`
    Unroll,
}

/// The ways in which a store updates the element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreOp {
    /// `=`
    Set,
    /// `+=`
    Add,
    /// `*=`
    Mul,
}

/// `%i in n` of a loop header; in the text all names precede all extents.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// The loop variable.
    pub binder: BinderId,
    /// The number of iterations.
    pub extent: ExprId,
}

/// A clause of a `match`.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    /// The pattern.
    pub pat: PatId,
    /// The result: a block, with braces if the text has them.
    pub body: ExprId,
    /// Whether it is spelled `case P { e }`.
    pub case: bool,
    /// The location of the whole clause.
    pub span: Span,
}

/// A pattern and its source location.
#[derive(Clone, Copy, Debug)]
pub struct Pat {
    /// Its kind.
    pub kind: PatKind,
    /// Its source location.
    pub span: Span,
}

/// The forms of patterns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatKind {
    /// Unreadable text; an error has been reported.
    Error,
    /// `_`
    Wildcard,
    /// `%x`, `%x: T`
    Var(BinderId),
    /// `Cons(p, q)`, `Nil`, `Nil()`
    Ctor {
        /// The constructor's name.
        name: Symbol,
        /// Its arguments.
        args: List<PatId>,
        /// Whether parentheses are written.
        parens: bool,
    },
    /// `(p, q)`
    Tuple {
        /// The elements.
        items: List<PatId>,
        /// Whether a comma follows the last element.
        comma: bool,
    },
}

const _: () = assert!(std::mem::size_of::<Expr>() <= 32);
const _: () = assert!(std::mem::size_of::<super::TypeExpr>() <= 32);
