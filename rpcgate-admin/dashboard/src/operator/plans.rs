//! The four plans and the custom plans, and the what-if questions about them.

use super::contracts::moment;
use super::figures::{self, FigureField, LABELS};
use super::what_if::{AnswerView, WhatIfOutcome, done, unanswered};
use crate::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters::{self, grouped};
use crate::form::{FieldList, PlainForm};
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::parts::{Choice, TableHead};
use crate::problems::Problems;
use crate::versions::FormVersion;
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_management::action::operator::custom_plans::{self, NewCustomPlan};
use rpcgate_management::action::operator::plans;
use rpcgate_management::action::operator::price_notices::{self, PriceNotice};
use rpcgate_management::action::operator::what_if::{self, AskedPlan, WhatIf};
use rpcgate_management::action::plans::{ListedPlan, plans as all_plans};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Id, PathParams};
use rpcgate_management::routing::{get, post};
use rpcgate_store::{
    CustomPlan, CustomPlanChange, Figures, ScheduledChangeId, ScheduledPlanChange, TenantPlan, Versioned,
};
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/plans", get(list).merge(post(create)))
        .route("/operator/plans/{plan}", get(show).merge(post(ask_or_save)))
        .route("/operator/plans/{plan}/delete", confirmed::<PlanDeletion>())
        .route("/operator/plans/{plan}/changes/{id}/withdraw", post(withdraw))
}

#[derive(Template)]
#[template(path = "operator_plans.html")]
struct PlansPage {
    frame: Frame,
    problems: Problems,
    heads: Vec<TableHead>,
    rows: Vec<PlanRow>,
    tiers: Vec<Choice>,
    visibilities: Vec<Choice>,
    new_name: String,
    base: String,
    visibility: String,
}

struct PlanRow {
    name: String,
    /// The last segment of its address.
    key: String,
    base: Option<&'static str>,
    windows: String,
    price: String,
    monthly_fee: u64,
    tenants: u64,
}

const VISIBLE: &str = "visible";
const BY_INVITATION: &str = "by_invitation";

fn visibilities() -> Vec<Choice> {
    vec![Choice::new(VISIBLE, "All tenants"), Choice::new(BY_INVITATION, "Only tenants that you move to it")]
}

async fn plans_page(
    app: &AppState,
    page: &PageContext,
    fields: &FieldList,
) -> Result<PlansPage, ActionError> {
    let tenants = plans::tenants(app).await?;
    let row = |ListedPlan { of, name, plan, monthly_fee, .. }: ListedPlan| PlanRow {
        key: of.custom.map_or_else(|| of.tier.name().to_owned(), |id| id.to_string()),
        base: of.custom.map(|_| of.tier.name()),
        windows: [plan.per_minute, plan.per_hour, plan.per_day]
            .map(|number| grouped(number.into()))
            .join(" / "),
        price: figures::decimal(plan.price),
        tenants: tenants.get(&of).copied().unwrap_or_default(),
        name,
        monthly_fee,
    };
    Ok(PlansPage {
        frame: page.frame(PageSection::OperatorPlans),
        problems: Problems::default(),
        heads: vec![
            TableHead::new("Plan"),
            TableHead::num("Requests a minute / hour / day").class("num p1"),
            TableHead::num("Price of a CU"),
            TableHead::num("Monthly fee").class("num p2"),
            TableHead::num("Tenants"),
        ],
        rows: all_plans(app, &page.actor).await?.into_iter().map(row).collect(),
        tiers: Tier::ALL.map(|tier| Choice::new(tier.name(), tier.name())).into(),
        visibilities: visibilities(),
        new_name: fields.one("name").to_owned(),
        base: fields.filled("base").unwrap_or(Tier::Standard.name()).to_owned(),
        visibility: fields.filled("visibility").unwrap_or(BY_INVITATION).to_owned(),
    })
}

async fn list(State(app): State<Arc<AppState>>, OperatorPage(page): OperatorPage) -> PageResult {
    Ok(ok(&plans_page(&app, &page, &FieldList::default()).await?))
}

