//! Drawings of made-up runs, read as XML.

use clap::Parser;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::*;
use crate::arguments::Arguments;
use crate::tally::Tally;

fn drawing(url: &str, tally: &Tally, elapsed_ns: u64) -> String {
    drawing_of(&[url], tally, elapsed_ns)
}

fn drawing_of(words: &[&str], tally: &Tally, elapsed_ns: u64) -> String {
    let arguments = Arguments::parse_from([&["frs-load"], words].concat());
    let servers = std::slice::from_ref(tally);
    let words = words.iter().map(ToString::to_string).collect();
    let stamp = Stamp { words, began_ms: 1_800_000_000_999, version: "1.2.3" };
    draw(&Summary { arguments: &arguments, tally, servers, elapsed_ns }, &stamp).expect("drawn")
}

/// An attribute of a tag.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = tag.try_get_attribute(name).expect("attributes")?;
    Some(found.value.to_string())
}

fn number(tag: &BytesStart<'_>, name: &str) -> f64 {
    attribute(tag, name).and_then(|value| value.parse().ok()).expect(name)
}

/// A text of the drawing, with the positions of its begin and end.
#[derive(Debug)]
struct Words {
    text: String,
    left: f64,
    right: f64,
    y: f64,
}

/// The texts, each with a width that no font exceeds. Fails if a text has no colour of its own.
fn texts(svg: &str) -> Vec<Words> {
    let (mut reader, mut texts, mut open) = (Reader::from_str(svg), Vec::new(), None);
    loop {
        match reader.read_event().expect(svg) {
            Event::Start(tag) if tag.name().into_inner() == "text" => {
                assert_eq!(attribute(&tag, "fill").as_deref(), Some("#000000"), "{tag:?}");
                open = Some((tag.into_owned(), String::new()));
            }
            Event::Text(more) => {
                if let Some((_, text)) = &mut open {
                    text.push_str(&more.xml_content(XmlVersion::Implicit1_0));
                }
            }
            Event::GeneralRef(_) => open.iter_mut().for_each(|(_, text)| text.push('&')),
            Event::End(tag) if tag.name().into_inner() == "text" => {
                let (tag, text) = open.take().expect("it began");
                texts.push(placed(&tag, text.trim()));
            }
            Event::Eof => return texts,
            _ => {}
        }
    }
}

fn placed(tag: &BytesStart<'_>, text: &str) -> Words {
    let columns = text.chars().map(|c| if c.is_ascii() { 1.0 } else { 2.0 }).sum::<f64>();
    let mut width = columns * 0.62 * number(tag, "font-size");
    if attribute(tag, "transform").is_some() {
        // The text is rotated.
        width = number(tag, "font-size");
    }
    let x = number(tag, "x");
    let left = match attribute(tag, "text-anchor").as_deref() {
        Some("middle") => x - width / 2.0,
        Some("end") => x - width,
        _ => x,
    };
    Words { text: text.to_owned(), left, right: left + width, y: number(tag, "y") }
}

/// The points of the curves. Fails if the drawing is not well-formed, or leaves its frame.
fn curves(svg: &str) -> Vec<Vec<Point>> {
    let (mut reader, mut curves, mut depth) = (Reader::from_str(svg), Vec::new(), 0);
    let (mut width, mut height) = (0.0, 0.0);
    loop {
        match reader.read_event().expect(svg) {
            Event::Start(tag) => {
                depth += 1;
                if depth == 1 {
                    (width, height) = (number(&tag, "width"), number(&tag, "height"));
                }
            }
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
        assert!((0.0..=width).contains(x) && (0.0..=height).contains(y), "{x},{y}");
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
    // 10,000 requests in 3 s give a level line.
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
fn the_caption_says_what_was_run_when_and_what_came_of_it() {
    let mut tally = Tally::new();
    for request in 1..=1000 {
        tally.answered(200, request * 1_000_000, request);
    }
    let words = ["http://a:1", "--rate", "500", "--keys", "7"];
    let texts = texts(&drawing_of(&words, &tally, 2_000_000_000));
    for line in [
        "frs-load 1.2.3, begun 2027-01-15T08:00:00Z",
        "options: http://a:1 --rate 500 --keys 7",
        "http://a:1, update: biz app-user-api, 7 keys, Zipf 0.99",
        "requests 1,000 in 2.00 s: 500/s",
        "latency in µs: p50 500,170, p90 900,202, p99 990,380, p99.9 999,292, max 1,000,341",
        "latency in µs",
        "percentile in %",
        "requests/s",
        "time in s",
    ] {
        assert!(texts.iter().any(|words| words.text == line), "{line} in {texts:?}");
    }
}

/// For readers with a dark viewer.
#[test]
fn the_background_is_drawn_first_and_covers_everything() {
    let svg = drawing("http://a:1", &Tally::new(), 0);
    let size = svg.split_once("width=\"860\" height=\"").expect("a size").1;
    let height = size.split_once('"').expect("a size").0;
    let shapes = svg.split_once("xmlns").expect("a head").1;
    let first = shapes.split_once('<').expect("a shape").1;
    let background = format!("width=\"860\" height=\"{height}\" opacity=\"1\" fill=\"#FFFFFF\"");
    assert!(first.starts_with("rect x=\"0\" y=\"0\"") && first.contains(&background), "{first}");
}

#[test]
fn no_text_leaves_the_drawing_or_lies_on_another() {
    let mut tally = Tally::new();
    for request in 1..=1000_u64 {
        tally.answered(200, request.pow(4), request * 100_000_000);
    }
    let urls: Vec<String> =
        (0..30).map(|nth| format!("--url=unix:/{nth}/{}", "long/汉字/".repeat(20))).collect();
    let mut words: Vec<&str> = urls.iter().map(String::as_str).collect();
    words.extend(["--rate", "1000000000", "--route", "key", "--seed", "18446744073709551615"]);
    for words in [&words[..], &words[..1], &["http://a:1"]] {
        let texts = texts(&drawing_of(words, &tally, 100_000_000_000));
        for one in &texts {
            assert!(one.left >= 0.0 && one.right <= WIDTH.into(), "{one:?}");
        }
        for (nth, one) in texts.iter().enumerate() {
            let beside = |other: &&Words| other.left < one.right && one.left < other.right;
            let on_it = |other: &&Words| beside(other) && (other.y - one.y).abs() < 11.0;
            assert!(!texts[..nth].iter().any(|other| on_it(&other)), "{one:?} in {texts:?}");
        }
    }
}
