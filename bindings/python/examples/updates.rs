//! The Rust half of bench.py: each line of standard input is a number of Updates to make, one after
//! another, over the same keys in the same order. Answers each line with the nanoseconds of an
//! Update.

use std::error::Error;
use std::io::BufRead;
use std::time::Instant;

use frs::{Client, Item};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().ok_or("usage: updates DATA KEYS, numbers of Updates on stdin")?;
    // One key a line, in the order of use.
    let keys = std::fs::read_to_string(arguments.next().ok_or("no file of keys is named")?)?;
    let keys: Vec<&str> = keys.lines().collect();
    let client = Client::attach(data)?;
    let mut next = keys.iter().cycle();
    for line in std::io::stdin().lock().lines() {
        let updates: u32 = line?.trim().parse()?;
        let begun = Instant::now();
        for key in next.by_ref().take(updates as usize) {
            if client.update(Item::new("plenty", *key))?.is_limited() {
                return Err("an Update was refused".into());
            }
        }
        println!("{}", begun.elapsed().as_nanos() as f64 / f64::from(updates));
    }
    Ok(())
}
