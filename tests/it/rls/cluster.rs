//! frs-envoy over limits that several machines share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::hosts::{SECRET, settings};
use crate::cluster::nodes::{MASTERS, NodeOptions, Nodes};
use crate::common::address::Reserved;
use crate::common::{Client as HttpClient, Settings, Setup, files, tools, wait_until};

use super::client::{
    Client, Descriptor, LIMIT, OK, Reply, Said, ask, descriptor, exchange, framed, hits, post,
};

const MAX: u64 = 60;
const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="1024"/>
  <biz id="1" name="shared" key="string" share="exact" hosts="2" wait="1000ms" on-down="refuse">
    <limit policy="total" max="60"/></biz>
  <biz id="2" name="local" key="string"><limit policy="total" max="1000"/></biz>
</map>"#;

const DOMAINS: &str = r#"<domain name="edge">
  <descriptor entries="shared" biz="shared" key="{shared}"/>
  <descriptor entries="local" biz="local" key="{local}"/>
</domain>"#;

/// The timeout is longer than an item may wait, so no courier gives the cluster up before.
const CLUSTER: &str = "timeout=\"1500ms\" learn=\"1s\"";

/// A machine with frs-envoy, over three masters.
struct Host {
    setup: Setup,
    rls: Reserved,
}

/// Three masters that are not considered failed while they stand still.
fn nodes() -> Option<Nodes> {
    let arguments = vec!["--cluster-node-timeout".to_owned(), "60000".to_owned()];
    Nodes::masters_alone_with(NodeOptions { arguments, ..NodeOptions::default() })
}

fn host(nodes: &Nodes) -> Host {
    tools::tool("frs-envoy");
    let host = Host { setup: Setup::of_map(MAP), rls: Reserved::new() };
    files::write_secret(&host.setup.path("conf/cluster.secret"), SECRET);
    let rls = format!("<rls listen=\"{}\">{DOMAINS}</rls>", host.rls.address);
    let settings = settings(&nodes.seeds(), CLUSTER);
    host.setup.write_srv(&Settings { more: settings.more.clone() + &rls, ..settings });
    host
}

fn shared(key: &str) -> Descriptor {
    descriptor(&[("shared", key)])
}

fn local(key: &str) -> Descriptor {
    descriptor(&[("local", key)])
}

/// Calls until the cluster gives a lease.
fn wait_for_the_cluster(client: &mut Client) {
    wait_until("the cluster serves", || {
        let reply = client.send(LIMIT, &ask(vec![shared("first")]));
        (reply.grpc == Some(0) && reply.read::<Said>().code == OK).then_some(())
    });
}

// Shows: envoy-waits.
#[test]
fn machines_admit_exactly_the_maximum_by_envoy_and_by_http() {
    let Some(nodes) = nodes() else { return };
    let (one, other) = (host(&nodes), host(&nodes));
    let servers = [one.setup.start(), other.setup.start()];
    let mut clients = [&one, &other].map(|host| Client::connect(host.rls.address));
    clients.iter_mut().for_each(wait_for_the_cluster);
    let [client, _] = clients;
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut http = HttpClient::connect(other.setup.address);
            for _ in 0..2 * MAX {
                let answer = http.get("/update?biz=shared&key=k");
                admitted.fetch_add(u64::from(answer.status == 200), Ordering::Relaxed);
            }
        });
        // As many calls as may wait together, alone and with another limit.
        let replies: Vec<Reply> = client.runtime.block_on(async {
            let call = |nth: u64| {
                let key = format!("l{nth}");
                let both = if nth.is_multiple_of(2) { vec![] } else { vec![local(&key)] };
                let body = framed(&ask([vec![shared("k")], both].concat()));
                tokio::spawn(exchange(client.sender.clone(), post(LIMIT), body))
            };
            let calls: Vec<_> = (0..2 * MAX).map(call).collect();
            let mut replies = Vec::new();
            for call in calls {
                replies.push(call.await.expect("no panic").expect("answered"));
            }
            replies
        });
        let is_ok = |reply: &&Reply| reply.grpc == Some(0) && reply.read::<Said>().code == OK;
        let ok = replies.iter().filter(is_ok).count();
        admitted.fetch_add(ok as u64, Ordering::Relaxed);
    });
    let mut rest = Client::connect(one.rls.address);
    let mut http = HttpClient::connect(other.setup.address);
    let mut admit = || {
        let reply = rest.send(LIMIT, &ask(vec![shared("k")]));
        let is_admitted = reply.grpc == Some(0) && reply.read::<Said>().code == OK;
        u64::from(is_admitted) + u64::from(http.get("/update?biz=shared&key=k").status == 200)
    };
    // A machine may hold a use for which the other machine was refused.
    wait_until("all uses are admitted", || {
        let admitted = admitted.fetch_add(admit(), Ordering::Relaxed);
        (admitted >= MAX).then_some(())
    });
    let more: u64 = (0..20).map(|_| admit()).sum();
    assert_eq!(admitted.into_inner() + more, MAX);
    // All calls have waited in one slot.
    assert_eq!(servers[0].attached("envoy").len(), 1);
}

// Shows: envoy-waits.
#[test]
fn while_the_cluster_stands_still_other_limits_are_judged_and_nobody_who_has_gone_is_charged() {
    let Some(nodes) = nodes() else { return };
    let host = host(&nodes);
    let _server = host.setup.start();
    let mut client = Client::connect(host.rls.address);
    wait_for_the_cluster(&mut client);
    (0..MASTERS).for_each(|node| nodes.stop(node));
    let calls = Arc::new(AtomicU64::new(0));
    let (took, answered) = client.runtime.block_on(async {
        let sender = client.sender.clone();
        let call = |descriptors: Vec<Descriptor>| {
            let (sender, calls) = (sender.clone(), Arc::clone(&calls));
            tokio::spawn(async move {
                let reply = exchange(sender, post(LIMIT), framed(&ask(descriptors))).await;
                calls.fetch_add(1, Ordering::Relaxed);
                reply
            })
        };
        // More calls, one after the other, than threads that wait.
        let mut waiting = Vec::new();
        for nth in 0..20 {
            waiting.push(call(vec![shared(&format!("w{nth}"))]));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let gone = call(vec![shared("gone"), local("gone")]);
        tokio::time::sleep(Duration::from_millis(50)).await;
        gone.abort();
        let begun = Instant::now();
        for nth in 0..5 {
            let said: Said =
                call(vec![local("here")]).await.expect("no panic").expect("answered").read();
            assert_eq!((said.code, said.statuses[0].remaining), (OK, 999 - nth));
        }
        let took = begun.elapsed();
        let before = calls.load(Ordering::Relaxed);
        assert!(before < 25, "{before} were answered: the cluster did not stand still");
        (0..MASTERS).for_each(|node| nodes.go_on(node));
        let mut answered = Vec::new();
        for call in waiting {
            answered.push(call.await.expect("no panic").expect("answered"));
        }
        (took, answered)
    });
    assert!(took < Duration::from_millis(1_000), "{took:?}");
    // Calls that waited too long are refused, or unavailable.
    assert!(answered.iter().all(|reply| matches!(reply.grpc, Some(0 | 14))), "{answered:?}");
    let said = client.limit(&ask(vec![hits(local("gone"), 0)]));
    assert_eq!(said.statuses[0].remaining, 1000);
}
