//! The alert rules and the dashboard in deploy/ query metrics that exist, with labels and values
//! that they have, and promtool accepts every query.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;

use super::queries::{Query, Selector};
use crate::common::address::Reserved;
use crate::common::metrics::{Labels, Scrape, described, promtool};
use crate::common::{Client, Settings, Setup, files, wait_until};

/// Metrics and labels that Prometheus itself adds.
const OF_PROMETHEUS: [&str; 2] = ["up", "ALERTS"];
const LABELS_OF_PROMETHEUS: [&str; 5] = ["job", "instance", "alertname", "alertstate", "severity"];

/// A query with its place, and the labels that texts about its answer name.
struct Asked {
    place: String,
    query: String,
    named: Vec<String>,
}

fn deploy(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(deploy(name)).expect("readable")
}

/// The words between `{{` and `}}` that follow `before`: the label of `{{ $labels.biz }}`, and
/// nothing of `{{ $value }}`.
fn templates(text: &str, before: &str) -> Vec<String> {
    let parts = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    let words = parts.filter_map(|part| part.trim().strip_prefix(before));
    words.map(|word| word.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// The queries of the rules, and the recorded metrics with their labels.
fn rules() -> (Vec<Asked>, BTreeMap<String, Vec<String>>) {
    let text = read("prometheus/frs.rules.yml");
    let documents = Yaml::load_from_str(&text).expect("YAML");
    let (mut asked, mut recorded) = (Vec::new(), BTreeMap::new());
    for group in documents[0]["groups"].as_vec().expect("groups") {
        for rule in group["rules"].as_vec().expect("rules") {
            let of = |name: &str| rule.as_mapping_get(name).and_then(Yaml::as_str);
            let place = of("alert").or(of("record")).expect("a name").to_owned();
            let query = of("expr").expect("a query").to_owned();
            let labels = Query::read(&query).grouped;
            recorded.extend(of("record").map(|name| (name.to_owned(), labels)));
            let mut named = Vec::new();
            if of("alert").is_some() {
                for annotation in ["summary", "description"] {
                    let words = rule["annotations"][annotation].as_str().expect(annotation);
                    assert!(words.len() > 10, "{place}: {annotation}");
                    named.extend(templates(words, "$labels."));
                }
                let severity = rule["labels"]["severity"].as_str().expect("a severity");
                assert!(["warning", "critical"].contains(&severity), "{place}: {severity}");
            }
            asked.push(Asked { place, query, named });
        }
    }
    (asked, recorded)
}

fn dashboard() -> Value {
    serde_json::from_str(&read("grafana/frs.json")).expect("JSON")
}

/// The queries of the dashboard, with values in place of its variables.
fn panels(dashboard: &Value) -> Vec<Asked> {
    let mut asked = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let place = panel["title"].as_str().expect("a title").to_owned();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().expect("a query");
            let query = query.replace("$__rate_interval", "5m").replace("$instance", ".*");
            assert!(!query.contains('$'), "{place}: an unknown variable: {query}");
            let named = templates(target["legendFormat"].as_str().expect("a legend"), "");
            asked.push(Asked { place: place.clone(), query, named });
        }
    }
    asked
}

/// The metrics of two servers with every part that has metrics of its own, under a little traffic.
/// No server has both a cluster and peers.
fn scraped() -> String {
    let cluster =
        "<cluster name=\"c\" secret-file=\"conf/secret\"><node>127.0.0.1:1</node></cluster>";
    let reserved = Reserved::new();
    let peers = format!(
        "<peers name=\"p\" secret-file=\"conf/secret\" listen=\"{}\"><peer>127.0.0.1:1</peer></peers>",
        reserved.address
    );
    scraped_with(cluster) + &scraped_with(&peers)
}

/// The metrics of a server with this element in its srv.xml.
fn scraped_with(element: &str) -> String {
    let reserved = Reserved::new();
    let address = reserved.address;
    let more = format!("<metrics listen=\"{address}\"/><data checkpoint=\"100ms\"/>{element}");
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    files::write_secret(&setup.path("conf/secret"), [7; 32]);
    let server = setup.start();
    let mut client = server.client();
    client.charge("three", "alice", 3);
    for (target, status) in [
        ("/update?biz=three&key=alice", 429),
        ("/query?biz=three&key=alice", 429),
        ("/update?biz=none&key=alice", 400),
        ("/none", 404),
    ] {
        let answer = client.get(target);
        assert_eq!(answer.status, status, "{target} {answer:?}");
    }
    let all = [
        "frs_items_total{biz=\"three\",command=\"update\",verdict=\"limited\"} 1\n",
        // Appears once the keeper has scanned all records.
        "frs_nodes{group=\"default\",state=\"live\"}",
    ];
    wait_until("everything is counted", || {
        let metrics = Client::connect(address).get("/metrics").body;
        all.iter().all(|part| metrics.contains(part)).then_some(metrics)
    })
}

