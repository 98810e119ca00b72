//! The documents match reality: their commands run against the shipped configuration and give the
//! shown answers, their configurations have no faults, and their links have targets.
//!
//! Each page has its own server, and its commands work if only that page is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::common::address::Reserved;
use crate::common::metrics::{self, Scrape};
use crate::common::{Client, Server, Settings, Setup, files, needs, text, tools};
use frs_conf::{Conf, duration};
use frs_engine::testing::World;
use frs_engine::{Extras, ItemOptions, Request, Service};

/// The pages with commands, and the number of answers that each shows.
const PAGES: [(&str, usize); 8] = [
    ("README.md", 7),
    ("docs/admin.md", 12),
    ("docs/cluster.md", 1),
    ("docs/configuration.md", 4),
    ("docs/inspect.md", 5),
    ("docs/limits.md", 3),
    ("docs/operations.md", 5),
    ("docs/protocol.md", 18),
];

/// The languages of blocks. `console` blocks cannot be run here.
const LANGUAGES: [&str; 16] = [
    "sh",
    "console",
    "xml",
    "json",
    "http",
    "text",
    "ini",
    "yaml",
    "rust,no_run",
    "c",
    "python",
    "js",
    "ruby",
    "go",
    "php",
    "java",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The path of every document, from the root.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    let examples = [
        "conf/examples/",
        "conf/examples/gateways/",
        "conf/examples/cluster/",
        "conf/examples/mirror/",
    ];
    for directory in ["", "docs/"].into_iter().chain(examples) {
        for entry in std::fs::read_dir(root().join(directory)).expect("readable") {
            let name = entry.expect("readable").file_name().into_string().expect("UTF-8");
            if name.ends_with(".md") {
                pages.push(format!("{directory}{name}"));
            }
        }
    }
    pages.sort();
    pages
}

/// A fenced block: its language, its text, and whether it directly follows another.
struct Block {
    language: String,
    text: String,
    follows: bool,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open, mut follows) = (Vec::<Block>::new(), false, false);
    for line in page.lines() {
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
    assert!(!open, "a block that does not end");
    blocks
}

/// A page without its blocks.
fn prose(page: &str) -> String {
    let mut open = false;
    let lines = page.lines().filter(|line| {
        let fence = line.starts_with("```");
        open ^= fence;
        !open && !fence
    });
    lines.map(|line| line.to_owned() + "\n").collect()
}

/// The text without white space, and without the numbers that depend on the time.
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

/// Whether the page shows this answer. `…` matches anything.
fn is_shown(answer: &str, shown: &str) -> bool {
    let (answer, shown) = (timeless(answer), timeless(shown));
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = answer.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        // The last part must be at the end, even if it also occurs before.
        let found = match parts.peek() {
            None => rest.ends_with(part).then_some(""),
            Some(_) => rest.split_once(part).map(|(_, rest)| rest),
        };
        let Some(found) = found else { return false };
        rest = found;
    }
    rest.is_empty()
}

/// The output of the lines of a page.
fn run(setup: &Setup, lines: &str) -> String {
    let program = |path: &Path| format!("'{}'", path.display());
    let mut lines = lines
        .replace("127.0.0.1:7600", &setup.address.to_string())
        .replace("127.0.0.1:7601", &admin_address(setup));
    // Longer names first.
    for tool in ["frs-inspect", "frs-load"] {
        let path = format!("target/release/{tool}");
        if lines.contains(&path) {
            lines = lines.replace(&path, &program(&tools::tool(tool)));
        }
    }
    let lines = lines.replace("target/release/frs", &program(Path::new(env!("CARGO_BIN_EXE_frs"))));
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{lines}")])
        .current_dir(setup.dir.path())
        .output()
        .expect("sh runs");
    // The output shows the addresses of the page.
    text(&output.stdout)
        .replace(&setup.address.to_string(), "127.0.0.1:7600")
        .replace(&admin_address(setup), "127.0.0.1:7601")
}

