//! The parts of a node's URL that may be secrets, so that every place that shows or stores a URL hides the same ones.
//! Providers put their keys into any part: as user, as password, as a segment of the path, or as a parameter of any name.

/// A user or a path segment of at least this many characters may be a key.
pub const KEY_LENGTH: usize = 16;

/// The log-in of a URL (the part before `@`), with `mask` instead of its password. A user without a password, or one that
/// is as long as a key, is hidden too.
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
        Some((user, password)) if !password.is_empty() => format!("{}:{mask}", shown_user(user, mask)),
        _ => mask.to_owned(),
    }
}

/// A user that has a password, or `mask` if the user is as long as a key.
pub fn shown_user<'a>(user: &'a str, mask: &'a str) -> &'a str {
    if user.len() >= KEY_LENGTH { mask } else { user }
}

/// The path and the query of a URL, with `mask` instead of each segment that is as long as a key and of the value of each
/// parameter. A parameter without a name is hidden as a whole.
///
/// ```
/// use rpcgate_core::url_secrets::shown_target;
///
/// let target = "/v2/Qk3vB7nX9pLs2Rt5WyZa8CdE/x?dkey=abc&flag";
/// assert_eq!(shown_target(target, "***"), "/v2/***/x?dkey=***&***");
/// ```
pub fn shown_target(target: &str, mask: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let segment =
        |segment: &str| if segment.len() >= KEY_LENGTH { mask.to_owned() } else { segment.to_owned() };
    let mut shown = path.split('/').map(segment).collect::<Vec<_>>().join("/");
    let parameter = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={mask}"),
        None => mask.to_owned(),
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
        #[test]
        fn a_key_is_hidden_wherever_a_provider_puts_it(key in "[A-Za-z0-9_-]{16,64}", name in "[a-z]{1,8}") {
            for target in [format!("/{name}/{key}"), format!("/{key}/"), format!("/?{name}={key}"), format!("/x?a=b&{key}")] {
                prop_assert!(!shown_target(&target, "***").contains(&key), "{}", target);
            }
            for login in [key.clone(), format!("{key}:"), format!("{key}:x"), format!("{name}:{key}")] {
                prop_assert!(!shown_login(&login, "***").contains(&key), "{}", login);
            }
        }

        #[test]
        fn a_path_without_a_key_is_shown_as_it_is(path in "(/[a-z0-9.-]{0,15}){0,5}") {
            prop_assert_eq!(shown_target(&path, "***"), path);
        }
    }
}
