//! Mail servers (SMTP, RFC 5321; STARTTLS, RFC 3207; implicit TLS, RFC 8314).

mod conversation;
mod server_stream;

use super::MailError;
use crate::egress::tls::sentence;
use conversation::{CONNECT, REPLY, close, open, send_and_close, start_tls, within};
use lettre::Message;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::extension::ClientId;
use rpcgate_config::{MailEncryption, MailServerUrl, MailTls};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use server_stream::{HelloCommand, ServerStream};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The maximum number of a server's addresses that are tried for one mail.
const MAX_ADDRESSES: usize = 8;

pub(super) struct MailServer {
    url: MailServerUrl,
    tls: TlsConnector,
    hello: ClientId,
}

impl fmt::Display for MailServer {
    /// Leaves out the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.url.host, self.url.port)
    }
}

/// The properties of a mail server that are not in its URL.
pub(super) struct ServerOptions<'o> {
    pub(super) trusted: ClientConfig,
    pub(super) tls: MailTls,
    pub(super) hello: Option<&'o str>,
    pub(super) sender_domain: &'o str,
}

impl MailServer {
    pub(super) fn read(url: &str, options: ServerOptions<'_>) -> Result<Self, MailError> {
        let url = MailServerUrl::read(url, options.tls).map_err(MailError::Url)?;
        let hello = hello(options.hello.unwrap_or(options.sender_domain), ClientId::default);
        Ok(MailServer { url, tls: TlsConnector::from(Arc::new(options.trusted)), hello })
    }

    /// Sends a mail. Each step has the time that RFC 5321 gives it. Each mail has its own connection: a pool would take
    /// back a connection whose conversation was cut off, and read the rest of it as replies to the next mail.
    ///
    /// # Errors
    /// [`MailError::Refused`] if the server refuses the recipient; [`MailError::Rejected`] and
    /// [`MailError::Unavailable`] if another try may succeed.
    pub(super) async fn send(&self, message: &Message) -> Result<(), MailError> {
        send_and_close(self.connect().await?, message).await
    }

    /// Connects, encrypts the connection and logs in as for a mail, but sends none.
    pub(super) async fn greet(&self) -> Result<(), MailError> {
        close(self.connect().await?).await;
        Ok(())
    }

    /// Opens a connection that accepts a mail. A refusal before the server has seen the mail says nothing about the
    /// mail.
    async fn connect(&self) -> Result<AsyncSmtpConnection, MailError> {
        let mut server = match self.introduced(HelloCommand::Ehlo).await? {
            Some(server) => server,
            None => self
                .introduced(HelloCommand::Helo)
                .await?
                .ok_or_else(|| MailError::Unavailable("it knows neither EHLO nor HELO".into()))?,
        };
        if let Some((user, password)) = &self.url.login {
            let login = Credentials::new(user.clone(), password.expose().to_owned());
            within(REPLY, "AUTH", server.auth(DEFAULT_MECHANISMS, &login)).await?;
        }
        Ok(server)
    }

    /// Opens a connection and introduces this host. Returns `None` if the server does not know `EHLO`.
    async fn introduced(&self, command: HelloCommand) -> Result<Option<AsyncSmtpConnection>, MailError> {
        let stream = reach(&self.addresses().await?).await?;
        match self.url.encryption {
            MailEncryption::Tls => {
                let stream = ServerStream::new(self.encrypt(stream).await?);
                open(stream.with_command(command), &self.hello).await
            }
            MailEncryption::StartTls => {
                // All that the server has sent before TLS is dropped with `plain`.
                let (plain, stream) = twice(stream).map_err(unreachable)?;
                start_tls(open(ServerStream::new(plain), &self.hello).await?).await?;
                let stream = ServerStream::after_starttls(self.encrypt(stream).await?);
                open(stream.with_command(command), &self.hello).await
            }
            MailEncryption::Private => {
                open(ServerStream::new(stream).with_command(command), &self.hello).await
            }
        }
    }

    async fn encrypt(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, MailError> {
        let failed = |why: &str| MailError::Unavailable(format!("TLS failed: {why}"));
        let name = ServerName::try_from(self.url.host.clone());
        let name = name.map_err(|_| failed("no certificate can have the name of its host"))?;
        match timeout(REPLY, self.tls.connect(name, stream)).await {
            Ok(encrypted) => encrypted.map_err(|error| failed(&sentence(&error))),
            Err(_) => Err(failed(&format!("no answer within {REPLY:?}"))),
        }
    }

    /// Returns the addresses to connect to. Without encryption only private ones are allowed, whatever the name
    /// resolves to now.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, MailError> {
        let found = timeout(CONNECT, lookup_host((self.url.host.as_str(), self.url.port))).await;
        let found = found.map_err(|_| unreachable("its name is not resolved in time"))?;
        let all: Vec<SocketAddr> = found.map_err(unreachable)?.collect();
        let is_usable = |to: &&SocketAddr| self.url.accepts(to.ip());
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

/// Duplicates the handle of a connection, because the library does not return the one that it gets.
fn twice(stream: TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    let stream = stream.into_std()?;
    let copy = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, TcpStream::from_std(copy)?))
}

/// Returns the name in `EHLO`: `configured` if servers accept it (RFC 5321, section 4.1.1.1: a fully qualified name or
/// an address literal), or else the name of this host or an address literal.
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

#[cfg(test)]
mod tests;
