use super::webhooks::{WEBHOOK, webhook};
use super::*;
use crate::{
    AuditSubject, ContractId, CustomPlan, CustomPlanChange, Expected, Figures, MemberChange,
    MemberChangeOutcome, ProjectChange, TenantChange, TenantContract, Versioned, WebhookChange,
};
use rpcgate_core::caller::CustomPlanId;

async fn version(store: &Store, of: &Versioned) -> crate::Version {
    store.version(of).await.unwrap().unwrap()
}

async fn expecting(store: &Store, of: &Versioned) -> Store {
    store.expecting(Expected { of: of.clone(), versions: vec![version(store, of).await] })
}

// Shows (Management).
#[tokio::test]
async fn a_write_is_refused_after_a_concurrent_change_of_the_same_object() {
    let (_dir, store) = seeded().await;
    store.create_user(&user(7, "a@b.example")).await.unwrap();
    store.create_user(&user(8, "c@d.example")).await.unwrap();
    let rename = |name: &str| ProjectChange { name: Some(name.into()), ..ProjectChange::default() };
    let title = |name: &str| TenantChange { name: Some(name.into()), ..TenantChange::default() };
    let member = |role| MemberChange { tenant: TENANT, member: UserId(7), by: UserId(8), role: Some(role) };
    let plan = |many| PlanChange { per_minute: Some(many), ..PlanChange::default() };
    let quota = |cu_per_day| ProjectQuota { cu_per_day, ..ProjectQuota::default() };
    let contract = TenantContract {
        id: ContractId(1),
        tenant: TENANT,
        figures: Figures::default(),
        from: now(),
        until: None,
        note: String::new(),
        created_at: now(),
    };
    store.create_contract(&contract, now()).await.unwrap();
    let custom = CustomPlan {
        id: CustomPlanId(1),
        name: "one".into(),
        base: Tier::Free,
        is_visible: false,
        figures: Figures::default(),
        created_at: now(),
    };
    store.create_custom_plan(&custom).await.unwrap();
    store.create_webhook(TENANT, &webhook(WEBHOOK), now()).await.unwrap();
    let all = [
        Versioned::Project(TENANT, PROJECT),
        Versioned::Webhook(TENANT, WEBHOOK),
        Versioned::Tenant(TENANT),
        Versioned::Member(TENANT, UserId(7)),
        Versioned::Plan(Tier::Free, now()),
        Versioned::Contract(TENANT, ContractId(1)),
        Versioned::CustomPlan(CustomPlanId(1)),
        Versioned::Quota(PROJECT),
        Versioned::Profile(UserId(7)),
        Versioned::Weight("eth".into(), "eth_call".into()),
        Versioned::Weights("eth".into()),
        Versioned::Chain("eth".into()),
    ];
    for of in &all {
        let first = expecting(&store, of).await;
        let second = expecting(&store, of).await;
        for (store, is_first) in [(first, true), (second, false)] {
            let number = u64::from(is_first) + 1;
            let name = number.to_string();
            let done = match of {
                Versioned::Project(..) => {
                    store.update_project(TENANT, PROJECT, &rename(&name), now()).await.map(drop)
                }
                Versioned::Webhook(tenant, id) => {
                    let url = Some(format!("https://hooks.example/{name}"));
                    let change = WebhookChange { url, ..WebhookChange::default() };
                    store.update_webhook(*tenant, *id, &change, now()).await.map(drop)
                }
                Versioned::Tenant(_) => store.update_tenant(TENANT, &title(&name), now()).await.map(drop),
                Versioned::Member(..) => {
                    let role = if is_first { Role::Admin } else { Role::Viewer };
                    let done = store.change_member(&member(role), |_, _| true, &[], &entry("x")).await;
                    done.map(|done| assert!(matches!(done, MemberChangeOutcome::Done(_))))
                }
                Versioned::Profile(id) => store.rename_user(*id, &name).await,
                Versioned::Plan(tier, _) => store.put_plan(*tier, &plan(number), now()).await,
                Versioned::Contract(tenant, id) => {
                    store.set_contract_end(*tenant, *id, Some(later(number)), now()).await.map(drop)
                }
                Versioned::CustomPlan(id) => {
                    let change = CustomPlanChange { name: Some(name), ..CustomPlanChange::default() };
                    store.update_custom_plan(*id, &change, now()).await.map(drop)
                }
                Versioned::Quota(_) => store.put_quota(PROJECT, &quota(number), now()).await,
                Versioned::Weight(chain, method) => store.put_weight(chain, method, 1, now()).await,
                Versioned::Weights(chain) => {
                    let weights = [("eth_call", 5, entry("x")), ("eth_getLogs", 6, entry("x"))];
                    store.put_weights(chain, &weights[..number as usize], now()).await
                }
                Versioned::Chain(chain) => store.switch_chain(chain, is_first, now()).await,
            };
            match done {
                Ok(()) => assert!(is_first, "{of:?}: the second write"),
                Err(StoreError::Changed) => assert!(!is_first, "{of:?}: the first write"),
                Err(error) => panic!("{of:?}: {error}"),
            }
        }
    }
    let quota = Versioned::Quota(PROJECT);
    let stale = expecting(&store, &quota).await;
    store.delete_quota(PROJECT, now()).await.unwrap();
    assert!(matches!(stale.delete_quota(PROJECT, now()).await, Err(StoreError::Changed)));
}

