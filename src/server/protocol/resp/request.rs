//! `FRS.UPDATE`, `FRS.QUERY`, `FRS.MUPDATE` and `FRS.MQUERY` to a request.
//!
//! Invariant: what an item says is judged by the service, as in every other format: text that is no
//! count, key or business of map.xml is an error of its item.

use super::{Args, CommandError};
use crate::protocol::{Bounds, form};
use frs_conf::Rate;
use frs_engine::{CallRate, CallRateText, Command, ItemOptions, Request};

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
    let (mut options, mut member) = (ItemOptions::ONE, None);
    if args.len() > 0 {
        member = read_options(command, args, &mut options)?;
    }
    request.push(text(biz), text(key), options);
    if let Some(member) = member {
        request.bring_member(member);
    }
    Ok(())
}

/// Reads the words behind biz and key. Returns the member, if there is one.
fn read_options<'a>(
    command: Command,
    mut args: Args<'a>,
    options: &mut ItemOptions,
) -> Result<Option<&'a str>, CommandError<'a>> {
    let (mut has_count, mut rate, mut member) = (false, CallRateText::default(), None);
    while let Some(name) = args.next() {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let mut value = || args.next().map(text).ok_or(CommandError::Syntax(name));
        if is("COUNT") && !has_count {
            options.count = form::count(value()?);
            has_count = true;
        } else if is("MEMBER") && member.is_none() {
            member = Some(value()?);
        } else if is("RATE") && rate.rate.is_none() {
            rate.rate = Some(Rate::of_text(value()?));
        } else if is("BURST") && rate.burst.is_none() {
            rate.burst = Some(form::burst(value()?));
        } else if is("FORCE") && command == Command::Update && !options.force {
            options.force = true;
        } else if is("DETAIL") && !options.detail {
            options.detail = true;
        } else {
            return Err(CommandError::Syntax(name));
        }
    }
    options.rate = CallRate::of_text(rate);
    Ok(member)
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
        } else if is("FORCE") && !shared.force {
            shared.force = true;
        } else if is("DETAIL") && !shared.detail {
            shared.detail = true;
        } else {
            return Err(CommandError::Syntax(name));
        }
    }
    let count = args.next().and_then(|count| form::burst(text(count)));
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
