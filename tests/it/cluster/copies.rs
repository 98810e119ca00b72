//! Copies of a data directory are written back into the same files, as `cp` and `rsync` do it. The
//! uses of their leases have been spent since, and are not spent again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::{Whence, lseek};

use super::deaths::shared;
use super::hosts::{Hosts, Shared, charge, map};
use super::nodes::{MASTERS, Nodes};
use crate::common::{Client, Server, wait_until};

const MAX: u64 = 1_000;

/// All files of a directory.
struct Copy(BTreeMap<PathBuf, Content>);

/// The bytes of a file without its holes: runtime.mmap has gigabytes of them.
struct Content {
    bytes: u64,
    /// By the place of their first byte.
    parts: Vec<(u64, Vec<u8>)>,
}

impl Content {
    fn of(path: &Path) -> io::Result<Content> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let (mut parts, mut at) = (Vec::new(), 0);
        loop {
            let from = match lseek(&file, at, Whence::SeekData) {
                Ok(from) => from,
                // No data is behind this place.
                Err(Errno::ENXIO) => return Ok(Content { bytes, parts }),
                Err(error) => return Err(error.into()),
            };
            at = lseek(&file, from, Whence::SeekHole)?;
            let mut part = vec![0; (at - from) as usize];
            file.read_exact_at(&mut part, from as u64)?;
            parts.push((from as u64, part));
        }
    }

    /// Writes it into the file at this path, and nothing else stays there.
    fn write(&self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.set_len(self.bytes)?;
        self.parts.iter().try_for_each(|(from, part)| file.write_all_at(part, *from))
    }
}

impl Copy {
    fn of(dir: &Path) -> Copy {
        let mut files = BTreeMap::new();
        let mut folders = vec![dir.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("readable") {
                let entry = entry.expect("an entry");
                let kind = entry.file_type().expect("a kind");
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    files.insert(entry.path(), Content::of(&entry.path()).expect("read"));
                }
            }
        }
        Copy(files)
    }

    /// Writes the copy back into the existing files.
    fn restore(&self) {
        for (path, content) in &self.0 {
            content.write(path).expect("written");
        }
        assert!(self.0.keys().any(|path| path.ends_with("runtime.mmap")));
        assert!(self.0.keys().any(|path| path.ends_with("default.0.mmap")), "no group");
    }
}

/// Uses b0 up to `most` times. Returns how many uses were admitted.
fn spend(client: &mut Client, most: u64) -> u64 {
    let is_admitted = |_: &u64| client.get("/update?biz=b0&key=k").status == 200;
    (0..most).take_while(is_admitted).count() as u64
}

/// Spends all uses that are left. Other hosts may have to return some first.
fn spend_all(client: &mut Client) -> u64 {
    let (mut admitted, mut in_vain) = (0, 0);
    while in_vain < 5 {
        let more = spend(client, MAX);
        in_vain = if more == 0 { in_vain + 1 } else { 0 };
        admitted += more;
        thread::sleep(Duration::from_millis(100));
    }
    admitted
}

/// One host and its cluster. `None` if this machine has no Redis.
fn started() -> Option<(Nodes, Hosts)> {
    let nodes = Nodes::start()?;
    let limit = format!("policy=\"total\" max=\"{MAX}\"");
    let hosts = Hosts::new(1, &nodes.seeds(), "", &map(&[shared("cluster", &limit)]));
    Some((nodes, hosts))
}

fn stop(mut server: Server<'_>) {
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
}

fn kill(mut server: Server<'_>) {
    server.kill_all_and_wait();
}

/// `copy` copies the directory of a host that has spent some uses. The host goes on, and ends by
/// `end`.
fn expect_nothing_twice(copy: fn(Server<'_>) -> Copy, end: fn(Server<'_>)) {
    let Some((_nodes, hosts)) = started() else { return };
    let setup = &hosts.setups[0];
    let server = setup.start();
    let mut admitted = charge(&mut server.client(), 101);
    let copy = copy(server);
    let server = setup.start();
    admitted += charge(&mut server.client(), 140);
    // Waits until the start is stored in the cluster, for the check of the next start.
    thread::sleep(Duration::from_millis(1_500));
    end(server);
    copy.restore();
    let server = setup.start();
    admitted += spend_all(&mut server.client());
    assert!(admitted <= MAX, "{admitted} of {MAX}");
    assert!(setup.log().contains("the data directory is an older copy"), "{}", setup.log());
    // At most the uses that the copy held are missing.
    assert!(admitted + MAX / 2 >= MAX, "{admitted} of {MAX}");
    drop(server);
}

// Shows: older-copies.
#[test]
fn a_copy_of_a_stopped_host_spends_nothing_twice() {
    expect_nothing_twice(
        |server| {
            let dir = server.setup.path("data");
            stop(server);
            Copy::of(&dir)
        },
        stop,
    );
}

// Shows: older-copies.
#[test]
fn nor_does_one_of_a_host_that_ran() {
    expect_nothing_twice(
        |server| {
            let copy = Copy::of(&server.setup.path("data"));
            kill(server);
            copy
        },
        kill,
    );
}

