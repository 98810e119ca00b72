//! A program on its own terminal, whose screen the test reads.
//!
//! Invariant: the terminal is the program's controlling terminal, so input to the terminal of the
//! tests never reaches the program.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};

use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;

use super::{needs, try_wait, wait_until};

/// The size of a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub columns: u16,
    pub rows: u16,
}

/// A program that runs on a terminal. Dropping it kills the program.
pub struct Terminal {
    child: Child,
    master: File,
    slave: OwnedFd,
    /// The settings before the program changed them.
    before: Termios,
    written: Receiver<Vec<u8>>,
    said: Vec<u8>,
    screen: vt100::Parser,
}

/// How a program left its terminal.
pub struct Left {
    pub status: ExitStatus,
    /// All output.
    pub said: String,
    /// Whether the alternate screen was left, the cursor is shown, and the settings are as before.
    pub is_restored: bool,
}

impl Terminal {
    /// Starts a program on a terminal of this size.
    pub fn start(program: &Command, size: Size) -> Terminal {
        let Size { columns, rows } = size;
        let winsize = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = openpty(Some(&winsize), None).expect("a terminal");
        let before = tcgetattr(&terminal.slave).expect("its settings");
        let slave = || terminal.slave.try_clone().expect("another");
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        command.current_dir(program.get_current_dir().expect("a directory"));
        command.stdin(slave()).stdout(slave()).stderr(slave());
        let child = command.spawn().expect("the program starts");
        drop(command);
        let master = File::from(terminal.master);
        Terminal {
            child,
            written: written(master.try_clone().expect("another")),
            master,
            slave: terminal.slave,
            before,
            said: Vec::new(),
            screen: parser(size),
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Types these characters.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("typed");
    }

    /// Resizes the terminal. The kernel notifies the program by SIGWINCH. `None` if stty is not
    /// installed.
    #[must_use]
    pub fn resize(&mut self, size: Size) -> Option<()> {
        let Size { columns, rows } = size;
        self.take();
        let [new_rows, new_columns] = [rows, columns].map(at_least_one);
        self.screen.screen_mut().set_size(new_rows, new_columns);
        let [rows, columns] = [rows, columns].map(|count| count.to_string());
        let mut stty = Command::new("stty");
        stty.args(["rows", &rows, "columns", &columns]);
        stty.stdin(self.slave.try_clone().expect("another"));
        let resized = needs::output(&mut stty)?;
        assert!(resized.status.success(), "{resized:?}");
        Some(())
    }

    /// Waits until `look` finds something in the screen's lines.
    #[track_caller]
    pub fn wait_for<T>(&mut self, what: &str, look: impl Fn(&[String]) -> Option<T>) -> T {
        let mut last = Vec::new();
        let found = try_wait(|| {
            last = self.lines();
            look(&last)
        });
        found.unwrap_or_else(|| panic!("not on the screen: {what}\n{}", last.join("\n")))
    }

    /// The lines that the screen shows now, without trailing spaces.
    pub fn lines(&mut self) -> Vec<String> {
        self.take();
        let (_, columns) = self.screen.screen().size();
        self.screen.screen().rows(0, columns.get()).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub fn left(mut self) -> Left {
        let status = wait_until("the program ends", || self.child.try_wait().expect("waited"));
        let settings = tcgetattr(&self.slave).expect("its settings");
        // The output is still in the terminal. A mark after it shows when all of it is read.
        File::from(self.slave.try_clone().expect("another")).write_all(b"\0").expect("written");
        wait_until("all is read", || {
            self.take();
            (self.said.last() == Some(&0)).then_some(())
        });
        let screen = self.screen.screen();
        let is_left = !screen.alternate_screen() && !screen.hide_cursor();
        let said = String::from_utf8_lossy(&self.said).into_owned();
        Left { status, said, is_restored: is_left && settings == self.before }
    }

    fn take(&mut self) {
        for bytes in self.written.try_iter() {
            self.screen.process(&bytes);
            self.said.extend(bytes);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parser(Size { columns, rows }: Size) -> vt100::Parser {
    vt100::Parser::new(at_least_one(rows), at_least_one(columns), 0)
}

fn at_least_one(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a size of a terminal")
}

/// Passes on the output of the terminal as it comes.
fn written(mut master: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // Ends when the last writer has closed the terminal, or when the receiver is gone.
        while let Ok(read @ 1..) = master.read(&mut bytes) {
            if sender.send(bytes[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}
