//! Finds the known name nearest to an unknown one, for fault messages.
//!
//! Names are compared by optimal string alignment distance (Damerau 1964, restricted): an
//! insertion, a deletion, a substitution and a swap of neighbours each count as one.

/// The most characters of a name. A longer name has no nearest one. This bounds the work.
const MAX_CHARS: usize = 64;

/// The known name nearest to `name`, if it is near enough to be meant. The first among equals.
pub(crate) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if name.chars().nth(MAX_CHARS).is_some() {
        return None;
    }
    let name = name.to_lowercase();
    let near = known.into_iter().filter_map(|candidate| {
        let lowercase = candidate.to_lowercase();
        let distance = strsim::osa_distance(&name, &lowercase);
        // A third of the letters may be wrong. In a short name, one.
        let longer = name.chars().count().max(lowercase.chars().count());
        (distance <= (longer / 3).max(1)).then_some((distance, candidate))
    });
    near.min_by_key(|&(distance, _)| distance).map(|(_, candidate)| candidate)
}

/// Words that name the nearest known name. Empty if no name is near enough.
pub(crate) fn nearest_words<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(name, known).map_or(String::new(), |near| format!(" (nearest: {near})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["workers", "listen", "allow", "data", "http", "log"];
        let of = |name| nearest(name, known);
        assert_eq!(of("wrokers"), Some("workers"), "a swap");
        assert_eq!(of("worker"), Some("workers"), "a letter less");
        assert_eq!(of("Listen"), Some("listen"), "another case");
        assert_eq!(of("lgo"), Some("log"));
        assert_eq!(of("date"), Some("data"));
        assert_eq!(of("banana"), None);
        assert_eq!(of(""), None);
        assert_eq!(of(&"workers".repeat(10_000)), None);
        assert_eq!(nearest("x", []), None);
    }
}
