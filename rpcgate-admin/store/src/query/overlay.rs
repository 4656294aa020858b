//! The operators' overrides of the configuration.

use super::plan_figures::plan;
use super::scheduled_changes;
use super::weights::weight;
use crate::entity::{chain_switches, drained_nodes, plans, weights};
use crate::{Store, StoreError};
use rpcgate_config::Overlay;
use rpcgate_core::backend::BoxFuture;
use sea_orm::{ConnectionTrait, EntityTrait};

pub(super) async fn read(database: &impl ConnectionTrait) -> Result<Overlay, StoreError> {
    let mut overlay = Overlay::default();
    for row in plans::Entity::find().all(database).await? {
        overlay.plans.insert(row.tier, plan(&row)?);
    }
    for row in weights::Entity::find().all(database).await? {
        overlay.weights.entry(row.chain).or_default().insert(row.method, weight(row.cu)?);
    }
    let switches = chain_switches::Entity::find().all(database).await?;
    overlay.chains = switches.into_iter().map(|row| (row.chain, row.enabled)).collect();
    let drained = drained_nodes::Entity::find().all(database).await?;
    overlay.drained = drained.into_iter().map(|row| (row.chain, row.node)).collect();
    overlay.scheduled = scheduled_changes::all(database).await?;
    Ok(overlay)
}

impl Store {
    /// Reads the operators' overrides of the configuration as one snapshot.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn overlay(&self) -> BoxFuture<'_, Result<Overlay, StoreError>> {
        Box::pin(async move { self.database.snapshot(async |snapshot| read(snapshot).await).await })
    }
}
