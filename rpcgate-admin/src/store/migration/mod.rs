//! How the schema came to be. A migration that was published is never changed: the next change is a migration of its
//! own, at the end of the list.

mod accounts;
mod usage;

use sea_orm::DynIden;
use sea_orm::sea_query::{Alias, IntoIden};
use sea_orm_migration::{MigrationTrait, MigratorTrait};

/// The management database.
pub(super) struct Management;

impl MigratorTrait for Management {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(accounts::Accounts)]
    }

    /// A name of its own, because usage may lie in the same database.
    fn migration_table_name() -> DynIden {
        Alias::new("management_migrations").into_iden()
    }
}

/// The usage database.
pub(super) struct Usage;

impl MigratorTrait for Usage {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(usage::Usage)]
    }

    fn migration_table_name() -> DynIden {
        Alias::new("usage_migrations").into_iden()
    }
}
