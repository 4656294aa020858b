//! The contracts of a tenant: limits that override those of its plan.

use super::figures::{self, FigureField, LABELS};
use crate::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters::{self, minute_text};
use crate::form::FieldList;
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::parts::TableHead;
use crate::problems::Problems;
use crate::versions::FormVersion;
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use rpcgate_management::action::operator::contracts::{self, NewContract};
use rpcgate_management::action::operator::{plans, tenants};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, Ids};
use rpcgate_management::routing::{get, post};
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::{ContractId, Figures, Tenant, TenantContract, Versioned};
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/tenants/{id}/contracts", get(list).merge(post(create)))
        .route("/operator/tenants/{id}/contracts/{contract}", get(show).merge(post(update)))
        .route("/operator/tenants/{id}/contracts/{contract}/end", confirmed::<ContractEnd>())
}

#[derive(Template)]
#[template(path = "operator_contracts.html")]
struct ContractsPage {
    frame: Frame,
    problems: Problems,
    tenant: Tenant,
    heads: Vec<TableHead>,
    rows: Vec<ContractRow>,
    fields: Vec<FigureField>,
    from: String,
    until: String,
    note: String,
}

struct ContractRow {
    contract: TenantContract,
    figures: String,
    tone: &'static str,
    state: &'static str,
    is_open: bool,
}

impl ContractRow {
    fn of(contract: TenantContract, now: Time) -> Self {
        let (tone, state) = if contract.is_in_force(now) {
            ("ok", "In force")
        } else if contract.has_ended(now) {
            ("", "Ended")
        } else {
            ("info", "Begins later")
        };
        ContractRow {
            figures: figures::words(&contract.figures),
            is_open: !contract.has_ended(now),
            contract,
            tone,
            state,
        }
    }
}

async fn contracts_page(
    app: &AppState,
    page: &PageContext,
    id: TenantId,
    typed: &FieldList,
) -> Result<ContractsPage, ActionError> {
    let tenant = tenants::get(app, id).await?;
    let below: Figures = plans::get(app, tenant.tier.name()).await?.figures().into();
    let before = format!("{} has", tenant.tier.name());
    let now = app.now();
    // The newest comes first because it prevails.
    let rows = contracts::list(app, id).await?.into_iter().rev();
    Ok(ContractsPage {
        frame: page.frame(PageSection::Tenants),
        problems: Problems::default(),
        tenant,
        heads: vec![
            TableHead::new("Figures"),
            TableHead::new("State"),
            TableHead::new("From").class("p1"),
            TableHead::new("Until").class("p1"),
            TableHead::new("Note").class("p2"),
            TableHead::hidden("Change"),
        ],
        rows: rows.map(|contract| ContractRow::of(contract, now)).collect(),
        fields: figures::fields(&Figures::default(), (before.as_str(), &below), Some(typed)),
        from: typed.one("from").to_owned(),
        until: typed.one("until").to_owned(),
        note: typed.one("note").to_owned(),
    })
}

/// Reads a time of a form, in UTC: browsers send `2027-01-31T12:00`.
pub(super) fn moment(fields: &FieldList, name: &'static str) -> Result<Option<Time>, ActionError> {
    let Some(text) = fields.filled(name) else { return Ok(None) };
    let parsed = Moment::parse(text).or_else(|| Moment::parse(&format!("{text}:00Z")));
    let parsed = parsed.or_else(|| Moment::parse(&format!("{text}Z")));
    match parsed {
        Some(Moment(time)) => Ok(Some(time)),
        None => Err(ActionError::field(name, "enter a day and a time, such as 2027-01-31T12:00")),
    }
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(tenant): Id<TenantId>,
) -> PageResult {
    Ok(ok(&contracts_page(&app, &page, tenant, &FieldList::default()).await?))
}

async fn create(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Id(tenant): Id<TenantId>,
    fields: FieldList,
) -> PageResult {
    let made = async {
        let new = NewContract {
            figures: figures::typed(&fields)?,
            from: moment(&fields, "from")?,
            until: moment(&fields, "until")?,
            note: fields.one("note").to_owned(),
        };
        contracts::create(&app, &page.actor, tenant, new).await
    };
    match made.await {
        Ok(_) => Ok(page.done(&format!("operator/tenants/{tenant}/contracts"), Done::ContractMade)),
        Err(error) => {
            let shown = contracts_page(&app, &page, tenant, &fields).await?;
            rejected(error, LABELS, |problems| ContractsPage { problems, ..shown })
        }
    }
}

