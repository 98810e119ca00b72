//! Machines that are no peers of each other, although their configurations name them: the log says
//! why, and nothing is mirrored.

use super::proxy::Proxy;
use super::{MAP, MIRROR_MS, Machine, PATIENT, Peers, machines, mirrored, peer, start};

/// Starts both machines, whose logs must both say this, and charges a key that stays where it is.
#[track_caller]
fn parted(machines: &[Machine; 2], says: &str) {
    let _servers = machines.each_ref().map(Machine::start);
    machines.iter().for_each(|machine| machine.wait_for_log(says));
    for machine in machines {
        machine.charge("plenty", "k", 1);
        let peers = machine.peers(1).expect("a courier").peers;
        assert!(!peers[0].is_up, "{peers:?}");
    }
    for machine in machines {
        assert_eq!(machine.used("plenty", "k"), 1);
    }
}

#[test]
fn another_secret_is_told_and_nothing_is_mirrored() {
    let machines: [Machine; 2] = machines();
    machines[1].write_secret('b');
    parted(&machines, "found a proof by another secret, expected one by the secret of \"prod\"");
}

#[test]
fn another_name_is_told_and_nothing_is_mirrored() {
    let machines: [Machine; 2] = machines();
    let peers = Peers { name: "test".into(), ..Peers::of(&[machines[0].listen()]) };
    machines[1].write_srv(&peers);
    parted(&machines, "found a peer of the peers ");
}

#[test]
fn a_machine_that_calls_itself_is_told() {
    let machine = Machine::new();
    let itself = Proxy::to(machine.listen());
    machine.write_srv(&Peers::of(&[itself.address]));
    let _server = machine.start();
    machine.wait_for_log("it is this machine itself");
    machine.charge("plenty", "k", 1);
    assert!(!machine.peers(1).expect("a courier").peers[0].is_up);
}

#[test]
fn other_key_bytes_of_a_group_are_told_and_other_groups_are_mirrored() {
    let machines: [Machine; 2] = machines();
    let second = format!(
        "<group name=\"second\" keys=\"1000\" mirror=\"{MIRROR_MS}ms\"/>\n  \
         <biz id=\"9\" name=\"second\" key=\"string\" group=\"second\">\
         <limit policy=\"total\" max=\"9\"/></biz>\n</map>"
    );
    assert!(MAP.contains("keys=\"4000\""));
    let map = mirrored().replace("</map>", &second);
    machines[0].setup().write_map(&map);
    let wider = map.replace("keys=\"4000\"", "keys=\"4000\" key-bytes=\"48\"");
    machines[1].setup().write_map(&wider);
    let _servers = start(&machines);
    for machine in &machines {
        machine.wait_for_log("a peer has another key-bytes of this group");
        machine.charge("plenty", "k", 3);
    }
    machines[0].charge("second", "k", 2);
    machines[1].wait_for("second", "k", 2);
    assert_eq!(machines[1].used("plenty", "k"), 3);
}

#[test]
fn peers_that_were_apart_by_their_names_meet_after_a_restart() {
    let machines: [Machine; 2] = machines();
    let peers = Peers { name: "test".into(), ..Peers::of(&[machines[0].listen()]) };
    machines[1].write_srv(&peers);
    let _here = machines[0].start();
    let mut there = machines[1].start();
    machines[1].charge("plenty", "k", 4);
    there.kill_all_and_wait();
    drop(there);
    peer(&machines, PATIENT);
    let _there = machines[1].start();
    machines[0].wait_for("plenty", "k", 4);
}
