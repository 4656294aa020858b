//! Another gateway's nodes as nodes of our file. No credential is copied: a URL with one becomes a variable.

use super::GatewayChecks;
use super::document::Node;
use super::draft::{Draft, Holds, TomlValue, chain_header};
use super::value::Given;
use rpcgate_config::Url;
use rpcgate_core::chain::{ChainName, MAX_NODE_RATE};
use rpcgate_core::tally::Transport;
use rpcgate_core::url_secrets::may_be_key;

/// A part of a path counts as a credential from this length on if it contains digits or capitals,
const CREDENTIAL: usize = 16;
/// and from this length on in any case.
const LONG: usize = 24;

pub(super) fn is_rate_limit(rate: u64) -> bool {
    (1..=u64::from(MAX_NODE_RATE)).contains(&rate)
}

/// A node, before it is written.
#[derive(Debug)]
pub(super) struct Upstream<'n> {
    pub(super) chain: ChainName,
    pub(super) name: String,
    pub(super) from: &'n Node,
    fields: Vec<(String, TomlValue, &'n Node)>,
    headers: Vec<(String, TomlValue)>,
}

impl<'n> Upstream<'n> {
    pub(super) fn new(chain: ChainName, name: &str, from: &'n Node) -> Self {
        Upstream { chain, name: name.to_owned(), from, fields: Vec::new(), headers: Vec::new() }
    }

    fn stem(&self, part: &str) -> String {
        format!("NODE_{}_{}_{part}", self.chain.as_str(), self.name)
    }

    fn push(&mut self, key: &str, value: TomlValue, from: &'n Node) {
        if self.fields.iter().all(|(known, _, _)| known != key) {
            self.fields.push((key.to_owned(), value, from));
        }
    }

    pub(super) fn number(&mut self, key: &str, number: u64, from: &'n Node) {
        self.push(key, TomlValue::Number(number), from);
    }

    /// Adds the URL at `node` for `key`: `url`, `ws` or `grpc`.
    pub(super) fn url(&mut self, draft: &mut Draft, key: &str, node: &'n Node) {
        let Some(text) = node.text() else { return };
        self.url_text(draft, key, text, node);
    }

    /// Adds a URL that was combined from several settings. Returns whether a variable has it.
    pub(super) fn url_text(&mut self, draft: &mut Draft, key: &str, text: &str, node: &'n Node) -> bool {
        let (schemes, holds, transport): (&[&str], _, _) = match key {
            "ws" => (&["ws", "wss"][..], Holds::WsUrl, Transport::Ws),
            "grpc" => (&["grpc", "grpcs", "http", "https"][..], Holds::GrpcUrl, Transport::Grpc),
            _ => (&["http", "https"][..], Holds::HttpUrl, Transport::Http),
        };
        let stem = self.stem(key);
        let value = match draft.form.read(text) {
            Given::Variable(name) => draft.variable(name, holds),
            Given::Mixed => {
                let text = "the URL of this line, with its variables replaced: rpcgate reads whole values from variables";
                draft.new_variable(&stem, holds, node, text)
            }
            Given::Text(text) if text.is_empty() => return false,
            Given::Text(text) => match usable(&text, schemes, transport, draft.checks) {
                Err(why) => {
                    draft.notes.left_out(node, format!("the URL {why}"));
                    return false;
                }
                Ok(()) if is_private(&text) => {
                    let text =
                        "the URL of this line, which is not copied because a part of it may be a credential";
                    draft.new_variable(&stem, holds, node, text)
                }
                Ok(()) => TomlValue::Text(text),
            },
        };
        let is_variable = matches!(value, TomlValue::Env(_));
        self.push(key, value, node);
        is_variable
    }

    /// Adds a variable for a URL that only its owner knows: a vendor's, for which the source has a shorthand.
    pub(super) fn url_to_set(&mut self, draft: &mut Draft, node: &'n Node, text: &str) {
        let value = draft.new_variable(&self.stem("url"), Holds::HttpUrl, node, text);
        self.push("url", value, node);
    }

    pub(super) fn login(&mut self, draft: &mut Draft, user: Option<&'n Node>, password: Option<&'n Node>) {
        let given = |node: &&Node| node.peek().is_some_and(|text| !text.is_empty());
        let Some(user) = user.filter(given) else { return };
        let Some(text) = user.text() else { return };
        match draft.form.read(text) {
            Given::Text(text) => self.push("user", TomlValue::Text(text), user),
            Given::Variable(_) | Given::Mixed => {
                let text =
                    "our user is a text in the file, not a variable: write it there, with its password";
                draft.notes.left_out(user, text);
                if let Some(password) = password {
                    draft.notes.left_out(password, "it needs its user beside it");
                }
                return;
            }
        }
        if let Some(password) = password.filter(given)
            && let Some(value) = draft.secret(password, &self.stem("password"), "the password")
        {
            self.push("password", value, password);
        }
    }

