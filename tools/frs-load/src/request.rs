//! Requests as they are sent.

use crate::arguments::{Arguments, Format};
use crate::http_request::HttpRequests;
use crate::resp_request::RespRequests;

/// The requests of a run, by protocol.
#[derive(Debug, Clone)]
pub enum Requests {
    Http(HttpRequests),
    Resp(RespRequests),
}

impl Requests {
    /// The requests of a run.
    pub fn new(arguments: &Arguments) -> Requests {
        match arguments.format() {
            Format::Xml | Format::Json => Requests::Http(HttpRequests::new(arguments)),
            Format::Resp => Requests::Resp(RespRequests::new(arguments)),
        }
    }

    /// Appends the request for these keys to a server.
    pub fn append(&mut self, out: &mut Vec<u8>, server: usize, keys: &[u32]) {
        match self {
            Requests::Http(requests) => requests.append(out, server, keys),
            Requests::Resp(requests) => requests.append(out, keys),
        }
    }
}
