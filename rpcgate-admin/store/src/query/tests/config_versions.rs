use super::*;
use crate::{
    AcceptedConfig, ConfigScope, ConfigVersion, ConfigVersionFilter, ContractId, Figures, RunningConfig,
    TenantContract,
};
use rpcgate_config::{Config, ConfigProgram};

const DAYS: u64 = 400 * 86_400;

fn accepted(place: &str, bytes: u64, is_start: bool, at: Time) -> AcceptedConfig {
    let mut config = Config::default();
    config.cache.bytes = bytes;
    let scope = ConfigScope::Gateway(place.into());
    AcceptedConfig::new(&config, scope, ("web-1".into(), "web-1: a.toml".into()), is_start, at)
}

async fn listed(store: &Store) -> Vec<ConfigVersion> {
    store.config_versions(&ConfigVersionFilter::default(), None, 1_000).await.unwrap()
}

async fn texts(store: &Store) -> Vec<String> {
    listed(store).await.iter().map(|one| one.lines.to_string()).collect()
}

// Shows (Commands and configuration): Every accepted configuration and every change of operators is a version with its
// author, bounded in number and age.
#[tokio::test]
async fn an_unchanged_configuration_makes_no_new_version() {
    let (_dir, store) = empty().await;
    let record = async |bytes, is_start, second| {
        let config = accepted("one", bytes, is_start, later(second));
        store.record_config(&config, later(second)).await.unwrap()
    };
    let first = record(1, true, 1).await;
    assert_eq!(record(1, false, 2).await, first);
    let second = record(2, false, 3).await;
    let third = record(1, false, 4).await;
    assert!(first < second && second < third, "a text that comes back gets a new number");
    let versions = listed(&store).await;
    let found: Vec<_> = versions.iter().map(|one| (one.number, one.started)).collect();
    assert_eq!(found, [(third, Some(first)), (second, Some(first)), (first, Some(first))]);
    assert_eq!((versions[2].at, versions[2].seen_at), (later(1), later(2)));
    assert_eq!(record(1, true, 5).await, third);
    assert_eq!(listed(&store).await[0].started, Some(third), "a restart with the same");
    let other = store.record_config(&accepted("two", 1, true, later(6)), later(6)).await.unwrap();
    assert!(other > third, "each gateway has versions of its own");
    let filter = ConfigVersionFilter { place: Some("one".into()), ..ConfigVersionFilter::default() };
    assert_eq!(store.config_versions(&filter, Some(third), 1).await.unwrap()[0].number, second);
}

#[tokio::test]
async fn settings_that_need_a_restart_stay_in_force_as_at_the_start() {
    let (_dir, store) = empty().await;
    let running = async |place: Option<&'static str>| -> Vec<RunningConfig> {
        store.running_configs(ConfigProgram::Gateway, place, "web-1").await.unwrap()
    };
    assert_eq!(running(None).await, []);
    store.record_config(&accepted("one", 1, true, now()), now()).await.unwrap();
    store.record_config(&accepted("one", 2, false, now()), now()).await.unwrap();
    store.record_config(&accepted("two", 3, true, now()), now()).await.unwrap();
    let [one] = &running(Some("one")).await[..] else { panic!("one") };
    assert_eq!(
        (one.lines.get("cache.bytes"), one.version.lines.get("cache.bytes")),
        (Some("\"1B\""), Some("\"2B\""))
    );
    assert_eq!(one.waiting, ["cache.bytes"]);
    let host: Vec<_> =
        running(Some("none")).await.into_iter().map(|one| one.version.scope.location()).collect();
    assert_eq!(host, ["two", "one"], "of an unknown one, all on the machine");
    assert_eq!(store.running_configs(ConfigProgram::Gateway, None, "web-2").await.unwrap(), []);
    assert_eq!(store.running_configs(ConfigProgram::Management, None, "web-1").await.unwrap(), []);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn each_change_by_operators_is_a_version_and_the_first_has_the_state_before() {
    let (_dir, store) = empty().await;
    let change = |per_minute| PlanChange { per_minute: Some(per_minute), ..PlanChange::default() };
    let audited =
        store.with_audit_entry(Audit { user: Some(UserId(9)), address: "192.0.2.9".into(), ..entry("x") });
    audited.put_plan(Tier::Free, &change(20), later(1)).await.unwrap();
    audited.put_plan(Tier::Free, &change(20), later(2)).await.unwrap();
    store.put_weight("eth", "eth_call", 5, later(3)).await.unwrap();
    store.switch_chain("btc", true, later(4)).await.unwrap();
    let plan = "plans.free.per_minute = 20\n";
    assert_eq!(
        texts(&store).await,
        [format!("{plan}weights.eth.eth_call = 5\n"), plan.into(), String::new()]
    );
    let versions = listed(&store).await;
    let who: Vec<_> = versions.iter().map(|one| (one.user, one.who.as_str())).collect();
    assert_eq!(who, [(None, ""), (Some(UserId(9)), "192.0.2.9"), (None, "")]);

    let refused = store.delete_weight("eth", "none", later(5)).await;
    assert!(matches!(refused, Err(StoreError::NotFound("weight"))));
    store.replace_plan(Tier::Free, &PlanChange::default(), later(6)).await.unwrap();
    assert_eq!(texts(&store).await[0], "weights.eth.eth_call = 5\n");
    assert_eq!(listed(&store).await.len(), 4);
    assert_eq!(store.plan_changes().await.unwrap(), BTreeMap::new());
}

