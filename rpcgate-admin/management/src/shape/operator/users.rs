//! JSON shapes of users for operators.

use crate::identity::password::Typed;
use crate::shape::moment::Moment;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A user as operators see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Account)]
pub struct AccountJson {
    /// The user's identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The user's tenant; null for operators.
    #[schema(format = "uuid")]
    pub tenant_id: Option<String>,
    /// The address to log in with.
    #[schema(example = "ada@example.com")]
    pub email: String,
    /// The display name.
    pub name: String,
    /// The user's role in the tenant, or `operator`.
    #[schema(example = "owner")]
    pub role: &'static str,
    /// True if the address is confirmed.
    pub confirmed: bool,
    /// The end of the lock that wrong passwords or second factors caused, if there is one.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub locked_until: Option<Moment>,
    /// The time at which operators disabled the account, if they did.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub disabled_at: Option<Moment>,
    /// True if the user has a second factor.
    pub mfa: bool,
    /// The creation time of the account.
    #[schema(value_type = String, format = "date-time")]
    pub created_at: Moment,
}

impl From<rpcgate_store::Account> for AccountJson {
    fn from(account: rpcgate_store::Account) -> Self {
        let rpcgate_store::Account { user, disabled_at, locked_until, has_factor } = account;
        AccountJson {
            id: user.id.to_string(),
            tenant_id: user.tenant.map(|id| id.to_string()),
            role: user.role_name(),
            email: user.email,
            name: user.name,
            confirmed: user.confirmed_at.is_some(),
            locked_until: locked_until.map(Moment),
            disabled_at: disabled_at.map(Moment),
            mfa: has_factor,
            created_at: user.created_at.into(),
        }
    }
}

/// The removal of a user's second factors.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveFactors {
    /// The reason, for the audit log and for the user: at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000, example = "Lost telephone; identity checked by a call.")]
    pub reason: String,
    /// The password of the operator, unless the session has a proof from the last ten minutes.
    #[schema(value_type = Option<String>, format = Password)]
    #[serde(default)]
    pub current_password: Option<Typed>,
}
