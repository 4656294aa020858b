use rpcgate_core::adapter::{Adapter, NodeStatus, Permanence, Probe};
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Facts, Finality, Method, MethodRule};
use rpcgate_core::toy::Toy;

/// The toy chain with other facts and further methods.
#[derive(Debug)]
pub(crate) struct ToyVariant {
    pub(crate) facts: Facts,
    pub(crate) more: Vec<Method>,
}

impl Adapter for ToyVariant {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn methods(&self) -> Vec<Method> {
        Toy.methods().into_iter().chain(self.more.iter().copied()).collect()
    }

    fn unlisted(&self, method: &str) -> MethodRule {
        Toy.unlisted(method)
    }

    fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
        Toy.settled(call, result, finality)
    }

    fn probe(&self) -> Probe {
        Toy.probe()
    }

    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        Toy.seen(answer)
    }
}
