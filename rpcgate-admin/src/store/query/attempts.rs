//! Limits how often something may be tried in a quarter of an hour: passwords, and mails to an address. An attempt
//! counts as failed before the password is verified, so that many parallel attempts get no further than sequential
//! ones.

use super::digest::Digest;
use super::removal::remove;
use super::users::stored_email;
use super::value::{moment, time};
use crate::store::entity::attempts::{ActiveModel, Column, Entity};
use crate::store::{Store, StoreError, fresh_id};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, SimpleExpr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;

/// What an attempt counts for. Each kind has its own count, so that attempts of one kind cannot use up another:
/// everyone who knows an address can lock its log-in temporarily, but neither its mails nor what its owner does while
/// logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptKind<'c> {
    /// Passwords given to log in with this address.
    LogIns(&'c str),
    /// Passwords given by a user who is logged in with this address.
    Checks(&'c str),
    /// Second factors given by the user with this address, at a log-in or afterwards.
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
    /// Mails that invite this address to join a tenant.
    Invitations(&'c str, TenantId),
    /// Name changes of the user with this address.
    Names(&'c str),
    /// Mails to this address about keys and tokens that its owner has created or revoked.
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
            AttemptKind::Invitations(email, tenant) => ("invitation", email, Some(tenant)),
            AttemptKind::Names(email) => ("name", email, None),
            AttemptKind::KeyMails(email) => ("key mail", email, None),
            AttemptKind::TicketMails(tenant) => ("ticket mail", "", Some(tenant)),
            AttemptKind::Clients(network) => ("client", network, None),
        };
        let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
        // Neither the kind nor the tenant contains a line break, so the parts stay distinct whatever is typed as an
        // address.
        Digest::of(&format!("{kind}\n{tenant}\n{}", stored_email(email)))
    }
}

/// The period of [`Store::admit_within_minute`].
const MINUTE: Duration = Duration::from_secs(60);

/// The number of attempts within [`LOCK`] that locks their subject.
pub const ATTEMPTS: u64 = 5;

/// How long an address is locked, counted from the last of these attempts.
pub const LOCK: Duration = Duration::from_secs(15 * 60);

/// How far back attempts matter: they lie within one [`LOCK`], and the lock lasts another.
const KEPT: Duration = LOCK.saturating_mul(2);

/// Old attempts, of any address, that each new one removes: more than it adds.
const REMOVED_PER_ATTEMPT: u64 = 16;

/// Whether a password may be verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    /// It may. The attempt counts as failed until the ticket says otherwise.
    Allowed(AttemptTicket),
    /// The address is locked until this time.
    Locked(Time),
}

/// An attempt that was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptTicket {
    id: Uuid,
    subject: Digest,
    locks: bool,
}

impl AttemptTicket {
    /// Whether this attempt is the one that locks its subject, if it fails. Of the attempts before a lock one is.
    pub const fn locks(&self) -> bool {
        self.locks
    }
}

/// Attempts that no longer matter for any purpose.
pub(super) fn is_old(now: Time) -> Condition {
    Condition::all().add(Column::At.lte(moment(now) - micros(KEPT)))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Attempts that can cause a lock at `now`. Those further in the future are ignored: when a clock has stepped back,
/// no address must be locked for as long as it did.
fn is_relevant(now: Time) -> SimpleExpr {
    Column::At.between(moment(now) - micros(KEPT), moment(now.plus(LOCK)))
}

/// When the lock ends that these attempts, the newest first, cause for their subject.
fn lock_end(newest: &[i64], now: Time) -> Option<Time> {
    let (last, first) = (newest.first()?, newest.get(ATTEMPTS as usize - 1)?);
    let until = time(*last).plus(LOCK);
    (last - first < micros(LOCK) && now < until).then_some(until)
}

/// The attempts of a subject that can cause a lock, the newest first.
async fn newest(
    transaction: &DatabaseTransaction,
    subject: &Digest,
    now: Time,
) -> Result<Vec<i64>, StoreError> {
    let newest = Entity::find()
        .select_only()
        .column(Column::At)
        .filter(Column::Subject.eq(subject.bytes()))
        .filter(is_relevant(now))
        .order_by_desc(Column::At)
        .limit(ATTEMPTS);
    Ok(newest.into_tuple().all(transaction).await?)
}

/// The subjects under which the passwords of an address are counted.
fn password_subjects(email: &str) -> [Vec<u8>; 2] {
    [AttemptKind::LogIns(email), AttemptKind::Checks(email)].map(|kind| kind.digest().bytes())
}

/// The subjects under which whatever the user with an address may get wrong is counted: passwords and second factors.
fn all_subjects(email: &str) -> Vec<Vec<u8>> {
    let factors = AttemptKind::Factors(email).digest().bytes();
    password_subjects(email).into_iter().chain([factors]).collect()
}

/// When the last lock of each of these addresses ends, if passwords or second factors are locked.
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
/// Its second factors stay locked: whoever reads its mails need not have them.
pub(super) async fn unlock(transaction: &DatabaseTransaction, email: &str) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::Subject.is_in(password_subjects(email))).exec(transaction).await?;
    Ok(())
}

