//! An item of a request: a business, a key, a count.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use frs_conf::key::MAX_KEY_BYTES;
use frs_engine::{CallRate, Extras, Grant, ItemOptions, Request};

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
/// let with_its_limit = Item::new("adhoc", "laoqian|reply").rate("5/60s");
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "an item does nothing until a client runs it"]
pub struct Item<'a> {
    biz: Biz<'a>,
    key: Key<'a>,
    count: i64,
    force: bool,
    detail: bool,
    only_known: bool,
    extras: Extras<&'a str>,
    numbers: Option<Numbers>,
}

/// A rate in numbers, and its burst.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    rate: CallRate,
    burst: u64,
}

impl<'a> Item<'a> {
    /// One use of a business by a key.
    #[inline]
    pub fn new(biz: impl Into<Biz<'a>>, key: impl Into<Key<'a>>) -> Item<'a> {
        let (biz, key) = (biz.into(), key.into());
        let extras = Extras::NONE;
        Item {
            biz,
            key,
            count: 1,
            force: false,
            detail: false,
            only_known: false,
            extras,
            numbers: None,
        }
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

    /// Sets the limits of this call, for limits with `per-call` in map.xml: `5/s`, `5/90s` or
    /// `1000/month`. Several rates stand in the order of the limits, as in `5/1m 100/1h`. Without
    /// such a limit, beyond its bounds, or with more than 1024 bytes, the item gets the error
    /// `bad-rate`.
    #[inline]
    pub fn rate(self, rate: &'a str) -> Item<'a> {
        Item { extras: Extras { rate: Some(rate), ..self.extras }, ..self }
    }

    /// As [`Item::rate`] with [`Item::burst`], for programs that have numbers: `uses` in each
    /// `period`, which need not be whole milliseconds, and `burst` of them at once. Beside `rate`,
    /// `burst` or `max` the item gets the error `bad-rate`.
    #[inline]
    pub fn rate_of(self, uses: u64, period: Duration, burst: u64) -> Item<'a> {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let rate = CallRate::per(uses, period_ns);
        Item { numbers: Some(Numbers { rate, burst }), ..self }
    }

