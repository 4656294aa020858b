//! The explanation of a request: the decisions behind its answer, for its owner and for operators.

use super::context::{OperatorPage, PageContext, PageResult};
use super::filters::{self, grouped};
use super::form::QueryFields;
use super::frame::{Frame, PageSection};
use super::problems::{Problems, sentence};
use super::view::{ok, shown};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::Time;
use rpcgate_management::action::explain::{ExplainedRequest, explain};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::{ActionError, ErrorCode};
use rpcgate_management::identity::role::Permission;
use rpcgate_management::routing::get;
use rpcgate_store::{ExplainedCall, ExplainedTry, Explanation, RefusalShown};
use std::sync::Arc;

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new().route("/explain", get(of_tenant)).route("/operator/explain", get(of_operator))
}

#[derive(Template)]
#[template(path = "explain.html")]
struct ExplainPage {
    frame: Frame,
    problems: Problems,
    path: &'static str,
    id: String,
    /// The reason why there is no explanation.
    missing: Option<String>,
    explained: Option<ExplainedView>,
}

struct ExplainedView {
    title: String,
    tone: &'static str,
    result: String,
    arrived: Time,
    caller: String,
    figures: [ShownFigure; 4],
    steps: Vec<DecisionStep>,
    /// The calls, if the request was a batch.
    calls: Vec<CallRow>,
    advice: Option<&'static str>,
}

struct ShownFigure {
    label: &'static str,
    value: String,
    scale: String,
}

/// A decision made while handling a request.
struct DecisionStep {
    name: String,
    tone: &'static str,
    answer: String,
    change: String,
    /// The begin and the width of the bar, in percent of the whole time.
    span: Option<(String, String)>,
    took: String,
}

impl DecisionStep {
    fn new(name: impl Into<String>, tone: &'static str, answer: impl Into<String>) -> Self {
        let name = name.into();
        let answer = answer.into();
        DecisionStep { name, tone, answer, change: String::new(), span: None, took: "–".into() }
    }

    fn is_ok(&self) -> bool {
        self.tone == "ok"
    }
}

struct CallRow {
    number: usize,
    method: String,
    tone: &'static str,
    outcome: String,
    cache: &'static str,
    weight: u32,
    cu: u32,
}

async fn of_tenant(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    QueryFields(fields): QueryFields,
) -> PageResult {
    page.tenant()?;
    show(&app, &page, (PageSection::Explain, "explain"), fields.one("id")).await
}

async fn of_operator(
    State(app): State<Arc<AppState>>,
    OperatorPage(page): OperatorPage,
    QueryFields(fields): QueryFields,
) -> PageResult {
    show(&app, &page, (PageSection::OperatorExplain, "operator/explain"), fields.one("id")).await
}

