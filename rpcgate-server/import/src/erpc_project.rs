//! Reads the projects of eRPC's configuration: callers, networks and upstreams.

use super::accounts::Accounts;
use super::document::Node;
use super::draft::{Draft, TomlValue, chain_header, duration};
use super::erpc_budgets::{Budget, Budgets};
use super::networks;
use super::nodes::Upstream;
use super::note::NoteKind;
use super::value::{self, Given};
use rpcgate_core::chain::ChainName;

struct Context<'c, 'n> {
    budgets: &'c Budgets<'n>,
    max_timeout: Option<&'n Node>,
    given_chain: Option<ChainName>,
    accounts: Accounts,
}

pub(super) fn read_all<'n>(
    projects: &'n [Node],
    given_chain: Option<ChainName>,
    budgets: &Budgets<'n>,
    max_timeout: Option<&'n Node>,
    draft: &mut Draft,
) {
    let mut context = Context { budgets, max_timeout, given_chain, accounts: Accounts::default() };
    if projects.len() > 1 {
        let text = "rpcgate has one pool of nodes for each chain, which all projects share";
        draft.notes.differs(&projects[1], text);
    }
    for project in projects {
        context.read(project, draft);
    }
}

impl<'n> Context<'_, 'n> {
    fn read(&mut self, project: &'n Node, draft: &mut Draft) {
        let id = draft.label(project.get("id")).unwrap_or_else(|| "imported".to_owned());
        // It names the project of the keys, if there are any.
        project.settle_keys(&["id"]);
        self.callers(&id, project, draft);
        let networks = self.networks(project, draft);
        for upstream in project.list("upstreams") {
            self.upstream(upstream, project, &networks, draft);
        }
        for provider in project.list("providers") {
            self.provider(provider, &networks, draft);
        }
    }

    /// Reads the project's keys, limits and lists of methods.
    fn callers(&mut self, id: &str, project: &'n Node, draft: &mut Draft) {
        let shared = self.budgets.named(project.get("rateLimitBudget"), draft).unwrap_or_default();
        let strategies = project.get("auth").map_or(&[][..], |auth| auth.list("strategies"));
        let mut keys = 0;
        for strategy in strategies {
            let secret = strategy.get("secret");
            let (Some("secret"), Some(secret)) = (strategy.get("type").and_then(Node::peek), secret) else {
                continue;
            };
            let Some(value) = secret.get("value") else { continue };
            strategy.get("type").and_then(Node::text);
            let own = secret.get("rateLimitBudget").or_else(|| strategy.get("rateLimitBudget"));
            let own = self.budgets.named(own, draft).unwrap_or_default();
            let windows = shared.windows.and(own.windows);
            let name = draft.label(secret.get("id")).unwrap_or_else(|| format!("{id}-key"));
            let ours = self.accounts.project(draft, id, windows, secret);
            if let Some(second) = own.second {
                let text = "requests per second belong to a project, and all keys of this project share them";
                draft.notes.differs(strategy, text);
                draft.set(&format!("projects.{ours}"), "rps_limit", TomlValue::Number(second), secret);
            }
            if let Some(text) = value.text() {
                self.accounts.key(draft, &name, &ours, text, value);
            }
            keys += 1;
        }
        if keys == 0 {
            let text = "rpcgate serves nobody without a key: add keys to the file, or run rpcgate-admin; see docs/moving.md";
            draft.notes.add(NoteKind::Differs, project.at, &project.path, text);
        } else {
            let text = "clients send their key as `apikey` or `x-api-key` (header or query), not as `secret`, and call \
                        /<chain> instead of /<project>/evm/<id>";
            draft.notes.add(NoteKind::Differs, project.at, &project.path, text);
        }
        let lists = method_lists(project, draft);
        if shared == Budget::default() && lists.is_empty() {
            return;
        }
        let first = self.accounts.project(draft, id, shared.windows, project);
        let mut ours: Vec<String> = self.accounts.projects_of(id).map(str::to_owned).collect();
        ours.retain(|name| *name != first);
        ours.push(first);
        for name in ours {
            let header = format!("projects.{name}");
            if let Some(second) = shared.second
                && draft.get(&header, "rps_limit").is_none()
            {
                draft.set(&header, "rps_limit", TomlValue::Number(second), project);
            }
            for (key, methods, node) in &lists {
                draft.set(&header, key, TomlValue::Texts(methods.clone()), node);
            }
        }
    }

    fn networks(&self, project: &'n Node, draft: &mut Draft) -> Vec<ChainName> {
        let mut found = Vec::new();
        for network in project.list("networks") {
            let Some(chain) = self.network(network, draft) else { continue };
            if !found.contains(&chain) {
                found.push(chain);
            }
            let defaults = project.get("networkDefaults");
            let own = timeout(network).or_else(|| defaults.and_then(timeout));
            self.set_timeout(chain, own, draft);
            if let Some(depth) =
                draft.number(network.at_keys(&["evm", "fallbackFinalityDepth"]), "final_depth")
                && let Some(node) = network.at_keys(&["evm", "fallbackFinalityDepth"])
            {
                draft.set(&chain_header(chain), "final_depth", TomlValue::Number(depth), node);
            }
        }
        found
    }

    fn network(&self, network: &'n Node, draft: &mut Draft) -> Option<ChainName> {
        let architecture = network.get("architecture");
        let chain = match architecture.and_then(Node::peek) {
            Some("svm") => solana(network.get("svm")),
            Some("evm") | None => evm(network.get("evm"), draft),
            Some(_) => Some(Err("rpcgate knows the architectures evm and svm alone".into())),
        };
        match chain {
            Some(Ok(chain)) => {
                architecture.and_then(Node::text);
                Some(chain)
            }
            Some(Err(why)) => {
                draft.notes.left_out(network, why);
                None
            }
            None => None,
        }
    }

    fn set_timeout(&self, chain: ChainName, own: Option<&Node>, draft: &mut Draft) {
        let Some(node) = own.or(self.max_timeout) else { return };
        let header = chain_header(chain);
        if draft.get(&header, "timeout").is_none()
            && let Some(millis) = draft.millis(Some(node), &format!("{header}.timeout"), 1)
        {
            draft.set(&header, "timeout", duration(millis), node);
        }
    }

    fn upstream(&self, upstream: &'n Node, project: &'n Node, networks: &[ChainName], draft: &mut Draft) {
        let Some(endpoint) = upstream.get("endpoint") else {
            draft.notes.left_out(upstream, "it has no endpoint");
            return;
        };
        let given = match upstream.get("type").and_then(Node::peek) {
            Some(kind) if kind.starts_with("svm") => solana(upstream.get("svm")),
            Some(kind) if kind != "evm" && !kind.starts_with("evm+") => {
                Some(Err("rpcgate knows the types evm and svm alone".into()))
            }
            _ => evm(upstream.get("evm"), draft),
        };
        let given = match given {
            Some(Err(why)) => {
                draft.notes.left_out(upstream, why);
                return;
            }
            Some(Ok(chain)) => Some(chain),
            None => self.given_chain,
        };
        let Some(text) = endpoint.peek() else { return };
        let scheme = text.split("://").next().unwrap_or_default();
        let scheme = scheme.strip_prefix("evm+").unwrap_or(scheme);
        let vendor =
            text.contains("://") && !matches!(scheme, "http" | "https" | "ws" | "wss" | "grpc" | "grpcs");
        let chains: Vec<ChainName> = match given {
            Some(chain) => vec![chain],
            // A vendor's nodes serve all networks of the project; others serve one, which eRPC queries from them.
            None if vendor => networks.to_vec(),
            None => match networks {
                [one] => vec![*one],
                _ => networks::by_words(text).into_iter().collect(),
            },
        };
        if chains.is_empty() {
            let text =
                "its network is not in the file: say which chain it serves with evm.chainId, or with --chain";
            draft.notes.left_out(upstream, text);
            return;
        }
        let name = draft.label(upstream.get("id")).unwrap_or_else(|| "node".to_owned());
        if let Some(kind) = upstream.get("type") {
            kind.text();
        }
        let defaults = project.get("upstreamDefaults");
        for chain in chains {
            self.set_timeout(chain, None, draft);
            let mut node = Upstream::new(chain, &name, upstream);
            if vendor {
                endpoint.text();
                let vendor = vendor_name(scheme);
                let text = format!(
                    "the URL of {chain} at {vendor}, for which the endpoint of this line is a shorthand"
                );
                node.url_to_set(draft, endpoint, &text);
            } else {
                let key = if scheme.starts_with("ws") {
                    "ws"
                } else if scheme.starts_with("grpc") {
                    "grpc"
                } else {
                    "url"
                };
                node.url(draft, key, endpoint);
            }
            settings(&mut node, upstream, defaults, draft);
            if let Some(from) = own_or_default(upstream, defaults, &["rateLimitBudget"])
                && let Some(rate) = self.budgets.rate(from, draft)
            {
                let text = "a node has a limit of its own: each node with this budget gets the whole of it, from each gateway";
                draft.notes.differs(from, text);
                node.number("rate_limit", rate, from);
            }
            node.add(draft);
            let interval = own_or_default(upstream, defaults, &["evm", "statePollerInterval"]);
            if let Some(from) = interval
                && draft.get(&chain_header(chain), "probe_interval").is_none()
                && let Some(millis) = draft.millis(Some(from), "probe_interval", 1)
            {
                draft.set(&chain_header(chain), "probe_interval", duration(millis), from);
            }
        }
    }

    fn provider(&self, provider: &'n Node, networks: &[ChainName], draft: &mut Draft) {
        let vendor = provider.get("vendor").or_else(|| provider.get("endpoint")).and_then(Node::peek);
        let vendor = vendor_name(vendor.unwrap_or_default().split("://").next().unwrap_or_default());
        if networks.is_empty() {
            let text = "the project lists no network that rpcgate serves, so it is not known for which chains this is: \
                        write one node for each";
            draft.notes.left_out(provider, text);
            return;
        }
        provider.use_keys(&["vendor", "endpoint"]);
        // A node is named by its vendor.
        provider.settle_keys(&["id"]);
        let only = provider.get("onlyNetworks").map(|list| served_networks(list, draft));
        let ignored = provider.get("ignoreNetworks").map(|list| served_networks(list, draft));
        let is_served = |chain: &ChainName| {
            let is_in = |list: &Option<Vec<ChainName>>| list.as_ref().map(|list| list.contains(chain));
            is_in(&only) != Some(false) && is_in(&ignored) != Some(true)
        };
        let mut chains = networks.iter().filter(|chain| is_served(chain)).peekable();
        if chains.peek().is_none() {
            let text = "onlyNetworks and ignoreNetworks leave no network of the project that rpcgate serves";
            draft.notes.left_out(provider, text);
            return;
        }
        let key = provider.at_keys(&["settings", "apiKey"]);
        for node in [key, provider.get("endpoint")].into_iter().flatten() {
            let text = "a key is not copied: it is a part of each URL that has to be set for this vendor";
            draft.notes.left_out(node, text);
        }
        for chain in chains {
            let mut node = Upstream::new(*chain, vendor, provider);
            let text = format!("the URL of {chain} at {vendor}, with your key");
            node.url_to_set(draft, provider, &text);
            node.add(draft);
        }
    }
}

