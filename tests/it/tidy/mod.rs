//! Rules that hold in every file, checked by reading the files.
//!
//! A broken rule names each place. Known faults are listed beside the rule, and the list may only
//! become shorter: an entry that is no longer needed also fails.

mod code;
mod imports;
mod layers;
mod promises;
mod seams;
mod source;
mod text;

/// Known faults that are still to be fixed.
struct Allowed(&'static [&'static str]);

/// Checks that the faults are exactly the known ones.
#[track_caller]
fn assert_none(what: &str, faults: impl IntoIterator<Item = String>, allowed: Allowed) {
    let mut faults: Vec<String> = faults.into_iter().collect();
    faults.sort();
    faults.dedup();
    let (known, new): (Vec<_>, Vec<_>) =
        faults.into_iter().partition(|fault| allowed.0.contains(&fault.as_str()));
    assert!(new.is_empty(), "{what}:\n{}", new.join("\n"));
    let mended = allowed.0.iter().filter(|fault| !known.iter().any(|known| known == *fault));
    let mended: Vec<&str> = mended.copied().collect();
    assert!(
        mended.is_empty(),
        "{what}: mended, so no longer to be allowed:\n{}",
        mended.join("\n")
    );
}

#[test]
#[should_panic(expected = "mended, so no longer to be allowed:\nb")]
fn an_allowance_that_nothing_needs_fails() {
    assert_none("faults", ["a".to_owned()], Allowed(&["a", "b"]));
}
