//! Versions in forms, so that an outdated form does not silently revert another user's change.
//!
//! The form of an object that several users may change has the object's version in a hidden field. The action refuses
//! the form if the version is no longer current, as it does for the API's `If-Match` header. The form is then shown
//! again: with the submitted values, the current ones next to them, and the current version, so that sending it again
//! overwrites values that the user has seen. A form that is refused for another reason keeps its version.

use super::context::PageContext;
use super::form::FieldList;
use super::problems::Problems;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::versions::{self, IfMatch};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_store::{Version, Versioned};
use std::fmt;

/// The hidden field with the version.
pub(crate) const VERSION: &str = "version";

/// The version that a form was rendered from; empty if the object does not exist.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FormVersion(String);

impl FormVersion {
    /// Returns the current version. It must be read before the content of the form.
    ///
    /// # Errors
    /// [`ActionError::Unavailable`].
    pub(crate) async fn current(app: &AppState, of: Versioned) -> Result<Self, ActionError> {
        Ok(versions::current(app, of).await?.map(FormVersion::from).unwrap_or_default())
    }

    /// Returns the version that a form was sent with.
    pub(crate) fn sent(fields: &FieldList) -> Self {
        FormVersion(fields.one(VERSION).to_owned())
    }

    /// Returns the version for showing a form again because of `problems`: the current one (`self`) if the object
    /// changed, or the submitted one.
    pub(crate) fn again(self, problems: &Problems, fields: &FieldList) -> Self {
        if problems.is_changed() { self } else { FormVersion::sent(fields) }
    }

    pub(crate) fn is_known(&self) -> bool {
        !self.0.is_empty()
    }
}

impl From<Version> for FormVersion {
    fn from(Version(bytes): Version) -> Self {
        FormVersion(hex::encode(bytes))
    }
}

impl fmt::Display for FormVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the condition of a form: `None` without the field, as without the header. A malformed version matches
/// nothing.
pub(crate) fn condition(fields: &FieldList) -> Option<IfMatch> {
    let mut version = [0; 16];
    let known = hex::decode_to_slice(fields.filled(VERSION)?, &mut version).map(|()| Version(version));
    Some(IfMatch::OneOf(known.into_iter().collect()))
}

impl PageContext {
    /// Returns the actor whose actions accept only the version of the form.
    pub(crate) fn expecting(&self, fields: &FieldList) -> Actor {
        Actor { if_match: condition(fields), ..self.actor.clone() }
    }
}

#[cfg(test)]
mod tests;
