//! From calls over a gateway to a paid invoice.

use rpcgate_core::clock::ManualClock;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::TestService;
use rpcgate_tests::client::{TestClient, TestReply};
use rpcgate_tests::gateway::{START, Setup};
use rpcgate_tests::node::Node;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const DAY: Duration = Duration::from_secs(86_400);

async fn until(client: &TestClient, status: u16) -> TestReply {
    let wait = async {
        loop {
            let reply = client.call("eth", "eth_blockNumber", "[]").await;
            if reply.status == status {
                return reply;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, wait).await.unwrap()
}

// Shows (Plans, bills and payments): Bills and invoices over the API, as JSON and as a page for printing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_on_an_invoice_and_a_suspended_tenant_is_served_again_after_payment() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("plans.standard", "price_per_cu = 0.0123")
        .set("billing", "suspend_after = \"5d\"\ntax_name = \"VAT\"\ntax_basis_points = 1900");
    let clock = Arc::new(ManualClock::at(START));
    let service = TestService::start(setup, clock.clone()).await;
    service.bill().await;
    let gateway = service.gateway().await;
    let mut owner = service.owner("ada@example.com").await;
    let mut operator = service.operator().await;
    let tenant = owner.tenant().await;
    operator.put(&format!("/operator/tenants/{tenant}"), &json!({ "tier": "standard" })).await;
    let (_, key) = owner.key(&owner.project("one").await).await;
    let client = TestClient::new(gateway.addr(), Some(&key));
    let mut units = 0;
    for method in ["eth_blockNumber", "eth_getBalance", "eth_call"].repeat(7) {
        let reply = client.call("eth", method, "[]").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        units += reply.cu();
    }
    assert!(units > 21, "{units}");
    let bill = format!("/tenants/{tenant}/billing");
    let recorded = async {
        while owner.shown(&bill).await["lines"][0]["compute_units"] != json!(units) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, recorded).await.unwrap();

    // The start of the next month.
    clock.advance(20 * DAY);
    service.bill().await;
    owner.log_in_again().await;
    assert_eq!(owner.shown(&bill).await["lines"], json!([]), "a new month has begun");
    let list = owner.shown(&format!("/tenants/{tenant}/invoices")).await;
    assert_eq!((&list[0]["number"], &list[0]["status"]), (&json!("2027-000001"), &json!("open")));
    let path = format!("/tenants/{tenant}/invoices/2027-000001");
    let invoice = owner.shown(&path).await;
    let [line] = &invoice["lines"].as_array().unwrap()[..] else { panic!("{invoice}") };
    assert_eq!(
        (&line["chain"], &line["compute_units"], &line["calls"]),
        (&json!("eth"), &json!(units), &json!(21))
    );
    let ten_thousandths = 123 * units;
    let exact = format!("{}.{:04}00000000", ten_thousandths / 10_000, ten_thousandths % 10_000);
    let cents = (ten_thousandths + 50) / 100;
    assert_eq!((&line["amount"], &invoice["subtotal_cents"]), (&json!(exact), &json!(cents)));
    assert_eq!(invoice["total_cents"], json!(cents + (cents * 19 + 50) / 100));
    let mails = service.mails("ada@example.com").await;
    assert!(mails.last().unwrap().contains("Subject: Invoice 2027-000001\r\n"), "{mails:?}");
    let viewed = async |token: &str| {
        let headers = [("authorization", token), ("accept", "text/html")];
        TestClient::new(service.addr(), None).send("GET", &format!("/api/v1{path}"), &headers, b"").await
    };
    let page = viewed(&owner.bearer()).await;
    assert!(page.status == 200 && page.text().contains("<h1>Invoice 2027-000001</h1>"), "{page:?}");
    assert_eq!(viewed("Bearer x").await.status, 401);

    // The reminder announces the suspension, which follows five days later.
    clock.advance(15 * DAY);
    service.bill().await;
    let mails = service.mails("ada@example.com").await;
    let reminder = mails.last().unwrap();
    assert!(reminder.contains("Subject: Invoice 2027-000001 is not paid\r\n"), "{reminder}");
    assert!(reminder.contains("calls with the keys of your organisation are refused from"), "{reminder}");
    operator.log_in_again().await;
    let shown = operator.shown(&format!("/operator/tenants/{tenant}")).await;
    assert_eq!(shown["status"], "active", "{shown}");
    clock.advance(5 * DAY);
    service.bill().await;
    until(&client, 402).await;
    operator.log_in_again().await;
    let overdue = operator.shown("/operator/invoices?status=overdue").await;
    assert_eq!(overdue.as_array().map(Vec::len), Some(1), "{overdue}");
    let paid = json!({ "status": "paid", "note": "By transfer" });
    operator.put("/operator/invoices/2027-000001", &paid).await;
    until(&client, 200).await;
    assert_eq!(operator.shown("/operator/invoices?status=overdue").await, Value::Array(Vec::new()));
}
