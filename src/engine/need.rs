//! A need: what one item lacks, as its process asks for it and waits for the reply.
//!
//! Invariant: a need is read back from its letter as it was written. A letter of an unknown kind is
//! no need.

use frs_conf::key::{KeyRef, MAX_KEY_WORDS};
use frs_store::layout::slot::LETTER_TAIL_WORDS;
use frs_store::{Letter, Reply};

use crate::StoredKey;

const _: () = assert!(LETTER_TAIL_WORDS == MAX_KEY_WORDS);

/// The kinds of needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NeedKind {
    /// Reads the count of all machines.
    Query = 1,
    /// Charges uses.
    Update = 2,
    /// Fetches the record of the key that is kept elsewhere.
    Fetch = 3,
    /// Finds out the present window, and gives uses back in it.
    Window = 4,
}

impl NeedKind {
    const fn of_number(number: u8) -> Option<NeedKind> {
        Some(match number {
            1 => NeedKind::Query,
            2 => NeedKind::Update,
            3 => NeedKind::Fetch,
            4 => NeedKind::Window,
            _ => return None,
        })
    }
}

/// What one item lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Its kind.
    pub kind: NeedKind,
    /// Biz id, length and form of the key: word 1 of its node.
    pub key_word: u64,
    /// The key field of its node, zero beyond the key.
    pub field: [u64; MAX_KEY_WORDS],
    /// The configuration that the item was resolved with.
    pub generation: u64,
    /// Uses that it lacks.
    pub uses: u64,
    /// The time when the wait for it ends, in milliseconds of CLOCK_BOOTTIME.
    pub deadline_ms: u64,
    /// The atomic request that it is a part of.
    pub request: Option<NeededTogether>,
}

/// An atomic request: all of its needs are for one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeededTogether {
    /// Its number in its slot, below 2^48.
    pub number: u64,
    /// How many needs it has, at least 1.
    pub needs: u16,
}

impl NeededTogether {
    /// Bits of a number.
    const NUMBER_BITS: u32 = 48;

    fn word(request: Option<NeededTogether>) -> u64 {
        request.map_or(0, |request| request.number | u64::from(request.needs) << Self::NUMBER_BITS)
    }

    fn of_word(word: u64) -> Option<NeededTogether> {
        let needs = (word >> Self::NUMBER_BITS) as u16;
        let number = word & ((1 << Self::NUMBER_BITS) - 1);
        (needs > 0).then_some(NeededTogether { number, needs })
    }
}

/// How the wait for a need ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NeedEnd {
    /// The node holds the answer, so the item runs again.
    Answered = 1,
    /// The cluster cannot be reached: `on-down` decides.
    Unreachable = 2,
    /// The need cannot be served, for example because its letter is damaged or of another
    /// configuration. The item runs again, and asks again if it still lacks something.
    Unserved = Reply::UNREADABLE.number(),
    /// A stray write has taken the letter. Treated as [`NeedEnd::Unserved`], and never a reply.
    Lost = Reply::LOST.number(),
    /// The item's node finds no room in its chain.
    Full = 5,
}

impl NeedEnd {
    /// What a reply says.
    pub fn of_reply(reply: Reply) -> NeedEnd {
        match reply.number() {
            1 => NeedEnd::Answered,
            2 => NeedEnd::Unreachable,
            5 => NeedEnd::Full,
            _ if reply == Reply::UNREADABLE => NeedEnd::Unserved,
            _ => NeedEnd::Lost,
        }
    }

    /// The reply that says so. A reader of needs cannot lose them: it replies `Unserved` then.
    pub fn reply(self) -> Reply {
        Reply::of_number(self as u8).unwrap_or(Reply::UNREADABLE)
    }
}

impl Need {
    /// A need of a key of a biz: one use, by configuration 0, with no time to wait.
    pub fn of_key(kind: NeedKind, biz_id: u32, key: KeyRef<'_>) -> Need {
        let StoredKey { key_word, field } = StoredKey::of_key(biz_id, key);
        Need { kind, key_word, field, generation: 0, uses: 1, deadline_ms: 0, request: None }
    }

    /// Its key.
    pub fn stored_key(&self) -> StoredKey {
        StoredKey { key_word: self.key_word, field: self.field }
    }

