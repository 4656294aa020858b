//! JSON shapes of files attached to support tickets, and their download.

use crate::action;
use crate::app_state::AppState;
use crate::attachment::{disposition, media_type};
use crate::error::ActionError;
use crate::shape::moment::Moment;
use crate::shape::ticket_comments::CommentAuthor;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use rpcgate_store::{StoreError, TicketAttachment};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The kind of a file, detected from its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AttachmentKind)]
pub enum AttachmentKindJson {
    /// A PNG image.
    Png,
    /// A JPEG image.
    Jpeg,
    /// A GIF image.
    Gif,
    /// A WebP image.
    Webp,
    /// A PDF document.
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
    /// A tar archive.
    Tar,
    /// A 7-Zip archive.
    SevenZip,
    /// A packet capture (pcap or pcapng).
    Capture,
    /// Text in UTF-8.
    Text,
    /// Text in a single-byte encoding.
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

/// A file attached to a ticket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = TicketAttachment)]
pub struct TicketAttachmentJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The kind of author.
    pub author: CommentAuthor,
    /// The user who attached it; null for an operator, whose identity members do not see.
    #[schema(format = "uuid")]
    pub user_id: Option<String>,
    /// Its name, with an extension that fits its kind.
    pub name: String,
    /// The kind of the file.
    pub kind: AttachmentKindJson,
    /// Its length in bytes.
    pub bytes: u64,
    /// The time at which it was attached.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl TicketAttachmentJson {
    /// Returns a file as operators see it.
    pub fn for_operators(file: TicketAttachment) -> Self {
        let user_id = Some(file.user.to_string());
        TicketAttachmentJson { user_id, ..TicketAttachmentJson::from(file) }
    }
}

impl From<TicketAttachment> for TicketAttachmentJson {
    /// Returns a file as members see it.
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

/// Returns the response that makes a client save `file`. The content is sent in parts as the client reads it, so that
/// little of it is in memory. A part that cannot be read aborts the response.
pub async fn download(app: Arc<AppState>, file: TicketAttachment) -> Result<Response, ActionError> {
    let disposition = HeaderValue::try_from(disposition(&file.name))
        .map_err(|_| ActionError::Broken("the name of a file is no header".into()))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(media_type(file.kind))),
        (CONTENT_DISPOSITION, disposition),
        (CONTENT_LENGTH, HeaderValue::from(file.bytes)),
        // A browser might show the file nevertheless.
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    ];
    // The first part is read here, so that an unreachable database is an error of this request and not of the
    // connection.
    let first = action::ticket_attachments::part(&app, &file, 0).await?;
    let chunks = file.chunks();
    let read = Some(first);
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
