//! The metrics and labels in a query of Prometheus (PromQL). Whether a query is valid is checked by
//! promtool.

/// A matcher in the braces after the name of a metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Matcher {
    pub label: String,
    /// The values that it accepts: one for `=`, several for `=~`, none for negative matchers.
    pub values: Vec<String>,
}

/// The samples that a query reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<Matcher>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub selectors: Vec<Selector>,
    /// The labels by which it groups or matches.
    pub grouped: Vec<String>,
}

const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

impl Query {
    pub fn read(text: &str) -> Query {
        let (mut query, mut rest) = (Query::default(), text);
        while let Some(first) = rest.chars().next() {
            if first == '"' {
                rest = &rest[1 + rest[1..].find('"').expect("an end of the text") + 1..];
            } else if first == '[' {
                rest = &rest[rest.find(']').expect("an end of the range") + 1..];
            } else if first.is_ascii_digit() {
                rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
            } else if is_word(first) {
                let (word, behind) =
                    rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
                rest = query.take(word, behind.trim_start());
            } else {
                rest = &rest[first.len_utf8()..];
            }
        }
        query
    }

    /// Reads a word. Returns the text after it.
    fn take<'t>(&mut self, word: &str, behind: &'t str) -> &'t str {
        if GROUPINGS.contains(&word) {
            let Some((labels, rest)) = behind.strip_prefix('(').and_then(|it| it.split_once(')'))
            else {
                return behind;
            };
            let labels = labels.split(',').map(|label| label.trim().to_owned());
            self.grouped.extend(labels.filter(|label| !label.is_empty()));
            return rest;
        }
        if OPERATORS.contains(&word) || behind.starts_with('(') || is_grouped(behind) {
            return behind;
        }
        let (matchers, rest) = match behind.strip_prefix('{') {
            Some(inner) => inner.split_once('}').expect("an end of the matchers"),
            None => ("", behind),
        };
        let metric = word.to_owned();
        self.selectors.push(Selector { metric, matchers: read_matchers(matchers) });
        rest
    }
}

/// Whether the word before is an aggregation whose grouping comes first: `sum by (…) (…)`.
fn is_grouped(behind: &str) -> bool {
    let rest = behind.strip_prefix("by").or(behind.strip_prefix("without"));
    rest.is_some_and(|rest| rest.trim_start().starts_with('('))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

fn read_matchers(text: &str) -> Vec<Matcher> {
    let matchers = text.split("\",").map(str::trim).filter(|matcher| !matcher.is_empty());
    let read = |matcher: &str| {
        let (label, value) = matcher.split_once('"').expect("a value");
        let value = value.trim_end_matches('"');
        let (label, values) = if let Some(label) = label.strip_suffix("=~") {
            (label, value.split('|').map(str::to_owned).collect())
        } else if let Some(label) = label.strip_suffix("!=").or(label.strip_suffix("!~")) {
            (label, Vec::new())
        } else {
            (label.strip_suffix('=').expect("an operator"), vec![value.to_owned()])
        };
        Matcher { label: label.trim().to_owned(), values }
    };
    matchers.map(read).collect()
}

#[test]
fn what_a_query_speaks_of_is_read() {
    let query = Query::read(
        "topk(10, sum by (biz, le) (rate(a_total{x=\"1\", y=~\"p|q\", z!=\"w\"}[5m]))) > 3 * b:c:d\n\
         and on (job) time() - e offset 1d > bool ignoring (result) f{} or vector(0)",
    );
    let matcher = |label: &str, values: &[&str]| Matcher {
        label: label.to_owned(),
        values: values.iter().copied().map(str::to_owned).collect(),
    };
    let selector = |metric: &str, matchers| Selector { metric: metric.to_owned(), matchers };
    let matchers = vec![matcher("x", &["1"]), matcher("y", &["p", "q"]), matcher("z", &[])];
    let expected = [
        selector("a_total", matchers),
        selector("b:c:d", vec![]),
        selector("e", vec![]),
        selector("f", vec![]),
    ];
    assert_eq!(query.selectors, expected);
    assert_eq!(query.grouped, ["biz", "le", "job", "result"]);
}
