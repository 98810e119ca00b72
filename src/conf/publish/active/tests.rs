//! Readers get what was published, and accept nothing else.

use proptest::prelude::*;

use super::*;

fn texts() -> Texts {
    Texts {
        srv_name: "conf/srv.xml".to_owned(),
        srv: "<srv><data dir=\"d\" live=\"live/here\"/><listen>unix:run/a</listen>\
              <listen>unix:/run/b</listen><user>surely-nobody-here</user></srv>"
            .to_owned(),
        map_name: "conf/map.xml".to_owned(),
        map: "<map><group name=\"g\" files=\"1\" key-nodes=\"1\" node-size=\"64\"/></map>"
            .to_owned(),
        settings: Settings::default(),
        kept: KeptFiles::default(),
    }
}

fn overlay() -> Overlay {
    Overlay::from_text("degrade true\nepoch 9 200\n").unwrap()
}

fn generations(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_was_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 7, &texts()).unwrap();
    let conf = read(dir.path(), 7).unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!(conf.srv.data.dir, dir.path(), "where it was found");
    assert_eq!(conf.srv.data.live, Some(here.join("live/here")));
    let unix = |path: &str| Listen::Unix(here.join(path)).into();
    assert_eq!(conf.srv.listen, [unix("run/a"), unix("/run/b")]);
    assert_eq!(conf.srv.user.as_deref(), Some("surely-nobody-here"));
    assert_eq!(conf.srv.workers, LocalHost::this().processors.min(200));
    let none = Overlay::default();
    assert!(is_of(dir.path(), 7, &texts(), &none).unwrap());
    assert!(!is_of(dir.path(), 7, &texts(), &overlay()).unwrap(), "switched or reset since");
    let other = Texts { map: texts().map + " ", ..texts() };
    assert!(!is_of(dir.path(), 7, &other, &none).unwrap());
    is_of(dir.path(), 8, &texts(), &none).unwrap_err();
}

#[test]
fn what_was_switched_and_reset_lies_over_it() {
    let dir = tempfile::tempdir().unwrap();
    let map = "<map><group name='g' files='1' key-nodes='1' node-size='64'/>\
        <biz id='8' name='a' key='integer'><limit policy='total' max='1'/></biz>\
        <biz id='9' name='b' key='integer'><limit policy='total' max='1'/></biz></map>";
    let srv = "<srv><admin listen='unix:run/admin' token-file='t'/>\
               <metrics listen='unix:run/metrics'/></srv>";
    let texts = Texts { srv: srv.to_owned(), map: map.to_owned(), ..texts() };
    write_overlaid(dir.path(), 1, &texts, &overlay()).unwrap();
    let conf = read(dir.path(), 1).unwrap();
    assert!(conf.srv.degrade);
    assert_eq!(conf.map.bizs.iter().map(|biz| biz.epoch).collect::<Vec<_>>(), [0, 200]);
    let here = std::env::current_dir().unwrap();
    assert_eq!(conf.srv.metrics, [Listen::Unix(here.join("run/metrics")).into()]);
    let [admin] = &conf.srv.admins[..] else { panic!("{:?}", conf.srv.admins) };
    assert_eq!(admin.listen, Listen::Unix(here.join("run/admin")));
    assert_eq!(admin.token_file, Some(here.join("t")));
    assert_eq!(read_texts(dir.path(), 1).unwrap(), texts);
    write(dir.path(), 2, &texts).unwrap();
    assert!(!read(dir.path(), 2).unwrap().srv.degrade);
}

#[test]
fn every_reader_knows_the_files_that_stay() {
    let dir = tempfile::tempdir().unwrap();
    let map = "<map><group name='g' keys='100'/></map>".to_owned();
    let texts = Texts { map, kept: KeptFiles::from_text("g 1 5 128\n").unwrap(), ..texts() };
    write(dir.path(), 1, &texts).unwrap();
    let group = read(dir.path(), 1).unwrap().map.groups.remove(0);
    assert_eq!((group.geometry.node_bytes, group.derived.node_bytes), (128, 64));
    assert_eq!(read_texts(dir.path(), 1).unwrap(), texts);
    let other = Texts { kept: KeptFiles::default(), ..texts.clone() };
    assert!(!is_of(dir.path(), 1, &other, &Overlay::default()).unwrap());
    let good = encode(1, 2, Path::new("/d"), &texts, &overlay());
    assert!(decode(Path::new("f"), &good, 1).is_ok_and(|active| active.texts == texts));
}

