//! What /health answers, and what a turn answers at most.

use super::*;

#[test]
fn health_tells_what_is_wrong() {
    let mut line = Line::new();
    let asked = get("/health") + &get("/query?biz=login&key=a") + &get("/health");
    line.stub.ailment = Some("the disk is broken");
    line.push(asked.as_bytes());
    assert_eq!(statuses(&line.text()), [503, 200, 503], "all else is served");
    assert_eq!(line.text().matches("\r\n\r\nthe disk is broken").count(), 2);
    assert!(!line.closed);
    let calls: Vec<u16> = line.stub.answered.iter().map(|&(_, status)| status).collect();
    assert_eq!(calls, [503, 200, 503]);

    let mut line = Line::new();
    line.push(get("/health").as_bytes());
    assert_eq!(statuses(&line.text()), [200]);
}