/// The same port on another loopback address. No other test gets the port.
fn admin_address(setup: &Setup) -> String {
    format!("127.0.0.2:{}", setup.address.port())
}

/// A setup with the shipped configuration.
fn shipped() -> Setup {
    let setup = Setup::new(&Settings::default());
    let srv = include_str!("../../../conf/srv.xml");
    let here = srv.replace("127.0.0.1:7600", &setup.address.to_string());
    let here = here.replace("127.0.0.1:7601", &admin_address(&setup));
    std::fs::write(setup.path("conf/srv.xml"), here).expect("written");
    setup.write_map(include_str!("../../../conf/map.xml"));
    setup
}

/// Runs the commands of a page in order, and compares each answer with the block after them.
fn follow(page: &str) {
    if needs::output(Command::new("curl").arg("--version")).is_none() {
        return;
    }
    let setup = shipped();
    let mut server: Option<Server<'_>> = Some(setup.start());
    let mut answer = None;
    let mut compared = 0;
    for block in blocks(&read(page)) {
        let shown = answer.take().filter(|_| block.follows);
        if block.language == "sh" && !block.text.contains("cargo ") {
            if block.text.contains("curl ") {
                server.get_or_insert_with(|| setup.start());
            }
            answer = Some(run(&setup, &block.text));
            // If all processes are killed, the server is gone. If only some are, the server
            // replaces them.
            if block.text.contains("kill -9 ") && !block.text.contains("^worker") {
                server.take().expect("a server to kill").wait();
            }
            if block.text.contains("target/release/frs stop") {
                assert!(server.take().expect("a server to stop").wait().success());
            }
        } else if let Some(answer) = shown {
            assert!(
                is_shown(&answer, &block.text),
                "{page} shows: {}\nfound: {answer}",
                block.text
            );
            compared += 1;
        }
    }
    let expected = PAGES.iter().find(|(name, _)| *name == page).map(|(_, answers)| *answers);
    assert_eq!(Some(compared), expected, "answers that {page} shows");
    if let Some(mut server) = server {
        assert!(setup.frs(&["stop"]).status.success());
        assert!(server.wait().success());
    }
}

// Shows: deaths-lose-nothing, documents.
#[test]
fn its_commands_are_answered_as_shown() {
    follow("README.md");
}

// Shows: documents.
#[test]
fn commands_of_the_admin_plane_are_answered_as_shown() {
    follow("docs/admin.md");
}

#[test]
fn commands_about_several_machines_are_answered_as_shown() {
    follow("docs/cluster.md");
}

#[test]
fn commands_about_the_configuration_are_answered_as_shown() {
    follow("docs/configuration.md");
}

// Shows: documents.
#[test]
fn commands_that_inspect_are_answered_as_shown() {
    follow("docs/inspect.md");
}

#[test]
fn commands_about_limits_are_answered_as_shown() {
    follow("docs/limits.md");
}

// Shows: documents.
#[test]
fn commands_of_operators_are_answered_as_shown() {
    follow("docs/operations.md");
}

// Shows: documents.
#[test]
fn commands_of_the_protocol_are_answered_as_shown() {
    follow("docs/protocol.md");
}

#[test]
fn every_page_with_commands_is_followed() {
    let commands = |page: &String| {
        let blocks = blocks(&read(page));
        blocks.iter().any(|block| block.language == "sh" && !block.text.contains("cargo "))
    };
    // The examples have their own configurations and tests.
    let pages = pages().into_iter().filter(|page| !page.starts_with("conf/"));
    let found: Vec<String> = pages.filter(commands).collect();
    assert_eq!(found, PAGES.map(|(name, _)| name.to_owned()));
}

#[test]
fn every_block_has_a_language() {
    for page in pages() {
        for Block { language, text, .. } in blocks(&read(&page)) {
            assert!(LANGUAGES.contains(&language.as_str()), "{page}: {language:?} of\n{text}");
        }
    }
}

