//! A pod of rendered manifests as the kubelet would lay it out: each volume in its place, below a
//! directory of the test.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::common::{needs, programs, text};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Whom the container runs as, for setpriv.
const USER: &str = "--reuid=10001 --regid=10001 --clear-groups --no-new-privs --bounding-set=-all";
/// The map.xml of a ConfigMap that exists before the chart is installed.
const GIVEN_MAP: &str = "<map><group name='default' keys='100000'/>\
    <biz id='1' name='login' key='string'><limit policy='total' max='5'/></biz></map>";

/// Keys and contents of a ConfigMap or a Secret.
type Keys = BTreeMap<String, String>;

pub struct Pod<'m> {
    manifests: &'m [Value],
    template: &'m Value,
    container: &'m Value,
    root: TempDir,
}

impl<'m> Pod<'m> {
    /// The only StatefulSet or DaemonSet among the manifests.
    pub fn of(manifests: &'m [Value]) -> Pod<'m> {
        let workloads = manifests.iter().filter(|manifest| {
            ["StatefulSet", "DaemonSet"].iter().any(|kind| manifest["kind"] == *kind)
        });
        let [workload] = workloads.collect::<Vec<_>>()[..] else { panic!("{manifests:?}") };
        let template = &workload["spec"]["template"];
        let containers = template["spec"]["containers"].as_array().expect("containers");
        let [container] = &containers[..] else { panic!("{containers:?}") };
        let pod = Pod { manifests, template, container, root: tempfile::tempdir().expect("one") };
        pod.lay_out(workload);
        pod
    }

    /// Lays out all mounts of the container, and notes that each has its volume.
    fn lay_out(&self, workload: &Value) {
        let volumes = list(&self.template["spec"]["volumes"]);
        for mount in list(&self.container["volumeMounts"]) {
            let (name, path) = (&mount["name"], self.inside(string(&mount["mountPath"])));
            std::fs::create_dir_all(&path).expect("created");
            let claims = list(&workload["spec"]["volumeClaimTemplates"]);
            let Some(volume) = volumes.iter().find(|volume| volume["name"] == *name) else {
                assert!(claims.iter().any(|claim| claim["metadata"]["name"] == *name), "{mount}");
                continue;
            };
            for (source, keys) in self.sources(volume) {
                let mode = source["defaultMode"].as_u64().unwrap_or(0o644) as u32;
                put(&path, &keys, mode);
            }
        }
    }

    /// What a volume holds. A directory that begins empty holds nothing.
    fn sources(&self, volume: &Value) -> Vec<(Value, Keys)> {
        if let Some(secret) = volume.get("secret") {
            return vec![(secret.clone(), self.secret(string(&secret["secretName"])))];
        }
        let own = volume.get("configMap").into_iter();
        let projected = list(&volume["projected"]["sources"]);
        let maps = own.chain(projected.iter().map(|source| &source["configMap"]));
        maps.map(|map| (map.clone(), self.config_map(string(&map["name"])))).collect()
    }

    fn config_map(&self, name: &str) -> Keys {
        let rendered = self.named("ConfigMap", name).map(|map| keys(&map["data"]));
        let given = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        rendered.unwrap_or_else(|| match name {
            "redis-ca" => given("ca.pem", "an authority"),
            "frs-map" => given("map.xml", GIVEN_MAP),
            _ => panic!("nobody makes the ConfigMap {name}"),
        })
    }

    fn secret(&self, name: &str) -> Keys {
        let rendered = self.named("Secret", name).map(|secret| keys(&secret["stringData"]));
        rendered.unwrap_or_else(|| match self.certificate_of(name) {
            true => certificate(),
            false => given_secret(name),
        })
    }

    /// Whether cert-manager makes this Secret.
    fn certificate_of(&self, secret: &str) -> bool {
        let mut manifests = self.manifests.iter();
        manifests.any(|manifest| {
            manifest["kind"] == "Certificate" && manifest["spec"]["secretName"] == secret
        })
    }

    fn named(&self, kind: &str, name: &str) -> Option<&Value> {
        let found =
            |manifest: &&Value| manifest["kind"] == kind && manifest["metadata"]["name"] == name;
        self.manifests.iter().find(found)
    }

    /// The place of an absolute path of the container.
    pub fn inside(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// Lets the mounted srv.xml name the places of this test, and returns it as it was.
    fn move_paths(&self) -> String {
        let file = self.inside("/frs/conf/srv.xml");
        let srv = std::fs::read_to_string(&file).expect("mounted");
        let root = self.root.path().display();
        let moved = srv.replace("=\"/", &format!("=\"{root}/"));
        std::fs::write(file, moved.replace("unix:/", &format!("unix:{root}/"))).expect("written");
        srv
    }

    /// Starts frs with the user of the container, on files that have the owners and modes that the
    /// kubelet gives them, in a network of its own. `None` where that cannot be done.
    pub fn start(&self) -> Option<Running> {
        if !nix::unistd::geteuid().is_root() {
            needs::skip("a network, and files of other users, need root");
            return None;
        }
        self.move_paths();
        self.give_to_the_group();
        let program = self.inside("/usr/bin/frs");
        std::fs::create_dir_all(self.inside("/usr/bin")).expect("created");
        programs::copy(Path::new(env!("CARGO_BIN_EXE_frs")), &program);
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sh", "-c"]);
        command.arg(format!("ip link set lo up && exec setpriv {USER} -- \"$@\""));
        command.arg("sh").arg(program).arg("--conf").arg(self.inside("/frs/conf"));
        let log = self.inside("/log");
        command.process_group(0).stderr(File::create(&log).expect("created"));
        needs::spawn(&mut command).map(|child| Running { child, log })
    }

    /// All is root's, but open to the group as `fsGroup` says; what begins empty may be written.
    fn give_to_the_group(&self) {
        let begin_empty = ["/data", "/run/frs"].map(|path| self.inside(path));
        let mut directories = vec![(self.root.path().to_owned(), 0o755)];
        while let Some((directory, mode)) = directories.pop() {
            std::fs::set_permissions(&directory, Permissions::from_mode(mode)).expect("set");
            for entry in std::fs::read_dir(directory).expect("readable") {
                let entry = entry.expect("an entry");
                lchown(entry.path(), Some(0), Some(10001)).expect("given");
                let is_empty = begin_empty.contains(&entry.path());
                if entry.file_type().expect("a kind").is_dir() {
                    directories.push((entry.path(), if is_empty { 0o2777 } else { 0o755 }));
                }
            }
        }
    }

    /// Checks the configuration by `frs check`, and the pod against what it says.
    pub fn check(&self) {
        let (srv, conf) = (self.move_paths(), self.inside("/frs/conf"));
        let mut check = Command::new(env!("CARGO_BIN_EXE_frs"));
        let output = check.args(["check", "--conf"]).arg(&conf).output().expect("frs runs");
        let report = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success() && report.ends_with("\nok\n"), "{report}\n{srv}");
        self.is_restricted();
        self.has_the_ports_of(&srv);
        self.has_the_memory_of(&report);
    }

    /// The container has no right that it does not need.
    fn is_restricted(&self) {
        let (pod, own) =
            (&self.template["spec"]["securityContext"], &self.container["securityContext"]);
        assert_eq!(pod["runAsNonRoot"], true);
        assert_eq!((&pod["runAsUser"], &pod["fsGroup"]), (&10001.into(), &10001.into()));
        assert_eq!(pod["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(own["allowPrivilegeEscalation"], false);
        assert_eq!(own["readOnlyRootFilesystem"], true);
        assert_eq!(own["capabilities"], serde_json::json!({ "drop": ["ALL"] }));
        assert_eq!(self.template["spec"]["automountServiceAccountToken"], false);
    }

    /// What listens is what the container and its Services name, and the probes ask one of them.
    fn has_the_ports_of(&self, srv: &str) {
        let ports = list(&self.container["ports"]);
        for port in &ports {
            assert!(srv.contains(&format!(":{}", port["containerPort"])), "{port}\n{srv}");
        }
        let has = |name: &Value| ports.iter().any(|port| port["name"] == *name);
        for service in self.manifests.iter().filter(|manifest| manifest["kind"] == "Service") {
            let served = list(&service["spec"]["ports"]);
            assert!(served.iter().all(|port| has(&port["targetPort"])), "{service}");
            let selector = service["spec"]["selector"].as_object().expect("labels");
            let labels = &self.template["metadata"]["labels"];
            assert!(selector.iter().all(|(name, value)| labels[name] == *value), "{service}");
        }
        let status = serde_json::json!(["/usr/bin/frs", "status", "--data", "/data/frs"]);
        for probe in ["startupProbe", "readinessProbe"] {
            let (http, exec) =
                (&self.container[probe]["httpGet"], &self.container[probe]["exec"]["command"]);
            let asks = http["path"] == "/health" && has(&http["port"]);
            assert!(asks || *exec == status, "{}", self.container[probe]);
        }
        assert_eq!(self.container["livenessProbe"]["exec"]["command"], status);
    }

    /// The pod asks for the memory that frs takes without clients.
    fn has_the_memory_of(&self, report: &str) {
        let line = report.lines().find_map(|line| line.trim().strip_prefix("at rest: "));
        let (bytes, _) = line.and_then(|line| line.split_once(' ')).expect("a number");
        let needed: u64 = bytes.replace(',', "").parse().expect("bytes");
        let asked = string(&self.container["resources"]["requests"]["memory"]);
        let unit = |suffix, shift| {
            asked.strip_suffix(suffix).map(|number| number.parse::<u64>().expect("bytes") << shift)
        };
        let asked = unit("Mi", 20).or_else(|| unit("Gi", 30)).expect("Mi or Gi");
        assert!(asked >= needed, "{asked} of {needed}");
    }
}

/// A certificate that is its own authority, as a Secret of cert-manager has it.
fn certificate() -> Keys {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.args(["-noenc", "-days", "365", "-subj", "/CN=frs", "-keyout", "-", "-out", "-"]);
    let output = openssl.output().expect("openssl runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let both = text(&output.stdout);
    let (key, cert) = both.split_at(both.find("-----BEGIN CERT").expect("a certificate"));
    [("tls.key", key), ("tls.crt", cert), ("ca.crt", cert)]
        .map(|(name, pem)| (name.to_owned(), pem.to_owned()))
        .into()
}

/// A running frs. Dropping it kills all of its processes.
pub struct Running {
    pub child: Child,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

/// Secrets that a cluster would have before the chart is installed.
fn given_secret(name: &str) -> Keys {
    let keys: &[(&str, &str)] = match name {
        "frs-edge" | "frs-clients-ca" => return certificate(),
        "frs-cluster" => &[
            ("secret", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
            ("password", "a-password"),
        ],
        "frs-clients" => &[
            ("checkout", "only-for-tests-of-checkout"),
            ("prometheus", "only-for-tests-of-prometheus\nthe-next-one-of-prometheus\n"),
        ],
        "frs-resp" => &[("token", "only-for-tests-0123456789")],
        _ => panic!("nobody makes the Secret {name}"),
    };
    keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Writes keys as the kubelet does: links to a directory that it can exchange at once.
fn put(path: &Path, keys: &Keys, mode: u32) {
    let data = path.join("..data");
    if !data.exists() {
        std::fs::create_dir(path.join("..1")).expect("created");
        symlink("..1", &data).expect("linked");
    }
    for (key, value) in keys {
        let file = path.join("..1").join(key);
        std::fs::write(&file, value).expect("written");
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("set");
        symlink(Path::new("..data").join(key), path.join(key)).expect("linked");
    }
}

fn keys(map: &Value) -> Keys {
    let map = map.as_object().expect("keys");
    map.iter().map(|(key, value)| (key.clone(), string(value).to_owned())).collect()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is text"))
}
