//! An item of a request: a business, a key, a count.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use frs_conf::key::MAX_KEY_BYTES;
use frs_engine::{CallRate, ItemOptions, Request};

/// A business of map.xml, by its name or its id.
///
/// Made from `&str` or `u32`. Text that consists of digits is an id.
#[derive(Debug, Clone, Copy)]
pub struct Biz<'a>(Text<'a>);

/// The user, address or account that is limited.
///
/// Made from `&str`, `u64` (as decimal digits) or [`IpAddr`].
#[derive(Debug, Clone, Copy)]
pub struct Key<'a>(Text<'a>);

#[derive(Debug, Clone, Copy)]
enum Text<'a> {
    Plain(&'a str),
    Number(u64),
    Address(IpAddr),
}

/// One byte more than the longest name or key. Longer text is cut to this length, up to the end of
/// a character.
const TEXT_BYTES: usize = MAX_KEY_BYTES + 1;
/// The longest address, as text, in bytes.
const ADDRESS_BYTES: usize = 48;

/// A use to ask about or to charge: of a business, by a key. The count is 1 by default.
///
/// ```
/// use frs::Item;
///
/// let by_name = Item::new("login", "alice");
/// let by_number = Item::new(1002, 18829340001).count(2).detail();
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "an item does nothing until a client runs it"]
pub struct Item<'a> {
    biz: Biz<'a>,
    key: Key<'a>,
    count: i64,
    force: bool,
    detail: bool,
    rate: Option<CallRate>,
    member: Option<&'a str>,
}

impl<'a> Item<'a> {
    /// One use of a business by a key.
    #[inline]
    pub fn new(biz: impl Into<Biz<'a>>, key: impl Into<Key<'a>>) -> Item<'a> {
        let (biz, key) = (biz.into(), key.into());
        Item { biz, key, count: 1, force: false, detail: false, rate: None, member: None }
    }

    /// Sets the number of uses. A count below 0 gives uses back, 0 charges nothing. A count that
    /// does not fit 32 bits gets the error `bad-count`.
    #[inline]
    pub fn count(self, count: i64) -> Item<'a> {
        Item { count, ..self }
    }

    /// Charges even if a limit is exceeded. The verdict still reports the limit.
    #[inline]
    pub fn force(self) -> Item<'a> {
        Item { force: true, ..self }
    }

    /// Asks for the figures of every limit. [`Verdict::limits`](crate::Verdict::limits) has them.
    #[inline]
    pub fn detail(self) -> Item<'a> {
        Item { detail: true, ..self }
    }

    /// Sets the limit of this call: `number` uses in each `period`, and `burst` of them at once.
    /// Only a limit with `per-call` takes it; without one, or out of its bounds, the item gets the
    /// error `bad-rate`.
    #[inline]
    pub fn rate(self, number: u64, period: Duration, burst: u64) -> Item<'a> {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        Item { rate: Some(CallRate::new(number, period, burst)), ..self }
    }

    /// Sets the member, of 1 to 1024 bytes: the user or device that limits of the policy `distinct`
    /// note. A business without such a limit ignores the member. If a business has such a limit, an
    /// Update without a member gets the error `bad-member`.
    #[inline]
    pub fn member(self, member: &'a str) -> Item<'a> {
        Item { member: Some(member), ..self }
    }

    /// Adds the item to a request.
    #[inline]
    pub(super) fn push_to(&self, request: &mut Request) {
        let count = i32::try_from(self.count).ok();
        let Item { force, detail, rate, .. } = *self;
        let options = ItemOptions { count, force, detail, rate };
        match (self.biz.0, self.key.0) {
            (Text::Plain(biz), Text::Plain(key)) if biz.len().max(key.len()) <= TEXT_BYTES => {
                request.push(biz, key, options);
            }
            (biz, key) => {
                let (mut room, mut key_room) = (Room::new(), Room::new());
                request.push(biz.write(&mut room), key.write(&mut key_room), options);
            }
        }
        if let Some(member) = self.member {
            request.bring_member(shortened(member));
        }
    }
}

/// Buffers for a number or an address as text.
struct Room {
    digits: itoa::Buffer,
    address: [u8; ADDRESS_BYTES],
}

impl Room {
    fn new() -> Room {
        Room { digits: itoa::Buffer::new(), address: [0; ADDRESS_BYTES] }
    }
}

