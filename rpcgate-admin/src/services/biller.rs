//! The task that closes months, issues invoices and sends reminders.

use super::app_task::{AppTask, CurrentApp};
use rpcgate_management::action::billing::closing::{MonthsClosed, close_months};
use rpcgate_management::action::billing::dunning::{DunningPass, remind};
use rpcgate_management::app_state::AppState;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const INTERVAL: Duration = Duration::from_secs(300);

/// Starts to bill the tenants of `app`. It stops even in the middle of its work. The next start does the rest, and
/// nothing twice.
pub(super) fn start(app: &Arc<AppState>) -> AppTask {
    every(INTERVAL, app)
}

fn every(interval: Duration, app: &Arc<AppState>) -> AppTask {
    AppTask::start(app, |app, leave| work(interval, app, leave))
}

async fn work(interval: Duration, app: CurrentApp, leave: CancellationToken) {
    loop {
        let current = app.load_full();
        if leave.run_until_cancelled(bill(&current)).await.is_none() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = leave.cancelled() => return,
        }
    }
}

async fn bill(app: &AppState) {
    match close_months(app).await {
        Ok(closed) if closed == MonthsClosed::default() => {}
        Ok(closed) => {
            tracing::info!(
                months = closed.months,
                invoices = closed.invoices,
                "months of tenants were closed"
            );
        }
        Err(error) => tracing::warn!(?error, "months cannot be closed now"),
    }
    match remind(app).await {
        Ok(pass) if pass == DunningPass::default() => {}
        Ok(pass) => tracing::info!(?pass, "mails about invoices were sent"),
        Err(error) => tracing::warn!(?error, "mails about invoices cannot be sent now"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use rpcgate_core::plan::Tier;
    use rpcgate_store::{InvoiceFilter, TenantChange};

    #[tokio::test]
    async fn months_are_closed_while_it_runs_and_as_it_is_configured_now() {
        let site = Site::of("[billing.fees]\npremium = 5000000\n[billing]\nclose_after = \"20d\"\n").await;
        let app = &site.app;
        let tenant = site.tenant().await;
        let biller = every(Duration::from_millis(1), app);
        let premium = TenantChange { tier: Some(Tier::Premium), ..TenantChange::default() };
        app.store.update_tenant(tenant, &premium, app.now()).await.unwrap();
        let begun = async {
            while app.store.billing_begun().await.unwrap().is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), begun).await.unwrap();
        let mut config = app.settings.config.clone();
        config.billing.close_after = Duration::from_secs(6 * 3_600);
        biller.serve(&Arc::new(app.reload(config).unwrap()));
        site.clock.advance(Duration::from_secs(86_400));
        let issued = async {
            loop {
                let invoices = app.store.invoices(InvoiceFilter::default(), None, 9).await.unwrap();
                if let Some(invoice) = invoices.first() {
                    return (invoice.tenant, invoices.len());
                }
                tokio::task::yield_now().await;
            }
        };
        let issued = tokio::time::timeout(Duration::from_secs(60), issued).await.unwrap();
        assert_eq!(issued, (tenant, 1));
        biller.stop().await;
    }
}
