//! The files of a `<tls>`, checked: a chain of certificates, its key, and the authorities of
//! clients.
//!
//! Invariant: an [`Identity`] is complete. Its key belongs to its certificate, and a handshake with
//! it needs no file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ring::digest::{Context, SHA256};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};

use super::certificate::Validity;
use super::verifier::BoundedVerifier;
use frs_conf::{SecretError, Srv, Tls, TlsFiles, TlsVersion};

/// A certificate that ends within this time is warned of.
const WARNING_S: i64 = 30 * 86_400;
/// The most certificates of a file.
const MAX_CERTIFICATES: usize = 512;

/// The files of a `<tls>` cannot be used. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or others can read the key.
    #[error(transparent)]
    File(#[from] SecretError),
    /// A file holds something else.
    #[error("{}: found {found}, expected {expected}", path.display())]
    Content {
        /// The path of the file.
        path: PathBuf,
        /// What the file holds.
        found: String,
        /// What it should hold.
        expected: String,
    },
}

impl TlsError {
    fn new(path: &Path, found: impl Into<String>, expected: impl Into<String>) -> TlsError {
        TlsError::Content { path: path.to_owned(), found: found.into(), expected: expected.into() }
    }
}

/// A digest of what a session ticket depends on.
pub type IdentityDigest = [u8; 32];

/// The content of the files of a `<tls>`.
#[derive(Debug, Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    min: TlsVersion,
    /// When the server's certificate is valid.
    pub validity: Validity,
    /// Its name, and how clients are asked for a certificate. A session of another digest is not
    /// resumed.
    pub digest: IdentityDigest,
}

impl Identity {
    /// Checks the content of the files that `block` names.
    ///
    /// # Errors
    /// A file holds something else, or the key does not belong to the certificate.
    pub fn of(block: &Tls, files: &TlsFiles) -> Result<Identity, TlsError> {
        let chain = certificates(&block.cert, &files.cert)?;
        let first = chain.first().map(|first| first.as_ref()).unwrap_or_default();
        let validity = Validity::of(first).ok_or_else(|| {
            TlsError::new(&block.cert, "a malformed certificate", "one of X.509, the server's own")
        })?;
        let certified = certified_key(block, chain, &files.key)?;
        let roots = match (&block.clients, &files.client_ca) {
            (Some(clients), Some(pem)) => Some((clients, certificates(&clients.ca, pem)?)),
            _ => None,
        };
        let digest = digest(block, roots.as_ref().map(|(_, roots)| roots));
        let verifier = roots.map(|(clients, roots)| verifier(&clients.ca, roots, clients.required));
        Ok(Identity {
            certified: Arc::new(certified),
            verifier: verifier.transpose()?,
            min: block.min,
            validity,
            digest,
        })
    }

    /// The configuration of a server that shows this certificate and speaks the protocol `alpn`.
    /// The caller adds tickets.
    pub fn config(&self, alpn: &[u8]) -> ServerConfig {
        let versions: &[_] = match self.min {
            TlsVersion::V12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsVersion::V13 => &[&rustls::version::TLS13],
        };
        let clients = self.verifier.clone().unwrap_or_else(|| Arc::new(NoClientAuth));
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .expect("the provider speaks both versions");
        let certificate = Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified)));
        let mut config = builder.with_client_cert_verifier(clients).with_cert_resolver(certificate);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = vec![alpn.to_vec()];
        config
    }
}

/// The provider of all cryptography.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// The certificates of a file, at least one.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let expected = "certificates as PEM, each between -----BEGIN CERTIFICATE----- and -----END \
                    CERTIFICATE-----";
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate
            .map_err(|error| TlsError::new(path, format!("malformed PEM ({error})"), expected))?;
        if found.len() == MAX_CERTIFICATES {
            let most = format!("at most {MAX_CERTIFICATES}");
            return Err(TlsError::new(path, "more certificates", most));
        }
        found.push(certificate);
    }
    match found.is_empty() {
        true => Err(TlsError::new(path, "no certificate", expected)),
        false => Ok(found),
    }
}

