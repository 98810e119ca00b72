//! Any bytes as a request document: it is read or refused. A document that was read is echoed as
//! XML.

use frs_engine::{Answer, Answers, Command, ItemError, Request};
use frs_server::protocol::xml::{read, write, write_error};
use frs_server::protocol::{Bounds, Decoded, Line};

const BOUNDS: Bounds = Bounds { max_items: 8, max_atomic_items: 4 };

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
    let echoed = text.replace("response>", "request>").replace(" error=\"busy\"/>", "/>");
    let mut again = Request::default();
    parse(echoed.as_bytes(), &mut again).expect("what is echoed is well-formed");
    for (item, echo) in request.items().iter().zip(again.items()) {
        assert_eq!(request.biz(item), again.biz(echo));
        assert_eq!(request.key(item), again.key(echo));
    }
}
