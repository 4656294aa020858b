//! Files of a ticket, up and down.

use super::context::{PageContext, PageResult};
use super::done::Done;
use super::form::{FormGuard, TOKEN};
use super::multipart::Multipart;
use super::tickets::shown;
use crate::management::action::ticket_attachments;
use crate::management::app_state::AppState;
use crate::management::attachment::MAX_BYTES;
use crate::management::error::ActionError;
use crate::management::extract::{Id, Ids, read_file};
use crate::management::identity::role::Permission;
use crate::management::shape::ticket_attachments::download;
use axum::Router;
use axum::extract::{Request, State};
use axum::routing::{get, post};
use bytes::Bytes;
use rpcgate_store::{TicketAttachmentId, TicketId};
use std::sync::Arc;

/// Bytes of a form around its file, at most.
const FRAME_BYTES: usize = 16 << 10;

/// The routes of these pages.
pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/support/{id}/files", post(create)).route("/support/{id}/files/{file}", get(read))
}

/// The file of a form of ours: its name and its content.
///
/// # Errors
/// [`ActionError::Forbidden`] for a form of others, [`ActionError::InvalidField`] if no file was chosen, and those of
/// [`read_file`].
pub(super) async fn sent_file(guard: &FormGuard, request: Request) -> Result<(String, Bytes), ActionError> {
    let (head, body) = request.into_parts();
    let bytes = read_file(body, MAX_BYTES + FRAME_BYTES, None).await.map_err(|error| match error {
        ActionError::LargeFile(_) => ActionError::LargeFile(MAX_BYTES),
        error => error,
    })?;
    let form = Multipart::read(&head.headers, &bytes)?;
    guard.check(form.text(TOKEN).unwrap_or_default())?;
    let file = form.file("file").ok_or_else(|| ActionError::field("file", "choose a file"))?;
    if file.content.len() > MAX_BYTES {
        return Err(ActionError::LargeFile(MAX_BYTES));
    }
    Ok((file.name.to_owned(), file.content.clone()))
}

/// Attaches the file of a form.
async fn create(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<TicketId>,
    guard: FormGuard,
    request: Request,
) -> PageResult {
    page.permitted(Permission::ManageTickets)?;
    let attached = async {
        let permit = ticket_attachments::begin(&app, &page.actor, id, false).await?;
        let (name, content) = sent_file(&guard, request).await?;
        ticket_attachments::create(&app, &page.actor, id, &name, content).await?;
        drop(permit);
        Ok(())
    };
    match attached.await {
        Ok(()) => Ok(page.done(&format!("support/{id}"), Done::FileAttached)),
        // A form of another site gets no page of ours with the ticket in it.
        Err(error @ ActionError::Forbidden(_)) => Err(error),
        Err(error) => shown(&app, &page, id, "", Some(error)).await,
    }
}

/// Downloads a file.
async fn read(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Ids(ticket, id): Ids<TicketId, TicketAttachmentId>,
) -> PageResult {
    page.permitted(Permission::Read)?;
    let file = ticket_attachments::get(&app, &page.actor, ticket, id).await?;
    download(app, file).await
}
