//! What items are answered, in both versions.

use std::sync::Arc;

use super::*;
use crate::protocol::format::ANSWER_BYTES;
use frs_engine::{
    AnswerAge, Details, Figures, HistorySpan, ItemOptions, LimitFigures, List, Mark, Noted, Verdict,
};

fn figures() -> Figures {
    Figures { used: 1, max: 5, remaining: 4, reset_ms: Some(60_000) }
}

fn judged() -> Verdict {
    Verdict { limit: 1, figures: figures(), ..Verdict::UNJUDGED }
}

fn written(version: Version, shape: Shape, answers: &Answers) -> (String, u16) {
    let mut request = Request::default();
    answers.items.iter().for_each(|_| request.push("b", "k", ItemOptions::ONE));
    let form = AnswerForm { call: Call::Update, version, shape };
    let (mut out, mut line) = (b"before".to_vec(), Line::default());
    let status = write_answers(&mut out, &mut line, form, &request, answers);
    let text = String::from_utf8(out).unwrap();
    (text.strip_prefix("before").unwrap().replace("\r\n", " "), status)
}

fn answer(result: Result<Verdict, ItemError>) -> Answer {
    Answer { biz: Some(0), result, details: 0..0, action: 0 }
}

fn one(verdict: Verdict) -> [String; 2] {
    let answers = Answers { items: vec![answer(Ok(verdict))], ..Answers::default() };
    [Version::Two, Version::Three].map(|version| written(version, Shape::One, &answers).0)
}

const FIGURES: &str = "$5 limit :1 $4 used :1 $3 max :5 $9 remaining :4 $5 reset :60000 ";

#[test]
fn an_item_is_a_map_or_a_flat_array_of_the_same() {
    let passed = format!("$7 limited :0 {FIGURES}");
    assert_eq!(one(judged()), [format!("*12 {passed}"), format!("%6 {passed}")]);
    let refused = Verdict { limited: true, retry_ms: Some(9), ..judged() };
    let text = format!("$7 limited :1 {FIGURES}$5 retry :9 ");
    assert_eq!(one(refused), [format!("*14 {text}"), format!("%7 {text}")]);
    let never = Verdict { figures: Figures { reset_ms: None, ..figures() }, ..judged() };
    assert_eq!(one(never)[1], "%5 $7 limited :0 $5 limit :1 $4 used :1 $3 max :5 $9 remaining :4 ");
    // An integer of RESP has a sign.
    let most = Verdict { figures: Figures { used: u64::MAX, ..figures() }, ..judged() };
    assert!(one(most)[0].contains("$4 used :9223372036854775807 "));
}

#[test]
fn what_few_items_have_comes_in_the_order_of_the_page() {
    let all = Verdict {
        limited: true,
        retry_ms: Some(7),
        weight: Some(2_050),
        shadow: true,
        degraded: true,
        banned: true,
        shared: Some(AnswerAge::of(Some(12))),
        ..judged()
    };
    let text = format!(
        "$7 limited :1 {FIGURES}$5 retry :7 $6 weight $4 2.05 $6 shadow :1 $8 degraded :1 \
         $6 banned :1 $6 shared :1 $3 age :12 "
    );
    assert_eq!(one(all), [format!("*26 {text}"), format!("%13 {text}")]);
    let unheard = Verdict { shared: Some(AnswerAge::of(None)), ..judged() };
    assert_eq!(one(unheard)[1], format!("%7 $7 limited :0 {FIGURES}$6 shared :1 "));
    let denied = Verdict { limited: true, list: Some(List::Deny), ..Verdict::UNJUDGED };
    assert_eq!(one(denied)[1], "%2 $7 limited :1 $4 list $4 deny ");
    let allowed = Verdict { list: Some(List::Allow), ..Verdict::UNJUDGED };
    assert_eq!(one(allowed)[1], "%2 $7 limited :0 $4 list $5 allow ");
    let partial = Verdict { noted: Noted::NOTHING.granting(7).holding(Some(0)), ..judged() };
    let text = format!("%8 $7 limited :0 {FIGURES}$7 granted :7 $4 held :0 ");
    assert_eq!(one(partial)[1], text);
    let noted = Noted::NOTHING.with(Mark::Repeated, true).with(Mark::UnknownHold, true);
    let again = Verdict { noted, ..judged() };
    let text = format!("%8 $7 limited :0 {FIGURES}$8 repeated :1 $12 unknown-hold :1 ");
    assert_eq!(one(again)[1], text);
    let off = Verdict { degraded: true, ..Verdict::UNJUDGED };
    assert_eq!(one(off)[0], "*4 $7 limited :0 $8 degraded :1 ");
}

