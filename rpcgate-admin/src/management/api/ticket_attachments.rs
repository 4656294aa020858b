//! Files that are attached to support tickets.

use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use super::ticket_comments::CommentAuthor;
use crate::management::action;
use crate::management::action::actor::Actor;
use crate::management::app_state::AppState;
use crate::management::attachment::{MAX_BYTES, disposition, media_type};
use crate::management::error::ActionError;
use crate::management::extract::{Id, Ids, Query};
use crate::management::idempotency::{has_key, once_with_file};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use rpcgate_store::{StoreError, TicketAttachment, TicketAttachmentId, TicketId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What a file is, as its content tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AttachmentKind)]
pub enum AttachmentKindJson {
    /// A picture in the Portable Network Graphics format.
    Png,
    /// A photograph.
    Jpeg,
    /// A picture in the Graphics Interchange Format.
    Gif,
    /// A picture in the WebP format.
    Webp,
    /// A document in the Portable Document Format.
    Pdf,
    /// A ZIP archive.
    Zip,
    /// A file compressed by gzip.
    Gzip,
    /// A file compressed by bzip2.
    Bzip2,
    /// A file compressed by xz.
    Xz,
    /// A file compressed by Zstandard.
    Zstd,
    /// An archive of tar.
    Tar,
    /// An archive of 7-Zip.
    SevenZip,
    /// A packet capture (pcap or pcapng).
    Capture,
    /// Text in UTF-8.
    Text,
    /// Text in a coding of one byte for each character.
    ByteText,
}

impl From<rpcgate_store::AttachmentKind> for AttachmentKindJson {
    fn from(kind: rpcgate_store::AttachmentKind) -> Self {
        match kind {
            rpcgate_store::AttachmentKind::Png => AttachmentKindJson::Png,
            rpcgate_store::AttachmentKind::Jpeg => AttachmentKindJson::Jpeg,
            rpcgate_store::AttachmentKind::Gif => AttachmentKindJson::Gif,
            rpcgate_store::AttachmentKind::Webp => AttachmentKindJson::Webp,
            rpcgate_store::AttachmentKind::Pdf => AttachmentKindJson::Pdf,
            rpcgate_store::AttachmentKind::Zip => AttachmentKindJson::Zip,
            rpcgate_store::AttachmentKind::Gzip => AttachmentKindJson::Gzip,
            rpcgate_store::AttachmentKind::Bzip2 => AttachmentKindJson::Bzip2,
            rpcgate_store::AttachmentKind::Xz => AttachmentKindJson::Xz,
            rpcgate_store::AttachmentKind::Zstd => AttachmentKindJson::Zstd,
            rpcgate_store::AttachmentKind::Tar => AttachmentKindJson::Tar,
            rpcgate_store::AttachmentKind::SevenZip => AttachmentKindJson::SevenZip,
            rpcgate_store::AttachmentKind::Capture => AttachmentKindJson::Capture,
            rpcgate_store::AttachmentKind::Text => AttachmentKindJson::Text,
            rpcgate_store::AttachmentKind::ByteText => AttachmentKindJson::ByteText,
        }
    }
}

/// A file that is attached to a ticket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = TicketAttachment)]
pub struct TicketAttachmentJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Who attached it.
    pub author: CommentAuthor,
    /// The user who attached it; null for an operator, whom members do not see.
    #[schema(format = "uuid")]
    pub user_id: Option<String>,
    /// Its name, with an extension that belongs to its kind.
    pub name: String,
    /// What it is.
    pub kind: AttachmentKindJson,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was attached.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl TicketAttachmentJson {
    /// A file as operators see it.
    pub(in crate::management::api) fn for_operators(file: TicketAttachment) -> Self {
        let user_id = Some(file.user.to_string());
        TicketAttachmentJson { user_id, ..TicketAttachmentJson::from(file) }
    }
}

