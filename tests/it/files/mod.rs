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
