//! The queue of outgoing mails in the database.

use super::{Mail, MailError, Mailer, address};
use crate::identity::sealing::{SealedFor, Sealing};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use rpcgate_core::clock::Time;
use rpcgate_store::{
    ClaimedMail, Digest, MailStored, NotificationId, OutgoingMail, Store, StoreError, fresh_id,
};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

const TABLE: &str = "outgoing_mails";
/// The number of mails that are sent concurrently. It is more than can wait for one recipient, so that a server that is
/// slow with one recipient does not delay the others.
const AT_ONCE: usize = 24;
/// The time for which a sender claims a mail, unless it renews the claim. If the sender is killed, the mail is due
/// again after this time.
const LEASE: Duration = Duration::from_secs(60);
/// The pause between two renewals. A conversation with a slow server takes longer than [`LEASE`], and no other sender
/// may send the mail meanwhile.
const RENEWAL: Duration = Duration::from_secs(20);
/// The number of tries, one a second, to remove a sent mail. If it stays, it is sent again.
const REMOVALS: u32 = 60;
/// The time within which a mail must be sent. After it, the mail is dropped.
const LIFE: Duration = Duration::from_secs(24 * 3_600);
/// The pauses between the tries of a mail. There is one more try than pauses.
const PAUSES: [Duration; 8] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(20 * 60),
    Duration::from_secs(3_600),
    Duration::from_secs(3 * 3_600),
    Duration::from_secs(6 * 3_600),
    Duration::from_secs(12 * 3_600),
];

/// Counters of mails. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MailCounts(Family<[(&'static str, &'static str); 1], Counter>);

impl MailCounts {
    fn add(&self, outcome: Outcome) {
        self.0.get_or_create(&[("outcome", outcome.name())]).inc();
    }

    /// Returns the names of all outcomes.
    #[cfg(any(test, feature = "testing"))]
    pub fn outcomes() -> [&'static str; 6] {
        Outcome::ALL.map(Outcome::name)
    }

    /// Returns the number of mails with this outcome: `sent`, `postponed`, `rejected`, `refused`, `given_up` or
    /// `dropped`.
    pub fn of(&self, outcome: &'static str) -> u64 {
        self.0.get_or_create(&[("outcome", outcome)]).get()
    }

    /// Returns the counters of all outcomes, as a metric.
    pub fn family(&self) -> Family<[(&'static str, &'static str); 1], Counter> {
        self.0.clone()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// The mail server has accepted it.
    Sent,
    /// It will be tried again.
    Postponed,
    /// It will be tried again, but the mail server answers with a permanent error that an operator has to correct.
    Rejected,
    Refused,
    /// It could not be sent in time, or cannot be read.
    GivenUp,
    /// Too many mails were waiting.
    Dropped,
}

impl Outcome {
    #[cfg(any(test, feature = "testing"))]
    const ALL: [Outcome; 6] = [
        Outcome::Sent,
        Outcome::Postponed,
        Outcome::Rejected,
        Outcome::Refused,
        Outcome::GivenUp,
        Outcome::Dropped,
    ];

    const fn name(self) -> &'static str {
        match self {
            Outcome::Sent => "sent",
            Outcome::Postponed => "postponed",
            Outcome::Rejected => "rejected",
            Outcome::Refused => "refused",
            Outcome::GivenUp => "given_up",
            Outcome::Dropped => "dropped",
        }
    }
}

/// Stores mails and sends those that are due. Clones share the counters and wake each other's senders.
#[derive(Clone, Debug)]
pub struct MailQueue {
    mailer: Arc<Mailer>,
    sealing: Sealing,
    store: Store,
    wake: Arc<Notify>,
    counts: MailCounts,
    /// The reason why the last mail could not be sent, until one is sent.
    failure: Arc<Mutex<Option<String>>>,
    renewal: Duration,
}

#[derive(Serialize, Deserialize)]
struct Content {
    to: String,
    subject: String,
    text: String,
    preferences: Option<String>,
}

impl MailQueue {
    /// Queues mails in `store` and sends them with `mailer`.
    pub fn new(mailer: Mailer, sealing: Sealing, store: Store) -> Self {
        let wake = Arc::default();
        let counts = MailCounts::default();
        let failure = Arc::default();
        MailQueue { mailer: Arc::new(mailer), sealing, store, wake, counts, failure, renewal: RENEWAL }
    }

    /// Takes over the counters and the sender of `other`.
    #[must_use]
    pub fn replacing(self, other: &MailQueue) -> Self {
        let wake = other.wake.clone();
        let counts = other.counts.clone();
        let failure = other.failure.clone();
        MailQueue { wake, counts, failure, ..self }
    }

