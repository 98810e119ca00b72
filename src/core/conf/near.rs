//! The nearest known name to one that is not known, for fault messages.
//!
//! Names are compared by optimal string alignment distance (Damerau 1964, restricted): insertions,
//! deletions, substitutions and swaps of neighbours count one each.

/// Names longer than this have no nearest one: it bounds the work.
const MAX_CHARS: usize = 64;

/// The known name nearest to `name`, if one is near enough to be meant; of equals the first.
pub(super) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let name: Vec<char> = name.chars().take(MAX_CHARS + 1).flat_map(char::to_lowercase).collect();
    if name.len() > MAX_CHARS {
        return None;
    }
    let near = known.into_iter().filter_map(|candidate| {
        let chars: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
        let distance = distance(&name, &chars);
        // A third of the letters may be wrong; of a short name one.
        (distance <= (name.len().max(chars.len()) / 3).max(1)).then_some((distance, candidate))
    });
    near.min_by_key(|&(distance, _)| distance).map(|(_, candidate)| candidate)
}

fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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

    #[test]
    fn distances() {
        let of = |a: &str, b: &str| {
            distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
        };
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("abc", ""), 3);
        assert_eq!(of("abc", "abc"), 0);
        assert_eq!(of("ab", "ba"), 1);
        assert_eq!(of("kitten", "sitting"), 3);
    }
}
