//! Nodes that operators have drained.

use super::changes::{NewChange, record};
use crate::entity::drained_nodes::{ActiveModel, Column, Entity};
use crate::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use std::collections::BTreeSet;

impl Store {
    /// Returns the drained nodes, by chain and name.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn drained_nodes(&self) -> Result<BTreeSet<(String, String)>, StoreError> {
        self.read(async |database| {
            let rows = Entity::find().all(database).await?;
            Ok(rows.into_iter().map(|row| (row.chain, row.node)).collect())
        })
        .await
    }

    /// Drains a node. Each entry of `remaining` lists the other nodes that a gateway can use; at least one must not be
    /// drained. Writes take turns: if two drain the last two nodes at the same time, the second sees the first.
    ///
    /// # Errors
    /// [`StoreError::WrongState`] if a gateway would be left without a node, [`StoreError::Unavailable`].
    pub async fn drain_node(
        &self,
        chain: &str,
        node: &str,
        remaining: &[BTreeSet<String>],
        now: Time,
    ) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let drained = Entity::find().filter(Column::Chain.eq(chain)).all(transaction).await?;
            let is_usable = |node: &String| drained.iter().all(|row| row.node != *node);
            if !remaining.iter().all(|nodes| nodes.iter().any(is_usable)) {
                return Err(StoreError::WrongState("this is the last usable node of the chain"));
            }
            let row = ActiveModel { chain: Set(chain.into()), node: Set(node.into()), drained_at: Set(now) };
            let again = OnConflict::columns([Column::Chain, Column::Node])
                .update_column(Column::DrainedAt)
                .to_owned();
            Entity::insert(row).on_conflict(again).exec_without_returning(transaction).await?;
            record(transaction, NewChange::Chain(chain), now).await
        })
        .await
    }

    /// Ends the drain of a node, if it is drained.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn resume_node(&self, chain: &str, node: &str, now: Time) -> Result<(), StoreError> {
        self.write(async |transaction| {
            let one = Entity::delete_many().filter(Column::Chain.eq(chain)).filter(Column::Node.eq(node));
            let deleted = one.exec(transaction).await?;
            if deleted.rows_affected == 0 {
                return Ok(());
            }
            record(transaction, NewChange::Chain(chain), now).await
        })
        .await
    }
}
