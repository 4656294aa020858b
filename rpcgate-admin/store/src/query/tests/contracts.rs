use super::*;
use crate::{ContractId, Figures, MAX_CONTRACTS, Swept, TenantContract, Terms};

fn figures(given: &[(&str, u64)]) -> Figures {
    let mut figures = Figures::default();
    for (name, value) in given {
        assert!(figures.set(name, *value), "{name}");
    }
    figures
}

fn contract(id: u128, from: u64, until: Option<u64>, per_minute: u64) -> TenantContract {
    TenantContract {
        id: ContractId(id),
        tenant: TENANT,
        figures: figures(&[("per_minute", per_minute)]),
        from: later(from),
        until: until.map(later),
        note: "2027-44".into(),
        created_at: now(),
    }
}

async fn per_minute(store: &Store, at: Time) -> (u64, Option<Time>) {
    let stored = store.caller(hash(), &Plans::default(), at).await.unwrap().unwrap();
    assert_eq!(stored.terms, store.terms(TENANT, at).await.unwrap());
    (stored.caller.plan.per_minute, stored.terms.next_bound(at))
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_contract_is_in_force_from_its_begin_until_its_end() {
    let (_dir, store) = seeded().await;
    let standard = Plan::of(Tier::Standard).per_minute;
    store.create_contract(&contract(1, 10, Some(30), 700), now()).await.unwrap();
    store.create_contract(&contract(2, 20, None, 800), now()).await.unwrap();
    for (second, expected, until) in [
        (0, standard, Some(10)),
        (10, 700, Some(20)),
        (19, 700, Some(20)),
        (20, 800, Some(30)),
        (30, 800, None),
    ] {
        assert_eq!(per_minute(&store, later(second)).await, (expected, until.map(later)), "{second}");
    }
    let plan = store.caller(hash(), &Plans::default(), later(15)).await.unwrap().unwrap().caller.plan;
    assert_eq!(plan, Plan::of(Tier::Standard).with_windows(700, plan.per_hour, plan.per_day), "one figure");
}

#[tokio::test]
async fn every_figure_of_a_contract_is_kept_and_announced() {
    let (_dir, store) = seeded().await;
    let mut all = Figures::default();
    for (number, figure) in Figures::default().list().iter().enumerate() {
        assert!(all.set(figure.of.name, 1 + number as u64), "{}", figure.of.name);
    }
    let made = TenantContract { figures: all, ..contract(1, 0, None, 0) };
    let before = store.newest_change().await.unwrap();
    store.create_contract(&made, now()).await.unwrap();
    assert_eq!(store.contracts(TENANT).await.unwrap(), std::slice::from_ref(&made));
    assert_eq!(store.contract(TENANT, made.id).await.unwrap(), Some(made));
    assert_eq!(store.contracts(OTHER).await.unwrap(), []);
    assert_eq!(store.contract(OTHER, ContractId(1)).await.unwrap(), None);
    let news: Vec<_> = store.since(before).await.unwrap().into_iter().map(|one| one.change).collect();
    assert_eq!(news, [Change::Tenant(TENANT)]);
    let lost = TenantContract { tenant: TenantId(99), ..contract(2, 0, None, 1) };
    assert!(matches!(store.create_contract(&lost, now()).await, Err(StoreError::NotFound("tenant"))));
}

#[tokio::test]
async fn a_contract_ends_at_once_and_one_that_has_not_begun_disappears() {
    let (_dir, store) = seeded().await;
    store.create_contract(&contract(1, 0, None, 700), now()).await.unwrap();
    store.create_contract(&contract(2, 100, None, 800), now()).await.unwrap();
    let foreign = store.end_contract(OTHER, ContractId(1), later(5)).await;
    assert!(matches!(foreign, Err(StoreError::NotFound("contract"))));
    for id in [1, 2] {
        tells(&store, Change::Tenant(TENANT), store.end_contract(TENANT, ContractId(id), later(5))).await;
    }
    let again = store.end_contract(TENANT, ContractId(1), later(5)).await;
    assert!(matches!(again, Err(StoreError::WrongState(_))), "{again:?}");
    assert_eq!(
        store.contracts(TENANT).await.unwrap(),
        [TenantContract { until: Some(later(5)), ..contract(1, 0, None, 700) }]
    );
    assert_eq!(store.terms(TENANT, later(5)).await.unwrap(), Terms::default());
    let days = 400 * 86_400;
    assert_eq!(store.sweep(later(4 + days)).await.unwrap().contracts, 0);
    assert_eq!(store.sweep(later(5 + days)).await.unwrap().contracts, 1);
    assert_eq!(store.sweep(later(5 + days)).await.unwrap(), Swept::default());
}

#[tokio::test]
async fn the_end_of_a_contract_is_moved_while_it_has_not_ended() {
    let (_dir, store) = seeded().await;
    store.create_contract(&contract(1, 10, Some(20), 700), now()).await.unwrap();
    let set = async |tenant, until: Option<u64>, at| {
        store.set_contract_end(tenant, ContractId(1), until.map(later), later(at)).await
    };
    assert!(matches!(set(OTHER, None, 0).await, Err(StoreError::NotFound("contract"))));
    assert!(matches!(set(TENANT, Some(10), 0).await, Err(StoreError::WrongState(_))), "it begins then");
    tells(&store, Change::Tenant(TENANT), async { set(TENANT, Some(50), 15).await.map(drop) }).await;
    assert_eq!(per_minute(&store, later(49)).await.0, 700);
    assert_eq!(set(TENANT, None, 49).await.unwrap(), contract(1, 10, None, 700));
    assert_eq!(set(TENANT, Some(60), 49).await.unwrap().until, Some(later(60)));
    assert!(matches!(set(TENANT, None, 60).await, Err(StoreError::WrongState(_))), "it has ended");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn contracts_are_bounded_though_they_are_made_at_once() {
    let (_dir, store) = seeded().await;
    let most = u128::from(MAX_CONTRACTS);
    for id in 1..=most - 4 {
        store.create_contract(&contract(id, 0, Some(1), 1), now()).await.unwrap();
    }
    // Ended ones count too.
    let made = (most - 3..=most + 8).map(|id| {
        let store = store.clone();
        tokio::spawn(async move { store.create_contract(&contract(id, 0, None, 1), later(9)).await })
    });
    let mut refused = 0;
    for done in made.collect::<Vec<_>>() {
        match done.await.unwrap() {
            Ok(()) => {}
            Err(StoreError::Full(why)) => {
                assert!(why.starts_with("a tenant can have 100 contracts"), "{why}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((refused, store.contracts(TENANT).await.unwrap().len() as u64), (8, MAX_CONTRACTS));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_contract_gives_a_quota_to_projects_without_one_of_their_own() {
    let (_dir, store) = seeded().await;
    let quota = [("cu_per_day", 7), ("rps_limit", 3)];
    let made = TenantContract { figures: figures(&quota), ..contract(1, 10, Some(20), 1) };
    store.create_contract(&made, now()).await.unwrap();
    let agreed = ProjectQuota { cu_per_day: 7, cu_per_month: None, rps_limit: Some(3), has_row: false };
    for (second, expected) in [(9, ProjectQuota::default()), (10, agreed), (20, ProjectQuota::default())] {
        let at = later(second);
        let caller = store.caller(hash(), &Plans::default(), at).await.unwrap().unwrap().caller;
        assert_eq!(caller.quota, expected, "{second}");
        assert_eq!(store.quota(TENANT, PROJECT, &Plans::default(), at).await.unwrap(), Some(expected));
        let all = store.quotas(TENANT, &Plans::default(), at).await.unwrap();
        assert!(all.contains(&(PROJECT, expected)), "{all:?}");
    }
    let own = ProjectQuota { cu_per_day: 1, cu_per_month: Some(2), rps_limit: None, has_row: true };
    store.put_quota(PROJECT, &own, now()).await.unwrap();
    assert_eq!(store.quota(TENANT, PROJECT, &Plans::default(), later(15)).await.unwrap(), Some(own));
    let caller = store.caller(hash(), &Plans::default(), later(15)).await.unwrap().unwrap().caller;
    assert_eq!(caller.quota, own);
}

#[tokio::test]
async fn counts_and_the_daily_allowance_follow_the_contract() {
    let (_dir, store) = seeded().await;
    let figures = figures(&[("projects", 2), ("per_day", 7)]);
    store.create_contract(&TenantContract { figures, ..contract(1, 0, None, 0) }, now()).await.unwrap();
    store.create_project(&project(ProjectId(100))).await.unwrap();
    let full = store.create_project(&project(ProjectId(101))).await;
    assert!(matches!(full, Err(StoreError::Full(text)) if text.starts_with("the plan allows 2 projects")));
    let allowed = store.daily_allowances(&BTreeSet::from([TENANT, OTHER]), &Plans::default(), now()).await;
    assert_eq!(allowed.unwrap(), BTreeMap::from([(TENANT, 7), (OTHER, 0)]));
}
