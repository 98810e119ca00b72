//! A run as a drawing: latency by percentile, and throughput over time.
//!
//! Invariant: the drawing is well-formed SVG, whatever was seen and whatever the title says.

use std::fmt::Write;
use std::ops::Range;

use frs::base::figures::grouped;
use quick_xml::escape::escape;

use crate::summary::Summary;
use crate::tally::SLICE_NS;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 620.0;
/// Points of the throughput, at most.
const TIMES: usize = 120;
/// Points of the percentiles.
const SHARES: u32 = 240;

/// The drawing of a run.
pub fn draw(summary: &Summary<'_>) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    text(&mut out, Point { x: Panel::LEFT, y: 26.0 }, "start", &summary.title());
    latencies(&mut out, summary);
    throughput(&mut out, summary);
    out.push_str("</svg>\n");
    out
}

/// A point, of the drawing or of a curve in it.
#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// A rectangle with axes.
struct Panel {
    top: f64,
    height: f64,
    /// From the left edge to the right one.
    x: Range<f64>,
    /// From the lower edge to the upper one.
    y: Range<f64>,
}

impl Panel {
    const LEFT: f64 = 84.0;
    const WIDE: f64 = WIDTH - 114.0;

    /// Where a point of a curve stands in the drawing.
    fn at(&self, point: Point) -> Point {
        let share =
            |value: f64, edges: &Range<f64>| (value - edges.start) / (edges.end - edges.start);
        Point {
            x: Self::LEFT + Self::WIDE * share(point.x, &self.x),
            y: self.top + self.height * (1.0 - share(point.y, &self.y)),
        }
    }

    fn column(&self, out: &mut String, x: f64, label: &str) {
        let bottom = self.at(Point { x, y: self.y.start });
        rule(out, Point { y: self.top, ..bottom }, bottom);
        text(out, Point { y: bottom.y + 16.0, ..bottom }, "middle", label);
    }

    fn row(&self, out: &mut String, y: f64, label: &str) {
        let left = self.at(Point { x: self.x.start, y });
        rule(out, left, Point { x: left.x + Self::WIDE, ..left });
        text(out, Point { x: left.x - 6.0, y: left.y + 4.0 }, "end", label);
    }

    fn curve(&self, out: &mut String, points: impl Iterator<Item = Point>, color: &str) {
        out.push_str("<polyline fill=\"none\" stroke-width=\"1.6\" stroke=\"");
        out.push_str(color);
        out.push_str("\" points=\"");
        for point in points {
            let Point { x, y } = self.at(point);
            put(out, format_args!("{x:.1},{y:.1} "));
        }
        out.push_str("\"/>\n");
    }

    fn heading(&self, out: &mut String, words: &str) {
        text(out, Point { x: Self::LEFT, y: self.top - 10.0 }, "start", words);
    }
}

/// Each tenth of what is left is as wide: 90 %, 99 %, 99.9 % …
fn latencies(out: &mut String, summary: &Summary<'_>) {
    let latencies_ns = &summary.tally.latencies_ns;
    let micros = |share| (latencies_ns.value_at_quantile(share) as f64 / 1000.0).max(0.001);
    let (lowest, highest) = (micros(0.0).log10().floor(), micros(1.0).log10().ceil());
    let nines = (latencies_ns.len().max(10) as f64).log10();
    let highest = highest.max(lowest + 1.0);
    let panel = Panel { top: 66.0, height: 220.0, x: 0.0..nines, y: lowest..highest };
    panel.heading(out, "latency in µs by percentile");
    for decade in lowest as i32..=highest as i32 {
        let label = if decade < 0 {
            format!("{}", 10f64.powi(decade))
        } else {
            grouped(10u64.saturating_pow(decade as u32))
        };
        panel.row(out, decade.into(), &label);
    }
    let labels = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"];
    for (nine, label) in labels.iter().enumerate().take(nines as usize + 1) {
        panel.column(out, nine as f64, label);
    }
    if nines > 1.0 {
        panel.column(out, 2f64.log10(), "50");
    }
    let points = (0..=SHARES).map(|step| {
        let x = nines * f64::from(step) / f64::from(SHARES);
        let share = if step == SHARES { 1.0 } else { 1.0 - 10f64.powf(-x) };
        Point { x, y: micros(share).log10() }
    });
    panel.curve(out, points, "#b03a2e");
}

fn throughput(out: &mut String, summary: &Summary<'_>) {
    let rates = rates(&summary.tally.slices, summary.elapsed_ns);
    let seconds = (summary.elapsed_ns as f64 / 1e9).max(1e-6);
    let step = round_step(rates.iter().map(|rate| rate.y).fold(1.0, f64::max) / 4.0);
    let highest = rates.iter().map(|rate| (rate.y / step).ceil()).fold(1.0, f64::max);
    let panel = Panel { top: 356.0, height: 220.0, x: 0.0..seconds, y: 0.0..step * highest };
    panel.heading(out, "requests/s over time in s");
    for row in 0..=highest as u32 {
        let value = step * f64::from(row);
        panel.row(out, value, &grouped(value as u64));
    }
    let step = round_step(seconds / 8.0);
    for column in 0..=(seconds / step) as u32 {
        let value = f64::from(column) * step;
        // As many decimals as the step has.
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        panel.column(out, value, &format!("{value:.decimals$}"));
    }
    panel.curve(out, rates.into_iter(), "#1f618d");
}

