//! The global settings of operators: the limits of the built-in plans, weights, chain switches, and custom plans.

use super::custom_plans::CustomPlan;
use super::figures::Figures;
use super::settings_line::{at, figure_lines, quoted, set_figure, time_of, unquoted};
use super::{overlay, value};
use crate::StoreError;
use crate::entity::custom_plans::{Column, Entity};
use rpcgate_config::{ConfigLines, Overlay};
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use std::collections::BTreeMap;

/// The global settings of operators. A chain that is switched on equals one without a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceSettings {
    /// The limits of the built-in plans, weights, and chain switches.
    pub overlay: Overlay,
    /// Custom plans, by name.
    pub custom_plans: BTreeMap<String, CustomPlan>,
}

impl ServiceSettings {
    pub(super) async fn read(database: &impl ConnectionTrait) -> Result<Self, StoreError> {
        let mut overlay = overlay::read(database).await?;
        overlay.chains.retain(|_, is_on| !*is_on);
        // Scheduled changes are not settings yet.
        overlay.scheduled.clear();
        let rows = Entity::find().filter(Column::DeletedAt.is_null()).order_by_asc(Column::Id);
        let mut custom_plans = BTreeMap::new();
        for row in rows.all(database).await? {
            let plan = CustomPlan::from(row);
            custom_plans.insert(plan.name.clone(), plan);
        }
        Ok(ServiceSettings { overlay, custom_plans })
    }

    /// Returns the settings as lines.
    pub fn lines(&self) -> ConfigLines {
        let mut lines = Vec::new();
        for (tier, change) in &self.overlay.plans {
            let figures = Figures::from(*change);
            lines.extend(figure_lines(&format!("plans.{tier}"), &figures));
        }
        for (chain, weights) in &self.overlay.weights {
            let weight =
                |(method, cu): (&String, &u32)| (format!("weights.{chain}.{method}"), cu.to_string());
            lines.extend(weights.iter().map(weight));
        }
        for (chain, is_on) in &self.overlay.chains {
            lines.push((format!("chains.{chain}.enabled"), is_on.to_string()));
        }
        for (name, plan) in &self.custom_plans {
            let table = format!("custom_plans.{name}");
            lines.push((format!("{table}.id"), quoted(&plan.id.to_string())));
            lines.push((format!("{table}.base"), quoted(plan.base.name())));
            lines.push((format!("{table}.visible"), plan.is_visible.to_string()));
            lines.push((format!("{table}.created_at"), at(plan.created_at)));
            lines.extend(figure_lines(&table, &plan.figures));
        }
        lines.into_iter().collect()
    }

    /// Parses the lines that [`lines`](ServiceSettings::lines) returns.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] for other lines.
    pub fn of(lines: &ConfigLines) -> Result<Self, StoreError> {
        let (mut settings, mut plans) = (ServiceSettings::default(), BTreeMap::<String, Figures>::new());
        for (key, text) in lines.iter() {
            let done = settings.set(&mut plans, key, text);
            done.ok_or_else(|| value::unreadable("setting of operators", format!("{key} = {text}")))?;
        }
        for (name, figures) in plans {
            let tier = name.parse().map_err(|_| value::unreadable("tier", name))?;
            settings.overlay.plans.insert(tier, figures.plan);
        }
        Ok(settings)
    }

    fn set(&mut self, plans: &mut BTreeMap<String, Figures>, key: &str, value: &str) -> Option<()> {
        let (table, rest) = key.split_once('.')?;
        let (name, field) = rest.split_once('.')?;
        match table {
            "plans" => set_figure(plans.entry(name.to_owned()).or_default(), field, value),
            "weights" => {
                let weights = self.overlay.weights.entry(name.to_owned()).or_default();
                weights.insert(field.to_owned(), value.parse().ok()?);
                Some(())
            }
            "chains" if field == "enabled" => {
                self.overlay.chains.insert(name.to_owned(), value.parse().ok()?);
                Some(())
            }
            "custom_plans" => {
                let plan = self.custom_plans.entry(name.to_owned()).or_insert_with(|| CustomPlan {
                    id: CustomPlanId(0),
                    name: name.to_owned(),
                    base: Tier::Free,
                    is_visible: false,
                    figures: Figures::default(),
                    created_at: Time::from_secs(0),
                });
                match field {
                    "id" => plan.id = unquoted(value)?.parse().ok()?,
                    "base" => plan.base = unquoted(value)?.parse().ok()?,
                    "visible" => plan.is_visible = value.parse().ok()?,
                    "created_at" => plan.created_at = time_of(value)?,
                    figure => return set_figure(&mut plan.figures, figure, value),
                }
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::any_figures;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn settings_are_read_as_they_were_written(
            free in any_figures(), own in any_figures(), cu: u32, base in 0_usize..4, is_visible: bool,
        ) {
            let mut settings = ServiceSettings::default();
            if free.plan != Default::default() {
                settings.overlay.plans.insert(Tier::Free, free.plan);
            }
            let weights = [("eth_call".to_owned(), cu), ("a.b/c\"=".to_owned(), 1)];
            settings.overlay.weights.insert("eth".into(), weights.into());
            settings.overlay.chains.insert("btc".into(), false);
            let plan = CustomPlan {
                id: CustomPlanId(7),
                name: "start-up".into(),
                base: Tier::ALL[base],
                is_visible,
                figures: own,
                created_at: Time::from_micros(1_790_000_000_123_456),
            };
            settings.custom_plans.insert(plan.name.clone(), plan);
            let lines = settings.lines();
            let text = lines.to_string();
            let again = ConfigLines::parse(&text).unwrap();
            prop_assert_eq!(&again, &lines);
            prop_assert_eq!(ServiceSettings::of(&again).unwrap(), settings);
        }
    }

    #[test]
    fn lines_of_other_programs_are_unreadable() {
        for line in [
            "gold = 1",
            "plans.gold.per_minute = 1",
            "plans.free.gold = 1",
            "chains.eth.enabled = 1",
            "weights.eth.eth_call = -1",
            "custom_plans.a.base = \"gold\"",
        ] {
            let lines = ConfigLines::parse(line).unwrap();
            assert!(ServiceSettings::of(&lines).is_err(), "{line}");
        }
    }
}
