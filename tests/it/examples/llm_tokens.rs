//! Tokens of a language model: reserved by an estimate, settled by the usage. The story of Envoy is
//! in `tests/it/rls/holds.rs`.

use super::{MINUTE, play};

const TOKENS: &str = "/update?biz=tokens&key=acme";

#[test]
fn an_estimate_is_reserved_and_settled_by_the_usage() {
    play("llm-tokens", |stage| {
        let reserved = "limited=false limit=1 used=90000 max=100000 held=90000";
        stage.get(&format!("{TOKENS}&count=90000&hold=one"), 200, reserved);
        // Twice the same reservation is one.
        stage.get(&format!("{TOKENS}&count=90000&hold=one"), 200, "used=90000 held=90000");
        let refused = "limited=true limit=1 used=90000 retry=1..=60000";
        stage.get(&format!("{TOKENS}&count=20000&hold=two"), 429, refused);
        let settle = format!("{TOKENS}&count=1500&hold=one&settle=true");
        stage.get(&settle, 200, "limited=false used=1500 held=0 !repeated");
        stage.get(&settle, 200, "limited=false used=1500 repeated=true");
        stage.get(&format!("{TOKENS}&count=20000&hold=two"), 200, "used=21500 held=20000");
        stage.get(&format!("{TOKENS}&count=0&hold=two&settle=true"), 200, "used=1500 held=0");
    });
}

#[test]
fn a_usage_beyond_the_estimate_is_charged_and_no_request_passes_then() {
    play("llm-tokens", |stage| {
        stage.get(&format!("{TOKENS}&count=800&hold=one"), 200, "used=800");
        let beyond = "limited=false used=120000 remaining=0";
        stage.get(&format!("{TOKENS}&count=120000&hold=one&settle=true"), 200, beyond);
        stage.get(&format!("{TOKENS}&count=1&hold=two"), 429, "limited=true limit=1");
        // A minute later the day still knows.
        let after = stage.later(MINUTE, "tokens", "acme");
        assert!(!after.limited && after.figures.used <= 120_000, "{after:?}");
    });
}
