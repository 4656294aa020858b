//! One call as a JSON line. It contains no parameter, body or client address, and of a key only what a log may show.

use rpcgate_core::backend::call_observer::SettledCalls;
use rpcgate_core::backend::usage_sink::{Line, Outcome, shown_method};
use rpcgate_core::json::write_string;
use rpcgate_core::recent::{CacheUse, CallFacts};
use rpcgate_core::secret::shown;
use std::fmt::Display;
use std::io::Write;

/// The maximum logged length of a method name, in bytes: longer names are not methods.
const LONGEST: usize = 64;

pub(super) fn write_lines(settled: &SettledCalls<'_>, out: &mut Vec<u8>) {
    for (index, (line, call)) in settled.lines.iter().zip(settled.calls).enumerate() {
        write_line(settled, index, line, call, out);
    }
}

fn write_line(
    settled: &SettledCalls<'_>,
    index: usize,
    line: &Line<'_>,
    call: &CallFacts,
    out: &mut Vec<u8>,
) {
    let facts = settled.facts;
    let micros = facts.arrival.micros();
    let millis = |micros: u128| format!("{}.{:03}", micros / 1_000, micros % 1_000);
    let tries = || settled.tries.iter().filter(|one| one.calls.has(index));
    out.extend_from_slice(b"{\"time\":");
    raw(out, format_args!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
    text(out, "request", facts.request);
    text(out, "transport", facts.transport.name());
    text(out, "chain", facts.chain);
    text(out, "method", method_word(line));
    text(out, "outcome", outcome_word(line.outcome));
    number(out, "status", line.status);
    if let Some(refusal) = call.refusal {
        number(out, "code", refusal.code());
        text(out, "reason", refusal.message());
    }
    if let Some(fault) = call.fault {
        text(out, "reason", fault);
    }
    number(out, "ms", millis(facts.latency.as_micros()));
    number(out, "bytes_in", line.bytes_in);
    number(out, "bytes_out", line.bytes_out);
    number(out, "cu", line.cu);
    text(out, "cache", cache_word(call.cache));
    text(out, "key", settled.prefix);
    text(out, "key_id", facts.key);
    text(out, "project", facts.project);
    if let Some(last) = tries().next_back() {
        number(out, "node", u32::from(last.node) + 1);
        number(out, "tries", tries().count());
        if let Some(took) = last.took {
            number(out, "node_ms", millis(took.as_micros()));
        }
    }
    for (name, is) in
        [("batch", facts.is_batch), ("message", settled.is_message), ("lasting", facts.is_lasting)]
    {
        if is {
            number(out, name, true);
        }
    }
    out.extend_from_slice(b"}\n");
}

/// Returns the metered method, or `(other)` for a name that is too long or that may be a pasted key.
pub(crate) fn method_word(line: &Line<'_>) -> String {
    let name = shown_method(line.method);
    if name.len() > LONGEST || !shown(&name).is_empty() { "(other)".to_owned() } else { name.into_owned() }
}

pub(crate) const fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answered => "answered",
        Outcome::NodeError => "node_error",
        Outcome::Refused => "refused",
        Outcome::Failed => "failed",
        Outcome::Abandoned => "abandoned",
    }
}

pub(crate) const fn cache_word(cache: CacheUse) -> &'static str {
    match cache {
        CacheUse::Hit => "hit",
        CacheUse::Joined => "joined",
        CacheUse::Miss => "miss",
        CacheUse::Uncacheable => "uncacheable",
        CacheUse::NotAsked => "not_asked",
    }
}

fn raw(out: &mut Vec<u8>, value: impl Display) {
    // Writing to memory does not fail.
    let _ = write!(out, "{value}");
}

fn name(out: &mut Vec<u8>, name: &str) {
    raw(out, format_args!(",\"{name}\":"));
}

fn number(out: &mut Vec<u8>, key: &str, value: impl Display) {
    name(out, key);
    raw(out, value);
}

fn text(out: &mut Vec<u8>, key: &str, value: impl Display) {
    name(out, key);
    write_string(out, &value.to_string());
}
