//! Paged lists: `limit` is the number of entries, `cursor` the position where a page starts. The response is an array.
//! If there are more entries, its `Link` header names the next page (RFC 8288).

use crate::management::error::ActionError;
use crate::management::shape::csv;
use crate::management::strict_json;
use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue, LINK};
use http::request::Parts;
use rpcgate_core::clock::Time;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::str::FromStr;
use utoipa::IntoParams;

/// The default number of entries.
const DEFAULT: u64 = 100;

/// The largest number of entries.
pub const MAX: u64 = 1_000;

/// The parameters of a list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// The number of entries, 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u64>,
    /// The cursor from the `Link` header of the previous page.
    pub cursor: Option<String>,
}

/// The requested page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageRequest {
    /// The number of entries.
    pub limit: u64,
    /// The entry after which to continue, in the list's own format.
    pub cursor: Option<String>,
    /// The other parameters, which the link to the next page repeats.
    rest: Vec<(String, String)>,
}

impl<S: Send + Sync> FromRequestParts<S> for PageRequest {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ActionError> {
        let query = parts.uri.query().unwrap_or_default();
        let Page { limit, cursor } = strict_json::of_query(query)?;
        let limit = limit.unwrap_or(DEFAULT);
        if !(1..=MAX).contains(&limit) {
            return Err(ActionError::named("limit", format!("must be a whole number from 1 to {MAX}")));
        }
        let rest = form_urlencoded::parse(query.as_bytes()).into_owned();
        let rest = rest.filter(|(name, _)| !matches!(name.as_str(), "limit" | "cursor")).collect();
        Ok(PageRequest { limit, cursor, rest })
    }
}

impl PageRequest {
    /// Returns the error for a cursor that this list has not issued.
    pub fn bad_cursor() -> ActionError {
        ActionError::named("cursor", "must be a cursor of this list")
    }

    /// Parses the cursor.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for a cursor that this list has not issued.
    pub fn read<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ActionError> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        read(cursor).map(Some).ok_or_else(PageRequest::bad_cursor)
    }

    /// Parses a cursor that [`time_cursor`] wrote.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for any other cursor.
    pub fn time_cursor<I: FromStr>(&self) -> Result<Option<(Time, I)>, ActionError> {
        self.read(|cursor| {
            let (at, id) = cursor.split_once('-')?;
            Some((Time::from_micros(at.parse().ok()?), id.parse().ok()?))
        })
    }

    /// Returns a page that the database has cut, ordered by time. `cursor` returns the [`time_cursor`] of an entry.
    pub fn cut<T>(self, entries: Vec<T>, cursor: impl Fn(&T) -> String) -> ListPage<T> {
        let last = entries.last().filter(|_| entries.len() as u64 == self.limit);
        let next = last.map(cursor);
        self.page(entries, next)
    }

    /// Returns the requested page of `all`. `id` identifies an entry and orders the list by time, `newest_first` or
    /// not. A page can therefore continue after an entry that no longer exists.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for a cursor that is not an identifier.
    pub fn of<T>(
        self,
        mut all: Vec<T>,
        newest_first: bool,
        id: impl Fn(&T) -> &str,
    ) -> Result<ListPage<T>, ActionError> {
        if let Some(cursor) = self.read(|cursor| cursor.parse::<uuid::Uuid>().ok())? {
            let cursor = cursor.to_string();
            let follows =
                |one: &T| if newest_first { id(one) < cursor.as_str() } else { id(one) > cursor.as_str() };
            let position = all.iter().position(|one| id(one) == cursor).map(|at| at + 1);
            let begin = position.or_else(|| all.iter().position(follows)).unwrap_or(all.len());
            all.drain(..begin);
        }
        let more = all.len() as u64 > self.limit;
        all.truncate(self.limit as usize);
        let next = all.last().filter(|_| more).map(|last| id(last).to_owned());
        Ok(self.page(all, next))
    }

    /// Returns a page that the database has already cut. `next` is the cursor of the next page.
    pub fn page<T>(self, entries: Vec<T>, next: Option<String>) -> ListPage<T> {
        let next = next.map(|cursor| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(&self.rest);
            query.append_pair("limit", &self.limit.to_string()).append_pair("cursor", &cursor);
            format!("<?{}>; rel=\"next\"", query.finish())
        });
        ListPage { entries, next }
    }
}

