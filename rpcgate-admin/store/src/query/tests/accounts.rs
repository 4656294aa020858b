use super::*;
use crate::{
    AuditSubject, CustomPlan, Figures, Registered, Registration, Swept, TenantChange, TenantFilter,
    TenantPlan,
};
use rpcgate_core::caller::CustomPlanId;

const DAY: u64 = 86_400;

fn owner(number: u128, email: &str) -> (Tenant, User) {
    let id = TenantId(1_000 + number);
    (Tenant { tier: Tier::Free, ..tenant(id) }, User { tenant: Some(id), ..user(number, email) })
}

fn token(number: u128) -> Digest {
    Digest::of(&format!("token {number}"))
}

async fn register(store: &Store, number: u128, email: &str, now: Time) -> Registered {
    let solved = Digest::of(&format!("solution {number}"));
    register_with(store, number, email, solved, now).await
}

async fn register_with(store: &Store, number: u128, email: &str, solved: Digest, now: Time) -> Registered {
    let (tenant, user) = owner(number, email);
    let registration = Registration {
        tenant: &tenant,
        user: &User { created_at: now, ..user },
        confirmation: token(number),
        confirmation_expires_at: now.plus(Duration::from_secs(DAY)),
        solved: Some((solved, now.plus(Duration::from_secs(600)))),
    };
    let entry = Audit { tenant: Some(registration.tenant.id), at: now, ..entry("user.registered") };
    store.register(&registration, &entry, now).await.unwrap()
}

#[tokio::test]
async fn a_registration_makes_everything_or_nothing() {
    let (_dir, store) = empty().await;
    assert_eq!(register(&store, 1, "A@b.example", now()).await, Registered::Done);
    let (tenant, user) = owner(1, "a@b.example");
    assert_eq!(store.tenant(tenant.id).await.unwrap(), Some(tenant.clone()));
    assert_eq!(store.user(UserId(1)).await.unwrap(), Some(user.clone()));
    assert_eq!(store.user_by_email("a@B.example").await.unwrap(), Some(user));
    let [noted] = &store.audit(AuditSubject::Tenant(tenant.id), 9).await.unwrap()[..] else { panic!() };
    assert_eq!(noted.action, "user.registered");
    assert_eq!(store.newest_change().await.unwrap(), 0, "no gateway needs the change");
    let count = async || {
        let mut counts = Vec::new();
        for table in ["tenants", "users", "confirmations", "audit"] {
            counts.push(rows(&store, table).await);
        }
        counts
    };
    assert!(store.confirm(&token(1), None, &entry("account.confirmed"), now()).await.unwrap().is_some());
    let before = count().await;
    assert_eq!(register(&store, 2, "a@B.Example", now()).await, Registered::AddressTaken);
    assert_eq!(
        register(&store, 2, "c@b.example", now()).await,
        Registered::SolutionUsed,
        "by the one before"
    );
    assert_eq!(count().await, before);
    let solved = Digest::of("another");
    assert_eq!(register_with(&store, 2, "c@b.example", solved, now()).await, Registered::Done);
}

// Shows (Accounts and second factors): A registration does not show whether its address has an account.
#[tokio::test]
async fn a_registration_runs_the_same_statements_for_a_free_waiting_or_confirmed_address() {
    let (_dir, store) = empty().await;
    let statements: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let observed = statements.clone();
    store.database.observe_writes(move |sql| {
        // The number of rows that one statement inserts may differ.
        let text = sql.split(" VALUES ").next().unwrap_or_default();
        observed.lock().unwrap().push(text.into());
    });
    let mut seen = Vec::new();
    for (number, outcome) in [(1, Registered::Done), (2, Registered::Done), (3, Registered::AddressTaken)] {
        if number == 3 {
            store.confirm(&token(2), None, &entry("account.confirmed"), now()).await.unwrap().unwrap();
        }
        statements.lock().unwrap().clear();
        assert_eq!(register(&store, number, "a@b.example", now()).await, outcome);
        seen.push(statements.lock().unwrap().clone());
    }
    assert!(seen[0].len() > 8 && seen[0].iter().any(|sql| sql.contains("audit")), "{seen:?}");
    assert_eq!(seen[0], seen[1], "a free address, and one that waits to be confirmed");
    assert_eq!(seen[1], seen[2], "an address that waits to be confirmed, and one that is");
    assert_eq!((rows(&store, "users").await, rows(&store, "tenants").await), (1, 3));
    assert_eq!(rows(&store, "audit").await, 3, "two registrations and the confirmation");
    assert_eq!(store.user_by_email("a@b.example").await.unwrap().unwrap().id, UserId(2));
}

