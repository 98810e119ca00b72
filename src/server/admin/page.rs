//! The dashboard: one page with its own style and script, which requests figures from this plane.
//!
//! Invariant: a browser runs only the page's own script, identified by its digest, and lets the
//! page connect only to this plane. So neither the text of a key nor another site can control it.

use std::sync::LazyLock;

use ring::digest::{SHA256, digest};

use super::response::Response;

/// The parts of the page, joined at compile time. All scripts are one, so a file may use the
/// definitions of the files before it.
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
    include_str!("page/clients.js"),
    include_str!("page/cluster.js"),
    include_str!("page/peers.js"),
    include_str!("page/xml_text.js"),
    include_str!("page/edit.js"),
    include_str!("page/main.js"),
    "</script>\n</body>\n</html>\n",
);

/// The content security policy of the page. Its digests cover the text within `<style>` and
/// `<script>`, and are computed once, for the first request. (<https://www.w3.org/TR/CSP3/>,
/// <https://www.w3.org/TR/trusted-types/>)
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = digest_of(within("<style>", "</style>"));
    let script = digest_of(within("<script>", "</script>"));
    format!(
        "default-src 'none'; connect-src 'self'; img-src data:; style-src '{style}'; \
         script-src '{script}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
});

/// The text of the page between two tags that occur once each.
fn within(begin: &str, end: &str) -> &'static str {
    let text = PAGE.split_once(begin).and_then(|(_, after)| after.split_once(end));
    text.map_or("", |(text, _)| text)
}

/// The digest of a text in the form of the policy.
fn digest_of(text: &str) -> String {
    format!("sha256-{}", base64(digest(&SHA256, text.as_bytes()).as_ref()))
}

/// Encodes bytes in Base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, nth| {
            bits << 8 | usize::from(three.get(nth).copied().unwrap_or_default())
        });
        text.extend((0..=three.len()).map(|nth| char::from(DIGITS[bits >> (18 - 6 * nth) & 63])));
        text.extend((three.len()..3).map(|_| '='));
    }
    text
}

/// The page, for clients that may see the figures.
pub fn response() -> Response {
    let field = Some(("Content-Security-Policy", POLICY.as_str()));
    Response { field, ..Response::page("text/html; charset=utf-8", PAGE.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    const MAX_BYTES: usize = 250_000;
    /// A URL that the page does not load. The chart library names its home page in a comment.
    const HOME_OF_UPLOT: &str = "/*! https://github.com/leeoniya/uPlot";

    /// The text between two tags, which must occur once each.
    fn only_within(begin: &str, end: &str) -> &'static str {
        assert_eq!((PAGE.matches(begin).count(), PAGE.matches(end).count()), (1, 1), "{begin}");
        within(begin, end)
    }

    /// The SHA-256 of a text in Base64, computed by coreutils.
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
                format!("{what}-src 'sha256-{}';", sha256(only_within(begin, end)))
            },
        );
        let are_known = digests.iter().all(|digest| POLICY.contains(digest));
        assert!(are_known, "expected in the policy: {digests:#?}");
    }

    // Vectors of RFC 4648, section 10.
    #[test]
    fn bytes_are_written_in_base64() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(texts.map(|text| base64(text.as_bytes())), expected);
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
