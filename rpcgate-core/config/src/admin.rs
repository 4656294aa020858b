//! `[admin]`: the management side.

use super::admin_tls::AdminTls;
use super::fields::{Fields, Table};
use super::mail_server::{MailServerUrl, MailTls};
use super::problem::Problem;
use super::secret::{MOST_FORMER, Secret};
use super::units::{DAY, MIB, SECOND};
use super::url::Url;
use super::value::Word;
use ipnet::IpNet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const WEB: &[&str] = &["http", "https"];

/// `[admin]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Admin {
    /// The address of the management API and the dashboard.
    pub listen: SocketAddr,
    /// Peers whose connections begin with a PROXY protocol header, which contains the client's address.
    pub proxy_protocol: Vec<IpNet>,
    /// The public URL of the management API; derived from `listen` if absent.
    pub api_url: Option<Url>,
    /// The public URL of the dashboard, which mails link to; derived from `listen` if absent.
    pub dash_url: Option<Url>,
    /// The public URL of the gateway, which the dashboard shows.
    pub gateway_url: Option<Url>,
    /// The public URL of the gRPC listener.
    pub grpc_url: Option<Url>,
    /// The log-ins and registrations in total that one client address may attempt per minute.
    pub auth_per_minute: u32,
    /// Requires a second factor from operators for every change.
    pub operator_mfa: bool,
    /// Certificate and key.
    pub tls: AdminTls,
    /// Tokens.
    pub jwt: Jwt,
    /// Mail.
    pub mail: MailSettings,
    /// The challenge of the registration form.
    pub challenge: ChallengeSettings,
    /// Support tickets.
    pub tickets: TicketSettings,
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            listen: (Ipv4Addr::LOCALHOST, 8081).into(),
            proxy_protocol: Vec::new(),
            api_url: None,
            dash_url: None,
            gateway_url: None,
            grpc_url: None,
            auth_per_minute: 10,
            operator_mfa: false,
            tls: AdminTls::default(),
            jwt: Jwt::default(),
            mail: MailSettings::default(),
            challenge: ChallengeSettings::default(),
            tickets: TicketSettings::default(),
        }
    }
}

impl Table for Admin {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("listen", &mut self.listen);
        f.value("proxy_protocol", &mut self.proxy_protocol);
        f.url("api_url", &mut self.api_url, WEB);
        f.url("dash_url", &mut self.dash_url, WEB);
        f.url("gateway_url", &mut self.gateway_url, WEB);
        f.url("grpc_url", &mut self.grpc_url, WEB);
        f.number("auth_per_minute", &mut self.auth_per_minute, 1..=1_000_000);
        f.value("operator_mfa", &mut self.operator_mfa);
        f.table("tls", &mut self.tls);
        f.table("jwt", &mut self.jwt);
        f.table("mail", &mut self.mail);
        f.table("challenge", &mut self.challenge);
        f.table("tickets", &mut self.tickets);
    }
}

/// `[admin.jwt]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Jwt {
    /// The secret that signs tokens, shared by all hosts of the management side.
    pub secret: Option<Secret>,
    /// Former secrets whose tokens are still accepted, the most recent first.
    pub former_secrets: Vec<Secret>,
    /// The lifetime of an access token, and of a log-in on the pages.
    pub access_ttl: Duration,
    /// The lifetime of an unused refresh token.
    pub refresh_ttl: Duration,
    /// The lifetime of a session, even if it is renewed.
    pub session_ttl: Duration,
}

impl Default for Jwt {
    fn default() -> Self {
        Jwt {
            secret: None,
            former_secrets: Vec::new(),
            access_ttl: 900 * SECOND,
            refresh_ttl: 30 * DAY,
            session_ttl: 90 * DAY,
        }
    }
}

impl Table for Jwt {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.secret("secret", &mut self.secret, 32);
        f.secrets("former_secrets", &mut self.former_secrets, 32, MOST_FORMER);
        f.duration("access_ttl", &mut self.access_ttl, SECOND..=DAY);
        f.duration("refresh_ttl", &mut self.refresh_ttl, SECOND..=400 * DAY);
        f.duration("session_ttl", &mut self.session_ttl, SECOND..=4_000 * DAY);
        if self.secret.is_none() && !self.former_secrets.is_empty() {
            let why = "needs admin.jwt.secret beside it, which signs new tokens".into();
            f.wrong(&["former_secrets"], |key| Problem::Invalid { key, why });
        }
    }
}

/// `[admin.mail]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MailSettings {
    /// The sender.
    pub from: String,
    /// The SMTP server; none by default.
    pub smtp: Option<Url>,
    /// A PEM file with trusted certificates of the server, and additional authorities for its certificate.
    pub smtp_ca: Option<PathBuf>,
    /// The required encryption of the connection.
    pub tls: MailTls,
    /// The name of this host in `EHLO`: a domain name or a bracketed address literal. By default the domain of `from`.
    pub hello: Option<String>,
    /// The folder for mails as `.eml` files if there is no server.
    pub outbox: PathBuf,
}

impl Default for MailSettings {
    fn default() -> Self {
        MailSettings {
            from: "rpcgate@localhost".into(),
            smtp: None,
            smtp_ca: None,
            tls: MailTls::default(),
            hello: None,
            outbox: "outbox".into(),
        }
    }
}

