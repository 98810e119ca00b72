//! The user's choices: the order of the businesses, the filter on them, and the business whose keys
//! are shown.
//!
//! Invariant: whatever key is pressed, one of the listed businesses is chosen, if any is listed.

use std::cmp::Reverse;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::figures::BizLine;

/// The most characters of a filter.
const FILTER: usize = 64;

/// The order of the businesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortOrder {
    #[default]
    Traffic,
    Refusals,
    /// The order of map.xml.
    Map,
}

/// The user's choices.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub order: SortOrder,
    /// Only businesses with this text in their names are listed.
    pub filter: String,
    /// Whether typed letters belong to the filter.
    pub is_typing: bool,
    /// The name of the chosen business. `None` for the first one listed.
    biz: Option<String>,
}

/// The effect of a key on the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    Stay,
    Quit,
}

impl SortOrder {
    pub fn word(self) -> &'static str {
        match self {
            SortOrder::Traffic => "traffic",
            SortOrder::Refusals => "refusals",
            SortOrder::Map => "map.xml",
        }
    }

    fn next(self) -> SortOrder {
        match self {
            SortOrder::Traffic => SortOrder::Refusals,
            SortOrder::Refusals => SortOrder::Map,
            SortOrder::Map => SortOrder::Traffic,
        }
    }
}

