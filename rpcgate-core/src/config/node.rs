//! `[[chains.<path>.nodes]]`: one node of a chain.

use super::fields::{Fields, Listed, Table};
use super::method_names::methods;
use super::problem::Problem;
use super::reading::Reading;
use super::secret::Secret;
use super::tree::Item;
use super::url::Url;
use crate::chain::NodeMethods;
use std::collections::BTreeMap;

const HTTP: &[&str] = &["http", "https"];
const WS: &[&str] = &["ws", "wss"];
const GRPC: &[&str] = &["grpc", "grpcs", "http", "https"];
const ANY: &[&str] = &["http", "https", "ws", "wss", "grpc", "grpcs"];

/// A node, with an address for each protocol that it accepts. Written as a string, it is one URL whose scheme names the
/// protocol: `http(s)`, `ws(s)` or `grpc(s)`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeSettings {
    /// The URL for HTTP; user and password are moved to the fields with those names.
    pub url: Option<Url>,
    /// The URL for WebSocket connections.
    pub ws: Option<Url>,
    /// The URL for gRPC: without TLS with the scheme `grpc` or `http`, over TLS with `grpcs` or `https`.
    pub grpc: Option<Url>,
    /// The user for HTTP basic authentication, at all its URLs.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// Headers that every request to it carries.
    pub headers: BTreeMap<String, Secret>,
    /// The most calls that it accepts in one request; 1: no batches.
    pub max_batch: u32,
    /// Nodes with a lower number are used first, those with a higher one if no other is healthy.
    pub priority: u32,
    /// Methods that it takes, by name or by family (`trace_*`); empty: all.
    pub methods: Vec<String>,
    /// Methods that it does not take, in the same form.
    pub except: Vec<String>,
    /// Whether it keeps the states and blocks that others have pruned. It is used when the others are not healthy, do not
    /// take a call, or say that they no longer have what was asked for.
    pub archive: bool,
}

impl Default for NodeSettings {
    fn default() -> Self {
        NodeSettings {
            url: None,
            ws: None,
            grpc: None,
            user: None,
            password: None,
            headers: BTreeMap::new(),
            max_batch: 100,
            priority: 0,
            methods: Vec::new(),
            except: Vec::new(),
            archive: false,
        }
    }
}

impl NodeSettings {
    /// The methods that it takes.
    pub fn taken(&self) -> NodeMethods {
        NodeMethods::new(&self.methods, &self.except)
    }

    /// Moves user and password out of the URLs, so that they are in one place. The error is that of the named key.
    fn settle(&mut self) -> Result<(), (&'static str, String)> {
        for (key, url) in [("url", &mut self.url), ("ws", &mut self.ws), ("grpc", &mut self.grpc)] {
            let Some(url) = url else { continue };
            let Some((user, password)) = url.take_login().map_err(|why| (key, why))? else {
                continue;
            };
            let password = (!password.expose().is_empty()).then_some(password);
            if self.user.is_none() && self.password.is_none() {
                (self.user, self.password) = (Some(user), password);
            } else if self.user.as_ref() != Some(&user) || self.password != password {
                return Err((key, "has another user or password than the node has elsewhere".into()));
            }
        }
        Ok(())
    }

    fn bad_header(&self) -> Option<&str> {
        let sound = |name: &str, value: &Secret| {
            name.parse::<http::HeaderName>().is_ok() && value.expose().parse::<http::HeaderValue>().is_ok()
        };
        self.headers.iter().find(|(name, value)| !sound(name, value)).map(|(name, _)| name.as_str())
    }
}

impl Table for NodeSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.url("url", &mut self.url, HTTP);
        f.url("ws", &mut self.ws, WS);
        f.url("grpc", &mut self.grpc, GRPC);
        f.value("user", &mut self.user);
        f.value("password", &mut self.password);
        f.value("headers", &mut self.headers);
        f.number("max_batch", &mut self.max_batch, 1..=100);
        f.number("priority", &mut self.priority, 0..=1_000);
        f.value("methods", &mut self.methods);
        f.value("except", &mut self.except);
        f.value("archive", &mut self.archive);
        methods(f, "methods", self.methods.iter(), true);
        methods(f, "except", self.except.iter(), true);
        if let Err((at, why)) = self.settle() {
            f.wrong(&[at], |key| Problem::Invalid { key, why });
        }
        if self.password.is_some() && self.user.is_none() {
            f.wrong(&["password"], |key| Problem::Invalid { key, why: "needs a user beside it".into() });
        }
        if let Some(name) = self.bad_header() {
            let why = format!("has a name or value that HTTP does not allow: {name:?}");
            f.wrong(&["headers"], |key| Problem::Invalid { key, why });
        }
    }
}

impl Listed for NodeSettings {
    fn from_text(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        let url = Url::read(item, r, ANY)?;
        let mut node = NodeSettings::default();
        let slot = match url.scheme() {
            "ws" | "wss" => &mut node.ws,
            "grpc" | "grpcs" => &mut node.grpc,
            _ => &mut node.url,
        };
        *slot = Some(url);
        match node.settle() {
            Ok(()) => Some(node),
            Err((_, why)) => r.invalid(item, why),
        }
    }
}