async fn show(
    app: &AppState,
    page: &PageContext,
    (place, path): (PageSection, &'static str),
    id: &str,
) -> Result<Response, ActionError> {
    let empty = ExplainPage {
        frame: page.frame(place),
        problems: Problems::default(),
        path,
        id: id.to_owned(),
        missing: None,
        explained: None,
    };
    if id.is_empty() {
        return Ok(ok(&empty));
    }
    let explained = match id.parse::<RequestId>() {
        Ok(request) => explain(app, &page.actor, request).await,
        Err(_) => Err(ActionError::field(
            "id",
            "this is not a request id, which has 36 characters, such as 0199a3c4-…",
        )),
    };
    match explained {
        Ok(explained) => {
            let explained = Some(ExplainedView::of(explained));
            Ok(ok(&ExplainPage { explained, ..empty }))
        }
        Err(error) if error.code() == ErrorCode::NotFound => {
            let missing = Some(sentence(&error.to_string()));
            Ok(shown(error.status(), &ExplainPage { missing, ..empty }))
        }
        Err(error) if error.code() == ErrorCode::Invalid => {
            let problems = Problems::of(&error, &[("id", "Request id")]);
            Ok(shown(error.status(), &ExplainPage { problems, ..empty }))
        }
        Err(error) => Err(error),
    }
}

impl ExplainedView {
    fn of(explained: ExplainedRequest) -> Self {
        let ExplainedRequest { explanation, tenant_name, project_name, key, .. } = explained;
        let key_name = match key {
            Some(key) if key.description.is_empty() => format!("{}…", key.prefix),
            Some(key) => format!("{}, {}…", key.description, key.prefix),
            None => explanation.key.clone(),
        };
        let project = project_name.unwrap_or_else(|| explanation.project.clone());
        let tenant = tenant_name.unwrap_or_else(|| explanation.tenant.clone());
        let (tone, result) = result(&explanation);
        ExplainedView {
            title: title(&explanation),
            tone,
            result,
            arrived: Time::from_micros(explanation.arrived),
            caller: format!("Key {key_name}, project {project}, over {}", transport(&explanation.transport)),
            figures: figures(&explanation),
            steps: steps(&explanation, &key_name, &tenant),
            calls: if explanation.is_batch { calls(&explanation.calls) } else { Vec::new() },
            advice: advice(&explanation),
        }
    }
}

fn title(explanation: &Explanation) -> String {
    match &explanation.calls[..] {
        [only] if !explanation.is_batch => match only.method.as_str() {
            "-" => format!("A request to {}", explanation.chain),
            "WS:connect" => format!("A stream of {}", explanation.chain),
            method => format!("{method} on {}", explanation.chain),
        },
        calls => format!("A batch of {} calls on {}", calls.len(), explanation.chain),
    }
}

fn transport(name: &str) -> &'static str {
    match name {
        "ws" => "WebSocket",
        "grpc" => "gRPC",
        _ => "HTTP",
    }
}

/// Returns the refusal of the whole request, or of its only call.
fn refusal(explanation: &Explanation) -> Option<&RefusalShown> {
    let only = match &explanation.calls[..] {
        [only] => only.refusal.as_ref(),
        _ => None,
    };
    explanation.refusal.as_ref().or(only)
}

fn result(explanation: &Explanation) -> (&'static str, String) {
    if let Some(refusal) = refusal(explanation) {
        return ("bad", format!("{}, refused: {}", refusal.status, refusal.message));
    }
    match &explanation.calls[..] {
        [only] => (outcome_tone(&only.outcome), format!("{}, {}", only.status, outcome(only))),
        calls => {
            let good = calls.iter().filter(|call| call.outcome == "answered").count();
            let tone = if good == calls.len() { "ok" } else { "warn" };
            (tone, format!("{good} of {} answered", calls.len()))
        }
    }
}

fn outcome_tone(outcome: &str) -> &'static str {
    match outcome {
        "answered" => "ok",
        "node_error" => "warn",
        _ => "bad",
    }
}

fn outcome(call: &ExplainedCall) -> String {
    match (call.outcome.as_str(), &call.refusal, &call.failure) {
        (_, Some(refusal), _) => format!("refused: {}", refusal.message),
        (_, _, Some(failure)) => format!("failed: {failure}"),
        ("answered", ..) => "answered".into(),
        ("node_error", ..) => "answered with an error of the node".into(),
        _ => "the client left before the answer".into(),
    }
}

/// Returns the outcome of the cache, and its meaning.
fn cache(word: &str) -> (&'static str, &'static str) {
    match word {
        "hit" => ("Hit", "the answer was stored"),
        "joined" => ("Joined", "it shared the answer to the same call in flight"),
        "miss" => ("Miss", "no answer was stored"),
        "uncacheable" => ("Not cached", "answers to this call are never stored"),
        _ => ("Not asked", "decided before the cache"),
    }
}

