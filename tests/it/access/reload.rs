//! Connections that stand while the clients change.

use redis::{Connection, cmd};

use super::{Served, ask, bearer, connect, token, word};

const TWO: &str = "<clients>
    <client name='shop' token-file='conf/shop' may='query update' biz='order*'/>
    <client name='pay' token-file='conf/pay' may='query' biz='*'/></clients>";
/// The same clients in another order, of which `shop` may less.
const TURNED: &str = "<clients>
    <client name='pay' token-file='conf/pay' may='query update' biz='*'/>
    <client name='shop' token-file='conf/shop' may='query' biz='order'/></clients>";

fn send(redis: &mut Connection, command: &str) -> String {
    let mut words = command.split(' ');
    let mut asked = cmd(words.next().expect("a command"));
    words.for_each(|word| {
        asked.arg(word);
    });
    word(asked.query(redis))
}

// Shows: rights-over-reloads.
#[test]
fn standing_connections_get_the_rights_of_the_new_configuration() {
    let served = Served::new(TWO, &["shop", "pay"]);
    let _server = served.start();
    let mut shop = connect(served.setup.address);
    let mut pay = connect(served.setup.address);
    let mut redis = served.redis();
    let body = "<request><item biz='order' key='a'/></request>";
    let mut statuses = || {
        let update = |client: &mut _, name: &str| {
            ask(client, "POST", "/update", &bearer(Some(&token(name))), body).status
        };
        // Twice: the second head is met in the cache.
        let first = [update(&mut shop, "shop"), update(&mut pay, "pay")];
        assert_eq!(first, [update(&mut shop, "shop"), update(&mut pay, "pay")]);
        first
    };
    assert_eq!(statuses(), [200, 403]);
    assert_eq!(send(&mut redis, &format!("AUTH shop {}", token("shop"))), "OK");
    assert_eq!(send(&mut redis, "FRS.UPDATE order a"), "OK");
    served.write(TURNED);
    served.reload();
    assert_eq!(statuses(), [403, 200]);
    assert_eq!(send(&mut redis, "FRS.UPDATE order a"), "NOPERM");
    assert_eq!(send(&mut redis, "FRS.QUERY order a"), "OK");
    assert_eq!(send(&mut redis, "FRS.QUERY order-line a"), "NOPERM");
    // A client that is gone is nobody.
    served
        .write("<clients><client name='pay' token-file='conf/pay' may='query' biz='*'/></clients>");
    served.reload();
    assert_eq!(statuses(), [401, 403]);
    assert_eq!(send(&mut redis, "FRS.QUERY order a"), "NOAUTH");
    assert_eq!(send(&mut redis, &format!("AUTH pay {}", token("pay"))), "OK");
    assert_eq!(send(&mut redis, "FRS.QUERY order a"), "OK");
    // Without <clients> everybody may do everything, and the log says so.
    served.write("");
    served.reload();
    assert_eq!(statuses(), [200, 200]);
    let log = served.setup.log();
    assert!(log.contains("<clients> of srv.xml is gone"), "{log}");
}
