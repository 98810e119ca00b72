//! Message control: 15 a minute and 50 a day for each recipient; 2 in 59 s and 5 in 59 min for each
//! recipient and content.

use super::{DAY, MINUTE, SECOND, play, together};

fn message(number: &str, content: &str) -> String {
    together(&[&format!("recipient {number}"), &format!("content {number}|{content}")])
}

#[test]
fn the_same_content_twice_and_fifteen_messages_a_minute() {
    play("messages", |stage| {
        let hello = message("18829340001", "hello");
        for nth in 1..=2 {
            let recipient = format!("limited=false limit=1 used={nth} max=15");
            let content = format!("limited=false limit=1 used={nth} max=2");
            stage.update(&hello).expect(&[&recipient, &content]);
        }
        // A third message is not sent, and does not count for the recipient.
        let content = "limited=true limit=1 used=2 remaining=0 retry=1..=59000";
        stage.update(&hello).expect_refused(&["limited=false used=2 remaining=13", content]);
        // The same content may go to another recipient, and another content to this one.
        stage.update(&message("18829340002", "hello")).expect(&["used=1", "used=1"]);
        for nth in 3..=15 {
            let other = message("18829340001", &format!("code {nth}").replace(' ', "-"));
            stage.update(&other).expect(&[&format!("used={nth}"), "used=1"]);
        }
        let recipient = "limited=true limit=1 used=15 max=15 remaining=0 retry=1..=60000";
        let one_more = message("18829340001", "one-more");
        stage.update(&one_more).expect_refused(&[recipient, "limited=false used=0 remaining=2"]);

        let content = "18829340001|hello";
        assert!(stage.later(50 * SECOND, "content", content).limited);
        let free = stage.later(59 * SECOND, "content", content);
        assert!(!free.limited, "{free:?}");
        // Now the longer limit decides: two of five are used.
        assert_eq!((free.figures.used, free.figures.remaining), (0, 2));
        assert!(!stage.later(MINUTE, "recipient", "18829340001").limited);
    });
}

#[test]
fn an_undelivered_message_is_given_back() {
    play("messages", |stage| {
        let hello = message("18829340003", "hello");
        stage.update(&hello);
        stage.update(&hello);
        let back = together(&["recipient 18829340003 -1", "content 18829340003|hello -1"]);
        stage.update(&back).expect(&["used=1", "used=1"]);
        stage.update(&hello).expect(&["used=2", "used=2"]);
    });
}

#[test]
fn fifty_in_a_day_whatever_the_minute_says_and_the_same_in_json() {
    play("messages", |stage| {
        // Reports messages that another gateway has sent.
        let reported = r#"{"items": [
            {"biz": "recipient", "key": "18829340004", "count": 50, "force": true}]}"#;
        stage.update(reported).expect(&["limited=true used=50"]);
        let asked = r#"{"atomic": true, "items": [
            {"biz": "recipient", "key": "18829340004", "detail": true},
            {"biz": "content", "key": "18829340004|hello"}]}"#;
        let refused = stage.update(asked);
        // Both limits refuse. Waiting for the first is not enough, so `retry` is that of the day.
        let items = ["limited=true limit=1 retry=86000000..=86400000", "limited=false used=0"];
        refused.expect_refused(&items);
        let [minute, day] = &refused.items[0].limits[..] else { panic!("{refused:?}") };
        minute.expect("index=1 policy=sliding used=50 max=15 remaining=0 retry=1..=60000");
        day.expect("index=2 policy=sliding used=50 max=50 remaining=0 retry=86000000..=86400000");

        let next_hour = stage.later(60 * MINUTE, "recipient", "18829340004");
        assert!(next_hour.limited && next_hour.limit == 2, "{next_hour:?}");
        assert!(!stage.later(DAY, "recipient", "18829340004").limited);
    });
}
