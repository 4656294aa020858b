use super::classify::Expected;
use super::round::{Round, first_index};
use crate::nodes::Pool;
use crate::nodes::node_set::NodeSet;
use crate::transport::h1::request::BatchableCall;
use rpcgate_core::call::Payload;
use rpcgate_core::chain::Flags;
use rpcgate_core::envelope::WireId;
use rpcgate_core::tally::Tally;
use smallvec::SmallVec;

/// A request to a node: its body, and the positions of its calls.
pub(super) struct OutgoingRequest {
    pub(super) indexes: SmallVec<[usize; 1]>,
    pub(super) body: Vec<u8>,
    pub(super) among: NodeSet,
    /// The listed method, if the request is one call.
    pub(super) method: Option<&'static str>,
    /// The method, if the request is one call that may be hedged; empty for an unlisted method.
    pub(super) hedge: Option<&'static str>,
    pub(super) is_broadcast: bool,
    /// True if it is never repeated after a byte of it was sent, and never sent with the calls of other clients.
    pub(super) is_sent_once: bool,
    pub(super) is_array: bool,
    pub(super) is_held: bool,
    /// The form of the call for an array with those of other clients, if it may be batched.
    pub(super) batchable: Option<Box<BatchableCall>>,
}

impl OutgoingRequest {
    pub(super) fn expected(&self, tally: &Tally) -> Expected {
        let is_notification = |index: &usize| tally.entries[*index].call.is_notification(&tally.body);
        let first = first_index(tally);
        match (self.is_array, self.indexes.first()) {
            _ if self.indexes.iter().all(is_notification) => Expected::Nothing,
            (false, Some(index)) => Expected::Single { number: first + index },
            _ => Expected::Array { first },
        }
    }
}

/// Splits the open calls into requests: into arrays up to the size that all nodes take, if the chain supports arrays.
/// Calls that only other nodes take are in separate arrays.
pub(super) fn split(pool: &Pool, tally: &Tally, round: Round) -> SmallVec<[OutgoingRequest; 1]> {
    let max_batch = pool.max_batch();
    let takes_arrays = tally.chain.facts().batch && max_batch > 1;
    let mut requests: SmallVec<[OutgoingRequest; 1]> = SmallVec::new();
    let mut open = 0;
    let mut arrays: SmallVec<[OutgoingRequest; 1]> = SmallVec::new();
    // The array that is being filled for each set of nodes. There are as many sets as the nodes have different lists.
    let mut last_arrays: SmallVec<[(NodeSet, usize); 2]> = SmallVec::new();
    for (index, entry) in tally.entries.iter().enumerate().filter(|(_, entry)| entry.is_open()) {
        if !matches!(entry.call.payload, Payload::JsonRpc(_)) {
            continue;
        }
        open += 1;
        let among = round.takers(pool, &entry.call, &tally.body);
        let flags = entry.call.rule.flags;
        let is_broadcast = flags.has(Flags::BROADCAST);
        let is_sent_once = is_broadcast || flags.has_state();
        if is_sent_once || !takes_arrays || !tally.batch {
            let mut body = Vec::with_capacity(entry.call.len() + 32);
            write(tally, index, &mut body);
            // Other clients may wait for a cacheable answer, and cannot wait for a stream. An id that names its node is
            // written into a buffered answer.
            let is_held = tally.batch || entry.call.rule.cache.is_cached() || flags.has(Flags::MAKES_STATE);
            let indexes = SmallVec::from_buf([index]);
            let hedge = if is_sent_once { None } else { hedge(tally, index, round) };
            let is_array = false;
            let may_batch = pool.is_batching() && !tally.batch && !is_sent_once && round.choice.is_none();
            let batchable = if may_batch { batchable(tally, index) } else { None };
            requests.push(OutgoingRequest {
                indexes,
                body,
                among,
                method: tally.entries[index].call.metered,
                hedge,
                is_broadcast,
                is_sent_once,
                is_array,
                is_held,
                batchable,
            });
            continue;
        }
        let last = last_arrays.iter().position(|(nodes, _)| *nodes == among);
        let at = match last {
            Some(last) if arrays[last_arrays[last].1].indexes.len() < max_batch => last_arrays[last].1,
            _ => {
                let at = arrays.len();
                arrays.push(new_array(tally, index, among, max_batch, pool.is_selective()));
                match last {
                    Some(last) => last_arrays[last].1 = at,
                    None => last_arrays.push((among, at)),
                }
                at
            }
        };
        let array = &mut arrays[at];
        array.body.push(if array.indexes.is_empty() { b'[' } else { b',' });
        write(tally, index, &mut array.body);
        array.indexes.push(index);
    }
    requests.extend(arrays);
    for request in requests.iter_mut().filter(|request| request.is_array) {
        if let [index] = request.indexes[..] {
            // Nodes answer a single call faster than an array of one, and some say more in its HTTP status.
            request.is_array = false;
            request.method = tally.entries[index].call.metered;
            request.hedge = hedge(tally, index, round);
            request.body.clear();
            write(tally, index, &mut request.body);
        } else {
            request.body.push(b']');
        }
    }
    debug_assert_eq!(open, requests.iter().map(|request| request.indexes.len()).sum::<usize>());
    requests
}

