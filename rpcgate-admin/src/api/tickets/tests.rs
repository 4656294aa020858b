//! Tests of support tickets for members and operators, with helpers for the tests of comments and files.

use crate::api::accounts::tests::mails;
use crate::router::tests::lists::followed;
use crate::testing::{Site, Visitor};
use http::Method;
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::plan::Tier;
use rpcgate_store::{AuditSubject, CustomPlan, Figures, LOCK, Role};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the status and the body of the answer to a request of `visitor`.
pub(crate) async fn ask(
    site: &Site,
    visitor: &Visitor,
    method: Method,
    path: &str,
    body: Value,
) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = site.ask(Some(visitor), method, &format!("/api/v1{path}"), body).await;
    // Rows of the same time have no order.
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), told(answer.body))
}

/// Returns a body, without the code if it is an error.
pub(crate) fn told(body: Value) -> Value {
    body.get("error").map(|error| json!({ "error": error })).unwrap_or(body)
}

pub(crate) async fn get(site: &Site, visitor: &Visitor, path: &str) -> (u16, Value) {
    ask(site, visitor, Method::GET, path, Value::Null).await
}

pub(crate) async fn post(site: &Site, visitor: &Visitor, path: &str, body: Value) -> (u16, Value) {
    ask(site, visitor, Method::POST, path, body).await
}

fn question() -> Value {
    json!({"category": "question", "subject": "Where is it?", "text": "I cannot find it."})
}

/// Creates a ticket of `visitor` and returns its path.
pub(crate) async fn ticket(site: &Site, visitor: &Visitor) -> String {
    let (status, made) = post(site, visitor, "/support/tickets", question()).await;
    assert_eq!(status, 201, "{made}");
    format!("/support/tickets/{}", made["id"].as_str().unwrap())
}

