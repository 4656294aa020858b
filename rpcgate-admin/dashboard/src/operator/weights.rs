//! The weights of methods: the cost of a call, and the what-if questions about it.

use super::what_if::{AnswerView, WhatIfOutcome, done, unanswered};
use crate::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters::{self, grouped};
use crate::form::FieldList;
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::parts::TableHead;
use crate::problems::{Labels, Problems};
use crate::versions::FormVersion;
use crate::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::operator::price_notices;
use rpcgate_management::action::operator::weights::{self, MethodWeight};
use rpcgate_management::action::operator::what_if::{self, AskedWeight, WhatIf};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::PathParams;
use rpcgate_management::routing::{get, post};
use rpcgate_store::Versioned;
use std::sync::Arc;

const LABELS: Labels = &[
    ("method", "the method"),
    ("cu", "the weight"),
    ("weights", "the weights"),
    ("notify", "the notification"),
];

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/weights", get(first))
        .route("/operator/weights/{chain}", get(show).merge(post(ask_or_save)))
        .route("/operator/weights/{chain}/reset", confirmed::<WeightReset>())
}

#[derive(Template)]
#[template(path = "operator_weights.html")]
struct WeightsPage {
    frame: Frame,
    problems: Problems,
    version: FormVersion,
    chain: &'static str,
    /// All chains: label, address, and whether it is this one.
    chains: Vec<(&'static str, String, bool)>,
    heads: Vec<TableHead>,
    rows: Vec<WeightRow>,
    /// False while usage cannot be read.
    is_use_known: bool,
    set: usize,
    /// The fields for a method that is not in the list.
    method: String,
    cu: String,
    answer: Option<AnswerView>,
    unanswered: Option<&'static str>,
    /// True to notify the tenants that would have paid more.
    notify: bool,
}

struct WeightRow {
    weight: MethodWeight,
    field: String,
    value: String,
    /// The address of the page that resets it, below the root.
    reset: String,
}

impl WeightRow {
    fn of(chain: &str, weight: MethodWeight, fields: Option<&FieldList>) -> Self {
        let field = format!("cu-{}", weight.method);
        let value = fields.filter(|fields| fields.has(&field)).map(|fields| fields.one(&field).to_owned());
        let query =
            form_urlencoded::Serializer::new(String::new()).append_pair("method", &weight.method).finish();
        WeightRow {
            value: value.unwrap_or_else(|| weight.cu.to_string()),
            reset: format!("operator/weights/{chain}/reset?{query}"),
            field,
            weight,
        }
    }

