//! Text in columns of a terminal, where a character may be two columns wide.
//!
//! Invariant: no result is wider than asked for.

use ratatui::text::Span;

/// The number of columns that a text takes up.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text. If it is too wide, its beginning and an ellipsis.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let mut end = 0;
    for (at, c) in text.char_indices() {
        let next = at + c.len_utf8();
        if width(&text[..next]) > room {
            break;
        }
        end = next;
    }
    format!("{}…", &text[..end])
}

/// The text, with spaces after it.
pub fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let spaces = columns.saturating_sub(width(&text));
    format!("{text}{:spaces$}", "")
}

/// The text, with spaces before it.
pub fn right(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let spaces = columns.saturating_sub(width(&text));
    format!("{:spaces$}{text}", "")
}

/// The first parts that fit whole, with two spaces between them. The first part is cut if it alone
/// is too wide.
pub fn joined(parts: &[String], columns: usize) -> String {
    let mut text = parts.first().map_or_else(String::new, |first| cut(first, columns));
    for part in parts.iter().skip(1) {
        if width(&text) + 2 + width(part) > columns {
            break;
        }
        text = format!("{text}  {part}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_are_cut_by_columns() {
        assert_eq!(width("汉字"), 4);
        assert_eq!(cut("汉字", 4), "汉字");
        assert_eq!(cut("汉字", 3), "汉…");
        assert_eq!(cut("汉字", 2), "…");
        assert_eq!(cut("汉字", 1), "…");
        assert_eq!(cut("汉字", 0), "");
        assert_eq!(cut("abcdef", 4), "abc…");
        for text in ["汉字汉字", "abc", "e\u{301}e\u{301}e\u{301}", "❤\u{fe0f}x❤\u{fe0f}", ""]
        {
            for columns in 0..9 {
                assert!(width(&cut(text, columns)) <= columns, "{text:?} in {columns}");
                assert_eq!(width(&left(text, columns)), columns, "{text:?} in {columns}");
                assert_eq!(width(&right(text, columns)), columns, "{text:?} in {columns}");
            }
        }
    }

    #[test]
    fn parts_are_whole() {
        let parts = ["one", "two", "three"].map(str::to_owned);
        assert_eq!(joined(&parts, 40), "one  two  three");
        assert_eq!(joined(&parts, 14), "one  two");
        assert_eq!(joined(&parts, 2), "o…");
        assert_eq!(joined(&[], 2), "");
    }
}
