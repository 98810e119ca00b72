//! What deploy/helm and deploy/kustomize render: manifests that fit their schemas, and a
//! configuration that `frs check` takes, each of its files where the pod mounts it.
//!
//! Needs helm, kubectl for its kustomize, kubernetes-validate, openssl and node, and one test root.
//! FRS_KUBERNETES_MODELS names the folder where `.ci/run` has installed the models of kinds that
//! operators bring. There is no cluster here: nothing is applied.

mod pod;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::plane::ask_socket;
use crate::common::{needs, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pod::Pod;
use serde_json::Value;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
/// Kinds that Kubernetes itself does not have.
const OF_OPERATORS: [&str; 2] = ["ServiceMonitor", "Certificate"];

/// The values of the chart's variants: none, and those of its folder `ci`.
fn variants() -> Vec<Vec<String>> {
    let folder = Path::new(DEPLOY).join("helm/frs/ci");
    let files = std::fs::read_dir(folder).expect("readable").map(|entry| entry.expect("one"));
    let mut variants: Vec<_> =
        files.map(|file| vec!["--values".to_owned(), file.path().display().to_string()]).collect();
    assert!(variants.len() >= 8, "{variants:?}");
    variants.push(Vec::new());
    variants.sort();
    variants
}

/// Runs helm on the chart. `None` if it is not installed.
fn helm(command: &str, arguments: &[String]) -> Option<Output> {
    let mut helm = Command::new("helm");
    helm.arg(command).args((command == "template").then_some("frs"));
    needs::output(helm.arg(format!("{DEPLOY}/helm/frs")).args(arguments))
}

/// What helm renders of these values.
fn rendered(values: &[String]) -> Option<String> {
    let output = helm("template", values)?;
    assert!(output.status.success(), "{values:?}: {}", text(&output.stderr));
    Some(text(&output.stdout))
}

/// The manifests of YAML, in which those of operators fit their models.
fn read(yaml: &str) -> Option<Vec<Value>> {
    let Some(models) = std::env::var_os("FRS_KUBERNETES_MODELS").map(PathBuf::from) else {
        needs::skip("FRS_KUBERNETES_MODELS is not set: .ci/run installs the models");
        return None;
    };
    let script =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/shipped/kubernetes/manifests.mjs");
    let mut node = Command::new("node");
    node.arg(script).env("FRS_KUBERNETES_MODELS", models);
    node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut node = needs::spawn(&mut node)?;
    node.stdin.take().expect("piped").write_all(yaml.as_bytes()).expect("it reads");
    let output = node.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}\n{yaml}", text(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Checks all manifests of Kubernetes itself by their schemas, in which nothing unknown is allowed.
fn fits_the_schemas(yaml: &str, version: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("rendered.yaml");
    std::fs::write(&file, yaml).expect("written");
    let mut validate = Command::new("kubernetes-validate");
    validate.args(["--strict", "--kubernetes-version", version]).arg(&file);
    let Some(output) = needs::output(&mut validate) else { return };
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}\n{yaml}");
    assert!(said.contains("passed for resource statefulset/") || said.contains("daemonset/"));
    for line in said.lines().filter(|line| line.contains("find schema")) {
        assert!(OF_OPERATORS.iter().any(|kind| line.contains(kind)), "{line}");
    }
}

fn kind<'m>(manifests: &'m [Value], kind: &str) -> Vec<&'m Value> {
    manifests.iter().filter(|manifest| manifest["kind"] == kind).collect()
}

// Shows: kubernetes.
#[test]
fn every_variant_of_the_chart_is_valid_and_its_configuration_passes_the_check() {
    let Some(_) = needs::output(Command::new("openssl").arg("version")) else { return };
    for values in variants() {
        let Some(lint) = helm("lint", &[&["--strict".to_owned()], &values[..]].concat()) else {
            return;
        };
        assert!(lint.status.success(), "{values:?}: {}", text(&lint.stdout));
        let Some(yaml) = rendered(&values) else { return };
        fits_the_schemas(&yaml, "1.37");
        let Some(manifests) = read(&yaml) else { return };
        Pod::of(&manifests).check();
        let config_maps = kind(&manifests, "ConfigMap");
        for (_, secret) in kind(&manifests, "Secret")
            .iter()
            .flat_map(|secret| secret["stringData"].as_object().expect("texts").iter())
        {
            let secret = secret.as_str().expect("text");
            assert!(config_maps.iter().all(|map| !map.to_string().contains(secret)), "{values:?}");
        }
    }
}

