//! The overlay: switches, resets and moves made while the server runs, which are in neither file.
//! It holds the degrade switch, the epochs of businesses that were reset, the lifts of their bans
//! since then, the former limits of shared businesses, and the groups that move to another
//! geometry.
//!
//! Invariant: every published generation holds the overlay, so all processes of a generation see
//! the same overlay. It is on disk before it is published, so no restart forgets a reset or a lift.
//! Otherwise the nodes that the reset made fresh would count again, and the lifted bans would run
//! on.
//!
//! As text, in `data/overlay` and in `conf.active.G`:
//!
//! ```text
//! degrade true
//! epoch 1001 3
//! lifts 1001 1 1795000000000
//! former 2001 8a41 0e93 key:00f3 biz:1c2d
//! moving default
//! moving users lossy
//! ```
//!
//! The time of a lift tells which bans in records from the cluster began before it. An overlay of
//! an earlier build has no times.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use frs_base::clock::Millis;
use frs_base::sys;

use super::durable::write_durably;
use super::former_limits::FormerLimits;
use crate::read::lower_case_name;
use crate::schema::{Conf, EpochStep, Lifts, MAX_EPOCH, MoveMode, SharedLimits};

const NAME: &str = "overlay";

/// The changes laid over the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Whether nothing is limited, whatever srv.xml says.
    pub degrade: bool,
    /// Epochs other than 0, by biz id. They include those of bizs that map.xml does not name.
    epochs: BTreeMap<u32, u64>,
    /// Lifts other than none, by biz id.
    lifts: BTreeMap<u32, Lifts>,
    /// Former limits of shared bizs.
    former: FormerLimits,
    /// The groups that move, by name.
    moving: BTreeMap<String, MoveMode>,
}

/// A larger epoch for a biz, and the epoch that it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochRaise {
    /// The id of the biz.
    pub biz: u32,
    /// The current epoch of the biz. Void nodes were cleared under it if the step needs that.
    pub from: u64,
    /// The next epoch: a [step](EpochStep) from the current one.
    pub to: u64,
}

/// A biz cannot be reset, or its bans cannot be lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EpochError {
    /// The biz now has another epoch than the one under which void nodes were cleared.
    #[error("biz {biz} was reset by another machine meanwhile: reset it again")]
    Moved {
        /// The id of the biz.
        biz: u32,
    },
    /// The biz has the largest epoch.
    #[error("biz {biz} has the epoch {MAX_EPOCH}, the largest: it cannot be reset any more")]
    Largest {
        /// The id of the biz.
        biz: u32,
    },
    /// The bans were lifted too often since the last reset.
    #[error("biz {biz}: its bans were lifted {} times: reset it, which lifts them, too", u16::MAX)]
    Lifted {
        /// The id of the biz.
        biz: u32,
    },
}

/// The overlay cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The text is not what was written.
    #[error("{}:{line}: found {found:?}, expected `degrade true`, `epoch BIZ NUMBER`, `lifts BIZ NUMBER TIME`, `former BIZ SHAPE SHAPE LIMIT` or `moving GROUP`", path.display())]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What the line holds.
        found: String,
    },
}

/// A line that does not belong to an overlay.
#[derive(Debug)]
pub(super) struct BadOverlayLine {
    /// The number of the line, from 1.
    pub line: usize,
    /// The text of the line, cut off if it is long.
    pub found: String,
}

impl Overlay {
    /// The epoch of a biz.
    pub fn epoch(&self, biz: u32) -> u64 {
        self.epochs.get(&biz).copied().unwrap_or(0)
    }

    /// The businesses that were ever reset, with their epochs.
    pub fn epochs(&self) -> impl Iterator<Item = (u32, u64)> {
        self.epochs.iter().map(|(&biz, &epoch)| (biz, epoch))
    }

    /// Whether void nodes of any biz were cleared since the overlay `before`.
    pub fn has_cleared_since(&self, before: &Overlay) -> bool {
        let step = |(biz, epoch)| EpochStep::towards(before.epoch(biz), epoch);
        self.epochs().filter_map(step).any(|step| step.must_clear)
    }

    /// Gives a biz the next epoch, which voids the content of its nodes. `cleared` is the epoch
    /// under which its void nodes were cleared last. Only some steps need it.
    ///
    /// # Errors
    /// The biz has another epoch by now, and its void nodes must be cleared again. Or it has the
    /// largest epoch.
    pub fn reset(&mut self, biz: u32, cleared: Option<u64>) -> Result<(), EpochError> {
        let from = self.epoch(biz);
        let step = EpochStep::towards(from, from + 1).ok_or(EpochError::Largest { biz })?;
        if step.must_clear && cleared != Some(from) {
            return Err(EpochError::Moved { biz });
        }
        self.begin_epoch(biz, step.to);
        Ok(())
    }

