//! The gateway binary.

use clap::Parser;
use rpcgate_server::{cli::ServerCli, command};
use std::process::ExitCode;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    command::execute(ServerCli::parse())
}
