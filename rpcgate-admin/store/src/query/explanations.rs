//! Requests to explain another request. The management side writes a row, the gateway that remembers the request writes
//! its explanation into it, and the row is removed after a minute. A row without an answer stays as long, so that it
//! counts towards the limits like all others.

use super::explanation::Explanation;
use super::removal::remove;
use super::value::{moment, unreadable};
use crate::entity::explanation_requests::{ActiveModel, Column, Entity, Model};
use crate::entity::gateways;
use crate::{Store, StoreError, fresh_id, notify};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::{RequestId, TenantId};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect};
use std::time::Duration;
use uuid::Uuid;

/// The lifetime of a row. A repeated request within this time gets the stored answer without asking the gateways again.
pub const EXPLANATION_REQUEST_TTL: Duration = Duration::from_secs(60);

/// The maximum number of rows of one tenant's users, and of all operators together.
pub(super) const MAX_ASKED: u64 = 60;

/// The number of rows above which tenants are refused. Operators are not, so that tenants cannot block them.
const MAX_ROWS: u64 = 1_000;

const STEP: u64 = 100;

/// A request that a gateway may be able to explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExplanationRequest {
    /// The identifier of the row.
    pub id: u128,
    /// The request.
    pub request: RequestId,
    /// The tenant whose requests the user may see; `None` for all tenants.
    pub tenant: Option<TenantId>,
}

impl Store {
    /// Asks all gateways to explain a request, for a user of `tenant`, or an operator. Returns the identifier under
    /// which [`explanation`](Store::explanation) finds the answer.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if too much was asked within the last minute, [`StoreError::Unavailable`].
    pub async fn ask_explanation(
        &self,
        request: RequestId,
        tenant: Option<TenantId>,
        now: Time,
    ) -> Result<u128, StoreError> {
        let id = fresh_id(now);
        let row = ActiveModel {
            id: Set(Uuid::from_u128(id)),
            request: Set(Uuid::from_u128(request.0)),
            tenant_id: Set(tenant.map(|tenant| Uuid::from_u128(tenant.0))),
            asked_at: Set(moment(now)),
            owner_id: Set(None),
            answer: Set(None),
        };
        self.write(async |transaction| {
            remove::<Entity>(transaction, Column::Id, are_over(now), STEP).await?;
            let own = match tenant {
                Some(tenant) => Column::TenantId.eq(tenant),
                None => Column::TenantId.is_null(),
            };
            // One write may leave some expired rows.
            let own = Entity::find().filter(own).filter(Column::AskedAt.gt(oldest(now)));
            if own.count(transaction).await? >= MAX_ASKED
                || (tenant.is_some() && Entity::find().count(transaction).await? >= MAX_ROWS)
            {
                return Err(StoreError::Busy);
            }
            Entity::insert(row).exec_without_returning(transaction).await?;
            // Gateways also poll by themselves, a little later.
            Ok(notify::send(transaction).await?)
        })
        .await?;
        Ok(id)
    }

    /// Returns the answer of a gateway, if one has arrived.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn explanation(&self, asked: u128) -> Result<Option<Explanation>, StoreError> {
        self.read(async |database| {
            let row = Entity::find_by_id(Uuid::from_u128(asked)).filter(Column::OwnerId.is_not_null());
            let row = row.one(database).await?;
            row.and_then(|row| row.answer).map(read).transpose()
        })
        .await
    }

    /// Returns an answer that a gateway has given within the last minute, if a user of `tenant`, or an operator, may
    /// see it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn known_explanation(
        &self,
        request: RequestId,
        tenant: Option<TenantId>,
        now: Time,
    ) -> Result<Option<Explanation>, StoreError> {
        self.read(async |database| {
            let mut rows = Entity::find()
                .filter(Column::AskedAt.gt(oldest(now)))
                .filter(Column::Request.eq(request))
                .filter(Column::OwnerId.is_not_null());
            if let Some(tenant) = tenant {
                rows = rows.filter(Column::OwnerId.eq(tenant));
            }
            let row = rows.order_by_desc(Column::AskedAt).one(database).await?;
            row.and_then(|row| row.answer).map(read).transpose()
        })
        .await
    }

    /// Stops asking for a request that no gateway could explain. It still counts towards the limits for a minute.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn end_asking(&self, asked: u128) -> Result<(), StoreError> {
        self.write(async |transaction| {
            Entity::update_many()
                .col_expr(Column::Answer, Expr::value(String::new()))
                .filter(Column::Id.eq(Uuid::from_u128(asked)))
                .filter(Column::Answer.is_null())
                .exec(transaction)
                .await?;
            Ok(())
        })
        .await
    }

    /// Reports whether a gateway has reported after this time.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn has_gateway(&self, since: Time) -> Result<bool, StoreError> {
        self.read(async |database| {
            let seen = gateways::Entity::find().filter(gateways::Column::SeenAt.gt(since));
            Ok(seen.count(database).await? > 0)
        })
        .await
    }

    /// Returns the requests without an explanation, for a gateway.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn open_explanation_requests(
        &self,
        now: Time,
    ) -> BoxFuture<'_, Result<Vec<ExplanationRequest>, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                let rows = Entity::find()
                    .filter(Column::AskedAt.gt(oldest(now)))
                    .filter(Column::Answer.is_null())
                    .order_by_asc(Column::AskedAt)
                    .limit(MAX_ROWS + MAX_ASKED);
                let asked = |row: Model| ExplanationRequest {
                    id: row.id.as_u128(),
                    request: RequestId(row.request.as_u128()),
                    tenant: row.tenant_id.map(|id| TenantId(id.as_u128())),
                };
                Ok(rows.all(database).await?.into_iter().map(asked).collect())
            })
            .await
        })
    }

    /// Stores the answer of a gateway that remembers the request of `owner`. Ignores it if its row is gone, or if the
    /// user may not see it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn answer_explanation_request<'a>(
        &'a self,
        asked: u128,
        owner: TenantId,
        explanation: &'a Explanation,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let answer = serde_json::to_string(explanation)
                .map_err(|_| unreadable("explanation", &explanation.chain))?;
            let owner = Uuid::from_u128(owner.0);
            self.write(async |transaction| {
                let may_see =
                    Condition::any().add(Column::TenantId.is_null()).add(Column::TenantId.eq(owner));
                Entity::update_many()
                    .col_expr(Column::Answer, Expr::value(answer.clone()))
                    .col_expr(Column::OwnerId, Expr::value(owner))
                    .filter(Column::Id.eq(Uuid::from_u128(asked)))
                    .filter(may_see)
                    .exec(transaction)
                    .await?;
                Ok(())
            })
            .await
        })
    }
}

pub(super) fn are_over(now: Time) -> Condition {
    Condition::all().add(Column::AskedAt.lte(oldest(now)))
}

fn oldest(now: Time) -> i64 {
    moment(now) - i64::try_from(EXPLANATION_REQUEST_TTL.as_micros()).unwrap_or(i64::MAX)
}

fn read(answer: String) -> Result<Explanation, StoreError> {
    serde_json::from_str(&answer).map_err(|_| unreadable("explanation", answer))
}
