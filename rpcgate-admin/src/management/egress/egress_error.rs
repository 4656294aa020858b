//! Why a URL gave no answer.

use std::io;
use std::time::Duration;

/// Why a URL gave no answer. The texts are for the user who chose the URL; they do not tell what a name resolves to
/// inside of our network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The URL cannot be called.
    #[error("the URL {0}")]
    Url(&'static str),
    /// The host is an address that is not public.
    #[error("the target is refused: the address is {0}")]
    Address(&'static str),
    /// The host's name has no address that is public.
    #[error("the target is refused: the name leads to an address that is {0}")]
    Name(&'static str),
    /// The host's name cannot be resolved.
    #[error("the name cannot be resolved: {0}")]
    Resolve(io::Error),
    /// There is no connection.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// TLS failed, and why, in a sentence.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The proxy did not connect.
    #[error("the proxy did not connect: {0}")]
    Proxy(String),
    /// What came is no HTTP answer, or it broke off.
    #[error("no answer: {0}")]
    Answer(#[from] hyper::Error),
    /// More bytes came than are read, and the status of the answer was not among them.
    #[error("no answer: the receiver sent 64 KiB without a final status")]
    TooLong,
    /// It took too long.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The proxy is not configured in a way that can be used.
    #[error("{0}")]
    Settings(String),
    /// The file of certificate authorities (`webhooks.ca_file`) cannot be used.
    #[error("{0}")]
    Authorities(String),
}