impl Table for MailSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("from", &mut self.from);
        f.url("smtp", &mut self.smtp, &["smtp", "smtps"]);
        f.value("smtp_ca", &mut self.smtp_ca);
        f.word("tls", &mut self.tls);
        f.value("hello", &mut self.hello);
        f.value("outbox", &mut self.outbox);
        if let Some(url) = &self.smtp
            && let Err(why) = MailServerUrl::read(url.expose(), self.tls)
        {
            f.wrong(&["smtp"], |key| Problem::Invalid { key, why });
        }
        if !self.from.contains('@') || self.from.contains(['\r', '\n']) {
            f.wrong(&["from"], |key| Problem::Invalid { key, why: "must be a mail address".into() });
        }
        if self.hello.as_deref().is_some_and(|name| !is_hello(name)) {
            let why =
                "must be a domain name with a dot, or an address in brackets such as [192.0.2.1]".into();
            f.wrong(&["hello"], |key| Problem::Invalid { key, why });
        }
    }
}

/// Reports whether servers accept this name in `EHLO` (RFC 5321, section 4.1.1.1).
fn is_hello(name: &str) -> bool {
    let literal = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(literal) = literal {
        let v6 = literal.strip_prefix("IPv6:").map(|address| address.parse::<Ipv6Addr>().is_ok());
        return v6.unwrap_or_else(|| literal.parse::<Ipv4Addr>().is_ok());
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

/// The provider of the challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChallengeKind {
    /// A proof of work in ALTCHA's format, created and verified by the management side itself.
    Altcha,
    /// hCaptcha's hosted verifier.
    Hcaptcha,
    /// Cloudflare Turnstile's hosted verifier.
    Turnstile,
}

impl Word for ChallengeKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("altcha", ChallengeKind::Altcha),
        ("hcaptcha", ChallengeKind::Hcaptcha),
        ("turnstile", ChallengeKind::Turnstile),
    ];
}

/// `[admin.challenge]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChallengeSettings {
    /// The provider.
    pub kind: ChallengeKind,
    /// The largest number that a browser must try for ALTCHA.
    pub difficulty: u32,
    /// The hosted verifier's public key.
    pub site_key: Option<String>,
    /// The secret of the hosted verifier. For ALTCHA it signs the challenges, and defaults to `admin.jwt.secret`.
    pub secret: Option<Secret>,
    /// The URL at which the hosted verifier checks tokens; the provider's documented one if absent.
    pub verify_url: Option<Url>,
    /// The host names on which a token may be obtained. If empty, that of `admin.dash_url`; without that, any.
    pub hostnames: Vec<String>,
    /// The time limit of the hosted verifier.
    pub timeout: Duration,
}

impl Default for ChallengeSettings {
    fn default() -> Self {
        ChallengeSettings {
            kind: ChallengeKind::Altcha,
            difficulty: 100_000,
            site_key: None,
            secret: None,
            verify_url: None,
            hostnames: Vec::new(),
            timeout: 5 * SECOND,
        }
    }
}

impl Table for ChallengeSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.word("kind", &mut self.kind);
        f.number("difficulty", &mut self.difficulty, 1..=100_000_000);
        f.value("site_key", &mut self.site_key);
        f.secret("secret", &mut self.secret, 1);
        f.url("verify_url", &mut self.verify_url, WEB);
        f.value("hostnames", &mut self.hostnames);
        f.duration("timeout", &mut self.timeout, SECOND..=20 * SECOND);
        if self.kind != ChallengeKind::Altcha && (self.site_key.is_none() || self.secret.is_none()) {
            let why =
                format!("= {:?} needs admin.challenge.site_key and admin.challenge.secret", self.kind.text());
            f.wrong(&["kind"], |key| Problem::Invalid { key, why });
        }
    }
}

const MOST_ADDRESSES: usize = 10;

/// `[admin.tickets]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TicketSettings {
    /// The addresses that get a mail when a ticket waits for operators; none by default.
    pub mail_to: Vec<String>,
    /// The maximum number of tickets per tenant that are not closed.
    pub open: u32,
    /// The maximum total bytes of a tenant's attachments.
    pub attachment_bytes: u64,
    /// A command that checks each attached file from its standard input: 0 accepts it, 1 refuses it. Empty: no checks.
    pub scan: Vec<String>,
    /// The time limit of the command.
    pub scan_timeout: Duration,
}

impl Default for TicketSettings {
    fn default() -> Self {
        TicketSettings {
            mail_to: Vec::new(),
            open: 50,
            attachment_bytes: 100 * MIB,
            scan: Vec::new(),
            scan_timeout: 20 * SECOND,
        }
    }
}

impl Table for TicketSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("mail_to", &mut self.mail_to);
        f.number("open", &mut self.open, 1..=1_000);
        f.size("attachment_bytes", &mut self.attachment_bytes, 0..=1_024 * MIB);
        f.value("scan", &mut self.scan);
        f.duration("scan_timeout", &mut self.scan_timeout, SECOND..=60 * SECOND);
        let is_address = |text: &String| text.contains('@') && !text.contains(['\r', '\n']);
        if self.mail_to.len() > MOST_ADDRESSES || !self.mail_to.iter().all(is_address) {
            let why = format!("must be at most {MOST_ADDRESSES} mail addresses");
            f.wrong(&["mail_to"], |key| Problem::Invalid { key, why });
        }
        if self.scan.first().is_some_and(String::is_empty) {
            f.wrong(&["scan"], |key| Problem::Invalid { key, why: "must begin with a command".into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_ehlo_is_fully_qualified_or_an_address_literal() {
        for name in ["mail.example.com", "a.b", "[192.0.2.1]", "[IPv6:2001:db8::1]"] {
            assert!(is_hello(name), "{name}");
        }
        for name in
            ["", "host", ".", "a..b", "a.b ", "a.b\r\nMAIL", "[192.0.2]", "[2001:db8::1]", "192.0.2.1]"]
        {
            assert!(!is_hello(name), "{name}");
        }
    }
}
