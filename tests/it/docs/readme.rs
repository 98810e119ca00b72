//! What README.md shows is what happens: its commands are run against the shipped configuration,
//! and answered as it says.

use std::process::Command;

use crate::common::{Server, Settings, Setup, needs, text};
use frs::conf::Conf;

const README: &str = include_str!("../../../README.md");

/// A fenced block: its language and text, and whether it stands right behind another.
struct Block {
    language: String,
    text: String,
    follows: bool,
}

fn blocks() -> Vec<Block> {
    let (mut blocks, mut open, mut follows) = (Vec::<Block>::new(), false, false);
    for line in README.lines() {
        match line.strip_prefix("```") {
            Some(_) if open => (open, follows) = (false, true),
            Some(language) => {
                open = true;
                blocks.push(Block { language: language.into(), text: String::new(), follows });
            }
            None if open => {
                let block = blocks.last_mut().expect("an open block");
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => follows = false,
        }
    }
    blocks
}

/// Without white space, and without the numbers that depend on when it was asked.
fn timeless(text: &str) -> String {
    let mut text: String = text.split_whitespace().collect();
    for before in ["reset=\"", "retry=\"", "\"reset\":", ";t=", "Retry-After:"] {
        let mut parts = text.split(before);
        let first = parts.next().unwrap_or_default().to_owned();
        text = parts.fold(first, |text, part| {
            text + before + part.trim_start_matches(|c: char| c.is_ascii_digit())
        });
    }
    text
}

/// Is it what the page shows, where `…` stands for anything?
fn is_shown(answer: &str, shown: &str) -> bool {
    let (answer, shown) = (timeless(answer), timeless(shown));
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let rest = answer.strip_prefix(first);
    let rest = parts.fold(rest, |rest, part| Some(rest?.split_once(part)?.1));
    rest.is_some_and(str::is_empty)
}

/// What lines of the page print.
fn run(setup: &Setup, lines: &str) -> String {
    let frs = env!("CARGO_BIN_EXE_frs");
    let lines = lines
        .replace("127.0.0.1:7600", &setup.address.to_string())
        .replace("127.0.0.1:7601", &admin_address(setup))
        .replace("target/release/frs", &format!("'{frs}'"));
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{lines}")])
        .current_dir(setup.dir.path())
        .output()
        .expect("sh runs");
    text(&output.stdout)
}

/// The same port, which is nobody else's, of another loopback address.
fn admin_address(setup: &Setup) -> String {
    format!("127.0.0.2:{}", setup.address.port())
}

#[test]
fn its_commands_are_answered_as_shown() {
    if needs::output(Command::new("curl").arg("--version")).is_none() {
        return;
    }
    let setup = Setup::new(&Settings::default());
    let srv = include_str!("../../../conf/srv.xml");
    let here = srv.replace("127.0.0.1:7600", &setup.address.to_string());
    let here = here.replace("127.0.0.1:7601", &admin_address(&setup));
    std::fs::write(setup.path("conf/srv.xml"), here).expect("written");
    setup.write_map(include_str!("../../../conf/map.xml"));

    let mut server: Option<Server<'_>> = Some(setup.start());
    let mut answer = None;
    let mut compared = 0;
    for block in blocks() {
        let shown = answer.take().filter(|_| block.follows);
        if block.language == "sh" && !block.text.contains("cargo ") {
            if block.text.contains("curl ") {
                server.get_or_insert_with(|| setup.start());
            }
            answer = Some(run(&setup, &block.text));
            if block.text.contains("kill -9 ") {
                server.take().expect("a server to kill").wait();
            }
        } else if let Some(answer) = shown {
            assert!(is_shown(&answer, &block.text), "shown: {}\nfound: {answer}", block.text);
            compared += 1;
        }
    }
    assert_eq!(compared, 15, "answers that the page shows");
    assert!(setup.frs(&["stop"]).status.success());
    assert!(server.expect("a server").wait().success());
}

#[test]
fn its_map_is_sound() {
    let map = blocks().into_iter().find(|block| block.text.starts_with("<map>")).expect("a map");
    let conf = Conf::parse("srv.xml", "<srv/>", "README.md", &map.text);
    let conf = conf.unwrap_or_else(|faults| panic!("{faults}"));
    assert!(conf.map.find_biz("upload").is_some());
}

#[test]
fn shown_is_what_differs_in_times_only() {
    let shown = "a  reset=\"60000\"\n…\nRetry-After: 600\nb";
    assert!(is_shown("a reset=\"1\" c d Retry-After: 7\r\n b", shown));
    assert!(!is_shown("a reset=\"1\" c d Retry-After: 7 c", shown));
    assert!(!is_shown("a reset=\"1\" Retry-After 7 b", shown));
    assert!(!is_shown("a used=\"1\"", "a used=\"2\""));
}
