//! Tests of the data that gateways read. Other subjects have separate files.

mod access_tokens;
mod accounts;
mod audit;
mod changes;
mod config_versions;
mod contracts;
mod custom_plans;
mod deleted_tenants;
mod drained_nodes;
mod due_deliveries;
mod endpoint_health;
mod explanations;
mod factors;
mod followed_blocks;
mod idempotency;
mod invitations;
mod invoice_notices;
mod known_devices;
mod limit_requests;
mod lockout;
mod lookup;
mod members;
mod notices;
mod notifications;
mod oldest_work;
mod outgoing_mails;
mod overview;
mod projects;
mod scheduled_changes;
mod sessions;
mod sweep;
mod tickets;
mod versions;
mod webhooks;

use crate::testing::TestDatabase;
use crate::{
    Audit, Digest, Key, Project, Role, Store, StoreError, StoredKey, Tenant, Terms, User, UserId, fresh_id,
    url_of,
};
use rpcgate_config::{Config, CountsChange, Overlay, PlanChange, Plans, QuotaChange};
use rpcgate_core::backend::changes::{Change, ChangeFeed};
use rpcgate_core::backend::suite;
use rpcgate_core::caller::{Caller, KeyId, MethodLists, ProjectId, ProjectQuota, Scope, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Plan, Price, Tier};
use rpcgate_core::secret::KeyHash;
use sea_orm::{ConnectionTrait, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

const TENANT: TenantId = TenantId(2);
const OTHER: TenantId = TenantId(3);
const PROJECT: ProjectId = ProjectId(4);
const KEY: KeyId = KeyId(5);

fn now() -> Time {
    Time::from_micros(1_790_000_000_123_456)
}

fn hash() -> KeyHash {
    KeyHash::of("the key")
}

fn tenant(id: TenantId) -> Tenant {
    Tenant::new(id, "Örtliche Bank", Tier::Standard, now())
}

fn project(id: ProjectId) -> Project {
    Project::new(id, TENANT, "first", now())
}

fn key(id: KeyId, hash: KeyHash) -> Key {
    Key { description: "for \"tests\"".into(), ..Key::new(id, PROJECT, "rpcg_0123456", hash, now()) }
}

/// Returns the caller of [`KEY`] before any change.
fn caller() -> Caller {
    let plan = Plan::of(Tier::Standard);
    Caller::new(KEY, PROJECT, TENANT, plan).with_prefix("rpcg_0123456")
}

fn user(id: u128, email: &str) -> User {
    User {
        id: UserId(id),
        tenant: Some(TENANT),
        email: email.into(),
        name: "Jürgen".into(),
        role: Role::Owner,
        password: Some("$argon2id$secret".into()),
        confirmed_at: None,
        created_at: now(),
    }
}

fn entry(action: &str) -> Audit {
    Audit {
        tenant: Some(TENANT),
        user: Some(UserId(9)),
        action: action.into(),
        subject: "x".into(),
        address: "2001:db8::1".into(),
        at: now(),
        detail: String::new(),
    }
}

fn later(secs: u64) -> Time {
    now().plus(Duration::from_secs(secs))
}

async fn at_once<T: Send + 'static, W: Future<Output = T> + Send + 'static>(
    many: u128,
    work: impl Fn(u128) -> W,
) -> Vec<T> {
    let works: Vec<_> = (0..many).map(|number| tokio::spawn(work(number))).collect();
    let mut done = Vec::new();
    for work in works {
        done.push(work.await.unwrap());
    }
    done
}

async fn rows(store: &Store, table: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    let counted = store.read(async |database| {
        let row =
            database.query_one_raw(Statement::from_string(database.get_database_backend(), sql)).await?;
        Ok(row.unwrap().try_get_by_index(0)?)
    });
    counted.await.unwrap()
}

/// Executes `sql` in SQLite's dialect, as any program with access to the database could.
async fn fill(store: &Store, sql: &str) {
    let sql = match store.database.server() {
        None => sql.to_owned(),
        Some(_) => sql
            .replace("randomblob(16)", "gen_random_uuid()")
            .replace("randomblob(32)", "sha256(gen_random_uuid()::text::bytea)"),
    };
    store.transact(async |transaction| Ok(transaction.execute_unprepared(&sql).await?)).await.unwrap();
}

/// A store with two tenants, and a project of the first.
async fn empty() -> (TestDatabase, Store) {
    let dir = TestDatabase::of(module_path!());
    // A loaded machine may be slow, and no test here is about the deadline.
    let store = dir.store_within(Duration::from_secs(60)).await.unwrap();
    store.create_tenant(&tenant(TENANT)).await.unwrap();
    store.create_tenant(&tenant(OTHER)).await.unwrap();
    store.create_project(&project(PROJECT)).await.unwrap();
    (dir, store)
}

/// The same with a key.
async fn seeded() -> (TestDatabase, Store) {
    let (dir, store) = empty().await;
    store.create_key(&key(KEY, hash()), now()).await.unwrap();
    (dir, store)
}

async fn found(store: &Store) -> StoredKey {
    store.caller(hash(), &Plans::default(), now()).await.unwrap().unwrap()
}

async fn feed(store: &Store, after: u64) -> Vec<Change> {
    store.since(after).await.unwrap().into_iter().map(|numbered| numbered.change).collect()
}

/// Runs `write` and checks that the feed then contains `change` and nothing else.
async fn tells(store: &Store, change: Change, write: impl Future<Output = Result<(), StoreError>>) {
    let before = store.newest_change().await.unwrap();
    write.await.unwrap();
    assert_eq!(feed(store, before).await, [change]);
    assert!(store.newest_change().await.unwrap() > before);
}

/// Runs `write`, which is refused, and checks that it leaves no trace in the feed.
async fn refused(store: &Store, write: impl Future<Output = Result<(), StoreError>>) -> String {
    let before = store.newest_change().await.unwrap();
    let error = write.await.unwrap_err();
    assert_eq!(store.newest_change().await.unwrap(), before, "{error}");
    error.to_string()
}

// Shows (Keys).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_the_suite_of_change_feeds() {
    block_in_place(|| {
        suite::changes(|| {
            let handle = Handle::current();
            let (dir, store) = handle.block_on(empty());
            let writer = store.clone();
            let publish = move |change| {
                let _kept = &dir;
                handle.block_on(async {
                    match change {
                        Change::Key(id) => writer.create_key(&key(id, hash()), now()).await,
                        Change::Tenant(id) => writer.suspend(id, now()).await,
                        Change::Chain(chain) => writer.switch_chain(&chain, false, now()).await,
                        Change::Plan(tier) => {
                            let figures = PlanChange { per_day: Some(7), ..PlanChange::default() };
                            writer.put_plan(tier, &figures, now()).await
                        }
                        other => panic!("no write stands for {other:?}"),
                    }
                    .unwrap();
                });
            };
            (Arc::new(store), Box::new(publish))
        });
    });
}

