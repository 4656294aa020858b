//! How pages are written, and how one says no.

use crate::management::error::ActionError;
use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};

/// Where one's own page is, from every other page.
pub(super) const HOME: &str = "./";
/// Where one logs in.
pub(super) const LOGIN: &str = "login";

/// A page that says one thing, and where to go on.
#[derive(Template)]
#[template(path = "notice.html")]
pub(super) struct Notice<'a> {
    /// What it is about.
    pub(super) title: &'a str,
    /// What there is to say.
    pub(super) text: String,
    /// Where the link leads, and what it says.
    pub(super) way: Option<(&'a str, &'a str)>,
    /// Whether it is what was hoped for.
    pub(super) is_good: bool,
}

/// Answers with a page.
pub(super) fn shown(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => ActionError::Broken(format!("a page cannot be written: {error}")).into_response(),
    }
}

/// Answers with the page made of what `error` says, under the status and the headers that the API would answer with.
pub(super) fn refused<P: Template>(error: ActionError, page: impl FnOnce(String) -> P) -> Response {
    let shown = shown(error.status(), &page(sentence(&error)));
    let (mut head, _) = error.into_response().into_parts();
    // What belongs to the API's body, and a challenge that no browser can answer.
    for name in [CONTENT_TYPE, CONTENT_LENGTH, WWW_AUTHENTICATE] {
        head.headers.remove(name);
    }
    (head.headers, shown).into_response()
}

/// Answers with a page that says no more than what `error` says.
pub(super) fn refusal(error: ActionError) -> Response {
    let way = Some((HOME, "Go to the start"));
    refused(error, |text| Notice { title: "That did not work", text, way, is_good: false })
}

/// What an error says, as a sentence. The names of fields stand between backticks for programmers.
fn sentence(error: &ActionError) -> String {
    let text = error.to_string().replace('`', "");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