async fn create(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    fields: FieldList,
) -> PageResult {
    let made = async {
        let base = fields.one("base").parse().map_err(|_| ActionError::field("base", "choose a plan"))?;
        let new = NewCustomPlan {
            name: fields.one("name").to_owned(),
            base,
            is_visible: fields.one("visibility") == VISIBLE,
            figures: Figures::default(),
        };
        custom_plans::create(&app, &page.actor, new).await
    };
    match made.await {
        Ok(plan) => Ok(page.done(&format!("operator/plans/{}", plan.id), Done::PlanCreated)),
        Err(error) => {
            let shown = plans_page(&app, &page, &fields).await?;
            rejected(error, LABELS, |problems| PlansPage { problems, ..shown })
        }
    }
}

/// A plan that an address names.
enum Named {
    Tier(Tier),
    Own(Box<CustomPlan>),
}

impl Named {
    async fn find(app: &AppState, key: &str) -> Result<(Self, FormVersion), ActionError> {
        if let Ok(tier) = key.parse() {
            let version = FormVersion::current(app, Versioned::Plan(tier, app.now())).await?;
            return Ok((Named::Tier(tier), version));
        }
        let id: CustomPlanId = key.parse().map_err(|_| ActionError::NotFound("plan"))?;
        let version = FormVersion::current(app, Versioned::CustomPlan(id)).await?;
        Ok((Named::Own(Box::new(custom_plans::get(app, id).await?)), version))
    }

    fn key(&self) -> String {
        match self {
            Named::Tier(tier) => tier.name().to_owned(),
            Named::Own(plan) => plan.id.to_string(),
        }
    }

    /// Returns the current figures, as the form shows them.
    async fn figures(&self, app: &AppState) -> Result<Figures, ActionError> {
        match self {
            Named::Tier(tier) => Ok(plans::get(app, tier.name()).await?.figures().into()),
            Named::Own(plan) => Ok(plan.figures),
        }
    }
}

struct LaterRow {
    id: ScheduledChangeId,
    from: Time,
    figures: String,
}

#[derive(Template)]
#[template(path = "operator_plan.html")]
struct PlanPage {
    frame: Frame,
    problems: Problems,
    version: FormVersion,
    title: String,
    key: String,
    base: Option<&'static str>,
    tenants: u64,
    own_name: String,
    visibility: String,
    visibilities: Vec<Choice>,
    fields: Vec<FigureField>,
    /// The start of the change, as it was typed.
    from: String,
    /// The scheduled changes of one of the four plans.
    scheduled: Vec<LaterRow>,
    answer: Option<AnswerView>,
    unanswered: Option<&'static str>,
    /// True to notify the tenants that would have paid more.
    notify: bool,
}

