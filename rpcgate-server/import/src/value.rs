//! Texts that other gateways fill from the environment, and figures that they write as texts.

/// The syntax by which a form refers to an environment variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VariableForm {
    /// `$NAME` and `${NAME}`, anywhere in a text.
    Shell,
    /// `${NAME}`, anywhere in a text.
    Braces,
    /// `$NAME` as the whole text.
    Whole,
    /// `{vault://env/name}` as the whole text, or `${{ env "NAME" }}`.
    Vault,
}

/// A text with its variables recognised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Given {
    Text(String),
    /// The name of a variable that is the whole text.
    Variable(String),
    /// A text with variables in it.
    Mixed,
}

impl VariableForm {
    pub(super) fn read(self, text: &str) -> Given {
        let found = match self {
            VariableForm::Shell if !refers(text, true) => return Given::Text(text.to_owned()),
            VariableForm::Shell => braced(text).or_else(|| text.strip_prefix('$').and_then(variable)),
            VariableForm::Braces if !refers(text, false) => return Given::Text(text.to_owned()),
            VariableForm::Braces => braced(text),
            VariableForm::Whole => match text.strip_prefix('$') {
                Some(name) => variable(name),
                None => {
                    return Given::Text(
                        text.strip_prefix('\\').filter(|t| t.starts_with('$')).unwrap_or(text).to_owned(),
                    );
                }
            },
            VariableForm::Vault if text.contains("{vault://") || text.contains("${{") => vault(text),
            VariableForm::Vault => return Given::Text(text.to_owned()),
        };
        found.map_or(Given::Mixed, Given::Variable)
    }
}

/// Returns a valid name of a variable. Our own variables are read as settings, so they cannot hold a secret.
fn variable(name: &str) -> Option<String> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (first && rest && !name.starts_with(rpcgate_config::PREFIX)).then(|| name.to_owned())
}

fn braced(text: &str) -> Option<String> {
    text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).and_then(variable)
}

/// Reports whether `text` names a variable.
fn refers(text: &str, bare: bool) -> bool {
    text.match_indices('$').any(|(at, _)| {
        let next = text[at + 1..].chars().next();
        next.is_some_and(|c| c == '{' || bare && (c.is_ascii_alphanumeric() || c == '_'))
    })
}

fn vault(text: &str) -> Option<String> {
    if let Some(name) = text.strip_prefix("{vault://env/").and_then(|rest| rest.strip_suffix('}')) {
        return variable(&name.to_uppercase().replace('-', "_"));
    }
    let inner = text.strip_prefix("${{")?.strip_suffix("}}")?.trim();
    let name = inner.strip_prefix("env")?.trim();
    variable(name.trim_matches(['"', '\'']))
}

pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Parses a whole number that is not negative; underscores may separate its digits.
pub(super) fn number(text: &str) -> Option<u64> {
    let digits = text.trim().replace('_', "");
    digits.parse().ok()
}

/// Parses a duration such as `1m30s`, `1.5s` or `250ms` to milliseconds.
pub(super) fn millis(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-6),
        ("us", 1e-3),
        ("µs", 1e-3),
        ("ms", 1.0),
        ("s", 1e3),
        ("m", 6e4),
        ("h", 3.6e6),
        ("d", 8.64e7),
    ];
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..end].parse().ok()?;
        let unit = &rest[end..];
        let unit = &unit[..unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len())];
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total += amount * size;
        rest = &rest[end + unit.len()..];
    }
    integer(total)
}

/// Parses a period, by a name or as a duration, to seconds.
pub(super) fn period(text: &str) -> Option<u64> {
    match text.to_lowercase().as_str() {
        "second" | "0" => Some(1),
        "minute" | "1" => Some(60),
        "hour" | "2" => Some(3_600),
        "day" | "3" => Some(86_400),
        other => millis(other).filter(|time| time.is_multiple_of(1_000)).map(|time| time / 1_000),
    }
}

/// Parses a size such as `512MB`, `1GiB` or `1024` to bytes. Units are powers of 1024, as in the source programs.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = text[end..].trim().to_lowercase();
    let size: f64 = match unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1_048_576.0,
        "g" => 1_073_741_824.0,
        "t" => 1_099_511_627_776.0,
        _ => return None,
    };
    integer(text[..end].parse::<f64>().ok()? * size)
}

fn integer(number: f64) -> Option<u64> {
    (number.is_finite() && (0.0..9e15).contains(&number)).then(|| number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_its_own_variables() {
        use VariableForm::{Braces, Shell, Vault, Whole};
        let text = |text: &str| Given::Text(text.into());
        let variable = |name: &str| Given::Variable(name.into());
        for (form, given, read) in [
            (Shell, "${KEY}", variable("KEY")),
            (Shell, "$KEY", variable("KEY")),
            (Shell, "http://h/${KEY}", Given::Mixed),
            (Shell, "${KEY:-x}", Given::Mixed),
            (Shell, "${RPCGATE_KEY}", Given::Mixed),
            (Shell, "a$ b", text("a$ b")),
            (Braces, "${KEY}", variable("KEY")),
            (Braces, "$KEY", text("$KEY")),
            (Braces, "a${KEY}", Given::Mixed),
            (Whole, "$KEY", variable("KEY")),
            (Whole, "\\$KEY", text("$KEY")),
            (Whole, "a$KEY", text("a$KEY")),
            (Vault, "{vault://env/my-key}", variable("MY_KEY")),
            (Vault, "{vault://aws/my-key}", Given::Mixed),
            (Vault, "${{ env \"DECK_KEY\" }}", variable("DECK_KEY")),
            (Vault, "key", text("key")),
        ] {
            assert_eq!(form.read(given), read, "{form:?} {given}");
        }
    }

    #[test]
    fn durations_and_sizes_are_read() {
        for (text, read) in [
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("500ms", Some(500)),
            ("24h", Some(86_400_000)),
            ("", None),
            ("30", None),
            ("soon", None),
            ("1x", None),
            ("99999999999h", None),
        ] {
            assert_eq!(millis(text), read, "{text}");
        }
        for (text, read) in [
            ("1GB", Some(1 << 30)),
            ("512 MB", Some(512 << 20)),
            ("5mb", Some(5 << 20)),
            ("1KiB", Some(1024)),
            ("77", Some(77)),
            ("x", None),
            ("1PB", None),
        ] {
            assert_eq!(bytes(text), read, "{text}");
        }
    }
}
