//! Limits of a shared biz that change in all ways, and their leases in its records.

use std::collections::{BTreeMap, BTreeSet};

use frs_conf::{Biz, Conf, Overlay, Scope, SharedLimits};
use frs_limit::{Rules, States, Terms, Written};
use proptest::prelude::*;

use crate::shared::{LeasedLimits, leases, set_lease};

const LIMITS: [&str; 7] = [
    "policy='interval' interval='1m' max='9'",
    "policy='interval' interval='1h' max='9'",
    "policy='sliding' interval='1m' max='9'",
    "policy='count' unit='day'",
    "policy='total' max='9'",
    "policy='total' max='9' on-exceed='captcha'",
    "policy='total' max='9' scope='biz'",
];

/// A biz with these of the limits.
fn biz(limits: &[usize]) -> Biz {
    let limits: String = limits.iter().map(|&at| format!("<limit {}/>", LIMITS[at])).collect();
    let map = format!(
        "<map><group name='g' keys='9' node-size='2048'/>\
         <biz id='1' name='b' key='integer' share='cluster' hosts='2'>{limits}</biz></map>"
    );
    let srv = "<srv><cluster name='c' secret-file='s'><node>127.0.0.1:1</node></cluster></srv>";
    let conf = Conf::parse("srv.xml", srv, "map.xml", &map);
    conf.unwrap_or_else(|faults| panic!("{faults}")).map.bizs.remove(0)
}

fn rules_of(biz: &Biz) -> Rules {
    Rules::with(biz, Some(&LeasedLimits::default()), None)
}

/// The nodes of one key and of the biz, and the generations of the biz.
struct Node {
    limits: Vec<usize>,
    rules: Rules,
    overlay: Overlay,
    words: [Vec<u64>; 2],
    shapes: [Option<u16>; 2],
}

/// The uses granted to limits, by the number and the identity of each.
type Granted = BTreeMap<(usize, usize), u64>;

impl Node {
    fn new(limits: Vec<usize>) -> Node {
        let rules = rules_of(&biz(&limits));
        let words = [vec![0; 200], vec![0; 200]];
        Node { limits, rules, overlay: Overlay::default(), words, shapes: [None; 2] }
    }

    fn reload(&mut self, limits: Vec<usize>) {
        if let Some(before) = self.rules.shared_limits() {
            self.overlay.add_former(1, before);
        }
        let former = self.overlay.former(1).to_vec();
        self.rules = rules_of(&Biz { former, ..biz(&limits) });
        self.limits = limits;
    }

    /// The words as the limits in force adopt them.
    fn adopted(&self, scope: Scope) -> Vec<u64> {
        let mut words = self.words[scope as usize].clone();
        match self.shapes[scope as usize] {
            Some(shape) if shape == self.rules.shape(scope) => {}
            Some(shape) if self.rules.adopts(scope, shape) => {
                self.rules.adopt(scope, Written { shape, has_ban: false }, &mut words);
            }
            _ => words.fill(0),
        }
        words
    }

    /// The uses that limits with a grant hold.
    fn granted(&self) -> Granted {
        let [mut key, mut biz] = [Scope::Key, Scope::Biz].map(|scope| self.adopted(scope));
        let terms = &Terms::NEW;
        let states = States { key: &mut key, biz: &mut biz, terms };
        let all = leases(&self.rules, &states, 0, 0).into_iter();
        let held = all.map(|lease| (lease.number as usize - 1, lease.holding.lease.allowance));
        held.filter(|&(_, of)| of > 0).map(|(at, of)| ((at, self.limits[at]), of)).collect()
    }

