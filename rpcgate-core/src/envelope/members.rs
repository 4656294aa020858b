//! The member names of a call: the four known ones, and unknown ones, which must not repeat.

use std::borrow::Cow;

use crate::json::{Span, Text};

/// The maximum number of unknown members per call. It bounds the work of comparing their names.
const MAX_UNKNOWN: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Member {
    Version,
    Id,
    Method,
    Params,
    /// Differs from `id` only in case, so that some parsers would read it as the id.
    AlmostId,
    /// Differs from another known name only in case, or is repeated, undecodable, contains a NUL, or exceeds the limit.
    Refused,
    Unknown,
}

impl Member {
    #[inline]
    fn exact(name: &[u8]) -> Option<Self> {
        match name {
            b"jsonrpc" => Some(Member::Version),
            b"id" => Some(Member::Id),
            b"method" => Some(Member::Method),
            b"params" => Some(Member::Params),
            _ => None,
        }
    }

    fn folded(name: &str) -> Option<Self> {
        if same_but_case(name, "id") {
            return Some(Member::AlmostId);
        }
        ["jsonrpc", "method", "params"]
            .iter()
            .any(|known| same_but_case(name, known))
            .then_some(Member::Refused)
    }
}

/// Compares like a case-insensitive parser. `known` is lower-case ASCII. Unicode and Go's `encoding/json` fold one
/// non-ASCII character, the long s, to a letter of our names.
pub(super) fn same_but_case(name: &str, known: &str) -> bool {
    let mut known = known.chars();
    name.chars().all(|char| {
        let folded = if char == '\u{17f}' { 's' } else { char.to_ascii_lowercase() };
        known.next() == Some(folded)
    }) && known.next().is_none()
}

#[derive(Debug, Default)]
pub(super) struct UnknownMembers {
    plain: [Span; MAX_UNKNOWN],
    plain_count: usize,
    resolved: Vec<Box<str>>,
}

impl UnknownMembers {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.plain_count = 0;
        if !self.resolved.is_empty() {
            self.resolved.clear();
        }
    }

    #[inline]
    pub(super) fn classify(&mut self, name: Text, body: &[u8]) -> Member {
        if !name.is_escaped()
            && let Some(member) = Member::exact(name.inner().of(body))
        {
            return member;
        }
        self.unusual(name, body)
    }

    #[inline(never)]
    fn unusual(&mut self, name: Text, body: &[u8]) -> Member {
        let Some(text) = name.resolve(body) else {
            return Member::Refused;
        };
        if let Some(member) = Member::exact(text.as_bytes()).or_else(|| Member::folded(&text)) {
            return member;
        }
        // A parser that keeps names in C strings drops the NUL and the rest, and may then find a known name.
        if self.plain_count + self.resolved.len() >= MAX_UNKNOWN || text.contains('\0') {
            return Member::Refused;
        }
        let plain = self.plain.get(..self.plain_count).unwrap_or_default();
        if plain.iter().any(|known| known.of(body) == text.as_bytes())
            || self.resolved.iter().any(|known| **known == *text)
        {
            return Member::Refused;
        }
        match text {
            Cow::Owned(text) => self.resolved.push(text.into_boxed_str()),
            Cow::Borrowed(_) => {
                if let Some(free) = self.plain.get_mut(self.plain_count) {
                    *free = name.inner();
                    self.plain_count += 1;
                }
            }
        }
        Member::Unknown
    }
}
