//! `watch` shows a live view, full screen.
//!
//! One thread looks into the files, for at most half of the time. Another thread draws and reads
//! the keyboard. So a large group does not delay the screen, and a slow terminal does not delay the
//! looks.
//!
//! Invariant: the terminal is restored, whether the program ends by a key, an error, a signal or a
//! panic.

mod choice;
mod columns;
mod figures;
mod health;
mod sample;
mod screen;
mod section;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::time::Duration;

use frs_cluster::PLUG;
use frs_engine::inspect::Reader;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::layout::Rect;
use ratatui::widgets::Paragraph;

use crate::output::{Completed, Failure};
use choice::{Choice, Pressed};
use figures::WatchFigures;
use sample::Sampler;
use screen::Size;

/// The least pause between two looks into the files.
const EVERY: Duration = Duration::from_secs(1);
/// Leaves the alternate screen and shows the cursor. It is written when a signal ends the program.
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";
/// The longest wait for a key between two drawings.
const LISTEN: Duration = Duration::from_millis(100);

pub fn run(data_dir: &Path) -> Result<Completed, Failure> {
    let reader = Reader::open(data_dir, PLUG)?;
    if !std::io::stdout().is_terminal() {
        return Err(Failure::Message(
            "watch draws on a terminal: for files and pipes use stat".into(),
        ));
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || look(reader, &sender));
    let view = WatchView::new(&data_dir.display().to_string());
    with_terminal(|terminal| show(terminal, &receiver, view))
}

/// Restores the terminal when `show` returns or panics, and when a signal ends the program.
fn with_terminal(
    show: impl FnOnce(&mut DefaultTerminal) -> Result<Completed, Failure>,
) -> Result<Completed, Failure> {
    frs_base::sys::keep_terminal(LEAVE).map_err(Failure::of)?;
    // This also sets a hook that restores the terminal before a panic is reported.
    let mut terminal = ratatui::try_init().map_err(Failure::of)?;
    let result = show(&mut terminal);
    ratatui::restore();
    result
}

/// Looks until the receiver is gone, or the directory can no longer be read.
fn look(reader: Reader, sender: &SyncSender<Result<WatchFigures, frs_engine::inspect::Error>>) {
    let mut sampler = Sampler::new(reader);
    loop {
        let begun = frs_base::clock::instant();
        let mut sampled = sampler.sample(frs_base::clock::now(), begun);
        if let Ok(figures) = &mut sampled {
            // The walk took time. With the later clock, no node that it met is from the future.
            figures.now_ms = figures.now_ms.max(frs_base::clock::now());
        }
        let is_over = sampled.is_err();
        if sender.send(sampled).is_err() || is_over {
            return;
        }
        std::thread::sleep(EVERY.max(frs_base::clock::since(begun)));
    }
}

/// The latest figures, and the user's choices.
struct WatchView {
    title: String,
    figures: Option<WatchFigures>,
    choice: Choice,
}

impl WatchView {
    fn new(title: &str) -> WatchView {
        WatchView { title: title.to_owned(), figures: None, choice: Choice::default() }
    }

    fn press(&mut self, key: KeyEvent, size: Size) -> Pressed {
        let figures = self.figures.as_ref();
        let page = figures.map_or(1, |figures| screen::page(figures, &self.choice, size));
        self.choice.press(key, figures.map_or(&[], |figures| &figures.bizs), page)
    }

    fn draw(&self, size: Size) -> Paragraph<'static> {
        Paragraph::new(screen::screen(&self.title, self.figures.as_ref(), &self.choice, size))
    }
}

impl From<Rect> for Size {
    fn from(area: Rect) -> Size {
        Size { columns: area.width.into(), lines: area.height.into() }
    }
}

/// Shows the other thread's figures until the user quits. Each turn reads the size of the terminal
/// again.
fn show(
    terminal: &mut DefaultTerminal,
    receiver: &Receiver<Result<WatchFigures, frs_engine::inspect::Error>>,
    mut view: WatchView,
) -> Result<Completed, Failure> {
    loop {
        take_all(receiver, &mut view.figures)?;
        let drawn = terminal.draw(|frame| {
            frame.render_widget(view.draw(frame.area().into()), frame.area());
        })?;
        let size = drawn.area.into();
        if !event::poll(LISTEN)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && view.press(key, size) == Pressed::Quit
        {
            return Ok(Completed::Clean);
        }
    }
}

/// Takes all results of the other thread. Fails if that thread has ended.
fn take_all(
    receiver: &Receiver<Result<WatchFigures, frs_engine::inspect::Error>>,
    latest: &mut Option<WatchFigures>,
) -> Result<(), Failure> {
    loop {
        match receiver.try_recv() {
            Ok(figures) => *latest = Some(figures?),
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => {
                return Err(Failure::Message(
                    "the thread that reads the files has ended".to_owned(),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
