//! The data's files and the file systems that hold them: damage, want of room, other kinds of
//! disks.

mod damage;
mod file_limit;
mod full_disk;
mod groups;
mod huge_pages;
mod master_files;
mod overlay;
mod repair;
mod slots;

use crate::common::Answer;

/// Does an item say that its group cannot be used?
fn is_store(answer: &Answer) -> bool {
    (answer.status, answer.attribute("error")) == (503, Some("store"))
}