fn figures(explanation: &Explanation) -> [ShownFigure; 4] {
    let at_nodes: u64 = explanation.tries.iter().filter_map(|one| one.took).sum();
    let (cu, weight) = explanation
        .calls
        .iter()
        .fold((0, 0), |(cu, weight), call| (cu + u64::from(call.cu), weight + u64::from(call.weight)));
    let (kept, meaning) = match &explanation.calls[..] {
        [only] => {
            let (kept, meaning) = cache(&only.cache);
            (kept.to_owned(), meaning.to_owned())
        }
        calls => {
            let hits = calls.iter().filter(|call| matches!(call.cache.as_str(), "hit" | "joined")).count();
            (format!("{hits} of {}", calls.len()), "answered without a node".to_owned())
        }
    };
    let answered = explanation.tries.iter().rfind(|one| one.end == "answered");
    let tries = explanation.tries.len() as u64 + u64::from(explanation.tries_left_out);
    [
        ShownFigure {
            label: "Took",
            value: duration(explanation.took),
            scale: format!("{} at nodes", duration(at_nodes)),
        },
        ShownFigure {
            label: "Cost",
            value: format!("{} CU", grouped(cu.into())),
            scale: format!("weight {}", grouped(weight.into())),
        },
        ShownFigure { label: "Cache", value: kept, scale: meaning },
        ShownFigure {
            label: "Answered by",
            value: answered.map_or_else(|| "no node".into(), |one| format!("node {}", one.node)),
            scale: match tries {
                0 => "no node was tried".into(),
                1 => "1 try".into(),
                many => format!("{many} tries"),
            },
        },
    ]
}

fn steps(explanation: &Explanation, key: &str, tenant: &str) -> Vec<DecisionStep> {
    let status = refusal(explanation).map(|refusal| refusal.status);
    // A request that is refused before its calls are read has a single entry without a method.
    let is_unread = matches!(&explanation.calls[..], [only] if only.method == "-");
    let (key_tone, tenant_tone) = match status {
        Some(401 | 403) if is_unread => ("bad", ""),
        Some(402) if is_unread => ("ok", "bad"),
        _ => ("ok", "ok"),
    };
    let mut steps =
        vec![DecisionStep::new("Key", key_tone, key), DecisionStep::new("Tenant", tenant_tone, tenant)];
    steps.push(windows(explanation));
    let mut quota = DecisionStep::new("CU quota", "", "not asked");
    if let Some(shown) = &explanation.quota {
        let is_full =
            explanation.calls.iter().any(|call| call.refusal.is_some()) && shown.before >= shown.limit;
        (quota.tone, quota.answer) =
            if is_full { ("bad", "at the limit".into()) } else { ("ok", "below the limit".into()) };
        let before = grouped(shown.before.into());
        let after = grouped(shown.before.saturating_add(shown.charged).into());
        quota.change = format!("{before} → {after} of {}", grouped(shown.limit.into()));
    }
    steps.push(quota);
    if let [only] = &explanation.calls[..] {
        let (kept, meaning) = cache(&only.cache);
        steps.push(DecisionStep::new("Cache", "", format!("{}: {meaning}", kept.to_lowercase())));
    }
    steps.extend(explanation.tries.iter().map(|one| node_step(explanation, one)));
    if explanation.tries_left_out > 0 {
        let text = format!("{} more tries, not recorded", explanation.tries_left_out);
        steps.push(DecisionStep::new("Nodes", "", text));
    }
    if let Some(refusal) = refusal(explanation) {
        let retry =
            refusal.retry_after.map(|wait| format!(", possible again after {wait} s")).unwrap_or_default();
        steps.push(DecisionStep::new("Refusal", "bad", format!("{}{retry}", refusal.message)));
    }
    let cu: u64 = explanation.calls.iter().map(|call| u64::from(call.cu)).sum();
    steps.push(DecisionStep::new("Meter", "ok", format!("charged {} CU", grouped(cu.into()))));
    steps
}