#[test]
fn rust_is_compiled_by_the_doc_tests() {
    let crate_root = include_str!("../../../src/server/lib.rs");
    for page in pages() {
        if read(&page).contains("\n```rust") {
            assert!(crate_root.contains(&format!("include_str!(\"../../{page}\")")), "{page}");
        }
    }
}

/// A complete map.xml around the part that a page shows. `None` if the part is something else, such
/// as an answer.
fn map_of(shown: &str) -> Option<String> {
    let element = shown.trim_start().split([' ', '>', '/']).next()?;
    let group = r#"<group name="default" files="1" key-nodes="16" node-size="512"/>"#;
    match element {
        "<map" => Some(shown.to_owned()),
        "<group" => Some(format!("<map>{shown}</map>")),
        "<biz" => Some(format!("<map>{group}{shown}</map>")),
        "<limit" => Some(format!(
            "<map>{group}<biz id=\"1\" name=\"biz\" key=\"string\">{shown}</biz></map>"
        )),
        _ => None,
    }
}

/// A srv.xml for maps whose limits may be shared.
const WITH_CLUSTER: &str = "<srv><cluster name='prod' secret-file='conf/cluster.secret'>\
                            <node>10.0.0.1:6379</node></cluster></srv>";

/// A srv.xml for maps whose records are mirrored.
const WITH_PEERS: &str = "<srv><peers name='prod' secret-file='conf/peers.secret' \
                          listen='10.0.0.1:7610'><peer>10.0.0.2:7610</peer></peers></srv>";

#[test]
fn every_configuration_shown_has_no_fault() {
    let mut shown = 0;
    for page in pages() {
        for Block { text, .. } in
            blocks(&read(&page)).into_iter().filter(|block| block.language == "xml")
        {
            let (srv, map) = match map_of(&text) {
                Some(map) if map.contains(" mirror=") => (WITH_PEERS.to_owned(), map),
                Some(map) => (WITH_CLUSTER.to_owned(), map),
                None if text.starts_with("<srv") => {
                    (text.clone(), include_str!("../../../conf/map.xml").to_owned())
                }
                None => continue,
            };
            let conf = Conf::parse("srv.xml", &srv, "map.xml", &map);
            conf.unwrap_or_else(|faults| panic!("{page}: {faults}\n{text}"));
            shown += 1;
        }
    }
    assert!(shown >= 20, "{shown} configurations");
}

/// The time at which worked cases begin: a Thursday, and the first of a month and of a year.
const BEGIN: &str = "2026-01-01T00:00:00Z";

fn instant(at: &str) -> u64 {
    let parse = |text: &str| text.parse::<jiff::Timestamp>().expect("an instant").as_millisecond();
    match duration(0, 1 << 50)(at) {
        Ok(after) => parse(BEGIN) as u64 + after,
        Err(_) => parse(at) as u64,
    }
}

/// A table of worked cases: its columns, and its rows by column.
struct Cases {
    limits: String,
    rows: Vec<BTreeMap<String, String>>,
}

/// The worked cases of a page: each limit or business that is followed by a table of cases.
fn cases(page: &str) -> Vec<Cases> {
    let (mut found, mut limits) = (Vec::<Cases>::new(), None);
    let mut columns: Vec<String> = Vec::new();
    let mut block = None::<String>;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            match block.take() {
                Some(text) => limits = map_of(&text).or(limits),
                None if language == "xml" => block = Some(String::new()),
                None => {}
            }
        } else if let Some(text) = &mut block {
            *text += line;
            *text += "\n";
        } else if let Some(row) = line.strip_prefix("| ") {
            // A bar in a cell is escaped.
            let row = row.replace("\\|", "\0");
            let cells = row.trim_end().trim_end_matches('|').split('|');
            let cells: Vec<String> = cells.map(|cell| cell.trim().replace('\0', "|")).collect();
            if cells.first().is_some_and(|cell| cell == "at") {
                columns = cells;
                let limits = limits.clone().expect("limits before their cases");
                found.push(Cases { limits, rows: Vec::new() });
            } else if !columns.is_empty() && !row.starts_with("---") {
                let row = columns.iter().cloned().zip(cells).collect();
                found.last_mut().expect("a table").rows.push(row);
            }
        } else {
            columns.clear();
        }
    }
    found
}

