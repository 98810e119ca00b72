//! Clients and their rights in words, and what is open to everybody.
//!
//! Invariant: the functions are pure. No word of them shows a token.

use crate::schema::{BizNames, Clients, Conf, Listen, Rights, Srv};

/// A line for each client: `client checkout: token of conf/checkout.token, may query update`.
pub(super) fn client_lines(clients: &Clients) -> Vec<String> {
    let mut lines: Vec<String> = clients
        .list
        .iter()
        .map(|client| {
            let token = client.token_file.as_ref();
            let token = token.map(|path| format!("token of {}", path.display()));
            let cert = client.cert.as_ref().map(|cert| format!("certificate {}", cert.text()));
            let shows: Vec<String> = token.into_iter().chain(cert).collect();
            format!("client {}: {}, may {}", client.name, shows.join(" or "), may(client.rights))
        })
        .collect();
    let anonymous = &clients.anonymous;
    lines.push(match anonymous.unix == anonymous.rights {
        true => format!("anonymous: may {}", may(anonymous.rights)),
        false => {
            let (tcp, unix) = (may(anonymous.rights), may(anonymous.unix));
            format!("anonymous: may {tcp}; over unix sockets {unix}")
        }
    });
    lines
}

fn may(rights: Rights) -> String {
    let words: Vec<&str> = rights.iter().map(|right| right.word()).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
}

/// Warns of listeners that other machines reach, where everybody may do everything.
pub(super) fn open_warning(srv: &Srv) -> Option<String> {
    if srv.clients.is_some() {
        return None;
    }
    let unguarded = srv.resps.iter().filter(|resp| resp.token_file.is_none());
    let resps = unguarded.map(|resp| &resp.listen);
    let http = srv.listen.iter().map(|endpoint| &endpoint.listen);
    let all = http.chain(resps).chain(srv.rls.iter().map(|rls| &rls.listen));
    let open = all.filter(|listen| match listen {
        Listen::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        Listen::Unix(_) => false,
    });
    let open: Vec<String> = open.map(Listen::to_string).collect();
    let verb = match open.len() {
        0 => return None,
        1 => "lets",
        _ => "let",
    };
    let shown = open.join(", ");
    Some(format!(
        "{shown} {verb} everybody who gets there charge, give back and force any key: <clients> of \
         srv.xml says who may"
    ))
}

/// Warns of names of businesses, one line for each client, that map.xml does not have.
pub(super) fn unmet_names(conf: &Conf) -> Vec<String> {
    let Some(clients) = &conf.srv.clients else { return Vec::new() };
    let unmet = |bizs: &BizNames| {
        let names = conf.map.bizs.iter().map(|biz| biz.name.as_str());
        bizs.unmet(names).join(" ")
    };
    let named = clients.list.iter().map(|client| (client.name.as_str(), &client.bizs));
    let named = named.chain([("anonymous", &clients.anonymous.bizs)]);
    let unmet = named.map(|(name, bizs)| (name, unmet(bizs)));
    let unmet = unmet.filter(|(_, unmet)| !unmet.is_empty());
    unmet
        .map(|(name, unmet)| format!("client {name}: map.xml has no biz for biz=\"{unmet}\""))
        .collect()
}
