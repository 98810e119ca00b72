//! The files of the repository, and Rust as tokens, without comments and the contents of strings.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The most lines of a file of code.
pub const MAX_LINES: usize = 700;
/// The most columns of a line, of code and of prose.
pub const MAX_COLUMNS: usize = 100;

/// A text file of the repository.
pub struct Source {
    /// The path from the root, with `/` as separator.
    pub path: String,
    pub text: String,
}

/// A Rust source.
pub struct Code {
    pub path: String,
    pub text: String,
    /// All tokens.
    pub tokens: Vec<Token<'static>>,
    /// The tokens compiled without tests.
    pub compiled: Vec<Token<'static>>,
}

impl Code {
    /// The text is kept for the whole run: the repository is read once.
    pub fn new(path: &str, text: String) -> Code {
        let tokens = tokens(String::leak(text.clone()));
        Code { path: path.to_owned(), text, compiled: without_tests(&tokens), tokens }
    }
}

/// Directories left out: build results, packages, and the findings of fuzzing.
const LEFT_OUT: [&str; 5] = ["target", "corpus", "artifacts", "__pycache__", "node_modules"];
/// Directories left out at the root: the data of servers started by hand.
const LEFT_OUT_AT_ROOT: [&str; 2] = ["data", "run"];

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// All texts, sorted by path.
pub fn all() -> Vec<Source> {
    let root = root();
    let (mut sources, mut directories) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(root.join(&directory)).expect("readable") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("UTF-8");
            let path = directory.join(&name);
            let kind = entry.file_type().expect("a kind");
            let is_hidden = name.starts_with('.') && name != ".ci" && name != ".gitignore";
            let is_left_out = LEFT_OUT.contains(&name.as_str())
                || directory == Path::new("") && LEFT_OUT_AT_ROOT.contains(&name.as_str());
            if is_hidden || (kind.is_dir() && is_left_out) {
                continue;
            }
            if kind.is_dir() {
                directories.push(path);
            } else if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
                let path = path.to_str().expect("UTF-8").to_owned();
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(sources.len() > 300, "the repository is found");
    sources
}

/// The Rust sources.
pub fn rust() -> &'static [Code] {
    static READ: OnceLock<Vec<Code>> = OnceLock::new();
    READ.get_or_init(|| {
        let rust = all().into_iter().filter(|source| source.path.ends_with(".rs"));
        rust.map(|source| Code::new(&source.path, source.text)).collect()
    })
}

/// A word, or a single other character. A string or a character literal is one token: `"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Token<'a> {
    pub text: &'a str,
    /// Counted from 1.
    pub line: usize,
}

/// The tokens of a text.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < text.len() {
        let rest = &text[at..];
        let (len, kind) = next(rest);
        match kind {
            Kind::Space => {}
            Kind::Word => tokens.push(Token { text: &rest[..len], line }),
            Kind::Quoted => tokens.push(Token { text: "\"", line }),
        }
        line += rest[..len].matches('\n').count();
        at += len;
    }
    tokens
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

enum Kind {
    Space,
    Word,
    Quoted,
}

/// The length and the kind of the next piece of a text.
fn next(text: &str) -> (usize, Kind) {
    if text.starts_with("//") {
        return (text.find('\n').unwrap_or(text.len()), Kind::Space);
    }
    if text.starts_with("/*") {
        return (text.find("*/").map_or(text.len(), |end| end + 2), Kind::Space);
    }
    let word = text.find(|c| !is_word(c)).unwrap_or(text.len());
    if ["r", "br", "cr"].contains(&&text[..word]) {
        let hashes = text[word..].find(|c| c != '#').unwrap_or(0);
        let from = word + hashes + 1;
        if text[from - 1..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let end = text[from..].find(&close).map_or(text.len(), |end| from + end + close.len());
            return (end, Kind::Quoted);
        }
    }
    if ["", "b", "c"].contains(&&text[..word]) {
        let second = text[word..].chars().nth(1);
        let third = text[word..].chars().nth(2);
        match text[word..].chars().next() {
            Some('"') => return (word + quoted(&text[word..], '"'), Kind::Quoted),
            // A character literal; otherwise a lifetime.
            Some('\'') if second == Some('\\') || third == Some('\'') => {
                return (word + quoted(&text[word..], '\''), Kind::Quoted);
            }
            Some(c) if word == 0 && c.is_whitespace() => return (c.len_utf8(), Kind::Space),
            Some(c) if word == 0 => return (c.len_utf8(), Kind::Word),
            _ => {}
        }
    }
    (word, Kind::Word)
}

/// The length of a string or a character literal with its quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The tokens compiled without tests: without each item, statement or block that an attribute
/// restricts to tests.
pub fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let attribute = attribute(&tokens[at..]);
        if is_for_tests(&tokens[at..at + attribute]) {
            at += attribute + item(&tokens[at + attribute..]);
        } else {
            kept.extend(&tokens[at..at + attribute.max(1)]);
            at += attribute.max(1);
        }
    }
    kept
}

/// The length of an attribute at the start, or 0.
pub fn attribute(tokens: &[Token<'_>]) -> usize {
    match tokens {
        [hash, open, ..] if hash.text == "#" && open.text == "[" => 1 + group(&tokens[1..]),
        _ => 0,
    }
}

/// Whether an attribute is a `cfg` for tests, including the `cfg` with which the library serves
/// other crates' tests.
fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let words: Vec<&str> = attribute.iter().map(|token| token.text).collect();
    let is_inverted = |at: usize| at >= 2 && words[at - 2] == "not";
    let names_tests = (0..words.len()).any(|at| words[at] == "test" && !is_inverted(at));
    words.get(2) == Some(&"test") || (words.get(2) == Some(&"cfg") && names_tests)
}

/// The length of an item or a statement with the attributes before it.
fn item(tokens: &[Token<'_>]) -> usize {
    let mut at = 0;
    while attribute(&tokens[at..]) > 0 {
        at += attribute(&tokens[at..]);
    }
    while let Some(token) = tokens.get(at) {
        match token.text {
            // Part of an enum or a structure: the rest does not belong to it.
            ";" | "," => return at + 1,
            "}" | ")" => return at,
            "{" => return at + group(&tokens[at..]),
            "(" | "[" => at += group(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

/// The length of a bracketed group, from its opening bracket.
pub fn group(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[test]
fn tokens_are_what_is_compiled() {
    let words = |text| -> Vec<String> {
        tokens(text).iter().map(|token| format!("{}:{}", token.text, token.line)).collect()
    };
    assert_eq!(words("a::b // c\n/* d\n */ 'e'"), ["a:1", "::1", "::1", "b:1", "\":3"]);
    assert_eq!(words("\"a \\\" b\"\n\nr#\"c\" d\"# e"), ["\":1", "\":3", "e:3"]);
    assert_eq!(words("'\\'' &'a str b\"x\""), ["\":1", "&:1", "':1", "a:1", "str:1", "\":1"]);
    let kept = |text| -> String {
        without_tests(&tokens(text)).iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(kept("#[cfg(test)] #[a] mod b { c } d"), "d");
    assert_eq!(kept("#[cfg(all(test, not(loom)))] mod b; d"), "d");
    assert_eq!(kept("#[cfg(not(test))] mod b; d"), "# [ cfg ( not ( test ) ) ] mod b ; d");
    assert_eq!(kept("#[test] fn a() { b } #[cfg(loom)] c"), "# [ cfg ( loom ) ] c");
    assert_eq!(kept("f { #[cfg(test)] if let Some(x) = y() { z } w }"), "f { w }");
}
