//! The matrix of rights: each right, credential, face, form and business. The expected outcome
//! comes from the table below, which was written from the documents and shares no code with the
//! server.

use redis::{Connection, cmd};

use super::{Served, ask, bearer, connect, token, word};
use crate::common::plane::ask_socket;
use crate::common::{Answer, Client};

/// The rights, as srv.xml names them.
const RIGHTS: [&str; 9] = [
    "query",
    "update",
    "give-back",
    "force",
    "hold",
    "registers",
    "metrics",
    "admin-read",
    "admin",
];
const BIZS: [&str; 3] = ["order", "order-line", "login"];

/// What somebody may do.
#[derive(Clone, Debug)]
struct May {
    rights: Vec<&'static str>,
    bizs: &'static str,
    /// Whether nothing was shown, so that a refusal asks for a token.
    is_bare: bool,
}

impl May {
    fn has(&self, all: &[&str]) -> bool {
        all.iter().all(|right| self.rights.contains(right))
    }

    fn has_one(&self, any: &[&str]) -> bool {
        any.iter().any(|right| self.rights.contains(right))
    }

    fn names(&self, biz: &str) -> bool {
        match self.bizs {
            "*" => true,
            "order*" => biz.starts_with("order"),
            "order" => biz == "order",
            _ => false,
        }
    }

    /// Whether it may do all of this with a business.
    fn may(&self, all: &[&str], biz: &str) -> bool {
        self.has(all) && self.names(biz)
    }

    /// The status of a request that is refused for lack of a right.
    fn refused(&self) -> u16 {
        if self.is_bare { 401 } else { 403 }
    }

    fn status(&self, may: bool) -> u16 {
        if may { 200 } else { self.refused() }
    }

    /// Whether it may ask about businesses at all.
    fn asks(&self) -> bool {
        self.has_one(&["query", "update", "give-back", "force", "hold", "registers"])
    }
}

/// What items do: the attributes in XML, and the rights that they need.
const ITEMS: [(&str, &[&str]); 7] = [
    ("count='1'", &["update"]),
    ("", &["update"]),
    ("count='0'", &["query"]),
    ("count='-1'", &["update", "give-back"]),
    ("count='1' force='true'", &["update", "force"]),
    ("hold='HOLD' count='2'", &["hold"]),
    ("hold='unknown-HOLD' count='1' settle='true'", &["hold", "force", "unknown"]),
];

/// One client of each right alone, with what goes with it, and some sets of rights.
fn sets() -> Vec<Vec<&'static str>> {
    let mut sets: Vec<Vec<&str>> = RIGHTS
        .iter()
        .map(|&right| match right {
            "give-back" | "force" => vec!["update", right],
            _ => vec![right],
        })
        .collect();
    sets.push(vec!["query", "update"]);
    sets.push(vec!["update", "force", "hold"]);
    sets.push(RIGHTS.to_vec());
    sets
}

const PATTERNS: [&str; 3] = ["*", "order*", "order"];

struct Asked {
    http: Client,
    admin: Client,
    metrics: Client,
    redis: Connection,
}

// Shows: rights.
#[test]
fn each_right_opens_what_it_says_and_nothing_else() {
    let mut clients = String::new();
    let mut all: Vec<(String, May)> = Vec::new();
    for (nth, rights) in sets().into_iter().enumerate() {
        for (at, bizs) in PATTERNS.into_iter().enumerate() {
            let name = format!("c{nth}-{at}");
            let may = rights.join(" ");
            clients += &format!(
                "<client name='{name}' token-file='conf/{name}' may='{may}' biz='{bizs}'/>"
            );
            all.push((name, May { rights: rights.clone(), bizs, is_bare: false }));
        }
    }
    let bare = May { rights: vec!["query"], bizs: "order", is_bare: true };
    clients += "<anonymous may='query' unix='query update' biz='order'/>";
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let served = Served::new(&format!("<clients>{clients}</clients>"), &names);
    let _server = served.start();
    let mut asked = Asked {
        http: connect(served.setup.address),
        admin: connect(served.admin.address),
        metrics: connect(served.metrics.address),
        redis: served.redis(),
    };
    let everything = May { rights: RIGHTS.to_vec(), bizs: "*", is_bare: false };
    let reader = May { rights: vec!["admin-read"], bizs: "*", is_bare: false };
    let given = all.iter().map(|(name, may)| (Some(name.as_str()), may));
    let admins = [(Some("root"), &everything), (Some("reader"), &reader), (None, &bare)];
    for (nth, (name, may)) in given.chain(admins).enumerate() {
        let shown = name.map(token);
        http(&mut asked.http, shown.as_deref(), may, nth);
        gateway(&mut asked.http, shown.as_deref(), may);
        planes(&mut asked, shown.as_deref(), may);
        let own_name = match name {
            Some("root" | "reader") => Some("admin"),
            name => name,
        };
        resp(&mut asked.redis, own_name.zip(shown.as_deref()), may, nth);
    }
    unix(&served);
}

