//! Tests of the answers of /health, and of the bounds of a tick.

use super::*;

impl Connection {
    /// The bytes held for a body that arrives in pieces.
    pub(in crate::worker) fn held_bytes(&self) -> usize {
        self.gathered.capacity()
    }
}

#[test]
fn health_tells_what_is_wrong() {
    let mut line = Line::new();
    let asked = get("/health") + &get("/query?biz=login&key=a") + &get("/health");
    line.serve.problem = Some("the disk is broken");
    line.push(asked.as_bytes());
    assert_eq!(statuses(&line.text()), [503, 200, 503], "all else is served");
    assert_eq!(line.text().matches("\r\n\r\nthe disk is broken").count(), 2);
    assert!(!line.closed);
    let calls: Vec<u16> = line.serve.answered.iter().map(|&(_, status)| status).collect();
    assert_eq!(calls, [503, 200, 503]);

    let mut line = Line::new();
    line.push(get("/health").as_bytes());
    assert_eq!(statuses(&line.text()), [200]);
}

// Shows: memory-bound.
#[test]
fn answers_of_a_tick_are_bounded_in_bytes() {
    let mut line = Line::new();
    let request = get("/query?biz=login&key=a");
    line.push(request.as_bytes());
    let answer = line.out.len();
    assert!(TICK_ANSWER_BYTES / answer + QUEUE < MAX_REQUESTS_PER_TICK, "{answer}");
    let pipeline = request.repeat(MAX_REQUESTS_PER_TICK);
    let mut line = Line::new();
    let Line { connection, serve: stub, scratch, out, .. } = &mut line;
    let progress = connection.advance(pipeline.as_bytes(), RULES, stub, scratch, out);
    let answered = progress.consumed / request.len();
    assert_eq!(out.len(), answered * answer, "all that was taken is answered");
    // Only requests that wait together with the one that reaches the bound exceed it.
    let beyond = (out.len() - TICK_ANSWER_BYTES).div_ceil(answer);
    assert!(progress.more && beyond <= QUEUE, "{beyond}");
    // Earlier content of the buffer does not count.
    let progress = connection.advance(request.as_bytes(), RULES, stub, scratch, out);
    assert!(!progress.more && progress.consumed == request.len());
}

// Shows: memory-bound.
#[test]
fn a_body_in_chunks_is_held_in_no_more_than_its_bound() {
    let mut line = Line::new();
    line.push(CHUNKED_HEAD.as_bytes());
    for at in 0..HTTP.max_body_bytes as usize {
        line.push(b"1\r\nx\r\n");
        assert!((at + 1..=300).contains(&line.connection.held_bytes()), "{at}");
    }
}
