//! On overlayfs, which containers use and whose maps keep no lock, live processes are still told
//! from dead ones.
//!
//! Only root may mount one. Otherwise this test reports that it is skipped, and fails if
//! FRS_REQUIRE_ALL=1.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Settings, Setup, needs, text};

/// A file system, unmounted when it is dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(kind: &str, options: &str, at: PathBuf) -> Option<Mount> {
        std::fs::create_dir_all(&at).expect("created");
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", options, "frs-test"]).arg(&at);
        mount.output().is_ok_and(|output| output.status.success()).then_some(Mount(at))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// An overlay over a file system in memory. `None` if the mount is not permitted.
fn overlay(below: &Path) -> Option<(Mount, Mount)> {
    let memory = Mount::new("tmpfs", "size=512m", below.join("memory"))?;
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| memory.0.join(name));
    [&lower, &upper, &work].into_iter().for_each(|dir| std::fs::create_dir(dir).expect("created"));
    let options = [("lowerdir", lower), ("upperdir", upper), ("workdir", work)]
        .map(|(name, dir)| format!("{name}={}", dir.display()));
    let overlay = Mount::new("overlay", &options.join(","), below.join("overlay"))?;
    // They are dropped in this order.
    Some((overlay, memory))
}

#[test]
fn workers_count_together_and_the_dead_are_recovered() {
    let setup = Setup::new(&Settings::default());
    let Some((overlay, _memory)) = overlay(&setup.path("mounts")) else {
        return needs::skip("mounting an overlay is not permitted");
    };
    let more = format!("<data dir=\"{}\"/>", overlay.0.join("data").display());
    setup.write_srv(&Settings { workers: 3, more, ..Settings::default() });
    setup.write_map(
        r#"<map><group name="g" files="1" key-nodes="64" chain="8" node-size="64"/>
        <biz id="1" name="b" key="string"><limit policy="total" max="500"/></biz></map>"#,
    );
    let checked = setup.frs(&["check"]);
    assert_eq!(checked.status.code(), Some(0));
    let said = text(&checked.stdout) + &text(&checked.stderr);
    assert!(said.contains("overlayfs"), "{said}");
    let server = setup.start();
    let admitted: usize = std::thread::scope(|scope| {
        let clients = (0..6).map(|_| {
            scope.spawn(|| {
                let mut admitted = 0;
                for _ in 0..10 {
                    let mut client = server.client();
                    let of_ten =
                        (0..10).filter(|_| client.get("/update?biz=b&key=k").status == 200);
                    admitted += of_ten.count();
                }
                admitted
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().expect("a client")).sum()
    });
    assert_eq!(admitted, 500);
    // Each process has its own slot, and is known to live.
    let data = overlay.0.join("data");
    let slots = frs_store::Runtime::open(&data).expect("there").slots();
    assert_eq!(slots.len(), 4, "three workers and the keeper: {slots:?}");
    assert!(slots.iter().all(|slot| slot.alive), "{slots:?}");
}
