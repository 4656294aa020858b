//! Tests against a fake of Stripe.

use super::*;
use crate::testing::stripe::*;
use rpcgate_config::{Config, Input};
use rpcgate_core::plan::Tier;
use rpcgate_store::{CheckoutId, InvoiceNumber};

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
    let at = 1_798_718_400;
    let body = r#"{"type":"x"}"#;
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
    let parsed = |body: &str| {
        stripe.read_event(&headers(&signature(EVENT_SECRET, at, body)), body.as_bytes(), Time::from_secs(at))
    };
    let id = CheckoutId(7);
    let of = |kind: &str, status: &str| parsed(&event(kind, &id.to_string(), status, 1_190));
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
    assert_eq!(parsed(&unpaid.replace("setup", "payment")), Ok(PaymentEvent::Completed(brought_nothing)));
    assert_eq!(of("checkout.session.completed", "unpaid"), Ok(PaymentEvent::Other), "it takes days");
    assert_eq!(of("checkout.session.async_payment_succeeded", "paid"), paid);
    let ended = Ok(PaymentEvent::Ended { id, session: session.clone() });
    assert_eq!(of("checkout.session.async_payment_failed", "unpaid"), ended);
    assert_eq!(of("checkout.session.expired", "unpaid"), ended);
    assert_eq!(of("customer.created", "paid"), Ok(PaymentEvent::Other));
    assert_eq!(of("checkout.session.invented", "paid"), Ok(PaymentEvent::Other));
    let foreign =
        |cents| parsed(&event("checkout.session.completed", "order 5 of another shop", "paid", cents));
    let Ok(PaymentEvent::Completed(of_shop)) = foreign(1) else { panic!("a payment is never dropped") };
    assert_eq!((of_shop.checkout, of_shop.cents), (None, 1));
    assert_eq!(foreign(0), Ok(PaymentEvent::Other), "nothing was paid");
    let euros = event("checkout.session.completed", &id.to_string(), "paid", 1_190).replace("usd", "eur");
    let in_euros = PaymentReport { currency: Some("eur".into()), ..report.clone() };
    assert_eq!(parsed(&euros), Ok(PaymentEvent::Completed(in_euros)));
    let mut setup: Value =
        serde_json::from_str(&event("checkout.session.completed", &id.to_string(), "", 0)).unwrap();
    setup["data"]["object"]["amount_total"] = Value::Null;
    setup["data"]["object"]["mode"] = "setup".into();
    setup["data"]["object"]["payment_status"] = "no_payment_required".into();
    let of_plan = PaymentReport { mode: Some("setup".into()), cents: 0, ..report };
    assert_eq!(parsed(&setup.to_string()), Ok(PaymentEvent::Completed(of_plan)));
    for wrong in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"type":"checkout.session.completed","data":{}}"#,
        r#"{"type":"checkout.session.completed","data":[]}"#,
        r#"{"type":"checkout.session.completed","data":5}"#,
    ] {
        assert_eq!(parsed(wrong), Err(EventError::Form), "{wrong}");
    }
    let body = event("checkout.session.completed", &id.to_string(), "paid", 1);
    assert_eq!(
        stripe.read_event(&HeaderMap::new(), body.as_bytes(), Time::from_secs(at)),
        Err(EventError::Signature)
    );
}
