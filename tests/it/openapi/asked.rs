//! schemathesis asks a server for everything in docs/openapi.yaml: the examples, the bounds of each
//! value, and right and wrong values from a fixed seed. hooks.py and schemathesis.toml define the
//! checks.
//!
//! Each plane is asked on a server of its own in a directory of its own. No path stops a server.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::document;
use crate::common::needs;
use crate::common::plane::{Plane, TOKEN};

/// The businesses in the examples of docs/openapi.yaml, and others, so that every member of an
/// answer occurs.
pub const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="256" chain="56" node-size="320" key-bytes="24"/>
  <biz id="1001" name="login" key="string">
    <limit policy="interval" interval="60s" max="5" ban="10m"/>
  </biz>
  <biz id="1002" name="sms" key="integer">
    <limit policy="sliding" interval="1m" max="15"/>
    <limit policy="sliding" interval="24h" max="50"/>
  </biz>
  <biz id="1003" name="seckill" key="string">
    <limit policy="total" scope="biz" max="10000"/>
    <limit policy="calendar" unit="day" tz="Asia/Shanghai" max="3"/>
  </biz>
  <biz id="1004" name="captcha" key="string">
    <limit policy="interval" interval="1m" max="5" on-exceed="captcha">
      <weight at="1" value="0.5"/>
    </limit>
  </biz>
  <biz id="1005" name="api" key="ip" ipv6-prefix="64">
    <limit policy="token" rate="10/s" burst="20"/>
  </biz>
  <biz id="1006" name="calls" key="string">
    <limit policy="gcra" rate="30/m" burst="16" per-call="true" max-period="1d"/>
  </biz>
  <biz id="1007" name="tried" key="string" mode="shadow">
    <limit policy="sliding-counter" interval="1h" max="1"/>
  </biz>
  <biz id="1008" name="listed" key="string">
    <limit policy="count"/>
    <limit policy="total" max="1000"/>
    <allow key="allow*"/>
    <deny key="den*"/>
    <override key="over" limit="2" max="5"/>
  </biz>
  <biz id="1009" name="figures" key="integer">
    <limit policy="gcra" rate="30/m" burst="16" per-call="true"/>
  </biz>
  <biz id="1010" name="reserved" key="string" once="4" holds="4">
    <limit policy="interval" interval="1h" max="10"/>
  </biz>
</map>
"#;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/openapi");

/// Asks a plane for every path with its tag.
#[track_caller]
fn ask(dir: &Path, address: SocketAddr, tag: &str) {
    let mut schemathesis = Command::new("schemathesis");
    schemathesis
        .current_dir(dir)
        .env("PYTHONPATH", HERE)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("FRS_TOKEN", TOKEN)
        .arg("--config-file")
        .arg(Path::new(HERE).join("schemathesis.toml"))
        .args(["run", document::PATH, "--include-tag", tag])
        // On a busy machine it takes long to make up requests.
        .arg("--suppress-health-check=too_slow")
        .args(["--url", &format!("http://{address}")]);
    let Some(output) = needs::output(&mut schemathesis) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for phase in ["Examples", "Coverage", "Fuzzing"] {
        assert!(said.contains(&format!("✅ {phase}")), "{said}");
    }
}

// Shows: openapi.
#[test]
fn the_document_is_valid() {
    let mut validator = Command::new("openapi-spec-validator");
    if let Some(output) = needs::output(validator.arg(document::PATH)) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

// Shows: openapi.
#[test]
fn the_data_plane_answers_as_the_document_says() {
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    ask(plane.setup.path("").as_path(), plane.setup.address, "data plane");
    assert_eq!(server.client().get("/health").status, 200);
}

// Shows: openapi.
#[test]
fn the_admin_plane_answers_as_the_document_says() {
    let plane = Plane::new(1);
    plane.setup.write_map(MAP);
    let server = plane.start(1);
    // The records that the examples name.
    for (biz, key) in [("login", "alice"), ("seckill", "alice"), ("sms", "1"), ("api", "::1")] {
        let answer = server.client().get(&format!("/update?biz={biz}&key={key}"));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    ask(plane.setup.path("").as_path(), plane.address, "admin plane");
    assert_eq!(plane.get("/health").status, 200);
}
