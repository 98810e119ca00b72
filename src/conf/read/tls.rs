//! `<tls>`, read: its shape, its bounds, and the files that it names.
//!
//! Invariant: names are unique. A listener that names no `<tls>` of the file is a fault, and so is
//! a private key that others can read. No message shows the content of a file.

use std::collections::HashMap;

use super::faults::{Checked, Notes, checked, shown};
use super::private_file::SecretReaders;
use super::scalar::{file_path, is_word, one_of, word};
use super::secret_file::{SecretError, read_public, read_secret};
use super::walk::{ElementSchema, first_before};
use super::xml::Element;
use crate::schema::{ClientCertificates, Srv, Tls, TlsVersion, hide_in_debug};

const TLS: ElementSchema = ElementSchema {
    attributes: &["name", "cert", "key", "client-ca", "client", "min"],
    ..ElementSchema::EMPTY
};
/// The attribute by which a listener names a `<tls>`.
pub(super) const ATTRIBUTE: &str = "tls";
const MAX_BLOCKS: usize = 16;
const MAX_NAME_BYTES: usize = 64;
/// The most bytes of a file of certificates or of a key.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Reads every `<tls>` and notes its faults.
pub(super) fn blocks(notes: &mut Notes<'_>, root: &Element) -> Checked<Vec<Tls>> {
    let mut seen = HashMap::new();
    root.read_children(notes, "tls", MAX_BLOCKS, |notes, element| {
        let block = block(notes, element)?;
        let Some(first) = first_before(&mut seen, block.name.clone(), element.at) else {
            return Ok(block);
        };
        let again = format!("name=\"{}\" again", block.name);
        let expected = format!("it once (first in {})", notes.place(first));
        Err(notes.note(element.value_at("name"), again, expected))
    })
}

fn block(notes: &mut Notes<'_>, element: &Element) -> Checked<Tls> {
    TLS.check(notes, element);
    Ok(checked!(Tls {
        name: element.required(notes, "name", |text| match is_word(text, MAX_NAME_BYTES) {
            true => Ok(text.to_owned()),
            false => Err(format!("1 to {MAX_NAME_BYTES} letters, digits and ._-")),
        }),
        cert: element.required(notes, "cert", file_path),
        key: element.required(notes, "key", file_path),
        clients: clients(notes, element),
        min: element.or(
            notes,
            "min",
            TlsVersion::V12,
            word(&[("1.2", TlsVersion::V12), ("1.3", TlsVersion::V13)]),
        ),
    }))
}

/// Reads `client-ca` and `client`. Each of them needs the other.
fn clients(notes: &mut Notes<'_>, element: &Element) -> Checked<Option<ClientCertificates>> {
    let ca = element.optional(notes, "client-ca", file_path);
    let required =
        element.optional(notes, "client", word(&[("required", true), ("wanted", false)]));
    match (ca?, required?) {
        (None, None) => Ok(None),
        (Some(ca), Some(required)) => Ok(Some(ClientCertificates { ca, required })),
        (None, Some(_)) => {
            let found = format!("client=\"{}\" without client-ca", element.value_of("client"));
            let expected = "client-ca: the file of the authorities that sign clients' certificates";
            Err(notes.note(element.value_at("client"), found, expected))
        }
        (Some(_), None) => {
            let found = format!("client-ca=\"{}\"", shown(element.value_of("client-ca")));
            let expected = "client=\"required\" or client=\"wanted\" beside it";
            Err(notes.note(element.value_at("client-ca"), found, expected))
        }
    }
}

/// The names of all `<tls>` of the file, for the listeners that choose one.
pub(super) struct TlsNames(Vec<String>);

impl TlsNames {
    /// The names of the elements, whatever their faults.
    pub fn of(root: &Element) -> TlsNames {
        let names = root.children_named("tls").map(|element| element.value_of("name").to_owned());
        TlsNames(names.collect())
    }

    /// Reads the `tls` of a listener.
    pub fn choose(&self, notes: &mut Notes<'_>, listener: &Element) -> Checked<Option<String>> {
        listener.optional(notes, ATTRIBUTE, |name| {
            if !name.is_empty() && self.0.iter().any(|known| known == name) {
                return Ok(name.to_owned());
            }
            match self.0.is_empty() {
                true => Err("the name of a <tls>, and there is none".to_owned()),
                false => {
                    let known = self.0.iter().map(String::as_str);
                    Err(format!("the name of a <tls>: {}", one_of(name, known)))
                }
            }
        })
    }
}

/// The content of the files of a `<tls>`, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and its authority.
    pub cert: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
    /// The authorities that sign clients' certificates, if clients are asked for one.
    pub client_ca: Option<Vec<u8>>,
}

hide_in_debug!(TlsFiles);

impl Tls {
    /// Reads the files, with the rights of this process.
    ///
    /// # Errors
    /// A file cannot be read, or others can read the private key.
    pub fn read_files(&self, readers: &SecretReaders) -> Result<TlsFiles, SecretError> {
        let key = || "a private key as PEM".to_owned();
        let chain = "certificates as PEM, the server's own first";
        let authorities = "certificates of authorities as PEM";
        let ca = self.clients.as_ref().map(|clients| &clients.ca);
        Ok(TlsFiles {
            cert: read_public(&self.cert, MAX_FILE_BYTES, chain)?,
            key: read_secret(&self.key, MAX_FILE_BYTES, readers, key)?,
            client_ca: ca.map(|ca| read_public(ca, MAX_FILE_BYTES, authorities)).transpose()?,
        })
    }
}

impl Srv {
    /// The `<tls>` of this name.
    pub fn tls_named(&self, name: &str) -> Option<&Tls> {
        self.tls.iter().find(|block| block.name == name)
    }
}
