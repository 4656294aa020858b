//! Endpoints whose deliveries fail.

use super::webhooks::{Webhook, of_tenant};
use crate::entity::webhooks::Column;
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect};

impl Store {
    /// Returns the endpoints of a tenant whose deliveries fail, or that were switched off because of that, the longest
    /// failing first: at most `limit`. Endpoints that people have switched off are left out.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn failing_webhooks(&self, tenant: TenantId, limit: u64) -> Result<Vec<Webhook>, StoreError> {
        let fails = Condition::all().add(Column::Active.eq(true)).add(Column::FailingSince.is_not_null());
        let failing = of_tenant(tenant)
            .filter(Condition::any().add(fails).add(Column::DisabledAt.is_not_null()))
            .order_by_asc(Column::FailingSince)
            .order_by_asc(Column::Id)
            .limit(limit);
        self.read(async |database| Ok(failing.all(database).await?.into_iter().map(Webhook::from).collect()))
            .await
    }
}