async fn plan_page(
    app: &AppState,
    page: &PageContext,
    (named, version): (&Named, FormVersion),
    typed: Option<&FieldList>,
) -> Result<PlanPage, ActionError> {
    let tenants = plans::tenants(app).await?;
    let present = named.figures(app).await?;
    let common = |title: String, base, tenants, fields| PlanPage {
        frame: page.frame(PageSection::OperatorPlans),
        problems: Problems::default(),
        version,
        key: named.key(),
        own_name: title.clone(),
        title,
        base,
        tenants,
        visibility: String::new(),
        visibilities: visibilities(),
        fields,
        from: typed.map(|typed| typed.one("from").to_owned()).unwrap_or_default(),
        scheduled: Vec::new(),
        answer: None,
        unanswered: None,
        notify: typed.is_some_and(|fields| fields.has("notify")),
    };
    Ok(match named {
        Named::Tier(tier) => {
            let on_it = tenants.get(&TenantPlan::from(*tier)).copied().unwrap_or_default();
            let fields = figures::fields(&present, ("Was", &present), typed);
            let later = |one: ScheduledPlanChange| LaterRow {
                id: one.id,
                from: one.change.from,
                figures: figures::words(&one.change.figures.into()),
            };
            let scheduled = plans::get(app, tier.name()).await?.scheduled.into_iter().map(later).collect();
            PlanPage { scheduled, ..common(tier.name().to_owned(), None, on_it, fields) }
        }
        Named::Own(plan) => {
            let on_it = tenants.get(&plan.plan()).copied().unwrap_or_default();
            let below: Figures = plans::get(app, plan.base.name()).await?.figures().into();
            let before = format!("{} has", plan.base.name());
            let fields = figures::fields(&present, (before.as_str(), &below), typed);
            let visibility = if plan.is_visible { VISIBLE } else { BY_INVITATION };
            let given = |name: &str, present: &str| {
                let typed = typed.filter(|typed| typed.has(name)).map(|typed| typed.one(name).to_owned());
                typed.unwrap_or_else(|| present.to_owned())
            };
            PlanPage {
                own_name: given("name", &plan.name),
                visibility: given("visibility", visibility),
                ..common(plan.name.clone(), Some(plan.base.name()), on_it, fields)
            }
        }
    })
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    PathParams(plan): PathParams<String>,
) -> PageResult {
    let (named, version) = Named::find(&app, &plan).await?;
    Ok(ok(&plan_page(&app, &page, (&named, version), None).await?))
}

/// Pairs the current values of a plan with the submitted ones.
fn changed_values(now: PlanPage, sent: &PlanPage) -> Vec<(&'static str, String, String)> {
    let figures = now.fields.into_iter().zip(&sent.fields);
    let mut values: Vec<_> =
        figures.map(|(now, sent)| (now.label, now.value, sent.value.replace(',', ""))).collect();
    if now.base.is_some() {
        let label = |value: &str| {
            let known = sent.visibilities.iter().find(|choice| choice.is_value(value));
            known.map(|choice| choice.label.clone()).unwrap_or_default()
        };
        values.push(("Name", now.own_name, sent.own_name.clone()));
        values.push(("Visibility", label(&now.visibility), label(&sent.visibility)));
    }
    values
}

/// Reads the form: the figures for the question and for the action, and the number of changes.
async fn requested_change(
    app: &AppState,
    named: &Named,
    fields: &FieldList,
) -> Result<(Figures, usize), ActionError> {
    let typed = figures::typed(fields)?;
    let present = named.figures(app).await?;
    match named {
        Named::Tier(_) => {
            figures::refuse_emptied(fields, &present)?;
            let changes = figures::changed(&typed, &present);
            Ok((changes, figures::difference(&changes, &Figures::default())))
        }
        Named::Own(_) => Ok((typed, figures::difference(&typed, &present))),
    }
}

async fn save(
    app: &AppState,
    page: &PageContext,
    named: &Named,
    figures: Figures,
    fields: &FieldList,
) -> Result<(), ActionError> {
    let actor = page.expecting(fields);
    match named {
        Named::Tier(tier) => {
            let from = moment(fields, "from")?;
            plans::update(app, &actor, tier.name(), figures.plan, from).await.map(drop)
        }
        Named::Own(plan) => {
            let name = fields.one("name");
            let is_visible = fields.one("visibility") == VISIBLE;
            let change = CustomPlanChange {
                name: (name != plan.name).then(|| name.to_owned()),
                is_visible: (is_visible != plan.is_visible).then_some(is_visible),
                figures: (figures != plan.figures).then_some(figures),
            };
            custom_plans::update(app, &actor, plan.id, change).await.map(drop)
        }
    }
}

