//! Masking of secrets in a node's URL, identical wherever it is shown or stored. Providers put keys into any part:
//! user, password, path segment, or any parameter.

/// The replacement for a secret.
pub const MASK: &str = "***";

/// The minimum length at which any user or path segment may be a key.
const LONG_KEY: usize = 16;

/// The minimum length if it mixes two of: digits, small letters, capitals.
const SHORT_KEY: usize = 8;

/// Reports whether a user or a path segment may be a key: it is long, or does not look like a word.
///
/// ```
/// use rpcgate_core::url_secrets::may_be_key;
///
/// assert!(may_be_key("a1b2c3d4") && may_be_key("QkvBnXpL") && may_be_key("sixteen-letters-"));
/// assert!(!may_be_key("bitcoin") && !may_be_key("jsonRPC") && !may_be_key("mainnet-archive"));
/// ```
pub fn may_be_key(part: &str) -> bool {
    let kinds: [fn(&u8) -> bool; 3] = [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase];
    let is_mixed = || kinds.iter().filter(|is_of_kind| part.as_bytes().iter().any(**is_of_kind)).count() > 1;
    part.len() >= LONG_KEY || (part.len() >= SHORT_KEY && is_mixed())
}

/// Reports whether a path segment is a version such as `v2`. Providers put the key after it.
fn is_version(segment: &str) -> bool {
    let number = segment.strip_prefix(['v', 'V']).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// Returns `part` if it is already a mask, with or without a fingerprint, which no configuration may contain; else
/// `mask`.
fn hidden<'a>(part: &'a str, mask: &'a str) -> &'a str {
    let is_tag = |tag: &str| tag.len() == 12 && tag.bytes().all(|b| b.is_ascii_hexdigit());
    let is_hidden = |rest: &str| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_tag);
    if part.strip_prefix(MASK).is_some_and(is_hidden) { part } else { mask }
}

/// Masks the login of a URL (before `@`): the password, a user without one, and a user that may be a key.
///
/// ```
/// use rpcgate_core::url_secrets::shown_login;
///
/// assert_eq!(shown_login("rpc:hunter2", "***"), "rpc:***");
/// assert_eq!(shown_login("token", "***"), "***");
/// assert_eq!(shown_login("0123456789abcdef:x", "***"), "***:***");
/// ```
pub fn shown_login(login: &str, mask: &str) -> String {
    match login.split_once(':') {
        Some((user, password)) if !password.is_empty() => {
            format!("{}:{}", shown_user(user, mask), hidden(password, mask))
        }
        _ => hidden(login, mask).to_owned(),
    }
}

/// Returns a user that has a password, or `mask` if the user may be a key.
pub fn shown_user<'a>(user: &'a str, mask: &'a str) -> &'a str {
    if may_be_key(user) { hidden(user, mask) } else { user }
}

/// Masks the path and the query of a URL: segments that may be keys, segments after a version or with `=`, parameter
/// values, and parameters without a name. Masking too many names does less harm than showing a key.
///
/// ```
/// use rpcgate_core::url_secrets::shown_target;
///
/// let target = "/v2/Qk3vB7nX9pLs2Rt5WyZa8CdE/x?dkey=abc&flag";
/// assert_eq!(shown_target(target, "***"), "/v2/***/x?dkey=***&***");
/// assert_eq!(shown_target("/rpc/v1/short/eth", "***"), "/rpc/v1/***/eth");
/// ```
pub fn shown_target(target: &str, mask: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut is_behind_version = false;
    let mut segments = Vec::new();
    for segment in path.split('/') {
        let is_key = is_behind_version || segment.contains('=') || may_be_key(segment);
        segments.push(if is_key && !segment.is_empty() { hidden(segment, mask) } else { segment });
        if !segment.is_empty() {
            is_behind_version = is_version(segment);
        }
    }
    let mut shown = segments.join("/");
    let parameter = |pair: &str| match pair.split_once('=') {
        Some((name, value)) => format!("{name}={}", hidden(value, mask)),
        None => hidden(pair, mask).to_owned(),
    };
    if let Some(query) = query {
        shown.push('?');
        shown.push_str(&query.split('&').map(parameter).collect::<Vec<_>>().join("&"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Shows (Commands and configuration).
        #[test]
        fn a_key_is_hidden_in_every_position_that_providers_use(key in "[A-Za-z0-9_-]{16,64}", name in "[a-z]{1,8}") {
            for target in [format!("/{name}/{key}"), format!("/{key}/"), format!("/?{name}={key}"), format!("/x?a=b&{key}")] {
                prop_assert!(!shown_target(&target, "***").contains(&key), "{}", target);
            }
            for login in [key.clone(), format!("{key}:"), format!("{key}:x"), format!("{name}:{key}")] {
                prop_assert!(!shown_login(&login, "***").contains(&key), "{}", login);
            }
        }

        // Shows (Commands and configuration).
        #[test]
        fn a_short_key_is_hidden_if_it_is_not_a_word_or_follows_a_version(
            word in "[a-z]{4,15}", mixed in "[a-z]{3,6}[0-9]{2,4}[A-Z]{3,5}", version in 1..20_u8,
        ) {
            for target in [
                format!("/v{version}/{word}"), format!("/rpc/v{version}//{word}/eth"), format!("/eth/{mixed}/"),
                format!("/key={word}"),
            ] {
                let shown = shown_target(&target, "<hidden>");
                prop_assert!(shown.contains("<hidden>") && !shown.contains(&mixed), "{} {}", target, shown);
                prop_assert!(!shown.split(['/', '=']).any(|part| part == word), "{} {}", target, shown);
            }
            let login = format!("{mixed}:x");
            prop_assert!(!shown_login(&login, "***").contains(&mixed));
            prop_assert_eq!(shown_login(&format!("rpc:***{mixed}"), "***"), "rpc:***");
        }

        #[test]
        fn a_path_without_a_key_is_shown_as_it_is(path in "(/[a-z.-]{0,15}){0,5}") {
            prop_assert_eq!(shown_target(&path, "***"), path);
        }

        // Shows (Commands and configuration).
        #[test]
        fn a_hidden_value_stays_unchanged(target in "(/[a-zA-Z0-9=]{0,20}){0,5}(\\?[a-z&=]{0,9})?", login in "[a-z0-9]{1,9}(:[a-z]{0,9})?") {
            let once = shown_target(&target, "***-0123456789ab");
            prop_assert_eq!(shown_target(&once, "***"), once);
            let once = shown_login(&login, "***-0123456789ab");
            prop_assert_eq!(shown_login(&once, "***-0123456789ab"), once);
        }
    }
}
