//! Everything that operators set, as a gateway wants it.

use super::value::{count, tier, unreadable};
use crate::store::entity::{chain_switches, plans, weights};
use crate::store::{Store, StoreError};
use rpcgate_core::config::{Overlay, PlanChange};
use rpcgate_core::plan::Price;
use sea_orm::{EntityTrait, TransactionTrait};

impl Store {
    /// What operators set over the configuration, all at one moment.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    pub async fn overlay(&self) -> Result<Overlay, StoreError> {
        let (plans, weights, switches) = self
            .read(async |database| {
                let moment = database.begin().await?;
                let plans = plans::Entity::find().all(&moment).await?;
                let weights = weights::Entity::find().all(&moment).await?;
                let switches = chain_switches::Entity::find().all(&moment).await?;
                moment.rollback().await?;
                Ok((plans, weights, switches))
            })
            .await?;
        let mut overlay = Overlay::default();
        for row in plans {
            overlay.plans.insert(tier(&row.tier)?, plan(&row)?);
        }
        for row in weights {
            let cu = u32::try_from(row.cu).map_err(|_| unreadable("weight", row.cu))?;
            overlay.weights.entry(row.chain).or_default().insert(row.method, cu);
        }
        overlay.chains = switches.into_iter().map(|row| (row.chain, row.enabled)).collect();
        Ok(overlay)
    }
}

fn plan(row: &plans::Model) -> Result<PlanChange, StoreError> {
    let figure = |stored: Option<i64>| stored.map(|stored| count("figure of a plan", stored)).transpose();
    Ok(PlanChange {
        per_minute: figure(row.per_minute)?,
        per_hour: figure(row.per_hour)?,
        per_day: figure(row.per_day)?,
        heavy_per_minute: figure(row.heavy_per_minute)?,
        price: figure(row.price)?.map(Price),
    })
}
