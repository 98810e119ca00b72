//! The domains in force, ready to match: each descriptor with its biz and its key.
//!
//! Invariant: they do not change, except for the note whether a target was asked. A reload makes
//! new domains, and a call keeps the domains that it began with.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::keys::{FittedKey, fitted, push_value};
use crate::matching::Matcher;
use crate::messages::Entry;
use frs_conf::{ChargeMode, Cidr, Conf, KeyPart, KeyType, LogLevel};

/// The domains of one generation of the configuration, and the settings for answering calls.
#[derive(Debug)]
pub struct Domains {
    /// Whether a call that is over one limit charges nothing at all.
    pub all_or_none: bool,
    /// The most items of a call.
    pub max_items: usize,
    /// The most items of a call that charges all or none.
    pub max_atomic_items: usize,
    /// Networks whose peers are served.
    pub allow: Vec<Cidr>,
    /// The generation of the configuration.
    pub generation: u64,
    /// The least severe level that is logged.
    pub log_level: LogLevel,
    domains: HashMap<String, DomainTargets>,
}

#[derive(Debug)]
struct DomainTargets {
    matcher: Matcher,
    targets: Vec<Option<DescriptorTarget>>,
}

/// The biz and key that a descriptor is charged to.
#[derive(Debug)]
pub struct DescriptorTarget {
    /// The id of its biz.
    pub biz: u32,
    /// The name of its biz.
    pub name: Arc<str>,
    /// Whether a use is charged even over a limit.
    pub force: bool,
    key: Vec<KeyPart>,
    /// The bytes that values write as `%XX`.
    escaped: Vec<u8>,
    key_type: KeyType,
    /// Whether calls have asked for the uses left, and charged nothing.
    is_asked: AtomicBool,
}

/// The target of a call's descriptor.
#[derive(Debug, Clone, Copy)]
pub enum DomainMatch<'d> {
    /// No descriptor matches, so nothing is charged.
    None,
    /// The descriptor is unlimited, so nothing is charged.
    Unlimited,
    /// The descriptor is charged to this target.
    Target(&'d DescriptorTarget),
}

impl Domains {
    /// The domains of a configuration, which is that of `generation`.
    pub fn of(generation: u64, conf: &Conf) -> Domains {
        let (rls, http) = (conf.srv.rls.as_ref(), &conf.srv.http);
        let named = rls.iter().flat_map(|rls| &rls.domains).map(|domain| {
            let targets = domain.descriptors.iter().map(|descriptor| {
                // The configuration is checked, so each biz is in map.xml.
                let target = descriptor.target.as_ref()?;
                let biz = conf.map.bizs.get(conf.map.find_biz(&target.biz)?)?;
                let name = Arc::from(biz.name.as_str());
                Some(DescriptorTarget {
                    biz: biz.id,
                    name,
                    force: target.force,
                    key: target.key.clone(),
                    escaped: target.escaped(),
                    key_type: biz.key,
                    is_asked: AtomicBool::new(false),
                })
            });
            let targets = targets.collect();
            (domain.name.clone(), DomainTargets { matcher: Matcher::new(domain), targets })
        });
        Domains {
            all_or_none: rls.is_none_or(|rls| rls.charge == ChargeMode::AllOrNone),
            max_items: http.max_items as usize,
            max_atomic_items: http.max_atomic_items.min(http.max_items) as usize,
            allow: conf.srv.allow.clone(),
            generation,
            log_level: conf.srv.log.level,
            domains: named.collect(),
        }
    }

    /// The target of a descriptor with these entries in a domain.
    pub fn find(&self, domain: &str, entries: &[Entry]) -> DomainMatch<'_> {
        let Some(domain) = self.domains.get(domain) else { return DomainMatch::None };
        let Some(number) = domain.matcher.find(entries) else { return DomainMatch::None };
        match domain.targets.get(number) {
            Some(Some(target)) => DomainMatch::Target(target),
            _ => DomainMatch::Unlimited,
        }
    }
}

impl DescriptorTarget {
    /// The key that the values of these entries make.
    pub fn key(&self, entries: &[Entry]) -> FittedKey {
        let mut key = Vec::new();
        for part in &self.key {
            match part {
                KeyPart::Text(text) => key.extend_from_slice(text.as_bytes()),
                KeyPart::Value(at) => {
                    let value = entries.get(*at).map_or(&[][..], |entry| &entry.value);
                    push_value(&mut key, value, &self.escaped);
                }
            }
        }
        fitted(key, self.key_type)
    }

    /// Notes a call that charges nothing.
    pub fn note_check(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Whether a refused charge leaves the limit open. It does if calls ask the target first and
    /// charge it afterwards, because a refused charge is not counted.
    pub fn stays_open_if_refused(&self) -> bool {
        !self.force && self.is_asked.load(Ordering::Relaxed)
    }
}
