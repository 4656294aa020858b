//! Versions in forms, so that a form which was opened before somebody else's change does not take that change back without
//! its sender knowing it.
//!
//! The form of something that several people change has the version that it was made of in a hidden field, and the action
//! refuses the form if that is no longer the version, as it does for the header `If-Match` of the API. The form is then
//! shown again: with what was typed, with what stands there now beside it, and with the version of the latter, so that
//! sending it again replaces something that was seen. A form that is refused for another reason keeps its version.

use super::context::PageContext;
use super::form::FieldList;
use super::problems::Problems;
use crate::management::action::actor::Actor;
use crate::management::action::versions::{self, IfMatch};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_store::{Version, Versioned};
use std::fmt;

/// The hidden field with the version.
pub(crate) const VERSION: &str = "version";

/// The version that a form is made of; empty for what does not exist.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FormVersion(String);

impl FormVersion {
    /// The current version, to be looked up before what the form shows is read.
    ///
    /// # Errors
    /// [`ActionError::Unavailable`].
    pub(crate) async fn current(app: &AppState, of: Versioned) -> Result<Self, ActionError> {
        Ok(versions::current(app, of).await?.map(FormVersion::from).unwrap_or_default())
    }

    /// The version that a form was sent with.
    pub(crate) fn sent(fields: &FieldList) -> Self {
        FormVersion(fields.one(VERSION).to_owned())
    }

    /// The version of a form that is shown again because of `problems`: this one, if they say that there is another than
    /// the one that was sent.
    pub(crate) fn again(self, problems: &Problems, fields: &FieldList) -> Self {
        if problems.is_changed() { self } else { FormVersion::sent(fields) }
    }

    /// Whether there is one.
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

/// The condition of a form: none without the field, as without the header. What is no version matches none.
pub(crate) fn condition(fields: &FieldList) -> Option<IfMatch> {
    let mut version = [0; 16];
    let known = hex::decode_to_slice(fields.given(VERSION)?, &mut version).map(|()| Version(version));
    Some(IfMatch::OneOf(known.into_iter().collect()))
}

impl PageContext {
    /// The user, who accepts the version that a form was made of and no other.
    pub(crate) fn expecting(&self, fields: &FieldList) -> Actor {
        Actor { if_match: condition(fields), ..self.actor.clone() }
    }
}

#[cfg(test)]
mod tests;
