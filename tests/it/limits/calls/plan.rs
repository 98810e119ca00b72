//! What a case consists of: a business as map.xml writes it, and calls with their clock.
//!
//! Invariant: a plan is written out in full. Chance is used only in `chance.rs`.

use std::fmt::Write;

use frs_engine::Command;

/// The units of a period as texts write them, with their milliseconds.
pub const PERIOD_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A business under one configuration.
#[derive(Debug, Clone)]
pub struct BizPlan {
    pub limits: Vec<LimitPlan>,
    /// `once` and `once-for`.
    pub once: Option<(u8, u64)>,
    pub holds: Option<HoldsPlan>,
    pub is_shadow: bool,
    /// Lists as they are written.
    pub listed: Vec<ListPlan>,
}

#[derive(Debug, Clone)]
pub struct HoldsPlan {
    /// `None`: the default of a business with a `concurrent` limit.
    pub entries: Option<u16>,
    pub ttl_ms: u64,
    pub frees: bool,
}

#[derive(Debug, Clone)]
pub enum ListPlan {
    Allow(usize),
    Deny(usize),
    Override { key: usize, limit: usize, max: u64 },
}

/// A `<limit>` by its attributes.
#[derive(Debug, Clone)]
pub struct LimitPlan {
    pub policy: &'static str,
    /// The attributes that are numbers of the policy, in the order in which they are written.
    pub numbers: Vec<(&'static str, u64)>,
    /// The rate of a bucket.
    pub rate: Option<(u64, &'static str)>,
    /// Unit, zone and local time of a calendar.
    pub turns: Option<(&'static str, &'static str, u16)>,
    pub is_wide: bool,
    pub ban_ms: Option<u64>,
    pub advises: bool,
    pub is_weighted: bool,
    pub per_call: Option<PerCallPlan>,
}

#[derive(Debug, Clone)]
pub struct PerCallPlan {
    pub most: Option<u64>,
    pub max_period_ms: Option<u64>,
}

impl LimitPlan {
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }

    pub fn number_mut(&mut self, name: &str) -> Option<&mut u64> {
        self.numbers.iter_mut().find(|(known, _)| *known == name).map(|(_, number)| number)
    }

    fn xml(&self, text: &mut String) {
        write!(text, "<limit policy='{}'", self.policy).unwrap();
        for (name, number) in &self.numbers {
            match *name {
                "interval" => write!(text, " interval='{number}ms'").unwrap(),
                name => write!(text, " {name}='{number}'").unwrap(),
            }
        }
        if let Some((number, unit)) = self.rate {
            write!(text, " rate='{number}/{unit}'").unwrap();
        }
        if let Some((unit, zone, at)) = self.turns {
            write!(text, " unit='{unit}' tz='{zone}'").unwrap();
            if at > 0 {
                write!(text, " at='{:02}:{:02}'", at / 60, at % 60).unwrap();
            }
        }
        if self.policy == "distinct" {
            text.push_str(" precision='exact'");
        }
        if self.is_wide {
            text.push_str(" scope='biz'");
        }
        if let Some(ban_ms) = self.ban_ms {
            write!(text, " ban='{ban_ms}ms'").unwrap();
        }
        if self.advises {
            text.push_str(" on-exceed='captcha'");
        }
        if let Some(PerCallPlan { most, max_period_ms }) = &self.per_call {
            text.push_str(" per-call='true'");
            if let Some(most) = most {
                write!(text, " most='{most}'").unwrap();
            }
            if let Some(max_period_ms) = max_period_ms {
                write!(text, " max-period='{max_period_ms}ms'").unwrap();
            }
        }
        text.push_str(match self.is_weighted {
            true => "><weight at='1' value='1'/><weight at='4' value='0.5'/></limit>",
            false => "/>",
        });
    }
}

impl BizPlan {
    /// Appends the business with this id. Its name is `b` and the id.
    pub fn xml(&self, id: usize, text: &mut String) {
        write!(text, "<biz id='{id}' name='b{id}' key='string'").unwrap();
        if let Some((ids, for_ms)) = self.once {
            write!(text, " once='{ids}' once-for='{for_ms}ms'").unwrap();
        }
        if let Some(HoldsPlan { entries, ttl_ms, frees }) = &self.holds {
            if let Some(entries) = entries {
                write!(text, " holds='{entries}'").unwrap();
            }
            write!(text, " hold-ttl='{ttl_ms}ms'").unwrap();
            if *frees {
                text.push_str(" on-lapse='free'");
            }
        }
        if self.is_shadow {
            text.push_str(" mode='shadow'");
        }
        text.push('>');
        self.limits.iter().for_each(|limit| limit.xml(text));
        for listed in &self.listed {
            match listed {
                ListPlan::Allow(key) => write!(text, "<allow key='{}'/>", KEYS[*key]),
                ListPlan::Deny(key) => write!(text, "<deny key='{}'/>", KEYS[*key]),
                ListPlan::Override { key, limit, max } => {
                    let (key, limit) = (KEYS[*key], limit + 1);
                    write!(text, "<override key='{key}' limit='{limit}' max='{max}'/>")
                }
            }
            .unwrap();
        }
        text.push_str("</biz>\n");
    }
}

/// The keys of a business.
pub const KEYS: [&str; 3] = ["anna", "bo", "cyd"];

/// A case: the configurations of one business in turn, each with the calls made under it.
#[derive(Debug, Clone)]
pub struct Case {
    pub begin: i64,
    pub phases: Vec<(BizPlan, Vec<Step>)>,
}

/// A request, and how the clock moves before it.
#[derive(Debug, Clone)]
pub struct Step {
    pub tick: Tick,
    pub command: Command,
    pub atomic: bool,
    /// The id of an atomic request.
    pub once: Option<String>,
    pub items: Vec<ItemPlan>,
}

/// How the clock moves before a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tick {
    By(i64),
    /// To the end of the last answer's wait, plus or minus a little.
    Retry(i64),
    /// To the last answer's turn, plus or minus a little.
    Reset(i64),
    /// To the end of one of the holds, plus or minus a little.
    Lapse(usize, i64),
    /// To where one of the ids is forgotten, plus or minus a little.
    Forget(usize, i64),
}

/// An item of a request.
#[derive(Debug, Clone, Default)]
pub struct ItemPlan {
    pub key: usize,
    pub count: Option<i32>,
    pub force: bool,
    pub detail: bool,
    pub numbers: Numbers,
    pub partial: bool,
    pub member: Option<String>,
    pub once: Option<String>,
    pub hold: Option<String>,
    /// The inner `None` stands for text that is no number.
    pub ttl_ms: Option<Option<u64>>,
    pub settle: bool,
}

/// What a call brings for its limits.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    pub rates: Option<Vec<Word>>,
    pub burst: Option<Option<u64>>,
    pub max: Option<Option<u64>>,
}

/// A word of `rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Word {
    /// `5/90s`. A missing number of units is 1.
    Period { uses: u64, units: Option<u64>, unit: &'static str },
    /// `1000/month`.
    Unit { uses: u64, unit: &'static str },
    /// Text that is no rate.
    Junk(&'static str),
}

impl Word {
    /// As a call writes it.
    pub fn text(self) -> String {
        match self {
            Word::Period { uses, units: Some(units), unit } => format!("{uses}/{units}{unit}"),
            Word::Period { uses, units: None, unit } | Word::Unit { uses, unit } => {
                format!("{uses}/{unit}")
            }
            Word::Junk(text) => text.to_owned(),
        }
    }
}
