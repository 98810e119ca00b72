//! The face of programs that attach: the library.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use frs::{Client, Error, Item, Verdict};
use frs_engine::{LimitFigures, List};

use super::ask::{Ask, AskExtras, AskItem};
use super::{Face, Fault, Told};
use crate::common::items::{self, Values};

pub struct Attached(Client);

impl Attached {
    pub fn attach(data: &Path) -> Attached {
        Attached(Client::attach(data).expect("attached"))
    }
}

fn item(asked: &AskItem) -> Item<'_> {
    let AskItem { biz, key, count, force, detail, extras } = asked;
    let AskExtras { rate, burst, max, partial, member, once, hold, ttl_ms, settle } = extras;
    let mut item = Item::new(&**biz, &**key);
    if let Some(count) = count {
        item = item.count(*count);
    }
    if *force {
        item = item.force();
    }
    if *detail {
        item = item.detail();
    }
    if let Some(rate) = rate {
        item = item.rate(rate);
    }
    if let Some(burst) = burst {
        item = item.burst(*burst);
    }
    if let Some(max) = max {
        item = item.max(*max);
    }
    if *partial {
        item = item.partial();
    }
    if let Some(id) = once {
        item = item.once(id);
    }
    if let Some(id) = hold {
        item = item.hold(id);
    }
    if let Some(ttl_ms) = ttl_ms {
        item = item.ttl(Duration::from_millis(*ttl_ms));
    }
    if *settle {
        item = item.settle();
    }
    if let Some(member) = member {
        item = item.member(member);
    }
    item
}

/// Values named as in XML. Values that do not apply are left out.
#[derive(Default)]
struct Words(BTreeMap<String, String>);

impl Words {
    fn add(&mut self, name: &str, value: Option<impl ToString>) {
        self.0.extend(value.map(|value| (name.to_owned(), value.to_string())));
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        self.add(name, is_set.then_some("true"));
    }
}

fn told(verdict: Result<&Verdict, &Error>) -> items::Item {
    let mut words = Words::default();
    let verdict = match verdict {
        Ok(verdict) => verdict,
        Err(Error::Item(error)) => {
            words.add("error", Some(error.word()));
            return items::Item { values: Values(words.0), limits: Vec::new() };
        }
        Err(error) => panic!("{error}"),
    };
    words.add("limited", Some(verdict.is_limited()));
    words.add("limit", verdict.limit());
    words.add("used", verdict.used());
    words.add("max", verdict.max());
    words.add("remaining", verdict.remaining());
    words.add("reset", verdict.reset_ms());
    words.add("retry", verdict.retry_ms());
    words.add("action", verdict.action());
    let weight = verdict.weight_thousandths();
    words.add("weight", weight.map(|thousandths| f64::from(thousandths) / 1000.0));
    words.flag("banned", verdict.is_banned());
    words.flag("shadow", verdict.is_shadow());
    words.flag("degraded", verdict.is_degraded());
    let list = verdict.list().map(|list| match list {
        List::Allow => "allow",
        List::Deny => "deny",
    });
    words.add("list", list);
    words.add("granted", verdict.granted());
    words.flag("repeated", verdict.repeated());
    words.add("held", verdict.held());
    words.flag("unknown-hold", verdict.unknown_hold());
    items::Item {
        values: Values(words.0),
        limits: verdict.limits().iter().map(|one| limit(verdict, one)).collect(),
    }
}

fn limit(verdict: &Verdict, limit: &LimitFigures) -> Values {
    let mut words = Words::default();
    words.add("index", Some(limit.index));
    words.add("policy", Some(limit.policy));
    words.add("used", Some(limit.figures.used));
    words.add("max", Some(limit.figures.max));
    words.add("remaining", Some(limit.figures.remaining));
    words.add("reset", limit.figures.reset_ms);
    words.add("retry", limit.retry_ms);
    words.add("standard-error", limit.standard_error());
    let totals = verdict.history(limit.index);
    words.add(
        "history",
        totals.map(|totals| totals.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
    );
    Values(words.0)
}

impl Face for Attached {
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>> {
        // A single item goes through the call for one item.
        if let ([asked], false) = (&ask.items[..], ask.is_atomic) {
            let verdict =
                if ask.is_update { self.0.update(item(asked)) } else { self.0.query(item(asked)) };
            return Some(Ok(Told { refused: false, items: vec![told(verdict.as_ref())] }));
        }
        let mut batch = self.0.batch().items(ask.items.iter().map(item));
        if ask.is_atomic {
            batch = batch.atomic();
        }
        if let Some(id) = &ask.once {
            batch = batch.once(id);
        }
        if !ask.is_update {
            batch = batch.query();
        }
        Some(match batch.run() {
            Ok(answers) => {
                let verdicts = answers.items.iter().map(|verdict| match verdict {
                    Ok(verdict) => told(Ok(verdict)),
                    Err(error) => told(Err(&Error::Item(*error))),
                });
                Ok(Told { refused: answers.refused, items: verdicts.collect() })
            }
            Err(Error::TooMany { .. }) => Err("too-many-items".to_owned()),
            Err(error) => panic!("{error}"),
        })
    }
}
