//! Reads members of params and results in place, without building a JSON tree. Adapters need them for
//! [`narrow`](rpcgate_core::adapter::Adapter::narrow), [`settled`](rpcgate_core::adapter::Adapter::settled) and
//! [`seen`](rpcgate_core::adapter::Adapter::seen).
//!
//! Every function takes the raw JSON of one value and finds the requested part in one pass. A value that cannot be read
//! counts as empty, unless a function says otherwise.
//!
//! ```
//! use rpcgate_chains::family::params::{at, either, number, quantity};
//!
//! let answer = br#"{"last-round":47000000,"catchup-time":0}"#;
//! assert_eq!(at(answer, &["last-round"]).and_then(number), Some(47_000_000));
//!
//! let params = br#"["0x1b4", true]"#;
//! assert_eq!(either(params, 0, "block").and_then(quantity), Some(436));
//! ```

use rpcgate_core::json::{Cursor, Span, SyntaxError, unescape};

/// The maximum nesting; deeper values cannot be read. Params have passed the envelope's own limit, and a node's result
/// has been read whole.
const DEPTH: usize = 128;

/// Returns item `index`, from 0, of positional params; `None` if they are not an array, or shorter.
pub fn positional(params: &[u8], index: usize) -> Option<&[u8]> {
    positional_span(params, index).map(|span| span.of(params))
}

/// Returns the position of item `index`, from 0, in positional params.
pub fn positional_span(params: &[u8], index: usize) -> Option<Span> {
    let read = || -> Result<Option<Span>, SyntaxError> {
        let mut cursor = Cursor::new(params, DEPTH);
        cursor.enter_array()?;
        for _ in 0..index {
            if !cursor.next_item()? {
                return Ok(None);
            }
            cursor.value()?;
        }
        if !cursor.next_item()? {
            return Ok(None);
        }
        cursor.value().map(Some)
    };
    read().ok().flatten()
}

/// Returns member `name` of named params. `None` if they are not an object, or if the name is missing or repeated:
/// nodes do not agree on which of two members counts.
pub fn named<'a>(params: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let read = || -> Result<Option<&'a [u8]>, SyntaxError> {
        let mut cursor = Cursor::new(params, DEPTH);
        let mut found = None;
        cursor.enter_object()?;
        while let Some(member) = cursor.next_member()? {
            let value = cursor.value()?.of(params);
            if member.resolve(params).as_deref() == Some(name) && found.replace(value).is_some() {
                return Ok(None);
            }
        }
        Ok(found)
    };
    read().ok().flatten()
}

/// Returns the parameter at `index` of positional params, or `name` of named ones.
pub fn either<'a>(params: &'a [u8], index: usize, name: &str) -> Option<&'a [u8]> {
    positional(params, index).or_else(|| named(params, name))
}

/// Reports whether `is` holds for a parameter wherever a node might read it: at `index` of positional params, in any
/// member `name` of named ones, or at `index` of the `args` that Bitcoin Core accepts in addition to named ones.
pub fn any_is(params: &[u8], index: usize, name: &str, is: fn(&[u8]) -> bool) -> bool {
    positional(params, index).is_some_and(is)
        || any_member(params, |found, value| {
            (found == name && is(value)) || (found == "args" && positional(value, index).is_some_and(is))
        })
}

/// Returns a name as rippled reads it, which uses C strings.
fn up_to_nul(name: &str) -> &str {
    name.split('\0').next().unwrap_or(name)
}

/// Reports whether `is` holds for the name and value of one of an object's members. An object that cannot be read has
/// no members; params can be read, since the envelope has checked them.
pub fn any_member(object: &[u8], is: impl FnMut(&str, &[u8]) -> bool) -> bool {
    find_member(object, is).unwrap_or(false)
}

/// Like [`any_member`], for a body that no envelope has checked. Returns true for one that is not an object or cannot
/// be read, since a node may read such a member in it.
pub fn may_have_member(body: &[u8], is: impl FnMut(&str, &[u8]) -> bool) -> bool {
    find_member(body, is).unwrap_or(true)
}