fn windows(explanation: &Explanation) -> DecisionStep {
    let name = "Plan windows";
    if explanation.windows.is_empty() {
        return DecisionStep::new(name, "", "not asked");
    }
    let scaled = if explanation.is_cooled { ", limits scaled down" } else { "" };
    let (tone, counted) = match explanation.counted {
        0 => ("bad", "not counted".to_owned()),
        1 => ("ok", "counted once".to_owned()),
        many => ("ok", format!("counted {many} times")),
    };
    let mut step = DecisionStep::new(name, tone, format!("{}, {counted}{scaled}", explanation.plan));
    let spans = ["minute", "hour", "day"].into_iter().zip(&explanation.windows);
    let spans = spans.map(|(span, window)| {
        let before = grouped(window.before.into());
        let after = grouped(window.after.into());
        format!("{span} {before} → {after} of {}", grouped(window.limit.into()))
    });
    step.change = spans.collect::<Vec<_>>().join(", ");
    step
}

fn node_step(explanation: &Explanation, one: &ExplainedTry) -> DecisionStep {
    let (tone, end) = match (one.end.as_str(), &one.failure) {
        ("answered", _) => ("ok", "answered".to_owned()),
        (_, Some(failure)) => ("bad", failure.clone()),
        ("idle_closed", _) => ("warn", "had closed the idle connection".to_owned()),
        ("stopped", _) => ("warn", "stopped by the gateway".to_owned()),
        _ => ("warn", "still running when the client left".to_owned()),
    };
    let why = match one.choice.as_str() {
        "only" => "the chain's only node",
        "only_healthy" => "no other node was healthy",
        "turn" => "its turn",
        "sooner" => "likely to answer sooner",
        "cheaper" => "others cost more or use up their budgets too fast",
        "room" => "others had reached their limits",
        "least_behind" => "no node was healthy, this one was least behind",
        "first_back" => "all nodes were in backoff, this one was due first",
        "archive" => "an archive node, as the previous node no longer had the data",
        "elsewhere" => "another node, as the previous one could not serve the call",
        "ahead" => "a node that has the block, as the previous one did not",
        "trial" => "a trial, as the node was not useful lately",
        "slow" => "another node in addition, as the first took too long",
        "broadcast" => "a transaction goes to several nodes at once",
        "hedge" => "a second node, as the first took unusually long",
        _ => "a retry on a new connection",
    };
    let address = one.address.as_ref().map(|address| format!(" {address}")).unwrap_or_default();
    let mut step = DecisionStep::new(format!("Node {}{address}", one.node), tone, format!("{end} ({why})"));
    if explanation.is_batch {
        let places: Vec<_> = one.calls.iter().map(|place| (place + 1).to_string()).collect();
        step.change = format!("calls {}", places.join(", "));
    }
    if let (Some(began), Some(took)) = (one.began, one.took) {
        step.took = duration(took);
        step.span = Some(span(began, took, explanation.took));
    }
    step
}

/// Returns the begin and the width of a bar, in percent of `whole`.
fn span(began: u64, took: u64, whole: u64) -> (String, String) {
    let whole = u128::from(whole.max(1));
    let permille = |micros: u64| (u128::from(micros) * 1_000 / whole).min(1_000);
    let from = permille(began).min(994);
    let width = permille(took).clamp(6, 1_000 - from);
    let percent = |permille: u128| format!("{}.{}%", permille / 10, permille % 10);
    (percent(from), percent(width))
}

/// Formats microseconds as `0.07 ms`, `68 ms`, `2.07 s`.
fn duration(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{}.{:02} s", grouped((micros / 1_000_000).into()), micros % 1_000_000 / 10_000),
    }
}

fn calls(calls: &[ExplainedCall]) -> Vec<CallRow> {
    let row = |(place, call): (usize, &ExplainedCall)| CallRow {
        number: place + 1,
        method: call.method.clone(),
        tone: outcome_tone(&call.outcome),
        outcome: format!("{}, {}", call.status, outcome(call)),
        cache: cache(&call.cache).0,
        weight: call.weight,
        cu: call.cu,
    };
    calls.iter().enumerate().map(row).collect()
}