#[test]
fn advice_and_the_detail() {
    let refused = LimitFigures {
        index: 2,
        policy: "sliding-counter",
        figures: Figures { reset_ms: None, ..figures() },
        retry_ms: Some(3),
        limited: true,
        error_thousandths: None,
        history: HistorySpan::default(),
    };
    let open = LimitFigures { retry_ms: None, figures: figures(), ..refused };
    let items = vec![Answer { details: 0..2, action: 1, ..answer(Ok(judged())) }];
    let word: Arc<str> = "captcha".into();
    let details = Details::from(vec![refused, open]);
    let answers = Answers { details, actions: vec![word], items, ..Answers::default() };
    let limit = "$5 index :2 $6 policy $15 sliding-counter $4 used :1 $3 max :5 $9 remaining :4 ";
    assert_eq!(
        written(Version::Three, Shape::One, &answers).0,
        format!(
            "%8 $7 limited :0 {FIGURES}$6 action $7 captcha $6 limits *2 %6 {limit}$5 retry :3 \
             %6 {limit}$5 reset :60000 "
        )
    );
    let flat = written(Version::Two, Shape::One, &answers).0;
    assert!(flat.starts_with("*16 ") && flat.contains("*2 *12 $5 index"), "{flat}");
}

/// The bound used to count memory.
#[test]
fn the_longest_answer_is_within_its_bound() {
    let most =
        Figures { used: u64::MAX, max: u64::MAX, remaining: u64::MAX, reset_ms: Some(u64::MAX) };
    let all = Verdict {
        limited: true,
        banned: true,
        shadow: true,
        degraded: true,
        list: Some(List::Allow),
        limit: u16::MAX,
        weight: Some(u32::MAX),
        figures: most,
        retry_ms: Some(u64::MAX),
        shared: Some(AnswerAge::of(Some(u64::MAX))),
        noted: Noted::NOTHING
            .granting(i32::MAX as u32)
            .with(Mark::Repeated, true)
            .with(Mark::UnknownHold, true)
            .holding(Some(u64::MAX - 1)),
        ..Verdict::UNJUDGED
    };
    let items = vec![Answer { action: 1, ..answer(Ok(all)) }];
    let answers = Answers { items, actions: vec!["w".repeat(32).into()], ..Answers::default() };
    let (text, _) = written(Version::Two, Shape::One, &answers);
    // Each line end was two bytes.
    let bytes = text.len() + text.matches(' ').count();
    assert!((380..=ANSWER_BYTES).contains(&bytes), "{bytes}: {text}");
}

#[test]
fn the_detail_with_windows_before() {
    let figures = LimitFigures {
        index: 1,
        policy: "count",
        figures: figures(),
        retry_ms: None,
        limited: false,
        error_thousandths: None,
        history: HistorySpan::default(),
    };
    let written_with = |totals: &[u32]| {
        let mut details = Details::default();
        details.push(figures, Some(totals.iter().copied()));
        let items = vec![Answer { details: 0..1, ..answer(Ok(judged())) }];
        let answers = Answers { details, items, ..Answers::default() };
        let [flat, map] =
            [Version::Two, Version::Three].map(|version| written(version, Shape::One, &answers).0);
        let limit = "$5 index :1 $6 policy $5 count $4 used :1 $3 max :5 $9 remaining :4 \
                     $5 reset :60000 ";
        let [flat, map] = [flat, map].map(|text| {
            let (begin, history) = text.split_once(limit).expect("the limit");
            (begin.to_owned(), history.to_owned())
        });
        assert!(flat.0.ends_with("*1 *14 ") && map.0.ends_with("*1 %7 "), "{flat:?} {map:?}");
        assert_eq!(flat.1, map.1);
        map.1
    };
    assert_eq!(written_with(&[]), "$7 history *0 ");
    assert_eq!(written_with(&[1204, 998, 0]), "$7 history *3 :1204 :998 :0 ");
    let many = written_with(&[u32::MAX; 366]);
    assert_eq!(many, format!("$7 history *366 {}", ":4294967295 ".repeat(366)));
}

