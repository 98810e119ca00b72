//! Ids that calls bring: of holds, which are reserved, settled and let go, and of retries. Once by
//! gRPC alone, once by a real Envoy with the shipped configuration of conf/examples/llm-tokens.

use super::Stage;
use super::client::{Client, Descriptor, LIMIT, OK, OVER, Said, ask, descriptor, hits};
use super::envoy::{Envoy, Files, frs_envoy};
use crate::common::{Answer, Server, wait_until};

fn reserve(id: &str, tokens: u64) -> Descriptor {
    hits(descriptor(&[("tokens", "acme"), ("id", id)]), tokens)
}

fn settle(id: &str, tokens: u64) -> Descriptor {
    hits(descriptor(&[("tokens", "acme"), ("id", id), ("settle", "")]), tokens)
}

fn told(said: &Said) -> (i32, u32) {
    (said.code, said.statuses[0].remaining)
}

// Shows: envoy-ids.
#[test]
fn an_estimate_is_reserved_and_settled_by_the_true_cost() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let mut told = |descriptor: Descriptor| told(&client.limit(&ask(vec![descriptor])));
    assert_eq!(told(reserve("1", 800)), (OK, 200));
    assert_eq!(told(reserve("1", 800)), (OK, 200), "a repeat");
    assert_eq!(told(reserve("2", 300)), (OVER, 200));
    assert_eq!(told(settle("1", 500)), (OK, 500));
    assert_eq!(told(settle("1", 500)), (OK, 500), "a repeat");
    assert_eq!(told(reserve("1", 800)), (OK, 500), "a copy that comes late");
    assert_eq!(told(reserve("2", 300)), (OK, 200));
    assert_eq!(told(settle("2", 0)), (OK, 500), "canceled");
    // Ids that are too long are told apart.
    let [one, other] = ["1", "2"].map(|end| "x".repeat(64) + end);
    assert_eq!(told(reserve(&one, 100)), (OK, 400));
    assert_eq!(told(reserve(&other, 100)), (OK, 300));
    assert_eq!(told(settle(&one, 50)), (OK, 350));
}

// Shows: envoy-ids.
#[test]
fn a_cost_without_a_reservation_is_charged_in_full_and_the_log_says_so() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    assert_eq!(told(&client.limit(&ask(vec![settle("1", 1200)]))), (OK, 0));
    assert_eq!(told(&client.limit(&ask(vec![reserve("2", 1)]))), (OVER, 0));
    let log = stage.setup.log();
    assert!(log.contains("costs of unknown holds are charged in full"), "{log}");
}

// Shows: envoy-ids.
#[test]
fn places_are_held_until_they_are_let_go() {
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let mut told = |id: &str, count: u64| {
        let place = hits(descriptor(&[("places", "a"), ("id", id)]), count);
        told(&client.limit(&ask(vec![place])))
    };
    assert_eq!(told("1", 1), (OK, 1));
    assert_eq!(told("1", 1), (OK, 1), "renewed");
    assert_eq!(told("2", 1), (OK, 0));
    assert_eq!(told("3", 1), (OVER, 0));
    assert_eq!(told("1", 0), (OK, 1));
    assert_eq!(told("3", 1), (OK, 0));
    let empty = descriptor(&[("places", "a"), ("id", "")]);
    let reply = client.send(LIMIT, &ask(vec![empty]));
    assert_eq!(reply.grpc, Some(3), "{reply:?}");
    assert!(reply.message.contains("bad-hold"), "{reply:?}");
}

// Shows: envoy-ids.
#[test]
fn a_call_with_an_id_is_charged_once() {
    let tried = |id: &str| hits(descriptor(&[("tried", "acme"), ("id", id)]), 100);
    for attributes in ["", "charge=\"each\""] {
        let stage = Stage::new(attributes);
        let _server = stage.setup.start();
        let mut client = Client::connect(stage.rls.address);
        let mut told = |all: Vec<Descriptor>| told(&client.limit(&ask(all)));
        assert_eq!(told(vec![tried("1")]), (OK, 900));
        assert_eq!(told(vec![tried("1")]), (OK, 900));
        assert_eq!(told(vec![tried("2")]), (OK, 800));
        let other = || hits(descriptor(&[("tried", "other"), ("id", "3")]), 100);
        assert_eq!(told(vec![tried("3"), other()]), (OK, 700), "{attributes}");
        assert_eq!(told(vec![tried("3"), other()]), (OK, 700), "{attributes}");
        assert_eq!(told(vec![other(), tried("3")]), (OK, 900), "{attributes}");
    }
}

/// A request of a tenant to the model.
fn request(envoy: &Envoy, target: &str, more: &str) -> Answer {
    envoy.get_with(target, &format!("x-tenant: acme\r\n{more}"))
}

/// Waits until the tenant has used so much, with so much held.
fn wait_for(server: &Server<'_>, used: &str, held: &str) {
    wait_until(&format!("{used} are used, {held} held"), || {
        let answer = server.client().get("/query?biz=tokens&key=acme&count=0");
        let both = (answer.attribute("used"), answer.attribute("held"));
        (both == (Some(used), Some(held))).then_some(())
    });
}

// Shows: envoy-ids.
#[test]
fn envoy_reserves_the_estimate_and_settles_the_usage() {
    let Some(files) = Files::of("llm-tokens") else { return };
    let server = files.setup.start();
    frs_envoy(&server);
    let envoy = files.envoy(|yaml| yaml);
    // A client cannot choose its id: the same one twice is two requests.
    let chosen = "x-estimate-tokens: 800\r\nx-request-id: 5c0a8a33-1c1b-4f1e-9d5e-3f3f0f6d8a11\r\n";
    for used in ["523", "1046"] {
        let answer = request(&envoy, "/v1/chat?usage=523", chosen);
        assert_eq!(answer.status, 200, "{answer:?}");
        wait_for(&server, used, "0");
    }
    // An answer without a usage stays charged with its estimate.
    assert_eq!(request(&envoy, "/v1/chat", "x-estimate-tokens: 90000\r\n").status, 200);
    wait_for(&server, "91046", "90000");
    // What is refused reserves nothing and settles nothing.
    let refused = request(&envoy, "/v1/chat?usage=7", "x-estimate-tokens: 9000\r\n");
    assert_eq!(refused.status, 429, "{refused:?}");
    let last = request(&envoy, "/v1/chat?usage=12000", "x-estimate-tokens: 8000\r\n");
    assert_eq!(last.status, 200, "{last:?}");
    wait_for(&server, "103046", "90000");
    assert_eq!(request(&envoy, "/v1/chat?usage=1", "x-estimate-tokens: 1\r\n").status, 429);
    // Without a tenant or an estimate there is no answer of the model.
    let arrived = envoy.application.arrivals().len();
    for estimate in ["", "x-estimate-tokens: -1\r\n", "x-estimate-tokens: many\r\n"] {
        assert_eq!(request(&envoy, "/v1/chat?usage=1", estimate).status, 400, "{estimate}");
    }
    assert_eq!(envoy.get_with("/v1/chat", "x-estimate-tokens: 1\r\n").status, 400);
    assert_eq!(envoy.application.arrivals().len(), arrived);
}