// Shows (Management): Support tickets are written, listed by status and category in pages, commented on, reopened and
// rated.
#[tokio::test]
async fn a_ticket_is_written_answered_closed_rated_and_reopened() {
    let site = Site::new().await;
    let author = site.member(Role::Developer).await;
    let operator = site.operator().await;
    let tenant = author.user.tenant.unwrap();
    let (status, first) = post(&site, &author, "/support/tickets", question()).await;
    let id = first["id"].as_str().unwrap().to_owned();
    let expected = json!({"id": id, "tenant_id": tenant.to_string(), "user_id": author.user.id.to_string(),
        "category": "question", "status": "open", "subject": "Where is it?", "text": "I cannot find it.",
        "limit_request_id": null, "csat": null, "created_at": "2026-12-31T12:00:00.000Z",
        "updated_at": "2026-12-31T12:00:00.000Z", "closed_at": null});
    assert_eq!((status, first), (201, expected.clone()));
    let path = format!("/support/tickets/{id}");
    let colleague = site.visitor(Some(tenant), Role::Viewer).await;
    assert_eq!(get(&site, &colleague, &path).await, (200, expected.clone()), "every member reads it");
    assert_eq!(get(&site, &operator, &format!("/operator{}", &path[8..])).await, (200, expected));

    let theirs = format!("/operator/tickets/{id}");
    let answer = json!({"text": "Below the table."});
    assert_eq!(post(&site, &operator, &format!("{theirs}/comments"), answer).await.0, 201);
    assert_eq!(get(&site, &author, &path).await.1["status"], "answered");
    let [mail] = &mails(&site)[..] else { panic!("there must be one mail") };
    assert!(mail.contains(&author.user.email) && mail.contains("Below the table."), "{mail}");
    let link = format!("http://127.0.0.1:8081{path}\r\n");
    assert!(mail.contains("Where is it?") && mail.contains(&link.replace("/tickets", "")), "{link}: {mail}");
    let thanks = json!({"text": "Thank you."});
    assert_eq!(post(&site, &author, &format!("{path}/comments"), thanks.clone()).await.0, 201);
    assert_eq!(get(&site, &author, &path).await.1["status"], "open", "it waits for an operator again");

    let csat = json!({"rating": 5, "text": "Fast."});
    let early = (409, json!({"error": "the ticket can be rated when it is closed"}));
    assert_eq!(post(&site, &author, &format!("{path}/csat"), csat.clone()).await, early);
    let (status, closed) = ask(&site, &operator, Method::PUT, &theirs, json!({"status": "closed"})).await;
    assert_eq!((status, &closed["status"]), (200, &json!("closed")));
    assert_eq!(closed["closed_at"], closed["updated_at"]);
    assert!(mails(&site).last().unwrap().contains("was closed"));
    let refused = (409, json!({"error": "the ticket is closed: reopen it first"}));
    assert_eq!(post(&site, &author, &format!("{path}/comments"), thanks).await, refused);
    let (status, rated) = post(&site, &author, &format!("{path}/csat"), csat.clone()).await;
    assert_eq!((status, &rated["csat"]["rating"], &rated["csat"]["text"]), (200, &json!(5), &json!("Fast.")));
    let again = (409, json!({"error": "the ticket has been rated already"}));
    assert_eq!(post(&site, &author, &format!("{path}/csat"), csat.clone()).await, again);

    let (status, opened) = post(&site, &author, &format!("{path}/reopen"), Value::Null).await;
    assert_eq!((status, &opened["status"], &opened["closed_at"]), (200, &json!("open"), &Value::Null));
    let open = (409, json!({"error": "the ticket is not closed"}));
    assert_eq!(post(&site, &author, &format!("{path}/reopen"), Value::Null).await, open);
    assert_eq!(post(&site, &author, &format!("{path}/close"), Value::Null).await.0, 200);
    let twice = (409, json!({"error": "the ticket is closed already"}));
    assert_eq!(post(&site, &author, &format!("{path}/close"), Value::Null).await, twice);
    let (status, rated) = post(&site, &author, &format!("{path}/csat"), json!({"rating": 1})).await;
    assert_eq!((status, &rated["csat"]["rating"], &rated["csat"]["text"]), (200, &json!(1), &Value::Null));

    let entries = site.app.store.audit(AuditSubject::Tenant(tenant), 100).await.unwrap();
    let actions: Vec<_> = entries.iter().rev().map(|entry| entry.action.as_str()).collect();
    let expected = [
        "ticket.created",
        "ticket.answered",
        "ticket.commented",
        "ticket.status_set",
        "ticket.rated",
        "ticket.reopened",
        "ticket.closed",
        "ticket.rated",
    ];
    assert_eq!(actions.into_iter().filter(|a| a.starts_with("ticket")).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_ticket_closed_by_two_operators_is_closed_and_reported_once() {
    let site = Site::new().await;
    let author = site.member(Role::Developer).await;
    let operator = site.operator().await;
    let path = ticket(&site, &author).await;
    let theirs = format!("/api/v1/operator{}", &path[8..]);
    let close = json!({"status": "closed"}).to_string();
    let requests = (0..8).map(|_| site.ask(Some(&operator), Method::PUT, &theirs, close.clone()));
    for answer in futures_util::future::join_all(requests).await {
        assert_eq!((answer.status.as_u16(), &answer.body["status"]), (200, &json!("closed")));
    }
    let entries = site.app.store.audit(AuditSubject::User(operator.user.id), 100).await.unwrap();
    assert_eq!(entries.iter().filter(|entry| entry.action == "ticket.status_set").count(), 1);
    site.send_mails().await;
    assert_eq!(mails(&site).iter().filter(|mail| mail.contains("was closed")).count(), 1);
}

// Shows (Mails and notifications): Operators get a bounded number of mails about tickets that wait for them.
#[tokio::test]
async fn operators_are_mailed_of_tickets_that_wait_a_few_times_in_a_quarter_of_an_hour() {
    let addresses = ["support@example.com", "boss@example.com"];
    let site = Site::of(&format!("[admin.tickets]\nmail_to = {addresses:?}\n")).await;
    let author = site.member(Role::Owner).await;
    let other = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let subjects_to = async |to: &str| {
        let mails = site.handed_over_mails().await.into_iter();
        mails.filter(|(its, _)| its == to).map(|(_, subject)| subject).collect::<Vec<_>>()
    };
    let path = ticket(&site, &author).await;
    let mail = mails(&site).pop().unwrap();
    let id = path.rsplit('/').next().unwrap();
    for part in ["\r\nSubject: Where is it?\r\n", &format!("/api/v1/operator/tickets/{id}\r\n")] {
        assert!(mail.contains(part), "{part} is not in {mail}");
    }
    assert!(!mail.contains("I cannot find it."), "the text is read after a log-in: {mail}");
    let theirs = path.replace("/support/", "/operator/") + "/comments";
    let comment = json!({"text": "This."});
    assert_eq!(post(&site, &operator, &theirs, comment.clone()).await.0, 201);
    assert_eq!(post(&site, &author, &format!("{path}/comments"), comment).await.0, 201);
    assert_eq!(post(&site, &author, &format!("{path}/close"), Value::Null).await.0, 200);
    assert_eq!(post(&site, &author, &format!("{path}/reopen"), Value::Null).await.0, 200);
    let mut expected = vec![
        "A support ticket was written",
        "A support ticket has a new comment",
        "A support ticket was reopened",
    ];
    for address in addresses {
        assert_eq!(subjects_to(address).await, expected);
    }
    for _ in 0..4 {
        ticket(&site, &author).await;
    }
    expected.extend(["A support ticket was written"; 2]);
    assert_eq!(subjects_to(addresses[0]).await, expected, "one tenant cannot fill the mailbox");
    ticket(&site, &other).await;
    assert_eq!(subjects_to(addresses[0]).await.len(), 6);
    site.clock.advance(LOCK);
    let later = site.member(Role::Owner).await;
    ticket(&site, &later).await;
    assert_eq!(subjects_to(addresses[0]).await.len(), 7);
}

// Shows (Management).
#[tokio::test]
async fn a_ticket_is_invisible_to_other_tenants() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let outsider = site.member(Role::Owner).await;
    let path = ticket(&site, &author).await;
    let comment = json!({"text": "Mine too?"});
    assert_eq!(post(&site, &author, &format!("{path}/comments"), comment.clone()).await.0, 201);
    let missing = (404, json!({"error": "ticket not found"}));
    for (method, end, body) in [
        (Method::GET, "", Value::Null),
        (Method::POST, "/close", Value::Null),
        (Method::POST, "/reopen", Value::Null),
        (Method::POST, "/csat", json!({"rating": 3})),
        (Method::GET, "/comments", Value::Null),
        (Method::POST, "/comments", comment),
        (Method::GET, "/attachments", Value::Null),
        (Method::POST, "/attachments", json!("a text")),
    ] {
        let answer = ask(&site, &outsider, method.clone(), &format!("{path}{end}"), body).await;
        assert_eq!(answer, missing, "{method} {end}");
    }
    assert_eq!(get(&site, &outsider, "/support/tickets").await, (200, json!([])));
    assert_eq!(get(&site, &author, &path).await.1["status"], "open", "nothing has changed");
}

// Shows (Management).
#[tokio::test]
async fn tickets_are_listed_by_status_and_category_in_pages() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let other = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let mut paths = Vec::new();
    for _ in 0..5 {
        paths.push(ticket(&site, &author).await);
    }
    let problem = json!({"category": "problem", "subject": "It fails", "text": "Always."});
    assert_eq!(post(&site, &author, "/support/tickets", problem).await.0, 201);
    ticket(&site, &other).await;
    post(&site, &author, &format!("{}/close", paths[1]), Value::Null).await;
    let all = followed(&site, &author, "/api/v1/support/tickets", 1_000).await;
    assert_eq!(all.len(), 6);
    assert_eq!(all[0]["subject"], "It fails", "the newest first");
    for limit in [1, 2, 4] {
        assert_eq!(followed(&site, &author, "/api/v1/support/tickets", limit).await, all, "{limit}");
    }
    let count = async |visitor, query: &str| {
        let (status, found) = get(&site, visitor, query).await;
        assert_eq!(status, 200, "{query} {found}");
        found.as_array().unwrap().len()
    };
    assert_eq!(count(&author, "/support/tickets?status=closed").await, 1);
    assert_eq!(count(&author, "/support/tickets?status=open&category=problem").await, 1);
    assert_eq!(count(&author, "/support/tickets?status=answered").await, 0);
    assert_eq!(count(&operator, "/operator/tickets").await, 7);
    assert_eq!(count(&operator, "/operator/tickets?status=open").await, 6);
    let of_other = format!("/operator/tickets?tenant_id={}", other.user.tenant.unwrap());
    assert_eq!(count(&operator, &of_other).await, 1);
    let answer = site
        .ask(Some(&author), Method::GET, "/api/v1/support/tickets?category=question&limit=2", String::new())
        .await;
    let link = answer.headers["link"].to_str().unwrap();
    assert!(
        link.starts_with("<?category=question&limit=2&cursor=") && link.ends_with(">; rel=\"next\""),
        "{link}"
    );
    for wrong in ["status=done", "category=gold", "limit=0", "cursor=x", "cursor=7-x", "state=open"] {
        assert_eq!(get(&site, &author, &format!("/support/tickets?{wrong}")).await.0, 400, "{wrong}");
    }
    assert_eq!(get(&site, &operator, "/operator/tickets?tenant_id=x").await.0, 400);
}