    pub(super) fn bearer(&mut self, draft: &mut Draft, token: &Node) {
        if token.text().is_some_and(|text| !text.is_empty()) {
            let text = "Bearer, a blank and the token of this line, which is not copied";
            let value = draft.new_variable(&self.stem("authorization"), Holds::Word, token, text);
            self.header_value("authorization", value);
        }
    }

    pub(super) fn authorities(&mut self, draft: &mut Draft, node: Option<&'n Node>) {
        let Some(from) = node.filter(|node| node.peek().is_some_and(|text| !text.is_empty())) else { return };
        if let Some(file) = draft.plain(Some(from), "ca_file of the node") {
            self.push("ca_file", TomlValue::Text(file), from);
        }
    }

    pub(super) fn methods(&mut self, methods: Vec<String>, from: &'n Node) {
        self.push("methods", TomlValue::Texts(methods), from);
    }

    pub(super) fn header(&mut self, draft: &mut Draft, name: &str, node: &Node) {
        let stem = self.stem(name);
        if let Some(value) = draft.secret(node, &stem, "the value of the header") {
            self.header_value(name, value);
        }
    }

    pub(super) fn header_value(&mut self, name: &str, value: TomlValue) {
        let name = name.to_lowercase();
        if self.headers.iter().all(|(known, _)| *known != name) {
            self.headers.push((name, value));
        }
    }

    /// Writes the node, unless another has the same address already.
    pub(super) fn add(self, draft: &mut Draft) {
        let Upstream { chain, name, from, fields, headers } = self;
        let address = |key: &str| fields.iter().find(|(known, ..)| known == key).map(|(_, value, _)| value);
        let addresses: Vec<_> = ["url", "ws", "grpc"].iter().filter_map(|key| address(key)).collect();
        if addresses.is_empty() {
            draft.notes.left_out(from, "it has no address that rpcgate can use");
            return;
        }
        let header = format!("{}.nodes", chain_header(chain));
        let same = draft.sections.iter().any(|section| {
            section.repeated
                && section.header == header
                && section.assignments.iter().any(|one| addresses.contains(&&one.value))
        });
        if same {
            draft.notes.left_out(from, "the chain has a node with this address already");
            return;
        }
        let section = draft.repeated(header, from, name);
        for (key, value, from) in fields {
            section.set(&key, value, from);
        }
        if !headers.is_empty() {
            section.set("headers", TomlValue::Pairs(headers), from);
        }
    }
}

/// Checks that the configuration and then the pool of nodes can use the URL. The error is the end of a sentence.
fn usable(url: &str, schemes: &[&str], transport: Transport, checks: GatewayChecks) -> Result<(), String> {
    Url::parse(url, schemes)?;
    (checks.node_url)(url, transport).map_err(|error| format!("cannot be used: {error}"))
}

/// Reports whether a part of the URL may be a credential: a log-in, a parameter, or a long part of the path.
fn is_private(url: &str) -> bool {
    let (_, rest) = url.split_once("//").unwrap_or(("", url));
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let mixed = |part: &str| part.bytes().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
    let secret = |part: &str| match part.len() {
        ..CREDENTIAL => may_be_key(part),
        CREDENTIAL..LONG => mixed(part),
        LONG.. => true,
    };
    authority.contains('@')
        || path.contains('?')
        || path.contains('=')
        || path.split(['/', ';', ',', '=', '&']).any(secret)
        || authority.split(['.', ':']).any(|part| part.len() >= LONG && mixed(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_private_if_a_part_may_be_a_credential() {
        for (url, private) in [
            ("http://10.0.0.1:8545", false),
            ("https://eth-mainnet-archive.example.com:443/rpc/v1", false),
            ("https://rpc.example.com/ethereum-mainnet/full", false),
            ("https://rpc.example.com/abcdefghijklmnopqrstuvwxyz", true),
            ("http://user:pass@h/", true),
            ("http://user@h/", true),
            ("https://h/v3/fa28c968191849c1aff541ad1d8511f2", true),
            ("https://h/v2/a1B2c3D4", true),
            ("https://h/key=planted/rpc", true),
            ("https://h/?apikey=x", true),
            ("https://0a1b2c3d4e5f60718293a4b5c6d7e8f9.node.example/", true),
        ] {
            assert_eq!(is_private(url), private, "{url}");
        }
    }
}
