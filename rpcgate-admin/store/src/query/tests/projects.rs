use super::*;
use crate::ProjectChange;

#[tokio::test]
async fn a_project_is_its_tenants_alone() {
    let (_dir, store) = empty().await;
    assert_eq!(store.project(TENANT, PROJECT).await.unwrap(), Some(project(PROJECT)));
    assert_eq!(store.project(OTHER, PROJECT).await.unwrap(), None);
    assert_eq!(store.project(TENANT, ProjectId(99)).await.unwrap(), None);
    assert_eq!(store.tenant_of(PROJECT).await.unwrap(), Some(TENANT));
    assert_eq!(store.tenant_of(ProjectId(99)).await.unwrap(), None);
}

#[tokio::test]
async fn the_given_fields_of_a_project_change_together() {
    let (_dir, store) = seeded().await;
    let before = store.newest_change().await.unwrap();
    let name = ProjectChange { name: Some("Größe".into()), ..ProjectChange::default() };
    let renamed = Project { name: "Größe".into(), ..project(PROJECT) };
    for change in [&name, &ProjectChange::default()] {
        assert_eq!(store.update_project(TENANT, PROJECT, change, now()).await.unwrap(), renamed);
    }
    assert_eq!(store.newest_change().await.unwrap(), before, "no gateway knows names");
    let list = ProjectChange {
        name: Some("x".into()),
        blocked_methods: Some(vec!["toy_scan".into()]),
        ..ProjectChange::default()
    };
    let expected = Project { name: "x".into(), blocked_methods: vec!["toy_scan".into()], ..renamed };
    tells(&store, Change::Project(PROJECT), async {
        assert_eq!(store.update_project(TENANT, PROJECT, &list, now()).await?, expected);
        Ok(())
    })
    .await;
    assert!(found(&store).await.caller.lists.blocked.contains(&b"toy_scan"[..]));
    let allow = ProjectChange { allowed_methods: Some(Vec::new()), ..ProjectChange::default() };
    assert_eq!(
        store.update_project(TENANT, PROJECT, &allow, now()).await.unwrap(),
        expected,
        "the other list stays"
    );
    for change in [&list, &ProjectChange::default()] {
        let strange = async { store.update_project(OTHER, PROJECT, change, now()).await.map(drop) };
        assert_eq!(refused(&store, strange).await, "there is no such project");
    }
    assert_eq!(store.project(TENANT, PROJECT).await.unwrap(), Some(expected));
}

#[tokio::test]
async fn a_deleted_project_takes_its_keys_with_it() {
    let (_dir, store) = seeded().await;
    let ended = Key { revoked_at: Some(Time::from_secs(1)), ..key(KeyId(6), KeyHash::of("ended")) };
    store.create_key(&ended, now()).await.unwrap();
    store.create_project(&project(ProjectId(8))).await.unwrap();
    let spared = Key { project: ProjectId(8), ..key(KeyId(7), KeyHash::of("spared")) };
    store.create_key(&spared, now()).await.unwrap();
    store
        .put_quota(PROJECT, &ProjectQuota { cu_per_day: 7, ..ProjectQuota::default() }, now())
        .await
        .unwrap();
    assert_eq!(
        refused(&store, store.delete_project(OTHER, PROJECT, now())).await,
        "there is no such project"
    );
    assert!(!found(&store).await.revoked);
    tells(&store, Change::Project(PROJECT), store.delete_project(TENANT, PROJECT, later(5))).await;
    let stored = found(&store).await;
    assert!(
        stored.revoked && stored.caller.project == PROJECT,
        "its calls still differ from those of unknown keys"
    );
    assert_eq!(store.key(TENANT, KEY).await.unwrap().unwrap().revoked_at, Some(later(5)));
    assert_eq!(store.key(TENANT, KeyId(6)).await.unwrap(), Some(ended), "the moment stays");
    assert_eq!(store.key(TENANT, KeyId(7)).await.unwrap(), Some(spared));
    assert_eq!(store.projects(TENANT).await.unwrap(), [project(ProjectId(8))]);
    assert_eq!(store.project(TENANT, PROJECT).await.unwrap(), None);
    assert_eq!(
        (
            store.quota(TENANT, PROJECT, &Plans::default(), now()).await.unwrap(),
            store.tenant_of(PROJECT).await.unwrap()
        ),
        (None, None)
    );
    assert_eq!(
        store.quotas(TENANT, &Plans::default(), now()).await.unwrap(),
        [(ProjectId(8), ProjectQuota::default())]
    );
    let gone = "there is no such project";
    assert_eq!(refused(&store, store.delete_project(TENANT, PROJECT, now())).await, gone);
    assert_eq!(refused(&store, store.create_key(&key(KeyId(9), KeyHash::of("new")), now())).await, gone);
    assert_eq!(refused(&store, store.put_quota(PROJECT, &ProjectQuota::default(), now())).await, gone);
    assert_eq!(refused(&store, store.delete_quota(PROJECT, now())).await, gone);
    assert_eq!(refused(&store, store.set_lists(TENANT, PROJECT, &[], &[], now())).await, gone);
}

