use super::*;
use crate::store::ProjectChange;

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
async fn what_is_given_of_a_project_changes_at_once() {
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
    store.put_quota(PROJECT, &Quota { cu_per_day: 7, ..Quota::default() }, now()).await.unwrap();
    assert_eq!(
        refused(&store, store.delete_project(OTHER, PROJECT, now())).await,
        "there is no such project"
    );
    assert!(!found(&store).await.revoked);
    tells(&store, Change::Project(PROJECT), store.delete_project(TENANT, PROJECT, later(5))).await;
    let stored = found(&store).await;
    assert!(stored.revoked && stored.caller.project == PROJECT, "its calls are still told from strangers'");
    assert_eq!(store.key(TENANT, KEY).await.unwrap().unwrap().revoked_at, Some(later(5)));
    assert_eq!(store.key(TENANT, KeyId(6)).await.unwrap(), Some(ended), "the moment stays");
    assert_eq!(store.key(TENANT, KeyId(7)).await.unwrap(), Some(spared));
    assert_eq!(store.projects(TENANT).await.unwrap(), [project(ProjectId(8))]);
    assert_eq!(store.project(TENANT, PROJECT).await.unwrap(), None);
    assert_eq!(
        (store.quota(TENANT, PROJECT).await.unwrap(), store.tenant_of(PROJECT).await.unwrap()),
        (None, None)
    );
    assert_eq!(store.quotas(TENANT).await.unwrap(), [(ProjectId(8), Quota::default())]);
    let gone = "there is no such project";
    assert_eq!(refused(&store, store.delete_project(TENANT, PROJECT, now())).await, gone);
    assert_eq!(refused(&store, store.create_key(&key(KeyId(9), KeyHash::of("new")), now())).await, gone);
    assert_eq!(refused(&store, store.put_quota(PROJECT, &Quota::default(), now())).await, gone);
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
    assert_eq!(store.quota(TENANT, PROJECT).await.unwrap(), Some(Quota::default()));
    let set = Quota { cu_per_day: 0, cu_per_month: Some(5), rps_limit: None, has_row: true };
    store.put_quota(PROJECT, &set, now()).await.unwrap();
    assert_eq!(store.quota(TENANT, PROJECT).await.unwrap(), Some(set));
    assert_eq!(store.quota(OTHER, PROJECT).await.unwrap(), None);
    let expected = [(PROJECT, set), (ProjectId(8), Quota::default())];
    assert_eq!(store.quotas(TENANT).await.unwrap(), expected);
    assert_eq!(store.quotas(OTHER).await.unwrap(), []);
}

#[tokio::test]
async fn what_operators_set_can_be_read_piece_by_piece() {
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

const COUNT: &str = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 999)";

#[tokio::test]
async fn a_tenant_has_a_thousand_projects_and_no_more() {
    let (_dir, store) = empty().await;
    let full = "a tenant may have 1,000 projects: delete one that is not needed";
    // With the one that is there already; those that were deleted do not count.
    let rows = "INSERT INTO projects (id, tenant_id, name, allowed_methods, blocked_methods, created_at, deleted_at) \
                SELECT randomblob(16), tenant_id, 'n', '[]', '[]', 1";
    for deleted in ["5", "NULL"] {
        fill(&store, &format!("{COUNT} {rows}, {deleted} FROM n, projects WHERE name = 'first'")).await;
    }
    assert_eq!(store.projects(TENANT).await.unwrap().len(), 1_000);
    assert_eq!(refused(&store, store.create_project(&project(ProjectId(8)))).await, full);
    store.create_project(&Project { tenant: OTHER, ..project(ProjectId(9)) }).await.unwrap();
    store.delete_project(TENANT, PROJECT, now()).await.unwrap();
    let again = at_once(4, |number| {
        let store = store.clone();
        async move { store.create_project(&project(ProjectId(20 + number))).await.is_ok() }
    });
    assert_eq!(again.await.into_iter().filter(|done| *done).count(), 1, "there was one place");
    assert_eq!(store.projects(TENANT).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn a_project_has_a_thousand_keys_that_can_be_used_and_no_more() {
    let (_dir, store) = seeded().await;
    let full = "a project may have 1,000 keys that can be used: revoke one that is not needed";
    let rows = "INSERT INTO keys (id, project_id, description, prefix, hash, expires_at, revoked_at, created_at) \
                SELECT randomblob(16), project_id, 'n', 'p', randomblob(32)";
    let ended = now().micros();
    // With the one that is there already; those that were revoked and those that have ended do not count.
    for ends in [format!("{ended}, NULL"), "NULL, 5".into(), "NULL, NULL".into()] {
        fill(&store, &format!("{COUNT} {rows}, {ends}, 1 FROM n, keys WHERE prefix <> 'p'")).await;
    }
    assert_eq!(store.active_keys(TENANT, Some(PROJECT), now()).await.unwrap(), 1_000);
    let new = |number: u128| key(KeyId(number), KeyHash::of(&number.to_string()));
    assert_eq!(refused(&store, store.create_key(&new(100), now())).await, full);
    store.create_project(&project(ProjectId(8))).await.unwrap();
    store.create_key(&Key { project: ProjectId(8), ..new(101) }, now()).await.unwrap();
    store.revoke_key(TENANT, KEY, now()).await.unwrap();
    store.create_key(&new(100), now()).await.unwrap();
    assert_eq!(refused(&store, store.create_key(&new(102), now())).await, full);
}
