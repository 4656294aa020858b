//! A fake of Stripe that checks each request against the documentation, and an independent implementation of its
//! signature.

use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The secret key that the fake accepts.
pub const SECRET_KEY: &str = "sk_test_51Habcdefgh";
/// The secret of the events.
pub const EVENT_SECRET: &str = "whsec_0123456789abcdef";

/// A request that the fake has accepted: its idempotency key and its form.
pub type Accepted = (String, BTreeMap<String, String>);

/// A fake of Stripe's API on its own socket. Like Stripe, it answers an undocumented request with 400, and a repeated
/// idempotency key with the first answer.
#[derive(Clone, Debug)]
pub struct StandIn {
    /// The URL of its API.
    pub url: String,
    accepted: Arc<Mutex<Vec<Accepted>>>,
    /// The status of the next answers, if they are to fail.
    failing: Arc<Mutex<Option<u16>>>,
}

impl StandIn {
    /// Starts the fake.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stand_in = StandIn { url, accepted: Arc::default(), failing: Arc::default() };
        let served = stand_in.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = served.clone();
                tokio::spawn(async move { served.serve(stream).await });
            }
        });
        stand_in
    }

    /// Returns the configuration that makes the management use it.
    pub fn settings(&self) -> String {
        format!(
            "[billing.stripe]\napi_url = \"{}\"\nsecret_key = \"{SECRET_KEY}\"\nwebhook_secret = \"{EVENT_SECRET}\"\n",
            self.url
        )
    }

    /// Returns the accepted requests.
    pub fn accepted(&self) -> Vec<Accepted> {
        self.accepted.lock().unwrap().clone()
    }

    /// Lets the next requests fail with this status, or succeed again.
    pub fn fail(&self, status: Option<u16>) {
        *self.failing.lock().unwrap() = status;
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut given = Vec::new();
        let (head, body) = loop {
            let mut more = vec![0; 4_096];
            let read = stream.read(&mut more).await.unwrap();
            assert!(read > 0, "the request broke off");
            given.extend_from_slice(&more[..read]);
            let text = String::from_utf8(given.clone()).unwrap();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = header(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                break (head.to_owned(), body.to_owned());
            }
        };
        let (status, answer) = match self.take(&head, &body) {
            Ok((key, id)) => (
                200,
                json!({"id": session_of(&key), "object": "checkout.session",
                "url": format!("https://checkout.stripe.com/c/pay/cs_test_{id}"), "status": "open"}),
            ),
            Err((status, why)) => {
                (status, json!({"error": {"type": "invalid_request_error", "message": why}}))
            }
        };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} S\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let _ = stream.write_all(format!("{head}{answer}").as_bytes()).await;
    }

    /// Checks a request as Stripe documents it (https://docs.stripe.com/api/checkout/sessions/create).
    fn take(&self, head: &str, body: &str) -> Result<(String, String), (u16, String)> {
        let wrong = |why: &str| (400, why.to_owned());
        if !head.starts_with("POST /v1/checkout/sessions HTTP/1.1\r\n") {
            return Err((404, "unrecognized request URL".into()));
        }
        if header(head, "authorization") != Some(&format!("Bearer {SECRET_KEY}")) {
            return Err((401, "invalid API key provided".into()));
        }
        if header(head, "content-type") != Some("application/x-www-form-urlencoded") {
            return Err(wrong("the body must be a form"));
        }
        if header(head, "stripe-version").is_none_or(|version| version.len() < 10) {
            return Err(wrong("the version is missing"));
        }
        let key = header(head, "idempotency-key").filter(|key| key.len() <= 255);
        let key = key.ok_or_else(|| wrong("the idempotency key is missing"))?;
        let pairs: Vec<(String, String)> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let form: BTreeMap<_, _> = pairs.iter().cloned().collect();
        if form.len() != pairs.len() {
            return Err(wrong("a parameter is given twice"));
        }
        let of = |name: &str| form.get(name).map(String::as_str);
        let mut expected = vec!["client_reference_id", "customer_email", "success_url", "cancel_url", "mode"];
        match of("mode") {
            Some("payment") => {
                let cents: u64 = of("line_items[0][price_data][unit_amount]").unwrap_or("0").parse().unwrap();
                if cents < 50 || of("line_items[0][quantity]") != Some("1") {
                    return Err(wrong("amount_too_small"));
                }
                expected.extend([
                    "line_items[0][quantity]",
                    "line_items[0][price_data][currency]",
                    "line_items[0][price_data][unit_amount]",
                    "line_items[0][price_data][product_data][name]",
                ]);
                if of("line_items[0][price_data][currency]") != Some("usd") {
                    return Err(wrong("invalid currency"));
                }
            }
            Some("setup") if of("currency") == Some("usd") => expected.push("currency"),
            _ => return Err(wrong("invalid mode")),
        }
        let unknown =
            form.keys().find(|name| !expected.contains(&name.as_str()) && !name.starts_with("metadata["));
        if let Some(unknown) = unknown {
            return Err(wrong(&format!("received unknown parameter: {unknown}")));
        }
        if let Some(missing) = expected.iter().find(|name| of(name).is_none_or(str::is_empty)) {
            return Err(wrong(&format!("missing required param: {missing}")));
        }
        if of("client_reference_id").is_some_and(|id| id.len() > 200) {
            return Err(wrong("client_reference_id is too long"));
        }
        if let Some(status) = *self.failing.lock().unwrap() {
            return Err((status, "try again".into()));
        }
        let mut accepted = self.accepted.lock().unwrap();
        match accepted.iter().position(|(before, _)| before == key) {
            Some(at) if accepted[at].1 == form => Ok((key.to_owned(), at.to_string())),
            Some(_) => Err(wrong("keys for idempotent requests can only be used with the same parameters")),
            None => {
                accepted.push((key.to_owned(), form));
                Ok((key.to_owned(), (accepted.len() - 1).to_string()))
            }
        }
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.find(|(its, _)| its.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Computes HMAC-SHA256 (RFC 2104) without the library's HMAC.
pub(crate) fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    let sha = |bytes: &[u8]| ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().to_vec();
    let mut block = if key.len() > 64 { sha(key) } else { key.to_vec() };
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<_>>();
    sha(&[pad(0x5c), sha(&[pad(0x36), message.to_vec()].concat())].concat())
}

/// Returns the header that Stripe sends with an event.
pub fn signature(secret: &str, at: u64, body: &str) -> String {
    let tag = hmac_sha256(secret.as_bytes(), format!("{at}.{body}").as_bytes());
    let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={at},v1={tag},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39")
}

/// Returns an event about the payment with the idempotency key `id`.
pub fn event(kind: &str, id: &str, payment_status: &str, cents: u64) -> String {
    let mode = if payment_status == "no_payment_required" { "setup" } else { "payment" };
    json!({"id": "evt_1", "object": "event", "api_version": "2024-06-20", "created": 1_798_718_400, "type": kind,
        "livemode": false, "pending_webhooks": 1, "data": {"object": {"id": session_of(id), "object": "checkout.session",
            "client_reference_id": id, "payment_status": payment_status, "amount_total": cents, "currency": "usd",
            "mode": mode, "status": "complete", "metadata": {"checkout": id}}}})
    .to_string()
}

/// Returns the fake's identifier of the payment with this idempotency key.
pub fn session_of(key: &str) -> String {
    format!("cs_test_{key}")
}
