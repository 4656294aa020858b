use crate::headers::stays_behind;
use http::{HeaderMap, HeaderName};
use rpcgate_core::adapter::Adapter;
use smallvec::SmallVec;

/// Removes the headers of a node that the chain's API does not define.
pub(super) fn strip(headers: &mut HeaderMap, adapter: &dyn Adapter) {
    let allowed = adapter.reply_headers();
    // Most nodes send no others. Then clearing the table costs less than removing each of many names.
    if allowed.is_empty() || !headers.keys().any(|name| may_pass(name, allowed)) {
        headers.clear();
        return;
    }
    let behind: SmallVec<[_; 8]> = headers.keys().filter(|name| !may_pass(name, allowed)).cloned().collect();
    for name in behind {
        headers.remove(name);
    }
}

/// Reports whether a node's header is forwarded to the client: `allowed` has its name, or a prefix of it with `*`, and
/// it is not one that [stays behind](stays_behind) on every chain.
fn may_pass(name: &HeaderName, allowed: &[&str]) -> bool {
    let is_allowed = |allowed: &&str| match allowed.strip_suffix('*') {
        Some(begin) => name.as_str().starts_with(begin),
        None => name == *allowed,
    };
    allowed.iter().any(is_allowed) && !stays_behind(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Nodes and cache).
    #[test]
    fn a_node_header_passes_if_its_name_or_the_beginning_of_it_is_listed() {
        let allowed = ["x-height", "x-chain-*"];
        for (name, passes) in [
            ("x-height", true),
            ("x-heights", false),
            ("x-chain-cursor", true),
            ("x-chain", false),
            ("etag", false),
        ] {
            assert_eq!(may_pass(&HeaderName::from_static(name), &allowed), passes, "{name}");
        }
    }

    #[test]
    fn a_header_that_no_node_may_send_does_not_pass_even_if_it_is_listed() {
        for name in ["set-cookie", "location", "cache-control"] {
            assert!(!may_pass(&HeaderName::from_static(name), &[name, "*"]), "{name}");
        }
    }
}
