//! A real browser, driven through WebDriver.

#![expect(clippy::unwrap_used, reason = "a browser of the tests that cannot work fails its test")]

use bytes::Bytes;
use fantoccini::elements::Element;
use fantoccini::{Client, ClientBuilder, Locator};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The required programs, and their Debian packages.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];
const PACKAGES: &str = "chromium chromium-driver";

/// A host name that the browser resolves to this machine. Unlike loopback addresses it is not trusted over plain HTTP,
/// so pages have no Web Crypto and requests no `Sec-Fetch-Site`.
pub const ELSEWHERE: &str = "rpcgate.test";

/// The screen of a small phone, in CSS pixels.
pub const NARROW: u64 = 320;

/// A computer's screen, in CSS pixels.
pub const WIDE: u64 = 1440;

/// The properties of a browser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrowserKind {
    /// The width of the window in CSS pixels. Up to 600 the browser is a phone with a touch screen.
    pub width: u64,
    /// True if the browser runs the scripts of pages.
    pub runs_scripts: bool,
    /// The SHA-256, in base64, of the public key of a certificate that the browser trusts.
    pub trusted: Option<String>,
}

impl Default for BrowserKind {
    fn default() -> Self {
        BrowserKind { width: WIDE, runs_scripts: true, trusted: None }
    }
}

impl BrowserKind {
    fn options(&self, profile: &TempDir) -> Value {
        let mut args = vec![
            "--headless".to_owned(),
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-quic".into(),
            "--disable-dev-shm-usage".into(),
            "--no-first-run".into(),
            "--disable-background-networking".into(),
            "--disable-component-update".into(),
            "--disable-sync".into(),
            format!("--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        if let Some(hash) = &self.trusted {
            args.push(format!("--ignore-certificate-errors-spki-list={hash}"));
        }
        let is_phone = self.width <= 600;
        let height = if is_phone { 640 } else { 900 };
        // With scripts off, the driver waits for ever for the end of a touch.
        let is_touched = is_phone && self.runs_scripts;
        let metrics = json!({ "width": self.width, "height": height, "pixelRatio": 1, "mobile": is_touched, "touch": is_touched });
        let mut options = json!({ "args": args, "mobileEmulation": { "deviceMetrics": metrics } });
        if !self.runs_scripts {
            options["prefs"] = json!({ "profile.managed_default_content_settings.javascript": 2 });
        }
        options
    }
}

/// A browser with a fresh profile.
#[derive(Debug)]
pub struct Browser {
    /// The WebDriver client.
    pub client: Client,
    driver: Driver,
    link: DriverLink,
    width: u64,
    _profile: TempDir,
}

/// The WebDriver process. It is killed when dropped.
#[derive(Debug)]
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The session at a driver, for commands that only Chrome's driver has.
#[derive(Clone, Debug)]
struct DriverLink {
    session: String,
    http: HttpClient<HttpConnector, Full<Bytes>>,
}

impl DriverLink {
    async fn ask(&self, path: &str, body: &Value) -> Value {
        let request = Request::post(format!("{}{path}", self.session)).body(Full::from(body.to_string()));
        let answer = self.http.request(request.unwrap()).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert!(status.is_success(), "{path}: {answer}");
        answer["value"].clone()
    }
}

impl Browser {
    /// Starts a browser with the width of a phone or a computer, as [`Browser::of`] does.
    ///
    /// # Panics
    /// Like [`Browser::of`].
    pub async fn start(is_narrow: bool) -> Option<Browser> {
        let width = if is_narrow { NARROW } else { WIDE };
        Browser::of(&BrowserKind { width, ..BrowserKind::default() }).await
    }

    /// Starts a browser. Returns `None` if none is installed; this fails the test if services are required.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn of(kind: &BrowserKind) -> Option<Browser> {
        if let Some(missing) = PROGRAMS.iter().find(|name| !is_installed(name)) {
            skipped(&format!("{missing} is missing, install {PACKAGES}"));
            return None;
        }
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = Driver(command.spawn().unwrap());
        let url = format!("http://127.0.0.1:{}", port(&mut driver.0));
        let profile = tempfile::tempdir().unwrap();
        let mut capabilities = serde_json::Map::new();
        capabilities.insert("goog:chromeOptions".into(), kind.options(&profile));
        capabilities.insert("goog:loggingPrefs".into(), json!({ "browser": "ALL" }));
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(capabilities).connect(&url).await.unwrap();
        let session = format!("{url}/session/{}", client.session_id().await.unwrap().unwrap());
        let link = DriverLink { session, http: HttpClient::builder(TokioExecutor::new()).build_http() };
        Some(Browser { client, driver, link, width: kind.width, _profile: profile })
    }

