//! Versions of configurations and of operators' settings: the changes in each, and the rollback to one.

use crate::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use crate::context::{OperatorPage, PageContext, PageResult};
use crate::cursor;
use crate::filters;
use crate::form::QueryFields;
use crate::frame::{Frame, PageSection};
use crate::outcome::Done;
use crate::parts::PageLinks;
use crate::view::ok;
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_config::ChangedSetting;
use rpcgate_core::clock::Time;
use rpcgate_management::action::operator::config_versions::{self, ListedVersion, VersionChanges};
use rpcgate_management::action::operator::rollback;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::PathParams;
use rpcgate_management::routing::get;
use rpcgate_store::ConfigVersionFilter;
use std::sync::Arc;

const SHOWN: u64 = 50;

/// The changed settings that a row names.
const NAMED: usize = 3;

/// The maximum number of changed settings that the page of a version lists, and that a question names.
const LISTED: usize = 500;

/// The sources of versions: the word in addresses, and the displayed one.
const SOURCES: [(&str, &str); 4] = [
    ("settings", "Settings of operators"),
    ("tenant", "Agreements with tenants"),
    ("gateway", "Gateways"),
    ("management", "Management side"),
];

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/operator/config", get(list))
        .route("/operator/config/{number}", get(show))
        .route("/operator/config/{number}/rollback", confirmed::<Rollback>())
}

#[derive(Template)]
#[template(path = "operator_config_versions.html")]
struct VersionsPage {
    frame: Frame,
    /// The choices: label, address, and whether it is selected.
    sources: Vec<(&'static str, String, bool)>,
    rows: Vec<VersionRow>,
    links: PageLinks,
}

struct VersionRow {
    number: u64,
    at: Time,
    about: &'static str,
    /// The host, or the tenant.
    place: String,
    who: String,
    changes: String,
}

#[derive(Template)]
#[template(path = "operator_config_version.html")]
struct VersionPage {
    frame: Frame,
    row: VersionRow,
    /// The version to compare with, if one was selected. The default is the preceding one.
    from: Option<u64>,
    is_first: bool,
    changes: Vec<ChangedSetting>,
    left_out: usize,
    unknown: usize,
    text: String,
    /// True if a rollback to it is possible here.
    is_of_operators: bool,
}

fn about(source: &str) -> &'static str {
    SOURCES.iter().find(|(name, _)| *name == source).map_or("", |(_, label)| *label)
}

/// Summarizes the changes of a version.
fn summary(listed: &ListedVersion) -> String {
    let Some(changes) = &listed.changes else { return "the first stored version".into() };
    let mut keys: Vec<_> = changes.settings.iter().take(NAMED).map(|change| change.key.clone()).collect();
    let more = changes.settings.len().saturating_sub(NAMED);
    if more > 0 {
        keys.push(format!("{more} more"));
    }
    match (keys.is_empty(), changes.unknown) {
        (true, 0) => "nothing".into(),
        (true, _) => "secrets that cannot be compared".into(),
        (false, _) => keys.join(", "),
    }
}

impl VersionRow {
    fn of(listed: &ListedVersion) -> Self {
        let version = &listed.version;
        let place = if version.host.is_empty() { version.scope.location() } else { version.host.clone() };
        VersionRow {
            number: version.number,
            at: version.at,
            about: about(version.scope.source()),
            place,
            who: listed.who(),
            changes: summary(listed),
        }
    }
}

async fn list(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(query): QueryFields,
) -> PageResult {
    let source = SOURCES.iter().find(|(name, _)| *name == query.one("of")).map(|(name, _)| *name);
    let before = match query.one(cursor::BEFORE) {
        "" => None,
        text => {
            let number =
                text.parse().map_err(|_| ActionError::invalid("this is not a position in this list"));
            Some(number?)
        }
    };
    let filter = ConfigVersionFilter { source: source.map(str::to_owned), ..ConfigVersionFilter::default() };
    let versions = config_versions::list(&app, &filter, before, SHOWN).await?;
    let last = versions.last().filter(|_| versions.len() as u64 == SHOWN);
    let rest = source.map(|name| format!("of={name}")).unwrap_or_default();
    let older = last.map(|last| cursor::older("operator/config", &rest, &last.version.number.to_string()));
    let all = ("All", "operator/config".to_owned(), source.is_none());
    let chosen = |(name, label): (&'static str, &'static str)| {
        (label, format!("operator/config?of={name}"), source == Some(name))
    };
    Ok(ok(&VersionsPage {
        frame: page.frame(PageSection::Configuration),
        sources: std::iter::once(all).chain(SOURCES.map(chosen)).collect(),
        rows: versions.iter().map(VersionRow::of).collect(),
        links: PageLinks { older, ..PageLinks::default() },
    }))
}