/// Returns the chains in a list of networks such as `evm:137`. An unserved network needs no node and is skipped.
fn served_networks(list: &Node, draft: &mut Draft) -> Vec<ChainName> {
    let mut chains = Vec::new();
    for item in list.items() {
        let Some(name) = draft.plain(Some(item), "the nodes of each chain") else { continue };
        let id = name.strip_prefix("evm:").and_then(value::number);
        chains.extend(id.and_then(networks::by_id).or_else(|| networks::by_name(&name)));
    }
    chains
}

fn vendor_name(text: &str) -> &str {
    let is_name = (1..=24).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase());
    if is_name { text } else { "the vendor" }
}

fn own_or_default<'n>(own: &'n Node, defaults: Option<&'n Node>, keys: &[&str]) -> Option<&'n Node> {
    own.at_keys(keys).or_else(|| defaults.and_then(|defaults| defaults.at_keys(keys)))
}

/// Reads batches, headers and rank of an upstream.
fn settings<'n>(node: &mut Upstream<'n>, upstream: &'n Node, defaults: Option<&'n Node>, draft: &mut Draft) {
    let find = |keys: &[&str]| own_or_default(upstream, defaults, keys);
    if let Some(from) = find(&["jsonRpc", "supportsBatch"])
        && draft.flag(Some(from), "max_batch") == Some(false)
    {
        node.number("max_batch", 1, from);
    }
    if let Some(from) = find(&["jsonRpc", "batchMaxSize"])
        && let Some(size) = draft.number(Some(from), "max_batch")
        && size > 0
    {
        node.number("max_batch", size.min(100), from);
    }
    for key in ["jsonRpc", "grpc"] {
        if let Some(headers) = find(&[key, "headers"]) {
            for field in headers.fields() {
                node.header(draft, &field.key, &field.value);
            }
        }
    }
    let mut fallback = |from: &'n Node| {
        from.text();
        node.number("priority", 1, from);
    };
    if let Some(tag) =
        find(&["tags"]).and_then(|tags| tags.items().iter().find(|t| t.peek() == Some("tier:fallback")))
    {
        fallback(tag);
    } else if let Some(group) = find(&["group"]).filter(|group| group.peek() == Some("fallback")) {
        fallback(group);
    }
}

