//! Plans in force.

use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use rpcgate_core::plan::{Plan, Tier};

/// Every plan, with the settings of operators over the configuration, the smallest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn plans(app: &AppState) -> Result<[Plan; 4], ActionError> {
    let config = app.settings.overridden_by(&app.store.overlay().await?);
    Ok(Tier::ALL.map(|tier| config.plans.of(tier)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::app_state::tests::{NOON, Site};
    use rpcgate_core::config::PlanChange;

    #[tokio::test]
    async fn settings_of_operators_override_the_file_and_the_file_overrides_the_defaults() {
        let site = Site::of("[plans.free]\nper_minute = 20\nper_hour = 600\n").await;
        let change = PlanChange { per_minute: Some(30), ..PlanChange::default() };
        site.app.store.put_plan(Tier::Free, &change, NOON).await.unwrap();
        let [free, standard, ..] = plans(&site.app).await.unwrap();
        assert_eq!((free.per_minute, free.per_hour, free.per_day), (30, 600, 10_000));
        assert_eq!(standard, Plan::of(Tier::Standard));
    }
}
