//! Tokens, certificates and rights.

use std::os::unix::fs::PermissionsExt;

use frs_conf::{ClientIndex, Conf, Right, Rights};

use super::super::{Access, Caller, Carried, LastBiz, TokenDigest, TokenDigests, needed};
use crate::{Command, Extras, Grant, ItemOptions, Request};

const TOKENS: [&str; 6] = [
    "0000000000000000",
    "1111111111111111",
    "2222222222222222",
    "3333333333333333",
    "4444444444444444",
    "5555555555555555",
];
const CLIENTS: &str = "<clients>
    <client name='shop' token-file='DIR/shop' may='query update' biz='order* voucher'/>
    <client name='billing' token-file='DIR/billing' cert='CN=billing'
            may='query update give-back force hold' biz='*'/>
    <client name='second' cert='CN=billing' may='metrics'/>
    <client name='mail' cert='DNS:mail.example' may='hold' biz='login'/>
    <anonymous may='query' unix='query update' biz='login'/></clients>";

struct Given {
    conf: Conf,
    digests: TokenDigests,
    access: Access,
}

/// Tokens 0 and 1 are of `shop`, 2 of `billing`, 3 of the second `<resp>`, 4 and 5 of `<admin>`.
fn given(clients: &str) -> Given {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("set");
    };
    write("shop", format!("{}\n{}\n", TOKENS[0], TOKENS[1]));
    write("billing", TOKENS[2].to_owned());
    write("resp", TOKENS[3].to_owned());
    write("admin", format!("alice {}\nbob {} read-only\n", TOKENS[4], TOKENS[5]));
    let srv = format!(
        "<srv><resp listen='[::1]:1'/><resp listen='[::1]:2' token-file='DIR/resp'/>\
         <admin listen='[::1]:3' token-file='DIR/admin'/>{clients}</srv>"
    );
    let srv = srv.replace("DIR", dir.path().to_str().expect("a path"));
    let bizs: String = ["login", "order", "order-line", "voucher"]
        .iter()
        .zip(1..)
        .map(|(name, id)| {
            format!("<biz id='{id}' name='{name}' key='string'><limit policy='count'/></biz>")
        })
        .collect();
    let map = format!("<map><group name='g' keys='10'/>{bizs}</map>");
    let conf = Conf::parse("srv.xml", &srv, "map.xml", &map).unwrap_or_else(|it| panic!("{it}"));
    let digests = TokenDigests::read(&conf.srv).expect("read");
    let handed = TokenDigests::decode(&digests.encode()).expect("whole");
    assert_eq!(handed, digests);
    Given { access: Access::of(&conf, Some(handed)), conf, digests }
}

impl Given {
    fn by_token(&self, nth: usize) -> Option<Caller> {
        self.access.by_token(&TokenDigest::of(TOKENS[nth].as_bytes()))
    }

    fn name(&self, caller: Caller) -> String {
        let clients = self.conf.srv.clients.as_ref().expect("there");
        clients.name(caller.index).expect("a name").to_owned()
    }
}

// Shows: client-tokens.
#[test]
fn digests_tell_torn_copies_and_hold_no_token() {
    let digests = given(CLIENTS).digests;
    let bytes = digests.encode();
    for cut in 0..bytes.len() {
        assert_eq!(TokenDigests::decode(&bytes[..cut]), None, "a part of it");
    }
    for at in 0..bytes.len() {
        let mut torn = bytes.clone();
        torn[at] ^= 1;
        assert_eq!(TokenDigests::decode(&torn), None, "byte {at}");
    }
    for token in TOKENS {
        assert!(!bytes.windows(token.len()).any(|part| part == token.as_bytes()));
    }
    let longer = [&bytes[..], b"what was there"].concat();
    assert_eq!(TokenDigests::decode(&longer), Some(digests));
}

// Shows: client-tokens.
#[test]
fn a_token_of_another_configuration_belongs_to_the_client_of_its_name() {
    let [newer, older] = [given(CLIENTS), {
        let others = "<client name='first' cert='CN=first' may='admin'/>";
        given(&CLIENTS.replacen("<clients>", &format!("<clients>{others}"), 1))
    }];
    let access = Access::of(&older.conf, Some(newer.digests));
    let caller = access.by_token(&TokenDigest::of(TOKENS[0].as_bytes())).expect("known");
    assert_eq!(access.name(caller), "shop");
    let gone = CLIENTS.replacen("name='shop'", "name='shop-2'", 1);
    let access = Access::of(&given(&gone).conf, Some(older.digests));
    assert_eq!(access.by_token(&TokenDigest::of(TOKENS[0].as_bytes())), None);
}

