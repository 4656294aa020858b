//! The mail server from `admin.mail.smtp` and `admin.mail.tls`.

use super::secret::Secret;
use super::url::{Url, decode};
use super::value::Word;
use std::net::IpAddr;

/// The required encryption of the connection to the mail server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum MailTls {
    /// Encrypted, except to a server on this machine.
    #[default]
    Auto,
    /// Always encrypted.
    Required,
    /// Not encrypted. The server must have a private address.
    None,
}

impl Word for MailTls {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", MailTls::Auto), ("required", MailTls::Required), ("none", MailTls::None)];
}

/// The encryption of the connection to a mail server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailEncryption {
    /// TLS from the first byte (RFC 8314).
    Tls,
    /// STARTTLS before anything confidential is sent (RFC 3207). Without it, the mail is not sent.
    StartTls,
    /// Not encrypted, because the server has a private address.
    Private,
}

/// A mail server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MailServerUrl {
    /// The host: a name, or an address without brackets.
    pub host: String,
    /// The port: by default 465 with TLS, 587 with STARTTLS and 25 without encryption.
    pub port: u16,
    /// The user and the password from the URL.
    pub login: Option<(String, Secret)>,
    /// The encryption.
    pub encryption: MailEncryption,
}

impl MailServerUrl {
    /// Parses a URL such as `smtps://user:password@host`, and applies the required encryption.
    ///
    /// # Errors
    /// Returns the end of a sentence that begins with the key. It does not contain the URL.
    pub fn read(text: &str, tls: MailTls) -> Result<Self, String> {
        const SCHEMES: &[&str] = &["smtp", "smtps"];
        let url = Url::parse(text, SCHEMES)?;
        let rest = url.expose().split_once("://").map_or("", |(_, rest)| rest);
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (login, server) = match authority.rsplit_once('@') {
            Some((login, server)) => (Some(login), server),
            None => (None, authority),
        };
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (server, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_required = match target.split_once('?') {
            None | Some((_, "")) => false,
            Some((_, "tls=required")) => true,
            Some(_) => return Err("may end in ?tls=required and in nothing else".into()),
        };
        let is_encrypted = url.scheme() == "smtps";
        let (encryption, usual) = match tls {
            MailTls::None if is_encrypted || is_required => {
                return Err("requires TLS, but admin.mail.tls is \"none\"".into());
            }
            MailTls::None if host.parse().is_ok_and(|address: IpAddr| !is_private(address)) => {
                return Err("has a public address, for which admin.mail.tls = \"none\" is not allowed".into());
            }
            _ if is_encrypted => (MailEncryption::Tls, 465),
            MailTls::None => (MailEncryption::Private, 25),
            MailTls::Auto if !is_required && is_local(&host) => (MailEncryption::Private, 25),
            MailTls::Auto | MailTls::Required => (MailEncryption::StartTls, 587),
        };
        let login = login.map(read_login).transpose()?;
        Ok(MailServerUrl { host, port: port.unwrap_or(usual), login, encryption })
    }

    /// Reports whether mails may be sent to this resolved address: without encryption only to a private one.
    pub fn accepts(&self, address: IpAddr) -> bool {
        self.encryption != MailEncryption::Private || is_private(address)
    }
}

/// Parses the user and the password of a URL, with resolved percent-escapes.
fn read_login(login: &str) -> Result<(String, Secret), String> {
    let (user, password) = login.split_once(':').ok_or("has a user without a password")?;
    let decoded = decode(user).zip(decode(password));
    let (user, password) = decoded.ok_or("has a user or password with a broken percent-escape")?;
    Ok((user, Secret::new(password)))
}

fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Reports whether an address is of this machine or of a private network (RFC 1918, RFC 4193).
const fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn a_url_states_how_private_the_connection_is() {
        use MailEncryption::{Private, StartTls, Tls};
        for (url, tls, encryption, port) in [
            ("smtps://u:p@mail.example.com", MailTls::Auto, Tls, 465),
            ("smtps://localhost:9465", MailTls::Auto, Tls, 9465),
            ("smtp://mail.example.com", MailTls::Auto, StartTls, 587),
            ("smtp://10.0.0.1:2525", MailTls::Auto, StartTls, 2525),
            ("smtp://localhost.example.com", MailTls::Auto, StartTls, 587),
            ("smtp://LOCALHOST", MailTls::Auto, Private, 25),
            ("smtp://127.0.0.1:1025/", MailTls::Auto, Private, 1025),
            ("smtp://[::1]", MailTls::Auto, Private, 25),
            ("smtp://localhost?tls=required", MailTls::Auto, StartTls, 587),
            ("smtp://localhost/?tls=required", MailTls::Auto, StartTls, 587),
            ("smtp://localhost", MailTls::Required, StartTls, 587),
            ("smtps://relay", MailTls::Required, Tls, 465),
            ("smtp://relay", MailTls::None, Private, 25),
        ] {
            let server = MailServerUrl::read(url, tls).unwrap();
            assert_eq!((server.encryption, server.port), (encryption, port), "{url} {tls:?}");
        }
        let server = MailServerUrl::read("smtp://po%40st:p%3Aw%25@[::1]:26", MailTls::Auto).unwrap();
        assert_eq!((server.host.as_str(), server.port), ("::1", 26));
        assert_eq!(server.login, Some(("po@st".to_owned(), Secret::new("p:w%"))));
    }

