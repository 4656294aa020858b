//! `demo.json`: everything that a program needs to use a ready demo.

use super::account::Account;
use super::dir::{Dir, DirError};
use super::login::SignedIn;
use rpcgate_config::{Config, NodeSettings};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The file's name in the demo's folder.
pub const FILE: &str = "demo.json";

/// The content of `demo.json`. A service that does not run is null.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Sheet {
    pub(super) gateway: String,
    /// The base URL of streams.
    pub(super) ws: String,
    pub(super) streams: Vec<String>,
    /// The URL of gRPC, without a path.
    pub(super) grpc: Option<String>,
    /// The CA certificate that gRPC clients must trust; `None` for a public one.
    pub(super) grpc_ca: Option<String>,
    pub(super) admin: String,
    /// The URL of the dashboard, without a trailing slash.
    pub(super) dashboard: String,
    pub(super) owner: SignedIn,
    pub(super) operator: SignedIn,
    /// The mail folder; `None` if a server delivers mails.
    pub(super) outbox: Option<String>,
    pub(super) tenant_id: String,
    pub(super) project_id: String,
    pub(super) key_id: String,
    pub(super) api_key: String,
    /// The URL of each chain's first node, including user and password, so that it can be used.
    pub(super) nodes: Vec<(String, String)>,
}

impl std::fmt::Debug for Sheet {
    /// The key and the nodes' passwords are left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sheet").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Addresses {
    pub(super) gateway: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) grpc: Option<SocketAddr>,
    /// The file of the certificate that gRPC clients must trust; `None` for a public one.
    pub(super) grpc_ca: Option<String>,
}

impl Sheet {
    /// Builds the sheet of a demo that serves `config` at these addresses, for the holder of `account`.
    pub(super) fn new(config: &Config, addresses: Addresses, account: &Account) -> Sheet {
        let tls = if config.gateway.tls.covers_http() { "s" } else { "" };
        let gateway = reachable(addresses.gateway);
        let nodes = config.chains.iter().filter(|(_, chain)| chain.enabled);
        let streams = nodes.clone().filter(|(_, chain)| chain.nodes.iter().any(|node| node.ws.is_some()));
        Sheet {
            gateway: format!("http{tls}://{gateway}"),
            ws: format!("ws{tls}://{gateway}"),
            streams: streams.map(|(name, _)| name.clone()).collect(),
            grpc_ca: addresses.grpc_ca.filter(|_| addresses.grpc.is_some()),
            grpc: addresses.grpc.map(|grpc| format!("https://{}", reachable(grpc))),
            admin: format!("{}://{}", admin_scheme(config), reachable(addresses.admin)),
            dashboard: dashboard(config, addresses.admin),
            owner: account.owner.clone(),
            operator: account.operator.clone(),
            outbox: config.admin.mail.smtp.is_none().then(|| absolute(&config.admin.mail.outbox)),
            tenant_id: account.tenant.to_string(),
            project_id: account.project.to_string(),
            key_id: account.key.to_string(),
            api_key: account.api_key.clone(),
            nodes: nodes
                .filter_map(|(name, chain)| Some((name.clone(), chain.nodes.iter().find_map(usable)?)))
                .collect(),
        }
    }

    /// Writes it to `dir`. From then on programs may call.
    pub(super) fn publish(&self, dir: &Dir) -> Result<(), DirError> {
        dir.write(FILE, format!("{:#}\n", self.json()))
    }

    fn json(&self) -> Value {
        let nodes: Map<_, _> = self.nodes.iter().map(|(chain, url)| (chain.clone(), json!(url))).collect();
        json!({
            "gateway": self.gateway,
            "ws": self.ws,
            "grpc": self.grpc,
            "grpc_ca": self.grpc_ca,
            "admin": self.admin,
            "dashboard": format!("{}/", self.dashboard),
            "email": self.owner.email,
            "password": self.owner.password,
            "tenant_id": self.tenant_id,
            "project_id": self.project_id,
            "key_id": self.key_id,
            "api_key": self.api_key,
            "operator": { "email": self.operator.email, "password": self.operator.password },
            "nodes": nodes,
            "outbox": self.outbox,
            "pid": std::process::id(),
        })
    }
}

/// Returns the address at which this machine reaches a listener: the loopback address if it listens on all addresses.
pub(super) fn reachable(addr: SocketAddr) -> SocketAddr {
    let mut reachable = addr;
    if addr.ip().is_unspecified() {
        reachable.set_ip(if addr.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    reachable
}

/// Returns the URL of the dashboard without a trailing slash: the configured one, or else a name for the listen address
/// of the management side, if it has one. Browsers create passkeys only for names.
pub(super) fn dashboard(config: &Config, admin: SocketAddr) -> String {
    let admin = reachable(admin);
    match &config.admin.dash_url {
        Some(url) => url.expose().trim_end_matches('/').to_owned(),
        None if admin.ip() == Ipv4Addr::LOCALHOST => {
            format!("{}://localhost:{}", admin_scheme(config), admin.port())
        }
        None => format!("{}://{admin}", admin_scheme(config)),
    }
}

fn admin_scheme(config: &Config) -> &'static str {
    if config.admin.tls.is_served() { "https" } else { "http" }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).as_deref().unwrap_or(path).display().to_string()
}

