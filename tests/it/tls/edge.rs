//! A server whose listeners speak TLS, its authority, and clients that trust it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use frs_server::tls::testing::{Authority, Leaf, Signed};
use rustls::ClientConfig;

use crate::common::address::Reserved;
use crate::common::secure::{self, Version};
use crate::common::{Settings, Setup, tools};

/// The domains of `<rls>`.
pub const DOMAINS: &str = r#"<domain name="edge">
  <descriptor entries="user" biz="plenty" key="{user}"/>
  <descriptor entries="three" biz="three" key="{three}"/>
</domain>"#;

/// A setup with TLS on listeners of HTTP and RESP. A plain listener stands beside them.
pub struct Edge {
    pub setup: Setup,
    pub http: Reserved,
    pub resp: Reserved,
    pub rls: Reserved,
    pub ca: Authority,
}

impl Edge {
    /// With these attributes of `<http>` and of `<tls>`.
    pub fn new(http: &str, tls: &str) -> Edge {
        Edge::build(http, tls, false)
    }

    /// With `<rls>`, too, and these attributes of `<tls>`.
    pub fn with_rls(tls: &str) -> Edge {
        tools::tool("frs-envoy");
        Edge::build("", tls, true)
    }

    fn build(http: &str, tls: &str, has_rls: bool) -> Edge {
        let setup = Setup::new(&Settings::default());
        let (listen, resp, rls) = (Reserved::new(), Reserved::new(), Reserved::new());
        let stage = Edge { setup, http: listen, resp, rls, ca: Authority::new("frs test CA") };
        let conf = stage.setup.path("conf");
        std::fs::write(conf.join("ca.pem"), stage.ca.pem()).expect("written");
        stage.ca.write(&conf, "edge");
        stage.write(http, tls, has_rls);
        stage
    }

    /// Writes srv.xml.
    fn write(&self, http: &str, tls: &str, has_rls: bool) {
        let ca = if tls.contains("client=") { "client-ca=\"conf/ca.pem\"" } else { "" };
        let rls = match has_rls {
            true => format!("<rls listen=\"{}\" tls=\"edge\">{DOMAINS}</rls>", self.rls.address),
            false => String::new(),
        };
        let more = format!(
            "<listen tls=\"edge\">{}</listen><resp listen=\"{}\" tls=\"edge\"/>{rls}\
             <tls name=\"edge\" cert=\"conf/edge.pem\" key=\"conf/edge.key\" {ca} {tls}/>",
            self.http.address, self.resp.address
        );
        self.setup.write_srv(&Settings { http: http.to_owned(), more, ..Settings::default() });
    }

    /// Settings of a client that shows no certificate.
    pub fn client(&self, version: Version) -> Arc<ClientConfig> {
        Arc::new(secure::settings(&self.ca, None, version))
    }

    /// A client's certificate, signed by the authority.
    pub fn sign(&self, name: &str) -> Signed {
        self.ca.sign(&Leaf { common_name: name, names: &[], ..Leaf::default() })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.setup.path("conf").join(name)
    }

    /// The path of a file as an argument of a program.
    pub fn argument(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// The address as programs take it, which check its name.
pub fn host(address: SocketAddr) -> String {
    format!("localhost:{}", address.port())
}