/// The names and labels that queries may use.
struct Known {
    scrape: Scrape,
    described: BTreeMap<String, Labels>,
    recorded: BTreeMap<String, Vec<String>>,
}

impl Known {
    /// The labels of a metric, with their values if known. A metric without a sample has the labels
    /// that the documents describe.
    fn labels(&self, metric: &str, place: &str) -> Labels {
        if OF_PROMETHEUS.contains(&metric) {
            return Labels::new();
        }
        if let Some(labels) = self.recorded.get(metric) {
            return labels.iter().map(|label| (label.clone(), BTreeSet::new())).collect();
        }
        let family = self.scrape.family(metric);
        let family = family.unwrap_or_else(|| panic!("{place}: no metric {metric} is scraped"));
        let scraped = &self.scrape.families[family].labels;
        let described = &self.described[family];
        let names = scraped.as_ref().unwrap_or(described).keys();
        names.map(|name| (name.clone(), described.get(name).cloned().unwrap_or_default())).collect()
    }

    fn check(&self, Asked { place, query, named }: &Asked) {
        let read = Query::read(query);
        assert!(!read.selectors.is_empty(), "{place}: it asks for nothing: {query}");
        let mut all = BTreeSet::new();
        for Selector { metric, matchers } in &read.selectors {
            let labels = self.labels(metric, place);
            for matcher in matchers {
                let label = matcher.label.as_str();
                if LABELS_OF_PROMETHEUS.contains(&label) {
                    continue;
                }
                let values = labels.get(label);
                let values = values.unwrap_or_else(|| panic!("{place}: {metric} has no {label}"));
                let is_known = |value: &&String| values.is_empty() || values.contains(*value);
                let unknown = matcher.values.iter().find(|value| !is_known(value));
                assert_eq!(unknown, None, "{place}: {metric}: {label} is one of {values:?}");
            }
            all.extend(labels.into_keys());
            all.extend(metric.ends_with("_bucket").then(|| "le".to_owned()));
        }
        for label in read.grouped.iter().chain(named) {
            let is_known = all.contains(label) || LABELS_OF_PROMETHEUS.contains(&label.as_str());
            assert!(is_known, "{place}: none of its metrics has {label}: {query}");
        }
    }
}

// Shows: alerts.
#[test]
fn rules_and_dashboard_ask_for_metrics_that_exist() {
    let scrape = Scrape::read(&scraped());
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let described = described(&std::fs::read_to_string(page).expect("readable"));
    let (rules, recorded) = rules();
    let known = Known { scrape, described, recorded };
    rules.iter().chain(&panels(&dashboard())).for_each(|asked| known.check(asked));
}

/// An alert, from the rules or the documents.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alert {
    name: String,
    /// The metrics that it queries, with the label values that it names.
    metrics: BTreeSet<String>,
    words: BTreeSet<String>,
    /// The times and figures of its condition.
    figures: BTreeSet<String>,
    lasting: String,
}

/// The alerts of the rules. A recorded metric stands for the query that it records.
fn alerts() -> Vec<Alert> {
    let text = read("prometheus/frs.rules.yml");
    let documents = Yaml::load_from_str(&text).expect("YAML");
    let groups = documents[0]["groups"].as_vec().expect("groups");
    let rules = groups.iter().flat_map(|group| group["rules"].as_vec().expect("rules"));
    let (mut recorded, mut found) = (Vec::new(), Vec::new());
    for rule in rules {
        let of = |name: &str| rule.as_mapping_get(name).and_then(Yaml::as_str);
        let mut query = of("expr").expect("a query").to_owned();
        if let Some(name) = of("record") {
            recorded.push((name.to_owned(), query));
            continue;
        }
        recorded.iter().for_each(|(name, asked)| query = query.replace(name, asked));
        let selectors = Query::read(&query).selectors;
        let matchers = selectors.iter().flat_map(|selector| &selector.matchers);
        let mut figures = figures(&query);
        // The condition `> 0` of a growing metric is not described.
        if query.contains("> 0") {
            figures.remove("0");
        }
        found.push(Alert {
            name: of("alert").expect("a name").to_owned(),
            metrics: selectors.iter().map(|selector| described_as(&selector.metric)).collect(),
            words: matchers.flat_map(|matcher| matcher.values.clone()).collect(),
            figures,
            lasting: of("for").unwrap_or("at once").to_owned(),
        });
    }
    found.sort();
    found
}

