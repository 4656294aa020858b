//! Tenants, projects and keys: their references to each other, and the callers that they describe.

use super::key::KeySettings;
use super::nearest::near_name;
use super::plans::Plans;
use super::problem::Problem;
use super::project::{DEFAULT_NAME, ProjectSettings};
use super::reading::Reading;
use super::tenant::TenantSettings;
use rpcgate_core::caller::{Caller, Scope};
use rpcgate_core::secret::{KeyHash, shown};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key of the configuration with its derived data.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KnownKey {
    /// The name in the file.
    pub name: String,
    /// The hash under which the key is looked up.
    pub hash: KeyHash,
    /// True if the key was revoked.
    pub revoked: bool,
    /// The caller.
    pub caller: Arc<Caller>,
}

pub(super) struct Accounts<'c> {
    pub(super) tenants: &'c mut BTreeMap<String, TenantSettings>,
    pub(super) projects: &'c mut BTreeMap<String, ProjectSettings>,
    pub(super) keys: &'c mut BTreeMap<String, KeySettings>,
}

impl Accounts<'_> {
    /// Adds the default tenant and project, assigns ids, resolves aliases of chains, and reports unknown names.
    pub(super) fn settle(self, r: &mut Reading<'_>, aliases: &[(&str, &str)]) {
        let Accounts { tenants, projects, keys } = self;
        if !keys.is_empty() || !projects.is_empty() {
            projects.entry(DEFAULT_NAME.into()).or_default();
            tenants.entry(DEFAULT_NAME.into()).or_default();
        }
        for (name, tenant) in tenants.iter_mut().filter(|(_, tenant)| tenant.id.0 == 0) {
            tenant.id.0 = identifier("tenant", name);
        }
        for (name, project) in projects.iter_mut() {
            if project.id.0 == 0 {
                project.id.0 = identifier("project", name);
            }
            known(r, &format!("projects.{name}.tenant"), "tenant", &project.tenant, tenants.keys());
        }
        let names: Vec<String> = r
            .chains
            .iter()
            .copied()
            .chain(aliases.iter().map(|(alias, _)| *alias))
            .map(str::to_owned)
            .collect();
        let mut seen: BTreeMap<KeyHash, &str> = BTreeMap::new();
        for (name, key) in keys.iter_mut() {
            let path = format!("keys.{name}");
            if key.id.0 == 0 {
                key.id.0 = identifier("key", name);
            }
            known(r, &format!("{path}.project"), "project", &key.project, projects.keys());
            for chain in &mut key.chains {
                if let Some((_, canonical)) = aliases.iter().find(|(alias, _)| alias == chain) {
                    *chain = (*canonical).to_owned();
                }
                known(r, &format!("{path}.chains"), "chain", chain, names.iter());
            }
            // An unreadable key was already reported.
            let is_set = [format!("{path}.key"), format!("{path}.sha256")].iter().any(|path| r.is_set(path));
            if !is_set {
                r.wrong_at(&path, Problem::Invalid { key: path.clone(), why: "needs key or sha256".into() });
            } else if let Some(first) = key.hash().and_then(|hash| seen.insert(hash, name)) {
                let why = format!("holds the same key as keys.{first}");
                r.wrong_at(&path, Problem::Invalid { key: path.clone(), why });
            }
        }
    }
}

fn known<'n>(
    r: &mut Reading<'_>,
    path: &str,
    kind: &'static str,
    name: &str,
    names: impl Iterator<Item = &'n String> + Clone,
) {
    if !names.clone().any(|known| known == name) {
        let nearest = near_name(name, names.map(String::as_str));
        r.wrong_at(path, Problem::UnknownName { key: path.to_owned(), kind, name: name.to_owned(), nearest });
    }
}

/// Returns the callers of all keys. Names can be missing only in a configuration that was not read.
pub(super) fn callers(
    tenants: &BTreeMap<String, TenantSettings>,
    projects: &BTreeMap<String, ProjectSettings>,
    keys: &BTreeMap<String, KeySettings>,
    plans: &Plans,
) -> Vec<KnownKey> {
    let caller = |(name, key): (&String, &KeySettings)| {
        let project = projects.get(&key.project)?;
        let tenant = tenants.get(&project.tenant)?;
        let prefix = key.key.as_ref().map_or("", |key| shown(key.expose()));
        let scope = match key.chains.as_slice() {
            [] => Scope::All,
            some => Scope::Only(some.iter().map(|chain| chain.as_str().into()).collect()),
        };
        let plan = plans.of_tenant(tenant.plan);
        let mut caller = Caller::new(key.id, project.id, tenant.id, plan);
        caller.prefix = prefix.into();
        caller.suspended = tenant.suspended;
        caller.scope = scope;
        caller.lists = project.lists();
        caller.quota = project.quota(plan.quota);
        caller.expires_at = key.expires_at;
        Some(KnownKey {
            name: name.clone(),
            hash: key.hash()?,
            revoked: key.revoked,
            caller: Arc::new(caller),
        })
    };
    keys.iter().filter_map(caller).collect()
}

/// Derives a UUID of version 8 (RFC 9562) from a name.
fn identifier(kind: &str, name: &str) -> u128 {
    let hash = KeyHash::of(&format!("rpcgate {kind} {name}"));
    let bits = hash.0.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    bits & !(0xf << 76) & !(0b11 << 62) | 8 << 76 | 0b10 << 62
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::caller::KeyId;

    #[test]
    fn a_name_always_has_the_same_uuid() {
        let id = KeyId(identifier("key", "ci")).to_string();
        assert_eq!(id, KeyId(identifier("key", "ci")).to_string());
        assert_eq!((&id[14..15], "89ab".contains(&id[19..20])), ("8", true), "{id}");
        assert_ne!(identifier("key", "ci"), identifier("project", "ci"));
    }
}
