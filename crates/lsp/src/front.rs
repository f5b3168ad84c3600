//! The process that an editor starts: it keeps the session, and another one serves it.
//!
//! Names live as long as the process that met them. A server that has met too many asks to be
//! relieved ([`FULL`]); one may also end by a defect. This process then starts another server, tells
//! it what the session is (`initialize`, the texts of the open documents), and the editor notices
//! nothing: requests that were not answered are sent again, once; the diagnostics that the editor
//! has are not sent again.
//!
//! All messages pass one thread in their order; what is of no concern here passes as it is, so that a
//! large answer costs a look at its head.

mod frames;
mod session;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use frames::{Frame, Head};
use session::{Session, Way};

/// The notification by which a server asks to be relieved. It answers what it has been sent when its
/// input ends, and ends too.
pub(crate) const FULL: &str = "$/relax/full";

/// The notification by which an editor ends the session.
const EXIT: &str = "exit";

/// A session is given up when servers fail more often than this within [`LATELY`].
const MOST_FAILURES: usize = 4;
const LATELY: Duration = Duration::from_secs(180);

/// What happens to a session.
enum Event {
    /// The editor says something; `None`: its end.
    Editor(Option<Frame>),
    /// The server with this number says something; `None`: its end.
    Server(u64, Option<Frame>),
}

/// A running server.
struct Server {
    child: Child,
    /// Closed when the server is to end.
    input: Option<ChildStdin>,
}

struct Front {
    program: Vec<OsString>,
    events: Sender<Event>,
    server: Server,
    /// The number of the server, from 1.
    number: u64,
    session: Session,
    /// What the editor says while no server listens.
    waiting: VecDeque<Frame>,
    failures: VecDeque<Instant>,
}

/// Serves the editor at standard input and output by servers that `program` starts; returns the exit
/// code.
///
/// # Errors
/// A server cannot be started, or servers fail again and again.
pub(crate) fn serve(program: Vec<OsString>) -> Result<u8, String> {
    let (events, happened) = unbounded();
    let editor = events.clone();
    std::thread::spawn(move || {
        read_all(std::io::stdin().lock(), |frame| {
            editor.send(Event::Editor(frame)).is_ok()
        });
    });
    let number = 1;
    let server = start(&program, number, &events)?;
    let mut front = Front {
        program,
        events,
        server,
        number,
        session: Session::default(),
        waiting: VecDeque::new(),
        failures: VecDeque::new(),
    };
    front.run(&happened)
}

/// Hands over what is read, and then the end, as long as it is wanted.
fn read_all(input: impl std::io::Read, mut hand: impl FnMut(Option<Frame>) -> bool) {
    let mut input = BufReader::new(input);
    // An unreadable frame is the end: what follows has no beginning.
    while let Ok(Some(frame)) = frames::read(&mut input) {
        if !hand(Some(frame)) {
            return;
        }
    }
    hand(None);
}

fn start(program: &[OsString], number: u64, events: &Sender<Event>) -> Result<Server, String> {
    let (name, arguments) = program.split_first().ok_or("there is no server to start")?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    without_window(&mut command);
    let failed = |e: std::io::Error| format!("{} does not start: {e}", name.display());
    let mut child = command.spawn().map_err(failed)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let output = output.ok_or("the server has no output")?;
    let events = events.clone();
    std::thread::spawn(move || {
        read_all(output, |frame| {
            events.send(Event::Server(number, frame)).is_ok()
        });
    });
    Ok(Server { child, input })
}

/// Editors start servers without a console; a server's own would open a window.
#[cfg(windows)]
fn without_window(command: &mut Command) {
    use std::os::windows::process::CommandExt as _;
    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    command.creation_flags(CREATE_NO_WINDOW);
}

#[cfg(not(windows))]
fn without_window(_: &mut Command) {}

impl Front {
    fn run(&mut self, happened: &Receiver<Event>) -> Result<u8, String> {
        loop {
            // This process holds a sender itself.
            let Ok(event) = happened.recv() else {
                return Err("the session has no events".into());
            };
            match event {
                Event::Editor(Some(frame)) => {
                    if Head::of(&frame).is(EXIT) {
                        return Ok(self.exit(frame));
                    }
                    self.editor_says(frame);
                }
                Event::Editor(None) => {
                    self.server.input = None;
                    return Ok(self.code().unwrap_or(0));
                }
                Event::Server(number, frame) if number == self.number => match frame {
                    Some(frame) => self.server_says(frame),
                    None => self.relieve()?,
                },
                Event::Server(..) => {}
            }
        }
    }

    /// Ends the session as the protocol says: with 0 after a shutdown, else 1.
    fn exit(&mut self, frame: Frame) -> u8 {
        self.tell(&frame);
        self.server.input = None;
        let asked = self.session.shut_down;
        let code = self.code();
        match asked {
            true => code.unwrap_or(0),
            false => 1,
        }
    }

    /// Waits for the server's end; returns its exit code, if it has one.
    fn code(&mut self) -> Option<u8> {
        let status = self.server.child.wait().ok()?;
        status.code().and_then(|code| u8::try_from(code).ok())
    }

    fn editor_says(&mut self, frame: Frame) {
        if self.server.input.is_none() {
            self.waiting.push_back(frame);
            return;
        }
        if let Some(frame) = self.session.editor_says(frame, self.number) {
            self.tell(&frame);
        }
    }

    fn server_says(&mut self, frame: Frame) {
        match self.session.server_says(frame, self.number) {
            Way::Full => self.server.input = None,
            Way::Editor(frame) => say(&frame),
            Way::Server(frame) => self.tell(&frame),
            Way::Nowhere => {}
        }
    }

    /// Starts a server in the place of one that has ended.
    fn relieve(&mut self) -> Result<(), String> {
        let asked = self.server.input.take().is_none();
        let status = self.server.child.wait();
        if self.session.shut_down && self.session.open_requests() == 0 {
            // Nothing is left but the editor's `exit`.
            return Ok(());
        }
        if asked {
            self.note("another server takes over, which knows none of the names that were typed");
        } else {
            let how = status.map_or_else(|e| e.to_string(), |status| status.to_string());
            let now = Instant::now();
            self.failures.push_back(now);
            self.failures.retain(|&at| now.duration_since(at) < LATELY);
            if self.failures.len() > MOST_FAILURES {
                return Err(format!("the server fails again and again ({how})"));
            }
            self.note(&format!(
                "the server failed ({how}); another one takes over"
            ));
        }
        self.number += 1;
        self.server = start(&self.program, self.number, &self.events)?;
        let (again, refused) = self.session.again(asked);
        refused.iter().for_each(say);
        again.iter().for_each(|frame| self.tell(frame));
        for frame in std::mem::take(&mut self.waiting) {
            self.editor_says(frame);
        }
        Ok(())
    }

    /// Says something to the server. One that does not listen has ended, which is an event of its
    /// own.
    fn tell(&mut self, frame: &Frame) {
        if let Some(input) = &mut self.server.input {
            let _ = frames::write(input, frame);
        }
    }

    /// Writes to the editor's log.
    fn note(&self, said: &str) {
        const LOG: u8 = 4;
        let params = serde_json::json!({ "type": LOG, "message": format!("relax-lsp: {said}") });
        say(&frames::notification("window/logMessage", params));
    }
}

/// Says something to the editor. One that does not listen has gone, which its input tells.
fn say(frame: &Frame) {
    let mut out = std::io::stdout().lock();
    let _ = frames::write(&mut out, frame).and_then(|()| out.flush());
}
