//! Notifications about higher prices to the tenants that would have paid more.
//!
//! The tenants are found before the change is saved, because a what-if about the plans in force shows no difference.
//! The identifier of a notification follows from the change and the tenant. So no tenant is notified twice about the
//! same change on a day, even if the form is sent repeatedly.

use super::weights::weight_by;
use super::what_if::{self, AskedPlan, AskedWeight, WhatIf, chain_of};
use crate::action::actor::Actor;
use crate::action::notifications::raise_once;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::mail::{Mail, day};
use rpcgate_config::Config;
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::usage::Amount;
use rpcgate_store::{AccountNotice, Digest, NotificationId, NotificationKind};

/// The maximum number of tenants that are notified about a change. Each is one write, and the operator waits for them.
pub const MAX_TOLD: usize = 500;

const MAX_NAMED: usize = 10;

/// The number of failed tenants after which the rest are skipped, because the database is unavailable then.
const MAX_FAILED: usize = 3;

/// The tenants affected by a change, and the text for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriceNotice {
    tenants: Vec<TenantId>,
    /// The increases: at most [`MAX_NAMED`], and the number of others.
    changes: Vec<String>,
    day: String,
    at: Time,
}

/// The numbers of notified tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NotifiedTenants {
    /// Tenants that were notified, now or before.
    pub told: usize,
    /// Tenants that could not be notified.
    pub left: usize,
}

impl PriceNotice {
    fn text(&self) -> String {
        format!("Call prices change on {}: {}", self.day, self.changes.join("; "))
    }

    /// Sets the time at which the change takes effect.
    #[must_use]
    pub fn taking_effect(self, from: Time) -> Self {
        PriceNotice { day: day(from), ..self }
    }

    fn id(&self, tenant: TenantId) -> NotificationId {
        let Digest(bytes) = Digest::of(&format!("{}\n{tenant}", self.text()));
        let (first, _) = bytes.split_at(16);
        NotificationId(first.iter().fold(0, |id, byte| id << 8 | u128::from(*byte)))
    }
}

/// Lists the price increases in the question, with the current and the new costs.
async fn dearer(app: &AppState, question: &WhatIf) -> Result<Vec<String>, ActionError> {
    let config = app.config_in_force().await?;
    let mut all = Vec::new();
    for AskedWeight { chain, method, cu } in &question.weights {
        let adapter = chain_of(chain)?;
        let name = adapter.facts().name.as_str().to_owned();
        let before = weight_by(&config, adapter, method);
        if *cu > before {
            all.push(format!("{method} on {name} costs {cu} Compute Units instead of {before}"));
        }
    }
    for plan in &question.plans {
        if let Some((name, before, after)) = prices(app, &config, plan).await?
            && after > before
        {
            let usd = |price: Price| dollars(Amount(price.0.into()));
            let before = usd(before);
            let after = usd(after);
            all.push(format!("a Compute Unit on the plan {name} costs {after} USD instead of {before}"));
        }
    }
    Ok(all)
}

/// Returns the name of a plan, and its current and new prices.
async fn prices(
    app: &AppState,
    config: &Config,
    AskedPlan { plan, figures }: &AskedPlan,
) -> Result<Option<(String, Price, Price)>, ActionError> {
    let price = figures.plan.price;
    if let Ok(tier) = plan.parse::<Tier>() {
        let before = config.plans.of(tier).price;
        return Ok(Some((tier.name().to_owned(), before, price.unwrap_or(before))));
    }
    let id = plan.parse::<CustomPlanId>().ok();
    let all = app.store.custom_plans().await?;
    let found = all.into_iter().find(|custom| custom.name == *plan || Some(custom.id) == id);
    Ok(found.map(|custom| {
        let base = config.plans.of(custom.base).price;
        (custom.name, custom.figures.plan.price.unwrap_or(base), price.unwrap_or(base))
    }))
}