    /// Begins an epoch of a biz. It voids all nodes of the biz, and with them their bans.
    fn begin_epoch(&mut self, biz: u32, epoch: u64) {
        self.epochs.insert(biz, epoch);
        self.lifts.remove(&biz);
        self.former.forget(biz);
    }

    /// The former limits of a shared biz. The set that was left last is at the end.
    pub fn former(&self, biz: u32) -> &[SharedLimits] {
        self.former.of(biz)
    }

    /// Adds limits that a shared biz no longer has.
    pub fn add_former(&mut self, biz: u32, limits: SharedLimits) {
        self.former.add(biz, limits);
    }

    /// Forgets the former limits of all bizs for which `stays` is false.
    pub fn retain_former(&mut self, stays: impl Fn(u32) -> bool) {
        self.former.retain(stays);
    }

    /// The lifts of a biz since its last reset.
    pub fn lifts(&self, biz: u32) -> Lifts {
        self.lifts.get(&biz).copied().unwrap_or_default()
    }

    /// Lifts the bans of a biz: all bans that began before now are void. The time of a lift is
    /// later than that of the previous lift, whatever the clock says.
    ///
    /// # Errors
    /// The bans were lifted too often.
    pub fn lift_bans(&mut self, biz: u32, now: Millis) -> Result<(), EpochError> {
        let Lifts { count, last_ms } = self.lifts(biz);
        let count = count.checked_add(1).ok_or(EpochError::Lifted { biz })?;
        let last_ms = now.max(last_ms.saturating_add(1));
        self.lifts.insert(biz, Lifts { count, last_ms });
        Ok(())
    }

    /// Gives a biz the epoch that another machine began. Returns false if the raise begins with
    /// another epoch than the current one, or is not a step.
    pub fn follow(&mut self, raise: EpochRaise) -> bool {
        let EpochRaise { biz, from, to } = raise;
        let step = EpochStep::towards(from, to);
        let is_next = self.epoch(biz) == from && step.is_some_and(|step| step.to == to);
        if is_next {
            self.begin_epoch(biz, to);
        }
        is_next
    }

    /// The groups that move.
    pub fn moving(&self) -> &BTreeMap<String, MoveMode> {
        &self.moving
    }

    /// Sets which groups move.
    pub fn set_moving(&mut self, moving: BTreeMap<String, MoveMode>) {
        self.moving = moving;
    }

    /// Ends the move of a group. Returns how it moved. `None` if it did not move.
    pub fn end_move(&mut self, group: &str) -> Option<MoveMode> {
        self.moving.remove(group)
    }

    /// Applies the overlay to a configuration.
    pub fn lay_over(&self, conf: &mut Conf) {
        conf.srv.degrade |= self.degrade;
        for biz in &mut conf.map.bizs {
            (biz.epoch, biz.lifts) = (self.epoch(biz.id), self.lifts(biz.id));
            biz.former = self.former(biz.id).to_vec();
        }
        for group in &mut conf.map.groups {
            group.moving = self.moving.get(&group.name).copied();
        }
    }

    /// The path of the overlay in a data directory.
    pub fn path_in(data_dir: &Path) -> PathBuf {
        data_dir.join(NAME)
    }

