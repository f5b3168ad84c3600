//! Messages as they are on the wire.

use std::borrow::Cow;
use std::io::{self, BufRead, Write};

use serde::Deserialize;
use serde_json::{Value, json};

/// The JSON text of a message.
pub(super) type Frame = Vec<u8>;

/// The part of a message that says where it belongs.
#[derive(Deserialize, Default)]
pub(super) struct Head<'a> {
    /// The number or text that requests and their answers share.
    pub(super) id: Option<Value>,
    /// The method; none in answers.
    #[serde(borrow)]
    pub(super) method: Option<Cow<'a, str>>,
}

impl<'a> Head<'a> {
    /// Returns the head of a message; an empty one for what is none.
    pub(super) fn of(frame: &'a Frame) -> Head<'a> {
        serde_json::from_slice(frame).unwrap_or_default()
    }

    /// Returns the head of a message of ours, where it stands first: of a large answer no more is
    /// read.
    pub(super) fn first(frame: &'a Frame, buffer: &'a mut Frame) -> Head<'a> {
        const FIRST: usize = 512;
        let first = &frame[..frame.len().min(FIRST)];
        // Within a text a quote has a backslash before it.
        let keys: [&[u8]; 3] = [b",\"params\":", b",\"result\":", b",\"error\":"];
        let starts = |at: &usize| keys.iter().any(|key| first[*at..].starts_with(key));
        let Some(end) = (0..first.len()).find(starts) else {
            return Head::of(frame);
        };
        buffer.extend_from_slice(&first[..end]);
        buffer.push(b'}');
        Head::of(buffer)
    }

    /// Returns whether it is a message of a method.
    pub(super) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }
}

/// The longest message that is read, which no editor's is near.
const MOST: usize = 1 << 30;

/// Reads a message; `None` at the end.
///
/// # Errors
/// The input fails, or has no message here.
pub(super) fn read(input: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let mut len = None;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            len = value.trim().parse::<usize>().ok();
        }
    }
    let len = len.filter(|&len| len <= MOST);
    let len = len.ok_or_else(|| io::Error::other("a message without a length"))?;
    let mut frame = vec![0; len];
    input.read_exact(&mut frame)?;
    Ok(Some(frame))
}

/// Writes a message.
///
/// # Errors
/// The output fails.
pub(super) fn write(out: &mut impl Write, frame: &Frame) -> io::Result<()> {
    const SHORT: usize = 1 << 12;
    let mut head = format!("Content-Length: {}\r\n\r\n", frame.len()).into_bytes();
    // Short messages are written at once, long ones not copied.
    if frame.len() <= SHORT {
        head.extend_from_slice(frame);
        out.write_all(&head)?;
    } else {
        out.write_all(&head)?;
        out.write_all(frame)?;
    }
    out.flush()
}

/// Returns a message.
pub(super) fn message(value: &Value) -> Frame {
    value.to_string().into_bytes()
}

/// Returns a notification.
pub(super) fn notification(method: &str, params: Value) -> Frame {
    message(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back() {
        let all = [
            b"{}".to_vec(),
            "{\"method\":\"ä\",\"id\":7}".into(),
            Vec::new(),
        ];
        let mut wire = Vec::new();
        for frame in &all {
            write(&mut wire, frame).expect("memory");
        }
        let mut input = &wire[..];
        for frame in &all {
            assert_eq!(read(&mut input).expect("there").as_ref(), Some(frame));
        }
        assert_eq!(read(&mut input).expect("the end"), None);
        let head = Head::of(&all[1]);
        assert!(head.is("ä") && head.id == Some(7.into()));
        let mut long = message(&json!({ "method": "m", "params": "x".repeat(9000) }));
        let mut wire = Vec::new();
        write(&mut wire, &long).expect("memory");
        assert_eq!(read(&mut &wire[..]).expect("there").as_ref(), Some(&long));
        // What follows the head is not read.
        long = br#"{"jsonrpc":"2.0","id":",\"params\":","method":"m","params":[1,"#.to_vec();
        let mut buffer = Vec::new();
        let head = Head::first(&long, &mut buffer);
        assert!(head.is("m") && head.id == Some(",\"params\":".into()));
        assert!(read(&mut &b"Content-Type: x\r\n\r\n{}"[..]).is_err());
    }
}