#[tokio::test]
async fn changes_that_do_not_concern_gateways_are_not_in_the_feed() {
    let (_dir, store) = empty().await;
    store.create_user(&user(9, "a@b.example")).await.unwrap();
    assert_eq!(store.newest_change().await.unwrap(), 0);
    assert!(store.since(0).await.unwrap().is_empty());
}

// Shows (Keys): The store contains only the hash of a key.
#[tokio::test]
async fn a_key_is_found_by_its_hash_alone() {
    let (_dir, store) = empty().await;
    assert_eq!(store.caller(hash(), &Plans::default(), now()).await.unwrap(), None);
    tells(&store, Change::Key(KEY), store.create_key(&key(KEY, hash()), now())).await;
    assert_eq!(found(&store).await, StoredKey { caller: caller(), terms: Terms::default(), revoked: false });
    assert_eq!(store.caller(KeyHash::of("another"), &Plans::default(), now()).await.unwrap(), None);
    assert_eq!(store.key(TENANT, KEY).await.unwrap(), Some(key(KEY, hash())));
    assert_eq!(store.key(OTHER, KEY).await.unwrap(), None, "another tenant's key");
}

#[tokio::test]
async fn scope_and_expiry_of_a_key_are_kept() {
    let (_dir, store) = empty().await;
    let only = |chains: &[&str]| Scope::Only(chains.iter().copied().map(Box::from).collect());
    let ends = Time::from_micros(u64::MAX);
    for (number, scope) in [(1, only(&["eth", "btc"])), (2, only(&[])), (3, Scope::All)] {
        let hash = KeyHash::of(&number.to_string());
        let made = Key { scope: scope.clone(), expires_at: Some(ends), ..key(KeyId(number), hash) };
        store.create_key(&made, now()).await.unwrap();
        let caller = store.caller(hash, &Plans::default(), now()).await.unwrap().unwrap().caller;
        assert_eq!(caller.scope, scope);
        assert_eq!(caller.expires_at, Some(Time::from_micros(i64::MAX as u64)), "as far as a column goes");
    }
}

