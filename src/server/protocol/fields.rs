//! The fields of an answer as text: their labels, and what XML and JSON write alike.
//!
//! Invariant: each field is written once, by its kind. No field is named here.

use std::marker::PhantomData;

use super::Pen;
use frs_engine::answer::{Field, FieldValue, FieldVisitor, Judged, JudgedLimit, LimitField};

/// The name of a field with the text that a format writes around it, in one piece.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    bytes: [u8; Label::MAX_BYTES],
    len: usize,
}

impl Label {
    const MAX_BYTES: usize = 24;

    /// Joins texts.
    pub const fn joined<const N: usize>(parts: [&[u8]; N]) -> Label {
        let mut label = Label { bytes: [0; Label::MAX_BYTES], len: 0 };
        let mut part = 0;
        while part < N {
            let mut at = 0;
            while at < parts[part].len() {
                label.bytes[label.len] = parts[part][at];
                label.len += 1;
                at += 1;
            }
            part += 1;
        }
        label
    }

    /// Labels with the same text ahead of each name, and behind it.
    pub const fn around<const N: usize>(
        ahead: &[u8],
        names: [&str; N],
        behind: &[u8],
    ) -> [Label; N] {
        let mut labels = [Label::joined([]); N];
        let mut at = 0;
        while at < N {
            labels[at] = Label::joined([ahead, names[at].as_bytes(), behind]);
            at += 1;
        }
        labels
    }

    /// The whole text.
    #[inline(always)]
    pub const fn text(&self) -> &[u8] {
        self.bytes.split_at(self.len).0
    }
}

/// A format of documents.
pub trait Document {
    /// The text ahead of a name. Its first byte ends the value ahead of it.
    const AHEAD: &'static [u8];
    /// The text between a name and its value.
    const BEHIND: &'static [u8];
    /// The text around a word.
    const QUOTE: &'static [u8];
    /// The text ahead of several numbers, between them and behind them.
    const NUMBERS: [&'static [u8]; 3];
    /// Labels of an answer's fields.
    const LABELS: &'static [Label] = &Label::around(Self::AHEAD, Field::NAMES, Self::BEHIND);
    /// Labels of a limit's fields.
    const LIMIT_LABELS: &'static [Label] = &{
        let mut labels = Label::around(Self::AHEAD, LimitField::NAMES, Self::BEHIND);
        // No value is ahead of the first.
        labels[0] = Label::joined([labels[0].text().split_at(1).1]);
        labels
    };

    /// Appends a text that may have bytes to replace.
    fn write_escaped(out: &mut Vec<u8>, text: &str);
}

/// Writes fields.
struct Writer<'w, 'l, D> {
    pen: &'w mut Pen<'l>,
    out: &'w mut Vec<u8>,
    labels: &'static [Label],
    document: PhantomData<D>,
}

impl<'w, 'l, D: Document> Writer<'w, 'l, D> {
    #[inline(always)]
    fn new(pen: &'w mut Pen<'l>, out: &'w mut Vec<u8>, labels: &'static [Label]) -> Self {
        Writer { pen, out, labels, document: PhantomData }
    }
}

impl<D: Document> FieldVisitor for Writer<'_, '_, D> {
    #[inline(always)]
    fn visit(&mut self, place: usize, value: FieldValue<'_>) {
        self.pen.text(self.labels[place].text());
        self.pen.value::<D>(self.out, value);
    }
}

impl Pen<'_> {
    /// The fields of an answer.
    #[inline(always)]
    pub fn fields<D: Document>(&mut self, out: &mut Vec<u8>, judged: Judged<'_>) {
        let is_common = |field: Field| !field.is_rare();
        judged.walk(&Field::ALL, is_common, &mut Writer::<D>::new(self, out, D::LABELS));
        if judged.has(Field::is_rare) {
            self.aside(|pen| pen.rare_fields::<D>(out, judged));
        }
    }

    #[cold]
    fn rare_fields<D: Document>(&mut self, out: &mut Vec<u8>, judged: Judged<'_>) {
        judged.walk(&Field::ALL, Field::is_rare, &mut Writer::<D>::new(self, out, D::LABELS));
    }

    /// The fields of a limit in the detail.
    pub fn limit_fields<D: Document>(&mut self, out: &mut Vec<u8>, limit: &JudgedLimit<'_>) {
        let mut writer = Writer::<D>::new(self, out, D::LIMIT_LABELS);
        limit.walk(&LimitField::ALL, |_| true, &mut writer);
    }

    #[inline(always)]
    fn value<D: Document>(&mut self, out: &mut Vec<u8>, value: FieldValue<'_>) {
        match value {
            FieldValue::Truth(is_true) => self.truth(is_true),
            FieldValue::Mark => self.text(b"true"),
            FieldValue::Index(number) => self.number(number.into()),
            FieldValue::Number(number) => self.number(number),
            FieldValue::Steady(number) => self.repeated(number),
            FieldValue::Thousandths(number) => self.thousandths(number),
            FieldValue::List(list) => self.word::<D>(list.word()),
            FieldValue::Word(word) => self.word::<D>(word),
            FieldValue::Text(text) => {
                self.text(D::QUOTE);
                self.flush(out);
                D::write_escaped(out, text);
                self.text(D::QUOTE);
            }
            FieldValue::Numbers(numbers) => {
                let [ahead, between, behind] = D::NUMBERS;
                self.text(ahead);
                for (nth, &number) in numbers.iter().enumerate() {
                    self.make_room(out);
                    if nth > 0 {
                        self.text(between);
                    }
                    self.number(number.into());
                }
                self.text(behind);
            }
        }
    }

    fn word<D: Document>(&mut self, word: &str) {
        self.text(D::QUOTE);
        self.text(word.as_bytes());
        self.text(D::QUOTE);
    }
}
