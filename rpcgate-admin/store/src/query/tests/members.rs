use super::invitations::{invitation, invite};
use super::*;
use crate::{
    AuditSubject, Invitation, InviteOutcome, LogInMethod, MemberChange, MemberChangeOutcome, Session,
    SessionId,
};

async fn member(store: &Store, number: u128, role: Role) -> User {
    let made = User { role, ..user(number, &format!("{number}@b.example")) };
    store.create_user(&made).await.unwrap();
    made
}

/// Changes `member` to `role` as `by`, who has the permission.
async fn change(store: &Store, by: u128, member: u128, role: Option<Role>) -> MemberChangeOutcome {
    let change = MemberChange { tenant: TENANT, member: UserId(member), by: UserId(by), role };
    store.change_member(&change, |_, _| true, &[], &entry("member.changed")).await.unwrap()
}

async fn roles(store: &Store) -> Vec<(u128, Role)> {
    store.members(TENANT).await.unwrap().into_iter().map(|user| (user.id.0, user.role)).collect()
}

#[tokio::test]
async fn a_tenants_members_are_its_users_oldest_first() {
    let (_dir, store) = empty().await;
    let younger = member(&store, 1, Role::Owner).await;
    let older = User { created_at: Time::from_secs(1), ..user(2, "2@b.example") };
    store.create_user(&older).await.unwrap();
    store.create_user(&User { tenant: Some(OTHER), ..user(3, "3@b.example") }).await.unwrap();
    store.create_user(&User { tenant: None, ..user(4, "4@b.example") }).await.unwrap();
    assert_eq!(store.members(TENANT).await.unwrap(), [older.clone(), younger]);
    assert_eq!(store.member(TENANT, UserId(2)).await.unwrap(), Some(older));
    for outsider in [3, 4, 9] {
        assert_eq!(store.member(TENANT, UserId(outsider)).await.unwrap(), None);
        for role in [Some(Role::Viewer), None] {
            let change = MemberChange { tenant: TENANT, member: UserId(outsider), by: UserId(1), role };
            let refused = store.change_member(&change, |_, _| true, &[], &entry("x")).await.unwrap_err();
            assert_eq!(refused.to_string(), "there is no such user");
        }
    }
    assert!(store.user(UserId(3)).await.unwrap().is_some() && store.user(UserId(4)).await.unwrap().is_some());
    assert_eq!(rows(&store, "audit").await, 0);
}

