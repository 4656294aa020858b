//! Reads the routes of Kong's services: the paths that clients call, and the paths that Kong sends to nodes.

use super::document::Node;
use super::draft::Draft;
use super::value;
use rpcgate_core::chain::Facts;
use rpcgate_core::tally::Transport;

/// Punctuation that a regular expression matches literally.
const LITERAL: &[char] = &['/', '-', '_'];

pub(super) fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::peek)
}

/// Returns the routes of a service: those in it, and those that name it.
pub(super) fn routes<'n>(root: &'n Node, service: &'n Node) -> impl Iterator<Item = &'n Node> {
    let name = text(service, "name");
    let id = text(service, "id");
    let named = move |route: &&Node| {
        let of = route.get("service");
        let of = of.and_then(|of| of.peek().or_else(|| text(of, "name")).or_else(|| text(of, "id")));
        of.is_some() && (of == name || of == id)
    };
    service.list("routes").iter().chain(root.list("routes").iter().filter(named))
}

/// Notes a path that is not ours, and changes by Kong to a request that rpcgate does not make.
pub(super) fn read_route(route: &Node, facts: &Facts, transport: Transport, draft: &mut Draft) {
    route.settle_keys(&["name"]);
    route.use_keys(&["service"]);
    let chain = facts.name;
    let ours = if transport == Transport::Ws { format!("/ws/{chain}") } else { format!("/{chain}") };
    for path in route.list("paths") {
        let is_ours = |text: &str| match transport {
            Transport::Grpc => is_grpc_path(text, facts),
            _ => bare(text) == ours,
        };
        let is_ours = path.text().is_some_and(is_ours);
        if transport == Transport::Grpc || !is_ours {
            path.settle();
        }
        if is_ours {
            continue;
        }
        let text = match transport {
            Transport::Grpc => "clients call the paths of the methods instead, without a prefix".to_owned(),
            _ => format!("clients call {ours} instead: the path of a chain is fixed"),
        };
        draft.notes.differs(path, text);
    }
    read_protocols(route, draft);
    read_methods(route, facts, draft);
    if let Some(node) = route.get("preserve_host")
        && node.text().and_then(value::flag) == Some(true)
    {
        draft
            .notes
            .differs(node, "rpcgate sends a node the host of its URL, not the one that the client sent");
    }
    let given = |key: &str| route.get(key).filter(|node| !node.is_nothing());
    if let Some(node) = given("path_handling")
        && node.text() != Some("v0")
    {
        draft
            .notes
            .differs(node, "rpcgate joins the path of a node's URL and that of a call by one slash, as v0");
        node.settle();
    }
    // Kong's own answer to a call without TLS.
    if let Some(node) = given("https_redirect_status_code")
        && node.text() != Some("426")
    {
        draft.notes.left_out(node, "rpcgate redirects no call: a listener serves HTTP or HTTPS");
    }
    for node in ["request_buffering", "response_buffering"].into_iter().filter_map(given) {
        if node.text().and_then(value::flag) == Some(false) {
            draft
                .notes
                .differs(node, "rpcgate decides itself what it reads as a whole before it passes it on");
        }
    }
}

/// Notes protocols that rpcgate does not serve, and a route for TLS alone.
fn read_protocols(route: &Node, draft: &mut Draft) {
    let Some(node) = route.get("protocols") else { return };
    for item in node.items() {
        if !matches!(item.text(), Some("http" | "https" | "ws" | "wss" | "grpc" | "grpcs")) {
            draft.notes.left_out(item, "rpcgate serves HTTP, WebSocket and gRPC alone");
        }
    }
    if !node.items().iter().any(|item| matches!(item.peek(), Some("http" | "ws" | "grpc"))) {
        draft.notes.differs(node, "a listener serves HTTP or HTTPS for all chains: gateway.tls");
    }
}