/// Middle of each span of time in seconds, and requests a second in it.
fn rates(slices: &[u64], elapsed_ns: u64) -> Vec<Point> {
    let width = slices.len().div_ceil(TIMES).max(1);
    let span_ns = width as u64 * SLICE_NS;
    let spans = slices.chunks(width).zip(0u64..).map(|(slices, place)| {
        let from_ns = place * span_ns;
        let length_ns = span_ns.min(elapsed_ns.saturating_sub(from_ns)).max(1);
        let requests: u64 = slices.iter().sum();
        let middle = (from_ns as f64 + length_ns as f64 / 2.0) / 1e9;
        let rate = requests as f64 * 1e9 / length_ns as f64;
        (length_ns, Point { x: middle, y: rate })
    });
    // A last sliver of time has no rate worth a point.
    let whole = |(length_ns, _): &(u64, _)| *length_ns * 2 >= span_ns.min(elapsed_ns);
    spans.filter(whole).map(|(_, point)| point).collect()
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}

fn rule(out: &mut String, from: Point, to: Point) {
    put(
        out,
        format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#d5d8dc\"/>\n",
            from.x, from.y, to.x, to.y
        ),
    );
}

fn text(out: &mut String, Point { x, y }: Point, anchor: &str, words: &str) {
    // What XML cannot say at all, however it is written.
    let odd = |c: char| match c {
        '\t' | '\n' | '\r' => false,
        _ => c < ' ' || matches!(c, '\u{FFFE}' | '\u{FFFF}'),
    };
    let words = words.replace(odd, "\u{FFFD}");
    let words = escape(&words);
    put(
        out,
        format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#2c3e50\">{words}</text>\n"
        ),
    );
}

fn put(out: &mut String, words: std::fmt::Arguments<'_>) {
    // A String takes everything.
    let _ = out.write_fmt(words);
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::*;
    use crate::arguments::Arguments;
    use crate::tally::Tally;

    fn drawing(url: &str, tally: &Tally, elapsed_ns: u64) -> String {
        let arguments = Arguments::parse_from(["frs-load", url]);
        draw(&Summary { arguments: &arguments, tally, elapsed_ns })
    }

    /// Points of the curves; fails where the drawing is not well-formed, or leaves its frame.
    fn curves(svg: &str) -> Vec<Vec<Point>> {
        let (mut reader, mut curves, mut depth) = (Reader::from_str(svg), Vec::new(), 0);
        loop {
            match reader.read_event().expect(svg) {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth -= 1,
                Event::Empty(tag) if tag.name().into_inner() == "polyline" => {
                    let points = tag.try_get_attribute("points").unwrap().unwrap().value;
                    let point = |point: &str| {
                        let (x, y) = point.split_once(',').unwrap();
                        Point { x: x.parse().unwrap(), y: y.parse().unwrap() }
                    };
                    curves.push(points.split_whitespace().map(point).collect::<Vec<_>>());
                }
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        for Point { x, y } in curves.iter().flatten() {
            assert!((0.0..=WIDTH).contains(x) && (0.0..=HEIGHT).contains(y), "{x},{y}");
        }
        curves
    }

    #[test]
    fn a_drawing_of_a_run() {
        let mut tally = Tally::new();
        for request in 0..10_000 {
            tally.answered(200, 100_000 + request * request, request * 300_000);
        }
        let curves = curves(&drawing("http://a:1", &tally, 3_000_000_000));
        assert_eq!(curves.len(), 2);
        assert!(curves[0].windows(2).all(|two| two[0].y >= two[1].y), "percentiles rise");
        // 10,000 in 3 s: a level line.
        let heights: Vec<f64> = curves[1].iter().map(|point| point.y).collect();
        assert!(heights.len() > 50 && heights.iter().all(|y| (y - heights[0]).abs() < 5.0));
    }

    #[test]
    fn drawings_of_odd_runs() {
        let mut tally = Tally::new();
        curves(&drawing("unix:a<b>&\"c\"", &tally, 0));
        let svg = drawing("unix:a\u{1}b\u{1b}[c\u{ffff}\u{b}d", &tally, 0);
        let is_said = |c: char| (' '..'\u{fffe}').contains(&c) || matches!(c, '\n' | '\t');
        assert!(svg.chars().all(is_said), "nothing that XML has no word for: {svg:?}");
        tally.answered(200, 1, 0);
        curves(&drawing("unix:a", &tally, 1));
        tally.answered(200, u64::MAX, SLICE_NS * 1000);
        curves(&drawing("unix:a", &tally, SLICE_NS * 1000));
    }

    #[test]
    fn steps() {
        let of = |least: f64| round_step(least);
        assert_eq!((of(1.0), of(1.1), of(2.5), of(6.0)), (1.0, 2.0, 5.0, 10.0));
        assert!((of(0.03) - 0.05).abs() < 1e-9);
    }
}
