//! The screen: figures in, lines out.
//!
//! Invariant: pure. The lines are neither wider nor more than those of the screen. The most
//! important lines are at the top and are left out last.

use frs_base::figures::grouped;
use frs_engine::inspect::RefusedNode;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::choice::Choice;
use super::columns::{cut, joined};
use super::figures::{BizLine, CounterLine, GroupLine, HotLine, WatchFigures};
use super::health::{MasterState, Remark};
use super::section::{Section, SectionRow, heights};
use crate::show;

/// The width and height of the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub columns: usize,
    pub lines: usize,
}

/// A group that is fuller than this has begun to evict.
const FULL_PERCENT: u64 = 70;
/// The number of lines of the screen for each remark.
const LINES_OF_A_REMARK: usize = 4;
/// The lines besides sections and remarks: two at the top, and the keys at the bottom.
const OTHER_LINES: usize = 3;

/// Draws the chosen part of the figures. `title` names the data directory.
pub fn screen(
    title: &str,
    figures: Option<&WatchFigures>,
    choice: &Choice,
    size: Size,
) -> Vec<Line<'static>> {
    let mut lines = match figures {
        None => vec![Line::raw(cut(&format!("looking into {title} …"), size.columns))],
        Some(figures) => body(title, figures, choice, size),
    };
    lines.truncate(size.lines.saturating_sub(1).max(1));
    let keys = usize::from(size.lines > 1);
    lines.resize(size.lines.saturating_sub(keys), Line::default());
    if keys > 0 {
        lines.push(help(choice, size.columns));
    }
    lines
}

/// The number of businesses that are shown at once.
pub fn page(figures: &WatchFigures, choice: &Choice, size: Size) -> usize {
    let sections = sections(figures, choice);
    let remarks = figures.health.remarks(figures.now_ms);
    sections[0].page(heights(&sections, room(&remarks, size))[0])
}

fn body(title: &str, figures: &WatchFigures, choice: &Choice, size: Size) -> Vec<Line<'static>> {
    let remarks = figures.health.remarks(figures.now_ms);
    let mut lines =
        vec![state(title, figures, &remarks, size.columns), totals(figures, size.columns)];
    lines.extend(remark_lines(&remarks, size));
    let sections = sections(figures, choice);
    let heights = heights(&sections, room(&remarks, size));
    let shown = sections.iter().zip(heights).filter(|(_, height)| *height > 0);
    lines.extend(shown.flat_map(|(section, height)| section.draw(size.columns, height)));
    lines
}

/// The number of lines for all sections.
fn room(remarks: &[Remark], size: Size) -> usize {
    size.lines.saturating_sub(OTHER_LINES + remarks.len().min(most_remarks(size)))
}

/// The most lines with remarks.
fn most_remarks(size: Size) -> usize {
    (size.lines / LINES_OF_A_REMARK).max(1)
}

/// Every list of the screen, the most important first. A new list is a line here and a function
/// below that makes its rows.
fn sections(figures: &WatchFigures, choice: &Choice) -> Vec<Section> {
    let listed = choice.listed(&figures.bizs);
    let place = choice.place(&listed);
    let mut sections = vec![businesses(figures, choice, &listed, place)];
    sections.extend((!figures.refused.is_empty()).then(|| refused(figures)));
    sections.extend([
        groups(figures),
        hottest(figures, listed.get(place).copied()),
        counted(figures),
    ]);
    sections
}

fn state(title: &str, figures: &WatchFigures, remarks: &[Remark], columns: usize) -> Line<'static> {
    let health = &figures.health;
    let problems = remarks.iter().filter(|it| it.is_problem).count();
    let (word, color) = match (problems, health.degraded) {
        (0, false) => ("healthy".to_owned(), Color::Green),
        (0, true) => ("healthy, degraded".to_owned(), Color::Yellow),
        (1, _) => ("1 problem".to_owned(), Color::Red),
        (more, _) => (format!("{} problems", grouped(more as u64)), Color::Red),
    };
    let [workers, wanted] = [health.workers, health.workers_wanted].map(grouped);
    let mut parts = vec![word, format!("generation {}", grouped(figures.generation))];
    if let MasterState::Runs(pid) = health.master {
        parts.push(format!("{workers} of {wanted} workers"));
        parts.push(format!("restarts {}", grouped(health.restarts)));
        parts.push(format!("process {pid}"));
    }
    parts.push(show::time_of_day(figures.now_ms));
    parts.push(title.escape_debug().to_string());
    Line::styled(joined(&parts, columns), Style::new().fg(color).add_modifier(Modifier::BOLD))
}

fn totals(figures: &WatchFigures, columns: usize) -> Line<'static> {
    let items = &figures.items;
    let parts = [
        format!("requests {}/s", rate(figures, figures.requests.more)),
        format!("limited {}", share_or_dash(items.refused, items.all)),
        format!("errors {}/s", rate(figures, items.errors)),
        format!("items {}/s", rate(figures, items.all)),
        format!("connections {}", grouped(figures.health.connections)),
        format!("requests in all {}", grouped(figures.requests.all)),
    ];
    Line::raw(joined(&parts, columns))
}