#[tokio::test]
async fn keys_of_a_project_are_listed_oldest_first() {
    let (_dir, store) = seeded().await;
    let older = Key { created_at: Time::from_secs(1), ..key(KeyId(9), KeyHash::of("older")) };
    let ends = Key { expires_at: Some(later(10)), ..key(KeyId(10), KeyHash::of("ends")) };
    store.create_key(&older, now()).await.unwrap();
    store.create_key(&ends, now()).await.unwrap();
    store.create_project(&project(ProjectId(8))).await.unwrap();
    let elsewhere = Key { project: ProjectId(8), ..key(KeyId(11), KeyHash::of("elsewhere")) };
    store.create_key(&elsewhere, now()).await.unwrap();
    store.revoke_key(TENANT, KeyId(9), later(1)).await.unwrap();
    let older = Key { revoked_at: Some(later(1)), ..older };
    assert_eq!(store.keys(TENANT, PROJECT).await.unwrap(), [older, key(KEY, hash()), ends]);
    assert_eq!(store.keys(OTHER, PROJECT).await.unwrap(), []);
    let active = async |tenant, project, now| store.active_keys(tenant, project, now).await.unwrap();
    assert_eq!(active(TENANT, Some(PROJECT), later(9)).await, 2);
    assert_eq!(active(TENANT, Some(PROJECT), later(10)).await, 1, "one has ended");
    assert_eq!(active(TENANT, None, later(10)).await, 2);
    assert_eq!(active(OTHER, Some(PROJECT), now()).await, 0);
    assert_eq!(active(OTHER, None, now()).await, 0);
}

#[tokio::test]
async fn quotas_are_read_with_the_default_where_none_is_set() {
    let (_dir, store) = empty().await;
    store.create_project(&project(ProjectId(8))).await.unwrap();
    assert_eq!(
        store.quota(TENANT, PROJECT, &Plans::default(), now()).await.unwrap(),
        Some(ProjectQuota::default())
    );
    let set = ProjectQuota { cu_per_day: 0, cu_per_month: Some(5), rps_limit: None, has_row: true };
    store.put_quota(PROJECT, &set, now()).await.unwrap();
    assert_eq!(store.quota(TENANT, PROJECT, &Plans::default(), now()).await.unwrap(), Some(set));
    assert_eq!(store.quota(OTHER, PROJECT, &Plans::default(), now()).await.unwrap(), None);
    let expected = [(PROJECT, set), (ProjectId(8), ProjectQuota::default())];
    assert_eq!(store.quotas(TENANT, &Plans::default(), now()).await.unwrap(), expected);
    assert_eq!(store.quotas(OTHER, &Plans::default(), now()).await.unwrap(), []);
}