// Shows (Management): The category `limit_increase` belongs to a limit request.
// Shows (Mails and notifications).
#[tokio::test]
async fn a_ticket_for_higher_limits_is_linked_to_a_limit_request_and_learns_the_decision() {
    let site = Site::new().await;
    let author = site.member(Role::Billing).await;
    let operator = site.operator().await;
    let wish = |tier: Value| json!({"category": "limit_increase", "subject": "More", "text": "We grow.", "requested_tier": tier});
    let (status, refused) = post(&site, &author, "/support/tickets", wish(Value::Null)).await;
    assert_eq!(status, 400);
    assert!(refused["error"].as_str().unwrap().starts_with("`requested_tier` is missing"), "{refused}");
    let (status, first) = post(&site, &author, "/support/tickets", wish(json!("premium"))).await;
    assert_eq!(status, 201, "{first}");
    let request = &first["limit_request_id"];
    let (_, requests) = get(&site, &author, "/limit-requests").await;
    assert_eq!(requests.as_array().unwrap().len(), 1);
    assert_eq!((&requests[0]["id"], &requests[0]["requested_tier"]), (request, &json!("premium")));
    assert_eq!((&requests[0]["reason"], &requests[0]["status"]), (&json!("We grow."), &json!("pending")));
    for tier in [Value::Null, json!("premium")] {
        let (status, linked) = post(&site, &author, "/support/tickets", wish(tier)).await;
        assert_eq!((status, &linked["limit_request_id"]), (201, request), "the pending one");
    }
    let pending = (409, json!({"error": "a limit request is pending already"}));
    assert_eq!(post(&site, &author, "/support/tickets", wish(json!("enterprise"))).await, pending);
    let mut misplaced = question();
    misplaced["requested_tier"] = json!("premium");
    let (status, refused) = post(&site, &author, "/support/tickets", misplaced).await;
    assert_eq!(status, 400);
    assert_eq!(refused["error"], "`requested_tier` is for tickets of the category `limit_increase`");
    let (_, tickets) = get(&site, &author, "/support/tickets").await;
    assert_eq!(tickets.as_array().unwrap().len(), 3, "what is refused leaves no ticket");

    let path = format!("/operator/limit-requests/{}", request.as_str().unwrap());
    let review = json!({"status": "approved", "note": "Have fun."});
    assert_eq!(ask(&site, &operator, Method::PUT, &path, review).await.0, 200);
    let tenant = author.user.tenant.unwrap();
    assert_eq!(site.app.store.tenant(tenant).await.unwrap().unwrap().tier, Tier::Premium);
    for ticket in tickets.as_array().unwrap() {
        let path = format!("/support/tickets/{}", ticket["id"].as_str().unwrap());
        assert_eq!(get(&site, &author, &path).await.1["status"], "answered");
        let (_, comments) = get(&site, &author, &format!("{path}/comments")).await;
        assert_eq!(comments[0]["text"], "The request for the plan premium was approved.\n\nHave fun.");
    }
    let counted = |text: &str| mails(&site).iter().filter(|mail| mail.contains(text)).count();
    assert_eq!(counted("Subject: Your support ticket was answered\r\n"), 3);
    let decision = "Your organisation's request for the plan premium was approved.\r\n\r\nHave fun.\r\n";
    assert_eq!(counted(decision), 1, "{:?}", mails(&site));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_ticket_may_request_a_custom_plan() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let plan = |id: u128, name: &str, is_visible| CustomPlan {
        id: CustomPlanId(id),
        name: name.into(),
        base: Tier::Standard,
        is_visible,
        figures: Figures::default(),
        created_at: site.app.now(),
    };
    for plan in [plan(1, "startup", true), plan(2, "school", true), plan(3, "secret", false)] {
        site.app.store.create_custom_plan(&plan).await.unwrap();
    }
    let wish = |plan: &str| json!({"category": "limit_increase", "subject": "More", "text": "We grow.", "requested_plan": plan});
    for unknown in ["secret", "gold"] {
        let (status, refused) = post(&site, &author, "/support/tickets", wish(unknown)).await;
        let text = "`requested_plan` names no plan that `GET /plans` lists";
        assert_eq!((status, refused), (400, json!({ "error": text })));
    }
    let mut both = wish("startup");
    both["requested_tier"] = json!("premium");
    assert_eq!(post(&site, &author, "/support/tickets", both).await.0, 400);
    let (status, first) = post(&site, &author, "/support/tickets", wish("startup")).await;
    assert_eq!(status, 201, "{first}");
    let (_, requests) = get(&site, &author, "/limit-requests").await;
    assert_eq!(
        (&requests[0]["requested_plan"], &requests[0]["id"]),
        (&json!("startup"), &first["limit_request_id"])
    );
    let (status, linked) = post(&site, &author, "/support/tickets", wish("startup")).await;
    assert_eq!((status, &linked["limit_request_id"]), (201, &first["limit_request_id"]));
    let pending = (409, json!({"error": "a limit request is pending already"}));
    assert_eq!(
        post(&site, &author, "/support/tickets", wish("school")).await,
        pending,
        "another of the same base"
    );
    let mut misplaced = question();
    misplaced["requested_plan"] = json!("startup");
    let (_, refused) = post(&site, &author, "/support/tickets", misplaced).await;
    assert_eq!(refused["error"], "`requested_plan` is for tickets of the category `limit_increase`");
}

