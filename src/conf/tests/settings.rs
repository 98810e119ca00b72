//! Settings from outside: the settings that they replace, and the faults of wrong ones.

use std::path::{Path, PathBuf};

use super::{GROUP, good};
use crate::{Conf, Faults, Listen, LoadedConf, Setting, Settings, active};

/// A directory with both files.
fn directory(srv: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("srv.xml"), srv).unwrap();
    std::fs::write(dir.path().join("map.xml"), format!("<map>{GROUP}</map>")).unwrap();
    dir
}

fn set(texts: &[&str]) -> Vec<Setting> {
    let read = |text: &&str| Setting::parse(text, "--set").unwrap_or_else(|e| panic!("{e}"));
    texts.iter().map(read).collect()
}

fn load(srv: &str, settings: &Settings) -> Result<LoadedConf, Faults> {
    Conf::load_texts(directory(srv).path(), settings)
}

/// Checks that the file with settings laid over it reads the same as the other file without them.
#[track_caller]
fn same(srv: &str, settings: &[&str], other: &str) {
    let found = load(srv, &Settings::new(set(settings), Vec::new()));
    let found = found.unwrap_or_else(|faults| panic!("{faults}")).conf.srv;
    assert_eq!(found, good(other, &format!("<map>{GROUP}</map>")).srv);
}

