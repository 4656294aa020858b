//! The chains: which are served, and their switches.

use crate::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::filters::{self, grouped};
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::parts::TableHead;
use crate::versions::FormVersion;
use crate::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::chain::Facts;
use rpcgate_management::action::operator::chains::{self, OperatedChain};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::PathParams;
use rpcgate_management::routing::get;
use rpcgate_store::ChainUse;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/chains", get(list))
        .route("/operator/chains/{chain}/switch", confirmed::<ChainSwitch>())
        .route("/operator/chains/{chain}/cache", confirmed::<CacheClearing>())
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

struct ChainSwitch {
    version: FormVersion,
    chain: OperatedChain,
    /// The form carries the intended state, because another operator may have switched the chain meanwhile.
    on: bool,
}

impl Confirmed for ChainSwitch {
    type Reader = OperatorPage;
    type Path = PathParams<String>;

    async fn load(
        request: ConfirmRequest<'_>,
        PathParams(chain): PathParams<String>,
    ) -> Result<Self, ActionError> {
        let ConfirmRequest { app, fields, .. } = request;
        let version = FormVersion::current(app, chains::versioned(&chain)?).await?;
        let name = chains::get(app, &chain).await?.facts.name;
        let found = chains::list(app).await?.into_iter().find(|one| one.entry.facts.name == name);
        let chain = found.filter(|one| one.is_configured).ok_or(ActionError::NotFound("switch"))?;
        Ok(ChainSwitch { version, chain, on: fields.one("to") == "on" })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let OperatedChain { entry, called, nodes, .. } = &self.chain;
        let title = entry.facts.title;
        let name = entry.facts.name;
        let (question, act, keep, to) = if entry.enabled {
            (format!("Switch {title} off?"), "Switch the chain off", "Keep it on", "off")
        } else {
            (format!("Switch {title} on?"), "Switch the chain on", "Keep it off", "on")
        };
        let frame = page.frame(PageSection::OperatorChains);
        let question = ConfirmQuestion::new(frame, question, act, "operator/chains")
            .crumb("Chains", "operator/chains")
            .keep(keep)
            .hidden("to", to)
            .version(&self.version);
        if !entry.enabled {
            return question
                .consequence(format!("Within a second, every gateway with a node serves /{name}."))
                .consequence(match nodes {
                    0 => "It has no node: until the configuration has one, it is not served.".to_owned(),
                    1 => "It has 1 node.".to_owned(),
                    many => format!("It has {many} nodes."),
                });
        }
        let question = question
            .consequence(format!(
                "Within a second, every gateway refuses calls on /{name}, because the chain is not served here."
            ))
            .consequence("No stream can be opened, and open streams carry no more calls.")
            .consequence("Keys and quotas stay as they are.");
        let warning = match *called {
            None => "The usage of this chain cannot be read at the moment.".to_owned(),
            Some(ChainUse { calls: 0, .. }) => {
                return question.consequence("It received no calls in the last 24 hours.");
            }
            Some(called) => {
                let tenants = grouped(called.tenants.into());
                let calls = grouped(called.calls.into());
                let noun = if called.tenants == 1 { "tenant" } else { "tenants" };
                format!("This chain is in use: {tenants} {noun} made {calls} calls in the last 24 hours.")
            }
        };
        question.warning(warning).typed_if(!self.on, name.as_str())
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        chains::switch(app, &page.expecting(fields), self.chain.entry.facts.name.as_str(), self.on).await?;
        let done = if self.on { Done::ChainSwitchedOn } else { Done::ChainSwitchedOff };
        Ok(page.done("operator/chains", done))
    }
}

struct CacheClearing(Facts);

impl Confirmed for CacheClearing {
    type Reader = OperatorPage;
    type Path = PathParams<String>;

    async fn load(
        request: ConfirmRequest<'_>,
        PathParams(chain): PathParams<String>,
    ) -> Result<Self, ActionError> {
        Ok(CacheClearing(chains::get(request.app, &chain).await?.facts))
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let title = self.0.title;
        let name = self.0.name;
        let frame = page.frame(PageSection::OperatorChains);
        let back = "operator/chains";
        ConfirmQuestion::new(frame, format!("Empty the cache of {title}?"), "Empty the cache", back)
            .keep("Keep the answers")
            .consequence(format!(
                "Within a second, every gateway drops the answers that it has stored for /{name}."
            ))
            .consequence("Its nodes get more calls until answers are stored again.")
            .crumb("Chains", back)
    }

    async fn act(self, ConfirmRequest { app, page, .. }: ConfirmRequest<'_>) -> PageResult {
        chains::clear_cache(app, &page.actor, self.0.name.as_str()).await?;
        Ok(page.done("operator/chains", Done::CacheCleared))
    }
}
