//! A fictional chain with a method of every kind, for tests and examples of layers.

use crate::adapter::{Adapter, NodeError, NodeStatus, Permanence, Probe, Unserved};
use crate::cache_rule::CacheRule;
use crate::call::CallView;
use crate::chain::{Facts, Finality, Flags, Method, MethodRule};
use crate::json::{Cursor, DEEPEST, Span};

/// The chain at `/toy`. `toy_id` costs nothing and is static; `toy_read` is cached for 2 s; `toy_block` is immutable
/// and names a height; `toy_scan` is heavy; `toy_send` is a broadcast. `toy_make` creates state on its node, whose id
/// is the first parameter of `toy_use`. `probe_*` can be opened, `admin_*` is closed. An archive may answer an error
/// with `pruned`; `busy`, `broken method` or `no data` mean that the node cannot serve the call. It has a WebSocket
/// stream and the proto package `toy`.
#[derive(Debug)]
pub struct Toy;

impl Adapter for Toy {
    fn facts(&self) -> &Facts {
        static FACTS: Facts = Facts::json_rpc("toy", "Toy")
            .with_aliases(&["playground"])
            .with_ws(true)
            .with_grpc(&["toy"])
            .with_final_depth(2)
            .with_max_lag(3);
        &FACTS
    }

    fn methods(&self) -> Vec<Method> {
        vec![
            Method::new("toy_id", 0).cached(CacheRule::Static),
            Method::new("toy_read", 5).cached(CacheRule::secs(2)),
            Method::new("toy_block", 10).cached(CacheRule::immutable(2)),
            Method::new("toy_scan", 75).marked(Flags::HEAVY),
            Method::new("toy_send", 20).marked(Flags::BROADCAST),
            Method::new("toy_make", 2).marked(Flags::MAKES_STATE),
            Method::new("toy_use", 3).marked(Flags::USES_STATE),
        ]
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        let flags = match method.split_once('_') {
            Some(("probe", _)) => Flags::HEAVY.and(Flags::OPENABLE),
            Some(("admin", _)) => Flags::CLOSED,
            _ => Flags::NONE,
        };
        MethodRule::UNLISTED.marked(flags)
    }

    fn reply_headers(&self) -> &'static [&'static str] {
        &["x-toy-*"]
    }

    fn settled(&self, _: CallView<'_>, result: &[u8], _: &Finality) -> Permanence {
        if result == b"null" { Permanence::Unknown } else { Permanence::Yes }
    }

    fn state_id(&self, call: CallView<'_>) -> Option<Span> {
        let mut cursor = Cursor::new(call.params, DEEPEST);
        cursor.enter_array().ok()?;
        if cursor.next_item().ok()? { cursor.value().ok() } else { None }
    }

    fn lacks_history(&self, answer: &[u8]) -> bool {
        answer.windows(6).any(|text| text == b"pruned")
    }

    fn cannot_serve(&self, error: &NodeError<'_>) -> Option<Unserved> {
        let says = |text: &[u8]| error.answer.windows(text.len()).any(|part| part == text);
        match () {
            () if says(b"busy") => Some(Unserved::Node),
            () if says(b"broken method") => Some(error.unknown_method()),
            () if says(b"no data") || self.lacks_history(error.answer) => Some(Unserved::Data),
            () => error.by_status(),
        }
    }

    fn missing_block(&self, call: CallView<'_>, answer: &[u8]) -> Option<u64> {
        let height = call.params.strip_prefix(b"[")?.strip_suffix(b"]")?;
        let is_missing = call.method == b"toy_block" && answer == b"null";
        std::str::from_utf8(height).ok()?.parse().ok().filter(|_| is_missing)
    }

    fn is_known_transaction(&self, answer: &[u8]) -> bool {
        answer.windows(13).any(|text| text == b"already known")
    }

    fn probe(&self) -> Probe {
        Probe::Rpc { method: "toy_height", params: "[]" }
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        std::str::from_utf8(answer).ok()?.parse().ok().map(NodeStatus::at)
    }
}
