//! The displayed names of grouped values.

use super::super::chart::axis::{day, hour};
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::usage::Cell;
use rpcgate_store::KeyName;

/// The letters shown of an identifier without a name.
const SHORT: usize = 8;

/// The maximum letters of a text in a cell or a legend.
const LONGEST: usize = 48;
/// The letters kept at the end of a shortened text.
const END: usize = 15;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct UsageNames {
    pub(super) projects: Vec<(ProjectId, String)>,
    /// The keys to choose from, followed by other keys in the rows.
    pub(super) keys: Vec<KeyName>,
    pub(super) choosable: usize,
}

impl UsageNames {
    pub(super) fn choosable(&self) -> impl Iterator<Item = &KeyName> {
        self.keys.iter().take(self.choosable)
    }

    fn project(&self, id: ProjectId) -> String {
        let known = self.projects.iter().find(|(known, _)| *known == id);
        known.map_or_else(|| format!("deleted, {}", short(&id)), |(_, name)| name.clone())
    }

    /// Returns the name of a key: its description or its prefix.
    pub(super) fn key(&self, id: KeyId) -> String {
        let Some(known) = self.keys.iter().find(|known| known.id == id) else { return short(&id) };
        let name = if known.description.is_empty() {
            format!("{}…", known.prefix)
        } else {
            known.description.clone()
        };
        if known.is_revoked { format!("{name} (revoked)") } else { name }
    }

    pub(super) fn cell(&self, cell: &Cell) -> String {
        match cell {
            Cell::Hour(_) | Cell::Day(_) => time_text(cell).unwrap_or_default(),
            Cell::Chain(name) if name.is_empty() => "–".to_owned(),
            Cell::Chain(name) | Cell::Method(name, _) => name.clone(),
            Cell::Key(id) => self.key(*id),
            Cell::Project(id) => self.project(*id),
            Cell::Transport(transport) => transport.name().to_owned(),
            Cell::Status(status) => status.to_string(),
        }
    }
}

/// Reports whether a text is too long for a cell or a legend. Methods may have 256 letters.
pub(super) fn is_long(text: &str) -> bool {
    text.chars().count() > LONGEST
}

/// Shortens a long text for a legend to its beginning and its end.
pub(super) fn shortened(text: String) -> String {
    let count = text.chars().count();
    if count <= LONGEST {
        return text;
    }
    let begin: String = text.chars().take(LONGEST - END - 1).collect();
    let end: String = text.chars().skip(count - END).collect();
    format!("{begin}…{end}")
}

fn short(id: &impl ToString) -> String {
    let text = id.to_string();
    text.get(..SHORT).map_or(text.clone(), |start| format!("{start}…"))
}

/// Formats an hour or a day for a cell: `19 Nov, 14:00`.
fn time_text(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Hour(begin) => Some(format!("{}, {}", day(*begin), hour(*begin))),
        Cell::Day(begin) => Some(day(*begin)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_shortened_in_its_middle() {
        let whole = "ü".repeat(LONGEST);
        assert_eq!(shortened(whole.clone()), whole);
        assert!(!is_long(&whole));
        let long = format!("eth_{}_end_of_the_name", "x".repeat(300));
        let short = shortened(long.clone());
        assert!(is_long(&long) && !is_long(&short), "{short}");
        assert!(short.starts_with("eth_xxx") && short.ends_with("…end_of_the_name"), "{short}");
        assert_eq!(short.chars().count(), LONGEST);
    }

    #[test]
    fn a_resource_without_a_name_is_shown_by_its_identifier() {
        let project = ProjectId(1 << 120);
        let key = KeyId(2 << 120);
        let named = KeyName {
            id: key,
            project,
            description: String::new(),
            prefix: "rpcg_0123456".into(),
            is_revoked: false,
        };
        let names = UsageNames {
            projects: vec![(project, "Checkout".into())],
            keys: vec![named.clone()],
            choosable: 1,
        };
        assert_eq!(
            (names.cell(&Cell::Project(project)), names.cell(&Cell::Key(key))),
            ("Checkout".into(), "rpcg_0123456…".into())
        );
        assert_eq!(names.cell(&Cell::Project(ProjectId(3 << 120))), "deleted, 03000000…");
        assert_eq!(names.cell(&Cell::Key(KeyId(4 << 120))), "04000000…");
        let revoked = KeyName { description: "api".into(), is_revoked: true, ..named };
        let names = UsageNames { keys: vec![revoked], ..UsageNames::default() };
        assert_eq!((names.key(key), names.choosable().count()), ("api (revoked)".into(), 0));
    }
}