/// The options of an item as a table writes them: `rate="5/1m 100/1h" hold="a"`.
fn options(text: &str) -> Vec<(&str, &str)> {
    let mut parts = text.split('"');
    let named = std::iter::from_fn(|| Some((parts.next()?.trim(), parts.next()?)));
    named.map(|(name, value)| (name.strip_suffix('=').expect("a value"), value)).collect()
}

/// What an item brings, of a row's options and its member.
fn brought<'r>(options: &[(&str, &'r str)], member: Option<&'r str>) -> Extras<&'r str> {
    let mut brought = Extras { member, ..Extras::NONE };
    for &(name, value) in options {
        let number = Some(value.parse().ok());
        match name {
            "rate" => brought.rate = Some(value),
            "burst" => brought.burst = number,
            "max" => brought.max = number,
            "partial" => brought.partial = value == "true",
            "once" => brought.once = Some(value),
            "hold" => brought.hold = Some(value),
            "ttl" => brought.ttl_ms = number,
            "settle" => brought.settle = value == "true",
            other => panic!("{other:?}"),
        }
    }
    brought
}

/// Runs the command of a row: `3`, `query 3`, `force 3`, each with options behind it.
fn ask(
    service: &mut Service,
    row: &BTreeMap<String, String>,
    now: u64,
) -> BTreeMap<&'static str, String> {
    use frs_engine::Command::{Query, Update};
    let (asks, key) = (row["asks"].as_str(), row.get("key").map_or("alice", String::as_str));
    let (command, force, asks) = match asks.split_once(' ') {
        Some(("query", asks)) => (Query, false, asks),
        Some(("force", asks)) => (Update, true, asks),
        _ => (Update, false, asks),
    };
    let (count, said) = asks.split_once(' ').unwrap_or((asks, ""));
    let mut request = Request::default();
    request.begin(command);
    let detail = row.contains_key("history");
    let count = count.parse().expect("a count");
    request.push("1", key, ItemOptions { force, detail, ..ItemOptions::of(count) });
    let extras = brought(&options(said), row.get("member").map(String::as_str));
    if extras.is_any() {
        request.bring(extras);
    }
    let answers = service.answers(&request, now);
    let answer = &answers.items[0];
    let verdict = match answer.result.as_ref() {
        Ok(verdict) => verdict,
        Err(error) => return BTreeMap::from([("error", error.word().to_owned())]),
    };
    let word = |holds: bool| if holds { "true".to_owned() } else { String::new() };
    let ms = |ms: Option<u64>| ms.map_or(String::new(), |ms| ms.to_string());
    let figures = &verdict.figures;
    let decider = answers.details.limits.get(usize::from(verdict.limit).wrapping_sub(1));
    let totals = decider.and_then(|limit| answers.details.totals(limit)).unwrap_or_default();
    BTreeMap::from([
        ("limited", verdict.limited.to_string()),
        ("limit", verdict.limit.to_string()),
        ("used", figures.used.to_string()),
        ("max", figures.max.to_string()),
        ("remaining", figures.remaining.to_string()),
        ("reset", ms(figures.reset_ms)),
        ("retry", ms(verdict.retry_ms)),
        ("error", String::new()),
        ("banned", word(verdict.banned)),
        ("shadow", word(verdict.shadow)),
        ("granted", verdict.granted().map_or(String::new(), |granted| granted.to_string())),
        ("repeated", word(verdict.repeated())),
        ("unknown-hold", word(verdict.unknown_hold())),
        ("held", verdict.held().map_or(String::new(), |held| held.to_string())),
        ("action", answers.action(answer).unwrap_or_default().to_owned()),
        ("weight", verdict.weight.map_or(String::new(), |w| (f64::from(w) / 1000.0).to_string())),
        ("history", totals.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
        ("list", verdict.list.map_or(String::new(), |list| format!("{list:?}").to_lowercase())),
    ])
}