/// Returns advice for the caller, if there is a clear one.
fn advice(explanation: &Explanation) -> Option<&'static str> {
    let is_refused = |status| refusal(explanation).is_some_and(|refusal| refusal.status == status);
    let has_failed = |outcome| explanation.calls.iter().any(|call| call.outcome == outcome);
    if is_refused(429) {
        Some(
            "A limit was reached. Wait as long as Retry-After says, spread the calls, or ask for a higher limit.",
        )
    } else if is_refused(402) {
        Some("The organisation is suspended: contact support.")
    } else if has_failed("failed") {
        Some(
            "No node answered. Reads can be sent again at once. A call that no node has received is not charged.",
        )
    } else if has_failed("abandoned") {
        Some(
            "The client left before the answer. Let it wait longer: a call that a node has received is charged.",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Site, Visitor};
    use crate::tests::{cookie, get};
    use http::StatusCode;
    use rpcgate_store::{QuotaShown, Role, WindowUse};

    const NODE: &str = "http://10.0.0.7:8545/";

    fn call(outcome: &str) -> ExplainedCall {
        ExplainedCall {
            method: "eth_call".into(),
            weight: 15,
            cu: 15,
            status: 200,
            outcome: outcome.into(),
            cache: "miss".into(),
            refusal: None,
            failure: None,
        }
    }

    fn explanation(visitor: &Visitor) -> Explanation {
        let node_try = |node, end: &str, failure: Option<&str>, began, took| ExplainedTry {
            calls: vec![0],
            node,
            address: Some(NODE.into()),
            choice: "turn".into(),
            end: end.into(),
            failure: failure.map(str::to_owned),
            began: Some(began),
            took: Some(took),
        };
        Explanation {
            key: RequestId(6).to_string(),
            project: RequestId(7).to_string(),
            tenant: visitor.user.tenant.unwrap().to_string(),
            plan: "free".into(),
            transport: "http".into(),
            chain: "polygon".into(),
            arrived: 1_790_000_000_123_456,
            took: 2_070_000,
            counted: 1,
            windows: [10, 500, 10_000]
                .map(|limit| WindowUse { limit, before: 3, after: 4, reset: 60 })
                .into(),
            quota: Some(QuotaShown { limit: 250_000, before: 198_412, reserved: 15, charged: 15 }),
            calls: vec![call("answered")],
            tries: vec![
                node_try(3, "failed", Some("no answer in time"), 100, 2_000_000),
                node_try(2, "answered", None, 2_001_000, 68_000),
            ],
            ..Explanation::default()
        }
    }

    /// Stores the explanation as an answer, so that no gateway is asked.
    async fn answered(site: &Site, owner: &Visitor, explanation: &Explanation) -> RequestId {
        let tenant = owner.user.tenant.unwrap();
        let now = site.app.now();
        let request = RequestId::new(now);
        let question = site.app.store.ask_explanation(request, Some(tenant), now).await.unwrap();
        site.app.store.answer_explanation_request(question, tenant, explanation).await.unwrap();
        request
    }

    #[tokio::test]
    async fn the_page_shows_the_decision_and_hides_the_addresses_of_nodes() {
        let site = Site::new().await;
        let owner = site.member(Role::Viewer).await;
        let request = answered(&site, &owner, &explanation(&owner)).await;
        let page = get(&site, &format!("/explain?id={request}"), &cookie(&site, &owner)).await;
        let ask = format!("href=\"support/new?request={request}\"");
        assert!(!page.text.contains(&ask), "a viewer writes no tickets: {}", page.text);
        let writer = cookie(&site, &site.visitor(owner.user.tenant, Role::Developer).await);
        let asking = get(&site, &format!("/explain?id={request}"), &writer).await;
        assert!(asking.text.contains(&ask), "{ask}: {}", asking.text);
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        for part in [
            "eth_call on polygon",
            "2.07 s",
            "minute 3 → 4 of 10, hour 3 → 4 of 500, day 3 → 4 of 10,000",
            "198,412 → 198,427 of 250,000",
            "Node 3",
            "no answer in time (its turn)",
            "68 ms",
            "2 tries",
        ] {
            assert!(page.text.contains(part), "{part}: {}", page.text);
        }
        assert!(!page.text.contains(NODE));
        let operator = site.operator().await;
        let theirs = get(&site, &format!("/operator/explain?id={request}"), &cookie(&site, &operator)).await;
        assert!(theirs.text.contains(NODE), "{}", theirs.text);
    }

    #[tokio::test]
    async fn a_batch_has_a_row_for_each_call() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let refusal = RefusalShown { status: 403, message: "method not permitted".into(), retry_after: None };
        let refused = ExplainedCall { refusal: Some(refusal), cu: 0, ..call("refused") };
        let batch =
            Explanation { is_batch: true, calls: vec![call("answered"), refused], ..explanation(&owner) };
        let request = answered(&site, &owner, &batch).await;
        let page = get(&site, &format!("/explain?id={request}"), &cookie(&site, &owner)).await;
        for part in ["A batch of 2 calls on polygon", "1 of 2 answered", "refused: method not permitted"] {
            assert!(page.text.contains(part), "{part}: {}", page.text);
        }
    }

    #[tokio::test]
    async fn the_step_that_refused_is_marked() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        for (status, tones) in [(402, ["ok", "bad"]), (403, ["bad", ""]), (429, ["ok", "ok"])] {
            let refusal = RefusalShown { status, message: "no".into(), retry_after: Some(7) };
            let calls =
                vec![ExplainedCall { method: "-".into(), cache: "not_asked".into(), ..call("refused") }];
            let refusal = Some(refusal);
            let refused =
                Explanation { refusal, calls, tries: Vec::new(), quota: None, ..explanation(&owner) };
            let steps = steps(&refused, "a key", "a tenant");
            assert_eq!([steps[0].tone, steps[1].tone], tones, "{status}");
            assert!(steps.iter().any(|step| step.answer == "no, possible again after 7 s"), "{status}");
            assert_eq!(result(&refused), ("bad", format!("{status}, refused: no")));
        }
    }

    #[tokio::test]
    async fn a_page_without_an_explanation_gives_advice() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let cookie_of_owner = cookie(&site, &owner);
        let empty = get(&site, "/explain", &cookie_of_owner).await;
        assert_eq!(empty.status, StatusCode::OK);
        assert!(empty.text.contains("x-request-id"), "{}", empty.text);
        let wrong = get(&site, "/explain?id=%3Cscript%3E", &cookie_of_owner).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
        assert!(wrong.text.contains("36 characters") && !wrong.text.contains("value=\"<script>"));
        let unknown = RequestId::new(site.app.now());
        let unknown = get(&site, &format!("/explain?id={unknown}"), &cookie_of_owner).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND);
        assert!(unknown.text.contains("No gateway remembers this request"), "{}", unknown.text);
    }

    #[tokio::test]
    async fn each_page_is_for_its_own_readers() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let operator = site.operator().await;
        for (visitor, path) in [(&owner, "/operator/explain"), (&operator, "/explain")] {
            let page = get(&site, path, &cookie(&site, visitor)).await;
            assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        }
    }

    #[test]
    fn durations_and_bars_fit() {
        let texts = [0, 70, 9_999, 68_400, 2_070_500].map(duration);
        assert_eq!(texts, ["0.00 ms", "0.07 ms", "9.99 ms", "68 ms", "2.07 s"]);
        assert_eq!(span(0, 0, 0), ("0.0%".into(), "0.6%".into()));
        assert_eq!(span(100, 2_000_000, 2_070_000), ("0.0%".into(), "96.6%".into()));
        assert_eq!(span(9, 9, 1), ("99.4%".into(), "0.6%".into()), "clocks may disagree a little");
    }
}
