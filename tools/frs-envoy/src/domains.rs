//! The domains in force, ready to match: each descriptor with its biz and its key.
//!
//! Invariant: they do not change, except for the note whether a target was asked. A reload makes
//! new domains, and a call keeps the domains that it began with.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::callers::Callers;
use crate::keys::{FittedKey, Form, fitted, fitted_id};
use crate::matching::Matcher;
use crate::messages::Entry;
use crate::overrides::CallLimit;
use frs_conf::{ChargeMode, Cidr, Conf, KeyType, LogLevel};
use frs_engine::access::TokenDigests;

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
    /// Who may ask. `None` if clients are not told apart.
    pub callers: Option<Callers>,
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
    /// The place of its biz in map.xml.
    pub at: usize,
    /// The id of its biz.
    pub biz: u32,
    /// The name of its biz.
    pub name: Arc<str>,
    /// Whether a use is charged even over a limit.
    pub force: bool,
    /// Whether the count is the true cost of the hold.
    pub settle: bool,
    /// The limit of its biz that takes the numbers of a call.
    pub call_limit: Option<Arc<CallLimit>>,
    key: Form,
    key_type: KeyType,
    hold: Option<Form>,
    once: Option<Form>,
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
    /// The domains of a configuration, which is that of `generation`, with the tokens of its
    /// clients.
    pub fn of(generation: u64, conf: &Conf, digests: Option<TokenDigests>) -> Domains {
        let (rls, http) = (conf.srv.rls.as_ref(), &conf.srv.http);
        let call_limit = |biz| CallLimit::of(biz).map(Arc::new);
        let call_limits: Vec<_> = conf.map.bizs.iter().map(call_limit).collect();
        let named = rls.iter().flat_map(|rls| &rls.domains).map(|domain| {
            let targets = domain.descriptors.iter().map(|descriptor| {
                // The configuration is checked, so each biz is in map.xml.
                let target = descriptor.target.as_ref()?;
                let at = conf.map.find_biz(&target.biz)?;
                let biz = conf.map.bizs.get(at)?;
                let name = Arc::from(biz.name.as_str());
                Some(DescriptorTarget {
                    at,
                    biz: biz.id,
                    name,
                    force: target.force,
                    settle: target.settle,
                    call_limit: call_limits.get(at).cloned().flatten(),
                    key: Form::new(&target.key),
                    key_type: biz.key,
                    hold: target.hold.as_ref().map(Form::new),
                    once: target.once.as_ref().map(Form::new),
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
            callers: Callers::of(conf, digests),
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
        fitted(self.key.filled(entries), self.key_type)
    }

    /// The id of the hold that the count belongs to, if it belongs to one.
    pub fn hold(&self, entries: &[Entry]) -> Option<String> {
        self.hold.as_ref().map(|hold| fitted_id(hold.filled(entries)))
    }

    /// The id under which the call is charged once, if it has one.
    pub fn once(&self, entries: &[Entry]) -> Option<String> {
        self.once.as_ref().map(|once| fitted_id(once.filled(entries)))
    }

    /// Notes a call that charges nothing.
    pub fn note_check(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Whether a refused charge leaves the limit open. It does if calls ask the target first and
    /// charge it afterwards, because a refused charge is not counted. A count of 0 that belongs to
    /// a hold asks nothing.
    pub fn stays_open_if_refused(&self) -> bool {
        !self.force && self.is_asked.load(Ordering::Relaxed)
    }
}
