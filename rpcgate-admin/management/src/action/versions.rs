//! The versions of objects that several users may change.

use crate::app_state::AppState;
use crate::error::ActionError;
use http::HeaderMap;
use http::header::IF_MATCH;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_store::{UserId, Version, Versioned};
use std::collections::BTreeMap;

const MAX_VERSIONS: usize = 20;

/// The versions that a client accepts: the header `If-Match` (RFC 9110, section 13.1.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IfMatch {
    /// Every version.
    Any,
    /// These versions. Tags that we did not issue match nothing.
    OneOf(Vec<Version>),
}

impl IfMatch {
    /// Reads the condition of a request, if it has one.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for a text that is not a list of tags.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, ActionError> {
        let mut versions = Vec::new();
        let mut given = headers.get_all(IF_MATCH).into_iter().peekable();
        if given.peek().is_none() {
            return Ok(None);
        }
        let wrong = || ActionError::named("If-Match", "must be an `ETag` of an earlier answer, or *");
        let mut tags = 0;
        for value in given {
            for tag in elements(value.to_str().map_err(|_| wrong())?) {
                if tag == "*" {
                    return Ok(Some(IfMatch::Any));
                }
                tags += 1;
                let opaque = tag.strip_prefix("W/").unwrap_or(tag);
                let opaque =
                    opaque.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).ok_or_else(wrong)?;
                if opaque.contains('"') || tags > MAX_VERSIONS {
                    return Err(wrong());
                }
                // A weak tag never matches in this header.
                let mut version = [0; 16];
                if !tag.starts_with("W/") && hex::decode_to_slice(opaque, &mut version).is_ok() {
                    versions.push(Version(version));
                }
            }
        }
        if tags == 0 {
            return Err(wrong());
        }
        Ok(Some(IfMatch::OneOf(versions)))
    }
}

/// Returns the elements of a list (RFC 9110, section 5.6.1), except empty ones. A comma in quotes is part of a tag.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let parts = list.split(move |character: char| {
        is_quoted ^= character == '"';
        character == ',' && !is_quoted
    });
    parts.map(str::trim).filter(|element| !element.is_empty())
}

/// Returns the current version. It must be read before the object.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn current(app: &AppState, of: Versioned) -> Result<Option<Version>, ActionError> {
    Ok(app.store.version(&of).await?)
}

/// Returns the versions of all members of the user's tenant. They must be read before the members.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn of_members(app: &AppState, tenant: TenantId) -> Result<BTreeMap<UserId, Version>, ActionError> {
    Ok(app.store.member_versions(tenant).await?)
}

/// Returns the versions of the quotas of all projects of a tenant. They must be read before the quotas.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn of_quotas(
    app: &AppState,
    tenant: TenantId,
) -> Result<BTreeMap<ProjectId, Version>, ActionError> {
    Ok(app.store.quota_versions(tenant).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(values: &[&'static str]) -> Result<Option<IfMatch>, String> {
        let values = values.iter().map(|value| (IF_MATCH, HeaderValue::from_static(value)));
        IfMatch::of(&values.collect()).map_err(|error| error.to_string())
    }

    const TAG: &str = "\"000102030405060708090a0b0c0d0e0f\"";

    #[test]
    fn a_condition_is_a_list_of_tags_or_a_star() {
        let version = Version([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        let one = Ok(Some(IfMatch::OneOf(vec![version])));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["*"]), Ok(Some(IfMatch::Any)));
        assert_eq!(read(&[TAG]), one);
        assert_eq!(read(&["\"other\", \"000102030405060708090a0b0c0d0e0f\""]), one);
        assert_eq!(read(&["\"other\"", TAG]), one);
        let none = Ok(Some(IfMatch::OneOf(vec![])));
        assert_eq!(read(&["W/\"000102030405060708090a0b0c0d0e0f\""]), none, "a weak tag");
        assert_eq!(read(&["\"\""]), none);
        assert_eq!(read(&["\"a,b\""]), none, "a tag may contain a comma");
        let padded = ", \"a,b\",, \"000102030405060708090a0b0c0d0e0f\" ,";
        assert_eq!(read(&[padded]), one, "elements of a list may be empty");
        for wrong in ["", "x", "\"", "000102030405060708090a0b0c0d0e0f", "\"a\"b\"", "\"a\" \"b\"", ", ,"] {
            assert!(read(&[wrong]).is_err(), "{wrong}");
        }
        let many = vec![TAG; MAX_VERSIONS + 1];
        assert!(read(&many).is_err() && read(&many[1..]).is_ok());
    }
}