#[tokio::test]
async fn a_revoked_key_keeps_its_caller_and_the_moment_it_was_revoked() {
    let (_dir, store) = seeded().await;
    assert_eq!(refused(&store, store.revoke_key(OTHER, KEY, now())).await, "there is no such key");
    assert_eq!(refused(&store, store.revoke_key(TENANT, KeyId(6), now())).await, "there is no such key");
    assert!(!found(&store).await.revoked);
    tells(&store, Change::Key(KEY), store.revoke_key(TENANT, KEY, now())).await;
    assert_eq!(found(&store).await, StoredKey { caller: caller(), terms: Terms::default(), revoked: true });
    let newest = store.newest_change().await.unwrap();
    store.revoke_key(TENANT, KEY, now().plus(Duration::from_secs(9))).await.unwrap();
    assert_eq!(store.key(TENANT, KEY).await.unwrap().unwrap().revoked_at, Some(now()));
    assert_eq!(store.newest_change().await.unwrap(), newest, "nothing has changed");
}

#[tokio::test]
async fn a_tenants_tier_and_suspension_show_in_its_callers() {
    let (_dir, store) = seeded().await;
    tells(&store, Change::Tenant(TENANT), store.set_tier(TENANT, Tier::Premium, now())).await;
    assert_eq!(found(&store).await.caller, caller().with_plan(Plan::of(Tier::Premium)));
    let mut plans = Plans::default();
    plans.premium.per_minute = 3;
    let stored = store.caller(hash(), &plans, now()).await.unwrap().unwrap();
    assert_eq!(stored.caller.plan, plans.premium, "the plans in force");
    tells(&store, Change::Tenant(TENANT), store.suspend(TENANT, now())).await;
    assert!(found(&store).await.caller.suspended);
    let expected = Tenant { tier: Tier::Premium, suspended: true, ..tenant(TENANT) };
    assert_eq!(store.tenant(TENANT).await.unwrap(), Some(expected));
    assert_eq!(store.tenant(OTHER).await.unwrap(), Some(tenant(OTHER)), "the other one stays");
    tells(&store, Change::Tenant(TENANT), store.reactivate(TENANT, now())).await;
    assert!(!found(&store).await.caller.suspended);
    let nobody = TenantId(99);
    assert_eq!(store.tenant(nobody).await.unwrap(), None);
    assert_eq!(refused(&store, store.suspend(nobody, now())).await, "there is no such tenant");
    assert_eq!(refused(&store, store.set_tier(nobody, Tier::Free, now())).await, "there is no such tenant");
}

#[tokio::test]
async fn method_lists_are_kept_as_they_are_written() {
    let (_dir, store) = seeded().await;
    let allowed = ["toy_\"read\"".to_owned(), "größe".to_owned()];
    let blocked = ["toy_scan".to_owned()];
    let write = store.set_lists(TENANT, PROJECT, &allowed, &blocked, now());
    tells(&store, Change::Project(PROJECT), write).await;
    let set = |names: &[String]| names.iter().map(|name| name.as_bytes().into()).collect::<BTreeSet<_>>();
    let lists = MethodLists { allowed: set(&allowed), blocked: set(&blocked) };
    assert_eq!(found(&store).await.caller, caller().with_lists(lists));
    let [stored] = &store.projects(TENANT).await.unwrap()[..] else { panic!("there is one project") };
    assert_eq!((&stored.allowed_methods[..], &stored.blocked_methods[..]), (&allowed[..], &blocked[..]));
    let write = store.set_lists(OTHER, PROJECT, &[], &[], now());
    assert_eq!(refused(&store, write).await, "there is no such project");
}

