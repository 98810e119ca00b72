//! The entry of a change in the log of changes, and such an entry as an edit to revert.
//!
//! Invariant: the texts of a biz are its elements as written in map.xml.

use super::map_edit::{Edit, EditToRevert};
use super::response::Refusal;
use super::route::RecordRef;
use crate::process::change_log::{ChangeKind, LoggedChange, Subject};
use crate::protocol::element_tree::{Element, Layout};
use crate::protocol::{Code, Format};
use frs_engine::RecordFigures;

/// The entries of an edit of a biz that may also lift its bans. If the text does not change, only
/// the lifting is an entry.
pub fn of_edit(kind: ChangeKind, edit: &Edit, lifts_bans: bool) -> Vec<Subject> {
    let target = || Some(edit.name.clone());
    let (old, new) = (edit.old.clone(), edit.new.clone());
    let edited = (old != new || !lifts_bans).then(|| Subject { kind, target: target(), old, new });
    let lifted = lifts_bans.then(|| Subject::of(ChangeKind::LiftBans, target()));
    edited.into_iter().chain(lifted).collect()
}

/// The entry of a record that is changed by an operator. `biz` is the name of its business, if
/// there is one.
pub fn of_record(record: &RecordRef, biz: Option<&str>) -> Subject {
    let biz = biz.unwrap_or(&record.biz);
    let target = match &record.key {
        Some(key) => format!("{biz}/{key}"),
        None => biz.to_owned(),
    };
    Subject::of(ChangeKind::Node, Some(target))
}

/// A record as text.
pub fn record_text(figures: &RecordFigures) -> String {
    let limits = figures.uses.iter().map(|limit| {
        Element::new("limit").with("index", u64::from(limit.limit)).with("used", limit.used)
    });
    let node = Element::new("node").with_some("banned-until", figures.banned_until_ms);
    let mut text = node.holding(limits).document(Format::Xml, Layout::Dense);
    text.truncate(text.trim_end().len());
    text
}

/// The edit of a biz that a change has made.
///
/// # Errors
/// The change is no edit of a biz, or the log does not have its whole text.
pub fn undone(change: &LoggedChange) -> Result<EditToRevert<'_>, Refusal> {
    let no = |words: &str| {
        let words = format!("change {} {words}", change.id);
        Err(Refusal::new(422, Code::Refused, words))
    };
    match change.kind {
        ChangeKind::Biz | ChangeKind::Undo if change.is_cut() => {
            no("cannot be undone: its biz was too long to be kept")
        }
        ChangeKind::Biz | ChangeKind::Undo => {
            Ok(EditToRevert { old: change.old.as_deref(), new: change.new.as_deref() })
        }
        other => {
            let words =
                format!("is of the kind {}: only a change of a biz is undone", other.word());
            no(&words)
        }
    }
}

/// The changes as a document.
pub fn document(changes: Vec<LoggedChange>) -> Element {
    Element::new("changes").holding(changes.into_iter().map(element))
}

