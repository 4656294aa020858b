//! Custom plans, which operators define in addition to the four built-in ones.

use super::plans;
use crate::action::actor::Actor;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::plan::Tier;
use rpcgate_store::{CustomPlan, CustomPlanChange, Figures, Versioned, fresh_id};

/// The maximum number of characters of a name.
pub const MAX_NAME: usize = 40;

/// The properties of a new plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewCustomPlan {
    /// The name.
    pub name: String,
    /// The plan whose figures apply where the custom plan has no figure of its own.
    pub base: Tier,
    /// True if all tenants see it.
    pub is_visible: bool,
    /// Its own figures.
    pub figures: Figures,
}

/// Checks a name: it must be usable in every interface, and differ from the names of the four plans.
fn name(text: &str) -> Result<String, ActionError> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let begins_well = text.starts_with(|c: char| c.is_ascii_lowercase());
    if text.len() > MAX_NAME || !begins_well || !text.chars().all(is_word) {
        return Err(ActionError::named(
            "name",
            format!(
                "must be 1 to {MAX_NAME} lower-case letters, digits and hyphens, and begin with a letter"
            ),
        ));
    }
    if text.parse::<Tier>().is_ok() {
        return Err(ActionError::Taken { what: "plan", value: "name" });
    }
    Ok(text.to_owned())
}

fn visibility(is_visible: bool) -> String {
    if is_visible { "visible" } else { "by invitation" }.to_owned()
}

/// Makes a plan.
///
/// # Errors
/// [`ActionError::Invalid`] for an invalid name, and for a figure that is out of bounds; [`ActionError::Taken`] if
/// another plan has the name, [`ActionError::Full`] if there are too many.
pub async fn create(app: &AppState, actor: &Actor, new: NewCustomPlan) -> Result<CustomPlan, ActionError> {
    let NewCustomPlan { name: text, base, is_visible, figures } = new;
    let name = name(&text)?;
    let mut details = vec![name.clone(), format!("based on {base}"), visibility(is_visible)];
    details.extend(plans::check(&figures)?);
    let now = app.now();
    let plan =
        CustomPlan { id: CustomPlanId(fresh_id(now)), name, base, is_visible, figures, created_at: now };
    let event = ("custom_plan.created", plan.id, details.join(", "));
    actor.audited_store(&app.store, None, event, now).create_custom_plan(&plan).await?;
    Ok(plan)
}

/// Lists all custom plans, the oldest first.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(app: &AppState) -> Result<Vec<CustomPlan>, ActionError> {
    Ok(app.store.custom_plans().await?)
}

/// Returns a custom plan.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Unavailable`].
pub async fn get(app: &AppState, id: CustomPlanId) -> Result<CustomPlan, ActionError> {
    app.store.custom_plan(id).await?.ok_or(ActionError::NotFound("plan"))
}

/// Changes a custom plan. Gateways are notified. A changed fee applies from the begin of the current UTC day.
///
/// # Errors
/// [`ActionError::NotFound`], and those of [`create`].
pub async fn update(
    app: &AppState,
    actor: &Actor,
    id: CustomPlanId,
    change: CustomPlanChange,
) -> Result<CustomPlan, ActionError> {
    let versioned = Versioned::CustomPlan(id);
    let plan = get(app, id).await?;
    if change == CustomPlanChange::default() {
        actor.check_version(&app.store, &versioned).await?;
        return Ok(plan);
    }
    let mut details = Vec::new();
    if let Some(text) = &change.name {
        details.push(name(text)?);
    }
    details.extend(change.is_visible.map(visibility));
    if let Some(figures) = &change.figures {
        details.extend(plans::check(figures)?);
    }
    let now = app.now();
    let store = actor.audited_store(&app.store, None, ("custom_plan.changed", id, details.join(", ")), now);
    Ok(actor.expecting(&store, versioned).update_custom_plan(id, &change, now).await?)
}

/// Deletes a custom plan.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Conflict`] if a tenant is on it, [`ActionError::Unavailable`].
pub async fn delete(app: &AppState, actor: &Actor, id: CustomPlanId) -> Result<(), ActionError> {
    let plan = get(app, id).await?;
    let now = app.now();
    let store = actor.audited_store(&app.store, None, ("custom_plan.deleted", id, plan.name), now);
    Ok(actor.expecting(&store, Versioned::CustomPlan(id)).delete_custom_plan(id, now).await?)
}