#[tokio::test]
async fn a_tenant_sees_its_own_projects_oldest_first() {
    let (_dir, store) = empty().await;
    let older = Project { created_at: Time::from_secs(1), ..project(ProjectId(8)) };
    let strange = Project { tenant: OTHER, ..project(ProjectId(9)) };
    store.create_project(&older).await.unwrap();
    store.create_project(&strange).await.unwrap();
    assert_eq!(store.projects(TENANT).await.unwrap(), [older, project(PROJECT)]);
    assert_eq!(store.projects(OTHER).await.unwrap(), [strange]);
    assert_eq!(store.projects(TenantId(99)).await.unwrap(), []);
}

// Shows (Management).
#[tokio::test]
async fn a_quota_is_put_replaced_and_taken_away() {
    let (_dir, store) = seeded().await;
    for quota in [
        ProjectQuota {
            cu_per_day: 0,
            cu_per_month: Some(i64::MAX as u64),
            rps_limit: Some(3),
            has_row: true,
        },
        ProjectQuota {
            cu_per_day: u64::MAX,
            cu_per_month: Some(1 << 63),
            rps_limit: Some(u64::MAX),
            has_row: true,
        },
        ProjectQuota { cu_per_day: 70, cu_per_month: None, rps_limit: None, has_row: true },
    ] {
        tells(&store, Change::Project(PROJECT), store.put_quota(PROJECT, &quota, now())).await;
        assert_eq!(found(&store).await.caller, caller().with_quota(quota));
    }
    tells(&store, Change::Project(PROJECT), store.delete_quota(PROJECT, now())).await;
    assert_eq!(found(&store).await.caller, caller());
    assert_eq!(refused(&store, store.delete_quota(PROJECT, now())).await, "there is no such quota");
    let quota = ProjectQuota::default();
    let write = store.put_quota(ProjectId(99), &quota, now());
    assert_eq!(refused(&store, write).await, "there is no such project");
}

// Shows (Management): A PUT of a plan changes only the sent fields.
#[tokio::test]
async fn a_put_plan_changes_only_the_figures_that_are_given() {
    let (_dir, store) = empty().await;
    let first = PlanChange { per_minute: Some(20), price: Some(Price(5)), ..PlanChange::default() };
    let second = PlanChange { per_minute: Some(30), heavy_per_minute: Some(0), ..PlanChange::default() };
    tells(&store, Change::Plan(Tier::Free), store.put_plan(Tier::Free, &first, now())).await;
    tells(&store, Change::Plan(Tier::Free), store.put_plan(Tier::Free, &second, now())).await;
    let newest = store.newest_change().await.unwrap();
    store.put_plan(Tier::Premium, &PlanChange::default(), now()).await.unwrap();
    assert_eq!(store.newest_change().await.unwrap(), newest, "nothing was given");
    let both = PlanChange { price: Some(Price(5)), ..second };
    let overlay = Overlay { plans: BTreeMap::from([(Tier::Free, both)]), ..Overlay::default() };
    assert_eq!(store.overlay().await.unwrap(), overlay);
    let large = PlanChange { price: Some(Price(u64::MAX)), ..PlanChange::default() };
    let text = refused(&store, store.put_plan(Tier::Free, &large, now())).await;
    assert_eq!(text, "price_per_cu must be at most 9223372036854775807");
}