fn find_member(object: &[u8], mut is: impl FnMut(&str, &[u8]) -> bool) -> Result<bool, SyntaxError> {
    let mut cursor = Cursor::new(object, DEPTH);
    cursor.enter_object()?;
    while let Some(member) = cursor.next_member()? {
        let value = cursor.value()?.of(object);
        if member.resolve(object).is_some_and(|name| is(up_to_nul(&name), value)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reports whether an object anywhere in `value` has a member `name`; true for an unreadable value, in which
/// a node may still read one.
pub fn mentions(value: &[u8], name: &str) -> bool {
    let read = || -> Result<bool, SyntaxError> {
        let mut cursor = Cursor::new(value, DEPTH);
        // For each open array and object: whether it is an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            match cursor.peek() {
                Some(b'{') => {
                    cursor.enter_object()?;
                    open.push(true);
                }
                Some(b'[') => {
                    cursor.enter_array()?;
                    open.push(false);
                }
                _ => {
                    cursor.value()?;
                }
            }
            // Moves to the next value, out of the arrays and objects that end here.
            loop {
                match open.last() {
                    None => return Ok(false),
                    Some(true) => {
                        if let Some(member) = cursor.next_member()? {
                            if member.resolve(value).is_some_and(|found| up_to_nul(&found) == name) {
                                return Ok(true);
                            }
                            break;
                        }
                    }
                    Some(false) => {
                        if cursor.next_item()? {
                            break;
                        }
                    }
                }
                open.pop();
            }
        }
    };
    !value.is_empty() && read().unwrap_or(true)
}

/// Reports whether a whole number, or a string of one, is beyond `±most`. Any other value counts as beyond.
pub fn is_beyond(raw: &[u8], most: u64) -> bool {
    let text = unescape(raw);
    let digits = text.as_deref().map_or(raw, str::as_bytes);
    let digits = digits.strip_prefix(b"-").unwrap_or(digits);
    integer(digits).is_none_or(|number| number > most)
}

/// Returns the first member `name` of a result, which is read no further; `None` if it has none or is not an object.
pub fn member<'a>(result: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let read = || -> Result<Option<&'a [u8]>, SyntaxError> {
        let mut cursor = Cursor::new(result, DEPTH);
        cursor.enter_object()?;
        while let Some(member) = cursor.next_member()? {
            let value = cursor.value()?;
            if member.resolve(result).as_deref() == Some(name) {
                return Ok(Some(value.of(result)));
            }
        }
        Ok(None)
    };
    read().ok().flatten()
}

/// Returns the value at a path of members: `at(result, &["block", "height"])` is the `height` in the `block`.
pub fn at<'a>(result: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    path.iter().try_fold(result, |value, name| member(value, name))
}

/// Reports whether a JSON text may have a member `name`, by a search for its bytes, which is quicker than reading a
/// text without one. A name that is written with escapes is not found.
pub fn may_have(text: &[u8], name: &str) -> bool {
    memchr::memmem::find(text, name.as_bytes()).is_some()
}

/// Reads a whole number of up to 64 bits in digits, or a string of such digits.
pub fn number(raw: &[u8]) -> Option<u64> {
    match raw.first() {
        Some(b'"') => integer(unescape(raw)?.as_bytes()),
        _ => integer(raw),
    }
}

