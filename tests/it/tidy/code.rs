//! Rules for each Rust source: clocks, unsafe, length, columns, openings, tests, parameters.

use super::source::{Code, MAX_COLUMNS, MAX_LINES, Token, group, rust};
use super::{Allowed, assert_none};

/// The files that read a clock. Everywhere else time is an argument, or comes from these files.
const CLOCKS: [&str; 4] = [
    "src/base/clock.rs",
    // A client that measures latency.
    "tools/frs-load/src/load.rs",
    "tools/frs-load/src/prepared.rs",
    "tools/frs-load/src/program.rs",
];

/// The files that may contain `unsafe`: system calls, pointers into maps, and pointers of C
/// callers. In tests: counting allocators and a fork.
const UNSAFE: [&str; 7] = [
    "src/base/sys/",
    "src/store/file/region.rs",
    "bindings/c/src/entry.rs",
    "bindings/c/src/memory.rs",
    "tests/alloc_protocol.rs",
    "tests/alloc_serving.rs",
    "tests/library_fork.rs",
];

/// Functions with parameters that can be given in the wrong order, still to be fixed.
const STILL_UNNAMED: &[&str] = &[];

/// Whether a file is compiled for tests only, judged by its name.
fn is_test(path: &str) -> bool {
    let within =
        ["src/", "tools/", "bindings/c/src/"].iter().any(|directory| path.starts_with(directory));
    let names = ["/tests/", "/tests.rs", "/testing.rs", "/played.rs", "/crash.rs", "/model.rs"];
    !within || names.iter().any(|name| path.contains(name))
}

fn at(source: &Code, line: usize) -> String {
    format!("{}:{line}", source.path)
}

