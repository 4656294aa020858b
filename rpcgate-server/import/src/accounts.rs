//! Another gateway's callers as tenants, projects and keys of our file.

use super::document::Node;
use super::draft::{Draft, Holds, TomlValue, table_name};
use super::note::NoteKind;
use super::value::Given;
use rpcgate_core::secret::KeyHash;

/// A limit that is never reached: the largest that a plan can have.
const UNBOUNDED: u64 = 1_000_000_000_000;
const LEAST_KEY: usize = 16;

/// The limits of one key in the windows of a plan; a window without a limit is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct KeyWindows {
    pub(super) minute: Option<u64>,
    pub(super) hour: Option<u64>,
    pub(super) day: Option<u64>,
}

impl KeyWindows {
    pub(super) fn and(self, other: Self) -> Self {
        let smaller = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        KeyWindows {
            minute: smaller(self.minute, other.minute),
            hour: smaller(self.hour, other.hour),
            day: smaller(self.day, other.day),
        }
    }
}

/// Assigns callers to a project and a tenant for each source project and plan.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    plans: Vec<(KeyWindows, &'static str)>,
    projects: Vec<(String, &'static str, String)>,
}

impl Accounts {
    fn plan(&mut self, draft: &mut Draft, windows: KeyWindows, from: &Node) -> &'static str {
        if let Some((_, plan)) = self.plans.iter().find(|(known, _)| *known == windows) {
            return plan;
        }
        let is_unbounded = windows == KeyWindows::default();
        let tiers: &[&'static str] =
            if is_unbounded { &["enterprise"] } else { &["standard", "premium", "free"] };
        let free = tiers.iter().find(|tier| self.plans.iter().all(|(_, used)| used != *tier));
        let Some(plan) = free.copied() else {
            let text = "there are three other limits already, and rpcgate has four plans; give these tenants a plan of \
                        your own: rpcgate-admin custom-plan create";
            draft.notes.add(NoteKind::LeftOut, from.at, &from.path, text);
            return self.plan(draft, KeyWindows::default(), from);
        };
        let header = format!("plans.{plan}");
        for (key, bound) in
            [("per_minute", windows.minute), ("per_hour", windows.hour), ("per_day", windows.day)]
        {
            draft.set(&header, key, TomlValue::Number(bound.unwrap_or(UNBOUNDED)), from);
        }
        self.plans.push((windows, plan));
        plan
    }

    /// Returns the project for callers of the source's `project` that have these windows.
    pub(super) fn project(
        &mut self,
        draft: &mut Draft,
        project: &str,
        windows: KeyWindows,
        from: &Node,
    ) -> String {
        let plan = self.plan(draft, windows, from);
        if let Some((_, _, name)) = self.projects.iter().find(|(of, with, _)| of == project && *with == plan)
        {
            return name.clone();
        }
        let name = draft.fresh("project", &table_name(project), '-');
        draft.set(&format!("tenants.{name}"), "plan", TomlValue::Text(plan.to_owned()), from);
        let header = format!("projects.{name}");
        draft.set(&header, "tenant", TomlValue::Text(name.clone()), from);
        // By default a project may spend 100,000 Compute Units in 24 hours; the source has no such limit.
        draft.set(&header, "cu_per_day", TomlValue::Number(UNBOUNDED), from);
        self.projects.push((project.to_owned(), plan, name.clone()));
        name
    }

    /// Returns the names of our projects for the source's `project`.
    pub(super) fn projects_of<'a>(&'a self, project: &'a str) -> impl Iterator<Item = &'a str> {
        self.projects.iter().filter(move |(of, _, _)| of == project).map(|(_, _, name)| name.as_str())
    }

    /// Adds a key of `project`. Its text, at `node`, is never written, only its digest or a variable.
    pub(super) fn key(&mut self, draft: &mut Draft, name: &str, project: &str, given: &str, node: &Node) {
        let read = draft.form.read(given);
        if let Given::Text(text) = &read
            && (text.len() < LEAST_KEY || !text.bytes().all(|b| b.is_ascii_graphic()))
        {
            let text =
                "the key is too short or has characters that no header carries: give this client a new one";
            draft.notes.left_out(node, text);
            return;
        }
        let name = draft.fresh("key", &table_name(name), '-');
        let (field, value) = match read {
            Given::Text(text) => ("sha256", TomlValue::Text(KeyHash::of(&text).to_string())),
            Given::Variable(variable) => ("key", draft.variable(variable, Holds::ApiKey)),
            Given::Mixed => {
                let text = "the key of this line, with its variables replaced";
                ("key", draft.new_variable(&format!("KEY_{name}"), Holds::ApiKey, node, text))
            }
        };
        let section = draft.section(&format!("keys.{name}"), node);
        section.set(field, value, node);
        section.set("project", TomlValue::Text(project.to_owned()), node);
    }
}
