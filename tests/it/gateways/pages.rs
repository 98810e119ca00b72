//! The page of the gateways names every file, and describes the contents of each.

use std::path::Path;

use super::programs::{caddy, envoy, example, haproxy, nginx};
use super::routing;

const PAGE: &str = include_str!("../../../conf/examples/gateways/README.md");
const ROUTING: &str = include_str!("../../../conf/examples/cluster/README.md");

/// The files below a directory, by their path from there.
fn files(dir: &Path, below: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("readable") {
        let entry = entry.expect("readable");
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            found.extend(files(&entry.path(), &format!("{name}/")));
        } else if name != "README.md" {
            found.push(name);
        }
    }
    found
}

#[test]
fn the_pages_name_every_file_and_no_other() {
    for (page, directory) in [(PAGE, example()), (ROUTING, routing::example())] {
        let links = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        // Skips links to other pages.
        let links = links.filter(|link| !link.starts_with("../"));
        let mut links: Vec<_> = links.map(str::to_owned).collect();
        let mut files = files(&directory, "");
        links.sort();
        files.sort();
        assert_eq!(links, files);
    }
}

#[test]
fn every_example_is_closed_and_says_how_to_open_it() {
    for gateway in [nginx(), haproxy(), envoy(), caddy()] {
        let text = gateway.shipped(gateway.files[0]);
        assert!(text.contains("(closed); for the other way see OPEN below."), "{}", gateway.name);
        assert_eq!(text.matches("# OPEN: ").count(), 1, "{}", gateway.name);
        for (from, _) in gateway.open {
            assert_eq!(text.matches(from).count(), 1, "{}: {from}", gateway.name);
        }
    }
}

#[test]
fn the_addresses_that_the_page_names_are_those_of_the_files() {
    let shipped = |file: &str| std::fs::read_to_string(example().join(file)).expect("shipped");
    for (port, file) in [
        ("7600", "srv.xml"),
        ("8080", "nginx/frs.conf"),
        ("3000", "nginx/frs.conf"),
        ("7600", "nginx/frs.conf"),
        ("8080", "haproxy/haproxy.cfg"),
        ("3000", "haproxy/haproxy.cfg"),
        ("7600", "haproxy/haproxy.cfg"),
        ("7610", "haproxy/haproxy.cfg"),
        ("7610", "haproxy/frs.lua"),
        ("8080", "envoy/envoy.yaml"),
        ("3000", "envoy/envoy.yaml"),
        ("7600", "envoy/envoy.yaml"),
        ("8080", "caddy/Caddyfile"),
        ("3000", "caddy/Caddyfile"),
        ("7600", "caddy/Caddyfile"),
    ] {
        assert!(PAGE.contains(&format!("127.0.0.1:{port}")), "{port}");
        assert!(shipped(file).contains(port), "{file} {port}");
    }
}
