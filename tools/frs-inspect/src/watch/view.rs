//! The view draws the latest rates on the screen.

use frs::base::figures::grouped;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Table};

use super::sample::{BizLine, GroupLine, Rates};
use crate::counters::Items;
use crate::show;

/// The latest rates, and the business whose keys are shown.
pub struct View {
    title: String,
    rates: Option<Rates>,
    biz: usize,
    /// The user has chosen the business; otherwise it is the busiest.
    is_chosen: bool,
}

impl View {
    pub fn new(title: &str) -> View {
        View { title: title.to_owned(), rates: None, biz: 0, is_chosen: false }
    }

    pub fn take(&mut self, rates: Rates) {
        self.biz = self.biz.min(rates.bizs.len().saturating_sub(1));
        if !self.is_chosen {
            // Of equals, the first.
            let busiest = (0..rates.bizs.len()).rev().max_by_key(|&nth| rates.bizs[nth].items.all);
            self.biz = busiest.unwrap_or(0);
        }
        self.rates = Some(rates);
    }

    /// Shows the keys of the next business.
    pub fn next(&mut self) {
        let count = self.rates.as_ref().map_or(1, |rates| rates.bizs.len().max(1));
        (self.biz, self.is_chosen) = ((self.biz + 1) % count, true);
    }

    /// Shows the keys of the previous business.
    pub fn previous(&mut self) {
        let count = self.rates.as_ref().map_or(1, |rates| rates.bizs.len().max(1));
        (self.biz, self.is_chosen) = ((self.biz + count - 1) % count, true);
    }

