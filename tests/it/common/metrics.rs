//! The metrics of a server as a scrape has them, and as the table of docs/operations.md describes
//! them.

use std::collections::{BTreeMap, BTreeSet};

/// The labels of a metric, each with its values; with none if they are not listed.
pub type Labels = BTreeMap<String, BTreeSet<String>>;

/// What a histogram's samples are called besides its name.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The metrics of a scrape.
pub struct Scrape {
    /// By name: its type, and the labels of its samples. None: it has no sample.
    pub families: BTreeMap<String, (String, Option<Labels>)>,
}

impl Scrape {
    pub fn read(text: &str) -> Scrape {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let types = types.map(|line| line.split_once(' ').expect("a name and a type"));
        let families = types.map(|(name, kind)| (name.to_owned(), (kind.to_owned(), None)));
        let mut scrape = Scrape { families: families.collect() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, labels) = sample(line);
            let family =
                scrape.family(name).unwrap_or_else(|| panic!("no type: {line}")).to_owned();
            let known = &mut scrape.families.get_mut(&family).expect("found").1;
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
            |name: &&str| self.families.get(*name).is_some_and(|(kind, _)| kind == "histogram");
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
