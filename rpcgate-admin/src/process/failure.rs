//! How a command fails, and with which exit code.

use rpcgate_core::config::LoadError;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command ended early. Displayed as one line, or, for a configuration, as one line for each fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The configuration cannot be used: exit code 2.
    #[error("{0}")]
    Configuration(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// [`Failure::Configuration`] if `is_configuration`, else [`Failure::Other`], with the text of `error`.
    pub fn new(is_configuration: bool, error: &dyn Display) -> Self {
        if is_configuration {
            Failure::Configuration(error.to_string())
        } else {
            Failure::Other(error.to_string())
        }
    }

    /// The process's exit code.
    pub const fn code(&self) -> u8 {
        match self {
            Failure::Configuration(_) => 2,
            Failure::Other(_) => 1,
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Failure::Configuration(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Other(error.to_string())
    }
}

/// Writes a failure to standard error; returns 0 for success, else the failure's exit code.
pub fn exit(done: Result<(), Failure>) -> ExitCode {
    let Err(failure) = done else { return ExitCode::SUCCESS };
    // If standard error is closed as well, there is nowhere left to report to.
    let _ = writeln!(io::stderr().lock(), "{failure}");
    ExitCode::from(failure.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_cannot_be_used_ends_with_2_and_anything_else_with_1() {
        let wrong = Failure::new(true, &"gateway.listen: no address");
        assert_eq!((wrong.code(), wrong.to_string().as_str()), (2, "gateway.listen: no address"));
        assert_eq!(Failure::from(io::Error::other("disk full")), Failure::Other("disk full".into()));
        assert_eq!(exit(Ok(())), ExitCode::SUCCESS);
        assert_eq!(exit(Err(wrong)), ExitCode::from(2));
        assert_eq!(exit(Err(Failure::new(false, &"disk full"))), ExitCode::from(1));
    }
}
