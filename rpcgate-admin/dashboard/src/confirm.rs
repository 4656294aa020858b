//! The confirmation page before a dangerous action. It names the consequences; only its button performs the action.

use super::context::{PageContext, PageResult};
use super::factor_fields::FactorChoice;
use super::filters;
use super::form::{FieldList, QueryFields, TYPED};
use super::frame::{Frame, PageSection};
use super::problems::{Labels, Problems};
use super::security::SECURITY;
use super::step_up::for_missing_proof;
use super::versions::FormVersion;
use super::view::{ok, rejected};
use askama::Template;
use axum::extract::{FromRequestParts, State};
use axum::response::Response;
use axum::routing::MethodRouter;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::routing::{get, post};
use std::sync::Arc;

/// A request for a question, or the form that confirms it.
#[derive(Clone, Copy)]
pub(crate) struct ConfirmRequest<'r> {
    pub(crate) app: &'r Arc<AppState>,
    pub(crate) page: &'r PageContext,
    /// The fields of the query, or those of the form.
    pub(crate) fields: &'r FieldList,
}

/// An action with a question before it, at one address: opening it asks, sending the form acts.
pub(crate) trait Confirmed: Sized + Send + 'static {
    /// The readers who may open the page.
    type Reader: FromRequestParts<Arc<AppState>, Rejection = Response> + Into<PageContext> + Send;
    /// The identifier of the object in the path.
    type Path: FromRequestParts<Arc<AppState>> + Send;
    /// The fields of the form.
    const LABELS: Labels = &[(TYPED, "the name")];

    /// Checks the reader's permission and reads what the question is about.
    fn load(
        request: ConfirmRequest<'_>,
        path: Self::Path,
    ) -> impl Future<Output = Result<Self, ActionError>> + Send;

    fn question(&self, page: &PageContext) -> ConfirmQuestion;

    /// Performs the action. The name that the question requires has been typed.
    fn act(self, request: ConfirmRequest<'_>) -> impl Future<Output = PageResult> + Send;
}

/// Returns the handlers of an action with a question.
pub(crate) fn confirmed<C: Confirmed>() -> MethodRouter<Arc<AppState>> {
    get(ask::<C>).merge(post(act::<C>))
}

async fn ask<C: Confirmed>(
    State(app): State<Arc<AppState>>,
    reader: C::Reader,
    path: C::Path,
    QueryFields(query): QueryFields,
) -> PageResult {
    let page: PageContext = reader.into();
    let request = ConfirmRequest { app: &app, page: &page, fields: &query };
    Ok(ok(&C::load(request, path).await?.question(&page)))
}

/// Acts, or asks again with the error. A missing proof leads to the page that takes one, and back.
async fn act<C: Confirmed>(
    State(app): State<Arc<AppState>>,
    reader: C::Reader,
    path: C::Path,
    fields: FieldList,
) -> PageResult {
    let page: PageContext = reader.into();
    let request = ConfirmRequest { app: &app, page: &page, fields: &fields };
    let loaded = C::load(request, path).await?;
    let question = loaded.question(&page);
    let done = async {
        if let Some(name) = &question.typed {
            fields.confirms(name)?;
        }
        loaded.act(request).await
    };
    match done.await {
        Ok(done) => Ok(done),
        Err(error) => match for_missing_proof(&page, &error, &page.frame(PageSection::Nowhere).here) {
            Some(step_up) => Ok(step_up),
            None => rejected(error, C::LABELS, |problems| question.again(&fields, problems)),
        },
    }
}

/// A question with a button for the action and a link back.
#[derive(Template, Clone, Debug)]
#[template(path = "confirm.html")]
pub(crate) struct ConfirmQuestion {
    frame: Frame,
    problems: Problems,
    /// For example `Revoke checkout-worker?`
    question: String,
    /// The breadcrumbs: labels, and addresses below the root.
    crumbs: Vec<(String, String)>,
    warning: Option<String>,
    consequences: Vec<String>,
    act: String,
    /// The address that the form is sent to, below the root.
    target: String,
    /// The label of the link back.
    keep: String,
    /// The target of the link back, below the root.
    back: String,
    typed: Option<String>,
    hidden: Vec<(String, String)>,
    version: FormVersion,
    /// The factors that the form asks for.
    factors: Option<FactorChoice>,
    /// True if the action destroys something.
    is_dangerous: bool,
}

impl ConfirmQuestion {
    /// Asks `question` on the page of `frame`. The button `act` sends a form to the page's own address; the link back
    /// leads to `back`, below the root.
    pub(crate) fn new(
        frame: Frame,
        question: impl Into<String>,
        act: impl Into<String>,
        back: impl Into<String>,
    ) -> Self {
        ConfirmQuestion {
            target: frame.here.clone(),
            frame,
            problems: Problems::default(),
            question: question.into(),
            crumbs: Vec::new(),
            warning: None,
            consequences: Vec::new(),
            act: act.into(),
            keep: "Keep it".into(),
            back: back.into(),
            typed: None,
            hidden: Vec::new(),
            version: FormVersion::default(),
            factors: None,
            is_dangerous: true,
        }
    }

    /// Asks before a change of the user's factors, for one of those that the user has.
    pub(crate) fn of_factors(
        page: &PageContext,
        choice: FactorChoice,
        question: impl Into<String>,
        act: &str,
    ) -> Self {
        let confirmation = ConfirmQuestion::new(page.frame(PageSection::Nowhere), question, act, SECURITY);
        ConfirmQuestion { factors: Some(choice), ..confirmation.crumb("Security", SECURITY) }
    }

    /// Adds a breadcrumb: its label, and its address below the root.
    #[must_use]
    pub(crate) fn crumb(mut self, label: impl Into<String>, path: impl Into<String>) -> Self {
        self.crumbs.push((label.into(), path.into()));
        self
    }

    #[must_use]
    pub(crate) fn warning(mut self, warning: impl Into<Option<String>>) -> Self {
        self.warning = warning.into();
        self
    }

    #[must_use]
    pub(crate) fn consequence(mut self, consequence: impl Into<String>) -> Self {
        self.consequences.push(consequence.into());
        self
    }

    /// Replaces "Keep it" as the label of the link back.
    #[must_use]
    pub(crate) fn keep(mut self, words: impl Into<String>) -> Self {
        self.keep = words.into();
        self
    }

    /// Sends the form to another address, below the root.
    #[must_use]
    pub(crate) fn target(mut self, path: impl Into<String>) -> Self {
        self.target = path.into();
        self
    }

    /// Requires the user to type this name if the object that is destroyed is in use.
    #[must_use]
    pub(crate) fn typed_if(mut self, is_in_use: bool, name: impl Into<String>) -> Self {
        self.typed = is_in_use.then(|| name.into());
        self
    }

    #[must_use]
    pub(crate) fn hidden(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.hidden.push((name.into(), value.into()));
        self
    }

    /// Adds the version of the object. If the object changes, the question is asked again.
    #[must_use]
    pub(crate) fn version(mut self, version: &FormVersion) -> Self {
        self.version = version.clone();
        self
    }

    /// Marks an action that destroys nothing.
    #[must_use]
    pub(crate) fn harmless(mut self) -> Self {
        self.is_dangerous = false;
        self
    }

    /// Asks again because of `problems` with the form that had these fields.
    fn again(self, fields: &FieldList, problems: Problems) -> Self {
        ConfirmQuestion { version: self.version.again(&problems, fields), problems, ..self }
    }

    #[must_use]
    pub(crate) fn problems(mut self, problems: Problems) -> Self {
        self.problems = problems;
        self
    }
}
