//! The PROXY protocol, versions 1 and 2: a TCP load balancer begins each connection with a header that names its
//! client.
//!
//! The header is required of the peers in the configuration and read from no other: a client that could send one would
//! choose its own address. It comes before everything else, even TLS.

use ipnet::IpNet;
use ppp::{v1, v2};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The deadline of a header.
const WITHIN: Duration = Duration::from_secs(5);
/// The maximum bytes of a version 1 header: no valid one is longer.
const LONGEST_TEXT: usize = 107;
/// The maximum bytes of a version 2 header. Addresses take at most 52; the rest is for extensions, which are skipped.
const LONGEST: usize = 2_048;
/// The bytes of a version 2 header before its addresses. The last two are the length of the rest.
const FIXED: usize = 16;
/// The start of a version 1 header.
const TEXT: &[u8] = b"PROXY ";
/// Version 2, with the command for a connection of the balancer itself.
const LOCAL: u8 = 0x20;
/// The header of a connection whose client is the peer itself.
const OF_THE_PEER: [u8; FIXED] = *b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// The error for a connection without a valid header.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadProxyHeader {
    /// The connection does not begin with a header.
    #[error("the connection does not begin with a header of the PROXY protocol")]
    Missing,
    /// The header is too long.
    #[error("the header of the PROXY protocol is too long")]
    TooLong,
    /// The header cannot be read.
    #[error("the header of the PROXY protocol is wrong: {0}")]
    Malformed(String),
    /// The header describes datagrams rather than a byte stream.
    #[error("the header of the PROXY protocol is about datagrams")]
    Datagram,
    /// The connection ended within the header.
    #[error("the connection ended within the header of the PROXY protocol")]
    Cut,
    /// The header did not arrive in time.
    #[error("the header of the PROXY protocol took too long")]
    Slow,
    /// The connection cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// Returns the length of the header at the start of `bytes`; `None` if more bytes are needed for it, or for a whole
/// header.
///
/// # Errors
/// [`BadProxyHeader::Missing`] or [`BadProxyHeader::TooLong`], as soon as that is certain.
pub fn header_len(bytes: &[u8]) -> Result<Option<usize>, BadProxyHeader> {
    let begins = |start: &[u8]| bytes.iter().zip(start).all(|(byte, expected)| byte == expected);
    if begins(v2::PROTOCOL_PREFIX) {
        let Some(&[high, low]) = bytes.get(FIXED - 2..FIXED) else { return Ok(None) };
        let length = FIXED + usize::from(u16::from_be_bytes([high, low]));
        return if length > LONGEST {
            Err(BadProxyHeader::TooLong)
        } else {
            Ok(Some(length).filter(|length| *length <= bytes.len()))
        };
    }
    if !begins(TEXT) {
        return Err(BadProxyHeader::Missing);
    }
    match bytes.iter().take(LONGEST_TEXT).position(|byte| *byte == b'\n') {
        Some(last) => Ok(Some(last + 1)),
        None if bytes.len() < LONGEST_TEXT => Ok(None),
        None => Err(BadProxyHeader::TooLong),
    }
}

/// Returns the client's address in a whole header. `None` means that the client is the peer itself, for example in a
/// balancer's own checks (`LOCAL`, `UNKNOWN`).
///
/// ```
/// use rpcgate_process::proxy_protocol::client_of;
///
/// let client = client_of(b"PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\r\n");
/// assert_eq!(client, Ok(Some("198.51.100.7:40000".parse().unwrap())));
/// assert_eq!(client_of(b"PROXY UNKNOWN\r\n"), Ok(None));
/// assert!(client_of(b"PROXY TCP4 198.51.100.256 10.0.0.1 40000 443\r\n").is_err());
/// ```
///
/// # Errors
/// [`BadProxyHeader`].
pub fn client_of(header: &[u8]) -> Result<Option<SocketAddr>, BadProxyHeader> {
    let malformed = |error: &dyn std::fmt::Display| BadProxyHeader::Malformed(error.to_string());
    if !header.starts_with(v2::PROTOCOL_PREFIX) {
        let header = v1::Header::try_from(header).map_err(|error| malformed(&error))?;
        return Ok(match header.addresses {
            v1::Addresses::Unknown => None,
            v1::Addresses::Tcp4(of) => Some((of.source_address, of.source_port).into()),
            v1::Addresses::Tcp6(of) => Some((of.source_address, of.source_port).into()),
        });
    }
    if header.get(v2::PROTOCOL_PREFIX.len()) == Some(&LOCAL) {
        // The rest has no meaning.
        return Ok(None);
    }
    let header = v2::Header::try_from(header).map_err(|error| malformed(&error))?;
    if header.protocol == v2::Protocol::Datagram {
        return Err(BadProxyHeader::Datagram);
    }
    Ok(match header.addresses {
        v2::Addresses::Unspecified | v2::Addresses::Unix(_) => None,
        v2::Addresses::IPv4(of) => Some((of.source_address, of.source_port).into()),
        v2::Addresses::IPv6(of) => Some((of.source_address, of.source_port).into()),
    })
}

