//! Everything that operators set over the configuration.

use super::plans::plan;
use super::value::tier;
use super::weights::weight;
use crate::store::entity::{chain_switches, drained_nodes, plans, weights};
use crate::store::{Store, StoreError};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::config::Overlay;
use sea_orm::EntityTrait;

impl Store {
    /// Everything that operators set over the configuration, as one snapshot.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn overlay(&self) -> BoxFuture<'_, Result<Overlay, StoreError>> {
        Box::pin(async move {
            let (plans, weights, switches, drained) = self
                .database
                .snapshot(async |snapshot| {
                    let plans = plans::Entity::find().all(snapshot).await?;
                    let weights = weights::Entity::find().all(snapshot).await?;
                    let switches = chain_switches::Entity::find().all(snapshot).await?;
                    let drained = drained_nodes::Entity::find().all(snapshot).await?;
                    Ok::<_, StoreError>((plans, weights, switches, drained))
                })
                .await?;
            let mut overlay = Overlay::default();
            for row in plans {
                overlay.plans.insert(tier(&row.tier)?, plan(&row)?);
            }
            for row in weights {
                overlay.weights.entry(row.chain).or_default().insert(row.method, weight(row.cu)?);
            }
            overlay.chains = switches.into_iter().map(|row| (row.chain, row.enabled)).collect();
            overlay.drained = drained.into_iter().map(|row| (row.chain, row.node)).collect();
            Ok(overlay)
        })
    }
}
