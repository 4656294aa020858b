//! Reports of real nodes that do not answer.

use rpcgate_store::NodeState;
use std::collections::BTreeMap;

/// The failed checks, one second apart, after which a node without any sign of life is reported.
const PATIENCE: u32 = 3;

/// Remembers reported problems, so that each is reported once.
#[derive(Debug, Default)]
pub struct NodeWatch {
    looks: u32,
    /// The last height before the trouble, by chain and node.
    troubled: BTreeMap<(String, String), Option<u64>>,
}

impl NodeWatch {
    /// Returns lines about the changes since the last check.
    pub fn look(&mut self, nodes: Vec<NodeState>) -> Vec<String> {
        self.looks = self.looks.saturating_add(1);
        nodes.into_iter().filter_map(|node| self.line(node)).collect()
    }

    fn line(&mut self, state: NodeState) -> Option<String> {
        let NodeState { chain, node, standing, reason, height, .. } = state;
        let is_well = standing == "well";
        let name = (chain, node);
        if let Some(before) = self.troubled.get(&name) {
            // A node without calls temporarily looks healthy. Its height shows that it answers.
            let recovered = is_well && height > *before;
            return recovered.then(|| {
                self.troubled.remove(&name);
                format!("/{}: the node {} answers now.", name.0, name.1)
            });
        }
        let why = match (is_well, height) {
            (true, Some(_)) => return None,
            (true, None) if self.looks <= PATIENCE => return None,
            (true, None) => "it has not answered yet".to_owned(),
            (false, _) => format!("{standing}, {reason}"),
        };
        let line =
            format!("/{}: the node {} does not answer ({why}). Calls fail until it does.", name.0, name.1);
        self.troubled.insert(name, height);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(standing: &str, height: Option<u64>) -> Vec<NodeState> {
        vec![NodeState {
            chain: "eth".into(),
            node: "http://n/".into(),
            priority: 0,
            standing: standing.into(),
            reason: "no connection".into(),
            height,
            lag: None,
            latency_micros: 0,
            in_flight: 0,
            ..NodeState::default()
        }]
    }

    // Shows (Commands and configuration).
    #[test]
    fn a_problem_is_reported_once_and_so_is_its_end() {
        let mut watch = NodeWatch::default();
        assert!(watch.look(state("well", None)).is_empty(), "it was not asked yet");
        let reported = watch.look(state("unreachable", None));
        assert_eq!(
            reported,
            [
                "/eth: the node http://n/ does not answer (unreachable, no connection). Calls fail until it does."
            ]
        );
        for standing in ["unreachable", "well", "silent"] {
            assert!(watch.look(state(standing, None)).is_empty(), "{standing}");
        }
        assert_eq!(watch.look(state("well", Some(7))), ["/eth: the node http://n/ answers now."]);
        assert!(watch.look(state("well", Some(8))).is_empty());
        assert_eq!(watch.look(state("silent", Some(8))).len(), 1);
        assert!(watch.look(state("well", Some(8))).is_empty(), "it was merely not asked again");
    }

    #[test]
    fn a_silent_node_is_reported_after_a_while() {
        let mut watch = NodeWatch::default();
        let lines: Vec<_> = (0..5).map(|_| watch.look(state("well", None)).len()).collect();
        assert_eq!(lines, [0, 0, 0, 1, 0]);
    }
}
