//! frs-load against real servers, whose counts must agree with its own, and against servers that
//! answer wrongly, which it must detect.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::address::Reserved;
use crate::common::{Server, Settings, Setup, needs, text};

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <group name="held" keys="1000"/>
  <group name="roomy" files="1" key-nodes="256" chain="56" node-size="256"/>
  <biz id="1" name="thousand" key="string"><limit policy="total" max="1000"/></biz>
  <biz id="2" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="3" name="all" key="integer" group="roomy">
    <limit policy="interval" interval="1h" max="7" debt="3"/>
    <limit policy="calendar" unit="day" max="9"/>
    <limit policy="sliding-counter" interval="1m" max="8"/>
    <limit policy="token" rate="4/s" burst="9"/>
    <limit policy="sliding" interval="20ms" max="3"/>
    <limit policy="count"/>
  </biz>
  <biz id="4" name="banned" key="ip"><limit policy="interval" interval="1h" max="3" ban="1h"/></biz>
  <biz id="5" name="shadow" key="string" mode="shadow">
    <limit policy="interval" interval="1h" max="3"/>
  </biz>
  <biz id="6" name="off" key="string" mode="off">
    <limit policy="interval" interval="1h" max="3"/>
  </biz>
  <biz id="7" name="listed" key="string">
    <limit policy="interval" interval="1h" max="3"/>
    <allow key="k0"/><deny key="k1"/>
  </biz>
  <biz id="8" name="advised" key="string">
    <limit policy="interval" interval="1h" max="3" on-exceed="captcha"/>
    <limit policy="count"/>
  </biz>
  <biz id="9" name="whole" key="string">
    <limit policy="total" scope="biz" max="50"/>
    <limit policy="token" rate="1/d" burst="2"/>
  </biz>
  <biz id="10" name="three" key="string"><limit policy="interval" interval="1h" max="3"/></biz>
  <biz id="11" name="once" key="string" group="held" once="64" once-for="1h">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="12" name="told" key="string">
    <limit policy="interval" interval="1h" max="1" per-call="true" most="100"/>
  </biz>
  <biz id="13" name="places" key="string" group="held" holds="8" hold-ttl="1h">
    <limit policy="concurrent" max="20"/>
  </biz>
  <biz id="14" name="reserved" key="string" group="held" holds="8" hold-ttl="1h" once="16">
    <limit policy="interval" interval="1h" max="30"/>
  </biz>
</map>
"#;

fn setup() -> Setup {
    Setup::of_map(MAP)
}

/// A setup with a listener of RESP at this address.
fn setup_with_resp(resp: &Reserved) -> Setup {
    let more = format!("<resp listen='{}'/>", resp.address);
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    setup.write_map(MAP);
    setup
}

fn load(url: &str, words: &str) -> Output {
    let mut command = Command::new(crate::common::tools::tool("frs-load"));
    command.arg(url).args(words.split_whitespace()).output().expect("frs-load runs")
}

/// The rows of a successful run: verdicts, errors and statuses with their numbers.
#[track_caller]
fn rows(setup: &Setup, words: &str) -> BTreeMap<String, u64> {
    rows_at(setup.address, words)
}

#[track_caller]
fn rows_at(address: SocketAddr, words: &str) -> BTreeMap<String, u64> {
    let output = load(&format!("http://{address}"), words);
    let summary = text(&output.stdout);
    assert!(output.status.success(), "{words}: {summary}{}", text(&output.stderr));
    let rows = summary.lines().skip(4).filter_map(|line| {
        let columns: Vec<&str> =
            line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
        let number = columns.get(1)?.replace(',', "").parse().ok()?;
        Some((columns[0].to_owned(), number))
    });
    rows.collect()
}