// Shows: client-tokens.
#[test]
fn callers_are_found_by_what_they_show() {
    let given = given(CLIENTS);
    let named = |nth: usize| given.by_token(nth).map(|caller| given.name(caller));
    let name = |name: &str| Some(name.to_owned());
    assert_eq!([named(0), named(1), named(2)], [name("shop"), name("shop"), name("billing")]);
    assert_eq!(named(3), None, "the token of a <resp> is one there only");
    assert_eq!([named(4), named(5)], [name("admin"), name("admin")]);
    assert_eq!(given.by_token(4).map(|it| it.rights), Some(Rights::ALL));
    assert_eq!(given.by_token(5).map(|it| it.rights), Some(Rights::of(&[Right::AdminRead])));
    for wrong in ["", "0000000000000001", "000000000000000", "00000000000000000"] {
        assert_eq!(given.access.by_token(&TokenDigest::of(wrong.as_bytes())), None, "{wrong}");
    }
    let at_resp = |nth: u16, name: &str, token: usize| {
        let digest = TokenDigest::of(TOKENS[token].as_bytes());
        let found = given.access.by_name(nth, name.as_bytes(), &digest);
        found.map(|caller| given.name(caller))
    };
    assert_eq!(at_resp(0, "shop", 1), name("shop"));
    assert_eq!(at_resp(1, "default", 3), name("default"));
    assert_eq!(at_resp(0, "default", 3), None, "another <resp>");
    assert_eq!(at_resp(0, "billing", 0), None, "the token of another client");
    assert_eq!(at_resp(0, "default", 0), None);
    let certs = |names: &[&str]| -> Vec<String> { names.iter().map(|it| (*it).into()).collect() };
    let by_cert = |names: &[&str]| given.access.by_cert(&certs(names)).map(|it| given.name(it));
    assert_eq!(by_cert(&["O=x", "DNS:mail.example", "CN=billing"]), name("billing"));
    assert_eq!(by_cert(&["DNS:mail.example"]), name("mail"));
    assert_eq!(by_cert(&["CN=Billing", "DNS:billing"]), None);
    let cert = certs(&["DNS:mail.example"]);
    let resolve = |token: Option<&str>, cert: &[String]| {
        let digest = token.map(|token| TokenDigest::of(token.as_bytes()));
        given.access.resolve(digest.as_ref(), cert, false).map(|caller| given.name(caller))
    };
    assert_eq!(resolve(Some(TOKENS[0]), &cert), name("shop"), "a token beats a certificate");
    assert_eq!(resolve(Some("wrong"), &cert), None, "a wrong one, too");
    assert_eq!(resolve(None, &cert), name("mail"));
    assert_eq!(resolve(None, &[]), name("anonymous"));
    assert!(given.access.anonymous(true).has(Right::Update));
    assert!(!given.access.anonymous(false).has(Right::Update));
}

#[test]
fn an_item_needs_the_rights_of_what_it_does() {
    use Right::{Force, GiveBack, Hold, Query, Update};
    let of = |rights: &[Right]| Rights::of(rights);
    for (command, count, force, hold, rights) in [
        (Command::Query, Some(1), false, false, of(&[Query])),
        (Command::Query, Some(-1), true, true, of(&[Query])),
        (Command::Update, Some(0), false, false, of(&[Query])),
        (Command::Update, Some(1), false, false, of(&[Update])),
        (Command::Update, None, false, false, of(&[Update])),
        (Command::Update, Some(-1), false, false, of(&[Update, GiveBack])),
        (Command::Update, Some(1), true, false, of(&[Update, Force])),
        (Command::Update, Some(0), true, false, of(&[Update, Force])),
        (Command::Update, Some(-1), true, false, of(&[Update, GiveBack, Force])),
        (Command::Update, Some(1), false, true, of(&[Hold])),
        (Command::Update, Some(0), false, true, of(&[Hold])),
        (Command::Update, Some(1), true, true, of(&[Hold, Update, Force])),
    ] {
        let options = ItemOptions { count, force, detail: false };
        let carried = if hold { Carried::Hold } else { Carried::Nothing };
        assert_eq!(needed(command, options, carried), rights, "{command:?} {count:?}");
    }
}

