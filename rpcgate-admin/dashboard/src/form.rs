//! The extractors of form fields. Each refuses a form without the browser's own token in the hidden field.

use super::cookies::VisitorCookie;
use super::session_cookie::takes_visitors;
use axum::extract::{FromRequest, FromRequestParts, Request};
use http::request::Parts;
use rpcgate_management::access::AuthSession;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::read_body;
use rpcgate_management::identity::form_token::{FormHolder, FormTokens};
use rpcgate_management::strict_json;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::sync::Arc;

pub(crate) const TOKEN: &str = "csrf";

/// The field in which the user types the name of the object to destroy.
pub(crate) const TYPED: &str = "confirm";

const FOREIGN: ActionError = ActionError::Forbidden(
    "this form does not belong to your session, or you have logged in or out: load the page again",
);

const NO_TEXT: &str = "the form is not text";

/// The check of a form's token against its sender.
#[derive(Clone, Debug)]
pub(crate) struct FormGuard {
    tokens: FormTokens,
    session: Option<AuthSession>,
    visitor: Option<VisitorCookie>,
}

impl FormGuard {
    pub(super) fn of(parts: &Parts, app: &AppState) -> Self {
        let session = parts.extensions.get::<AuthSession>().cloned();
        // A page linked from a mail is opened without the session cookie, because the mail is another site.
        let is_visitors = session.is_none() || takes_visitors(parts.uri.path());
        let visitor = parts.extensions.get::<VisitorCookie>().cloned();
        FormGuard { tokens: app.form_tokens.clone(), session, visitor: visitor.filter(|_| is_visitors) }
    }

    /// Checks the token of a form.
    ///
    /// # Errors
    /// [`ActionError::Forbidden`].
    pub(crate) fn check(&self, token: &str) -> Result<(), ActionError> {
        let session = self.session.as_ref().map(|session| FormHolder::Session(session.id));
        let visitor = self.visitor.as_ref().map(|VisitorCookie(value)| FormHolder::Visitor(value));
        let is_ours = session.into_iter().chain(visitor).any(|holder| self.tokens.is_valid(token, holder));
        if is_ours { Ok(()) } else { Err(FOREIGN) }
    }
}

impl FromRequestParts<Arc<AppState>> for FormGuard {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Infallible> {
        Ok(FormGuard::of(parts, app))
    }
}

/// The fields of a form or the parameters of a query. A name may occur several times, as it does for checkboxes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FieldList(Vec<(String, String)>);

impl FieldList {
    pub(super) fn of(text: &str) -> Result<Self, ActionError> {
        let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        match pairs.iter().find(|(_, value)| value.contains('\0')) {
            Some((name, _)) => Err(strict_json::nul(name)),
            None => Ok(FieldList(pairs)),
        }
    }

    /// Returns the first value of a field, trimmed; empty if the field is absent.
    pub(crate) fn one(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Returns the first value of a field as it was sent, without trimming; empty if the field is absent.
    pub(crate) fn exact(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Returns the value of a field unless it is empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.one(name)).filter(|value| !value.is_empty())
    }

    /// Returns all values of a field, trimmed.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.trim())
    }

    /// Reports whether a box is checked, or a button was pressed.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Reads a number; `None` if the field is empty.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for any other text.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &'static str) -> Result<Option<N>, ActionError> {
        let Some(text) = self.filled(name) else { return Ok(None) };
        let plain: String = text.chars().filter(|c| !matches!(c, ',' | ' ' | '\u{a0}')).collect();
        plain.parse().map(Some).map_err(|_| ActionError::field(name, "enter a number, such as 1,000"))
    }

    /// Checks that the user typed the name of the object to destroy as a page shows it. A page does not show double or
    /// unusual spaces or zero-width characters, so these are not compared. A name that shows nothing must be given
    /// exactly.
    ///
    /// # Errors
    /// [`ActionError::Invalid`].
    pub(crate) fn confirms(&self, name: &str) -> Result<(), ActionError> {
        let typed = self.one(TYPED);
        let shown = seen(name);
        if typed == name.trim() || (!shown.is_empty() && seen(typed) == shown) {
            return Ok(());
        }
        Err(ActionError::field(TYPED, format!("type {name} to confirm")))
    }

    /// Encodes the fields as a query string, except those in `without`.
    pub(crate) fn query_without(&self, without: &[&str]) -> String {
        let remaining = self.0.iter().filter(|(name, _)| !without.contains(&name.as_str()));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(remaining).finish()
    }
}

