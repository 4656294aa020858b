//! Routes of the support tickets of all tenants.

use crate::api::ticket_attachments::UploadQuery;
use crate::api::tickets::TicketQuery;
use crate::idempotency::{has_key, once_with_file};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use rpcgate_management::action;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::app_state::AppState;
use rpcgate_management::attachment::MAX_BYTES;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Id, Ids, Query};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest, time_cursor};
use rpcgate_management::shape::operator::tickets::{
    NewOperatorTicketComment, OperatorTicketCommentJson, OperatorTicketUpdate,
};
use rpcgate_management::shape::ticket_attachments::{FileContent, TicketAttachmentJson, download};
use rpcgate_management::shape::tickets::{TicketCategoryJson, TicketJson, TicketStatusJson};
use rpcgate_store::{TicketAttachmentId, TicketId};
use serde::Deserialize;
use std::sync::Arc;

/// The filter of tickets.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct OperatorTicketQuery {
    /// Only tickets of this tenant.
    pub tenant_id: Option<String>,
    /// Only tickets with this status.
    pub status: Option<TicketStatusJson>,
    /// Only tickets of this category.
    pub category: Option<TicketCategoryJson>,
}

/// List the support tickets of all tenants
///
/// Newest first.
#[utoipa::path(get, path = "/operator/tickets", operation_id = "operator_list_tickets", tag = "operator",
    params(("tenant_id" = Option<String>, Query, format = "uuid", description = "Only tickets of this tenant."),
        ("status" = Option<TicketStatusJson>, Query, description = "Only tickets with this status."),
        ("category" = Option<TicketCategoryJson>, Query, description = "Only tickets of this category."), Page),
    responses((status = 200, description = "The tickets.", body = [TicketJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Query(query): Query<OperatorTicketQuery>,
) -> Result<ListPage<TicketJson>, ActionError> {
    let OperatorTicketQuery { tenant_id, status, category } = query;
    let tenant = tenant_id.map(|id| id.parse()).transpose();
    let tenant = tenant.map_err(|_| ActionError::named("tenant_id", "must be a UUID"))?;
    let filter = TicketQuery { status, category }.into();
    let before = page.time_cursor()?;
    let tickets = action::operator::tickets::list(&app, tenant, filter, before, page.limit).await?;
    let page = page.cut(tickets, |last| time_cursor(last.created_at, last.id));
    Ok(page.map(TicketJson::from))
}

/// Read a support ticket of any tenant
#[utoipa::path(get, path = "/operator/tickets/{id}", operation_id = "operator_get_ticket", tag = "operator",
    responses((status = 200, description = "The ticket.", body = TicketJson)))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    Id(id): Id<TicketId>,
) -> Result<Json<TicketJson>, ActionError> {
    Ok(Json(action::operator::tickets::get(&app, id).await?.into()))
}

/// Set the status of a support ticket
///
/// The author is notified by mail if that closes it.
#[utoipa::path(put, path = "/operator/tickets/{id}", operation_id = "operator_update_ticket", tag = "operator",
    request_body = OperatorTicketUpdate,
    responses((status = 200, description = "The ticket as it is now.", body = TicketJson)))]
pub async fn update(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
    Body(OperatorTicketUpdate { status }): Body<OperatorTicketUpdate>,
) -> Result<Json<TicketJson>, ActionError> {
    Ok(Json(action::operator::tickets::update(&app, &actor, id, status.into()).await?.into()))
}

/// List all comments on a support ticket
///
/// Oldest first, including those that only operators see.
#[utoipa::path(get, path = "/operator/tickets/{id}/comments", operation_id = "operator_list_ticket_comments",
    tag = "operator",
    params(Page),
    responses((status = 200, description = "The comments.", body = [OperatorTicketCommentJson])))]
pub async fn comments(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Id(id): Id<TicketId>,
) -> Result<ListPage<OperatorTicketCommentJson>, ActionError> {
    let after = page.time_cursor()?;
    let comments = action::operator::tickets::comments(&app, id, after, page.limit).await?;
    let page = page.cut(comments, |last| time_cursor(last.created_at, last.id));
    Ok(page.map(OperatorTicketCommentJson::from))
}

/// Answer a support ticket
///
/// The author is notified by mail. A comment with `internal` is a note that no tenant ever sees.
#[utoipa::path(post, path = "/operator/tickets/{id}/comments", operation_id = "operator_answer_ticket",
    tag = "operator",
    request_body = NewOperatorTicketComment,
    responses((status = 201, description = "The comment.", body = OperatorTicketCommentJson),
        (status = 409, description = "The ticket is closed, or has too many comments.")))]
