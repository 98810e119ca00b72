//! Query and Update: biz, key, transaction, limits, verdicts.
//!
//! A [`Request`] holds what a face parsed, [`Answers`] what it has to write; both are reused, so
//! that the steady state allocates nothing.

mod edit_record;
mod execute;
mod outcome;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::clock::{self, Millis};
use crate::base::scan::Short;
use crate::conf::{Conf, active};
use crate::store::counter::ITEM_ERRORS;
use crate::store::{
    Error, Handle, Places, ROLE_PROGRAM, Runtime, SlotRequest, Sweep, TransactionBuffers, live_dir,
};
use execute::RequestBuffers;
use table::Table;

/// What is asked of the items of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Ask, change nothing.
    Query,
    /// Charge.
    Update,
}

/// The same of both names of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemNames<T> {
    /// Of the biz.
    pub biz: T,
    /// Of the key.
    pub key: T,
}

/// What an item asks beside its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemOptions {
    /// How much. An item that names no count has 1. `None` is for text that is no count, and is
    /// answered `bad-count`.
    pub count: Option<i32>,
    /// Charge whatever the limits say.
    pub force: bool,
    /// Answer every limit's figures.
    pub detail: bool,
}

impl ItemOptions {
    /// One use and nothing else, as where nothing is said.
    pub const ONE: ItemOptions = ItemOptions::of(1);

    /// As [`ItemOptions::ONE`], where what was sent is no count.
    pub const NO_COUNT: ItemOptions = ItemOptions { count: None, force: false, detail: false };

    /// This many uses and nothing else.
    pub const fn of(count: i32) -> ItemOptions {
        ItemOptions { count: Some(count), force: false, detail: false }
    }

    /// The same, charged whatever the limits say.
    pub const fn forced(self) -> ItemOptions {
        ItemOptions { force: true, ..self }
    }

    /// The same, with every limit's figures in the answer.
    pub const fn detailed(self) -> ItemOptions {
        ItemOptions { detail: true, ..self }
    }
}

/// Where a name stands in the text of a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextSpan {
    start: u32,
    end: u32,
}

impl TextSpan {
    #[inline(always)]
    fn of(part: Range<usize>) -> TextSpan {
        TextSpan { start: part.start as u32, end: part.end as u32 }
    }

    #[inline(always)]
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One item, its text held by the [`Request`] it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    biz: TextSpan,
    key: TextSpan,
    /// How much. An item that names no count has 1. `None` is for text that is no count, and is
    /// answered `bad-count`.
    pub count: Option<i32>,
    /// Charge whatever the limits say.
    pub force: bool,
    /// Answer every limit's figures.
    pub detail: bool,
    /// The biz was asked as a JSON number, and is echoed as one.
    pub biz_is_number: bool,
    /// The key was asked as a JSON number, and is echoed as one.
    pub key_is_number: bool,
}

/// A parsed request of one or more items.
#[derive(Debug, Clone)]
pub struct Request {
    /// Query or Update.
    pub command: Command,
    /// All items or none.
    pub atomic: bool,
    /// Its reader has seen that an XML document can hold all names as they are; false where nobody
    /// has looked.
    pub is_plain: bool,
    text: String,
    items: Vec<Item>,
}

impl Default for Request {
    fn default() -> Self {
        let (text, items) = (String::new(), Vec::new());
        Request { command: Command::Query, atomic: false, is_plain: false, text, items }
    }
}

impl Request {
    /// Empties it for the next request, keeping its buffers.
    #[inline]
    pub fn begin(&mut self, command: Command) {
        self.command = command;
        (self.atomic, self.is_plain) = (false, false);
        self.text.clear();
        self.items.clear();
    }

    /// Adds an item; `biz` and `key` as asked, already decoded. The count of an item that names
    /// none is `Some(1)`; `None` says that what was sent is no count, and is answered `bad-count`.
    #[inline]
    pub fn push(&mut self, biz: &str, key: &str, options: ItemOptions) {
        let biz = self.add_text(biz);
        let key = self.add_text(key);
        self.push_parts(ItemNames { biz, key }, options);
    }

