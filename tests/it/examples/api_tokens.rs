//! Token buckets for each API, and for each client of an API.

use super::{MINUTE, Stage, play, together};
use crate::common::items::Response;

fn call(stage: &mut Stage, api: &str, client: &str, count: u32) -> Response {
    let rows = [format!("api-client {api}|{client} {count}"), format!("api {api} {count}")];
    stage.update(&together(&[&rows[0], &rows[1]]))
}

#[test]
fn five_at_once_and_then_one_every_three_minutes() {
    play("api-tokens", |stage| {
        for nth in 1..=5 {
            let client = format!("limited=false used={nth} max=5 remaining={}", 5 - nth);
            let api = format!("limited=false used={nth} max=12");
            call(stage, "report", "app7", 1).expect(&[&client, &api]);
        }
        let client = "limited=true used=5 max=5 remaining=0 retry=120000..=180000";
        call(stage, "report", "app7", 1).expect_refused(&[client, "limited=false used=5"]);
        // Three more need three tokens; six never fit into five.
        for (count, retry) in [(3, "retry=480000..=540000"), (6, "!retry")] {
            let asked = format!("/query?biz=api-client&key=report%7Capp7&count={count}");
            stage.get(&asked, 429, &format!("limited=true {retry}"));
        }
        let one_back = stage.later(3 * MINUTE, "api-client", "report|app7");
        assert!(!one_back.limited && one_back.figures.remaining == 1, "{one_back:?}");
        let full = stage.later(15 * MINUTE, "api-client", "report|app7");
        assert_eq!((full.figures.used, full.figures.reset_ms), (0, Some(0)));
    });
}

#[test]
fn all_clients_of_an_api_share_its_bucket() {
    play("api-tokens", |stage| {
        for client in ["app1", "app2", "app3"] {
            call(stage, "report", client, 4).expect(&["used=4", "limited=false"]);
        }
        // The API's refusal costs the client nothing, and its other APIs still work.
        let api = "limited=true used=12 max=12 remaining=0 retry=1..=60000";
        call(stage, "report", "app4", 1).expect_refused(&["limited=false used=0", api]);
        call(stage, "export", "app4", 2).expect(&["used=2 max=2 remaining=0", "used=2"]);
        call(stage, "export", "app4", 1).expect_refused(&["limited=true max=2", "limited=false"]);
    });
}

#[test]
fn headers_tell_clients_what_they_have() {
    play("api-tokens", |stage| {
        let answer = stage.raw("/update?biz=api-client&key=report%7Capp7&count=2");
        assert!(
            answer.head.contains("RateLimit-Policy: \"api-client\";q=5;w=900\r\n"),
            "{answer:?}"
        );
        assert!(answer.head.contains("RateLimit: \"api-client\";r=3;t="), "{answer:?}");
    });
}