/// The remarks for which there is room. The last line has the number of further remarks.
fn remark_lines(all: &[Remark], size: Size) -> Vec<Line<'static>> {
    let most = most_remarks(size);
    let shown = if all.len() > most { most - 1 } else { all.len() };
    let line = |remark: &Remark| {
        let color = if remark.is_problem { Color::Red } else { Color::Yellow };
        // A path in the text may have any characters.
        let text = frs_server::protocol::visible::in_text(&remark.text).replace(['\n', '\t'], " ");
        Line::styled(cut(&text, size.columns), color)
    };
    let mut lines: Vec<Line<'static>> = all.iter().take(shown).map(line).collect();
    if shown < all.len() {
        let more = format!("+ {} more remarks", grouped((all.len() - shown) as u64));
        lines.push(Line::styled(cut(&more, size.columns), Color::Red));
    }
    lines
}

fn businesses(
    figures: &WatchFigures,
    choice: &Choice,
    listed: &[&BizLine],
    place: usize,
) -> Section {
    let mut title = format!("business by {}", choice.order.word());
    if !choice.filter.is_empty() {
        title = format!("business with {}", choice.filter.escape_debug());
    }
    let row = |biz: &&BizLine| {
        SectionRow::plain(vec![
            biz.name.escape_debug().to_string(),
            rate(figures, biz.items.passed),
            rate(figures, biz.items.refused),
            share_or_dash(biz.items.refused, biz.items.all),
            rate(figures, biz.items.errors),
            grouped(biz.limited),
            grouped(biz.keys),
            rate(figures, biz.uses),
        ])
    };
    let names =
        [&title, "allowed/s", "limited/s", "limited", "errors/s", "keys limited", "keys", "uses/s"];
    let section = Section::new(names, listed.iter().map(row), 3);
    Section { chosen: (!listed.is_empty()).then_some(place), ..section }
}

fn refused(figures: &WatchFigures) -> Section {
    let row = |node: &RefusedNode| {
        SectionRow::plain(vec![
            show::refused_key(node),
            node.biz.escape_debug().to_string(),
            grouped(node.refused),
            grouped(node.error),
            show::ago(node.last_ms, figures.now_ms),
        ])
    };
    let names = ["refused in 1 m", "business", "refused", "error", "last"];
    Section::new(names, figures.refused.iter().map(row), 2)
}

fn groups(figures: &WatchFigures) -> Section {
    let row = |group: &GroupLine| {
        let taken = group.live + group.expired;
        let is_full = taken.saturating_mul(100) > group.places.saturating_mul(FULL_PERCENT);
        let forgets = group.evicted_limiting;
        let color = match (forgets.more > 0, is_full) {
            (true, _) => Style::new().fg(Color::Red),
            (false, true) => Style::new().fg(Color::Yellow),
            (false, false) => Style::new(),
        };
        let moving = if group.is_moving { " (moving)" } else { "" };
        SectionRow {
            cells: vec![
                format!("{}{moving}", group.name.escape_debug()),
                show::share(taken, group.places),
                grouped(forgets.all),
                rate(figures, forgets.more),
                grouped(group.live),
                grouped(group.limiting),
                grouped(group.expired),
                grouped(group.places),
            ],
            style: color,
        }
    };
    let names =
        ["group", "full", "limiting evicted", "per s", "live", "limiting", "expired", "places"];
    Section::new(names, figures.groups.iter().map(row), 1)
}

fn hottest(figures: &WatchFigures, biz: Option<&BizLine>) -> Section {
    let name = biz.map_or("no business", |biz| &biz.name);
    let row = |hot: &HotLine| {
        SectionRow::plain(vec![
            show::key(&hot.key),
            grouped(hot.used),
            show::rank(hot.rank).to_owned(),
            rate(figures, hot.more),
            show::ago(hot.last_use_ms, figures.now_ms),
        ])
    };
    let title = format!("hot keys of {}", name.escape_debug());
    let keys = biz.map_or(&[][..], |biz| &biz.hottest).iter();
    Section::new([&title, "used", "state", "uses/s", "last used"], keys.map(row), 2)
}

fn counted(figures: &WatchFigures) -> Section {
    let row = |count: &CounterLine| {
        SectionRow::plain(vec![
            count.name.to_owned(),
            rate(figures, count.growth.more),
            grouped(count.growth.all),
        ])
    };
    Section::new(["counted", "per s", "in all"], figures.counted.iter().map(row), 0)
}

fn help(choice: &Choice, columns: usize) -> Line<'static> {
    let parts = match choice.is_typing {
        true => {
            vec![format!("name has: {}_", choice.filter), "Enter keeps".into(), "Esc ends".into()]
        }
        false => ["q quit", "↑↓ choose", "PgUp PgDn page", "s sort", "/ filter", "Home End"]
            .map(str::to_owned)
            .to_vec(),
    };
    Line::styled(joined(&parts, columns), Modifier::DIM)
}

/// A rate per second: a dash without an earlier look, and one decimal below a thousand.
fn rate(figures: &WatchFigures, more: u64) -> String {
    let Some(seconds) = figures.seconds else { return "–".to_owned() };
    let tenths = (more as f64 * 10.0 / seconds).round() as u64;
    match tenths {
        0..10_000 => format!("{}.{}", tenths / 10, tenths % 10),
        tenths => grouped(tenths / 10),
    }
}

/// A share. A dash if the whole is 0.
fn share_or_dash(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { show::share(part, whole) }
}

#[cfg(test)]
mod tests;