// Shows: documents.
#[test]
fn worked_cases_come_to_what_they_show() {
    let page = read("docs/limits.md");
    let (mut rows, mut wrong) = (0, Vec::new());
    for Cases { limits, rows: table } in cases(&page) {
        let world = World::new(&limits);
        let mut service = world.attach();
        for row in table {
            let now = instant(&row["at"]);
            let found = ask(&mut service, &row, now);
            for (column, shown) in &row {
                let shown = match column.as_str() {
                    "at" | "asks" | "key" | "member" => continue,
                    // Durations are in milliseconds, whatever their written form.
                    "reset" | "retry" if !shown.is_empty() && shown != "0" => {
                        duration(0, 1 << 50)(shown).expect("a duration").to_string()
                    }
                    _ => shown.clone(),
                };
                // An error is all that its item answers.
                let is_error = !found["error"].is_empty();
                let found = match found.get(column.as_str()) {
                    None if is_error => "",
                    found => found.expect("a column of answers"),
                };
                if found != shown {
                    wrong.push(format!("{column} is {found:?} in {row:?} of\n{limits}"));
                }
            }
            rows += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows >= 50, "{rows} worked cases");
}

/// The single words in back quotes.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

// Shows: documents.
#[test]
fn every_setting_is_described() {
    let page = read("docs/configuration.md");
    let described = quoted(&page);
    for schema in [include_str!("../../../conf/srv.xsd"), include_str!("../../../conf/map.xsd")] {
        for (element, brackets) in [("xs:element", true), ("xs:attribute", false)] {
            for rest in schema.split(&format!("<{element} name=\"")).skip(1) {
                let name = rest.split('"').next().expect("a name");
                let name = if brackets { format!("<{name}>") } else { name.to_owned() };
                assert!(described.contains(name.as_str()), "{name}");
            }
        }
    }
}

// Shows: documents.
#[test]
fn every_metric_is_described_and_no_other() {
    let cluster = "<cluster name=\"c\" secret-file=\"conf/shared.secret\">\
                   <node>127.0.0.1:1</node></cluster>";
    let listen = Reserved::new();
    let peers = format!(
        "<peers name=\"p\" secret-file=\"conf/shared.secret\" listen=\"{}\">\
         <peer>127.0.0.1:1</peer></peers>",
        listen.address
    );
    // No server has both.
    let scraped = metrics_with(cluster) + &metrics_with(&peers);
    let scrape = Scrape::read(&scraped);
    let families = scrape.families.keys().map(String::as_str);
    let page = read("docs/operations.md");
    let described = quoted(&page).into_iter().filter(|name| {
        name.starts_with("frs_") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    });
    let families: BTreeSet<&str> = families.collect();
    assert_eq!(described.collect::<BTreeSet<_>>(), families);
    for page in ["docs/cluster.md", "docs/mirror.md"] {
        for name in quoted(&read(page)) {
            let name = name.split('{').next().unwrap_or_default();
            assert!(!name.starts_with("frs_") || families.contains(name), "{name} in {page}");
        }
    }
    labels_are_described(&page, &scraped);
}

/// The metrics of the shipped server with this element. Checkpoints, clients and machines that need
/// not answer make all metrics appear.
fn metrics_with(element: &str) -> String {
    let setup = shipped();
    let srv = std::fs::read_to_string(setup.path("conf/srv.xml")).expect("read");
    let more = format!("{element}<clients><anonymous may=\"metrics\"/></clients></srv>");
    let srv = srv.replace("</srv>", &more).replace("<data ", "<data checkpoint=\"24h\" ");
    std::fs::write(setup.path("conf/srv.xml"), srv).expect("written");
    files::write_secret(&setup.path("conf/shared.secret"), [7; 32]);
    let _server = setup.start();
    let address = admin_address(&setup).parse().expect("an address");
    let answer = crate::common::wait_until("the admin plane answers", || {
        let mut client = Client::try_connect(address)?;
        client.send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        client.try_answer().ok()
    });
    answer.body
}

/// Checks that the table names all labels of the samples, and each value where it lists values.
fn labels_are_described(page: &str, scraped: &str) {
    let table = metrics::described(page);
    let scrape = Scrape::read(scraped);
    for (name, family) in &scrape.families {
        let (Some(labels), described) = (&family.labels, &table[name]) else { continue };
        assert!(labels.keys().eq(described.keys()), "{name}: {labels:?} {described:?}");
        for (label, values) in labels {
            let listed = &described[label];
            assert!(listed.is_empty() || values.is_subset(listed), "{name}: {values:?} {listed:?}");
        }
    }
    let functions = scrape.families["frs_cluster_requests_total"].labels.as_ref().expect("samples");
    assert_eq!(table["frs_cluster_requests_total"]["function"], functions["function"]);
}

/// The anchor of a heading, as repository hosts form it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn anchors(page: &str) -> Vec<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// The targets of a page's links and pictures.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let links = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.map(str::to_owned).collect()
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let directory = root().join(&page).parent().expect("a directory").to_owned();
        for link in links(&read(&page)) {
            if link.contains("://") {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { root().join(&page) } else { directory.join(path) };
            assert!(target.exists(), "{page}: {link}");
            if !fragment.is_empty() {
                let text = std::fs::read_to_string(&target).expect("a page");
                assert!(anchors(&text).iter().any(|found| found == fragment), "{page}: {link}");
            }
        }
    }
}

