//! The seams: the core is a one-machine limiter, and only the files that plug the cluster in name
//! its parts.

use super::source::rust;
use super::{Allowed, assert_none};

/// Words of the cluster. In other files they say that a seam leaks.
const WORDS: [&str; 6] = ["lease", "courier", "ledger", "spill", "backup", "incarnation"];

/// Directories, and the files in them that plug the cluster in. The configuration keeps its
/// settings, and `src/cluster/` is the cluster itself.
struct Seam {
    directories: &'static [&'static str],
    files: &'static [&'static str],
    /// The most files that may be listed.
    most: usize,
}

const SEAMS: [Seam; 3] = [
    // The core.
    Seam {
        directories: &["src/base/", "src/store/", "src/limit/", "src/engine/"],
        files: &[],
        most: 0,
    },
    // Where it speaks to programs.
    Seam {
        directories: &["src/client/"],
        files: &["src/client/error.rs", "src/client/tests.rs"],
        most: 3,
    },
    // Its child, and its figures.
    Seam {
        directories: &["src/server/"],
        files: &[
            "src/server/admin/health.rs",
            "src/server/admin/inspections.rs",
            "src/server/admin/map_json/shape.rs",
            "src/server/cluster.rs",
            "src/server/master/error.rs",
            "src/server/master/reload_rules/tests.rs",
            "src/server/process/child.rs",
            "src/server/stats/metrics.rs",
            "src/server/stats/metrics/tests.rs",
            "src/server/stats/snapshot.rs",
            "src/server/stats/stats_document.rs",
            "src/server/stats/stats_document/tests.rs",
        ],
        most: 15,
    },
];

/// Whether a text has a word of the cluster, as a word of prose or as a part of a name.
fn says(text: &str) -> bool {
    // The names of promises are not prose.
    let mut lines = text.lines().map(|line| line.split("// Shows:").next().unwrap_or_default());
    lines.any(|line| {
        let lower = line.to_ascii_lowercase();
        let is_word = |(at, _): (usize, &str)| {
            let [before, first] = [line[..at].chars().next_back(), line[at..].chars().next()];
            let begins_name = first.is_some_and(char::is_uppercase);
            match before {
                Some(before) if before.is_lowercase() => begins_name,
                Some(before) => !before.is_uppercase(),
                None => true,
            }
        };
        WORDS.iter().any(|word| lower.match_indices(word).any(is_word))
    })
}

#[test]
fn only_its_plugs_name_the_cluster() {
    for Seam { directories, files, most } in SEAMS {
        assert!(files.len() <= most, "{directories:?}: {} files, {most} may be", files.len());
        let is_meant = |path: &str| directories.iter().any(|directory| path.starts_with(directory));
        let found = rust().iter().filter(|source| is_meant(&source.path) && says(&source.text));
        let found = found.map(|source| source.path.clone());
        assert_none("files beside the plugs that name the cluster", found, Allowed(files));
    }
}

#[test]
fn a_word_is_seen_in_prose_and_in_names() {
    for text in ["a lease.", "LeaseKey", "WithLease", "x_lease_y", "//! Courier", "MAX_LEDGERS"] {
        assert!(says(text), "{text}");
    }
    for text in ["Ordering::Release", "release", "RELEASE_ALL", "pleased", "// Shows: spill."] {
        assert!(!says(text), "{text}");
    }
}
