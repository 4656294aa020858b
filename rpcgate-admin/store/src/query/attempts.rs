//! Limits on attempts in 15 minutes: passwords, and mails to an address. An attempt counts as failed before the
//! password is verified, so that parallel attempts gain nothing over sequential ones.

use super::digest::Digest;
use super::users::stored_email;
use super::value::{moment, time};
use crate::entity::attempts::{Column, Entity};
use crate::{Store, StoreError, fresh_id};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, SimpleExpr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;

/// The kind of an attempt. Each kind has its own count, so that one kind cannot use up another: everyone who knows an
/// address can lock its log-in temporarily, but not its mails or the actions of its logged-in owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptKind<'c> {
    /// Passwords given to log in with this address.
    LogIns(&'c str),
    /// Passwords given by a logged-in user with this address.
    Checks(&'c str),
    /// Second factors given by the user with this address, at a log-in or later.
    Factors(&'c str),
    /// Mails to this address because it is being registered.
    Registrations(&'c str),
    /// Mails to this address that its owner requests to confirm it.
    Confirmations(&'c str),
    /// Mails to this address because of a forgotten password.
    Resets(&'c str),
    /// Mails that the user with this address requests in order to change it.
    EmailChanges(&'c str),
    /// Mails to this address because a user wants to change to it.
    NewEmails(&'c str),
    /// Mails that invite this address to join any tenant.
    Invitations(&'c str),
    /// Name changes of the user with this address.
    Names(&'c str),
    /// Mails to this address about keys that its owner has created or revoked.
    KeyMails(&'c str),
    /// Mails to operators about tickets of this tenant.
    TicketMails(TenantId),
    /// Log-ins and registrations of clients in this network.
    Clients(&'c str),
}

impl AttemptKind<'_> {
    fn digest(self) -> Digest {
        let (kind, email, tenant) = match self {
            AttemptKind::LogIns(email) => ("log-in", email, None),
            AttemptKind::Checks(email) => ("check", email, None),
            AttemptKind::Factors(email) => ("factor", email, None),
            AttemptKind::Registrations(email) => ("registration", email, None),
            AttemptKind::Confirmations(email) => ("confirmation", email, None),
            AttemptKind::Resets(email) => ("reset", email, None),
            AttemptKind::EmailChanges(email) => ("e-mail change", email, None),
            AttemptKind::NewEmails(email) => ("new e-mail", email, None),
            AttemptKind::Invitations(email) => ("invitation", email, None),
            AttemptKind::Names(email) => ("name", email, None),
            AttemptKind::KeyMails(email) => ("key mail", email, None),
            AttemptKind::TicketMails(tenant) => ("ticket mail", "", Some(tenant)),
            AttemptKind::Clients(network) => ("client", network, None),
        };
        let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
        // Neither the kind nor the tenant contains a line break, so the parts stay distinct for any address.
        Digest::of(&format!("{kind}\n{tenant}\n{}", stored_email(email)))
    }
}

/// The number of attempts within [`LOCK`] that locks their subject.
pub const ATTEMPTS: u64 = 5;

/// The duration of a lock, counted from the last of these attempts.
pub const LOCK: Duration = Duration::from_secs(15 * 60);

/// The age up to which attempts matter: they lie within one [`LOCK`], and the lock lasts another.
pub(super) const KEPT: Duration = LOCK.saturating_mul(2);

/// The decision on whether a password may be verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    /// It may be verified. The attempt counts as failed until the ticket is redeemed.
    Allowed(AttemptTicket),
    /// The address is locked until this time.
    Locked(Time),
}

/// An attempt that was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptTicket {
    pub(super) id: Uuid,
    pub(super) subject: Digest,
    pub(super) locks: bool,
}

impl AttemptTicket {
    /// Reports whether this attempt locks its subject if it fails, which is true of one attempt before each lock.
    pub const fn locks(&self) -> bool {
        self.locks
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AttemptBound {
    Lock,
    /// At most this number of attempts in any 60 seconds.
    PerMinute(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NewAttempt {
    pub(super) id: Uuid,
    pub(super) subject: Digest,
    pub(super) bound: AttemptBound,
    pub(super) now: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AttemptWrite {
    Count(NewAttempt),
    Forgive(Digest),
    Withdraw(AttemptTicket),
}

pub(super) fn is_old(now: Time) -> Condition {
    Condition::all().add(Column::At.lte(moment(now) - micros(KEPT)))
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Selects attempts that can cause a lock at `now`. Those further in the future are ignored: a clock that stepped back
/// must not lock an address for that long.
fn is_relevant(now: Time) -> SimpleExpr {
    Column::At.between(moment(now) - micros(KEPT), moment(now.plus(LOCK)))
}

pub(super) fn lock_end(newest: &[i64], now: Time) -> Option<Time> {
    let last = newest.first()?;
    let first = newest.get(ATTEMPTS as usize - 1)?;
    let until = time(*last).plus(LOCK);
    (last - first < micros(LOCK) && now < until).then_some(until)
}

fn password_subjects(email: &str) -> [Vec<u8>; 2] {
    [AttemptKind::LogIns(email), AttemptKind::Checks(email)].map(|kind| kind.digest().bytes())
}

/// Returns the subjects that count all secrets which the user with an address may get wrong: passwords and second
/// factors.
fn all_subjects(email: &str) -> Vec<Vec<u8>> {
    let factors = AttemptKind::Factors(email).digest().bytes();
    password_subjects(email).into_iter().chain([factors]).collect()
}

/// Returns the end of the last lock of each address whose passwords or second factors are locked.
pub(super) async fn locks(
    database: &impl ConnectionTrait,
    emails: &[&str],
    now: Time,
) -> Result<Vec<Option<Time>>, StoreError> {
    let subjects: Vec<_> = emails.iter().map(|email| all_subjects(email)).collect();
    let attempts = Entity::find()
        .select_only()
        .columns([Column::Subject, Column::At])
        .filter(Column::Subject.is_in(subjects.iter().flatten().cloned()))
        .filter(is_relevant(now))
        .order_by_desc(Column::At);
    let mut newest: HashMap<Vec<u8>, Vec<i64>> = HashMap::new();
    for (subject, at) in attempts.into_tuple::<(Vec<u8>, i64)>().all(database).await? {
        newest.entry(subject).or_default().push(at);
    }
    let locked = |subject| newest.get(subject).and_then(|attempts| lock_end(attempts, now));
    Ok(subjects.iter().map(|subjects| subjects.iter().filter_map(locked).max()).collect())
}

/// Removes the failed passwords of this address, whose owner reads its mails or whose password an operator has reset.
/// Its second factors stay locked, because a person who reads its mails need not have them.
pub(super) async fn unlock(transaction: &DatabaseTransaction, email: &str) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::Subject.is_in(password_subjects(email))).exec(transaction).await?;
    Ok(())
}

pub(super) async fn unlock_all(transaction: &DatabaseTransaction, email: &str) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::Subject.is_in(all_subjects(email))).exec(transaction).await?;
    Ok(())
}

pub(super) async fn unlock_factors(transaction: &DatabaseTransaction, email: &str) -> Result<(), StoreError> {
    let subject = AttemptKind::Factors(email).digest().bytes();
    Entity::delete_many().filter(Column::Subject.eq(subject)).exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Counts an attempt unless its subject is locked. An address without an account is treated alike.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn begin_attempt(&self, kind: AttemptKind<'_>, now: Time) -> Result<Attempt, StoreError> {
        self.count_attempt(kind, AttemptBound::Lock, now).await
    }

    /// Counts an attempt if fewer than `max` were counted in the last 60 seconds over all hosts, and returns `None`.
    /// Otherwise returns the time to wait, and does not count it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn admit_within_minute(
        &self,
        kind: AttemptKind<'_>,
        max: u32,
        now: Time,
    ) -> Result<Option<Duration>, StoreError> {
        Ok(match self.count_attempt(kind, AttemptBound::PerMinute(max), now).await? {
            Attempt::Allowed(_) => None,
            Attempt::Locked(until) => Some(until.since(now)),
        })
    }

    async fn count_attempt(
        &self,
        kind: AttemptKind<'_>,
        bound: AttemptBound,
        now: Time,
    ) -> Result<Attempt, StoreError> {
        let attempt = NewAttempt { id: Uuid::from_u128(fresh_id(now)), subject: kind.digest(), bound, now };
        let counted = self.attempts.submit(AttemptWrite::Count(attempt)).await?;
        counted.ok_or_else(|| StoreError::Unavailable("the attempt was not counted".into()))
    }

    /// Removes all attempts of the ticket's subject, because the password was right.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn forgive_attempts(&self, ticket: &AttemptTicket) -> Result<(), StoreError> {
        self.attempts.submit(AttemptWrite::Forgive(ticket.subject)).await.map(drop)
    }

    /// Removes this attempt, because the password was not verified.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn withdraw_attempt(&self, ticket: &AttemptTicket) -> Result<(), StoreError> {
        self.attempts.submit(AttemptWrite::Withdraw(*ticket)).await.map(drop)
    }
}
