//! The agreements of operators with a tenant: its contracts, and the quotas of its projects.

use super::contracts::TenantContract;
use super::figures::Figures;
use super::id::ContractId;
use super::quotas::own_quota;
use super::settings_line::{at, figure_lines, quoted, set_figure, time_of, unquoted};
use super::value::unreadable;
use crate::StoreError;
use crate::entity::{contracts, projects, quotas};
use rpcgate_config::ConfigLines;
use rpcgate_core::caller::{ProjectId, ProjectQuota, TenantId};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use std::collections::BTreeMap;

/// The agreements of operators with a tenant, without contracts that have ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TenantAgreements {
    /// Contracts that have not ended.
    pub contracts: BTreeMap<ContractId, TenantContract>,
    /// The quotas that operators have set, by project.
    pub quotas: BTreeMap<ProjectId, ProjectQuota>,
}

impl TenantAgreements {
    pub(super) async fn read(
        database: &impl ConnectionTrait,
        tenant: TenantId,
        now: Time,
    ) -> Result<Self, StoreError> {
        use contracts::Column;
        let is_open = Condition::any().add(Column::EndsAt.is_null()).add(Column::EndsAt.gt(now));
        let open = contracts::Entity::find().filter(Column::TenantId.eq(tenant)).filter(is_open);
        let mut agreements = TenantAgreements::default();
        for row in open.order_by_asc(Column::Id).all(database).await? {
            agreements.contracts.insert(row.id, row);
        }
        let its = projects::Entity::find()
            .filter(projects::Column::TenantId.eq(tenant))
            .filter(projects::Column::DeletedAt.is_null())
            .find_also_related(quotas::Entity);
        let set = its
            .all(database)
            .await?
            .into_iter()
            .filter_map(|(project, row)| Some((project.id, own_quota(&row?))));
        agreements.quotas.extend(set);
        Ok(agreements)
    }

    /// Returns the agreements as lines.
    pub fn lines(&self) -> ConfigLines {
        let mut lines = Vec::new();
        for (id, contract) in &self.contracts {
            let table = format!("contracts.{id}");
            lines.push((format!("{table}.from"), at(contract.from)));
            lines.extend(contract.until.map(|until| (format!("{table}.until"), at(until))));
            lines.push((format!("{table}.note"), quoted(&contract.note)));
            lines.push((format!("{table}.created_at"), at(contract.created_at)));
            lines.extend(figure_lines(&table, &contract.figures));
        }
        for (id, quota) in &self.quotas {
            let table = format!("quotas.{id}");
            let limits = [
                ("cu_per_day", Some(quota.cu_per_day)),
                ("cu_per_month", quota.cu_per_month),
                ("rps_limit", quota.rps_limit),
            ];
            let given =
                |(name, value): (&str, Option<u64>)| Some((format!("{table}.{name}"), value?.to_string()));
            lines.extend(limits.into_iter().filter_map(given));
        }
        lines.into_iter().collect()
    }

    /// Parses the lines of `tenant` that [`lines`](TenantAgreements::lines) returns.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] for other lines.
    pub fn of(tenant: TenantId, lines: &ConfigLines) -> Result<Self, StoreError> {
        let mut agreements = TenantAgreements::default();
        for (key, value) in lines.iter() {
            let done = agreements.set(tenant, key, value);
            done.ok_or_else(|| unreadable("agreement with a tenant", format!("{key} = {value}")))?;
        }
        Ok(agreements)
    }

    fn set(&mut self, tenant: TenantId, key: &str, value: &str) -> Option<()> {
        let (table, rest) = key.split_once('.')?;
        let (id, field) = rest.split_once('.')?;
        match table {
            "contracts" => {
                let id: ContractId = id.parse().ok()?;
                let contract = self.contracts.entry(id).or_insert_with(|| TenantContract {
                    id,
                    tenant,
                    figures: Figures::default(),
                    from: Time::from_secs(0),
                    until: None,
                    note: String::new(),
                    created_at: Time::from_secs(0),
                });
                match field {
                    "from" => contract.from = time_of(value)?,
                    "until" => contract.until = Some(time_of(value)?),
                    "note" => contract.note = unquoted(value)?,
                    "created_at" => contract.created_at = time_of(value)?,
                    figure => return set_figure(&mut contract.figures, figure, value),
                }
            }
            "quotas" => {
                let quota = self.quotas.entry(id.parse().ok()?).or_default();
                quota.has_row = true;
                let value = value.parse().ok()?;
                match field {
                    "cu_per_day" => quota.cu_per_day = value,
                    "cu_per_month" => quota.cu_per_month = Some(value),
                    "rps_limit" => quota.rps_limit = Some(value),
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::any_figures;
    use super::*;
    use proptest::prelude::*;

    const TENANT: TenantId = TenantId(2);

    proptest! {
        #[test]
        fn agreements_are_read_as_they_were_written(
            figures in any_figures(), until: bool, note in "\\PC*", month in prop::option::of(any::<u64>()),
        ) {
            let time = Time::from_micros(1_790_000_000_123_456);
            let contract = TenantContract {
                id: ContractId(7),
                tenant: TENANT,
                figures,
                from: time,
                until: until.then_some(Time::from_secs(1_890_000_000)),
                note,
                created_at: time,
            };
            let quota =
                ProjectQuota { cu_per_day: u64::MAX, cu_per_month: month, rps_limit: None, has_row: true };
            let agreements = TenantAgreements {
                contracts: [(contract.id, contract)].into(),
                quotas: [(ProjectId(3), quota)].into(),
            };
            let lines = ConfigLines::parse(&agreements.lines().to_string()).unwrap();
            prop_assert_eq!(TenantAgreements::of(TENANT, &lines).unwrap(), agreements);
        }
    }

    #[test]
    fn lines_of_other_programs_are_unreadable() {
        for line in ["gold = 1", "contracts.x.per_minute = 1", "quotas.x.cu_per_day = 1"] {
            let lines = ConfigLines::parse(line).unwrap();
            assert!(TenantAgreements::of(TENANT, &lines).is_err(), "{line}");
        }
    }
}
