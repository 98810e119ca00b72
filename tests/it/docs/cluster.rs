//! docs/cluster.md promises the same as `frs check` prints for the same limits.

use crate::common::{Settings, Setup, files, text};

const PAGE: &str = include_str!("../../../docs/cluster.md");

/// The cells of the table below a heading, without its head.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("# {heading}\n")).expect(heading);
    let section = section.split("\n#").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = |row: &'static str| row.trim_end_matches(" |").split(" | ").collect();
    rows.skip(2).map(cells).collect()
}

/// The output of `frs check` for a business with this limit, shared by four machines.
fn checked(settings: &str, limit: &str) -> String {
    let cluster = "<cluster name='prod' secret-file='conf/cluster.secret'>\
                   <node>10.0.0.1:6379</node></cluster>";
    let setup = Setup::new(&Settings { more: cluster.to_owned(), ..Settings::default() });
    files::write_secret(&setup.path("conf/cluster.secret"), "5a".repeat(32));
    setup.write_map(&format!(
        "<map><group name='g' files='1' key-nodes='8' node-size='1024' hash='siphash'/>\
         <biz id='1' name='b' key='string' {settings} hosts='4'><limit {limit}/></biz></map>"
    ));
    let checked = setup.frs(&["check"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    text(&checked.stdout)
}

/// The settings of a limit with this policy.
fn limit(policy: &str) -> String {
    let more = match policy {
        "calendar" => "unit='day' max='1000'",
        "token" => "rate='10/s' burst='1000'",
        "total" => "max='1000'",
        "sliding" => "interval='1m' max='100'",
        _ => "interval='1m' max='1000'",
    };
    format!("policy='{policy}' {more}")
}

// Shows: check-promises.
#[test]
fn what_a_lost_machine_takes_with_it_is_what_check_says() {
    let mut policies = Vec::new();
    for row in rows("What a lost machine takes with it") {
        let [named, missing] = row[..] else { panic!("{row:?}") };
        let missing = missing.split(':').next().expect("a text");
        for policy in named.split(", ").map(|policy| policy.trim_matches('`')) {
            let said = checked("share='cluster'", &limit(policy));
            let line = format!("a machine lost: 0 over; missing: its unspent leases, {missing}");
            assert!(said.contains(&line), "{policy}: {line} in\n{said}");
            policies.push(policy);
        }
    }
    let all = ["interval", "calendar", "sliding", "sliding-counter", "token", "total"];
    assert_eq!(policies, all);
}

// Shows: check-promises.
#[test]
fn what_a_machine_without_the_cluster_allows_itself_is_what_check_says() {
    let rows = rows("When the cluster cannot be reached");
    assert_eq!(rows.len(), 3);
    for (row, (word, page, check)) in rows.iter().zip([
        ("refuse", "| nothing | 0", "refused once its leases are used up; 0 over"),
        ("share", "at most k × `max` / `hosts`", "over by at most k × 250 for k machines"),
        ("local", "at most k × `max`", "over by at most k × 1,000 for k machines"),
    ]) {
        assert_eq!(row[0], format!("`{word}`"));
        assert!(format!("| {}", row[1..].join(" | ")).ends_with(page), "{row:?}");
        let said = checked(&format!("share='cluster' on-down='{word}'"), &limit("interval"));
        assert!(said.contains(check), "{word}: {said}");
    }
}

// Shows: check-promises.
#[test]
fn what_becomes_of_an_item_without_a_lease_is_what_check_says() {
    let rows = rows("When no lease comes in time");
    assert_eq!(rows.len(), 3);
    for (row, (word, check)) in rows.iter().zip([
        ("refuse", "refused, 0 over"),
        ("busy", "answered busy, 0 over"),
        ("admit", "over by at most 125 a machine and window, then refused"),
    ]) {
        assert_eq!(row[0], format!("`{word}`"));
        let over = if word == "admit" { "at most the largest lease" } else { "0" };
        assert!(row[2].starts_with(over), "{row:?}");
        let said = checked(&format!("share='cluster' on-miss='{word}'"), &limit("interval"));
        assert!(said.contains("no lease within 20 ms: "), "{said}");
        assert!(said.contains(check), "{word}: {said}");
    }
}
