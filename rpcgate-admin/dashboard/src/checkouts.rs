//! Payment through the payment provider. The browser reaches it by a link on our page instead of a redirect, because
//! browsers apply the `form-action` policy, which allows only our own pages, to redirects too.

use super::confirm::ConfirmQuestion;
use super::context::{PageContext, PageResult};
use super::filters;
use super::form::{FieldList, PlainForm};
use super::frame::{Frame, PageSection};
use super::invoices::SheetPage;
use super::submissions::shown_once;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::action::checkouts::{self, CheckoutWish};
use rpcgate_management::action::plans::RequestedPlan;
use rpcgate_management::app_state::AppState;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::{get, post};
use rpcgate_store::InvoiceNumber;
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/invoices/{number}/pay", get(show).merge(post(pay)))
        .route("/plan/checkout", post(change_plan))
}

#[derive(Template)]
#[template(path = "checkout.html")]
struct CheckoutPage {
    frame: Frame,
    what: String,
    /// The address of the provider's page.
    url: String,
    /// The host of that page, which the reader sees.
    host: String,
    /// The page to return to, below the root.
    back: String,
}

impl CheckoutPage {
    fn of(frame: Frame, what: String, url: String, back: String) -> Self {
        let host = host(&url).to_owned();
        CheckoutPage { frame, what, url, host, back }
    }
}

fn host(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Leads to the invoice, which has the button.
async fn show(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(number): Id<InvoiceNumber>,
) -> PageResult {
    page.permitted(Permission::ManageBilling)?;
    Ok(ok(&SheetPage::of(&app, &page, number).await?))
}

async fn pay(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(number): Id<InvoiceNumber>,
    _: PlainForm,
) -> PageResult {
    let tenant = page.permitted(Permission::ManageBilling)?;
    match checkouts::begin(&app, &page.actor, tenant, &CheckoutWish::Invoice(number)).await {
        Ok(url) => {
            let frame = page.result_frame(PageSection::Billing);
            let back = format!("invoices/{number}");
            Ok(shown_once(StatusCode::OK, &CheckoutPage::of(frame, format!("Invoice {number}"), url, back)))
        }
        Err(error) => {
            let sheet = SheetPage::of(&app, &page, number).await?;
            rejected(error, &[], |problems| sheet.problems(problems))
        }
    }
}

async fn change_plan(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let tenant = page.permitted(Permission::ManageBilling)?;
    let name = fields.one("plan").to_owned();
    let wish = CheckoutWish::Plan(RequestedPlan::of(name.clone()));
    match checkouts::begin(&app, &page.actor, tenant, &wish).await {
        Ok(url) => {
            let what = format!("Plan {name}");
            let page = CheckoutPage::of(page.result_frame(PageSection::Plan), what, url, "plan".into());
            Ok(shown_once(StatusCode::OK, &page))
        }
        Err(error) => {
            // Shows the question again with the reason above the button, which retries.
            let question = ConfirmQuestion::new(
                page.frame(PageSection::Plan),
                "Move to another plan?",
                "Try again",
                "plan",
            )
            .crumb("Plan and limits", "plan")
            .hidden("plan", name)
            .keep("Keep the plan");
            rejected(error, &[("tier", "Plan")], |problems| question.problems(problems))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_sees_the_host() {
        assert_eq!(host("https://checkout.stripe.com/c/pay/cs_1#x"), "checkout.stripe.com");
        assert_eq!(host("no address"), "");
    }
}
