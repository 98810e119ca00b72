//! The gateways: the files and the start of each, and the line of its open variant.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::needs;

/// A gateway and its example.
pub struct Gateway {
    pub name: &'static str,
    /// A text in the body of a refusal. Empty: a refusal has no body.
    pub refusal: &'static str,
    /// The files of the example, the main one first.
    pub files: &'static [&'static str],
    /// Replacements that turn the closed variant into the open one.
    pub open: &'static [(&'static str, &'static str)],
    /// A file of the example, and a replacement in it that passes a client's header fields on to
    /// frs.
    pub handing_on: (&'static str, &'static str, &'static str),
    /// A path of the example that the test replaces by its directory.
    pub installed: &'static str,
    /// The arguments that start the gateway in the foreground with the files of a directory.
    pub arguments: fn(&Path) -> Vec<String>,
}

pub fn nginx() -> Gateway {
    Gateway {
        name: "nginx",
        refusal: "429 Too Many Requests",
        files: &["frs.conf"],
        open: &[("# error_page 502", "error_page 502")],
        handing_on: (
            "frs.conf",
            "proxy_pass_request_headers off;",
            "proxy_pass_request_headers on;",
        ),
        installed: "/etc/nginx/",
        arguments: |dir| {
            let main = dir.join("nginx.conf");
            std::fs::write(&main, around_nginx(dir)).expect("written");
            let (dir, main) = (dir.display(), main.display());
            ["-e", "stderr", "-p", &dir.to_string(), "-c", &main.to_string()].map(Into::into).into()
        },
    }
}

/// The contents of /etc/nginx/nginx.conf on a machine, with every file that it writes in the
/// directory.
fn around_nginx(dir: &Path) -> String {
    let dir = dir.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {dir}/{name};\n"))
        .concat();
    format!(
        "daemon off;\nworker_processes 1;\npid {dir}/pid;\nerror_log stderr;\nevents {{}}\n\
         http {{\naccess_log off;\n{temporary}include {dir}/frs.conf;\n}}\n"
    )
}

pub fn haproxy() -> Gateway {
    Gateway {
        name: "haproxy",
        refusal: "",
        files: &["haproxy.cfg", "frs.lua"],
        open: &[
            (
                "    http-request return status 503 if login !{ var(txn.frs_status) -m int 200 }\n",
                "",
            ),
            ("# http-request return status 503", "http-request return status 503"),
        ],
        handing_on: (
            "frs.lua",
            "{ [\"FRS-Key\"] = { txn.f:src() } }",
            "{ [\"FRS-Key\"] = { txn.f:src() }, [\"Origin\"] = { txn.f:req_hdr(\"origin\") or \"\" }, \
             [\"Sec-Fetch-Site\"] = { txn.f:req_hdr(\"sec-fetch-site\") or \"\" } }",
        ),
        installed: "/etc/haproxy/",
        arguments: |dir| vec!["-db".into(), "-f".into(), file(dir, "haproxy.cfg")],
    }
}

pub fn envoy() -> Gateway {
    Gateway {
        name: "envoy",
        refusal: " limited=\"true\" limit=\"1\" used=\"5\" max=\"5\"",
        files: &["envoy.yaml"],
        open: &[("failure_mode_allow: false", "failure_mode_allow: true")],
        handing_on: (
            "envoy.yaml",
            "[{ exact: frs-key }]",
            "[{ exact: frs-key }, { exact: origin }, { prefix: sec-fetch- }]",
        ),
        installed: "/etc/envoy/",
        // Hot restart shares memory under a number that every Envoy of the machine has by default.
        arguments: |dir| {
            let fixed = ["--disable-hot-restart", "--concurrency", "1", "-l", "warning", "-c"];
            let fixed = fixed.map(Into::into);
            fixed.into_iter().chain([file(dir, "envoy.yaml")]).collect()
        },
    }
}

pub fn caddy() -> Gateway {
    Gateway {
        name: "caddy",
        refusal: " limited=\"true\" limit=\"1\" used=\"5\" max=\"5\"",
        files: &["Caddyfile"],
        open: &[("respond 503\n", "\n"), ("# reverse_proxy", "reverse_proxy")],
        handing_on: ("Caddyfile", "header_up -*\n", "\n"),
        installed: "/etc/caddy/",
        arguments: |dir| {
            let fixed = ["run", "--adapter", "caddyfile", "--config"].map(Into::into);
            fixed.into_iter().chain([file(dir, "Caddyfile")]).collect()
        },
    }
}

fn file(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

impl Gateway {
    /// The gateway's program. `None` if it is missing: the test reports its name.
    pub fn program(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).collect::<Vec<_>>();
        // A normal user's PATH may not contain the directories of servers.
        let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
        let found = places.into_iter().chain(system).map(|place| place.join(self.name));
        let found = found.into_iter().find(|program| runs(program));
        if found.is_none() {
            needs::skip(&format!("{} is not installed", self.name));
        }
        found
    }

    /// A file of its example.
    pub fn shipped(&self, file: &str) -> String {
        let path = example().join(self.name).join(file);
        std::fs::read_to_string(path).expect("shipped")
    }
}

fn runs(program: &Path) -> bool {
    let version = Command::new(program).arg("-v").output();
    version.is_ok_and(|output| output.status.success())
        || Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// The directory of the gateways.
pub fn example() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("conf/examples/gateways")
}
