//! The users of all tenants, and the operators.

use super::names::NamesOfAll;
use super::user::{AccountBadge, account_badges};
use crate::context::{OperatorPage, PageResult};
use crate::cursor;
use crate::filters;
use crate::form::QueryFields;
use crate::frame::{Frame, PageSection};
use crate::parts::PageLinks;
use crate::problems::{Labels, Problems};
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_management::action::operator::users;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::get;
use rpcgate_store::{Account, AccountFilter, UserId};
use std::sync::Arc;

const LABELS: Labels = &[("email", "the e-mail address"), ("tenant", "the tenant")];

const SHOWN: u64 = 50;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/operator/users", get(list))
}

#[derive(Template)]
#[template(path = "operator_users.html")]
struct AccountsPage {
    frame: Frame,
    problems: Problems,
    rows: Vec<AccountRow>,
    email: String,
    tenant: String,
    is_filtered: bool,
    links: PageLinks,
}

struct AccountRow {
    account: Account,
    tenant: Option<String>,
    badges: Vec<AccountBadge>,
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let rest = query.query_without(&[cursor::AFTER, "done"]);
    let mut shown = AccountsPage {
        frame: page.frame(PageSection::Users),
        problems: Problems::default(),
        rows: Vec::new(),
        email: query.one("email").to_owned(),
        tenant: query.one("tenant").to_owned(),
        is_filtered: query.filled("email").is_some() || query.filled("tenant").is_some(),
        links: PageLinks::default(),
    };
    let found = async {
        let tenant = query.filled("tenant").map(str::parse::<TenantId>).transpose();
        let tenant = tenant.map_err(|_| ActionError::field("tenant", "enter the identifier of a tenant"))?;
        let after = query.filled(cursor::AFTER).map(str::parse::<UserId>).transpose();
        let after = after.map_err(|_| ActionError::invalid("this is not a position in this list"))?;
        let filter = AccountFilter { email: query.filled("email").map(str::to_owned), tenant };
        users::list(&app, &filter, after, SHOWN).await
    };
    match found.await {
        Ok(found) => {
            let last = found.last().filter(|_| found.len() as u64 == SHOWN);
            shown.links.newer =
                last.map(|last| cursor::newer("operator/users", &rest, &last.user.id.to_string()));
            let tenants = found.iter().filter_map(|one| one.user.tenant).collect();
            let names = NamesOfAll::read(&app, tenants, Vec::new()).await?;
            let row = |account: Account| AccountRow {
                tenant: account.user.tenant.map(|tenant| names.tenant(tenant)),
                badges: account_badges(&account),
                account,
            };
            shown.rows = found.into_iter().map(row).collect();
            Ok(ok(&shown))
        }
        Err(error) => rejected(error, LABELS, |problems| AccountsPage { problems, ..shown }),
    }
}
