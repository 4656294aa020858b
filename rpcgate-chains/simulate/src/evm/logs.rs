//! Log queries, and filters that remember what a client has already read.

use super::chain::Chain;
use super::network::{Address, Word};
use super::params::{BlockId, block, fixed, invalid};
use crate::envelope::Fault;
use crate::json::Json;
use rpcgate_core::clock::Time;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// The maximum number of blocks in one query.
const SPAN: u64 = 5_000;
/// The maximum number of open filters.
const FILTERS: usize = 1_000;
/// The time after which an unused filter is removed.
const IDLE: Duration = Duration::from_secs(300);

/// The logs that a query matches.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    range: Range,
    addresses: Vec<Address>,
    /// One list per position; an empty list matches anything.
    topics: Vec<Vec<Word>>,
}

#[derive(Debug, Clone, Copy)]
enum Range {
    Block(Word),
    Span(BlockId, BlockId),
}

/// Reads one item or a list of items; null is an empty list.
fn list<const N: usize>(value: &Value) -> Result<Vec<[u8; N]>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(fixed).collect(),
        item => Ok(vec![fixed(item)?]),
    }
}

impl Query {
    /// Reads the filter object of `eth_getLogs`.
    pub(crate) fn read(value: &Value) -> Result<Self, Fault> {
        let wrong = |why: String| invalid(0, why);
        let Some(object) = value.as_object() else {
            return Err(invalid(0, "json: cannot unmarshal non-object into Go value of type filters.input"));
        };
        let member = |name: &str| object.get(name).unwrap_or(&Value::Null);
        let bound = |name: &str| match member(name) {
            Value::Null => Ok(BlockId::Latest),
            value => block(value).map_err(wrong),
        };
        let range = match member("blockHash") {
            Value::Null => Range::Span(bound("fromBlock")?, bound("toBlock")?),
            hash if member("fromBlock").is_null() && member("toBlock").is_null() => {
                Range::Block(fixed(hash).map_err(wrong)?)
            }
            _ => {
                let why = "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other";
                return Err(invalid(0, why));
            }
        };
        let topics = match member("topics") {
            Value::Null => Vec::new(),
            Value::Array(positions) if positions.len() <= 4 => {
                positions.iter().map(list).collect::<Result<_, _>>().map_err(wrong)?
            }
            Value::Array(_) => return Err(Fault::new(-32602, "exceed max topics")),
            _ => return Err(invalid(0, "json: cannot unmarshal topics")),
        };
        Ok(Query { range, addresses: list(member("address")).map_err(wrong)?, topics })
    }

    fn wants(&self, log: &super::chain::Log) -> bool {
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= log.topics.len()
            && self
                .topics
                .iter()
                .zip(&log.topics)
                .all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }
}

impl Chain {
    /// Returns the logs that match `query`. Refuses ranges that are too wide or lie ahead.
    pub(crate) fn logs(&self, query: &Query) -> Result<Vec<Json>, Fault> {
        let (first, last) = match query.range {
            Range::Block(hash) => {
                let height =
                    self.height_of(BlockId::Hash(hash)).ok_or_else(|| Fault::new(-32000, "unknown block"))?;
                (height, height)
            }
            Range::Span(from, to) => {
                let height = |id| match id {
                    BlockId::Pending => self.head,
                    BlockId::Number(number) => number,
                    id => self.height_of(id).unwrap_or(self.head),
                };
                let first = height(from);
                let last = height(to);
                if first > last {
                    return Err(Fault::new(-32602, "invalid block range params"));
                }
                if last - first >= SPAN {
                    return Err(Fault::new(-32602, format!("exceed maximum block range: {SPAN}")));
                }
                if last > self.head {
                    // go-ethereum refuses a range whose end lies ahead.
                    return Err(Fault::new(-32602, "block range extends beyond current head block"));
                }
                (first, last)
            }
        };
        Ok(self.logs_between(query, first, last))
    }

