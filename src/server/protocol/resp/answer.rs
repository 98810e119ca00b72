//! Answers of items: maps of RESP3, in RESP2 flat arrays of the same names and values in the same
//! order.
//!
//! Invariant: `limited` or `error` is first. Figures and flags are integers, everything else is a
//! bulk. What does not apply is left out.

use super::Version;
use super::fault::words;
use crate::protocol::call::Call;
use crate::protocol::field_label::Label;
use crate::protocol::{Line, Pen, response_head};
use frs_engine::answer::{Field, FieldValue, FieldVisitor, Judged, LimitField};
use frs_engine::{Answer, Answers, ItemError, Request};

/// The status of a limited item: the answer says that it is.
const ANSWERED: u16 = 200;

/// The names of fields, as bulks.
static LABELS: [Label; Field::ALL.len()] = bulks(Field::NAMES);
static LIMIT_LABELS: [Label; LimitField::ALL.len()] = bulks(LimitField::NAMES);

const fn bulks<const N: usize>(names: [&str; N]) -> [Label; N] {
    let mut labels = [Label::joined([]); N];
    let mut at = 0;
    while at < N {
        let name = names[at].as_bytes();
        let digits = [b'0' + (name.len() / 10) as u8, b'0' + (name.len() % 10) as u8];
        let digits = digits.split_at((name.len() < 10) as usize).1;
        labels[at] = Label::joined([b"$", digits, b"\r\n", name, b"\r\n"]);
        at += 1;
    }
    labels
}

/// The order of an answer's fields: that of documents, but `action` is ahead of `weight`, and
/// `banned` behind `degraded`.
const ORDER: [Field; Field::ALL.len()] = {
    let order = moved(Field::ALL, Field::Action as usize, Field::Weight as usize);
    moved(order, Field::Banned as usize, Field::Degraded as usize + 1)
};

const fn moved<const N: usize>(mut order: [Field; N], mut from: usize, to: usize) -> [Field; N] {
    while from != to {
        let next = if from < to { from + 1 } else { from - 1 };
        order.swap(from, next);
        from = next;
    }
    order
}

/// How a request in the queue is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerForm {
    /// As what it is counted.
    pub call: Call,
    /// In which version of the protocol.
    pub version: Version,
    /// In what shape.
    pub shape: Shape,
}

/// The shape of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The one item itself. Its error is one of the protocol.
    One,
    /// A map of `refused` and `items`.
    Many,
    /// The five figures of `CL.THROTTLE`.
    Throttle,
}

/// Appends the answer of a request, and returns the status by which it is counted. `line` is
/// scratch.
#[inline]
pub fn write_answers(
    out: &mut Vec<u8>,
    line: &mut Line,
    AnswerForm { version, shape, .. }: AnswerForm,
    request: &Request,
    answers: &Answers,
) -> u16 {
    let mut pen = line.pen();
    match (shape, &answers.items[..], request.items()) {
        (Shape::One | Shape::Throttle, [Answer { result: Err(error), .. }], _) => {
            pen.aside(|pen| pen.failed(*error, request));
            pen.flush(out);
            if *error == ItemError::Forbidden {
                return response_head::lacking_status(request);
            }
            return response_head::status_of(&answers.items[0], ANSWERED);
        }
        (Shape::Throttle, [Answer { result: Ok(verdict), .. }], [item]) => {
            pen.aside(|pen| pen.throttled(request, item, verdict));
        }
        (Shape::One, [answer], _) => pen.item(out, version, answers, answer),
        _ => {
            pen.map(version, 2);
            pen.text(b"$7\r\nrefused\r\n");
            pen.flag(answers.refused);
            pen.text(b"$5\r\nitems\r\n*");
            pen.number(answers.items.len() as u64);
            pen.text(b"\r\n");
            for answer in &answers.items {
                pen.make_room(out);
                pen.item(out, version, answers, answer);
            }
        }
    }
    pen.flush(out);
    ANSWERED
}

