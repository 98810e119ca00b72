//! Programs of another user, who attach through the group that srv.xml admits.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use nix::unistd::{Gid, Group, Uid, User};

use super::examples::example;
use crate::common::needs::skip;
use crate::common::{Settings, Setup, programs, text};

const MAP: &str = include_str!("../../../conf/map.xml");

/// A program of another user, as the kernel sees it.
struct Stranger<'s> {
    setup: &'s Setup,
    program: PathBuf,
    uid: Uid,
}

impl<'s> Stranger<'s> {
    /// The user nobody, and a copy of the example where that user can execute it.
    fn of(setup: &'s Setup) -> Stranger<'s> {
        fs::set_permissions(setup.dir.path(), Permissions::from_mode(0o755)).expect("set");
        let program = setup.path("login");
        programs::copy(&example("login"), &program);
        fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("set");
        let user = User::from_name("nobody").expect("asked").expect("there is nobody");
        Stranger { setup, program, uid: user.uid }
    }

    /// Asks for alice as a member of this group only.
    fn ask(&self, gid: Gid) -> Output {
        let mut command = Command::new(&self.program);
        command.arg(self.setup.path("data")).uid(self.uid.as_raw()).gid(gid.as_raw());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        // The program may end without reading.
        let _ = child.stdin.take().expect("piped").write_all(b"alice\n");
        child.wait_with_output().expect("it ends")
    }

    fn expect_in(&self, gid: Gid, said: &str) {
        let output = self.ask(gid);
        let (found, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && found == said, "{found}{error}");
    }

    fn expect_out(&self, gid: Gid) {
        let output = self.ask(gid);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("belongs to another user") && error.contains("mode"), "{error}");
    }
}

fn settings(data: &str) -> Settings {
    let http = "lock-timeout=\"10s\"".to_owned();
    Settings { http, more: format!("<data {data}/>"), ..Settings::default() }
}

fn mode(setup: &Setup, name: &str) -> u32 {
    fs::metadata(setup.path(name)).expect("there").mode() & 0o7777
}

/// A group that is not root's, by name.
fn a_group() -> Option<Group> {
    let names = ["www-data", "daemon", "users", "nogroup"];
    names.iter().find_map(|name| Group::from_name(name).ok().flatten())
}

// Shows: other-users-attach.
#[test]
fn a_second_user_attaches_through_the_group_and_only_through_it() {
    if !Uid::effective().is_root() {
        return skip("it takes root");
    }
    let Some(group) = a_group() else { return skip("this system has no group that it knows") };
    let other = Gid::from_raw(group.gid.as_raw() + 1000);
    let setup = Setup::new(&settings(""));
    setup.write_map(MAP);
    let stranger = Stranger::of(&setup);
    // The administrator's own directory, which no other user may enter.
    fs::create_dir(setup.path("data")).expect("made");
    fs::set_permissions(setup.path("data"), Permissions::from_mode(0o700)).expect("set");
    let server = setup.start();
    let generation = |number: u64| format!("data/conf.active.{number}");
    assert_eq!(mode(&setup, "data/runtime.mmap"), 0o600);
    assert_eq!(mode(&setup, "data"), 0o700);
    stranger.expect_out(group.gid);

    let opened = settings(&format!("mode=\"0660\" group=\"{}\"", group.name));
    setup.write_srv(&opened);
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for file in ["data/runtime.mmap", "data/default.0.mmap"] {
        assert_eq!(mode(&setup, file), 0o660, "{file}");
        let gid = fs::metadata(setup.path(file)).expect("there").gid();
        assert_eq!(gid, group.gid.as_raw(), "{file}");
    }
    assert_eq!(mode(&setup, &generation(2)), 0o640, "programs do not write it");
    assert_eq!(mode(&setup, "data"), 0o710);
    server.client().charge("login", "alice", 1);
    stranger.expect_in(group.gid, "alice: yes, 3 more\n");
    stranger.expect_out(other);
    let answer = server.client().get("/query?biz=login&key=alice");
    assert_eq!(answer.attribute("used"), Some("2"), "{answer:?}");

    // A file that the server writes again is open to the group too.
    fs::write(setup.path(&generation(2)), "damaged").expect("written");
    crate::common::wait_until("it is written again", || {
        (fs::metadata(setup.path(&generation(2))).ok()?.len() > 100).then_some(())
    });
    crate::common::wait_until("it is open again", || {
        (mode(&setup, &generation(2)) == 0o640).then_some(())
    });
    stranger.expect_in(group.gid, "alice: yes, 2 more\n");

    setup.write_srv(&settings(""));
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    assert_eq!(mode(&setup, "data/runtime.mmap"), 0o600);
    stranger.expect_out(group.gid);
    drop(server);

    // Files that existed before the start.
    setup.write_srv(&opened);
    let _server = setup.start();
    stranger.expect_in(group.gid, "alice: yes, 1 more\n");
}

// Shows: growth.
#[test]
fn a_second_user_stays_where_a_group_with_checkpoints_grows() {
    if !Uid::effective().is_root() {
        return skip("it takes root");
    }
    let Some(group) = a_group() else { return skip("this system has no group that it knows") };
    let opened = format!("mode=\"0660\" group=\"{}\" checkpoint=\"24h\"", group.name);
    let setup = Setup::new(&settings(&opened));
    setup.write_map(MAP);
    let stranger = Stranger::of(&setup);
    let server = setup.start();
    stranger.expect_in(group.gid, "alice: yes, 4 more\n");
    let larger = MAP.replacen("keys=\"200000\"", "keys=\"400000\"", 1);
    setup.write_map(&larger);
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    stranger.expect_in(group.gid, "alice: yes, 3 more\n");
    crate::common::wait_until("the group has moved", || {
        setup.log().contains("the group has moved").then_some(())
    });
    assert_eq!(mode(&setup, "data/default.0.dirty"), 0o660);
    stranger.expect_in(group.gid, "alice: yes, 2 more\n");

    // A user who may not open a file does without the group. No other user is affected.
    fs::set_permissions(setup.path("data/default.0.mmap"), Permissions::from_mode(0o600))
        .expect("set");
    let refused = stranger.ask(group.gid);
    assert!(!text(&refused.stdout).contains("yes"), "{}", text(&refused.stdout));
    let answer = server.client().get("/query?biz=login&key=alice");
    assert_eq!(answer.attribute("used"), Some("3"), "{answer:?}");
    fs::set_permissions(setup.path("data/default.0.mmap"), Permissions::from_mode(0o660))
        .expect("set");
    stranger.expect_in(group.gid, "alice: yes, 1 more\n");
}

// Shows: other-users-attach.
#[test]
fn a_group_that_the_servers_user_may_not_give_is_warned_of() {
    if !Uid::effective().is_root() {
        return skip("it takes root");
    }
    let Some(group) = a_group() else { return skip("this system has no group that it knows") };
    let mut all = settings(&format!("mode=\"0660\" group=\"{}\"", group.name));
    all.more.push_str("<user>games</user>");
    if User::from_name("games").ok().flatten().is_none() {
        return skip("this system has no user games");
    }
    let setup = Setup::new(&all);
    fs::set_permissions(setup.dir.path(), Permissions::from_mode(0o755)).expect("set");
    let server = setup.start();
    server.client().charge("plenty", "k", 1);
    let log = setup.log();
    let warning = "mode or group of <data> is not in force";
    assert!(log.contains(warning) && log.contains(&group.name), "{log}");
    assert_eq!(mode(&setup, "data/runtime.mmap"), 0o600, "never for a group that is not meant");
}
