//! Attempts that are counted in one transaction, in order of arrival, as if one came after the other. A few statements
//! suffice for any number: one removes old attempts, up to three read the relevant ones, and one for each kind of
//! change writes it.

use super::attempts::{
    ATTEMPTS, Attempt, AttemptBound, AttemptTicket, AttemptWrite, KEPT, LOCK, NewAttempt, is_old, lock_end,
    micros,
};
use super::digest::Digest;
use super::removal::{remove, try_to_remove};
use super::value::{moment, time, unreadable};
use crate::StoreError;
use crate::entity::attempts::{ActiveModel, Column, Entity};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::time::Duration;
use uuid::Uuid;

const MINUTE: Duration = Duration::from_secs(60);

/// The number of old attempts, of any address, that each new one removes: more than it adds.
const REMOVED_PER_ATTEMPT: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct CountedAttempt {
    at: i64,
    id: Uuid,
}

impl AttemptBound {
    /// Returns the times of the attempts that matter to attempts from `first` to `last`. Those further in the future
    /// are ignored: the clocks of hosts differ, and a clock that stepped back must not lock a subject for that long.
    fn span(self, first: Time, last: Time) -> RangeInclusive<i64> {
        match self {
            AttemptBound::Lock => moment(first) - micros(KEPT)..=moment(last.plus(LOCK)),
            AttemptBound::PerMinute(_) => moment(first) - micros(MINUTE) + 1..=moment(last.plus(MINUTE)),
        }
    }

    fn locked_until(self, counted: &[CountedAttempt], now: Time) -> Option<Time> {
        let span = self.span(now, now);
        let begin = counted.partition_point(|attempt| attempt.at > *span.end());
        let end = counted.partition_point(|attempt| attempt.at >= *span.start());
        let newest = counted.get(begin..end)?;
        match self {
            AttemptBound::Lock => {
                let newest = newest.iter().take(ATTEMPTS as usize);
                lock_end(&newest.map(|attempt| attempt.at).collect::<Vec<_>>(), now)
            }
            AttemptBound::PerMinute(max) => {
                let limiting = newest.get(max.max(1) as usize - 1)?;
                Some(time(limiting.at).plus(MINUTE))
            }
        }
    }
}

/// The attempts that matter to a batch, and the changes that it makes.
#[derive(Debug, Default)]
struct Batch {
    /// The attempts of each subject, the newest first. A subject that cannot reach its bound in this batch may be
    /// absent.
    counted: HashMap<Digest, Vec<CountedAttempt>>,
    added: Vec<(Digest, CountedAttempt)>,
    forgiven: Vec<Digest>,
    withdrawn: Vec<Uuid>,
}

impl Batch {
    /// Reads the attempts that matter to those in `new`, and removes old ones.
    async fn read(transaction: &DatabaseTransaction, new: &[NewAttempt]) -> Result<Self, StoreError> {
        let mut batch = Batch::default();
        let times = || new.iter().map(|attempt| attempt.now);
        let (Some(first), Some(last)) = (times().min(), times().max()) else { return Ok(batch) };
        let surplus = REMOVED_PER_ATTEMPT.saturating_mul(new.len() as u64);
        let remove_old = async |transaction: &DatabaseTransaction| {
            remove::<Entity>(transaction, Column::Id, is_old(first), surplus).await.map(drop)
        };
        try_to_remove(transaction, "attempts", remove_old).await?;
        let mut locking = HashSet::new();
        // The number of attempts and the lowest limit.
        let mut limited: HashMap<Digest, (u64, u64)> = HashMap::new();
        for attempt in new {
            match attempt.bound {
                AttemptBound::Lock => {
                    locking.insert(attempt.subject);
                }
                AttemptBound::PerMinute(max) => {
                    let max = u64::from(max.max(1));
                    let (attempts, lowest) = limited.entry(attempt.subject).or_insert((0, max));
                    (*attempts, *lowest) = (*attempts + 1, max.min(*lowest));
                }
            }
        }
        // The attempts that matter to a lock include those that matter to a minute.
        limited.retain(|subject, _| !locking.contains(subject));
        let span = AttemptBound::Lock.span(first, last);
        batch.read_counted(transaction, locking.iter().map(Digest::bytes).collect(), span).await?;
        let span = AttemptBound::PerMinute(1).span(first, last);
        // A high limit allows many attempts, so these are read only where the limit is near.
        let numbers = numbers(transaction, limited.keys().map(Digest::bytes).collect(), &span).await?;
        limited.retain(|subject, (attempts, max)| {
            numbers.get(subject).copied().unwrap_or_default() + *attempts > *max
        });
        batch.read_counted(transaction, limited.keys().map(Digest::bytes).collect(), span).await?;
        Ok(batch)
    }

