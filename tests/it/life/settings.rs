//! Settings of the command line and the environment: in force from the start on, even if the files
//! change later.

use std::fs;
use std::process::Command;

use super::{Life, install, under_load, used};
use crate::common::{Client, Setup, text, wait_until};

const SRV: &str = "<srv><workers>1</workers><listen>127.0.0.1:1</listen>\
                   <admin listen=\"unix:admin.sock\"/><http max-items=\"2\"/></srv>";

fn check(setup: &Setup, arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frs"));
    command.current_dir(setup.dir.path()).arg("check").args(arguments);
    let output = command.envs(variables.iter().copied()).output().expect("frs runs");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// A server that is started in the setup's directory with these options.
fn started<'a>(setup: &'a Setup, options: &[&str]) -> Life<'a> {
    install(setup, std::path::Path::new(env!("CARGO_BIN_EXE_frs")));
    Life::start_command(setup, Command::new("./frs").args(options))
}

/// The answer to a request of three items.
fn ask_three(setup: &Setup) -> String {
    let item = "<item biz=\"plenty\" key=\"three\"/>".repeat(3);
    let body = format!("<request>{item}</request>");
    let mut client = Client::connect(setup.address);
    let length = body.len();
    client.send(&format!(
        "POST /query HTTP/1.1\r\nHost: x\r\nContent-Type: application/xml\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    ));
    client.answer().status.to_string()
}

// Shows: outside-settings.
#[test]
fn settings_from_outside_stay_in_force_over_reloads_and_in_new_binaries() {
    let setup = Setup::of_map(crate::common::MAP);
    fs::write(setup.path("conf/srv.xml"), SRV).expect("written");
    install(&setup, std::path::Path::new(env!("CARGO_BIN_EXE_frs")));
    let mut command = Command::new("./frs");
    command.args(["serve", "--workers", "3", "--set", "http.max-items=3"]);
    let address = setup.address.to_string();
    command.env("FRS_LISTEN", &address).env("FRS_WORKERS", "7");
    let life = Life::start_command(&setup, &mut command);
    let is_as_asked = || {
        wait_until("three workers serve", || (life.workers().len() == 3).then_some(()));
        assert_eq!(ask_three(&setup), "200");
        assert!(life.status().contains(&format!("listens on   {address}\n")), "{}", life.status());
    };
    is_as_asked();
    for line in [
        "replaces a setting of srv.xml name=\"workers\" value=\"3\" from=\"--workers\"",
        "replaces a setting of srv.xml name=\"http.max-items\" value=\"3\" from=\"--set \
         http.max-items\"",
        &format!(
            "replaces a setting of srv.xml name=\"listen\" value=\"{address}\" from=\"FRS_LISTEN\""
        ),
    ] {
        life.wait_for_log(line);
    }
    let other = SRV.replace("<workers>1", "<workers>2").replace(":1<", ":2<");
    fs::write(setup.path("conf/srv.xml"), &other).expect("written");
    // A check does not know these settings, but the running server keeps them at a reload.
    let (is_good, said) = check(&setup, &[], &[]);
    assert!(is_good && said.ends_with("\nok\n"), "{said}");
    let output = setup.frs(&["reload"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    is_as_asked();
    let json = other.replace("</srv>", "<log format=\"json\"/></srv>");
    fs::write(setup.path("conf/srv.xml"), json).expect("written");
    let (is_good, said) = check(&setup, &[], &[]);
    assert!(!is_good && said.contains("\nok for a start; the running server refuses a reload\n"));
    fs::write(setup.path("conf/srv.xml"), other).expect("written");
    // The map can be changed as usual, because srv.xml is as it was read.
    let put = "<biz id=\"9\" name=\"b9\" key=\"string\"><limit policy=\"total\" max=\"4\"/></biz>";
    let said = super::changes::ask(&setup, "PUT", "/biz/9", put).expect("answered");
    assert!(said.starts_with("HTTP/1.1 201 "), "{said}");
    let before = used(setup.address, "k");
    under_load(setup.address, |_| {
        life.upgrade();
    });
    is_as_asked();
    assert_eq!(used(setup.address, "k"), before);
    assert!(life.stop().success());
}

// Shows: outside-settings.
#[test]
fn the_data_directory_from_outside_is_where_commands_look() {
    let setup = Setup::of_map(crate::common::MAP);
    let life = started(&setup, &["--data", "elsewhere"]);
    assert!(setup.path("elsewhere/lock").exists() && !setup.path("data").exists());
    assert!(!setup.frs(&["status"]).status.success(), "none is in data");
    let mut status = Command::new("./frs");
    status.current_dir(setup.dir.path()).arg("status").env("FRS_DATA", "elsewhere");
    assert!(text(&status.output().expect("runs").stdout).starts_with("master "));
    for command in ["reload", "stop"] {
        let output = setup.frs(&[command, "--data", "elsewhere"]);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    }
    drop(life);
}

// Shows: outside-settings.
#[test]
fn check_says_what_comes_from_outside_and_what_is_wrong_with_it() {
    let setup = Setup::of_map(crate::common::MAP);
    let variables =
        [("FRS_LISTEN", " 127.0.0.1:3\tunix:s "), ("FRS_WORKERS", ""), ("FRS_DATA", "d")];
    let (is_good, said) =
        check(&setup, &["--workers=4", "--set", "http.max-body=1KiB"], &variables);
    assert!(is_good, "{said}");
    let first: Vec<&str> = said.lines().take(5).collect();
    let expected = [
        "workers is \"4\" (--workers), whatever srv.xml says",
        "http.max-body is \"1KiB\" (--set http.max-body), whatever srv.xml says",
        "data.dir is \"d\" (FRS_DATA), whatever srv.xml says",
        "listen is \"127.0.0.1:3\" (FRS_LISTEN), whatever srv.xml says",
        "listen is \"unix:s\" (FRS_LISTEN), whatever srv.xml says",
    ];
    assert_eq!(first, expected);
    let (is_good, said) = check(&setup, &["--listen=here"], &[("FRS_WORKERS", "0")]);
    assert!(!is_good);
    let expected = "FRS_WORKERS: found <workers>0</workers>, expected auto or a whole number from \
                    1 to 200\n--listen: found <listen>here</listen>, expected ADDRESS:PORT, \
                    [ADDRESS]:PORT or unix:PATH\n2 faults\n";
    assert_eq!(said, expected);
    let output = setup.frs(&["check", "--set", "max-items"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("expected ELEMENT.ATTRIBUTE=VALUE"), "{output:?}");
}

#[test]
fn a_closed_pipe_is_no_failure_and_a_full_disk_is_one() {
    let setup = Setup::of_map(crate::common::MAP);
    let check = |out: std::process::Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frs"));
        let output = command.current_dir(setup.dir.path()).arg("check").stdout(out).output();
        let output = output.expect("frs runs");
        (output.status.code(), text(&output.stderr))
    };
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(check(writer.into()), (Some(0), String::new()));
    let full = fs::File::options().write(true).open("/dev/full").expect("it is there");
    let (code, said) = check(full.into());
    assert_eq!(code, Some(1));
    assert!(said.starts_with("cannot write the output: "), "{said}");
}

#[test]
fn migrate_finds_the_live_files_where_a_setting_has_put_them() {
    let setup = Setup::of_map(crate::common::MAP);
    let life = started(&setup, &["--set", "data.live=live"]);
    assert!(used(setup.address, "k") == 0 && setup.path("live").exists());
    assert!(life.stop().success());
    setup.write_map(&crate::common::MAP.replace("chain=\"8\"", "chain=\"9\""));
    let output = setup.inspect(&["migrate", "data", "--conf", "conf"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = "nothing to do: the files have the geometry of map.xml\n";
    assert_ne!(text(&output.stdout), expected);
}
