//! The table of promises in docs/testing.md. A test names the promises that it shows in a comment
//! above its attributes. The last column of the table is made from these comments.
//!
//! Invariant: each promise has a test; each comment stands above a test and names only promises of
//! the table.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Code, Source, Token, all, attribute, group, is_word, root, rust};
use super::{Allowed, assert_none};

const PAGE: &str = "docs/testing.md";
/// How a comment begins.
const SHOWS: &str = "// Shows:";
/// How each further line of a comment begins.
const CONTINUED: &str = "//     ";

/// Files whose tests have no attribute: macros make tests of their functions, or a program without
/// a harness calls them.
const WITHOUT_ATTRIBUTE: [&str; 3] =
    ["tests/it/gateways/routing.rs", "tests/it/gateways/stories.rs", "tests/library_fork.rs"];

/// A function of a source.
struct Function {
    name: &'static str,
    /// The line of its first attribute or word.
    line: usize,
    has_attribute_of_tests: bool,
}

fn functions(tokens: &[Token<'static>]) -> Vec<Function> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let first = at;
        let mut has_attribute_of_tests = false;
        while attribute(&tokens[at..]) > 0 {
            let end = at + attribute(&tokens[at..]);
            has_attribute_of_tests |= is_of_tests(&tokens[at..end]);
            at = end;
        }
        at += modifiers(&tokens[at..]);
        if let [keyword, name, ..] = &tokens[at..]
            && keyword.text == "fn"
            && name.text.chars().all(is_word)
        {
            let line = tokens[first].line;
            found.push(Function { name: name.text, line, has_attribute_of_tests });
            at += 1;
        }
        at = at.max(first + 1);
    }
    found
}

/// Whether an attribute is `#[test]`, or that of another harness: `#[tokio::test(…)]`.
fn is_of_tests(attribute: &[Token<'_>]) -> bool {
    let path = attribute.iter().skip(2).take_while(|token| !["(", "]"].contains(&token.text));
    path.last().is_some_and(|token| token.text == "test")
}

/// The length of the modifiers before `fn`, such as `pub(crate) async`.
fn modifiers(tokens: &[Token<'_>]) -> usize {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "pub" | "const" | "async" | "unsafe" | "extern" | "\"" => at += 1,
            "(" if at > 0 && tokens[at - 1].text == "pub" => at += group(&tokens[at..]),
            _ => break,
        }
    }
    at
}

/// A comment that names promises.
struct Comment {
    /// The line after it.
    end: usize,
    /// `None` if the comment does not end with a full stop.
    promises: Option<Vec<String>>,
}

fn comments(text: &str) -> Vec<Comment> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let begins = (0..lines.len()).filter(|&nth| lines[nth].starts_with(SHOWS));
    let read = begins.map(|first| {
        let continued = lines[first + 1..].iter().take_while(|line| line.starts_with(CONTINUED));
        let end = first + 1 + continued.count();
        let mut said = lines[first][SHOWS.len()..].trim().to_owned();
        for line in &lines[first + 1..end] {
            said = said + " " + line[CONTINUED.len()..].trim();
        }
        let promises = said.strip_suffix('.');
        let promises = promises.map(|said| said.split(", ").map(str::to_owned).collect());
        Comment { end: end + 1, promises }
    });
    read.collect()
}

/// The tests that show each promise: path and name of each, sorted by path and line.
type Shown = BTreeMap<String, Vec<(String, &'static str)>>;

/// Reads the comments of all sources. Also returns the faults of comments.
fn shown(sources: &[Code]) -> (Shown, Vec<String>) {
    let (mut shown, mut faults) = (Shown::new(), Vec::new());
    for source in sources {
        let functions = functions(&source.tokens);
        for Comment { end, promises } in comments(&source.text) {
            let fault = |what: &str| format!("{}:{}: {what}", source.path, end - 1);
            let Some(promises) = promises else {
                faults.push(fault("the names do not end with a full stop"));
                continue;
            };
            let may_lack = WITHOUT_ATTRIBUTE.contains(&source.path.as_str());
            let test = functions.iter().find(|function| {
                function.line == end && (function.has_attribute_of_tests || may_lack)
            });
            let Some(test) = test else {
                faults.push(fault("the next line begins no test"));
                continue;
            };
            for (nth, promise) in promises.iter().enumerate() {
                if promises[..nth].contains(promise) {
                    faults.push(fault(&format!("{promise} is named twice")));
                }
                // Several modules of one file may have tests of the same name.
                let tests = shown.entry(promise.clone()).or_default();
                let test = (source.path.clone(), test.name);
                if !tests.contains(&test) {
                    tests.push(test);
                }
            }
        }
    }
    (shown, faults)
}

/// Comments at tests in other languages are faults, because the table names Rust tests only.
fn unread(source: &Source) -> Vec<String> {
    let is_code = ![".rs", ".md"].iter().any(|end| source.path.ends_with(end));
    let lines = source.text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim_start();
        is_code && ["# Shows:", SHOWS].iter().any(|begin| line.starts_with(begin))
    });
    let faults = lines.map(|(nth, _)| {
        format!("{}:{}: the comment belongs above the test in Rust", source.path, nth + 1)
    });
    faults.collect()
}