    /// Adds text; where it stands. A face that adds a document as a whole copies no name of it
    /// again.
    #[inline]
    pub fn add_text(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// Adds an item, whose names are parts of the text that was added.
    #[inline(always)]
    pub fn push_parts(&mut self, names: ItemNames<Range<usize>>, options: ItemOptions) {
        let (biz, key) = (TextSpan::of(names.biz), TextSpan::of(names.key));
        let ItemOptions { count, force, detail } = options;
        let (biz_is_number, key_is_number) = (false, false);
        self.items.push(Item { biz, key, count, force, detail, biz_is_number, key_is_number });
    }

    /// Notes which names of the item added last were JSON numbers.
    pub fn note_numbers(&mut self, are_numbers: ItemNames<bool>) {
        if let Some(item) = self.items.last_mut() {
            (item.biz_is_number, item.key_is_number) = (are_numbers.biz, are_numbers.key);
        }
    }

    /// The items in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Has it one item, which is its own transaction.
    fn is_single(&self) -> bool {
        self.items.len() == 1 && !self.atomic
    }

    /// The biz as asked: an id or a name.
    pub fn biz(&self, item: &Item) -> &str {
        &self.text[item.biz.range()]
    }

    /// The key as asked.
    pub fn key(&self, item: &Item) -> &str {
        &self.text[item.key.range()]
    }

    /// The bytes of biz and key as asked.
    #[inline]
    pub(crate) fn bytes(&self, item: &Item) -> ItemNames<&[u8]> {
        let text = self.text.as_bytes();
        ItemNames { biz: &text[item.biz.range()], key: &text[item.key.range()] }
    }

    /// Biz and key for copying as they are, if both are short.
    #[inline(always)]
    pub fn short_names(&self, item: &Item) -> Option<ItemNames<Short<'_>>> {
        let text = self.text.as_bytes();
        let of = |span: TextSpan| Short::of(text, span.range());
        Some(ItemNames { biz: of(item.biz)?, key: of(item.key)? })
    }
}

/// Why an item could not be judged; it has charged nothing. In order of precedence, by which the
/// store counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.word())]
pub enum ItemError {
    /// `unknown-biz`: map.xml names no such business.
    UnknownBiz = 0,
    /// `bad-key`: the text is empty, too long, or no key of the business's type.
    BadKey = 1,
    /// `bad-count`: the count is out of range.
    BadCount = 2,
    /// `store`: the group's files failed, or the configuration in force cannot be taken.
    Store = 3,
    /// `busy`: another process held the key's semaphore for the whole lock-timeout.
    Busy = 4,
    /// `full`: the group has no room for another key.
    Full = 5,
}

impl ItemError {
    /// All of them, in the order of their numbers.
    #[doc(hidden)]
    pub const ALL: [ItemError; ITEM_ERRORS] = [
        ItemError::UnknownBiz,
        ItemError::BadKey,
        ItemError::BadCount,
        ItemError::Store,
        ItemError::Busy,
        ItemError::Full,
    ];

    /// The word for it, as the server's clients read it.
    #[inline]
    pub const fn word(self) -> &'static str {
        match self {
            ItemError::UnknownBiz => "unknown-biz",
            ItemError::BadKey => "bad-key",
            ItemError::BadCount => "bad-count",
            ItemError::Store => "store",
            ItemError::Busy => "busy",
            ItemError::Full => "full",
        }
    }
}

pub use edit_record::{Clearing, RecordError, RecordName};
pub use outcome::Outcome;
pub use table::Seen;

pub use crate::limit::{Figures, LimitFigures, List, Verdict};

/// The answer on one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Index of the biz in the map, where it is known.
    pub biz: Option<usize>,
    /// The verdict, or why there is none.
    pub result: Result<Verdict, ItemError>,
    /// Which of [`Answers::details`] are this item's (empty unless asked for).
    pub details: std::ops::Range<usize>,
    /// Its action is the one before this position of [`Answers::actions`]; 0: it has none.
    pub action: usize,
}

/// The answers to a request, one for each item in order.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// An atomic request was refused: nothing was charged.
    pub refused: bool,
    /// One for each item.
    pub items: Vec<Answer>,
    /// Figures of each limit, of the items that asked for detail.
    pub details: Vec<LimitFigures>,
    /// Words of advice, of the items that carry one.
    pub actions: Vec<Arc<str>>,
}

impl Answers {
    /// Empties them for the next request, keeping their buffers.
    pub fn clear(&mut self) {
        self.refused = false;
        self.items.clear();
        self.details.clear();
        self.actions.clear();
    }