/// The chain with its private key.
fn certified_key(
    block: &Tls,
    chain: Vec<CertificateDer<'static>>,
    pem: &[u8],
) -> Result<CertifiedKey, TlsError> {
    let kinds = "a private key of RSA, ECDSA or Ed25519 as PEM, without a passphrase";
    let key = PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| TlsError::new(&block.key, "no private key", kinds))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::new(
            &block.key,
            "the key of another certificate",
            format!("the private key of {}", block.cert.display()),
        ),
        _ => TlsError::new(&block.key, "a key that cannot sign", kinds),
    })
}

fn verifier(
    path: &Path,
    roots: Vec<CertificateDer<'static>>,
    required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let expected = "certificates of authorities";
    let mut store = RootCertStore::empty();
    for (root, nth) in roots.into_iter().zip(1..) {
        let malformed = |error| {
            TlsError::new(
                path,
                format!("a malformed certificate, number {nth} ({error})"),
                expected,
            )
        };
        store.add(root).map_err(malformed)?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider());
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    let verifier =
        builder.build().map_err(|error| TlsError::new(path, error.to_string(), expected))?;
    Ok(Arc::new(BoundedVerifier(verifier)))
}

/// The digest of a name, and of the authorities that clients' certificates are proved by.
fn digest(block: &Tls, roots: Option<&Vec<CertificateDer<'static>>>) -> IdentityDigest {
    let mut context = Context::new(&SHA256);
    context.update(block.name.as_bytes());
    let required = block.clients.as_ref().map(|clients| clients.required);
    context.update(&[0, required.map_or(2, u8::from)]);
    for root in roots.into_iter().flatten() {
        context.update(&(root.len() as u64).to_le_bytes());
        context.update(root);
    }
    let mut digest = IdentityDigest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// What `frs check` finds in the files of all `<tls>`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TlsReport {
    /// Files that cannot be used, one line each.
    pub faults: Vec<String>,
    /// Certificates that end soon, one line each.
    pub warnings: Vec<String>,
}

impl TlsReport {
    /// Reads the files of every `<tls>`, at this time in milliseconds since the epoch.
    pub fn look(srv: &Srv, now_ms: u64) -> TlsReport {
        let mut report = TlsReport::default();
        let now_s = (now_ms / 1000) as i64;
        let readers = srv.secret_readers();
        for block in &srv.tls {
            let identity = block.read_files(&readers).map_err(TlsError::from);
            match identity.and_then(|files| Identity::of(block, &files)) {
                Ok(identity) => match date_fault(block, identity.validity, now_s) {
                    Some(fault) => report.faults.push(fault),
                    None => report.warnings.extend(warning(block, identity.validity, now_s)),
                },
                Err(error) => report.faults.push(error.to_string()),
            }
        }
        report
    }
}

/// Why a certificate cannot be shown at this time.
pub fn date_fault(block: &Tls, validity: Validity, now_s: i64) -> Option<String> {
    let Validity { not_before_s, not_after_s } = validity;
    let cert = block.cert.display();
    if not_after_s < now_s {
        let end = date(not_after_s);
        return Some(format!(
            "{cert}: found a certificate that ended on {end}, expected a valid one"
        ));
    }
    (now_s < not_before_s).then(|| {
        let begin = date(not_before_s);
        format!("{cert}: found a certificate that begins on {begin}, expected a valid one")
    })
}

/// The warning of a certificate that ends soon.
fn warning(block: &Tls, validity: Validity, now_s: i64) -> Option<String> {
    let left_s = validity.not_after_s.saturating_sub(now_s);
    (left_s < WARNING_S).then(|| {
        let (cert, end, days) = (block.cert.display(), date(validity.not_after_s), left_s / 86_400);
        format!("{cert}: the certificate ends on {end}, in {days} days: renew it and reload")
    })
}

/// A date of a certificate as text.
fn date(seconds: i64) -> String {
    let since = Duration::from_secs(seconds.clamp(0, 253_402_300_799) as u64);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests;