    /// Returns the logs between two blocks that match `query`, regardless of its own range.
    pub(crate) fn logs_between(&self, query: &Query, first: u64, last: u64) -> Vec<Json> {
        let mut out = Vec::new();
        for height in first..=last {
            let mut log_index = 0;
            for (index, entry) in self.entries(height).iter().enumerate() {
                for log in &entry.logs {
                    if query.wants(log) {
                        out.push(self.log_json(log, height, index, entry, log_index));
                    }
                    log_index += 1;
                }
            }
        }
        out
    }
}

/// The filters of all clients.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    made: u64,
    open: HashMap<String, Filter>,
}

#[derive(Debug)]
struct Filter {
    kind: Kind,
    /// The height, or number of arrivals, up to which the filter has reported.
    reported: u64,
    used: Time,
}

/// The subject of a filter.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Blocks,
    Pending,
    Logs(Query),
}

impl Filters {
    /// Opens a filter and returns its id.
    pub(crate) fn open(&mut self, kind: Kind, chain: &Chain, now: Time) -> Json {
        self.open.retain(|_, filter| now.since(filter.used) < IDLE);
        if self.open.len() >= FILTERS {
            let oldest = self.open.iter().min_by_key(|(_, filter)| filter.used).map(|(id, _)| id.clone());
            oldest.and_then(|id| self.open.remove(&id));
        }
        self.made += 1;
        let id = format!("0x{}", hex::encode(chain.seed.bytes::<16>("filter", self.made)));
        let reported = match &kind {
            Kind::Pending => chain.state.pool.arrivals(),
            Kind::Logs(Query { range: Range::Span(BlockId::Number(from), _), .. }) => {
                from.saturating_sub(1).min(chain.head)
            }
            Kind::Logs(_) | Kind::Blocks => chain.head,
        };
        self.open.insert(id.clone(), Filter { kind, reported, used: now });
        id.into()
    }

    /// Returns the changes since the last call.
    pub(crate) fn changes(&mut self, id: &str, chain: &Chain, now: Time) -> Result<Json, Fault> {
        let filter = self.touch(id, now)?;
        let reported = filter.reported;
        Ok(match &filter.kind {
            Kind::Blocks => {
                filter.reported = chain.head;
                let first = (reported + 1).max(chain.head.saturating_sub(SPAN));
                (first..=chain.head)
                    .map(|height| Json::data(&chain.block_hash(height)))
                    .collect::<Vec<_>>()
                    .into()
            }
            Kind::Pending => {
                filter.reported = chain.state.pool.arrivals();
                chain
                    .state
                    .pool
                    .since(reported)
                    .iter()
                    .map(|hash| Json::data(hash))
                    .collect::<Vec<_>>()
                    .into()
            }
            Kind::Logs(query) => {
                let first = (reported + 1).max(chain.head.saturating_sub(SPAN));
                let out = chain.logs_between(query, first, chain.head);
                filter.reported = chain.head;
                out.into()
            }
        })
    }

    /// Returns all logs of a log filter.
    pub(crate) fn logs(&mut self, id: &str, chain: &Chain, now: Time) -> Result<Json, Fault> {
        match &self.touch(id, now)?.kind {
            Kind::Logs(query) => Ok(chain.logs(query)?.into()),
            Kind::Blocks | Kind::Pending => Err(missing()),
        }
    }

    /// Closes a filter; returns whether it was open.
    pub(crate) fn close(&mut self, id: &str) -> bool {
        self.open.remove(id).is_some()
    }

    fn touch(&mut self, id: &str, now: Time) -> Result<&mut Filter, Fault> {
        let filter =
            self.open.get_mut(id).filter(|filter| now.since(filter.used) < IDLE).ok_or_else(missing)?;
        filter.used = now;
        Ok(filter)
    }
}

fn missing() -> Fault {
    Fault::new(-32000, "filter not found")
}
