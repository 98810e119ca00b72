//! Response documents and error documents, as XML and JSON write them alike.
//!
//! Invariant: a document says the same in each format. The formats differ only in the texts of
//! their [`Document`].

use std::fmt;
use std::marker::PhantomData;

use super::field_label::Label;
use super::{Error, Line, Pen};
use frs_base::scan::Short;
use frs_conf::Listen;
use frs_engine::answer::{Field, FieldValue, FieldVisitor, Judged, LimitField};
use frs_engine::{Answer, Answers, Item, ItemNames, Request};

/// A format of documents.
pub trait Document {
    /// The beginning of a response.
    const RESPONSE: &'static [u8];
    /// The beginning of a response to a refused request.
    const REFUSED_RESPONSE: &'static [u8];
    /// The end of a response.
    const RESPONSE_END: &'static [u8];
    /// The text between two items or two limits.
    const BETWEEN: &'static [u8];
    /// The text ahead of an item's biz, and ahead of its key.
    const NAMES: [&'static [u8]; 2];
    /// The end of an item without limits.
    const ITEM_END: &'static [u8];
    /// The text ahead of the limits of an item, and behind them at the end of the item.
    const LIMITS: [&'static [u8]; 2];
    /// The beginning of a limit and its end.
    const LIMIT: [&'static [u8]; 2];
    /// The texts ahead of an error's code, ahead of its words and behind them.
    const ERROR: [&'static [u8]; 3];
    /// The text ahead of the name of a field. Its first byte ends the value ahead of it.
    const AHEAD: &'static [u8];
    /// The text between the name of a field and its value.
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
    /// Labels of the error of an item, and of the place of an error.
    const FAULT_LABELS: &'static [Label; 3] =
        &Label::around(Self::AHEAD, ["error", "line", "column"], Self::BEHIND);

    /// Whether the names need no escape.
    fn are_plain(request: &Request, names: [Short<'_>; 2]) -> bool;

    /// Appends a text, with the bytes replaced that the format forbids.
    fn write_escaped(out: &mut Vec<u8>, text: &str);
}

/// Appends the response document of `request`. `line` is scratch.
pub fn write<D: Document>(
    out: &mut Vec<u8>,
    line: &mut Line,
    request: &Request,
    answers: &Answers,
) {
    let mut pen = line.pen();
    // Each of constant length.
    if answers.refused {
        pen.text(D::REFUSED_RESPONSE);
    } else {
        pen.text(D::RESPONSE);
    }
    for (index, (item, answer)) in request.items().iter().zip(&answers.items).enumerate() {
        pen.make_room(out);
        if index > 0 && !D::BETWEEN.is_empty() {
            pen.text(D::BETWEEN);
        }
        match request.short_names(item) {
            Some(ItemNames { biz, key }) if D::are_plain(request, [biz, key]) => {
                pen.text(D::NAMES[0]);
                pen.echo::<D>(biz, item.biz_is_number);
                pen.text(D::NAMES[1]);
                pen.echo::<D>(key, item.key_is_number);
            }
            _ => {
                pen.flush(out);
                write_names::<D>(out, request, item);
            }
        }
        match &answer.result {
            Err(error) => {
                pen.text(D::FAULT_LABELS[0].text());
                pen.word::<D>(error.word());
                pen.text(D::ITEM_END);
            }
            Ok(verdict) => {
                pen.fields::<D>(out, answers.judged(answer, verdict));
                if answer.details.is_empty() {
                    pen.text(D::ITEM_END);
                } else {
                    pen.aside(|pen| write_limits::<D>(out, pen, answers, answer));
                }
            }
        }
    }
    pen.text(D::RESPONSE_END);
    pen.flush(out);
}

#[inline(never)]
fn write_names<D: Document>(out: &mut Vec<u8>, request: &Request, item: &Item) {
    let names = [request.biz(item), request.key(item)];
    let are_numbers = [item.biz_is_number, item.key_is_number];
    for ((ahead, name), is_number) in D::NAMES.into_iter().zip(names).zip(are_numbers) {
        let quote: &[u8] = if is_number { b"" } else { D::QUOTE };
        out.extend_from_slice(ahead);
        out.extend_from_slice(quote);
        D::write_escaped(out, name);
        out.extend_from_slice(quote);
    }
}

#[inline(never)]
fn write_limits<D: Document>(
    out: &mut Vec<u8>,
    pen: &mut Pen<'_>,
    answers: &Answers,
    answer: &Answer,
) {
    pen.text(D::LIMITS[0]);
    for (index, limit) in answers.limits(answer).enumerate() {
        if index > 0 {
            pen.text(D::BETWEEN);
        }
        pen.flush(out);
        pen.text(D::LIMIT[0]);
        let mut writer = Writer::<D>::new(pen, out, D::LIMIT_LABELS);
        limit.walk(&LimitField::ALL, |_| true, &mut writer);
        pen.text(D::LIMIT[1]);
    }
    pen.flush(out);
    pen.text(D::LIMITS[1]);
}

/// Appends the document of an error of the whole request, which may name the address of the admin
/// plane. `line` is scratch.
pub fn write_error<D: Document>(
    out: &mut Vec<u8>,
    line: &mut Line,
    error: &Error,
    admin: Option<&Listen>,
) {
    let mut pen = line.pen();
    pen.text(D::ERROR[0]);
    pen.text(error.code().word().as_bytes());
    pen.text(D::QUOTE);
    if let Some(position) = error.position() {
        pen.text(D::FAULT_LABELS[1].text());
        pen.number(u64::from(position.line));
        pen.text(D::FAULT_LABELS[2].text());
        pen.number(u64::from(position.column));
    }
    pen.text(D::ERROR[1]);
    pen.flush(out);
    // Writing to a Vec never fails.
    let _ = error.write_words(&mut Words::<D>(out, PhantomData), admin);
    out.extend_from_slice(D::ERROR[2]);
}

/// Escapes what is written to it.
struct Words<'a, D>(&'a mut Vec<u8>, PhantomData<D>);

impl<D: Document> fmt::Write for Words<'_, D> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        D::write_escaped(self.0, text);
        Ok(())
    }
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
    /// A biz or key as the request had it: a number stays a number.
    #[inline(always)]
    fn echo<D: Document>(&mut self, name: Short<'_>, is_number: bool) {
        let is_quoted = !is_number && !D::QUOTE.is_empty();
        if is_quoted {
            self.text(D::QUOTE);
        }
        self.short_text(name);
        if is_quoted {
            self.text(D::QUOTE);
        }
    }

    /// The fields of an answer.
    #[inline(always)]
    fn fields<D: Document>(&mut self, out: &mut Vec<u8>, judged: Judged<'_>) {
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

    #[inline(always)]
    fn word<D: Document>(&mut self, word: &str) {
        self.text(D::QUOTE);
        self.text(word.as_bytes());
        self.text(D::QUOTE);
    }
}
