//! The requests of all tenants for other plans.

use crate::action::actor::Actor;
use crate::action::notifications::{PreparedNotice, prepare};
use crate::action::plans::PlanNames;
use crate::action::{text, tickets};
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::mail::{Address, Mail};
use rpcgate_core::clock::Time;
use rpcgate_store::{LimitRequest, LimitRequestId, NotificationKind, RequestStatus, User, Verdict};

/// Lists at most `limit` requests, optionally of one status, the newest first, after the position `before`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    status: Option<RequestStatus>,
    before: Option<(Time, LimitRequestId)>,
    limit: u64,
) -> Result<Vec<LimitRequest>, ActionError> {
    Ok(app.store.all_limit_requests(status, before, limit).await?)
}

/// Lists at most `limit` pending requests, the oldest first, after the position `after`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn waiting(
    app: &AppState,
    after: Option<(Time, LimitRequestId)>,
    limit: u64,
) -> Result<Vec<LimitRequest>, ActionError> {
    Ok(app.store.oldest_limit_requests(after, limit).await?)
}

/// Returns a request of any tenant.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Unavailable`].
pub async fn get(app: &AppState, id: LimitRequestId) -> Result<LimitRequest, ActionError> {
    app.store.limit_request(id).await?.ok_or(ActionError::NotFound("limit request"))
}

/// Decides a request. Approval moves the tenant to the plan and notifies gateways. The members of the tenant are
/// notified. Linked tickets are answered with the decision, and their authors are notified by mail.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Conflict`] for a request that was decided before, [`ActionError::Invalid`]
/// for an invalid note.
pub async fn review(
    app: &AppState,
    actor: &Actor,
    id: LimitRequestId,
    verdict: Verdict,
    note: Option<&str>,
) -> Result<LimitRequest, ActionError> {
    let note = note.map(|note| text::prose("note", note)).transpose()?;
    let now = app.now();
    let request = app.store.limit_request(id).await?;
    let tier = request.as_ref().map_or("", |request| request.requested_tier.name());
    let action = match verdict {
        Verdict::Approved => "limit_request.approved",
        Verdict::Rejected => "limit_request.rejected",
    };
    let notification = match &request {
        Some(request) => prepared(app, request, verdict, note.as_deref()).await?,
        None => None,
    };
    let tenant = request.map(|request| request.tenant);
    let store = actor.audited_store(&app.store, tenant, (action, id, tier), now);
    let notice = notification.as_ref().map(PreparedNotice::notice);
    let (request, rooms) =
        store.review_limit_request(id, verdict, note.as_deref(), actor.user.id, notice, now).await?;
    app.mails.stored(rooms);
    let linked = app.store.tickets_of_limit_request(id).await?;
    for ticket in linked.iter().filter(|ticket| ticket.updated_at == now) {
        tickets::notify_author(app, ticket, Some(&request.decision()), now).await?;
    }
    Ok(request)
}

/// Prepares the notification to the tenant's members about a decision; `None` if the tenant is deleted.
async fn prepared(
    app: &AppState,
    request: &LimitRequest,
    verdict: Verdict,
    note: Option<&str>,
) -> Result<Option<PreparedNotice>, ActionError> {
    if app.store.tenant(request.tenant).await?.is_none() {
        return Ok(None);
    }
    let names = PlanNames::read(app).await?;
    let plan = names.of(request.plan());
    let status = verdict.status();
    let text = format!("Your organisation's request for the plan {plan} was {status}");
    let dash_url = &app.settings.dash_url;
    let mail = |_: &User, to: Address| Mail::limit_request_decided(to, &text, note, dash_url);
    prepare(app, request.tenant, NotificationKind::LimitDecision, &text, mail).await.map(Some)
}