#[tokio::test]
async fn a_registration_that_fails_half_way_leaves_nothing() {
    let (_dir, store) = empty().await;
    let (tenant, user) = owner(1, "a@b.example");
    store.create_user(&User { tenant: Some(TENANT), ..owner(1, "other@b.example").1 }).await.unwrap();
    let registration = Registration {
        tenant: &tenant,
        user: &user,
        confirmation: token(1),
        confirmation_expires_at: later(DAY),
        solved: Some((Digest::of("solution"), later(600))),
    };
    let error = store.register(&registration, &entry("user.registered"), now()).await.unwrap_err();
    assert_eq!(error.to_string(), "there is already a user with this id");
    assert_eq!(store.tenant(tenant.id).await.unwrap(), None);
    assert_eq!((rows(&store, "solved").await, rows(&store, "audit").await), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_registrations_with_one_solution_succeeds() {
    let (_dir, store) = empty().await;
    let done = at_once(20, |number| {
        let store = store.clone();
        async move {
            let email = format!("{number}@b.example");
            register_with(&store, number, &email, Digest::of("the solution"), now()).await
        }
    });
    let done = done.await;
    assert_eq!(done.iter().filter(|done| **done == Registered::Done).count(), 1);
    assert_eq!(done.iter().filter(|done| **done == Registered::SolutionUsed).count(), 19);
    assert_eq!((rows(&store, "users").await, rows(&store, "tenants").await), (1, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_registrations_of_one_address_remains() {
    let (_dir, store) = empty().await;
    let done = at_once(20, |number| {
        let store = store.clone();
        async move { register(&store, number, "a@b.example", now()).await }
    });
    let done = done.await;
    assert!(done.iter().all(|done| *done == Registered::Done), "each takes the place of the one before");
    assert_eq!((rows(&store, "users").await, rows(&store, "tenants").await), (1, 3));
    assert_eq!(rows(&store, "confirmations").await, 1);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_unconfirmed_account_does_not_reserve_its_address() {
    let (_dir, store) = empty().await;
    register(&store, 1, "a@b.example", now()).await;
    let squatter = store.user_by_email("a@b.example").await.unwrap().unwrap();
    let session = crate::Session {
        id: crate::SessionId(1),
        user: squatter.id,
        created_at: now(),
        seen_at: now(),
        expires_at: later(DAY),
        address: "192.0.2.1".into(),
        agent: "curl".into(),
        method: crate::LogInMethod::Password,
        factor_at: None,
        proved_at: None,
        seen_address: "192.0.2.1".into(),
    };
    let password = squatter.password.clone().unwrap();
    assert!(store.open_session(&session, &token(9), &password, &entry("session.opened")).await.unwrap());
    assert_eq!(register(&store, 2, "a@b.example", later(60)).await, Registered::Done);
    assert_eq!(store.session(session.id, later(60)).await.unwrap(), None, "all sessions have ended");
    let confirm = async |number| {
        store.confirm(&token(number), None, &entry("account.confirmed"), later(61)).await.unwrap()
    };
    assert_eq!(confirm(1).await, None, "the link of the one before is good for nothing");
    assert_eq!(confirm(2).await, Some(UserId(2)));
    assert_eq!(register(&store, 3, "a@b.example", later(62)).await, Registered::AddressTaken);
    assert_eq!((rows(&store, "users").await, rows(&store, "tenants").await), (1, 3));
}

#[tokio::test]
async fn a_solution_is_remembered_for_longer_than_it_is_good() {
    let (_dir, store) = empty().await;
    let solved = Digest::of("the solution");
    assert_eq!(register_with(&store, 1, "a@b.example", solved, now()).await, Registered::Done);
    // A request that verified it in its last moment presents it afterwards.
    assert_eq!(register_with(&store, 2, "c@b.example", solved, later(601)).await, Registered::SolutionUsed);
    assert_eq!(register(&store, 3, "d@b.example", later(1_201)).await, Registered::Done);
    assert_eq!(rows(&store, "solved").await, 2);
    assert_eq!(store.sweep(later(1_201)).await.unwrap().solved, 1, "the old one");
}

#[tokio::test]
async fn a_token_confirms_its_address_once_and_in_time() {
    let (_dir, store) = empty().await;
    register(&store, 1, "a@b.example", now()).await;
    register(&store, 2, "c@b.example", now()).await;
    let confirm = async |number, now| {
        store
            .confirm(&token(number), None, &Audit { at: later(1), ..entry("user.confirmed") }, now)
            .await
            .unwrap()
    };
    assert_eq!(confirm(3, now()).await, None, "nobody's");
    assert_eq!(confirm(1, later(DAY)).await, None, "too late");
    assert_eq!(store.user(UserId(1)).await.unwrap().unwrap().confirmed_at, None);
    assert_eq!(confirm(1, later(DAY - 1)).await, Some(UserId(1)));
    assert_eq!(confirm(1, later(DAY - 1)).await, None, "used");
    assert_eq!(store.user(UserId(1)).await.unwrap().unwrap().confirmed_at, Some(later(DAY - 1)));
    assert_eq!(store.user(UserId(2)).await.unwrap().unwrap().confirmed_at, None);
    let [done, _] = &store.audit(AuditSubject::Tenant(TenantId(1_001)), 9).await.unwrap()[..] else {
        panic!()
    };
    assert_eq!(
        (done.user, &*done.action),
        (Some(UserId(1)), "user.confirmed"),
        "it is filled in whose it was"
    );
}

#[tokio::test]
async fn another_token_replaces_the_first() {
    let (_dir, store) = empty().await;
    register(&store, 1, "a@b.example", now()).await;
    let entry = entry("user.confirmed");
    assert!(store.renew_confirmation(UserId(1), &token(7), later(9 * DAY)).await.unwrap());
    assert_eq!(store.confirm(&token(1), None, &entry, now()).await.unwrap(), None);
    assert_eq!(store.confirm(&token(7), None, &entry, later(8 * DAY)).await.unwrap(), Some(UserId(1)));
    assert!(!store.renew_confirmation(UserId(1), &token(8), later(DAY)).await.unwrap(), "confirmed");
    assert!(!store.renew_confirmation(UserId(2), &token(8), later(DAY)).await.unwrap(), "nobody");
    assert_eq!(rows(&store, "confirmations").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_confirmations_with_one_token_succeeds() {
    let (dir, store) = empty().await;
    let second = dir.store_within(Duration::from_secs(60)).await.unwrap();
    register(&store, 1, "a@b.example", now()).await;
    let done = at_once(20, |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move { store.confirm(&token(1), None, &entry("user.confirmed"), now()).await.unwrap() }
    });
    assert_eq!(done.await.into_iter().flatten().collect::<Vec<_>>(), [UserId(1)]);
    let noted = store.audit(AuditSubject::User(UserId(1)), 99).await.unwrap();
    assert_eq!(noted.iter().filter(|entry| entry.action == "user.confirmed").count(), 1);
}

#[tokio::test]
async fn unconfirmed_accounts_are_removed_with_everything_they_own() {
    let (_dir, store) = empty().await;
    for number in 1..=4 {
        register(&store, number, &format!("{number}@b.example"), now()).await;
    }
    store.confirm(&token(1), None, &entry("user.confirmed"), now()).await.unwrap().unwrap();
    let id = |number| TenantId(1_000 + number);
    for number in 1..=4 {
        let made = Project { tenant: id(number), ..project(ProjectId(50 + number)) };
        store.create_project(&made).await.unwrap();
        store.put_quota(made.id, &ProjectQuota::default(), now()).await.unwrap();
    }
    // The third has a key: a gateway may know it, so the account stays with its tenant.
    let strange = Key { project: ProjectId(53), ..key(KEY, hash()) };
    store.create_key(&strange, now()).await.unwrap();
    let week = later(7 * DAY);
    assert_eq!(store.sweep(later(7 * DAY - 1)).await.unwrap().accounts, 0);
    let swept = store.sweep(week).await.unwrap();
    assert_eq!(swept, Swept { accounts: 2, ..Swept::default() });
    assert!(store.user(UserId(1)).await.unwrap().is_some(), "it was confirmed");
    for (number, stays) in [(1, true), (2, false), (3, true), (4, false)] {
        assert_eq!(store.tenant(id(number)).await.unwrap().is_some(), stays, "{number}");
        assert_eq!(store.projects(id(number)).await.unwrap().len(), usize::from(stays), "{number}");
    }
    assert_eq!((rows(&store, "users").await, rows(&store, "quotas").await), (2, 2));
    assert_eq!(register(&store, 12, "2@b.example", week).await, Registered::Done, "the address is free");
    assert!(!store.audit(AuditSubject::Tenant(id(2)), 9).await.unwrap().is_empty(), "audit entries stay");
}

/// Writes an invoice of a tenant, as any program with access to the database could.
async fn put_invoice(store: &Store, tenant: TenantId) {
    let id = tenant.to_string().replace('-', "");
    let id = if store.database.server().is_some() { format!("'{id}'") } else { format!("x'{id}'") };
    let is_announced = if store.database.server().is_some() { "true" } else { "1" };
    let sql = format!(
        "INSERT INTO invoices (year, serial, tenant_id, period, period_end, issued_at, due_at, status, customer, \
         seller, subtotal_cents, tax_name, tax_basis_points, tax_cents, total_cents, credited_cents, announced, \
         reminders) VALUES (2027, 1, {id}, 1, 2, 3, 4, 'open', '', '', 1, '', 0, 0, 1, 0, {is_announced}, 0)"
    );
    fill(store, &sql).await;
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_unconfirmed_account_with_an_invoice_stays_and_stops_no_registration() {
    let (_dir, store) = empty().await;
    for number in 1..=3 {
        register(&store, number, &format!("{number}@b.example"), now()).await;
    }
    let billed = TenantId(1_001);
    let moved = TenantId(1_002);
    put_invoice(&store, billed).await;
    let standard = TenantChange { tier: Some(Tier::Standard), ..TenantChange::default() };
    store.update_tenant(moved, &standard, now()).await.unwrap();
    let week = later(7 * DAY);
    assert_eq!(register(&store, 11, "stranger@b.example", week).await, Registered::Done);
    assert_eq!(store.sweep(week).await.unwrap().accounts, 1, "only the one without money");
    for (user, stays) in [(1, true), (2, true), (3, false)] {
        assert_eq!(store.user(UserId(user)).await.unwrap().is_some(), stays, "{user}");
        assert_eq!(store.tenant(TenantId(1_000 + user)).await.unwrap().is_some(), stays, "{user}");
    }
    assert_eq!(register(&store, 12, "1@b.example", week).await, Registered::Done, "the address is free");
    assert!(store.user(UserId(1)).await.unwrap().is_none(), "who did not confirm loses the account");
    assert!(store.tenant(billed).await.unwrap().is_some(), "the invoice keeps its tenant");
    assert_eq!(store.sweep(later(8 * DAY)).await.unwrap().accounts, 0);
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_registration_removes_no_old_rows() {
    let (_dir, store) = empty().await;
    for number in 0..3 {
        register(&store, number, &format!("{number}@b.example"), now()).await;
    }
    register(&store, 30, "30@b.example", later(7 * DAY)).await;
    assert_eq!((rows(&store, "users").await, rows(&store, "solved").await), (4, 4));
    store.sweep(later(7 * DAY)).await.unwrap();
    assert_eq!((rows(&store, "users").await, rows(&store, "solved").await), (1, 1));
}

#[tokio::test]
async fn an_operator_has_no_tenant_and_is_not_removed() {
    let (_dir, store) = empty().await;
    let operator = User { tenant: None, ..user(1, "op@b.example") };
    store.create_user(&operator).await.unwrap();
    store.sweep(later(99 * DAY)).await.unwrap();
    let found = store.user(UserId(1)).await.unwrap().unwrap();
    assert!(found.is_operator() && !user(2, "x").is_operator());
    assert_eq!(found, operator);
}

#[tokio::test]
async fn roles_are_kept_by_name() {
    let (_dir, store) = empty().await;
    for (number, role) in (0..).zip(Role::ALL) {
        let made = User { role, ..user(number, &format!("{number}@b.example")) };
        store.create_user(&made).await.unwrap();
        assert_eq!(store.user(UserId(number)).await.unwrap().unwrap().role, role);
        assert_eq!(role.as_str().parse(), Ok(role));
    }
    assert_eq!("operator".parse::<Role>().unwrap_err().to_string(), "no such role");
    let transaction = store.database.begin().await.unwrap();
    transaction.execute_unprepared("UPDATE users SET role = 'king'").await.unwrap();
    transaction.commit().await.unwrap();
    assert!(matches!(store.user(UserId(0)).await, Err(StoreError::Unreadable { what: "role", .. })));
}

#[tokio::test]
async fn a_user_is_renamed() {
    let (_dir, store) = empty().await;
    store.create_user(&user(1, "a@b.example")).await.unwrap();
    store.rename_user(UserId(1), "Ann").await.unwrap();
    assert_eq!(store.user(UserId(1)).await.unwrap().unwrap().name, "Ann");
    let error = store.rename_user(UserId(2), "Ann").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no such user");
}

#[test]
fn no_secret_is_shown_by_debug() {
    let (tenant, user) = owner(1, "a@b.example");
    let registration = Registration {
        tenant: &tenant,
        user: &user,
        confirmation: Digest([7; 32]),
        confirmation_expires_at: now(),
        solved: Some((Digest([7; 32]), now())),
    };
    let shown = format!("{registration:?}");
    assert!(shown.contains("a@b.example"));
    assert!(!shown.contains("argon2") && !shown.contains("7, 7") && !shown.contains("0707"), "{shown}");
}

#[test]
fn ids_are_read_as_cores_are() {
    let id = UserId(0x0190_0000_0000_7000_8000_0000_0000_0001);
    assert_eq!(id.to_string(), TenantId(id.0).to_string());
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!("me".parse::<UserId>().is_err());
}

#[tokio::test]
async fn tenants_are_listed_in_pages() {
    let (_dir, store) = empty().await;
    let all = TenantFilter::default();
    let first = tenant(TENANT);
    let second = tenant(OTHER);
    assert_eq!(store.tenants(all, None, u64::MAX).await.unwrap(), [first.clone(), second.clone()]);
    assert_eq!(store.tenants(all, None, 1).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(store.tenants(all, Some(TENANT), 9).await.unwrap(), std::slice::from_ref(&second));
    assert_eq!(store.tenants(all, Some(OTHER), 9).await.unwrap(), []);
    store.suspend(OTHER, now()).await.unwrap();
    let change = TenantChange { tier: Some(Tier::Premium), ..TenantChange::default() };
    store.update_tenant(TENANT, &change, now()).await.unwrap();
    let ids = async |plan: Option<TenantPlan>, suspended| {
        let found = store.tenants(TenantFilter { plan, suspended }, None, 9).await.unwrap();
        found.into_iter().map(|tenant| tenant.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, Some(true)).await, [OTHER]);
    assert_eq!(ids(None, Some(false)).await, [TENANT]);
    let premium = Some(Tier::Premium.into());
    assert_eq!(ids(premium, None).await, [TENANT]);
    assert_eq!(ids(premium, Some(true)).await, []);
    let own = CustomPlan {
        id: CustomPlanId(5),
        name: "own".into(),
        base: Tier::Premium,
        is_visible: true,
        figures: Figures::default(),
        created_at: now(),
    };
    store.create_custom_plan(&own).await.unwrap();
    let change = TenantChange { custom_plan: Some(own.id), ..TenantChange::default() };
    store.update_tenant(OTHER, &change, now()).await.unwrap();
    assert_eq!(ids(premium, None).await, [TENANT], "not those whose plan has it as its base");
    assert_eq!(ids(Some(own.plan()), None).await, [OTHER]);
}

#[tokio::test]
async fn the_given_fields_of_a_tenant_change_together() {
    let (_dir, store) = empty().await;
    let name = TenantChange { name: Some("Bank".into()), ..TenantChange::default() };
    let renamed = Tenant { name: "Bank".into(), ..tenant(TENANT) };
    for change in [&name, &TenantChange::default()] {
        assert_eq!(store.update_tenant(TENANT, change, now()).await.unwrap(), renamed);
    }
    assert_eq!(store.newest_change().await.unwrap(), 0, "no gateway knows names");
    let both = TenantChange { tier: Some(Tier::Free), suspended: Some(true), ..TenantChange::default() };
    let expected = Tenant { tier: Tier::Free, suspended: true, ..renamed };
    tells(&store, Change::Tenant(TENANT), async {
        assert_eq!(store.update_tenant(TENANT, &both, now()).await?, expected);
        Ok(())
    })
    .await;
    assert_eq!(store.tenant(TENANT).await.unwrap(), Some(expected));
    assert_eq!(store.tenant(OTHER).await.unwrap(), Some(tenant(OTHER)));
    for change in [&both, &TenantChange::default()] {
        let write = async { store.update_tenant(TenantId(99), change, now()).await.map(drop) };
        assert_eq!(refused(&store, write).await, "there is no such tenant");
    }
}