impl Pen<'_> {
    /// The error of the only item of a command.
    #[cold]
    fn failed(&mut self, error: ItemError, request: &Request) {
        if error == ItemError::Forbidden {
            let words = match response_head::lacking_status(request) {
                401 => "-NOAUTH Authentication required.\r\n",
                _ => "-NOPERM this client has no right to do this with the biz\r\n",
            };
            return self.text(words.as_bytes());
        }
        self.text(b"-ERR ");
        self.text(error.word().as_bytes());
        self.text(b" (");
        self.text(words(error).as_bytes());
        self.text(b")\r\n");
    }

    #[inline(always)]
    fn map(&mut self, version: Version, pairs: u64) {
        match version {
            Version::Two => {
                self.text(b"*");
                self.number(2 * pairs);
            }
            Version::Three => {
                self.text(b"%");
                self.number(pairs);
            }
        }
        self.text(b"\r\n");
    }

    #[inline(always)]
    fn flag(&mut self, is_set: bool) {
        self.text(if is_set { b":1\r\n" } else { b":0\r\n" });
    }

    /// An integer, which RESP bounds to 63 bits.
    #[inline(always)]
    fn integer(&mut self, number: u64) {
        self.text(b":");
        self.number(number.min(i64::MAX as u64));
        self.text(b"\r\n");
    }

    /// An item's map.
    #[inline(always)]
    fn item(&mut self, out: &mut Vec<u8>, version: Version, answers: &Answers, answer: &Answer) {
        let verdict = match &answer.result {
            Ok(verdict) => verdict,
            Err(error) => return self.aside(|pen| pen.failed_item(version, *error)),
        };
        let judged = answers.judged(answer, verdict);
        if judged.has(Field::is_rare) || !answer.details.is_empty() {
            return self.aside(|pen| pen.rare_item(out, version, answers, answer, judged));
        }
        let is_common = |field: Field| !field.is_rare();
        self.map(version, judged.count(is_common));
        judged.walk(&ORDER, is_common, &mut Writer { pen: self, out, labels: &LABELS });
    }

    #[cold]
    fn failed_item(&mut self, version: Version, error: ItemError) {
        self.map(version, 1);
        self.text(b"$5\r\nerror\r\n");
        self.short_bulk(error.word().as_bytes());
    }

    /// A bulk that is known to be short.
    fn short_bulk(&mut self, text: &[u8]) {
        self.bulk_length(text.len() as u64);
        self.text(text);
        self.text(b"\r\n");
    }

    /// A map with what few items have.
    #[cold]
    fn rare_item(
        &mut self,
        out: &mut Vec<u8>,
        version: Version,
        answers: &Answers,
        answer: &Answer,
        judged: Judged<'_>,
    ) {
        let limits = answers.limits(answer);
        let has_limits = limits.len() > 0;
        self.map(version, judged.count(|_| true) + u64::from(has_limits));
        judged.walk(&ORDER, |_| true, &mut Writer { pen: self, out, labels: &LABELS });
        if has_limits {
            self.text(b"$6\r\nlimits\r\n*");
            self.number(limits.len() as u64);
            self.text(b"\r\n");
            for limit in limits {
                self.flush(out);
                self.map(version, limit.count(|_| true));
                let mut writer = Writer { pen: self, out, labels: &LIMIT_LABELS };
                limit.walk(&LimitField::ALL, |_| true, &mut writer);
            }
            self.flush(out);
        }
    }

    /// The value behind a name.
    #[inline(always)]
    fn pair_value(&mut self, out: &mut Vec<u8>, value: FieldValue<'_>) {
        match value {
            FieldValue::Truth(is_set) => self.flag(is_set),
            FieldValue::Mark => self.flag(true),
            FieldValue::Index(number) => self.integer(number.into()),
            FieldValue::Number(number) | FieldValue::Steady(number) => self.integer(number),
            FieldValue::Thousandths(number) => {
                self.bulk_length(thousandths_bytes(number));
                self.thousandths(number);
                self.text(b"\r\n");
            }
            FieldValue::List(list) => self.short_bulk(list.word().as_bytes()),
            FieldValue::Word(word) => self.short_bulk(word.as_bytes()),
            FieldValue::Text(text) => {
                self.bulk_length(text.len() as u64);
                self.flush(out);
                out.extend_from_slice(text.as_bytes());
                self.text(b"\r\n");
            }
            FieldValue::Numbers(numbers) => {
                self.text(b"*");
                self.number(numbers.len() as u64);
                self.text(b"\r\n");
                for &number in numbers {
                    self.make_room(out);
                    self.integer(number.into());
                }
            }
        }
    }

    /// The begin of a bulk.
    fn bulk_length(&mut self, bytes: u64) {
        self.text(b"$");
        self.number(bytes);
        self.text(b"\r\n");
    }
}

/// Writes fields.
struct Writer<'w, 'l> {
    pen: &'w mut Pen<'l>,
    out: &'w mut Vec<u8>,
    labels: &'static [Label],
}

impl FieldVisitor for Writer<'_, '_> {
    #[inline(always)]
    fn visit(&mut self, place: usize, value: FieldValue<'_>) {
        self.pen.text(self.labels[place].text());
        self.pen.pair_value(self.out, value);
    }
}

/// The bytes of a number of thousandths, as [`Pen::thousandths`] writes it.
fn thousandths_bytes(number: u32) -> u64 {
    let whole = u64::from((number / 1000).checked_ilog10().unwrap_or(0)) + 1;
    let decimals = number % 1000;
    let fraction = match decimals {
        0 => 0,
        _ if decimals.is_multiple_of(100) => 2,
        _ if decimals.is_multiple_of(10) => 3,
        _ => 4,
    };
    whole + fraction
}

#[cfg(test)]
mod tests;