    fn is_changed(&self) -> bool {
        self.value != self.weight.cu.to_string()
    }
}

/// Makes the page of a chain, with the submitted values.
async fn page(
    app: &AppState,
    page: &PageContext,
    chain: &'static str,
    fields: Option<&FieldList>,
) -> Result<WeightsPage, ActionError> {
    let version = FormVersion::current(app, Versioned::Weights(chain.to_owned())).await?;
    let weights = weights::of_chain(app, chain).await?;
    let names = rpcgate_chains::catalog().map(|adapter| adapter.facts().name.as_str());
    let chains = names.map(|name| (name, format!("operator/weights/{name}"), name == chain));
    let typed = |name| fields.map(|fields| fields.one(name).to_owned()).unwrap_or_default();
    Ok(WeightsPage {
        frame: page.frame(PageSection::Weights),
        problems: Problems::default(),
        version,
        chain,
        chains: chains.collect(),
        heads: vec![
            TableHead::new("Method"),
            TableHead::num("Calls, 30 days").class("num p1"),
            TableHead::new("Weight"),
            TableHead::hidden("Reset"),
        ],
        is_use_known: weights.iter().all(|weight| weight.calls.is_some()),
        set: weights.iter().filter(|weight| weight.is_set).count(),
        rows: weights.into_iter().map(|weight| WeightRow::of(chain, weight, fields)).collect(),
        method: typed("method"),
        cu: typed("cu"),
        answer: None,
        unanswered: None,
        notify: fields.is_some_and(|fields| fields.has("notify")),
    })
}

async fn first(OperatorPage(page): OperatorPage) -> PageResult {
    let first = rpcgate_chains::catalog().next().ok_or(ActionError::NotFound("chain"))?;
    Ok(page.to(&format!("operator/weights/{}", first.facts().name)))
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(context): OperatorPage,
    PathParams(chain): PathParams<String>,
) -> PageResult {
    Ok(ok(&page(&app, &context, weights::path(&chain)?, None).await?))
}

/// Returns the weights that differ from those in force.
fn changed(shown: &WeightsPage, fields: &FieldList) -> Result<Vec<AskedWeight>, ActionError> {
    let mut changes = Vec::new();
    let weight = |method: &str, text: &str| {
        let cu = text.replace([',', ' '], "").parse().map_err(|_| {
            let most = grouped(u32::MAX.into());
            ActionError::field(
                "weights",
                format!("the weight of {method} must be a whole number from 0 to {most}"),
            )
        })?;
        Ok::<_, ActionError>(AskedWeight { chain: shown.chain.to_owned(), method: method.to_owned(), cu })
    };
    for row in shown.rows.iter().filter(|row| row.is_changed()) {
        let one = weight(&row.weight.method, &row.value)?;
        if one.cu != row.weight.cu {
            changes.push(one);
        }
    }
    if let Some(method) = fields.filled("method") {
        if changes.iter().any(|one| one.method == method)
            || shown.rows.iter().any(|row| row.weight.method == method)
        {
            return Err(ActionError::field("method", "this method is in the list: change its weight there"));
        }
        changes.push(weight(method, fields.one("cu"))?);
    }
    Ok(changes)
}

async fn ask_or_save(
    State(app): State<Arc<AppState>>,
    OperatorPage(context): OperatorPage,
    PathParams(chain): PathParams<String>,
    fields: FieldList,
) -> PageResult {
    let chain = weights::path(&chain)?;
    let shown = page(&app, &context, chain, Some(&fields)).await?;
    let outcome = async {
        let weights = changed(&shown, &fields)?;
        let question = WhatIf { weights, plans: Vec::new() };
        if fields.one("do") != "save" {
            let answer = what_if::ask(&app, &context.actor, &question).await?;
            return Ok(WhatIfOutcome::Answered(AnswerView::of(question.weights.len(), &answer)));
        }
        // The affected tenants are known only before the change is saved.
        let notice = match shown.notify {
            true => Some(price_notices::prepare(&app, &context.actor, &question).await?),
            false => None,
        };
        let weights: Vec<_> = question.weights.iter().map(|one| (one.method.as_str(), one.cu)).collect();
        weights::put_all(&app, &context.expecting(&fields), chain, &weights).await?;
        Ok(WhatIfOutcome::Saved(match notice {
            Some(notice) => Some(price_notices::notify(&app, &context.actor, &notice).await),
            None => None,
        }))
    };
    match outcome.await {
        Ok(WhatIfOutcome::Saved(told)) => {
            Ok(context.done(&format!("operator/weights/{chain}"), done(Done::WeightsSaved, told)))
        }
        Ok(WhatIfOutcome::Answered(answer)) => {
            Ok(ok(&WeightsPage { answer: Some(answer), version: FormVersion::sent(&fields), ..shown }))
        }
        Err(error) => {
            if let Some(why) = unanswered(&error) {
                let version = FormVersion::sent(&fields);
                return rejected(error, LABELS, |_| WeightsPage { unanswered: Some(why), version, ..shown });
            }
            let row = |row: &WeightRow| {
                let sent = row.value.replace([',', ' '], "");
                (row.weight.method.clone(), row.weight.cu.to_string(), sent)
            };
            let values: Vec<_> = shown.rows.iter().map(row).collect();
            rejected(error, LABELS, |problems| WeightsPage {
                version: shown.version.again(&problems, &fields),
                problems: problems.with_values(values),
                ..shown
            })
        }
    }
}

/// The reset of the weight of the method that the query or the form names.
struct WeightReset {
    version: FormVersion,
    chain: &'static str,
    weight: MethodWeight,
}

impl Confirmed for WeightReset {
    type Reader = OperatorPage;
    type Path = PathParams<String>;
    const LABELS: Labels = LABELS;

    async fn load(
        request: ConfirmRequest<'_>,
        PathParams(chain): PathParams<String>,
    ) -> Result<Self, ActionError> {
        let ConfirmRequest { app, fields, .. } = request;
        let chain = weights::path(&chain)?;
        let method = fields.one("method");
        let version = FormVersion::current(app, weights::versioned(chain, method)?).await?;
        let mut weights = weights::of_chain(app, chain).await?.into_iter();
        let weight = weights.find(|weight| weight.method == method && weight.is_set);
        Ok(WeightReset { version, chain, weight: weight.ok_or(ActionError::NotFound("weight"))? })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let MethodWeight { method, cu, deployed, calls, .. } = &self.weight;
        let back = format!("operator/weights/{}", self.chain);
        ConfirmQuestion::new(
            page.frame(PageSection::Weights),
            format!("Reset the weight of {method}?"),
            "Reset the weight",
            back.clone(),
        )
        .crumb("CU weights", "operator/weights")
        .crumb(self.chain, back.clone())
        .target(format!("{back}/reset"))
        .hidden("method", method)
        .consequence(format!(
            "A call costs {} CU again instead of {} CU.",
            grouped((*deployed).into()),
            grouped((*cu).into())
        ))
        .consequence(match calls {
            Some(calls) => format!("It was called {} times in the last 30 days.", grouped((*calls).into())),
            None => "The number of its calls cannot be read at the moment.".to_owned(),
        })
        .consequence("Every gateway applies it within a second.")
        .version(&self.version)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        weights::delete(app, &page.expecting(fields), self.chain, &self.weight.method).await?;
        Ok(page.done(&format!("operator/weights/{}", self.chain), Done::WeightReset))
    }
}
