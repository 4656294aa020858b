//! Decisions about requests for another plan.

use super::custom_plans;
use super::id::{LimitRequestId, UserId};
use super::limit_requests::{LimitRequest, RequestStatus, Verdict};
use super::notices::{MailedNotice, put_mailed};
use super::outgoing_mails::MailStored;
use super::ticket_comments;
use super::tier_changes::move_to;
use crate::entity::limit_requests::{Column, Entity};
use crate::entity::tenants;
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

impl Store {
    /// Decides a request. Approval gives the tenant the requested plan, unless it already has a larger one, because the
    /// request may be old. Answers linked tickets with the decision, and stores the notification `told` with it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Decided`] if the request is no longer pending;
    /// [`StoreError::WrongState`] for the approval of a plan that was deleted; [`StoreError::Unavailable`].
    pub async fn review_limit_request(
        &self,
        id: LimitRequestId,
        verdict: Verdict,
        note: Option<&str>,
        reviewer: UserId,
        told: Option<MailedNotice<'_>>,
        now: Time,
    ) -> Result<(LimitRequest, Vec<MailStored>), StoreError> {
        self.write(async |transaction| {
            let update = Entity::update_many()
                .col_expr(Column::Status, Expr::value(verdict.status().name()))
                .col_expr(Column::Note, Expr::value(note.map(str::to_owned)))
                .col_expr(Column::ReviewedAt, Expr::value(now))
                .col_expr(Column::ReviewerId, Expr::value(reviewer))
                .filter(Column::Id.eq(id))
                .filter(Column::Status.eq(RequestStatus::Pending));
            let is_decided = update.exec(transaction).await?.rows_affected > 0;
            let found = Entity::find_by_id(id).one(transaction).await?;
            let request = found.ok_or(StoreError::NotFound("limit request"))?;
            if !is_decided {
                return Err(StoreError::Decided("limit request"));
            }
            ticket_comments::answer_linked(transaction, &request, reviewer, now).await?;
            if verdict == Verdict::Approved {
                let its = request.tenant;
                let tenant = tenants::Entity::find_by_id(its).one(transaction).await?;
                let before = tenant.ok_or(StoreError::NotFound("tenant"))?.tier;
                if let Some(custom) = request.custom_plan {
                    let plan = custom_plans::find(transaction, custom).await?;
                    let gone = StoreError::WrongState("the requested plan does not exist any more");
                    move_to(transaction, request.tenant, plan.ok_or(gone)?.plan(), now).await?;
                } else if before < request.requested_tier {
                    move_to(transaction, request.tenant, request.requested_tier.into(), now).await?;
                }
            }
            let rooms = match told {
                Some(told) => put_mailed(transaction, told).await?,
                None => Vec::new(),
            };
            Ok((request, rooms))
        })
        .await
    }
}
