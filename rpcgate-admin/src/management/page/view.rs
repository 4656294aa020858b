//! Rendering of pages and of errors on pages.

use crate::management::error::ActionError;
use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};

/// The user's home page, relative to every other page.
pub(super) const HOME: &str = "./";
/// The log-in page.
pub(super) const LOGIN: &str = "login";

/// The page on which an authenticator app is added.
pub(super) const ADD_FACTOR: &str = "totp";

/// A page with a message and a link.
#[derive(Template)]
#[template(path = "notice.html")]
pub(super) struct Notice<'a> {
    /// The title.
    pub(super) title: &'a str,
    /// The message.
    pub(super) text: String,
    /// The target and the text of the link.
    pub(super) link: Option<(&'a str, &'a str)>,
    /// Whether the message reports a success.
    pub(super) is_good: bool,
}

/// Renders a page.
pub(super) fn shown(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => ActionError::Broken(format!("a page cannot be written: {error}")).into_response(),
    }
}

/// Renders `page` with the text of `error`, with the status and the headers of the API's response.
pub(super) fn refused<P: Template>(error: ActionError, page: impl FnOnce(String) -> P) -> Response {
    let shown = shown(error.status(), &page(sentence(&error)));
    let (mut head, _) = error.into_response().into_parts();
    // Headers of the API's body, and an authentication challenge that no browser can answer.
    for name in [CONTENT_TYPE, CONTENT_LENGTH, WWW_AUTHENTICATE] {
        head.headers.remove(name);
    }
    (head.headers, shown).into_response()
}

/// Renders a page that shows only the text of `error`.
pub(super) fn refusal(error: ActionError) -> Response {
    let link = Some((HOME, "Go to the start"));
    refused(error, |text| Notice { title: "That did not work", text, link, is_good: false })
}

/// The text of an error as a sentence, without the backticks that mark field names for programmers.
fn sentence(error: &ActionError) -> String {
    let text = error.to_string().replace('`', "");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
