//! srv.xml, map.xml and the edits of `PUT` and `DELETE /biz/…`. Either they are refused with faults
//! that have a text, or every command can describe the configuration. The first byte chooses.

use std::path::Path;

use frs_conf::memory_bound::Memory;
use frs_conf::{Conf, DirFilesystem, Filesystem, Machine, report};
use frs_server::admin::map_edit::{self as edit, BizName, EditError, TextNames};
use frs_server::buffer_sizes::BUFFER_SIZES;

const SRV: &str = "<srv/>";
const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="8" node-size="128"/>
  <biz id="1" name="a" key="string"><limit policy="interval" interval="1m" max="5"/></biz>
</map>"#;
const NAMES: TextNames<'_> = TextNames { map: "map.xml", biz: "body" };

/// Separates the parts of an edit: not a byte of UTF-8.
const PART: u8 = 0xff;

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((kind, text)) = data.split_first() else { return };
    match kind % 4 {
        0 => check(text, MAP.as_bytes()),
        1 => check(SRV.as_bytes(), text),
        2 => put(text),
        _ => remove(text),
    }
}

/// Checks as `frs check` does.
fn check(srv: &[u8], map: &[u8]) {
    let conf = match Conf::parse("srv.xml", srv, "map.xml", map) {
        Ok(conf) => conf,
        Err(faults) => {
            assert!(!faults.to_string().is_empty());
            return;
        }
    };
    assert!(Memory::of(&conf, &BUFFER_SIZES).total() > 0);
    let filesystems = [Filesystem::Ext4, Filesystem::Btrfs, Filesystem::Nfs];
    let filesystems = filesystems
        .map(|kind| DirFilesystem { dir: Path::new("data").to_owned(), filesystem: Ok(kind) });
    let machine = Machine {
        shm_free_bytes: None,
        ram_bytes: Some(1 << 30),
        filesystems: filesystems.into(),
        missing_program: None,
    };
    assert!(!report::report(&conf, &machine, &BUFFER_SIZES).text.is_empty());
}

/// The parts of an edit.
struct Edit<'i> {
    /// The name behind `/biz/`.
    meant: BizName<'i>,
    /// A map.xml.
    map: &'i str,
    /// The body of the request.
    body: &'i str,
}

fn parts(input: &[u8]) -> Option<Edit<'_>> {
    let mut parts = input.splitn(3, |&byte| byte == PART).map(std::str::from_utf8);
    let mut next = || parts.next()?.ok();
    let (name, map) = (next()?, next()?);
    Some(Edit { meant: BizName::of(name)?, map, body: next().unwrap_or_default() })
}

fn put(input: &[u8]) {
    let Some(Edit { meant, map, body }) = parts(input) else { return };
    let put = match edit::put(map, body, meant, NAMES) {
        Ok(put) => put,
        Err(error) => return told(&error),
    };
    // The put element is there once, and nothing else has changed.
    let written = edit::elements(&put.text, Some(meant), NAMES.map).expect("well-formed as before");
    let written = written.expect("it was put there");
    assert!(body.contains(written.trim_end()), "{written:?} of {body:?}");
    assert_eq!(put.old.is_none(), edit::elements(map, Some(meant), NAMES.map).unwrap().is_none());
    let undone = edit::EditToRevert { old: put.old.as_deref(), new: put.new.as_deref() };
    let back = edit::revert(&put.text, undone, NAMES.map);
    if put.old.is_none() {
        let removed = edit::remove(&put.text, meant, NAMES.map).expect("it is there").text;
        // A map that is a single tag is opened by the put, and stays open.
        let is_tag = map.contains("/>") && !map.contains("</map");
        assert!(removed == map || is_tag, "{:?}", put.text);
        assert_eq!(back.expect("nothing has changed").text, removed);
    } else {
        let again = edit::put(&put.text, body, meant, NAMES).expect("as before");
        assert_eq!((again.text, again.old.is_none()), (put.text, false));
    }
}

fn remove(input: &[u8]) {
    let Some(Edit { meant, map, .. }) = parts(input) else { return };
    let all = edit::elements(map, None, NAMES.map);
    match edit::remove(map, meant, NAMES.map) {
        Ok(edit::Edit { text: removed, .. }) => {
            assert!(removed.len() < map.len());
            edit::elements(&removed, None, NAMES.map).expect("well-formed as before");
        }
        Err(EditError::Unknown) => assert!(all.is_ok()),
        Err(error) => {
            assert!(all.is_err());
            told(&error);
        }
    }
}

fn told(error: &EditError) {
    assert!(!error.to_string().is_empty());
}
