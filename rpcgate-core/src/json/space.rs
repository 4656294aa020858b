//! Insignificant white space.

/// Reports whether a JSON text contains white space, also in strings. This check saves most texts a [`close_up`].
///
/// ```
/// use rpcgate_core::json::has_space;
///
/// assert!(has_space(b"[1, 2]") && has_space(b"[\"a b\"]") && !has_space(b"[1,2]"));
/// ```
#[inline]
pub fn has_space(text: &[u8]) -> bool {
    // No early exit, so that many bytes are compared at once. A JSON text contains no other control characters.
    text.iter().fold(false, |found, byte| found | (*byte <= b' '))
}

/// Moves the white space between tokens to the end, as spaces, and returns the length of the rest. Strings, numbers and
/// the order of members stay unchanged.
///
/// ```
/// use rpcgate_core::json::close_up;
///
/// let mut text = *b"[ 1.50,\n\"a b\" ]";
/// assert_eq!(close_up(&mut text), 12);
/// assert_eq!(&text, b"[1.50,\"a b\"]   ");
/// ```
pub fn close_up(text: &mut [u8]) -> usize {
    let mut end = 0;
    let mut in_string = false;
    let mut escaped = false;
    for at in 0..text.len() {
        let Some(&byte) = text.get(at) else { break };
        if !in_string && matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ => {}
        }
        if let Some(target) = text.get_mut(end) {
            *target = byte;
        }
        end += 1;
    }
    if let Some(rest) = text.get_mut(end..) {
        rest.fill(b' ');
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::json_text;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    #[test]
    fn strings_with_escapes_keep_their_white_space() {
        for (sent, left) in [
            (r#"[ "a \" b" , 1 ]"#, r#"["a \" b",1]"#),
            (r#"[ "a \\" , " \\\" " ]"#, r#"["a \\"," \\\" "]"#),
            ("\t{ \"b\" : 1e400 ,\r\n\"a\":-0 }", "{\"b\":1e400,\"a\":-0}"),
            ("[]", "[]"),
            ("", ""),
        ] {
            let mut text = sent.as_bytes().to_vec();
            let end = close_up(&mut text);
            assert_eq!(&text[..end], left.as_bytes(), "{sent}");
            assert!(text[end..].iter().all(|byte| *byte == b' ') && text.len() == sent.len());
        }
    }

    proptest! {
        // Shows (Nodes and cache).
        #[test]
        fn the_remaining_text_has_the_same_tokens(text in json_text()) {
            let mut bytes = text.as_bytes().to_vec();
            let end = close_up(&mut bytes);
            let mut again = bytes[..end].to_vec();
            prop_assert_eq!(close_up(&mut again), end);
            if serde_json::from_str::<&RawValue>(&text).is_ok() {
                let left = std::str::from_utf8(&bytes[..end]).unwrap();
                prop_assert!(serde_json::from_str::<&RawValue>(left).is_ok(), "{} became {}", text, left);
                let values = [&*text, left].map(|text| serde_json::from_str::<serde_json::Value>(text).ok());
                prop_assert_eq!(&values[0], &values[1]);
                prop_assert!(has_space(text.as_bytes()) || left == text);
            }
        }
    }
}