    pub fn draw(&self, frame: &mut Frame<'_>) {
        let Some(rates) = &self.rates else {
            frame.render_widget(Paragraph::new("looking …"), frame.area());
            return;
        };
        let groups = rates.groups.len().min(6) as u16;
        let bizs = rates.bizs.len().min(8) as u16;
        let [head, counts, occupancy, businesses, keys] = Layout::vertical([
            Constraint::Length(2 + rates.faults.len().min(3) as u16),
            Constraint::Length(7),
            Constraint::Length(groups + 2),
            Constraint::Length(bizs + 3),
            Constraint::Min(3),
        ])
        .areas(frame.area());
        self.draw_head(frame, head, rates);
        draw_counts(frame, counts, rates);
        draw_groups(frame, occupancy, &rates.groups);
        self.draw_bizs(frame, businesses, rates);
        self.draw_keys(frame, keys, rates);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
        let server = match rates.running {
            Some(pid) => format!("server running (process {pid})"),
            None => "server not running".to_owned(),
        };
        let (title, generation, time) = (&self.title, rates.generation, show::time(rates.now_ms));
        let mut lines = vec![
            Line::styled(
                format!("{title}: {server}, generation {generation}, {time}"),
                Style::new().add_modifier(Modifier::BOLD),
            ),
            Line::raw("q quits, Tab shows the keys of the next business"),
        ];
        let faults = rates.faults.iter().take(3);
        lines.extend(faults.map(|fault| Line::styled(fault.clone(), Color::Red)));
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn draw_bizs(&self, frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
        // As many as fit, including the selected one.
        let room = usize::from(area.height.saturating_sub(3)).max(1);
        let first = self.biz.saturating_sub(room - 1);
        let row = |(nth, biz): (usize, &BizLine)| {
            let cells = [
                biz.name.clone(),
                rate(biz.items_per_s),
                refused(&biz.items),
                rate(biz.uses_per_s),
                grouped(biz.keys),
                format!("{} ({})", grouped(biz.limited), show::share(biz.limited, biz.keys)),
            ];
            let chosen = Style::new().add_modifier(Modifier::REVERSED);
            Row::new(cells).style(if nth == self.biz { chosen } else { Style::new() })
        };
        let rows = rates.bizs.iter().enumerate().skip(first).take(room).map(row);
        let [wide, narrow] = [Constraint::Fill(2), Constraint::Fill(1)];
        let widths = [wide, narrow, narrow, narrow, narrow, narrow];
        let header =
            Row::new(["business", "items/s", "limited", "uses/s", "keys", "keys limited now"]);
        let table = Table::new(rows, widths).header(header.style(Color::Cyan));
        frame.render_widget(table.block(Block::bordered().title("businesses")), area);
    }

    fn draw_keys(&self, frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
        let Some(biz) = rates.bizs.get(self.biz) else { return };
        let rows = biz.hottest.iter().map(|hot| {
            Row::new([
                show::key(&hot.key),
                rate(hot.uses_per_s),
                grouped(hot.used),
                show::rank(hot.rank).to_owned(),
                show::ago(hot.last_use_ms, rates.now_ms),
            ])
        });
        let widths = [
            Constraint::Fill(3),
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Fill(1),
        ];
        let header = Row::new(["key", "uses/s", "used", "state", "last used"]);
        let table = Table::new(rows, widths).header(header.style(Color::Cyan));
        let title = format!("hottest keys of {}", biz.name);
        frame.render_widget(table.block(Block::bordered().title(title)), area);
    }
}

/// A rate per second, with one decimal.
fn rate(per_s: f64) -> String {
    let tenths = (per_s * 10.0).round() as u64;
    format!("{}.{}", grouped(tenths / 10), tenths % 10)
}

/// The share of items that were refused; a dash if there were no items.
fn refused(items: &Items) -> String {
    match items.all {
        0 => "–".to_owned(),
        all => show::share(items.refused, all),
    }
}

fn draw_counts(frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
    let counted = rates.counters.iter();
    let mut cells: Vec<String> = counted
        .map(|one| format!("{} {} ({}/s)", one.name, grouped(one.count), rate(one.per_s)))
        .collect();
    cells.push(format!("limited {}", refused(&rates.items)));
    if rates.skipped > 0 {
        cells.push(format!("torn or in transaction {}", grouped(rates.skipped as u64)));
    }
    let rows = cells.chunks(3).map(|cells| Row::new(cells.to_vec()));
    let table = Table::new(rows, [Constraint::Fill(1); 3]);
    frame.render_widget(table.block(Block::bordered().title("counted")), area);
}

fn draw_groups(frame: &mut Frame<'_>, area: Rect, groups: &[GroupLine]) {
    let block = Block::bordered().title("groups");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    for (group, row) in groups.iter().zip(inner.rows()) {
        let taken = group.live + group.expired;
        let ratio = if group.places == 0 { 0.0 } else { taken as f64 / group.places as f64 };
        let label = format!(
            "{}{}: {} live ({} limiting), {} expired of {}",
            group.name,
            if group.is_moving { " (moving)" } else { "" },
            grouped(group.live),
            grouped(group.limiting),
            grouped(group.expired),
            grouped(group.places)
        );
        let color = if ratio > 0.7 { Color::Red } else { Color::Green };
        let gauge = Gauge::default().ratio(ratio.clamp(0.0, 1.0)).label(label).gauge_style(color);
        frame.render_widget(gauge, row);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::sample::{CounterRate, Hot};
    use super::*;

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn rates() -> Rates {
        let hot = Hot {
            key: "alice\n".to_owned(),
            used: 7,
            uses_per_s: 3.5,
            is_fresh: true,
            rank: frs::store::Rank::Limiting,
            last_use_ms: 1000,
        };
        let biz = |name: &str, all, hottest| BizLine {
            name: name.to_owned(),
            items_per_s: 40.5,
            items: Items { all, refused: 5, errors: 0 },
            keys: 4,
            limited: 1,
            uses_per_s: 12.25,
            hottest,
        };
        Rates {
            now_ms: 3000,
            generation: 2,
            running: Some(17),
            items: Items { all: 80, refused: 1, errors: 0 },
            counters: vec![
                CounterRate { name: "requests", count: 9, per_s: 1234.0 },
                CounterRate { name: "nodes created", count: 5, per_s: 0.5 },
            ],
            groups: vec![GroupLine {
                name: "default".to_owned(),
                live: 4,
                limiting: 1,
                expired: 2,
                places: 8,
                is_moving: true,
            }],
            bizs: vec![
                biz("api", 3, Vec::new()),
                biz("login", 40, vec![hot]),
                biz("sms", 40, Vec::new()),
            ],
            skipped: 0,
            faults: Vec::new(),
        }
    }

    #[test]
    fn the_screen_shows_rates_occupancy_and_keys() {
        let mut view = View::new("data");
        assert!(drawn(&view, 100, 30).contains("looking"));
        view.take(rates());
        let screen = drawn(&view, 100, 30);
        for part in [
            "data: server running (process 17), generation 2, 1970-01-01T00:00:03",
            "requests 9 (1,234.0/s)",
            "limited 1.25 %",
            "40.5",
            "12.50 %",
            "nodes created 5 (0.5/s)",
            "default (moving): 4 live (1 limiting), 2 expired of 8",
            "1 (25.00 %)",
            "hottest keys of login",
            "\"alice\\n\"",
            "2.0 s ago",
        ] {
            assert!(screen.contains(part), "{part:?} in\n{screen}");
        }
        view.next();
        assert!(drawn(&view, 100, 30).contains("hottest keys of sms"));
        view.next();
        view.take(rates());
        assert!(drawn(&view, 100, 30).contains("hottest keys of api"), "chosen, not the busiest");
        view.previous();
        assert!(drawn(&view, 100, 30).contains("hottest keys of sms"));
    }

    #[test]
    fn no_size_of_the_screen_panics() {
        let mut view = View::new("data");
        view.take(rates());
        view.take(Rates::default());
        for (width, height) in [(1, 1), (3, 40), (200, 2), (40, 9), (80, 24)] {
            drawn(&view, width, height);
        }
        view.take(rates());
        for (width, height) in [(1, 1), (3, 40), (200, 2), (40, 9), (80, 24)] {
            drawn(&view, width, height);
        }
    }
}