#[test]
fn every_page_can_be_found() {
    let readme = links(&read("README.md"));
    for page in pages().iter().filter(|page| page.starts_with("docs/")) {
        assert!(readme.contains(page), "README.md does not name {page}");
    }
    assert!(read("README.md").lines().count() <= 250, "README.md is one page");
}

#[test]
fn every_path_that_is_named_exists() {
    let roots = ["", "src", "src/server"].map(|below| root().join(below));
    for page in
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/design.md", "docs/testing.md"]
    {
        let text = read(page);
        // Excludes patterns, paths of HTTP, and files that a running server writes.
        let is_path = |name: &&str| {
            let is_there = name.ends_with(".rs") || name.contains('/') && !name.starts_with('/');
            is_there
                && !name.contains(['*', ' ', '<', '=', '$'])
                && !["data/", "LIVE/"].iter().any(|begin| name.starts_with(begin))
                && !name.contains("NAME")
        };
        for name in quoted(&text).into_iter().filter(is_path) {
            assert!(roots.iter().any(|root| root.join(name).exists()), "{page}: {name}");
        }
    }
}

#[test]
fn shown_is_what_differs_in_times_only() {
    let shown = "a  reset=\"60000\"\n…\nRetry-After: 600\nb";
    assert!(is_shown("a reset=\"1\" c d Retry-After: 7\r\n b", shown));
    assert!(!is_shown("a reset=\"1\" c d Retry-After: 7 c", shown));
    assert!(!is_shown("a reset=\"1\" Retry-After 7 b", shown));
    assert!(!is_shown("a used=\"1\"", "a used=\"2\""));
    assert!(is_shown("a b c b", "a … b") && !is_shown("a b c", "a … b"));
}

#[test]
fn anchors_are_those_of_headings() {
    assert_eq!(anchor("Where to read on"), "where-to-read-on");
    assert_eq!(anchor("`<http>`: bounds"), "http-bounds");
    assert_eq!(anchors("# A\n```\n# b\n```\n## C d"), ["a", "c-d"]);
}
