//! JSON shapes of the explanation of a request to a gateway.

use crate::action::explain::ExplainedRequest;
use crate::shape::moment::Moment;
use rpcgate_core::clock::Time;
use rpcgate_store::WindowUse;
use rpcgate_store::{ExplainedCall, ExplainedTry, QuotaShown, RefusalShown};
use serde::Serialize;
use utoipa::ToSchema;

/// A gateway's record of a request. It never contains parameters, bodies or keys.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = Explanation)]
pub struct ExplanationJson {
    /// The value of `x-request-id`.
    #[schema(format = "uuid")]
    pub request_id: String,
    /// The gateway that served it.
    #[schema(format = "uuid")]
    pub gateway: String,
    /// The tenant.
    pub tenant: NamedJson,
    /// The project.
    pub project: NamedJson,
    /// The key.
    pub key: ExplainedKeyJson,
    /// The tenant's plan at the time. For a custom plan, the built-in plan that it is based on.
    #[schema(example = "premium")]
    pub plan: String,
    /// True if the caller's limits were scaled down after a storm of refusals.
    pub scaled_down: bool,
    /// The transport.
    #[schema(example = "http", pattern = "^(http|ws|grpc)$")]
    pub transport: String,
    /// The chain's path.
    #[schema(example = "eth")]
    pub chain: String,
    /// True if the request was an array of calls.
    pub batch: bool,
    /// True if it opened a stream or started a long-lived call. The times are then those of its start.
    pub lasting: bool,
    /// The arrival time.
    #[schema(value_type = String, format = DateTime)]
    pub arrived_at: Moment,
    /// The milliseconds from the arrival to the response.
    #[schema(example = 68.2)]
    pub total_ms: f64,
    /// The sum of the durations of all tries at nodes, in milliseconds. Tries at the same time are each counted in
    /// full.
    pub node_ms: f64,
    /// Compute Units charged.
    pub cu: u64,
    /// The number of requests that the plan windows counted for it.
    pub counted: u32,
    /// The plan windows; null if the request did not reach their check.
    pub windows: Option<WindowsJson>,
    /// The project's quota; null if the request did not reach its check, or costs nothing.
    pub quota: Option<QuotaUseJson>,
    /// The reason why it was refused as a whole; null if it was not.
    pub refusal: Option<RefusalJson>,
    /// Its calls, in order.
    pub calls: Vec<CallExplanationJson>,
    /// The tries at nodes, in order. If calls were sent at the same time, the tries of one call follow those of
    /// another.
    pub tries: Vec<NodeTryJson>,
    /// The number of tries that are left out.
    pub tries_left_out: u32,
}

/// A reference to an object with a name.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = NamedReference)]
pub struct NamedJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its name; null if it was deleted.
    pub name: Option<String>,
}

/// The key of an explained request.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = ExplainedKey)]
pub struct ExplainedKeyJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its first characters; null if it is not in the database.
    #[schema(example = "rpcg_0Ab1Cd2")]
    pub prefix: Option<String>,
    /// Its description; null if it is not in the database.
    pub description: Option<String>,
}

/// The plan windows before and after a request.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = WindowUses)]
pub struct WindowsJson {
    /// The UTC minute.
    pub minute: WindowUseJson,
    /// The UTC hour.
    pub hour: WindowUseJson,
    /// The UTC day.
    pub day: WindowUseJson,
}

/// A plan window before and after a request.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = WindowUse)]
pub struct WindowUseJson {
    /// The requests that the plan grants in it.
    pub limit: u64,
    /// The requests counted in it before this one.
    pub before: u64,
    /// The requests counted in it after this one.
    pub after: u64,
    /// The seconds until it restarted.
    pub reset_s: u64,
}

/// The project's quota of Compute Units in 24 hours, before and after a request.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = QuotaUse)]
pub struct QuotaUseJson {
    /// The units that the project may use in 24 hours.
    pub limit: u64,
    /// The units that the gateway knew to be used before.
    pub before: u64,
    /// The units used afterwards. Units that were reserved and not charged were returned.
    pub after: u64,
    /// The units reserved for the request.
    pub reserved: u64,
}

impl From<QuotaShown> for QuotaUseJson {
    fn from(QuotaShown { limit, before, reserved, charged }: QuotaShown) -> Self {
        QuotaUseJson { limit, before, after: before.saturating_add(charged), reserved }
    }
}

/// A refusal by the gateway, with its reason.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = RefusalExplanation)]
pub struct RefusalJson {
    /// The HTTP status that the refusal has as the response to a single request.
    #[schema(example = 429)]
    pub status: u16,
    /// The message that the client got.
    pub message: String,
    /// The seconds after which a retry was possible, if known.
    pub retry_after: Option<u64>,
}

impl From<RefusalShown> for RefusalJson {
    fn from(RefusalShown { status, message, retry_after }: RefusalShown) -> Self {
        RefusalJson { status, message, retry_after }
    }
}

