//! A client of a simulated stream, for tests.

use super::golden;
use crate::{Simulated, SimulatedStreamId};
use rpcgate_core::clock::Time;
use serde_json::Value;

/// One stream of a node, and the time.
pub(crate) struct Client {
    pub(crate) node: Box<dyn Simulated>,
    pub(crate) id: SimulatedStreamId,
    pub(crate) now: Time,
}

#[expect(clippy::needless_pass_by_value, reason = "callers have no other use for them")]
pub(crate) fn read(messages: Vec<String>) -> Vec<Value> {
    messages.iter().map(|text| serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))).collect()
}

impl Client {
    /// Opens a stream of a new node of `chain`.
    pub(crate) fn of(chain: &str) -> Self {
        let mut node = crate::node(chain, 42).expect("a simulated chain");
        let id = node.streams().expect("streams").open();
        Client { node, id, now: golden::NOW }
    }

    /// Sends a text and returns the node's answers.
    pub(crate) fn say(&mut self, text: &str) -> Vec<Value> {
        let id = self.id;
        let now = self.now;
        read(self.node.streams().expect("streams").receive(id, text.as_bytes(), now))
    }

    /// Sends a message that has one answer, and returns it.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "callers write their messages in place")]
    pub(crate) fn ask(&mut self, message: Value) -> Value {
        let mut answers = self.say(&message.to_string());
        assert_eq!(answers.len(), 1, "{message}: {answers:?}");
        answers.remove(0)
    }

    /// Waits for the next push and returns all its messages.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Vec<Value> {
        for _ in 0..100 {
            let id = self.id;
            let now = self.now;
            let streams = self.node.streams().expect("streams");
            self.now = streams.next_push(id, now).expect("something will be pushed");
            let pushed = streams.push(id, self.now);
            if !pushed.is_empty() {
                return read(pushed);
            }
        }
        panic!("nothing is pushed");
    }

    /// Reports whether the client has any subscription.
    pub(crate) fn is_waiting(&mut self) -> bool {
        let id = self.id;
        let now = self.now;
        self.node.streams().expect("streams").next_push(id, now).is_some()
    }
}