/// Reads the header of a connection and nothing beyond it. Returns `None` if the connection ended without a byte, as in
/// balancers' checks; otherwise the client's address, if the header has one.
async fn read(stream: &mut TcpStream) -> Result<Option<Option<SocketAddr>>, BadProxyHeader> {
    let unreadable = |error: io::Error| BadProxyHeader::Unreadable(error.to_string());
    let mut header = vec![0; LONGEST];
    let mut taken = 0;
    loop {
        // The bytes after the header belong to the client, and stay in the socket.
        let seen = taken + stream.peek(&mut header[taken..]).await.map_err(unreadable)?;
        if seen == taken {
            return if taken == 0 { Ok(None) } else { Err(BadProxyHeader::Cut) };
        }
        let length = header_len(&header[..seen])?;
        let until = length.unwrap_or(seen);
        stream.read_exact(&mut header[taken..until]).await.map_err(unreadable)?;
        taken = until;
        if length.is_some() {
            return client_of(&header[..taken]).map(Some);
        }
    }
}

/// The peers whose connections begin with a header. Clones share the log state.
#[derive(Clone, Debug)]
pub struct ProxyPeers {
    networks: Arc<[IpNet]>,
    /// True if a bad header was logged for operators.
    is_reported: Arc<AtomicBool>,
}

impl ProxyPeers {
    /// Creates the set of peers in `networks`.
    pub fn new(networks: &[IpNet]) -> Self {
        ProxyPeers { networks: networks.into(), is_reported: Arc::default() }
    }

    /// Reports whether connections of this address begin with a header.
    pub fn has(&self, peer: IpAddr) -> bool {
        !self.networks.is_empty() && {
            let peer = peer.to_canonical();
            self.networks.iter().any(|network| network.contains(&peer))
        }
    }

    /// Returns the address of the client of a new connection of `peer`, after reading the header if this peer sends
    /// one. `None` if the connection cannot be used.
    ///
    /// Logs the first connection without a valid header as a warning, because balancer and configuration disagree, and
    /// later ones only for troubleshooting.
    pub async fn client(&self, stream: &mut TcpStream, peer: SocketAddr) -> Option<SocketAddr> {
        if !self.has(peer.ip()) {
            return Some(peer);
        }
        let why = match timeout(WITHIN, read(stream)).await {
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(client))) => return Some(client.unwrap_or(peer)),
            Ok(Err(BadProxyHeader::Unreadable(why))) => {
                tracing::debug!(%peer, "connection failed before its PROXY header: {why}");
                return None;
            }
            Ok(Err(why)) => why,
            Err(_) => BadProxyHeader::Slow,
        };
        if self.is_reported.swap(true, Relaxed) {
            tracing::debug!(%peer, "connection closed: {why}");
        } else {
            tracing::warn!(%peer, "connection closed: {why}; more of them are logged at the level debug");
        }
        None
    }

    /// Sends a header on a connection to a listener of this host, if the listener requires one.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn introduce(&self, mut stream: TcpStream) -> io::Result<TcpStream> {
        if self.has(stream.local_addr()?.ip()) {
            stream.write_all(&OF_THE_PEER).await?;
        }
        Ok(stream)
    }
}

#[cfg(test)]
mod tests;