impl From<TicketAttachment> for TicketAttachmentJson {
    /// A file as members see it.
    fn from(file: TicketAttachment) -> Self {
        TicketAttachmentJson {
            id: file.id.to_string(),
            author: CommentAuthor::of(file.by_operator),
            user_id: (!file.by_operator).then(|| file.user.to_string()),
            name: file.name,
            kind: file.kind.into(),
            bytes: file.bytes,
            created_at: file.created_at.into(),
        }
    }
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq, Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct FileContent(pub Vec<u8>);

/// The parameters of an upload.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct UploadQuery {
    /// The name of the file.
    pub filename: Option<String>,
}

/// Attach a file to a support ticket
///
/// The body is the file itself, at most 10 MiB. What it is, its content alone decides: text, PNG, JPEG, GIF, WebP,
/// PDF, a packet capture, or an archive (ZIP, tar, gzip, bzip2, xz, Zstandard, 7-Zip); other kinds are refused. A ticket has at most 10 files. An organisation uploads one file at
/// a time, and all its files together have at most 100 MiB by default.
#[utoipa::path(post, path = "/support/tickets/{id}/attachments", operation_id = "create_ticket_attachment",
    tag = "support",
    params(("id" = String, Path, format = "uuid", description = "The ticket."),
        ("filename" = Option<String>, Query, description = "The name of the file, for people. Folders and what could \
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
    let (name, state, user) = (filename.unwrap_or_default(), app.clone(), actor.user.clone());
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
/// The oldest first.
#[utoipa::path(get, path = "/support/tickets/{id}/attachments", operation_id = "list_ticket_attachments",
    tag = "support",
    params(Page, ("id" = String, Path, format = "uuid", description = "The ticket.")),
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
/// As a file to save, never to show, with a type from a fixed list.
#[utoipa::path(get, path = "/support/tickets/{id}/attachments/{attachment_id}",
    operation_id = "get_ticket_attachment", tag = "support",
    params(("id" = String, Path, format = "uuid", description = "The ticket."),
        ("attachment_id" = String, Path, format = "uuid", description = "The file.")),
    responses((status = 200, description = "The file.", content((FileContent = "application/gzip"), (FileContent = "application/pdf"), (FileContent = "application/vnd.tcpdump.pcap"), (FileContent = "application/x-7z-compressed"), (FileContent = "application/x-bzip2"), (FileContent = "application/x-tar"), (FileContent = "application/x-xz"), (FileContent = "application/zip"), (FileContent = "application/zstd"), (FileContent = "image/gif"), (FileContent = "image/jpeg"), (FileContent = "image/png"), (FileContent = "image/webp"), (FileContent = "text/plain")))))]
pub async fn get(
    State(app): State<Arc<AppState>>,
    actor: Actor,
    Ids(ticket, id): Ids<TicketId, TicketAttachmentId>,
) -> Result<Response, ActionError> {
    let file = action::ticket_attachments::get(&app, &actor, ticket, id).await?;
    download(app, file).await
}

/// The response that makes a client save `file`. The content follows in parts as the client takes it, so that few of
/// its bytes are in memory at a time. A part that cannot be read breaks the response off.
pub(crate) async fn download(app: Arc<AppState>, file: TicketAttachment) -> Result<Response, ActionError> {
    let disposition = HeaderValue::try_from(disposition(&file.name))
        .map_err(|_| ActionError::Broken("the name of a file is no header".into()))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(media_type(file.kind))),
        (CONTENT_DISPOSITION, disposition),
        (CONTENT_LENGTH, HeaderValue::from(file.bytes)),
        // For a browser that shows it nevertheless.
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    ];
    // A database that is away is still an error of this request, not of the connection.
    let first = action::ticket_attachments::part(&app, &file, 0).await?;
    let (chunks, read) = (file.chunks(), Some(first));
    let parts = stream::try_unfold((app, file, 0, read), move |(app, file, position, read)| async move {
        if position == chunks {
            return Ok::<_, StoreError>(None);
        }
        let part: Bytes = match read {
            Some(first) => first,
            None => action::ticket_attachments::part(&app, &file, position).await?,
        };
        Ok(Some((part, (app, file, position + 1, None))))
    });
    Ok((headers, Body::from_stream(parts)).into_response())
}

#[cfg(test)]
mod tests;
