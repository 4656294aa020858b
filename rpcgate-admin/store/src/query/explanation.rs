//! What a gateway says about one request.

use serde::{Deserialize, Serialize};

/// What a gateway says about one request. It has no parameter of a call, no body, and of the key only the identifier.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The gateway that served it.
    pub gateway: String,
    /// The key of the caller.
    pub key: String,
    /// The key's project.
    pub project: String,
    /// The project's tenant.
    pub tenant: String,
    /// The tenant's tier at the time.
    pub plan: String,
    /// Whether the caller's limits were scaled down.
    pub is_cooled: bool,
    /// The transport: `http`, `ws` or `grpc`.
    pub transport: String,
    /// The chain's path.
    pub chain: String,
    /// Whether the request was an array.
    pub is_batch: bool,
    /// Whether it began something that lasts.
    pub is_lasting: bool,
    /// When it arrived, in microseconds since 1970.
    pub arrived: u64,
    /// Microseconds from its arrival to its answer.
    pub took: u64,
    /// How much the plan windows counted.
    pub counted: u32,
    /// The plan windows, shortest first; none if it did not come so far.
    pub windows: Vec<WindowUse>,
    /// The project's quota, if the request came so far and costs something.
    pub quota: Option<QuotaShown>,
    /// Why it was refused as a whole, if it was.
    pub refusal: Option<RefusalShown>,
    /// Its calls, in order.
    pub calls: Vec<ExplainedCall>,
    /// The tries at nodes.
    pub tries: Vec<ExplainedTry>,
    /// How many tries there were beside those.
    pub tries_left_out: u32,
}

/// A plan window around one request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WindowUse {
    /// Requests that the plan grants in it.
    pub limit: u64,
    /// Requests that were counted in it before.
    pub before: u64,
    /// Requests that were counted in it afterwards.
    pub after: u64,
    /// Seconds until it started again.
    pub reset: u64,
}

/// A project's quota around one request, in Compute Units.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuotaShown {
    /// Units that the project may use in 24 hours.
    pub limit: u64,
    /// Units that it had used before.
    pub before: u64,
    /// Units that were reserved for the request.
    pub reserved: u64,
    /// Units that it was charged.
    pub charged: u64,
}

/// Why the gateway refused something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefusalShown {
    /// The HTTP status of the refusal, if it is alone.
    pub status: u16,
    /// Its text.
    pub message: String,
    /// Seconds after which it could be tried again.
    pub retry_after: Option<u64>,
}

/// What became of a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExplainedCall {
    /// The metered method.
    pub method: String,
    /// The weight of the method in Compute Units.
    pub weight: u32,
    /// Compute Units charged.
    pub cu: u32,
    /// The HTTP status that the call would have had alone.
    pub status: u16,
    /// The outcome, in one word.
    pub outcome: String,
    /// The part of the cache, in one word.
    pub cache: String,
    /// Why it was refused, if it was.
    pub refusal: Option<RefusalShown>,
    /// Why no node answered it, if none did.
    pub failure: Option<String>,
}

/// A try at a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExplainedTry {
    /// The places of the calls that were sent together, counted from 0.
    pub calls: Vec<u32>,
    /// The number of the node in the chain's configuration, counted from 1.
    pub node: u32,
    /// The node's URL, secrets masked; `None` if the chain's nodes were configured anew since.
    pub address: Option<String>,
    /// Why this node was chosen, in one word.
    pub choice: String,
    /// How it ended, in one word.
    pub end: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// Microseconds from the arrival of the request to its begin.
    pub began: Option<u64>,
    /// Microseconds that it took.
    pub took: Option<u64>,
}