/// The files that have a function of each name.
type Homes<'a> = BTreeMap<&'static str, BTreeSet<&'a str>>;

fn homes(sources: &[Code]) -> Homes<'_> {
    let mut homes = Homes::new();
    for source in sources {
        for function in functions(&source.tokens) {
            homes.entry(function.name).or_default().insert(&source.path);
        }
    }
    homes
}

/// The parts of a path that tell files apart.
fn modules(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    let parts = path.strip_suffix(".rs").unwrap_or(path).split('/');
    parts.filter(|part| !["src", "tests", "mod"].contains(part))
}

/// The name of a test. If other files have a function of that name, a module stands before it: the
/// innermost one that none of these files has.
fn named(path: &str, name: &str, homes: &Homes<'_>) -> String {
    let others: Vec<&str> =
        homes.get(name).into_iter().flatten().copied().filter(|other| *other != path).collect();
    if others.is_empty() {
        return name.to_owned();
    }
    let is_shared = |module: &str| others.iter().any(|other| modules(other).any(|m| m == module));
    match modules(path).rev().find(|module| !is_shared(module)) {
        Some(module) => format!("{module}::{name}"),
        None => format!("{}::{name}", modules(path).collect::<Vec<_>>().join("::")),
    }
}

/// The lines of the table without its head, each with its place in the page.
fn table(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let section = page.lines().enumerate().skip_while(|(_, line)| *line != "## What must hold");
    let section = section.skip(1).take_while(|(_, line)| !line.starts_with("## "));
    section.filter(|(_, line)| line.starts_with('|')).skip(2)
}