    /// Reads the overlay of a data directory. A missing file means an empty overlay.
    ///
    /// # Errors
    /// The file exists and cannot be read. Without it, counters that were reset would count again.
    pub fn read(data_dir: &Path) -> Result<Overlay, OverlayError> {
        let path = data_dir.join(NAME);
        match sys::open_to_read(&path).and_then(io::read_to_string) {
            Ok(text) => Self::from_text(&text).map_err(|BadOverlayLine { line, found }| {
                OverlayError::Damaged { path, line, found }
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Overlay::default()),
            Err(source) => Err(OverlayError::Io { path, source }),
        }
    }

    /// Writes the overlay to a data directory. It is complete and on disk when this returns.
    ///
    /// # Errors
    /// The errors of the file system. The old file may remain.
    pub fn write(&self, data_dir: &Path) -> Result<(), OverlayError> {
        let path = data_dir.join(NAME);
        let draft = path.with_extension("new");
        write_durably(&draft, self.to_text().as_bytes())
            .and_then(|()| fs::rename(&draft, &path))
            .and_then(|()| File::open(data_dir)?.sync_all())
            .map_err(|source| OverlayError::Io { path, source })
    }

    /// The overlay as text.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        if self.degrade {
            text.push_str("degrade true\n");
        }
        for (biz, epoch) in &self.epochs {
            let _ = writeln!(text, "epoch {biz} {epoch}");
        }
        for (biz, Lifts { count, last_ms }) in &self.lifts {
            let _ = match last_ms {
                0 => writeln!(text, "lifts {biz} {count}"),
                _ => writeln!(text, "lifts {biz} {count} {last_ms}"),
            };
        }
        self.former.add_text(&mut text);
        for (group, mode) in &self.moving {
            let lossy = if *mode == MoveMode::Lossy { " lossy" } else { "" };
            let _ = writeln!(text, "moving {group}{lossy}");
        }
        text
    }

    /// Reads a text. The error is the first line that does not belong to an overlay.
    pub(super) fn from_text(text: &str) -> Result<Overlay, BadOverlayLine> {
        let mut overlay = Overlay::default();
        for (line, number) in text.lines().zip(1..) {
            let bad = || BadOverlayLine { line: number, found: line.chars().take(64).collect() };
            overlay.read_line(line).ok_or_else(bad)?;
        }
        Ok(overlay)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        let is_new = match kind {
            "degrade" => {
                self.degrade = rest == "true";
                self.degrade
            }
            "epoch" => {
                let (biz, epoch) = rest.split_once(' ')?;
                let epoch = epoch.parse().ok().filter(|epoch| (1..=MAX_EPOCH).contains(epoch))?;
                self.epochs.insert(biz.parse().ok()?, epoch).is_none()
            }
            "lifts" => {
                let (biz, lifts) = rest.split_once(' ')?;
                self.lifts.insert(biz.parse().ok()?, lifts_of(lifts)?).is_none()
            }
            "moving" => {
                let (group, mode) = match rest.strip_suffix(" lossy") {
                    Some(group) => (group, MoveMode::Lossy),
                    None => (rest, MoveMode::Lossless),
                };
                self.moving.insert(lower_case_name(group).ok()?, mode).is_none()
            }
            "former" => return self.former.read_line(rest),
            _ => false,
        };
        is_new.then_some(())
    }
}

