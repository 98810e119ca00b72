//! The dashboard: one page with its own style and script, which requests figures from this plane.
//!
//! Invariant: a browser runs only the page's own script, identified by its digest, and lets it
//! connect to this plane only. So neither a key's text nor another site can control it.

use super::response::{HeaderField, Response};

/// The page.
const PAGE: &str = include_str!("dashboard.html");

/// What a browser lets the page do. The digests cover the text within `<style>` and `<script>`.
/// After a change the test below prints the new ones. (<https://www.w3.org/TR/CSP3/>,
/// <https://www.w3.org/TR/trusted-types/>)
const POLICY: &str = "default-src 'none'; connect-src 'self'; img-src data:; \
    style-src 'sha256-SPAcOTIvOMCpXxCs/1yN1tNphvHR6EuFpxPlE/Bvve8='; \
    script-src 'sha256-VlTZOjMOZofxzcsrhBXFfJONXsYFz+KYbajGJQVrXas='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types map";

/// The page, for clients that may see the figures.
pub fn response() -> Response {
    let field = Some(HeaderField::new("Content-Security-Policy", POLICY));
    Response { field, ..Response::page("text/html; charset=utf-8", PAGE.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    const MAX_BYTES: usize = 60_000;

    fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
        assert_eq!(text.matches(begin).count(), 1, "{begin}");
        let after = text.split_once(begin).expect("there").1;
        after.split_once(end).expect("ended").0
    }

    /// In Base64, by coreutils.
    fn sha256(text: &str) -> String {
        let mut child = Command::new("sh")
            .args(["-c", "sha256sum | cut -d' ' -f1 | tr a-f A-F | basenc --base16 -d | base64"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("waited");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    #[test]
    fn the_policy_lets_the_page_s_own_style_and_script_run() {
        for (what, begin, end) in
            [("style", "<style>", "</style>"), ("script", "<script>", "</script>")]
        {
            let expected = format!("{what}-src 'sha256-{}';", sha256(between(PAGE, begin, end)));
            assert!(POLICY.contains(&expected), "expected in the policy: {expected}");
        }
    }

    #[test]
    fn the_page_is_whole_by_itself_and_small() {
        assert!(PAGE.len() < MAX_BYTES, "{} bytes", PAGE.len());
        for outside in ["http://", "https://", "src=\"", "@import", "url("] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        for unsafe_sink in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
        {
            assert!(!PAGE.contains(unsafe_sink), "{unsafe_sink}");
        }
    }
}
