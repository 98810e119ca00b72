//! Answers of items: maps of RESP3, in RESP2 flat arrays of the same names and values in the same
//! order.
//!
//! Invariant: `limited` or `error` is first. Figures and flags are integers, everything else is a
//! bulk. What does not apply is left out.

use super::Version;
use crate::protocol::call::Call;
use crate::protocol::{Line, Pen, response_head};
use frs_engine::{Answer, Answers, Figures, ItemError, LimitFigures, List, Request, Verdict};

/// The status of a limited item: the answer says that it is.
const ANSWERED: u16 = 200;

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
            pen.failed(*error);
            pen.flush(out);
            return response_head::status_of(&answers.items[0], ANSWERED);
        }
        (Shape::Throttle, [Answer { result: Ok(verdict), .. }], [item]) => {
            pen.throttled(request, item, verdict);
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

/// What an error of an item means, in the words of its page.
const fn words(error: ItemError) -> &'static str {
    match error {
        ItemError::UnknownBiz => "map.xml names no such business",
        ItemError::BadKey => "the key is empty, too long, not UTF-8, or not of the type of the biz",
        ItemError::BadCount => "expected a whole number of 32 bits",
        ItemError::BadMember => "the biz notes members, and MEMBER has 1 to 1024 bytes of UTF-8",
        ItemError::BadRate => {
            "rate or burst are out of bounds, the period is over max-period, or the biz takes none"
        }
        ItemError::Store => "the files of the group failed, or the configuration cannot be read",
        ItemError::Busy => {
            "the record was not free within lock-timeout, or the cluster has not answered in time"
        }
        ItemError::Full => "the group has no room for another key",
    }
}