/// Returns a text as a reader sees it: one space for any white space between words, and no zero-width characters.
fn seen(text: &str) -> String {
    let has_width = |c: &char| {
        !matches!(*c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            && !matches!(*c, '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let text: String = text.chars().filter(has_width).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads the text of a form that has a valid token.
async fn read(request: Request, app: &Arc<AppState>) -> Result<String, ActionError> {
    let (parts, body) = request.into_parts();
    let guard = FormGuard::of(&parts, app);
    let bytes = read_body(Request::from_parts(parts, body), app).await?;
    // Browsers escape all non-ASCII characters.
    let text = str::from_utf8(&bytes).map_err(|_| ActionError::invalid(NO_TEXT))?;
    let token = form_urlencoded::parse(text.as_bytes()).find(|(name, _)| name == TOKEN);
    guard.check(token.as_ref().map_or("", |(_, token)| token))?;
    Ok(text.to_owned())
}

impl FromRequest<Arc<AppState>> for FieldList {
    type Rejection = ActionError;

    async fn from_request(request: Request, app: &Arc<AppState>) -> Result<Self, ActionError> {
        FieldList::of(&read(request, app).await?)
    }
}

/// The parameters of a query, for forms that filter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueryFields(pub(crate) FieldList);

impl<S: Send + Sync> FromRequestParts<S> for QueryFields {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ActionError> {
        FieldList::of(parts.uri.query().unwrap_or_default()).map(QueryFields)
    }
}

/// The fields of a form. Fields that `T` does not name are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<AppState>> for Form<T> {
    type Rejection = ActionError;

    async fn from_request(request: Request, app: &Arc<AppState>) -> Result<Self, ActionError> {
        let text = read(request, app).await?;
        strict_json::of_query(&text).map(Form)
    }
}

/// A form with no field but the token, such as a button.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlainForm;

impl FromRequest<Arc<AppState>> for PlainForm {
    type Rejection = ActionError;

    async fn from_request(request: Request, app: &Arc<AppState>) -> Result<Self, ActionError> {
        read(request, app).await.map(|_| PlainForm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_one_value_or_many() {
        let fields = FieldList::of("chains=eth&name=+A+%26+B+&chains=btc&empty=&cu=1%2C000&bad=x").unwrap();
        assert_eq!((fields.one("name"), fields.one("none")), ("A & B", ""));
        assert_eq!(fields.all("chains").collect::<Vec<_>>(), ["eth", "btc"]);
        assert!(fields.has("empty") && !fields.has("none") && fields.filled("empty").is_none());
        assert_eq!(fields.number::<u64>("cu").unwrap(), Some(1_000));
        assert_eq!(fields.number::<u64>("empty").unwrap(), None);
        assert!(fields.number::<u64>("bad").is_err());
        assert_eq!(fields.query_without(&["chains", "bad", "empty"]), "name=+A+%26+B+&cu=1%2C000");
        assert!(FieldList::of("a=%00").is_err());
    }

    #[test]
    fn a_name_is_typed_exactly() {
        let fields = FieldList::of("confirm=+checkout-worker+").unwrap();
        assert!(fields.confirms("checkout-worker").is_ok());
        assert!(fields.confirms("Checkout-worker").is_err() && FieldList::default().confirms("x").is_err());
    }

    // Shows (Dashboard).
    #[test]
    fn a_name_is_typed_as_it_is_seen() {
        let fields = FieldList::of("confirm=Evil+Corp").unwrap();
        for name in ["Evil  Corp", "Evil\u{a0}Corp", "Ev\u{200b}il Corp", "\u{feff}Evil \u{202e}Corp\u{2069}"]
        {
            assert!(fields.confirms(name).is_ok(), "{name:?}");
        }
        for name in ["EvilCorp", "Evil Corp 2", "evil corp", "\u{200b}"] {
            assert!(fields.confirms(name).is_err(), "{name:?}");
        }
        let pasted = FieldList::of("confirm=Evil++Corp").unwrap();
        assert!(pasted.confirms("Evil  Corp").is_ok() && pasted.confirms("Evil Corp").is_ok());
        assert!(FieldList::default().confirms("\u{200b}").is_err(), "it shows nothing");
    }
}