#[tokio::test]
async fn settings_of_operators_can_be_read_one_by_one() {
    let (_dir, store) = empty().await;
    for (chain, method, cu) in [("toy", "a/b", 3), ("toy", "read", u32::MAX), ("toy2", "read", 4)] {
        store.put_weight(chain, method, cu, now()).await.unwrap();
    }
    assert_eq!(store.weight("toy", "a/b").await.unwrap(), Some(3));
    assert_eq!(store.weight("toy", "scan").await.unwrap(), None);
    let expected = BTreeMap::from([("a/b".into(), 3), ("read".into(), u32::MAX)]);
    assert_eq!(store.weights("toy").await.unwrap(), expected);
    assert_eq!(store.weights("toy3").await.unwrap(), BTreeMap::new());
    let change = PlanChange { per_hour: Some(9), price: Some(Price(2)), ..PlanChange::default() };
    store.put_plan(Tier::Free, &change, now()).await.unwrap();
    assert_eq!(store.plan_changes().await.unwrap(), BTreeMap::from([(Tier::Free, change)]));
}

async fn set_counts(store: &Store, counts: CountsChange) {
    let change = PlanChange { counts, ..PlanChange::default() };
    store.put_plan(tenant(TENANT).tier, &change, now()).await.unwrap();
}

const PROJECTS: &str = "the plan allows 3 projects: delete one that is not needed, or ask for a larger plan";

// Shows (Management): Counts are limited per plan: projects, usable keys, members; beyond them it is 409 with the limit
// named; operators change them; existing resources stay (promise 70).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn projects_of_a_tenant_are_limited_by_the_plan_even_when_created_in_parallel() {
    let (_dir, store) = empty().await;
    store.set_tier(TENANT, Tier::Free, now()).await.unwrap();
    let made = at_once(8, |number| {
        let store = store.clone();
        async move { store.create_project(&project(ProjectId(20 + number))).await }
    });
    let made = made.await;
    assert_eq!(made.iter().filter(|done| done.is_ok()).count(), 2, "there is one already");
    for refused in made.into_iter().filter_map(Result::err) {
        assert_eq!(refused.to_string(), PROJECTS);
    }
    assert_eq!(store.projects(TENANT).await.unwrap().len(), 3);
    store.create_project(&Project { tenant: OTHER, ..project(ProjectId(9)) }).await.unwrap();
    store.delete_project(TENANT, PROJECT, now()).await.unwrap();
    store.create_project(&project(ProjectId(8))).await.unwrap();
    assert_eq!(refused(&store, store.create_project(&project(ProjectId(7)))).await, PROJECTS);
    store.set_tier(TENANT, Tier::Standard, now()).await.unwrap();
    store.create_project(&project(ProjectId(7))).await.unwrap();
}

// Shows (Management).
#[tokio::test]
async fn operators_override_the_file_in_limits_and_lowering_one_removes_nothing() {
    let (_dir, store) = empty().await;
    let mut plans = Plans::default();
    plans.free.counts.projects = 2;
    let store = store.with_plans(plans);
    store.set_tier(TENANT, Tier::Free, now()).await.unwrap();
    store.create_project(&project(ProjectId(8))).await.unwrap();
    let full = refused(&store, store.create_project(&project(ProjectId(9)))).await;
    assert!(full.starts_with("the plan allows 2 projects: "), "{full}");
    let change = |projects| {
        let counts = CountsChange { projects: Some(projects), ..CountsChange::default() };
        PlanChange { counts, ..PlanChange::default() }
    };
    store.put_plan(Tier::Free, &change(3), now()).await.unwrap();
    store.create_project(&project(ProjectId(9))).await.unwrap();
    store.put_plan(Tier::Free, &change(1), now()).await.unwrap();
    let full = refused(&store, store.create_project(&project(ProjectId(10)))).await;
    assert!(full.starts_with("the plan allows 1 projects: "), "{full}");
    assert_eq!(store.projects(TENANT).await.unwrap().len(), 3, "what there is stays");
    assert_eq!(store.plan_changes().await.unwrap()[&Tier::Free], change(1));
}

// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn usable_keys_of_a_project_are_limited_by_the_plan_even_when_created_in_parallel() {
    let (_dir, store) = seeded().await;
    set_counts(&store, CountsChange { keys_per_project: Some(4), ..CountsChange::default() }).await;
    let full = "the plan allows 4 keys of a project that can be used: revoke one that is not needed, or ask for a \
                larger plan";
    let new = |number: u128| key(KeyId(number), KeyHash::of(&number.to_string()));
    let ended = Key { expires_at: Some(now()), ..new(99) };
    store.create_key(&ended, now()).await.unwrap();
    let made = at_once(8, |number| {
        let store = store.clone();
        async move { store.create_key(&new(100 + number), now()).await.is_ok() }
    });
    assert_eq!(made.await.into_iter().filter(|done| *done).count(), 3, "there is one already");
    assert_eq!(store.active_keys(TENANT, Some(PROJECT), now()).await.unwrap(), 4);
    assert_eq!(refused(&store, store.create_key(&new(200), now())).await, full);
    store.create_project(&project(ProjectId(8))).await.unwrap();
    store.create_key(&Key { project: ProjectId(8), ..new(201) }, now()).await.unwrap();
    store.revoke_key(TENANT, KEY, now()).await.unwrap();
    store.create_key(&new(200), now()).await.unwrap();
    assert_eq!(refused(&store, store.create_key(&new(202), now())).await, full);
}

const COUNT: &str = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1010)";