/// The outcome of a call.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = CallExplanation)]
pub struct CallExplanationJson {
    /// The method under which it is metered.
    pub method: String,
    /// The outcome: `answered`, `node_error` for the node's own error, `refused` by the gateway, `failed` if no node
    /// answered, `abandoned` if the client left first.
    #[schema(pattern = "^(answered|node_error|refused|failed|abandoned)$")]
    pub outcome: String,
    /// The HTTP status that it would have had as a single request.
    pub status: u16,
    /// The weight of the method in Compute Units.
    pub weight: u32,
    /// Compute Units charged.
    pub cu: u32,
    /// The cache: `hit`, `joined` if the same call was already in flight, `miss`, `uncacheable` if answers to the call
    /// are never stored, `not_asked` if the call did not reach the cache.
    #[schema(pattern = "^(hit|joined|miss|uncacheable|not_asked)$")]
    pub cache: String,
    /// The reason why it was refused; null if it was not.
    pub refusal: Option<RefusalJson>,
    /// The reason why no node answered it; null if a node did, or if no node was asked.
    pub failure: Option<String>,
}

impl From<ExplainedCall> for CallExplanationJson {
    fn from(call: ExplainedCall) -> Self {
        let ExplainedCall { method, weight, cu, status, outcome, cache, refusal, failure } = call;
        let refusal = refusal.map(RefusalJson::from);
        CallExplanationJson { method, outcome, status, weight, cu, cache, refusal, failure }
    }
}

/// A try at a node.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = NodeTry)]
pub struct NodeTryJson {
    /// The calls that were sent together, as positions in `calls`, counted from 0.
    pub calls: Vec<u32>,
    /// The number of the node among the chain's nodes, counted from 1.
    pub node: u32,
    /// The node's URL with secrets masked, for operators only. Null if the nodes were reconfigured after the request.
    pub address: Option<String>,
    /// The reason for the choice of the node: `only` if the chain has no other; `only_healthy` if no other was healthy;
    /// `turn` if it was next; `sooner` if it was likely to answer sooner than the next; `cheaper` if others cost more;
    /// `room` if others had reached their rate limits; `least_behind` if none was healthy; `first_back` if all were in
    /// backoff; `again` for a new connection after the previous one broke; `archive` if the previous node no longer had
    /// the requested history; `elsewhere` if the previous node could not serve the call; `ahead` if the previous node
    /// did not have the block that the call names; `trial` if the node failed recently and is tested; `slow` if the
    /// previous node exceeded the time limit of a read; `hedge` if the previous node took unusually long; `broadcast`
    /// for a transaction that goes to several nodes.
    #[schema(
        pattern = "^(only|only_healthy|turn|sooner|cheaper|room|least_behind|first_back|again|archive|elsewhere|ahead|trial|slow|hedge|broadcast)$"
    )]
    pub choice: String,
    /// The end of the try: `answered`, `failed`, `idle_closed` if the node had closed the idle connection, `stopped` by
    /// the gateway, `running` if the client left first.
    #[schema(pattern = "^(answered|failed|idle_closed|stopped|running)$")]
    pub end: String,
    /// The reason for the failure; null if it did not fail.
    #[schema(example = "no answer in time")]
    pub failure: Option<String>,
    /// The milliseconds from the arrival of the request to the start of the try; null if a gRPC call got no connection.
    pub began_ms: Option<f64>,
    /// The duration in milliseconds; null if it was not measured.
    pub took_ms: Option<f64>,
}

impl From<ExplainedTry> for NodeTryJson {
    fn from(one: ExplainedTry) -> Self {
        let ExplainedTry { calls, node, address, choice, end, failure, began, took } = one;
        let began_ms = began.map(millis);
        let took_ms = took.map(millis);
        NodeTryJson { calls, node, address, choice, end, failure, began_ms, took_ms }
    }
}

pub(crate) fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

impl From<ExplainedRequest> for ExplanationJson {
    fn from(explained: ExplainedRequest) -> Self {
        let ExplainedRequest { request, explanation, tenant_name, project_name, key } = explained;
        let windows = match &explanation.windows[..] {
            [minute, hour, day] => {
                Some(WindowsJson { minute: minute.into(), hour: hour.into(), day: day.into() })
            }
            _ => None,
        };
        let (prefix, description) = key.map(|key| (key.prefix, key.description)).unzip();
        ExplanationJson {
            request_id: request.to_string(),
            gateway: explanation.gateway,
            tenant: NamedJson { id: explanation.tenant, name: tenant_name },
            project: NamedJson { id: explanation.project, name: project_name },
            key: ExplainedKeyJson { id: explanation.key, prefix, description },
            plan: explanation.plan,
            scaled_down: explanation.is_cooled,
            transport: explanation.transport,
            chain: explanation.chain,
            batch: explanation.is_batch,
            lasting: explanation.is_lasting,
            arrived_at: Time::from_micros(explanation.arrived).into(),
            total_ms: millis(explanation.took),
            node_ms: millis(explanation.tries.iter().filter_map(|one| one.took).sum()),
            cu: explanation.calls.iter().map(|call| u64::from(call.cu)).sum(),
            counted: explanation.counted,
            windows,
            quota: explanation.quota.map(QuotaUseJson::from),
            refusal: explanation.refusal.map(RefusalJson::from),
            calls: explanation.calls.into_iter().map(CallExplanationJson::from).collect(),
            tries: explanation.tries.into_iter().map(NodeTryJson::from).collect(),
            tries_left_out: explanation.tries_left_out,
        }
    }
}

impl From<&WindowUse> for WindowUseJson {
    fn from(window: &WindowUse) -> Self {
        let WindowUse { limit, before, after, reset } = *window;
        WindowUseJson { limit, before, after, reset_s: reset }
    }
}