#[tokio::test]
async fn the_last_weights_and_switches_are_listed() {
    let (_dir, store) = empty().await;
    let toy = || Change::Chain("toy".into());
    tells(&store, toy(), store.put_weight("toy", "read", 1, now())).await;
    tells(&store, toy(), store.put_weight("toy", "read", u32::MAX, now())).await;
    tells(&store, toy(), store.put_weight("toy", "a/b", 0, now())).await;
    tells(&store, Change::Chain("toy2".into()), store.put_weight("toy2", "read", 3, now())).await;
    tells(&store, toy(), store.switch_chain("toy", true, now())).await;
    tells(&store, toy(), store.switch_chain("toy", false, now())).await;
    tells(&store, toy(), store.drain_node("toy", "http://a", &[["http://b".into()].into()], now())).await;
    tells(&store, toy(), store.drain_node("toy", "http://a", &[], now())).await;
    let others = [["http://a".into()].into()];
    let last = store.drain_node("toy", "http://b", &others, now());
    assert_eq!(refused(&store, last).await, "this is the last usable node of the chain");
    let weights = |toy: &[(&str, u32)]| {
        let toy = toy.iter().map(|(method, cu)| ((*method).to_owned(), *cu)).collect();
        BTreeMap::from([("toy".to_owned(), toy), ("toy2".into(), BTreeMap::from([("read".into(), 3)]))])
    };
    let expected = Overlay {
        weights: weights(&[("a/b", 0), ("read", u32::MAX)]),
        chains: BTreeMap::from([("toy".into(), false)]),
        drained: [("toy".into(), "http://a".into())].into(),
        ..Overlay::default()
    };
    assert_eq!(store.overlay().await.unwrap(), expected);
    assert_eq!(store.drained_nodes().await.unwrap(), expected.drained);
    tells(&store, toy(), store.resume_node("toy", "http://a", now())).await;
    assert!(store.overlay().await.unwrap().drained.is_empty());
    tells(&store, toy(), store.delete_weight("toy", "read", now())).await;
    assert_eq!(store.overlay().await.unwrap().weights, weights(&[("a/b", 0)]));
    assert_eq!(refused(&store, store.delete_weight("toy", "read", now())).await, "there is no such weight");
}

#[tokio::test]
async fn an_address_is_taken_in_every_spelling() {
    let (_dir, store) = empty().await;
    store.create_user(&user(1, "Jürgen.ÄRGER@B.example")).await.unwrap();
    let error = store.create_user(&user(2, "jürgen.Ärger@b.EXAMPLE")).await.unwrap_err();
    assert_eq!(error.to_string(), "there is already a user with this e-mail address");
    let error = store.create_user(&user(1, "other@b.example")).await.unwrap_err();
    assert_eq!(error.to_string(), "there is already a user with this id");
    let found = store.user_by_email("JÜRGEN.ärger@b.example").await.unwrap();
    assert_eq!(found, Some(user(1, "jürgen.ärger@b.example")));
    assert_eq!(store.user_by_email("other@b.example").await.unwrap(), None);
    let nowhere = User { tenant: Some(TenantId(99)), ..user(3, "other@b.example") };
    assert!(matches!(store.create_user(&nowhere).await, Err(StoreError::NotFound("tenant"))));
}

#[tokio::test]
async fn nothing_is_made_twice_or_under_something_that_is_not_there() {
    let (_dir, store) = seeded().await;
    let keys = [
        (key(KeyId(6), hash()), "there is already a key with this text"),
        (key(KEY, KeyHash::of("another")), "there is already a key with this id"),
        (Key { project: ProjectId(99), ..key(KeyId(6), KeyHash::of("another")) }, "there is no such project"),
    ];
    for (key, why) in keys {
        assert_eq!(refused(&store, store.create_key(&key, now())).await, why);
    }
    let projects = [
        (project(PROJECT), "there is already a project with this id"),
        (Project { tenant: TenantId(99), ..project(ProjectId(6)) }, "there is no such tenant"),
    ];
    for (project, why) in projects {
        assert_eq!(refused(&store, store.create_project(&project)).await, why);
    }
    let why = store.create_tenant(&tenant(TENANT)).await.unwrap_err();
    assert_eq!(why.to_string(), "there is already a tenant with this id");
}

