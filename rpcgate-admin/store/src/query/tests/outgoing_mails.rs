use super::*;
use crate::{ClaimedMails, MailStored, OutgoingMail};

fn mail(id: u128, recipient: &str) -> OutgoingMail {
    OutgoingMail {
        id,
        recipient: Digest::of(recipient),
        content: vec![u8::try_from(id % 256).unwrap()],
        created_at: later(id as u64),
        expires_at: later(86_400),
    }
}

async fn claim(store: &Store, limit: u64, at: Time) -> Vec<u128> {
    let claimed = store.claim_mails(limit, Duration::from_secs(60), at).await.unwrap();
    claimed.mails.iter().map(|mail| mail.id).collect()
}

#[tokio::test]
async fn a_mail_is_claimed_when_it_is_due_and_again_when_the_lease_is_over() {
    let (_dir, store) = empty().await;
    assert!(!store.are_mails_due(later(9)).await.unwrap());
    for id in [3, 1, 2] {
        assert_eq!(store.put_mail(&mail(id, "a")).await.unwrap(), MailStored::Found);
    }
    assert_eq!(claim(&store, 9, now()).await, [0; 0], "none is due");
    assert!(store.are_mails_due(later(9)).await.unwrap());
    assert_eq!(claim(&store, 2, later(9)).await, [1, 2], "those that were due first");
    assert_eq!(claim(&store, 9, later(9)).await, [3]);
    assert!(!store.are_mails_due(later(68)).await.unwrap());
    let again = store.claim_mails(9, Duration::from_secs(60), later(69)).await.unwrap();
    assert_eq!(
        again.mails.iter().map(|mail| (mail.id, mail.tries)).collect::<Vec<_>>(),
        [(1, 2), (2, 2), (3, 2)]
    );
    let [first, second, _] = &again.mails[..] else { panic!("there are three") };
    assert_eq!((&first.content[..], first.created_at), (&[1][..], later(1)));
    store.remove_mail(first.id).await.unwrap();
    store.postpone_mail(second, later(70)).await.unwrap();
    assert_eq!(claim(&store, 9, later(70)).await, [2]);
    store.postpone_mail(second, later(71)).await.unwrap();
    assert_eq!(claim(&store, 9, later(71)).await, [0; 0], "another sender has it by now");
    assert_eq!(store.waiting_mails().await.unwrap(), 2);
    store.remove_mail(first.id).await.unwrap();
}

#[tokio::test]
async fn an_expired_mail_is_removed_instead_of_claimed() {
    let (_dir, store) = empty().await;
    store.put_mail(&mail(1, "a")).await.unwrap();
    store.put_mail(&OutgoingMail { expires_at: later(200_000), ..mail(2, "a") }).await.unwrap();
    let claimed = store.claim_mails(9, Duration::from_secs(60), later(86_399)).await.unwrap();
    store.postpone_mail(&claimed.mails[0], later(90_000)).await.unwrap();
    assert!(store.are_mails_due(later(86_400)).await.unwrap(), "due when it expires");
    let ClaimedMails { mails, expired } =
        store.claim_mails(9, Duration::from_secs(60), later(86_459)).await.unwrap();
    assert_eq!((mails.len(), expired, store.waiting_mails().await.unwrap()), (1, 1, 1));
}

// Shows (Mails and notifications): The waiting mails are bounded per recipient and in total (promise 70).
#[tokio::test]
async fn the_mails_that_wait_are_bounded_per_recipient_and_in_total() {
    let (_dir, store) = empty().await;
    for id in 1..=20 {
        assert_eq!(store.put_mail(&mail(id, "a")).await.unwrap(), MailStored::Found);
    }
    assert_eq!(store.put_mail(&mail(21, "a")).await.unwrap(), MailStored::Made);
    assert_eq!(claim(&store, 1, later(99)).await, [2], "the oldest one is gone");
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9980) \
                INSERT INTO outgoing_mails (id, recipient, content, tries, created_at, due_at, expires_at) \
                SELECT randomblob(16), randomblob(32), randomblob(32), 0, 1, 1, 2 FROM n";
    fill(&store, many).await;
    assert_eq!(store.put_mail(&mail(22, "b")).await.unwrap(), MailStored::Full);
    assert_eq!(store.put_mail(&mail(23, "a")).await.unwrap(), MailStored::Made);
    assert_eq!(store.waiting_mails().await.unwrap(), 10_000);
}

// Shows (Mails and notifications).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_mail_goes_to_one_of_parallel_senders() {
    let (site, store) = empty().await;
    let second = site.store_within(Duration::from_secs(60)).await.unwrap();
    for id in 0..40 {
        store.put_mail(&mail(id, &id.to_string())).await.unwrap();
    }
    let claims = at_once(20, |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move { claim(&store, 3, later(99)).await }
    });
    let mut claimed = claims.await.concat();
    claimed.sort_unstable();
    assert_eq!(claimed, (0..40).collect::<Vec<_>>());
}