async fn ask_or_save(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    PathParams(plan): PathParams<String>,
    fields: FieldList,
) -> PageResult {
    let (named, version) = Named::find(&app, &plan).await?;
    let work = async {
        let (figures, changes) = requested_change(&app, &named, &fields).await?;
        let question = WhatIf { weights: Vec::new(), plans: vec![AskedPlan { plan: named.key(), figures }] };
        if fields.one("do") != "save" {
            let answer = what_if::ask(&app, &page.actor, &question).await?;
            return Ok(WhatIfOutcome::Answered(AnswerView::of(changes, &answer)));
        }
        let from = moment(&fields, "from")?;
        // The affected tenants are known only before the change is saved.
        let notice = match fields.has("notify") {
            true => {
                let notice = price_notices::prepare(&app, &page.actor, &question).await?;
                Some(from.into_iter().fold(notice, PriceNotice::taking_effect))
            }
            false => None,
        };
        save(&app, &page, &named, figures, &fields).await?;
        Ok(WhatIfOutcome::Saved(match notice {
            Some(notice) => Some(price_notices::notify(&app, &page.actor, &notice).await),
            None => None,
        }))
    };
    match work.await {
        Ok(WhatIfOutcome::Saved(told)) => {
            let is_later = matches!(named, Named::Tier(_)) && fields.filled("from").is_some();
            let saved = if is_later { Done::PlanScheduled } else { Done::PlanSaved };
            Ok(page.done(&format!("operator/plans/{}", named.key()), done(saved, told)))
        }
        Ok(WhatIfOutcome::Answered(answer)) => {
            let form = (&named, FormVersion::sent(&fields));
            let shown = plan_page(&app, &page, form, Some(&fields)).await?;
            Ok(ok(&PlanPage { answer: Some(answer), ..shown }))
        }
        Err(error) => {
            if let Some(why) = unanswered(&error) {
                let form = (&named, FormVersion::sent(&fields));
                let shown = plan_page(&app, &page, form, Some(&fields)).await?;
                return rejected(error, LABELS, |_| PlanPage { unanswered: Some(why), ..shown });
            }
            let now = plan_page(&app, &page, (&named, version.clone()), None).await?;
            let shown = plan_page(&app, &page, (&named, version), Some(&fields)).await?;
            let values = changed_values(now, &shown);
            rejected(error, LABELS, |problems| PlanPage {
                version: shown.version.again(&problems, &fields),
                problems: problems.with_values(values),
                ..shown
            })
        }
    }
}

async fn withdraw(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    PathParams((plan, id)): PathParams<(String, String)>,
    _: PlainForm,
) -> PageResult {
    let id = id.parse().map_err(|_| ActionError::NotFound("scheduled change"))?;
    plans::withdraw(&app, &page.actor, &plan, id).await?;
    Ok(page.done(&format!("operator/plans/{plan}"), Done::ChangeWithdrawn))
}

struct PlanDeletion {
    version: FormVersion,
    plan: CustomPlan,
    tenants: u64,
}

impl Confirmed for PlanDeletion {
    type Reader = OperatorPage;
    type Path = Id<CustomPlanId>;

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<CustomPlanId>) -> Result<Self, ActionError> {
        let ConfirmRequest { app, .. } = request;
        let version = FormVersion::current(app, Versioned::CustomPlan(id)).await?;
        let plan = custom_plans::get(app, id).await?;
        let tenants = plans::tenants(app).await?.get(&plan.plan()).copied().unwrap_or_default();
        Ok(PlanDeletion { version, plan, tenants })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let (CustomPlan { id, name, .. }, tenants) = (&self.plan, self.tenants);
        let noun = if tenants == 1 { "tenant is" } else { "tenants are" };
        let warning =
            format!("{} {noun} on this plan: move them to another one first.", grouped(tenants.into()));
        let frame = page.frame(PageSection::OperatorPlans);
        let back = format!("operator/plans/{id}");
        ConfirmQuestion::new(frame, format!("Delete {name}?"), "Delete the plan", back.clone())
            .crumb("Plans", "operator/plans")
            .crumb(name, back)
            .consequence("No tenant can be moved to it any more.")
            .consequence("Invoices of the months in which a tenant was on it keep its name.")
            .warning((tenants > 0).then_some(warning))
            .version(&self.version)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        custom_plans::delete(app, &page.expecting(fields), self.plan.id).await?;
        Ok(page.done("operator/plans", Done::PlanDeleted))
    }
}