/// Returns the HTTP URL of a node, or else its WebSocket URL, including user and password.
fn usable(node: &NodeSettings) -> Option<String> {
    let url = node.url.as_ref().or(node.ws.as_ref())?.expose();
    let (Some(user), Some((scheme, rest))) = (&node.user, url.split_once("://")) else {
        return Some(url.to_owned());
    };
    let password = node.password.as_ref().map(|password| format!(":{}", escaped(password.expose())));
    Some(format!("{scheme}://{}{}@{rest}", escaped(user), password.unwrap_or_default()))
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::{Input, Setting};
    use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
    use rpcgate_core::plan::Tier;

    fn config(settings: &[(&str, &str)]) -> Config {
        let base: Vec<_> = settings.iter().map(|(path, value)| Setting::new("test", *path, *value)).collect();
        Config::read(&Input { chains: &["btc", "eth", "bsc"], base: &base, ..Input::default() }).unwrap()
    }

    #[test]
    fn every_field_is_present_and_null_if_not_served() {
        let config = config(&[
            ("chains.eth.nodes", "http://h:1"),
            ("chains.btc.nodes", "http://us%20er:p%40ss@h:2/wallet,http://h:3"),
            ("chains.bsc.nodes", "http://h:4"),
            ("chains.bsc.enabled", "false"),
            ("admin.mail.outbox", "/a/mails"),
        ]);
        let elsewhere = self::config(&[("admin.dash_url", "https://dash.example.com/app/")]);
        assert_eq!(dashboard(&elsewhere, "127.0.0.1:81".parse().unwrap()), "https://dash.example.com/app");
        let access = |email: &str| SignedIn { email: email.to_owned(), password: format!("of {email}") };
        let account = Account {
            tenant: TenantId(1),
            project: ProjectId(2),
            key: KeyId(3),
            api_key: "a-key".into(),
            tier: Tier::Free,
            owner: access("a@h"),
            operator: access("b@h"),
        };
        let addresses = Addresses {
            gateway: "0.0.0.0:80".parse().unwrap(),
            admin: "[::]:81".parse().unwrap(),
            grpc: Some("127.0.0.1:82".parse().unwrap()),
            grpc_ca: Some("/d/ca.pem".into()),
        };
        let whole = Sheet::new(&config, addresses.clone(), &account);
        assert!(!format!("{whole:?} {account:?} {:?}", whole.owner).contains("of a@h"));
        let sheet = whole.json();
        let mut names: Vec<_> = sheet.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "admin",
                "api_key",
                "dashboard",
                "email",
                "gateway",
                "grpc",
                "grpc_ca",
                "key_id",
                "nodes",
                "operator",
                "outbox",
                "password",
                "pid",
                "project_id",
                "tenant_id",
                "ws"
            ]
        );
        assert_eq!(sheet["gateway"], "http://127.0.0.1:80");
        assert_eq!(sheet["admin"], "http://[::1]:81");
        assert_eq!((&sheet["email"], &sheet["password"]), (&json!("a@h"), &json!("of a@h")));
        assert_eq!(sheet["operator"], json!({ "email": "b@h", "password": "of b@h" }));
        assert_eq!(sheet["outbox"], "/a/mails");
        assert_eq!(sheet["api_key"], "a-key");
        for (name, number) in [("tenant_id", 1), ("project_id", 2), ("key_id", 3)] {
            assert_eq!(sheet[name], format!("00000000-0000-0000-0000-00000000000{number}"));
        }
        assert_eq!(sheet["pid"], std::process::id());
        let nodes = json!({ "eth": "http://h:1", "btc": "http://us%20er:p%40ss@h:2/wallet" });
        assert_eq!(sheet["nodes"], nodes);
        assert_eq!(
            (&sheet["grpc"], &sheet["grpc_ca"]),
            (&json!("https://127.0.0.1:82"), &json!("/d/ca.pem"))
        );
        assert_eq!(
            (&sheet["ws"], &sheet["dashboard"]),
            (&json!("ws://127.0.0.1:80"), &json!("http://[::1]:81/"))
        );
        let named = Addresses { admin: "0.0.0.0:81".parse().unwrap(), ..addresses.clone() };
        let named = Sheet::new(&config, named, &account).json();
        assert_eq!(
            (&named["admin"], &named["dashboard"]),
            (&json!("http://127.0.0.1:81"), &json!("http://localhost:81/")),
            "browsers make passkeys for names alone"
        );
        let without = Sheet::new(&config, Addresses { grpc: None, ..addresses }, &account).json();
        assert!(without["grpc"].is_null() && without["grpc_ca"].is_null());
    }

    #[test]
    fn mails_that_a_server_takes_are_in_no_outbox() {
        let access = SignedIn { email: "a@h".into(), password: "p".into() };
        let account = Account {
            tenant: TenantId(1),
            project: ProjectId(2),
            key: KeyId(3),
            api_key: "a-key".into(),
            tier: Tier::Free,
            owner: access.clone(),
            operator: access,
        };
        let addr = "127.0.0.1:80".parse().unwrap();
        let addresses = Addresses { gateway: addr, admin: addr, grpc: None, grpc_ca: None };
        let outbox = |settings: &[(&str, &str)]| {
            Sheet::new(&config(settings), addresses.clone(), &account).json()["outbox"].clone()
        };
        assert!(outbox(&[("admin.mail.smtp", "smtp://h:25")]).is_null());
        let reported = outbox(&[("admin.mail.outbox", "here")]);
        assert!(Path::new(reported.as_str().unwrap()).is_absolute(), "{reported}");
    }

    #[test]
    fn ipv6_addresses_make_urls() {
        assert_eq!(reachable("[::]:80".parse().unwrap()).to_string(), "[::1]:80");
        assert_eq!(reachable("[2001:db8::1]:80".parse().unwrap()).to_string(), "[2001:db8::1]:80");
    }
}
