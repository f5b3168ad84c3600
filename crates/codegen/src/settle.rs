//! Constant folding of integer arithmetic and dead code elimination in a function before it is
//! compiled.
//!
//! The emitters write the general form of an index, a size or a check; where extents are constants,
//! most of it folds. Cranelift's optimiser does that as well, at some hundred times the cost, and
//! not at all in functions that are compiled without it.
//!
//! Invariant: the behaviour of a function is unchanged.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::{
    Function, Inst, InstructionData, Opcode, Type, Value, ValueDef, types,
};

/// The simplified form of an instruction.
enum Known {
    Constant(i64),
    Value(Value),
    /// A branch that always goes to its destination of this number.
    Goes(usize),
}

/// Folds constants, then removes instructions without effects and users.
pub(crate) fn settle(f: &mut Function) {
    let mut blocks = f.layout.entry_block();
    while let Some(block) = blocks {
        blocks = f.layout.next_block(block);
        let mut insts = f.layout.first_inst(block);
        while let Some(inst) = insts {
            insts = f.layout.next_inst(inst);
            match known(f, inst) {
                Some(Known::Constant(n)) => {
                    let ty = f.dfg.value_type(f.dfg.first_result(inst));
                    f.dfg.insts[inst] = InstructionData::UnaryImm {
                        opcode: Opcode::Iconst,
                        imm: Imm64::new(masked(n, ty)),
                    };
                }
                Some(Known::Value(v)) => {
                    let result = f.dfg.first_result(inst);
                    f.dfg.clear_results(inst);
                    f.dfg.change_to_alias(result, v);
                    f.layout.remove_inst(inst);
                }
                Some(Known::Goes(to)) => {
                    if let InstructionData::Brif { blocks, .. } = f.dfg.insts[inst] {
                        f.dfg.insts[inst] = InstructionData::Jump {
                            opcode: Opcode::Jump,
                            destination: blocks[to],
                        };
                    }
                }
                None => {}
            }
        }
    }
    f.dfg.resolve_all_aliases();
    remove_unused(f);
}

/// Removes instructions without effects and users, users before their operands.
fn remove_unused(f: &mut Function) {
    let mut uses = vec![0u32; f.dfg.num_values()];
    let mut all = Vec::with_capacity(f.dfg.num_insts());
    for block in f.layout.blocks() {
        for inst in f.layout.block_insts(block) {
            f.dfg.inst_values(inst).for_each(|v| count(&mut uses, v, 1));
            all.push(inst);
        }
    }
    for inst in all.into_iter().rev() {
        let op = f.dfg.insts[inst].opcode();
        let acts = op.can_load()
            || op.can_store()
            || op.can_trap()
            || op.is_call()
            || op.is_terminator()
            || op.is_branch()
            || op.other_side_effects();
        let mut results = f.dfg.inst_results(inst).iter();
        if !acts && results.all(|r| uses.get(r.as_u32() as usize) == Some(&0)) {
            f.dfg
                .inst_values(inst)
                .for_each(|v| count(&mut uses, v, u32::MAX));
            f.layout.remove_inst(inst);
        }
    }
}

fn count(uses: &mut [u32], v: Value, by: u32) {
    if let Some(n) = uses.get_mut(v.as_u32() as usize) {
        *n = n.wrapping_add(by);
    }
}

/// Returns the number that a value always is, sign-extended.
pub(crate) fn constant(f: &Function, v: Value) -> Option<i64> {
    let ValueDef::Result(inst, _) = f.dfg.value_def(f.dfg.resolve_aliases(v)) else {
        return None;
    };
    match f.dfg.insts[inst] {
        InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } => Some(extended(imm.bits(), f.dfg.value_type(v))),
        _ => None,
    }
}

/// Returns the low bits of a number, in the form that constants of a type have.
fn masked(n: i64, ty: Type) -> i64 {
    match ty.bits() {
        64 => n,
        bits => n & ((1 << bits) - 1),
    }
}

/// The number with these low bits, sign-extended.
fn extended(n: i64, ty: Type) -> i64 {
    let unused = 64 - ty.bits().min(64);
    n << unused >> unused
}

