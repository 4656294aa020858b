//! A ticket as a conversation: its texts and files in order.

use super::context::PageContext;
use super::frame::initials;
use rpcgate_core::clock::Time;
use rpcgate_management::action::{members, ticket_attachments, ticket_comments};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_store::{SupportTicket, TicketAttachment, TicketAttachmentId, TicketComment, UserId};
use std::collections::HashMap;

/// The maximum number of comments shown. A ticket cannot have as many.
const MAX_COMMENTS: u64 = 1_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ThreadItem {
    pub(super) author: String,
    pub(super) initials: String,
    /// True if the author is an operator.
    pub(super) is_ours: bool,
    pub(super) at: Time,
    /// The paragraphs of the text, each as lines.
    pub(super) paragraphs: Vec<Vec<String>>,
    pub(super) file: Option<ThreadFile>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ThreadFile {
    pub(super) id: TicketAttachmentId,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Splits a text at blank lines into paragraphs, and these into lines.
pub(super) fn paragraphs(text: &str) -> Vec<Vec<String>> {
    let mut paragraphs = vec![Vec::new()];
    for line in text.lines().map(str::trim_end) {
        match paragraphs.last_mut() {
            Some(last) if !line.is_empty() => last.push(line.to_owned()),
            Some(last) if last.is_empty() => {}
            _ => paragraphs.push(Vec::new()),
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// Returns the conversation of a ticket, the oldest item first, and the number of its files.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub(super) async fn thread(
    app: &AppState,
    page: &PageContext,
    ticket: &SupportTicket,
) -> Result<(Vec<ThreadItem>, usize), ActionError> {
    let actor = &page.actor;
    let id = ticket.id;
    let members = members::list(app, actor, ticket.tenant).await?.into_iter();
    let names: HashMap<UserId, String> = members
        .map(|member| {
            let name = if member.name.trim().is_empty() { member.email } else { member.name };
            (member.id, name)
        })
        .collect();
    let item = |user: UserId, is_ours: bool, at: Time| {
        let author = match names.get(&user) {
            _ if is_ours => "Support",
            Some(name) => name.as_str(),
            None => "A former member",
        };
        let (author, initials) = (author.to_owned(), initials(author));
        ThreadItem { author, initials, is_ours, at, paragraphs: Vec::new(), file: None }
    };
    let first =
        ThreadItem { paragraphs: paragraphs(&ticket.text), ..item(ticket.user, false, ticket.created_at) };
    let comments = ticket_comments::list(app, actor, id, None, MAX_COMMENTS).await?.into_iter();
    let comments = comments.map(|TicketComment { user, by_operator, text, created_at, .. }| ThreadItem {
        paragraphs: paragraphs(&text),
        ..item(user, by_operator, created_at)
    });
    let files = ticket_attachments::list(app, actor, id).await?;
    let count = files.len();
    let files = files.into_iter().map(|file| {
        let TicketAttachment { id, user, by_operator, name, bytes, created_at, .. } = file;
        ThreadItem { file: Some(ThreadFile { id, name, bytes }), ..item(user, by_operator, created_at) }
    });
    let mut all: Vec<_> = [first].into_iter().chain(comments).chain(files).collect();
    all.sort_by_key(|one| one.at);
    Ok((all, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_separate_paragraphs() {
        assert_eq!(paragraphs("a\r\nb\r\n\r\n\r\n c\n"), [vec!["a", "b"], vec![" c"]]);
        assert!(paragraphs("").is_empty() && paragraphs("\n\n").is_empty());
    }
}
