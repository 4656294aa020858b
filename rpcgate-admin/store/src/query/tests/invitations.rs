use super::*;
use crate::query::invitations::MAX_OPEN;
use crate::{
    AuditSubject, Invitation, InvitationAcceptance, InvitationId, InviteOutcome, Registered, Registration,
    Swept,
};

const WEEK: u64 = 7 * 86_400;

pub(super) fn invitation(number: u128, by: u128) -> Invitation {
    Invitation {
        id: InvitationId(1_000 + number),
        tenant: TENANT,
        by: UserId(by),
        email: format!("guest-{number}@b.example"),
        role: Role::Developer,
        created_at: now(),
        expires_at: later(WEEK),
    }
}

fn token(number: u128) -> Digest {
    Digest::of(&format!("invitation {number}"))
}

/// Creates an invitation with the token that has this number, by a user with the permission.
pub(super) async fn invite(store: &Store, invitation: &Invitation, number: u128) -> InviteOutcome {
    store.invite(invitation, &token(number), |_| true, &entry("member.invited")).await.unwrap()
}

async fn join(store: &Store, number: u128, user: u128, now: Time) -> Result<Option<User>, StoreError> {
    let joining = InvitationAcceptance {
        token: token(number),
        user: UserId(user),
        name: "Ada",
        password: "$argon2id$secret",
    };
    let entry = Audit { tenant: None, user: None, subject: String::new(), ..entry("member.joined") };
    store.join(&joining, &entry, now).await
}

/// A store with an owner, who is the user 1.
async fn owned() -> (TestDatabase, Store) {
    let (dir, store) = empty().await;
    store.create_user(&user(1, "owner@b.example")).await.unwrap();
    (dir, store)
}

#[tokio::test]
async fn an_invitation_is_stored_and_listed_for_its_tenant() {
    let (_dir, store) = owned().await;
    let made = Invitation { email: "Guest@B.example".into(), role: Role::Billing, ..invitation(1, 1) };
    assert_eq!(invite(&store, &made, 1).await, InviteOutcome::Created);
    let kept = Invitation { email: "guest@b.example".into(), ..made };
    assert_eq!(store.invitations(TENANT, now()).await.unwrap(), std::slice::from_ref(&kept));
    assert_eq!(store.invitation(TENANT, kept.id, now()).await.unwrap(), Some(kept.clone()));
    assert_eq!(store.invitation_by_token(&token(1), now()).await.unwrap(), Some(kept.clone()));
    assert_eq!(store.invitation_by_token(&token(2), now()).await.unwrap(), None);
    assert_eq!(store.invitations(OTHER, now()).await.unwrap(), []);
    assert_eq!(store.invitation(OTHER, kept.id, now()).await.unwrap(), None);
    let over = later(WEEK);
    assert_eq!(store.invitations(TENANT, over).await.unwrap(), []);
    assert_eq!(store.invitation(TENANT, kept.id, over).await.unwrap(), None);
    assert_eq!(store.invitation_by_token(&token(1), over).await.unwrap(), None);
    assert_eq!(store.newest_change().await.unwrap(), 0, "no gateway needs the change");
}

#[tokio::test]
async fn a_second_invitation_of_an_address_replaces_the_first() {
    let (_dir, store) = owned().await;
    invite(&store, &invitation(1, 1), 1).await;
    let again = Invitation { id: InvitationId(7), email: "GUEST-1@b.example".into(), ..invitation(1, 1) };
    assert_eq!(invite(&store, &again, 2).await, InviteOutcome::Created);
    let open = store.invitations(TENANT, now()).await.unwrap();
    assert_eq!(open.iter().map(|open| open.id).collect::<Vec<_>>(), [again.id]);
    assert_eq!(join(&store, 1, 5, now()).await.unwrap(), None, "the first token is good for nothing");
    let other = Invitation { id: InvitationId(8), tenant: OTHER, by: UserId(2), ..invitation(1, 2) };
    let known = User { tenant: Some(OTHER), confirmed_at: Some(now()), ..user(2, "other@b.example") };
    store.create_user(&known).await.unwrap();
    assert_eq!(invite(&store, &other, 3).await, InviteOutcome::Created, "another tenant's stands beside");
    assert_eq!(rows(&store, "invitations").await, 2);
}

