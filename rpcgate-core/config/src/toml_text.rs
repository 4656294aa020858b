//! TOML keys and strings.

/// Formats `text` as a TOML string.
///
/// ```
/// assert_eq!(rpcgate_config::toml_quote("a\"b"), "\"a\\\"b\"");
/// ```
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats `name` as a TOML key.
///
/// ```
/// assert_eq!(rpcgate_config::toml_key("a b"), "\"a b\"");
/// ```
pub fn key(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quote(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_texts_are_quoted_where_toml_requires_it() {
        assert_eq!(key("eth_call"), "eth_call");
        assert_eq!(key("queryNetwork/tip"), "\"queryNetwork/tip\"");
        assert_eq!(key(""), "\"\"");
        assert_eq!(quote("a\"\\\n"), "\"a\\\"\\\\\\u000A\"");
    }
}
