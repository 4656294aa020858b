//! The decoded path and query of a REST call.

/// The segments of a path and the parameters of a query.
#[derive(Debug, Default)]
pub(crate) struct Target {
    segments: Vec<String>,
    query: Vec<(String, String)>,
}

impl Target {
    /// Reads path and query as a node sees them. A trailing slash has no meaning.
    pub(crate) fn read(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.trim_matches('/');
        let segments = if path.is_empty() {
            Vec::new()
        } else {
            path.split('/').map(|segment| decoded(segment, false)).collect()
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let query = query.map(|(name, value)| (decoded(name, true), decoded(value, true))).collect();
        Target { segments, query }
    }

    /// Creates the parameters of a query, without a path.
    pub(crate) fn of_query(query: Vec<(String, String)>) -> Self {
        Target { segments: Vec::new(), query }
    }

    pub(crate) fn segments(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }

    /// Returns the first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Decodes percent escapes, and `+` in a query; an invalid escape stays unchanged.
pub(crate) fn decoded(text: &str, is_query: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).and_then(|digits| hex::decode(digits).ok());
        match (byte, escaped) {
            (b'%', Some(value)) => {
                out.extend(value);
                at += 2;
            }
            (b'+', _) if is_query => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_decoded_as_servers_decode_it() {
        let target = Target::read("/a/b%2Fc/?denom=ibc%2FAB&x=1+2&x=3&y&broken=%z");
        assert_eq!(target.segments(), ["a", "b/c"]);
        assert_eq!(target.get("denom"), Some("ibc/AB"));
        assert_eq!(target.all("x").collect::<Vec<_>>(), ["1 2", "3"]);
        assert_eq!(target.get("y"), Some(""));
        assert_eq!(target.get("broken"), Some("%z"));
        assert_eq!(target.get("z"), None);
        assert!(Target::read("/").segments().is_empty());
    }
}
