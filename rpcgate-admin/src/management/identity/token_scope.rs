//! What a personal access token may do.
//!
//! A token acts as the user who made it, with a part of what the user may do. For members of a tenant, the parts are
//! the permissions of roles; for operators, there are two.

use super::role::{Permission, Role};
use rpcgate_store::UnknownName;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A part of what a user may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenScope {
    /// A permission of a member.
    Member(Permission),
    /// Read everything that operators read.
    OperatorRead,
    /// Change everything that operators change.
    OperatorWrite,
}

/// The scopes of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenScopes(Arc<[TokenScope]>);

impl TokenScope {
    /// All scopes.
    pub fn all() -> impl Iterator<Item = TokenScope> {
        let operators = [TokenScope::OperatorRead, TokenScope::OperatorWrite];
        Permission::ALL.into_iter().map(TokenScope::Member).chain(operators)
    }

    /// Its name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            TokenScope::Member(permission) => permission.as_str(),
            TokenScope::OperatorRead => "operator_read",
            TokenScope::OperatorWrite => "operator_write",
        }
    }

    /// Whether a user may grant it to a token: members what their `role` permits, operators (`None`) theirs.
    pub fn is_of(self, role: Option<Role>) -> bool {
        match (self, role) {
            (TokenScope::Member(permission), Some(role)) => permission.is_granted_to(role),
            (TokenScope::OperatorRead | TokenScope::OperatorWrite, None) => true,
            _ => false,
        }
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TokenScope {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        TokenScope::all().find(|scope| scope.as_str() == text).ok_or(UnknownName("scope"))
    }
}

impl TokenScopes {
    /// The scopes with these names. Names that this version does not know grant nothing.
    pub fn of(names: &[String]) -> Self {
        TokenScopes(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Whether `scope` is among them.
    pub fn contain(&self, scope: TokenScope) -> bool {
        self.0.contains(&scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn scopes_have_names_of_their_own() {
        let names: BTreeSet<_> = TokenScope::all().map(TokenScope::as_str).collect();
        assert_eq!(names.len(), TokenScope::all().count());
        for scope in TokenScope::all() {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        assert_eq!("owner".parse::<TokenScope>(), Err(UnknownName("scope")));
        let scopes = TokenScopes::of(&["read".into(), "unheard_of".into()]);
        assert!(scopes.contain(TokenScope::Member(Permission::Read)));
        assert!(!scopes.contain(TokenScope::OperatorRead));
    }

    #[test]
    fn nobody_grants_more_than_it_may_do_itself() {
        for scope in TokenScope::all() {
            let is_operators = matches!(scope, TokenScope::OperatorRead | TokenScope::OperatorWrite);
            assert_eq!(scope.is_of(None), is_operators, "{scope}");
            for role in Role::ALL {
                let permits =
                    matches!(scope, TokenScope::Member(permission) if permission.is_granted_to(role));
                assert_eq!(scope.is_of(Some(role)), permits, "{scope} {role}");
            }
        }
    }
}