    /// Writes both records, with a grant to one limit.
    fn write(&mut self, position: usize, allowance: u64) {
        self.words = [Scope::Key, Scope::Biz].map(|scope| self.adopted(scope));
        self.shapes = [Scope::Key, Scope::Biz].map(|scope| Some(self.rules.shape(scope)));
        let terms = &Terms::NEW;
        let [key, biz] = &mut self.words;
        let states = &mut States { key, biz, terms };
        let all = leases(&self.rules, states, 0, 0);
        let Some(mut holding) = all.get(position).map(|lease| lease.holding) else { return };
        let was = holding;
        (holding.lease.window, holding.lease.allowance) = (1, allowance);
        set_lease(&self.rules, states, position, [&was, &holding]);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Reload(Vec<usize>),
    /// A position, and uses.
    Write(usize, u64),
}

/// Some of the limits, each once. The shapes of all such lists differ.
fn limits() -> impl Strategy<Value = Vec<usize>> {
    let all: Vec<usize> = (0..LIMITS.len()).collect();
    prop::sample::subsequence(all, 1..4).prop_shuffle()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..4_usize, 1..9_u64).prop_map(|(at, uses)| Step::Write(at, uses));
    prop::collection::vec(prop_oneof![limits().prop_map(Step::Reload), write], 1..16)
}

proptest! {
    // Shows: leases-over-reloads.
    #[test]
    fn a_limit_has_what_was_granted_to_it_under_its_number_and_nothing_else(
        first in limits(), steps in steps()
    ) {
        let mut node = Node::new(first);
        // The grants in the records, even of limits that are not in force.
        let mut granted = Granted::new();
        for step in steps {
            match step {
                Step::Reload(limits) => node.reload(limits),
                Step::Write(position, uses) => {
                    node.write(position, uses);
                    granted.retain(|&(at, limit), _| node.limits.get(at) == Some(&limit));
                    if let Some(&limit) = node.limits.get(position) {
                        granted.insert((position, limit), uses);
                    }
                }
            }
            let mut in_force = granted.clone();
            in_force.retain(|&(at, limit), _| node.limits.get(at) == Some(&limit));
            prop_assert_eq!(node.granted(), in_force);
        }
    }
}

#[test]
fn shapes_tell_all_lists_of_three_limits_apart() {
    let (mut shapes, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    let each = || 0..LIMITS.len();
    let lists = each().flat_map(|a| each().flat_map(move |b| each().map(move |c| [a, b, c])));
    for mut list in lists.map(Vec::from) {
        // Repetitions make the list shorter.
        list.dedup();
        if (1..list.len()).any(|nth| list[..nth].contains(&list[nth])) {
            continue;
        }
        let limits = rules_of(&biz(&list)).shared_limits().unwrap();
        for scope in [Scope::Key, Scope::Biz] {
            shapes.insert((scope as usize, limits.shapes[scope as usize]));
            nodes.insert((scope as usize, limits.of_node(scope).collect::<Vec<_>>()));
        }
    }
    assert_eq!(shapes.len(), nodes.len());
}

#[test]
fn of_two_former_limits_with_one_shape_none_is_believed() {
    let former = |limits: &[usize]| rules_of(&biz(limits)).shared_limits().unwrap();
    let (one, mut other) = (former(&[0]), former(&[0, 3]));
    let rules = |former: Vec<SharedLimits>| rules_of(&Biz { former, ..biz(&[0, 1]) });
    let shape = one.shapes[0];
    assert!(rules(vec![one.clone(), other.clone()]).adopts(Scope::Key, shape));
    other.shapes[0] = shape;
    assert!(!rules(vec![one.clone(), other]).adopts(Scope::Key, shape));
    // The two differ only in the limits of the other scope.
    let with_biz = former(&[0, 6]);
    assert!(rules(vec![one, with_biz]).adopts(Scope::Key, shape));
}

#[test]
fn no_shared_node_is_taken_for_one_with_histories() {
    // With a history these limits would have the shape of those.
    let those = rules_of(&biz(&[3, 6, 2])).shape(Scope::Key);
    assert!(!rules_of(&biz(&[5, 3])).adopts(Scope::Key, those));
}
