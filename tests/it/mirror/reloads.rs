//! Reloads that begin and end a mirror, and change its period and its peers.

use super::{Machine, Peers, machines, map, mirrored, start, used};

#[test]
fn a_reload_that_adds_the_mirror_sends_the_records_that_are_there() {
    const KEYS: usize = 300;
    let machines: [Machine; 2] = machines();
    machines.iter().for_each(|machine| machine.setup().write_map(&map("")));
    let _servers = machines.each_ref().map(Machine::start);
    for (nth, machine) in machines.iter().enumerate() {
        let mut client = machine.client();
        (0..KEYS).for_each(|key| client.charge("plenty", &format!("{nth}-{key}"), key as u64 + 1));
    }
    for machine in &machines {
        machine.setup().write_map(&mirrored());
        machine.reload();
    }
    for (nth, machine) in machines.iter().rev().enumerate() {
        for key in 0..KEYS {
            machine.wait_for("plenty", &format!("{nth}-{key}"), key as u64 + 1);
        }
    }
    for (nth, machine) in machines.iter().enumerate() {
        let mut client = machine.client();
        for key in 0..KEYS {
            assert_eq!(used(&mut client, "plenty", &format!("{nth}-{key}")), key as u64 + 1);
        }
    }
    machines[1].charge("plenty", "0-7", 1);
    machines[0].wait_for("plenty", "0-7", 9);
}

#[test]
fn a_reload_changes_the_period() {
    let machines: [Machine; 2] = machines();
    machines.iter().for_each(|machine| machine.setup().write_map(&map("mirror=\"1m\"")));
    let _servers = start(&machines);
    let [here, there] = &machines;
    here.charge("plenty", "k", 5);
    assert_eq!(there.used("plenty", "k"), 0, "it is due in a minute");
    here.setup().write_map(&map("mirror=\"50ms\""));
    here.reload();
    there.wait_for("plenty", "k", 5);
    here.charge("plenty", "k", 1);
    there.wait_for("plenty", "k", 6);
}

#[test]
fn a_reload_ends_the_mirror_and_keeps_the_records() {
    let machines: [Machine; 2] = machines();
    let _servers = start(&machines);
    let [here, there] = &machines;
    here.charge("five", "k", 2);
    there.wait_for("five", "k", 2);
    for machine in &machines {
        machine.setup().write_map(&map(""));
        machine.reload();
        machine.charge("five", "k", 1);
    }
    assert_eq!([here.used("five", "k"), there.used("five", "k")], [3, 3]);
}

#[test]
fn a_reload_names_another_peer() {
    let machines: [Machine; 2] = machines();
    let nobody = Machine::new();
    machines[0].write_srv(&Peers::of(&[nobody.listen()]));
    let _servers = machines.each_ref().map(Machine::start);
    machines[0].charge("plenty", "k", 3);
    machines[0].write_srv(&Peers::of(&[machines[1].listen()]));
    machines[0].reload();
    machines[1].wait_for("plenty", "k", 3);
}
