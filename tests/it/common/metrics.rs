//! The metrics of a server: as a scrape shows them, and as the table of docs/operations.md
//! describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::needs;

/// The labels of a metric, each with its values. No values: they are not listed.
pub type Labels = BTreeMap<String, BTreeSet<String>>;

/// The suffixes of a histogram's samples.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// A metric of a scrape.
pub struct Family {
    pub kind: String,
    /// The labels of its samples. `None` if it has no sample.
    pub labels: Option<Labels>,
}

/// The metrics of a scrape.
pub struct Scrape {
    /// By name.
    pub families: BTreeMap<String, Family>,
}

impl Scrape {
    pub fn read(text: &str) -> Scrape {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let types = types.map(|line| line.split_once(' ').expect("a name and a type"));
        let families = types
            .map(|(name, kind)| (name.to_owned(), Family { kind: kind.to_owned(), labels: None }));
        let mut scrape = Scrape { families: families.collect() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, labels) = sample(line);
            let family =
                scrape.family(name).unwrap_or_else(|| panic!("no type: {line}")).to_owned();
            let known = &mut scrape.families.get_mut(&family).expect("found").labels;
            let known = known.get_or_insert_with(Labels::new);
            for (label, value) in labels.into_iter().filter(|(label, _)| *label != "le") {
                known.entry(label.to_owned()).or_default().insert(value.to_owned());
            }
        }
        scrape
    }

    /// The metric that a sample of this name belongs to.
    pub fn family(&self, sample: &str) -> Option<&str> {
        let is_histogram =
            |name: &&str| self.families.get(*name).is_some_and(|family| family.kind == "histogram");
        let of_part = PARTS.iter().find_map(|part| sample.strip_suffix(part)).filter(is_histogram);
        let name = of_part.unwrap_or(sample);
        self.families.get_key_value(name).map(|(name, _)| name.as_str())
    }
}

/// The name and the labels of a sample.
pub fn sample(line: &str) -> (&str, BTreeMap<&str, &str>) {
    let (series, _) = line.rsplit_once(' ').expect("a value");
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
    let labels = labels.map(|label| label.split_once("=\"").expect("a label"));
    (name, labels.map(|(label, value)| (label, value.trim_end_matches('"'))).collect())
}

/// The metrics that the table of a page describes, with their labels.
pub fn described(page: &str) -> BTreeMap<String, Labels> {
    let mut table = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `frs_")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let labels = labels_of_cell(cells.get(1).unwrap_or(&""));
        for name in cells[0].split('`').skip(1).step_by(2) {
            table.entry(name.to_owned()).or_insert_with(|| labels.clone());
        }
    }
    table
}

fn labels_of_cell(cell: &str) -> Labels {
    let parts = cell.split("; ").flat_map(|part| match part.split_once(": ") {
        Some((label, values)) => vec![(label, values.split(", ").map(str::to_owned).collect())],
        None => part.split(", ").map(|label| (label, BTreeSet::new())).collect(),
    });
    let labels = parts.filter(|(label, _)| label.starts_with('`'));
    labels.map(|(label, values)| (label.trim_matches('`').to_owned(), values)).collect()
}

/// Runs promtool in a folder. It must report nothing.
#[track_caller]
pub fn promtool(dir: &Path, arguments: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Some(mut child) = needs::spawn(&mut command) else { return };
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
}
