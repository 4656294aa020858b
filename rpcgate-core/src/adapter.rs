//! What a gateway must know of a chain's node API. One implementation a chain, in a file of its own.

use crate::call::CallView;
use crate::chain::{Chain, Facts, Method, Rule};
use std::fmt::Debug;

/// A chain's node API, as far as the road depends on it.
///
/// An adapter is a table first: [`facts`](Adapter::facts) and [`methods`](Adapter::methods). The functions below
/// answer what no table can.
pub trait Adapter: Send + Sync + Debug + 'static {
    /// What is fixed about the chain.
    fn facts(&self) -> &'static Facts;

    /// The methods with a weight, a class or a mark of their own.
    fn methods(&self) -> Vec<Method>;

    /// What holds for a method that is not among [`methods`](Adapter::methods): by default 1 Compute Unit, not cached.
    /// Families of methods (`debug_*`) get their marks here.
    fn unlisted(&self, method: &str) -> Rule {
        let _ = method;
        Rule::UNLISTED
    }

    /// What holds for a call whose method is marked [`Flags::COMMANDS`](crate::chain::Flags::COMMANDS), now that its
    /// parameters are known.
    fn narrow(&self, call: CallView<'_>) -> Rule {
        call.rule
    }

    /// What the raw `result` of a call in a cache class says of its own permanence. Asked once, when an answer is
    /// about to be kept, and allowed to look into the result by a partial parse.
    fn settled(&self, call: CallView<'_>, result: &[u8], chain: &Chain) -> Settled;

    /// Where else than in the `apikey` header and query parameter a key may be sent.
    fn key_places(&self) -> KeyPlaces {
        KeyPlaces::default()
    }

    /// The call that asks a node for its newest height.
    fn probe(&self) -> Probe;

    /// The height in the raw `result` of the [`probe`](Adapter::probe).
    fn height(&self, result: &[u8]) -> Option<u64>;
}

/// How permanent a result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// It will never change.
    Yes,
    /// A reorganisation, or time, may still change it.
    NotYet,
    /// It says that something is not known yet: never kept.
    Unknown,
}

/// More places for a key, on chains whose own clients have a habit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyPlaces {
    /// A header, in lower case.
    pub header: Option<&'static str>,
    /// A query parameter.
    pub query: Option<&'static str>,
}

/// A JSON-RPC call the gateway makes on its own behalf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Its method.
    pub method: &'static str,
    /// Its parameters, as JSON.
    pub params: &'static str,
}
