//! The most refused keys, as the sketches of all slots have counted them.

use frs_base::clock::Millis;
use frs_store::{RefusedCount, Window};

use super::error::Error;
use super::reader::Reader;

/// The most refused keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNodes {
    /// The time from which on refusals are counted.
    pub since_ms: Millis,
    /// The most refused one first.
    pub nodes: Vec<RefusedNode>,
}

/// A key of which Updates were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNode {
    /// The name of its business, or its id if map.xml does not name the business.
    pub biz: String,
    /// The key as text; a key of more than 40 bytes, or of the type `digest`, as a digest.
    pub key: String,
    /// The beginning of a text of more than 40 bytes.
    pub begins: Option<String>,
    /// The number of refusals, at most.
    pub refused: u64,
    /// The most by which `refused` is too high.
    pub error: u64,
    /// The last refusal, in milliseconds.
    pub last_ms: Millis,
}

impl Reader {
    /// The keys of a business, or of all of them, that were refused most. It walks over no group.
    ///
    /// # Errors
    /// There is no such business, or runtime.mmap cannot be read.
    pub fn refused(
        &mut self,
        biz: Option<&str>,
        window: Window,
        most: usize,
        now: Millis,
    ) -> Result<RefusedNodes, Error> {
        let index = biz.map(|biz| self.biz(biz)).transpose()?;
        let id = index.map(|index| self.conf().map.bizs[index].id);
        let runtime = self.runtime().map_err(|error| Error::Runtime(error.to_string()))?;
        let found = runtime.refused_keys(id, window, most, now);
        let nodes = found.keys.iter().filter_map(|found| self.refused_node(found)).collect();
        Ok(RefusedNodes { since_ms: found.since_ms, nodes })
    }

    fn refused_node(&self, found: &RefusedCount) -> Option<RefusedNode> {
        let id = found.key.biz_id();
        let named = self.conf().map.bizs.iter().find(|biz| biz.id == id);
        Some(RefusedNode {
            biz: named.map_or_else(|| id.to_string(), |biz| biz.name.clone()),
            key: found.key.key()?.to_string(),
            begins: found.key.begins(),
            refused: found.refused,
            error: found.error,
            last_ms: found.last_ms,
        })
    }
}