/// The name by which a page describes a metric: of a histogram, that of all its parts.
fn described_as(metric: &str) -> String {
    metric.strip_suffix("_bucket").unwrap_or(metric).to_owned()
}

/// The alerts of the table in docs/operations.md.
fn described_alerts() -> Vec<Alert> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).expect("readable");
    let rows = page.lines().filter(|line| line.starts_with("| Frs"));
    let alert = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, condition, lasting, means] = cells[..] else { panic!("{row}") };
        assert!(means.len() > 10, "{row}");
        let (mut metrics, mut words) = (BTreeSet::new(), BTreeSet::new());
        for quoted in condition.split('`').skip(1).step_by(2) {
            let selectors = Query::read(quoted).selectors;
            let [Selector { metric, matchers }] = &selectors[..] else { panic!("{row}") };
            match metric == "up" || metric.starts_with("frs_") {
                true => metrics.insert(metric.clone()),
                false => words.insert(metric.clone()),
            };
            words.extend(matchers.iter().flat_map(|matcher| matcher.values.clone()));
        }
        let (name, lasting) = (name.to_owned(), lasting.to_owned());
        Alert { name, metrics, words, figures: figures(condition), lasting }
    };
    let mut found: Vec<Alert> = rows.map(alert).collect();
    found.sort();
    found
}

/// The numbers in a text, with their units, outside of quotation marks.
fn figures(text: &str) -> BTreeSet<String> {
    let unquoted: String = text.split('"').step_by(2).collect();
    let words = unquoted.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
    let figures = words.filter(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    figures.map(str::to_owned).collect()
}

// Shows: alerts.
#[test]
fn each_alert_is_described_with_its_condition() {
    let (ruled, described) = (alerts(), described_alerts());
    assert!(ruled.len() > 10, "{ruled:?}");
    for (rule, row) in ruled.iter().zip(&described) {
        assert_eq!(rule, row);
    }
    assert_eq!(ruled.len(), described.len());
}

// Shows: alerts.
#[test]
fn alerts_are_raised_when_they_should_be() {
    let dir = deploy("prometheus");
    promtool(&dir, &["check", "rules", "frs.rules.yml"], "");
    promtool(&dir, &["test", "rules", "frs.rules.test.yml"], "");
}

/// The versions of Grafana that accept the dashboard are not tested: Grafana ignores settings that
/// it does not know.
// Shows: alerts.
#[test]
fn the_dashboard_is_whole() {
    let dashboard = dashboard();
    assert_eq!(dashboard["id"], Value::Null, "Grafana gives it one");
    assert!(
        dashboard["schemaVersion"].as_u64().is_some_and(|version| (36..=39).contains(&version))
    );
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let kinds = variables.iter().map(|it| (it["name"].as_str(), it["type"].as_str()));
    let expected = [(Some("datasource"), Some("datasource")), (Some("instance"), Some("query"))];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    let (mut ids, mut cells, mut rows) = (BTreeSet::new(), BTreeSet::new(), 0);
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}: its id is another's");
        let place = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        for (x, y) in (place("x")..place("x") + place("w"))
            .flat_map(|x| (place("y")..place("y") + place("h")).map(move |y| (x, y)))
        {
            assert!(x < 24 && cells.insert((x, y)), "{title}: it lies over another one");
        }
        rows += u32::from(panel["type"] == "row");
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            let query = target["expr"].as_str().expect("a query");
            assert!(query.contains("$instance") || query.contains("ALERTS"), "{title}: {query}");
        }
    }
    assert_eq!(rows, 7);
    // Wraps each query in a recording rule, which promtool checks.
    let rules = panels(&dashboard).into_iter().enumerate().map(|(nth, asked)| {
        let query = serde_json::to_string(&asked.query).expect("text");
        format!("      - record: panel:{nth}\n        expr: {query}\n")
    });
    let rules = rules.collect::<String>();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("queries.yml");
    std::fs::write(&file, format!("groups:\n  - name: frs\n    rules:\n{rules}")).expect("written");
    promtool(dir.path(), &["check", "rules", "queries.yml"], "");
}