/// The page of a contract, whose end can be changed.
#[derive(Template)]
#[template(path = "operator_contract.html")]
struct ContractPage {
    frame: Frame,
    problems: Problems,
    tenant: Tenant,
    row: ContractRow,
    version: FormVersion,
    until: String,
}

async fn contract_page(
    app: &AppState,
    page: &PageContext,
    (tenant, id): (TenantId, ContractId),
) -> Result<ContractPage, ActionError> {
    let version = FormVersion::current(app, Versioned::Contract(tenant, id)).await?;
    let contract = contracts::get(app, tenant, id).await?;
    // Browsers accept minutes only.
    let minute = |until: Time| Moment(until).to_string().chars().take(16).collect();
    let until = contract.until.map(minute).unwrap_or_default();
    Ok(ContractPage {
        frame: page.frame(PageSection::Tenants),
        problems: Problems::default(),
        tenant: tenants::get(app, tenant).await?,
        row: ContractRow::of(contract, app.now()),
        version,
        until,
    })
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Ids(tenant, id): Ids<TenantId, ContractId>,
) -> PageResult {
    Ok(ok(&contract_page(&app, &page, (tenant, id)).await?))
}

async fn update(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    Ids(tenant, id): Ids<TenantId, ContractId>,
    fields: FieldList,
) -> PageResult {
    let done = async {
        let until = moment(&fields, "until")?;
        contracts::update(&app, &page.expecting(&fields), tenant, id, until).await
    };
    match done.await {
        Ok(_) => Ok(page.done(&format!("operator/tenants/{tenant}/contracts"), Done::ContractChanged)),
        Err(error) => {
            let shown = contract_page(&app, &page, (tenant, id)).await?;
            let sent = fields.one("until").to_owned();
            rejected(error, LABELS, |problems| ContractPage {
                version: shown.version.again(&problems, &fields),
                problems: problems.with_values([("End", shown.until, sent.clone())]),
                until: sent,
                ..shown
            })
        }
    }
}

/// The question whether to end a contract now.
struct ContractEnd {
    version: FormVersion,
    contract: TenantContract,
    tenant: Tenant,
}

impl Confirmed for ContractEnd {
    type Reader = OperatorPage;
    type Path = Ids<TenantId, ContractId>;

    async fn load(
        request: ConfirmRequest<'_>,
        Ids(tenant, id): Ids<TenantId, ContractId>,
    ) -> Result<Self, ActionError> {
        let ConfirmRequest { app, .. } = request;
        let version = FormVersion::current(app, Versioned::Contract(tenant, id)).await?;
        let contract = contracts::get(app, tenant, id).await?;
        Ok(ContractEnd { version, contract, tenant: tenants::get(app, tenant).await? })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let ContractEnd { contract, tenant: Tenant { id, name, .. }, .. } = self;
        let frame = page.frame(PageSection::Tenants);
        let back = format!("operator/tenants/{id}/contracts");
        let now = frame.now;
        ConfirmQuestion::new(frame, format!("End this contract of {name}?"), "End the contract", back.clone())
            .crumb("Tenants", "operator/tenants")
            .crumb(name, format!("operator/tenants/{id}"))
            .crumb("Contracts", back)
            .consequence(format!("It says: {}.", figures::words(&contract.figures)))
            .consequence(if contract.is_in_force(now) {
                "Within a second, every gateway applies the figures of the plan, or of an older contract."
                    .to_owned()
            } else if contract.has_ended(now) {
                "It has ended already.".to_owned()
            } else {
                format!("It was to begin on {} and is deleted.", minute_text(contract.from))
            })
            .version(&self.version)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        let tenant = self.tenant.id;
        contracts::end(app, &page.expecting(fields), tenant, self.contract.id).await?;
        Ok(page.done(&format!("operator/tenants/{tenant}/contracts"), Done::ContractEnded))
    }
}