    /// Returns the counters.
    pub fn counts(&self) -> &MailCounts {
        &self.counts
    }

    /// Stores a mail and wakes the sender. A mail that cannot be sent, or that its address does not accept, is not an
    /// error: the user who typed the address notices that no mail arrives. If too many mails wait for this recipient,
    /// the oldest is dropped; if too many wait in all, this one is.
    ///
    /// # Errors
    /// [`MailError::Store`], and the errors of a mail that cannot be composed.
    pub async fn send(&self, mail: &Mail, now: Time) -> Result<(), MailError> {
        let room = self.store.put_mail(&self.sealed(mail, now)?).await?;
        self.stored([room]);
        Ok(())
    }

    /// Stores the mails about a notification and wakes the sender, unless they were stored before.
    ///
    /// # Errors
    /// Those of [`send`](MailQueue::send).
    pub async fn send_once(
        &self,
        notification: NotificationId,
        mails: &[Mail],
        now: Time,
    ) -> Result<(), MailError> {
        let rows = self.sealed_all(mails, now)?;
        let rooms = self.store.put_mails_once(notification, &rows, now).await?;
        self.stored(rooms);
        Ok(())
    }

    /// Returns the stored form of mails, for a store that writes other rows in the same transaction. The caller passes
    /// the result of that to [`stored`](MailQueue::stored).
    pub(crate) fn sealed_all(&self, mails: &[Mail], now: Time) -> Result<Vec<OutgoingMail>, MailError> {
        mails.iter().map(|mail| self.sealed(mail, now)).collect()
    }

    /// Counts the mails that were dropped because too many waited, and wakes the sender.
    pub(crate) fn stored(&self, rooms: impl IntoIterator<Item = MailStored>) {
        for room in rooms {
            match room {
                MailStored::Found => {}
                MailStored::Made => {
                    tracing::warn!("the oldest mail of a recipient is dropped: too many are waiting already");
                    self.counts.add(Outcome::Dropped);
                }
                MailStored::Full => {
                    tracing::error!("a mail is dropped: too many are waiting already");
                    self.counts.add(Outcome::Dropped);
                }
            }
        }
        self.wake.notify_one();
    }

    fn sealed(&self, mail: &Mail, now: Time) -> Result<OutgoingMail, MailError> {
        let id = fresh_id(now);
        // The caller gets the error of a mail that cannot be composed now.
        self.mailer.compose(mail, id, now)?;
        let content = Content {
            to: mail.to.to_string(),
            subject: mail.subject.clone(),
            text: mail.text.clone(),
            preferences: mail.preferences.clone(),
        };
        let content = serde_json::to_vec(&content).map_err(|error| MailError::Compose(error.to_string()))?;
        let content = self.sealing.seal(SealedFor { table: TABLE, row: id }, &content);
        Ok(OutgoingMail {
            id,
            recipient: Digest::of(mail.to.as_str()),
            content: content.map_err(|error| MailError::Compose(error.to_string()))?,
            created_at: now,
            expires_at: now.plus(mail.useful_for.map_or(LIFE, |useful| useful.min(LIFE))),
        })
    }