/// Returns the cursor after an entry of a list that is ordered by time, and by identifier at equal times.
pub fn time_cursor(at: Time, id: impl Display) -> String {
    format!("{}-{id}", at.micros())
}

/// A page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListPage<T> {
    entries: Vec<T>,
    /// The `Link` header.
    next: Option<String>,
}

impl<T> ListPage<T> {
    /// Returns a page with all entries.
    pub fn complete(entries: Vec<T>) -> Self {
        ListPage { entries, next: None }
    }

    /// Converts the entries of the page.
    pub fn map<U>(self, entry: impl FnMut(T) -> U) -> ListPage<U> {
        ListPage { entries: self.entries.into_iter().map(entry).collect(), next: self.next }
    }
}

impl<T> ListPage<T> {
    /// Returns the page as a CSV file with these columns, called `name`. `cells` converts an entry. The `Link` header
    /// names the next page as for JSON.
    pub fn csv<const N: usize>(
        self,
        name: &str,
        columns: [&str; N],
        cells: impl Fn(T) -> [String; N],
    ) -> Response {
        let mut text = csv::file();
        csv::line(&mut text, columns.into_iter().map(str::to_owned));
        for entry in self.entries {
            csv::line(&mut text, cells(entry).into_iter().map(csv::harmless));
        }
        let file = format!("attachment; filename=\"{name}.csv\"");
        let headers = [(CONTENT_TYPE, csv::MEDIA_TYPE), (CONTENT_DISPOSITION, file.as_str())];
        linked((headers, text).into_response(), self.next)
    }
}

fn linked(mut answer: Response, next: Option<String>) -> Response {
    if let Some(next) = next.and_then(|next| HeaderValue::try_from(next).ok()) {
        answer.headers_mut().insert(LINK, next);
    }
    answer
}

