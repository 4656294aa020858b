use super::*;
use crate::{AccountNotice, NotificationId, NotificationKind, NotificationPreference, OutgoingMail};

fn notice(id: u128, user: Option<UserId>) -> AccountNotice {
    AccountNotice {
        id: NotificationId(id),
        tenant: TENANT,
        user,
        kind: NotificationKind::Invoice,
        text: format!("Rechnung {id}: 7 €"),
        at: later(id as u64),
    }
}

async fn ids(store: &Store, tenant: TenantId, user: UserId) -> Vec<u128> {
    store.notices(tenant, user).await.unwrap().iter().map(|notice| notice.id.0).collect()
}

#[tokio::test]
async fn a_notice_is_seen_by_its_user_or_by_all_of_its_tenant() {
    let (_dir, store) = empty().await;
    store.create_user(&user(1, "a@b.example")).await.unwrap();
    store.create_user(&user(2, "c@d.example")).await.unwrap();
    for one in [notice(11, None), notice(12, Some(UserId(1)))] {
        store.put_notice(&one).await.unwrap();
    }
    assert_eq!(ids(&store, TENANT, UserId(1)).await, [12, 11]);
    assert_eq!(ids(&store, TENANT, UserId(2)).await, [11]);
    assert_eq!(ids(&store, OTHER, UserId(1)).await, [0; 0]);
    let found =
        async |tenant, user, id| store.notice(tenant, UserId(user), NotificationId(id)).await.unwrap();
    assert_eq!(found(TENANT, 1, 12).await, Some(notice(12, Some(UserId(1)))));
    assert_eq!(found(TENANT, 2, 12).await, None);
    assert_eq!(found(OTHER, 1, 11).await, None);
    let lost = AccountNotice { tenant: TenantId(99), ..notice(13, None) };
    assert_eq!(store.put_notice(&lost).await.unwrap_err().to_string(), "there is no such tenant or user");
}

#[tokio::test]
async fn unread_notices_of_a_user_are_counted_up_to_a_bound() {
    let (_dir, store) = empty().await;
    for id in [1, 2] {
        let email = format!("{id}@b.example");
        store.create_user(&User { confirmed_at: Some(now()), ..user(id, &email) }).await.unwrap();
    }
    for one in [notice(11, None), notice(12, Some(UserId(1))), notice(13, Some(UserId(2)))] {
        store.put_notice(&one).await.unwrap();
    }
    let security = AccountNotice { kind: NotificationKind::Security, ..notice(14, Some(UserId(1))) };
    store.put_notice(&security).await.unwrap();
    let others: Vec<_> = (21..26).map(NotificationId).collect();
    let unread = async |user, kinds: &[NotificationKind], others: &[NotificationId], limit| {
        store.unread_notifications((TENANT, UserId(user)), kinds, others, limit).await.unwrap()
    };
    let all = NotificationKind::ALL;
    assert_eq!(unread(1, &all, &others, 100).await, 3 + 5);
    assert_eq!(unread(1, &[NotificationKind::Invoice], &[], 100).await, 2);
    assert_eq!(unread(1, &[], &[], 100).await, 0);
    assert_eq!(unread(2, &all, &[], 100).await, 2);
    for limit in [1, 2, 5, 7] {
        assert_eq!(unread(1, &all, &others, limit).await, limit);
    }
    store.read_these_notifications(UserId(1), &[NotificationId(11), others[0]], now()).await.unwrap();
    assert_eq!(unread(1, &all, &others, 100).await, 2 + 4);
    assert_eq!(unread(2, &all, &others, 100).await, 2 + 5, "somebody else has read them");
}

// Shows (Mails and notifications).
#[tokio::test]
async fn the_newest_thousand_notices_of_a_tenant_are_kept_for_400_days() {
    let (_dir, store) = empty().await;
    store.create_user(&User { confirmed_at: Some(now()), ..user(1, "a@b.example") }).await.unwrap();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1005) \
                INSERT INTO notices (id, tenant_id, kind, text, at) \
                SELECT randomblob(16), id, 'billing.invoice', 'x', i FROM n, tenants";
    fill(&store, many).await;
    store.put_notice(&notice(7, None)).await.unwrap();
    assert_eq!(rows(&store, "notices").await, 1_000 + 1_005, "those of the other tenant stay");
    assert_eq!(ids(&store, TENANT, UserId(1)).await[0], 7);
    let own = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
               INSERT INTO notices (id, tenant_id, user_id, kind, text, at) \
               SELECT randomblob(16), tenant_id, id, 'account.security', 'x', i FROM n, users";
    fill(&store, own).await;
    store.put_notice(&notice(8, Some(UserId(1)))).await.unwrap();
    assert_eq!(rows(&store, "notices").await, 2_005 + 1_000, "those of a user push out none for all");
    let swept = store.sweep(later(8 + 400 * 86_400)).await.unwrap();
    assert_eq!((swept.notices, rows(&store, "notices").await), (3_005, 0));
}

#[tokio::test]
async fn choices_of_users_are_kept_until_they_choose_again() {
    let (_dir, store) = empty().await;
    let spike = NotificationKind::RateLimitedSpike;
    let invoice = NotificationKind::Invoice;
    store.create_user(&User { confirmed_at: Some(now()), ..user(1, "a@b.example") }).await.unwrap();
    store.create_user(&User { confirmed_at: Some(now()), ..user(2, "c@d.example") }).await.unwrap();
    store.create_user(&user(3, "e@f.example")).await.unwrap();
    let prefer = |shown, mail| NotificationPreference { shown, mail };
    for (kind, preference) in
        [(spike, prefer(true, true)), (invoice, prefer(false, true)), (spike, prefer(false, true))]
    {
        store.put_notification_preference(UserId(1), kind, preference).await.unwrap();
    }
    let chosen = store.notification_preferences(UserId(1)).await.unwrap();
    assert_eq!(chosen, [(spike, prefer(false, true)), (invoice, prefer(false, true))].into());
    assert_eq!(store.notification_preferences(UserId(2)).await.unwrap(), [].into());
    let audience = store.notification_audience(TENANT, spike).await.unwrap();
    let audience: Vec<_> = audience.iter().map(|(user, chosen)| (user.id.0, *chosen)).collect();
    assert_eq!(audience, [(1, Some(prefer(false, true))), (2, None)], "without the unconfirmed one");
    assert_eq!(store.notification_audience(OTHER, spike).await.unwrap(), []);
    let error = store.put_notification_preference(UserId(9), spike, prefer(true, true)).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no such user");
}

// Shows (Mails and notifications).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_parallel_janitors_writes_the_mails_of_a_notification() {
    let (site, store) = empty().await;
    let second = site.store_within(Duration::from_secs(60)).await.unwrap();
    let written = at_once(8, |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move {
            let mail = OutgoingMail {
                id: number,
                recipient: Digest::of("a"),
                content: Vec::new(),
                created_at: now(),
                expires_at: later(9),
            };
            store.put_mails_once(NotificationId(7), &[mail], now()).await.unwrap().len()
        }
    });
    assert_eq!(written.await.iter().sum::<usize>(), 1);
    assert_eq!(store.waiting_mails().await.unwrap(), 1);
    assert_eq!(store.sweep(later(7 * 86_400)).await.unwrap().mailed_notifications, 1);
}