/// Every form of a request for items.
fn http(client: &mut Client, shown: Option<&str>, may: &May, nth: usize) {
    let fields = bearer(shown);
    let told = |answer: &Answer, what: &str| {
        format!("{what} by {may:?}: {} {}", answer.status, answer.body)
    };
    for biz in BIZS {
        for (at, (attributes, rights)) in ITEMS.into_iter().enumerate() {
            let unknown = rights.contains(&"unknown");
            let needed: Vec<&str> =
                rights.iter().copied().filter(|right| *right != "unknown").collect();
            let fits = may.may(&needed, biz);
            let attributes = attributes.replace("HOLD", &format!("h{nth}-{at}"));
            let item = format!("<item biz='{biz}' key='k{nth}' {attributes}/>");
            let body = format!("<request>{item}</request>");
            let answer = ask(client, "POST", "/update", &fields, &body);
            assert_eq!(answer.status, may.status(fits), "{}", told(&answer, &item));
            let is_forbidden = answer.body.contains("error=\"forbidden\"");
            assert_eq!(is_forbidden, !fits && may.asks(), "{}", told(&answer, &item));
            if answer.status == 401 {
                assert!(answer.head.contains("\r\nWWW-Authenticate: Bearer\r\n"), "{answer:?}");
            }
            if unknown {
                assert_eq!(answer.body.contains("unknown-hold"), fits, "{}", told(&answer, &item));
            }
        }
        let query =
            format!("<request><item biz='{biz}' key='k' force='true' count='-1'/></request>");
        let answer = ask(client, "POST", "/query", &fields, &query);
        assert_eq!(
            answer.status,
            may.status(may.may(&["query"], biz)),
            "{}",
            told(&answer, &query)
        );
        for (count, rights) in
            [(0, vec!["query"]), (1, vec!["update"]), (-1, vec!["update", "give-back"])]
        {
            let json =
                format!("{{\"items\":[{{\"biz\":\"{biz}\",\"key\":\"j\",\"count\":{count}}}]}}");
            let fields = format!("{fields}Content-Type: application/json\r\n");
            let answer = ask(client, "POST", "/update", &fields, &json);
            assert_eq!(
                answer.status,
                may.status(may.may(&rights, biz)),
                "{}",
                told(&answer, &json)
            );
            let target = format!("/update?biz={biz}&key=g&count={count}");
            let answer = ask(client, "GET", &target, &bearer(shown), "");
            assert_eq!(
                answer.status,
                may.status(may.may(&rights, biz)),
                "{}",
                told(&answer, &target)
            );
        }
        let target = format!("/query?biz={biz}&key=g");
        let answer = ask(client, "GET", &target, &fields, "");
        assert_eq!(
            answer.status,
            may.status(may.may(&["query"], biz)),
            "{}",
            told(&answer, &target)
        );
    }
    // A business that is not there is told only to whoever may name it.
    let answer = ask(client, "GET", "/query?biz=nothing&key=g", &fields, "");
    let expected = if may.may(&["query"], "nothing") { 400 } else { may.refused() };
    assert_eq!(answer.status, expected, "{}", told(&answer, "an unknown biz"));
    // Of several items those that may run do.
    let body = "<request><item biz='order' key='m'/><item biz='login' key='m'/></request>";
    let answer = ask(client, "POST", "/update", &fields, body);
    let served = ["order", "login"].map(|biz| may.may(&["update"], biz));
    let expected = may.status(served.contains(&true));
    assert_eq!(answer.status, expected, "{}", told(&answer, "two items"));
    if may.asks() {
        let forbidden = answer.body.matches("forbidden").count();
        let lacking = served.iter().filter(|is_served| !**is_served).count();
        assert_eq!(forbidden, lacking, "{}", told(&answer, "two items"));
    }
    let answer = ask(client, "GET", "/health", &bearer(Some("a-wrong-token-of-24-bytes")), "");
    assert_eq!(answer.status, 200, "/health needs nothing");
}

