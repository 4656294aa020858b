//! The context of a requested page: its reader and its frame. There is one extractor for each kind of page.

use super::background_request::is_unattended;
use super::cookies::{self, VisitorCookie};
use super::frame::{Area, Frame, PageSection, Reader, Theme, WaitingWork, root_of};
use super::outcome::Done;
use super::relative_address::page_of_form;
pub(super) use super::relative_address::{below_root, redirect};
use super::submission_ids::SubmissionIds;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::Method;
use http::header::REFERER;
use http::request::Parts;
use rpcgate_core::caller::TenantId;
use rpcgate_core::plan::Tier;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::notifications;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Client;
use rpcgate_management::identity::form_token::FormHolder;
use rpcgate_store::{OpenWork, Run, Tenant};
use std::sync::Arc;

/// The cookie with the theme. It holds nothing personal, so it needs no protection.
pub(super) const THEME: &str = "rpcgate-theme";

const LANGUAGE: &str = "rpcgate-language";

/// The result of a handler. An error is shown as a page in the frame.
pub(crate) type PageResult = Result<Response, ActionError>;

/// A page for a logged-in user of any role. Others are redirected to the log-in.
#[derive(Clone, Debug)]
pub(crate) struct PageContext {
    /// The user, as actions take it.
    pub(crate) actor: Actor,
    pub(crate) session: AuthSession,
    pub(crate) client: Client,
    frame: Frame,
}

impl PageContext {
    /// Returns the frame of a page at `place`.
    pub(crate) fn frame(&self, place: PageSection) -> Frame {
        Frame { place, ..self.frame.clone() }
    }

    /// Returns the frame of a page at `place` that shows a form's result once, at an address of its own. If the form
    /// has no submission value, it shows the result itself.
    pub(crate) fn result_frame(&self, place: PageSection) -> Frame {
        result_frame(self.frame(place), self.actor.run)
    }

    /// Returns the user's tenant.
    ///
    /// # Errors
    /// [`ActionError::NotFound`] for operators, for whom the pages of members do not exist.
    pub(crate) fn tenant(&self) -> Result<TenantId, ActionError> {
        self.actor.user.tenant.ok_or(ActionError::NotFound("page"))
    }

    /// Redirects to the page at `to`, below the root, which reports what was done. Reloading that page repeats nothing.
    pub(crate) fn done(&self, to: &str, done: Done) -> Response {
        self.to(&with_outcome(to, done))
    }

    /// Redirects to the page at `to`, below the root.
    pub(crate) fn to(&self, to: &str) -> Response {
        redirect(&self.frame.root, to)
    }
}

fn result_frame(frame: Frame, run: Option<Run>) -> Frame {
    if run.is_some() { Frame { root: "../".to_owned(), here: String::new(), ..frame } } else { frame }
}

/// Returns the address of the page at `to` with the outcome in its query.
fn with_outcome(to: &str, done: Done) -> String {
    let joint = if to.contains('?') { '&' } else { '?' };
    format!("{to}{joint}done={}", done.code())
}

/// Returns the page whose form was sent here, below the root, if the browser names one of our pages other than the
/// start page.
pub(super) fn sender<'p>(parts: &'p Parts, app: &AppState) -> Option<&'p str> {
    let sender = parts.headers.get(REFERER)?.to_str().ok()?;
    let path = sender.strip_prefix(app.settings.dash_url.trim_end_matches('/'))?;
    Some(below_root(path.trim_start_matches('/'))).filter(|path| !path.is_empty())
}