    /// Returns a user who reads the pages at `base`, a URL without a trailing slash.
    pub fn reader(&self, base: &str) -> PageReader {
        PageReader {
            client: self.client.clone(),
            base: base.to_owned(),
            width: self.width,
            link: self.link.clone(),
        }
    }

    /// Closes the browser. It would keep running if its driver were killed first.
    ///
    /// # Panics
    /// When it cannot be closed.
    pub async fn stop(self) {
        let closed = self.client.close().await;
        drop(self.driver);
        closed.unwrap();
    }
}

/// Reports that a test cannot run here; fails it if services are required.
///
/// # Panics
/// When services are required.
pub fn skipped(why: &str) {
    let is_needed = env::var_os("RPCGATE_REQUIRE_SERVICES").is_some_and(|value| value == "1");
    assert!(!is_needed, "{why}");
    // Bypasses the test harness, which shows output only of failed tests.
    io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).unwrap();
}

/// Reports whether a program is in `PATH`.
pub fn is_installed(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder: PathBuf| folder.join(name).is_file())
}

fn port(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().contains("started successfully on port")).unwrap();
    // The driver keeps printing; without a reader it would block.
    std::thread::spawn(move || lines.for_each(drop));
    line.unwrap().trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap()
}

/// The actions of a user on the pages. Each of them fails the test when it does not succeed.
#[derive(Clone, Debug)]
pub struct PageReader {
    /// The WebDriver client.
    pub client: Client,
    /// The URL of the pages, without a trailing slash.
    pub base: String,
    /// The width of the screen in CSS pixels.
    width: u64,
    link: DriverLink,
}

impl PageReader {
    /// Opens a page.
    pub async fn open(&self, path: &str) {
        self.client.goto(&format!("{}{path}", self.base)).await.unwrap();
    }

    /// Waits for the first matching element.
    pub async fn find(&self, selector: &str) -> Element {
        let found = self.client.wait().for_element(Locator::Css(selector)).await;
        match found {
            Ok(found) => found,
            Err(error) => panic!("{selector}: {error}\n{}", self.told().await),
        }
    }

    /// Waits for the page whose headline is or begins with this text, and checks that it is no wider than the window.
    pub async fn reads(&self, headline: &str) {
        let text = quoted(headline);
        let path = format!("//h1[starts-with(normalize-space(), {text})]");
        if let Err(error) = self.client.wait().for_element(Locator::XPath(&path)).await {
            panic!("no {headline:?}: {error}\n{}", self.told().await);
        }
        assert_eq!(self.overflow().await, json!([]), "{headline}: is wider than the window");
    }

    /// Waits for a text anywhere in the page.
    pub async fn sees(&self, text: &str) {
        let path = format!("//body//*[contains(normalize-space(), {})]", quoted(text));
        if let Err(error) = self.client.wait().for_element(Locator::XPath(&path)).await {
            panic!("no {text:?}: {error}\n{}", self.told().await);
        }
    }

    /// Returns the URL and the text of the page, for messages of failed tests.
    pub async fn told(&self) -> String {
        let url = self.client.current_url().await.map_or_else(|error| error.to_string(), String::from);
        let text = self.run("return document.body.innerText").await;
        format!("{url}\n{}", text.as_str().unwrap_or_default())
    }

    /// Returns the elements that reach beyond the window, if the page is wider than it.
    pub async fn overflow(&self) -> Value {
        let script = "
            // A phone zooms out for a page that is too wide, which enlarges its window but not its screen.
            const wide = Math.min(innerWidth, arguments[0]);
            if (document.documentElement.scrollWidth <= wide) return [];
            const out = [...document.querySelectorAll('body *')].filter((one) => {
              const box = one.getBoundingClientRect();
              if (box.width === 0 || box.right <= wide + 1) return false;
              for (let up = one.parentElement; up && up !== document.body; up = up.parentElement)
                if (getComputedStyle(up).overflowX !== 'visible') return false;
              return true;
            });
            return ['wider by ' + (document.documentElement.scrollWidth - wide), ...out.slice(0, 5).map((one) =>
              `<${one.localName} class='${one.getAttribute('class') || ''}'> ${one.innerText || ''}`.slice(0, 100))];";
        self.client.execute(script, vec![json!(self.width)]).await.unwrap()
    }