// Shows: older-copies.
#[test]
fn the_newest_directory_keeps_what_it_holds_over_any_end() {
    let Some((_nodes, hosts)) = started() else { return };
    let setup = &hosts.setups[0];
    let mut admitted = 0;
    for end in [stop, kill, kill, stop] {
        let server = setup.start();
        admitted += charge(&mut server.client(), 101);
        end(server);
    }
    // The directory is written back, but no later start exists.
    Copy::of(&setup.path("data")).restore();
    let server = setup.start();
    admitted += spend_all(&mut server.client());
    assert_eq!(admitted, MAX);
    assert!(!setup.log().contains("older copy"), "{}", setup.log());
    drop(server);
}

/// A start that is not stored in the cluster yet spends no lease, and loses none.
// Shows: older-copies.
#[test]
fn a_host_that_starts_cut_off_waits_with_its_leases() {
    let Some((nodes, hosts)) = started() else { return };
    let setup = &hosts.setups[0];
    let server = setup.start();
    let mut admitted = charge(&mut server.client(), 101);
    kill(server);
    (0..nodes.count()).for_each(|i| nodes.stop(i));
    let server = setup.start();
    let mut client = server.client();
    assert_eq!(spend(&mut client, 1), 0, "what may be an older copy spends nothing");
    (0..nodes.count()).for_each(|i| nodes.go_on(i));
    wait_until("the cluster is reached", || {
        admitted += spend(&mut client, 1);
        (admitted > 101).then_some(())
    });
    admitted += spend_all(&mut client);
    assert_eq!(admitted, MAX);
    drop(server);
}

/// The cluster cannot tell a copy from the original, because no later start is stored.
// Shows: older-copies.
#[test]
fn a_copy_made_in_an_outage_is_over_by_the_rest_of_its_lease_at_most() {
    let Some((nodes, hosts)) = started() else { return };
    let setup = &hosts.setups[0];
    let server = setup.start();
    let mut client = server.client();
    let mut admitted = charge(&mut client, 101);
    let granted = nodes.granted(0).uses;
    let lost = || setup.log().matches("a master of the cluster is not connected").count();
    let lost_before = lost();
    (0..nodes.count()).for_each(|i| nodes.stop(i));
    // Messages sent while a master is still connected arrive after the outage.
    let has_lost_all = || (lost() >= lost_before + MASTERS).then_some(());
    wait_until("no master is connected", has_lost_all);
    // Copying takes time, and an idle lease would be returned meanwhile.
    let mut rest = 0;
    let copy = thread::scope(|scope| {
        let copying = scope.spawn(|| Copy::of(&setup.path("data")));
        while !copying.is_finished() {
            rest += spend(&mut client, 1);
            thread::sleep(Duration::from_secs(1));
        }
        copying.join().expect("copied")
    });
    // The host spends its unspent uses, then it is refused.
    rest += spend(&mut client, MAX);
    assert!(rest > 0 && admitted + rest <= granted, "{admitted} and {rest} of {granted}");
    admitted += rest;
    kill(server);
    copy.restore();
    (0..nodes.count()).for_each(|i| nodes.go_on(i));
    let server = setup.start();
    admitted += spend_all(&mut server.client());
    assert!(!setup.log().contains("older copy"), "{}", setup.log());
    println!("{rest} in hand when the copy was made, {admitted} admitted of {MAX}");
    assert!(admitted <= MAX + rest, "{admitted}");
    assert!(admitted >= MAX, "{admitted}");
    drop(server);
}

// Shows: older-copies.
#[test]
fn a_cluster_that_is_emptied_while_a_host_is_stopped_voids_its_leases() {
    let Some((nodes, hosts)) = started() else { return };
    let setup = &hosts.setups[0];
    let server = setup.start();
    charge(&mut server.client(), 101);
    stop(server);
    (0..MASTERS).for_each(|i| nodes.flush_all(i));
    let server = setup.start();
    // The whole maximum is granted anew, and nothing in addition.
    assert_eq!(spend_all(&mut server.client()), MAX);
    assert_eq!(nodes.granted(0).uses, MAX);
    assert!(setup.log().contains("the cluster has lost its start"), "{}", setup.log());
    drop(server);
}

/// The host may not spend its lease while it is cut off, and its own share does not come on top of
/// it.
// Shows: older-copies.
#[test]
fn a_host_that_starts_cut_off_allows_itself_its_share_and_no_more() {
    const SHARE: u64 = MAX / 3;
    let Some(nodes) = Nodes::start() else { return };
    let limit = format!("policy=\"total\" max=\"{MAX}\"");
    let biz = "share=\"cluster\" hosts=\"3\" wait=\"500ms\" on-down=\"share\"";
    let hosts = Hosts::new(1, &nodes.seeds(), "", &map(&[Shared::new(biz, &limit)]));
    let setup = &hosts.setups[0];
    let server = setup.start();
    let before = charge(&mut server.client(), 101);
    kill(server);
    (0..nodes.count()).for_each(|i| nodes.stop(i));
    let server = setup.start();
    let mut client = server.client();
    let alone = charge(&mut client, 1) + spend_all(&mut client);
    println!("{before} before it, {alone} while it was cut off");
    // The uses of its lease count towards the share.
    assert_eq!(before + alone, SHARE);
    (0..nodes.count()).for_each(|i| nodes.go_on(i));
    nodes.wait_until_whole();
    wait_until("the ledger knows", || (nodes.granted(0).uses >= before + alone).then_some(()));
    let admitted = before + alone + spend_all(&mut client);
    assert!((MAX..=MAX + SHARE).contains(&admitted), "{admitted} of {MAX}");
    drop(server);
}
