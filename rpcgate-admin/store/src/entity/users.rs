//! Users. An address is stored in lower case, so that it is unique in any spelling.

use crate::query::UserId;
use crate::query::named::named_values;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// The role of a member; `GET /roles` lists what each may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MemberRole))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads, and changes nothing.
    Viewer,
    /// Manages billing.
    Billing,
    /// Manages projects and keys.
    Developer,
    /// Manages the tenant.
    Admin,
    /// Owns the tenant.
    Owner,
}

impl Role {
    /// All roles, in ascending order of permissions.
    pub const ALL: [Role; 5] = [Role::Viewer, Role::Billing, Role::Developer, Role::Admin, Role::Owner];

    /// Returns its name in the API and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Billing => "billing",
            Role::Developer => "developer",
            Role::Admin => "admin",
            Role::Owner => "owner",
        }
    }
}

named_values!(Role, "role", as_str);

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "users")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: UserId,
    /// Null for an operator.
    pub(crate) tenant_id: Option<TenantId>,
    #[sea_orm(unique)]
    pub(crate) email: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) password: Option<String>,
    pub(crate) confirmed_at: Option<Time>,
    pub(crate) created_at: Time,
    pub(crate) disabled_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
