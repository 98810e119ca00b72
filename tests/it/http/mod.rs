//! The data plane as its clients see it.

mod calls;
mod clients;
mod errors;
mod gateway;
mod named;

use crate::common::Answer;

/// A request with this first line, these header fields and this body.
fn request(line: &str, fields: &str, body: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: t\r\n{fields}\r\n{body}")
}

/// A request whose body is sent whole.
fn post(path: &str, fields: &str, body: &str) -> String {
    let fields = format!("{fields}Content-Length: {}\r\n", body.len());
    request(&format!("POST {path}"), &fields, body)
}

/// The value of a header field.
fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
