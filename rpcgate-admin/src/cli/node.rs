//! The commands for nodes.

use super::options::CommandOptions;
use clap::{Args, Subcommand};

/// The commands for nodes.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes as the running gateways see them
    List(NodeListArgs),
    /// Drain a node: it gets no new calls and no new streams, until it is resumed
    Drain(NodeDrainArgs),
    /// End the drain of a node
    Resume(NodeArgs),
}

impl NodeCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        match self {
            NodeCommand::List(args) => &args.options,
            NodeCommand::Drain(args) => &args.one.options,
            NodeCommand::Resume(args) => &args.options,
        }
    }
}

/// The arguments of `node list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct NodeListArgs {
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct NodeArgs {
    /// The path of the chain, such as eth
    pub chain: String,
    /// The name of the node, as `node list` shows it
    pub node: String,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `node drain`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct NodeDrainArgs {
    /// The node.
    #[command(flatten)]
    pub one: NodeArgs,
    /// Drain it even if a gateway has no other node of the chain that it can use
    #[arg(long)]
    pub force: bool,
}
