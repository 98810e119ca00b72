//! Post-paid use: ask first, work, then report the real cost, even beyond the limit.

use super::{DAY, Stage, play};

const ASK: &str = "/query?biz=compute&key=acme";

fn report(stage: &mut Stage, cost: u32, words: &str) {
    let document = format!(
        "<request><item biz=\"compute\" key=\"acme\" count=\"{cost}\" force=\"true\"/></request>"
    );
    stage.update(&document).expect(&[words]);
}

#[test]
fn what_is_above_is_charged_and_paid_later() {
    play("post-paid", |stage| {
        stage.get(ASK, 200, "limited=false used=0 max=1000000 remaining=1200000");
        report(stage, 412_000, "limited=false used=412000 remaining=788000");
        stage.get(ASK, 200, "limited=false used=412000");
        report(stage, 700_000, "limited=false used=1112000 remaining=88000");
        // On credit, and still allowed: the cost is not known yet.
        stage.get(ASK, 200, "limited=false remaining=88000");
        report(stage, 900_000, "limited=true used=2012000 remaining=0");
        stage.get(ASK, 429, "limited=true used=2012000 retry=86000000..=86400000");
        // A job that was running meanwhile is charged in any case.
        report(stage, 300_000, "limited=true used=2312000 remaining=0");
        // One turn leaves 1,312,000, which is still above the limit. Two leave 312,000.
        stage.get(ASK, 429, "limited=true retry=172000000..=172800000");

        let used = |days: u64| stage.later(days * DAY, "compute", "acme").figures.used;
        assert_eq!([1, 2, 3].map(used), [1_312_000, 312_000, 0]);
        assert!(stage.later(DAY, "compute", "acme").limited);
        assert!(!stage.later(2 * DAY, "compute", "acme").limited);
        // Other customers are not affected.
        stage.get("/query?biz=compute&key=other", 200, "limited=false used=0");
    });
}

#[test]
fn too_much_reported_is_given_back() {
    play("post-paid", |stage| {
        report(stage, 1_500_000, "limited=true used=1500000");
        stage.get("/update?biz=compute&key=acme&count=-600000", 200, "limited=false used=900000");
        stage.get(ASK, 200, "limited=false remaining=300000");
    });
}