/// Redirects to the log-in, which leads back here. After a lost form it leads to the form's page, which then says that
/// nothing was done. The script of a page that refreshes itself gets 401 instead, so that it does not show the
/// log-in as the page.
fn to_log_in(parts: &Parts, app: &AppState) -> Response {
    if is_unattended(&parts.headers) {
        return ActionError::Unauthenticated("your session has ended: log in again").into_response();
    }
    let root = root_of(parts.uri.path());
    let here = here(parts);
    let mut next = below_root(&here);
    // A log-out, a change of the theme and a form of the start page lose nothing.
    let is_lost = !next.is_empty() && !matches!(parts.method, Method::GET | Method::HEAD);
    if is_lost && let Some(page) = sender(parts, app) {
        let path = page.split('?').next().unwrap_or_default();
        next = page_of_form(path).unwrap_or(page);
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    if !next.is_empty() {
        query.append_pair("next", next);
    }
    if is_lost {
        query.append_pair("done", Done::SessionOver.code());
    }
    let query = query.finish();
    redirect(&root, &if query.is_empty() { "login".to_owned() } else { format!("login?{query}") })
}

impl FromRequestParts<Arc<AppState>> for PageContext {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Response> {
        let Some(session) = parts.extensions.get::<AuthSession>().cloned() else {
            return Err(to_log_in(parts, app));
        };
        let found = async {
            let client = Client::from_request_parts(parts, app).await?;
            let run = parts.extensions.get().copied();
            let is_proved = session.is_proved(app.now());
            let actor = Actor { run, is_proved, ..Actor::of_page(session.user.clone(), &client) };
            let frame = frame(app, parts, Some(&session), &client).await?;
            Ok(PageContext { actor, session, client, frame })
        };
        found.await.map_err(ActionError::into_response)
    }
}

/// A page for operators. For others it does not exist.
#[derive(Clone, Debug)]
pub(crate) struct OperatorPage(pub(crate) PageContext);

impl From<OperatorPage> for PageContext {
    fn from(OperatorPage(page): OperatorPage) -> Self {
        page
    }
}

impl FromRequestParts<Arc<AppState>> for OperatorPage {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Response> {
        let page = PageContext::from_request_parts(parts, app).await?;
        if page.actor.user.is_operator() {
            return Ok(OperatorPage(page));
        }
        Err(ActionError::NotFound("page").into_response())
    }
}

/// A page that needs no log-in.
#[derive(Clone, Debug)]
pub(crate) struct GatePage {
    /// The session, if the user is logged in.
    pub(crate) session: Option<AuthSession>,
    pub(crate) client: Client,
    pub(crate) frame: Frame,
    run: Option<Run>,
}

impl GatePage {
    /// Returns the frame of a page that shows a form's result once, at an address of its own.
    pub(crate) fn result_frame(&self) -> Frame {
        result_frame(self.frame.clone(), self.run)
    }

    /// Redirects to the page at `to`, below the root, which reports what was done.
    pub(crate) fn done(&self, to: &str, done: Done) -> Response {
        redirect(&self.frame.root, &with_outcome(to, done))
    }
}

impl FromRequestParts<Arc<AppState>> for GatePage {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Response> {
        let session = parts.extensions.get::<AuthSession>().cloned();
        let found = async {
            let client = Client::from_request_parts(parts, app).await?;
            let frame = gate_frame(app, parts, session.as_ref());
            Ok(GatePage { session, client, frame, run: parts.extensions.get().copied() })
        };
        found.await.map_err(ActionError::into_response)
    }
}

/// Returns the frame without navigation.
pub(super) fn gate_frame(app: &AppState, parts: &Parts, session: Option<&AuthSession>) -> Frame {
    let cookie = |name: &str| cookies::of_name(&parts.headers, name);
    let holder = match (session, parts.extensions.get::<VisitorCookie>()) {
        (Some(session), _) => FormHolder::Session(session.id),
        (None, Some(VisitorCookie(value))) => FormHolder::Visitor(value),
        (None, None) => FormHolder::Visitor(""),
    };
    let pairs = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let done = pairs.filter(|(name, _)| name == "done").find_map(|(_, code)| Done::parse(&code));
    Frame {
        root: root_of(parts.uri.path()),
        here: here(parts),
        area: Area::Gate,
        place: PageSection::Nowhere,
        reader: session.map(|session| Reader::of(&session.user, None)),
        theme: cookie(THEME).map(Theme::of).unwrap_or_default(),
        language: cookie(LANGUAGE).map(str::to_owned),
        csrf: app.form_tokens.issue(holder),
        submissions: SubmissionIds::of_page(app.now()),
        done,
        waiting: WaitingWork::default(),
        now: app.now(),
    }
}

/// Returns the address of the request below the root, without the outcome of the previous action, which is reported
/// only once. For an address that only takes a form, returns the page with the form, because links that lead here must
/// lead to a page.
fn here(parts: &Parts) -> String {
    let path = parts.uri.path().trim_start_matches('/');
    if let Some(page) = page_of_form(path) {
        return page.to_owned();
    }
    let Some(query) = parts.uri.query() else { return path.to_owned() };
    let remaining: Vec<_> = query.split('&').filter(|pair| !pair.starts_with("done=")).collect();
    if remaining.is_empty() { path.to_owned() } else { format!("{path}?{}", remaining.join("&")) }
}

/// Returns the frame of a page for `session`; without a session, it has no navigation.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub(super) async fn frame(
    app: &AppState,
    parts: &Parts,
    session: Option<&AuthSession>,
    client: &Client,
) -> Result<Frame, ActionError> {
    let frame = gate_frame(app, parts, session);
    let Some(session) = session else { return Ok(frame) };
    let user = &session.user;
    let Some(id) = user.tenant else {
        let OpenWork { limit_requests, tickets } = app.store.open_work().await?;
        let waiting = WaitingWork { unread: 0, limit_requests, tickets };
        return Ok(Frame { area: Area::Operator, waiting, ..frame });
    };
    let actor = Actor::of_page(user.clone(), client);
    let unread = notifications::count_unread(app, &actor).await?;
    let tickets = app.store.answered_tickets(id).await?;
    let waiting = WaitingWork { unread, limit_requests: 0, tickets };
    let tenant = match app.store.tenant(id).await? {
        Some(tenant) => {
            let plan = plan_name(app, &tenant).await?;
            Some((tenant.name, plan))
        }
        None => None,
    };
    Ok(Frame { area: Area::Customer, waiting, reader: Some(Reader::of(user, tenant)), ..frame })
}

async fn plan_name(app: &AppState, tenant: &Tenant) -> Result<String, ActionError> {
    let own = match tenant.custom_plan {
        Some(id) => app.store.custom_plan(id).await?,
        None => None,
    };
    Ok(own.map_or_else(|| plan_label(tenant.tier), |plan| plan.name))
}

pub(crate) fn plan_label(tier: Tier) -> String {
    let mut letters = tier.name().chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
