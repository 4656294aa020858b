//! Short device names, made from the user agent, for users who look for a session that is not theirs. A client can send
//! any user agent, so nothing depends on the name.

/// Browsers by a part of their user agent. Most user agents name other browsers too, so the most specific come first.
const BROWSERS: [(&str, &str); 7] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
];

/// Systems by a part of the user agent, the most specific first.
const SYSTEMS: [(&str, &str); 8] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("FreeBSD", "FreeBSD"),
    ("Linux", "Linux"),
];

const MAX_NAME: usize = 40;

/// Returns the device of a user agent, such as "Firefox on Linux" or "curl", or "unknown".
///
/// ```
/// use rpcgate_management::identity::device::device;
///
/// assert_eq!(device("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"), "Firefox on Linux");
/// assert_eq!(device("curl/8.5.0"), "curl");
/// ```
pub fn device(agent: &str) -> String {
    let named = |names: &[(&str, &'static str)]| {
        names.iter().find(|(part, _)| agent.contains(part)).map(|(_, name)| *name)
    };
    let is_safari = agent.contains("Safari/") && agent.contains("Version/");
    let browser = named(&BROWSERS).or(is_safari.then_some("Safari"));
    match (browser, named(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(name), None) => name.to_owned(),
        (None, system) => {
            // A program names itself first: RFC 9110, section 10.1.5.
            let program = agent.split(['/', ' ', '(']).next().unwrap_or_default();
            let name = if program.is_empty() || program == "Mozilla" { system } else { Some(program) };
            name.unwrap_or("unknown").chars().take(MAX_NAME).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Accounts and second factors).
    #[test]
    fn common_user_agents_have_a_short_name() {
        for (agent, name) in [
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 \
                 Safari/537.36 Edg/140.0.0.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) \
                 Chrome/140.0.0.0 Safari/537.36",
                "Chrome on macOS",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/18.0 Safari/605.1.15",
                "Safari on macOS",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/18.0 Mobile/15E148 Safari/604.1",
                "Safari on iPhone",
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile \
                 Safari/537.36",
                "Chrome on Android",
            ),
            (
                "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
                "Firefox on Linux",
            ),
            ("Mozilla/5.0 (X11; Linux x86_64)", "Linux"),
            ("python-requests/2.32.0", "python-requests"),
            ("Go-http-client/2.0", "Go-http-client"),
            ("a test", "a"),
            ("Mozilla/5.0", "unknown"),
            ("", "unknown"),
            ("/", "unknown"),
        ] {
            assert_eq!(device(agent), name, "{agent}");
        }
    }

    #[test]
    fn a_device_name_is_short_for_any_client() {
        assert_eq!(device(&"é".repeat(200)).chars().count(), MAX_NAME);
    }
}
