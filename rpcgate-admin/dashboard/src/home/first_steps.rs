//! The view of the first steps.

use rpcgate_core::caller::ProjectId;
use rpcgate_core::plan::Plan;
use rpcgate_management::action::overview::first_run;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Done,
    Current,
    Coming,
}

impl Step {
    pub(super) fn is_done(self) -> bool {
        self == Step::Done
    }

    pub(super) fn is_current(self) -> bool {
        self == Step::Current
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct StepList {
    /// Confirm the address, create a project, create a key, make a call.
    pub(super) steps: [Step; 4],
    pub(super) email: String,
    pub(super) project: Option<(ProjectId, String)>,
    pub(super) plan: Plan,
    pub(super) plan_name: String,
    pub(super) cu_per_day: u64,
}

impl StepList {
    pub(super) fn of(found: first_run::FirstSteps, email: &str) -> Self {
        let done = [found.is_confirmed, found.project.is_some(), found.has_key, false];
        let current = done.iter().position(|is_done| !is_done);
        let step = |place: usize| match done[place] {
            true => Step::Done,
            false if current == Some(place) => Step::Current,
            false => Step::Coming,
        };
        StepList {
            steps: [step(0), step(1), step(2), step(3)],
            email: email.to_owned(),
            project: found.project.map(|project| (project.id, project.name)),
            plan_name: super::super::context::plan_label(found.plan.tier),
            plan: found.plan,
            cu_per_day: found.cu_per_day,
        }
    }

    pub(super) fn done(&self) -> usize {
        self.steps.iter().filter(|step| step.is_done()).count()
    }

    pub(super) fn left(&self) -> &'static str {
        match self.steps.len() - self.done() {
            1 => "One more step",
            2 => "Two more steps",
            3 => "Three more steps",
            _ => "Four steps",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::caller::TenantId;
    use rpcgate_core::clock::Time;
    use rpcgate_core::plan::Tier;
    use rpcgate_store::{Project, Tenant};

    fn found(is_confirmed: bool, has_project: bool, has_key: bool) -> StepList {
        let at = Time::from_secs(1);
        let project = Project::new(ProjectId(7), TenantId(1), "First", at);
        let tenant = Tenant::new(TenantId(1), "New Corp", Tier::Free, at);
        let found = first_run::FirstSteps {
            tenant,
            plan: Plan::of(Tier::Free),
            cu_per_day: 100_000,
            is_confirmed,
            project: has_project.then_some(project),
            has_key,
        };
        StepList::of(found, "new@newcorp.example")
    }

    #[test]
    fn the_first_step_that_is_not_done_is_the_current_one() {
        use Step::{Coming, Current, Done};
        for (steps, expected, left) in [
            (found(false, false, false), [Current, Coming, Coming, Coming], "Four steps"),
            (found(false, true, false), [Current, Done, Coming, Coming], "Three more steps"),
            (found(true, false, false), [Done, Current, Coming, Coming], "Three more steps"),
            (found(true, true, false), [Done, Done, Current, Coming], "Two more steps"),
            (found(true, true, true), [Done, Done, Done, Current], "One more step"),
        ] {
            assert_eq!((steps.steps, steps.left()), (expected, left));
        }
    }
}
