//! Failures of commands, and their exit codes.

use super::acme::BadAcme;
use super::tls::BadCertificate;
use rpcgate_config::LoadError;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The reason why a command ended early. Displayed as one line, or, for a configuration, as one line per error.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration or an argument cannot be used: exit code 2.
    #[error("{0}")]
    Configuration(String),
    /// The object of the command does not exist: exit code 3.
    #[error("{0}")]
    NotFound(String),
    /// A rule does not allow it: exit code 4.
    #[error("{0}")]
    Refused(String),
    /// The database cannot be reached now, and a retry may succeed: exit code 5.
    #[error("{0}")]
    Unavailable(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// Returns [`Failure::Configuration`] if `is_configuration`, else [`Failure::Other`], with the text of `error`.
    pub fn new(is_configuration: bool, error: &dyn Display) -> Self {
        if is_configuration {
            Failure::Configuration(error.to_string())
        } else {
            Failure::Other(error.to_string())
        }
    }

    /// Returns the exit code of the process.
    pub const fn code(&self) -> u8 {
        match self {
            Failure::Other(_) => 1,
            Failure::Configuration(_) => 2,
            Failure::NotFound(_) => 3,
            Failure::Refused(_) => 4,
            Failure::Unavailable(_) => 5,
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Failure::Configuration(error.to_string())
    }
}

impl From<BadCertificate> for Failure {
    fn from(bad: BadCertificate) -> Self {
        Failure::Configuration(bad.to_string())
    }
}

impl From<BadAcme> for Failure {
    fn from(bad: BadAcme) -> Self {
        Failure::Configuration(bad.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Other(error.to_string())
    }
}

/// Returns the exit code of a command, 0 for success. Writes a failure to standard error.
pub fn exit(done: Result<(), Failure>) -> ExitCode {
    exit_with_code(done.map(|()| 0))
}

/// Returns the exit code of a command that has its own codes for success. Writes a failure to standard error.
pub fn exit_with_code(done: Result<u8, Failure>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // If standard error is closed too, the failure cannot be reported.
            let _ = writeln!(io::stderr().lock(), "{failure}");
            ExitCode::from(failure.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_failure_has_an_exit_code_of_its_own() {
        let wrong = Failure::new(true, &"gateway.listen: no address");
        assert_eq!((wrong.code(), wrong.to_string().as_str()), (2, "gateway.listen: no address"));
        assert_eq!(Failure::from(io::Error::other("disk full")), Failure::Other("disk full".into()));
        let others =
            [Failure::NotFound, Failure::Refused, Failure::Unavailable].map(|of| of("no".into()).code());
        assert_eq!(others, [3, 4, 5]);
        assert_eq!(exit(Ok(())), ExitCode::SUCCESS);
        assert_eq!(exit(Err(wrong)), ExitCode::from(2));
        assert_eq!(exit_with_code(Ok(10)), ExitCode::from(10));
        assert_eq!(exit(Err(Failure::new(false, &"disk full"))), ExitCode::from(1));
    }
}
