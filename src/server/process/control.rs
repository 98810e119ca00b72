//! Requests to the master and their answers, as texts. Commands and the admin plane exchange them
//! with the master over a [`ControlStream`](super::control_stream::ControlStream).
//!
//! Invariant: the text of a value is read as the same value. Any other text is an error.
//!
//! ```text
//! request: reload LOSS EDIT BIZ | degrade SWITCH | reset BIZ EPOCH | refusal
//! answer:  taken GENERATION, or refused CAUSE
//!          a group of records, a laggard or a fault, a line each
//! ```
//!
//! LOSS is a number of [`Loss`], EDIT and SWITCH are 0 or 1, and BIZ and EPOCH may be `-`.

use frs_base::named;

/// The most bytes of the text of a request.
pub const REQUEST_BYTES_MAX: usize = 128;
/// The most bytes of the text of an answer. The lines beyond are in the log.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Begins a line that names records which begin anew.
const FRESH: &str = "fresh ";
/// Stands for no biz or no epoch.
const NONE: &str = "-";

/// A request to the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Load the configuration files as they are now.
    Reload(ReloadOptions),
    /// Switch all limits off (true) or on again.
    Degrade(bool),
    /// Reset the counters of a biz.
    Reset {
        /// The id of the biz.
        biz: u32,
        /// The epoch under which the void records of the biz were cleared. `None` if that was not
        /// necessary.
        cleared: Option<u64>,
    },
    /// Repeat the faults of the last refused reload.
    Refusal,
}

/// The permissions and the additional tasks of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReloadOptions {
    /// The records that it may lose.
    pub loss: Loss,
    /// The biz whose bans end with the reload.
    pub lift_bans: Option<u32>,
    /// The keeper has changed map.xml for this reload, and restores it if the reload is refused.
    pub is_edit: bool,
}

impl From<Loss> for ReloadOptions {
    fn from(loss: Loss) -> ReloadOptions {
        ReloadOptions { loss, ..ReloadOptions::default() }
    }
}

/// The records that a reload may lose because they do not fit a changed geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loss {
    /// None. A reload that would lose records is refused.
    #[default]
    Refused,
    /// Records of groups whose move begins with the reload. Groups that already move keep their
    /// terms.
    OfNewMoves,
    /// Records of all groups that move.
    Allowed,
}

impl Loss {
    /// The value with this number.
    pub(crate) fn of_number(number: u32) -> Option<Loss> {
        [Loss::Refused, Loss::OfNewMoves, Loss::Allowed]
            .into_iter()
            .find(|&loss| loss as u32 == number)
    }
}

impl Ask {
    /// The text of the request.
    pub fn to_text(self) -> String {
        let or_none = |number: Option<u64>| number.map_or(NONE.to_owned(), |n| n.to_string());
        match self {
            Ask::Reload(ReloadOptions { loss, lift_bans, is_edit }) => {
                let biz = or_none(lift_bans.map(u64::from));
                format!("reload {} {} {biz}", loss as u32, u8::from(is_edit))
            }
            Ask::Degrade(on) => format!("degrade {}", u8::from(on)),
            Ask::Reset { biz, cleared } => format!("reset {biz} {}", or_none(cleared)),
            Ask::Refusal => "refusal".to_owned(),
        }
    }

