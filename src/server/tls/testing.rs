//! Certificates for tests: an authority, and leaves that it signs.

use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType,
    date_time_ymd,
};

use frs_base::clock;

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: Vec<u8>,
}

/// What a certificate is to say.
#[derive(Debug, Clone, Copy)]
pub struct Leaf<'a> {
    /// The common name of the subject.
    pub common_name: &'a str,
    /// The alternative names: `DNS:…`, `URI:…`, `IP:…` and `EMAIL:…`.
    pub names: &'a [&'a str],
    /// The days from now on which it begins and ends.
    pub days: (i64, i64),
}

impl Default for Leaf<'_> {
    fn default() -> Self {
        Leaf { common_name: "frs", names: &["DNS:localhost", "IP:127.0.0.1"], days: (-1, 365) }
    }
}

/// A certificate with its key.
pub struct Signed {
    /// The certificate as PEM.
    pub cert: String,
    /// The private key as PEM.
    pub key: String,
    der: Vec<u8>,
    key_der: Vec<u8>,
}

impl Authority {
    /// A new authority of this name.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        let (pem, der) = (certificate.pem(), certificate.der().to_vec());
        Authority { issuer: Issuer::new(params, key), pem, der }
    }

    /// Its certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its certificate.
    pub fn der(&self) -> Vec<u8> {
        self.der.clone()
    }

    /// Signs a certificate.
    pub fn sign(&self, leaf: &Leaf<'_>) -> Signed {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(leaf.common_name);
        params.subject_alt_names = leaf.names.iter().map(|name| alternative(name)).collect();
        let now_s = (clock::now() / 1000) as i64;
        let date = |days: i64| {
            let seconds = u64::try_from(now_s + days * 86_400).expect("after 1970");
            date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
        };
        (params.not_before, params.not_after) = (date(leaf.days.0), date(leaf.days.1));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        Signed {
            cert: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().to_vec(),
            key_der: key.serialize_der(),
        }
    }

    /// Writes a server's certificate for localhost and its key as `NAME.pem` and `NAME.key`.
    pub fn write(&self, dir: &Path, name: &str) -> Signed {
        let signed = self.sign(&Leaf::default());
        signed.write(dir, name);
        signed
    }
}

impl Signed {
    /// The certificate.
    pub fn der(&self) -> Vec<u8> {
        self.der.clone()
    }

    /// The private key, as PKCS #8.
    pub fn key_der(&self) -> Vec<u8> {
        self.key_der.clone()
    }

    /// Writes `NAME.pem` and `NAME.key`, the key with mode 0600.
    pub fn write(&self, dir: &Path, name: &str) {
        use std::os::unix::fs::PermissionsExt;
        let key = dir.join(format!("{name}.key"));
        std::fs::write(dir.join(format!("{name}.pem")), &self.cert).expect("written");
        std::fs::write(&key, &self.key).expect("written");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("set");
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn alternative(name: &str) -> SanType {
    let (kind, name) = name.split_once(':').expect("KIND:NAME");
    let text = || name.try_into().expect("ASCII");
    match kind {
        "DNS" => SanType::DnsName(text()),
        "URI" => SanType::URI(text()),
        "EMAIL" => SanType::Rfc822Name(text()),
        "IP" => SanType::IpAddress(name.parse().expect("an address")),
        other => panic!("{other}"),
    }
}