#[test]
fn weights_have_the_length_that_is_said() {
    for thousandths in (0..3000).chain([9_999, 10_000, 10_010, 10_100, 123_456, u32::MAX]) {
        let text = one(Verdict { weight: Some(thousandths), ..judged() });
        let (_, rest) = text[1].split_once("$6 weight $").unwrap();
        let mut words = rest.split(' ');
        let length: usize = words.next().unwrap().parse().unwrap();
        assert_eq!(length, words.next().unwrap().len(), "{thousandths}");
    }
}

#[test]
fn an_error_of_the_only_item_is_one_of_the_protocol_and_among_items_a_word() {
    let of_state = [ItemError::Store, ItemError::Busy, ItemError::Full, ItemError::FullHolds];
    for error in ItemError::ALL {
        let status = if of_state.contains(&error) { 503 } else { 400 };
        let answers = Answers { items: vec![answer(Err(error))], ..Answers::default() };
        for shape in [Shape::One, Shape::Throttle] {
            let (text, found) = written(Version::Two, shape, &answers);
            if error == ItemError::Forbidden {
                // Of a caller who has shown nothing; the others get -NOPERM.
                assert_eq!((&*text, found), ("-NOAUTH Authentication required. ", 401));
                continue;
            }
            assert!(text.starts_with(&format!("-ERR {} (", error.word())), "{text}");
            assert_eq!((text.matches(' ').count() > 3, found), (true, status));
        }
        let items = vec![answer(Err(error)), answer(Ok(judged()))];
        let answers = Answers { refused: true, items, ..Answers::default() };
        let (text, status) = written(Version::Three, Shape::Many, &answers);
        let word = error.word();
        let failed = format!("%1 $5 error ${} {word} ", word.len());
        let passed = format!("%6 $7 limited :0 {FIGURES}");
        assert_eq!(text, format!("%2 $7 refused :1 $5 items *2 {failed}{passed}"));
        assert_eq!(status, 200);
        let (text, _) = written(Version::Two, Shape::Many, &answers);
        let failed = failed.replace("%1", "*2");
        let passed = passed.replace("%6", "*12");
        assert_eq!(text, format!("*4 $7 refused :1 $5 items *2 {failed}{passed}"));
    }
}

#[test]
fn many_items_are_whole_however_full_the_line_is() {
    let longest = Verdict {
        limited: true,
        retry_ms: Some(u64::MAX),
        weight: Some(u32::MAX),
        shadow: true,
        degraded: true,
        banned: true,
        shared: Some(AnswerAge::of(Some(u64::MAX - 5))),
        noted: Noted::NOTHING
            .granting(i32::MAX as u32)
            .with(Mark::Repeated, true)
            .with(Mark::UnknownHold, true)
            .holding(Some(u64::MAX - 1)),
        limit: u16::MAX,
        figures: Figures {
            used: u64::MAX,
            max: u64::MAX,
            remaining: u64::MAX,
            reset_ms: Some(u64::MAX),
        },
        ..Verdict::UNJUDGED
    };
    let alone = &one(longest)[0];
    assert!(alone.len() > 250);
    for count in 1..60 {
        for short in 0..4 {
            let mut items = vec![answer(Err(ItemError::Busy)); short];
            items.extend(vec![answer(Ok(longest)); count]);
            let answers = Answers { items, ..Answers::default() };
            let (text, _) = written(Version::Two, Shape::Many, &answers);
            let shorts = "*2 $5 error $4 busy ".repeat(short);
            let head = format!("*4 $7 refused :0 $5 items *{} ", short + count);
            assert_eq!(text, head + &shorts + &alone.repeat(count));
        }
    }
}
