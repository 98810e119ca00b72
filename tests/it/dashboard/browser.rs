//! A real headless browser: Chromium, controlled through its debugging pipe.
//! (<https://chromedevtools.github.io/devtools-protocol/>: messages in JSON, each ended by a zero
//! byte, read from file 3 and written to file 4.)
//!
//! Dropping the value ends the browser. Every answer has a time limit.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::{Value, json};

use crate::common::{needs, wait_until};

/// Bounds each wait. A browser starts slowly on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// The path of Chromium. Without it a test is skipped, unless all tests must run.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|dir| names.map(|name| dir.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        needs::skip("chromium is not installed");
    }
    found
}

/// A browser with one page.
pub struct Browser {
    child: Child,
    orders: File,
    said: Receiver<Value>,
    /// The number of the last command.
    last: u64,
    session: String,
    /// Errors that the page reported.
    pub complaints: Vec<String>,
    _dir: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser on an empty page.
    pub fn start(program: &Path) -> Browser {
        let dir = tempfile::tempdir().expect("a directory");
        let pipes = ["orders", "answers"].map(|name| dir.path().join(name));
        pipes.iter().for_each(|pipe| mkfifo(pipe, Mode::S_IRWXU).expect("a pipe"));
        let child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<\"$ORDERS\" 4>\"$ANSWERS\"", "sh"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"])
            .arg("--hide-scrollbars")
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .arg("about:blank")
            .env("HOME", dir.path())
            .env("ORDERS", &pipes[0])
            .env("ANSWERS", &pipes[1])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("the browser starts");
        // Opened for reading and writing, so that neither side waits for the other.
        let open = |pipe| OpenOptions::new().read(true).write(true).open(pipe).expect("opened");
        let (orders, answers) = (open(&pipes[0]), open(&pipes[1]));
        let (tell, said) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { return };
                let value = serde_json::from_slice(&message).expect("JSON");
                if tell.send(value).is_err() {
                    return;
                }
            }
        });
        let (session, complaints) = (String::new(), Vec::new());
        let mut browser = Browser { child, orders, said, last: 0, session, complaints, _dir: dir };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(domain, json!({}));
        }
        // Emulates a window with focus, so that keys reach the focused element.
        browser.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        browser
    }

    /// Runs a script on each page before its own.
    pub fn run_first(&mut self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": script}));
    }

    /// Sends a command and waits for its answer.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut order = json!({"id": self.last, "method": method, "params": parameters});
        if !self.session.is_empty() {
            order["sessionId"] = json!(self.session);
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).expect("told");
        loop {
            let message = self.said.recv_timeout(BOUND).expect("the browser answers");
            if message["id"] == json!(self.last) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(parameters["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                self.complaints.push(parameters["entry"]["text"].to_string());
            }
            _ => {}
        }
    }

    /// Opens a page.
    pub fn go(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// The value of an expression on the page.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", asked);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true on the page.
    #[track_caller]
    pub fn wait(&mut self, expression: &str) {
        wait_until(&format!("{expression} on the page"), || {
            (self.value(expression) == json!(true)).then_some(())
        });
    }

    /// Clicks the button of a selector, as a pointer or a key would.
    #[track_caller]
    pub fn press(&mut self, selector: &str) {
        let button = format!("document.querySelector({})", json!(selector));
        self.wait(&format!("!!{button} && !{button}.disabled"));
        self.value(&format!("{button}.click()"));
    }

    /// Presses and releases a key, such as `Tab`, `Enter`, `Escape`, `ArrowLeft` or `Shift+Tab`.
    pub fn strike(&mut self, key: &str) {
        let (modifiers, name) = key.strip_prefix("Shift+").map_or((0, key), |name| (8, name));
        let (code, text) = match name {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "ArrowLeft" => (37, ""),
            "ArrowRight" => (39, ""),
            _ => panic!("found {name}, expected a key of the list"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({"type": kind, "key": name, "code": name, "text": text,
                "windowsVirtualKeyCode": code, "modifiers": modifiers});
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Types a text where the focus is.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses Tab until the expression holds for the focused element `at`.
    #[track_caller]
    pub fn tab_to(&mut self, expression: &str) {
        const MOST: usize = 200;
        let found = format!("((at) => {expression})(document.activeElement)");
        for _ in 0..MOST {
            if self.value(&found) == json!(true) {
                return;
            }
            self.strike("Tab");
        }
        panic!("no Tab leads to {expression}");
    }

    /// Writes a picture of the whole page.
    pub fn picture(&mut self, path: &Path) {
        let asked = json!({"format": "png", "captureBeyondViewport": true});
        let shot = self.call("Page.captureScreenshot", asked);
        let mut decoder = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(File::create(path).expect("created"))
            .spawn()
            .expect("base64 runs");
        let data = shot["data"].as_str().expect("a picture").as_bytes();
        decoder.stdin.take().expect("a pipe").write_all(data).expect("written");
        assert!(decoder.wait().expect("ended").success());
    }

    /// Sets the width of the window and the color scheme, light or dark.
    pub fn look_like(&mut self, width: u32, scheme: &str) {
        let shape =
            json!({"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", shape);
        let scheme = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": scheme}));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Kills the browser and its helpers: it leads a process group of its own.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
