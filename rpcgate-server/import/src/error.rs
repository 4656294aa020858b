//! The reasons why a file cannot be imported.

use super::SourceForm;
use super::position::Position;
use std::fmt;

/// The reason why a file cannot be imported.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The text is not valid YAML or TOML, or larger than this program reads.
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The reason.
        why: String,
    },
    /// The text has no key of a file of this form.
    Unlike {
        /// The form.
        form: SourceForm,
        /// The keys that such a file has.
        wanted: &'static str,
    },
    /// The text could be of several forms, or of none.
    Ambiguous,
    /// The file is a program that produces a configuration, such as `erpc.ts`.
    Program,
    /// The file is larger than this program reads.
    TooLarge {
        /// The maximum bytes.
        limit: usize,
    },
    /// The file does not say which chain its nodes serve.
    NoChain,
    /// The chain that the command names is not served.
    UnknownChain(String),
    /// The written configuration would not be accepted, which is a bug of this program.
    Unsettled(String),
}

impl ImportError {
    pub(super) fn syntax(at: Position, why: String) -> Self {
        ImportError::Syntax { line: at.line, column: at.column, why }
    }
}

impl fmt::Display for ImportError {
    /// Begins with the position in the file, if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Syntax { line, column, why } => write!(f, "{line}:{column}: {why}"),
            ImportError::Unlike { form, wanted } => {
                write!(f, "1:1: this is no {} file: it has none of {wanted}", form.title())
            }
            ImportError::Ambiguous => f.write_str(
                "1:1: the form of this file is not clear: say which with --from erpc, proxyd, dshackle or kong",
            ),
            ImportError::Program => f.write_str(
                "1:1: this is a program that makes a configuration: write what it makes into a YAML file and import that",
            ),
            ImportError::TooLarge { limit } => write!(f, "1:1: the file has more than {limit} bytes"),
            ImportError::NoChain => f.write_str(
                "1:1: this file does not say which chain its nodes serve: say it with --chain, as in --chain eth",
            ),
            ImportError::UnknownChain(name) => {
                write!(f, "1:1: --chain: rpcgate serves no chain {name:?}; docs/chains.md lists all")
            }
            ImportError::Unsettled(why) => write!(f, "1:1: the new file would not be accepted: {why}"),
        }
    }
}

impl std::error::Error for ImportError {}