async fn show(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    PathParams(number): PathParams<u64>,
    QueryFields(query): QueryFields,
) -> PageResult {
    let listed = config_versions::get(&app, number).await?;
    let from = query.filled("from").map(str::parse::<u64>).transpose();
    let from = from.map_err(|_| ActionError::invalid("a version is a number"))?;
    let changes = match from {
        Some(from) => Some(config_versions::compare(&app, from, number).await?),
        None => listed.changes.clone(),
    };
    let is_first = changes.is_none();
    let changes = changes.unwrap_or_default();
    Ok(ok(&VersionPage {
        frame: page.frame(PageSection::Configuration),
        row: VersionRow::of(&listed),
        from,
        is_first,
        left_out: changes.settings.len().saturating_sub(LISTED),
        changes: changes.settings.into_iter().take(LISTED).collect(),
        unknown: changes.unknown,
        text: listed.version.lines.to_string(),
        is_of_operators: listed.version.scope.is_of_operators(),
    }))
}

struct Rollback {
    listed: ListedVersion,
    changes: VersionChanges,
}

impl Confirmed for Rollback {
    type Reader = OperatorPage;
    type Path = PathParams<u64>;

    async fn load(
        request: ConfirmRequest<'_>,
        PathParams(number): PathParams<u64>,
    ) -> Result<Self, ActionError> {
        let (listed, changes) = config_versions::from_running(request.app, number).await?;
        Ok(Rollback { listed, changes })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let version = &self.listed.version;
        let settings = &self.changes.settings;
        let number = version.number;
        let back = format!("operator/config/{}", version.number);
        let whose =
            if version.scope.location().is_empty() { "Every gateway applies" } else { "Gateways apply" };
        let question = ConfirmQuestion::new(
            page.frame(PageSection::Configuration),
            format!("Return to version {number}?"),
            "Return to this version",
            back.clone(),
        )
        .crumb("Configuration", "operator/config")
        .crumb(format!("Version {number}"), back)
        .keep("Leave it as it is")
        .consequence(format!("{} settings change.", settings.len()));
        let changes = settings.iter().take(LISTED).map(ToString::to_string);
        changes
            .fold(question, ConfirmQuestion::consequence)
            .consequence(format!("{whose} it within a second. It can be undone in the same way."))
    }

