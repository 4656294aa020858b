//! Tests of the first page of operators.

use super::super::desk::Desk;
use crate::management::page::hostile::{HOSTILE, assert_shown};
use crate::management::page::tests::get;
use crate::store::{GatewayReport, NodeState};
use http::StatusCode;

fn node(standing: &str, reason: &str) -> NodeState {
    NodeState {
        chain: "eth".into(),
        node: "https://node.example/".into(),
        standing: standing.into(),
        reason: reason.into(),
        ..NodeState::default()
    }
}

async fn report(desk: &Desk, nodes: Vec<NodeState>) {
    let report = GatewayReport { id: 1, at: desk.site.app.now(), nodes };
    desk.site.app.store.put_report(&report, &[]).await.unwrap();
}

#[tokio::test]
async fn the_first_page_of_an_operator_says_whether_all_is_well() {
    let desk = Desk::named("Acme").await;
    desk.assert_operators("/operator").await;
    assert_eq!(get(&desk.site, "/", &desk.own).await.leads_to(), (StatusCode::SEE_OTHER, "operator"));
    let empty = desk.get("/operator").await.text;
    for part in ["No gateway has reported", "Nothing waits", "No node is reported", "No calls in this time."]
    {
        assert!(empty.contains(part), "{part}: {empty}");
    }
    desk.calls(1_204, 2_408).await;
    report(&desk, vec![node("well", "")]).await;
    assert!(desk.get("/operator").await.text.contains("All nodes are well"));
    report(&desk, vec![node("well", ""), node("behind", "7 blocks behind; 3 are allowed")]).await;
    desk.request("More").await;
    desk.ticket("Null receipts", "Text").await;
    let page = desk.get("/operator").await.text;
    for part in [
        "<b>1,204</b>",
        "<dd>2,408</dd>",
        "A node is not well.",
        "7 blocks behind; 3 are allowed",
        "Limit request",
        "Null receipts",
        "1 limit request, 1 ticket<",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("No gateway has reported") && !page.contains("Nothing waits"), "{page}");
}

#[tokio::test]
async fn no_text_of_a_node_or_a_tenant_is_markup() {
    for hostile in HOSTILE {
        let desk = Desk::named(hostile).await;
        desk.ticket(hostile, "Text").await;
        report(&desk, vec![NodeState { node: hostile.into(), ..node("silent", hostile) }]).await;
        assert_shown(&desk.get("/operator").await, hostile);
    }
}
