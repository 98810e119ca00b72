//! Cases of calls that say more: numbers of their own, a part, an id, a hold.

use super::{Case, Cases, Sent, ask, kill_at_every_store};
use crate::Extras;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="2" chain="3" node-size="256"/>
  <biz id="1" name="window" group="g" key="string" once="3">
    <limit policy="interval" interval="1m" max="9" per-call="true" most="20"/>
  </biz>
  <biz id="2" name="places" group="g" key="string" hold-ttl="10s">
    <limit policy="concurrent" max="3"/>
  </biz>
  <biz id="3" name="tokens" group="g" key="string" once="3" holds="2" hold-ttl="10s">
    <limit policy="interval" interval="1m" max="100"/>
  </biz>
  <biz id="4" name="loan" group="g" key="string" holds="2" hold-ttl="10s" on-lapse="free">
    <limit policy="interval" interval="1m" max="100"/>
  </biz>
</map>"#;

fn moved_map() -> String {
    MAP.replace(
        r#"files="1" key-nodes="2" chain="3" node-size="256""#,
        r#"files="2" key-nodes="1" chain="4" node-size="320" key-bytes="40""#,
    )
}

impl Sent {
    const fn once(self, id: &'static str) -> Sent {
        Sent { brings: Extras { once: Some(id), ..self.brings }, ..self }
    }

    const fn rate(self, rate: &'static str) -> Sent {
        Sent { brings: Extras { rate: Some(rate), ..self.brings }, ..self }
    }

    const fn partial(self) -> Sent {
        Sent { brings: Extras { partial: true, ..self.brings }, ..self }
    }

    const fn hold(self, id: &'static str) -> Sent {
        Sent { brings: Extras { hold: Some(id), ..self.brings }, ..self }
    }

    const fn settle(self) -> Sent {
        Sent { brings: Extras { settle: true, ..self.brings }, ..self }
    }

    /// Its life is over when the request comes.
    const fn lapsing(self) -> Sent {
        Sent { brings: Extras { ttl_ms: Some(Some(5)), ..self.brings }, ..self }
    }
}

impl Case {
    const fn once(self, id: &'static str) -> Case {
        Case { once: Some(id), ..self.atomic() }
    }
}

const RATE: Case = Case::new(
    "rate",
    &[ask("window", "a", 3).rate("20/1m")],
    &[ask("window", "a", 8).rate("15/90s").once("x")],
);
const PART: Case =
    Case::new("part", &[ask("window", "a", 7)], &[ask("window", "a", 5).partial().once("x")]);
const FIRST: Case = Case::new("first", &[], &[ask("window", "a", 1).once("x")]);
/// The first item is a repeat.
const REPEAT: Case = Case::new(
    "repeat",
    &[ask("window", "a", 1).once("x"), ask("window", "a", 1).once("y")],
    &[ask("window", "a", 1).once("x"), ask("window", "a", 2).once("z")],
);
const ATOMIC: Case = Case::new(
    "atomic-once",
    &[ask("window", "a", 1).once("y"), ask("tokens", "c", 5).hold("h")],
    &[
        ask("window", "a", 1),
        ask("window", "b", 2),
        ask("window", "a", 3),
        ask("tokens", "c", 7).hold("h"),
    ],
)
.once("x");
const MAKE: Case = Case::new("make", &[], &[ask("places", "a", 1).hold("h")]);
const RENEW: Case =
    Case::new("renew", &[ask("places", "a", 1).hold("h")], &[ask("places", "a", 1).hold("h")]);
const GROW: Case =
    Case::new("grow", &[ask("tokens", "a", 10).hold("h")], &[ask("tokens", "a", 30).hold("h")]);
const GIVE_BACK: Case = Case::new(
    "give-back",
    &[ask("tokens", "a", 30).hold("h")],
    &[ask("tokens", "a", 10).hold("h")],
);
const LET_GO: Case = Case::new(
    "let-go",
    &[ask("places", "a", 2).hold("h"), ask("places", "a", 1).hold("i")],
    &[ask("places", "a", 0).hold("h")],
);
const SETTLE: Case = Case::new(
    "settle",
    &[ask("tokens", "a", 80).hold("h")],
    &[ask("tokens", "a", 50).hold("h").settle().once("x")],
);
const SETTLE_UNKNOWN: Case = Case::new(
    "settle-unknown",
    &[ask("tokens", "a", 10)],
    &[ask("tokens", "a", 200).hold("h").settle()],
);
const LAPSE_KEPT: Case = Case::new(
    "lapse-kept",
    &[ask("tokens", "a", 30).hold("h").lapsing()],
    &[ask("tokens", "a", 20).hold("i")],
);
const LAPSE_FREED: Case = Case::new(
    "lapse-freed",
    &[ask("loan", "a", 30).hold("h").lapsing()],
    &[ask("loan", "a", 90).hold("i")],
);
const LAPSE_RELEASED: Case = Case::new(
    "lapse-released",
    &[ask("places", "a", 2).hold("h").lapsing()],
    &[ask("places", "a", 3).hold("i")],
);
/// The table is full: one hold is settled, the other one lives.
const REUSE: Case = Case::new(
    "reuse",
    &[
        ask("tokens", "a", 30).hold("h"),
        ask("tokens", "a", 10).hold("i"),
        ask("tokens", "a", 20).hold("h").settle(),
    ],
    &[ask("tokens", "a", 40).hold("j")],
);

pub(super) const CALLS: Cases = Cases {
    map: MAP,
    moved_map,
    repeats: true,
    all: &[
        RATE,
        PART,
        FIRST,
        REPEAT,
        ATOMIC,
        MAKE,
        RENEW,
        GROW,
        GIVE_BACK,
        LET_GO,
        SETTLE,
        SETTLE_UNKNOWN,
        LAPSE_KEPT,
        LAPSE_FREED,
        LAPSE_RELEASED,
        REUSE,
        Case { name: "moving-rate", ..RATE.moving() },
        Case { name: "moving-atomic-once", ..ATOMIC.moving() },
        Case { name: "moving-renew", ..RENEW.moving() },
        Case { name: "moving-grow", ..GROW.moving() },
        Case { name: "moving-settle", ..SETTLE.moving() },
        Case { name: "moving-lapse-freed", ..LAPSE_FREED.moving() },
        Case { name: "moving-reuse", ..REUSE.moving() },
    ],
};

// Shows: deaths-lose-nothing, retries, holds, lapses, per-call, partial-grants, growth.
#[test]
fn death_at_every_store_of_a_call() {
    kill_at_every_store(&CALLS);
}
