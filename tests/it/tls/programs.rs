//! TLS as programs of others speak it: curl, openssl s_client, redis-cli and sslscan.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use frs_server::tls::testing::{Authority, Leaf};

use super::edge::{Edge, host};
use crate::common::{needs, text, try_wait};

const REQUEST: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The exit status and the output of a program that is given a text. `None` if it is missing.
#[track_caller]
fn run(program: &str, arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = needs::spawn(&mut command)?;
    let mut stdin = child.stdin.take().expect("piped");
    // A program that has ended takes no input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    Some((output.status.success(), text(&output.stdout) + &text(&output.stderr)))
}

fn curl(stage: &Edge, more: &[&str], target: &str) -> Option<(bool, String)> {
    let ca = stage.argument("ca.pem");
    let url = format!("https://127.0.0.1:{}{target}", stage.http.address.port());
    let common = ["--silent", "--show-error", "--max-time", "20", "--cacert", &ca];
    let status = ["--write-out", " status=%{http_code} http=%{http_version}\n"];
    run("curl", &[&common[..], &status, more, &[&url]].concat(), "")
}

/// `openssl s_client`, which checks the server's certificate and sends a request.
fn openssl(stage: &Edge, address: SocketAddr, more: &[&str], input: &str) -> (bool, String) {
    let ca = stage.argument("ca.pem");
    let host = host(address);
    let common =
        ["s_client", "-connect", &host, "-CAfile", &ca, "-verify_return_error", "-ign_eof"];
    run("openssl", &[&common[..], more].concat(), input).expect("openssl is there")
}

fn has_openssl() -> bool {
    needs::output(Command::new("openssl").arg("version")).is_some()
}

