//! A section of the screen: a list with headings, drawn in a number of lines and columns.
//!
//! Invariant: a section takes no more lines and columns than it is given, and no figure is cut. On
//! a narrow screen the last columns are left out, and the texts of the first column are shortened.

use frs_base::figures::grouped;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::columns::{cut, left, right, width};

/// The first column is not made narrower than this to show another column.
const FIRST_COLUMN: usize = 24;
/// The width of the gap between two columns.
const GAP: usize = 2;
/// The heading, one row, and the number of further rows.
const LEAST_LINES: usize = 3;

/// The text that is shown if there are no rows.
const NO_ROWS: &str = "none";

/// A list with headings.
pub struct Section {
    /// The headings of the columns, the most important first. The first column has texts, the
    /// others have figures.
    pub headings: Vec<String>,
    pub rows: Vec<SectionRow>,
    /// The row that is marked and always shown.
    pub chosen: Option<usize>,
    /// The number of lines that the section gets in each round while lines are left. A section of
    /// weight 0 gets only lines that all others leave.
    pub weight: usize,
}

/// A row of a section: a cell for each heading.
pub struct SectionRow {
    pub cells: Vec<String>,
    pub style: Style,
}

impl SectionRow {
    /// A row in the usual colours.
    pub fn plain(cells: Vec<String>) -> SectionRow {
        SectionRow { cells, style: Style::new() }
    }
}

/// The rows that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShownRows {
    first: usize,
    count: usize,
}

impl Section {
    /// A section without a chosen row.
    pub fn new<const N: usize>(
        headings: [&str; N],
        rows: impl Iterator<Item = SectionRow>,
        weight: usize,
    ) -> Section {
        let headings = headings.map(str::to_owned).to_vec();
        Section { headings, rows: rows.collect(), chosen: None, weight }
    }

    /// The number of lines that show everything.
    fn full(&self) -> usize {
        1 + self.rows.len().max(1)
    }

    fn least(&self) -> usize {
        LEAST_LINES.min(self.full())
    }

    /// The number of rows of a page in this many lines.
    pub fn page(&self, lines: usize) -> usize {
        self.shown(lines).count.max(1)
    }

    /// The page with the chosen row.
    fn shown(&self, lines: usize) -> ShownRows {
        let room = lines.saturating_sub(1);
        let all = self.rows.len();
        if all <= room {
            return ShownRows { first: 0, count: all };
        }
        let count = room.saturating_sub(1);
        let chosen = self.chosen.unwrap_or(0);
        let first = chosen.checked_div(count).unwrap_or(0) * count;
        ShownRows { first: first.min(all - count), count }
    }

    /// Draws the section.
    pub fn draw(&self, columns: usize, lines: usize) -> Vec<Line<'static>> {
        let widths = self.widths(columns);
        let heading = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
        let mut out = vec![Line::styled(row(&self.headings, &widths), heading)];
        if self.rows.is_empty() {
            out.push(Line::raw(cut(NO_ROWS, columns)));
        }
        let shown = self.shown(lines);
        for nth in shown.first..shown.first + shown.count {
            let SectionRow { cells, style } = &self.rows[nth];
            let text = row(cells, &widths);
            out.push(match self.chosen == Some(nth) {
                true => Line::styled(left(&text, columns), style.add_modifier(Modifier::REVERSED)),
                false => Line::styled(text, *style),
            });
        }
        out.extend(self.more(shown, columns));
        out.truncate(lines);
        out
    }

    /// The line with the number of rows that are not shown.
    fn more(&self, shown: ShownRows, columns: usize) -> Option<Line<'static>> {
        let all = self.rows.len();
        if shown.count == all {
            return None;
        }
        let [hidden, first, last, all] =
            [all - shown.count, shown.first + 1, shown.first + shown.count, all]
                .map(|number| grouped(number as u64));
        let more = format!("+ {hidden} more");
        let which = format!("{more} ({first} to {last} of {all})");
        let text = if width(&which) <= columns { which } else { more };
        Some(Line::styled(cut(&text, columns), Modifier::DIM))
    }

    /// The widths of the columns that fit.
    fn widths(&self, columns: usize) -> Vec<usize> {
        let wanted: Vec<usize> = (0..self.headings.len()).map(|nth| self.wanted(nth)).collect();
        let Some((&first, figures)) = wanted.split_first() else { return Vec::new() };
        let mut taken = first.min(FIRST_COLUMN);
        let fits = |figure: &&usize| {
            taken += GAP + **figure;
            taken <= columns
        };
        let figures: Vec<usize> = figures.iter().take_while(fits).copied().collect();
        let left_over = columns - figures.iter().map(|figure| GAP + figure).sum::<usize>();
        [first.min(left_over)].into_iter().chain(figures).collect()
    }

    /// The width of a column's widest cell.
    fn wanted(&self, nth: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(nth));
        let texts = self.headings.get(nth).into_iter().chain(cells);
        texts.map(|text| width(text)).max().unwrap_or(0)
    }
}

