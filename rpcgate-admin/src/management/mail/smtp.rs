//! Mail servers (SMTP, RFC 5321; STARTTLS, RFC 3207; implicit TLS, RFC 8314).

mod conversation;
mod server_stream;

use super::MailError;
use conversation::{CONNECT, REPLY, close, open, send_and_close, start_tls, within};
use lettre::Message;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{SMTP_PORT, SUBMISSION_PORT, SUBMISSIONS_PORT};
use rpcgate_core::config::MailTls;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use server_stream::{ServerStream, ServerTls};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Addresses of a mail server that are tried for one mail, at most.
const MAX_ADDRESSES: usize = 8;

/// The error for a host that no certificate can have.
const NO_NAME: &str = "must name a host by its domain name or address";

/// How the connection is encrypted.
enum Encryption {
    /// TLS from the first byte.
    Tls(ServerTls),
    /// STARTTLS before anything confidential is sent; without it the mail is not sent.
    StartTls(ServerTls),
    /// Not encrypted: the server has a private address.
    Private,
}

impl Encryption {
    const fn is_none(&self) -> bool {
        matches!(self, Encryption::Private)
    }
}

/// A mail server.
pub(super) struct MailServer {
    host: String,
    port: u16,
    login: Option<Credentials>,
    encryption: Encryption,
    hello: ClientId,
}

impl fmt::Display for MailServer {
    /// Leaves out the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The properties of a mail server that its URL does not contain.
#[derive(Clone, Copy)]
pub(super) struct ServerOptions<'o> {
    /// The certificates that are trusted.
    pub(super) trusted: &'o Arc<ClientConfig>,
    /// The requirement on encryption.
    pub(super) tls: MailTls,
    /// The name in `EHLO`, if it is configured.
    pub(super) hello: Option<&'o str>,
    /// The domain of the sender.
    pub(super) sender_domain: &'o str,
}