    /// Its letter.
    pub fn letter(&self) -> Letter {
        let Need { kind, key_word, field, generation, uses, deadline_ms, request } = *self;
        let request = NeededTogether::word(request);
        let head = [key_word, generation, uses, deadline_ms, request];
        Letter { kind: kind as u8, head, tail: field }
    }

    /// The need in a letter. None if its kind is unknown.
    pub fn of_letter(letter: &Letter) -> Option<Need> {
        let [key_word, generation, uses, deadline_ms, request] = letter.head;
        Some(Need {
            kind: NeedKind::of_number(letter.kind)?,
            key_word,
            field: letter.tail,
            generation,
            uses,
            deadline_ms,
            request: NeededTogether::of_word(request),
        })
    }
}

#[cfg(test)]
mod tests {
    use frs_conf::key::KeyForm;
    use frs_store::layout::node;
    use frs_store::{LetterQueue, OwnerBell};
    use proptest::prelude::*;

    use super::*;
    use crate::Role;
    use crate::testing::World;

    proptest! {
        #[test]
        fn a_need_is_read_as_it_was_written(
            kind in 0..=255u8, words: [u64; 3], number in 0..1u64 << 48, needs: u16, key: u64,
            key_words in proptest::collection::vec(any::<u64>(), 0..=MAX_KEY_WORDS),
        ) {
            let [generation, uses, deadline_ms] = words;
            let request = (needs > 0).then_some(NeededTogether { number, needs });
            let (key_word, field) = stored(key as u32, (key >> 32) as u8, &key_words);
            let written = NeedKind::of_number(kind)
                .map(|kind| Need { kind, key_word, field, generation, uses, deadline_ms, request });
            let letter = written.map(|need| need.letter());
            prop_assert_eq!(letter.and_then(|letter| Need::of_letter(&letter)), written);
            let unknown = Letter { kind, head: [0; 5], tail: field };
            prop_assert_eq!(Need::of_letter(&unknown).is_some(), written.is_some());
        }
    }

    /// The key word and the key field of a key of these words.
    fn stored(biz_id: u32, form: u8, words: &[u64]) -> (u64, [u64; MAX_KEY_WORDS]) {
        let mut field = [0; MAX_KEY_WORDS];
        field[..words.len()].copy_from_slice(words);
        (node::key_word(biz_id, form, 8 * words.len() as u16), field)
    }

    #[test]
    fn a_need_of_a_key_of_any_length_comes_through_a_ring() {
        let world = World::new(
            "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>",
        );
        let mut owner = world.handle(Role::Program as u32);
        owner.open_mailbox(OwnerBell::Futex).expect("a ring");
        let (mut queue, runtime) = (LetterQueue::default(), world.runtime());
        for words in 0..=MAX_KEY_WORDS {
            let form = if words == 0 { KeyForm::Biz } else { KeyForm::Text } as u8;
            let (key_word, field) = stored(7, form, &vec![u64::MAX - words as u64; words]);
            let key = KeyRef::from_stored(&field, node::key_bytes(key_word), form).expect("a key");
            let need = Need::of_key(NeedKind::Fetch, 7, key);
            assert_eq!((need.key_word, need.field), (key_word, field));
            let mailbox = owner.mailbox().expect("open");
            let ticket = mailbox.push(&need.letter()).expect("room");
            let taken = queue.take_next(runtime.slot(owner.slot_number())).expect("a letter");
            assert_eq!(Need::of_letter(&taken.letter), Some(need), "{words} words");
            assert_eq!(mailbox.give_up(ticket), None);
        }
    }

    #[test]
    fn every_reply_is_an_end_and_every_end_but_a_loss_a_reply() {
        use NeedEnd::{Answered, Full, Lost, Unreachable, Unserved};
        for end in [Answered, Unreachable, Unserved, Full] {
            assert_eq!(NeedEnd::of_reply(end.reply()), end);
        }
        assert_eq!(NeedEnd::of_reply(Lost.reply()), Unserved);
        assert_eq!(NeedEnd::of_reply(Reply::LOST), Lost);
        let unknown = Reply::of_number(7).expect("a reply");
        assert_eq!(NeedEnd::of_reply(unknown), Lost);
    }
}