/// The cells side by side: the first aligned left, the others right.
fn row(cells: &[String], widths: &[usize]) -> String {
    let mut cells = cells.iter().zip(widths);
    let first = cells.next().map_or_else(String::new, |(text, columns)| left(text, *columns));
    let add = |line: String, (text, columns): (&String, &usize)| {
        format!("{line}{:GAP$}{}", "", right(text, *columns))
    };
    cells.fold(first, add)
}

/// The number of lines of each section. It is 0 if the remaining lines do not hold its heading and
/// a row.
pub fn heights(sections: &[Section], lines: usize) -> Vec<usize> {
    let mut heights = vec![0; sections.len()];
    let rest = open(sections, &mut heights, lines, |section| section.weight > 0);
    let rest = grow(sections, &mut heights, rest);
    let rest = open(sections, &mut heights, rest, |section| section.weight == 0);
    grow(sections, &mut heights, rest);
    heights
}

/// Gives the selected sections their least lines. Returns the lines left over.
fn open(
    sections: &[Section],
    heights: &mut [usize],
    mut rest: usize,
    which: impl Fn(&Section) -> bool,
) -> usize {
    for (section, height) in sections.iter().zip(heights) {
        if which(section) && section.least() <= rest {
            *height = section.least();
            rest -= *height;
        }
    }
    rest
}

/// Gives lines to the open sections, in rounds and by weight. Returns the lines left over.
fn grow(sections: &[Section], heights: &mut [usize], mut rest: usize) -> usize {
    loop {
        let before = rest;
        for (section, height) in sections.iter().zip(&mut *heights) {
            if *height > 0 {
                let more = section.weight.max(1).min(section.full() - *height).min(rest);
                *height += more;
                rest -= more;
            }
        }
        if rest == before {
            return rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(rows: usize, chosen: Option<usize>, weight: usize) -> Section {
        let row = |nth: usize| SectionRow {
            cells: vec![format!("row-{nth}"), "1,234".to_owned(), "5".to_owned()],
            style: Style::new(),
        };
        Section {
            headings: ["name", "figure", "last"].map(str::to_owned).to_vec(),
            rows: (0..rows).map(row).collect(),
            chosen,
            weight,
        }
    }

    fn texts(section: &Section, columns: usize, lines: usize) -> Vec<String> {
        section.draw(columns, lines).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_page_of_the_chosen_row_is_shown() {
        let shown = |chosen| section(200, Some(chosen), 1).shown(10);
        assert_eq!(shown(0), ShownRows { first: 0, count: 8 });
        assert_eq!(shown(8), ShownRows { first: 8, count: 8 });
        assert_eq!(shown(199), ShownRows { first: 192, count: 8 });
        for lines in 3..20 {
            for chosen in 0..200 {
                let ShownRows { first, count } = section(200, Some(chosen), 1).shown(lines);
                assert!((first..first + count).contains(&chosen) && count == lines - 2);
            }
        }
        let last = texts(&section(200, Some(199), 1), 40, 10);
        assert_eq!(last.last().unwrap(), "+ 192 more (193 to 200 of 200)");
        assert_eq!(texts(&section(9, None, 1), 40, 10).len(), 10, "all of them fit");
        assert_eq!(texts(&section(0, None, 1), 40, 10)[1], "none");
    }

    // Shows: watch.
    #[test]
    fn columns_are_left_out_from_the_right_and_figures_are_whole() {
        let wide = section(1, None, 1);
        assert_eq!(texts(&wide, 40, 2), ["name   figure  last", "row-0   1,234     5"]);
        assert_eq!(texts(&wide, 18, 2), ["name   figure", "row-0   1,234"]);
        assert_eq!(texts(&wide, 12, 2), ["name ", "row-0"]);
        assert_eq!(texts(&wide, 3, 2), ["na…", "ro…"]);
        assert_eq!(texts(&wide, 0, 2), ["", ""]);
    }

    #[test]
    fn lines_are_shared_by_weight() {
        let of = |rows, weight| section(rows, None, weight);
        let many = [of(200, 3), of(2, 1), of(50, 2), of(13, 0)];
        assert_eq!(heights(&many, 17), [9, 3, 5, 0]);
        assert_eq!(heights(&many, 8), [5, 3, 0, 0]);
        assert_eq!(heights(&many, 2), [0, 0, 0, 0]);
        let few = [of(2, 3), of(0, 1), of(1, 2), of(13, 0)];
        assert_eq!(heights(&few, 40), [3, 2, 2, 14]);
        assert_eq!(heights(&few, 12), [3, 2, 2, 5]);
        for lines in 0..300 {
            assert!(heights(&many, lines).iter().sum::<usize>() <= lines);
        }
    }
}
