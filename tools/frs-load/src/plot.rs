//! Plots a run: its options, time and version, the request rate and the latencies of the summary,
//! latency by percentile, and throughput over time.
//!
//! Invariant: the drawing is well-formed SVG, whatever the counts and texts. It defines its
//! background and the colour of each text, so it looks the same in dark and light viewers. No text
//! leaves the drawing.

mod caption;

use frs_base::figures::grouped;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use crate::stamp::Stamp;
use crate::summary::Summary;
use crate::tally::SLICE_NS;

const WIDTH: u32 = 860;
const LATENCY_HEIGHT: u32 = 310;
const THROUGHPUT_HEIGHT: u32 = 290;
/// The free space around the caption.
const MARGIN: u32 = 14;
/// The height of a line of the caption.
const LINE_HEIGHT: u32 = 16;
/// The size of the caption's text. The backend divides a size by 1.24 when it writes it.
const TEXT_SIZE: f64 = 11.0 * 1.24;
/// The columns of the caption. No monospace font is wider than 0.62 of its size.
const COLUMNS: usize = ((WIDTH - 2 * MARGIN) as f64 / (11.0 * 0.62)) as usize;
/// The most points of the throughput curve.
const TIMES: usize = 120;
/// Number of points of the percentile curve.
const SHARES: u32 = 240;

type Area<'d> = DrawingArea<SVGBackend<'d>, Shift>;
type Fault = DrawingAreaErrorKind<std::io::Error>;

/// Draws a run.
///
/// # Errors
/// The errors of plotters.
pub fn draw(summary: &Summary<'_>, stamp: &Stamp) -> Result<String, Fault> {
    let caption = caption::lines(summary, stamp, COLUMNS);
    let caption_height = 2 * MARGIN + caption.len() as u32 * LINE_HEIGHT;
    let size = (WIDTH, caption_height + LATENCY_HEIGHT + THROUGHPUT_HEIGHT);
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (upper, rest) = root.split_vertically(caption_height);
        let (middle, lower) = rest.split_vertically(LATENCY_HEIGHT);
        write_lines(&upper, &caption)?;
        latencies(&middle, summary)?;
        throughput(&lower, summary)?;
        root.present()?;
    }
    Ok(out)
}

fn write_lines(area: &Area<'_>, lines: &[String]) -> Result<(), Fault> {
    let style = ("monospace", TEXT_SIZE).into_text_style(area).color(&BLACK);
    for (line, nth) in lines.iter().zip(0..) {
        let place = (MARGIN as i32, (MARGIN + nth * LINE_HEIGHT) as i32);
        area.draw_text(line, &style, place)?;
    }
    Ok(())
}

/// Draws latency by percentile. Each tenth of the remainder has the same width: 90 %, 99 %, 99.9 %
/// …
fn latencies(area: &Area<'_>, summary: &Summary<'_>) -> Result<(), Fault> {
    let latencies_ns = &summary.tally.latencies_ns;
    let micros = |share| (latencies_ns.value_at_quantile(share) as f64 / 1000.0).max(0.001);
    let (lowest, highest) = (micros(0.0).log10().floor(), micros(1.0).log10().ceil());
    let highest = highest.max(lowest + 1.0);
    let nines = (latencies_ns.len().max(10) as f64).log10();
    let (rows, columns) = ((highest - lowest) as usize + 1, nines as usize + 1);
    let mut chart = ChartBuilder::on(area)
        .caption("latency by percentile", ("sans-serif", 14))
        .margin(10)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(96)
        .build_cartesian_2d(0.0..nines, lowest..highest)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(columns)
        .y_labels(rows)
        .x_desc("percentile in %")
        .y_desc("latency in µs")
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
        .caption("throughput over time", ("sans-serif", 14))
        .margin(10)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(96)
        .build_cartesian_2d(0.0..seconds, 0.0..highest)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("time in s")
        .y_desc("requests/s")
        .y_label_formatter(&|rate| grouped(*rate as u64))
        .draw()?;
    chart.draw_series(LineSeries::new(rates.into_iter().map(|rate| (rate.x, rate.y)), &BLUE))?;
    Ok(())
}

/// A point of the drawing, or of a curve in it.
#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// For each time span, its middle in seconds and the requests per second in it.
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
    // A short last span has no meaningful rate.
    let whole = |(length_ns, _): &(u64, _)| *length_ns * 2 >= span_ns.min(elapsed_ns);
    spans.filter(whole).map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests;
