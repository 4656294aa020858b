//! The operating system account of this process.

use std::fmt;
use std::os::unix::fs::MetadataExt;

const MAX_NAME: usize = 64;

/// The name of an account on this machine, for the audit. Displayed as `ada`, or as `root, sudo by ada`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalAccount(String);

impl LocalAccount {
    /// Returns the account of this process. `SUDO_USER`, which `sudo` sets, names the person behind it.
    pub fn current() -> Self {
        // The folder belongs to the user whose rights this process has.
        let user = std::fs::metadata("/proc/self").ok().map(|own| own.uid());
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let variable = |name| std::env::var(name).ok();
        LocalAccount::of(user, &accounts, variable("USER"), variable("SUDO_USER"))
    }

    /// Returns the account of the user with this number, whose name is in `accounts`, the text of passwd(5). Without a
    /// number, the name is `variable`.
    fn of(user: Option<u32>, accounts: &str, variable: Option<String>, sudo: Option<String>) -> Self {
        let name = match user {
            Some(user) => named(user, accounts).map_or_else(|| format!("user {user}"), str::to_owned),
            None => variable.unwrap_or_else(|| "unknown".into()),
        };
        LocalAccount(match sudo {
            Some(person) if !person.is_empty() && person != name => {
                format!("{}, sudo by {}", plain(&name), plain(&person))
            }
            _ => plain(&name),
        })
    }
}

fn named(user: u32, accounts: &str) -> Option<&str> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let _ = fields.next()?;
        let number = fields.next()?;
        number.parse::<u32>().is_ok_and(|number| number == user).then_some(name)
    })
}

/// Sanitises a variable, which may contain anything, for people.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect()
}

impl fmt::Display for LocalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000::/a:/bin/sh\n";

    fn of(user: Option<u32>, variable: Option<&str>, sudo: Option<&str>) -> String {
        LocalAccount::of(user, ACCOUNTS, variable.map(str::to_owned), sudo.map(str::to_owned)).to_string()
    }

    #[test]
    fn an_account_has_its_name_and_the_person_behind_sudo() {
        assert_eq!(of(Some(1000), Some("eve"), None), "ada");
        assert_eq!(of(Some(0), None, Some("ada")), "root, sudo by ada");
        assert_eq!(of(Some(0), None, Some("root")), "root");
        assert_eq!(of(Some(7), Some("eve"), Some("")), "user 7");
        assert_eq!(of(None, Some("eve"), None), "eve");
        assert_eq!(of(None, None, None), "unknown");
        assert!(!LocalAccount::current().to_string().is_empty());
    }

    #[test]
    fn a_name_from_the_environment_is_one_short_line() {
        let long = format!("eve\n\u{1b}[2J{}", "x".repeat(1_000));
        let shown = of(Some(0), None, Some(&long));
        assert!(shown.starts_with("root, sudo by eve[2Jxx") && shown.len() < 100, "{shown}");
    }
}
