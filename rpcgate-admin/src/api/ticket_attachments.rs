//! Routes of files attached to support tickets.

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
use rpcgate_management::extract::{Id, Ids, Query};
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::ticket_attachments::{FileContent, TicketAttachmentJson, download};
use rpcgate_store::{TicketAttachmentId, TicketId};
use serde::Deserialize;
use std::sync::Arc;

/// The parameters of an upload.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct UploadQuery {
    /// The name of the file.
    pub filename: Option<String>,
}

/// Attach a file to a support ticket
///
/// The body is the file itself, at most 10 MiB. Its content alone decides its kind: text, PNG, JPEG, GIF, WebP, PDF, a
/// packet capture, or an archive (ZIP, tar, gzip, bzip2, xz, Zstandard, 7-Zip). Other kinds are refused. A ticket has
/// at most 10 files. An organisation uploads one file at a time, and all its files together have at most 100 MiB by
/// default.
#[utoipa::path(post, path = "/support/tickets/{id}/attachments", operation_id = "create_ticket_attachment",
    tag = "support",
    params(("filename" = Option<String>, Query, description = "The name of the file, for people. Folders and what could \
            mislead are removed, and an extension of files that systems run is followed by one that belongs to the content.")),
    request_body(content = FileContent, content_type = "application/octet-stream", description = "The file."),
    responses((status = 201, description = "The file, without its content.", body = TicketAttachmentJson),
        (status = 400, description = "The file is empty, of a kind that is not accepted, or refused by the check for malware."),
        (status = 409, description = "The ticket is closed, or there are too many or too large files."),
        (status = 413, description = "The file is larger than 10 MiB."),
        (status = 429, description = "Another upload is running: `Retry-After` says when to retry.")))]
pub async fn create(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Id(id): Id<TicketId>,
    Query(UploadQuery { filename }): Query<UploadQuery>,
    request: Request,
) -> Result<Response, ActionError> {
    let is_keyed = has_key(request.headers());
    let permit = action::ticket_attachments::begin(&app, &actor, id, is_keyed).await?;
    let name = filename.unwrap_or_default();
    let state = app.clone();
    let user = actor.user.clone();
    once_with_file(app, &user, request, MAX_BYTES, async move |run, content: Bytes| {
        let actor = Actor { run, ..actor };
        let file = action::ticket_attachments::create(&state, &actor, id, &name, content).await?;
        drop(permit);
        Ok::<_, ActionError>((StatusCode::CREATED, Json(TicketAttachmentJson::from(file))).into_response())
    })
    .await
}

/// List the files of a support ticket
///
/// Oldest first.
#[utoipa::path(get, path = "/support/tickets/{id}/attachments", operation_id = "list_ticket_attachments",
    tag = "support",
    params(Page),
    responses((status = 200, description = "The files, without their contents.", body = [TicketAttachmentJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    actor: Actor,
    Id(id): Id<TicketId>,
) -> Result<ListPage<TicketAttachmentJson>, ActionError> {
    let files = action::ticket_attachments::list(&app, &actor, id).await?;
    page.of(files.into_iter().map(TicketAttachmentJson::from).collect(), false, |one| &one.id)
}

/// Download a file of a support ticket
///
/// It is sent as an attachment, never for display, with a media type from a fixed list.
#[utoipa::path(get, path = "/support/tickets/{id}/attachments/{attachment_id}",
    operation_id = "get_ticket_attachment", tag = "support",
    responses((status = 200, description = "The file.", content((FileContent = "application/gzip"), (FileContent = "application/pdf"), (FileContent = "application/vnd.tcpdump.pcap"), (FileContent = "application/x-7z-compressed"), (FileContent = "application/x-bzip2"), (FileContent = "application/x-tar"), (FileContent = "application/x-xz"), (FileContent = "application/zip"), (FileContent = "application/zstd"), (FileContent = "image/gif"), (FileContent = "image/jpeg"), (FileContent = "image/png"), (FileContent = "image/webp"), (FileContent = "text/plain")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(ticket, id): Ids<TicketId, TicketAttachmentId>,
) -> Result<Response, ActionError> {
    let file = action::ticket_attachments::get(&app, &actor, ticket, id).await?;
    download(app, file).await
}

#[cfg(test)]
mod tests;
