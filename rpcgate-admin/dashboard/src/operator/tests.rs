pub(super) mod fixture;

use super::what_if::unanswered;
use crate::testing::{NOON, Site};
use crate::tests::{cookie, get, post};
use http::StatusCode;
use rpcgate_core::backend::changes::{Change, ChangeFeed};
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_management::action::operator::what_if::TOO_SLOW;
use rpcgate_management::error::ActionError;
use rpcgate_store::{
    AuditSubject, ContractId, CustomPlan, Figures, GatewayReport, NodeState, Role, Tenant, TenantContract,
    fresh_id,
};
use std::time::Duration;

/// A name that must be escaped on every page.
const NASTY: &str = "<script>alert(1)</script>";

/// A site with eth, the cookie of an operator, and a tenant on the standard plan with 150 units of `eth_getLogs`.
async fn busy_site() -> (Site, String) {
    let site =
        Site::of("[chains.eth]\nnodes = [\"http://127.0.0.1:1/\"]\n[chains.btc]\nenabled = false\n").await;
    let operator = cookie(&site, &site.operator().await);
    let tenant = Tenant::new(TenantId(1), NASTY, Tier::Standard, NOON);
    site.app.store.create_tenant(&tenant).await.unwrap();
    let line = |method: &str, cu| SampleLine { calls: 2, cu, ..item(method) };
    let lines = vec![line("eth_getLogs", 150), line(NASTY, 0)];
    let record = SampleRecord { chain: "eth", windowed: 9, ..deed(110, NOON, lines) };
    site.app.usage.ship(&SampleShipper::new(1).pack(&[record])).await.unwrap();
    (site, operator)
}