    /// Waits until a mail is stored through this queue or a clone.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Sends the mails that are due, several concurrently. Returns the number of mails it has worked on, 0 if none is
    /// due.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn deliver(&self, now: Time) -> Result<usize, StoreError> {
        let mut works = JoinSet::new();
        let worked = self.begin(&mut works, AT_ONCE, now).await?;
        while works.join_next().await.is_some() {}
        Ok(worked)
    }

    /// Starts to send the mails that are due, in tasks of `works`. It waits for none of them, so that a slow server
    /// delays no other mail.
    pub async fn begin_due(&self, works: &mut JoinSet<()>, now: Time) -> Result<(), StoreError> {
        loop {
            while works.try_join_next().is_some() {}
            let free = AT_ONCE.saturating_sub(works.len());
            if free == 0 || self.begin(works, free, now).await? == 0 {
                return Ok(());
            }
        }
    }

    /// Claims up to `limit` mails that are due, starts to send them, and returns their number, including the expired
    /// ones. If this program stops meanwhile, the mails are due again after a minute.
    async fn begin(&self, works: &mut JoinSet<()>, limit: usize, now: Time) -> Result<usize, StoreError> {
        if !self.store.are_mails_due(now).await? {
            return Ok(0);
        }
        let claimed = self.store.claim_mails(limit as u64, LEASE, now).await?;
        for _ in 0..claimed.expired {
            tracing::error!("a mail was not sent in time and is given up");
            self.counts.add(Outcome::GivenUp);
        }
        let expired = usize::try_from(claimed.expired).unwrap_or(usize::MAX);
        let worked = expired.saturating_add(claimed.mails.len());
        for mail in claimed.mails {
            let queue = self.clone();
            let work = async move {
                match queue.attempt(&mail, now).await {
                    Ok(outcome) => queue.counts.add(outcome),
                    Err(error) => tracing::debug!(%error, "mails wait for the database"),
                }
            };
            works.spawn(work.in_current_span());
        }
        Ok(worked)
    }

    async fn attempt(&self, claimed: &ClaimedMail, now: Time) -> Result<Outcome, StoreError> {
        let begun = Instant::now();
        let sent = match self.open(claimed) {
            Ok(mail) => {
                let sending = self.mailer.send(&mail, claimed.id, claimed.created_at);
                self.renewing(claimed, now, sending).await
            }
            Err(error) => Err(error),
        };
        let tries = usize::try_from(claimed.tries).unwrap_or(usize::MAX);
        let pause = PAUSES.get(tries.saturating_sub(1));
        let outcome = match (sent, pause) {
            (Ok(()), _) => {
                self.forget_failure();
                Outcome::Sent
            }
            (Err(MailError::Refused(why)), _) => {
                self.forget_failure();
                tracing::warn!(why, "the recipient of a mail was refused");
                Outcome::Refused
            }
            (
                Err(error @ (MailError::Unavailable(_) | MailError::Rejected(_) | MailError::Outbox { .. })),
                Some(pause),
            ) => {
                self.report(&error, tries);
                // The pause starts at the end of the try, which may have taken minutes.
                let taken = Duration::from_secs(begun.elapsed().as_secs());
                self.store.postpone_mail(claimed, now.plus(taken).plus(*pause)).await?;
                let is_rejected = matches!(error, MailError::Rejected(_));
                return Ok(if is_rejected { Outcome::Rejected } else { Outcome::Postponed });
            }
            (Err(error), _) => {
                tracing::error!(%error, tries, "a mail could not be sent and is given up");
                Outcome::GivenUp
            }
        };
        self.remove(claimed.id).await?;
        Ok(outcome)
    }

    async fn renewing<T>(&self, claimed: &ClaimedMail, now: Time, sending: impl Future<Output = T>) -> T {
        tokio::select! {
            sent = sending => sent,
            never = self.renew(claimed, now) => match never {},
        }
    }

    /// Renews the claim of a mail that was claimed at `now`, until the future is dropped.
    async fn renew(&self, claimed: &ClaimedMail, now: Time) -> Infallible {
        let begun = Instant::now();
        loop {
            tokio::time::sleep(self.renewal).await;
            let until = now.plus(begun.elapsed()).plus(LEASE);
            if let Err(error) = self.store.renew_mail(claimed, until).await {
                tracing::debug!(%error, "the claim of a mail could not be renewed");
            }
        }
    }

    /// Removes a mail. It retries, because a short database outage must not cause a second copy.
    async fn remove(&self, id: u128) -> Result<(), StoreError> {
        for _ in 1..REMOVALS {
            if self.store.remove_mail(id).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.store.remove_mail(id).await
    }

    /// Logs why a mail could not be sent. During an outage of a server all waiting mails fail repeatedly for the same
    /// reason, so each reason is logged once.
    fn report(&self, error: &MailError, tries: usize) {
        if !self.is_new_failure(&error.to_string()) {
            tracing::debug!(%error, tries, "a mail could not be sent and will be retried");
        } else if matches!(error, MailError::Rejected(_)) {
            tracing::error!(%error, tries, "a mail could not be sent and will be retried");
        } else {
            tracing::warn!(%error, tries, "a mail could not be sent and will be retried");
        }
    }

    fn is_new_failure(&self, why: &str) -> bool {
        let mut known = self.failure.lock();
        let is_new = known.as_deref() != Some(why);
        if is_new {
            *known = Some(why.to_owned());
        }
        is_new
    }

    fn forget_failure(&self) {
        if self.failure.lock().take().is_some() {
            tracing::info!("mails are sent again");
        }
    }

    fn open(&self, claimed: &ClaimedMail) -> Result<Mail, MailError> {
        let row = SealedFor { table: TABLE, row: claimed.id };
        let content = self.sealing.open(row, &claimed.content);
        let content = content.map_err(|error| MailError::Compose(error.to_string()))?;
        let content: Content =
            serde_json::from_slice(&content).map_err(|error| MailError::Compose(error.to_string()))?;
        let to = address(&content.to).map_err(|error| MailError::Compose(error.to_string()))?;
        let mail = Mail::new(to, content.subject, content.text);
        Ok(match content.preferences {
            Some(url) => mail.with_preferences(url),
            None => mail,
        })
    }
}

#[cfg(test)]
mod tests;
