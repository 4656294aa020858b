//! Warnings about settings of tenants, projects and keys.

use super::methods::of_lists;
use super::{NO_WINDOW, Warnings};
use crate::{Config, DEFAULT_NAME, ProjectSettings};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;

pub(super) fn of_accounts(config: &Config, adapters: &[&dyn Adapter], now: Time, warnings: &mut Warnings) {
    // The implicit project of keys without one, which a file need not name.
    let is_named = |name: &&String| *name != DEFAULT_NAME;
    for (name, project) in config.projects.iter().filter(|(name, _)| is_named(name)) {
        let key = format!("projects.{name}");
        if !config.keys.values().any(|known| known.project == *name) {
            warnings.add(&key, "has no key in this file, so no call uses it");
        }
        for method in project.allowed_methods.iter().filter(|name| project.blocked_methods.contains(name)) {
            let text = format!("allows {method}, which blocked_methods blocks");
            warnings.add(format!("{key}.allowed_methods"), text);
        }
    }
    for (name, project) in &config.projects {
        of_lists(&format!("projects.{name}"), project, adapters, warnings);
        of_rate(config, name, project, warnings);
    }
    for name in config.tenants.keys().filter(is_named) {
        if !config.projects.values().any(|project| project.tenant == *name) {
            warnings.add(format!("tenants.{name}"), "has no project in this file");
        }
    }
    let is_served = |chain: &String| {
        config.chains.get(chain).is_none_or(|chain| chain.enabled && !chain.nodes.is_empty())
    };
    for (name, key) in &config.keys {
        if !key.chains.is_empty() && !key.chains.iter().any(is_served) {
            warnings.add(format!("keys.{name}.chains"), "names only chains that this file gives no node");
        }
        if !key.revoked && key.expires_at.is_some_and(|end| end <= now) {
            warnings.add(format!("keys.{name}.expires_at"), "is past, so calls with this key are refused");
        }
    }
}

/// Warns about an `rps_limit` that the project's keys cannot reach within the plan windows, which count per key.
fn of_rate(config: &Config, name: &str, project: &ProjectSettings, warnings: &mut Warnings) {
    let keys = config.keys.values().filter(|key| key.project == name).count() as u64;
    let Some(rate) = project.rps_limit.filter(|_| keys > 0) else { return };
    let tier = config.tenants.get(&project.tenant).map_or(Tier::Free, |tenant| tenant.plan);
    let plan = config.plans.of(tier);
    let windows = [("per_minute", plan.per_minute), ("per_hour", plan.per_hour), ("per_day", plan.per_day)];
    let least = windows.into_iter().filter(|(_, bound)| *bound < NO_WINDOW).min_by_key(|(_, bound)| *bound);
    if let Some((window, bound)) = least.filter(|(_, bound)| bound.saturating_mul(keys) < rate) {
        let of_keys = if keys == 1 { String::new() } else { format!(" for each of {keys} keys") };
        warnings.add(
            format!("projects.{name}.rps_limit"),
            format!("is {rate} and can never be reached: plans.{tier}.{window} is {bound}{of_keys}"),
        );
    }
}