/// Returns the chain of an `evm` table or the reason why it cannot be served; `None` if it names no network.
fn evm(evm: Option<&Node>, draft: &mut Draft) -> Option<Result<ChainName, String>> {
    let node = evm?.get("chainId")?;
    match draft.form.read(node.peek()?) {
        Given::Text(text) => {
            let Some(id) = value::number(&text) else {
                return Some(Err("its chainId cannot be read as a whole number".into()));
            };
            let Some(chain) = networks::by_id(id) else {
                return Some(Err(format!(
                    "rpcgate does not serve {}; docs/chains.md lists its chains",
                    networks::unserved(id)
                )));
            };
            node.text();
            Some(Ok(chain))
        }
        _ => Some(Err("its chainId comes from the environment: write the number".into())),
    }
}

fn solana(svm: Option<&Node>) -> Option<Result<ChainName, String>> {
    let text = |key: &str| svm.and_then(|svm| svm.get(key)).and_then(Node::peek);
    let main = text("cluster").is_none_or(|cluster| cluster == "mainnet-beta");
    let chain = text("chain").unwrap_or("solana");
    match networks::by_name(chain).filter(|_| main) {
        Some(chain) => {
            for key in ["chain", "cluster"] {
                svm.and_then(|svm| svm.get(key)).and_then(Node::text);
            }
            Some(Ok(chain))
        }
        None => Some(Err("rpcgate serves Solana's main cluster alone".into())),
    }
}

