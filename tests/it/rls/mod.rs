//! Envoy's rate limit service: frs-envoy beside a real frs, called over gRPC and by a real Envoy.

mod calls;
pub mod client;
mod client_counts;
pub mod clients;
mod cluster;
mod conf;
pub mod envoy;
mod grpcio;
mod holds;
mod hostile;
mod lives;
mod numbers;

use crate::common::address::Reserved;
use crate::common::{Settings, Setup, tools};

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="256"/>
  <biz id="1" name="login" key="string">
    <limit policy="interval" interval="1m" max="5"/>
  </biz>
  <biz id="2" name="api" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="3" name="two" key="string">
    <limit policy="interval" interval="90s" max="2"/>
  </biz>
  <biz id="5" name="numbered" key="integer">
    <limit policy="interval" interval="1h" max="2"/>
  </biz>
  <biz id="4" name="counted" key="string"><limit policy="count"/></biz>
  <biz id="6" name="users" key="string"><limit policy="distinct" precision="exact" max="2"/></biz>
  <biz id="7" name="own" key="string">
    <limit policy="interval" interval="1h" max="3" per-call="true" most="50"/>
  </biz>
  <biz id="8" name="tokens" key="string" holds="2" hold-ttl="10m" once="8">
    <limit policy="interval" interval="1h" max="1000"/>
  </biz>
  <biz id="9" name="places" key="string" hold-ttl="10m"><limit policy="concurrent" max="2"/></biz>
</map>
"#;

const DOMAINS: &str = r#"<domain name="edge">
  <descriptor entries="user path=/login*" biz="login" key="{user}"/>
  <descriptor entries="user path" biz="api" key="{user}"/>
  <descriptor entries="two" biz="two" key="{two}"/>
  <descriptor entries="user2" biz="two" key="~{user2}"/>
  <descriptor entries="after" biz="two" key="{after}" force="true"/>
  <descriptor entries="numbered" biz="numbered" key="{numbered}"/>
  <descriptor entries="counted" biz="counted" key="{counted}"/>
  <descriptor entries="own" biz="own" key="{own}"/>
  <descriptor entries="tokens id" biz="tokens" key="{tokens}" hold="{id}"/>
  <descriptor entries="tokens id settle" biz="tokens" key="{tokens}" hold="{id}" settle="true"/>
  <descriptor entries="tried id" biz="tokens" key="{tried}" once="{id}"/>
  <descriptor entries="places id" biz="places" key="{places}" hold="{id}"/>
  <descriptor entries="plan=internal" unlimited="true"/>
</domain>"#;

/// A setup with `<rls>`, and its address.
struct Stage {
    setup: Setup,
    rls: Reserved,
}

impl Stage {
    fn new(attributes: &str) -> Stage {
        tools::tool("frs-envoy");
        let stage = Stage { setup: Setup::of_map(MAP), rls: Reserved::new() };
        stage.write(&stage.element(attributes, DOMAINS));
        stage
    }

    fn element(&self, attributes: &str, domains: &str) -> String {
        let address = self.rls.address;
        format!("<rls listen=\"{address}\" {attributes}>{domains}</rls>")
    }

    /// Writes srv.xml with these elements.
    fn write(&self, more: &str) {
        self.setup.write_srv(&Settings { more: more.to_owned(), ..Settings::default() });
    }
}
