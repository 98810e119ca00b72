//! The faces of programs in other languages that attach: C and Python, each in its own process.
//!
//! A program takes the data directory as its argument and obeys lines. A request is the line
//! `update` or `query`, `each` or `atomic`, and the number of items; `once=TEXT` may follow. Each
//! item has a line: business, key and its options, such as `count=3`, `force` or `member=TEXT`,
//! named as in XML. A missing option is left out, and texts are hexadecimal after an `x`. The
//! answer is `refused=true`, `refused=false` or `fault=WORD`, then a line `item` for each item with
//! its values named as in XML. A line `limit` follows for each of the item's limits, with its
//! history joined by commas. The last line is `end`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::ask::{Ask, AskItem, Extra};
use super::{Face, Fault, Told};
use crate::common::c_library::Installed;
use crate::common::items::{Item, Values};
use crate::common::python::python;

const FOLDER: &str = "tests/it/faces/drivers";
const C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/faces/drivers/driver.c");

pub struct Driven {
    program: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The installed library, kept while the program runs.
    _installed: Option<Installed>,
}

impl Driven {
    /// The driver in C. `None` if there is no compiler.
    #[track_caller]
    pub fn c(data: &Path) -> Option<Driven> {
        let installed = Installed::new();
        let program = installed.compile(Path::new(C), "driver")?;
        let mut command = installed.command(program);
        command.arg(data);
        Some(Driven::start(&mut command, Some(installed)))
    }

    /// The driver in Python. `None` if Python or its package is missing.
    #[track_caller]
    pub fn python(data: &Path) -> Option<Driven> {
        let mut command = python(FOLDER)?;
        command.arg("driver.py").arg(data);
        Some(Driven::start(&mut command, None))
    }

    fn start(command: &mut Command, installed: Option<Installed>) -> Driven {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().expect("the driver starts");
        let (input, output) = (program.stdin.take(), program.stdout.take().expect("piped"));
        Driven { program, input, output: BufReader::new(output), _installed: installed }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let bytes = self.output.read_line(&mut line).expect("readable");
        assert!(bytes > 0, "the driver has ended: its output says why");
        line.truncate(bytes - 1);
        line
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        drop(self.input.take());
        let status = self.program.wait().expect("it ends");
        if !std::thread::panicking() {
            assert!(status.success(), "{status}");
        }
    }
}

fn request(ask: &Ask) -> String {
    let call = if ask.is_update { "update" } else { "query" };
    let kind = if ask.is_atomic { "atomic" } else { "each" };
    let items: String = ask.items.iter().map(item).collect();
    let once = ask.once.as_ref().map(|id| format!(" once={}", hex(id))).unwrap_or_default();
    format!("{call} {kind} {}{once}\n{items}", ask.items.len())
}

fn item(item: &AskItem) -> String {
    let AskItem { biz, key, count, force, detail, extras } = item;
    let mut words = vec![hex(biz), hex(key)];
    words.extend(count.map(|count| format!("count={count}")));
    words.extend(extras.set().map(|(name, extra)| match extra {
        Extra::Text(text) => format!("{name}={}", hex(text)),
        Extra::Number(number) => format!("{name}={number}"),
        Extra::Flag => name.to_owned(),
    }));
    let flags = [(force, "force"), (detail, "detail")];
    words.extend(flags.iter().filter(|(is_set, _)| **is_set).map(|(_, name)| (*name).to_owned()));
    words.join(" ") + "\n"
}

fn hex(text: &str) -> String {
    text.bytes().fold("x".to_owned(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn values<'l>(words: impl Iterator<Item = &'l str>) -> Values {
    let pairs = words.map(|word| word.split_once('=').expect("name=value"));
    // The windows of a history are joined by commas.
    Values(pairs.map(|(name, value)| (name.to_owned(), value.replace(',', " "))).collect())
}

impl Face for Driven {
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>> {
        let input = self.input.as_mut().expect("it is asked");
        input.write_all(request(ask).as_bytes()).expect("the driver reads");
        let first = self.line();
        let (what, word) = first.split_once('=').expect("name=value");
        let mut items: Vec<Item> = Vec::new();
        loop {
            let line = self.line();
            let mut words = line.split(' ');
            match words.next() {
                Some("item") => items.push(Item { values: values(words), limits: Vec::new() }),
                Some("limit") => {
                    items.last_mut().expect("in an item").limits.push(values(words));
                }
                Some("end") => break,
                _ => panic!("{line}"),
            }
        }
        match what {
            "fault" => Some(Err(word.to_owned())),
            _ => Some(Ok(Told { refused: word == "true", items })),
        }
    }
}