// Shows: rights.
#[test]
fn a_check_that_carries_a_limit_a_member_or_an_id_needs_the_right_to_update() {
    let given = given(CLIENTS);
    let mut last = LastBiz::default();
    let unix = given.access.anonymous(false);
    let mut marked = |command: Command, extras: Extras<&str>, once: Option<&str>| {
        let mut request = Request::default();
        request.begin(command);
        request.push("login", "k", ItemOptions::of(0));
        if extras != Extras::NONE {
            request.bring(extras);
        }
        once.into_iter().for_each(|id| request.set_once(id));
        given.access.mark(unix, &given.conf.map, &mut last, &mut request);
        request.items()[0].grant
    };
    assert_eq!(marked(Command::Update, Extras::NONE, None), Grant::Everything);
    assert_eq!(marked(Command::Update, Extras::NONE, Some("id")), Grant::Nothing);
    for extras in [
        Extras { rate: Some("1/60s"), ..Extras::NONE },
        Extras { max: Some(Some(1)), ..Extras::NONE },
        Extras { member: Some("m"), ..Extras::NONE },
        Extras { once: Some("id"), ..Extras::NONE },
    ] {
        assert_eq!(marked(Command::Update, extras, None), Grant::Nothing, "{extras:?}");
        assert_eq!(marked(Command::Query, extras, None), Grant::Everything, "{extras:?}");
    }
}

// Shows: rights.
#[test]
fn items_are_marked_with_what_their_caller_may_do() {
    let given = given(CLIENTS);
    let mut last = LastBiz::default();
    let mut marked = |caller: Caller, biz: &str, options: ItemOptions, hold: bool| {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push(biz, "k", options);
        if hold {
            request.bring(Extras { hold: Some("h"), settle: true, ..Extras::NONE });
        }
        given.access.mark(caller, &given.conf.map, &mut last, &mut request);
        assert_eq!(request.client, caller.index);
        request.items()[0].grant
    };
    let (shop, billing) = (given.by_token(0).expect("shop"), given.by_token(2).expect("billing"));
    let mail = given.access.by_cert(&["DNS:mail.example".to_owned()]).expect("mail");
    let unix = given.access.anonymous(true);
    let all = |biz: &str| if biz == "login" { Grant::Everything } else { Grant::Nothing };
    for biz in ["login", "1", "order", "2", "order-line", "voucher", "other", "4", "77", ""] {
        let is_known = biz != "other" && biz != "77" && !biz.is_empty();
        let of_shop = match biz {
            "order" | "2" | "order-line" | "voucher" | "4" => Grant::Everything,
            _ => Grant::Nothing,
        };
        for _ in 0..2 {
            assert_eq!(marked(shop, biz, ItemOptions::ONE, false), of_shop, "{biz}");
        }
        assert_eq!(marked(shop, biz, ItemOptions::of(-1), false), Grant::Nothing, "{biz}");
        assert_eq!(marked(shop, biz, ItemOptions::ONE, true), Grant::Nothing, "{biz}");
        assert_eq!(marked(billing, biz, ItemOptions::of(-1), false), Grant::Everything);
        assert_eq!(marked(billing, biz, ItemOptions::ONE, true), Grant::Everything);
        if is_known && biz != "1" {
            assert_eq!(marked(unix, biz, ItemOptions::ONE, false), all(biz), "{biz}");
        }
        let of_mail = match biz {
            "login" | "1" => Grant::KnownHolds,
            _ => Grant::Nothing,
        };
        assert_eq!(marked(mail, biz, ItemOptions::ONE, true), of_mail, "{biz}");
    }
    assert_eq!(marked(shop, "orders-of-no-map", ItemOptions::ONE, false), Grant::Everything);
}

#[test]
fn without_clients_everybody_may_do_everything() {
    let given = given("");
    assert!(!given.access.is_on());
    let mut request = Request::default();
    request.push("login", "k", ItemOptions::of(-1));
    let caller = given.access.anonymous(false);
    given.access.mark(caller, &given.conf.map, &mut LastBiz::default(), &mut request);
    assert_eq!(request.items()[0].grant, Grant::Everything);
    assert_eq!(caller.index, ClientIndex::ANONYMOUS);
    assert!(given.access.may(caller, Rights::ALL, 0));
    let digest = TokenDigest::of(TOKENS[3].as_bytes());
    assert!(given.access.by_name(1, b"default", &digest).is_some());
    assert!(given.access.by_name(0, b"default", &digest).is_none());
}
