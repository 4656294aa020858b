//! `[[chains.<path>.nodes]]`: one node of a chain.

use super::fields::{Fields, Listed, Table};
use super::method_names::methods;
use super::problem::Problem;
use super::reading::Reading;
use super::secret::Secret;
use super::tree::Item;
use super::url::Url;
use rpcgate_core::chain::{
    MAX_MONTHLY_CALLS, MAX_NODE_RATE, NodeAllowance, NodeMethods, NodePrice, NodeRate, OverBudget,
};
use rpcgate_core::url_secrets::may_be_key;
use std::collections::BTreeMap;
use std::path::PathBuf;

const HTTP: &[&str] = &["http", "https"];
const WS: &[&str] = &["ws", "wss"];
const GRPC: &[&str] = &["grpc", "grpcs", "http", "https"];
const ANY: &[&str] = &["http", "https", "ws", "wss", "grpc", "grpcs"];

/// The value of `network` that disables the network check.
pub const ANY_NETWORK: &str = "any";

const MAX_NETWORK: usize = 100;

pub(super) fn bad_network(name: &str) -> Option<&'static str> {
    let is_name = !name.is_empty() && name.len() <= MAX_NETWORK && !name.chars().any(char::is_control);
    (!is_name).then_some("must be the network as a node shows it, at most 100 characters, or \"any\"")
}

/// A node, with an address per protocol. As a string, it is one URL with the scheme `http(s)`, `ws(s)` or `grpc(s)`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeSettings {
    /// The URL for HTTP. User and password are moved to their own fields.
    pub url: Option<Url>,
    /// The URL for WebSocket connections.
    pub ws: Option<Url>,
    /// The URL for gRPC: without TLS with the scheme `grpc` or `http`, over TLS with `grpcs` or `https`.
    pub grpc: Option<Url>,
    /// The user for HTTP basic authentication, for all its URLs.
    pub user: Option<String>,
    /// The password for HTTP basic authentication.
    pub password: Option<Secret>,
    /// Headers of every request to it.
    pub headers: BTreeMap<String, Secret>,
    /// The maximum number of calls in one request; 1: no batches.
    pub max_batch: u32,
    /// The priority. Nodes with a higher number are used only if none with a lower one is healthy.
    pub priority: u32,
    /// The methods that it serves, by name or by family (`trace_*`). Empty: all.
    pub methods: Vec<String>,
    /// The methods that it does not serve, in the same form.
    pub except: Vec<String>,
    /// Keeps the states and blocks that others pruned. Used if these are unhealthy, do not serve a call, or lack data.
    pub archive: bool,
    /// The network that it must belong to, instead of the chain's; `any`: it is not asked.
    pub network: Option<String>,
    /// A PEM file of authorities that are trusted in addition to the public ones, instead of the chain's file.
    pub ca_file: Option<PathBuf>,
    /// The maximum calls per second from each gateway; unlimited if absent.
    pub rate_limit: Option<u32>,
    /// The maximum burst of calls; one second's calls if absent.
    pub rate_burst: Option<u32>,
    /// The maximum calls in a UTC calendar month; unlimited if absent.
    pub monthly_calls: Option<u64>,
    /// The policy beyond the monthly budget.
    pub over_budget: OverBudget,
    /// The price of a million calls, in a unit of the operator's choice; free if absent.
    pub price_per_million: Option<NodePrice>,
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
            network: None,
            ca_file: None,
            rate_limit: None,
            rate_burst: None,
            monthly_calls: None,
            over_budget: OverBudget::default(),
            price_per_million: None,
        }
    }
}

impl NodeSettings {
    /// Returns the methods that it serves.
    pub fn taken(&self) -> NodeMethods {
        NodeMethods::new(&self.methods, &self.except)
    }

    /// Returns its call limits and its price.
    pub fn allowance(&self) -> NodeAllowance {
        let rate = |per_second| NodeRate { per_second, burst: self.rate_burst.unwrap_or(per_second) };
        NodeAllowance {
            rate: self.rate_limit.map(rate),
            monthly_calls: self.monthly_calls,
            over_budget: self.over_budget,
            price: self.price_per_million,
        }
    }

    /// Returns the key of an invalid limit, and the reason.
    fn bad_allowance(&self) -> Option<(&'static str, String)> {
        let rates = [("rate_limit", self.rate_limit), ("rate_burst", self.rate_burst)];
        for (key, rate) in rates {
            if rate.is_some_and(|rate| !(1..=MAX_NODE_RATE).contains(&rate)) {
                return Some((key, format!("must be between 1 and {MAX_NODE_RATE}")));
            }
        }
        if self.rate_burst.is_some() && self.rate_limit.is_none() {
            return Some(("rate_burst", "needs a rate_limit beside it".into()));
        }
        let is_budget = |calls: u64| (1..=MAX_MONTHLY_CALLS).contains(&calls);
        if self.monthly_calls.is_some_and(|calls| !is_budget(calls)) {
            return Some(("monthly_calls", format!("must be between 1 and {MAX_MONTHLY_CALLS}")));
        }
        None
    }

    /// Moves user and password from the URLs to the fields. The error belongs to the returned key.
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

    /// Visits the user, which is a secret if it may be a key or has no password.
    fn user_field<F: Fields>(&mut self, f: &mut F) {
        let is_shown = |user: &str| self.password.is_some() && !may_be_key(user);
        if self.user.as_deref().is_some_and(is_shown) {
            f.value("user", &mut self.user);
        } else {
            let mut user = self.user.take().map(Secret::new);
            f.value("user", &mut user);
            self.user = user.map(|user| user.expose().to_owned());
        }
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
        self.user_field(f);
        f.value("password", &mut self.password);
        f.value("headers", &mut self.headers);
        f.number("max_batch", &mut self.max_batch, 1..=100);
        f.number("priority", &mut self.priority, 0..=1_000);
        f.value("methods", &mut self.methods);
        f.value("except", &mut self.except);
        f.value("archive", &mut self.archive);
        f.value("network", &mut self.network);
        f.value("ca_file", &mut self.ca_file);
        f.value("rate_limit", &mut self.rate_limit);
        f.value("rate_burst", &mut self.rate_burst);
        f.value("monthly_calls", &mut self.monthly_calls);
        f.word("over_budget", &mut self.over_budget);
        f.value("price_per_million", &mut self.price_per_million);
        methods(f, "methods", self.methods.iter(), true);
        methods(f, "except", self.except.iter(), true);
        if let Err((at, why)) = self.settle() {
            f.wrong(&[at], |key| Problem::Invalid { key, why });
        }
        if self.password.is_some() && self.user.is_none() {
            f.wrong(&["password"], |key| Problem::Invalid { key, why: "needs a user beside it".into() });
        }
        if let Some(why) = self.network.as_deref().and_then(bad_network) {
            f.wrong(&["network"], |key| Problem::Invalid { key, why: why.into() });
        }
        if let Some((at, why)) = self.bad_allowance() {
            f.wrong(&[at], |key| Problem::Invalid { key, why });
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
