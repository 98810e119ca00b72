//! CL.THROTTLE on a real business, compared with a second implementation of its arithmetic.

use super::*;
use frs_engine::testing::World;
use frs_engine::{Answers, Request, Service};

const MAP: &str = r#"<map>
  <group name="small" files="1" key-nodes="256" chain="8" node-size="128"/>
  <biz id="1" name="throttle" key="string">
    <limit policy="gcra" rate="30/m" burst="16" per-call="true" max-period="1d"/>
  </biz>
</map>"#;

/// A service at a time that the test sets.
struct Real {
    service: Service,
    now: u64,
}

impl Serve for Real {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        self.service.run(request, self.now, answers);
    }

    fn biz_name(&self, _: usize) -> Option<&str> {
        None
    }

    fn draining(&self) -> bool {
        false
    }
}

fn throttled(world: &World) -> Line<'static, Real> {
    let real = Real { service: world.attach(), now: 1_700_000_000_000 };
    let mut line = Line::serving(real);
    line.own.throttle = Some("throttle");
    line
}

// Shows: redis-clients.
#[test]
fn the_answers_of_redis_cell() {
    let world = World::new(MAP);
    let mut line = throttled(&world);
    for (args, expected) in [
        ("a 2 1 60", "0 3 2 -1 60"),
        ("a 2 1 60", "0 3 1 -1 120"),
        ("a 2 1 60", "0 3 0 -1 180"),
        ("a 2 1 60", "1 3 0 60 180"),
        ("b 15 30 60", "0 16 15 -1 2"),
        ("c 15 30 60 17", "1 16 16 -1 0"),
        ("d 0 1 60 0", "0 1 1 -1 0"),
        ("j 0 7 3", "0 1 0 -1 1"),
        ("p 3 1 60", "0 4 3 -1 60"),
        ("p 0 1 60", "1 1 0 60 60"),
        ("p 10 10 60", "0 11 0 -1 66"),
    ] {
        let figures: String = expected.split(' ').map(|figure| format!(":{figure} ")).collect();
        assert_eq!(line.ask(&format!("CL.THROTTLE {args}|")), format!("*5 {figures}"), "{args}");
    }
    assert!(line.ask("CL.THROTTLE \"\\xff\" 1 1 60|").starts_with("-ERR bad-key ("));
    assert!(line.ask("CL.THROTTLE a 1 1 86400|").starts_with("*5 "));
    assert!(line.ask("CL.THROTTLE a 1 1 86401|").starts_with("-ERR bad-rate ("));
    line.own.throttle = Some("nothing");
    assert!(line.ask("CL.THROTTLE a 1 1 60|").starts_with("-ERR unknown-biz ("));
    line.own.throttle = None;
    assert!(
        line.ask("CL.THROTTLE a 1 1 60|").starts_with("-ERR CL.THROTTLE needs <resp throttle>")
    );
    world.verify();
}

/// Splitmix64 (Steele, Lea and Flood, 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The state of a key: the level in nanoseconds, and the time of its last charge in milliseconds.
#[derive(Clone, Copy, Default)]
struct State {
    level: u128,
    last: u128,
}

/// The five figures by the formulas of the command, or `None` for arguments out of bounds.
fn expected(state: &mut State, now: u128, args: [u128; 4]) -> Option<[i128; 5]> {
    let [max_burst, count, period, quantity] = args;
    let emission = period * 1_000_000_000 / count;
    let capacity = emission * (max_burst + 1);
    if emission < 1 || capacity > 1 << 62 {
        return None;
    }
    let cost = quantity * emission;
    let level = state.level.saturating_sub((now - state.last) * 1_000_000);
    let limited = level + cost > capacity;
    let after = if limited { level } else { level + cost };
    // A refusal changes no state. The next call computes the decay since `last` again.
    if !limited {
        *state = State { level: after, last: now };
    }
    let seconds =
        |ns: u128| (ns / 1_000_000_000 + u128::from(ns % 1_000_000_000 >= 1_000_000)) as i128;
    let retry = if limited && cost <= capacity { seconds(after + cost - capacity) } else { -1 };
    let remaining = (capacity.saturating_sub(after) / emission) as i128;
    Some([limited.into(), (max_burst + 1) as i128, remaining, retry, seconds(after)])
}

// Shows: redis-clients.
#[test]
fn a_hundred_thousand_calls_are_answered_as_the_formulas_say() {
    let world = World::new(MAP);
    let mut line = throttled(&world);
    let (mut seed, mut states) = (7, [State::default(); 16]);
    let (mut limited, mut refused) = (0, 0);
    for call in 0..100_000 {
        let mut up_to = |most: u64| random(&mut seed) % most;
        // The values spread over all orders of magnitude.
        let mut wide = |bits: u64| {
            let bits = up_to(bits);
            up_to(1 << bits)
        };
        let key = call % 16;
        let max_burst = if call % 10 == 0 { wide(40) } else { wide(7) };
        let count = 1 + if call % 7 == 0 { wide(38) } else { wide(10) };
        let period = (1 + wide(17)).min(86_400);
        let quantity = if call % 11 == 0 { wide(31) } else { wide(5) };
        line.serve.now += if call % 3 == 0 { wide(30) } else { wide(12) };
        let command = format!("CL.THROTTLE {key} {max_burst} {count} {period} {quantity}|");
        let found = line.ask(&command);
        let args = [max_burst, count, period, quantity].map(u128::from);
        let now = line.serve.now.into();
        match expected(&mut states[key], now, args) {
            Some(figures) => {
                let text: String = figures.map(|figure| format!(":{figure} ")).concat();
                assert_eq!(found, format!("*5 {text}"), "call {call}: {command}");
                limited += figures[0];
            }
            None => {
                assert!(found.starts_with("-ERR "), "call {call}: {command} {found}");
                refused += 1;
            }
        }
        line.out.clear();
    }
    assert!(limited > 10_000 && limited < 90_000 && refused > 100, "{limited} {refused}");
    world.verify();
}
