//! The chains: their methods, addresses, prices and the condition of their nodes.

use super::call_snippet::ExampleCall;
use super::context::{PageContext, PageResult};
use super::filters;
use super::filters::dollars;
use super::form::QueryFields;
use super::frame::{Frame, PageSection};
use super::parts::CodeSnippet;
use super::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::Amount;
use rpcgate_management::action::chains::{
    CatalogEntry, ChainCondition, ListedMethod, chains, conditions, methods,
};
use rpcgate_management::action::{tenants, usage};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::PathParams;
use rpcgate_management::gateway_urls::GatewayUrls;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use std::sync::Arc;

/// The placeholder for the key in the example.
const PLACEHOLDER: &str = "YOUR_API_KEY";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/chains", get(list)).route("/chains/{chain}", get(show))
}

struct ChainLine {
    path: &'static str,
    title: &'static str,
    aliases: String,
    transports: Vec<&'static str>,
    url: String,
    is_served: bool,
    /// The condition of its nodes, if a gateway has reported it.
    condition: Option<ChainCondition>,
}

#[derive(Template)]
#[template(path = "chains.html")]
struct ChainsPage {
    frame: Frame,
    chains: Vec<ChainLine>,
    all: usize,
    served: usize,
    /// The text that the name of a chain must contain.
    search: String,
    is_served_only: bool,
}

struct MethodLine {
    name: String,
    cu: u32,
    cache: String,
    marks: Vec<&'static str>,
    is_closed: bool,
}

#[derive(Template)]
#[template(path = "chain.html")]
struct ChainPage {
    frame: Frame,
    chain: ChainLine,
    https: Option<String>,
    ws: Option<String>,
    grpc: Option<String>,
    has_batch: bool,
    methods: Vec<MethodLine>,
    /// The number of methods without a search.
    all: usize,
    closed: usize,
    search: String,
    with_closed: bool,
    is_by_cost: bool,
    /// The price of a million Compute Units, if the plan charges for them.
    price: Option<String>,
    snippet: CodeSnippet,
    method: &'static str,
}

fn line(entry: &CatalogEntry, condition: Option<ChainCondition>, urls: &GatewayUrls) -> ChainLine {
    let facts = entry.facts;
    let path = facts.name.as_str();
    let transports = [(Transport::Http, "HTTP"), (Transport::Ws, "WebSocket"), (Transport::Grpc, "gRPC")];
    let has = facts.transports();
    ChainLine {
        path,
        title: facts.title,
        aliases: facts.aliases.join(", "),
        transports: transports.into_iter().filter(|(one, _)| has.has(*one)).map(|(_, name)| name).collect(),
        url: urls.http(path),
        is_served: entry.served,
        condition: condition.filter(|_| entry.served),
    }
}

async fn list(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(query): QueryFields,
) -> PageResult {
    page.permitted(Permission::Read)?;
    let config = app.config_in_force().await?;
    let urls = GatewayUrls::of(&config);
    let entries = chains(&app).await?;
    let conditions = conditions(&app).await?;
    let all = entries.len();
    let served = entries.iter().filter(|entry| entry.served).count();
    let search = query.one("q").to_owned();
    let is_served_only = query.has("served");
    let needle = search.to_lowercase();
    let is_it = |chain: &ChainLine| {
        let names = [chain.path, chain.title, &chain.aliases];
        (!is_served_only || chain.is_served) && names.iter().any(|name| name.to_lowercase().contains(&needle))
    };
    let lines = entries.iter().map(|entry| {
        let condition = conditions.get(entry.facts.name.as_str()).copied();
        line(entry, condition, &urls)
    });
    Ok(ok(&ChainsPage {
        frame: page.frame(PageSection::Chains),
        chains: lines.filter(is_it).collect(),
        all,
        served,
        search,
        is_served_only,
    }))
}

async fn show(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    PathParams(path): PathParams<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    let tenant = page.permitted(Permission::Read)?;
    let adapter = rpcgate_chains::by_path(&path).ok_or(ActionError::NotFound("chain"))?;
    let name = adapter.facts().name;
    let entries = chains(&app).await?;
    let entry =
        entries.iter().find(|entry| entry.facts.name == name).ok_or(ActionError::NotFound("chain"))?;
    let config = app.config_in_force().await?;
    let urls = GatewayUrls::of(&config);
    let condition = conditions(&app).await?.get(name.as_str()).copied();
    let listed = methods(&app, name.as_str()).await?;
    let all = listed.len();
    let closed = listed.iter().filter(|method| method.is_closed).count();
    let search = query.one("q").to_owned();
    let with_closed = query.has("closed");
    let needle = search.to_lowercase();
    let shown = |method: &ListedMethod| {
        (with_closed || !method.is_closed) && method.name.to_lowercase().contains(&needle)
    };
    let mut lines: Vec<_> = listed.into_iter().filter(shown).map(MethodLine::from).collect();
    let is_by_cost = query.one("sort") == "cu";
    if is_by_cost {
        // A stable sort: methods with the same cost stay in the order of their names.
        lines.sort_by_key(|method| std::cmp::Reverse(method.cu));
    }
    let plan = usage::plan(&app, &tenants::get(&app, &page.actor, tenant).await?).await?;
    let price = u128::from(plan.price.0) * 1_000_000;
    let chain = line(entry, condition, &urls);
    let call = ExampleCall::of(&*adapter, &urls);
    let has = |transport: &str| chain.transports.contains(&transport);
    Ok(ok(&ChainPage {
        frame: page.frame(PageSection::Chains),
        https: has("HTTP").then(|| urls.http(name.as_str())),
        ws: has("WebSocket").then(|| urls.ws(name.as_str())),
        grpc: if has("gRPC") { urls.grpc().map(str::to_owned) } else { None },
        has_batch: entry.facts.batch,
        methods: lines,
        all,
        closed,
        search,
        with_closed,
        is_by_cost,
        price: (price > 0).then(|| dollars(Amount(price))),
        snippet: call.snippet(PLACEHOLDER),
        method: call.method,
        chain,
    }))
}

impl From<ListedMethod> for MethodLine {
    fn from(method: ListedMethod) -> Self {
        let marks = [
            (method.is_heavy, "heavy"),
            (method.is_paced, "once a minute"),
            (method.is_broadcast, "sends a transaction"),
        ];
        MethodLine {
            cu: method.cu,
            cache: match method.cache {
                CacheRule::Never => "never".to_owned(),
                CacheRule::Short(time) => format!("{} s", time.as_secs()),
                CacheRule::Static => "always".to_owned(),
                CacheRule::Immutable { .. } => "once it is final".to_owned(),
            },
            marks: marks.into_iter().filter(|(is_marked, _)| *is_marked).map(|(_, mark)| mark).collect(),
            is_closed: method.is_closed,
            name: method.name,
        }
    }
}

#[cfg(test)]
mod tests;
