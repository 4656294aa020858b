//! How do I serve a REST chain that is not in the catalog?
//!
//! With an [`Adapter`] in one file. The example is Algorand's. It serves only the listed paths. Weights, cache
//! lifetimes, method lists and usage refer to each path by its template. `family_chain.rs` puts adapters into a
//! gateway; `cargo run -p rpcgate-examples --example rest_chain` prints the table.

use rpcgate_chains::family::params::{member, number};
use rpcgate_core::prelude::*;

static FACTS: Facts = Facts::rest("algo", "Algorand").with_aliases(&["algorand"]).with_max_lag(10);

const PATHS: &[RestMethod] = &[
    RestMethod::get("/genesis", 0).cached(CacheRule::Static),
    RestMethod::get("/v2/status", 1).cached(CacheRule::secs(2)),
    RestMethod::get("/v2/accounts/{address}", 5).cached(CacheRule::secs(3)),
    RestMethod::get("/v2/blocks/{round}", 10).cached(CacheRule::immutable(3)),
    RestMethod::get("/v2/transactions/pending/{id}", 5),
    RestMethod::post("/v2/teal/compile", 15),
    RestMethod::submit("/v2/transactions", 20),
];

#[derive(Debug)]
struct Algorand;

impl Adapter for Algorand {
    fn facts(&self) -> &Facts {
        &FACTS
    }
    fn rest_methods(&self) -> &[RestMethod] {
        PATHS
    }
    fn settled(&self, _: CallView<'_>, _: &[u8], _: &Finality) -> Permanence {
        Permanence::Yes // A block is final as soon as it exists.
    }
    fn key_sources(&self) -> KeySources {
        KeySources::default().with_header("x-algo-api-token")
    }
    fn probe(&self) -> Probe {
        Probe::Rest { target: "/v2/status", body: None }
    }
    fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
        let syncing = member(answer, "catchup-time").and_then(number)? > 0;
        Some(NodeStatus::at(member(answer, "last-round").and_then(number)?).with_syncing(syncing))
    }
}

fn main() {
    rpcgate_examples::server::print_table(&Algorand);
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method as Verb;
    use rpcgate_core::adapter::Surface;
    use rpcgate_core::rest::Path;
    use std::sync::Arc;

    fn path(text: &str) -> Path {
        Path::canonical(text).expect("a path")
    }

    #[test]
    fn the_listed_paths_are_served_and_no_others() {
        let at = |verb, text| Algorand.surface(&verb, &path(text));
        assert!(matches!(at(Verb::GET, "/v2/accounts/ABC"), Ok(Surface::Rest)));
        assert!(matches!(at(Verb::POST, "/v2/transactions"), Ok(Surface::Rest)));
        for text in ["", "/v2/accounts", "/v2/shutdown", "/v2/accounts/ABC/assets"] {
            assert_eq!(at(Verb::GET, text).err(), Some(Refusal::NoRoute), "{text}");
        }
        let get = Refusal::MethodNotAllowed { allow: "GET, OPTIONS" };
        assert_eq!(at(Verb::POST, "/v2/accounts/ABC").err(), Some(get));
    }

    #[test]
    fn every_account_has_one_name() {
        let chain = Chain::deployed(Arc::new(Algorand));
        let name = chain.rest_name(&Verb::GET, &path("/v2/accounts/ABC")).expect("a name");
        assert_eq!(name, "/v2/accounts/{address}");
        let rule = chain.look_up(name).rule;
        assert_eq!((rule.cu, rule.cache), (5, CacheRule::secs(3)));
        let submitted = chain.rest_name(&Verb::POST, &path("/v2/transactions")).expect("a name");
        assert!(chain.look_up(submitted).rule.flags.has(Flags::BROADCAST));
    }

    #[test]
    fn an_operator_changes_the_weight_of_a_path_by_its_name() {
        let changes = ChainOverrides::default().with_cu("/v2/accounts/{address}", 7);
        let chain = Chain::new(Arc::new(Algorand), changes, true, Arc::default());
        assert_eq!(chain.look_up("/v2/accounts/{address}").rule.cu, 7);
    }

    #[test]
    fn a_node_reports_its_round_and_whether_it_catches_up() {
        let status = |catchup| format!(r#"{{"catchup-time":{catchup},"last-round":47000000}}"#);
        assert_eq!(Algorand.seen(status(0).as_bytes()), Some(NodeStatus::at(47_000_000)));
        let syncing = NodeStatus::at(47_000_000).with_syncing(true);
        assert_eq!(Algorand.seen(status(9).as_bytes()), Some(syncing));
        assert_eq!(Algorand.seen(b"{}"), None);
    }
}