#[tokio::test]
async fn without_permission_or_for_a_member_no_invitation_is_created() {
    let (_dir, store) = owned().await;
    let known = User { tenant: Some(OTHER), confirmed_at: Some(now()), ..user(2, "other@b.example") };
    store.create_user(&known).await.unwrap();
    let permitted = async |invitation: &Invitation, permits: fn(Role) -> bool| {
        store.invite(invitation, &token(9), permits, &entry("x")).await.unwrap()
    };
    assert_eq!(permitted(&invitation(1, 1), |by| by != Role::Owner).await, InviteOutcome::Refused);
    assert_eq!(permitted(&invitation(1, 2), |_| true).await, InviteOutcome::Refused, "no member");
    let member = Invitation { email: "OWNER@b.example".into(), ..invitation(1, 1) };
    assert_eq!(permitted(&member, |_| true).await, InviteOutcome::Member);
    assert_eq!((rows(&store, "invitations").await, rows(&store, "audit").await), (0, 0));
    let known = Invitation { email: "Other@b.example".into(), ..invitation(1, 1) };
    assert_eq!(permitted(&known, |by| by == Role::Owner).await, InviteOutcome::HasAccount);
    assert_eq!((rows(&store, "invitations").await, rows(&store, "audit").await), (1, 1));
}

#[tokio::test]
async fn open_invitations_and_members_have_a_bound() {
    let (_dir, store) = owned().await;
    for number in 0..u128::from(MAX_OPEN) {
        assert_eq!(invite(&store, &invitation(number, 1), number).await, InviteOutcome::Created);
    }
    let more = invitation(500, 1);
    let refused = async |invitation: &Invitation| {
        let made = store.invite(invitation, &token(999), |_| true, &entry("x")).await;
        made.unwrap_err().to_string()
    };
    let full = refused(&more).await;
    assert_eq!(full, "a tenant may have 100 open invitations: withdraw one, or wait until one expires");
    let again = Invitation { id: InvitationId(7), ..invitation(3, 1) };
    assert_eq!(invite(&store, &again, 501).await, InviteOutcome::Created, "in the place of another");
    store.withdraw_invitation(TENANT, InvitationId(1_005), now()).await.unwrap();
    assert_eq!(invite(&store, &more, 500).await, InviteOutcome::Created);
    let week = later(WEEK);
    let late = Invitation { created_at: week, expires_at: later(2 * WEEK), ..invitation(600, 1) };
    assert_eq!(invite(&store, &late, 600).await, InviteOutcome::Created, "what has expired does not count");
    let counts = CountsChange { members: Some(1), ..CountsChange::default() };
    let change = PlanChange { counts, ..PlanChange::default() };
    store.put_plan(tenant(TENANT).tier, &change, now()).await.unwrap();
    let crowded = refused(&Invitation { id: InvitationId(9), ..late }).await;
    assert_eq!(crowded, "the plan allows 1 members: remove one, or ask for a larger plan");
    assert_eq!(rows(&store, "audit").await, 103, "a refused request leaves no entry");
}

// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_acceptances_succeed_up_to_the_limit_of_the_plan() {
    let (_dir, store) = owned().await;
    store.set_tier(TENANT, Tier::Free, now()).await.unwrap();
    for number in 0..6 {
        invite(&store, &invitation(number, 1), number).await;
    }
    let joined = at_once(6, |number| {
        let store = store.clone();
        async move { join(&store, number, 10 + number, now()).await }
    });
    let joined = joined.await;
    assert_eq!(joined.iter().filter(|one| one.is_ok()).count(), 2, "there is the owner already");
    for refused in joined.into_iter().filter_map(Result::err) {
        assert_eq!(refused.to_string(), "the plan allows 3 members: remove one, or ask for a larger plan");
    }
    assert_eq!(store.members(TENANT).await.unwrap().len(), 3);
    assert_eq!(
        rows(&store, "invitations").await,
        4,
        "a user who cannot join yet can join once there is room"
    );
}

#[tokio::test]
async fn an_invitation_is_withdrawn_once_and_by_its_tenant() {
    let (_dir, store) = owned().await;
    invite(&store, &invitation(1, 1), 1).await;
    let id = invitation(1, 1).id;
    let withdraw = async |tenant, now| store.withdraw_invitation(tenant, id, now).await;
    for (tenant, now) in [(OTHER, now()), (TENANT, later(WEEK))] {
        assert_eq!(withdraw(tenant, now).await.unwrap_err().to_string(), "there is no such invitation");
    }
    withdraw(TENANT, now()).await.unwrap();
    assert_eq!(withdraw(TENANT, now()).await.unwrap_err().to_string(), "there is no such invitation");
    assert_eq!(join(&store, 1, 5, now()).await.unwrap(), None);
}

