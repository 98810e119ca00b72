//! `<clients>`, read: its shape, its bounds, and the rights that need each other.
//!
//! Invariant: a client can show something, no two have the same name, and whoever has a right about
//! businesses names them.

use std::collections::HashMap;

use super::faults::{Checked, Notes, checked, shown};
use super::listen::token_file;
use super::scalar::{Parsed, is_word, one_of};
use super::walk::{ElementSchema, first_before};
use super::xml::Element;
use crate::schema::{
    Anonymous, BizNames, CertName, Client, ClientIndex, Clients, MAX_CLIENTS, Right, Rights,
};

const CLIENTS: ElementSchema =
    ElementSchema { once: &["anonymous"], many: &["client"], ..ElementSchema::EMPTY };
const CLIENT: ElementSchema =
    ElementSchema { attributes: &["name", "token-file", "cert", MAY, BIZ], ..ElementSchema::EMPTY };
const ANONYMOUS: ElementSchema =
    ElementSchema { attributes: &[MAY, BIZ, UNIX], ..ElementSchema::EMPTY };
const MAY: &str = "may";
const BIZ: &str = "biz";
const UNIX: &str = "unix";
/// The most bytes of a client's name.
const MAX_NAME_BYTES: usize = 64;
/// The rights without which these are nothing.
const NEEDS_UPDATE: [Right; 2] = [Right::GiveBack, Right::Force];
const BIZ_EXPECTED: &str =
    "names of businesses separated by white space, of which some may end with *, or * for all";

/// Reads `<clients>` and notes its faults.
pub(super) fn clients(notes: &mut Notes<'_>, element: &Element) -> Checked<Clients> {
    CLIENTS.check(notes, element);
    let anonymous = element.read_child(notes, "anonymous", anonymous);
    Ok(checked!(Clients {
        list: list(notes, element),
        anonymous: anonymous.map(Option::unwrap_or_default),
    }))
}

fn list(notes: &mut Notes<'_>, clients: &Element) -> Checked<Vec<Client>> {
    let mut seen = HashMap::new();
    clients.read_children(notes, "client", MAX_CLIENTS, |notes, element| {
        let client = client(notes, element)?;
        let Some(first) = first_before(&mut seen, client.name.clone(), element.at) else {
            return Ok(client);
        };
        let again = format!("name=\"{}\" again", shown(&client.name));
        let expected = format!("it once (first in line {})", notes.line(first));
        Err(notes.note(element.value_at("name"), again, expected))
    })
}

fn client(notes: &mut Notes<'_>, element: &Element) -> Checked<Client> {
    CLIENT.check(notes, element);
    let may = element.required(notes, MAY, rights);
    let may = may.and_then(|may| complete(notes, element, MAY, may));
    let client = checked!(Client {
        name: element.required(notes, "name", name),
        token_file: token_file(notes, element),
        cert: element.optional(notes, "cert", cert),
        rights: may,
        bizs: bizs(notes, element, may),
    });
    if client.token_file.is_none() && client.cert.is_none() {
        let expected = "token-file=\"FILE\", cert=\"CN=NAME\" or both: what the client shows";
        return Err(notes.note(element.at, "<client> without token-file and cert", expected));
    }
    Ok(client)
}

fn anonymous(notes: &mut Notes<'_>, element: &Element) -> Checked<Anonymous> {
    ANONYMOUS.check(notes, element);
    if element.attribute(MAY).is_none() && element.attribute(UNIX).is_none() {
        let found = "<anonymous> without may and unix";
        let expected = "may=\"query\" or unix=\"query\", or no <anonymous>";
        return Err(notes.note(element.at, found, expected));
    }
    let mut rights_of = |name| {
        let may = element.optional(notes, name, rights)?;
        may.map(|may| complete(notes, element, name, may)).transpose()
    };
    let (may, unix) = (rights_of(MAY), rights_of(UNIX));
    if may.is_ok_and(|may| may.is_some_and(|may| may.has(Right::Admin))) {
        let found = format!("{MAY}=\"{}\"", shown(element.value_of(MAY)));
        let expected = "rights without admin: over TCP, a change needs a token or a certificate";
        return Err(notes.note(element.value_at(MAY), found, expected));
    }
    let (may, unix) = (may?.unwrap_or_default(), unix?);
    let all = may.union(unix.unwrap_or_default());
    Ok(Anonymous { rights: may, unix: unix.unwrap_or(may), bizs: bizs(notes, element, Ok(all))? })
}

/// Reads the name of a client.
fn name(text: &str) -> Parsed<String> {
    if ClientIndex::RESERVED.contains(&text) {
        let reserved = ClientIndex::RESERVED.join(", ");
        return Err(format!("another name: {reserved} stand for callers of other elements"));
    }
    if !is_word(text, MAX_NAME_BYTES) {
        return Err(format!("1 to {MAX_NAME_BYTES} letters, digits and ._-"));
    }
    Ok(text.to_owned())
}

fn cert(text: &str) -> Parsed<CertName> {
    let kinds = CertName::KINDS.join(", ");
    CertName::of(text)
        .ok_or_else(|| format!("a name in the certificate behind its kind, one of {kinds}"))
}

/// Reads names of rights, separated by white space.
fn rights(text: &str) -> Parsed<Rights> {
    let words = || Right::ALL.iter().map(|right| right.word());
    let mut rights = Rights::NONE;
    for word in text.split_ascii_whitespace() {
        let right = Right::of(word);
        rights = rights.with(right.ok_or_else(|| one_of(word, words()))?);
    }
    if rights.is_empty() { Err(one_of("", words())) } else { Ok(rights) }
}

/// Notes a right that is nothing without `update`.
fn complete(
    notes: &mut Notes<'_>,
    element: &Element,
    name: &str,
    rights: Rights,
) -> Checked<Rights> {
    let lone = NEEDS_UPDATE.into_iter().find(|&right| rights.has(right));
    let Some(lone) = lone.filter(|_| !rights.has(Right::Update)) else { return Ok(rights) };
    let found = format!("{name}=\"{}\"", shown(element.value_of(name)));
    let expected = format!("update with it: {} is a right about Updates", lone.word());
    Err(notes.note(element.value_at(name), found, expected))
}

/// Reads the businesses of a client with these rights.
fn bizs(notes: &mut Notes<'_>, element: &Element, rights: Checked<Rights>) -> Checked<BizNames> {
    let read = |text: &str| BizNames::of(text).ok_or_else(|| BIZ_EXPECTED.to_owned());
    match rights {
        Ok(rights) if rights.has_any(Rights::OF_BIZS) => element.required(notes, BIZ, read),
        _ => Ok(element.optional(notes, BIZ, read)?.unwrap_or_default()),
    }
}
