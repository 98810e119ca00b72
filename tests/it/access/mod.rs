//! Clients and their rights, asked of real servers by every face.

mod attempts;
mod brake;
mod matrix;
mod reload;

use std::net::SocketAddr;

use redis::{Connection, Value};

use crate::common::address::Reserved;
use crate::common::files::write_secret;
use crate::common::{self, Answer, Client, Server, Settings, Setup, wait_until};

/// The businesses of the tests.
const MAP: &str = "<map><group name='g' keys='1000'/>
    <biz id='1' name='order' key='string' holds='8' hold-ttl='1h'>
        <limit policy='total' max='1000000'/></biz>
    <biz id='2' name='order-line' key='string' holds='8' hold-ttl='1h'>
        <limit policy='total' max='1000000'/></biz>
    <biz id='3' name='login' key='string' holds='8' hold-ttl='1h'>
        <limit policy='total' max='1000000'/></biz>
    <group name='r' keys='1000'/>
    <biz id='9' name='redis' group='r' key='string'><register/></biz></map>";

/// A server with every face but frs-envoy.
struct Served {
    setup: Setup,
    resp: Reserved,
    admin: Reserved,
    metrics: Reserved,
}

/// The token of a client.
fn token(client: &str) -> String {
    format!("{client:0>24}")
}

impl Served {
    /// A server with these `<clients>`, whose token files are `conf/NAME`.
    fn new(clients: &str, names: &[&str]) -> Served {
        let [resp, admin, metrics] = [(); 3].map(|()| Reserved::new());
        let setup = Setup::new(&Settings::default());
        let served = Served { setup, resp, admin, metrics };
        for name in names.iter().chain(&["default"]) {
            served.write_token(name, &token(name));
        }
        let admins = format!("root {}\nreader {} read-only\n", token("root"), token("reader"));
        write_secret(&served.setup.path("conf/admin"), admins);
        served.setup.write_map(MAP);
        served.write(clients);
        served
    }

    fn write(&self, clients: &str) {
        let more = format!(
            "<resp listen='{}' registers='redis' token-file='conf/default'/>\
             <admin listen='{}' token-file='conf/admin'/><metrics listen='{}'/>\
             <listen>unix:frs.sock</listen>{clients}",
            self.resp.address, self.admin.address, self.metrics.address
        );
        self.setup.write_srv(&Settings { more, workers: 1, ..Settings::default() });
    }

    fn write_token(&self, name: &str, text: &str) {
        write_secret(&self.setup.path(&format!("conf/{name}")), text);
    }

    fn start(&self) -> Server<'_> {
        let server = self.setup.start();
        wait_until("the admin plane serves", || {
            let mut client = Client::try_connect(self.admin.address)?;
            common::plane::ask(&mut client, "GET", "/health", "", "").ok()
        });
        server
    }

    /// Sends `frs reload`, and waits for its end.
    #[track_caller]
    fn reload(&self) -> String {
        let output = self.setup.frs(&["reload"]);
        let said = common::text(&[output.stdout, output.stderr].concat());
        assert!(output.status.success(), "{said}");
        said
    }

    fn redis(&self) -> Connection {
        let client = redis::Client::open(format!("redis://{}", self.resp.address));
        let client = client.expect("an address");
        wait_until("a connection", || client.get_connection().ok())
    }
}

/// The fields of a head that shows a token.
fn bearer(token: Option<&str>) -> String {
    token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"))
}

/// Sends a request, and returns its answer.
fn ask(client: &mut Client, method: &str, target: &str, fields: &str, body: &str) -> Answer {
    common::plane::ask(client, method, target, fields, body).expect("an answer")
}

fn connect(address: SocketAddr) -> Client {
    Client::connect(address)
}

/// The first word of an error, or `OK`.
fn word(result: Result<Value, redis::RedisError>) -> String {
    match result {
        Ok(Value::ServerError(error)) => error.code().to_owned(),
        Ok(_) => "OK".to_owned(),
        Err(error) => error.code().unwrap_or("ERR").to_owned(),
    }
}
