//! Plots a run: latency by percentile, and throughput over time.
//!
//! Invariant: the drawing is well-formed SVG, whatever the counts and the title.

use frs::base::figures::grouped;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use crate::summary::Summary;
use crate::tally::SLICE_NS;

const SIZE: (u32, u32) = (860, 620);
/// The most points of the throughput.
const TIMES: usize = 120;
/// The number of points of the percentiles.
const SHARES: u32 = 240;

type Area<'d> = DrawingArea<SVGBackend<'d>, Shift>;
type Fault = DrawingAreaErrorKind<std::io::Error>;

/// Draws a run.
///
/// # Errors
/// plotters cannot draw it.
pub fn draw(summary: &Summary<'_>) -> Result<String, Fault> {
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        // Characters that XML does not allow, even escaped.
        let odd = |c: char| match c {
            '\t' | '\n' | '\r' => false,
            _ => c < ' ' || matches!(c, '\u{FFFE}' | '\u{FFFF}'),
        };
        let title = summary.title().replace(odd, "\u{FFFD}");
        let root = root.titled(&title, ("sans-serif", 14))?;
        let (upper, lower) = root.split_vertically(300);
        latencies(&upper, summary)?;
        throughput(&lower, summary)?;
        root.present()?;
    }
    Ok(out)
}

/// Each tenth of the remainder has the same width: 90 %, 99 %, 99.9 % …
fn latencies(area: &Area<'_>, summary: &Summary<'_>) -> Result<(), Fault> {
    let latencies_ns = &summary.tally.latencies_ns;
    let micros = |share| (latencies_ns.value_at_quantile(share) as f64 / 1000.0).max(0.001);
    let (lowest, highest) = (micros(0.0).log10().floor(), micros(1.0).log10().ceil());
    let highest = highest.max(lowest + 1.0);
    let nines = (latencies_ns.len().max(10) as f64).log10();
    let (rows, columns) = ((highest - lowest) as usize + 1, nines as usize + 1);
    let mut chart = ChartBuilder::on(area)
        .caption("latency in µs by percentile", ("sans-serif", 12))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(20)
        .y_label_area_size(74)
        .build_cartesian_2d(0.0..nines, lowest..highest)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(columns)
        .y_labels(rows)
        .x_label_formatter(&|nines| {
            let percent = 100.0 - 10f64.powf(2.0 - nines);
            format!("{percent:.0$}", (nines.ceil() - 2.0).max(0.0) as usize)
        })
        .y_label_formatter(&|decade| match *decade {
            decade if decade < 0.0 => 10f64.powf(decade).to_string(),
            decade => grouped(10u64.saturating_pow(decade.round() as u32)),
        })
        .draw()?;
    let points = (0..=SHARES).map(|step| {
        let x = nines * f64::from(step) / f64::from(SHARES);
        let share = if step == SHARES { 1.0 } else { 1.0 - 10f64.powf(-x) };
        (x, micros(share).log10())
    });
    chart.draw_series(LineSeries::new(points, &RED))?;
    Ok(())
}

fn throughput(area: &Area<'_>, summary: &Summary<'_>) -> Result<(), Fault> {
    let rates = rates(&summary.tally.slices, summary.elapsed_ns);
    let seconds = (summary.elapsed_ns as f64 / 1e9).max(1e-6);
    let highest = rates.iter().map(|rate| rate.y).fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption("requests/s over time in s", ("sans-serif", 12))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(20)
        .y_label_area_size(74)
        .build_cartesian_2d(0.0..seconds, 0.0..highest)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .y_label_formatter(&|rate| grouped(*rate as u64))
        .draw()?;
    chart.draw_series(LineSeries::new(rates.into_iter().map(|rate| (rate.x, rate.y)), &BLUE))?;
    Ok(())
}

/// A point, of the drawing or of a curve in it.
#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// The middle of each time span in seconds, and the requests per second in it.
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
    // A last short span has no meaningful rate.
    let whole = |(length_ns, _): &(u64, _)| *length_ns * 2 >= span_ns.min(elapsed_ns);
    spans.filter(whole).map(|(_, point)| point).collect()
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
        let servers = std::slice::from_ref(tally);
        draw(&Summary { arguments: &arguments, tally, servers, elapsed_ns }).expect("drawn")
    }

    /// The points of the curves. Fails if the drawing is not well-formed, or leaves its frame.
    fn curves(svg: &str) -> Vec<Vec<Point>> {
        let (mut reader, mut curves, mut depth) = (Reader::from_str(svg), Vec::new(), 0);
        loop {
            match reader.read_event().expect(svg) {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth -= 1,
                Event::Empty(tag) if tag.name().into_inner() == "polyline" => {
                    let stroke = tag.try_get_attribute("stroke").unwrap().unwrap().value;
                    // The marks of the axes are lines, too.
                    if !["#FF0000", "#0000FF"].contains(&&*stroke) {
                        continue;
                    }
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
            assert!(
                (0.0..=SIZE.0.into()).contains(x) && (0.0..=SIZE.1.into()).contains(y),
                "{x},{y}"
            );
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
        // 10,000 in 3 s give a level line.
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
}