#[tokio::test]
async fn pages_of_operators_do_not_exist_for_members_and_need_a_log_in() {
    let (site, operator) = busy_site().await;
    let member = cookie(&site, &site.member(Role::Owner).await);
    let contracts = format!("/operator/tenants/{}/contracts", TenantId(1));
    for path in [
        "/operator/weights/eth",
        "/operator/plans",
        "/operator/plans/premium",
        "/operator/chains",
        "/operator/chains/eth/switch",
        "/operator/chains/eth/cache",
        "/operator/nodes",
        &contracts,
    ] {
        let page = get(&site, path, &operator).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text);
        assert!(!page.text.contains(NASTY), "{path}");
        assert_eq!(get(&site, path, &member).await.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(get(&site, path, "").await.status, StatusCode::SEE_OTHER, "{path}");
    }
    for path in [
        "/operator/weights/gold",
        "/operator/plans/gold",
        "/operator/chains/gold/switch",
        "/operator/chains/gold/cache",
        "/operator/chains/btc/switch",
    ] {
        assert_eq!(get(&site, path, &operator).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(get(&site, "/operator/weights", &operator).await.leads_to().1, "../operator/weights/eth");
}

#[tokio::test]
async fn a_weight_is_asked_about_saved_and_reset() {
    let (site, operator) = busy_site().await;
    let path = "/operator/weights/eth";
    let shown = get(&site, path, &operator).await.text;
    assert!(shown.contains("name=\"cu-eth_getLogs\" inputmode=\"numeric\" value=\"75\""), "{shown}");
    let page = post(&site, path, &operator, &[("cu-eth_getLogs", "100"), ("do", "ask")]).await;
    assert_eq!(page.status, StatusCode::OK);
    for part in ["1 change, applied to the usage since 2 Dec 2026", "was 75", "$0.15", "$0.20", "+33.3 %"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert!(site.app.store.overlay().await.unwrap().weights.is_empty(), "asking saves nothing");
    let none = post(&site, path, &operator, &[("cu-eth_getLogs", "75"), ("do", "ask")]).await;
    assert!(
        none.text.contains("No tenant would pay more or less, or have more or fewer refusals."),
        "{}",
        none.text
    );
    for (fields, wrong) in [
        ([("cu-eth_getLogs", "many"), ("do", "save")], "whole number from 0"),
        ([("method", "eth_getLogs"), ("do", "save")], "This method is in the list"),
        ([("method", "eth_new"), ("do", "save")], "whole number from 0"),
    ] {
        let refused = post(&site, path, &operator, &fields).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{fields:?}");
        assert!(refused.text.contains(wrong), "{wrong}: {}", refused.text);
        assert!(refused.text.contains("<title>Not saved: "), "{}", refused.text);
    }
    let fields = [
        ("cu-eth_getLogs", "100"),
        ("cu-eth_call", "15"),
        ("method", "eth_new"),
        ("cu", "7"),
        ("do", "save"),
    ];
    let saved = post(&site, path, &operator, &fields).await;
    assert_eq!(saved.leads_to(), (StatusCode::SEE_OTHER, "../../operator/weights/eth?done=weights-saved"));
    let set = &site.app.store.overlay().await.unwrap().weights["eth"];
    assert_eq!(*set, [("eth_getLogs".to_owned(), 100), ("eth_new".to_owned(), 7)].into());
    let shown = get(&site, path, &operator).await.text;
    assert!(shown.contains("default 75") && shown.contains("2 set by operators"), "{shown}");
    let question = get(&site, "/operator/weights/eth/reset?method=eth_getLogs", &operator).await;
    assert!(question.text.contains("A call costs 75 CU again instead of 100 CU."), "{}", question.text);
    assert!(question.text.contains("It was called 2 times in the last 30 days."), "{}", question.text);
    let other = get(&site, "/operator/weights/eth/reset?method=eth_call", &operator).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND, "it is not set");
    let reset = post(&site, "/operator/weights/eth/reset", &operator, &[("method", "eth_getLogs")]).await;
    assert_eq!(reset.leads_to().1, "../../../operator/weights/eth?done=weight-reset");
    assert_eq!(site.app.store.overlay().await.unwrap().weights["eth"].len(), 1);
}

// Shows (Dashboard).
#[tokio::test]
async fn weights_are_saved_while_usage_cannot_be_read() {
    let (site, operator) = busy_site().await;
    let path = "/operator/weights/eth";
    site.app.usage.close().await;
    let shown = get(&site, path, &operator).await;
    assert_eq!(shown.status, StatusCode::OK, "{}", shown.text);
    assert!(shown.text.contains("Usage cannot be read at the moment"), "{}", shown.text);
    assert!(shown.text.contains("<td class=\"num p1\">–</td>"), "{}", shown.text);
    let saved = post(&site, path, &operator, &[("cu-eth_getLogs", "100"), ("do", "save")]).await;
    assert_eq!(saved.leads_to().1, "../../operator/weights/eth?done=weights-saved");
    let question = get(&site, "/operator/weights/eth/reset?method=eth_getLogs", &operator).await;
    assert!(
        question.text.contains("The number of its calls cannot be read at the moment."),
        "{}",
        question.text
    );
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_failed_question_explains_the_reason_and_keeps_the_input() {
    let (site, _) = busy_site().await;
    let operator = site.operator().await;
    let own = cookie(&site, &operator);
    let running = site.app.what_if_slots.begin(operator.user.id).unwrap();
    for (path, field) in
        [("/operator/weights/eth", "cu-eth_getLogs"), ("/operator/plans/standard", "per_hour")]
    {
        let busy = post(&site, path, &own, &[(field, "4321"), ("do", "ask")]).await;
        assert_eq!(busy.status, StatusCode::TOO_MANY_REQUESTS, "{path}: {}", busy.text);
        for part in ["Other questions are being answered", "value=\"4321\""] {
            assert!(busy.text.contains(part), "{path}: {part}: {}", busy.text);
        }
    }
    drop(running);
    site.app.usage.close().await;
    let away = post(&site, "/operator/weights/eth", &own, &[("cu-eth_getLogs", "4321"), ("do", "ask")]).await;
    assert_eq!(away.status, StatusCode::SERVICE_UNAVAILABLE, "{}", away.text);
    assert!(away.text.contains("so there is no answer, and nothing is changed."), "{}", away.text);
    let late = ActionError::Unavailable(TOO_SLOW.to_owned());
    assert!(unanswered(&late).is_some_and(|why| why.contains("the weights of fewer methods")));
    assert_eq!(unanswered(&ActionError::NotFound("plan")), None);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn tenants_who_would_have_paid_more_are_notified_if_the_operator_chooses_so() {
    let (site, operator) = busy_site().await;
    let owner = site.visitor(Some(TenantId(1)), Role::Owner).await;
    let notices = async || site.app.store.notices(TenantId(1), owner.user.id).await.unwrap();
    let path = "/operator/weights/eth";
    let shown = get(&site, path, &operator).await.text;
    assert!(shown.contains("name=\"notify\" value=\"yes\">"), "the box is not ticked: {shown}");
    let quiet = post(&site, path, &operator, &[("cu-eth_getLogs", "80"), ("do", "save")]).await;
    assert_eq!(quiet.leads_to().1, "../../operator/weights/eth?done=weights-saved");
    assert!(notices().await.is_empty(), "nobody asked for it");
    let fields = [("cu-eth_getLogs", "100"), ("notify", "yes"), ("do", "save")];
    let notified = post(&site, path, &operator, &fields).await;
    assert_eq!(notified.leads_to().1, "../../operator/weights/eth?done=saved-and-told");
    let [one] = &notices().await[..] else { panic!("one notice") };
    assert!(one.text.ends_with("eth_getLogs on eth costs 100 Compute Units instead of 80"), "{}", one.text);
    let mails = site.handed_over_mails().await;
    assert!(mails.iter().any(|(to, _)| *to == owner.user.email), "{mails:?}");
    let again = post(&site, path, &operator, &fields).await;
    assert_eq!(again.leads_to().1, "../../operator/weights/eth?done=weights-saved", "it is in force already");
    assert_eq!(notices().await.len(), 1);
    let cheaper = [("cu-eth_getLogs", "60"), ("notify", "yes"), ("do", "save")];
    let saved = post(&site, path, &operator, &cheaper).await;
    assert_eq!(saved.leads_to().1, "../../operator/weights/eth?done=weights-saved");
    let page =
        post(&site, path, &operator, &[("cu-eth_getLogs", "70"), ("notify", "yes"), ("do", "ask")]).await;
    assert!(page.text.contains("name=\"notify\" value=\"yes\" checked>"), "it stays ticked: {}", page.text);
    assert_eq!(notices().await.len(), 1, "asking tells nobody");

    let plan = "/operator/plans/standard";
    let fields = [("price_per_cu", "0.01"), ("notify", "yes"), ("do", "save")];
    let notified = post(&site, plan, &operator, &fields).await;
    assert_eq!(
        notified.leads_to().1,
        "../../operator/plans/standard?done=saved-and-told",
        "{}",
        notified.text
    );
    assert_eq!(notices().await.len(), 2);
}

// Shows (Dashboard): The weights of a form are saved together or not at all.
#[tokio::test]
async fn weights_are_saved_together_or_not_at_all() {
    let (site, operator) = busy_site().await;
    let path = "/operator/weights/eth";
    let fields =
        [("cu-eth_getLogs", "100"), ("cu-eth_call", "16"), ("method", "a b"), ("cu", "7"), ("do", "save")];
    let refused = post(&site, path, &operator, &fields).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
    assert!(refused.text.contains("The method must name methods"), "{}", refused.text);
    assert!(site.app.store.overlay().await.unwrap().weights.is_empty());
    let saved = post(&site, path, &operator, &[&fields[..2], &[("do", "save")]].concat()).await;
    assert_eq!(saved.leads_to().0, StatusCode::SEE_OTHER);
    let entries = site.app.store.audit(AuditSubject::Everyone, 100).await.unwrap();
    let set = entries.iter().filter(|entry| entry.action == "weight.set");
    let mut set: Vec<_> = set.map(|entry| (entry.subject.as_str(), entry.detail.as_str())).collect();
    set.sort_unstable();
    assert_eq!(set, [("eth/eth_call", "16"), ("eth/eth_getLogs", "100")], "an entry for each");
}

#[tokio::test]
async fn a_plan_is_asked_about_and_only_what_differs_is_saved() {
    let (site, operator) = busy_site().await;
    let path = "/operator/plans/standard";
    let shown = get(&site, path, &operator).await.text;
    assert!(shown.contains("1 tenant is on this plan."), "{shown}");
    let fields = [("per_hour", "4"), ("price_per_cu", "0.002"), ("per_day", "50,000")];
    let page = post(&site, path, &operator, &[&fields[..], &[("do", "ask")]].concat()).await;
    for part in ["2 changes", "Was 2,500", "Was $0.001", "$0.15", "$0.30", "+100.0 %", "0 → 5"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert!(site.app.store.overlay().await.unwrap().plans.is_empty());
    let saved = post(&site, path, &operator, &[&fields[..], &[("do", "save")]].concat()).await;
    assert_eq!(saved.leads_to(), (StatusCode::SEE_OTHER, "../../operator/plans/standard?done=plan-saved"));
    let set = site.app.store.overlay().await.unwrap().plans[&Tier::Standard];
    assert_eq!((set.per_hour, set.price, set.per_day), (Some(4), Some(Price(2_000_000_000)), None));
    for (name, value, wrong) in
        [("per_hour", "0", "The requests an hour must be"), ("price_per_cu", "x", "Enter a price")]
    {
        let refused = post(&site, path, &operator, &[(name, value), ("do", "save")]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{name}");
        assert!(refused.text.contains(wrong), "{wrong}: {}", refused.text);
        assert!(
            refused.text.contains(&format!("value=\"{value}\"")),
            "what was typed stays: {}",
            refused.text
        );
    }
}

#[tokio::test]
async fn a_plan_of_ones_own_is_made_changed_and_deleted() {
    let (site, operator) = busy_site().await;
    let fields = [("name", "startup"), ("base", "premium"), ("visibility", "by_invitation")];
    let made = post(&site, "/operator/plans", &operator, &fields).await;
    let CustomPlan { id, .. } = site.app.store.custom_plans().await.unwrap().remove(0);
    assert_eq!(made.leads_to().1, format!("../operator/plans/{id}?done=plan-created"));
    let twice = post(&site, "/operator/plans", &operator, &fields).await;
    assert_eq!(twice.status, StatusCode::CONFLICT);
    assert!(twice.text.contains("value=\"startup\""), "{}", twice.text);
    let path = format!("/operator/plans/{id}");
    let shown = get(&site, &path, &operator).await.text;
    assert!(shown.contains("premium has 5,000"), "{shown}");
    let fields = [
        ("name", "grown"),
        ("visibility", "visible"),
        ("per_hour", "77"),
        ("cu_per_day", "5"),
        ("do", "save"),
    ];
    let saved = post(&site, &path, &operator, &fields).await;
    assert_eq!(saved.leads_to().1, format!("../../operator/plans/{id}?done=plan-saved"));
    let plan = site.app.store.custom_plan(id).await.unwrap().unwrap();
    let mut expected = Figures::default();
    assert!(expected.set("per_hour", 77) && expected.set("cu_per_day", 5));
    assert_eq!((plan.name.as_str(), plan.is_visible, plan.figures), ("grown", true, expected));
    let on_it = Tenant {
        custom_plan: Some(CustomPlanId(id.0)),
        ..Tenant::new(TenantId(2), "two", Tier::Premium, NOON)
    };
    site.app.store.create_tenant(&on_it).await.unwrap();
    let question = get(&site, &format!("{path}/delete"), &operator).await.text;
    assert!(question.contains("1 tenant is on this plan"), "{question}");
    let refused = post(&site, &format!("{path}/delete"), &operator, &[]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    site.app.store.set_tier(on_it.id, Tier::Free, NOON).await.unwrap();
    let deleted = post(&site, &format!("{path}/delete"), &operator, &[]).await;
    assert_eq!(deleted.leads_to().1, "../../../operator/plans?done=plan-deleted");
    assert_eq!(get(&site, &path, &operator).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_contract_is_made_and_ended() {
    let (site, operator) = busy_site().await;
    let path = format!("/operator/tenants/{}/contracts", TenantId(1));
    assert!(get(&site, &path, &operator).await.text.contains("No contract"));
    for (fields, wrong) in [
        (vec![("note", "x")], "The figures must not be empty"),
        (vec![("per_hour", "7"), ("until", "tomorrow")], "Enter a day and a time"),
        (vec![("per_hour", "7"), ("until", "2020-01-31T12:00")], "The end must be later"),
        (vec![("per_hour", "x")], "Enter a number"),
    ] {
        let refused = post(&site, &path, &operator, &fields).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{fields:?}");
        assert!(refused.text.contains(wrong), "{wrong}: {}", refused.text);
    }
    let fields =
        [("per_hour", "7,000"), ("price_per_cu", "0.25"), ("until", "2027-01-31T12:00"), ("note", NASTY)];
    let made = post(&site, &path, &operator, &fields).await;
    let back = format!("../../../operator/tenants/{}/contracts", TenantId(1));
    assert_eq!(made.leads_to().1, format!("{back}?done=contract-made"));
    let TenantContract { id, figures, until, .. } =
        site.app.store.contracts(TenantId(1)).await.unwrap().remove(0);
    assert_eq!((figures.plan.per_hour, figures.plan.price), (Some(7_000), Some(Price(250_000_000_000))));
    assert_eq!(until, Some(Time::from_secs(1_801_396_800)));
    let shown = get(&site, &path, &operator).await.text;
    assert!(
        shown.contains("Requests an hour 7,000, Price of a CU in US dollars $0.25")
            && shown.contains("In force")
    );
    assert!(!shown.contains(NASTY), "{shown}");
    let one = format!("{path}/{id}");
    assert!(get(&site, &one, &operator).await.text.contains("value=\"2027-01-31T12:00\""));
    let past = post(&site, &one, &operator, &[("until", "2020-01-31T12:00")]).await;
    assert_eq!(past.status, StatusCode::BAD_REQUEST);
    assert!(past.text.contains("The end must be later than now"), "{}", past.text);
    let open = post(&site, &one, &operator, &[("until", "")]).await;
    assert_eq!(open.leads_to().1, format!("../{back}?done=contract-changed"));
    assert_eq!(site.app.store.contract(TenantId(1), id).await.unwrap().unwrap().until, None);
    let end = format!("{one}/end");
    assert!(get(&site, &end, &operator).await.text.contains("every gateway applies the figures of the plan"));
    let foreign = format!("/operator/tenants/{}/contracts/{id}/end", TenantId(2));
    let unknown = format!("{path}/{}/end", ContractId(fresh_id(NOON)));
    for path in [foreign, unknown] {
        assert_eq!(get(&site, &path, &operator).await.status, StatusCode::NOT_FOUND);
        assert_eq!(post(&site, &path, &operator, &[]).await.status, StatusCode::NOT_FOUND);
    }
    site.clock.advance(Duration::from_secs(60));
    let ended = post(&site, &end, &operator, &[]).await;
    assert_eq!(ended.leads_to().1, format!("../../{back}?done=contract-ended"));
    assert!(get(&site, &path, &operator).await.text.contains("Ended"));
    assert_eq!(post(&site, &end, &operator, &[]).await.status, StatusCode::CONFLICT, "once");
}

#[tokio::test]
async fn a_chain_in_use_is_switched_off_by_its_name() {
    let (site, operator) = busy_site().await;
    let shown = get(&site, "/operator/chains", &operator).await.text;
    assert!(shown.contains("Off in the configuration") && shown.contains("Switch off: eth"), "{shown}");
    let path = "/operator/chains/eth/switch";
    let question = get(&site, path, &operator).await.text;
    assert!(question.contains("1 tenant made 4 calls in the last 24 hours."), "{question}");
    let untyped = post(&site, path, &operator, &[("to", "off")]).await;
    assert_eq!(untyped.status, StatusCode::BAD_REQUEST);
    assert!(untyped.text.contains("Type eth to confirm"), "{}", untyped.text);
    let is_on = async || site.app.store.overlay().await.unwrap().chains.get("eth").copied();
    assert_eq!(is_on().await, None);
    let off = post(&site, path, &operator, &[("to", "off"), ("confirm", "eth")]).await;
    assert_eq!(off.leads_to().1, "../../../operator/chains?done=chain-switched-off");
    assert_eq!(is_on().await, Some(false));
    assert!(get(&site, path, &operator).await.text.contains("Switch Ethereum on?"));
    let on = post(&site, path, &operator, &[("to", "on")]).await;
    assert_eq!(on.leads_to().1, "../../../operator/chains?done=chain-switched-on");
    assert_eq!(is_on().await, Some(true));
    let unused = get(&site, "/operator/chains/bsc/switch", &operator).await.text;
    assert!(
        unused.contains("It received no calls in the last 24 hours.") && !unused.contains("to confirm"),
        "{unused}"
    );
}

#[tokio::test]
async fn the_cache_of_a_chain_is_emptied_after_a_question() {
    let (site, operator) = busy_site().await;
    assert!(get(&site, "/operator/chains", &operator).await.text.contains("Empty the cache: eth"));
    let path = "/operator/chains/eth/cache";
    assert!(get(&site, path, &operator).await.text.contains("Empty the cache of Ethereum?"));
    let changes = async || site.app.store.since(0).await.unwrap();
    let before = changes().await.len();
    let done = post(&site, path, &operator, &[]).await;
    assert_eq!(done.leads_to().1, "../../../operator/chains?done=cache-cleared");
    let changes = changes().await;
    let new: Vec<_> = changes[before..].iter().map(|one| one.change.clone()).collect();
    assert_eq!(new, [Change::Cache("eth".into())]);
    assert_eq!(
        post(&site, "/operator/chains/gold/cache", &operator, &[]).await.status,
        StatusCode::NOT_FOUND
    );
}

// Shows (Dashboard).
#[tokio::test]
async fn nodes_are_listed_by_chain_with_problems_first() {
    let (site, operator) = busy_site().await;
    // A client's refused call is not a node's fault.
    let refused = SampleLine { calls: 5, cu: 0, status: 429, outcome: Outcome::Refused, ..item("eth_call") };
    let record = SampleRecord { chain: "eth", ..deed(110, NOON, vec![refused]) };
    site.app.usage.ship(&SampleShipper::new(2).pack(&[record])).await.unwrap();
    assert!(get(&site, "/operator/nodes", &operator).await.text.contains("No gateway has reported one"));
    let node = |name: &str, standing: &str, height| NodeState {
        chain: "eth".into(),
        node: name.into(),
        standing: standing.into(),
        reason: "7 blocks behind; 3 are allowed".into(),
        height: Some(height),
        lag: Some(26_452_218 - height),
        latency_micros: 31_400,
        in_flight: 44,
        faults: 617,
        ..NodeState::default()
    };
    let paid = NodeState {
        rate_limit: Some(50),
        monthly_calls: Some(30_000_000),
        month_calls: Some(4_000_000),
        price_per_million: Some(2_500_000),
        ..node("https://one.example/", "well", 26_452_218)
    };
    let nodes = vec![paid, node(NASTY, "behind", 26_452_211)];
    let report = GatewayReport { id: fresh_id(NOON), at: NOON, nodes };
    site.app.store.put_report(&report, &[]).await.unwrap();
    let shown = get(&site, "/operator/nodes", &operator).await.text;
    for part in [
        "1 of 2",
        "26,452,218",
        "31 ms",
        "Healthy",
        "Behind",
        "height 26,452,218, 9 calls in 24 hours<",
        // The faults of one node, and of both together.
        "<td class=\"num p2\">617</td>",
        "<dt>Faults</dt><dd class=\"big\">1,234</dd>",
        "<td class=\"num p2\">4,000,000 of 30,000,000 <small>50 a second, cost 10.00</small></td>",
        "<td class=\"num p2\">–</td>",
        "A fault is a call that failed because of the node or the network to it",
        "Behind: 7 blocks behind; 3 are allowed.",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains(NASTY) && !shown.contains("No other node serves eth"), "{shown}");
    let problems = get(&site, "/operator/nodes?show=problems", &operator).await.text;
    assert!(problems.contains("26,452,211") && !problems.contains("https://one.example/"), "{problems}");
    let silent = GatewayReport { nodes: vec![node("https://one.example/", "silent", 5)], ..report };
    site.app.store.put_report(&silent, &[]).await.unwrap();
    assert!(get(&site, "/operator/nodes", &operator).await.text.contains("No other node serves eth."));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_node_is_drained_after_a_question_and_the_last_one_only_if_its_chain_is_typed() {
    let (site, operator) = busy_site().await;
    let node = |name: &str| NodeState {
        chain: "eth".into(),
        node: name.into(),
        standing: "well".into(),
        ..NodeState::default()
    };
    let nodes = vec![node("https://one.example/?a&b"), node(NASTY)];
    let report = GatewayReport { id: fresh_id(NOON), at: NOON, nodes };
    site.app.store.put_report(&report, &[]).await.unwrap();
    let shown = get(&site, "/operator/nodes", &operator).await.text;
    let link = "operator/nodes/drain?chain=eth&#38;node=https%3A%2F%2Fone.example%2F%3Fa%26b";
    assert!(shown.contains(link), "{shown}");
    let path = "/operator/nodes/drain";
    let of_one = format!("{path}?chain=eth&node=https%3A%2F%2Fone.example%2F%3Fa%26b");
    let page = get(&site, &of_one, &operator).await.text;
    assert!(page.contains("no gateway sends it a new call on /eth") && !page.contains("no other node"));
    let drain = |node: &'static str| [("chain", "eth"), ("node", node), ("to", "drained")];
    let done = post(&site, path, &operator, &drain("https://one.example/?a&b")).await;
    assert_eq!(done.leads_to(), (StatusCode::SEE_OTHER, "../../operator/nodes?done=node-drained"));
    assert!(get(&site, "/operator/nodes", &operator).await.text.contains("Resume: https://one.example/"));
    let last = post(&site, path, &operator, &drain(NASTY)).await;
    assert_eq!(last.status, StatusCode::BAD_REQUEST);
    assert!(last.text.contains("A gateway has no other node of eth that it can use"), "{}", last.text);
    let typed = [&drain(NASTY)[..], &[("confirm", "eth")]].concat();
    assert_eq!(post(&site, path, &operator, &typed).await.status, StatusCode::SEE_OTHER);
    assert_eq!(site.app.store.overlay().await.unwrap().drained.len(), 2);
    let resumed = [("chain", "eth"), ("node", NASTY), ("to", "resumed")];
    let done = post(&site, path, &operator, &resumed).await;
    assert_eq!(done.leads_to().1, "../../operator/nodes?done=node-resumed");
    let unknown = get(&site, &format!("{path}?chain=eth&node=http%3A%2F%2Fother"), &operator).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_later_change_of_a_plan_is_listed_on_its_page_and_withdrawn_there() {
    let (site, operator) = busy_site().await;
    let path = "/operator/plans/standard";
    let figures = [("cu_per_day", "500,000"), ("monthly_fee_cents", "250")];
    let fields = [&figures[..], &[("from", "2027-01-31T12:00"), ("do", "save")]].concat();
    let saved = post(&site, path, &operator, &fields).await;
    assert_eq!(saved.leads_to().1, "../../operator/plans/standard?done=plan-scheduled");
    let shown = get(&site, path, &operator).await.text;
    for part in ["Later changes", "Quota: CU in 24 hours 500,000, Monthly fee in cents 250"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let waiting = site.app.store.scheduled_plan_changes(Tier::Standard, NOON).await.unwrap();
    let withdraw = format!("{path}/changes/{}/withdraw", waiting[0].id);
    let withdrawn = post(&site, &withdraw, &operator, &[]).await;
    let (_, target) = withdrawn.leads_to();
    assert!(target.ends_with("operator/plans/standard?done=change-withdrawn"), "{target}");
    assert!(!get(&site, path, &operator).await.text.contains("Later changes"));
    let past = [&figures[..], &[("from", "2026-01-31T12:00"), ("do", "save")]].concat();
    let refused = post(&site, path, &operator, &past).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text.contains("value=\"2026-01-31T12:00\""), "what was typed stays: {}", refused.text);
}
