//! Requests with an idempotency key: a repeated request is not carried out again, but gets the first answer.

use super::digest::Digest;
use super::value::{moment, unreadable};
use crate::entity::idempotency::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter};
use std::time::Duration;
use uuid::Uuid;

/// The time that an answer is kept (contract, "Accounts, second factors, money").
pub const ANSWER_KEPT: Duration = Duration::from_secs(24 * 3_600);

/// The time after which a run is considered dead, because its host was stopped in the middle of it.
const LEASE: Duration = Duration::from_secs(120);

const FAILED: i32 = 500;

const MAX_KEYS: u64 = 5_000;

/// A request with an idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyedRequest {
    /// The tenant, or the user if it belongs to none: a UUID.
    pub owner: u128,
    /// The digest of the key.
    pub key: Digest,
    /// The digest of everything that identifies the request.
    pub request: Digest,
}

/// A run that answers a request with an idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The owner of the key.
    pub owner: u128,
    /// The digest of the key.
    pub key: Digest,
    /// Its own identifier, a UUID.
    pub id: u128,
}

/// The action for a request with an idempotency key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunOutcome {
    /// It is new: the offered run answers it.
    Begun,
    /// It was answered before.
    Answered {
        /// The run that answered it.
        run: u128,
        /// The status.
        status: u16,
        /// The encrypted answer.
        sealed: Vec<u8>,
    },
    /// The key was used for another request.
    Different,
    /// It is being answered.
    Running,
    /// It was carried out, but its answer is not known.
    Lost,
}

impl Run {
    fn rows(&self) -> Condition {
        Condition::all()
            .add(Column::Owner.eq(Uuid::from_u128(self.owner)))
            .add(Column::Key.eq(self.key.bytes()))
            .add(Column::Run.eq(Uuid::from_u128(self.id)))
    }
}

/// Records, in the transaction of a write of `run`, that the run had an effect.
pub(crate) async fn mark(transaction: &DatabaseTransaction, run: &Run) -> Result<(), StoreError> {
    let update = Entity::update_many().col_expr(Column::CarriedOut, Expr::value(true)).filter(run.rows());
    update.exec(transaction).await?;
    Ok(())
}

fn outcome(row: Model, request: &Digest, now: Time) -> Result<Option<RunOutcome>, StoreError> {
    if row.request != request.bytes() {
        return Ok(Some(RunOutcome::Different));
    }
    let lease = i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX);
    let is_dead = row.started_at.saturating_add(lease) <= moment(now);
    Ok(match (row.status, row.answer) {
        (Some(status), Some(sealed)) => {
            let status = u16::try_from(status).map_err(|_| unreadable("status", status))?;
            Some(RunOutcome::Answered { run: row.run.as_u128(), status, sealed })
        }
        (Some(_), None) => Some(RunOutcome::Lost),
        (None, _) if !is_dead => Some(RunOutcome::Running),
        (None, _) if row.carried_out => Some(RunOutcome::Lost),
        (None, _) => None,
    })
}

fn result_key(id: u128) -> Digest {
    Digest::of(&format!("result {id:032x}"))
}

impl Store {
    /// Returns this store, but each of its writes records in its transaction that `run` had an effect.
    pub fn in_run(&self, run: Run) -> Store {
        Store { run: Some(run), ..self.clone() }
    }

    pub(super) fn without_run(&self) -> Store {
        Store { run: None, ..self.clone() }
    }

    /// Begins the run `id` of a request, unless the request was answered or is being answered. Of several concurrent
    /// calls, one gets [`RunOutcome::Begun`].
    ///
    /// # Errors
    /// [`StoreError::Full`] if the owner has too many keys, [`StoreError::Unavailable`].
    pub async fn begin_run(
        &self,
        keyed: &KeyedRequest,
        id: u128,
        now: Time,
    ) -> Result<RunOutcome, StoreError> {
        let KeyedRequest { owner, key, request } = keyed;
        let owner = Uuid::from_u128(*owner);
        self.transact(async |transaction| {
            let found = Entity::find_by_id((owner, key.bytes())).one(transaction).await?;
            if let Some(row) = found {
                if row.expires_at > moment(now)
                    && let Some(outcome) = outcome(row, request, now)?
                {
                    return Ok(outcome);
                }
                Entity::delete_by_id((owner, key.bytes())).exec(transaction).await?;
            }
            let valid = Entity::find().filter(Column::Owner.eq(owner)).filter(Column::ExpiresAt.gt(now));
            if valid.count(transaction).await? >= MAX_KEYS {
                let text = format!("at most {MAX_KEYS} idempotency keys can be used in 24 hours");
                return Err(StoreError::Full(text));
            }
            let row = ActiveModel {
                owner: Set(owner),
                key: Set(key.bytes()),
                request: Set(request.bytes()),
                run: Set(Uuid::from_u128(id)),
                started_at: Set(moment(now)),
                expires_at: Set(moment(now.plus(ANSWER_KEPT))),
                carried_out: Set(false),
                status: Set(None),
                answer: Set(None),
            };
            Entity::insert(row).exec_without_returning(transaction).await?;
            Ok(RunOutcome::Begun)
        })
        .await
    }