    async fn act(self, ConfirmRequest { app, page, .. }: ConfirmRequest<'_>) -> PageResult {
        let outcome = rollback::roll_back(app, &page.actor, self.listed.version.number).await?;
        let done = if outcome.left.is_empty() { Done::RolledBack } else { Done::RolledBackInPart };
        Ok(page.done("operator/config", done))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{NOON, Site};
    use crate::tests::{cookie, get, post};
    use http::StatusCode;
    use rpcgate_config::ConfigLines;
    use rpcgate_store::{AcceptedConfig, ConfigScope, Role};

    #[tokio::test]
    async fn operators_see_the_changes_and_return_to_a_version() {
        let site = Site::new().await;
        let operator = cookie(&site, &site.operator().await);
        let empty = get(&site, "/operator/config", &operator).await.text;
        assert!(empty.contains("No version"), "{empty}");
        for cu in [7, 9] {
            site.app.store.put_weight("eth", "eth_call", cu, NOON).await.unwrap();
        }
        let listed = get(&site, "/operator/config?of=settings", &operator).await.text;
        assert!(listed.contains("weights.eth.eth_call") && listed.contains("operator/config/3"), "{listed}");
        let shown = get(&site, "/operator/config/2", &operator).await.text;
        assert!(
            shown.contains("weights.eth.eth_call = 7") && shown.contains("operator/config/2/rollback"),
            "{shown}"
        );
        let compared = get(&site, "/operator/config/3?from=1", &operator).await.text;
        assert!(compared.contains("What differs from version 1"), "{compared}");
        let change = "weights.eth.eth_call</th><td class=\"id\">not set</td><td class=\"id\">9</td>";
        assert!(compared.contains(change), "{compared}");
        assert_eq!(get(&site, "/operator/config/3?from=x", &operator).await.status, StatusCode::BAD_REQUEST);
        assert_eq!(get(&site, "/operator/config/3?from=99", &operator).await.status, StatusCode::NOT_FOUND);
        let page = get(&site, "/operator/config/2/rollback", &operator).await.text;
        assert!(
            page.contains("weights.eth.eth_call: 9 -&#62; 7")
                || page.contains("weights.eth.eth_call: 9 -&gt; 7"),
            "{page}"
        );
        let done = post(&site, "/operator/config/2/rollback", &operator, &[]).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
        assert_eq!(site.app.store.weight("eth", "eth_call").await.unwrap(), Some(7));
        assert_eq!(get(&site, "/operator/config?before=x", &operator).await.status, StatusCode::BAD_REQUEST);
        let member = cookie(&site, &site.member(Role::Owner).await);
        assert_eq!(get(&site, "/operator/config", &member).await.status, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn the_configuration_of_a_program_cannot_be_rolled_back_here() {
        let site = Site::new().await;
        let operator = cookie(&site, &site.operator().await);
        let scope = ConfigScope::Gateway("one".into());
        let origin = ("web-1".to_owned(), "web-1: <a>.toml".to_owned());
        let accepted = AcceptedConfig::new(&site.app.settings.config, scope, origin, true, NOON);
        let number = site.app.store.record_config(&accepted, NOON).await.unwrap();
        let shown = get(&site, &format!("/operator/config/{number}"), &operator).await.text;
        assert!(!shown.contains("/rollback") && !shown.contains("<a>.toml"), "{shown}");
        assert!(shown.contains("rpcgate-admin config rollback"), "{shown}");
        assert!(!shown.contains("0123456789abcdef"), "no secret: {shown}");
        let path = format!("/operator/config/{number}/rollback");
        assert_eq!(post(&site, &path, &operator, &[]).await.status, StatusCode::CONFLICT);
        assert_eq!(get(&site, "/operator/config/99", &operator).await.status, StatusCode::NOT_FOUND);
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn no_secret_of_a_nodes_url_is_on_a_page_about_versions() {
        let site = Site::new().await;
        let operator = cookie(&site, &site.operator().await);
        let scope = ConfigScope::Gateway("one".into());
        let accept = async |text: &str| {
            let texts = vec![(String::new(), ConfigLines::parse(text).unwrap())];
            let host = "web-1".to_owned();
            let who = "web-1: rpcgate.toml".to_owned();
            let accepted =
                AcceptedConfig { scope: scope.clone(), host, who, texts, is_start: true, at: NOON };
            site.app.store.record_config(&accepted, NOON).await.unwrap()
        };
        // Earlier programs stored short keys of paths.
        let node = "chains.eth.nodes[0].url = \"https://h/v2/planted/rpc/Planted3?apikey=***\"\n\
                    chains.eth.nodes[0].user = \"planted1User\"\n";
        let first = accept("chains.eth.nodes[0].url = \"https://h/v1/planted\"\n").await;
        let second = accept(node).await;
        for path in [
            "/operator/config".to_owned(),
            format!("/operator/config/{first}"),
            format!("/operator/config/{second}"),
            format!("/operator/config/{second}?from={first}"),
        ] {
            let page = get(&site, &path, &operator).await;
            assert!(
                page.status == StatusCode::OK && !page.text.to_lowercase().contains("planted"),
                "{}",
                page.text
            );
            assert!(page.text.contains("https://h/v") || path.ends_with("config"), "{path}: {}", page.text);
        }
    }
}
