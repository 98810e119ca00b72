//! Items that carry a member, for `distinct` limits.

mod remembered;

use crate::testing::World;
use crate::testing::members::{Ask, NOW, ask, asked, note, request};
use crate::{Command, ItemError, ItemOptions, Request, Service, Verdict};

const DAY: u64 = 86_400_000;

const MAP: &str = r#"<map>
  <group name="small" files="1" key-nodes="64" chain="8" node-size="256"/>
  <group name="large" files="1" key-nodes="8" chain="4" node-size="3200"/>
  <biz id="1" name="devices" key="string">
    <limit policy="distinct" precision="exact" max="2"/>
    <override key="vip" limit="1" max="4"/>
    <deny key="out"/>
  </biz>
  <biz id="2" name="daily" key="string">
    <limit policy="distinct" precision="exact" max="2" unit="day" ban="1m"/>
  </biz>
  <biz id="3" name="users" group="large" key="string">
    <limit policy="distinct" unit="day"/><limit policy="interval" interval="1h" max="100"/>
  </biz>
  <biz id="4" name="plain" key="string"><limit policy="interval" interval="1h" max="3"/></biz>
  <biz id="5" name="both" group="large" key="string">
    <limit policy="distinct" precision="8"/><limit policy="distinct" precision="exact" max="2"/>
    <limit policy="distinct" scope="biz" precision="exact" max="3"/>
  </biz>
  <biz id="6" name="shown" key="string" mode="shadow">
    <limit policy="distinct" precision="exact" max="1"/>
  </biz>
  <biz id="7" name="asked" key="string">
    <limit policy="distinct" precision="exact" max="1" on-exceed="captcha"/>
  </biz>
  <biz id="8" name="most" group="large" key="string">
    <limit policy="distinct" max="2" on-exceed="captcha"/>
  </biz>
</map>"#;

// Shows: distinct-members.
#[test]
fn a_set_admits_those_it_knows_and_no_more_than_its_max() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for (member, limited, used) in
        [("a", false, 1), ("b", false, 2), ("a", false, 2), ("c", true, 2), ("b", false, 2)]
    {
        let verdict = note(&mut service, "devices", "k", member);
        assert_eq!((verdict.limited, verdict.figures.used), (limited, used), "{member}");
        assert_eq!((verdict.retry_ms, verdict.window_ms), (None, None));
    }
    assert!(asked(&mut service, "devices", "k", "c").limited);
    assert!(!asked(&mut service, "devices", "k", "a").limited);
    let figures = asked(&mut service, "devices", "k", "");
    assert!(!figures.limited, "without a member only figures are asked for");
    assert_eq!((figures.figures.max, figures.figures.remaining), (2, 0));
    // A returned member leaves its place to another member.
    let removed = ask(&mut service, Command::Update, Ask("devices", "k", "a", -1)).unwrap();
    assert_eq!((removed.limited, removed.figures.used), (false, 1));
    assert!(!note(&mut service, "devices", "k", "c").limited);
    assert!(note(&mut service, "devices", "k", "a").limited);
    // Other keys have their own.
    assert_eq!(note(&mut service, "devices", "other", "z").figures.used, 1);
    // A listed key has its own max, and the set has room for the largest max.
    for member in ["a", "b", "c", "d"] {
        assert!(!note(&mut service, "devices", "vip", member).limited);
    }
    assert!(note(&mut service, "devices", "vip", "e").limited);
    assert!(note(&mut service, "devices", "out", "a").limited);
    world.verify();
}

#[test]
fn force_notes_up_to_the_largest_max_and_then_no_more() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let mut forced = |member: &str| {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push("devices", "k", ItemOptions::ONE.forced());
        request.bring_member(member);
        let verdict = service.answers(&request, NOW).items.remove(0).result.unwrap();
        (verdict.limited, verdict.figures.used)
    };
    let told = ["a", "b", "c", "d", "e", "a"].map(&mut forced);
    let no = false;
    assert_eq!(told, [(no, 1), (no, 2), (true, 3), (true, 4), (true, 4), (no, 4)]);
}

