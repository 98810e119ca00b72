//! Registers end to end: Redis' own commands at the RESP port of a real server.
//!
//! Invariant: what is expected of a command is what a real redis-server answers; of INCREX, which
//! older servers do not have, what its reference says.

mod calls;
mod differential;
mod libraries;
mod page;
mod redis;
mod serving;
pub mod wire;

use crate::common::address::Reserved;
use crate::common::{Settings, Setup};

/// The map of a business of registers, with room for so many keys.
pub fn map(keys: u64) -> String {
    format!(
        "<map><group name='default' keys='{keys}'/>\
         <biz id='9000' name='redis' key='string'><register text-bytes='64'/></biz></map>"
    )
}

/// A server with registers, and the address of its RESP port.
pub fn setup(workers: u16, keys: u64) -> (Setup, Reserved) {
    let resp = Reserved::new();
    let more = format!("<resp listen='{}' registers='redis' databases='16'/>", resp.address);
    let setup = Setup::new(&Settings { workers, more, ..Settings::default() });
    setup.write_map(&map(keys));
    (setup, resp)
}
