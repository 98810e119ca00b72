//! `FRS.UPDATE`, `FRS.QUERY`, `FRS.MUPDATE` and `FRS.MQUERY` to a request.
//!
//! Invariant: what an item says is judged by the service, as in every other format: text that is no
//! count, key or business of map.xml is an error of its item.

use super::{Args, CommandError};
use crate::protocol::{Bounds, form};
use frs_engine::{Command, Extras, ItemOptions, Request};

/// Text of an item. What is not UTF-8 becomes empty, which is no business, no key and no member.
#[inline]
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Reads the arguments of `FRS.UPDATE` or `FRS.QUERY` into `request`, which is emptied first.
#[inline]
pub fn read_one<'a>(
    command: Command,
    mut args: Args<'a>,
    request: &mut Request,
) -> Result<(), CommandError<'a>> {
    request.begin(command);
    let (Some(biz), Some(key)) = (args.next(), args.next()) else {
        return Err(CommandError::Syntax(b""));
    };
    let (mut options, mut extras) = (ItemOptions::ONE, Extras::NONE);
    if args.len() > 0 {
        extras = read_options(command, args, &mut options)?;
    }
    request.push(text(biz), text(key), options);
    if extras.is_any() {
        request.bring(extras);
    }
    Ok(())
}

/// Reads the words behind biz and key. Returns the options that few items have.
fn read_options<'a>(
    command: Command,
    mut args: Args<'a>,
    options: &mut ItemOptions,
) -> Result<Extras<&'a str>, CommandError<'a>> {
    let (mut has_count, mut extras) = (false, Extras::NONE);
    while let Some(name) = args.next() {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let mut value = || args.next().map(text).ok_or(CommandError::Syntax(name));
        if is("COUNT") && !has_count {
            options.count = form::count(value()?);
            has_count = true;
        } else if is("MEMBER") && extras.member.is_none() {
            extras.member = Some(value()?);
        } else if is("RATE") && extras.rate.is_none() {
            extras.rate = Some(value()?);
        } else if is("BURST") && extras.burst.is_none() {
            extras.burst = Some(form::number(value()?));
        } else if is("MAX") && extras.max.is_none() {
            extras.max = Some(form::number(value()?));
        } else if is("PARTIAL") && !extras.partial {
            extras.partial = true;
        } else if is("ONCE") && extras.once.is_none() {
            extras.once = Some(value()?);
        } else if is("HOLD") && extras.hold.is_none() {
            extras.hold = Some(value()?);
        } else if is("TTL") && extras.ttl_ms.is_none() {
            extras.ttl_ms = Some(form::number(value()?));
        } else if is("SETTLE") && !extras.settle {
            extras.settle = true;
        } else if is("FORCE") && command == Command::Update && !options.force {
            options.force = true;
        } else if is("DETAIL") && !options.detail {
            options.detail = true;
        } else {
            return Err(CommandError::Syntax(name));
        }
    }
    Ok(extras)
}

