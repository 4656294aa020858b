//! The arguments of `doctor` and `explain`.

use super::options::CommandOptions;
use clap::Args;

/// The arguments of `doctor`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct DoctorArgs {
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}

/// The arguments of `explain`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ExplainArgs {
    /// The request: the `x-request-id` of its answer
    #[arg(value_name = "REQUEST_ID")]
    pub request: String,
    /// The shared options.
    #[command(flatten)]
    pub options: CommandOptions,
}