#[tokio::test]
async fn a_new_member_is_confirmed_and_has_the_role_of_the_invitation() {
    let (_dir, store) = owned().await;
    invite(&store, &Invitation { role: Role::Billing, ..invitation(1, 1) }, 1).await;
    assert_eq!(join(&store, 1, 5, later(WEEK)).await.unwrap(), None, "too late");
    let at = later(WEEK - 1);
    let expected = User {
        id: UserId(5),
        tenant: Some(TENANT),
        email: "guest-1@b.example".into(),
        name: "Ada".into(),
        role: Role::Billing,
        password: Some("$argon2id$secret".into()),
        confirmed_at: Some(at),
        created_at: at,
    };
    assert_eq!(join(&store, 1, 5, at).await.unwrap(), Some(expected.clone()));
    assert_eq!(store.user(UserId(5)).await.unwrap(), Some(expected));
    assert_eq!(join(&store, 1, 6, at).await.unwrap(), None, "used");
    let [noted] = &store.audit(AuditSubject::User(UserId(5)), 9).await.unwrap()[..] else { panic!() };
    assert_eq!((noted.tenant, noted.subject.as_str()), (Some(TENANT), &*UserId(5).to_string()));
    assert_eq!((noted.action.as_str(), noted.detail.as_str()), ("member.joined", "billing"));
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn an_invited_user_replaces_an_account_that_was_never_confirmed() {
    let (_dir, store) = owned().await;
    store.create_user(&User { tenant: Some(OTHER), ..user(2, "guest-1@b.example") }).await.unwrap();
    assert_eq!(invite(&store, &invitation(1, 1), 1).await, InviteOutcome::Created);
    assert!(join(&store, 1, 5, now()).await.unwrap().is_some());
    assert_eq!(store.user(UserId(2)).await.unwrap(), None);
    assert_eq!(store.user_by_email("guest-1@b.example").await.unwrap().unwrap().tenant, Some(TENANT));
}

#[tokio::test]
async fn an_address_with_an_account_cannot_join_and_uses_no_invitation() {
    let (_dir, store) = owned().await;
    invite(&store, &invitation(1, 1), 1).await;
    let confirmed = User { tenant: Some(OTHER), confirmed_at: Some(now()), ..user(2, "guest-1@b.example") };
    store.create_user(&confirmed).await.unwrap();
    let error = join(&store, 1, 5, now()).await.unwrap_err();
    assert_eq!(error.to_string(), "there is already a user with this e-mail address");
    assert_eq!(store.user(UserId(2)).await.unwrap().unwrap().tenant, Some(OTHER));
    assert_eq!((rows(&store, "invitations").await, rows(&store, "users").await), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_acceptances_with_one_token_succeeds() {
    let (dir, store) = owned().await;
    let second = dir.store_within(Duration::from_secs(60)).await.unwrap();
    invite(&store, &invitation(1, 1), 1).await;
    let done = at_once(20, |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move { join(&store, 1, 100 + number, now()).await.unwrap() }
    });
    assert_eq!(done.await.into_iter().flatten().count(), 1);
    assert_eq!((rows(&store, "users").await, rows(&store, "invitations").await), (2, 0));
}

#[tokio::test]
async fn expired_invitations_are_swept_and_those_of_a_tenant_go_with_it() {
    let (_dir, store) = owned().await;
    invite(&store, &invitation(1, 1), 1).await;
    assert_eq!(store.sweep(later(WEEK - 1)).await.unwrap().invitations, 0);
    let swept = store.sweep(later(WEEK)).await.unwrap();
    assert_eq!(swept.invitations, 1);
    assert_eq!(rows(&store, "invitations").await, 0);

    // A tenant with an unconfirmed owner has no invitations made through the API; if it has one nevertheless, that does
    // not keep the tenant.
    let id = TenantId(77);
    let owner = User { tenant: Some(id), created_at: now(), ..user(7, "late@b.example") };
    let registration = Registration {
        tenant: &Tenant { tier: Tier::Free, ..tenant(id) },
        user: &owner,
        confirmation: Digest::of("c"),
        confirmation_expires_at: later(1),
        solved: None,
    };
    let made = store.register(&registration, &entry("x"), now()).await.unwrap();
    assert_eq!(made, Registered::Done);
    let theirs = Invitation { tenant: id, expires_at: later(9 * WEEK), ..invitation(2, 7) };
    assert_eq!(invite(&store, &theirs, 2).await, InviteOutcome::Created);
    let Swept { accounts, .. } = store.sweep(later(WEEK)).await.unwrap();
    assert!(accounts >= 1 && store.tenant(id).await.unwrap().is_none());
    assert_eq!(rows(&store, "invitations").await, 0);
}

#[test]
fn no_password_is_shown_by_debug() {
    let joining =
        InvitationAcceptance { token: token(1), user: UserId(1), name: "Ada", password: "$argon2id$secret" };
    let shown = format!("{joining:?}");
    assert!(shown.contains("Ada") && !shown.contains("argon2"), "{shown}");
}
