//! Tests of the first page of operators.

use super::super::tests::fixture::OperatorFixture;
use crate::testing::Site;
use crate::tests::hostile::{HOSTILE, assert_shown};
use crate::tests::{cookie, get};
use http::StatusCode;
use rpcgate_store::{GatewayReport, NodeState};

fn node(standing: &str, reason: &str) -> NodeState {
    NodeState {
        chain: "eth".into(),
        node: "https://node.example/".into(),
        standing: standing.into(),
        reason: reason.into(),
        ..NodeState::default()
    }
}

async fn report(fixture: &OperatorFixture, nodes: Vec<NodeState>) {
    let report = GatewayReport { id: 1, at: fixture.site.app.now(), nodes };
    fixture.site.app.store.put_report(&report, &[]).await.unwrap();
}

// Shows (Dashboard).
#[tokio::test]
async fn the_first_page_of_an_operator_shows_the_overall_health() {
    let fixture = OperatorFixture::named("Acme").await;
    fixture.assert_operators("/operator").await;
    assert_eq!(get(&fixture.site, "/", &fixture.own).await.leads_to(), (StatusCode::SEE_OTHER, "operator"));
    let empty = fixture.get("/operator").await.text;
    for part in
        ["No gateway has reported", "Nothing is waiting", "No node is reported", "No calls in this time."]
    {
        assert!(empty.contains(part), "{part}: {empty}");
    }
    fixture.calls(1_204, 2_408).await;
    report(&fixture, vec![node("well", "")]).await;
    assert!(fixture.get("/operator").await.text.contains("All nodes are healthy"));
    report(&fixture, vec![node("well", ""), node("behind", "7 blocks behind; 3 are allowed")]).await;
    fixture.request("More").await;
    fixture.ticket("Null receipts", "Text").await;
    let page = fixture.get("/operator").await.text;
    for part in [
        "<b>1,204</b>",
        "<dd>2,408</dd>",
        "A node is unhealthy.",
        "7 blocks behind; 3 are allowed",
        "Limit request",
        "Null receipts",
        "1 limit request, 1 ticket<",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("No gateway has reported") && !page.contains("Nothing is waiting"), "{page}");
}

#[tokio::test]
async fn an_operator_sees_the_second_factor_notice_only_if_one_is_required() {
    for (text, expected) in [
        ("", "Operators should have one."),
        ("[admin]\noperator_mfa = true\n", "Operators cannot change anything without one."),
    ] {
        let site = Site::of(text).await;
        let own = cookie(&site, &site.operator().await);
        let page = get(&site, "/operator", &own).await;
        assert_eq!(page.text.matches(expected).count(), 1, "{text}: {}", page.text);
        assert_eq!(page.text.matches("Your account has no second factor.").count(), 1, "{text}");
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn no_text_of_a_node_or_a_tenant_is_markup() {
    for hostile in HOSTILE {
        let fixture = OperatorFixture::named(hostile).await;
        fixture.ticket(hostile, "Text").await;
        report(&fixture, vec![NodeState { node: hostile.into(), ..node("silent", hostile) }]).await;
        assert_shown(&fixture.get("/operator").await, hostile);
    }
}