/// Creates an array for `among` that begins with the call at `index`. If all later calls go to the same nodes, its
/// capacity is the final one. Otherwise the capacity grows with its calls.
fn new_array(
    tally: &Tally,
    index: usize,
    among: NodeSet,
    max_batch: usize,
    is_selective: bool,
) -> OutgoingRequest {
    let left = tally.entries.len() - index;
    let (calls, bytes) = match left.min(max_batch) {
        _ if is_selective => (1, tally.entries[index].call.len() + 64),
        calls if calls == left => (calls, tally.body.len() + 64),
        calls => (calls, tally.body.len() / tally.entries.len() * calls + 64),
    };
    OutgoingRequest {
        indexes: SmallVec::with_capacity(calls),
        body: Vec::with_capacity(bytes),
        among,
        method: None,
        hedge: None,
        is_broadcast: false,
        is_sent_once: false,
        is_array: true,
        is_held: true,
        batchable: None,
    }
}

/// The maximum size in bytes of a call that may be batched with those of other clients.
const MAX_BATCHABLE: usize = 4 << 10;

/// Returns the form of the call at `index` for an array with the calls of other clients. `None` for a call with a
/// feature for which a node might refuse the whole array, and for a heavy call: an array is answered only when the last
/// of its calls is.
fn batchable(tally: &Tally, index: usize) -> Option<Box<BatchableCall>> {
    let call = &tally.entries[index].call;
    let Payload::JsonRpc(envelope) = &call.payload else { return None };
    let body = &tally.body[..];
    let version = tally.chain.facts().dialect.version()?;
    let is_usual = envelope.version.is_some_and(|own| own.of(body) == version.as_bytes())
        && envelope.id.is_some_and(|id| !is_odd(id.of(body)))
        && envelope.params.is_none_or(|params| matches!(params.of(body).first(), Some(b'[' | b'{')));
    if !is_usual || call.rule.flags.has(Flags::HEAVY) || call.len() > MAX_BATCHABLE {
        return None;
    }
    let number = first_index(tally) + index;
    let mut written = Vec::with_capacity(call.len() + 32);
    envelope.write_anonymous(body, Some(version), number, &mut written);
    Some(Box::new(BatchableCall { number, body: written.into(), path: tally.chain.adapter().rpc_path() }))
}

/// Returns the method of the call at `index`, which only reads, if it may be hedged.
fn hedge(tally: &Tally, index: usize, round: Round) -> Option<&'static str> {
    round.choice.is_none().then(|| tally.entries[index].call.metered.unwrap_or_default())
}

/// Reports whether an id is neither a string, a number nor null (JSON-RPC 2.0, section 4). Nodes refuse such ids: geth
/// does not accept a call with an object or an array as its id.
fn is_odd(id: &[u8]) -> bool {
    matches!(id.first(), Some(b'{' | b'[' | b't' | b'f'))
}