/// The lifts in `COUNT TIME`, or in the `COUNT` of an earlier build. Neither number may be 0.
fn lifts_of(text: &str) -> Option<Lifts> {
    let (count, time) = match text.split_once(' ') {
        Some((count, time)) => (count, Some(time)),
        None => (text, None),
    };
    let count = count.parse().ok().filter(|&count| count > 0)?;
    let last_ms = time.map_or(Some(0), |time| time.parse().ok().filter(|&ms| ms > 0))?;
    Some(Lifts { count, last_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scope, SharedLimit};

    const NOW: Millis = 1_795_000_000_000;

    fn lifts_at(count: u16, last_ms: Millis) -> Lifts {
        Lifts { count, last_ms }
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Overlay::read(dir.path()).unwrap(), Overlay::default());
        let mut overlay = Overlay { degrade: true, ..Overlay::default() };
        overlay.reset(7, None).unwrap();
        overlay.reset(4_294_967_295, None).unwrap();
        overlay.reset(7, None).unwrap();
        assert_eq!((overlay.epoch(7), overlay.epoch(4_294_967_295), overlay.epoch(8)), (2, 1, 0));
        overlay.lift_bans(7, NOW).unwrap();
        overlay.lift_bans(7, NOW + 5).unwrap();
        overlay.lift_bans(3, NOW).unwrap();
        let lifts = [7, 3, 8].map(|biz| overlay.lifts(biz));
        assert_eq!(lifts, [lifts_at(2, NOW + 5), lifts_at(1, NOW), Lifts::default()]);
        assert!(overlay.follow(EpochRaise { biz: 9, from: 0, to: MAX_EPOCH - 1 }));
        assert!(overlay.follow(EpochRaise { biz: 9, from: MAX_EPOCH - 1, to: MAX_EPOCH }));
        let limits = [SharedLimit { scope: Scope::Key, digest: 0xf3 }].into();
        overlay.add_former(3, SharedLimits { shapes: [0x8a41, 1], limits });
        assert_eq!((overlay.former(3).len(), overlay.former(7).len()), (1, 0));
        overlay.set_moving(
            [("a-1".to_owned(), MoveMode::Lossy), ("lossy".to_owned(), MoveMode::Lossless)].into(),
        );
        for overlay in [overlay, Overlay::default()] {
            overlay.write(dir.path()).unwrap();
            assert_eq!(Overlay::read(dir.path()).unwrap(), overlay);
        }
    }

    #[test]
    fn an_epoch_grows_and_a_new_block_needs_cleared_nodes() {
        let mut overlay = Overlay::default();
        for epoch in 0..300 {
            assert_eq!(overlay.epoch(1), epoch);
            if overlay.reset(1, None).is_ok() {
                continue;
            }
            assert!([127, 255].contains(&epoch), "{epoch}");
            let moved = Err(EpochError::Moved { biz: 1 });
            assert_eq!(overlay.reset(1, Some(epoch - 1)), moved, "cleared before the last reset");
            overlay.reset(1, Some(epoch)).unwrap();
        }
        assert_eq!(overlay.to_text(), "epoch 1 300\n");
        let text = format!("epoch 1 {MAX_EPOCH}\n");
        let mut overlay = Overlay::from_text(&text).unwrap();
        assert_eq!(overlay.reset(1, Some(MAX_EPOCH)), Err(EpochError::Largest { biz: 1 }));
        assert_eq!(overlay.to_text(), text);
    }

    // Shows: lifted-bans.
    #[test]
    fn lifts_are_counted_until_a_reset_and_never_twice_the_same() {
        let text = "lifts 1 65534\nlifts 2 9 17\nlifts 3 4 17\n";
        let mut overlay = Overlay::from_text(text).unwrap();
        assert_eq!(overlay.lifts(1), lifts_at(65_534, 0), "of an earlier build");
        assert_eq!(overlay.to_text(), text);
        overlay.lift_bans(1, NOW).unwrap();
        assert_eq!(overlay.lift_bans(1, NOW + 1), Err(EpochError::Lifted { biz: 1 }));
        assert_eq!(overlay.lifts(1), lifts_at(u16::MAX, NOW));
        overlay.reset(1, None).unwrap();
        assert!(overlay.follow(EpochRaise { biz: 2, from: 0, to: 1 }));
        overlay.lift_bans(1, NOW).unwrap();
        let lifted = format!("epoch 1 1\nepoch 2 1\nlifts 1 1 {NOW}\nlifts 3 4 17\n");
        assert_eq!(overlay.to_text(), lifted);
        let mut conf = Conf::parse(
            "srv.xml",
            "<srv/>",
            "map.xml",
            "<map><group name='g' keys='9'/><biz id='3' name='c' key='integer'>\
             <limit policy='total' max='1'/></biz></map>",
        )
        .unwrap();
        overlay.lay_over(&mut conf);
        assert_eq!(conf.map.bizs[0].lifts, lifts_at(4, 17));
    }

    // Shows: bans-in-the-cluster.
    #[test]
    fn a_later_lift_has_a_later_time_also_by_a_clock_that_was_set_back() {
        let mut overlay = Overlay::default();
        for (now, last_ms) in [(NOW, NOW), (NOW, NOW + 1), (7, NOW + 2), (NOW + 9, NOW + 9)] {
            overlay.lift_bans(1, now).unwrap();
            assert_eq!(overlay.lifts(1).last_ms, last_ms);
        }
    }

    #[test]
    fn only_a_step_from_the_epoch_in_force_is_followed() {
        let mut overlay = Overlay::from_text("epoch 1 3\n").unwrap();
        let raise = |from, to| EpochRaise { biz: 1, from, to };
        for (from, to) in [(2, 4), (3, 3), (3, 2), (3, 259), (3, MAX_EPOCH + 1), (4, 5)] {
            assert!(!overlay.follow(raise(from, to)), "{from} to {to}");
            assert_eq!(overlay.epoch(1), 3);
        }
        for (from, to) in [(3, 100), (100, 255), (255, 259)] {
            assert!(overlay.follow(raise(from, to)), "{from} to {to}");
            assert_eq!(overlay.epoch(1), to);
        }
    }

    #[test]
    fn what_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for text in [
            "degrade",
            "degrade false",
            "epoch 1",
            "epoch 1 1125899906842625",
            "epoch x 1",
            "epoch 4294967296 1",
            "epoch 1 0",
            "epoch 1 1\nepoch 1 2",
            "\n",
            " degrade true",
            "lifts 1",
            "lifts 1 0",
            "lifts 1 65536",
            "lifts 1 1 0",
            "lifts 1 1 x",
            "lifts 1 1 1 1",
            "lifts x 1",
            "lifts 1 1\nlifts 1 2",
            "moving ",
            "moving A",
            "moving a b",
            "moving a\nmoving a lossy",
            "former 1",
            "former 1 0001 0002",
        ] {
            fs::write(dir.path().join(NAME), text).unwrap();
            let error = Overlay::read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("overlay:") && error.contains("expected `degrade"), "{error}");
        }
        fs::create_dir(dir.path().join("d")).unwrap();
        assert!(Overlay::default().write(&dir.path().join("none")).is_err());
    }
}