impl MailServer {
    /// The server at `url`.
    ///
    /// # Errors
    /// [`MailError::Url`].
    pub(super) fn read(url: &str, options: ServerOptions<'_>) -> Result<Self, MailError> {
        let wrong = |why: &str| MailError::Url(why.into());
        let url: http::Uri = url.parse().map_err(|_| wrong("must be a URL"))?;
        let authority = url.authority().ok_or_else(|| wrong("must name a host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("must name a host"));
        }
        let login = match authority.as_str().rsplit_once('@') {
            None => None,
            Some((login, _)) => {
                let (user, password) =
                    login.split_once(':').ok_or_else(|| wrong("has a user without a password"))?;
                let decoded = decode(user).zip(decode(password));
                let (user, password) =
                    decoded.ok_or_else(|| wrong("has a user or password with a broken percent-escape"))?;
                Some(Credentials::new(user, password))
            }
        };
        let tls_of_url = match url.query() {
            None | Some("") => MailTls::Auto,
            Some("tls=required") => MailTls::Required,
            Some(_) => return Err(wrong("may end in ?tls=required and in nothing else")),
        };
        let tls = || {
            let name = ServerName::try_from(host.clone()).map_err(|_| wrong(NO_NAME))?;
            Ok::<_, MailError>(ServerTls { connector: TlsConnector::from(options.trusted.clone()), name })
        };
        let (encryption, usual) = match (url.scheme_str(), tls_of_url, options.tls) {
            (Some("smtps"), _, MailTls::None) | (Some("smtp"), MailTls::Required, MailTls::None) => {
                return Err(wrong("requires TLS, but admin.mail.tls is \"none\""));
            }
            (Some("smtps"), ..) => (Encryption::Tls(tls()?), SUBMISSIONS_PORT),
            (Some("smtp"), _, MailTls::None) => {
                if host.parse().is_ok_and(|address: IpAddr| !is_private(address)) {
                    return Err(wrong(
                        "has a public address, for which admin.mail.tls = \"none\" is not allowed",
                    ));
                }
                (Encryption::Private, SMTP_PORT)
            }
            (Some("smtp"), MailTls::Auto, MailTls::Auto) if is_local(&host) => {
                (Encryption::Private, SMTP_PORT)
            }
            (Some("smtp"), ..) => (Encryption::StartTls(tls()?), SUBMISSION_PORT),
            _ => return Err(wrong("must begin with one of smtp://, smtps://")),
        };
        let port = authority.port_u16().unwrap_or(usual);
        let hello = hello(options.hello.unwrap_or(options.sender_domain), ClientId::default);
        Ok(MailServer { host, port, login, encryption, hello })
    }

    /// Sends a mail. Each step has the time that RFC 5321 gives it. There is one connection per mail: a pool would take
    /// back a connection whose conversation was cut off, and read the rest of it as replies to the next mail.
    ///
    /// # Errors
    /// [`MailError::Refused`] if the server refuses the recipient; [`MailError::Rejected`] and
    /// [`MailError::Unavailable`] if another try may succeed.
    pub(super) async fn send(&self, message: &Message) -> Result<(), MailError> {
        send_and_close(self.connect().await?, message).await
    }

    /// Connects, encrypts the connection and logs in as for a mail, but sends none.
    ///
    /// # Errors
    /// [`MailError::Rejected`], [`MailError::Unavailable`].
    pub(super) async fn greet(&self) -> Result<(), MailError> {
        close(self.connect().await?).await;
        Ok(())
    }

    /// A connection that takes a mail. What the server refuses before it has seen the mail says nothing about the mail.
    async fn connect(&self) -> Result<AsyncSmtpConnection, MailError> {
        let stream = reach(&self.addresses().await?).await?;
        let mut server = match &self.encryption {
            Encryption::Tls(tls) => {
                let stream = tls.encrypt(stream).await?;
                open(ServerStream::new(stream), &self.hello).await?
            }
            Encryption::StartTls(tls) => {
                // Whatever the server has sent before TLS is dropped with `plain`.
                let (plain, stream) = twice(stream).map_err(unreachable)?;
                start_tls(open(ServerStream::new(plain), &self.hello).await?).await?;
                let stream = tls.encrypt(stream).await?;
                open(ServerStream::after_starttls(stream), &self.hello).await?
            }
            Encryption::Private => open(ServerStream::new(stream), &self.hello).await?,
        };
        if let Some(login) = &self.login {
            within(REPLY, "AUTH", server.auth(DEFAULT_MECHANISMS, login)).await?;
        }
        Ok(server)
    }

    /// The addresses to connect to. Without encryption they are private, whatever the host's name resolves to now.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, MailError> {
        let found = timeout(CONNECT, lookup_host((self.host.as_str(), self.port))).await;
        let found = found.map_err(|_| unreachable("its name is not resolved in time"))?;
        let all: Vec<SocketAddr> = found.map_err(unreachable)?.collect();
        let is_usable = |to: &&SocketAddr| !self.encryption.is_none() || is_private(to.ip());
        let usable: Vec<_> = all.iter().filter(is_usable).take(MAX_ADDRESSES).copied().collect();
        if usable.is_empty() && !all.is_empty() {
            return Err(unreachable(
                "it has no private address, and only to those mails are sent without TLS",
            ));
        }
        Ok(usable)
    }
}

fn unreachable(why: impl fmt::Display) -> MailError {
    MailError::Unavailable(format!("it cannot be reached: {why}"))
}

/// Connects to the first address that accepts the connection.
async fn reach(addresses: &[SocketAddr]) -> Result<TcpStream, MailError> {
    let mut failure = unreachable("its name has no address");
    for to in addresses {
        match timeout(CONNECT, TcpStream::connect(to)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = unreachable(error),
            Err(_) => failure = unreachable(format!("no connection within {CONNECT:?}")),
        }
    }
    Err(failure)
}

/// The same connection twice, since the library does not return the one that it gets.
fn twice(stream: TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    let stream = stream.into_std()?;
    let copy = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, TcpStream::from_std(copy)?))
}

/// The name in `EHLO`: `configured` if it is one that servers accept (RFC 5321, section 4.1.1.1: a fully qualified name or
/// an address literal), and else the name of this host, or an address literal.
fn hello(configured: &str, host: impl FnOnce() -> ClientId) -> ClientId {
    let is_qualified =
        |name: &str| name.is_ascii() && (name.trim_matches('.').contains('.') || name.starts_with('['));
    if is_qualified(configured) {
        return ClientId::Domain(configured.to_owned());
    }
    match host() {
        ClientId::Domain(name) if !is_qualified(&name) => ClientId::Ipv4(std::net::Ipv4Addr::LOCALHOST),
        other => other,
    }
}

fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Whether an address is of this machine or of a private network (RFC 1918, RFC 4193).
const fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    }
}

/// Decodes percent-escapes.
fn decode(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first == b'%' {
            let digits;
            (digits, rest) = rest.split_at_checked(2)?;
            bytes.extend(hex::decode(digits).ok()?);
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
