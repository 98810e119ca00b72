//! The caption of a plot: the description of the run and its figures, as lines of text.
//!
//! Invariant: no line has more columns than asked for, the number of lines is bounded, and no
//! character is hidden or forbidden in XML. An ellipsis stands for omitted text.

use crate::stamp::Stamp;
use crate::summary::Summary;

/// The most lines of a part of the caption.
const LINES: usize = 6;
const ELLIPSIS: &str = "…";

/// The lines of the caption.
pub fn lines(summary: &Summary<'_>, stamp: &Stamp, columns: usize) -> Vec<String> {
    let parts = [
        stamp.to_string(),
        format!("options: {}", stamp.words.join(" ")),
        summary.title(),
        summary.manner(),
        format!("requests {}", summary.rates()),
        format!("latency in µs: {}", summary.quantiles(", ")),
    ];
    parts.iter().flat_map(|part| wrap(&plain(part), columns, LINES)).collect()
}

/// The text, with the number of each invisible character in its place.
fn plain(text: &str) -> String {
    let shown = |c: char| match c {
        '\'' | '"' | '\\' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    text.chars().map(shown).collect()
}

/// The columns that a character may take up: two, unless it is known to be narrow.
fn width(c: char) -> usize {
    if c.is_ascii() || c == '…' { 1 } else { 2 }
}

fn columns_of(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Breaks a text at spaces, and within words that are longer than a line. The last line ends with
/// an ellipsis if more lines would be needed.
fn wrap(text: &str, columns: usize, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        add_word(&mut lines, word, columns);
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            while columns_of(last) + 1 > columns && last.pop().is_some() {}
            last.push_str(ELLIPSIS);
        }
    }
    lines
}

fn add_word(lines: &mut Vec<String>, word: &str, columns: usize) {
    let last = lines.last_mut().expect("never empty");
    let gap = usize::from(!last.is_empty());
    if columns_of(last) + gap + columns_of(word) <= columns {
        last.extend(std::iter::repeat_n(' ', gap));
        last.push_str(word);
        return;
    }
    if !last.is_empty() {
        lines.push(String::new());
    }
    for c in word.chars() {
        let last = lines.last_mut().expect("never empty");
        if columns_of(last) + width(c) > columns && !last.is_empty() {
            lines.push(String::new());
        }
        lines.last_mut().expect("never empty").push(c);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_parted_at_spaces_and_long_ones_inside() {
        assert_eq!(wrap("one two three", 7, 6), ["one two", "three"]);
        assert_eq!(wrap("a 0123456789 b", 4, 6), ["a", "0123", "4567", "89 b"]);
        assert_eq!(wrap("a 0123456789 b", 4, 2), ["a", "012…"]);
        assert_eq!(wrap("汉字汉字", 5, 6), ["汉字", "汉字"]);
        assert_eq!(wrap("", 5, 6), [""]);
    }

    #[test]
    fn what_nobody_sees_is_a_number() {
        assert_eq!(plain("a\u{1b}'b'\u{202e}\u{ffff}\\"), r"a\u{1b}'b'\u{202e}\u{ffff}\");
    }

    proptest! {
        #[test]
        fn no_line_is_longer_than_asked_for(text in ".{0,400}", columns in 4_usize..90) {
            let lines = wrap(&plain(&text), columns, LINES);
            prop_assert!((1..=LINES).contains(&lines.len()));
            for line in &lines {
                prop_assert!(columns_of(line) <= columns, "{line}");
            }
            let all: String = lines.concat().split_whitespace().collect();
            let whole: String = plain(&text).split_whitespace().collect();
            match all.strip_suffix(ELLIPSIS) {
                Some(part) if lines.len() == LINES => {
                    prop_assert!(whole.starts_with(part) || whole == all);
                }
                _ => prop_assert_eq!(all, whole),
            }
        }
    }
}