fn known(f: &Function, inst: Inst) -> Option<Known> {
    let of = |v: Value| constant(f, v);
    match f.dfg.insts[inst] {
        InstructionData::Binary { opcode, args } => {
            let ty = f.dfg.value_type(args[0]);
            if !ty.is_int() || ty.bits() > 64 {
                return None;
            }
            match args.map(of) {
                [Some(a), Some(b)] => binary(opcode, a, b, ty).map(Known::Constant),
                consts => unchanged(opcode, args, consts),
            }
        }
        InstructionData::IntCompare { args, cond, .. } => {
            let ty = f.dfg.value_type(args[0]);
            let same = f.dfg.resolve_aliases(args[0]) == f.dfg.resolve_aliases(args[1]);
            let holds = match args.map(of) {
                [Some(a), Some(b)] if ty.is_int() && ty.bits() <= 64 => compare(cond, a, b, ty),
                _ if same && ty.is_int() => compare(cond, 0, 0, types::I64),
                _ => return None,
            };
            Some(Known::Constant(holds.into()))
        }
        InstructionData::Ternary {
            opcode: Opcode::Select,
            args: [c, a, b],
        } => {
            let same = f.dfg.resolve_aliases(a) == f.dfg.resolve_aliases(b);
            match of(c) {
                _ if same => Some(Known::Value(a)),
                Some(0) => Some(Known::Value(b)),
                Some(_) => Some(Known::Value(a)),
                None => None,
            }
        }
        InstructionData::Unary { opcode, arg } => {
            let n = of(arg)?;
            let from = f.dfg.value_type(arg);
            match opcode {
                Opcode::Uextend => Some(Known::Constant(masked(n, from))),
                Opcode::Sextend | Opcode::Ireduce => Some(Known::Constant(n)),
                _ => None,
            }
        }
        InstructionData::Brif { arg, .. } => Some(Known::Goes(usize::from(of(arg)? == 0))),
        _ => None,
    }
    // Wider integers are not treated as constants here.
    .filter(|k| match k {
        Known::Constant(_) => {
            let result = f.dfg.inst_results(inst).first();
            result.is_some_and(|&r| {
                let ty = f.dfg.value_type(r);
                ty.is_int() && ty.bits() <= 64
            })
        }
        _ => true,
    })
}

/// Returns the result of an operation on two constants.
fn binary(op: Opcode, a: i64, b: i64, ty: Type) -> Option<i64> {
    let (ua, ub) = (masked(a, ty) as u64, masked(b, ty) as u64);
    let by = (ub % u64::from(ty.bits())) as u32;
    Some(match op {
        Opcode::Iadd => a.wrapping_add(b),
        Opcode::Isub => a.wrapping_sub(b),
        Opcode::Imul => a.wrapping_mul(b),
        Opcode::Smulhi => ((i128::from(a) * i128::from(b)) >> ty.bits()) as i64,
        Opcode::Umulhi => ((u128::from(ua) * u128::from(ub)) >> ty.bits()) as i64,
        Opcode::Smin => a.min(b),
        Opcode::Smax => a.max(b),
        Opcode::Umin => ua.min(ub) as i64,
        Opcode::Umax => ua.max(ub) as i64,
        Opcode::Band => a & b,
        Opcode::Bor => a | b,
        Opcode::Bxor => a ^ b,
        Opcode::Ishl => a.wrapping_shl(by),
        Opcode::Sshr => a >> by,
        Opcode::Ushr => (ua >> by) as i64,
        _ => return None,
    })
}

/// Returns an operand that an operation returns unchanged, or its constant result.
fn unchanged(op: Opcode, [a, b]: [Value; 2], consts: [Option<i64>; 2]) -> Option<Known> {
    match (op, consts) {
        (Opcode::Iadd | Opcode::Bor | Opcode::Bxor, [Some(0), _]) => Some(Known::Value(b)),
        (
            Opcode::Iadd
            | Opcode::Isub
            | Opcode::Bor
            | Opcode::Bxor
            | Opcode::Ishl
            | Opcode::Sshr
            | Opcode::Ushr,
            [_, Some(0)],
        ) => Some(Known::Value(a)),
        (Opcode::Imul, [Some(1), _]) => Some(Known::Value(b)),
        (Opcode::Imul, [_, Some(1)]) => Some(Known::Value(a)),
        (
            Opcode::Imul | Opcode::Band | Opcode::Umulhi | Opcode::Smulhi,
            [Some(0), _] | [_, Some(0)],
        )
        | (Opcode::Umulhi, [Some(1), _] | [_, Some(1)]) => Some(Known::Constant(0)),
        _ => None,
    }
}

