//! Writes of operators' settings. Each leaves a version.

use super::audit::Audit;
use super::config_versions::{ConfigScope, NewVersion, append, newest_text};
use super::service_settings::ServiceSettings;
use super::tenant_agreements::TenantAgreements;
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::DatabaseTransaction;

async fn text(
    transaction: &DatabaseTransaction,
    tenant: Option<TenantId>,
    now: Time,
) -> Result<String, StoreError> {
    let lines = match tenant {
        Some(tenant) => TenantAgreements::read(transaction, tenant, now).await?.lines(),
        None => ServiceSettings::read(transaction).await?.lines(),
    };
    Ok(lines.to_string())
}

/// Runs `work`, which changes settings of a scope, and stores the result as a version of its author. The first change
/// also stores the previous state as a version, so that every change can be undone.
async fn versioned<T>(
    transaction: &DatabaseTransaction,
    (tenant, now): (Option<TenantId>, Time),
    author: Option<&Audit>,
    work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let scope = tenant.map_or(ConfigScope::Service, ConfigScope::Tenant);
    let before = match newest_text(transaction, &scope).await? {
        Some(text) => text,
        None => {
            let text = text(transaction, tenant, now).await?;
            let first = NewVersion { scope: &scope, user: None, who: "", text: text.clone(), at: now };
            append(transaction, first).await?;
            text
        }
    };
    let done = work(transaction).await?;
    let text = text(transaction, tenant, now).await?;
    if text != before {
        let (user, who) = author.map_or((None, ""), |entry| (entry.user, entry.address.as_str()));
        append(transaction, NewVersion { scope: &scope, user, who, text, at: now }).await?;
    }
    Ok(done)
}

impl Store {
    /// Like `write`, for global settings, or agreements with `tenant`, which get a version.
    pub(super) async fn write_settings<T>(
        &self,
        tenant: Option<TenantId>,
        now: Time,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let author = self.entry.as_deref();
        self.write(async |transaction| versioned(transaction, (tenant, now), author, work).await).await
    }

    /// Like [`write_settings`](Self::write_settings), for a change that adds its own audit entries.
    pub(super) async fn transact_settings<T>(
        &self,
        (tenant, now): (Option<TenantId>, Time),
        author: Option<&Audit>,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact(async |transaction| versioned(transaction, (tenant, now), author, work).await).await
    }

    /// Returns the global settings of operators.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn service_settings(&self) -> Result<ServiceSettings, StoreError> {
        self.database.snapshot(async |snapshot| ServiceSettings::read(snapshot).await).await
    }

    /// Returns the agreements of operators with a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn tenant_agreements(
        &self,
        tenant: TenantId,
        now: Time,
    ) -> Result<TenantAgreements, StoreError> {
        self.database.snapshot(async |snapshot| TenantAgreements::read(snapshot, tenant, now).await).await
    }
}