    /// The word of advice that an answer carries.
    pub fn action(&self, answer: &Answer) -> Option<&str> {
        self.actions.get(answer.action.checked_sub(1)?).map(|word| &**word)
    }
}

/// A request and room for its answers.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// What is asked.
    pub request: Request,
    /// What is answered.
    pub answers: Answers,
}

/// What attaches; stands in its slot, for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Role {
    Worker = 1,
    Keeper = 2,
    /// A local program using the library.
    Program = 3,
    /// The admin plane, a thread of the keeper's process.
    Admin = 4,
}

const _: () = assert!(Role::Program as u32 == ROLE_PROGRAM);

/// One attachment to a data directory: the store and the configuration in force.
///
/// One thread's, and dead in a forked child.
#[derive(Debug)]
pub struct Service {
    handle: Handle,
    data_dir: PathBuf,
    conf: Arc<Conf>,
    generation: u64,
    failed: Option<FailedTake>,
    table: Table,
    scratch: RequestBuffers,
    buffers: TransactionBuffers,
}

/// A generation that could not be taken, and when that was.
#[derive(Debug, Clone, Copy)]
struct FailedTake {
    generation: u64,
    at: Instant,
}

/// Between two attempts to take a configuration that could not be taken.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// A damaged word, or a lost file, of the configuration in force is put right within half of this.
const SETTLED: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl Service {
    /// Attaches to a data directory that a running server has prepared, by the server's user.
    /// As many programs can be attached at once as `max-programs` of srv.xml says.
    ///
    /// # Errors
    /// If there is no server's data, its files are damaged, or all places are taken.
    pub fn attach(data_dir: &Path, role: Role) -> Result<Service, Error> {
        let generation = settled_generation(&Runtime::open(data_dir)?, data_dir);
        let conf = read_active(data_dir, generation)?;
        let places = &Places::of(&conf.srv);
        let request = SlotRequest { role: role as u32, places };
        let mut handle = Handle::attach_at(data_dir, live_dir(&conf), request)?;
        let lock_timeout = Duration::from_millis(conf.srv.http.lock_timeout_ms);
        handle.take_groups(&conf.map.groups, generation, lock_timeout)?;
        if conf.srv.data.prefault {
            // Not by a program: a huge page is charged to the control group of who asks for it.
            while role != Role::Program && handle.ask_for_huge_pages() {}
            handle.prefault()?;
        }
        Ok(Service::over(handle, data_dir, conf, generation))
    }

    /// The service over a handle that has taken the groups of this configuration.
    fn over(handle: Handle, data_dir: &Path, conf: Conf, generation: u64) -> Service {
        Service {
            table: Table::new(&conf, &handle),
            handle,
            data_dir: data_dir.to_path_buf(),
            conf: Arc::new(conf),
            generation,
            failed: None,
            scratch: RequestBuffers::default(),
            buffers: TransactionBuffers::default(),
        }
    }

    /// The configuration in force for this handle.
    pub fn conf(&self) -> &Arc<Conf> {
        &self.conf
    }

    /// Its generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The attachment itself.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Starts a tick: all its waits for semaphores share one lock-timeout. Takes a newer
    /// configuration first, if there is one, and acknowledges it: then true.
    #[inline]
    pub fn begin_tick(&mut self) -> bool {
        let taken = self.handle.runtime().generation() != self.generation && self.take_newer();
        self.handle.begin_tick();
        taken
    }

    /// Takes the configuration in force; on a failure the one it has stays, and it is tried again a
    /// second later.
    #[cold]
    fn take_newer(&mut self) -> bool {
        let generation = self.handle.runtime().generation();
        if generation == 0 {
            // The server has ended cleanly: nothing new will come, and nothing may be written.
            return false;
        }
        let now = clock::instant();
        let tried =
            |failed: FailedTake| failed.generation == generation && now - failed.at < RETRY_EVERY;
        if self.failed.is_some_and(tried) {
            return false;
        }
        if generation < self.generation {
            // None goes back: the word is damaged, and the master puts it right.
            self.failed = Some(FailedTake { generation, at: now });
            let expected = self.generation;
            tracing::error!(found = generation, expected, "the generation in force is damaged");
            return false;
        }
        match self.take(generation) {
            Ok(()) => true,
            Err(error) => {
                self.failed = Some(FailedTake { generation, at: now });
                tracing::error!(generation, %error, "cannot take the new configuration");
                false
            }
        }
    }

    fn take(&mut self, generation: u64) -> Result<(), Error> {
        let conf = read_active(&self.data_dir, generation)?;
        let lock_timeout = Duration::from_millis(conf.srv.http.lock_timeout_ms);
        self.handle.take_groups(&conf.map.groups, generation, lock_timeout)?;
        self.table = Table::new(&conf, &self.handle);
        self.conf = Arc::new(conf);
        self.generation = generation;
        Ok(())
    }

    /// Is another generation in force that could not be taken, so that every item answers `store`.
    pub fn is_behind(&self) -> bool {
        let generation = self.handle.runtime().generation();
        let is_refused = || self.failed.is_some_and(|failed| failed.generation == generation);
        generation != self.generation && (generation == 0 || is_refused())
    }

    /// Nothing is in force any more: the server has given up the runtime.mmap of this attachment. A
    /// new attachment may find another one.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.handle.runtime().generation() == 0
    }

    /// Writes dirty pages of all groups on disk back and waits for it; for the keeper.
    ///
    /// # Errors
    /// The first that a group met; every group was tried.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.handle.flush()
    }

    /// Asks the kernel for huge pages under the next part of the groups in memory (16 MiB or less),
    /// for all processes; false when that was done for all groups once. In a server the keeper does
    /// it. What the kernel refuses stays in small pages, and works as well.
    pub fn ask_for_huge_pages(&mut self) -> bool {
        self.handle.ask_for_huge_pages()
    }

    /// Did the last flush fail: what is answered may not outlive a loss of power.
    pub fn flush_failed(&self) -> bool {
        self.handle.runtime().flush_failed()
    }

    /// Names of the groups of the configuration that are not served: their files failed.
    pub fn unserved_groups(&self) -> Vec<String> {
        let names = self.conf.map.groups.iter().map(|group| group.name.as_str());
        let unserved = names.filter(|name| {
            let index = self.handle.index_of(name);
            index.is_none_or(|index| self.handle.is_group_quarantined(index))
        });
        unserved.map(str::to_owned).collect()
    }

    /// Tells all processes what came of a flush; for the keeper.
    pub fn set_flush_failed(&self, failed: bool) {
        self.handle.runtime().set_flush_failed(failed);
    }

    /// Goes on with a slow look at all nodes, and tells of those of keys that live; true when it
    /// is over. For the keeper.
    pub fn sweep(
        &mut self,
        sweep: &mut Sweep,
        mut each: impl FnMut(&Seen<'_>),
        most: usize,
        now: Millis,
    ) -> bool {
        self.table.set_now(now);
        let table = &self.table;
        let mut live = |group: usize, words: &[u64]| {
            if let Some(seen) = table.seen(group, words, now) {
                each(&seen);
            }
        };
        sweep.step(&self.handle, table, &mut live, most, now)
    }

    /// Recovers every slot whose owner is dead; how many. For the keeper.
    pub fn recover_dead(&mut self) -> usize {
        self.handle.recover_dead()
    }
}

/// The generation in force, once it is the last that was written: while one is being published that
/// is so in a moment, and a word that was damaged is put right by the master within a second. An
/// older one is never begun with instead, unless nobody puts it right.
fn settled_generation(runtime: &Runtime, data_dir: &Path) -> u64 {
    let begun = clock::instant();
    loop {
        let generation = runtime.generation();
        // Who may not look into the directory takes what is said.
        let is_settled = active::latest(data_dir).map_or(true, |last| last == Some(generation));
        if generation == 0 || is_settled || clock::since(begun) >= SETTLED {
            return generation;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn read_active(data_dir: &Path, generation: u64) -> Result<Conf, Error> {
    let failed = |message: String| Error::Configuration { path: data_dir.to_path_buf(), message };
    #[cfg(all(test, not(miri)))]
    if let Some(conf) = tests::simulation::conf_of(generation) {
        return Ok(conf);
    }
    if generation == 0 {
        return Err(Error::Unpublished { path: data_dir.to_path_buf() });
    }
    active::read(data_dir, generation).map_err(|error| failed(error.to_string()))
}
