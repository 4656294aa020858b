//! Roles, which decide what a user may do in a tenant. Operators run the service, belong to no tenant and have no role.
//!
//! Neither Billing nor Developer includes the other, so roles have no order. Each action requires a [`Permission`].
//! This table shows the roles that have it (a test compares it with the code).
//!
//! | permission      | viewer | billing | developer | admin | owner |
//! |-----------------|--------|---------|-----------|-------|-------|
//! | read            | yes    | yes     | yes       | yes   | yes   |
//! | read_billing    | no     | yes     | no        | yes   | yes   |
//! | manage_billing  | no     | yes     | no        | yes   | yes   |
//! | request_limits  | no     | yes     | yes       | yes   | yes   |
//! | manage_tickets  | no     | yes     | yes       | yes   | yes   |
//! | manage_projects | no     | no      | yes       | yes   | yes   |
//! | manage_keys     | no     | no      | yes       | yes   | yes   |
//! | manage_webhooks | no     | no      | yes       | yes   | yes   |
//! | read_audit      | no     | no      | no        | yes   | yes   |
//! | manage_members  | no     | no      | no        | yes   | yes   |
//! | manage_tenant   | no     | no      | no        | yes   | yes   |
//! | manage_owners   | no     | no      | no        | no    | yes   |

pub use rpcgate_store::Role;
use std::fmt;

/// The right that an action requires.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Permission {
    /// Read the tenant, its projects, keys (their prefixes), usage, webhooks, limit requests and support tickets.
    Read,
    /// Read bills and payments.
    ReadBilling,
    /// Pay, and change the means of payment.
    ManageBilling,
    /// Request another plan.
    RequestLimits,
    /// Write support tickets and comments, attach files, reopen and rate tickets.
    ManageTickets,
    /// Create, change and delete projects.
    ManageProjects,
    /// Create and revoke API keys.
    ManageKeys,
    /// Create, change and delete webhooks and their subscriptions.
    ManageWebhooks,
    /// Read the audit log of the tenant's members.
    ReadAudit,
    /// Add and remove users and set their roles, except for owners.
    ManageMembers,
    /// Change the tenant's name.
    ManageTenant,
    /// Make a user an owner, take that role away, and require a second factor of all members.
    ManageOwners,
}

/// Returns a description of `role` for users.
pub const fn description(role: Role) -> &'static str {
    match role {
        Role::Viewer => "Sees projects, API keys by their prefix, and usage; changes nothing.",
        Role::Billing => {
            "Sees everything a viewer sees, and bills; pays, and asks for higher limits and for support."
        }
        Role::Developer => {
            "Sees everything a viewer sees; manages projects, API keys and webhooks, and asks for higher limits and for support."
        }
        Role::Admin => "Manages everything in the organisation, its members too, but not who owns it.",
        Role::Owner => "Manages everything in the organisation.",
    }
}

/// Returns the permissions of `role`.
pub fn permissions(role: Role) -> impl Iterator<Item = Permission> {
    Permission::ALL.into_iter().filter(move |permission| permission.is_granted_to(role))
}

impl Permission {
    /// All permissions.
    pub const ALL: [Permission; 12] = [
        Permission::Read,
        Permission::ReadBilling,
        Permission::ManageBilling,
        Permission::RequestLimits,
        Permission::ManageTickets,
        Permission::ManageProjects,
        Permission::ManageKeys,
        Permission::ManageWebhooks,
        Permission::ReadAudit,
        Permission::ManageMembers,
        Permission::ManageTenant,
        Permission::ManageOwners,
    ];

    /// Reports whether `role` has this permission.
    ///
    /// ```
    /// use rpcgate_management::identity::role::{Permission, Role};
    ///
    /// assert!(Permission::ReadBilling.is_granted_to(Role::Billing) && !Permission::ManageKeys.is_granted_to(Role::Billing));
    /// assert!(Permission::ManageKeys.is_granted_to(Role::Developer) && !Permission::ReadBilling.is_granted_to(Role::Developer));
    /// ```
    pub const fn is_granted_to(self, role: Role) -> bool {
        match self {
            Permission::Read => true,
            Permission::ReadBilling | Permission::ManageBilling => {
                matches!(role, Role::Billing | Role::Admin | Role::Owner)
            }
            Permission::RequestLimits | Permission::ManageTickets => !matches!(role, Role::Viewer),
            Permission::ManageProjects | Permission::ManageKeys | Permission::ManageWebhooks => {
                matches!(role, Role::Developer | Role::Admin | Role::Owner)
            }
            Permission::ReadAudit | Permission::ManageMembers | Permission::ManageTenant => {
                matches!(role, Role::Admin | Role::Owner)
            }
            Permission::ManageOwners => matches!(role, Role::Owner),
        }
    }

    /// Returns the permission's name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Permission::Read => "read",
            Permission::ReadBilling => "read_billing",
            Permission::ManageBilling => "manage_billing",
            Permission::RequestLimits => "request_limits",
            Permission::ManageTickets => "manage_tickets",
            Permission::ManageProjects => "manage_projects",
            Permission::ManageKeys => "manage_keys",
            Permission::ManageWebhooks => "manage_webhooks",
            Permission::ReadAudit => "read_audit",
            Permission::ManageMembers => "manage_members",
            Permission::ManageTenant => "manage_tenant",
            Permission::ManageOwners => "manage_owners",
        }
    }

    /// Returns the roles that have this permission, those with fewer permissions first.
    pub fn roles(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.is_granted_to(*role))
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_store::UnknownName;

    #[test]
    fn the_documented_table_of_roles_matches_the_code() {
        let mut rows = include_str!("role.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! |"))
            .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>());
        let head = rows.next().unwrap();
        assert_eq!(head[1..], Role::ALL.map(Role::as_str));
        assert!(rows.next().unwrap()[0].starts_with('-'));
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows.len(), Permission::ALL.len());
        for (row, permission) in rows.iter().zip(Permission::ALL) {
            assert_eq!(row[0], permission.to_string());
            let cells = Role::ALL.map(|role| if permission.is_granted_to(role) { "yes" } else { "no" });
            assert_eq!(row[1..], cells, "{permission}");
        }
    }

    #[test]
    fn only_the_name_of_a_role_is_read_as_one() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
            assert!(role.to_string().to_uppercase().parse::<Role>().is_err());
        }
        for text in ["", "operator", "root", "owner ", "Owner"] {
            assert_eq!(text.parse::<Role>(), Err(UnknownName("role")), "{text}");
        }
    }

    #[test]
    fn billing_and_developer_are_not_above_one_another() {
        let more = |a: Role, b: Role| permissions(a).any(|permission| !permission.is_granted_to(b));
        assert!(more(Role::Billing, Role::Developer) && more(Role::Developer, Role::Billing));
        assert!(!more(Role::Admin, Role::Owner) && !more(Role::Viewer, Role::Billing));
        assert_eq!(
            Permission::ManageKeys.roles().collect::<Vec<_>>(),
            [Role::Developer, Role::Admin, Role::Owner]
        );
    }
}
