//! `<tls>`: a certificate that listeners show, as checked types.
//!
//! Invariant: a listener's `tls` names one of [`super::Srv::tls`]. A block whose clients show
//! certificates has the authorities that sign them.

use std::path::PathBuf;

/// `<tls>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The name by which listeners choose it. No two have the same name.
    pub name: String,
    /// The file of the certificate, and of those between it and its authority, as PEM.
    pub cert: PathBuf,
    /// The file of the private key, as PEM.
    pub key: PathBuf,
    /// The clients' certificates. `None` if clients are not asked for one.
    pub clients: Option<ClientCertificates>,
    /// The oldest version that is spoken.
    pub min: TlsVersion,
}

/// Certificates of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The file of the authorities that sign them, as PEM.
    pub ca: PathBuf,
    /// Whether a client without a certificate is refused.
    pub required: bool,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}
