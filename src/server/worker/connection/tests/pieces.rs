//! Tests that the output does not depend on how the input is cut into pieces.

use proptest::prelude::*;

use super::*;

const JSON_TYPE: &str = "Content-Type: application/json\r\n";

/// A sequence of requests of every framing.
fn pipeline() -> Vec<u8> {
    let chunked = format!(
        "{CHUNKED_HEAD}1a;x=y\r\n{}\r\n018\r\n{}\r\n0\r\nT: x\r\n\r\n",
        &XML[..26],
        &XML[26..]
    );
    [
        post("/query", "", XML),
        chunked,
        get("/query?biz=login&key=limited"),
        "\r\n\r\n".to_owned(),
        "GET /update?biz=login&key=b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned(),
        post("/update", "Expect: 100-continue\r\n", &XML.replace("ali", "\u{e9}")),
        "PUT /authz/login/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
            .to_owned(),
        post("/update", "", "<request><item/></request>"),
        post("/update", "Idempotency-Key: \"b\\\"7\"\r\n", XML),
        post("/nope", "", "body"),
        post("/update", JSON_TYPE, JSON),
        post("/update", "Content-Type: application/xml\r\nAccept: application/json\r\n", XML),
        post("/update", &format!("{JSON_TYPE}Accept: text/xml\r\n"), JSON),
        post("/update", JSON_TYPE, &JSON.replace("ali", "\\u00e9\u{e9}")),
        post("/update", JSON_TYPE, "{\"items\":[{}]}"),
        format!(
            "POST /update HTTP/1.1\r\nHost: x\r\n{JSON_TYPE}Transfer-Encoding: chunked\r\n\r\n\
             14\r\n{}\r\n15\r\n{}\r\n0\r\n\r\n",
            &JSON[..20],
            &JSON[20..]
        ),
        "GET /query?biz=login&key=b HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n".to_owned(),
        "HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        CHUNKED_HEAD.to_owned() + "0\r\n\r\n",
        "POST /query HTTP/1.0\r\nContent-Length: 50\r\n\r\n".to_owned() + XML,
        get("/health"),
    ]
    .concat()
    .into_bytes()
}

#[test]
fn the_pipeline_in_two_pieces_cut_anywhere() {
    let input = pipeline();
    let mut whole = Line::new();
    whole.push(&input);
    assert_eq!(whole.serve.answered.len(), 19);
    assert!(whole.closed);
    for cut in 0..=input.len() {
        let mut line = Line::new();
        line.push(&input[..cut]);
        line.push(&input[cut..]);
        assert_eq!(line.text(), whole.text(), "cut at {cut}");
        assert_eq!(line.serve.ran, whole.serve.ran);
    }
    let mut line = Line::new();
    for byte in &input {
        line.push(std::slice::from_ref(byte));
    }
    assert_eq!(line.text(), whole.text());
    assert_eq!(line.connection.gathered.capacity(), 0);
}

/// The output, whether the connection closed, and the requests that ran, for pieces of input.
fn outcome<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, bool, Vec<String>) {
    let mut line = Line::new();
    for piece in pieces {
        line.push(piece);
    }
    (line.out, line.closed, line.serve.ran)
}

fn pieces<'a>(input: &'a [u8], cuts: &[proptest::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([input.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts.zip(ends).map(|(start, end)| &input[start..end]).collect()
}

fn cuts() -> impl Strategy<Value = Vec<proptest::sample::Index>> {
    proptest::collection::vec(any::<proptest::sample::Index>(), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_pipeline_in_any_pieces(cuts in cuts()) {
        let input = pipeline();
        prop_assert_eq!(outcome(pieces(&input, &cuts)), outcome([&input[..]]));
    }

    // Shows: bad-input.
    #[test]
    fn a_damaged_pipeline_in_any_pieces(
        cuts in cuts(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut input = pipeline();
        for (at, byte) in damage {
            let at = at.index(input.len());
            input[at] = byte;
        }
        let whole = outcome([&input[..]]);
        prop_assert_eq!(outcome(pieces(&input, &cuts)), whole.clone());
        let closes = String::from_utf8_lossy(&whole.0).matches("Connection: close").count();
        prop_assert!(closes <= 1);
    }

    // Shows: bad-input.
    #[test]
    fn any_bytes_in_any_pieces(
        input in proptest::collection::vec(any::<u8>(), 0..200),
        start in proptest::sample::select(vec!["", "GET ", "GET /query?", "POST /query HTTP/1.1\r\nHost: x\r\n", CHUNKED_HEAD]),
        cuts in cuts(),
    ) {
        let input = [start.as_bytes(), &input].concat();
        let whole = outcome([&input[..]]);
        prop_assert_eq!(outcome(pieces(&input, &cuts)), whole.clone());
        let text = String::from_utf8(whole.0).unwrap();
        let closes = text.matches("Connection: close").count();
        prop_assert!(closes <= 1);
        prop_assert_eq!(closes == 1, whole.1);
    }
}