    /// The request with this text.
    pub fn of_text(text: &str) -> Option<Ask> {
        let or_none = |word: &str| match word {
            NONE => Some(None),
            number => number.parse::<u64>().ok().map(Some),
        };
        let switch = |word: &str| match word {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        let words: Vec<&str> = text.split(' ').collect();
        Some(match words[..] {
            ["reload", loss, edit, biz] => Ask::Reload(ReloadOptions {
                loss: Loss::of_number(loss.parse().ok()?)?,
                lift_bans: or_none(biz)?.map(u32::try_from).transpose().ok()?,
                is_edit: switch(edit)?,
            }),
            ["degrade", on] => Ask::Degrade(switch(on)?),
            ["reset", biz, epoch] => {
                Ask::Reset { biz: biz.parse().ok()?, cleared: or_none(epoch)? }
            }
            ["refusal"] => Ask::Refusal,
            _ => return None,
        })
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// A new generation is in force.
    Taken {
        /// The number of the generation.
        generation: u64,
        /// The processes that did not acknowledge the generation in time.
        laggards: Vec<String>,
        /// The records that begin anew, and the groups that are not served, one line each.
        fresh: Vec<String>,
    },
    /// The old configuration stays in force.
    Refused {
        /// The kind of the fault.
        cause: Cause,
        /// The faults, one line each.
        faults: Vec<String>,
    },
}

named! {
    /// The cause of a refusal, by what resolves it.
    #[derive(Default)]
    Cause {
        /// A corrected configuration resolves it.
        #[default]
        Fault "fault",
        /// More room on the disk resolves it.
        NoRoom "no-room",
        /// The end of a move that is under way resolves it.
        Moving "moving",
        /// A later try resolves it.
        NotNow "not-now",
    }
}

impl Reloaded {
    /// The text of the answer. It ends with the last line that fits.
    pub fn to_text(&self) -> String {
        let (mut text, fresh, rest) = match self {
            Reloaded::Taken { generation, laggards, fresh } => {
                (format!("taken {generation}\n"), &fresh[..], laggards)
            }
            Reloaded::Refused { cause, faults } => {
                (format!("refused {}\n", cause.word()), &[][..], faults)
            }
        };
        let fresh = fresh.iter().map(|line| (FRESH, line));
        for (mark, line) in fresh.chain(rest.iter().map(|line| ("", line))) {
            if text.len() + mark.len() + line.len() >= ANSWER_BYTES_MAX {
                break;
            }
            text.extend([mark, line, "\n"]);
        }
        text
    }

    /// The answer with this text.
    pub fn of_text(text: &str) -> Option<Reloaded> {
        let mut lines = text.lines();
        Some(match lines.next()?.split_once(' ')? {
            ("taken", generation) => {
                let (fresh, laggards): (Vec<&str>, Vec<&str>) =
                    lines.partition(|line| line.starts_with(FRESH));
                Reloaded::Taken {
                    generation: generation.parse().ok()?,
                    laggards: laggards.into_iter().map(str::to_owned).collect(),
                    fresh: fresh.into_iter().map(|line| line[FRESH.len()..].to_owned()).collect(),
                }
            }
            ("refused", cause) => {
                let (cause, faults) = (Cause::of(cause)?, lines.map(str::to_owned).collect());
                Reloaded::Refused { cause, faults }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let reset = |cleared| Ask::Reset { biz: u32::MAX, cleared };
        for ask in [
            Ask::Reload(Loss::Refused.into()),
            Ask::Reload(Loss::OfNewMoves.into()),
            Ask::Reload(Loss::Allowed.into()),
            Ask::Reload(ReloadOptions {
                loss: Loss::Refused,
                lift_bans: Some(u32::MAX),
                is_edit: true,
            }),
            Ask::Degrade(true),
            Ask::Degrade(false),
            reset(None),
            reset(Some(127)),
            reset(Some(u64::MAX)),
            Ask::Refusal,
        ] {
            let text = ask.to_text();
            assert!(text.len() <= REQUEST_BYTES_MAX);
            assert_eq!(Ask::of_text(&text), Some(ask), "{text}");
            for end in 0..text.len() {
                assert_ne!(Ask::of_text(&text[..end]), Some(ask), "{}", &text[..end]);
            }
            assert_eq!(Ask::of_text(&format!("{text} ")), None);
        }
        for text in
            ["", "reload", "reload 3 0 -", "reload 0 2 -", "reload 0 0 4294967296", "reset - -"]
        {
            assert_eq!(Ask::of_text(text), None, "{text}");
        }
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        for result in [
            Reloaded::Taken { generation: 7, laggards: vec![], fresh: vec![] },
            Reloaded::Taken {
                generation: 8,
                laggards: vec!["worker 3 (process 17)".into()],
                fresh: vec!["biz a: 1 live record".into(), "biz b: 2".into()],
            },
            Reloaded::Refused { cause: Cause::NoRoom, faults: vec!["map.xml:1:2: ä".into()] },
            Reloaded::Refused { cause: Cause::Moving, faults: vec!["long ".repeat(2000)] },
            Reloaded::Refused { cause: Cause::NotNow, faults: vec![] },
        ] {
            assert_eq!(Reloaded::of_text(&result.to_text()), Some(result));
        }
        for text in ["", "taken", "taken x", "refused", "refused why", "fault 1", "\ntaken 1"] {
            assert_eq!(Reloaded::of_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_answer_that_is_too_long_ends_between_two_lines() {
        let faults = vec!["a line".to_owned(); ANSWER_BYTES_MAX / 4];
        let text = Reloaded::Refused { cause: Cause::Fault, faults }.to_text();
        assert!(text.len() <= ANSWER_BYTES_MAX && text.ends_with("\na line\n"));
        assert!(text.len() > ANSWER_BYTES_MAX - 16);
    }
}
