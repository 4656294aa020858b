//! The commands for the gateways' caches.

use super::options::CommandOptions;
use clap::{Args, Subcommand};

/// The commands for caches.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum CacheCommand {
    /// Empty the cache of a chain at every gateway, within a second
    Clear(CacheClearArgs),
}

impl CacheCommand {
    /// Returns the shared options.
    pub fn options(&self) -> &CommandOptions {
        let CacheCommand::Clear(args) = self;
        &args.options
    }
}

/// The arguments of `cache clear`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct CacheClearArgs {
    /// The path of the chain, such as eth
    #[arg(long)]
    pub chain: String,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}
