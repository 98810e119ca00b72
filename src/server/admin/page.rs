//! The dashboard: one page with its own style and script, which requests figures from this plane.
//!
//! Invariant: a browser runs only the page's own script, identified by its digest, and lets it
//! connect to this plane only. So neither a key's text nor another site can control it.

use super::response::{HeaderField, Response};

/// The parts of the page, joined when it is compiled. All scripts are one: what a file defines, the
/// files after it may use.
const PAGE: &str = concat!(
    include_str!("page/head.html"),
    "<!-- uPlot, which draws the charts:\n",
    include_str!("page/vendor/LICENSE"),
    "\n-->\n<style>",
    include_str!("page/vendor/uPlot.min.css"),
    include_str!("page/style.css"),
    include_str!("page/controls.css"),
    "</style>\n",
    include_str!("page/body.html"),
    "<script>'use strict';\n",
    include_str!("page/vendor/uPlot.iife.min.js"),
    include_str!("page/dom.js"),
    include_str!("page/format.js"),
    include_str!("page/api.js"),
    include_str!("page/dialogs.js"),
    include_str!("page/past.js"),
    include_str!("page/look.js"),
    include_str!("page/charts.js"),
    include_str!("page/views.js"),
    include_str!("page/overview.js"),
    include_str!("page/businesses.js"),
    include_str!("page/biz.js"),
    include_str!("page/keys.js"),
    include_str!("page/changes.js"),
    include_str!("page/room.js"),
    include_str!("page/processes.js"),
    include_str!("page/cluster.js"),
    include_str!("page/xml_text.js"),
    include_str!("page/edit.js"),
    include_str!("page/main.js"),
    "</script>\n</body>\n</html>\n",
);

/// What a browser lets the page do. The digests cover the text within `<style>` and `<script>`.
/// After a change the test below prints the new ones. (<https://www.w3.org/TR/CSP3/>,
/// <https://www.w3.org/TR/trusted-types/>)
const POLICY: &str = "default-src 'none'; connect-src 'self'; img-src data:; \
    style-src 'sha256-+buOO+yq6lBjlGAumAflenP//+1NkmhqP1PXUAufcVM='; \
    script-src 'sha256-//W3wZyCBN0gM75+bhioUQ4WE5uo1i8pgCc5YG8k16E='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

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

    const MAX_BYTES: usize = 250_000;
    /// Where the page loads nothing from: the chart library names its home in a comment.
    const HOME_OF_UPLOT: &str = "/*! https://github.com/leeoniya/uPlot";

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
        let digests = [("style", "<style>", "</style>"), ("script", "<script>", "</script>")].map(
            |(what, begin, end)| {
                format!("{what}-src 'sha256-{}';", sha256(between(PAGE, begin, end)))
            },
        );
        let are_known = digests.iter().all(|digest| POLICY.contains(digest));
        assert!(are_known, "expected in the policy: {digests:#?}");
    }

    #[test]
    fn the_page_is_whole_by_itself_and_small() {
        assert!(PAGE.len() < MAX_BYTES, "{} bytes", PAGE.len());
        let page = PAGE.replace(HOME_OF_UPLOT, "");
        for outside in ["http://", "https://", "src=\"", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        for unsafe_sink in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
        {
            assert!(!page.contains(unsafe_sink), "{unsafe_sink}");
        }
    }
}
