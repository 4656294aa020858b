//! The reasons why a URL gave no answer.

use std::io;
use std::time::Duration;

/// The reason why a URL gave no answer. The texts are for the user who chose the URL. They do not reveal what a name
/// resolves to inside our network.
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
    /// The connection failed.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// TLS failed. The text is a sentence with the reason.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The proxy did not connect.
    #[error("the proxy did not connect: {0}")]
    Proxy(String),
    /// The answer is not HTTP, or broke off.
    #[error("no answer: {0}")]
    Answer(#[from] hyper::Error),
    /// The limit on bytes was reached before a final status arrived.
    #[error("no answer: the receiver sent 64 KiB without a final status")]
    TooLong,
    /// The deadline passed.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The proxy's configuration cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The file of certificate authorities (`webhooks.ca_file`) cannot be used.
    #[error("{0}")]
    Authorities(String),
}
