//! The data files and their file systems: damage, lack of room, other kinds of disks.

mod damage;
mod derived;
mod file_limit;
mod full_disk;
mod groups;
mod huge_pages;
mod master_files;
mod overlay;
mod repair;
mod slots;

use crate::common::Answer;

/// Whether an item reports that its group cannot be used.
fn is_store(answer: &Answer) -> bool {
    (answer.status, answer.attribute("error")) == (503, Some("store"))
}
