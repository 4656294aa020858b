//! Warnings about method names that no chain has.

use super::Warnings;
use crate::nearest::near_name;
use crate::{ChainSettings, ProjectSettings};
use rpcgate_core::adapter::{Adapter, method_table};
use rpcgate_core::chain::Dialect;

/// A name in no family of methods. Some chains mark every unlisted method.
const IN_NO_FAMILY: &str = "?";

/// Warns about method names that the chain does not have.
pub(super) fn of_methods(name: &str, chain: &ChainSettings, adapter: &dyn Adapter, warnings: &mut Warnings) {
    let adapters = [adapter];
    let methods = KnownMethods::of(&adapters);
    let tables: [(&str, Vec<&String>, bool); 4] = [
        ("cu", chain.cu.keys().collect(), true),
        ("ttl", chain.ttl.keys().collect(), true),
        ("blocked_methods", chain.blocked_methods.iter().collect(), false),
        ("open_methods", chain.open_methods.iter().collect(), false),
    ];
    for (table, names, is_table) in tables {
        for method in names {
            if let Some(why) = methods.unknown(method) {
                let (key, why) = match is_table {
                    true => (format!("chains.{name}.{table}.{method}"), why),
                    false => (format!("chains.{name}.{table}"), format!("names {method}, and {why}")),
                };
                warnings.add(key, why);
            }
        }
    }
    for (n, node) in chain.nodes.iter().enumerate() {
        for method in node.methods.iter().chain(&node.except) {
            if let Some(why) = methods.unknown(method) {
                warnings.add(
                    format!("chains.{name}.nodes"),
                    format!("names {method} in number {}, and {why}", n + 1),
                );
            }
        }
    }
}

/// Warns about methods of a project that no chain has.
pub(super) fn of_lists(
    key: &str,
    project: &ProjectSettings,
    adapters: &[&dyn Adapter],
    warnings: &mut Warnings,
) {
    if adapters.is_empty() {
        return;
    }
    let methods = KnownMethods::of(adapters);
    for (list, names) in
        [("allowed_methods", &project.allowed_methods), ("blocked_methods", &project.blocked_methods)]
    {
        for method in names {
            if let Some(why) = methods.unknown(method) {
                warnings.add(format!("{key}.{list}"), format!("names {method}, and {why}"));
            }
        }
    }
}

struct KnownMethods<'a> {
    adapters: &'a [&'a dyn Adapter],
    names: Vec<String>,
    /// Set if the last segment of any path is a method too.
    is_open: bool,
    /// Set if a chain lists no methods, so that any name may be one of them.
    takes_any: bool,
}

impl<'a> KnownMethods<'a> {
    fn of(adapters: &'a [&'a dyn Adapter]) -> Self {
        let names =
            adapters.iter().flat_map(|adapter| method_table(*adapter)).map(|row| row.name.to_string());
        let is_open = adapters.iter().any(|adapter| adapter.facts().dialect == Dialect::Rest);
        let takes_any = adapters.iter().any(|adapter| adapter.methods().is_empty());
        KnownMethods { adapters, names: names.collect(), is_open, takes_any }
    }

    /// Returns the reason to assume that the chains have no such method, as the end of a sentence.
    fn unknown(&self, method: &str) -> Option<String> {
        let stem = method.strip_suffix('*');
        let is_known = match stem {
            Some(stem) => self.names.iter().any(|name| name.starts_with(stem)),
            None => self.names.iter().any(|name| name == method),
        };
        // A rule for a whole family, such as `debug_*`, is not in the table.
        let probe = stem.map_or_else(|| method.to_owned(), |stem| format!("{stem}x"));
        let in_family =
            self.adapters.iter().any(|adapter| adapter.unlisted(&probe) != adapter.unlisted(IN_NO_FAMILY));
        // A name with the namespace of another chain's methods was meant for that chain.
        let has_namespace = method
            .find('_')
            .is_some_and(|end| self.names.iter().any(|name| name.starts_with(&method[..=end])));
        if is_known || in_family || (self.takes_any && !has_namespace) {
            return None;
        }
        match near_name(method, self.names.iter().map(String::as_str)) {
            Some(near) => Some(format!("no such method is known; the nearest is {near}")),
            None if self.is_open => None,
            None => Some("no such method is known".to_owned()),
        }
    }
}
