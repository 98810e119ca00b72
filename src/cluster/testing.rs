//! Hosts of a cluster, for the tests of this crate and of those above.

pub mod host;

use frs_engine::testing::World;

use crate::PLUG;

/// A prepared data directory of a host: its bizs may be shared.
pub fn shared(map: &str) -> World {
    World::shared(map, PLUG)
}

/// A prepared data directory without a cluster. A later configuration may have one.
pub fn plain(map: &str) -> World {
    World::new(map).plugged(PLUG)
}
