//! The incarnation: the number by which the ledger knows this host.
//!
//! Invariant: it is never 0 and never `u64::MAX`, and it changes with each of its parts. So
//! leases that a copied file still holds are void, and none is spent twice.
//!
//! The parts are those of runtime.mmap, and the lineages of the groups that hold a shared biz. A
//! lineage changes when a file of its group is replaced, and not when the group moves: so leases
//! move along (`runtime/lineage.rs`). No other group can hold a lease, and a reload that adds one
//! costs no host its leases.

use std::path::Path;

use frs_base::hash::siphash_digest;
use frs_base::sync::Ordering;
use frs_store::{Error, FileFacts, FilePlace, Runtime, io_error};

/// Where the kernel says by how much the clocks of this time namespace are shifted.
const OFFSETS: &str = "/proc/self/timens_offsets";
/// The bit of the word with the salt that says that leases are unproven.
pub const UNPROVEN_BIT: u64 = 1 << 63;
/// The key of the hash: any fixed one mixes well.
const HASH_KEY: [u64; 2] = [u64::from_le_bytes(*b"frs host"), u64::from_le_bytes(*b"incarnat")];

/// The properties of the cluster that are part of an incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterId {
    /// Its name in srv.xml.
    pub name: String,
    /// The check of the secret that is stored in the cluster.
    pub secret_check: u64,
}

/// The parts that an incarnation is made of, in addition to its salt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncarnationParts {
    /// This boot of the machine.
    pub boot: [u64; 2],
    /// runtime.mmap.
    pub runtime: FileFacts,
    /// The lineages of the groups with a shared biz, in any order.
    pub lineages: Vec<u64>,
    /// The cluster.
    pub cluster: ClusterId,
}

impl IncarnationParts {
    /// The incarnation with a salt.
    pub fn incarnation(&self, salt: u64) -> u64 {
        let mut lineages = self.lineages.clone();
        lineages.sort_unstable();
        lineages.dedup();
        let mut bytes = Vec::new();
        let mut add = |words: &[u64]| {
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        };
        add(&[salt, self.boot[0], self.boot[1], self.cluster.secret_check, lineages.len() as u64]);
        let FileFacts { id, place: FilePlace { device, inode, birth_ns } } = self.runtime;
        add(&[id[0], id[1], device, inode, birth_ns]);
        add(&lineages);
        // The name is last, so that its length needs no word.
        bytes.extend(self.cluster.name.as_bytes());
        siphash_digest(&bytes, HASH_KEY)[0].clamp(1, u64::MAX - 1)
    }
}

/// The incarnation of a process's configuration, kept until its salt changes.
#[derive(Debug, Clone)]
pub struct HostIncarnation {
    parts: IncarnationParts,
    /// The salt at the last call of [`HostIncarnation::now`].
    pub salt: u64,
    value: u64,
}

impl HostIncarnation {
    /// The incarnation of this host in a cluster. `is_shared` is whether the group with an id
    /// holds a shared biz. Must be called again for each configuration.
    ///
    /// # Errors
    /// If the clock of leases is shifted here, or runtime.mmap cannot be looked at.
    pub fn of(
        runtime: &Runtime,
        cluster: ClusterId,
        is_shared: impl Fn(u64) -> bool,
    ) -> Result<HostIncarnation, Error> {
        check_boot_clock()?;
        let parts = IncarnationParts {
            boot: runtime.boot(),
            runtime: runtime.file_facts()?,
            lineages: runtime.lineages(is_shared),
            cluster,
        };
        let salt = salt_of(runtime);
        Ok(HostIncarnation { value: parts.incarnation(salt & !UNPROVEN_BIT), salt, parts })
    }

    /// The present incarnation. Costs one relaxed load; called once a batch.
    #[inline]
    pub fn now(&mut self, runtime: &Runtime) -> u64 {
        let salt = salt_of(runtime);
        if salt != self.salt {
            self.value = self.parts.incarnation(salt & !UNPROVEN_BIT);
            self.salt = salt;
        }
        self.value
    }

    /// Whether leases were unproven at the last call of [`HostIncarnation::now`].
    pub fn is_unproven(&self) -> bool {
        self.salt & UNPROVEN_BIT != 0
    }
}