pub async fn answer(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
    Body(new): Body<NewOperatorTicketComment>,
) -> Result<(StatusCode, Json<OperatorTicketCommentJson>), ActionError> {
    let NewOperatorTicketComment { text, internal, status } = new;
    let internal = internal.unwrap_or(false);
    let status = status.map(Into::into);
    let answer = action::operator::tickets::TicketAnswer { text, internal, status };
    let comment = action::operator::tickets::answer(&app, &actor, id, answer).await?;
    Ok((StatusCode::CREATED, Json(comment.into())))
}

/// List the files of a support ticket of any tenant
///
/// Oldest first.
#[utoipa::path(get, path = "/operator/tickets/{id}/attachments", operation_id = "operator_list_ticket_attachments",
    tag = "operator",
    params(Page),
    responses((status = 200, description = "The files, without their contents.", body = [TicketAttachmentJson])))]
pub async fn attachments(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    Id(id): Id<TicketId>,
) -> Result<ListPage<TicketAttachmentJson>, ActionError> {
    let files = action::operator::tickets::attachments(&app, id).await?;
    page.of(files.into_iter().map(TicketAttachmentJson::for_operators).collect(), false, |one| &one.id)
}

/// Attach a file to a support ticket of any tenant
///
/// The body is the file itself, at most 10 MiB, of the kinds that members may attach. The tenant sees it like its own
/// files, and it counts as one of them. A comment notifies the author about it.
#[utoipa::path(post, path = "/operator/tickets/{id}/attachments", operation_id = "operator_create_ticket_attachment",
    tag = "operator",
    params(("filename" = Option<String>, Query, description = "The name of the file, for people. Folders and what could \
            mislead are removed, and an extension that does not belong to the content is followed by one that does.")),
    request_body(content = FileContent, content_type = "application/octet-stream", description = "The file."),
    responses((status = 201, description = "The file, without its content.", body = TicketAttachmentJson),
        (status = 400, description = "The file is empty, of a kind that is not accepted, or refused by the check for malware."),
        (status = 409, description = "The ticket is closed, or there are too many or too large files."),
        (status = 413, description = "The file is larger than 10 MiB."),
        (status = 429, description = "Another upload is running: `Retry-After` says when to retry.")))]
pub async fn attach(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
    Query(UploadQuery { filename }): Query<UploadQuery>,
    request: Request,
) -> Result<Response, ActionError> {
    let is_keyed = has_key(request.headers());
    let permit = action::operator::tickets::begin_upload(&app, id, is_keyed).await?;
    let name = filename.unwrap_or_default();
    let state = app.clone();
    let user = actor.user.clone();
    once_with_file(app, &user, request, MAX_BYTES, async move |run, content: Bytes| {
        let actor = Actor { run, ..actor };
        let file = action::operator::tickets::attach(&state, &actor, id, &name, content).await?;
        drop(permit);
        Ok::<_, ActionError>(
            (StatusCode::CREATED, Json(TicketAttachmentJson::for_operators(file))).into_response(),
        )
    })
    .await
}

/// Download a file of a support ticket of any tenant
///
/// It is sent as an attachment, never for display, with a media type from a fixed list.
#[utoipa::path(get, path = "/operator/tickets/{id}/attachments/{attachment_id}",
    operation_id = "operator_get_ticket_attachment", tag = "operator",
    responses((status = 200, description = "The file.", content((FileContent = "application/gzip"), (FileContent = "application/pdf"), (FileContent = "application/vnd.tcpdump.pcap"), (FileContent = "application/x-7z-compressed"), (FileContent = "application/x-bzip2"), (FileContent = "application/x-tar"), (FileContent = "application/x-xz"), (FileContent = "application/zip"), (FileContent = "application/zstd"), (FileContent = "image/gif"), (FileContent = "image/jpeg"), (FileContent = "image/png"), (FileContent = "image/webp"), (FileContent = "text/plain")))))]
pub async fn attachment(
    State(app): State<Arc<AppState>>,
    Ids(ticket, id): Ids<TicketId, TicketAttachmentId>,
) -> Result<Response, ActionError> {
    let file = action::operator::tickets::attachment(&app, ticket, id).await?;
    download(app, file).await
}