/// Reads a hexadecimal quantity of up to 64 bits (Ethereum JSON-RPC: `"0x"` and at least one digit). Leading zeros,
/// which the standard forbids and some nodes write, are accepted.
pub fn quantity(raw: &[u8]) -> Option<u64> {
    let text = unescape(raw.trim_ascii())?;
    let digits = text.strip_prefix("0x")?;
    // `from_str_radix` alone would accept a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Reads a whole number in digits alone: no sign, fraction or exponent.
pub fn integer(raw: &[u8]) -> Option<u64> {
    let digits = raw.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reports whether a value is a string of 64 hexadecimal digits, as every block hash is.
pub fn is_hash(raw: &[u8]) -> bool {
    unescape(raw).is_some_and(|text| text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positional_params_are_found_past_anything() {
        let params = b" [ {\"a\":[1,\"]\"]} ,\n\"\\\"],[\" , 7 ] ";
        assert_eq!(positional(params, 0), Some(&b"{\"a\":[1,\"]\"]}"[..]));
        assert_eq!(positional(params, 1), Some(&b"\"\\\"],[\""[..]));
        assert_eq!(positional(params, 2), Some(&b"7"[..]));
        assert_eq!(positional(params, 3), None);
        for none in ["", "null", "{}", "[]", "7", "[", "[,1]"] {
            assert_eq!(positional(none.as_bytes(), 0), None, "{none}");
        }
    }

    #[test]
    fn a_repeated_name_is_not_a_parameter() {
        assert_eq!(named(br#"{"x":1,"height":5}"#, "height"), Some(&b"5"[..]));
        assert_eq!(named(br#"{"h\u0065ight":5}"#, "height"), Some(&b"5"[..]));
        assert_eq!(named(br#"{"height":5,"h\u0065ight":6}"#, "height"), None);
        assert_eq!(named(br#"{"x":{"height":5}}"#, "height"), None);
        assert_eq!(named(br#"[{"height":5}]"#, "height"), None);
    }

    #[test]
    fn a_parameter_is_looked_up_in_every_position_that_a_node_reads() {
        let seven = |value: &[u8]| value == b"7";
        for params in [
            "[0, 7]",
            r#"{"range":7}"#,
            r#"{"r\u0061nge":7}"#,
            r#"{"range":0,"range":7}"#,
            r#"{"args":[0,7]}"#,
        ] {
            assert!(any_is(params.as_bytes(), 1, "range", seven), "{params}");
        }
        for params in ["", "null", "[7]", "[0,[7]]", r#"{"x":7}"#, r#"{"args":[7]}"#, r#"{"x":{"range":7}}"#]
        {
            assert!(!any_is(params.as_bytes(), 1, "range", seven), "{params}");
        }
    }

    #[test]
    fn a_member_is_found_at_any_depth_and_in_any_spelling() {
        for value in [
            r#"{"url":1}"#,
            r#"[{"url":1}]"#,
            r#"[1,{"a":[[],{"b":{},"\u0075rl":null}]}]"#,
            r#" [ { "a" : "x" , "url" : "y" } ] "#,
        ] {
            assert!(mentions(value.as_bytes(), "url"), "{value}");
        }
        for value in ["", "null", "7", r#""url""#, r#"["url"]"#, "[]", "{}", r#"[{"a":"url"},{"urls":[{}]}]"#]
        {
            assert!(!mentions(value.as_bytes(), "url"), "{value}");
        }
    }

    #[test]
    fn a_number_is_beyond_a_bound_in_either_direction() {
        for raw in ["101", "\"101\"", "-101", "\"-101\"", "1e9", "true", "[]", "99999999999999999999"] {
            assert!(is_beyond(raw.as_bytes(), 100), "{raw}");
        }
        for raw in ["0", "100", "-100", "\"7\""] {
            assert!(!is_beyond(raw.as_bytes(), 100), "{raw}");
        }
    }

    #[test]
    fn a_result_is_read_up_to_the_member_alone() {
        assert_eq!(member(br#"{"logs":[{"number":"0x1"}],"number":"0x2","#, "number"), Some(&b"\"0x2\""[..]));
        assert_eq!(member(b"\"0x2\"", "number"), None);
        assert_eq!(member(b"[]", "number"), None);
    }

    #[test]
    fn a_path_of_members_leads_to_a_value_or_nowhere() {
        let result = br#"{"a":{"b":[1],"c":"7"},"d":8}"#;
        assert_eq!(at(result, &["a", "c"]).and_then(number), Some(7));
        assert_eq!(at(result, &["d"]).and_then(number), Some(8));
        assert_eq!(at(result, &["a", "b", "c"]), None);
        assert_eq!(number(b"\"x\""), None);
    }

    #[test]
    fn quantities_are_hexadecimal_strings() {
        for (raw, value) in [
            ("\"0x0\"", Some(0)),
            ("\"0x1B4\"", Some(436)),
            ("\"0x01\"", Some(1)),
            (" \"0\\u00781\" ", Some(1)),
            ("\"0xffffffffffffffff\"", Some(u64::MAX)),
            ("\"0x10000000000000000\"", None),
            ("\"0x\"", None),
            ("\"0x+1\"", None),
            ("\"0X1\"", None),
            ("\"1\"", None),
            ("1", None),
            ("null", None),
            ("", None),
        ] {
            assert_eq!(quantity(raw.as_bytes()), value, "{raw}");
        }
    }

    #[test]
    fn whole_numbers_are_digits() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b" 840000\n"), Some(840_000));
        for none in ["", "-1", "+1", "1.0", "1e3", "\"1\"", "null", "99999999999999999999"] {
            assert_eq!(integer(none.as_bytes()), None, "{none}");
        }
    }
}
