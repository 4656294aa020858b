//! Replacements for secrets in output.

pub(super) use rpcgate_core::url_secrets::MASK;

/// The hexadecimal digits of a fingerprint: enough against accidental collisions, too few to reveal the secret.
pub(super) const DIGITS: usize = 12;

/// The replacement for a secret.
#[derive(Clone, Copy)]
pub(super) enum Masking<'m> {
    /// `***`.
    Plain,
    /// `***-` and a fingerprint, so that a change is visible.
    Fingerprint(&'m dyn Fn(&str) -> String),
    /// The secret itself, for a comparison in memory.
    Exact,
}

impl Masking<'_> {
    pub(super) fn of(&self, secret: &str) -> String {
        match self {
            Masking::Plain => MASK.to_owned(),
            Masking::Fingerprint(of) => format!("{MASK}-{}", of(secret)),
            Masking::Exact => secret.to_owned(),
        }
    }
}

/// Reports whether a text is a mask, with or without a fingerprint.
pub(super) fn is_mask(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(MASK) else { return false };
    rest.is_empty() || fingerprint_at(text).is_some_and(|tag| rest.len() == 1 + tag.len())
}

/// Returns the fingerprint after the first mask in `text`, if it has one.
pub(super) fn fingerprint_at(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(MASK)?;
    let tag = rest.strip_prefix('-')?.get(..DIGITS)?;
    tag.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f')).then_some(tag)
}

/// Replaces every masked fingerprint in `text` by `***`.
pub(super) fn without_fingerprints(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once(MASK) {
        plain.push_str(before);
        plain.push_str(MASK);
        let tag = fingerprint_at(&rest[before.len()..]);
        rest = tag.map_or(after, |tag| &after[1 + tag.len()..]);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_known_with_and_without_its_fingerprint() {
        for mask in ["***", "***-0123456789ab"] {
            assert!(is_mask(mask), "{mask}");
        }
        for other in
            ["", "**", "****", "***-", "***-0123456789a", "***-0123456789abc", "***-0123456789AB", "x***"]
        {
            assert!(!is_mask(other), "{other}");
        }
    }

    #[test]
    fn fingerprints_are_removed_everywhere() {
        let marked = "http://u:***-0123456789ab@h/?key=***-fedcba987654";
        let plain = "http://u:***@h/?key=***";
        assert_eq!(without_fingerprints(marked), plain);
        assert_eq!(without_fingerprints(plain), plain);
        assert_eq!(without_fingerprints("***-ü"), "***-ü");
        assert_eq!(fingerprint_at(marked), Some("0123456789ab"));
        assert_eq!(fingerprint_at(plain), None);
    }
}
