//! Counts the instructions of an item in each case, by valgrind.
//!
//! A case runs once and twice as long, and the difference counts, so that the preparation does not.

use std::process::Command as Program;

/// Passes the case to a child.
const CHILD: &str = "FRS_BENCH_CHILD";

/// Prints the instructions of each case that the arguments select. `run` runs a case, by its place
/// among the names, with so many items; the shorter run has `items`.
pub fn print(names: &[&str], items: u64, run: fn(usize, u64)) {
    if let Ok(case) = std::env::var(CHILD) {
        let numbers: Vec<u64> = case.split(' ').map(|word| word.parse().expect("one")).collect();
        return run(numbers[0] as usize, numbers[1]);
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for (number, name) in names.iter().enumerate() {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        match count(number, 2 * items).zip(count(number, items)) {
            Some((twice, once)) => println!("{name:32} {:6} an item", (twice - once) / items),
            None => println!("{name:32} not counted: valgrind is not installed"),
        }
    }
}

/// The instructions of a whole run.
fn count(case: usize, items: u64) -> Option<u64> {
    let this = std::env::current_exe().expect("this program");
    let output = Program::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .env(CHILD, format!("{case} {items}"))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said.lines().find(|line| line.contains("Collected"))?.rsplit(' ').next()?.parse().ok()
}
