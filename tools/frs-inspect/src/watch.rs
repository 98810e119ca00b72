//! `watch` shows a live view, full screen.
//!
//! One thread looks into the files, for at most half of the time. The other draws and reads the
//! keyboard. So a large group does not delay the screen, and a slow terminal does not delay the
//! looks.

mod sample;
mod view;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::time::Duration;

use frs::inspect::Reader;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::output::{Done, Failed};
use sample::{Rates, Sampler};
use view::View;

/// The pause between two looks into the files.
const EVERY: Duration = Duration::from_secs(1);
/// Leaves the alternate screen and shows the cursor, when a signal ends the program.
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";
/// The pause between two looks at the keyboard.
const LISTEN: Duration = Duration::from_millis(100);

pub fn run(data_dir: &Path) -> Result<Done, Failed> {
    let reader = Reader::open(data_dir)?;
    if !std::io::stdout().is_terminal() {
        return Err(Failed::Said("watch draws on a terminal: for files and pipes use stat".into()));
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || look(reader, &sender));
    frs::base::sys::keep_terminal(LEAVE).map_err(Failed::of)?;
    let mut terminal = ratatui::try_init().map_err(Failed::of)?;
    let result = draw(&mut terminal, &receiver, View::new(&data_dir.display().to_string()));
    ratatui::restore();
    result
}

/// Looks until the receiver is gone, or the directory cannot be read any more.
fn look(reader: Reader, sender: &SyncSender<Result<Rates, frs::inspect::Error>>) {
    let mut sampler = Sampler::new(reader);
    loop {
        let begun = frs::base::clock::instant();
        let sampled = sampler.sample(frs::base::clock::now(), begun);
        let is_over = sampled.is_err();
        if sender.send(sampled).is_err() || is_over {
            return;
        }
        std::thread::sleep(EVERY.max(frs::base::clock::since(begun)));
    }
}

fn draw(
    terminal: &mut DefaultTerminal,
    receiver: &Receiver<Result<Rates, frs::inspect::Error>>,
    mut view: View,
) -> Result<Done, Failed> {
    loop {
        take_all(receiver, &mut view)?;
        terminal.draw(|frame| view.draw(frame))?;
        if !event::poll(LISTEN)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Release => {}
            Event::Key(key) if quits(key) => return Ok(Done::Fine),
            Event::Key(KeyEvent { code: KeyCode::Tab | KeyCode::Right, .. }) => view.next(),
            Event::Key(KeyEvent { code: KeyCode::BackTab | KeyCode::Left, .. }) => view.previous(),
            _ => {}
        }
    }
}

/// Takes the other thread's results; an error if that thread has ended.
fn take_all(
    receiver: &Receiver<Result<Rates, frs::inspect::Error>>,
    view: &mut View,
) -> Result<(), Failed> {
    loop {
        match receiver.try_recv() {
            Ok(rates) => view.take(rates?),
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => {
                return Err(Failed::Said("the thread that reads the files has ended".to_owned()));
            }
        }
    }
}

fn quits(key: KeyEvent) -> bool {
    let interrupts = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    interrupts || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_no_more_is_missed() {
        let (sender, receiver) = mpsc::sync_channel(1);
        let mut view = View::new("data");
        assert!(take_all(&receiver, &mut view).is_ok());
        sender.send(Ok(Rates::default())).unwrap();
        assert!(take_all(&receiver, &mut view).is_ok());
        // As when the thread panics.
        drop(sender);
        assert!(take_all(&receiver, &mut view).is_err());
    }
}