impl<'a> Text<'a> {
    fn write<'r>(self, room: &'r mut Room) -> &'r str
    where
        'a: 'r,
    {
        match self {
            Text::Plain(text) => shortened(text),
            Text::Number(number) => room.digits.format(number),
            Text::Address(address) => {
                let mut rest = &mut room.address[..];
                // Every address fits.
                let _ = write!(rest, "{address}");
                let written = ADDRESS_BYTES - rest.len();
                std::str::from_utf8(&room.address[..written]).unwrap_or_default()
            }
        }
    }
}

/// The text. If it is too long for a name, a key or a member, a part of it that is still too long.
fn shortened(text: &str) -> &str {
    let end = (TEXT_BYTES..text.len()).find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(text.len())]
}

/// Text makes a business or a key.
macro_rules! from_text {
    ($name:ident of $text:ty) => {
        impl<'a> From<&'a $text> for $name<'a> {
            #[inline]
            fn from(text: &'a $text) -> $name<'a> {
                $name(Text::Plain(text))
            }
        }
    };
}

from_text!(Biz of str);
from_text!(Biz of String);
from_text!(Key of str);
from_text!(Key of String);

impl From<u32> for Biz<'_> {
    #[inline]
    fn from(id: u32) -> Self {
        Biz(Text::Number(id.into()))
    }
}

impl From<u64> for Key<'_> {
    #[inline]
    fn from(number: u64) -> Self {
        Key(Text::Number(number))
    }
}

impl From<IpAddr> for Key<'_> {
    #[inline]
    fn from(address: IpAddr) -> Self {
        Key(Text::Address(address))
    }
}

#[cfg(test)]
mod tests {
    use frs_engine::Command;

    use super::*;

    /// An item as the request holds it.
    #[derive(Debug, PartialEq)]
    struct Pushed {
        biz: String,
        key: String,
        options: ItemOptions,
    }

    fn pushed(item: Item<'_>) -> Pushed {
        let mut request = Request::default();
        request.begin(Command::Update);
        item.push_to(&mut request);
        let [item] = request.items() else { panic!("one item") };
        let (biz, key) = (request.biz(item).to_owned(), request.key(item).to_owned());
        Pushed { biz, key, options: request.options(item) }
    }

    fn plain(biz: &str, key: &str) -> Pushed {
        Pushed { biz: biz.to_owned(), key: key.to_owned(), options: ItemOptions::ONE }
    }

    #[test]
    fn names_and_keys_are_text_or_numbers() {
        let (biz, key) = (String::from("login"), String::from("alice"));
        assert_eq!(pushed(Item::new("login", "alice")), plain("login", "alice"));
        assert_eq!(pushed(Item::new(&biz, &key)), plain("login", "alice"));
        assert_eq!(pushed(Item::new(1002, u64::MAX)), plain("1002", "18446744073709551615"));
        let [v4, v6] = ["10.0.0.1", "2001:db8::1"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(pushed(Item::new("api", v4)), plain("api", "10.0.0.1"));
        assert_eq!(pushed(Item::new("api", v6)), plain("api", "2001:db8::1"));
        let longest: IpAddr = "1111:2222:3333:4444:5555:6666:7777:8888".parse().unwrap();
        assert_eq!(pushed(Item::new("api", longest)).key, longest.to_string());
    }

    #[test]
    fn what_is_not_said_is_a_plain_use() {
        let item = Item::new("login", "alice");
        assert_eq!(pushed(item.count(-3)).options.count, Some(-3));
        for (count, said) in [
            (i32::MAX.into(), Some(i32::MAX)),
            (i32::MIN.into(), Some(i32::MIN)),
            (i64::from(i32::MAX) + 1, None),
            (i64::MIN, None),
        ] {
            assert_eq!(pushed(item.count(count)).options.count, said);
        }
        assert!(pushed(item.force()).options.force && pushed(item.detail()).options.detail);
    }

    #[test]
    fn of_a_text_that_is_too_long_no_more_is_copied_than_shows_that() {
        for long in ["k".repeat(1 << 20), "é".repeat(1 << 20), "k".repeat(1025) + "🔑"] {
            let Pushed { biz, key, .. } = pushed(Item::new(&long, &long));
            assert!((1025..1029).contains(&key.len()) && long.starts_with(&key), "{}", key.len());
            assert_eq!(biz, key);
        }
        let longest = "k".repeat(1025);
        assert_eq!(pushed(Item::new("login", &longest)).key, longest);
    }
}
