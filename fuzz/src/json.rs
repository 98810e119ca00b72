//! Any bytes as a request document: it is read or refused. A document that was read is valid JSON,
//! and is echoed as JSON.

use frs_engine::{Answer, Answers, Command, ItemError, Request};
use frs_server::protocol::json::{read, write, write_error};
use frs_server::protocol::{Bounds, Decoded, Line};

const BOUNDS: Bounds = Bounds { max_items: 8, max_atomic_items: 4 };

/// A text as it is echoed, without the characters that XML forbids.
fn echo(text: &str) -> String {
    let stays = |c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..);
    text.chars().map(|c| if stays(c) { c } else { '\u{FFFD}' }).collect()
}

/// Runs one input.
pub fn run(body: &[u8]) {
    let (mut request, mut out, mut line) = (Request::default(), Vec::new(), Line::default());
    let parse = |body: &[u8], request: &mut Request| {
        read(body, Command::Update, BOUNDS, &mut Decoded::default(), request)
    };
    if let Err(error) = parse(body, &mut request) {
        write_error(&mut out, &mut line, &error, None);
        assert!(std::str::from_utf8(&out).is_ok());
        return;
    }
    let answer = Answer { biz: None, result: Err(ItemError::Busy), details: 0..0, action: 0 };
    let items = vec![answer; request.items().len()];
    write(&mut out, &mut line, &request, &Answers { items, ..Answers::default() });
    let text = String::from_utf8(out).expect("UTF-8");
    let echoed = text.replace(",\"error\":\"busy\"}", "}");
    let mut again = Request::default();
    parse(echoed.as_bytes(), &mut again).expect("what is echoed is JSON");
    assert_eq!(request.items().len(), again.items().len());
    for (item, echoed) in request.items().iter().zip(again.items()) {
        assert_eq!(echo(request.biz(item)), again.biz(echoed));
        assert_eq!(echo(request.key(item)), again.key(echoed));
        assert_eq!(
            (item.biz_is_number, item.key_is_number),
            (echoed.biz_is_number, echoed.key_is_number)
        );
    }
}