fn timeout(network: &Node) -> Option<&Node> {
    let whole = |failsafe: &&Node| {
        failsafe.get("matchMethod").and_then(Node::peek).is_none_or(|method| method == "*")
    };
    let failsafe = network.list_or_table("failsafe").iter().find(whole)?;
    let timeout = failsafe.at_keys(&["timeout", "duration"])?;
    // An adaptive timeout is bounded by its largest value.
    let node = if timeout.is_table() { timeout.get("max")? } else { timeout };
    if let Some(method) = failsafe.get("matchMethod") {
        method.text();
    }
    Some(node)
}

/// Returns the lists of methods of a project. A sole `*` changes nothing; names with wildcards are noted.
fn method_lists<'n>(project: &'n Node, draft: &mut Draft) -> Vec<(&'static str, Vec<String>, &'n Node)> {
    let mut lists = Vec::new();
    for (theirs, ours) in [("allowMethods", "allowed_methods"), ("ignoreMethods", "blocked_methods")] {
        let Some(node) = project.get(theirs) else { continue };
        let given = node.texts();
        if given == ["*"] {
            continue;
        }
        let (families, methods): (Vec<&str>, Vec<&str>) =
            given.iter().copied().partition(|name| name.contains(['*', '|', '!']));
        if !families.is_empty() {
            let text = "rpcgate lists methods one by one, without wildcards: add those that you mean";
            draft.notes.add(NoteKind::LeftOut, node.at, &node.path, text);
            let is_family = |name: &&Node| name.peek().is_some_and(|name| families.contains(&name));
            node.children().filter(is_family).for_each(Node::settle);
        }
        if !methods.is_empty() {
            lists.push((ours, methods.iter().map(|name| (*name).to_owned()).collect(), node));
        }
    }
    lists
}