// Shows: tls-programs.
#[test]
fn curl_counts_over_both_versions_and_shows_its_certificate() {
    let stage = Edge::new("", "client=\"wanted\"");
    let _server = stage.setup.start();
    let versions = [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3", "--tls-max", "1.3"]];
    for (nth, version) in versions.iter().enumerate() {
        for left in (0..3).rev() {
            let target = format!("/update?biz=three&key=curl{nth}");
            let Some((is_well, said)) = curl(&stage, version, &target) else { return };
            assert!(is_well && said.contains("status=200 http=1.1"), "{said}");
            assert!(said.contains(&format!("remaining=\"{left}\"")), "{said}");
        }
    }
    stage.sign("billing").write(&stage.path(""), "billing");
    let (cert, key) = (stage.argument("billing.pem"), stage.argument("billing.key"));
    let (is_well, said) =
        curl(&stage, &["--cert", &cert, "--key", &key], "/health").expect("there");
    assert!(is_well && said.contains("status=200"), "{said}");
    Authority::new("other").sign(&Leaf::default()).write(&stage.path(""), "foreign");
    let (cert, key) = (stage.argument("foreign.pem"), stage.argument("foreign.key"));
    let (is_well, said) =
        curl(&stage, &["--cert", &cert, "--key", &key], "/health").expect("there");
    assert!(!is_well, "{said}");
}

// Shows: tls-programs.
#[test]
fn curl_without_tls_is_told_what_the_port_speaks() {
    let stage = Edge::new("", "");
    let _server = stage.setup.start();
    let url = format!("http://{}/health", host(stage.http.address));
    let arguments = ["--silent", "--max-time", "20", "--write-out", " %{http_code}", &url];
    let Some((_, said)) = run("curl", &arguments, "") else { return };
    assert!(said.contains("TLS") && said.ends_with(" 400"), "{said}");
}

// Shows: tls-programs.
#[test]
fn openssl_speaks_both_versions_and_resumes_each() {
    let stage = Edge::new("", "");
    let _server = stage.setup.start();
    if !has_openssl() {
        return;
    }
    let session = stage.argument("session");
    for version in ["-tls1_2", "-tls1_3"] {
        let first = openssl(&stage, stage.http.address, &[version, "-sess_out", &session], REQUEST);
        assert!(first.0 && first.1.contains("Verify return code: 0 (ok)"), "{}", first.1);
        assert!(first.1.contains("New, TLS") && first.1.contains("HTTP/1.1 200"), "{}", first.1);
        // Whichever worker accepts it, it resumes.
        for _ in 0..8 {
            let arguments = [version, "-sess_in", &session];
            let (is_well, said) = openssl(&stage, stage.http.address, &arguments, REQUEST);
            assert!(is_well && said.contains("Reused, TLS"), "{version}: {said}");
            assert!(said.contains("HTTP/1.1 200"), "{said}");
        }
    }
}

// Shows: tls-strong.
#[test]
fn old_versions_and_other_protocols_are_refused() {
    let stage = Edge::new("", "min=\"1.3\"");
    let _server = stage.setup.start();
    if !has_openssl() {
        return;
    }
    for version in ["-tls1", "-tls1_1", "-tls1_2"] {
        let arguments = [version, "-cipher", "ALL:@SECLEVEL=0"];
        let (is_well, said) = openssl(&stage, stage.http.address, &arguments, REQUEST);
        assert!(!is_well && said.contains("SSL alert number"), "{version}: {said}");
        assert!(said.contains("Cipher is (NONE)") && !said.contains("HTTP/1.1"), "{said}");
    }
    let (_, said) = openssl(&stage, stage.http.address, &["-alpn", "http/1.1"], REQUEST);
    assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
    let (is_well, said) = openssl(&stage, stage.http.address, &["-alpn", "h2"], REQUEST);
    assert!(!is_well && said.contains("no application protocol"), "{said}");
}

/// What `openssl s_client` says until it ends, which a line that begins with R makes renegotiate.
fn ask_to_renegotiate(stage: &Edge, address: SocketAddr) -> String {
    let (ca, host) = (stage.argument("ca.pem"), host(address));
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &host, "-CAfile", &ca, "-tls1_2"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("openssl starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"R\n").expect("written");
    // It would end at the end of its input.
    let status = try_wait(|| child.try_wait().expect("waited"));
    let _ = child.kill();
    let output = child.wait_with_output().expect("it ends");
    assert!(status.is_some_and(|status| !status.success()), "{status:?}");
    drop(stdin);
    text(&output.stdout) + &text(&output.stderr)
}

// Shows: tls-strong.
#[test]
fn a_renegotiation_is_refused_and_others_are_served() {
    let stage = Edge::new("", "");
    let server = stage.setup.start();
    if !has_openssl() {
        return;
    }
    let workers = server.wait_for_workers(2);
    let address = stage.http.address;
    let said = ask_to_renegotiate(&stage, address);
    assert!(said.contains("RENEGOTIATING") && said.contains("no renegotiation"), "{said}");
    let (is_well, said) = openssl(&stage, address, &["-tls1_2"], REQUEST);
    assert!(is_well && said.contains("HTTP/1.1 200"), "{said}");
    assert_eq!(server.workers(), workers);
}

// Shows: tls-programs.
#[test]
fn redis_cli_counts_over_tls() {
    let stage = Edge::new("", "client=\"required\"");
    let _server = stage.setup.start();
    stage.sign("shop").write(&stage.path(""), "shop");
    let (ca, port) = (stage.argument("ca.pem"), stage.resp.address.port().to_string());
    let (cert, key) = (stage.argument("shop.pem"), stage.argument("shop.key"));
    let common = ["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert", &ca];
    let shown = ["--cert", &cert, "--key", &key];
    for left in [2, 1, 0] {
        let update = ["--no-raw", "-3", "FRS.UPDATE", "three", "redis"];
        let arguments = [&common[..], &shown, &update].concat();
        let Some((is_well, said)) = run("redis-cli", &arguments, "") else { return };
        if said.contains("Unrecognized option") {
            return needs::skip("redis-cli speaks no TLS");
        }
        assert!(is_well && said.contains(&format!("\"remaining\" => (integer) {left}")), "{said}");
    }
    let (is_well, said) = run("redis-cli", &[&common[..], &["PING"]].concat(), "").expect("there");
    assert!(!is_well || !said.contains("PONG"), "without a certificate: {said}");
}

// Shows: tls-strong.
#[test]
fn sslscan_finds_no_old_version_and_no_weak_cipher() {
    let stage = Edge::with_rls("");
    let _server = stage.setup.start();
    for address in [stage.http.address, stage.resp.address, stage.rls.address] {
        let target = host(address);
        let Some((is_well, said)) = run("sslscan", &["--no-colour", "--xml=-", &target], "") else {
            return;
        };
        assert!(is_well, "{said}");
        for (kind, version, enabled) in [
            ("ssl", "2", 0),
            ("ssl", "3", 0),
            ("tls", "1.0", 0),
            ("tls", "1.1", 0),
            ("tls", "1.2", 1),
            ("tls", "1.3", 1),
        ] {
            let line =
                format!("protocol type=\"{kind}\" version=\"{version}\" enabled=\"{enabled}\"");
            assert!(said.contains(&line), "{line}: {said}");
        }
        assert!(said.contains("renegotiation supported=\"0\""), "{said}");
        for fault in ["compression supported=\"1\"", "vulnerable=\"1\""] {
            assert!(!said.contains(fault), "{fault}: {said}");
        }
        let ciphers: Vec<&str> = said.lines().filter(|line| line.contains("<cipher ")).collect();
        assert!(ciphers.len() >= 5, "{said}");
        for cipher in ciphers {
            let is_strong = ["strong", "acceptable"].iter().any(|it| cipher.contains(it))
                && ["GCM", "CHACHA20"].iter().any(|mode| cipher.contains(mode))
                && ["ECDHE", "TLS_"].iter().any(|exchange| cipher.contains(exchange));
            assert!(is_strong, "{cipher}");
        }
    }
}