fn contract(id: u128) -> TenantContract {
    let mut figures = Figures::default();
    figures.set("per_minute", 7);
    TenantContract {
        id: ContractId(id),
        tenant: TENANT,
        figures,
        from: now(),
        until: None,
        note: String::new(),
        created_at: now(),
    }
}

#[tokio::test]
async fn agreements_with_a_tenant_are_versions_of_their_own_and_are_removed_with_it() {
    let (_dir, store) = seeded().await;
    store.create_contract(&contract(1), now()).await.unwrap();
    store.put_quota(PROJECT, &ProjectQuota::default(), later(1)).await.unwrap();
    store.end_contract(TENANT, ContractId(1), later(2)).await.unwrap();
    store.put_weight("eth", "eth_call", 5, later(3)).await.unwrap();
    let scopes: Vec<_> = listed(&store).await.into_iter().map(|one| one.scope).collect();
    let its = ConfigScope::Tenant(TENANT);
    assert_eq!(scopes[2..], [its.clone(), its.clone(), its.clone(), its]);
    let newest = &texts(&store).await[2];
    assert_eq!(*newest, format!("quotas.{PROJECT}.cu_per_day = 100000\n"));
    store.delete_tenant(TENANT, later(4)).await.unwrap();
    assert_eq!(store.sweep(later(5)).await.unwrap().tenants, 1);
    assert_eq!(listed(&store).await.len(), 2, "those of the service stay");
}

// Shows (Commands and configuration).
#[tokio::test]
async fn versions_of_a_program_are_bounded_and_the_one_it_was_started_with_stays() {
    let (_dir, store) = empty().await;
    let first = store.record_config(&accepted("one", 0, true, now()), now()).await.unwrap();
    store.record_config(&accepted("two", 0, true, now()), now()).await.unwrap();
    for bytes in 1..=210 {
        store.record_config(&accepted("one", bytes, false, now()), now()).await.unwrap();
    }
    let versions = listed(&store).await;
    let of_one: Vec<_> = versions.iter().filter(|one| one.scope.location() == "one").collect();
    assert_eq!(of_one.len(), 201, "200 and the one of the start");
    assert_eq!(of_one.last().unwrap().number, first);
    assert_eq!(versions.len(), 202);
    let restarted = store.record_config(&accepted("one", 999, true, now()), now()).await.unwrap();
    let versions = listed(&store).await;
    assert!(versions.iter().all(|one| one.number != first), "it is not needed any more");
    assert_eq!(versions[0].number, restarted);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn old_versions_are_swept_and_what_is_in_force_stays() {
    let (_dir, store) = empty().await;
    let record = async |place, bytes, is_start, second| {
        let at = later(second);
        store.record_config(&accepted(place, bytes, is_start, at), at).await.unwrap()
    };
    let started = record("one", 1, true, 0).await;
    record("one", 2, false, 1).await;
    let newest = record("one", 3, false, 2).await;
    record("gone", 1, true, 3).await;
    store.put_weight("eth", "eth_call", 5, later(4)).await.unwrap();
    // It reports that it is still running.
    assert_eq!(record("one", 3, false, DAYS).await, newest);
    let swept = store.sweep(later(DAYS + 9)).await.unwrap();
    assert_eq!(
        swept.config_versions, 3,
        "one that was followed, the one of a program that is gone, and the first of the settings"
    );
    let left: Vec<_> = listed(&store).await.into_iter().map(|one| (one.scope.source(), one.number)).collect();
    assert_eq!(
        (left.len(), left[0].0, left[1], left[2]),
        (3, "settings", ("gateway", newest), ("gateway", started))
    );
}
