//! A storm of holds: clients make, renew, settle and let go, or die and renew no more.
//!
//! Never is more held than the maximum. A hold that is not renewed is over after its life. A true
//! cost is charged once, however often it is sent.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::{Cut, Line, Random, Storm, digit, get, setup};
use crate::common::{Answer, Client};

const MAP: &str = r#"<map>
  <group name="default" keys="KEYS" on-full="refuse"/>
  <group name="places" files="1" key-nodes="64" chain="8"/>
  <biz id="1" name="places" group="places" key="string" holds="64" hold-ttl="2s">
    <limit policy="concurrent" max="20"/>
  </biz>
  <biz id="2" name="loan" key="string" holds="6" hold-ttl="1h">
    <limit policy="total" max="1000000000"/>
  </biz>
</map>"#;

/// Keys of `places`, and how much each may hold.
const KEYS: u64 = 2;
const MAX: u64 = 20;
const HOLD_TTL: Duration = Duration::from_secs(2);
/// A hold may end so much earlier than a client believes: a worker reads its clock before the call
/// comes, and may have to wait for a processor in between.
const TICK: Duration = Duration::from_millis(500);

/// Reservations of a key of `loan`. Each has a digit in the uses, to the base 16.
const LOANS: u64 = 6;
const BITS: u64 = 4;
const RESERVED: u64 = 3;
const COST: u64 = 1;

/// What a client certainly holds.
#[derive(Debug)]
struct Held {
    count: u64,
    until: Instant,
}

/// What all clients certainly hold of each key, by the ids of the holds.
#[derive(Default)]
struct Certain([Mutex<BTreeMap<String, Held>>; KEYS as usize]);

impl Certain {
    fn remove(&self, key: u64, hold: &str) {
        self.0[key as usize].lock().expect("no panic").remove(hold);
    }

    fn insert(&self, key: u64, hold: &str, own: Held) {
        let mut all = self.0[key as usize].lock().expect("no panic");
        all.insert(hold.to_owned(), own);
        let now = Instant::now();
        all.retain(|_, held| held.until > now);
        let held: u64 = all.values().map(|held| held.count).sum();
        assert!(held <= MAX, "{held} are held: {all:?}");
    }
}

#[derive(Debug, Default)]
struct Figures {
    made: u64,
    renewed: u64,
    let_go: u64,
    /// Holds of clients that have died.
    left_to_lapse: u64,
    refused: u64,
    settled: u64,
    settled_again: u64,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.made += other.made;
        self.renewed += other.renewed;
        self.let_go += other.let_go;
        self.left_to_lapse += other.left_to_lapse;
        self.refused += other.refused;
        self.settled += other.settled;
        self.settled_again += other.settled_again;
    }
}

fn number(answer: &Answer, name: &str) -> u64 {
    let text = answer.attribute(name).unwrap_or_else(|| panic!("{name} in {answer:?}"));
    text.parse().expect("a number")
}

fn is_busy(answer: &Answer) -> bool {
    answer.attribute("error") == Some("busy")
}

/// What is known of a reservation.
#[derive(Debug, Default, Clone, Copy)]
struct Loan {
    reserved: bool,
    /// A whole request to reserve, or to settle, was sent.
    may_be_reserved: bool,
    may_be_settled: bool,
    settled: bool,
}

struct Lender {
    key: String,
    loans: [Loan; LOANS as usize],
}

impl Lender {
    fn check(&self, client: &mut Client) {
        let answer = client.get(&format!("/query?biz=loan&key={}", self.key));
        let (all, all_held) = (number(&answer, "used"), number(&answer, "held"));
        for (id, loan) in (0..).zip(&self.loans) {
            let found = (digit(all, BITS, id), digit(all_held, BITS, id));
            let may_be = match found {
                (0, 0) => !loan.reserved && !loan.settled,
                (RESERVED, RESERVED) => loan.may_be_reserved && !loan.settled,
                (COST, 0) => loan.may_be_settled,
                _ => false,
            };
            assert!(may_be, "{}: {id} is {found:?}, {loan:?}", self.key);
        }
    }
}

/// A client, which holds places and settles reservations by turns.
struct Holder<'s> {
    storm: &'s Storm,
    certain: &'s Certain,
    random: Random,
    client: u64,
    line: Line<'s>,
    second: Line<'s>,
    holds: u64,
    figures: Figures,
    lenders: Vec<Lender>,
}

