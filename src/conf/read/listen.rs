//! `<listen>`, `<admin>` and `<metrics>`, read: the addresses of the server, and its files of
//! tokens.
//!
//! Invariant: no two elements have the same address, and only this machine reaches the admin plane.
//! A `tls` names a `<tls>` of the file.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::faults::{Checked, Notes, checked, shown};
use super::scalar::Parsed;
use super::tls::{self, TlsNames};
use super::walk::{ElementSchema, first_before};
use super::xml::Element;
use crate::schema::{Admin, Endpoint, Listen};

const ADMIN: ElementSchema =
    ElementSchema { attributes: &[LISTEN, "token-file", tls::ATTRIBUTE], ..ElementSchema::EMPTY };
const METRICS: ElementSchema =
    ElementSchema { attributes: &[LISTEN, tls::ATTRIBUTE], ..ElementSchema::EMPTY };
/// `<listen>`: an address between its tags.
const SERVED: ElementSchema =
    ElementSchema { attributes: &[tls::ATTRIBUTE], text: true, ..ElementSchema::EMPTY };
const MAX_ADMINS: usize = 2;
const MAX_METRICS: usize = 16;
const LISTEN: &str = "listen";
const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7600);
/// The most bytes of a unix socket's path, without the NUL at its end.
const MAX_SOCKET_PATH: usize = 107;

/// The addresses read so far, each with the name of its element, and the `<tls>` that they may
/// choose.
pub(super) struct Addresses {
    taken: Vec<(Listen, String)>,
    tls: TlsNames,
}

impl Addresses {
    /// No addresses yet.
    pub fn new(tls: TlsNames) -> Addresses {
        Addresses { taken: Vec::new(), tls }
    }

    /// Adds the address of an element.
    fn add(&mut self, address: &Listen, element: impl Into<String>) {
        self.taken.push((address.clone(), element.into()));
    }

    /// Reads the attribute `tls`. `None` for plain text.
    pub fn tls(&self, notes: &mut Notes<'_>, element: &Element) -> Checked<Option<String>> {
        self.tls.choose(notes, element)
    }

    /// Reads the attribute `listen`: an address that no earlier element has. It then belongs to
    /// `name`.
    pub fn take<T: Clone + Into<Listen>>(
        &mut self,
        notes: &mut Notes<'_>,
        element: &Element,
        read: fn(&str) -> Parsed<T>,
        name: impl Into<String>,
    ) -> Checked<T> {
        let found = element.required(notes, LISTEN, read)?;
        let address = found.clone().into();
        let Some((_, who)) = self.taken.iter().find(|(taken, _)| *taken == address) else {
            self.add(&address, name);
            return Ok(found);
        };
        let found = format!("{LISTEN}=\"{}\" again", shown(element.value_of(LISTEN)));
        let expected = format!("an address of its own: {who} has it");
        Err(notes.note(element.value_at(LISTEN), found, expected))
    }
}

/// Reads every `<listen>` and notes its faults.
pub(super) fn listen(
    notes: &mut Notes<'_>,
    root: &Element,
    taken: &mut Addresses,
) -> Checked<Vec<Endpoint>> {
    let mut seen = HashMap::new();
    let mut found = root.read_children(notes, "listen", usize::MAX, |notes, element| {
        SERVED.check(notes, element);
        let (address, tls) = (element.value(notes, listen_address), taken.tls(notes, element));
        let (address, tls) = (address?, tls?);
        let Some(first) = first_before(&mut seen, address.clone(), element.at) else {
            return Ok(Endpoint { listen: address, tls });
        };
        let again = format!("<listen>{}</listen> again", shown(element.text.trim()));
        let expected = format!("it once (first in {})", notes.place(first));
        Err(notes.note(element.at, again, expected))
    })?;
    if found.is_empty() {
        found.push(Listen::Tcp(DEFAULT_LISTEN).into());
    }
    found.iter().for_each(|endpoint| taken.add(&endpoint.listen, "<listen>"));
    Ok(found)
}

/// Reads an address.
pub(super) fn listen_address(text: &str) -> Parsed<Listen> {
    if let Some(path) = text.strip_prefix("unix:") {
        return if (1..=MAX_SOCKET_PATH).contains(&path.len()) {
            Ok(Listen::Unix(path.into()))
        } else {
            Err(format!("unix: and a path of 1 to {MAX_SOCKET_PATH} bytes"))
        };
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(Listen::Tcp(address)),
        Ok(_) => Err("a port from 1 to 65535".to_owned()),
        Err(_) => Err("ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH".to_owned()),
    }
}

/// Reads every `<admin>` and notes its faults. There may be one on TCP and one on a unix socket, so
/// that it is clear which one the tokens are for.
pub(super) fn admins(
    notes: &mut Notes<'_>,
    root: &Element,
    taken: &mut Addresses,
) -> Checked<Vec<Admin>> {
    let mut kinds = HashMap::new();
    root.read_children(notes, "admin", MAX_ADMINS, |notes, element| {
        ADMIN.check(notes, element);
        let admin = checked!(Admin {
            listen: taken.take(notes, element, admin_address, "<admin>"),
            token_file: token_file(notes, element),
            tls: taken.tls(notes, element),
        });
        let kind = matches!(admin.listen, Listen::Tcp(_));
        let Some(first) = first_before(&mut kinds, kind, element.at) else { return Ok(admin) };
        let found = format!("another <admin listen=\"{}\">", admin.listen);
        let expected =
            format!("one on TCP and one on a unix socket (first in {})", notes.place(first));
        Err(notes.note(element.value_at(LISTEN), found, expected))
    })
}

/// Reads every `<metrics>` and notes its faults.
pub(super) fn metrics(
    notes: &mut Notes<'_>,
    root: &Element,
    taken: &mut Addresses,
) -> Checked<Vec<Endpoint>> {
    root.read_children(notes, "metrics", MAX_METRICS, |notes, element| {
        METRICS.check(notes, element);
        let name = format!("the <metrics> of {}", notes.place(element.at));
        Ok(checked!(Endpoint {
            listen: taken.take(notes, element, listen_address, name),
            tls: taken.tls(notes, element),
        }))
    })
}

/// Reads the attribute that names the file of a token.
pub(super) fn token_file(notes: &mut Notes<'_>, element: &Element) -> Checked<Option<PathBuf>> {
    element.optional(notes, "token-file", |text| match text {
        "" => Err("the path of a file".to_owned()),
        path => Ok(PathBuf::from(path)),
    })
}

/// A client of the admin plane can read every counter, so other machines must not reach it.
fn admin_address(text: &str) -> Parsed<Listen> {
    match listen_address(text)? {
        Listen::Tcp(address) if !address.ip().is_loopback() => {
            Err("a loopback address such as 127.0.0.1:7601 or [::1]:7601, or unix:PATH".to_owned())
        }
        listen => Ok(listen),
    }
}