/// An older Kubernetes does not know the pause before a pod's end.
// Shows: kubernetes.
#[test]
fn the_chart_fits_the_oldest_version_that_it_names() {
    for values in variants() {
        let of = |version: &str| {
            rendered(&[&values[..], &["--kube-version".to_owned(), version.to_owned()]].concat())
        };
        let Some(yaml) = of("1.25.0") else { return };
        assert!(!yaml.contains("preStop"), "{yaml}");
        fits_the_schemas(&yaml, "1.25");
        assert!(of("1.30.0").expect("helm is there").contains("preStop"));
    }
}

// Shows: kubernetes.
#[test]
fn a_secret_or_an_attribute_that_lacks_is_a_fault_of_the_values() {
    let cases: &[(&[&str], &str)] = &[
        (&["kind=Deployment"], "/kind"),
        (&["replica=2"], "'replica' not allowed"),
        (&["cluster.enabled=true", "cluster.name=a", "cluster.nodes={a:1}"], "/cluster/secret"),
        (&["admin.tokenSecret.name=a"], "/admin/tokenSecret"),
        (&["admin.tokenSecret.name=a", "admin.tokenSecret.value=b"], "/admin/tokenSecret"),
        (&["clients[0].name=a", "clients[0].may=query"], "/clients/0"),
        (&["clients[0].name=a", "clients[0].may=all", "clients[0].cert=CN=a"], "/clients/0/may"),
        (&["tls.enabled=true"], "/tls/secretName"),
        (&["tls.client=wanted"], "/tls/clientCa"),
        (&["rls.enabled=true"], "/rls/domains"),
        (&["ports.http=0"], "/ports/http"),
    ];
    for (settings, fault) in cases {
        let set = settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]);
        let Some(output) = helm("template", &set.collect::<Vec<_>>()) else { return };
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(fault), "{settings:?}: {said}");
    }
}

/// A changed map.xml changes no pod: frs takes it from the ConfigMap while it runs. A changed
/// address does, because only a restart puts it in force.
// Shows: kubernetes.
#[test]
fn pods_restart_for_what_needs_it_alone() {
    let template = |setting: &str| {
        let yaml = rendered(&["--set".to_owned(), setting.to_owned()])?;
        let manifests = read(&yaml)?;
        Some(kind(&manifests, "StatefulSet")[0]["spec"]["template"].clone())
    };
    let Some(before) = template("watch=5s") else { return };
    let after = |setting| template(setting).expect("helm is there");
    let clients = "clients[0].name=a,clients[0].may=metrics,clients[0].cert=CN=a";
    for setting in
        [clients, "map=<map></map>", "log.level=debug", "allow={10.0.0.0/8}", "data.flush=1s"]
    {
        assert_eq!(after(setting), before, "{setting}");
    }
    for setting in [
        "tls.enabled=true,tls.secretName=a",
        "ports.http=7700",
        "log.format=text",
        "addresses={[::]}",
        "resp.enabled=true",
        "srv=<listen>unix:/run/frs/a.sock</listen>",
    ] {
        assert_ne!(after(setting), before, "{setting}");
    }
}

