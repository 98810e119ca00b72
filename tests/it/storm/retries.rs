//! A storm of retries: each id is sent one to five times, also twice at once. It is charged exactly
//! once if any of its answers says so, and at most once otherwise.
//!
//! Each id of a key has a digit of its own in the uses of the key, to the base 4. So the uses tell
//! how often each id was charged.

use super::{Cut, Line, Random, Storm, digit, get, setup};
use crate::common::{Answer, Client};

const MAP: &str = r#"<map>
  <group name="default" keys="KEYS" on-full="refuse"/>
  <biz id="1" name="retry" key="string" once="16" once-for="1h">
    <limit policy="total" max="1000000000"/>
  </biz>
</map>"#;

/// The ids of a key: the first ones charge it, the others charge it and a second key in one atomic
/// request.
const SINGLE: u64 = 8;
const IDS: u64 = 12;
const BITS: u64 = 2;

/// What is known of an id.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    /// A whole request with it was sent.
    sent: bool,
    /// An answer said that it was charged, now or before.
    acknowledged: bool,
    /// Answers that did not call it a repeat.
    charged: u64,
    repeats: u64,
}

struct Subject {
    key: String,
    ids: [Known; IDS as usize],
}

impl Subject {
    fn request(&self, id: u64, random: &mut Random) -> String {
        let (key, count) = (&self.key, 1 << (BITS * id));
        let update = format!("/update?biz=retry&key={key}&count={count}");
        if id >= SINGLE {
            let item = |key: String| format!("<item biz='retry' key='{key}' count='{count}'/>");
            let items = item(key.clone()) + &item(format!("{key}b"));
            let body = format!("<request atomic='true' once='id-{id}'>{items}</request>");
            let length = body.len();
            let head = "POST /update HTTP/1.1\r\nHost: t\r\nContent-Type: application/xml\r\n";
            return format!("{head}Content-Length: {length}\r\n\r\n{body}");
        }
        match random.below(2) {
            0 => get(&format!("{update}&once=id-{id}")),
            _ => {
                format!("GET {update} HTTP/1.1\r\nHost: t\r\nIdempotency-Key: \"id-{id}\"\r\n\r\n")
            }
        }
    }

    fn note(&mut self, id: u64, answer: Option<Answer>) {
        let Some(answer) = answer else { return };
        let known = &mut self.ids[id as usize];
        if answer.body.contains(" error=\"busy\"") {
            // The holder of its key-node is dying. It was not charged.
            return;
        }
        let is_whole = answer.status == 200 && !answer.body.contains("error=");
        assert!(is_whole && !answer.body.contains("limited=\"true\""), "{answer:?}");
        known.acknowledged = true;
        let is_repeat = answer.body.contains(" repeated=\"true\"");
        known.repeats += u64::from(is_repeat);
        known.charged += u64::from(!is_repeat);
        assert!(known.charged <= 1, "{}: {id} was charged twice: {known:?}", self.key);
    }

    /// Compares what is stored with what is known. Returns the number of charged ids.
    fn check(&self, client: &mut Client) -> u64 {
        let mut used = |key: String| -> u64 {
            let answer = client.get(&format!("/query?biz=retry&key={key}"));
            answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
        };
        let (own, other) = (used(self.key.clone()), used(format!("{}b", self.key)));
        let mut charged = 0;
        for (id, known) in (0..).zip(&self.ids) {
            let times = digit(own, BITS, id);
            let may_be = u64::from(known.acknowledged)..=u64::from(known.sent);
            assert!(may_be.contains(&times), "{}: {id} {times} times, {known:?}", self.key);
            let beside = if id < SINGLE { 0 } else { times };
            assert_eq!(digit(other, BITS, id), beside, "{}: {id} by half", self.key);
            charged += times;
        }
        charged
    }
}

/// A client, which sends the ids of one key after another in any order.
fn retry(storm: &Storm, client: u64) -> Vec<Subject> {
    let mut random = Random::of_client(client);
    let mut lines = [Line::new(storm), Line::new(storm)];
    let mut subjects = Vec::new();
    while !storm.is_over() {
        let key = format!("c{client}-{}", subjects.len());
        let mut subject = Subject { key, ids: [Known::default(); IDS as usize] };
        let times = (0..IDS).flat_map(|id| std::iter::repeat_n(id, 1 + random.below(5) as usize));
        let mut sendings: Vec<u64> = times.collect();
        random.shuffle(&mut sendings);
        while let Some(id) = sendings.pop() {
            let cuts = [(); 2].map(|()| Cut::draw(&mut random));
            // The same again, before the answer to the first is read.
            let later = sendings.iter().position(|&other| other == id);
            let twice = later.filter(|_| random.below(3) == 0);
            if let Some(at) = twice {
                sendings.swap_remove(at);
            }
            let count = 1 + usize::from(twice.is_some());
            for (line, &cut) in lines.iter_mut().zip(&cuts).take(count) {
                line.send(&subject.request(id, &mut random), cut);
                subject.ids[id as usize].sent |= cut != Cut::InRequest;
            }
            for (line, &cut) in lines.iter_mut().zip(&cuts).take(count) {
                subject.note(id, line.answer(cut));
            }
        }
        subjects.push(subject);
    }
    subjects
}

// Shows: retries, deaths-lose-nothing.
#[test]
fn each_id_is_charged_once_in_a_storm_of_retries() {
    let setup = setup(MAP);
    let subjects: Vec<Subject> = Storm::rage(&setup, retry).into_iter().flatten().collect();
    let server = setup.start();
    let mut client = server.client();
    let charged: u64 = subjects.iter().map(|subject| subject.check(&mut client)).sum();
    let sum = |of: fn(&Known) -> u64| -> u64 {
        subjects.iter().flat_map(|subject| &subject.ids).map(of).sum()
    };
    let (sent, acknowledged) =
        (sum(|known| known.sent.into()), sum(|known| known.acknowledged.into()));
    let repeats = sum(|known| known.repeats);
    println!("{sent} ids sent, {charged} charged, {acknowledged} acknowledged, {repeats} repeats");
    assert!(repeats > 0 && charged >= acknowledged);
}