fn expected(rows: &[(&str, u64)]) -> BTreeMap<String, u64> {
    rows.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

#[test]
fn of_a_thousand_uses_it_sees_a_thousand_allowed() {
    let setup = setup();
    let _server = setup.start();
    let words = "--biz thousand --keys 1 --requests 1500 --connections 8 --pipeline 4 --threads 2";
    let found = rows(&setup, words);
    assert_eq!(found, expected(&[("allowed", 1000), ("limited", 500), ("200", 1500)]));
    let found = rows(&setup, "--query --biz thousand --keys 1 --requests 10 --json");
    assert_eq!(found, expected(&[("limited", 10), ("200", 10)]));
}

#[test]
fn the_server_has_counted_what_was_sent() {
    let setup = setup();
    let server = setup.start();
    let words = "--biz plenty --keys 3 --zipf 1 --items 5 --requests 400 --threads 2 --seed 9";
    let found = rows(&setup, words);
    assert_eq!(found, expected(&[("allowed", 2000), ("200", 400)]));
    let mut client = server.client();
    let mut used = |key: &str| -> u64 {
        let answer = client.get(&format!("/query?biz=plenty&key={key}"));
        answer.attribute("used").expect("used").parse().expect("a number")
    };
    let first = [used("k0"), used("k1"), used("k2")];
    assert_eq!(first.iter().sum::<u64>(), 2000);
    assert!(first[0] > first[1] && first[1] > first[2], "Zipf's order: {first:?}");
    // The same keys again, with other numbers of threads and connections.
    rows(&setup, &words.replace("--threads 2", "--threads 1 --connections 3 --pipeline 7"));
    assert_eq!([used("k0"), used("k1"), used("k2")], first.map(|used| 2 * used));
}

#[test]
fn every_policy_and_every_verdict_is_right() {
    let setup = setup();
    let _server = setup.start();
    let run = |words: &str| rows(&setup, &format!("{words} --requests 2000 --zipf 0.5"));
    for format in ["", "--json", "--items 3", "--json --items 3"] {
        let found = run(&format!("--biz all --key-type integer --keys 200 {format}"));
        assert!(found["limited"] > 0, "{found:?}");
        run(&format!("--query --biz all --key-type integer --keys 300 {format}"));
        run(&format!("--query --biz advised --keys 10 {format}"));
        run(&format!("--biz whole --keys 40 {format}"));
    }
    let banned = run("--biz 4 --key-type ip --keys 10");
    assert_eq!(banned, expected(&[("allowed", 30), ("banned", 1970), ("200", 2000)]));
    let shadowed = run("--biz shadow --keys 10");
    assert_eq!(shadowed, expected(&[("allowed", 30), ("shadowed", 1970), ("200", 2000)]));
    assert_eq!(run("--biz off --keys 10"), expected(&[("allowed", 2000), ("200", 2000)]));
    assert_eq!(run("--biz listed --keys 2"), expected(&[("listed", 2000), ("200", 2000)]));
    assert_eq!(run("--biz advised --keys 10"), expected(&[("allowed", 2000), ("200", 2000)]));
}

#[test]
fn over_resp_the_verdicts_are_those_of_http() {
    let resp = Reserved::new();
    let setup = setup_with_resp(&resp);
    let _server = setup.start();
    let run = |words: &str| rows_at(resp.address, &format!("{words} --resp --requests 2000"));
    let words = "--biz thousand --keys 1 --connections 8 --pipeline 4 --threads 2";
    assert_eq!(run(words), expected(&[("allowed", 1000), ("limited", 1000)]));
    let banned = run("--biz 4 --key-type ip --keys 10 --items 2");
    assert_eq!(banned, expected(&[("allowed", 30), ("banned", 3970)]));
    let shadowed = run("--biz shadow --keys 10 --pipeline 3");
    assert_eq!(shadowed, expected(&[("allowed", 30), ("shadowed", 1970)]));
    assert_eq!(run("--biz listed --keys 2 --items 2"), expected(&[("listed", 4000)]));
    assert_eq!(run("--query --biz advised --keys 10"), expected(&[("allowed", 2000)]));
    for items in ["", "--items 3"] {
        let found = run(&format!("--biz all --key-type integer --keys 200 {items}"));
        assert!(found["limited"] > 0, "{found:?}");
    }
    // Each listener refuses the other protocol with a clear error.
    let output = load(&format!("http://{}", resp.address), "--biz thousand --requests 1");
    assert!(text(&output.stderr).contains("this listener speaks RESP"), "{}", text(&output.stderr));
    let output = load(&format!("http://{}", setup.address), "--resp --biz thousand --requests 1");
    assert!(text(&output.stderr).contains("this listener speaks HTTP"), "{}", text(&output.stderr));
}

#[test]
fn what_calls_bring_is_sent_and_checked() {
    let resp = Reserved::new();
    let setup = setup_with_resp(&resp);
    let _server = setup.start();
    let run = |words: &str| rows(&setup, &format!("{words} --requests 1000"));
    for format in ["", "--json", "--items 3", "--query"] {
        let words = format!("--biz told --count 7 --partial {format} --keys");
        let found = run(&format!("{words} 20 --call-max 40"));
        assert!(found["limited"] > 0, "{found:?}");
        run(&format!("{words} 25 --call-rate 50/1h"));
        run(&format!("--biz places --holds 9 --count 5 --keys 5 {format}"));
        run(&format!("--biz reserved --holds 9 --count 5 --keys 20 {format}"));
    }
    assert_eq!(
        run("--biz once --once --keys 7 --threads 2"),
        expected(&[("allowed", 1000), ("200", 1000)])
    );
    let run = |words: &str| rows_at(resp.address, &format!("{words} --resp --requests 1000"));
    run("--biz told --count 7 --partial --call-max 90 --keys 20");
    run("--biz places --holds 9 --count 5 --keys 5");
    assert_eq!(run("--biz once --once --count 3 --keys 300")["allowed"], 1000);
}

/// Each request is sent until it is answered, and each id is charged once.
// Shows: retries.
#[test]
fn a_killed_worker_costs_nothing_if_requests_have_ids() {
    let setup = setup();
    let server = setup.start();
    let words = "--biz once --once --keys 500 --zipf 0 --duration 2s --connections 16 --pipeline 2";
    let found = thread::scope(|scope| {
        let run = scope.spawn(|| rows(&setup, words));
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(300));
            let workers = server.wait_for_workers(2);
            nix::sys::signal::kill(workers[0], nix::sys::signal::Signal::SIGKILL).expect("killed");
        }
        run.join().expect("a right run")
    });
    assert_eq!(found.get("error: closed"), None, "{found:?}");
    let mut client = server.client();
    let used = (0..500).map(|key| {
        let answer = client.get(&format!("/query?biz=once&key=k{key}"));
        answer.attribute("used").expect("used").parse::<u64>().expect("a number")
    });
    assert_eq!(used.sum::<u64>(), found["allowed"], "{found:?}");
}