#[test]
fn two_latest_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    for generation in [3, 4, 9] {
        write(dir.path(), generation, &texts()).unwrap();
    }
    assert_eq!(generations(dir.path()), ["conf.active.4", "conf.active.9"]);
    write(dir.path(), 9, &texts()).unwrap();
    assert_eq!(generations(dir.path()), ["conf.active.4", "conf.active.9"]);
    assert_eq!(latest(dir.path()).unwrap(), Some(9));
    assert_eq!(latest(tempfile::tempdir().unwrap().path()).unwrap(), None);
    // Generations begin again when runtime.mmap is created again.
    fs::write(dir.path().join("conf.active.tmp"), "left").unwrap();
    fs::write(dir.path().join("conf.active.old"), "not ours").unwrap();
    write(dir.path(), 1, &texts()).unwrap();
    assert_eq!(generations(dir.path()), ["conf.active.1", "conf.active.old"]);
}

// Shows: damaged-files.
#[test]
fn damage_names_field_found_and_expected() {
    let good = encode(7, 2, Path::new("/d"), &texts(), &overlay());
    let of = |bytes: &[u8], generation| match decode(Path::new("f"), bytes, generation) {
        Err(ActiveError::Damaged { field, found, expected, .. }) => {
            format!("{field}: {found}, {expected}")
        }
        Err(error) => error.to_string(),
        Ok(_) => "taken".to_owned(),
    };
    let changed = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    assert_eq!(of(&good, 7), "taken");
    assert_eq!(of(&good, 8), "generation: 7, 8");
    assert_eq!(of(&good[..103], 7), "length: 103 bytes, at least 104 bytes");
    let cut = format!("length: {} bytes, {} bytes", good.len() - 1, good.len());
    assert_eq!(of(&good[..good.len() - 1], 7), cut);
    assert_eq!(of(&changed(0), 7), "magic: 0x464e4f432e535247, 0x464e4f432e535246");
    assert_eq!(of(&changed(FORMAT_AT), 7), "format: 5, 4");
    assert!(of(&changed(LENGTHS_AT), 7).starts_with("length: "));
    assert!(of(&changed(LENGTHS_AT + 7), 7).starts_with("length: "));
    for at in [PROCESSORS_AT, CRC_AT, HEADER_BYTES, good.len() - 1] {
        assert!(of(&changed(at), 7).starts_with("CRC: "), "{at}");
    }
}

#[test]
fn errors_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let name = path(dir.path(), 1).display().to_string();
    assert_eq!(read(dir.path(), 1).unwrap_err().to_string(), format!("{name}: cannot read it"));
    fs::write(path(dir.path(), 1), "short").unwrap();
    assert_eq!(
        read(dir.path(), 1).unwrap_err().to_string(),
        format!("{name}: length: found 5 bytes, expected at least 104 bytes")
    );
    let faulty = Texts { map: "<map><biz/></map>".to_owned(), ..texts() };
    fs::write(path(dir.path(), 1), encode(1, 1, Path::new("/"), &faulty, &Overlay::default()))
        .unwrap();
    let Err(ActiveError::Faults { source, .. }) = read(dir.path(), 1) else { panic!("taken") };
    assert!(source.to_string().starts_with("conf/map.xml:1:1: found <map> with <biz>"));
    let missing = dir.path().join("missing");
    assert!(matches!(write(&missing, 1, &texts()), Err(ActiveError::Io { .. })));
}

proptest! {
    #[test]
    fn no_bytes_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        change in any::<(u16, u8)>(),
    ) {
        let _ = decode(Path::new("f"), &bytes, 0);
        let mut image = encode(7, 2, Path::new("/d"), &texts(), &overlay());
        let at = usize::from(change.0) % image.len();
        image[at] ^= change.1;
        prop_assert_eq!(decode(Path::new("f"), &image, 7).is_ok(), change.1 == 0);
    }
}
