//! Items by the client that asked, by the names of clients.
//!
//! Invariant: a row names a client for good, so a reload that reorders, renames or removes clients
//! never attributes counts to another name. A client without a row is counted in the row of all
//! others. Without clients nothing is allocated, and nothing is counted.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use frs_base::sync::Ordering;

use super::{Counters, OUTCOMES, at};

/// The most bytes of a client's name.
pub const CLIENT_NAME_BYTES: usize = at::CLIENT_NAME_WORDS * 8;

#[cfg(not(any(loom, miri)))]
const _: () = assert!(at::CLIENT_COUNTS + OUTCOMES == at::CLIENT_REFUSED);

/// The row of a client in the table of clients, as its first word in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRow(NonZeroU32);

impl ClientRow {
    const OTHERS: usize = 0;

    fn of(row: usize) -> ClientRow {
        let word = at::CLIENT_ROWS_START + row * at::CLIENT_ROW_WORDS;
        ClientRow(NonZeroU32::MIN.saturating_add(word as u32 - 1))
    }

    const fn word(self) -> usize {
        self.0.get() as usize
    }
}

/// The key of a row of clients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientKey {
    /// The client of this name.
    Name(String),
    /// Clients beyond the table.
    Others,
}

/// The counts of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientSums {
    /// Items of Queries and Updates, by outcome.
    pub items: [u64; OUTCOMES],
    /// Refused Updates.
    pub refused: u64,
}

type NameWords = [u64; at::CLIENT_NAME_WORDS];

/// The name as words, padded with zeros. A longer name is cut.
fn name_words(name: &str) -> NameWords {
    let mut bytes = [0; CLIENT_NAME_BYTES];
    let len = name.len().min(CLIENT_NAME_BYTES);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    std::array::from_fn(|at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte])))
}

/// The name in these words. `None` for words that hold none.
fn name_of(words: NameWords) -> Option<String> {
    let mut bytes = words.map(u64::to_le_bytes).concat();
    bytes.truncate(bytes.iter().rposition(|&byte| byte != 0)? + 1);
    String::from_utf8(bytes).ok()
}

impl Counters<'_> {
    /// Counts an item of a client. Its outcome is below [`OUTCOMES`].
    #[inline]
    pub fn count_client_item(self, row: ClientRow, outcome: usize) {
        debug_assert!(outcome < OUTCOMES);
        self.grow(row.word() + at::CLIENT_COUNTS + outcome, 1);
    }

    /// Counts a refused Update of a client.
    pub fn count_client_refusal(self, row: ClientRow) {
        self.grow(row.word() + at::CLIENT_REFUSED, 1);
    }

    /// The name of the client that a row counts. `None` for the row of all others.
    pub fn name_of_client(self, row: ClientRow) -> Option<String> {
        name_of(std::array::from_fn(|part| self.load(row.word() + part)))
    }

    /// The rows of clients by their names. A client without a row gets one while any are left.
    /// `allocate` gets a number of rows to allocate, and returns the number of rows that have room.
    /// Without room for any row there are no rows.
    pub(crate) fn client_rows(
        self,
        names: &[&str],
        allocate: impl FnOnce(usize) -> usize,
    ) -> Vec<ClientRow> {
        let known: BTreeMap<NameWords, usize> =
            (1..self.client_rows_used()).map(|row| (self.client_name(row), row)).collect();
        let mut used = self.client_rows_used().max(1);
        let new = names.iter().filter(|name| !known.contains_key(&name_words(name))).count();
        let room = match (used + new).min(at::CLIENT_ROWS) {
            wanted if wanted > self.client_rows_used() => allocate(wanted).min(wanted),
            used => used,
        };
        if room.max(self.client_rows_used()) == 0 {
            return Vec::new();
        }
        let mut row_of = |name: &&str| {
            let name = name_words(name);
            if let Some(&row) = known.get(&name) {
                return ClientRow::of(row);
            }
            if used >= room {
                return ClientRow::of(ClientRow::OTHERS);
            }
            let row = ClientRow::of(used);
            (row.word()..).zip(name).for_each(|(word, part)| self.set(word, part));
            used += 1;
            row
        };
        let rows = names.iter().map(&mut row_of).collect();
        // Release: the names are there before their rows count.
        self.region.store_release(self.base + at::COUNTERS + at::CLIENT_ROWS_USED, used as u64);
        rows
    }

    /// Rows of clients in use: that of all others, then one for each client. 0 before the first
    /// call for rows, because a look at a row would cost a block.
    fn client_rows_used(self) -> usize {
        let used = self.region.word(self.base + at::COUNTERS + at::CLIENT_ROWS_USED);
        (used.load(Ordering::Acquire) as usize).min(at::CLIENT_ROWS)
    }

    fn client_name(self, row: usize) -> NameWords {
        let name = ClientRow::of(row).word();
        std::array::from_fn(|part| self.load(name + part))
    }

    /// Adds the counts of the clients of this slot.
    pub(super) fn add_clients(self, clients: &mut BTreeMap<ClientKey, ClientSums>) {
        for row in 0..self.client_rows_used() {
            let at = ClientRow::of(row);
            let mut items = [0; OUTCOMES];
            self.add_words(at.word() + at::CLIENT_COUNTS, &mut items);
            let key = match row {
                ClientRow::OTHERS if items == [0; OUTCOMES] => continue,
                ClientRow::OTHERS => ClientKey::Others,
                _ => match name_of(self.client_name(row)) {
                    Some(name) => ClientKey::Name(name),
                    None => continue,
                },
            };
            let sums = clients.entry(key).or_default();
            sums.items.iter_mut().zip(items).for_each(|(sum, count)| *sum += count);
            sums.refused += self.load(at.word() + at::CLIENT_REFUSED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let longest = "n".repeat(CLIENT_NAME_BYTES);
        for name in ["a", "anonymous", "x y\"\\", "häßlich", &longest] {
            assert_eq!(name_of(name_words(name)).as_deref(), Some(name));
        }
        assert_eq!(name_of([0; at::CLIENT_NAME_WORDS]), None);
        assert_eq!(name_of([0xff; at::CLIENT_NAME_WORDS]), None);
    }
}
