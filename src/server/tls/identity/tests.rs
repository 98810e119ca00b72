//! Tests of the files of a `<tls>`: pairs that fit, that do not, and dates.

use super::*;
use crate::tls::testing::{Authority, Leaf};
use frs_conf::{ClientCertificates, SecretReaders};

const DAY_MS: u64 = 86_400_000;

fn block(dir: &Path, ca: Option<&str>) -> Tls {
    let clients = ca.map(|ca| ClientCertificates { ca: dir.join(ca), required: true });
    let (cert, key) = (dir.join("edge.pem"), dir.join("edge.key"));
    Tls { name: "edge".into(), cert, key, clients, min: TlsVersion::V12 }
}

fn error_of(block: &Tls) -> String {
    let files = block.read_files(&SecretReaders::of(None)).map_err(TlsError::from);
    files.and_then(|files| Identity::of(block, &files)).expect_err("taken").to_string()
}

/// What `frs check` says of a block.
fn look(block: Tls, now_ms: u64) -> TlsReport {
    let map = "<map><group name='g' files='1' key-nodes='8' chain='2' node-size='64'/></map>";
    let mut srv = frs_conf::Conf::parse("srv.xml", "<srv/>", "map.xml", map).expect("sound").srv;
    srv.tls = vec![block];
    TlsReport::look(&srv, now_ms)
}

#[test]
fn a_pair_that_fits_is_taken_and_its_end_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new("ca");
    authority.sign(&Leaf { days: (-1, 40), ..Leaf::default() }).write(dir.path(), "edge");
    let (block, now) = (block(dir.path(), None), frs_base::clock::now());
    assert_eq!(look(block.clone(), now), TlsReport::default());
    let TlsReport { faults, warnings } = look(block.clone(), now + 15 * DAY_MS);
    assert_eq!(faults, [""; 0]);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("edge.pem: the certificate ends on ") && warning.contains(" in 2"));
    for (now, word) in [(now + 41 * DAY_MS, "ended on"), (now - 2 * DAY_MS, "begins on")] {
        let TlsReport { faults, warnings } = look(block.clone(), now);
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert!(fault.contains(word) && fault.contains(", expected a valid one"), "{fault}");
        assert_eq!(warnings, [""; 0]);
    }
}

#[test]
fn a_key_of_another_certificate_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new("ca");
    let signed = authority.write(dir.path(), "edge");
    let other = authority.write(dir.path(), "other");
    let block = block(dir.path(), Some("ca.pem"));
    std::fs::write(dir.path().join("ca.pem"), authority.pem()).expect("written");
    let key = |text: &str| std::fs::write(dir.path().join("edge.key"), text).expect("written");
    key(&other.key);
    let error = error_of(&block);
    assert!(error.contains("edge.key: found the key of another certificate, expected the private"));
    key("nothing");
    assert!(error_of(&block).contains("edge.key: found no private key, expected a private key of"));
    key(&signed.key);
    for (name, text, expected) in [
        ("edge.pem", "nothing", "edge.pem: found no certificate, expected certificates as PEM"),
        ("edge.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "malformed"),
        ("ca.pem", "", "ca.pem: found no certificate"),
    ] {
        let path = dir.path().join(name);
        let former = std::fs::read(&path).expect("read");
        std::fs::write(&path, text).expect("written");
        let error = error_of(&block);
        assert!(error.contains(expected), "{error}");
        std::fs::write(&path, former).expect("written");
    }
    let files = block.read_files(&SecretReaders::of(None)).expect("read");
    Identity::of(&block, &files).expect("sound again");
    assert!(!format!("{files:?}").contains("PRIVATE"));
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    Authority::new("ca").write(dir.path(), "edge");
    let path = dir.path().join("edge.key");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("set");
    let error = error_of(&block(dir.path(), None));
    assert!(
        error.contains("edge.key: found mode") && error.contains("nobody but the server"),
        "{error}"
    );
}

#[test]
fn the_digest_changes_with_the_name_the_authorities_and_the_need() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, other) = (Authority::new("one"), Authority::new("other"));
    one.write(dir.path(), "edge");
    for (name, authority) in [("one", &one), ("other", &other)] {
        std::fs::write(dir.path().join(name), authority.pem()).expect("written");
    }
    let digest = |block: &Tls| {
        let files = block.read_files(&SecretReaders::of(None)).expect("read");
        Identity::of(block, &files).expect("sound").digest
    };
    let first = block(dir.path(), Some("one"));
    let wanted = ClientCertificates { ca: dir.path().join("one"), required: false };
    let others = [
        Tls { name: "other".into(), ..first.clone() },
        Tls { clients: Some(wanted), ..first.clone() },
        block(dir.path(), Some("other")),
        block(dir.path(), None),
    ];
    assert!(others.iter().all(|other| digest(other) != digest(&first)));
    let before = digest(&first);
    one.write(dir.path(), "edge");
    assert_eq!(digest(&first), before, "another certificate of the server changes nothing");
}
