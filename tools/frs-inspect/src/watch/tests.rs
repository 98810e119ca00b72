//! The end of the two threads.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Command;

use nix::pty::{Winsize, openpty};
use nix::sys::termios::tcgetattr;

use super::*;

#[test]
fn who_looks_no_more_is_missed() {
    let (sender, receiver) = mpsc::sync_channel(1);
    let mut latest = None;
    assert!(take_all(&receiver, &mut latest).is_ok());
    sender.send(Ok(WatchFigures::default())).unwrap();
    assert!(take_all(&receiver, &mut latest).is_ok());
    assert_eq!(latest, Some(WatchFigures::default()));
    // The thread drops its sender when it panics.
    drop(sender);
    assert!(take_all(&receiver, &mut latest).is_err());
}

#[test]
#[ignore = "a program of a_panic_gives_the_terminal_back"]
fn panics_on_its_terminal() {
    let _ = with_terminal(|terminal| {
        terminal.draw(|frame| frame.render_widget("drawn", frame.area()))?;
        panic!("a fault");
    });
}

// Shows: watch.
#[test]
fn a_panic_gives_the_terminal_back() {
    let size = Winsize { ws_row: 20, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(Some(&size), None).unwrap();
    let before = tcgetattr(&terminal.slave).unwrap();
    let slave = || terminal.slave.try_clone().unwrap();
    let program = ["--ignored", "--exact", "watch::tests::panics_on_its_terminal", "--nocapture"];
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("RUST_BACKTRACE", "0");
    command.args(program).stdin(slave()).stdout(slave()).stderr(slave());
    let status = command.status().unwrap();
    drop(command);
    assert_eq!(tcgetattr(&terminal.slave).unwrap(), before);
    let mut slave = File::from(terminal.slave);
    // All of the output fits into the terminal's buffer. A zero byte marks its end.
    slave.write_all(b"\0").unwrap();
    let (mut master, mut said) = (File::from(terminal.master), Vec::new());
    while said.last() != Some(&0) {
        let mut bytes = [0; 4096];
        let read = master.read(&mut bytes).unwrap();
        said.extend(&bytes[..read]);
    }
    let said = String::from_utf8_lossy(&said);
    assert!(!status.success() && said.contains("drawn"), "{said:?}");
    let (_, after) = said.split_once("\x1b[?1049l").expect("it leaves the alternate screen");
    assert!(after.contains("a fault") && after.contains("\x1b[?25h"), "{said:?}");
}
