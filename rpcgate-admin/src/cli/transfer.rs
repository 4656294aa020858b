//! The command that moves all data.

use clap::Args;

/// The arguments of `transfer`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct TransferArgs {
    /// The database to read, as `database.url` names it; its usage is read too. A URL with a password is given as
    /// env:NAME or file:PATH, where the variable or the file has the URL
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// The database to fill, which must have no data yet; in the same forms
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Move the data although programs use it; what they write meanwhile is lost
    #[arg(long)]
    pub force: bool,
    /// Print JSON, one object for each table on a line
    #[arg(long)]
    pub json: bool,
}
