//! Invisible characters, and characters that change the look of the text around them. Documents and
//! lines for people show them by number.
//!
//! These characters are control characters (a terminal may treat those of C1 like ESC), the marks
//! that change the direction of text (with them, another text can look like `admin`), and the two
//! separators that some programs take for the end of a line. Answers of the data plane echo their
//! request unchanged, because only the client that sent it reads them.
//!
//! Invariant: a document has the same meaning before and after. CSV and plain text are exceptions:
//! there the result may equal another text that contains such a number.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether the character is hidden. Tabs and line ends are not.
pub const fn is_hidden(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        '\0'..=' ' => c != ' ',
        '\u{7F}'..='\u{9F}' | '\u{61C}' | '\u{200E}' | '\u{200F}' => true,
        '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => true,
        _ => false,
    }
}

/// A JSON document with hidden characters in the form `\u009b`.
pub fn in_json(document: &str) -> Cow<'_, str> {
    // All hidden characters have four digits, and none occurs outside strings.
    replaced(document, |out, c| write!(out, "\\u{:04x}", u32::from(c)))
}

/// An XML document with hidden characters in the form `&#x9b;`. The document must contain no
/// comment, no CDATA section, and no character that XML forbids.
pub fn in_xml(document: &str) -> Cow<'_, str> {
    replaced(document, |out, c| write!(out, "&#x{:x};", u32::from(c)))
}

/// Text with hidden characters in the form `\u{9b}`.
pub fn in_text(text: &str) -> Cow<'_, str> {
    replaced(text, |out, c| write!(out, "\\u{{{:x}}}", u32::from(c)))
}

fn replaced(text: &str, write: impl Fn(&mut String, char) -> std::fmt::Result) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a String never fails.
            let _ = write(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All characters that must not appear unchanged.
    fn all_hidden() -> String {
        let marks = "\u{61C}\u{200E}\u{200F}\u{202A}\u{202B}\u{202C}\u{202D}\u{202E}\
                     \u{2066}\u{2067}\u{2068}\u{2069}\u{2028}\u{2029}";
        ('\u{7F}'..='\u{9F}').chain(marks.chars()).collect()
    }

    // Shows: hidden-characters.
    #[test]
    fn hidden_characters_are_shown_by_number() {
        let text = "a\u{9B}é\u{202E}\u{7F}";
        assert_eq!(in_json(text), "a\\u009bé\\u202e\\u007f");
        assert_eq!(in_xml(text), "a&#x9b;é&#x202e;&#x7f;");
        assert_eq!(in_text(text), "a\\u{9b}é\\u{202e}\\u{7f}");
        assert_eq!(in_text("\u{1B}[2J\0"), "\\u{1b}[2J\\u{0}");
        for shown in [in_json(&all_hidden()), in_xml(&all_hidden()), in_text(&all_hidden())] {
            assert!(shown.bytes().all(|byte| (b' '..0x7F).contains(&byte)), "{shown}");
        }
        for kept in ["", "tab\t, line\r\n, \\, ü, 日本, \u{301}, \u{A0}", "\u{E000}\u{1F600}"] {
            assert!(matches!(in_text(kept), Cow::Borrowed(same) if same == kept));
        }
    }

    // Shows: hidden-characters.
    #[test]
    fn documents_say_the_same_as_before() {
        let text = all_hidden();
        let json = serde_json::json!({ &text: [&text] });
        let shown = in_json(&json.to_string()).into_owned();
        assert!(shown.is_ascii() && !shown.contains('\u{7F}'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
        let shown = format!("<a b=\"{0}\">{0}</a>", text);
        let shown = in_xml(&shown).into_owned();
        assert!(shown.is_ascii() && !shown.contains('\u{7F}'), "{shown}");
        let inner = shown.split('"').nth(1).unwrap();
        assert_eq!(quick_xml::escape::unescape(inner).unwrap(), text);
    }
}