fn compare(cond: IntCC, a: i64, b: i64, ty: Type) -> bool {
    let (ua, ub) = (masked(a, ty) as u64, masked(b, ty) as u64);
    match cond {
        IntCC::Equal => a == b,
        IntCC::NotEqual => a != b,
        IntCC::SignedLessThan => a < b,
        IntCC::SignedLessThanOrEqual => a <= b,
        IntCC::SignedGreaterThan => a > b,
        IntCC::SignedGreaterThanOrEqual => a >= b,
        IntCC::UnsignedLessThan => ua < ub,
        IntCC::UnsignedLessThanOrEqual => ua <= ub,
        IntCC::UnsignedGreaterThan => ua > ub,
        IntCC::UnsignedGreaterThanOrEqual => ua >= ub,
    }
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::InstBuilder;
    use cranelift_frontend::FunctionBuilder;

    use super::*;
    use crate::testing::function;

    /// A function of one number after folding, as text.
    fn settled(build: impl FnOnce(&mut FunctionBuilder<'_>, Value) -> Value) -> String {
        let int = types::I64;
        let mut f = function(&[int], int, |b, params| build(b, params[0]));
        settle(&mut f);
        let text = f.display().to_string();
        let lines = text.lines().filter(|l| l.starts_with("    "));
        lines.map(|l| format!("{}\n", l.trim())).collect()
    }

    #[test]
    fn known_arithmetic_leaves_one_number() {
        let text = settled(|b, x| {
            let [six, seven] = [6, 7].map(|n| b.ins().iconst(types::I64, n));
            let n = b.ins().imul(six, seven);
            let high = b.ins().umulhi(six, seven);
            let n = b.ins().bor(n, high);
            let over = b.ins().icmp_imm_s(IntCC::SignedLessThan, n, 0);
            b.ins().select(over, x, n)
        });
        let (first, rest) = text.split_once('\n').unwrap_or_default();
        assert!(first.ends_with("= iconst.i64 42"), "{text}");
        assert!(rest.starts_with("return "), "{text}");
    }

    #[test]
    fn what_changes_nothing_goes() {
        let text = settled(|b, x| {
            let [zero, one] = [0, 1].map(|n| b.ins().iconst(types::I64, n));
            let y = b.ins().imul(x, one);
            b.ins().iadd(zero, y)
        });
        assert_eq!(text, "return v0\n");
    }

    #[test]
    fn a_branch_that_always_goes_one_way_is_a_jump() {
        let text = settled(|b, x| {
            let none = b.ins().iconst(types::I8, 0);
            let [yes, no] = [(); 2].map(|()| b.create_block());
            b.ins().brif(none, yes, &[], no, &[]);
            b.switch_to_block(yes);
            let y = b.ins().iadd(x, x);
            b.ins().return_(&[y]);
            b.switch_to_block(no);
            x
        });
        assert!(text.starts_with("jump block2\n"), "{text}");
    }

    #[test]
    fn narrow_numbers_wrap() {
        let ty = types::I8;
        assert_eq!(
            binary(Opcode::Iadd, 127, 1, ty).map(|n| extended(n, ty)),
            Some(-128)
        );
        assert_eq!(binary(Opcode::Ushr, -1, 4, ty), Some(15));
        assert_eq!(binary(Opcode::Umulhi, -1, -1, ty), Some(254));
        assert_eq!(binary(Opcode::Smulhi, -128, -128, ty), Some(64));
        assert!(compare(IntCC::UnsignedGreaterThan, -1, 1, ty));
        assert!(!compare(IntCC::SignedGreaterThan, -1, 1, ty));
    }
}
