//! The `tracestate` of a request (W3C Trace Context, section 3.3).

use super::TRACESTATE;
use http::header::{HeaderMap, HeaderValue};
use smallvec::SmallVec;

/// The maximum length that is passed on, in bytes.
const LONGEST: usize = 512;

const MOST_MEMBERS: usize = 32;

const LONGEST_PART: usize = 256;

/// Returns the `tracestate` of a request in one line. It is passed on whole, or not at all if invalid or too long.
pub(super) fn read_state(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut lines = headers.get_all(&TRACESTATE).iter();
    let first = lines.next()?;
    let state = match lines.next() {
        None => first.clone(),
        Some(second) => {
            let mut joined = first.as_bytes().to_vec();
            for line in std::iter::once(second).chain(lines) {
                if joined.len() > LONGEST {
                    return None;
                }
                joined.push(b',');
                joined.extend_from_slice(line.as_bytes());
            }
            HeaderValue::from_bytes(&joined).ok()?
        }
    };
    is_valid(state.as_bytes()).then_some(state)
}

/// Reports whether it is a list of members with unique keys. Empty members are allowed.
fn is_valid(state: &[u8]) -> bool {
    if state.len() > LONGEST {
        return false;
    }
    let mut keys: SmallVec<[&[u8]; MOST_MEMBERS]> = SmallVec::new();
    for member in state.split(|byte| *byte == b',').map(trimmed).filter(|member| !member.is_empty()) {
        let Some(at) = member.iter().position(|byte| *byte == b'=') else { return false };
        let key = &member[..at];
        let value = &member[at + 1..];
        if keys.len() == MOST_MEMBERS || keys.contains(&key) || !is_key(key) || !is_value(value) {
            return false;
        }
        keys.push(key);
    }
    !keys.is_empty()
}

fn trimmed(mut member: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = member {
        member = rest;
    }
    member
}

fn is_key(key: &[u8]) -> bool {
    let begins = matches!(key.first(), Some(b'a'..=b'z' | b'0'..=b'9'));
    let is_letter = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    begins && key.len() <= LONGEST_PART && key.iter().all(is_letter)
}

fn is_value(value: &[u8]) -> bool {
    let is_letter = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    !value.is_empty() && value.len() <= LONGEST_PART && value.iter().all(is_letter)
}
