//! Limits that Envoy sends with a descriptor: taken where the business takes the numbers of a call,
//! ignored elsewhere.

use super::Stage;
use super::client::{Client, Descriptor, OK, OVER, Override, ask, descriptor, hits};
use super::envoy::{Files, field, frs_envoy};

const HOUR: i32 = 3;
const WEEK: i32 = 7;

fn with(descriptor: Descriptor, requests: u32, unit: i32) -> Descriptor {
    Descriptor { limit: Some(Override { requests, unit }), ..descriptor }
}

// Shows: envoy-override.
#[test]
fn a_limit_of_the_call_judges_what_was_used() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let own = || descriptor(&[("own", "a")]);
    let mut told = |descriptor: Descriptor| {
        let said = client.limit(&ask(vec![descriptor]));
        let max = said.statuses[0].limit.as_ref().map(|limit| limit.requests);
        (said.code, max, said.statuses[0].remaining)
    };
    assert_eq!(told(hits(with(own(), 9, HOUR), 4)), (OK, Some(9), 5));
    assert_eq!(told(own()), (OVER, Some(3), 0), "that of map.xml");
    assert_eq!(told(with(own(), 4, HOUR)), (OVER, Some(4), 0));
    assert_eq!(told(with(own(), 5, HOUR)), (OK, Some(5), 0));
    // Beyond `most`, and a week beyond `max-period`: ignored, and no error.
    assert_eq!(told(with(own(), 51, HOUR)), (OVER, Some(3), 0));
    assert_eq!(told(with(own(), 9, WEEK)), (OVER, Some(3), 0));
    assert_eq!(told(with(descriptor(&[("two", "a")]), 9, HOUR)), (OK, Some(2), 1));
    let log = stage.setup.log();
    assert!(log.contains("Envoy sends limits that are ignored"), "{log}");
}

/// The limit of a route, and the filter that sets it.
const LIMIT: &str = r#"
                    limit:
                      dynamic_metadata:
                        metadata_key: { key: frs.limits, path: [{ key: login }] }"#;
const METADATA: &str = r#"
          - name: envoy.filters.http.set_metadata
            typed_config:
              "@type": "type.googleapis.com/\
                envoy.extensions.filters.http.set_metadata.v3.Config"
              metadata:
              - metadata_namespace: frs.limits
                value: { login: { requests_per_unit: 7, unit: HOUR } }"#;

/// Adds a limit to the route of logins, by metadata.
fn limiting(yaml: &str) -> String {
    let action = "- request_headers: { header_name: \":path\", descriptor_key: path }";
    let filters = "http_filters:";
    assert!(yaml.contains(action) && yaml.contains(filters), "{yaml}");
    let limited = yaml.replace(action, &format!("{action}{LIMIT}"));
    limited.replace(filters, &format!("{filters}{METADATA}"))
}

// Shows: envoy-override.
#[test]
fn a_limit_in_the_metadata_of_envoy_is_that_of_the_call() {
    let Some(files) = Files::of("gateways/rls") else { return };
    let map = files.setup.path("conf/map.xml");
    let text = std::fs::read_to_string(&map).expect("written");
    let login = "interval=\"1m\" max=\"5\"";
    assert!(text.contains(login), "{text}");
    files.setup.write_map(&text.replace(login, &format!("{login} per-call=\"true\" most=\"100\"")));
    let server = files.setup.start();
    frs_envoy(&server);
    let envoy = files.envoy(|yaml| limiting(&yaml));
    for left in (0..7).rev() {
        let answer = envoy.get("/login");
        assert_eq!(answer.status, 200, "{answer:?}");
        let limit = field(&answer, "RateLimit").expect("told");
        assert!(limit.starts_with(&format!("\"login\";r={left};t=")), "{limit}");
        assert_eq!(field(&answer, "RateLimit-Policy"), Some("\"login\";q=7;w=3600"));
    }
    assert_eq!(envoy.get("/login").status, 429);
}