// Shows (Management): Unusable keys and deleted projects are kept for a limited time and up to a number (promise 70).
#[tokio::test]
async fn the_newest_thousand_revoked_keys_and_deleted_projects_are_kept() {
    let (_dir, store) = seeded().await;
    let keys = "INSERT INTO keys (id, project_id, description, prefix, hash, expires_at, revoked_at, created_at) \
                SELECT randomblob(16), project_id, 'n', 'p', randomblob(32), NULL, 5, n FROM n, keys WHERE prefix <> 'p'";
    fill(&store, &format!("{COUNT} {keys}")).await;
    let projects = "INSERT INTO projects \
                    (id, tenant_id, name, allowed_methods, blocked_methods, created_at, deleted_at) \
                    SELECT randomblob(16), tenant_id, 'n', '[]', '[]', 1, n FROM n, projects WHERE name = 'first'";
    fill(&store, &format!("{COUNT} {projects}")).await;
    store.create_key(&key(KeyId(100), KeyHash::of("new")), now()).await.unwrap();
    assert_eq!(rows(&store, "keys").await, 1_002, "with two that can be used");
    assert_eq!(
        rows(&store, "keys WHERE revoked_at IS NOT NULL AND created_at <= 10").await,
        0,
        "the oldest go"
    );
    store.create_project(&project(ProjectId(8))).await.unwrap();
    assert_eq!(rows(&store, "projects").await, 1_002);
    assert_eq!(rows(&store, "projects WHERE deleted_at <= 10").await, 0);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_deleted_project_stays_until_the_sweep_has_removed_its_log() {
    let (_dir, store) = seeded().await;
    store.set_tier(TENANT, Tier::Enterprise, now()).await.unwrap();
    store.create_project(&project(ProjectId(8))).await.unwrap();
    store.delete_project(TENANT, ProjectId(8), now()).await.unwrap();
    store.seed_deliveries(b"{}", &[], now()).await;
    let log = "INSERT INTO project_events (project_id, event_id, created_at) \
               SELECT projects.id, chain_events.id, 1 FROM projects, chain_events WHERE deleted_at IS NOT NULL";
    fill(&store, log).await;
    let moment = later(1).micros();
    let newer = format!(
        "{COUNT} INSERT INTO projects \
         (id, tenant_id, name, allowed_methods, blocked_methods, created_at, deleted_at) \
         SELECT randomblob(16), tenant_id, 'n', '[]', '[]', 1, n + {moment} FROM n, projects WHERE deleted_at IS NULL"
    );
    fill(&store, &newer).await;
    let old = format!("projects WHERE deleted_at < {moment}");
    store.create_project(&project(ProjectId(9))).await.unwrap();
    assert_eq!((rows(&store, &old).await, rows(&store, "project_events").await), (1, 1), "it may be long");
    store.sweep_events(Duration::from_secs(86_400), later(2)).await.unwrap();
    assert_eq!((rows(&store, &old).await, rows(&store, "project_events").await), (1, 0));
    assert_eq!(rows(&store, "chain_events").await, 1, "other projects may have it as well");
    store.create_project(&project(ProjectId(10))).await.unwrap();
    assert_eq!(rows(&store, &old).await, 0);
}

// Shows (Management).
#[tokio::test]
async fn revoked_deleted_and_decided_rows_are_removed_after_their_time() {
    const DAY: u64 = 86_400;
    let (_dir, store) = seeded().await;
    let gone = ProjectId(8);
    store.create_project(&project(gone)).await.unwrap();
    let its_key = Key { project: gone, ..key(KeyId(9), KeyHash::of("its")) };
    let ends = Key { expires_at: Some(later(DAY)), ..key(KeyId(10), KeyHash::of("ends")) };
    store.create_key(&its_key, now()).await.unwrap();
    store.create_key(&ends, now()).await.unwrap();
    let quota = ProjectQuota { cu_per_day: 1, cu_per_month: None, rps_limit: None, has_row: true };
    store.put_quota(gone, &quota, now()).await.unwrap();
    store.delete_project(TENANT, gone, now()).await.unwrap();
    let young = later(90 * DAY - 1);
    let swept = store.sweep(young).await.unwrap();
    assert_eq!((swept.keys, swept.projects), (0, 0));
    let swept = store.sweep(later(90 * DAY)).await.unwrap();
    assert_eq!((swept.keys, swept.projects), (1, 1), "the one that has ended a day later stays");
    assert_eq!(store.sweep(later(91 * DAY)).await.unwrap().keys, 1);
    let left: Vec<_> = store.keys(TENANT, PROJECT).await.unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!((left, rows(&store, "keys").await), (vec![KEY], 1));
    assert_eq!((rows(&store, "projects").await, rows(&store, "quotas").await), (1, 0));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_project_without_a_quota_has_that_of_its_plan_as_operators_have_set_it() {
    let (_dir, store) = seeded().await;
    let tier = tenant(TENANT).tier;
    let limits = QuotaChange { cu_per_day: Some(7), cu_per_month: Some(9), rps_limit: None };
    let change = PlanChange { quota: limits, monthly_fee: Some(500), ..PlanChange::default() };
    tells(&store, Change::Plan(tier), store.put_plan(tier, &change, now())).await;
    let plans = async || store.overlay().await.unwrap().over(&Config::default()).plans;
    let quota = async || store.quota(TENANT, PROJECT, &plans().await, now()).await.unwrap().unwrap();
    let of_plan = ProjectQuota { cu_per_day: 7, cu_per_month: Some(9), rps_limit: None, has_row: false };
    let stored = store.caller(hash(), &plans().await, now()).await.unwrap().unwrap();
    assert_eq!((stored.caller.quota, quota().await), (of_plan, of_plan));
    let own = ProjectQuota { cu_per_day: 1, cu_per_month: None, rps_limit: Some(2), has_row: true };
    store.put_quota(PROJECT, &own, now()).await.unwrap();
    let stored = store.caller(hash(), &plans().await, now()).await.unwrap().unwrap();
    assert_eq!((stored.caller.quota, quota().await), (own, own));
    store.replace_plan(tier, &PlanChange::default(), now()).await.unwrap();
    store.delete_quota(PROJECT, now()).await.unwrap();
    assert_eq!(quota().await, ProjectQuota::default(), "as configured again");
}

#[tokio::test]
async fn a_fee_that_operators_set_for_a_built_in_plan_applies_from_its_day() {
    let (_dir, store) = empty().await;
    let day = |number: u64| now().plus(Duration::from_secs(number * 86_400));
    let fee = |cents| PlanChange { monthly_fee: Some(cents), ..PlanChange::default() };
    store.put_plan(Tier::Premium, &fee(900), day(1)).await.unwrap();
    store.put_plan(Tier::Premium, &fee(800), day(1)).await.unwrap();
    store
        .put_plan(Tier::Premium, &PlanChange { per_minute: Some(5), ..PlanChange::default() }, day(2))
        .await
        .unwrap();
    store.replace_plan(Tier::Premium, &PlanChange::default(), day(3)).await.unwrap();
    let begin = |at: Time| Time::from_secs(at.secs() / 86_400 * 86_400);
    let fees: Vec<_> = store.plan_fees().await.unwrap().iter().map(|fee| (fee.since, fee.cents)).collect();
    assert_eq!(fees, [(Time::from_secs(0), None), (begin(day(1)), Some(800)), (begin(day(3)), None)]);
}