// Shows: distinct-members.
#[test]
fn what_is_no_member_or_no_count_of_one_is_an_error_and_notes_nothing() {
    use ItemError::{BadCount, BadKey, BadMember, UnknownBiz};
    let world = World::new(MAP);
    let mut service = world.attach();
    let longest = "m".repeat(1024);
    let too_long = "m".repeat(1025);
    let (query, update) = (Command::Query, Command::Update);
    for (command, item, expected) in [
        (update, Ask("devices", "k", "", 1), Some(BadMember)),
        (update, Ask("users", "k", "", 1), Some(BadMember)),
        (update, Ask("users", "k", &too_long, 1), Some(BadMember)),
        (query, Ask("users", "k", &too_long, 1), Some(BadMember)),
        (query, Ask("users", "k", &longest, 1), None),
        (query, Ask("users", "k", "", 1), None),
        (query, Ask("devices", "k", "", 0), Some(BadCount)),
        (update, Ask("devices", "k", "m", 0), Some(BadCount)),
        (update, Ask("devices", "k", "m", 2), Some(BadCount)),
        (update, Ask("devices", "k", "", -2), Some(BadCount)),
        (update, Ask("users", "k", "m", -1), Some(BadCount)),
        (update, Ask("both", "k", "m", -1), Some(BadCount)),
        (update, Ask("both", "k", "m", 2), Some(BadCount)),
        (update, Ask("users", "", "", 1), Some(BadKey)),
        (update, Ask("nobody", "k", "", 1), Some(UnknownBiz)),
        // If no limit notes members, the member of an item is ignored.
        (query, Ask("plain", "k", &too_long, 1), None),
        (query, Ask("plain", "k", "", 7), None),
    ] {
        let Ask(biz, _, member, count) = item;
        let result = ask(&mut service, command, item);
        assert_eq!(result.err(), expected, "{biz} {} {count}", member.len());
    }
    let mut forced = Request::default();
    forced.begin(update);
    forced.push("users", "k", ItemOptions::ONE.forced());
    forced.bring_member("m");
    assert_eq!(service.answers(&forced, NOW).items[0].result, Err(BadCount));
    // A Query ignores force.
    forced.command = query;
    assert!(service.answers(&forced, NOW).items[0].result.is_ok());
    for biz in ["devices", "users", "both"] {
        assert_eq!(asked(&mut service, biz, "k", "").figures.used, 0, "{biz}");
    }
    assert_eq!(world.runtime().sums().item_errors[BadMember as usize], 4);
}

#[test]
fn a_sketch_tells_its_error_and_decides_last() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for number in 0..40 {
        note(&mut service, "users", "app", &format!("user-{}", number % 30));
    }
    let answers =
        service.answers(&request(Command::Update, &[Ask("users", "app", "user-1", 7)]), NOW);
    let verdict = answers.items[0].result.unwrap();
    assert_eq!((verdict.limit, verdict.figures.used), (2, 47));
    let [sketch, interval] = &answers.details.limits[..] else { panic!("two limits") };
    // Of 30 members a few may share one of the 4,096 registers.
    assert!((27..=30).contains(&sketch.figures.used), "{}", sketch.figures.used);
    assert_eq!((sketch.figures.max, sketch.figures.remaining), (0, 0));
    assert_eq!((sketch.error_thousandths, interval.error_thousandths), (Some(16), None));
    // The next day starts again without a trace.
    let mut request = request(Command::Update, &[Ask("users", "app", "user-1", 1)]);
    let answers = service.answers(&request, NOW + DAY);
    assert_eq!(answers.details.limits[0].figures.used, 1);
    request.command = Command::Query;
    assert_eq!(service.answers(&request, NOW + 2 * DAY).details.limits[0].figures.used, 0);
    world.verify();
}

// Shows: distinct-members.
#[test]
fn all_limits_note_the_member_or_none_does() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for (key, member, limit) in [("k", "a", None), ("k", "b", None), ("k", "c", Some(2))] {
        let verdict = note(&mut service, "both", key, member);
        assert_eq!(verdict.limited.then_some(verdict.limit), limit, "{member}");
    }
    assert!(!note(&mut service, "both", "other", "d").limited);
    // The whole business has its three members.
    let verdict = note(&mut service, "both", "other", "e");
    assert_eq!((verdict.limited, verdict.limit, verdict.figures.used), (true, 3, 3));
    let answers = service.answers(&request(Command::Query, &[Ask("both", "k", "", 1)]), NOW);
    let used: Vec<u64> = answers.details.limits.iter().map(|limit| limit.figures.used).collect();
    // Both may share one of the 256 registers.
    assert!((1..=2).contains(&used[0]), "the sketch has not noted who was refused: {used:?}");
    assert_eq!(used[1..], [2, 3]);
    world.verify();
}

// Shows: distinct-members.
#[test]
fn items_of_an_atomic_request_see_each_others_members() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let atomic = |items: &[Ask<'_>], command| {
        let mut request = request(command, items);
        request.atomic = true;
        request
    };
    let three = [
        Ask("devices", "k", "a", 1),
        Ask("devices", "k", "b", 1),
        Ask("devices", "k", "c", 1),
        Ask("plain", "k", "", 1),
    ];
    for command in [Command::Query, Command::Update] {
        let answers = service.answers(&atomic(&three, command), NOW);
        let limited = answers.items.iter().map(|item| item.result.unwrap().limited);
        assert!(answers.refused);
        assert_eq!(limited.collect::<Vec<_>>(), [false, false, true, false]);
    }
    assert_eq!(asked(&mut service, "devices", "k", "").figures.used, 0);
    let swapped = [
        Ask("devices", "k", "a", 1),
        Ask("devices", "k", "b", 1),
        Ask("devices", "k", "a", -1),
        Ask("devices", "k", "c", 1),
        Ask("users", "app", "a", 1),
        Ask("users", "app", "a", 1),
    ];
    let answers = service.answers(&atomic(&swapped, Command::Update), NOW);
    assert!(!answers.refused, "{answers:?}");
    assert_eq!(asked(&mut service, "devices", "k", "").figures.used, 2);
    assert!(asked(&mut service, "devices", "k", "a").limited);
    assert_eq!(answers.details.limits[4].figures.used, 1);
    world.verify();
}