/// /authz: the field Authorization is of the client of the gateway.
fn gateway(client: &mut Client, shown: Option<&str>, may: &May) {
    let of_user = "Authorization: Bearer the-token-of-an-unknown-user\r\n";
    let own = shown.map_or(String::new(), |token| format!("FRS-Token: {token}\r\n"));
    for biz in BIZS {
        let answer = ask(client, "GET", &format!("/authz/{biz}"), &(own.clone() + of_user), "");
        let expected = may.status(may.may(&["update"], biz));
        assert_eq!(answer.status, expected, "/authz/{biz} by {may:?}: {answer:?}");
    }
}

/// The admin plane, and a listener of metrics.
fn planes(asked: &mut Asked, shown: Option<&str>, may: &May) {
    let fields = bearer(shown);
    let reads = ["admin-read", "admin"];
    let scrapes = ["metrics", "admin-read", "admin"];
    for (method, target, needed) in [
        ("GET", "/health", &[][..]),
        ("GET", "/metrics", &scrapes),
        ("GET", "/stats", &reads),
        ("GET", "/biz", &reads),
        ("GET", "/changes", &reads),
        ("POST", "/degrade?on=false", &["admin"]),
    ] {
        let answer = ask(&mut asked.admin, method, target, &fields, "");
        let expected = may.status(needed.is_empty() || may.has_one(needed));
        assert_eq!(answer.status, expected, "{method} {target} by {may:?}: {answer:?}");
    }
    for (target, needed) in [("/health", &[][..]), ("/metrics", &scrapes)] {
        let answer = ask(&mut asked.metrics, "GET", target, &fields, "");
        let expected = may.status(needed.is_empty() || may.has_one(needed));
        assert_eq!(answer.status, expected, "metrics {target} by {may:?}: {}", answer.status);
    }
}

/// Commands over items and over registers.
fn resp(redis: &mut Connection, shown: Option<(&str, &str)>, may: &May, nth: usize) {
    let mut send = |command: &str| -> String {
        let mut words = command.split(' ');
        let mut asked = cmd(words.next().expect("a command"));
        words.for_each(|word| {
            asked.arg(word);
        });
        word(asked.query(redis))
    };
    assert_eq!(send("RESET"), "OK");
    let lacking = if may.is_bare { "NOAUTH" } else { "NOPERM" };
    if let Some((name, token)) = shown {
        assert_eq!(send(&format!("AUTH {name} {token}")), "OK", "{may:?}");
    }
    for biz in BIZS {
        let key = format!("r{nth}");
        for (command, rights) in [
            (format!("FRS.QUERY {biz} {key}"), vec!["query"]),
            (format!("FRS.UPDATE {biz} {key}"), vec!["update"]),
            (format!("FRS.UPDATE {biz} {key} COUNT 0"), vec!["query"]),
            (format!("FRS.UPDATE {biz} {key} COUNT -1"), vec!["update", "give-back"]),
            (format!("FRS.UPDATE {biz} {key} FORCE"), vec!["update", "force"]),
            (format!("FRS.UPDATE {biz} {key} HOLD r{nth}"), vec!["hold"]),
        ] {
            let expected = if may.may(&rights, biz) { "OK" } else { lacking };
            assert_eq!(send(&command), expected, "{command} by {may:?}");
        }
    }
    let may_use = may.may(&["registers"], "redis");
    for command in ["INCR a", "GET a", "SET a 1", "DBSIZE", "SCAN 0"] {
        assert_eq!(send(command), if may_use { "OK" } else { lacking }, "{command} by {may:?}");
    }
    assert_eq!(send("PING"), "OK");
    assert_eq!(send("MULTI"), "OK");
    assert_eq!(send("INCR a"), if may_use { "OK" } else { lacking });
    assert_eq!(send("EXEC"), if may_use { "OK" } else { "EXECABORT" }, "{may:?}");
    assert_eq!(send("RESET"), "OK");
}

/// A unix socket, whose bare callers may do what `unix` says.
fn unix(served: &Served) {
    let path = served.setup.path("frs.sock");
    let ask = |target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = ask_socket(&path, &request).expect("an answer");
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    };
    for (target, status) in [
        ("/update?biz=order&key=u", 200_u16),
        ("/update?biz=order&key=u&count=-1", 401),
        ("/update?biz=login&key=u", 401),
        ("/query?biz=order&key=u", 200),
    ] {
        assert_eq!(ask(target), status, "{target}");
    }
}
