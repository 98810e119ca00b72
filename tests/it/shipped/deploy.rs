//! The files of deploy/ are correct: the packaged configuration and that of the image, the systemd
//! units, logrotate's settings, the manifests of containers.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::needs;
use frs_conf::{Anonymous, BizNames, Clients, Conf, Listen, Right, Rights};

fn deploy(name: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("deploy").join(name);
    std::fs::read_to_string(path).expect("readable")
}

fn shipped(name: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("conf").join(name);
    std::fs::read_to_string(path).expect("readable")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn the_packaged_configuration_is_the_shipped_one_in_a_directory_of_its_own() {
    let map = shipped("map.xml");
    let parse = |srv: &str| Conf::parse("srv.xml", srv, "map.xml", &map).expect("no faults");
    let (mut packaged, shipped) = (parse(&deploy("srv.xml")), parse(&shipped("srv.xml")));
    assert_eq!(packaged.srv.data.dir, Path::new("/var/lib/frs"));
    packaged.srv.data.dir = shipped.srv.data.dir.clone();
    assert_eq!(std::mem::take(&mut packaged.srv.metrics), [metrics().into()]);
    // The administrator who installs the package decides about an admin plane.
    assert_eq!(packaged.srv.admins, []);
    packaged.srv.admins = shipped.srv.admins.clone();
    assert_eq!(packaged.srv.clients.take(), Some(open_to_who_shows_nothing()));
    assert_eq!(packaged.srv, shipped.srv);
    let proposed = deploy("srv.xml").replace("  <admin", "  --><admin");
    let proposed = proposed.replace("map.xml\"/>\n  -->", "map.xml\"/>");
    let proposed = parse(&proposed).srv;
    let [admin] = &proposed.admins[..] else { panic!("the proposed one: {proposed:?}") };
    assert_eq!(admin.listen, Listen::Unix("/run/frs/admin.sock".into()));
    let own = Path::new("/var/lib/frs/conf/map.xml");
    assert_eq!(proposed.map_file.as_deref(), Some(own), "where its user may write");
    checked("srv.xml", &map);
}

/// The address at which the package and the image serve metrics.
fn metrics() -> Listen {
    Listen::Tcp("0.0.0.0:7602".parse().expect("an address"))
}

/// The `<clients>` of the package and of the image. Who shows nothing may do what the shipped
/// configuration lets all do, but give back uses, force, use registers and change anything.
fn open_to_who_shows_nothing() -> Clients {
    let may = [Right::Query, Right::Update, Right::Hold, Right::Metrics, Right::AdminRead];
    let (rights, bizs) = (Rights::of(&may), BizNames::all());
    Clients { list: Vec::new(), anonymous: Anonymous { rights, unix: Rights::ALL, bizs } }
}

/// Checks that `frs check` finds no fault in a packaged srv.xml, and reports who may read metrics.
fn checked(srv: &str, map: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("srv.xml"), deploy(srv)).expect("written");
    std::fs::write(dir.path().join("map.xml"), map).expect("written");
    let mut check = Command::new(env!("CARGO_BIN_EXE_frs"));
    let output = check.args(["check", "--conf"]).arg(dir.path()).output().expect("frs runs");
    assert!(output.status.success(), "{}", said(&output));
    let line = "metrics 0.0.0.0:7602: /metrics and /health, for peers of <allow>";
    assert!(said(&output).lines().any(|other| other == line), "{}", said(&output));
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let dir = tempfile::tempdir().expect("a directory");
    // The only setting whose target exists after the installation only.
    let unit = deploy("frs.service").replace("/usr/bin/frs", env!("CARGO_BIN_EXE_frs"));
    let (service, socket) = (dir.path().join("frs.service"), dir.path().join("frs.socket"));
    std::fs::write(&service, &unit).expect("written");
    std::fs::write(&socket, deploy("frs.socket")).expect("written");
    let mut verify = Command::new("systemd-analyze");
    let Some(output) = needs::output(verify.args(["verify", "--man=no"]).args([&service, &socket]))
    else {
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output), "");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", "--threshold=20"]).arg(&service);
    let output = needs::output(&mut security).expect("it was there");
    if !output.status.success() && said(&output).contains("offline") {
        return needs::skip("this systemd-analyze looks at the security of running units only");
    }
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn the_unit_allows_what_the_server_needs() {
    let unit = deploy("frs.service");
    for line in [
        "Type=notify",
        "NotifyAccess=main",
        "ExecStart=/usr/bin/frs serve --conf /etc/frs",
        "WorkingDirectory=/var/lib/frs",
        "StateDirectory=frs",
        "RuntimeDirectory=frs",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "KillMode=mixed",
        "User=frs",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    // With RemoveIPC systemd would remove live files in /dev/shm whenever the server ends, killed
    // or not.
    assert!(!unit.contains("RemoveIPC=yes"), "counters are kept");
}

#[test]
fn logrotate_understands_its_settings() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("frs.log");
    std::fs::write(&log, "a line\n").expect("written");
    // Uses the directories and the user of this machine instead of the package's.
    let settings: String = deploy("frs.logrotate")
        .replace("/var/log/frs", &dir.path().display().to_string())
        .lines()
        .filter(|line| !line.trim_start().starts_with("su "))
        .map(|line| line.replace("create 0640 frs frs", "create 0640") + "\n")
        .collect();
    let (file, state) = (dir.path().join("settings"), dir.path().join("state"));
    std::fs::write(&file, settings).expect("written");
    let mut logrotate = Command::new("logrotate");
    logrotate.arg("--force").arg("--state").arg(&state).arg(&file);
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let Some(output) = needs::output(logrotate.env("PATH", path)) else { return };
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(std::fs::read_to_string(dir.path().join("frs.log.1")).expect("rotated"), "a line\n");
    assert_eq!(std::fs::read_to_string(&log).expect("made anew"), "");
}