#[tokio::test]
async fn the_versions_of_many_are_those_of_each() {
    let (_dir, store) = seeded().await;
    store.create_user(&user(7, "a@b.example")).await.unwrap();
    let members = store.member_versions(TENANT).await.unwrap();
    assert!(members.contains_key(&UserId(7)), "{members:?}");
    for (id, known) in members {
        assert_eq!(version(&store, &Versioned::Member(TENANT, id)).await, known);
    }
    let quota = async || store.quota_versions(TENANT).await.unwrap()[&PROJECT];
    assert_eq!(quota().await, version(&store, &Versioned::Quota(PROJECT)).await);
    let without = quota().await;
    store
        .put_quota(PROJECT, &ProjectQuota { cu_per_day: 5, ..ProjectQuota::default() }, now())
        .await
        .unwrap();
    assert_eq!(quota().await, version(&store, &Versioned::Quota(PROJECT)).await);
    assert_ne!(quota().await, without);
    assert!(!store.quota_versions(OTHER).await.unwrap().contains_key(&PROJECT));
    let named = version(&store, &Versioned::Profile(UserId(7))).await;
    store.rename_user(UserId(7), "Another").await.unwrap();
    assert_ne!(version(&store, &Versioned::Profile(UserId(7))).await, named);
}

#[tokio::test]
async fn the_weights_of_a_chain_are_set_together_or_not_at_all() {
    let (_dir, store) = seeded().await;
    let of = Versioned::Weights("eth".into());
    let stale = expecting(&store, &of).await;
    store.put_weight("btc", "getblock", 3, now()).await.unwrap();
    let weights = [("eth_call", 5, entry("one")), ("eth_getLogs", 6, entry("two"))];
    stale.put_weights("eth", &weights, now()).await.unwrap();
    let set = store.weights("eth").await.unwrap();
    assert_eq!(set, [("eth_call".to_owned(), 5), ("eth_getLogs".to_owned(), 6)].into());
    let audited = async || {
        let all = store.audit(AuditSubject::Tenant(TENANT), 100).await.unwrap();
        all.iter().filter(|entry| entry.action == "one" || entry.action == "two").count()
    };
    assert_eq!(audited().await, 2);
    let weights = [("eth_call", 7, entry("one")), ("eth_new", 8, entry("two"))];
    assert!(matches!(stale.put_weights("eth", &weights, now()).await, Err(StoreError::Changed)));
    assert_eq!((store.weights("eth").await.unwrap(), audited().await), (set, 2));
}

#[tokio::test]
async fn a_version_depends_on_the_contents_and_is_the_tenants_alone() {
    let (_dir, store) = empty().await;
    let of = Versioned::Project(TENANT, PROJECT);
    let first = version(&store, &of).await;
    let change = |name: &str| ProjectChange { name: Some(name.into()), ..ProjectChange::default() };
    store.update_project(TENANT, PROJECT, &change("second"), now()).await.unwrap();
    assert_ne!(version(&store, &of).await, first);
    store.update_project(TENANT, PROJECT, &change("first"), now()).await.unwrap();
    assert_eq!(version(&store, &of).await, first);
    assert_eq!(store.version(&Versioned::Project(OTHER, PROJECT)).await.unwrap(), None);
    assert_eq!(store.version(&Versioned::Member(OTHER, UserId(1))).await.unwrap(), None);
    let stale = store.expecting(Expected { of: Versioned::Project(OTHER, PROJECT), versions: vec![first] });
    let missing = stale.update_project(OTHER, PROJECT, &change("x"), now()).await;
    assert!(matches!(missing, Err(StoreError::NotFound("project"))));
}

// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_parallel_writes_that_expect_the_same_version_succeeds() {
    let (_dir, store) = empty().await;
    let store = expecting(&store, &Versioned::Project(TENANT, PROJECT)).await;
    let done = at_once(20, |number| {
        let store = store.clone();
        async move {
            let change = ProjectChange { name: Some(format!("p{number}")), ..ProjectChange::default() };
            store.update_project(TENANT, PROJECT, &change, now()).await.is_ok()
        }
    })
    .await;
    assert_eq!(done.iter().filter(|done| **done).count(), 1);
}