#[test]
fn an_open_loop_sends_at_its_rate() {
    let setup = setup();
    let _server = setup.start();
    let begun = Instant::now();
    let found = rows(&setup, "--biz plenty --rate 2000 --requests 200 --threads 2");
    assert_eq!(found, expected(&[("allowed", 200), ("200", 200)]));
    assert!(begun.elapsed() >= Duration::from_micros(99_500), "the last one is meant for then");

    // Requests that were delayed beyond the end are reported.
    let words = "--biz plenty --rate 2000 --duration 250ms --connections 2";
    let output = load(&format!("http://{}", setup.address), words);
    let summary = text(&output.stdout);
    let sum = ["requests ", "requests never sent:"].map(|name| number_after(&summary, name));
    assert_eq!(sum[0].expect("sent") + sum[1].unwrap_or(0), 500, "{summary}");
}

/// The arguments that name these servers.
fn urls(setups: &[Setup]) -> String {
    setups.iter().map(|setup| format!(" --url http://{}", setup.address)).collect()
}

/// The uses of a key that each server has counted.
fn used(servers: &[Server<'_>], key: &str) -> Vec<u64> {
    let ask = |server: &Server<'_>| {
        let answer = server.client().get(&format!("/query?biz=plenty&key={key}"));
        answer.attribute("used").expect("used").parse().expect("a number")
    };
    servers.iter().map(ask).collect()
}

