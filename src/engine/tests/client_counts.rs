//! Counts of items by client. Invariant: they are exact, under the client's own name, whatever
//! happens to the list of clients and to the process that counted.

use frs_store::counter::{ClientKey, ClientSums};
use frs_store::layout::slot::CLIENT_ROWS;

use crate::testing::{Ask, World, request};
use crate::{Command, Outcome, Service};

const NOW: u64 = 1_700_000_000_000;

const MAP: &str = "<map>
  <group name='g' files='1' key-nodes='8' chain='8' node-size='128'/>
  <biz id='1' name='two' key='string'><limit policy='interval' interval='1m' max='2'/></biz>
</map>";

fn sums(world: &World, name: &str) -> ClientSums {
    let key = ClientKey::Name(name.to_owned());
    world.runtime().sums().clients.get(&key).copied().unwrap_or_default()
}

/// The counted outcomes of a client, with their numbers.
fn counted(world: &World, name: &str) -> Vec<(Outcome, u64)> {
    let all = Outcome::ALL.into_iter().zip(sums(world, name).items);
    all.filter(|(_, count)| *count > 0).collect()
}

/// Asks as the client at a place of a list.
fn ask(service: &mut Service, clients: &[&str], nth: usize, command: Command, asks: &[Ask<'_>]) {
    let mut asked = request(command, asks.len() > 1, asks);
    asked.client_row = service.handle().client_rows(clients).get(nth).copied();
    assert!(asked.client_row.is_some());
    service.answers(&asked, NOW);
}

// Shows: counted-by-client.
#[test]
fn each_item_is_counted_once_for_the_client_that_asks() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let clients = ["shop", "billing"];
    for _ in 0..3 {
        ask(&mut service, &clients, 0, Command::Update, &[Ask("two", "k", 1)]);
    }
    ask(&mut service, &clients, 1, Command::Query, &[Ask("two", "k", 1)]);
    ask(&mut service, &clients, 1, Command::Update, &[Ask("two", "x", 1), Ask("no", "x", 1)]);
    service.update("two", "nobody", NOW);
    use Outcome::*;
    assert_eq!(counted(&world, "shop"), [(Allowed, 2), (Limited, 1)]);
    assert_eq!(counted(&world, "billing"), [(Allowed, 1), (Limited, 1), (Error, 1)]);
    assert_eq!([sums(&world, "shop").refused, sums(&world, "billing").refused], [1, 0]);
    assert_eq!(world.runtime().sums().clients.len(), 2, "who is not told apart is not counted");
}

// Shows: counted-by-client.
#[test]
fn a_client_keeps_its_counts_through_other_lists_and_owners() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let update = |service: &mut Service, clients: &[&str], nth| {
        ask(service, clients, nth, Command::Update, &[Ask("two", "k", 1)]);
    };
    let all = ["a", "b", "c"].as_slice();
    update(&mut service, all, 0);
    update(&mut service, all, 1);
    let counts = || ["a", "b", "c", "d"].map(|name| sums(&world, name).items.iter().sum::<u64>());
    assert_eq!(counts(), [1, 1, 0, 0]);
    // Another order, then a new client in the place of an old one.
    update(&mut service, &["c", "b", "a"], 0);
    update(&mut service, &["d", "b"], 0);
    assert_eq!(counts(), [1, 1, 1, 1]);
    // A request that waits keeps its row over a reload.
    let row = service.handle().client_rows(all)[1];
    assert_eq!(service.client_name(row).as_deref(), Some("b"));
    service.handle().client_rows(&["x", "y", "z"]);
    assert_eq!(service.client_name(row).as_deref(), Some("b"));
    // The next owner of the slot, and a process beside it.
    drop(service);
    let (mut next, mut beside) = (world.attach(), world.attach());
    update(&mut next, &["d", "a"], 1);
    update(&mut beside, &["a", "d"], 1);
    assert_eq!(counts(), [2, 1, 1, 2]);
}

#[test]
fn clients_beyond_the_table_are_counted_together() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let names: Vec<String> = (0..CLIENT_ROWS).map(|nth| format!("client-{nth}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for nth in [0, CLIENT_ROWS - 2, CLIENT_ROWS - 1] {
        ask(&mut service, &names, nth, Command::Query, &[Ask("two", "k", 1)]);
    }
    let sums = world.runtime().sums().clients;
    assert_eq!(sums.len(), CLIENT_ROWS);
    assert_eq!(sums[&ClientKey::Others].items[0], 1);
    assert_eq!(sums[&ClientKey::Name(names[CLIENT_ROWS - 2].to_owned())].items[0], 1);
    assert_eq!(service.client_name(service.handle().client_rows(&["late"])[0]), None);
}

#[test]
fn without_clients_no_block_is_taken() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new(MAP);
    let path = world.dir.join("runtime.mmap");
    let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let service = world.attach();
    let before = taken();
    assert!(world.runtime().sums().clients.is_empty());
    assert_eq!(taken(), before, "a look takes none");
    service.handle().client_rows(&["a"]);
    assert_eq!(taken() - before, 4096);
}