    #[test]
    fn a_url_that_no_mail_can_be_sent_to_is_refused() {
        const NEEDS_TLS: &str = "requires TLS, but admin.mail.tls is \"none\"";
        for (url, tls, why) in [
            ("mail.example.com", MailTls::Auto, "must begin with one of smtp://, smtps://"),
            ("http://u:secret@h", MailTls::Auto, "must begin with one of smtp://, smtps://"),
            ("smtp://", MailTls::Auto, "must name a host"),
            ("smtps://u:se%zzcret@h", MailTls::Auto, "has a user or password with a broken percent-escape"),
            ("smtps://u:secret%2@h", MailTls::Auto, "has a user or password with a broken percent-escape"),
            ("smtps://u:%ff@h", MailTls::Auto, "has a user or password with a broken percent-escape"),
            ("smtps://secret@h", MailTls::Auto, "has a user without a password"),
            ("smtp://h?tls=opportunistic", MailTls::Auto, "may end in ?tls=required and in nothing else"),
            ("smtp://relay?tls=required", MailTls::None, NEEDS_TLS),
            ("smtps://relay", MailTls::None, NEEDS_TLS),
        ] {
            assert_eq!(MailServerUrl::read(url, tls).err().as_deref(), Some(why), "{url} {tls:?}");
        }
    }

    // Shows (Mails and notifications).
    #[test]
    fn without_tls_an_address_is_private() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("10.1.2.3", true),
            ("172.31.0.1", true),
            ("192.168.0.1", true),
            ("::1", true),
            ("fd00::1", true),
            ("::ffff:10.0.0.1", true),
            ("172.32.0.1", false),
            ("100.64.0.1", false),
            ("169.254.1.1", false),
            ("8.8.8.8", false),
            ("2001:db8::1", false),
            ("fe80::1", false),
            ("::ffff:8.8.8.8", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let server = |tls| MailServerUrl::read("smtp://relay", tls).unwrap();
            assert_eq!(server(MailTls::None).accepts(address), expected, "{address}");
            assert!(server(MailTls::Auto).accepts(address), "{address}");
            let url = format!("smtp://{}", SocketAddr::new(address, 25));
            let found = MailServerUrl::read(&url, MailTls::None).err();
            let why = "has a public address, for which admin.mail.tls = \"none\" is not allowed";
            assert_eq!(found.as_deref(), Some(why).filter(|_| !expected), "{url}");
        }
    }
}
