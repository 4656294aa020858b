//! Files attached to support tickets of the caller's tenant.

use super::actor::Actor;
use super::tickets;
use crate::app_state::AppState;
use crate::attachment::{ScanVerdict, UploadPermit, file_name, sniff};
use crate::error::ActionError;
use bytes::Bytes;
use rpcgate_core::caller::TenantId;
use rpcgate_store::{
    AttachmentBounds, StoreError, SupportTicket, TicketAttachment, TicketAttachmentId, TicketId, fresh_id,
};

/// The maximum number of files of a ticket (contract, "Accounts, second factors, money").
pub const MAX_PER_TICKET: u64 = 10;

/// Seconds after which an upload may be retried while too many others run.
const RETRY_UPLOAD: u32 = 5;

const UNKNOWN: ActionError = ActionError::NotFound("attachment");

fn bounds(app: &AppState) -> AttachmentBounds {
    let bytes_per_tenant = app.settings.config.admin.tickets.attachment_bytes;
    AttachmentBounds { per_ticket: MAX_PER_TICKET, bytes_per_tenant }
}

/// Checks whether the caller may attach a file to a ticket, before the file is read. The upload ends when the result is
/// dropped. If the request `is_keyed`, it may repeat an earlier request, which is answered whatever the current state
/// of the ticket is; then only [`create`] checks the ticket.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's, [`ActionError::Conflict`] if it is closed,
/// [`ActionError::Full`] if it has 10 files or the tenant's files are too large in total, [`ActionError::TooMany`]
/// while another upload of the tenant runs, or too many uploads of others.
pub async fn begin(
    app: &AppState,
    actor: &Actor,
    ticket: TicketId,
    is_keyed: bool,
) -> Result<UploadPermit, ActionError> {
    begin_in(app, actor.tenant()?, ticket, is_keyed).await
}

/// Checks like [`begin`] whether a file may be attached to a ticket of `tenant`. Files of operators count as the
/// tenant's.
///
/// # Errors
/// Those of [`begin`].
pub(super) async fn begin_in(
    app: &AppState,
    tenant: TenantId,
    ticket: TicketId,
    is_keyed: bool,
) -> Result<UploadPermit, ActionError> {
    if !is_keyed {
        app.store.may_attach(tenant, ticket, bounds(app)).await?;
    }
    app.uploads.begin(tenant).ok_or(ActionError::TooMany { retry_after: RETRY_UPLOAD })
}

/// Attaches a file with this `content` to a ticket, under a name derived from `name`, after the file check, if one is
/// configured.
///
/// # Errors
/// Those of [`begin`], [`ActionError::Invalid`] for a file that is empty, of a kind that is not accepted, or refused by
/// the check, [`ActionError::Unavailable`] if the check fails.
pub async fn create(
    app: &AppState,
    actor: &Actor,
    ticket: TicketId,
    name: &str,
    content: Bytes,
) -> Result<TicketAttachment, ActionError> {
    create_in(app, actor, actor.tenant()?, ticket, name, content).await
}

/// Attaches a file like [`create`] to a ticket of `tenant`, to which the actor belongs unless it is an operator.
///
/// # Errors
/// Those of [`create`].
pub(super) async fn create_in(
    app: &AppState,
    actor: &Actor,
    tenant: TenantId,
    ticket: TicketId,
    name: &str,
    content: Bytes,
) -> Result<TicketAttachment, ActionError> {
    let now = app.now();
    if content.is_empty() {
        return Err(ActionError::invalid("the file is empty"));
    }
    let kind = sniff(&content).ok_or_else(|| {
        let text = "this kind of file is not accepted: send text, PNG, JPEG, GIF, WebP, PDF, a packet capture, or an \
                    archive (ZIP, tar, gzip, bzip2, xz, Zstandard, 7-Zip)";
        ActionError::invalid(text)
    })?;
    if let Some(scanner) = &app.scanner {
        let verdict = scanner.scan(content.clone()).await;
        match verdict.map_err(|error| ActionError::Unavailable(error.to_string()))? {
            ScanVerdict::Accepted => {}
            ScanVerdict::Refused => {
                return Err(ActionError::invalid("the malware check refuses this file"));
            }
        }
    }
    let attachment = TicketAttachment {
        id: TicketAttachmentId(fresh_id(now)),
        ticket,
        user: actor.user.id,
        by_operator: actor.user.is_operator(),
        name: file_name(name, kind),
        kind,
        bytes: content.len() as u64,
        created_at: now,
    };
    let event = ("ticket.file_attached", ticket, attachment.id);
    let store = actor.audited_store(&app.store, Some(tenant), event, now);
    store.attach(tenant, &attachment, &content, bounds(app), now).await?;
    Ok(attachment)
}

/// Lists the files of a ticket, the oldest first.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's.
pub async fn list(
    app: &AppState,
    actor: &Actor,
    ticket: TicketId,
) -> Result<Vec<TicketAttachment>, ActionError> {
    let SupportTicket { tenant, id, .. } = tickets::get(app, actor, ticket).await?;
    Ok(app.store.ticket_attachments(tenant, id).await?)
}

/// Returns one file of a ticket.
///
/// # Errors
/// [`ActionError::NotFound`] for a ticket that is not the tenant's, or a file that is not the ticket's.
pub async fn get(
    app: &AppState,
    actor: &Actor,
    ticket: TicketId,
    id: TicketAttachmentId,
) -> Result<TicketAttachment, ActionError> {
    let files = list(app, actor, ticket).await?;
    files.into_iter().find(|file| file.id == id).ok_or(UNKNOWN)
}

/// Reads the chunk at `position`, counted from zero, of a file's [`TicketAttachment::chunks`].
///
/// # Errors
/// [`StoreError`].
pub async fn part(app: &AppState, file: &TicketAttachment, position: u64) -> Result<Bytes, StoreError> {
    app.store.attachment_chunk(file, position).await.map(Bytes::from)
}