impl Pen<'_> {
    /// The error of the only item of a command.
    #[cold]
    fn failed(&mut self, error: ItemError) {
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
        let is_marked = verdict.banned | verdict.shadow | verdict.degraded;
        let is_told = verdict.list.is_some() | verdict.shared.is_some() | verdict.weight.is_some();
        let is_more = answer.action != 0 || !answer.details.is_empty();
        if is_marked | is_told | is_more || verdict.limit == 0 {
            return self.aside(|pen| pen.rare_item(out, version, answers, answer, verdict));
        }
        let retry_ms = verdict.retry_ms.filter(|_| verdict.limited);
        let reset_ms = verdict.figures.reset_ms;
        self.map(version, 5 + u64::from(reset_ms.is_some()) + u64::from(retry_ms.is_some()));
        self.limited(verdict.limited);
        self.decider_pairs(verdict);
        if let Some(retry_ms) = retry_ms {
            self.retry_pair(retry_ms);
        }
    }

    #[inline(always)]
    fn limited(&mut self, limited: bool) {
        self.text(b"$7\r\nlimited\r\n");
        self.flag(limited);
    }

    /// The deciding limit and its figures.
    #[inline(always)]
    fn decider_pairs(&mut self, verdict: &Verdict) {
        self.text(b"$5\r\nlimit\r\n");
        self.integer(verdict.limit.into());
        self.figures_pairs(&verdict.figures);
    }

    #[inline(always)]
    fn figures_pairs(&mut self, figures: &Figures) {
        self.text(b"$4\r\nused\r\n");
        self.integer(figures.used);
        self.text(b"$3\r\nmax\r\n");
        self.integer(figures.max);
        self.text(b"$9\r\nremaining\r\n");
        self.integer(figures.remaining);
        if let Some(reset_ms) = figures.reset_ms {
            self.text(b"$5\r\nreset\r\n");
            self.integer(reset_ms);
        }
    }

    #[inline(always)]
    fn retry_pair(&mut self, retry_ms: u64) {
        self.text(b"$5\r\nretry\r\n");
        self.integer(retry_ms);
    }

    #[cold]
    fn failed_item(&mut self, version: Version, error: ItemError) {
        self.map(version, 1);
        self.text(b"$5\r\nerror\r\n");
        self.short_bulk(error.word().as_bytes());
    }

    /// A bulk that is known to be short.
    fn short_bulk(&mut self, text: &[u8]) {
        self.text(b"$");
        self.number(text.len() as u64);
        self.text(b"\r\n");
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
        verdict: &Verdict,
    ) {
        let is_judged = verdict.limit != 0;
        let retry_ms = verdict.retry_ms.filter(|_| verdict.limited);
        let age_ms = verdict.shared.and_then(frs_engine::Heard::age_ms);
        let action = answers.action(answer);
        let details = answers.details.get(answer.details.clone()).unwrap_or_default();
        let pairs = [
            true,
            is_judged,
            is_judged,
            is_judged,
            is_judged,
            is_judged && verdict.figures.reset_ms.is_some(),
            retry_ms.is_some(),
            action.is_some(),
            verdict.weight.is_some(),
            verdict.shadow,
            verdict.degraded,
            verdict.banned,
            verdict.shared.is_some(),
            age_ms.is_some(),
            verdict.list.is_some(),
            !details.is_empty(),
        ];
        self.map(version, pairs.iter().filter(|pair| **pair).count() as u64);
        self.limited(verdict.limited);
        if is_judged {
            self.decider_pairs(verdict);
        }
        if let Some(retry_ms) = retry_ms {
            self.retry_pair(retry_ms);
        }
        if let Some(word) = action {
            self.text(b"$6\r\naction\r\n$");
            self.number(word.len() as u64);
            self.text(b"\r\n");
            self.flush(out);
            out.extend_from_slice(word.as_bytes());
            self.text(b"\r\n");
        }
        if let Some(thousandths) = verdict.weight {
            self.text(b"$6\r\nweight\r\n$");
            self.thousandths_bulk(thousandths);
        }
        let flags: [(bool, &[u8]); 4] = [
            (verdict.shadow, b"$6\r\nshadow\r\n:1\r\n"),
            (verdict.degraded, b"$8\r\ndegraded\r\n:1\r\n"),
            (verdict.banned, b"$6\r\nbanned\r\n:1\r\n"),
            (verdict.shared.is_some(), b"$6\r\nshared\r\n:1\r\n"),
        ];
        flags.iter().filter(|(is_set, _)| *is_set).for_each(|(_, text)| self.text(text));
        if let Some(age_ms) = age_ms {
            self.text(b"$3\r\nage\r\n");
            self.integer(age_ms);
        }
        match verdict.list {
            Some(List::Allow) => self.text(b"$4\r\nlist\r\n$5\r\nallow\r\n"),
            Some(List::Deny) => self.text(b"$4\r\nlist\r\n$4\r\ndeny\r\n"),
            None => {}
        }
        if !details.is_empty() {
            self.text(b"$6\r\nlimits\r\n*");
            self.number(details.len() as u64);
            self.text(b"\r\n");
            for limit in details {
                self.flush(out);
                self.limit_map(out, version, limit, answers.details.totals(limit));
            }
            self.flush(out);
        }
    }

    /// A limit in the detail.
    fn limit_map(
        &mut self,
        out: &mut Vec<u8>,
        version: Version,
        limit: &LimitFigures,
        totals: Option<&[u32]>,
    ) {
        let has = [
            limit.figures.reset_ms.is_some(),
            limit.retry_ms.is_some(),
            limit.error_thousandths.is_some(),
            totals.is_some(),
        ];
        self.map(version, 5 + has.iter().filter(|has| **has).count() as u64);
        self.text(b"$5\r\nindex\r\n");
        self.integer(limit.index.into());
        self.text(b"$6\r\npolicy\r\n");
        self.short_bulk(limit.policy.as_bytes());
        self.figures_pairs(&limit.figures);
        if let Some(retry_ms) = limit.retry_ms {
            self.retry_pair(retry_ms);
        }
        if let Some(thousandths) = limit.error_thousandths {
            self.text(b"$14\r\nstandard-error\r\n$");
            self.thousandths_bulk(thousandths.into());
        }
        if let Some(totals) = totals {
            self.text(b"$7\r\nhistory\r\n*");
            self.number(totals.len() as u64);
            self.text(b"\r\n");
            for &total in totals {
                self.make_room(out);
                self.integer(total.into());
            }
        }
    }

    /// The rest of a bulk after its `$`.
    fn thousandths_bulk(&mut self, thousandths: u32) {
        self.number(thousandths_bytes(thousandths));
        self.text(b"\r\n");
        self.thousandths(thousandths);
        self.text(b"\r\n");
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