/// The lines where `words` occur in the tokens. `::` is two tokens `:`.
fn lines_with(tokens: &[Token<'_>], words: &[&str]) -> Vec<usize> {
    let is_here =
        |some: &&[Token<'_>]| some.iter().zip(words).all(|(token, word)| token.text == *word);
    tokens.windows(words.len()).filter(is_here).map(|some| some[0].line).collect()
}

fn clock_lines(source: &Code) -> Vec<usize> {
    let reads = [
        &["SystemTime", ":", ":", "now"][..],
        &["Instant", ":", ":", "now"],
        &["Timestamp", ":", ":", "now"],
        &["Zoned", ":", ":", "now"],
        &["clock_gettime"],
        &[".", "elapsed", "(", ")"],
    ];
    reads.iter().flat_map(|words| lines_with(&source.compiled, words)).collect()
}

#[test]
fn only_the_clock_reads_a_clock() {
    let sources = rust().iter().filter(|source| !is_test(&source.path));
    let faults =
        sources.filter(|source| !CLOCKS.contains(&source.path.as_str())).flat_map(|source| {
            clock_lines(source).into_iter().map(|line| at(source, line)).collect::<Vec<_>>()
        });
    assert_none("reads of a clock", faults, Allowed(&[]));
    let clock_lines = |text: &str| clock_lines(&Code::new("a.rs", text.to_owned()));
    assert_eq!(clock_lines("let a = Instant::now();\nb.elapsed() // Instant::now()\n"), [1, 2]);
    assert_eq!(clock_lines("#[cfg(test)]\nmod tests { fn a() { SystemTime::now(); } }"), [0; 0]);
}

#[test]
fn unsafe_stands_where_the_rules_allow() {
    let outside =
        rust().iter().filter(|source| !UNSAFE.iter().any(|place| source.path.starts_with(place)));
    let faults = outside.flat_map(|source| {
        lines_with(&source.tokens, &["unsafe"])
            .into_iter()
            .map(|line| at(source, line))
            .collect::<Vec<_>>()
    });
    assert_none("unsafe", faults, Allowed(&[]));
    let code = Code::new("a.rs", "// unsafe\nlet a = \"unsafe\";\nunsafe { b }".to_owned());
    let found = lines_with(&code.tokens, &["unsafe"]);
    assert_eq!(found, [3]);
}

#[test]
fn no_file_is_long_and_each_says_what_it_is_for() {
    let long = rust().iter().filter_map(|source| {
        let lines = source.text.lines().count();
        (lines > MAX_LINES).then(|| format!("{}: {lines} lines", source.path))
    });
    assert_none("files of more lines than one duty takes", long, Allowed(&[]));
    let silent = rust().iter().filter(|source| !source.text.starts_with("//!"));
    let silent = silent.map(|source| source.path.clone());
    assert_none("files that do not open with what they are for", silent, Allowed(&[]));
}

/// Lines that are too wide: comments, and code other than strings, which are not split for length.
fn wide(source: &Code) -> Vec<usize> {
    let lines = source.text.lines().enumerate();
    let wide = lines.filter(|(nth, line)| {
        let is_comment = line.trim_start().starts_with("//");
        let has_code = source.tokens.iter().any(|token| token.line == nth + 1);
        let has_string = line.contains('"') || !has_code;
        line.chars().count() > MAX_COLUMNS && (is_comment || !has_string)
    });
    wide.map(|(nth, _)| nth + 1).collect()
}

#[test]
fn no_line_of_code_is_wide() {
    let faults = rust().iter().flat_map(|source| {
        wide(source).into_iter().map(|line| at(source, line)).collect::<Vec<_>>()
    });
    assert_none("lines that are too wide", faults, Allowed(&[]));
    let long = "x ".repeat(51);
    let text = format!("{long}\n// \"{long}\"\nx(\"{long}\")\n\"\n{long}\n\"\n{}", &long[2..]);
    assert_eq!(wide(&Code::new("a.rs", text)), [1, 2]);
}

/// Longer tests of a file go into a separate file, `x/tests.rs` beside `x.rs`.
const MAX_INLINE_LINES: usize = 150;

/// The number of lines of the tests in the file itself.
fn inline_tests(text: &str) -> usize {
    let mut lines = text.lines().skip_while(|line| *line != "mod tests {");
    lines.by_ref().take_while(|line| *line != "}").count()
}

#[test]
fn unit_tests_have_one_layout() {
    let faults = rust().iter().filter_map(|source| {
        let wrong =
            ["_tests.rs", "/test.rs", "/tests/mod.rs"].iter().any(|end| source.path.ends_with(end));
        let lines = inline_tests(&source.text);
        let is_long = lines > MAX_INLINE_LINES;
        (wrong || is_long).then(|| format!("{}: {lines} lines of tests", source.path))
    });
    assert_none("tests that belong into x/tests.rs", faults, Allowed(&[]));
    assert_eq!(inline_tests("a\nmod tests {\n    b\n}\nc\n"), 2);
}

const PRIMITIVES: [&str; 14] = [
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64",
    "usize",
];

/// Public functions with parameters that are easily confused: a tuple of two or more of one
/// primitive type, or two bare `bool`s.
fn unnamed(source: &Code) -> Vec<String> {
    let tokens = &source.compiled;
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let is_function = tokens[at].text == "fn" && is_public(&tokens[..at]);
        let Some(name) = tokens.get(at + 1).filter(|_| is_function) else { continue };
        let Some(open) = tokens[at..].iter().position(|token| token.text == "(") else { continue };
        // The list follows `<…>`, where closures in bounds have parentheses too.
        let open = at + parameters(&tokens[at..]).unwrap_or(open);
        let list = &tokens[open + 1..open + group(&tokens[open..]) - 1];
        if has_tuple(list) || bools(list) > 1 {
            found.push(name.text.to_owned());
        }
    }
    found
}

/// Whether `pub`, with its possible modifiers, comes right before a function.
fn is_public(before: &[Token<'_>]) -> bool {
    let mut rest = before;
    while let Some((last, others)) = rest.split_last() {
        match last.text {
            "const" | "async" | "unsafe" | "extern" | "\"" => rest = others,
            // pub(crate)
            ")" => {
                let open = others.iter().rposition(|token| token.text == "(");
                rest = open.map_or(&[], |open| &others[..open]);
            }
            text => return text == "pub",
        }
    }
    false
}

/// The start of the parameter list, counted from `fn`.
fn parameters(tokens: &[Token<'_>]) -> Option<usize> {
    let (mut depth, mut at) = (0_i32, 2);
    while let Some(token) = tokens.get(at) {
        match token.text {
            "<" => depth += 1,
            ">" if tokens[at - 1].text != "-" => depth -= 1,
            "(" if depth == 0 => return Some(at),
            "(" | "[" | "{" => {
                at += group(&tokens[at..]);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether the types contain a tuple of two or more of one primitive type, apart from a closure's
/// parameters.
fn has_tuple(list: &[Token<'_>]) -> bool {
    (0..list.len()).filter(|at| list[*at].text == "(").any(|at| {
        let inside = &list[at + 1..at + group(&list[at..]) - 1];
        let is_closure = at > 0 && ["Fn", "FnMut", "FnOnce", "fn"].contains(&list[at - 1].text);
        let types: Vec<&str> =
            inside.iter().map(|token| token.text).filter(|text| *text != ",").collect();
        let is_one = types.iter().all(|one| *one == types[0]);
        !is_closure && types.len() > 1 && is_one && PRIMITIVES.contains(&types[0])
    })
}

/// The number of parameters that are bare `bool`s.
fn bools(list: &[Token<'_>]) -> usize {
    let is_bare = |three: &&[Token<'_>]| {
        three[0].text == ":" && three[1].text == "bool" && three[2].text == ","
    };
    let last =
        list.len() >= 2 && list[list.len() - 2].text == ":" && list[list.len() - 1].text == "bool";
    list.windows(3).filter(is_bare).count() + usize::from(last)
}

#[test]
fn parameters_have_names_of_their_own() {
    let sources = rust().iter().filter(|source| !is_test(&source.path));
    let faults = sources.flat_map(|source| {
        let found = unnamed(source).into_iter();
        found.map(|name| format!("{} {name}", source.path)).collect::<Vec<_>>()
    });
    assert_none("parameters that can be given in the wrong order", faults, Allowed(STILL_UNNAMED));
}

#[test]
fn parameters_that_can_be_given_in_the_wrong_order_are_seen() {
    let names = |text: &str| unnamed(&Code::new("a.rs", text.to_owned()));
    for text in [
        "pub fn f(a: (u64, u64)) {}",
        "pub(crate) fn f<T: Fn(u8, u8)>(x: T, a: &[(u64, u64)]) {}",
        "pub const fn f((a, b): (usize, usize), c: u8) {}",
        "pub(in crate::a) fn f(a: Option<(bool, bool, bool)>) {}",
        "pub fn f(a: bool, b: bool) {}",
        "pub fn f(a: bool, x: u8, b: bool,) {}",
    ] {
        assert_eq!(names(text), ["f"], "{text}");
    }
    for text in [
        "fn f(a: (u64, u64)) {}",
        "pub fn f(a: (u64, u32), b: bool) -> (u64, u64) {}",
        "pub fn f(a: impl Fn(u64, u64) -> bool) {}",
        "pub fn f(a: &[bool], b: bool, c: (Pid, Pid)) { g((1, 2)) }",
        "#[cfg(test)] pub fn f(a: bool, b: bool) {}",
    ] {
        assert_eq!(names(text), [""; 0], "{text}");
    }
}
