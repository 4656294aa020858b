//! A real browser, driven through WebDriver.

use fantoccini::elements::Element;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The required programs, and their Debian packages.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];
const PACKAGES: &str = "chromium chromium-driver";

/// A host name that the browser resolves to this machine. Unlike the loopback addresses it is not trusted over plain HTTP,
/// so pages have no Web Crypto and requests no `Sec-Fetch-Site`.
pub(super) const ELSEWHERE: &str = "rpcgate.test";

/// The screen of a small phone, in CSS pixels.
pub(super) const NARROW: u64 = 320;

/// A browser with a fresh profile.
pub(super) struct Browser {
    pub(super) client: Client,
    driver: Driver,
    _profile: TempDir,
}

/// The WebDriver process. It is killed when dropped.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Browser {
    /// Starts a browser, as wide as a phone if asked for. `None` if no browser is installed; this fails the test if services
    /// are required.
    pub(super) async fn start(is_narrow: bool) -> Option<Browser> {
        if let Some(missing) = PROGRAMS.iter().find(|name| !is_installed(name)) {
            let is_needed = env::var_os("RPCGATE_REQUIRE_SERVICES").is_some_and(|value| value == "1");
            assert!(!is_needed, "{missing} is missing: install {PACKAGES}");
            // Bypasses the test harness, which shows output only of failed tests.
            let reported = format!("skipped: {missing} is missing, install {PACKAGES}\n");
            io::stderr().write_all(reported.as_bytes()).unwrap();
            return None;
        }
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = Driver(command.spawn().unwrap());
        let port = port(&mut driver.0);
        let profile = tempfile::tempdir().unwrap();
        let mut options = json!({ "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            format!("--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"),
            format!("--user-data-dir={}", profile.path().display()),
        ] });
        if is_narrow {
            let metrics = json!({ "width": NARROW, "height": 640, "pixelRatio": 1 });
            options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
        }
        let mut capabilities = serde_json::Map::new();
        capabilities.insert("goog:chromeOptions".into(), options);
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(capabilities).connect(&format!("http://127.0.0.1:{port}")).await;
        Some(Browser { client: client.unwrap(), driver, _profile: profile })
    }

    /// Closes it. A browser whose driver is killed first would keep running.
    pub(super) async fn stop(self) {
        let closed = self.client.close().await;
        drop(self.driver);
        closed.unwrap();
    }
}

fn is_installed(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder: PathBuf| folder.join(name).is_file())
}

/// The port that a driver prints.
fn port(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().contains("started successfully on port")).unwrap();
    // The driver keeps printing; without a reader it would block.
    std::thread::spawn(move || lines.for_each(drop));
    line.unwrap().trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap()
}

/// The actions of a user on the pages.
pub(super) struct Reader {
    pub(super) client: Client,
    /// The URL of the pages, without a slash at the end.
    pub(super) base: String,
}

impl Reader {
    /// Opens a page.
    pub(super) async fn open(&self, path: &str) {
        self.client.goto(&format!("{}{path}", self.base)).await.unwrap();
    }

    /// Waits for the first matching element.
    pub(super) async fn find(&self, selector: &str) -> Element {
        let found = self.client.wait().for_element(Locator::Css(selector)).await;
        found.unwrap_or_else(|error| panic!("{selector}: {error}"))
    }

    /// Waits for the page with this headline, which must be no wider than the window.
    pub(super) async fn reads(&self, headline: &str) {
        let path = format!("//h1[normalize-space()={}]", quoted(headline));
        if let Err(error) = self.client.wait().for_element(Locator::XPath(&path)).await {
            panic!("no {headline:?}: {error}\n{}", self.client.source().await.unwrap());
        }
        let is_wide = "return document.documentElement.scrollWidth > innerWidth";
        assert_eq!(self.run(is_wide).await, json!(false), "{headline}: is wider than the window");
    }

    /// The path of the page that is open, with its query.
    pub(super) async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap().to_string();
        let Some(path) = url.strip_prefix(&self.base) else { panic!("{url} is elsewhere") };
        path.to_owned()
    }

    /// Replaces the content of the field of this name.
    pub(super) async fn write(&self, name: &str, text: &str) {
        let field = self.find(&format!("[name={name}]")).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// The content of the field of this name.
    pub(super) async fn written(&self, name: &str) -> String {
        let field = self.find(&format!("[name={name}]")).await;
        field.prop("value").await.unwrap().unwrap_or_default()
    }

    /// Clicks the first matching button or link.
    pub(super) async fn press(&self, selector: &str) {
        self.find(selector).await.click().await.unwrap();
    }

    /// The result of a script.
    pub(super) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }
}

/// A text as an XPath literal, with any quotes in it.
fn quoted(text: &str) -> String {
    let parts: Vec<_> = text.split('"').map(|part| format!("\"{part}\"")).collect();
    format!("concat({}, \"\")", parts.join(", '\"', "))
}
