//! A letter that is no need.

use frs_store::Letter;

use super::*;
use crate::testing::host::Host;

#[test]
fn a_letter_that_is_no_need_ends_unserved_and_its_owner_is_rung() {
    let host = Host::of(
        "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='256'/>
         <biz id='1' name='b' key='string'><limit policy='count'/></biz></map>",
    );
    let (runtime, owner) = (host.world.runtime(), host.service.handle());
    let mailbox = owner.mailbox().expect("open");
    let mut rings = Rings::default();
    let ticket = mailbox.push(&Letter { kind: 9, head: [0; 5], tail: [0; 32] }).expect("room");
    assert_eq!(rings.drain(&runtime), []);
    assert_eq!(rings.answered, BTreeSet::from([owner.slot_number()]));
    assert_eq!(mailbox.poll(ticket).map(NeedEnd::of_reply), Some(NeedEnd::Unserved));
}