    async fn read_counted(
        &mut self,
        transaction: &DatabaseTransaction,
        subjects: Vec<Vec<u8>>,
        span: RangeInclusive<i64>,
    ) -> Result<(), StoreError> {
        if subjects.is_empty() {
            return Ok(());
        }
        let newest = Entity::find()
            .select_only()
            .columns([Column::Subject, Column::At, Column::Id])
            .filter(Column::Subject.is_in(subjects))
            .filter(Column::At.between(*span.start(), *span.end()))
            .order_by_desc(Column::At);
        for (subject, at, id) in newest.into_tuple::<(Vec<u8>, i64, Uuid)>().all(transaction).await? {
            self.counted.entry(digest(&subject)?).or_default().push(CountedAttempt { at, id });
        }
        Ok(())
    }

    /// Makes a change after earlier ones. Returns the outcome of an attempt.
    fn apply(&mut self, write: &AttemptWrite) -> Option<Attempt> {
        match write {
            AttemptWrite::Count(attempt) => return Some(self.count(attempt)),
            AttemptWrite::Forgive(subject) => {
                self.counted.remove(subject);
                self.added.retain(|(of, _)| of != subject);
                self.forgiven.push(*subject);
            }
            AttemptWrite::Withdraw(ticket) => {
                if let Some(counted) = self.counted.get_mut(&ticket.subject) {
                    counted.retain(|attempt| attempt.id != ticket.id);
                }
                self.added.retain(|(_, attempt)| attempt.id != ticket.id);
                self.withdrawn.push(ticket.id);
            }
        }
        None
    }

    fn count(&mut self, &NewAttempt { id, subject, bound, now }: &NewAttempt) -> Attempt {
        let counted = self.counted.entry(subject).or_default();
        if let Some(until) = bound.locked_until(counted, now) {
            return Attempt::Locked(until);
        }
        let attempt = CountedAttempt { at: moment(now), id };
        counted.insert(counted.partition_point(|earlier| earlier.at > attempt.at), attempt);
        let locks = bound == AttemptBound::Lock && bound.locked_until(counted, now).is_some();
        self.added.push((subject, attempt));
        Attempt::Allowed(AttemptTicket { id, subject, locks })
    }

    /// Writes the changes. The remaining attempts are added last, because forgiven attempts came before them.
    async fn write(self, transaction: &DatabaseTransaction) -> Result<(), StoreError> {
        if !self.forgiven.is_empty() {
            let all = Column::Subject.is_in(self.forgiven.iter().map(Digest::bytes));
            Entity::delete_many().filter(all).exec(transaction).await?;
        }
        if !self.withdrawn.is_empty() {
            Entity::delete_many().filter(Column::Id.is_in(self.withdrawn)).exec(transaction).await?;
        }
        if !self.added.is_empty() {
            let rows = self.added.iter().map(|(subject, attempt)| ActiveModel {
                id: Set(attempt.id),
                subject: Set(subject.bytes()),
                at: Set(attempt.at),
            });
            Entity::insert_many(rows).exec_without_returning(transaction).await?;
        }
        Ok(())
    }
}

fn digest(stored: &[u8]) -> Result<Digest, StoreError> {
    stored.try_into().map(Digest).map_err(|_| unreadable("subject of an attempt", format!("{stored:?}")))
}

async fn numbers(
    transaction: &DatabaseTransaction,
    subjects: Vec<Vec<u8>>,
    span: &RangeInclusive<i64>,
) -> Result<HashMap<Digest, u64>, StoreError> {
    if subjects.is_empty() {
        return Ok(HashMap::new());
    }
    let numbers = Entity::find()
        .select_only()
        .column(Column::Subject)
        .column_as(Column::Id.count(), "attempts")
        .filter(Column::Subject.is_in(subjects))
        .filter(Column::At.between(*span.start(), *span.end()))
        .group_by(Column::Subject);
    let numbers = numbers.into_tuple::<(Vec<u8>, i64)>().all(transaction).await?;
    numbers.into_iter().map(|(subject, number)| Ok((digest(&subject)?, number.unsigned_abs()))).collect()
}

/// Carries out `writes` in order. Returns the outcome of each attempt that was to be counted, and `None` for the other
/// writes.
pub(crate) async fn write(
    transaction: &DatabaseTransaction,
    writes: &[AttemptWrite],
) -> Result<Vec<Option<Attempt>>, StoreError> {
    let new = writes.iter().filter_map(|write| match write {
        AttemptWrite::Count(attempt) => Some(*attempt),
        AttemptWrite::Forgive(_) | AttemptWrite::Withdraw(_) => None,
    });
    let mut batch = Batch::read(transaction, &new.collect::<Vec<_>>()).await?;
    let outcomes = writes.iter().map(|write| batch.apply(write)).collect();
    batch.write(transaction).await?;
    Ok(outcomes)
}
