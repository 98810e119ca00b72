//! Checkpoints with contents that no writer made: looking into them, verifying them and starting
//! from them fails with an error or works, in bounded time, and brings no new record.
//!
//! An input is a byte that names a file, a byte of flags (valid CRC, cut, start), a length for the
//! cut, and pieces to write, each an offset, a length and its bytes.

use std::cell::RefCell;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use frs_conf::Conf;
use frs_engine::inspect::Reader;
use frs_store::fuzzing as at;
use frs_store::{Checkpointer, PassRate, Runtime, Unpaced, prepare, restorable};

use super::world::{KEYS, Kept, NOW, directory, put_in_force, write_pieces};

/// Both checkpoints of both files.
const FILES: usize = 4;

struct World {
    dir: tempfile::TempDir,
    conf: Conf,
    files: [Kept; FILES],
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some(([chosen, sealed, len @ ..], pieces)) = data.split_first_chunk::<4>() else { return };
    WORLD.with_borrow_mut(|world| {
        if !world.files.iter().all(Kept::restore) {
            *world = World::new();
        }
        let file = &world.files[usize::from(chosen % 4)].file;
        let bytes = file.metadata().expect("open").len();
        write_pieces(file, pieces, |at| at % bytes);
        if sealed & 1 != 0 {
            seal(file);
        }
        if sealed & 2 != 0 {
            file.set_len(u16::from_le_bytes(*len).into()).expect("cut");
        }
        look(&world.data());
        if sealed & 4 != 0 {
            world.start();
        }
    });
}

/// Gives the header a valid CRC, as a faulty writer would.
fn seal(file: &File) {
    let mut header = [0; (at::CHECKPOINT_CRC + 1) * 8];
    file.read_exact_at(&mut header, 0).expect("so long it is");
    let is_former = header[at::CHECKPOINT_FORMAT * 8] == 1;
    let end = 8 * if is_former { at::CHECKPOINT_FORMER_CRC } else { at::CHECKPOINT_CRC };
    let crc = u64::from(crc32fast::hash(&header[..end]));
    file.write_all_at(&crc.to_le_bytes(), end as u64).expect("written");
}

/// Does everything that tools do.
fn look(data: &Path) {
    let _ = restorable(data, "g").map(|facts| format!("{facts:?}"));
    let Ok(mut reader) = Reader::open_checkpoints(data, None) else { return };
    let pass = reader.pass();
    for (_, group) in reader.groups() {
        let _ = group.as_ref().map(|group| format!("{:?}", group.verify(&pass)));
    }
    let _ = reader.for_each_node(NOW, |record| {
        let _ = format!("{record:?}");
        ControlFlow::Continue(())
    });
}

impl World {
    fn new() -> World {
        let dir = directory();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).expect("made");
        let srv = format!(
            "<srv><workers>1</workers><listen>127.0.0.1:1</listen><data dir=\"{}\" live=\"{}\" \
             checkpoint=\"1h\"/></srv>",
            data.display(),
            dir.path().join("live").display()
        );
        let conf = put_in_force(&data, srv);
        let live = dir.path().join("live");
        let made = Checkpointer::new(&data, &live).expect("made").expect("nobody else makes them");
        let mut made = made;
        for _ in 0..2 {
            let rate = PassRate { bytes_per_second: u64::MAX };
            made.pass(&["g".to_owned()], rate, &Unpaced);
        }
        let path = |file: usize| {
            let side = ['a', 'b'][file % 2];
            data.join(format!("g.{}.checkpoint.{side}", file / 2))
        };
        let files = std::array::from_fn(|file| Kept::whole(path(file)));
        World { dir, conf, files }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Starts as after a reboot.
    fn start(&self) {
        let _ = std::fs::remove_dir_all(self.dir.path().join("live"));
        let _ = std::fs::remove_file(Runtime::path_in(&self.data()));
        Runtime::create_or_open(&self.data()).expect("made");
        if prepare(&self.conf, &Default::default()).is_err() {
            return;
        }
        Runtime::open(&self.data()).expect("it is there").publish(1);
        let Ok(mut reader) = Reader::open(&self.data(), None) else { return };
        let mut records = 0;
        let _ = reader.for_each_node(NOW, |_| {
            records += 1;
            ControlFlow::Continue(())
        });
        // Two keys of `sale`, and its record of the whole business.
        assert!(records <= KEYS.len() + 1, "{records} records");
    }
}
