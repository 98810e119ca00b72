//! Proves clients' certificates, and bounds them.
//!
//! Invariant: what a connection keeps of a client's certificates is at most
//! [`MAX_CHAIN_BYTES`](super::bounds::MAX_CHAIN_BYTES).

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::bounds::MAX_CHAIN_BYTES;

/// A verifier that refuses long chains before it looks at them.
#[derive(Debug)]
pub(super) struct BoundedVerifier(pub Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for BoundedVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes = own.len() + others.iter().map(|other| other.len()).sum::<usize>();
        if bytes > MAX_CHAIN_BYTES {
            let found = format!("found {bytes} bytes of certificates");
            return Err(Error::General(format!("{found}, expected at most {MAX_CHAIN_BYTES}")));
        }
        self.0.verify_client_cert(own, others, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}