impl Holder<'_> {
    /// Asks until an answer comes, as a client does that retries. `None`: the storm is over.
    fn insist(&mut self, request: &str) -> Option<Answer> {
        loop {
            let cut = Cut::draw(&mut self.random);
            let answer = self.line.ask(request, cut).filter(|answer| !is_busy(answer));
            if answer.is_some() || self.storm.is_over() {
                return answer;
            }
        }
    }

    /// Makes a hold, renews it some times, and lets it go or dies.
    fn hold(&mut self) {
        let (key, count) = (self.random.below(KEYS), 1 + self.random.below(4));
        let hold = format!("h{}-{}", self.client, self.holds);
        self.holds += 1;
        let update = format!("/update?biz=places&key=k{key}&hold={hold}");
        let ttl = Duration::from_millis(200 + self.random.below(1800));
        let request = get(&format!("{update}&count={count}&ttl={}", ttl.as_millis()));
        for nth in 0..1 + self.random.below(4) {
            self.certain.remove(key, &hold);
            let sent = Instant::now();
            let Some(answer) = self.insist(&request) else { return };
            let held = number(&answer, "held");
            assert!(held <= MAX && held == number(&answer, "used"), "{answer:?}");
            if answer.status == 429 {
                self.figures.refused += 1;
                return;
            }
            assert!(answer.status == 200 && held >= count, "{answer:?}");
            if let Some(until) = (sent + ttl).checked_sub(TICK) {
                self.certain.insert(key, &hold, Held { count, until });
            }
            match nth {
                0 => self.figures.made += 1,
                _ => self.figures.renewed += 1,
            }
            thread::sleep(Duration::from_millis(self.random.below(30)));
        }
        if self.random.below(4) == 0 {
            self.figures.left_to_lapse += 1;
            return;
        }
        self.certain.remove(key, &hold);
        let Some(answer) = self.insist(&get(&format!("{update}&count=0"))) else { return };
        assert!(answer.status == 200 && number(&answer, "held") <= MAX, "{answer:?}");
        self.figures.let_go += 1;
    }

    /// Reserves and settles, each some times and in part twice at once. A copy of the reservation
    /// comes late.
    fn lend(&mut self) {
        let key = format!("l{}-{}", self.client, self.lenders.len());
        let mut loans = [Loan::default(); LOANS as usize];
        for (id, loan) in (0..LOANS).zip(&mut loans) {
            let shift = BITS * id;
            let update = format!("/update?biz=loan&key={key}&hold=r{id}");
            let reserve = get(&format!("{update}&count={}", RESERVED << shift));
            let settle = get(&format!("{update}&count={}&settle=true", COST << shift));
            for _ in 0..self.random.below(3) {
                let cut = Cut::draw(&mut self.random);
                loan.may_be_reserved |= cut != Cut::InRequest;
                let answer = self.line.ask(&reserve, cut).filter(|answer| !is_busy(answer));
                loan.reserved |= answer.is_some_and(|answer| {
                    assert_eq!(answer.status, 200, "{answer:?}");
                    true
                });
            }
            let mut charged = 0;
            for _ in 0..self.random.below(4) {
                let cuts = [(); 2].map(|()| Cut::draw(&mut self.random));
                self.line.send(&settle, cuts[0]);
                self.second.send(&settle, cuts[1]);
                loan.may_be_settled |= cuts.iter().any(|&cut| cut != Cut::InRequest);
                let answers = [self.line.answer(cuts[0]), self.second.answer(cuts[1])];
                for answer in answers.into_iter().flatten().filter(|answer| !is_busy(answer)) {
                    assert_eq!(answer.status, 200, "{answer:?}");
                    loan.settled = true;
                    let is_repeat = answer.attribute("repeated") == Some("true");
                    charged += u64::from(!is_repeat);
                    self.figures.settled_again += u64::from(is_repeat);
                }
            }
            assert!(charged <= 1, "{key}: {id} was settled twice");
            self.figures.settled += u64::from(loan.settled);
            if self.random.below(3) == 0 {
                let cut = Cut::draw(&mut self.random);
                loan.may_be_reserved |= cut != Cut::InRequest;
                if let Some(answer) = self.line.ask(&reserve, cut).filter(|one| !is_busy(one)) {
                    let is_repeat = answer.attribute("repeated") == Some("true");
                    assert!(is_repeat || !loan.settled, "{answer:?}");
                    loan.reserved |= !loan.settled;
                }
            }
        }
        self.lenders.push(Lender { key, loans });
    }
}

// Shows: holds, lapses, deaths-lose-nothing.
#[test]
fn never_is_more_held_than_the_maximum_in_a_storm_of_holds() {
    let (setup, certain) = (setup(MAP), Certain::default());
    let holders = Storm::rage(&setup, |storm, client| {
        let mut holder = Holder {
            storm,
            certain: &certain,
            random: Random::of_client(client),
            client,
            line: Line::new(storm),
            second: Line::new(storm),
            holds: 0,
            figures: Figures::default(),
            lenders: Vec::new(),
        };
        while !storm.is_over() {
            match client % 3 {
                0 => holder.lend(),
                _ => holder.hold(),
            }
        }
        (holder.figures, holder.lenders)
    });
    let ended = Instant::now();
    let server = setup.start();
    let mut client = server.client();
    let mut all = Figures::default();
    for (figures, lenders) in &holders {
        all.add(figures);
        lenders.iter().for_each(|lender| lender.check(&mut client));
    }
    println!("{all:?}");
    assert!(all.made > 0 && all.left_to_lapse > 0 && all.settled_again > 0, "{all:?}");
    // Nobody renews any more: each life is over at its end, to a tick.
    thread::sleep((HOLD_TTL + TICK).saturating_sub(ended.elapsed()));
    for key in 0..KEYS {
        let answer = client.get(&format!("/query?biz=places&key=k{key}"));
        assert_eq!(number(&answer, "held"), 0, "{answer:?}");
        let answer = client.get(&format!("/update?biz=places&key=k{key}&hold=all&count={MAX}"));
        assert_eq!((answer.status, number(&answer, "held")), (200, MAX), "{answer:?}");
    }
}
