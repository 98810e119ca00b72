//! Requests as they are sent.

use crate::arguments::{Arguments, Format};
use crate::call::Call;
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

    /// Appends the request for these keys to a server. `first` is the place of its first item.
    pub fn append(
        &mut self,
        out: &mut Vec<u8>,
        server: usize,
        keys: &[u32],
        first: u64,
        call: &Call,
    ) {
        match self {
            Requests::Http(requests) => requests.append(out, server, keys, first, call),
            Requests::Resp(requests) => requests.append(out, keys, first, call),
        }
    }
}
