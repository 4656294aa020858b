//! CSRF tokens of forms. Only a page rendered for the same browser contains a valid one, so another site cannot make
//! the browser submit our forms.
//!
//! ```
//! use rpcgate_management::identity::form_token::{FormHolder, FormTokens};
//!
//! let tokens = FormTokens::new(b"a secret of at least 32 bytes, for tests");
//! let token = tokens.issue(FormHolder::Visitor("3f1a"));
//! assert!(tokens.is_valid(&token, FormHolder::Visitor("3f1a")));
//! assert!(!tokens.is_valid(&token, FormHolder::Visitor("3f1b")));
//! ```

use super::derive;
use ring::hmac;
use rpcgate_store::SessionId;
use std::fmt;
use std::sync::Arc;

/// The browser for which a form is rendered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormHolder<'a> {
    /// A browser that is logged in.
    Session(SessionId),
    /// An anonymous browser, identified by the random value of its cookie.
    Visitor(&'a str),
}

impl FormHolder<'_> {
    fn text(self) -> String {
        match self {
            FormHolder::Session(session) => format!("session {session}"),
            FormHolder::Visitor(cookie) => format!("visitor {cookie}"),
        }
    }
}

/// Issues and checks form tokens. A token stays the same for the life of its session, so a page that was opened before
/// another one can still be submitted.
#[derive(Clone)]
pub struct FormTokens {
    key: hmac::Key,
    former: Arc<[hmac::Key]>,
}

impl fmt::Debug for FormTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormTokens").finish_non_exhaustive()
    }
}

impl FormTokens {
    /// Signs with a key derived from `secret` (`admin.jwt.secret`, the same on all hosts).
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        FormTokens { key: Self::key(secret), former: Arc::default() }
    }

    /// Also accepts tokens that were issued with one of the `former` secrets (`admin.jwt.former_secrets`).
    #[must_use]
    pub fn accepting<'s>(self, former: impl IntoIterator<Item = &'s [u8]>) -> Self {
        FormTokens { former: former.into_iter().map(Self::key).collect(), ..self }
    }

    fn key(secret: &[u8]) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &derive(secret, "rpcgate form tokens"))
    }

    /// Returns the token of `holder`'s forms, in hexadecimal digits.
    pub fn issue(&self, holder: FormHolder<'_>) -> String {
        hex::encode(hmac::sign(&self.key, holder.text().as_bytes()))
    }

    /// Reports whether `token` belongs to `holder`.
    pub fn is_valid(&self, token: &str, holder: FormHolder<'_>) -> bool {
        let Ok(tag) = hex::decode(token) else { return false };
        let text = holder.text();
        std::iter::once(&self.key)
            .chain(&*self.former)
            .any(|key| hmac::verify(key, text.as_bytes(), &tag).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_for_its_browser_alone() {
        let tokens = FormTokens::new(b"a secret of at least 32 bytes, for tests");
        let one = FormHolder::Session(SessionId(1));
        let other = FormHolder::Session(SessionId(2));
        let token = tokens.issue(one);
        assert!(tokens.is_valid(&token, one));
        for (token, holder) in [
            (token.as_str(), other),
            (token.as_str(), FormHolder::Visitor("1")),
            (&token[1..], one),
            (&token[..32], one),
            ("", one),
            ("no hexadecimal digits", one),
        ] {
            assert!(!tokens.is_valid(token, holder), "{token}");
        }
        let elsewhere = FormTokens::new(b"another secret of at least 32 bytes, for tests");
        assert!(!elsewhere.is_valid(&token, one));
    }

    #[test]
    fn a_page_that_was_opened_before_a_rotation_can_still_be_sent() {
        let former = b"a secret of at least 32 bytes, for tests".as_slice();
        let current = b"another secret of at least 32 bytes";
        let before = FormTokens::new(former);
        let after = FormTokens::new(current);
        let holder = FormHolder::Session(SessionId(1));
        let during = FormTokens::new(current).accepting([former]);
        assert!(during.is_valid(&before.issue(holder), holder));
        assert_eq!(during.issue(holder), after.issue(holder), "new ones are made with the current secret");
        assert!(!after.is_valid(&before.issue(holder), holder));
        assert!(!during.is_valid(&before.issue(FormHolder::Session(SessionId(2))), holder));
    }

    #[test]
    fn a_visitor_cannot_choose_a_cookie_that_becomes_a_session() {
        let tokens = FormTokens::new(b"a secret of at least 32 bytes, for tests");
        let session = FormHolder::Session(SessionId(7));
        let forged = FormHolder::text(session);
        assert!(!tokens.is_valid(&tokens.issue(FormHolder::Visitor(&forged)), session));
    }
}