/// The first two columns of a row: a promise's name and what holds.
fn row(line: &str) -> Option<(&str, &str)> {
    let (promise, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
    let (holds, _) = rest.split_once(" |")?;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    promise.chars().all(is_name).then_some((promise, holds))
}

/// The page with its last column made from the comments, and the remaining faults.
fn written(page: &str, shown: &Shown, homes: &Homes<'_>) -> (String, Vec<String>) {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let (mut promises, mut faults) = (BTreeSet::new(), Vec::new());
    for (nth, line) in table(page) {
        let Some((promise, holds)) = row(line) else {
            faults.push(format!(
                "{PAGE}:{}: expected a name in small letters and three columns",
                nth + 1
            ));
            continue;
        };
        if !promises.insert(promise) {
            faults.push(format!("{PAGE}:{}: a second row of {promise}", nth + 1));
        }
        let tests = shown.get(promise).into_iter().flatten();
        let tests: Vec<String> =
            tests.map(|(path, name)| format!("`{}`", named(path, name, homes))).collect();
        if tests.is_empty() {
            faults.push(format!("{PAGE}:{}: no test shows {promise}", nth + 1));
        }
        lines[nth] = format!("| `{promise}` | {holds} | {} |", tests.join(", "));
    }
    for (promise, tests) in shown.iter().filter(|(name, _)| !promises.contains(name.as_str())) {
        let tests = tests.iter();
        faults.extend(
            tests.map(|(path, name)| format!("{path}: {name} shows {promise}, which has no row")),
        );
    }
    (lines.join("\n") + "\n", faults)
}

fn last_column(row: &str) -> BTreeSet<&str> {
    let column = row.rsplit(" | ").next().unwrap_or_default();
    column.split('`').skip(1).step_by(2).collect()
}

/// The rows that differ, each with the tests to add (+) and to remove (-).
fn differing(page: &str, written: &str) -> Vec<String> {
    let rows = table(page).zip(table(written)).filter(|((_, is), (_, should))| is != should);
    let told = rows.map(|((nth, is), (_, should))| {
        let promise = row(should).map_or("", |(promise, _)| promise);
        let (is, should) = (last_column(is), last_column(should));
        let missing = should.difference(&is).map(|test| format!(" +{test}"));
        let added = is.difference(&should).map(|test| format!(" -{test}"));
        let tests: String = missing.chain(added).collect();
        let tests = if tests.is_empty() { " another order or form".to_owned() } else { tests };
        format!("{PAGE}:{}: {promise}:{tests}", nth + 1)
    });
    told.collect()
}

#[test]
fn the_table_of_promises() {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page");
    let (shown, mut faults) = shown(rust());
    let (written, more) = written(&page, &shown, &homes(rust()));
    faults.extend(more);
    faults.extend(all().iter().flat_map(unread));
    assert_none("promises and the comments that name them", faults, Allowed(&[]));
    let pairs: usize = shown.values().map(Vec::len).sum();
    assert!(pairs > 700, "{pairs} tests show promises");
    if std::env::var_os("FRS_BLESS").is_some() {
        std::fs::write(&path, written).expect("written");
        return;
    }
    let what = "rows that differ; `FRS_BLESS=1 cargo test the_table_of_promises` writes them";
    assert_none(what, differing(&page, &written), Allowed(&[]));
    assert!(page == written, "{PAGE} ends with one line feed");
}

#[test]
fn tests_and_the_comments_above_them_are_read() {
    let code = |text: &str| Code::new("src/a.rs", text.to_owned());
    let names = |text: &str| -> Vec<String> {
        let functions = functions(&code(text).tokens).into_iter();
        functions.map(|f| format!("{}:{}:{}", f.name, f.line, f.has_attribute_of_tests)).collect()
    };
    assert_eq!(names("#[test]\n#[should_panic]\nfn a() {}\nfn b() {}"), ["a:1:true", "b:4:false"]);
    assert_eq!(names("#[tokio::test(a = 1)]\nasync fn a() {}"), ["a:1:true"]);
    assert_eq!(names("x!{\n  #[cfg(test)]\n  pub(crate) fn a() {} }"), ["a:2:false"]);
    assert_eq!(names("$(#[test] fn $a() {})* \"fn b()\" // fn c()\nlet d: fn(u8);"), [""; 0]);

    let found = |text: &str| shown(&[code(text)]);
    let (shown, faults) = found("/// A.\n// Shows: b, a-c,\n//     d.\n#[test]\nfn t() {}\n");
    assert_eq!(faults, [""; 0]);
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["a-c", "b", "d"]);
    assert_eq!(shown["d"], [("src/a.rs".to_owned(), "t")]);
    for (text, fault) in [
        ("// Shows: a\n#[test]\nfn t() {}\n", "src/a.rs:1: the names do not end with a full stop"),
        ("// Shows: a.\n\n#[test]\nfn t() {}\n", "src/a.rs:1: the next line begins no test"),
        ("// Shows: a.\nfn t() {}\n", "src/a.rs:1: the next line begins no test"),
        ("#[test]\n// Shows: a.\nfn t() {}\n", "src/a.rs:2: the next line begins no test"),
        ("// Shows: a, a.\n#[test]\nfn t() {}\n", "src/a.rs:1: a is named twice"),
    ] {
        assert_eq!(found(text).1, [fault], "{text}");
    }
    let python = Source { path: "a.py".into(), text: "  # Shows: a.\n  def t():\n".into() };
    assert_eq!(unread(&python), ["a.py:1: the comment belongs above the test in Rust"]);
}

#[test]
fn the_column_is_made_from_the_comments() {
    let test = |name: &str| format!("// Shows: one.\n#[test]\nfn {name}() {{}}\n");
    let sources = [
        Code::new("src/a/tests.rs", test("same")),
        Code::new("src/b/tests.rs", test("same") + &test("other")),
    ];
    let (shown, homes) = (shown(&sources).0, homes(&sources));
    let page = |one: &str| {
        format!(
            "# A\n\n## What must hold\n\n| p | w | s |\n| - | - | - |\n| `one` | It. | {one} |\n"
        )
    };
    let good = page("`a::same`, `b::same`, `other`");
    for bad in [page(""), page("`other`, `a::same`"), good.clone()] {
        assert_eq!(written(&bad, &shown, &homes), (good.clone(), Vec::new()));
    }
    assert_eq!(differing(&good, &good), [""; 0]);
    let differing = differing(&page("`other`, `gone`"), &good);
    assert_eq!(differing, [format!("{PAGE}:7: one: +a::same +b::same -gone")]);

    let (_, faults) = written(&good.replace("one", "two"), &shown, &homes);
    assert_eq!(faults[0], format!("{PAGE}:7: no test shows two"));
    assert_eq!(faults[1], "src/a/tests.rs: same shows one, which has no row");
    assert_eq!(faults.len(), 4);
    let (_, faults) = written(&good.replace("`one`", "One"), &shown, &homes);
    assert_eq!(faults[0], format!("{PAGE}:7: expected a name in small letters and three columns"));
    let again = good.clone() + good.lines().last().expect("a row") + "\n";
    assert_eq!(written(&again, &shown, &homes).1, [format!("{PAGE}:8: a second row of one")]);
}
