//! Validation of method names in several tables.

use super::fields::Fields;
use super::problem::Problem;

/// Reports texts that cannot be the name of a method (1 to 256 bytes) or, if allowed, of a family.
pub(super) fn methods<'n, F: Fields>(
    f: &mut F,
    key: &'static str,
    names: impl Iterator<Item = &'n String>,
    families: bool,
) {
    for name in names {
        let stem = if families { name.strip_suffix('*').unwrap_or(name) } else { name };
        let why = if name.is_empty() || name.len() > 256 || name.contains(char::is_whitespace) {
            format!("has a name that no method can have: {name:?}")
        } else if stem.contains('*') {
            let rule = if families {
                "* may stand at the end only"
            } else {
                "methods are named one by one, without *"
            };
            format!("has the name {name:?}: {rule}")
        } else {
            continue;
        };
        f.wrong(&[key], |key| Problem::Invalid { key, why });
    }
}
