//! Faults: what is wrong in a configuration file, where, and what was expected there.
//!
//! Invariant: a reader that finds a fault notes it and continues, so all faults are reported at
//! once. A value that is missing because of a noted fault is [`Faulty`], so no fault is lost on the
//! way.

use std::fmt;

use super::outside_settings::{Setting, Settings};

/// The most faults kept for one file. Further faults are only counted, because a person has to read
/// them.
const MAX_FAULTS: usize = 1000;

/// The most characters of a line that are shown. The position of the fault is among them.
const SHOWN_CHARS: usize = 96;

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Number of the line, from 1.
    pub line: u32,
    /// Number of the character in the line, from 1.
    pub column: u32,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file's name as given to the reader, or the origin of a setting from outside.
    pub file: String,
    /// The fault's position. `None` if the fault concerns the whole file or a setting from outside.
    pub position: Option<Position>,
    /// What the reader found.
    pub found: String,
    /// What the reader expected.
    pub expected: String,
    /// The line that contains the fault, if the fault has a position.
    pub line: Option<Box<SourceLine>>,
    /// 1 for most faults. If a file has too many faults, its last fault stands for those left out,
    /// and this is their number.
    pub count: usize,
}

/// The part of a line that contains a fault, made safe for a terminal. Displays as two lines: the
/// number and the text, and a caret under the fault's column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    line: u32,
    text: String,
    /// Characters of the text before the fault.
    before: usize,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourceLine { line, text, before } = self;
        let number = line.to_string();
        writeln!(f, "  {number} | {text}")?;
        write!(f, "  {:number$} | {:before$}^", "", "", number = number.len())
    }
}

impl Fault {
    /// A fault of a whole file or of a setting from outside.
    pub(crate) fn without_position(
        file: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Fault {
        let (file, found, expected) = (file.into(), found.into(), expected.into());
        Fault { file, position: None, found, expected, line: None, count: 1 }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": found {}, expected {}", self.found, self.expected)
    }
}

/// All faults of both files, at least one, in the order of the files. Displays as one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    faults: Vec<Fault>,
}