/// Reads the arguments of `FRS.MUPDATE` or `FRS.MQUERY` into `request`, which is emptied first.
pub fn read_many<'a>(
    command: Command,
    mut args: Args<'a>,
    bounds: Bounds,
    request: &mut Request,
) -> Result<(), CommandError<'a>> {
    request.begin(command);
    let mut shared = ItemOptions::ONE;
    loop {
        let name = args.next().ok_or(CommandError::Items)?;
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        if is("ITEMS") {
            break;
        } else if is("ATOMIC") && !request.atomic {
            request.atomic = true;
        } else if is("ONCE") && request.once().is_none() {
            request.set_once(args.next().map(text).ok_or(CommandError::Syntax(name))?);
        } else if is("FORCE") && !shared.force {
            shared.force = true;
        } else if is("DETAIL") && !shared.detail {
            shared.detail = true;
        } else {
            return Err(CommandError::Syntax(name));
        }
    }
    if request.once().is_some() && !request.atomic {
        return Err(CommandError::Syntax(b"ONCE"));
    }
    let count = args.next().and_then(|count| form::number(text(count)));
    let items = count.and_then(|count| usize::try_from(count).ok()).ok_or(CommandError::Items)?;
    let most = bounds.items(request.atomic);
    if items > most as usize {
        return Err(CommandError::TooManyItems(most));
    }
    if items == 0 || 3 * items != args.len() {
        return Err(CommandError::Items);
    }
    while let (Some(biz), Some(key), Some(count)) = (args.next(), args.next(), args.next()) {
        let options = ItemOptions { count: form::count(text(count)), ..shared };
        request.push(text(biz), text(key), options);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::resp::{CommandBounds, read_line};
    use frs_engine::testing::kept::Kept;

    /// Reads a command without its name.
    fn read(
        line: &str,
        read: impl FnOnce(Args<'_>, &mut Request) -> Result<(), String>,
    ) -> Result<Request, String> {
        let bounds = CommandBounds { arguments: 40, bytes: 4096 };
        let (mut words, mut request) = (Vec::new(), Request::default());
        let args = read_line(line.as_bytes(), bounds, &mut words).expect("words");
        read(args, &mut request).map(|()| request)
    }

    fn one(command: Command, options: &str) -> Result<Kept, String> {
        let request = read(&format!("b k {options}"), |args, request| {
            read_one(command, args, request).map_err(|error| error.to_string())
        })?;
        Ok(request.kept(&request.items()[0]))
    }

    #[test]
    fn what_few_items_bring() {
        let text = |text: &str| Some(text.to_owned());
        let none = Extras::NONE;
        for (options, expected) in [
            ("", none.clone()),
            (
                "RATE '5/1m 100/1h' burst 16",
                Extras { rate: text("5/1m 100/1h"), burst: Some(Some(16)), ..none.clone() },
            ),
            ("MAX 100", Extras { max: Some(Some(100)), ..none.clone() }),
            ("max x", Extras { max: Some(None), ..none.clone() }),
            ("PARTIAL COUNT 7", Extras { partial: true, ..none.clone() }),
            ("MEMBER m", Extras { member: text("m"), ..none.clone() }),
            ("ONCE b7c1", Extras { once: text("b7c1"), ..none.clone() }),
            // No id is empty, so this one is answered as an error of the item.
            ("ONCE \"\\xff\"", Extras { once: text(""), ..none.clone() }),
            (
                "SETTLE HOLD h TTL 10000",
                Extras {
                    hold: text("h"),
                    ttl_ms: Some(Some(10_000)),
                    settle: true,
                    ..none.clone()
                },
            ),
            ("HOLD h TTL 1s", Extras { hold: text("h"), ttl_ms: Some(None), ..none.clone() }),
        ] {
            for command in [Command::Update, Command::Query] {
                assert_eq!(one(command, options), Ok(expected.kept()), "{options}");
            }
        }
        for (options, word) in [
            ("ONCE", "ONCE"),
            ("ONCE a ONCE a", "ONCE"),
            ("PARTIAL PARTIAL", "PARTIAL"),
            ("SETTLE SETTLE", "SETTLE"),
            ("HOLD a HOLD a", "HOLD"),
            ("TTL 1 TTL 1", "TTL"),
            ("MAX 1 MAX 1", "MAX"),
            ("HOLD h TTL", "TTL"),
            ("ATOMIC", "ATOMIC"),
        ] {
            let expected = format!("ERR syntax error at '{word}'");
            assert_eq!(one(Command::Update, options), Err(expected), "{options}");
        }
    }

    #[test]
    fn an_id_of_an_atomic_command() {
        let once = |options: &str| {
            let bounds = Bounds { max_items: 4, max_atomic_items: 2 };
            let request = read(&format!("{options} ITEMS 1 b k 1"), |args, request| {
                let read = read_many(Command::Update, args, bounds, request);
                read.map_err(|error| error.to_string())
            })?;
            Ok((request.atomic, request.once().map(str::to_owned)))
        };
        assert_eq!(once("ATOMIC"), Ok((true, None)));
        assert_eq!(once("ATOMIC ONCE id"), Ok((true, Some("id".to_owned()))));
        assert_eq!(once("once '' FORCE atomic"), Ok((true, Some(String::new()))));
        let fault: Result<_, String> = Err("ERR syntax error at 'ONCE'".to_owned());
        for options in ["ONCE id", "ATOMIC ONCE id ONCE id"] {
            assert_eq!(once(options), fault, "{options}");
        }
    }
}
