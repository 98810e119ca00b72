//! Finds which file of a crate uses which other file, by the paths in their text.
//!
//! A name that a module re-exports (`pub use part::Name`) counts as a use of the part that defines
//! it.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Code, Token, group};

/// A module, by its names from the crate's root.
pub type Module = Vec<String>;

/// The uses among the modules of a crate, without its tests.
pub struct Crate {
    pub uses: BTreeMap<Module, BTreeSet<Module>>,
}

/// The contents of a module.
#[derive(Default)]
struct Content {
    /// Absolute paths, from the crate's root.
    paths: Vec<Module>,
    /// The names that a `use` introduces, each with its origin.
    names: BTreeMap<String, Module>,
}

impl Crate {
    /// Reads the crate in a directory (`src/server/`).
    pub fn read(sources: &[Code], directory: &str) -> Crate {
        let mut paths = BTreeMap::new();
        for source in sources.iter().filter(|source| source.path.starts_with(directory)) {
            paths.insert(module(&source.path[directory.len()..]), source);
        }
        let is_there = |module: &Module| paths.contains_key(module);
        let tested = test_modules(&paths);
        let contents: BTreeMap<&Module, Content> = paths
            .iter()
            .filter(|(module, _)| !tested.iter().any(|test| module.starts_with(test)))
            .map(|(module, source)| (module, content(module, &source.compiled, &is_there)))
            .collect();
        let mut uses = BTreeMap::new();
        for (&module, content) in &contents {
            let used: BTreeSet<Module> =
                content.paths.iter().map(|path| resolve(path, &contents, 8)).collect();
            uses.insert(module.clone(), used.into_iter().filter(|used| used != module).collect());
        }
        Crate { uses }
    }

    /// The uses that are part of a cycle. A module and its submodules may use each other.
    pub fn circles(&self) -> Vec<(&Module, &Module)> {
        let next = |from: &Module| -> Vec<&Module> {
            let used = self.uses.get(from).into_iter().flatten();
            used.filter(|to| !to.starts_with(from) && !from.starts_with(to)).collect()
        };
        let reaches = |from: &Module, wanted: &Module| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(at) = open.pop() {
                if at == wanted {
                    return true;
                }
                open.extend(next(at).into_iter().filter(|to| reached.insert(*to)));
            }
            false
        };
        let uses =
            self.uses.keys().flat_map(|from| next(from).into_iter().map(move |to| (from, to)));
        uses.filter(|(from, to)| reaches(to, from)).collect()
    }
}

/// The module of a file, by its path within the crate.
fn module(path: &str) -> Module {
    let mut names: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| name == "mod")
        || ["lib", "main"].map(str::to_owned).contains(&names[0])
    {
        names.pop();
    }
    names
}

/// The modules that are declared for tests only.
fn test_modules(paths: &BTreeMap<Module, &Code>) -> Vec<Module> {
    let mut found = Vec::new();
    for (module, source) in paths {
        let of_all = declared(&source.tokens);
        let kept = declared(&source.compiled);
        for name in of_all.difference(&kept) {
            found.push(module.iter().cloned().chain([name.clone()]).collect());
        }
    }
    found
}

/// The names of `mod name;`.
fn declared(tokens: &[Token<'_>]) -> BTreeSet<String> {
    let declarations =
        tokens.windows(3).filter(|three| three[0].text == "mod" && three[2].text == ";");
    declarations.map(|three| three[1].text.to_owned()).collect()
}

fn content(module: &Module, tokens: &[Token<'_>], is_there: &impl Fn(&Module) -> bool) -> Content {
    let (mut content, mut at) = (Content::default(), 0);
    while at < tokens.len() {
        let is_path = tokens[at..].get(1..3).is_some_and(|two| two.iter().all(|t| t.text == ":"));
        if tokens[at].text == "use" {
            let end = at + tokens[at..].iter().position(|token| token.text == ";").unwrap_or(0);
            for (path, name) in used(&tokens[at + 1..end]) {
                if let Some(path) = absolute(module, &path, is_there) {
                    content.names.insert(name, path.clone());
                    content.paths.push(path);
                }
            }
            at = end.max(at + 1);
        } else if is_path {
            let mut path = vec![tokens[at].text.to_owned()];
            while tokens[at..].get(1..4).is_some_and(|three| {
                three[0].text == ":"
                    && three[1].text == ":"
                    && three[2].text.starts_with(char::is_alphabetic)
            }) {
                path.push(tokens[at + 3].text.to_owned());
                at += 3;
            }
            // A single name is found by its `use`.
            let is_named = ["crate", "self", "super"].contains(&path[0].as_str());
            content.paths.extend(absolute(module, &path, is_there).filter(|_| is_named));
            at += 1;
        } else {
            at += 1;
        }
    }
    content
}

/// The paths of a `use`, each with the name that it introduces.
fn used(tokens: &[Token<'_>]) -> Vec<(Module, String)> {
    let mut prefix = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            ":" => at += 1,
            "{" => {
                let inside = &tokens[at + 1..at + group(&tokens[at..]) - 1];
                return parts(inside)
                    .into_iter()
                    .flat_map(used)
                    .map(|(path, name)| {
                        let whole: Module = prefix.iter().cloned().chain(path).collect();
                        // `self` in braces means the path before them.
                        let name =
                            if name == "self" { prefix[prefix.len() - 1].clone() } else { name };
                        (whole, name)
                    })
                    .collect();
            }
            "as" => break,
            name => {
                prefix.push(name.to_owned());
                at += 1;
            }
        }
    }
    let name = tokens.last().map_or(String::new(), |token| token.text.to_owned());
    if prefix.len() > 1 && prefix.last().is_some_and(|last| last == "self") {
        prefix.pop();
    }
    vec![(prefix, name)]
}

/// The parts of a list, split at its commas.
fn parts<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while at < tokens.len() {
        match tokens[at].text {
            "," => {
                parts.push(&tokens[from..at]);
                at += 1;
                from = at;
            }
            "{" => at += group(&tokens[at..]),
            _ => at += 1,
        }
    }
    parts.push(&tokens[from..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// A path from the crate's root. `None` if the path leads out of the crate.
fn absolute(
    module: &Module,
    path: &[String],
    is_there: &impl Fn(&Module) -> bool,
) -> Option<Module> {
    let mut from = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            from.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                from.pop()?;
                rest = &rest[1..];
            }
        }
        name => {
            from.push(name.to_owned());
            if !is_there(&from) {
                return None;
            }
            rest = &path[1..];
        }
    }
    from.extend(rest.iter().cloned());
    Some(from)
}

