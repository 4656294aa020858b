//! A gateway's explanation of one request.

use serde::{Deserialize, Serialize};

/// A gateway's explanation of one request. It contains no call parameters, no body, and only the identifier of the key.
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
    /// True if the caller's limits were scaled down.
    pub is_cooled: bool,
    /// The transport: `http`, `ws` or `grpc`.
    pub transport: String,
    /// The chain's path.
    pub chain: String,
    /// True if the request was an array.
    pub is_batch: bool,
    /// True if it began a long-lived call, such as a subscription.
    pub is_lasting: bool,
    /// The arrival time, in microseconds since 1970.
    pub arrived: u64,
    /// Microseconds from its arrival to its answer.
    pub took: u64,
    /// The number of requests that the plan windows counted.
    pub counted: u32,
    /// The plan windows, shortest first; empty if the request did not get that far.
    pub windows: Vec<WindowUse>,
    /// The project's quota, if the request got that far and has a cost.
    pub quota: Option<QuotaShown>,
    /// The refusal of the whole request, if any.
    pub refusal: Option<RefusalShown>,
    /// Its calls, in order.
    pub calls: Vec<ExplainedCall>,
    /// The attempts at nodes.
    pub tries: Vec<ExplainedTry>,
    /// The number of attempts that are left out.
    pub tries_left_out: u32,
}

/// A plan window before and after one request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WindowUse {
    /// The number of requests that the plan grants in it.
    pub limit: u64,
    /// The count before the request.
    pub before: u64,
    /// The count after the request.
    pub after: u64,
    /// The seconds until it restarted.
    pub reset: u64,
}

/// A project's quota before and after one request, in Compute Units.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuotaShown {
    /// The units that the project may use in 24 hours.
    pub limit: u64,
    /// The units used before.
    pub before: u64,
    /// The units reserved for the request.
    pub reserved: u64,
    /// The units charged.
    pub charged: u64,
}

/// A refusal by the gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefusalShown {
    /// The HTTP status of the refusal if it is returned alone.
    pub status: u16,
    /// Its text.
    pub message: String,
    /// The seconds after which a retry could succeed.
    pub retry_after: Option<u64>,
}

/// The outcome of a call.
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
    /// The cache result, in one word.
    pub cache: String,
    /// The refusal, if any.
    pub refusal: Option<RefusalShown>,
    /// The reason why no node answered it, if any.
    pub failure: Option<String>,
}

/// An attempt at a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExplainedTry {
    /// The indexes of the calls that were sent together, from 0.
    pub calls: Vec<u32>,
    /// The number of the node in the chain's configuration, from 1.
    pub node: u32,
    /// The node's URL with secrets masked; `None` if the chain's nodes were reconfigured since.
    pub address: Option<String>,
    /// The reason for the choice of this node, in one word.
    pub choice: String,
    /// The result, in one word.
    pub end: String,
    /// The failure, if any.
    pub failure: Option<String>,
    /// The microseconds from the arrival of the request to the start of the attempt.
    pub began: Option<u64>,
    /// The duration in microseconds.
    pub took: Option<u64>,
}