    /// Returns the state of a request whose run has begun, or `None` if it has no run any more.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn run_state(&self, keyed: &KeyedRequest, now: Time) -> Result<Option<RunOutcome>, StoreError> {
        let KeyedRequest { owner, key, request } = keyed;
        self.read(async |database| {
            let found = Entity::find_by_id((Uuid::from_u128(*owner), key.bytes())).one(database).await?;
            match found.filter(|row| row.expires_at > moment(now)) {
                Some(row) => outcome(row, request, now),
                None => Ok(None),
            }
        })
        .await
    }

    /// Stores an encrypted result under `id` until `expires_at`; its owner reads it once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn put_result(
        &self,
        (owner, id): (u128, u128),
        sealed: Vec<u8>,
        expires_at: Time,
        now: Time,
    ) -> Result<(), StoreError> {
        let key = result_key(id);
        self.transact(async |transaction| {
            let row = ActiveModel {
                owner: Set(Uuid::from_u128(owner)),
                key: Set(key.bytes()),
                request: Set(key.bytes()),
                run: Set(Uuid::from_u128(id)),
                started_at: Set(moment(now)),
                expires_at: Set(moment(expires_at)),
                carried_out: Set(true),
                status: Set(Some(200)),
                answer: Set(Some(sealed)),
            };
            Entity::insert(row).exec_without_returning(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Takes the result that was stored for this owner as `id`; a second call gets nothing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn take_result(
        &self,
        (owner, id): (u128, u128),
        now: Time,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let row = (Uuid::from_u128(owner), result_key(id).bytes());
        let is_there = self.read(async |database| Ok(Entity::find_by_id(row.clone()).one(database).await?));
        // An unknown identifier takes no slot in the writers' queue.
        if is_there.await?.is_none() {
            return Ok(None);
        }
        self.transact(async |transaction| {
            let found = Entity::find_by_id(row.clone()).one(transaction).await?;
            Entity::delete_by_id(row.clone()).exec(transaction).await?;
            Ok(found.filter(|row| row.expires_at > moment(now)).and_then(|row| row.answer))
        })
        .await
    }

    /// Stores the answer of a run, or only the fact that it was answered if the answer is too large. Ignores the answer
    /// of a run that was considered dead if another run has begun since.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn keep_answer(
        &self,
        run: &Run,
        status: u16,
        sealed: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::CarriedOut, Expr::value(true))
                .col_expr(Column::Status, Expr::value(i32::from(status)))
                .col_expr(Column::Answer, Expr::value(sealed))
                .filter(run.rows());
            update.exec(transaction).await?;
            Ok(())
        })
        .await
    }

    /// Removes a run, so that its request can be sent again: a refused one, or, with `failed`, one that failed and had
    /// no effect. A run that failed after an effect counts as answered, with an unknown answer.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn forget_run(&self, run: &Run, failed: bool) -> Result<(), StoreError> {
        self.transact(async |transaction| {
            if !failed {
                Entity::delete_many().filter(run.rows()).exec(transaction).await?;
                return Ok(());
            }
            let without_effect = run.rows().add(Column::CarriedOut.eq(false));
            if Entity::delete_many().filter(without_effect).exec(transaction).await?.rows_affected == 0 {
                let ended =
                    Entity::update_many().col_expr(Column::Status, Expr::value(FAILED)).filter(run.rows());
                ended.exec(transaction).await?;
            }
            Ok(())
        })
        .await
    }
}