    /// Sets the burst of the rate, for a `token` or `gcra`. Without it, the burst is the number of
    /// the rate.
    #[inline]
    pub fn burst(self, burst: u64) -> Item<'a> {
        Item { extras: Extras { burst: Some(Some(burst)), ..self.extras }, ..self }
    }

    /// Sets the maximum of this call for the limit with `per-call` in map.xml. Its window stays.
    /// Beside [`Item::rate`], or if several limits have `per-call`, the item gets the error
    /// `bad-rate`.
    #[inline]
    pub fn max(self, max: u64) -> Item<'a> {
        Item { extras: Extras { max: Some(Some(max)), ..self.extras }, ..self }
    }

    /// Charges as many of the uses as every limit admits.
    /// [`Verdict::granted`](crate::Verdict::granted) says how many, and the item is limited only if
    /// there are none. In an atomic batch, beside `force` or `hold`, with a count below 1, or of a
    /// business with a `distinct` or `concurrent` limit, the item gets the error `bad-count`.
    #[inline]
    pub fn partial(self) -> Item<'a> {
        Item { extras: Extras { partial: true, ..self.extras }, ..self }
    }

    /// Sets an id of 1 to 64 bytes, under which an Update is charged once, however often it runs.
    /// If the business has no `once` in map.xml, the item gets the error `bad-once`. An atomic
    /// batch has [`Batch::once`](crate::Batch::once) instead.
    #[inline]
    pub fn once(self, id: &'a str) -> Item<'a> {
        Item { extras: Extras { once: Some(id), ..self.extras }, ..self }
    }

    /// Sets the hold, an id of 1 to 64 bytes: the count is what it shall hold from now on. The
    /// business needs a `concurrent` limit or `holds` in map.xml, or the item gets the error
    /// `bad-hold`.
    #[inline]
    pub fn hold(self, id: &'a str) -> Item<'a> {
        Item { extras: Extras { hold: Some(id), ..self.extras }, ..self }
    }

    /// Sets how long the hold lives if no Update renews it, in whole milliseconds: at most
    /// `hold-ttl` of the business, which is the default.
    #[inline]
    pub fn ttl(self, ttl: Duration) -> Item<'a> {
        let ttl_ms = u64::try_from(ttl.as_millis()).ok();
        Item { extras: Extras { ttl_ms: Some(ttl_ms), ..self.extras }, ..self }
    }

    /// Ends the hold: the count is its true cost, and 0 cancels it.
    #[inline]
    pub fn settle(self) -> Item<'a> {
        Item { extras: Extras { settle: true, ..self.extras }, ..self }
    }

    /// Settles the hold only if the record knows it. To settle another one is `forbidden`, and
    /// charges nothing. For programs that ask for others, who may not charge what they like.
    #[inline]
    pub fn only_known(self) -> Item<'a> {
        Item { only_known: true, ..self }
    }

    /// Sets the member, of 1 to 1024 bytes: the user or device that limits of the policy `distinct`
    /// note. A business without such a limit ignores the member. If a business has such a limit, an
    /// Update without a member gets the error `bad-member`.
    #[inline]
    pub fn member(self, member: &'a str) -> Item<'a> {
        Item { extras: Extras { member: Some(member), ..self.extras }, ..self }
    }

    /// Adds the item to a request.
    #[inline]
    pub(super) fn push_to(&self, request: &mut Request) {
        let count = i32::try_from(self.count).ok();
        let Item { force, detail, .. } = *self;
        let options = ItemOptions { count, force, detail };
        match (self.biz.0, self.key.0) {
            (Text::Plain(biz), Text::Plain(key)) if biz.len().max(key.len()) <= TEXT_BYTES => {
                request.push(biz, key, options);
            }
            (biz, key) => {
                let (mut room, mut key_room) = (Room::new(), Room::new());
                request.push(biz.write(&mut room), key.write(&mut key_room), options);
            }
        }
        if self.extras.is_any() {
            // A part of a long rate may be another rate. An empty one is none, as the whole is.
            let rate = self.extras.rate.map(|rate| if rate.len() < TEXT_BYTES { rate } else { "" });
            request.bring(Extras { rate, ..self.extras }.map(shortened));
        }
        if let Some(Numbers { rate, burst }) = self.numbers {
            request.bring_rate(rate, burst);
        }
        if self.only_known {
            request.set_grant(request.items().len() - 1, Grant::KnownHolds);
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

/// The text. If it is too long for a name, a key, a member or an id, a part of it that is still too
/// long.
pub(super) fn shortened(text: &str) -> &str {
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
    use frs_engine::{CallNumbers, Command};

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

    /// What an item brings besides its options, as text.
    fn brought(item: Item<'_>) -> (String, Option<String>) {
        let mut request = Request::default();
        request.begin(Command::Update);
        item.push_to(&mut request);
        let [item] = request.items() else { panic!("one item") };
        let numbers = request.numbers(item).map(|numbers| format!("{numbers:?}"));
        (format!("{:?}", request.extras(item)), numbers)
    }

    #[test]
    fn each_option_reaches_the_request() {
        let item = Item::new("login", "alice");
        let none = Extras::NONE;
        for (item, extras) in [
            (item, none),
            (item.partial(), Extras { partial: true, ..none }),
            (item.member("phone"), Extras { member: Some("phone"), ..none }),
            (item.once("b7c1"), Extras { once: Some("b7c1"), ..none }),
            (
                item.hold("req-17").ttl(Duration::from_micros(9_999)).settle(),
                Extras { hold: Some("req-17"), ttl_ms: Some(Some(9)), settle: true, ..none },
            ),
            (item.ttl(Duration::MAX), Extras { ttl_ms: Some(None), ..none }),
        ] {
            assert_eq!(brought(item).0, format!("{extras:?}"));
        }
        let (long, empty) = ("i".repeat(2000), String::new());
        let (extras, _) = brought(item.once(&long).hold(&empty));
        let extras_of = |once| Extras { once: Some(once), hold: Some(""), ..none };
        assert_eq!(extras, format!("{:?}", extras_of(&long[..1025])));
    }

    #[test]
    fn a_rate_is_text_or_numbers_and_not_both() {
        let item = Item::new("login", "alice");
        let said = |numbers: CallNumbers<'_>| Some(format!("{numbers:?}"));
        let rates = &[CallRate::per(5, 90_000_000_000)];
        let text = brought(item.rate("5/90s")).1;
        assert_eq!(text, said(CallNumbers::Rates { rates, burst: None }));
        let numbers = Item::rate_of(item, 5, Duration::from_secs(90), 9);
        let both = said(CallNumbers::Rates { rates, burst: Some(9) });
        assert_eq!(
            [brought(item.rate("5/90s").burst(9)).1, brought(numbers).1],
            [both.clone(), both]
        );
        // The other options stay.
        assert!(brought(numbers.once("b7c1")).0.contains("b7c1"));
        let padded = format!("5/90s{}", " ".repeat(2000));
        for bad in [
            numbers.rate("5/90s"),
            numbers.burst(9),
            numbers.max(9),
            item.rate("5/90s").max(9),
            item.rate(&padded),
        ] {
            assert_eq!(brought(bad).1, said(CallNumbers::Bad), "{bad:?}");
        }
        assert_eq!(brought(item.max(0)).1, said(CallNumbers::Max(0)));
        assert_eq!(brought(item.burst(7)).1, said(CallNumbers::Bad));
        assert_eq!(brought(item).1, None);
    }
}
