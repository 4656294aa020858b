//! What may be tried a few times in a quarter of an hour: passwords, and mails to an address. A try is counted as wrong
//! before the password is looked at, so that many at once get no further than one after another.

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

/// What is counted. Each kind has a count of its own, so that nobody can use up one by another: whoever knows an address
/// can lock its log-in for a while, but neither its mails nor what its owner does while logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted<'c> {
    /// Passwords that are typed to log in with this address.
    LogIns(&'c str),
    /// Passwords that are typed by whoever is logged in with this address.
    Checks(&'c str),
    /// Mails to this address because somebody registers with it.
    Registrations(&'c str),
    /// Mails to this address that its owner asks for to confirm it.
    Confirmations(&'c str),
    /// Mails to this address because somebody has forgotten its password.
    Resets(&'c str),
    /// Mails that whoever has this address asks for to have another one.
    EmailChanges(&'c str),
    /// Mails to this address because somebody wants to have it.
    NewEmails(&'c str),
    /// Mails that invite this address to a tenant.
    Invitations(&'c str, TenantId),
    /// Other names that the user with this address takes.
    Names(&'c str),
    /// Log-ins and registrations of the clients of this network.
    Clients(&'c str),
}

impl Counted<'_> {
    fn digest(self) -> Digest {
        let (kind, email, tenant) = match self {
            Counted::LogIns(email) => ("log-in", email, None),
            Counted::Checks(email) => ("check", email, None),
            Counted::Registrations(email) => ("registration", email, None),
            Counted::Confirmations(email) => ("confirmation", email, None),
            Counted::Resets(email) => ("reset", email, None),
            Counted::EmailChanges(email) => ("e-mail change", email, None),
            Counted::NewEmails(email) => ("new e-mail", email, None),
            Counted::Invitations(email, tenant) => ("invitation", email, Some(tenant)),
            Counted::Names(email) => ("name", email, None),
            Counted::Clients(network) => ("client", network, None),
        };
        let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
        // The kind and the tenant have no line break, whatever somebody may type for an address.
        Digest::of(&format!("{kind}\n{tenant}\n{}", stored_email(email)))
    }
}

/// The time that [`Store::admit_within_minute`] looks back.
const MINUTE: Duration = Duration::from_secs(60);

/// Tries in [`LOCK`] that lock what is counted.
pub const ATTEMPTS: u64 = 5;

/// How long an address is locked, counted from the last of them.
pub const LOCK: Duration = Duration::from_secs(15 * 60);

/// Attempts that count for a lock began up to this long ago: they lie within one [`LOCK`], and the lock lasts another.
const KEPT: Duration = LOCK.saturating_mul(2);

/// Old attempts, of whatever address, that each new one clears away: more than it adds.
const CLEARED: u64 = 16;

/// Whether a password may be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    /// It may. The try counts as wrong until the ticket says otherwise.
    May(AttemptTicket),
    /// The address is locked until then.
    Locked(Time),
}

/// A try that was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptTicket {
    id: Uuid,
    subject: Digest,
}

/// What is over for every purpose.
pub(super) fn is_old(now: Time) -> Condition {
    Condition::all().add(Column::At.lte(moment(now) - micros(KEPT)))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Tries at `now` that a lock may follow from, and not from a time ahead: a clock that stepped back must not lock anybody
/// for as long as it did.
fn that_count(now: Time) -> SimpleExpr {
    Column::At.between(moment(now) - micros(KEPT), moment(now.plus(LOCK)))
}

/// Until when the newest tries, the last first, lock what they were at.
fn until(newest: &[i64], now: Time) -> Option<Time> {
    let (last, first) = (newest.first()?, newest.get(ATTEMPTS as usize - 1)?);
    let until = time(*last).plus(LOCK);
    (last - first < micros(LOCK) && now < until).then_some(until)
}

/// Until when an address is locked, if it is.
async fn locked(
    transaction: &DatabaseTransaction,
    subject: &Digest,
    now: Time,
) -> Result<Option<Time>, StoreError> {
    let newest = Entity::find()
        .select_only()
        .column(Column::At)
        .filter(Column::Subject.eq(subject.bytes()))
        .filter(that_count(now))
        .order_by_desc(Column::At)
        .limit(ATTEMPTS);
    let newest: Vec<i64> = newest.into_tuple().all(transaction).await?;
    Ok(until(&newest, now))
}

/// What is counted of the passwords of an address.
fn passwords(email: &str) -> [Vec<u8>; 2] {
    [Counted::LogIns(email), Counted::Checks(email)].map(|counted| counted.digest().bytes())
}

/// Until when the passwords of each of these addresses are locked, if they are.
pub(super) async fn locks(
    database: &impl ConnectionTrait,
    emails: &[&str],
    now: Time,
) -> Result<Vec<Option<Time>>, StoreError> {
    let subjects: Vec<_> = emails.iter().map(|email| passwords(email)).collect();
    let tries = Entity::find()
        .select_only()
        .columns([Column::Subject, Column::At])
        .filter(Column::Subject.is_in(subjects.iter().flatten().cloned()))
        .filter(that_count(now))
        .order_by_desc(Column::At);
    let mut newest: HashMap<Vec<u8>, Vec<i64>> = HashMap::new();
    for (subject, at) in tries.into_tuple::<(Vec<u8>, i64)>().all(database).await? {
        newest.entry(subject).or_default().push(at);
    }
    let locked = |subject| newest.get(subject).and_then(|tries| until(tries, now));
    Ok(subjects.iter().map(|subjects| subjects.iter().filter_map(locked).max()).collect())
}

/// Forgets the tries at the password of this address: whoever reads its mails, or an operator, has unlocked it.
pub(super) async fn unlock(transaction: &DatabaseTransaction, email: &str) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::Subject.is_in(passwords(email))).exec(transaction).await?;
    Ok(())
}

impl Store {
    /// Asks whether something may be tried, and counts the try. It is the same for an address that nobody has.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn begin_attempt(&self, counted: Counted<'_>, now: Time) -> Result<Attempt, StoreError> {
        let ticket = AttemptTicket { id: Uuid::from_u128(fresh_id(now)), subject: counted.digest() };
        self.transact(async |transaction| {
            remove::<Entity>(transaction, Column::Id, is_old(now), CLEARED).await?;
            if let Some(until) = locked(transaction, &ticket.subject, now).await? {
                return Ok(Attempt::Locked(until));
            }
            let row = ActiveModel {
                id: Set(ticket.id),
                subject: Set(ticket.subject.bytes()),
                at: Set(moment(now)),
            };
            Entity::insert(row).exec_without_returning(transaction).await?;
            Ok(Attempt::May(ticket))
        })
        .await
    }

    /// Counts a try of which there may be `most` in any 60 seconds, at all hosts together: none if it may be, else how long
    /// to wait, and then it is not counted.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn admit_within_minute(
        &self,
        counted: Counted<'_>,
        most: u32,
        now: Time,
    ) -> Result<Option<Duration>, StoreError> {
        let subject = counted.digest();
        self.transact(async |transaction| {
            remove::<Entity>(transaction, Column::Id, is_old(now), CLEARED).await?;
            // As far ahead as back: hosts' clocks differ, and one that stepped back must not lock anybody for long.
            let minute = (moment(now) - micros(MINUTE) + 1)..=(moment(now) + micros(MINUTE));
            let decides = Entity::find()
                .select_only()
                .column(Column::At)
                .filter(Column::Subject.eq(subject.bytes()))
                .filter(Column::At.between(*minute.start(), *minute.end()))
                .order_by_desc(Column::At)
                .offset(u64::from(most.max(1)) - 1)
                .limit(1);
            let decides: Option<i64> = decides.into_tuple().one(transaction).await?;
            if let Some(at) = decides {
                return Ok(Some(time(at).plus(MINUTE).since(now)));
            }
            let (id, at) = (Uuid::from_u128(fresh_id(now)), moment(now));
            let row = ActiveModel { id: Set(id), subject: Set(subject.bytes()), at: Set(at) };
            Entity::insert(row).exec_without_returning(transaction).await?;
            Ok(None)
        })
        .await
    }

    /// The password was right: all that counted against the address is forgotten.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn pass(&self, ticket: &AttemptTicket) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let all = Entity::delete_many().filter(Column::Subject.eq(ticket.subject.bytes()));
            all.exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// The password was not looked at: this try does not count.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn give_back(&self, ticket: &AttemptTicket) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            Entity::delete_by_id(ticket.id).exec(transaction).await?;
            Ok(())
        })
        .await
    }
}