/// The kubelet shows no certificate, and the probes ask a listener that needs none.
// Shows: kubernetes.
#[test]
fn the_probes_ask_where_the_kubelet_is_answered() {
    let (tls, required) = ("tls.enabled=true,tls.secretName=a", "tls.client=required");
    let cases = [
        ("tls.enabled=false", "http", "HTTP"),
        (tls, "http", "HTTPS"),
        (required, "metrics", "HTTP"),
        ("tls.client=required,tls.listeners={resp}", "http", "HTTP"),
        ("tls.client=required,tls.listeners={http,metrics}", "", ""),
        ("tls.client=required,metrics.enabled=false", "", ""),
    ];
    for (setting, port, scheme) in cases {
        let mut set = vec![tls, "tls.clientCa.name=a,tls.clientCa.key=b", setting];
        set.retain(|set| !set.is_empty());
        let set = set.iter().flat_map(|set| ["--set".to_owned(), (*set).to_owned()]);
        let Some(yaml) = rendered(&set.collect::<Vec<_>>()) else { return };
        let Some(manifests) = read(&yaml) else { return };
        let pod = &kind(&manifests, "StatefulSet")[0]["spec"]["template"]["spec"];
        for probe in ["startupProbe", "readinessProbe"] {
            let probe = &pod["containers"][0][probe];
            let http = &probe["httpGet"];
            assert_eq!(http["port"].as_str().unwrap_or_default(), port, "{setting}: {probe}");
            assert_eq!(http["scheme"] == "HTTPS", scheme == "HTTPS", "{setting}: {probe}");
            assert_eq!(probe["exec"].is_object(), port.is_empty(), "{setting}: {probe}");
        }
    }
}

/// What no schema shows: the files as they are mounted let the container's user start, serve whom
/// the values name, and end as process 1 would.
// Shows: kubernetes.
#[test]
fn a_pod_serves_as_its_user_whom_the_values_name() {
    let more = "srv: <listen>unix:/run/frs/data.sock</listen>\nmap: |\n  <map><group name='g' \
        keys='1'/><biz id='1' name='a' key='string'><limit policy='total' max='5'/></biz></map>\n";
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("values.yaml");
    std::fs::write(&file, more).expect("written");
    let files = [Path::new(DEPLOY).join("helm/frs/ci/closed-values.yaml"), file];
    let values = files.map(|file| format!("--values={}", file.display()));
    let Some(yaml) = rendered(&values) else { return };
    let Some(manifests) = read(&yaml) else { return };
    let pod = Pod::of(&manifests);
    let Some(mut frs) = pod.start() else { return };
    let socket = pod.inside("/run/frs/data.sock");
    let ask = |target: &str, token: &str| {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{token}\r\n");
        ask_socket(&socket, &request).map(|answer| answer[9..12].to_owned())
    };
    wait_until("it serves", || ask("/health", "").ok().filter(|status| status == "200"));
    let status = |token| ask("/update?biz=a&key=b", token).expect("an answer");
    assert_eq!(status(""), "401");
    assert_eq!(status("Authorization: Bearer only-for-tests-0123456780\r\n"), "401");
    assert_eq!(status("Authorization: Bearer only-for-tests-0123456789\r\n"), "200");
    let master = Pid::from_raw(frs.child.id() as i32);
    kill(master, Signal::SIGTERM).expect("signalled");
    assert!(frs.child.wait().expect("it ends").success());
}

// Shows: kubernetes.
#[test]
fn the_overlays_are_valid_and_their_configuration_passes_the_check() {
    for overlay in ["kubernetes", "kustomize/base", "kustomize/memory", "kustomize/production"] {
        let mut kubectl = Command::new("kubectl");
        let output = needs::output(kubectl.arg("kustomize").arg(format!("{DEPLOY}/{overlay}")));
        let Some(output) = output else { return };
        assert!(output.status.success(), "{overlay}: {}", text(&output.stderr));
        let yaml = text(&output.stdout);
        fits_the_schemas(&yaml, "1.37");
        let Some(manifests) = read(&yaml) else { return };
        if overlay != "kubernetes" {
            Pod::of(&manifests).check();
        }
    }
}

#[test]
fn the_chart_has_the_version_of_frs() {
    let chart = std::fs::read_to_string(format!("{DEPLOY}/helm/frs/Chart.yaml")).expect("readable");
    let version = env!("CARGO_PKG_VERSION");
    assert!(chart.contains(&format!("\nversion: {version}\n")));
    assert!(chart.contains(&format!("\nappVersion: \"{version}\"\n")));
}
