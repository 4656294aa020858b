//! Explanations of requests to a gateway.

use crate::management::action::explain::ExplainedRequest;
use crate::management::shape::moment::Moment;
use rpcgate_core::clock::Time;
use rpcgate_store::{ExplainedCall, ExplainedTry, QuotaShown, RefusalShown};
use serde::Serialize;
use utoipa::ToSchema;

/// What a gateway remembers of a request. It never has parameters, bodies or keys.
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
    /// The tenant's plan at the time: the base of a plan of an operator's own.
    #[schema(example = "premium")]
    pub plan: String,
    /// Whether the caller's limits were scaled down after a storm of refusals.
    pub scaled_down: bool,
    /// The transport.
    #[schema(example = "http", pattern = "^(http|ws|grpc)$")]
    pub transport: String,
    /// The chain's path.
    #[schema(example = "eth")]
    pub chain: String,
    /// Whether the request was an array of calls.
    pub batch: bool,
    /// Whether it opened a stream, or began a call that lasts. The times are then those of its begin.
    pub lasting: bool,
    /// When it arrived.
    #[schema(value_type = String, format = DateTime)]
    pub arrived_at: Moment,
    /// Milliseconds from its arrival to its answer.
    #[schema(example = 68.2)]
    pub total_ms: f64,
    /// Milliseconds of the tries at nodes, where those at the same time count once each.
    pub node_ms: f64,
    /// Compute Units charged.
    pub cu: u64,
    /// How many requests the plan windows counted for it.
    pub counted: u32,
    /// The plan windows; null if it did not come so far.
    pub windows: Option<WindowsJson>,
    /// The project's quota; null if it did not come so far, or costs nothing.
    pub quota: Option<QuotaUseJson>,
    /// Why it was refused as a whole; null if it was not.
    pub refusal: Option<RefusalJson>,
    /// Its calls, in order.
    pub calls: Vec<CallExplanationJson>,
    /// The tries at nodes, in order; those of calls that were sent at the same time, one call after another.
    pub tries: Vec<NodeTryJson>,
    /// How many tries there were beside those.
    pub tries_left_out: u32,
}

/// Something with a name.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = NamedReference)]
pub struct NamedJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its name; null if it was deleted.
    pub name: Option<String>,
}

/// The key of a request that is explained.
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

/// The plan windows around a request.
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

/// A plan window around a request.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = WindowUse)]
pub struct WindowUseJson {
    /// Requests that the plan grants in it.
    pub limit: u64,
    /// Requests that were counted in it before.
    pub before: u64,
    /// Requests that were counted in it afterwards.
    pub after: u64,
    /// Seconds until it started again.
    pub reset_s: u64,
}

/// The project's Compute Units of 24 hours around a request.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = QuotaUse)]
pub struct QuotaUseJson {
    /// Units that the project may use in 24 hours.
    pub limit: u64,
    /// Units that it had used before, as far as the gateway knew.
    pub before: u64,
    /// Units that it had used afterwards: what was reserved and not charged was returned.
    pub after: u64,
    /// Units that were reserved for the request.
    pub reserved: u64,
}

impl From<QuotaShown> for QuotaUseJson {
    fn from(QuotaShown { limit, before, reserved, charged }: QuotaShown) -> Self {
        QuotaUseJson { limit, before, after: before.saturating_add(charged), reserved }
    }
}

/// Why the gateway refused something.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = RefusalExplanation)]
pub struct RefusalJson {
    /// The HTTP status of the refusal, if it is alone.
    #[schema(example = 429)]
    pub status: u16,
    /// Its text, as the client got it.
    pub message: String,
    /// Seconds after which it could be tried again, where that is known.
    pub retry_after: Option<u64>,
}

impl From<RefusalShown> for RefusalJson {
    fn from(RefusalShown { status, message, retry_after }: RefusalShown) -> Self {
        RefusalJson { status, message, retry_after }
    }
}

/// What became of a call.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = CallExplanation)]
pub struct CallExplanationJson {
    /// The method under which it is metered.
    pub method: String,
    /// The outcome: `answered`, `node_error` for an error of the node's own, `refused` by the gateway, `failed` if no node
    /// answered, `abandoned` if the client left first.
    #[schema(pattern = "^(answered|node_error|refused|failed|abandoned)$")]
    pub outcome: String,
    /// The HTTP status that it would have had alone.
    pub status: u16,
    /// The weight of the method in Compute Units.
    pub weight: u32,
    /// Compute Units charged.
    pub cu: u32,
    /// The cache: `hit`, `joined` if the same call was in flight already, `miss`, `uncacheable` if answers to the call are
    /// never stored, `not_asked` if the call did not come so far.
    #[schema(pattern = "^(hit|joined|miss|uncacheable|not_asked)$")]
    pub cache: String,
    /// Why it was refused; null if it was not.
    pub refusal: Option<RefusalJson>,
    /// Why no node answered it; null if one did, or none was asked.
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
    /// The calls that were sent together, by their places in `calls`, counted from 0.
    pub calls: Vec<u32>,
    /// The number of the node among those of the chain, counted from 1.
    pub node: u32,
    /// The node's URL, secrets masked: for operators only, and null if the nodes were configured anew since.
    pub address: Option<String>,
    /// Why this node: `only` if the chain has no other, `only_healthy` if no other was healthy, `turn` if it was next,
    /// `sooner` if it was likely to answer sooner than the next, `cheaper` or `room` if others cost more or had got as many calls
    /// as they may get, `least_behind` if none was healthy, `first_back` if all were
    /// backed off from, `again` on a new connection after the former had broken, `archive` if the node before no longer had what was asked
    /// for, `elsewhere` if the node before could not serve the call, `ahead` if it did not have the block that the call names, `trial` if
    /// the node had failed lately and is tried out, `slow` if the node before took longer than a read may,
    /// `hedge` if the node before took unusually long, `broadcast` for a transaction that goes to several nodes.
    #[schema(
        pattern = "^(only|only_healthy|turn|sooner|cheaper|room|least_behind|first_back|again|archive|elsewhere|ahead|trial|slow|hedge|broadcast)$"
    )]
    pub choice: String,
    /// How it ended: `answered`, `failed`, `idle_closed` if the node had closed the idle connection, `stopped` by the gateway,
    /// `running` if the client left first.
    #[schema(pattern = "^(answered|failed|idle_closed|stopped|running)$")]
    pub end: String,
    /// Why it failed; null if it did not.
    #[schema(example = "no answer in time")]
    pub failure: Option<String>,
    /// Milliseconds from the arrival of the request to its begin; null if a gRPC call got no connection.
    pub began_ms: Option<f64>,
    /// Milliseconds that it took; null if that was not measured.
    pub took_ms: Option<f64>,
}

impl From<ExplainedTry> for NodeTryJson {
    fn from(one: ExplainedTry) -> Self {
        let ExplainedTry { calls, node, address, choice, end, failure, began, took } = one;
        let (began_ms, took_ms) = (began.map(millis), took.map(millis));
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