// Shows (Management).
#[tokio::test]
async fn a_tenant_has_a_bounded_number_of_open_tickets() {
    let site = Site::of("[admin.tickets]\nopen = 3\n").await;
    let author = site.member(Role::Owner).await;
    let other = site.member(Role::Owner).await;
    let first = ticket(&site, &author).await;
    for _ in 0..2 {
        ticket(&site, &author).await;
    }
    let text = "at most 3 tickets of an organisation are open: close one that is done";
    let full = (409, json!({ "error": text }));
    assert_eq!(post(&site, &author, "/support/tickets", question()).await, full);
    ticket(&site, &other).await;
    assert_eq!(post(&site, &author, &format!("{first}/close"), Value::Null).await.0, 200);
    ticket(&site, &author).await;
    assert_eq!(post(&site, &author, &format!("{first}/reopen"), Value::Null).await, full);
}

#[tokio::test]
async fn a_ticket_needs_a_confirmed_author_with_the_role_and_fitting_texts() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    for (name, value) in [
        ("category", json!("gold")),
        ("subject", json!(" ")),
        ("subject", json!("a\nb")),
        ("subject", json!("x".repeat(201))),
        ("text", json!("")),
        ("text", json!("x".repeat(5_001))),
        ("requested_tier", json!("gold")),
    ] {
        let mut form = question();
        form[name] = value.clone();
        let (status, answer) = post(&site, &owner, "/support/tickets", form).await;
        assert_eq!(status, 400, "{name} {value}");
        assert!(answer["error"].as_str().unwrap().contains(&format!("`{name}`")), "{answer}");
    }
    let viewer = site.visitor(owner.user.tenant, Role::Viewer).await;
    assert_eq!(post(&site, &viewer, "/support/tickets", question()).await.0, 403);
    let path = ticket(&site, &owner).await;
    assert_eq!(post(&site, &owner, &format!("{path}/close"), Value::Null).await.0, 200);
    for rating in [0, 6] {
        assert_eq!(post(&site, &owner, &format!("{path}/csat"), json!({ "rating": rating })).await.0, 400);
    }
}