#[tokio::test]
async fn all_data_survives_reopening() {
    let (dir, store) = seeded().await;
    let quota = ProjectQuota { cu_per_day: 70, cu_per_month: None, rps_limit: Some(2), has_row: true };
    store.put_quota(PROJECT, &quota, now()).await.unwrap();
    store.put_weight("toy", "read", 9, now()).await.unwrap();
    store.switch_chain("toy", false, now()).await.unwrap();
    let before = (found(&store).await, store.overlay().await.unwrap(), store.since(0).await.unwrap());
    assert_eq!(before.0.caller.quota, quota);
    let mut urls = vec![dir.url().to_owned(); 2];
    // The files on the disk now, as if the process had been killed: the log is not checkpointed.
    let killed = tempfile::tempdir().unwrap();
    if let Some(folder) = dir.folder() {
        for name in ["rpcgate.db", "rpcgate.db-wal"] {
            std::fs::copy(folder.join(name), killed.path().join(name)).unwrap();
        }
        urls.insert(0, url_of(&killed.path().join("rpcgate.db")));
    }
    store.close().await;
    for url in &urls {
        let store = Store::open(url, true).await.unwrap();
        let after = (found(&store).await, store.overlay().await.unwrap(), store.since(0).await.unwrap());
        assert_eq!(after, before);
        store.close().await;
    }
    let store = Store::open(dir.url(), false).await.unwrap();
    store.switch_chain("toy", true, now()).await.unwrap();
    assert_eq!(store.newest_change().await.unwrap(), before.2.last().unwrap().number + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_in_two_programs_each_get_their_turn() {
    let (dir, first) = empty().await;
    let second = dir.store_within(Duration::from_secs(60)).await.unwrap();
    let writers: Vec<_> = (0..40)
        .map(|number| {
            let store = if number % 2 == 0 { first.clone() } else { second.clone() };
            tokio::spawn(async move {
                let hash = KeyHash::of(&number.to_string());
                store.create_key(&key(KeyId(number), hash), now()).await?;
                store.caller(hash, &Plans::default(), now()).await
            })
        })
        .collect();
    for (number, writer) in (0..).zip(writers) {
        let stored = writer.await.unwrap().unwrap().unwrap();
        assert_eq!(stored.caller.key, KeyId(number), "each reads its own write");
    }
    let reported = second.since(0).await.unwrap();
    assert!(reported.windows(2).all(|pair| pair[0].number < pair[1].number));
    let keys: BTreeSet<_> = reported
        .into_iter()
        .map(|reported| match reported.change {
            Change::Key(id) => id,
            other => panic!("unexpected: {other:?}"),
        })
        .collect();
    assert_eq!(keys, (0..40).map(KeyId).collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_users_with_the_same_address_is_created() {
    let (_dir, store) = empty().await;
    let users = at_once(8, |number| {
        let store = store.clone();
        async move { store.create_user(&user(number, "a@b.example")).await }
    });
    let mut made = 0;
    for user in users.await {
        match user {
            Ok(()) => made += 1,
            Err(error) => {
                assert!(matches!(error, StoreError::Taken { value: "e-mail address", .. }), "{error}");
            }
        }
    }
    assert_eq!(made, 1);
}

#[tokio::test]
async fn rows_that_this_program_cannot_have_written_are_reported_as_unreadable() {
    let (_dir, store) = seeded().await;
    let write = async |sql: &str| {
        let transaction = store.database.begin().await.unwrap();
        transaction.execute_unprepared(sql).await.unwrap();
        transaction.commit().await.unwrap();
    };
    write("UPDATE projects SET blocked_methods = '[1]'").await;
    let error = store.caller(hash(), &Plans::default(), now()).await.unwrap_err();
    assert_eq!(error.to_string(), "the database holds a method list that cannot be read: \"[1]\"");
    write("UPDATE tenants SET tier = 'gold'").await;
    assert!(matches!(store.tenant(TENANT).await, Err(StoreError::Unreadable { what: "tier", .. })));
    write("INSERT INTO changes (kind, subject, at) VALUES ('webhook', 'x', 1)").await;
    tells(&store, Change::Key(KEY), store.revoke_key(TENANT, KEY, now())).await;
    let reported = [Change::Key(KEY), Change::Other, Change::Key(KEY)];
    assert_eq!(feed(&store, 0).await, reported, "a kind of later versions has its place all the same");
    write("UPDATE changes SET subject = 'x' WHERE kind = 'key'").await;
    assert!(store.since(0).await.is_err());
}

#[test]
fn fresh_ids_rise_with_time() {
    let first = fresh_id(now());
    let second = fresh_id(now().plus(Duration::from_millis(1)));
    assert!(first < second);
    assert_eq!(&TenantId(first).to_string()[14..15], "7");
}