    /// Returns the path and the query of the open page.
    pub async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap().to_string();
        let Some(path) = url.strip_prefix(&self.base) else { panic!("{url} is elsewhere") };
        path.to_owned()
    }

    /// Replaces the content of the field with this name.
    pub async fn write(&self, name: &str, text: &str) {
        let field = self.find(&format!("main [name={name}]")).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Chooses the option with this value in the field with this name.
    pub async fn choose(&self, name: &str, value: &str) {
        self.find(&format!("main select[name={name}]")).await.select_by_value(value).await.unwrap();
    }

    /// Chooses the file of the field with this name.
    pub async fn attach(&self, name: &str, file: &str) {
        self.find(&format!("main [name={name}]")).await.send_keys(file).await.unwrap();
    }

    /// Returns the content of the field with this name.
    pub async fn written(&self, name: &str) -> String {
        let field = self.find(&format!("[name={name}]")).await;
        field.prop("value").await.unwrap().unwrap_or_default()
    }

    /// Clicks the first matching button or link.
    pub async fn press(&self, selector: &str) {
        let found = self.find(selector).await;
        if let Err(error) = found.click().await {
            panic!("{selector}: {error}\n{}", self.told().await);
        }
    }

    /// Clicks the first button or link with this name in the content of the page.
    pub async fn press_named(&self, name: &str) {
        let name = quoted(name);
        let path =
            format!("//main//*[self::a or self::button][normalize-space()={name} or @aria-label={name}]");
        let found = self.client.wait().for_element(Locator::XPath(&path)).await;
        let pressed = match found {
            Ok(found) => found.click().await,
            Err(error) => Err(error),
        };
        if let Err(error) = pressed {
            panic!("{name}: {error}\n{}", self.told().await);
        }
    }

    /// Opens an entry of the navigation. A narrow window hides it behind a button.
    pub async fn go(&self, entry: &str) {
        if self.run("return innerWidth < 960").await == json!(true) {
            self.press(".burger").await;
        }
        let path = format!("//nav//a[starts-with(normalize-space(), {})]", quoted(entry));
        self.client.wait().for_element(Locator::XPath(&path)).await.unwrap().click().await.unwrap();
    }

    /// Returns the message of the page about the last action.
    pub async fn done(&self) -> String {
        self.find("main [role=status]").await.text().await.unwrap()
    }

    /// Runs a script and returns its result.
    pub async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Returns the browser's new complaints: errors of scripts, refused content, missing files.
    pub async fn complaints(&self) -> Vec<String> {
        let entries = self.link.ask("/se/log", &json!({ "type": "browser" })).await;
        let entries = entries.as_array().unwrap().iter();
        let severe = entries.filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Runs a command of the Chrome DevTools Protocol.
    pub async fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.link.ask("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).await
    }

    /// Sets the browser's preference for dark pages.
    pub async fn prefer_dark(&self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        // With motion, colours would change slowly while the test reads them.
        let features = json!([
            { "name": "prefers-color-scheme", "value": value }, { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features })).await;
    }

    /// Adds a virtual authenticator for passkeys whose user is always present.
    pub async fn plug_authenticator(&self) {
        let kind = json!({
            "protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
            "isUserVerified": true,
        });
        self.link.ask("/webauthn/authenticator", &kind).await;
    }

    /// Returns a picture of the whole page as a PNG file.
    pub async fn picture(&self) -> Vec<u8> {
        let width = self.width;
        let height = self.run("return Math.max(innerHeight, document.documentElement.scrollHeight)").await;
        let whole =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width <= 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &whole).await;
        let picture = self.client.screenshot().await.unwrap();
        let height = if width <= 600 { 640 } else { 900 };
        let window =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width <= 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &window).await;
        picture
    }
}

/// Returns a text as an XPath literal, with any quotes in it.
fn quoted(text: &str) -> String {
    let parts: Vec<_> = text.split('"').map(|part| format!("\"{part}\"")).collect();
    format!("concat({}, \"\")", parts.join(", '\"', "))
}
