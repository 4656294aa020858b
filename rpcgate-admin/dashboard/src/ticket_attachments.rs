//! Uploads and downloads of a ticket's files.

use super::context::{PageContext, PageResult};
use super::form::{FormGuard, TOKEN};
use super::multipart::Multipart;
use super::outcome::Done;
use super::tickets::shown;
use axum::Router;
use axum::extract::{Request, State};
use bytes::Bytes;
use rpcgate_management::action::ticket_attachments;
use rpcgate_management::app_state::AppState;
use rpcgate_management::attachment::MAX_BYTES;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Ids, read_file};
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_management::shape::ticket_attachments::download;
use rpcgate_store::{TicketAttachmentId, TicketId};
use std::sync::Arc;

/// The maximum bytes of a form in addition to its file.
const FRAME_BYTES: usize = 16 << 10;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/support/{id}/files", post(create)).route("/support/{id}/files/{file}", get(read))
}

/// Returns the name and the content of the file in a form.
///
/// # Errors
/// [`ActionError::Forbidden`] for an invalid form token, [`ActionError::Invalid`] if no file was chosen, and those
/// of [`read_file`].
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
        // A forged form must not get a page with the ticket.
        Err(error @ ActionError::Forbidden(_)) => Err(error),
        Err(error) => shown(&app, &page, id, "", Some(error)).await,
    }
}

async fn read(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Ids(ticket, id): Ids<TicketId, TicketAttachmentId>,
) -> PageResult {
    page.permitted(Permission::Read)?;
    let file = ticket_attachments::get(&app, &page.actor, ticket, id).await?;
    download(app, file).await
}