impl Faults {
    /// The faults: those of srv.xml first, and those of each file from top to end.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.faults.iter()
    }

    /// The number of faults, including those left out.
    pub fn count(&self) -> usize {
        self.faults.iter().map(|fault| fault.count).sum()
    }

    pub(crate) fn new(faults: Vec<Fault>) -> Faults {
        debug_assert!(!faults.is_empty());
        Faults { faults }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, fault) in self.faults.iter().enumerate() {
            if nth > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Stands for a value that is missing because of a fault in a [`Notes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Faulty;

/// A checked value, or the guarantee that its fault is noted.
pub(crate) type Checked<T> = Result<T, Faulty>;

/// A struct whose fields are read in this order. All of them are read before the first fault ends
/// the function. A field may use an earlier one by its name: there it is still a [`Checked`].
macro_rules! checked {
    ($type:ident { $($field:ident: $read:expr),* $(,)? }) => {{
        $(let $field = $read;)*
        $type { $($field: $field?),* }
    }};
}
pub(super) use checked;

/// A file's text, and what is needed to find the line and column of an offset.
pub(crate) struct SourceText {
    name: String,
    text: String,
    line_starts: Vec<usize>,
    /// The settings that are laid over the file.
    pub settings: Settings,
}

/// The offset that stands for the first setting from outside. No text is that long.
const SETTINGS_AT: usize = 1 << (usize::BITS - 2);

impl SourceText {
    /// Takes the bytes of a file. Bytes that are not UTF-8 are a fault.
    pub fn new(name: &str, bytes: &[u8]) -> Result<SourceText, Fault> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let (text, fault_at) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                (std::str::from_utf8(valid).unwrap_or_default(), Some(error.valid_up_to()))
            }
        };
        let newlines = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let line_starts = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
        let (name, text) = (name.to_owned(), text.to_owned());
        let source = SourceText { name, text, line_starts, settings: Settings::default() };
        match fault_at {
            None => Ok(source),
            Some(at) => Err(Fault {
                file: source.name.clone(),
                position: Some(source.position(at)),
                found: format!("byte 0x{:02X}", bytes.get(at).copied().unwrap_or_default()),
                expected: "UTF-8".to_owned(),
                line: Some(Box::new(source.line_at(source.position(at)))),
                count: 1,
            }),
        }
    }

    /// The same file with these settings laid over it.
    pub fn under(self, settings: &Settings) -> SourceText {
        SourceText { settings: settings.clone(), ..self }
    }

    /// The origin of a setting, as a message names it.
    fn origin(&self, nth: usize) -> &str {
        self.settings.iter().nth(nth).map_or("a setting from outside", Setting::origin)
    }

    /// The line of a position. Of a long line, only the part around the position.
    fn line_at(&self, Position { line, column }: Position) -> SourceLine {
        let start = self.line_starts.get(line as usize - 1).copied().unwrap_or_default();
        let whole = self.text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
        let column = column as usize - 1;
        let fits = whole.chars().nth(SHOWN_CHARS).is_none();
        let skipped = if fits { 0 } else { column.saturating_sub(SHOWN_CHARS / 2) };
        let mut text = String::new();
        if skipped > 0 {
            text.push('…');
        }
        let mut before = text.chars().count();
        for (at, c) in whole.chars().enumerate().skip(skipped).take(SHOWN_CHARS) {
            let from = text.len();
            match c {
                '\t' => text.push(' '),
                '"' | '\'' | '\\' => text.push(c),
                _ => text.extend(c.escape_debug()),
            }
            if at < column {
                before += text.get(from..).map_or(0, |shown| shown.chars().count());
            }
        }
        if whole.chars().nth(skipped + SHOWN_CHARS).is_some() {
            text.push('…');
        }
        SourceLine { line, text, before }
    }

    /// The text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte offset. An offset inside a character counts as the character's
    /// start.
    pub fn position(&self, offset: usize) -> Position {
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let start = self.line_starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let rest = self.text.get(start..).unwrap_or_default();
        let before = rest.char_indices().take_while(|&(at, c)| start + at + c.len_utf8() <= offset);
        Position { line: line as u32, column: before.count() as u32 + 1 }
    }
}

/// The faults of one file, collected as they are found.
pub(crate) struct Notes<'s> {
    source: &'s SourceText,
    faults: Vec<Fault>,
    more: usize,
}

impl<'s> Notes<'s> {
    /// Notes over a file, without any fault yet.
    pub fn new(source: &'s SourceText) -> Self {
        Notes { source, faults: Vec::new(), more: 0 }
    }

    /// The text of the file.
    pub fn text(&self) -> &'s str {
        self.source.text()
    }

    /// The offset that stands for a setting from outside.
    pub fn offset_of_setting(nth: usize) -> usize {
        SETTINGS_AT + nth
    }

    /// Whether an offset stands for a setting from outside.
    pub fn is_of_setting(offset: usize) -> bool {
        offset >= SETTINGS_AT
    }

    /// The line of a byte offset, for messages that refer to another position.
    pub fn line(&self, offset: usize) -> u32 {
        self.source.position(offset).line
    }

    /// How a message names another position: its line, or the setting's origin.
    pub fn place(&self, offset: usize) -> String {
        match offset.checked_sub(SETTINGS_AT) {
            None => format!("line {}", self.line(offset)),
            Some(nth) => self.source.origin(nth).to_owned(),
        }
    }

    /// Notes a fault at a byte offset.
    pub fn note(
        &mut self,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Faulty {
        if self.faults.len() == MAX_FAULTS {
            self.more += 1;
            return Faulty;
        }
        let (found, expected) = (found.into(), expected.into());
        let (file, position) = match offset.checked_sub(SETTINGS_AT) {
            None => (self.source.name.clone(), Some(self.source.position(offset))),
            Some(nth) => (self.source.origin(nth).to_owned(), None),
        };
        let line = position.map(|position| Box::new(self.source.line_at(position)));
        self.faults.push(Fault { file, position, found, expected, line, count: 1 });
        Faulty
    }

    /// The faults, from the top of the file to its end.
    pub fn into_faults(mut self) -> Vec<Fault> {
        self.faults.sort_by_key(|fault| fault.position);
        if self.more > 0 {
            let found = format!("{} more faults", self.more);
            let rest = Fault::without_position(&self.source.name, found, "none");
            self.faults.push(Fault { count: self.more, ..rest });
        }
        self.faults
    }
}

/// Foreign text for a message, escaped so that it stays on one line, and cut if it is long.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 64;
    let mut cut: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        cut.push('…');
    }
    // escape_debug is for Rust literals; quotes need no escape in a message.
    cut.replace("\\'", "'").replace("\\\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let source =
            SourceText::new("f", "ab\nçd\n\nx".as_bytes()).unwrap_or_else(|f| panic!("{f}"));
        let at = |offset| {
            let Position { line, column } = source.position(offset);
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 3), "the line's end belongs to it");
        assert_eq!(at(3), (2, 1));
        assert_eq!(at(4), (2, 1), "inside of a character");
        assert_eq!(at(5), (2, 2));
        assert_eq!(at(7), (3, 1));
        assert_eq!(at(8), (4, 1));
        assert_eq!(at(9), (4, 2), "the end of the text");
        assert_eq!(at(1000), (4, 2));
    }

    #[test]
    fn bytes_that_are_no_utf8_are_placed() {
        let Err(fault) = SourceText::new("conf/srv.xml", b"<srv>\n  \xc3\xa9\xff") else {
            panic!("taken")
        };
        assert_eq!(fault.to_string(), "conf/srv.xml:2:4: found byte 0xFF, expected UTF-8");
    }

    #[test]
    fn a_caret_points_at_the_fault() {
        let shown = |text: &str, at: usize| {
            let source = SourceText::new("f", text.as_bytes()).unwrap_or_else(|f| panic!("{f}"));
            source.line_at(source.position(at)).to_string()
        };
        assert_eq!(shown("<srv>\n\t<\"wörk\" x>\r\n", 16), "  2 |  <\"wörk\" x>\n    |          ^");
        assert_eq!(
            shown("a\u{1b}b", 2),
            "  1 | a\\u{1b}b\n    |        ^",
            "no terminal acts on it"
        );
        assert_eq!(shown("a\n", 1), "  1 | a\n    |  ^", "the line's end");
        assert_eq!(shown("", 0), "  1 | \n    | ^");
        let long = shown(&format!("{}!{}", "a".repeat(500), "b".repeat(500)), 500);
        let (line, caret) = long.split_once('\n').unwrap_or_default();
        assert_eq!(line, format!("  1 | …{}!{}…", "a".repeat(48), "b".repeat(47)));
        assert_eq!(caret, format!("    | {}^", " ".repeat(49)));
    }

    #[test]
    fn faults_are_bounded_sorted_and_one_line_each() {
        let source = SourceText::new("f", b"a\nb").unwrap_or_else(|f| panic!("{f}"));
        let mut notes = Notes::new(&source);
        notes.note(2, "second", "none");
        notes.note(0, "first", "none");
        for _ in 0..MAX_FAULTS {
            notes.note(2, "later", "none");
        }
        let faults = Faults::new(notes.into_faults());
        let text = faults.to_string();
        assert_eq!(text.lines().count(), MAX_FAULTS + 1);
        assert_eq!(faults.count(), MAX_FAULTS + 2);
        assert!(text.starts_with("f:1:1: found first, expected none\nf:2:1: found second, "));
        assert!(text.ends_with("\nf: found 2 more faults, expected none"), "{text}");
    }

    #[test]
    fn foreign_text_is_cut_and_escaped() {
        assert_eq!(shown("a\nb\"'"), "a\\nb\"'");
        assert_eq!(shown(&"x".repeat(65)), format!("{}…", "x".repeat(64)));
        assert_eq!(shown(&"x".repeat(64)), "x".repeat(64));
    }
}
