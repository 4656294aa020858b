//! Contents of the sign-up page next to the form.

use super::filters::grouped;
use rpcgate_core::plan::Tier;
use rpcgate_management::action::chains;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;

const NAMED: usize = 5;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FreePlanOffer {
    pub(super) title: &'static str,
    pub(super) facts: Vec<String>,
}

impl FreePlanOffer {
    /// Returns the offer under the operators' current settings.
    ///
    /// # Errors
    /// [`ActionError::Unavailable`].
    pub(super) async fn of(app: &AppState) -> Result<Self, ActionError> {
        let config = app.config_in_force().await?;
        let plan = config.plans.of_tenant(Tier::Free);
        let is_free = plan.price.0 == 0 && config.billing.fees.of(Tier::Free) == 0;
        let mut facts = Vec::new();
        facts.extend(chains_text(app).await?);
        facts.push(format!(
            "{} requests a minute and {} a day for each key",
            grouped(plan.per_minute.into()),
            grouped(plan.per_day.into())
        ));
        facts.push("HTTPS, WebSocket and gRPC, with your existing client library".into());
        facts.push("Signed webhooks with retries that you can inspect".into());
        if is_free {
            facts.push("No card needed".into());
        }
        let title = if is_free { "Free, for as long as you like" } else { "What you get" };
        Ok(FreePlanOffer { title, facts })
    }
}

/// Lists the served chains, the first ones by name.
async fn chains_text(app: &AppState) -> Result<Option<String>, ActionError> {
    let served: Vec<_> = chains::chains(app).await?.into_iter().filter(|chain| chain.served).collect();
    let names: Vec<_> = served.iter().take(NAMED).map(|chain| chain.facts.name.as_str()).collect();
    let names = names.join(", ");
    Ok(match served.len() {
        0 => None,
        1 => Some(format!("{names} behind one key")),
        more if more > NAMED => Some(format!("{more} chains behind one key: {names} and more")),
        more => Some(format!("{more} chains behind one key: {names}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    #[tokio::test]
    async fn the_offer_is_that_of_the_configuration() {
        let site = Site::of("[plans.free]\nper_minute = 7\nper_hour = 400\nper_day = 4321\n[chains.eth]\nnodes = [\"http://127.0.0.1:1/\"]\n").await;
        let FreePlanOffer { facts, .. } = FreePlanOffer::of(&site.app).await.unwrap();
        assert_eq!(facts[..2], ["eth behind one key", "7 requests a minute and 4,321 a day for each key"]);
    }
}