/// The salt of the incarnation, and a bit that says whether leases are unproven.
#[inline]
pub fn salt_of(runtime: &Runtime) -> u64 {
    runtime.extension_word().load(Ordering::Relaxed)
}

/// Refuses a time namespace that shifts CLOCK_BOOTTIME: by that clock leases end for all processes
/// of a data directory.
pub fn check_boot_clock() -> Result<(), Error> {
    let path = Path::new(OFFSETS);
    match std::fs::read_to_string(path) {
        Ok(text) => boot_clock_fault(&text).map_or(Ok(()), |message| {
            Err(Error::Configuration { path: path.to_path_buf(), message })
        }),
        // This kernel has no time namespaces.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error(path, "read the shifts of this time namespace")(error)),
    }
}

/// The fault of the line of CLOCK_BOOTTIME, if it shifts the clock: seconds and nanoseconds are not
/// 0.
fn boot_clock_fault(text: &str) -> Option<String> {
    // Kernels before 5.7 write the clock's number.
    let is_boots = |words: &Vec<&str>| matches!(words.first(), Some(&("boottime" | "7")));
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let shift = lines.find(is_boots)?;
    let is_zero = shift[1..].iter().all(|word| *word == "0");
    (!is_zero).then(|| {
        format!(
            "this time namespace shifts CLOCK_BOOTTIME by {} seconds, and leases of shared limits \
             end by that clock: run all processes of a data directory in the machine's own time \
             namespace",
            shift.get(1).unwrap_or(&"?")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64) -> FileFacts {
        let place = FilePlace { device: number + 1, inode: number + 2, birth_ns: number + 3 };
        FileFacts { id: [number, 7], place }
    }

    fn parts() -> IncarnationParts {
        IncarnationParts {
            boot: [1, 2],
            runtime: file(10),
            lineages: vec![20, 30],
            cluster: ClusterId { name: "prod".into(), secret_check: 3 },
        }
    }

    /// All properties of a file.
    const CHANGES_OF_FILES: [fn(&mut FileFacts); 5] = [
        |file| file.id[0] ^= 1,
        |file| file.id[1] ^= 1,
        |file| file.place.device ^= 1 << 63,
        |file| file.place.inode ^= 1,
        |file| file.place.birth_ns ^= 1,
    ];

    #[test]
    fn any_other_fact_is_another_incarnation() {
        let mut all = vec![parts().incarnation(0), parts().incarnation(1)];
        let mut with = |change: &dyn Fn(&mut IncarnationParts)| {
            let mut changed = parts();
            change(&mut changed);
            all.push(changed.incarnation(0));
        };
        with(&|parts| parts.boot[0] ^= 1);
        with(&|parts| parts.boot[1] ^= 1);
        with(&|parts| parts.cluster.secret_check ^= 1);
        with(&|parts| parts.cluster.name.push('2'));
        with(&|parts| parts.lineages.truncate(1));
        with(&|parts| parts.lineages.push(40));
        with(&|parts| parts.lineages[0] ^= 1);
        with(&|parts| parts.lineages[1] ^= 1 << 63);
        for change in CHANGES_OF_FILES {
            with(&|parts| change(&mut parts.runtime));
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), all.contains(&0)), (count, false));
    }

    #[test]
    fn the_order_of_groups_is_none_of_the_facts() {
        let mut turned = parts();
        turned.lineages.reverse();
        turned.lineages.push(20);
        assert_eq!(turned.incarnation(5), parts().incarnation(5));
    }

    #[test]
    fn a_shifted_clock_of_the_boot_is_a_fault() {
        for text in ["", "monotonic 0 0\nboottime 0 0\n", "monotonic      86400         0\n"] {
            assert_eq!(boot_clock_fault(text), None, "{text}");
        }
        for text in ["monotonic 0 0\nboottime  -5  0\n", "boottime 0 1\n", "boottime"] {
            assert_eq!(boot_clock_fault(text).is_some(), text != "boottime", "{text}");
        }
        let fault = boot_clock_fault("boottime       3600         0").expect("a fault");
        assert!(fault.contains("shifts CLOCK_BOOTTIME by 3600 seconds"), "{fault}");
        check_boot_clock().expect("this machine's own time namespace");
    }
}
