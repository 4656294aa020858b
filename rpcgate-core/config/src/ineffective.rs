//! Warnings about valid settings without an effect, such as the weight of a method that no chain has. They are not
//! errors, because an operator may prepare a setting.

mod accounts;
mod chain;
mod methods;

use super::{AccessLogSettings, AcmeChallenge, Config, OtlpSettings, OverloadSettings, SafeguardSettings};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use std::fmt;
use std::net::SocketAddr;

/// The largest value of a plan window, which means that the plan has no such window.
const NO_WINDOW: u64 = 1_000_000_000_000;

/// A setting without an effect. Displayed as `key: why`, for [`Sources::placed`](super::Sources::placed).
///
/// ```
/// use rpcgate_core::clock::Time;
/// use rpcgate_config::{Config, Input};
///
/// let text = "[redis]\nprefix = \"gate:\"\n";
/// let config = Config::read(&Input { file: Some(("rpcgate.toml", text)), ..Input::default() })?;
/// let warnings: Vec<String> = config.warnings(&[], Time::from_secs(0)).iter().map(ToString::to_string).collect();
/// assert_eq!(warnings, ["redis.prefix: has no effect without redis.url"]);
/// # Ok::<(), rpcgate_config::ConfigErrors>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConfigWarning {
    /// The key, such as `chains.eth.cu.eth_cal`.
    pub key: String,
    /// The rest of the sentence.
    pub why: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl Config {
    /// Returns the settings without an effect at `now`. Methods are checked for the chains in `adapters`.
    pub fn warnings(&self, adapters: &[&dyn Adapter], now: Time) -> Vec<ConfigWarning> {
        let mut warnings = Warnings::default();
        self.listeners(&mut warnings);
        self.shared_parts(&mut warnings);
        for tier in Tier::ALL {
            self.windows(tier, &mut warnings);
        }
        for (name, chain) in &self.chains {
            let adapter = adapters.iter().find(|adapter| adapter.facts().name.as_str() == name);
            chain::of_chain(name, chain, &mut warnings);
            if let Some(adapter) = adapter {
                methods::of_methods(name, chain, *adapter, &mut warnings);
                chain::of_facts(name, chain, adapter.facts(), &mut warnings);
            }
            if self.cache.bytes == 0 && !chain.ttl.is_empty() {
                warnings.add(format!("chains.{name}.ttl"), "has no effect: cache.bytes is 0");
            }
        }
        accounts::of_accounts(self, adapters, now, &mut warnings);
        warnings.0
    }

    /// Warns about two listeners of one host on the same address.
    fn listeners(&self, warnings: &mut Warnings) {
        let has_http_checks = self.uses_acme() && self.acme.challenge == AcmeChallenge::Http01;
        let listeners = [
            ("gateway.listen", Some(self.gateway.listen)),
            ("gateway.grpc_listen", self.gateway.grpc_listen),
            ("admin.listen", Some(self.admin.listen)),
            ("telemetry.listen", self.telemetry.listen),
            ("acme.http_listen", self.acme.http_listen.filter(|_| has_http_checks)),
        ];
        let known = listeners.iter().filter_map(|(key, address)| address.map(|address| (*key, address)));
        let known: Vec<(&str, SocketAddr)> = known.collect();
        for (n, (key, address)) in known.iter().enumerate() {
            if let Some((other, _)) = known.iter().take(n).find(|(_, other)| overlap(*address, *other)) {
                warnings.add(
                    *key,
                    format!("is {address}, which {other} has too: one host can listen there once"),
                );
            }
        }
    }

    fn uses_acme(&self) -> bool {
        self.gateway.tls.acme || self.admin.tls.acme
    }

    fn shared_parts(&self, warnings: &mut Warnings) {
        let default = Config::default();
        if self.redis.url.is_none() && self.redis.prefix != default.redis.prefix {
            warnings.add("redis.prefix", "has no effect without redis.url");
        }
        let changed = |warnings: &mut Warnings, key: &str, is_changed: bool, switch: &str| {
            if is_changed {
                warnings.add(key, format!("has no effect: {switch}"));
            }
        };
        let overload = &self.gateway.overload;
        let off = OverloadSettings { enabled: false, ..default.gateway.overload.clone() };
        changed(
            warnings,
            "gateway.overload",
            !overload.enabled && *overload != off,
            "gateway.overload.enabled is false",
        );
        let safeguard = &self.safeguard;
        let off = SafeguardSettings { enabled: false, ..default.safeguard.clone() };
        changed(warnings, "safeguard", !safeguard.enabled && *safeguard != off, "safeguard.enabled is false");
        let otlp = &self.telemetry.otlp;
        let is_set = *otlp != OtlpSettings::default();
        changed(warnings, "telemetry.otlp", otlp.url.is_none() && is_set, "telemetry.otlp.url is not set");
        let is_plain = otlp.url.as_ref().is_some_and(|url| url.scheme() == "http");
        changed(
            warnings,
            "telemetry.otlp.ca_file",
            is_plain && otlp.ca_file.is_some(),
            "telemetry.otlp.url is not https",
        );
        let is_set = self.acme != default.acme;
        changed(
            warnings,
            "acme",
            !self.uses_acme() && is_set,
            "neither gateway.tls.acme nor admin.tls.acme is true",
        );
        let tls = &self.gateway.tls;
        changed(
            warnings,
            "gateway.tls.grpc_only",
            tls.grpc_only && !tls.is_served(),
            "gateway.tls has no certificate",
        );
        let gateway = &self.gateway;
        changed(
            warnings,
            "gateway.grpc_descriptors",
            gateway.grpc_descriptors.is_some() && !gateway.grpc_reflection,
            "gateway.grpc_reflection is false",
        );
        let access_log = &self.telemetry.access_log;
        changed(
            warnings,
            "telemetry.access_log",
            access_log.file.is_none() && *access_log != AccessLogSettings::default(),
            "telemetry.access_log.file is not set",
        );
        let webhooks = &self.webhooks;
        // With fewer attempts, the default list is too long as well, and the operator did not write it.
        let used = webhooks.attempts.saturating_sub(1) as usize;
        if webhooks.waits.len() > used && webhooks.waits != default.webhooks.waits {
            let entries = webhooks.waits.len();
            let attempts = webhooks.attempts;
            warnings
                .add("webhooks.waits", format!("has {entries} entries; {attempts} attempts use only {used}"));
        }
    }

    /// Warns about plan windows that another window makes unreachable.
    fn windows(&self, tier: Tier, warnings: &mut Warnings) {
        let plan = self.plans.of(tier);
        let windows = [
            ("per_minute", plan.per_minute, 60 * 24),
            ("per_hour", plan.per_hour, 24),
            ("per_day", plan.per_day, 1),
        ];
        let key = |name: &str| format!("plans.{tier}.{name}");
        for (n, (longer, most, in_day)) in windows.iter().enumerate().filter(|(_, w)| w.1 < NO_WINDOW) {
            for (shorter, bound, times) in &windows[..n] {
                if bound > most && *bound < NO_WINDOW {
                    warnings.add(
                        key(shorter),
                        format!("is {bound} and can never be reached: {longer} is {most}"),
                    );
                } else if bound.saturating_mul(times / in_day) < *most {
                    warnings.add(
                        key(longer),
                        format!("is {most} and can never be reached: {shorter} is {bound}"),
                    );
                    break;
                }
            }
        }
    }
}

#[derive(Default)]
struct Warnings(Vec<ConfigWarning>);

impl Warnings {
    fn add(&mut self, key: impl Into<String>, why: impl Into<String>) {
        self.0.push(ConfigWarning { key: key.into(), why: why.into() });
    }
}

/// Reports whether two sockets conflict. Port 0 never does, and an IPv4-mapped IPv6 address equals the IPv4 address.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let ip = one.ip().to_canonical();
    let other_ip = other.ip().to_canonical();
    let is_any = ip.is_unspecified() || other_ip.is_unspecified();
    one.port() != 0 && one.port() == other.port() && (is_any || ip == other_ip)
}

#[cfg(test)]
mod tests;