// Shows: routing.
#[test]
fn a_routed_key_is_counted_by_one_server_and_another_one_by_all() {
    let setups = [setup(), setup(), setup()];
    let servers = [setups[0].start(), setups[1].start(), setups[2].start()];
    let run = |words: &str| {
        let mut command = Command::new(crate::common::tools::tool("frs-load"));
        let words = format!("{} --biz plenty --keys 40 {words}", urls(&setups));
        let output = command.args(words.split_whitespace()).output().expect("frs-load runs");
        assert!(output.status.success(), "{words}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let words = "--route key --requests 3000 --connections 4 --pipeline 3 --threads 3";
    let summary = run(words);
    let (mut shares, mut all) = ([0; 3], 0);
    for key in 0..40 {
        let counted = used(&servers, &format!("k{key}"));
        assert_eq!(counted.iter().filter(|&&used| used > 0).count(), 1, "k{key}: {counted:?}");
        shares.iter_mut().zip(&counted).for_each(|(share, used)| *share += used);
        all += counted.iter().sum::<u64>();
    }
    assert_eq!(all, 3000);
    for (setup, share) in setups.iter().zip(shares) {
        let shown = number_after(&summary, &format!("http://{}", setup.address));
        assert_eq!(shown, Some(share), "{summary}");
        assert!(share > 0, "{summary}");
    }

    // The same requests again, with another number of threads: every key stays where it was.
    let before: Vec<_> = (0..40).map(|key| used(&servers, &format!("k{key}"))).collect();
    run("--route key --requests 3000 --threads 2 --items 1");
    for (key, before) in before.iter().enumerate() {
        let twice: Vec<u64> = before.iter().map(|used| 2 * used).collect();
        assert_eq!(used(&servers, &format!("k{key}")), twice, "k{key}");
    }

    // Without routing, all servers count the hottest key about equally.
    let before = used(&servers, "k0");
    run("--requests 3000 --threads 3");
    let after = used(&servers, "k0");
    let more: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let mean = more.iter().sum::<u64>() / 3;
    assert!(more.iter().all(|&used| used > mean / 2 && used < mean * 3 / 2), "{more:?}");
}

/// The number on the line that begins with a name.
fn number_after(summary: &str, name: &str) -> Option<u64> {
    let rest = summary.lines().find_map(|line| line.strip_prefix(name))?;
    let word = rest.split_whitespace().next()?.replace([',', ';'], "");
    word.parse().ok()
}

#[test]
fn windows_that_were_asked_for_too_much_are_full() {
    let setup = setup();
    let _server = setup.start();
    let table = setup.path("latencies.csv");
    let words = "--biz three --keys 20 --zipf 0 --requests 2000 --threads 2 --windows --latencies";
    let words = format!("{words} {}", table.display());
    let output = load(&format!("http://{}", setup.address), &words);
    let summary = text(&output.stdout);
    assert!(output.status.success(), "{summary}{}", text(&output.stderr));
    let expected = "windows asked for more than max: 20; admitted 60 of 60: 100.00 %; over 0\n";
    assert!(summary.contains(expected), "{summary}");
    let table = std::fs::read_to_string(table).expect("written");
    let answers = table.lines().skip(1).filter_map(|line| line.split(',').nth(1));
    assert_eq!(answers.filter_map(|count| count.parse::<u64>().ok()).sum::<u64>(), 2000);
}

#[test]
fn a_unix_socket_and_a_drawing() {
    let setup = Setup::new(&Settings {
        more: "<listen>unix:frs.sock</listen>".to_owned(),
        ..Settings::default()
    });
    setup.write_map(MAP);
    let _server = setup.start();
    let (socket, plot) = (setup.path("frs.sock"), setup.path("run.svg"));
    let words = format!("--biz plenty --requests 500 --plot {}", plot.display());
    let output = load(&format!("unix:{}", socket.display()), &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let svg = std::fs::read_to_string(plot).expect("drawn");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

/// The texts of a drawing, each on its own line.
fn texts(svg: &str) -> Vec<String> {
    let text = |part: &str| {
        let (_, rest) = part.split_once('>')?;
        let (text, _) = rest.split_once("</text>")?;
        Some(text.trim().to_owned())
    };
    svg.split("<text").skip(1).filter_map(text).collect()
}

#[test]
fn a_drawing_is_valid_and_has_the_options_and_the_figures_of_the_summary() {
    let setup = setup();
    let _server = setup.start();
    let plot = setup.path("a&b<c>.svg");
    let url = format!("http://{}", setup.address);
    let words = format!("--biz plenty --requests 500 --pipeline 2 --plot {}", plot.display());
    let output = load(&url, &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let svg = std::fs::read_to_string(&plot).expect("drawn");
    let drawn = texts(&svg);
    // The options, split into lines.
    let all = drawn.concat().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
    let options = without_spaces(&format!("options: {url} {words}"));
    assert!(without_spaces(&all).contains(&options), "{drawn:?}");
    let summary = text(&output.stdout);
    let requests = summary.lines().find(|line| line.starts_with("requests ")).expect("a line");
    assert!(without_spaces(&all).contains(&without_spaces(requests)), "{requests}: {drawn:?}");
    let summary = text(&output.stdout);
    let quantiles = summary.lines().find_map(|line| line.strip_prefix("latency µs  "));
    let quantiles = quantiles.expect("quantiles").replace("   ", ", ");
    for name in ["p50 ", "p90 ", "p99 ", "p99.9 ", "max "] {
        assert!(quantiles.contains(name), "{summary}");
    }
    assert!(drawn.contains(&format!("latency in µs: {quantiles}")), "{drawn:?}\n{summary}");
    let begun = drawn[0].split_once(", begun ").expect("a date");
    assert_eq!(begun.0, format!("frs-load {}", env!("CARGO_PKG_VERSION")));
    let begun: jiff::Timestamp = begun.1.parse().expect("a date");
    assert!(drawn[0].ends_with('Z') && begun <= jiff::Timestamp::now(), "{drawn:?}");
    let mut xmllint = Command::new("xmllint");
    let Some(checked) = needs::output(xmllint.args(["--noout", "--nonet"]).arg(&plot)) else {
        return;
    };
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

#[test]
fn a_killed_worker_costs_what_was_on_its_way_and_no_more() {
    let setup = setup();
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    thread::scope(|scope| {
        let run = scope.spawn(|| rows(&setup, "--biz plenty --duration 700ms --connections 16"));
        crate::common::wait_until("it is under way", || {
            let answer = server.client().get("/query?biz=plenty&key=k0");
            answer.attribute("used").filter(|used| *used != "0").map(drop)
        });
        nix::sys::signal::kill(workers[0], nix::sys::signal::Signal::SIGKILL).expect("killed");
        let found = run.join().expect("a right run");
        let lost = found.get("error: closed").copied().unwrap_or(0);
        assert!(lost <= 16, "at most one on each connection: {found:?}");
        assert!(found["allowed"] > lost, "{found:?}");
        assert_eq!(found["allowed"], found["200"], "{found:?}");
    });
}

#[test]
fn exit_statuses() {
    let setup = setup();
    let refused = load(&format!("http://{}", setup.address), "--requests 1");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).starts_with("cannot connect to http://"), "{refused:?}");
    for wrong in ["--connections 0", "--duration 10", "--rate fast", "--nonsense"] {
        assert_eq!(load("http://127.0.0.1:1", wrong).status.code(), Some(2), "{wrong}");
    }
    assert_eq!(load("https://127.0.0.1", "").status.code(), Some(2));
    let _server = setup.start();
    let unknown = load(&format!("http://{}", setup.address), "--biz nope --requests 10");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("unknown-biz"), "{unknown:?}");
}

/// A server that answers the n-th request with the result of `answer(n)`.
fn answering(answer: impl Fn(usize) -> Option<String> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    // This thread ends with the test's process.
    thread::spawn(move || {
        let mut number = 0;
        for stream in listener.incoming() {
            serve(stream.expect("accepted"), &mut number, &answer);
        }
    });
    format!("http://{address}")
}

/// Serves requests without a body, and sends each answer in two packets. Closes if there is no
/// answer.
fn serve(
    mut stream: TcpStream,
    number: &mut usize,
    answer: &impl Fn(usize) -> Option<String>,
) -> Option<()> {
    let mut room = [0; 4096];
    while stream.read(&mut room).is_ok_and(|read| read > 0) {
        *number += 1;
        stream.write_all(answer(*number - 1)?.as_bytes()).ok()?;
    }
    Some(())
}

const ITEM: &str = r#"<item biz="b" key="k0" limited="false" limit="1" used="1" max="5" remaining="4" reset="60000"/>"#;

fn http(status: u16, fields: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Words\r\nContent-Type: application/xml\r\nCache-Control: no-store\r\n\
         {fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// An answer with the fields that match [`ITEM`].
fn ok(body: &str) -> String {
    let fields = "RateLimit-Policy: \"b\";q=5;w=60\r\nRateLimit: \"b\";r=4;t=60\r\n";
    http(200, fields, body)
}

fn good() -> String {
    ok(&format!("<response>{ITEM}</response>\n"))
}

const WORDS: &str = "--biz b --keys 1 --connections 1 --requests 20";

#[test]
fn a_server_that_answers_rightly_passes() {
    let output = load(&answering(|_| Some(good())), WORDS);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn each_wrong_answer_fails_the_run_and_is_shown() {
    let document = format!("<response>{ITEM}</response>\n");
    for (what, wrong) in [
        ("no HTTP", "SPAM\r\n\r\n".to_owned()),
        ("no Content-Length", good().replace("Content-Length", "Content-Size")),
        ("no Cache-Control", good().replace("no-store", "max-age=5")),
        ("RateLimit: ", good().replace("r=4", "r=3")),
        ("Content-Type: text/html", good().replace("application/xml", "text/html")),
        ("status 404, not-found", http(404, "", "<error code=\"not-found\">no</error>")),
        ("status 500", http(500, "", "<error code=\"internal\">no</error>")),
        ("not an answer to biz b, key k0", good().replace("k0", "k1")),
        ("not an answer to biz b, key k0", good().replace("biz=\"b\"", "biz=\"c\"")),
        ("no XML", good().replace("</response>", "</responze>")),
        ("limited has no value", good().replace("limited=\"false\"", "limited=\"maybee\"")),
        ("less than max", good().replace("remaining=\"4\"", "remaining=\"2\"")),
        (
            "allowed, and not charged",
            ok(&document.replace(
                "used=\"1\" max=\"5\" remaining=\"4\" reset=\"60000\"",
                "used=\"0\" max=\"5\" remaining=\"5\" reset=\"0\"",
            )),
        ),
        ("limited, and it fits", ok(&document.replace("false", "true"))),
        ("retry where nothing", ok(&document.replace("reset=", "retry=\"1\" reset="))),
        ("banned, and not limited", ok(&document.replace("/>", " banned=\"true\"/>"))),
        ("more items", ok(&document.replace(ITEM, &format!("{ITEM}{ITEM}")))),
        ("0 items", ok("<response></response>")),
        ("nothing was asked for", good() + &good()),
    ] {
        let shown = wrong.clone();
        let answer = move |number| Some(if number < 5 { good() } else { wrong.clone() });
        let output = load(&answering(answer), WORDS);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        assert!(said.starts_with("wrong answer: ") && said.contains(what), "{what}: {said}");
        let last = shown.trim_end().lines().last().expect("a line");
        assert!(said.contains(last), "{what} is shown: {said}");
        let summary = text(&output.stdout);
        assert!(summary.contains("requests    "), "what was right is told: {summary}");
    }
}

#[test]
fn a_server_that_closes_loses_what_was_asked() {
    let answer = |number| (number % 3 < 2).then(good);
    let output = load(&answering(answer), WORDS);
    let summary = text(&output.stdout);
    assert!(output.status.success(), "{summary}{}", text(&output.stderr));
    let count = |name| number_after(&summary, name);
    assert_eq!(count("allowed"), Some(14), "{summary}");
    assert_eq!(count("error: closed"), Some(6), "{summary}");
    assert_eq!(count("connections made again:"), Some(6), "{summary}");
}

#[test]
fn a_request_with_an_id_is_sent_again_as_it_was() {
    let requests = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (listener, seen) = (TcpListener::bind("127.0.0.1:0").expect("bound"), requests.clone());
    let address = listener.local_addr().expect("bound");
    // This thread ends with the test's process.
    thread::spawn(move || {
        let repeated = ITEM.replace("/>", " repeated=\"true\"/>");
        let repeated = ok(&format!("<response>{repeated}</response>\n"));
        for (nth, stream) in listener.incoming().enumerate() {
            let (mut stream, mut room) = (stream.expect("accepted"), [0; 4096]);
            while let Ok(read @ 1..) = stream.read(&mut room) {
                let request = text(&room[..read]);
                let is_again = seen.lock().expect("not poisoned").contains(&request);
                seen.lock().expect("not poisoned").push(request);
                // Every second connection is closed before its first answer.
                if nth % 2 == 0 {
                    break;
                }
                let answer = if is_again { repeated.clone() } else { good() };
                stream.write_all(answer.as_bytes()).expect("sent");
                if is_again && seen.lock().expect("not poisoned").len() < 30 {
                    break;
                }
            }
        }
    });
    let output = load(&format!("http://{address}"), &format!("{WORDS} --once"));
    let summary = text(&output.stdout);
    assert!(output.status.success(), "{summary}{}", text(&output.stderr));
    let count = |name| number_after(&summary, name);
    assert_eq!((count("allowed"), count("error: closed")), (Some(20), None), "{summary}");
    let again = count("requests sent again:").expect("some");
    let seen = requests.lock().expect("not poisoned");
    let ids: std::collections::BTreeSet<&String> = seen.iter().collect();
    assert!(again >= 10, "{summary}");
    assert_eq!((seen.len() as u64, ids.len()), (20 + again, 20), "{summary}");
    assert!(seen.iter().all(|request| request.contains(" once=\"")), "{seen:?}");
    // What was not sent before cannot be a repeat.
    let repeated = good().replace("reset=\"60000\"", "reset=\"60000\" repeated=\"true\"");
    let repeated = repeated.replace(
        &format!("Content-Length: {}", good().split("\r\n\r\n").nth(1).map_or(0, str::len)),
        &format!("Content-Length: {}", repeated.split("\r\n\r\n").nth(1).map_or(0, str::len)),
    );
    let output = load(&answering(move |_| Some(repeated.clone())), &format!("{WORDS} --once"));
    let said = text(&output.stderr);
    assert!(said.contains("repeated, and was not sent before"), "{said}");
}

#[test]
fn a_server_that_answers_nothing_fails_the_run() {
    let output = load(&answering(|_| None), WORDS);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("no request was answered: 20 items"), "{said}");
}

/// A stall halfway through the requests shows in the median of an open loop. It does not show in a
/// closed loop, which sends nothing meanwhile.
#[test]
fn a_stall_is_seen_by_all_whom_it_would_have_met() {
    let median_us = |words: &str| {
        let stalling = |number| {
            if number == 20 {
                thread::sleep(Duration::from_millis(300));
            }
            Some(good())
        };
        let words = format!("--biz b --keys 1 --connections 1 --requests 200 {words}");
        let output = load(&answering(stalling), &words);
        let summary = text(&output.stdout);
        assert!(output.status.success(), "{summary}{}", text(&output.stderr));
        number_after(&summary, "latency µs  p50 ").expect("a median")
    };
    let (open, closed) = (median_us("--rate 500"), median_us(""));
    assert!(open >= 50_000 && closed < open / 2, "{open} µs, {closed} µs");
}

#[test]
fn states_of_the_server_are_counted_and_are_no_fault() {
    let busy = "<response><item biz=\"b\" key=\"k0\" error=\"busy\"/></response>";
    let overloaded = "<error code=\"overloaded\">later</error>";
    let answer = move |number| {
        Some(match number % 2 {
            0 => http(200, "", busy),
            _ => http(503, "Connection: close\r\nRetry-After: 1\r\n", overloaded),
        })
    };
    let output = load(&answering(answer), WORDS);
    let summary = text(&output.stdout);
    assert!(output.status.success(), "{summary}{}", text(&output.stderr));
    for row in ["error: busy", "error: overloaded", "200", "503"] {
        let line = summary.lines().find(|line| line.starts_with(row)).unwrap_or(row);
        assert!(line.split_whitespace().any(|word| word == "10"), "{row}: {summary}");
    }
}
