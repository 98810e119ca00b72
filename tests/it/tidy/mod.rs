//! What a reader may rely on in every file, held by looking at the files.
//!
//! A rule that is broken names each place. What is still to be mended is listed beside the rule,
//! and the list may only become shorter: an entry that nothing needs any more fails as well.

mod code;
mod imports;
mod layers;
mod source;
mod text;

/// Faults that are known and still to go.
struct Allowed(&'static [&'static str]);

/// No faults but those, and all of those.
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
