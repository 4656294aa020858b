//! The frame of every page: its position in the dashboard, its reader, and the navigation.

use super::outcome::Done;
use super::submission_ids::SubmissionIds;
use rpcgate_core::clock::Time;
use rpcgate_management::action::notifications::MAX_COUNTED;
use rpcgate_management::identity::role::{Permission, Role};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Theme {
    /// The theme of the reader's system.
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Theme; 3] = [Theme::System, Theme::Light, Theme::Dark];

    /// Returns the name in the form and the cookie.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Theme::System => "system",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Theme::System => "System",
            Theme::Light => "Light",
            Theme::Dark => "Dark",
        }
    }

    /// Returns the theme with this name; the system's for any other name.
    pub(crate) fn of(name: &str) -> Self {
        Theme::ALL.into_iter().find(|theme| theme.name() == name).unwrap_or_default()
    }

    /// Reports whether the reader chose a theme other than the system's.
    pub(crate) fn is_chosen(self) -> bool {
        self != Theme::System
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Area {
    /// Pages without navigation, for visitors who are not logged in yet.
    Gate,
    Customer,
    Operator,
}

/// The navigation entry that a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageSection {
    /// No entry: the account, an error, the notifications.
    Nowhere,
    Overview,
    Projects,
    Usage,
    Explain,
    Webhooks,
    Chains,
    Plan,
    Billing,
    Team,
    Audit,
    Support,
    OperatorOverview,
    Tenants,
    LimitRequests,
    OperatorTickets,
    OperatorInvoices,
    Nodes,
    OperatorChains,
    Weights,
    OperatorPlans,
    Configuration,
    Users,
    OperatorExplain,
    OperatorAudit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NavEntry {
    pub(crate) place: PageSection,
    /// The address, relative to the root of the pages.
    pub(crate) path: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) label: &'static str,
    /// The permission that a member needs to see the entry.
    needs: Permission,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NavGroup {
    /// The heading and its `id`; the first group has none.
    pub(crate) head: Option<(&'static str, &'static str)>,
    pub(crate) entries: Vec<NavEntry>,
}

const fn entry(place: PageSection, path: &'static str, icon: &'static str, label: &'static str) -> NavEntry {
    NavEntry { place, path, icon, label, needs: Permission::Read }
}

/// Groups of entries, each with the `id` and the text of its heading.
type NavTable = &'static [(Option<(&'static str, &'static str)>, &'static [NavEntry])];

const CUSTOMER: NavTable = &[
    (
        None,
        &[
            entry(PageSection::Overview, "./", "grid", "Overview"),
            entry(PageSection::Projects, "projects", "box", "Projects"),
            entry(PageSection::Usage, "usage", "bars", "Usage"),
            entry(PageSection::Explain, "explain", "search", "Explain a request"),
            entry(PageSection::Webhooks, "webhooks", "send", "Webhooks"),
            entry(PageSection::Chains, "chains", "link", "Chains"),
        ],
    ),
    (
        Some(("nav-org", "Organisation")),
        &[
            entry(PageSection::Plan, "plan", "gauge", "Plan and limits"),
            NavEntry {
                needs: Permission::ReadBilling,
                ..entry(PageSection::Billing, "billing", "card", "Billing")
            },
            entry(PageSection::Team, "team", "people", "Team"),
            entry(PageSection::Audit, "audit", "list", "Audit log"),
        ],
    ),
    (
        Some(("nav-help", "Help")),
        &[
            entry(PageSection::Support, "support", "chat", "Support"),
            entry(PageSection::Nowhere, "swagger/", "code", "API reference"),
        ],
    ),
];

const OPERATOR: NavTable = &[
    (
        None,
        &[
            entry(PageSection::OperatorOverview, "operator", "grid", "Overview"),
            entry(PageSection::Tenants, "operator/tenants", "org", "Tenants"),
            entry(PageSection::LimitRequests, "operator/limit-requests", "inbox", "Limit requests"),
            entry(PageSection::OperatorTickets, "operator/tickets", "chat", "Tickets"),
            entry(PageSection::OperatorInvoices, "operator/invoices", "card", "Invoices"),
        ],
    ),
    (
        Some(("nav-gateway", "Gateway")),
        &[
            entry(PageSection::Nodes, "operator/nodes", "server", "Nodes"),
            entry(PageSection::OperatorChains, "operator/chains", "link", "Chains"),
            entry(PageSection::Weights, "operator/weights", "scale", "CU weights"),
            entry(PageSection::OperatorPlans, "operator/plans", "layers", "Plans"),
            entry(PageSection::Configuration, "operator/config", "file", "Configuration"),
        ],
    ),
    (
        Some(("nav-record", "Record")),
        &[
            entry(PageSection::Users, "operator/users", "people", "Users"),
            entry(PageSection::OperatorExplain, "operator/explain", "search", "Explain a request"),
            entry(PageSection::OperatorAudit, "operator/audit", "list", "Audit log"),
        ],
    ),
];

/// The counts of pending work in the navigation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct WaitingWork {
    /// Notifications that the member has not read; counted up to a bound.
    pub(crate) unread: u64,
    /// Limit requests that no operator has decided.
    pub(crate) limit_requests: u64,
    /// Tickets that wait for an operator or, on a member's page, for the tenant.
    pub(crate) tickets: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reader {
    pub(crate) name: String,
    pub(crate) email: String,
    /// The displayed name of the role: `owner`, `operator`.
    pub(crate) role_name: &'static str,
    role: Role,
    pub(crate) is_operator: bool,
    pub(crate) tenant: Option<(String, String)>,
    pub(crate) is_confirmed: bool,
}

