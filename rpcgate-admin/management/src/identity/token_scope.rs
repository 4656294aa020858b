//! Scopes of personal access tokens.
//!
//! A token acts as the user who made it, with some of the user's rights. For members of a tenant the scopes are the
//! permissions of roles; for operators there are two scopes.

use super::role::{Permission, Role};
use rpcgate_store::UnknownName;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One of a user's rights, which a token can have.
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

    /// Returns the scope's name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            TokenScope::Member(permission) => permission.as_str(),
            TokenScope::OperatorRead => "operator_read",
            TokenScope::OperatorWrite => "operator_write",
        }
    }

    /// Reports whether a user may grant this scope to a token. Members may grant the permissions of their `role`,
    /// operators (`None`) the operators' scopes.
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
    /// Returns the scopes with these names. Names that this version does not know grant nothing.
    pub fn of(names: &[String]) -> Self {
        TokenScopes(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Reports whether `scope` is among them.
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
    fn no_user_grants_more_than_its_own_rights() {
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
