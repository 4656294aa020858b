//! Tests against a fake Stripe that checks each request against the documentation, and an independent implementation of
//! its signature.

use super::*;
use rpcgate_config::{Config, Input};
use rpcgate_core::plan::Tier;
use rpcgate_store::{CheckoutId, InvoiceNumber};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const SECRET_KEY: &str = "sk_test_51Habcdefgh";
pub(crate) const EVENT_SECRET: &str = "whsec_0123456789abcdef";

/// A request that the fake has accepted: its idempotency key and its form.
pub(crate) type Accepted = (String, BTreeMap<String, String>);

/// A fake of Stripe's API on its own socket. Like Stripe, it answers an undocumented request with 400, and a repeated
/// idempotency key with the first answer.
#[derive(Clone)]
pub(crate) struct StandIn {
    pub(crate) url: String,
    accepted: Arc<Mutex<Vec<Accepted>>>,
    /// The status of the next answers, if they are to fail.
    failing: Arc<Mutex<Option<u16>>>,
}

impl StandIn {
    pub(crate) async fn start() -> Self {
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

    pub(crate) fn settings(&self) -> String {
        format!(
            "[billing.stripe]\napi_url = \"{}\"\nsecret_key = \"{SECRET_KEY}\"\nwebhook_secret = \"{EVENT_SECRET}\"\n",
            self.url
        )
    }

    pub(crate) fn accepted(&self) -> Vec<Accepted> {
        self.accepted.lock().unwrap().clone()
    }

    pub(crate) fn fail(&self, status: Option<u16>) {
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
fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    let sha = |bytes: &[u8]| ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().to_vec();
    let mut block = if key.len() > 64 { sha(key) } else { key.to_vec() };
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<_>>();
    sha(&[pad(0x5c), sha(&[pad(0x36), message.to_vec()].concat())].concat())
}

/// Returns the header that Stripe sends with an event.
pub(crate) fn signature(secret: &str, at: u64, body: &str) -> String {
    let tag = hmac_sha256(secret.as_bytes(), format!("{at}.{body}").as_bytes());
    let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={at},v1={tag},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39")
}

pub(crate) fn event(kind: &str, id: &str, payment_status: &str, cents: u64) -> String {
    let mode = if payment_status == "no_payment_required" { "setup" } else { "payment" };
    json!({"id": "evt_1", "object": "event", "api_version": "2024-06-20", "created": 1_798_718_400, "type": kind,
        "livemode": false, "pending_webhooks": 1, "data": {"object": {"id": session_of(id), "object": "checkout.session",
            "client_reference_id": id, "payment_status": payment_status, "amount_total": cents, "currency": "usd",
            "mode": mode, "status": "complete", "metadata": {"checkout": id}}}})
    .to_string()
}

/// Returns the fake's identifier of the payment with this idempotency key.
pub(crate) fn session_of(key: &str) -> String {
    format!("cs_test_{key}")
}

fn stripe(settings: &str) -> Stripe {
    let config = Config::read(&Input { file: Some(("f", settings)), ..Input::default() }).unwrap();
    Stripe::configured(&config.billing.stripe).unwrap().unwrap()
}

fn order(subject: CheckoutSubject, cents: u64) -> PaymentOrder {
    PaymentOrder {
        id: CheckoutId(0x0190_163d_8694_739b_aea5_966c_26f8_ad91),
        subject,
        cents,
        email: "ada+x@example.com".into(),
        return_url: "https://dash.example.com/app/?a=b&c".into(),
    }
}

const NUMBER: InvoiceNumber = InvoiceNumber { year: 2026, serial: 123 };

#[test]
fn the_tests_own_hmac_is_the_one_of_rfc_4231() {
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let two = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(hex(hmac_sha256(b"Jefe", b"what do ya want for nothing?")), two);
    let six = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
    let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
    assert_eq!(hex(hmac_sha256(&[0xaa; 131], long)), six);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_payment_is_begun_with_the_documented_request() {
    let stand_in = StandIn::start().await;
    let stripe = stripe(&stand_in.settings());
    let begun = stripe.begin(&order(CheckoutSubject::Invoice(NUMBER), 1_190)).await.unwrap();
    assert_eq!(begun.url, "https://checkout.stripe.com/c/pay/cs_test_0");
    assert_eq!(begun.session, "cs_test_0190163d-8694-739b-aea5-966c26f8ad91");
    let again = stripe.begin(&order(CheckoutSubject::Invoice(NUMBER), 1_190)).await.unwrap();
    assert_eq!(again, begun, "the same order is the same payment");
    let [(key, form)] = &stand_in.accepted()[..] else { panic!("one payment") };
    let id = "0190163d-8694-739b-aea5-966c26f8ad91";
    assert_eq!((key.as_str(), form["client_reference_id"].as_str()), (id, id));
    assert_eq!(form["customer_email"], "ada+x@example.com");
    assert_eq!(form["success_url"], "https://dash.example.com/app/?a=b&c");
    assert_eq!(form["line_items[0][price_data][unit_amount]"], "1190");
    assert_eq!(form["line_items[0][price_data][product_data][name]"], "Invoice 2026-000123");
    assert_eq!(form["metadata[invoice]"], "2026-000123");
    let other = PaymentOrder { id: CheckoutId(7), ..order(CheckoutSubject::Plan(Tier::Premium.into()), 0) };
    stripe.begin(&other).await.unwrap();
    let form = &stand_in.accepted()[1].1;
    assert_eq!((form["mode"].as_str(), form["metadata[tier]"].as_str()), ("setup", "premium"));
}

#[tokio::test]
async fn failures_of_the_provider_are_temporary_or_not() {
    let stand_in = StandIn::start().await;
    let ours = stripe(&stand_in.settings());
    let begin = async |stripe: &Stripe| {
        stripe.begin(&order(CheckoutSubject::Invoice(NUMBER), 1_190)).await.unwrap_err()
    };
    for status in [429, 500, 503, 409] {
        stand_in.fail(Some(status));
        let error = begin(&ours).await;
        assert!(
            matches!(error, PaymentError::Unavailable(_)) && error.to_string().contains("try again"),
            "{error}"
        );
    }
    stand_in.fail(Some(402));
    assert!(matches!(begin(&ours).await, PaymentError::Refused(_)));
    stand_in.fail(None);
    let wrong = stripe(&stand_in.settings().replace(SECRET_KEY, "sk_test_another"));
    let error = begin(&wrong).await;
    assert!(matches!(error, PaymentError::Refused(_)), "{error}");
    assert!(!format!("{wrong:?} {error}").contains("another"), "secrets are not shown");
    let nowhere = stripe(&stand_in.settings().replace(&stand_in.url, "http://127.0.0.1:1"));
    assert!(matches!(begin(&nowhere).await, PaymentError::Unavailable(_)));
}

#[test]
fn the_secret_key_is_sent_over_tls_or_stays_on_this_machine() {
    for (url, expected) in [
        ("https://api.example.com", true),
        ("http://127.0.0.1:12111", true),
        ("http://api.example.com", false),
        ("http://10.0.0.1", false),
    ] {
        let text = format!(
            "[billing.stripe]\napi_url = \"{url}\"\nsecret_key = \"sk_test_1\"\nwebhook_secret = \"whsec_12\"\n"
        );
        let config = Config::read(&Input { file: Some(("f", &text)), ..Input::default() }).unwrap();
        let configured = Stripe::configured(&config.billing.stripe);
        assert_eq!(configured.as_ref().is_ok_and(Option::is_some), expected, "{url}");
        assert!(configured.is_ok() || configured.is_err_and(|(key, _)| key == "billing.stripe.api_url"));
    }
}

fn headers(signature: &str) -> HeaderMap {
    [(STRIPE_SIGNATURE, HeaderValue::from_str(signature).unwrap())].into_iter().collect()
}

// Shows (Plans, bills and payments).
#[test]
fn an_event_is_accepted_with_a_fresh_signature_of_its_secret_alone() {
    let key = hmac::Key::new(hmac::HMAC_SHA256, EVENT_SECRET.as_bytes());
    let (at, body) = (1_798_718_400, r#"{"type":"x"}"#);
    let accepts = |header: &str, body: &str, now: u64| {
        verify(&key, header, body.as_bytes(), Time::from_secs(now)).is_ok()
    };
    let good = signature(EVENT_SECRET, at, body);
    for (now, expected) in
        [(at, true), (at + 300, true), (at + 301, false), (at - 300, true), (at - 301, false)]
    {
        assert_eq!(accepts(&good, body, now), expected, "{now}");
    }
    assert!(!accepts(&good, r#"{"type":"y"}"#, at) && !accepts(&good, "", at));
    let other = signature("whsec_another", at, body);
    assert!(!accepts(&other, body, at));
    let moved = good.replace(&format!("t={at}"), &format!("t={}", at + 1));
    assert!(!accepts(&moved, body, at), "the time is signed too");
    let v1 = good.split(',').nth(1).unwrap();
    let rolled = format!("t={at},{},{v1}", other.split(',').nth(1).unwrap());
    assert!(accepts(&rolled, body, at), "one of several is enough");
    let many = format!("t={at},{}{v1}", "v1=00,".repeat(MAX_SIGNATURES));
    assert!(!accepts(&many, body, at), "a long list is not looked at to its end");
    for wrong in [
        String::new(),
        "t=".into(),
        format!("t={at}"),
        v1.to_owned(),
        format!("t={at},v0={}", &v1[3..]),
        format!("t={at},v1="),
        format!("t={at},v1={}", &v1[3..v1.len() - 2]),
        format!("t={at},v1=zz"),
        format!("t=-{at},{v1}"),
        format!("t=99999999999999999999,{v1}"),
    ] {
        assert!(!accepts(&wrong, body, at), "{wrong}");
    }
}

#[test]
fn events_report_the_outcome_of_a_payment() {
    let stripe = stripe(&format!(
        "[billing.stripe]\nsecret_key = \"{SECRET_KEY}\"\nwebhook_secret = \"{EVENT_SECRET}\"\n"
    ));
    let at = 1_798_718_400;
    let told = |body: &str| {
        stripe.read_event(&headers(&signature(EVENT_SECRET, at, body)), body.as_bytes(), Time::from_secs(at))
    };
    let id = CheckoutId(7);
    let of = |kind: &str, status: &str| told(&event(kind, &id.to_string(), status, 1_190));
    let session = session_of(&id.to_string());
    let report = PaymentReport {
        session: session.clone(),
        checkout: Some(id),
        mode: Some("payment".into()),
        cents: 1_190,
        currency: Some("usd".into()),
    };
    let paid = Ok(PaymentEvent::Completed(report.clone()));
    assert_eq!(of("checkout.session.completed", "paid"), paid);
    let free = PaymentReport { mode: Some("setup".into()), cents: 0, ..report.clone() };
    assert_eq!(of("checkout.session.completed", "no_payment_required"), Ok(PaymentEvent::Completed(free)));
    let unpaid = event("checkout.session.completed", &id.to_string(), "no_payment_required", 1_190);
    let brought_nothing = PaymentReport { cents: 0, ..report.clone() };
    assert_eq!(told(&unpaid.replace("setup", "payment")), Ok(PaymentEvent::Completed(brought_nothing)));
    assert_eq!(of("checkout.session.completed", "unpaid"), Ok(PaymentEvent::Other), "it takes days");
    assert_eq!(of("checkout.session.async_payment_succeeded", "paid"), paid);
    let ended = Ok(PaymentEvent::Ended { id, session: session.clone() });
    assert_eq!(of("checkout.session.async_payment_failed", "unpaid"), ended);
    assert_eq!(of("checkout.session.expired", "unpaid"), ended);
    assert_eq!(of("customer.created", "paid"), Ok(PaymentEvent::Other));
    assert_eq!(of("checkout.session.invented", "paid"), Ok(PaymentEvent::Other));
    let foreign =
        |cents| told(&event("checkout.session.completed", "order 5 of another shop", "paid", cents));
    let Ok(PaymentEvent::Completed(of_shop)) = foreign(1) else { panic!("a payment is never dropped") };
    assert_eq!((of_shop.checkout, of_shop.cents), (None, 1));
    assert_eq!(foreign(0), Ok(PaymentEvent::Other), "nothing was paid");
    let euros = event("checkout.session.completed", &id.to_string(), "paid", 1_190).replace("usd", "eur");
    let in_euros = PaymentReport { currency: Some("eur".into()), ..report.clone() };
    assert_eq!(told(&euros), Ok(PaymentEvent::Completed(in_euros)));
    let mut setup: Value =
        serde_json::from_str(&event("checkout.session.completed", &id.to_string(), "", 0)).unwrap();
    setup["data"]["object"]["amount_total"] = Value::Null;
    setup["data"]["object"]["mode"] = "setup".into();
    setup["data"]["object"]["payment_status"] = "no_payment_required".into();
    let of_plan = PaymentReport { mode: Some("setup".into()), cents: 0, ..report };
    assert_eq!(told(&setup.to_string()), Ok(PaymentEvent::Completed(of_plan)));
    for wrong in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"type":"checkout.session.completed","data":{}}"#,
        r#"{"type":"checkout.session.completed","data":[]}"#,
        r#"{"type":"checkout.session.completed","data":5}"#,
    ] {
        assert_eq!(told(wrong), Err(EventError::Form), "{wrong}");
    }
    let body = event("checkout.session.completed", &id.to_string(), "paid", 1);
    assert_eq!(
        stripe.read_event(&HeaderMap::new(), body.as_bytes(), Time::from_secs(at)),
        Err(EventError::Signature)
    );
}
