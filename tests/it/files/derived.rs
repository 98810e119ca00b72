//! Groups with a derived geometry: the files stay if a change would gain little, and every process
//! uses the geometry of the files.

use std::os::unix::fs::MetadataExt;

use crate::common::{Setup, text};

const SHORT: &str = "<biz id='1' name='short' key='string'>\
                     <limit policy='interval' interval='1h' max='100'/></biz>";
const LONG: &str = "<biz id='2' name='long' key='string'>\
                    <limit policy='sliding' interval='1h' max='10'/></biz>";

fn map(group: &str, bizs: &str) -> String {
    format!("<map><group name='g' {group}/>{bizs}</map>")
}

fn says(setup: &Setup, arguments: &[&str], status: i32) -> String {
    let output = setup.frs(arguments);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    said
}

// Shows: derived-geometry.
#[test]
fn to_remove_a_business_or_to_say_keys_moves_nothing() {
    // 1,000 keys are 37 key-nodes.
    let setup = Setup::of_map(&map("files='1' key-nodes='40'", &[SHORT, LONG].concat()));
    let mut server = setup.start();
    server.client().charge("short", "k", 7);
    let inode = || std::fs::metadata(setup.path("data/g.0.mmap")).expect("a file").ino();
    let before = inode();
    let stays = |bizs: &str, stays: bool| {
        setup.write_map(&map("keys='1000'", bizs));
        let said = says(&setup, &["check"], 0);
        assert_eq!(said.contains("so they stay as they are"), stays, "{said}");
        assert!(said.contains("group g: files 1, key-nodes 40, chain 56, node-size 128"), "{said}");
        assert!(says(&setup, &["reload"], 0).starts_with("taken: "));
        let answer = server.client().get("/query?biz=short&key=k");
        assert_eq!(answer.attribute("used"), Some("7"), "{answer:?}");
    };
    stays(&[SHORT, LONG].concat(), true);
    stays(SHORT, true);
    // Workers, the keeper, tools and programs use the published geometry.
    let said = text(&setup.inspect(&["stat", "data"]).stdout);
    assert!(said.contains("node-size 128"), "{said}");
    let said = text(&setup.inspect(&["verify", "data"]).stdout);
    assert!(said.contains('1'), "{said}");
    server.kill_all_and_wait();
    drop(server);
    // A start finds the same files.
    let server = setup.start();
    let answer = server.client().get("/query?biz=short&key=k");
    assert_eq!((answer.attribute("used"), inode()), (Some("7"), before), "{answer:?}");
    let output = setup.frs(&["stop"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    drop(server);
    // A migration does not move them either.
    let said = text(&setup.inspect(&["migrate", "data", "--conf", "conf", "--plan"]).stdout);
    assert!(!said.contains("group g:"), "{said}");
}
