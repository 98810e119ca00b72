//! Records that are kept outside of their chains, and the filter that tells look-ups of them.

use super::{KeyNodeAt, NodeCopy, NodeIndex, Transaction};
use crate::chain::kept_filter::KeptFilter;

impl<'h> Transaction<'h> {
    /// Whether the key of a node that is not in its chain may have a kept record.
    pub fn may_be_kept(&self, index: NodeIndex) -> bool {
        let NodeCopy { key_node, tag, .. } = self.copies.nodes[index.0];
        self.filter(key_node).may_be_kept(tag)
    }

    /// Like [`Transaction::erase`], for a record that is kept outside: look-ups of its key notice
    /// that by the filter. They do so even if the transaction does not commit, which does no harm.
    pub fn erase_kept(&mut self, index: NodeIndex) {
        let NodeCopy { key_node, tag, .. } = self.copies.nodes[index.0];
        self.filter(key_node).add(tag);
        self.erase(index);
    }

    fn filter(&self, key_node: usize) -> KeptFilter<'h> {
        let KeyNodeAt { intent, group, .. } = self.list()[key_node];
        self.groups()[group].filter(intent.file, intent.key_node)
    }
}