impl Reader {
    pub(crate) fn of(user: &rpcgate_store::User, tenant: Option<(String, String)>) -> Self {
        Reader {
            name: user.name.clone(),
            email: user.email.clone(),
            role_name: user.role_name(),
            role: user.role,
            is_operator: user.is_operator(),
            tenant,
            is_confirmed: user.confirmed_at.is_some(),
        }
    }

    /// Returns the name; the e-mail address if the name is empty.
    pub(crate) fn shown_name(&self) -> &str {
        if self.name.trim().is_empty() { &self.email } else { &self.name }
    }

    pub(crate) fn initials(&self) -> String {
        initials(self.shown_name())
    }
}

/// Returns up to two letters that represent a person.
pub(crate) fn initials(name: &str) -> String {
    let words = name.split_whitespace().filter_map(|word| word.chars().find(|c| c.is_alphanumeric()));
    let letters: String = words.take(2).collect();
    letters.to_uppercase()
}

/// The data of a page's frame. Every template has one in its field `frame`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    /// The relative path from the page to the root of all pages: `""`, `"../"`, `"../../"`. All links begin with it.
    pub(crate) root: String,
    /// The page's own address below the root, with its query. If the address only takes a form, it is that of the page
    /// with the form.
    pub(crate) here: String,
    pub(crate) area: Area,
    pub(crate) place: PageSection,
    pub(crate) reader: Option<Reader>,
    pub(crate) theme: Theme,
    /// The language of code samples that the reader chose last.
    pub(crate) language: Option<String>,
    /// The value of the hidden field of every form that posts.
    pub(crate) csrf: String,
    /// Makes the value of the other hidden field, which identifies a form that is sent twice.
    pub(crate) submissions: SubmissionIds,
    pub(crate) done: Option<Done>,
    pub(crate) waiting: WaitingWork,
    pub(crate) now: Time,
}

impl Frame {
    /// Returns the relative path to the first page.
    pub(crate) fn home(&self) -> &str {
        if self.root.is_empty() { "./" } else { &self.root }
    }

    /// Returns the name of the tenant; operators have none.
    pub(crate) fn tenant_name(&self) -> Option<&str> {
        Some(self.reader.as_ref()?.tenant.as_ref()?.0.as_str())
    }

    /// Reports whether the reader is a member whose role has `permission`. Actions check it again.
    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.reader
            .as_ref()
            .is_some_and(|reader| !reader.is_operator && permission.is_granted_to(reader.role))
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.is_operator)
    }

    /// Returns the navigation entries that the reader may see.
    pub(crate) fn navigation(&self) -> Vec<NavGroup> {
        let groups = match self.area {
            Area::Gate => &[],
            Area::Customer => CUSTOMER,
            Area::Operator => OPERATOR,
        };
        let is_shown = |entry: &&NavEntry| self.is_operator() || self.may(entry.needs);
        let shown = groups.iter().map(|(head, entries)| NavGroup {
            head: *head,
            entries: entries.iter().filter(is_shown).copied().collect(),
        });
        shown.collect()
    }

    /// Returns the relative path to a navigation entry.
    pub(crate) fn href(&self, entry: &NavEntry) -> String {
        if entry.path == "./" { self.home().to_owned() } else { format!("{}{}", self.root, entry.path) }
    }

    /// Reports whether the page belongs to an entry.
    pub(crate) fn is_at(&self, entry: &NavEntry) -> bool {
        entry.place == self.place && entry.place != PageSection::Nowhere
    }

    /// Returns the page's own address, without the outcome of the previous action. It always begins with a relative
    /// path, because a visitor chooses the address of a page that does not exist: `javascript:…` alone would be a link
    /// of its own.
    pub(crate) fn refresh(&self) -> String {
        format!("{}{}", self.home(), self.here)
    }

    /// Returns the path to the log-in that leads back to the page.
    pub(crate) fn log_in(&self) -> String {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", &self.here).finish();
        format!("{}login?{query}", self.root)
    }

    /// Returns the number of unread notifications, if there are any. It is counted up to a bound.
    pub(crate) fn unread(&self) -> Option<String> {
        match self.waiting.unread {
            0 => None,
            MAX_COUNTED.. => Some(format!("{}+", MAX_COUNTED - 1)),
            few => Some(few.to_string()),
        }
    }

    /// Returns the count shown next to an entry.
    pub(crate) fn count(&self, place: &PageSection) -> Option<u64> {
        let count = match place {
            PageSection::LimitRequests => self.waiting.limit_requests,
            PageSection::OperatorTickets | PageSection::Support => self.waiting.tickets,
            _ => 0,
        };
        (count > 0).then_some(count)
    }
}

/// Returns the relative path from a page with this path to the root.
pub(crate) fn root_of(path: &str) -> String {
    "../".repeat(path.trim_start_matches('/').matches('/').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relative_path_to_the_root_has_one_step_per_folder() {
        for (path, root) in
            [("/", ""), ("/login", ""), ("/projects/7", "../"), ("/projects/7/keys/8/revoke", "../../../../")]
        {
            assert_eq!(root_of(path), root, "{path}");
        }
    }

    #[test]
    fn initials_are_two_letters_at_most() {
        for (name, letters) in [
            ("Demo User", "DU"),
            ("ada", "A"),
            ("ada@example.com", "A"),
            ("Ada B. King", "AB"),
            ("(é) x", "ÉX"),
            ("", ""),
        ] {
            assert_eq!(initials(name), letters, "{name}");
        }
    }

    #[test]
    fn an_unknown_theme_is_that_of_the_system() {
        assert_eq!(Theme::ALL.map(|theme| Theme::of(theme.name())), Theme::ALL);
        assert_eq!(Theme::of("\"><script>"), Theme::System);
    }
}
