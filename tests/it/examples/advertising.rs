//! Advertising: uses counted by user and advertisement, and a weight that decreases.

use super::{DAY, play_in_a_day};

#[test]
fn what_was_seen_often_fades_and_is_never_refused() {
    play_in_a_day("advertising", "Europe/Berlin", 4, |stage| {
        let weights = ["1", "1", "0.65", "0.3", "0.25", "0.2", "0.15", "0.1", "0.05", "0", "0"];
        for (nth, weight) in (1..).zip(weights) {
            let words = format!("limited=false used={nth} max=0 remaining=0 weight={weight}");
            stage.get("/update?biz=seen&key=alice%7Cspring", 200, &words);
        }
        stage.get("/update?biz=seen&key=alice%7Csummer&count=4", 200, "used=4 weight=0.3");

        // Before the choice of the next advertisement all candidates are queried at once, which
        // changes nothing.
        let candidates = r#"<request>
            <item biz="seen" key="alice|spring"/>
            <item biz="seen" key="alice|summer"/>
            <item biz="seen" key="alice|autumn"/></request>"#;
        for _ in 0..2 {
            stage.query(candidates).expect(&[
                "limited=false used=11 weight=0 reset=1..=90000000",
                "limited=false used=4 weight=0.3",
                "limited=false used=0 weight=1 reset=0",
            ]);
        }
        let in_json = r#"{"items": [{"biz": "seen", "key": "alice|summer"}]}"#;
        stage.query(in_json).expect(&["limited=false used=4 weight=0.3"]);

        // 25 hours: a day on which the clock is set back has this length.
        let next_day = stage.later(DAY + DAY / 24, "seen", "alice|spring");
        assert_eq!((next_day.figures.used, next_day.weight), (0, Some(1000)));
    });
}
