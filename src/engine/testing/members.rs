//! Items that bring a member, for tests of `distinct` limits.

use crate::{Command, ItemError, ItemOptions, Request, Service, Verdict};

/// The time of these items.
pub const NOW: u64 = 1_700_000_000_000;

/// One item: business, key, member (empty: none), count.
pub struct Ask<'a>(pub &'a str, pub &'a str, pub &'a str, pub i32);

pub fn request(command: Command, items: &[Ask<'_>]) -> Request {
    let mut request = Request::default();
    request.begin(command);
    for Ask(biz, key, member, count) in items {
        request.push(biz, key, ItemOptions::of(*count).detailed());
        if !member.is_empty() {
            request.bring_member(member);
        }
    }
    request
}

pub fn ask(service: &mut Service, command: Command, item: Ask<'_>) -> Result<Verdict, ItemError> {
    service.answers(&request(command, &[item]), NOW).items.remove(0).result
}

pub fn note(service: &mut Service, biz: &str, key: &str, member: &str) -> Verdict {
    ask(service, Command::Update, Ask(biz, key, member, 1)).unwrap()
}

pub fn asked(service: &mut Service, biz: &str, key: &str, member: &str) -> Verdict {
    ask(service, Command::Query, Ask(biz, key, member, 1)).unwrap()
}
