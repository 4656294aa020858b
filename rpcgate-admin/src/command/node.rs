//! `rpcgate-admin node`: nodes as the gateways see them, and their drains.

use super::command_error::CommandError;
use super::console::Console;
use super::printer::{Printable, or_dash};
use crate::cli::node::{NodeArgs, NodeCommand};
use rpcgate_management::action::operator::nodes;
use rpcgate_management::shape::operator::nodes::{NodeDrainJson, NodeJson, nodes as of_report};

impl Printable for NodeJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("CHAIN", 12), ("HEALTH", 12), ("DRAINED", 8), ("HEIGHT", 14), ("GATEWAY", 36), ("NODE", 0)];

    fn cells(&self) -> Vec<String> {
        vec![
            self.chain.clone(),
            self.health.clone(),
            is_drained(self.drained).to_owned(),
            or_dash(self.height),
            self.gateway.clone(),
            self.node.clone(),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("chain", self.chain.clone()),
            ("node", self.node.clone()),
            ("health", self.health.clone()),
            ("reason", self.reason.clone()),
            ("drained", is_drained(self.drained).to_owned()),
            ("height", or_dash(self.height)),
            ("calls this month", or_dash(self.month_calls)),
            ("calls a month", or_dash(self.monthly_calls)),
            ("gateway", self.gateway.clone()),
        ]
    }
}

impl Printable for NodeDrainJson {
    const COLUMNS: &'static [(&'static str, usize)] = &[("CHAIN", 12), ("DRAINED", 8), ("NODE", 0)];

    fn cells(&self) -> Vec<String> {
        vec![self.chain.clone(), is_drained(self.drained).to_owned(), self.node.clone()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("chain", self.chain.clone()),
            ("node", self.node.clone()),
            ("drained", is_drained(self.drained).to_owned()),
        ]
    }
}

const fn is_drained(drained: bool) -> &'static str {
    if drained { "yes" } else { "no" }
}

pub(super) async fn execute(console: &mut Console<'_>, command: &NodeCommand) -> Result<(), CommandError> {
    let (NodeArgs { chain, node, .. }, drained, force) = match command {
        NodeCommand::List(_) => {
            let drained = nodes::drained(&console.app).await?;
            for report in nodes::list(&console.app).await? {
                for (_, node) in of_report(report, &drained) {
                    console.printer.entry(&node)?;
                }
            }
            return Ok(());
        }
        NodeCommand::Drain(args) => (&args.one, true, args.force),
        NodeCommand::Resume(args) => (args, false, false),
    };
    let done = nodes::drain(&console.app, &console.actor(), chain, node, drained, force).await?;
    Ok(console.printer.object(&NodeDrainJson::from(done))?)
}

#[cfg(test)]
mod tests {
    use crate::command::console::tests::run;
    use crate::testing::Site;
    use rpcgate_store::{GatewayReport, NodeState};

    // Shows (Nodes and cache).
    #[tokio::test]
    async fn a_node_is_drained_and_resumed_by_the_name_that_the_list_shows() {
        let site = Site::new().await;
        let node = |name: &str| NodeState {
            chain: "eth".into(),
            node: name.into(),
            standing: "well".into(),
            ..NodeState::default()
        };
        let nodes = vec![node("http://rpc:***@a"), node("http://b")];
        let report = GatewayReport { id: 7, at: site.app.now(), nodes };
        site.app.store.put_report(&report, &[]).await.unwrap();
        let listed = run(&site, None, "node list --json").await;
        assert_eq!((listed.code, listed.json().len()), (0, 2), "{}", listed.messages);
        assert_eq!(listed.json()[0]["node"], "http://rpc:***@a");
        let done = run(&site, None, "node drain eth http://rpc:***@a --json").await;
        assert_eq!((done.code, &done.json()[0]["drained"]), (0, &serde_json::json!(true)));
        let listed = run(&site, None, "node list --json").await.json();
        assert_eq!((&listed[0]["drained"], &listed[1]["drained"]), (&true.into(), &false.into()));
        let last = run(&site, None, "node drain eth http://b").await;
        assert_eq!(last.code, 4, "{}", last.messages);
        assert_eq!(run(&site, None, "node drain eth http://b --force").await.code, 0);
        assert_eq!(run(&site, None, "node drain eth http://c").await.code, 3);
        for node in ["http://rpc:***@a", "http://b"] {
            assert_eq!(run(&site, None, &format!("node resume eth {node}")).await.code, 0);
        }
        assert!(site.app.store.overlay().await.unwrap().drained.is_empty());
    }
}