impl<T: Serialize> IntoResponse for ListPage<T> {
    fn into_response(self) -> Response {
        linked(Json(self.entries).into_response(), self.next)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::management::api::invoices::tests::issue;
    use crate::management::api::webhooks::tests::{event, webhook};
    use crate::management::app_state::tests::{Answer, Site, Visitor};
    use axum::body::Body;
    use http::{Method, StatusCode};
    use rpcgate_store::{DeliveryId, DeliveryStatus, GatewayReport, NodeState, Role, fresh_id};
    use serde_json::{Value, json};
    use std::time::Duration;

    /// Returns the query of the next page from the `Link` header.
    fn next(answer: &Answer) -> Option<String> {
        let link = answer.headers.get(LINK)?.to_str().unwrap();
        Some(link.strip_prefix("<?").unwrap().strip_suffix(">; rel=\"next\"").unwrap().to_owned())
    }

    /// Returns all entries of the list at `path`, read in pages of `limit`.
    pub(crate) async fn followed(site: &Site, visitor: &Visitor, path: &str, limit: usize) -> Vec<Value> {
        let mut all = Vec::new();
        let given = path.split_once('?').map_or(String::new(), |(_, query)| format!("{query}&"));
        let mut query = format!("{given}limit={limit}");
        loop {
            let path = path.split('?').next().unwrap();
            let answer =
                site.ask(Some(visitor), Method::GET, &format!("{path}?{query}"), Body::empty()).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
            let part = answer.body.as_array().unwrap();
            assert!(part.len() <= limit && all.len() <= 10_000);
            all.extend(part.iter().cloned());
            match next(&answer) {
                Some(next) => query = next,
                None => return all,
            }
            assert_eq!(part.len(), limit, "a part that is followed by another is full");
        }
    }

    fn node(url: &str) -> NodeState {
        NodeState {
            chain: "eth".into(),
            node: url.into(),
            priority: 0,
            standing: "well".into(),
            reason: "answers".into(),
            height: Some(7),
            lag: Some(0),
            latency_micros: 1_000,
            in_flight: 0,
            ..NodeState::default()
        }
    }

    fn part(limit: u64, cursor: Option<&str>) -> PageRequest {
        PageRequest { limit, cursor: cursor.map(str::to_owned), rest: vec![("status".into(), "a b".into())] }
    }

    fn ids(numbers: impl IntoIterator<Item = u128>) -> Vec<String> {
        numbers.into_iter().map(|number| uuid::Uuid::from_u128(number).to_string()).collect()
    }

    // Shows (Management): Lists have `limit` (default 100, at most 1,000) and `cursor`; the answer stays an array, and
    // `Link` has the next cursor.
    // Shows (Management): Every list is paged by `limit` and `cursor`, with the next page in the `Link` header (promise
    // 70).
    // Shows (Webhooks).
    #[tokio::test]
    async fn the_pages_of_every_list_join_to_the_whole_list() {
        let site = Site::of("[plans.free]\nprojects = 20\nmembers = 20\nwebhooks_per_project = 20\n").await;
        let (owner, operator) = (site.member(Role::Owner).await, site.operator().await);
        let tenant = owner.user.tenant.unwrap();
        let base = "/api/v1";
        let post = async |path: String, body: Value| {
            site.clock.advance(Duration::from_millis(300));
            let answer = site.ask(Some(&owner), Method::POST, &path, body.to_string()).await;
            assert_eq!(answer.status, StatusCode::CREATED, "{path} {}", answer.body);
            answer.body["id"].as_str().unwrap_or_default().to_owned()
        };
        let projects = format!("{base}/tenants/{tenant}/projects");
        let mut project = String::new();
        for _ in 0..7 {
            project = post(projects.clone(), json!({"name": "one"})).await;
        }
        let keys = format!("{base}/projects/{project}/keys");
        for _ in 0..7 {
            post(keys.clone(), json!({"description": "one"})).await;
        }
        let webhooks = format!("{base}/projects/{project}/webhooks");
        for _ in 0..5 {
            post(webhooks.clone(), json!({"url": "https://hooks.example/"})).await;
        }
        let listening = webhook(&site, tenant, project.parse().unwrap()).await;
        let listened = format!("{base}/webhooks/{}", listening.id);
        for number in 0..7 {
            let subscription = json!({"chain": "btc", "event_type": "health"});
            post(format!("{listened}/subscriptions"), subscription).await;
            // Several events at the same time.
            let now = site.app.now();
            for _ in 0..2 {
                let delivery = (DeliveryId(fresh_id(now)), DeliveryStatus::Delivered);
                site.app.store.log_event(&listening, delivery, &event(number, now)).await.unwrap();
            }
        }
        issue(&site, tenant).await;
        for _ in 0..4 {
            post(format!("{base}/auth/tokens"), json!({"name": "one", "scopes": ["read"]})).await;
            issue(&site, site.tenant().await).await;
            site.visitor(Some(tenant), Role::Viewer).await;
            let other = site.member(Role::Owner).await;
            let contract = json!({"figures": {"monthly_fee_cents": 5}}).to_string();
            let path = format!("{base}/operator/tenants/{tenant}/contracts");
            let made = site.ask(Some(&operator), Method::POST, &path, contract).await;
            assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
            let name = format!("plan-{}", site.app.now().micros());
            let plan = json!({"name": name, "base_tier": "free", "visibility": "visible", "figures": {}});
            let path = format!("{base}/operator/custom-plans");
            let made = site.ask(Some(&operator), Method::POST, &path, plan.to_string()).await;
            assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
            let ask = json!({"requested_tier": "premium", "reason": "x"}).to_string();
            let path = format!("{base}/limit-requests");
            assert_eq!(site.ask(Some(&other), Method::POST, &path, ask).await.status, StatusCode::CREATED);
        }
        for gateway in 1..=3 {
            let nodes = (0..3).map(|number| node(&format!("http://{gateway}.{number}.example/"))).collect();
            let report = GatewayReport { id: gateway, at: site.app.now(), nodes };
            site.app.store.put_report(&report, &[]).await.unwrap();
        }
        for (visitor, path, least) in [
            (&owner, projects, 7),
            (&owner, keys, 7),
            (&owner, webhooks, 6),
            (&owner, format!("{listened}/subscriptions"), 7),
            (&owner, format!("{listened}/deliveries"), 14),
            (&owner, format!("{base}/projects/{project}/events"), 14),
            (&owner, format!("{base}/projects/{project}/events?chain=ethereum&event_type=new_block"), 14),
            (&owner, format!("{base}/tenants/{tenant}/members"), 5),
            (&owner, format!("{base}/auth/audit"), 14),
            (&owner, format!("{base}/auth/sessions"), 1),
            (&owner, format!("{base}/auth/tokens"), 4),
            (&owner, format!("{base}/auth/passkeys"), 0),
            (&owner, format!("{base}/tenants"), 1),
            (&owner, format!("{base}/tenants/{tenant}/invitations"), 0),
            (&owner, format!("{base}/limit-requests"), 0),
            (&owner, format!("{base}/notifications"), 0),
            (&operator, format!("{base}/operator/audit"), 20),
            (&owner, format!("{base}/tenants/{tenant}/invoices"), 1),
            (&operator, format!("{base}/operator/invoices"), 5),
            (&owner, format!("{base}/tenants/{tenant}/contracts"), 4),
            (&operator, format!("{base}/operator/tenants/{tenant}/contracts"), 4),
            (&operator, format!("{base}/operator/custom-plans"), 4),
            (&operator, format!("{base}/operator/tenants"), 5),
            (&operator, format!("{base}/operator/nodes"), 9),
            (&operator, format!("{base}/operator/limit-requests"), 4),
        ] {
            let whole = followed(&site, visitor, &path, 1_000).await;
            assert!(whole.len() >= least, "{path} {whole:?}");
            for limit in [1, 3, 7] {
                assert_eq!(followed(&site, visitor, &path, limit).await, whole, "{path} {limit}");
            }
            for wrong in ["limit=0", "limit=1001", "limit=x", "cursor=x"] {
                let path = format!("{path}?{wrong}");
                let answer = site.ask(Some(visitor), Method::GET, &path, Body::empty()).await;
                assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
            }
        }
    }

    // Shows (Management).
    #[test]
    fn a_page_begins_after_its_cursor_even_if_that_entry_was_removed() {
        let of =
            |part: PageRequest, all: Vec<String>, newest_first| part.of(all, newest_first, |id| id).unwrap();
        let page = of(part(2, None), ids(1..=5), false);
        assert_eq!(page.entries, ids(1..=2));
        let link = "<?status=a+b&limit=2&cursor=00000000-0000-0000-0000-000000000002>; rel=\"next\"";
        assert_eq!(page.next.as_deref(), Some(link));
        let third = ids([3]).remove(0);
        for all in [ids(1..=5), ids([1, 2, 4, 5])] {
            let page = of(part(2, Some(&third)), all, false);
            assert_eq!((page.entries, page.next), (ids([4, 5]), None));
        }
        for all in [ids((1..=5).rev()), ids([5, 4, 2, 1])] {
            assert_eq!(of(part(9, Some(&third)), all, true).entries, ids([2, 1]));
        }
        assert!(of(part(2, Some(&ids([9]).remove(0))), ids(1..=5), false).entries.is_empty());
        let error = part(2, Some("x")).of(ids(1..=5), false, |id| id).unwrap_err();
        assert_eq!(error.to_string(), "`cursor` must be a cursor of this list");
    }
}