#[track_caller]
fn wrong(srv: &str, settings: &[&str], expected: &[&str]) {
    let dir = directory(srv);
    let settings = Settings::new(set(settings), Vec::new());
    let faults = Conf::load_texts(dir.path(), &settings).expect_err("taken").to_string();
    let files = format!("{}/", dir.path().display());
    assert_eq!(faults.replace(&files, "").lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_setting_replaces_that_of_the_file_or_stands_where_there_is_none() {
    same("<srv/>", &["workers=3"], "<srv><workers>3</workers></srv>");
    same("<srv><workers>7</workers></srv>", &["workers=3"], "<srv><workers>3</workers></srv>");
    same(
        "<srv><http max-items='9' max-body='1KiB'/></srv>",
        &["http.max-items=500"],
        "<srv><http max-items='500' max-body='1KiB'/></srv>",
    );
    same("<srv/>", &["data.dir=a b/<&>\"'"], "<srv><data dir='a b/&lt;&amp;>\"&apos;'/></srv>");
    same("<srv/>", &["degrade=true"], "<srv><degrade>true</degrade></srv>");
    let resp = "<srv><resp listen='127.0.0.1:9'/></srv>";
    same(resp, &["resp.listen=127.0.0.1:8"], "<srv><resp listen='127.0.0.1:8'/></srv>");
}

#[test]
fn settings_of_a_repeated_element_stand_for_all_of_the_files() {
    same(
        "<srv><listen>127.0.0.1:1</listen><listen>127.0.0.1:2</listen></srv>",
        &["listen=127.0.0.1:3", "listen=unix:run/s"],
        "<srv><listen>127.0.0.1:3</listen><listen>unix:run/s</listen></srv>",
    );
    same(
        "<srv><trusted>10.0.0.1</trusted><authz><trusted>10.0.0.2</trusted></authz></srv>",
        &["trusted=10.0.0.3"],
        "<srv><trusted>10.0.0.3</trusted><authz/></srv>",
    );
    same("<srv/>", &["allow=10.0.0.0/8"], "<srv><allow>10.0.0.0/8</allow></srv>");
}

#[test]
fn a_value_that_is_replaced_is_not_used_and_no_fault() {
    same("<srv><workers>no</workers></srv>", &["workers=3"], "<srv><workers>3</workers></srv>");
    same("<srv><data dir=''/></srv>", &["data.dir=d"], "<srv><data dir='d'/></srv>");
}

#[test]
fn the_command_line_comes_before_the_environment_name_by_name() {
    let environment = vec![
        Setting::named("listen", "127.0.0.1:1", "FRS_LISTEN"),
        Setting::named("workers", "5", "FRS_WORKERS"),
    ];
    let settings = Settings::new(set(&["listen=127.0.0.1:2"]), environment);
    let conf = load("<srv/>", &settings).unwrap().conf;
    assert_eq!(conf.srv.listen, [Listen::Tcp("127.0.0.1:2".parse().unwrap()).into()]);
    assert_eq!(conf.srv.workers, 5);
    let shown = |it: &Setting| format!("{}={} {}", it.name(), it.value(), it.origin());
    let expected = ["listen=127.0.0.1:2 --set listen", "workers=5 FRS_WORKERS"];
    assert_eq!(settings.iter().map(shown).collect::<Vec<_>>(), expected);
}

// Shows: outside-settings.
#[test]
fn a_fault_names_the_source_of_the_setting() {
    wrong(
        "<srv>\n<log level='x'/></srv>",
        &["workers=0", "htp.max-items=5", "http.max-item=5", "http.max-body=lots"],
        &[
            "--set htp.max-items: found <htp> in <srv>, expected one of workers, data, http, \
             log, user, authz, degrade, cluster, peers, rls, map, watch, clients, listen, admin, metrics, resp, allow, \
             trusted, tls (nearest: http)",
            "--set workers: found <workers>0</workers>, expected auto or a whole number from 1 to \
             200",
            "--set http.max-item: found attribute max-item of <http>, expected one of \
             max-connections, max-body, max-head, max-items, max-atomic-items, idle-timeout, \
             request-timeout, lock-timeout, hosts, allow-origin, unknown-biz (nearest: \
             max-items)",
            "--set http.max-body: found max-body=\"lots\", expected a size from 64 to 64MiB, such \
             as 512, 64KiB or 1MiB",
            "srv.xml:2:13: found level=\"x\", expected one of error, warn, info, debug, trace",
        ],
    );
    wrong(
        "<srv/>",
        &["workers="],
        &["--set workers: found <workers></workers>, expected auto or a whole number from 1 to \
             200"],
    );
    wrong("<srv/>", &["http=5"], &["--set http: found text \"5\", expected none in <http>"]);
    wrong(
        "<srv/>",
        &["workers.x=5"],
        &[
            "--set workers.x: found attribute x of <workers>, expected none",
            "--set workers.x: found <workers></workers>, expected auto or a whole number from 1 to \
             200",
        ],
    );
    wrong("<srv/>", &["data.dir="], &["--set data.dir: found dir=\"\", expected a directory"]);
    wrong(
        "<srv/>",
        &["log.file=a\u{1}b"],
        &["--set log.file: found U+0001, expected a character that XML 1.0 allows"],
    );
}

#[test]
fn a_name_that_comes_twice_is_a_fault() {
    wrong(
        "<srv/>",
        &["workers=1", "workers=2"],
        &["--set workers: found <workers> again, expected one (the first is in --set workers)"],
    );
    wrong(
        "<srv/>",
        &["http.max-items=1", "http.max-items=2"],
        &["--set http.max-items: found http.max-items again, expected it once"],
    );
    wrong(
        "<srv/>",
        &["listen=127.0.0.1:1", "listen=127.0.0.1:1"],
        &[
            "--set listen: found <listen>127.0.0.1:1</listen> again, expected it once (first in --set listen)",
        ],
    );
    let two = "<srv><resp listen='127.0.0.1:1'/><resp listen='127.0.0.1:2'/></srv>";
    wrong(
        two,
        &["resp.throttle=x"],
        &[
            "--set resp.throttle: found 2 <resp>, expected at most one: write the setting into srv.xml",
        ],
    );
    let taken = "<srv><resp listen='127.0.0.1:1'/></srv>";
    wrong(
        taken,
        &["listen=127.0.0.1:1"],
        &[
            "srv.xml:1:20: found listen=\"127.0.0.1:1\" again, expected an address of its own: <listen> has it",
        ],
    );
}

#[test]
fn what_is_no_setting_is_refused() {
    for text in ["", "workers", "=3", "http.=3", ".max-items=3", "a b=3", "http.max.items=3"] {
        let error = Setting::parse(text, "--set").expect_err(text).to_string();
        let expected = "expected ELEMENT.ATTRIBUTE=VALUE, or ELEMENT=VALUE for an element's text";
        assert_eq!(error, format!("found {text}, {expected}"));
    }
}

#[test]
fn the_data_directory_is_found_without_the_file() {
    let nowhere = Path::new("surely/nowhere");
    let of = |value: &str| {
        let settings = Settings::new(vec![Setting::named("data.dir", value, "--data")], Vec::new());
        Conf::data_dir(nowhere, &settings).map_err(|faults| faults.to_string())
    };
    assert_eq!(of("here"), Ok(PathBuf::from("here")));
    assert_eq!(of(""), Err("--data: found dir=\"\", expected a directory".to_owned()));
}

// Shows: outside-settings.
#[test]
fn what_is_published_holds_the_settings_and_the_files_own_text() {
    let srv = "<srv><workers>7</workers><data dir='d'/></srv>";
    let dir = directory(srv);
    let settings = Settings::new(set(&["workers=3", "log.file=a=b"]), Vec::new());
    let texts = Conf::load_texts(dir.path(), &settings).unwrap().texts;
    assert_eq!((texts.srv.as_str(), &texts.settings), (srv, &settings));
    active::write(dir.path(), 1, &texts).unwrap();
    assert_eq!(active::read_texts(dir.path(), 1).unwrap(), texts);
    let conf = active::read(dir.path(), 1).unwrap();
    assert_eq!(conf.srv.workers, 3);
    assert_eq!(conf.srv.log.file, Some(std::env::current_dir().unwrap().join("a=b")));
}
