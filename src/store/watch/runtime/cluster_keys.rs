//! The cluster's keys in runtime.mmap: the parts of the secret that all processes of a host must
//! know.
//!
//! Invariant: only the master reads the secret's file, and it stores these words before it
//! publishes a configuration with a cluster. They outlive a boot. Words that fail their CRC are not
//! used: with wrong keys this host would give keys other names than all other machines.

use frs_conf::ClusterKeys;

use super::Runtime;
use crate::file::layout::runtime as at;
use crate::file::words::header_crc;

impl Runtime {
    /// The keys of the cluster. None if no configuration with a cluster was published, or if the
    /// words are damaged.
    pub fn cluster_keys(&self) -> Option<ClusterKeys> {
        let [check, first, second, crc] =
            std::array::from_fn(|nth| self.region.load(at::CLUSTER_KEYS + nth));
        // Words that were never written are all 0.
        let is_whole = crc != 0 && crc == crc_of([check, first, second]);
        is_whole.then_some(ClusterKeys { check, key_seed: [first, second] })
    }

    /// Stores the keys of the cluster. Only the master calls it.
    pub fn set_cluster_keys(&self, keys: ClusterKeys) {
        let ClusterKeys { check, key_seed: [first, second] } = keys;
        let words = [check, first, second];
        for (nth, word) in words.into_iter().chain([crc_of(words)]).enumerate() {
            self.region.store(at::CLUSTER_KEYS + nth, word);
        }
    }

    /// Changes the words, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn damage_cluster_keys(&self) {
        self.region.store(at::CLUSTER_KEYS, self.region.load(at::CLUSTER_KEYS) ^ 1);
    }
}

/// Never 0.
fn crc_of(words: [u64; 3]) -> u64 {
    header_crc(&words) | 1 << 63
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_stored_and_damage_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        assert_eq!(runtime.cluster_keys(), None, "none were stored");
        for keys in [
            ClusterKeys { check: 1, key_seed: [2, 3] },
            ClusterKeys { check: 0, key_seed: [0, 0] },
            ClusterKeys { check: u64::MAX, key_seed: [7, u64::MAX] },
        ] {
            runtime.set_cluster_keys(keys);
            let again = Runtime::open(dir.path()).expect("opened");
            assert_eq!(again.cluster_keys(), Some(keys));
            for word in at::CLUSTER_KEYS..at::CLUSTER_KEYS + at::CLUSTER_KEYS_WORDS {
                let whole = runtime.region.load(word);
                runtime.region.store(word, whole ^ 1 << 40);
                assert_eq!(runtime.cluster_keys(), None, "word {word}");
                runtime.region.store(word, whole);
            }
        }
    }

    #[test]
    fn keys_outlive_a_boot() {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        let keys = ClusterKeys { check: 1, key_seed: [2, 3] };
        runtime.set_cluster_keys(keys);
        let mut header: Vec<u64> = (0..at::CRC).map(|word| runtime.region.load(word)).collect();
        header[at::BOOT] ^= 1;
        runtime.region.store(at::BOOT, header[at::BOOT]);
        runtime.region.store(at::CRC, header_crc(&header));
        let of_this_boot = Runtime::create_or_open(dir.path()).expect("made again");
        assert_ne!(of_this_boot.boot(), runtime.boot());
        assert_eq!(of_this_boot.cluster_keys(), Some(keys));
    }
}