#[test]
fn bans_shadows_and_advice_are_those_of_every_limit() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for member in ["a", "b"] {
        assert!(!note(&mut service, "daily", "k", member).limited);
    }
    let refused = note(&mut service, "daily", "k", "c");
    assert!(refused.limited && refused.banned);
    assert_eq!(refused.retry_ms, refused.figures.reset_ms, "the day lasts longer than the ban");
    assert!(note(&mut service, "daily", "k", "a").banned);

    note(&mut service, "shown", "k", "a");
    let shown = note(&mut service, "shown", "k", "b");
    assert!(shown.shadow && !shown.limited && shown.figures.used == 1);

    note(&mut service, "asked", "k", "a");
    let asked = note(&mut service, "asked", "k", "b");
    assert_eq!((asked.limited, asked.advised, asked.figures.used), (false, 1, 1));
    assert_eq!(note(&mut service, "asked", "k", "a").advised, 0);

    let advised = ["a", "b", "c"].map(|member| note(&mut service, "most", "k", member));
    assert_eq!(advised.map(|verdict| verdict.advised), [0, 0, 1]);
    let Verdict { figures, limited, .. } = advised[2];
    assert_eq!((figures.used, figures.max, figures.remaining, limited), (3, 2, 0, false));
}

// Shows: distinct-members.
#[test]
fn a_changed_max_keeps_the_members_and_another_precision_does_not() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let none = |service: &mut Service, key| asked(service, "devices", key, "").figures;
    for member in ["a", "b", "c", "d"] {
        note(&mut service, "devices", "vip", member);
        note(&mut service, "users", "app", member);
    }
    note(&mut service, "devices", "k", "a");
    // More room, and a ban, whose word comes before the set.
    let more = MAP.replace(r#"limit="1" max="4""#, r#"limit="1" max="9""#).replace(
        r#"exact" max="2"/>
    <override"#,
        r#"exact" max="5" ban="1m"/>
    <override"#,
    );
    world.publish(&more, 2);
    assert_eq!((none(&mut service, "k").used, none(&mut service, "k").max), (1, 5));
    assert_eq!(none(&mut service, "vip").used, 4);
    assert!(!note(&mut service, "devices", "vip", "e").limited);
    // A smaller set keeps the latest members.
    let less = MAP.replace(r#"limit="1" max="4""#, r#"limit="1" max="3""#);
    world.publish(&less, 3);
    assert_eq!(none(&mut service, "vip").used, 3);
    for (member, limited) in [("a", true), ("b", true), ("c", false), ("d", false), ("e", false)] {
        assert_eq!(note(&mut service, "devices", "vip", member).limited, limited, "{member}");
    }
    // A sketch of another precision starts empty.
    world.publish(
        &MAP.replace(
            r#"<limit policy="distinct" unit="day"/>"#,
            r#"<limit policy="distinct" unit="day" precision="11"/>"#,
        ),
        4,
    );
    let answers = service.answers(&request(Command::Query, &[Ask("users", "app", "", 1)]), NOW);
    assert_eq!(answers.details.limits[0].figures.used, 0);
    world.verify();
}

// Shows: distinct-members.
#[test]
fn a_set_for_ever_is_not_evicted_and_a_sketch_is() {
    let world = World::new(
        r#"<map><group name="tiny" files="1" key-nodes="1" chain="2" node-size="320"/>
        <biz id="1" name="set" key="string"><limit policy="distinct" precision="exact" max="2"/></biz>
        <biz id="2" name="sketch" key="string"><limit policy="distinct" precision="8"/></biz></map>"#,
    );
    let mut service = world.attach();
    note(&mut service, "sketch", "a", "m");
    note(&mut service, "set", "b", "m");
    note(&mut service, "set", "c", "m");
    let full = ask(&mut service, Command::Update, Ask("set", "d", "m", 1));
    assert_eq!(full, Err(ItemError::Full));
    assert_eq!(asked(&mut service, "sketch", "a", "").figures.used, 0);
    // A set without members is like one that never existed.
    ask(&mut service, Command::Update, Ask("set", "b", "m", -1)).unwrap();
    assert!(!note(&mut service, "set", "d", "m").limited);
    world.verify();
}