#[tokio::test]
async fn the_last_owner_can_neither_leave_nor_lose_the_role() {
    let (_dir, store) = empty().await;
    member(&store, 1, Role::Owner).await;
    member(&store, 2, Role::Admin).await;
    store.create_user(&User { tenant: Some(OTHER), ..user(3, "3@b.example") }).await.unwrap();
    for role in [Some(Role::Admin), None] {
        assert_eq!(
            change(&store, 1, 1, role).await,
            MemberChangeOutcome::LastOwner,
            "another tenant's do not count"
        );
    }
    assert_eq!(rows(&store, "audit").await, 0);
    let MemberChangeOutcome::Done(second) = change(&store, 1, 2, Some(Role::Owner)).await else { panic!() };
    assert_eq!((second.id, second.role), (UserId(2), Role::Owner));
    let MemberChangeOutcome::Done(_) = change(&store, 1, 1, Some(Role::Viewer)).await else { panic!() };
    assert_eq!(change(&store, 2, 2, None).await, MemberChangeOutcome::LastOwner);
    assert_eq!(roles(&store).await, [(1, Role::Viewer), (2, Role::Owner)]);
    assert_eq!(store.audit(AuditSubject::Tenant(TENANT), 9).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_owners_that_leave_at_once_stays() {
    // Each leaves by itself, or each is demoted by the next one.
    for (role, by) in [(None, 0), (Some(Role::Developer), 1)] {
        let (dir, store) = empty().await;
        let second = dir.store_within(Duration::from_secs(60)).await.unwrap();
        for number in 0..12 {
            member(&store, number, Role::Owner).await;
        }
        let done = at_once(12, |number| {
            let store = if number % 2 == 0 { store.clone() } else { second.clone() };
            async move { change(&store, (number + by) % 12, number, role).await }
        });
        let done = done.await;
        assert_eq!(
            done.iter().filter(|done| matches!(done, MemberChangeOutcome::Done(_))).count(),
            11,
            "{done:?}"
        );
        assert_eq!(done.iter().filter(|done| **done == MemberChangeOutcome::LastOwner).count(), 1);
        let owners = roles(&store).await.into_iter().filter(|(_, role)| *role == Role::Owner).count();
        assert_eq!(owners, 1);
    }
}

#[tokio::test]
async fn the_permission_of_the_requesting_user_is_checked_with_its_current_role() {
    let (_dir, store) = empty().await;
    member(&store, 1, Role::Owner).await;
    member(&store, 2, Role::Admin).await;
    member(&store, 3, Role::Developer).await;
    let asked = async |by| {
        let change =
            MemberChange { tenant: TENANT, member: UserId(3), by: UserId(by), role: Some(Role::Viewer) };
        let permits = |by, before| by == Role::Admin && before == Role::Owner;
        store.change_member(&change, permits, &[], &entry("x")).await.unwrap()
    };
    assert_eq!(asked(2).await, MemberChangeOutcome::Refused, "the member is no owner");
    change(&store, 1, 3, Some(Role::Owner)).await;
    assert_eq!(asked(1).await, MemberChangeOutcome::Refused, "it is no admin");
    assert_eq!(asked(9).await, MemberChangeOutcome::Refused, "it is no member");
    assert!(matches!(asked(2).await, MemberChangeOutcome::Done(_)));
    assert_eq!(roles(&store).await[2], (3, Role::Viewer));
}

#[tokio::test]
async fn assigning_the_current_role_leaves_no_entry() {
    let (_dir, store) = empty().await;
    let owner = member(&store, 1, Role::Owner).await;
    assert_eq!(change(&store, 1, 1, Some(Role::Owner)).await, MemberChangeOutcome::Unchanged(owner));
    assert_eq!(rows(&store, "audit").await, 0);
}

#[tokio::test]
async fn a_removed_member_loses_all_sessions_and_invitations() {
    let (_dir, store) = empty().await;
    for (number, role) in [(1, Role::Owner), (2, Role::Admin)] {
        member(&store, number, role).await;
        let session = Session {
            id: SessionId(number),
            user: UserId(number),
            created_at: now(),
            seen_at: now(),
            expires_at: later(60),
            address: String::new(),
            agent: String::new(),
            method: LogInMethod::Password,
            factor_at: None,
            proved_at: None,
            seen_address: String::new(),
        };
        let token = Digest::of(&number.to_string());
        assert!(store.open_session(&session, &token, "$argon2id$secret", &entry("x")).await.unwrap());
        assert_eq!(invite(&store, &invitation(number, number), number).await, InviteOutcome::Created);
    }
    let MemberChangeOutcome::Done(gone) = change(&store, 1, 2, None).await else { panic!() };
    assert_eq!(gone.email, "2@b.example");
    assert_eq!(store.user(UserId(2)).await.unwrap(), None);
    assert!(store.session(SessionId(2), now()).await.unwrap().is_none());
    assert!(store.session(SessionId(1), now()).await.unwrap().is_some());
    for table in ["users", "sessions", "refreshes", "invitations"] {
        assert_eq!(rows(&store, table).await, 1, "{table}");
    }
    let [noted, ..] = &store.audit(AuditSubject::Tenant(TENANT), 9).await.unwrap()[..] else { panic!() };
    assert_eq!(noted.action, "member.changed");
    store.create_user(&user(5, "2@b.example")).await.unwrap();
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn invitations_of_a_disabled_member_are_withdrawn_and_those_of_others_stay() {
    let (_dir, store) = empty().await;
    for number in 1..=2 {
        member(&store, number, Role::Owner).await;
        assert_eq!(invite(&store, &invitation(number, number), number).await, InviteOutcome::Created);
    }
    let left = async || {
        let left = store.invitations(TENANT, now()).await.unwrap();
        left.into_iter().map(|left| left.by.0).collect::<Vec<_>>()
    };
    store.disable_account(UserId(2), true, &entry("user.disabled")).await.unwrap();
    assert_eq!(left().await, [1]);
    store.disable_account(UserId(2), false, &entry("user.enabled")).await.unwrap();
    assert_eq!(left().await, [1], "they do not come back");
}

#[tokio::test]
async fn invitations_that_the_new_role_could_not_make_are_withdrawn() {
    let (_dir, store) = empty().await;
    for number in 1..=2 {
        member(&store, number, Role::Owner).await;
    }
    for (number, (by, role)) in
        [(1, Role::Owner), (1, Role::Admin), (2, Role::Owner), (2, Role::Viewer)].into_iter().enumerate()
    {
        let number = number as u128;
        let made = Invitation { role, ..invitation(number, by) };
        assert_eq!(invite(&store, &made, number).await, InviteOutcome::Created);
    }
    let change = MemberChange { tenant: TENANT, member: UserId(2), by: UserId(1), role: Some(Role::Admin) };
    let gives = [Role::Viewer, Role::Admin];
    store.change_member(&change, |_, _| true, &gives, &entry("x")).await.unwrap();
    let left = store.invitations(TENANT, now()).await.unwrap();
    let left: Vec<_> = left.into_iter().map(|left| (left.by.0, left.role)).collect();
    assert_eq!(left, [(1, Role::Owner), (1, Role::Admin), (2, Role::Viewer)]);
}
