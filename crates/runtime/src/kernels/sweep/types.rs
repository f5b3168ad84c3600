//! Expressions over the element types of strips, by their numbers.

/// An expression over an integer type, by its number.
macro_rules! integers {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            Kind::I8 => {
                type $t = i8;
                $body
            }
            Kind::U8 => {
                type $t = u8;
                $body
            }
            Kind::I16 => {
                type $t = i16;
                $body
            }
            Kind::U16 => {
                type $t = u16;
                $body
            }
            Kind::I32 => {
                type $t = i32;
                $body
            }
            Kind::U32 => {
                type $t = u32;
                $body
            }
            Kind::I64 => {
                type $t = i64;
                $body
            }
            Kind::U64 => {
                type $t = u64;
                $body
            }
            _ => {}
        }
    };
}

/// The same where signedness does not matter.
macro_rules! widths {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind.size() {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}

/// Over all types but booleans, which are bytes.
macro_rules! numbers {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            Kind::F32 => { type $t = f32; $body }
            Kind::F64 => { type $t = f64; $body }
            kind => {
                let kind = if kind == Kind::Bool { Kind::U8 } else { kind };
                integers!(kind, $t => $body)
            }
        }
    };
}