/// Removes the failed passwords and the wrong second factors of this address, which an operator has unlocked.
pub(super) async fn unlock_all(transaction: &DatabaseTransaction, email: &str) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::Subject.is_in(all_subjects(email))).exec(transaction).await?;
    Ok(())
}

/// Removes the wrong second factors of the user with this address, whose factors were removed.
pub(super) async fn unlock_factors(transaction: &DatabaseTransaction, email: &str) -> Result<(), StoreError> {
    let subject = AttemptKind::Factors(email).digest().bytes();
    Entity::delete_many().filter(Column::Subject.eq(subject)).exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Counts an attempt unless it is locked out. Works alike for an address that has no account.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn begin_attempt(&self, kind: AttemptKind<'_>, now: Time) -> Result<Attempt, StoreError> {
        let (id, subject) = (Uuid::from_u128(fresh_id(now)), kind.digest());
        self.transact(async |transaction| {
            remove::<Entity>(transaction, Column::Id, is_old(now), REMOVED_PER_ATTEMPT).await?;
            let mut attempts = newest(transaction, &subject, now).await?;
            if let Some(until) = lock_end(&attempts, now) {
                return Ok(Attempt::Locked(until));
            }
            let row = ActiveModel { id: Set(id), subject: Set(subject.bytes()), at: Set(moment(now)) };
            Entity::insert(row).exec_without_returning(transaction).await?;
            attempts.push(moment(now));
            attempts.sort_unstable_by(|one, other| other.cmp(one));
            let locks = lock_end(&attempts, now).is_some();
            Ok(Attempt::Allowed(AttemptTicket { id, subject, locks }))
        })
        .await
    }

    /// Counts an attempt if fewer than `max` were counted in the last 60 seconds, over all hosts together, and
    /// returns `None`. Otherwise returns how long to wait, and does not count it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn admit_within_minute(
        &self,
        kind: AttemptKind<'_>,
        max: u32,
        now: Time,
    ) -> Result<Option<Duration>, StoreError> {
        let subject = kind.digest();
        self.transact(async |transaction| {
            remove::<Entity>(transaction, Column::Id, is_old(now), REMOVED_PER_ATTEMPT).await?;
            // The window reaches as far ahead as back, because the clocks of hosts differ and one that stepped back
            // must not lock an address for long.
            let minute = (moment(now) - micros(MINUTE) + 1)..=(moment(now) + micros(MINUTE));
            let limiting = Entity::find()
                .select_only()
                .column(Column::At)
                .filter(Column::Subject.eq(subject.bytes()))
                .filter(Column::At.between(*minute.start(), *minute.end()))
                .order_by_desc(Column::At)
                .offset(u64::from(max.max(1)) - 1)
                .limit(1);
            let limiting: Option<i64> = limiting.into_tuple().one(transaction).await?;
            if let Some(at) = limiting {
                return Ok(Some(time(at).plus(MINUTE).since(now)));
            }
            let (id, at) = (Uuid::from_u128(fresh_id(now)), moment(now));
            let row = ActiveModel { id: Set(id), subject: Set(subject.bytes()), at: Set(at) };
            Entity::insert(row).exec_without_returning(transaction).await?;
            Ok(None)
        })
        .await
    }

    /// Removes all attempts of the ticket's subject, because the password was right.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn forgive_attempts(&self, ticket: &AttemptTicket) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let all = Entity::delete_many().filter(Column::Subject.eq(ticket.subject.bytes()));
            all.exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Removes this attempt, because the password was not verified.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn withdraw_attempt(&self, ticket: &AttemptTicket) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            Entity::delete_by_id(ticket.id).exec(transaction).await?;
            Ok(())
        })
        .await
    }
}