/// Notes HTTP methods that the chain does not have: a JSON-RPC chain is called by POST.
fn read_methods(route: &Node, facts: &Facts, draft: &mut Draft) {
    let Some(node) = route.get("methods").filter(|node| !node.is_nothing()) else { return };
    node.use_all();
    if facts.rest || node.items().iter().all(|item| item.peek() != Some("POST")) {
        let text =
            "the methods of HTTP follow from the chain's calls; chains.<chain>.blocked_methods closes calls";
        draft.notes.differs(node, text);
        node.settle();
    }
}

/// Returns the path of a route without regular expression marks and without a trailing slash.
fn bare(path: &str) -> &str {
    path.trim_start_matches(['~', '^']).trim_end_matches(['$', '/'])
}

/// Reports whether the path is the prefix of a service in the chain's gRPC packages, or of all calls.
fn is_grpc_path(path: &str, facts: &Facts) -> bool {
    let name = bare(path).trim_start_matches('/');
    let is_in = |package: &str| {
        name.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
    };
    name.is_empty() || facts.grpc.iter().any(|package| is_in(package))
}

/// The path below a service's own that Kong sends to its nodes for calls of a route, and the setting behind it.
pub(super) struct SentPath<'n> {
    /// Without a trailing slash; empty if Kong removes the path of the route.
    pub(super) path: String,
    pub(super) from: &'n Node,
}

/// Returns the path below the service's own for a node. A node has one path, so a route with another is noted.
pub(super) fn sent_path<'n>(
    root: &'n Node,
    service: &'n Node,
    facts: &Facts,
    transport: Transport,
    draft: &mut Draft,
) -> Option<SentPath<'n>> {
    let mut sent = Vec::new();
    for route in routes(root, service) {
        let strip = route.get("strip_path");
        let kept = strip.filter(|strip| strip.peek().and_then(value::flag) == Some(false));
        let kept = kept.filter(|_| transport != Transport::Grpc);
        let paths = || route.list("paths").iter().filter(|node| !bare(node.peek().unwrap_or("/")).is_empty());
        let Some(strip) = kept.filter(|_| paths().next().is_some()) else {
            if let Some(strip) = strip {
                if transport == Transport::Grpc || paths().next().is_none() {
                    // There is no path that Kong could remove.
                    strip.settle();
                } else {
                    strip.text();
                }
            }
            sent.extend(paths().map(|from| SentPath { path: String::new(), from }));
            continue;
        };
        strip.text();
        for given in paths().filter_map(Node::peek) {
            match below(given, facts) {
                Some(path) => sent.push(SentPath { path, from: strip }),
                None => {
                    let text =
                        "Kong sends the path that a call matches to the node: write it into the node's URL";
                    draft.notes.differs(strip, text);
                }
            }
        }
    }
    let mut sent = sent.into_iter();
    let first = sent.next()?;
    let shown = |path: &str| {
        if path.is_empty() { "the path of the service alone".to_owned() } else { path.to_owned() }
    };
    for other in sent.filter(|other| other.path != first.path) {
        let text = format!(
            "Kong sends {} to the node for this route; a node has one path here, and it is {}",
            shown(&other.path),
            shown(&first.path)
        );
        draft.notes.differs(other.from, text);
    }
    (!first.path.is_empty()).then_some(first)
}

/// Returns the suffix that a node's URL needs so that calls reach the same path as through a route that keeps `path`;
/// `None` for a regular expression that matches several paths.
fn below(path: &str, facts: &Facts) -> Option<String> {
    let is_literal = |c: char| c.is_ascii_alphanumeric() || LITERAL.contains(&c);
    let is_expression = path.starts_with('~');
    let path = bare(path);
    if is_expression && !path.chars().all(is_literal) {
        return None;
    }
    // In a REST call the rest of the path, after the chain's own, is sent to the node below its URL.
    let own = format!("/{}", facts.name);
    let is_below = |path: &str| path.strip_prefix(&own).is_some_and(|rest| rest.starts_with('/'));
    Some(if facts.rest && is_below(path) { own } else { path.to_owned() })
}