/// Writes the call at `index` for a node, with its number as the id. A notification has no id.
fn write(tally: &Tally, index: usize, out: &mut Vec<u8>) {
    let call = &tally.entries[index].call;
    let Payload::JsonRpc(envelope) = &call.payload else { return };
    if call.rule.cache.is_cached() && !envelope.is_notification(&tally.body) {
        let version = tally.chain.facts().dialect.version();
        envelope.write_anonymous(&tally.body, version, first_index(tally) + index, out);
    } else {
        envelope.write(&tally.body, WireId::Index(first_index(tally) + index), out);
    }
    if let (Some(at), Some(params)) = (&call.at_node, envelope.params) {
        // The params and a brace are the end of the written text.
        let from = out.len() + at.name.start() - params.end() - 1;
        out.drain(from..from + at.name.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{BatchingPolicy, NodeConfig, PoolLimits};
    use crate::testing::Fixture;
    use crate::testing::scripted_node::{PoolFixture, Refusing};
    use rpcgate_core::node_try::NodeChoice;

    // Shows (Nodes and cache): Only single reads are hedged, within a share of the calls.
    #[tokio::test]
    async fn a_single_read_may_be_hedged_and_a_broadcast_or_an_array_may_not() {
        let fixture = PoolFixture::with(&[Refusing::new().url()], PoolLimits::default());
        let hedges = |body: &'static str, round: Round| {
            let calls = Fixture::new().calls(body.as_bytes());
            let requests = split(&fixture.pool, calls.tally(), round);
            requests.iter().map(|request| request.hedge).collect::<Vec<_>>()
        };
        let one = r#"{"id":1,"method":"toy_read"}"#;
        assert_eq!(hedges(one, Round::FIRST), [Some("toy_read")]);
        assert_eq!(hedges(r#"{"id":1,"method":"made_up"}"#, Round::FIRST), [Some("")]);
        assert_eq!(hedges(r#"{"id":1,"method":"toy_send"}"#, Round::FIRST), [None]);
        let again = Round { choice: Some(NodeChoice::Archive), ..Round::FIRST };
        assert_eq!(hedges(one, again), [None], "it was sent before");
        let array =
            r#"[{"id":1,"method":"toy_read"},{"id":2,"method":"toy_send"},{"id":3,"method":"toy_id"}]"#;
        assert_eq!(hedges(array, Round::FIRST), [None, None]);
    }

    // Shows (Nodes and cache): Transactions, heavy, large and unusual calls never share an array with those of others.
    #[tokio::test]
    async fn only_ordinary_reads_may_share_an_array_with_other_clients() {
        let limits = PoolLimits::default().with_batching(Some(BatchingPolicy::default()));
        let fixture = PoolFixture::with(&[Refusing::new().url()], limits);
        let without = PoolFixture::with(&[Refusing::new().url()], PoolLimits::default());
        let batchable = |fixture: &PoolFixture, body: &str, round: Round| {
            let calls = Fixture::new().calls(body.to_owned().leak().as_bytes());
            let requests = split(&fixture.pool, calls.tally(), round);
            let [request] = &requests[..] else { panic!("one request: {body}") };
            let call = request.batchable.as_ref();
            call.map(|call| String::from_utf8(call.body.to_vec()).unwrap())
        };
        let usual = r#"{"jsonrpc":"2.0","id":"mine","x":1,"method":"a","params":[1.0]}"#;
        let written = r#"{"jsonrpc":"2.0","id":0,"method":"a","params":[1.0]}"#;
        assert_eq!(batchable(&fixture, usual, Round::FIRST).as_deref(), Some(written));
        assert!(batchable(&fixture, &usual.replace("\"a\"", "\"toy_read\""), Round::FIRST).is_some());
        assert_eq!(batchable(&without, usual, Round::FIRST), None);
        let again = Round { choice: Some(NodeChoice::Archive), ..Round::FIRST };
        assert_eq!(batchable(&fixture, usual, again), None);
        let large = format!("\"{}\"", "x".repeat(MAX_BATCHABLE));
        for (part, other) in [
            ("\"a\"", "\"toy_send\""),
            ("\"a\"", "\"toy_scan\""),
            ("2.0", "1.0"),
            ("\"jsonrpc\":\"2.0\",", ""),
            ("\"mine\"", "{\"odd\":1}"),
            ("\"id\":\"mine\",", ""),
            ("[1.0]", "7"),
            ("1.0", large.as_str()),
        ] {
            let body = usual.replacen(part, other, 1);
            assert_eq!(batchable(&fixture, &body, Round::FIRST), None, "{body}");
        }
        assert_eq!(batchable(&fixture, &format!("[{usual}]"), Round::FIRST), None, "a client's own array");
    }

    #[tokio::test]
    async fn the_arrays_of_a_batch_reserve_about_as_much_as_it_has() {
        let calls = |one: &str, two: &str| {
            let call = |n: usize| {
                format!(r#"{{"id":{n},"method":"{}"}}"#, if n.is_multiple_of(2) { one } else { two })
            };
            let body = format!("[{}]", (0..100).map(call).collect::<Vec<_>>().join(","));
            Fixture::new().calls(body.leak().as_bytes())
        };
        let node = |methods: &[&str]| {
            let mut config = NodeConfig::new(Refusing::new().url().parse().unwrap());
            config.max_batch = Some(2);
            let methods = methods.iter().map(|method| (*method).to_owned());
            config.with_methods(rpcgate_core::chain::NodeMethods::new(methods, [""; 0]))
        };
        for nodes in [vec![node(&[])], vec![node(&["a", "c"]), node(&["b", "c"]), node(&[])]] {
            let fixture = PoolFixture::of(nodes, PoolLimits::default());
            let calls = calls("a", "b");
            let requests = split(&fixture.pool, calls.tally(), Round::FIRST);
            assert_eq!(requests.len(), 50);
            assert!(requests.iter().all(|request| request.indexes.len() == 2 && request.is_array));
            let sent: usize = requests.iter().map(|request| request.body.len()).sum();
            let reserved: usize = requests.iter().map(|request| request.body.capacity()).sum();
            assert!(reserved <= 2 * sent + 50 * 128, "{reserved} bytes for {sent}");
        }
    }
}