// Shows: image.
#[test]
fn the_configuration_of_the_image_is_the_shipped_one_for_a_container() {
    let map = deploy("container/map.xml");
    let parse = |srv: &str| Conf::parse("srv.xml", srv, "map.xml", &map).expect("no faults");
    let (mut image, shipped) = (parse(&deploy("container/srv.xml")), parse(&shipped("srv.xml")));
    assert_eq!(image.srv.data.dir, Path::new("/data"));
    assert_eq!(image.srv.listen, [Listen::Tcp("0.0.0.0:7600".parse().expect("an address")).into()]);
    let [socket, forwarded] = &std::mem::take(&mut image.srv.admins)[..] else { panic!("two") };
    assert_eq!(socket.listen, Listen::Unix("/run/frs/admin.sock".into()));
    assert_eq!(socket.token_file, None, "its socket needs none");
    assert_eq!(forwarded.listen, Listen::Tcp("127.0.0.1:7601".parse().expect("an address")));
    assert_eq!(forwarded.token_file.as_deref(), Some(Path::new("/run/secrets/frs/token")));
    assert_eq!(image.srv.watch_ms.take(), Some(5000));
    assert_eq!(image.map.bizs, [], "the image limits nothing by itself");
    assert_eq!(std::mem::take(&mut image.srv.metrics), [metrics().into()]);
    image.srv.data.dir = shipped.srv.data.dir.clone();
    (image.srv.listen, image.srv.admins) = (shipped.srv.listen.clone(), shipped.srv.admins.clone());
    assert_eq!(image.srv.clients.take(), Some(open_to_who_shows_nothing()));
    assert_eq!(image.srv, shipped.srv);
    checked("container/srv.xml", &map);
}

// Shows: image.
#[test]
fn the_manifests_fit_their_schemas() {
    let path = |name: &str| format!("{}/../../deploy/{name}", env!("CARGO_MANIFEST_DIR"));
    // Prometheus finds the rules beside its configuration, as the compose file mounts them.
    let dir = tempfile::tempdir().expect("a directory");
    let beside = |name: &str| dir.path().join(name).display().to_string();
    for (name, from) in [
        ("prometheus.yml", "container/prometheus.yml"),
        ("frs.rules.yml", "prometheus/frs.rules.yml"),
    ] {
        std::fs::write(dir.path().join(name), deploy(from)).expect("written");
        let mount = format!("./{from}:/etc/prometheus/{name}:ro");
        assert!(deploy("compose.yaml").contains(&mount), "{mount}");
    }
    for (program, arguments) in [
        ("kubernetes-validate", vec!["--strict".to_owned(), path("kubernetes/frs.yaml")]),
        (
            "check-jsonschema",
            vec!["--builtin-schema=vendor.compose-spec".to_owned(), path("compose.yaml")],
        ),
        ("promtool", vec!["check".to_owned(), "config".to_owned(), beside("prometheus.yml")]),
    ] {
        let Some(output) = needs::output(Command::new(program).args(arguments)) else { continue };
        assert!(output.status.success(), "{program}: {}", said(&output));
    }
}

#[test]
fn the_manifests_speak_of_what_the_image_has() {
    let dockerfile = deploy("Dockerfile");
    let kubernetes = deploy("kubernetes/frs.yaml");
    for line in [
        "FROM scratch",
        "USER 10001:10001",
        "VOLUME /data",
        "WORKDIR /frs",
        "STOPSIGNAL SIGTERM",
        "ENTRYPOINT [\"/usr/bin/frs\"]",
    ] {
        assert!(dockerfile.lines().any(|found| found == line), "{line}");
    }
    let count = |text: &str, part: &str| text.matches(part).count();
    assert_eq!(count(&kubernetes, "10001"), 3, "user, group and that of volumes");
    assert_eq!(count(&kubernetes, "mountPath: /data\n"), 1);
    for line in
        ["value: /data/frs", r#"command: ["/usr/bin/frs", "status", "--data", "/data/frs"]"#]
    {
        assert!(kubernetes.lines().any(|found| found.trim() == line), "{line}");
    }
    // The port of the image's <metrics>, wherever it is named.
    assert!(dockerfile.contains("\nEXPOSE 7600 7602\n"));
    for line in ["containerPort: 7602", "port: 7602", "prometheus.io/port: \"7602\""] {
        let lines = kubernetes.lines().filter(|found| found.trim() == line).count();
        assert_eq!(lines, 1, "{line}");
    }
    assert!(deploy("container/prometheus.yml").contains("- targets: [\"frs:7602\"]\n"));
    assert_eq!(count(&kubernetes, &format!("image: frs:{}\n", env!("CARGO_PKG_VERSION"))), 1);
    assert_eq!(count(&deploy("compose.yaml"), "data:/data"), 1);
}