/// Formats an amount without trailing zeros: `0.0015`.
fn dollars(amount: Amount) -> String {
    amount.to_string().trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Finds the tenants that would have paid more in the last 30 days, before the change is saved.
///
/// # Errors
/// [`ActionError::Invalid`] of `notify` for more than [`MAX_TOLD`] tenants, and those of [`ask`](what_if::ask()).
pub async fn prepare(app: &AppState, actor: &Actor, question: &WhatIf) -> Result<PriceNotice, ActionError> {
    let mut changes = dearer(app, question).await?;
    let tenants = if changes.is_empty() { Vec::new() } else { what_if::payers(app, actor, question).await? };
    if tenants.len() > MAX_TOLD {
        let text =
            format!("more than {MAX_TOLD} tenants would pay more, which is too many to notify at once");
        return Err(ActionError::field("notify", text));
    }
    if changes.len() > MAX_NAMED {
        let others = changes.len() - MAX_NAMED;
        changes.truncate(MAX_NAMED);
        changes.push(format!("further price increases: {others}"));
    }
    let at = app.now();
    Ok(PriceNotice { tenants, changes, day: day(at), at })
}

/// Notifies the tenants after the change is saved: by a notification, by mails to the members who want them, and with
/// an entry in each tenant's audit log. An error is logged and does not stop the other notifications.
pub async fn notify(app: &AppState, actor: &Actor, notice: &PriceNotice) -> NotifiedTenants {
    let mut done = NotifiedTenants::default();
    for (number, tenant) in notice.tenants.iter().enumerate() {
        if done.left >= MAX_FAILED {
            done.left += notice.tenants.len() - number;
            break;
        }
        match notify_tenant(app, actor, notice, *tenant).await {
            // The tenant was notified before, or does not exist any more.
            Ok(_) | Err(ActionError::NotFound(_)) => done.told += 1,
            Err(error) => {
                tracing::warn!(%error, %tenant, "a tenant could not be notified that calls cost more");
                done.left += 1;
            }
        }
    }
    done
}

async fn notify_tenant(
    app: &AppState,
    actor: &Actor,
    notice: &PriceNotice,
    tenant: TenantId,
) -> Result<bool, ActionError> {
    let id = notice.id(tenant);
    let text = notice.text();
    let named = format!("{}, {} changes", notice.day, notice.changes.len());
    let entry = actor.entry(Some(tenant), ("prices.told", id, named), notice.at);
    let account_notice =
        AccountNotice { id, tenant, user: None, kind: NotificationKind::Prices, text, at: notice.at };
    let dash_url = &app.settings.dash_url;
    raise_once(app, entry, account_notice, |_, to| {
        Mail::prices_changed(to, &notice.day, &notice.changes, dash_url)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::super::what_if::tests::{calls, operator, plan, ship, tenant, weight};
    use super::*;
    use crate::action::notifications::{UserNotification, list};
    use crate::testing::{NOON, Site};
    use rpcgate_store::{AuditSubject, CustomPlan, Role, User, UserId};
    use std::sync::Arc;
    use std::time::Duration;

    fn question(weights: Vec<AskedWeight>) -> WhatIf {
        WhatIf { weights, plans: Vec::new() }
    }

    async fn told(site: &Site, id: u128) -> Vec<UserNotification> {
        let user = User {
            id: UserId(1),
            tenant: Some(TenantId(id)),
            role: Role::Owner,
            ..(*operator().user).clone()
        };
        list(&site.app, &Actor { user: Arc::new(user), ..operator() }).await.unwrap()
    }

    /// Makes a site with three tenants on the standard plan. The first two call `eth_getLogs`.
    async fn used_site() -> Site {
        let site = Site::new().await;
        for id in 1..=3 {
            tenant(&site, id, Tier::Standard, None).await;
            site.visitor(Some(TenantId(id)), Role::Owner).await;
            site.visitor(Some(TenantId(id)), Role::Developer).await;
        }
        let made = [
            calls(110, 1, "eth_getLogs", 2, 75),
            calls(210, 1, "eth_getLogs", 1, 75),
            calls(310, 1, "eth_call", 2, 15),
        ];
        ship(&site, &made).await;
        site
    }

    // Shows (Plans, bills and payments): Tenants who would have paid more are notified once, at most 500 of them, if
    // the operator wants that.
    #[tokio::test]
    async fn tenants_who_would_have_paid_more_are_notified_once_with_both_weights() {
        let site = used_site().await;
        let request =
            question(vec![weight("eth_getLogs", 90), weight("eth_call", 15), weight("eth_chainId", 0)]);
        let notice = prepare(&site.app, &operator(), &request).await.unwrap();
        assert_eq!(notice.tenants, [TenantId(1), TenantId(2)]);
        for _ in 0..2 {
            let done = notify(&site.app, &operator(), &notice).await;
            assert_eq!(done, NotifiedTenants { told: 2, left: 0 });
        }
        let text =
            "Call prices change on 2026-12-31: eth_getLogs on eth costs 90 Compute Units instead of 75";
        for id in [1, 2] {
            let found = told(&site, id).await;
            let [one] = &found[..] else { panic!("{found:?}") };
            assert_eq!((one.kind, one.text.as_str(), one.at), (NotificationKind::Prices, text, NOON));
            let entries = site.app.store.audit(AuditSubject::Tenant(TenantId(id)), 99).await.unwrap();
            assert_eq!(entries.iter().filter(|entry| entry.action == "prices.told").count(), 1);
        }
        assert!(told(&site, 3).await.is_empty(), "it pays the same");
        let mails = site.handed_over_mails().await;
        assert_eq!(mails.len(), 2, "one for each owner: {mails:?}");
        assert!(mails.iter().all(|(_, subject)| subject == "Call prices change on 2026-12-31"));
        // Another change is notified too, and so is the same one on another day.
        let other =
            prepare(&site.app, &operator(), &question(vec![weight("eth_getLogs", 100)])).await.unwrap();
        assert_eq!(notify(&site.app, &operator(), &other).await.told, 2);
        site.clock.advance(Duration::from_secs(86_400));
        let later = prepare(&site.app, &operator(), &request).await.unwrap();
        assert_eq!(notify(&site.app, &operator(), &later).await.told, 2);
        assert_eq!(told(&site, 1).await.len(), 3);
    }

    #[tokio::test]
    async fn a_change_that_costs_no_more_concerns_no_tenant() {
        let site = used_site().await;
        for weights in [vec![], vec![weight("eth_getLogs", 75)], vec![weight("eth_getLogs", 60)]] {
            let notice = prepare(&site.app, &operator(), &question(weights)).await.unwrap();
            assert_eq!(notify(&site.app, &operator(), &notice).await, NotifiedTenants::default());
        }
        assert!(told(&site, 1).await.is_empty());
    }

    #[tokio::test]
    async fn the_prices_of_plans_are_listed_and_many_changes_are_counted() {
        let site = used_site().await;
        let own = CustomPlan {
            id: CustomPlanId(77),
            name: "startup".into(),
            base: Tier::Standard,
            is_visible: true,
            figures: super::super::what_if::tests::figures(&[("price_per_cu", 1_000_000_000)]),
            created_at: NOON,
        };
        site.app.store.create_custom_plan(&own).await.unwrap();
        let plans = vec![
            plan("standard", &[("price_per_cu", 1_500_000_000)]),
            plan("startup", &[("price_per_cu", 2_000_000_000)]),
            plan("premium", &[("price_per_cu", 1)]),
        ];
        let request = WhatIf { weights: Vec::new(), plans };
        let notice = prepare(&site.app, &operator(), &request).await.unwrap();
        assert_eq!(notice.tenants.len(), 3);
        let expected = [
            "a Compute Unit on the plan standard costs 0.0015 USD instead of 0.001",
            "a Compute Unit on the plan startup costs 0.002 USD instead of 0.001",
        ];
        assert_eq!(notice.changes, expected);
        let weights = (0..=MAX_NAMED).map(|number| weight(&format!("m{number}"), 7)).collect();
        let notice = prepare(&site.app, &operator(), &question(weights)).await.unwrap();
        assert_eq!((notice.changes.len(), notice.tenants.len()), (MAX_NAMED + 1, 0));
        assert_eq!(notice.changes[MAX_NAMED], "further price increases: 1");
    }

    // Shows (Plans, bills and payments).
    #[tokio::test]
    async fn a_change_that_concerns_too_many_tenants_is_refused_before_anything_is_saved() {
        let site = Site::new().await;
        let many = MAX_TOLD as u128 + 1;
        for id in 1..=many {
            tenant(&site, id, Tier::Standard, None).await;
        }
        let made: Vec<_> = (1..=many).map(|id| calls(id * 100 + 10, 1, "eth_getLogs", 1, 75)).collect();
        ship(&site, &made).await;
        let request = question(vec![weight("eth_getLogs", 90)]);
        let refused = prepare(&site.app, &operator(), &request).await.unwrap_err();
        assert!(refused.wrong_field() == Some("notify"), "{refused}");
        site.app.store.delete_tenant(TenantId(many), NOON).await.unwrap();
        assert_eq!(prepare(&site.app, &operator(), &request).await.unwrap().tenants.len(), MAX_TOLD);
    }

    // Shows (Plans, bills and payments).
    #[tokio::test]
    async fn unreachable_tenants_are_counted_and_a_database_outage_is_not_retried_for_each() {
        let site = used_site().await;
        let request = question(vec![weight("eth_getLogs", 90)]);
        let notice = prepare(&site.app, &operator(), &request).await.unwrap();
        let notice = PriceNotice { tenants: (1..=9).map(TenantId).collect(), ..notice };
        site.app.store.close().await;
        assert_eq!(notify(&site.app, &operator(), &notice).await, NotifiedTenants { told: 0, left: 9 });
    }
}