impl Choice {
    /// The businesses to list, in order. Equal ones keep the order of map.xml.
    pub fn listed<'b>(&self, bizs: &'b [BizLine]) -> Vec<&'b BizLine> {
        let filter = self.filter.to_lowercase();
        let is_meant = |biz: &&BizLine| biz.name.to_lowercase().contains(&filter);
        let mut listed: Vec<&BizLine> = bizs.iter().filter(is_meant).collect();
        match self.order {
            SortOrder::Traffic => listed.sort_by_key(|biz| Reverse(biz.items.all)),
            SortOrder::Refusals => listed.sort_by_key(|biz| Reverse(biz.items.refused)),
            SortOrder::Map => {}
        }
        listed
    }

    /// The position of the chosen business among the listed ones.
    pub fn place(&self, listed: &[&BizLine]) -> usize {
        let is_it = |biz: &&BizLine| Some(&biz.name) == self.biz.as_ref();
        listed.iter().position(is_it).unwrap_or(0)
    }

    /// Handles a key. `page` is the number of businesses on a page.
    pub fn press(&mut self, key: KeyEvent, bizs: &[BizLine], page: usize) -> Pressed {
        if key.kind == KeyEventKind::Release {
            return Pressed::Stay;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Pressed::Quit;
        }
        match self.is_typing {
            true => self.edit(key.code, bizs, page),
            false => return self.command(key.code, bizs, page),
        }
        Pressed::Stay
    }

    fn edit(&mut self, key: KeyCode, bizs: &[BizLine], page: usize) {
        match key {
            KeyCode::Char(c) if self.filter.chars().count() < FILTER && !c.is_control() => {
                self.filter.push(c);
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
            key => self.step(key, bizs, page),
        }
    }

    fn command(&mut self, key: KeyCode, bizs: &[BizLine], page: usize) -> Pressed {
        match key {
            KeyCode::Char('q') => return Pressed::Quit,
            KeyCode::Esc if self.filter.is_empty() => return Pressed::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s') => self.order = self.order.next(),
            key => self.step(key, bizs, page),
        }
        Pressed::Stay
    }

    /// Chooses another business. Single steps wrap around.
    fn step(&mut self, key: KeyCode, bizs: &[BizLine], page: usize) {
        let listed = self.listed(bizs);
        let Some(last) = listed.len().checked_sub(1) else { return };
        let place = self.place(&listed);
        let next = match key {
            KeyCode::Down | KeyCode::Right | KeyCode::Tab if place == last => 0,
            KeyCode::Down | KeyCode::Right | KeyCode::Tab => place + 1,
            KeyCode::Up | KeyCode::Left | KeyCode::BackTab => place.checked_sub(1).unwrap_or(last),
            KeyCode::PageDown => place.saturating_add(page).min(last),
            KeyCode::PageUp => place.saturating_sub(page),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return,
        };
        self.biz = Some(listed[next].name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::ItemCounts;

    fn bizs() -> Vec<BizLine> {
        let biz = |(name, all, refused): (&str, u64, u64)| BizLine {
            name: name.to_owned(),
            items: ItemCounts { all, refused, ..ItemCounts::default() },
            ..BizLine::default()
        };
        [("api", 5, 0), ("Login", 9, 1), ("sms", 9, 4), ("pay", 0, 0)].map(biz).to_vec()
    }

    fn names(choice: &Choice) -> Vec<String> {
        choice.listed(&bizs()).iter().map(|biz| biz.name.clone()).collect()
    }

    fn chosen(choice: &Choice) -> String {
        let bizs = bizs();
        let listed = choice.listed(&bizs);
        listed[choice.place(&listed)].name.clone()
    }

    fn press(choice: &mut Choice, keys: &[KeyCode]) -> Pressed {
        let press = |key: &KeyCode| choice.press(KeyEvent::from(*key), &bizs(), 2);
        keys.iter().map(press).last().expect("a key")
    }

    #[test]
    fn s_changes_the_order_and_the_choice_goes_along() {
        let mut choice = Choice::default();
        assert_eq!(names(&choice), ["Login", "sms", "api", "pay"]);
        assert_eq!(chosen(&choice), "Login", "the busiest, until one is chosen");
        press(&mut choice, &[KeyCode::Char('s')]);
        assert_eq!(names(&choice), ["sms", "Login", "api", "pay"]);
        assert_eq!(chosen(&choice), "sms");
        press(&mut choice, &[KeyCode::Down, KeyCode::Char('s')]);
        assert_eq!(names(&choice), ["api", "Login", "sms", "pay"]);
        assert_eq!(chosen(&choice), "Login");
        press(&mut choice, &[KeyCode::Char('s')]);
        assert_eq!(choice.order, SortOrder::Traffic);
    }

    #[test]
    fn keys_go_through_all_businesses() {
        use KeyCode::{BackTab, Down, End, Home, PageDown, PageUp, Tab, Up};
        let mut choice = Choice { order: SortOrder::Map, ..Choice::default() };
        for (key, expected) in [
            (Down, "Login"),
            (Tab, "sms"),
            (PageDown, "pay"),
            (Down, "api"),
            (Up, "pay"),
            (PageUp, "Login"),
            (BackTab, "api"),
            (End, "pay"),
            (Home, "api"),
            (PageUp, "api"),
        ] {
            assert_eq!(press(&mut choice, &[key]), Pressed::Stay);
            assert_eq!(chosen(&choice), expected, "{key:?}");
        }
        assert_eq!(choice.press(KeyEvent::from(Down), &[], 2), Pressed::Stay, "none to choose");
    }

    #[test]
    fn a_filter_lists_names_that_have_it_and_esc_removes_it() {
        let mut choice = Choice::default();
        press(&mut choice, &[KeyCode::Char('/'), KeyCode::Char('l'), KeyCode::Char('q')]);
        assert_eq!(names(&choice), [""; 0]);
        press(&mut choice, &[KeyCode::Backspace, KeyCode::Char('O')]);
        assert_eq!(names(&choice), ["Login"]);
        press(&mut choice, &[KeyCode::Enter, KeyCode::Char('s')]);
        assert_eq!((choice.order, &*choice.filter), (SortOrder::Refusals, "lO"));
        assert_eq!(press(&mut choice, &[KeyCode::Esc]), Pressed::Stay);
        assert_eq!(names(&choice).len(), 4);
        press(&mut choice, &[KeyCode::Char('/')]);
        press(&mut choice, &[KeyCode::Char('x'); 2 * FILTER]);
        assert_eq!(choice.filter.len(), FILTER);
        assert_eq!(press(&mut choice, &[KeyCode::Esc]), Pressed::Stay);
        assert_eq!((choice.is_typing, &*choice.filter), (false, ""));
    }

    #[test]
    fn q_esc_and_control_c_quit() {
        let mut choice = Choice::default();
        assert_eq!(press(&mut choice, &[KeyCode::Char('q')]), Pressed::Quit);
        assert_eq!(press(&mut choice, &[KeyCode::Esc]), Pressed::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for is_typing in [false, true] {
            choice.is_typing = is_typing;
            assert_eq!(choice.press(interrupt, &bizs(), 2), Pressed::Quit);
            let released = KeyEvent { kind: KeyEventKind::Release, ..interrupt };
            assert_eq!(choice.press(released, &bizs(), 2), Pressed::Stay);
        }
    }
}