fn element(change: LoggedChange) -> Element {
    Element::new("change")
        .with("id", change.id)
        .with("time", change.time)
        .with("who", change.who)
        .with_some("peer", change.peer)
        .with("what", change.kind.word())
        .with_some("target", change.target)
        .with_some("outcome", change.outcome.is_unknown().then_some("unknown"))
        .holding_markup("old", change.old)
        .holding_markup("new", change.new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::change_log::ChangeOutcome;
    use frs_engine::LimitUse;

    fn change(kind: ChangeKind, outcome: ChangeOutcome) -> LoggedChange {
        LoggedChange {
            id: 17,
            time: "2026-11-22T12:00:00.123Z".into(),
            who: "alice".into(),
            peer: Some("127.0.0.1:9".into()),
            kind,
            target: Some("a<b".into()),
            old: None,
            new: Some("<biz id=\"1\">\n  <limit max='&lt;'/></biz>".into()),
            outcome,
        }
    }

    #[test]
    fn a_document_holds_the_elements_and_in_json_their_text() {
        let document = document(vec![change(ChangeKind::Biz, ChangeOutcome::Done)]);
        assert_eq!(
            document.document(Format::Xml, Layout::Lines),
            "<changes>\n  <change id=\"17\" time=\"2026-11-22T12:00:00.123Z\" who=\"alice\" \
             peer=\"127.0.0.1:9\" what=\"biz\" target=\"a&lt;b\">\n  <new><biz id=\"1\">\n  \
             <limit max='&lt;'/></biz></new></change></changes>\n"
        );
        let json = document.document(Format::Json, Layout::Lines);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let change = &json["changes"]["changes"][0];
        assert_eq!(change["new"], "<biz id=\"1\">\n  <limit max='&lt;'/></biz>");
        assert_eq!((change["old"].is_null(), &change["target"]), (true, &"a<b".into()));
        assert_eq!(change["outcome"], serde_json::Value::Null);
        let unknown =
            super::document(vec![super::tests::change(ChangeKind::Reset, ChangeOutcome::Unknown)]);
        assert!(unknown.document(Format::Xml, Layout::Lines).contains(" outcome=\"unknown\">"));
    }

    // Shows: undo.
    #[test]
    fn only_what_was_an_edit_and_is_kept_can_be_undone() {
        for kind in [ChangeKind::Biz, ChangeKind::Undo] {
            assert!(undone(&change(kind, ChangeOutcome::Done)).is_ok());
            let long = LoggedChange {
                old: Some("(too long)".into()),
                ..change(kind, ChangeOutcome::Done)
            };
            assert_eq!(undone(&long).unwrap_err().status, 422);
        }
        for kind in [
            ChangeKind::Node,
            ChangeKind::Reset,
            ChangeKind::Reload,
            ChangeKind::Degrade,
            ChangeKind::LiftBans,
        ] {
            let refusal = undone(&change(kind, ChangeOutcome::Done)).unwrap_err();
            assert_eq!((refusal.status, refusal.code), (422, Code::Refused));
            assert!(refusal.words.contains(kind.word()), "{}", refusal.words);
        }
    }

    #[test]
    fn a_put_that_lifts_bans_is_two_changes_unless_it_changes_nothing_else() {
        let edit = |old: Option<&str>| Edit {
            text: String::new(),
            name: "a".into(),
            old: old.map(str::to_owned),
            new: Some("<biz/>".into()),
        };
        let kinds = |old, lifts| -> Vec<ChangeKind> {
            of_edit(ChangeKind::Biz, &edit(old), lifts).iter().map(|subject| subject.kind).collect()
        };
        assert_eq!(kinds(None, false), [ChangeKind::Biz]);
        assert_eq!(kinds(Some("<biz />"), true), [ChangeKind::Biz, ChangeKind::LiftBans]);
        assert_eq!(kinds(Some("<biz/>"), true), [ChangeKind::LiftBans]);
        assert_eq!(kinds(Some("<biz/>"), false), [ChangeKind::Biz]);
    }

    #[test]
    fn a_record_is_an_element() {
        let uses = vec![LimitUse { limit: 1, used: 3 }, LimitUse { limit: 3, used: 0 }];
        let figures = RecordFigures { uses, banned_until_ms: Some(9) };
        assert_eq!(
            record_text(&figures),
            "<node banned-until=\"9\"><limit index=\"1\" used=\"3\"/>\
             <limit index=\"3\" used=\"0\"/></node>"
        );
        let record = |key: Option<&str>| RecordRef { biz: "7".into(), key: key.map(str::to_owned) };
        let target = |key, biz| of_record(&record(key), biz).target;
        assert_eq!(target(Some("a/b"), Some("login")), Some("login/a/b".into()));
        assert_eq!(target(None, None), Some("7".into()));
    }
}