/// The module that a path leads to, through re-exported names.
fn resolve(path: &Module, contents: &BTreeMap<&Module, Content>, steps: u32) -> Module {
    let mut len = path.len();
    while len > 0 && !contents.contains_key(&path[..len].to_vec()) {
        len -= 1;
    }
    let module = path[..len].to_vec();
    let handed_on = path.get(len).and_then(|name| contents.get(&module)?.names.get(name));
    match handed_on {
        Some(to) if steps > 0 && to != path => {
            let whole: Module = to.iter().chain(&path[len + 1..]).cloned().collect();
            resolve(&whole, contents, steps - 1)
        }
        _ => module,
    }
}

fn made(files: &[(&str, &str)]) -> Crate {
    let code = |(path, text): &(&str, &str)| Code::new(&format!("src/{path}"), (*text).to_owned());
    Crate::read(&files.iter().map(code).collect::<Vec<_>>(), "src/")
}

#[test]
fn uses_are_found_however_they_are_written() {
    let found = made(&[
        ("lib.rs", "pub mod a; pub mod b; pub mod c; #[cfg(test)] mod d;"),
        ("a/mod.rs", "mod part; pub use part::{Name, Other as Another}; pub use crate::b;"),
        ("a/part.rs", "fn f() { crate::c::g(super::super::c::h); let x: super::Another; }"),
        (
            "b.rs",
            "use crate::{a::Name, c::{self, i}}; use std::c; #[test] fn t() { crate::d::x(); }",
        ),
        (
            "c.rs",
            "// use crate::a;\nconst A: &str = \"crate::a::x\"; #[cfg(test)] mod tests { use crate::a; }",
        ),
        ("d.rs", "use crate::a; use crate::c;"),
    ]);
    let uses = |module: &str| -> Vec<String> {
        let module: Module = module.split('/').map(str::to_owned).collect();
        found.uses[&module].iter().map(|used| used.join("/")).collect()
    };
    assert_eq!(uses("a"), ["a/part", "b"]);
    assert_eq!(uses("a/part"), ["c"]);
    assert_eq!(uses("b"), ["a/part", "c"]);
    assert_eq!(uses("c"), [""; 0]);
    assert!(!found.uses.contains_key(&vec!["d".to_owned()]), "it is for tests");
}

#[test]
fn circles_are_found() {
    let circles = |files| -> Vec<String> {
        let found = made(files);
        let shown = |(from, to): (&Module, &Module)| format!("{} {}", from.join("/"), to.join("/"));
        found.circles().into_iter().map(shown).collect()
    };
    let round = [
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::a::A; use crate::d;"),
        ("d.rs", ""),
    ];
    assert_eq!(circles(&round), ["a b", "b c", "c a"]);
    let parent =
        [("a.rs", "mod b; use b::B;"), ("a/b.rs", "use super::A;"), ("c.rs", "use crate::a;")];
    assert_eq!(circles(&parent), [""; 0]);
    let handed_on = [
        ("a/mod.rs", "mod b; mod c; pub use b::B; pub use c::C;"),
        ("a/b.rs", "use super::C;"),
        ("a/c.rs", "use super::B;"),
    ];
    assert_eq!(circles(&handed_on), ["a/b a/c", "a/c a/b"]);
}
