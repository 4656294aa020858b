//! The chains: which are served, and their switches.

use crate::management::action::operator::chains::{self, OperatedChain};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::PathParams;
use crate::management::page::confirm::ConfirmQuestion;
use crate::management::page::context::{OperatorPage, PageContext, PageResult};
use crate::management::page::filters::{self, grouped};
use crate::management::page::form::FieldList;
use crate::management::page::frame::{Frame, PageSection};
use crate::management::page::outcome::Done;
use crate::management::page::parts::TableHead;
use crate::management::page::problems::Labels;
use crate::management::page::versions::FormVersion;
use crate::management::page::view::{ok, rejected};
use crate::management::routing::{get, post};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_store::ChainUse;
use std::sync::Arc;

const LABELS: Labels = &[("confirm", "the name")];

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/chains", get(list))
        .route("/operator/chains/{chain}/switch", get(ask).merge(post(switch)))
        .route("/operator/chains/{chain}/cache", get(ask_about_cache).merge(post(clear_cache)))
}

#[derive(Template)]
#[template(path = "operator_chains.html")]
struct ChainsPage {
    frame: Frame,
    heads: Vec<TableHead>,
    rows: Vec<ChainRow>,
    served: usize,
}

struct ChainRow {
    name: &'static str,
    title: &'static str,
    tone: &'static str,
    state: &'static str,
    /// The label of the link to the switch, if the switch has an effect.
    switch: Option<&'static str>,
    chain: OperatedChain,
}

impl ChainRow {
    fn of(chain: OperatedChain) -> Self {
        let (tone, state) = match (chain.is_configured, chain.entry.enabled, chain.entry.served) {
            (false, ..) => ("", "Off in the configuration"),
            (true, false, _) => ("warn", "Switched off"),
            (true, true, true) => ("ok", "Served"),
            (true, true, false) => ("", "Without a node"),
        };
        let words = if chain.entry.enabled { "Switch off" } else { "Switch on" };
        ChainRow {
            name: chain.entry.facts.name.as_str(),
            title: chain.entry.facts.title,
            tone,
            state,
            switch: chain.is_configured.then_some(words),
            chain,
        }
    }
}

async fn list(State(app): State<Arc<AppState>>, OperatorPage(page): OperatorPage) -> PageResult {
    let rows: Vec<_> = chains::list(&app).await?.into_iter().map(ChainRow::of).collect();
    Ok(ok(&ChainsPage {
        frame: page.frame(PageSection::OperatorChains),
        heads: vec![
            TableHead::new("Chain"),
            TableHead::new("State"),
            TableHead::num("Nodes").class("num p2"),
            TableHead::num("Tenants, 24 hours").class("num p1"),
            TableHead::num("Calls, 24 hours"),
            TableHead::num("Errors and refusals").class("num p2"),
            TableHead::hidden("Cache"),
            TableHead::hidden("Switch"),
        ],
        served: rows.iter().filter(|row| row.chain.entry.served).count(),
        rows,
    }))
}

async fn question(
    app: &AppState,
    page: &PageContext,
    chain: &str,
) -> Result<(OperatedChain, ConfirmQuestion), ActionError> {
    let name = chains::get(app, chain).await?.facts.name;
    let found = chains::list(app).await?.into_iter().find(|one| one.entry.facts.name == name);
    let chain = found.filter(|one| one.is_configured).ok_or(ActionError::NotFound("switch"))?;
    let (title, called) = (chain.entry.facts.title, chain.called);
    let (frame, back) = (page.frame(PageSection::OperatorChains), "operator/chains");
    let question = if chain.entry.enabled {
        let question =
            ConfirmQuestion::new(frame, format!("Switch {title} off?"), "Switch the chain off", back)
                .keep("Keep it on")
                .hidden("to", "off")
                .consequence(format!(
                    "Within a second, every gateway answers calls on /{name} that it is not served here."
                ))
                .consequence("No stream is opened, and streams that are open carry no call.")
                .consequence("Keys and quotas stay as they are.");
        match called {
            None => question
                .warning("How much this chain is used cannot be read at the moment.")
                .typed(name.as_str()),
            Some(ChainUse { calls: 0, .. }) => question.consequence("Nobody called it in the last 24 hours."),
            Some(called) => {
                let (tenants, calls) = (grouped(called.tenants.into()), grouped(called.calls.into()));
                let noun = if called.tenants == 1 { "tenant" } else { "tenants" };
                let warning = format!(
                    "This chain is in use: {tenants} {noun} made {calls} calls in the last 24 hours."
                );
                question.warning(warning).typed(name.as_str())
            }
        }
    } else {
        let nodes = match chain.nodes {
            0 => "It has no node: until the configuration has one, it is not served.".to_owned(),
            1 => "It has 1 node.".to_owned(),
            many => format!("It has {many} nodes."),
        };
        ConfirmQuestion::new(frame, format!("Switch {title} on?"), "Switch the chain on", back)
            .keep("Keep it off")
            .hidden("to", "on")
            .consequence(format!("Within a second, every gateway with a node serves /{name}."))
            .consequence(nodes)
    };
    Ok((chain, question.crumb("Chains", back)))
}

async fn ask(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    PathParams(chain): PathParams<String>,
) -> PageResult {
    let version = FormVersion::current(&app, chains::versioned(&chain)?).await?;
    Ok(ok(&question(&app, &page, &chain).await?.1.version(&version)))
}

async fn switch(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    PathParams(chain): PathParams<String>,
    fields: FieldList,
) -> PageResult {
    let version = FormVersion::current(&app, chains::versioned(&chain)?).await?;
    let (found, question) = question(&app, &page, &chain).await?;
    let name = found.entry.facts.name.as_str();
    // The form carries the intended state: another operator may have switched the chain meanwhile.
    let on = fields.one("to") == "on";
    let done = async {
        if !on && found.entry.enabled && found.called.is_none_or(|called| called.calls > 0) {
            fields.confirms(name)?;
        }
        chains::switch(&app, &page.expecting(&fields), name, on).await
    };
    match done.await {
        Ok(_) => {
            Ok(page.done("operator/chains", if on { Done::ChainSwitchedOn } else { Done::ChainSwitchedOff }))
        }
        Err(error) => rejected(error, LABELS, |problems| question.again(version, &fields, problems)),
    }
}

async fn cache_question(
    app: &AppState,
    page: &PageContext,
    chain: &str,
) -> Result<ConfirmQuestion, ActionError> {
    let (facts, back) = (chains::get(app, chain).await?.facts, "operator/chains");
    let (title, name) = (facts.title, facts.name);
    let heading = format!("Empty the cache of {title}?");
    Ok(ConfirmQuestion::new(page.frame(PageSection::OperatorChains), heading, "Empty the cache", back)
        .keep("Keep the answers")
        .consequence(format!(
            "Within a second, every gateway drops the answers that it has stored for /{name}."
        ))
        .consequence("For a while its nodes get more calls, until answers are stored again.")
        .crumb("Chains", back))
}

async fn ask_about_cache(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    PathParams(chain): PathParams<String>,
) -> PageResult {
    Ok(ok(&cache_question(&app, &page, &chain).await?))
}

async fn clear_cache(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    PathParams(chain): PathParams<String>,
    // The form has no field but the token.
    _: FieldList,
) -> PageResult {
    chains::clear_cache(&app, &page.actor, &chain).await?;
    Ok(page.done("operator/chains", Done::CacheCleared))
}
