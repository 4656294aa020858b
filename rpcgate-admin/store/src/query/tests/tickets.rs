use super::*;
use crate::{
    AttachmentBounds, AttachmentKind, AuditSubject, Satisfaction, SupportTicket, TicketAttachment,
    TicketAttachmentId, TicketCategory, TicketComment, TicketCommentId, TicketFilter, TicketId, TicketStatus,
};

const BOUNDS: AttachmentBounds = AttachmentBounds { per_ticket: 10, bytes_per_tenant: 10 << 20 };

fn ticket(id: u128) -> SupportTicket {
    SupportTicket {
        id: TicketId(id),
        tenant: TENANT,
        user: UserId(1),
        category: TicketCategory::Problem,
        status: TicketStatus::Open,
        subject: "Es geht nicht".into(),
        text: "Größer als 1.".into(),
        limit_request: None,
        satisfaction: None,
        created_at: later(id as u64),
        updated_at: later(id as u64),
        closed_at: None,
    }
}

fn comment(id: u128, ticket: u128) -> TicketComment {
    TicketComment {
        id: TicketCommentId(id),
        ticket: TicketId(ticket),
        user: UserId(1),
        by_operator: false,
        internal: false,
        text: "Immer noch".into(),
        created_at: later(id as u64),
    }
}

fn file(id: u128, ticket: u128, bytes: u64) -> TicketAttachment {
    TicketAttachment {
        id: TicketAttachmentId(id),
        ticket: TicketId(ticket),
        user: UserId(1),
        by_operator: id.is_multiple_of(2),
        name: "a.txt".into(),
        kind: AttachmentKind::Text,
        bytes,
        created_at: later(id as u64),
    }
}

async fn add(store: &Store, ticket: SupportTicket) -> SupportTicket {
    store.create_ticket(ticket, None, 50).await.unwrap()
}

#[tokio::test]
async fn a_ticket_is_stored_as_it_is_and_belongs_to_its_tenant() {
    let (_dir, store) = empty().await;
    add(&store, ticket(1)).await;
    assert_eq!(store.ticket(TENANT, TicketId(1)).await.unwrap(), Some(ticket(1)));
    assert_eq!(store.ticket(OTHER, TicketId(1)).await.unwrap(), None);
    assert_eq!(store.any_ticket(TicketId(1)).await.unwrap(), Some(ticket(1)));
    let missing = "there is no such ticket";
    let close = store.close_ticket(OTHER, TicketId(1), later(2)).await;
    assert_eq!(close.unwrap_err().to_string(), missing);
    let reopen = store.reopen_ticket(OTHER, TicketId(1), 50, later(2)).await;
    assert_eq!(reopen.unwrap_err().to_string(), missing);
    assert_eq!(store.add_ticket_comment(OTHER, &comment(2, 1)).await.unwrap_err().to_string(), missing);
    let attached = store.attach(OTHER, &file(2, 1, 1), b"x", BOUNDS, later(2)).await;
    assert_eq!(attached.unwrap_err().to_string(), missing);
    store.add_ticket_comment(TENANT, &comment(2, 1)).await.unwrap();
    store.attach(TENANT, &file(3, 1, 1), b"x", BOUNDS, later(3)).await.unwrap();
    assert_eq!(store.ticket_comments(TENANT, TicketId(1), None, 9).await.unwrap(), [comment(2, 1)]);
    assert_eq!(store.ticket_comments(OTHER, TicketId(1), None, 9).await.unwrap(), []);
    assert_eq!(store.ticket_attachments(TENANT, TicketId(1)).await.unwrap(), [file(3, 1, 1)]);
    assert_eq!(store.ticket_attachments(OTHER, TicketId(1)).await.unwrap(), []);
    let nowhere = SupportTicket { tenant: TenantId(99), ..ticket(4) };
    let error = store.create_ticket(nowhere, None, 50).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no such tenant");
}

#[tokio::test]
async fn closing_and_opening_set_and_clear_the_time() {
    let (_dir, store) = empty().await;
    add(&store, ticket(1)).await;
    let closed = store.close_ticket(TENANT, TicketId(1), later(5)).await.unwrap();
    assert_eq!((closed.status, closed.closed_at), (TicketStatus::Closed, Some(later(5))));
    assert_eq!(store.ticket(TENANT, TicketId(1)).await.unwrap(), Some(closed.clone()));
    let audited = store.with_audit_entry(entry("ticket.status_set"));
    let again = audited.set_ticket_status(TicketId(1), TicketStatus::Closed, later(6)).await.unwrap();
    assert_eq!(again, (closed, false), "it was closed before");
    assert_eq!(store.audit(AuditSubject::Tenant(TENANT), 9).await.unwrap(), []);
    let rating = |rated_at| Satisfaction { rating: 2, text: Some("na ja".into()), rated_at };
    let rated = store.rate_ticket(TENANT, TicketId(1), &rating(later(7))).await.unwrap();
    assert_eq!(store.ticket(TENANT, TicketId(1)).await.unwrap(), Some(rated));
    assert!(store.rate_ticket(TENANT, TicketId(1), &rating(later(8))).await.is_err());
    let answered = audited.set_ticket_status(TicketId(1), TicketStatus::Answered, later(9)).await.unwrap();
    let (open, has_changed) = answered;
    assert!(has_changed);
    assert_eq!(store.audit(AuditSubject::Tenant(TENANT), 9).await.unwrap().len(), 1);
    assert_eq!((open.closed_at, open.satisfaction), (None, Some(rating(later(7)))));
    store.close_ticket(TENANT, TicketId(1), later(10)).await.unwrap();
    store.rate_ticket(TENANT, TicketId(1), &rating(later(11))).await.unwrap();
}

#[tokio::test]
async fn tickets_are_listed_after_a_cursor_even_if_many_have_the_same_time() {
    let (_dir, store) = empty().await;
    for id in 1..=6 {
        add(&store, SupportTicket { created_at: later(id as u64 / 3), ..ticket(id) }).await;
    }
    add(&store, SupportTicket { tenant: OTHER, ..ticket(9) }).await;
    let ids = |tickets: Vec<SupportTicket>| tickets.into_iter().map(|ticket| ticket.id.0).collect::<Vec<_>>();
    let list = async |before, limit| {
        ids(store.tickets(TENANT, TicketFilter::default(), before, limit).await.unwrap())
    };
    assert_eq!(list(None, 99).await, [6, 5, 4, 3, 2, 1]);
    assert_eq!(list(None, 2).await, [6, 5]);
    assert_eq!(list(Some((later(1), TicketId(5))), 2).await, [4, 3]);
    assert_eq!(list(Some((later(1), TicketId(3))), 9).await, [2, 1]);
    let filter = TicketFilter { category: Some(TicketCategory::Billing), ..TicketFilter::default() };
    assert_eq!(store.tickets(TENANT, filter, None, 9).await.unwrap(), []);
    let all = async |tenant| ids(store.all_tickets(tenant, TicketFilter::default(), None, 99).await.unwrap());
    assert_eq!(all(None).await.len(), 7);
    assert_eq!(all(Some(OTHER)).await, [9]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_tickets_are_created_up_to_the_limit_of_open_ones() {
    let (dir, store) = empty().await;
    let second = dir.store_within(Duration::from_secs(60)).await.unwrap();
    let made = at_once(12, |number| {
        let store = if number % 2 == 0 { store.clone() } else { second.clone() };
        async move { store.create_ticket(ticket(number + 1), None, 5).await }
    });
    let (made, refused): (Vec<_>, Vec<_>) = made.await.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (5, 7));
    assert!(refused.into_iter().all(|refused| matches!(refused, Err(StoreError::Full(_)))));
}

#[tokio::test]
async fn the_newest_closed_tickets_are_kept_and_the_rest_removed_with_their_data() {
    let (_dir, store) = empty().await;
    add(&store, ticket(1)).await;
    store.add_ticket_comment(TENANT, &comment(2, 1)).await.unwrap();
    store.attach(TENANT, &file(3, 1, 1), b"x", BOUNDS, later(3)).await.unwrap();
    store.close_ticket(TENANT, TicketId(1), later(4)).await.unwrap();
    let tenant = match store.database.server() {
        None => "x'00000000000000000000000000000002'",
        Some(_) => "'00000000-0000-0000-0000-000000000002'",
    };
    let many = format!(
        "INSERT INTO tickets (id, tenant_id, user_id, category, status, subject, text, created_at, updated_at) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
         SELECT randomblob(16), {tenant}, randomblob(16), 'other', 'closed', 's', 't', {} + i, 0 FROM n",
        later(100).micros()
    );
    fill(&store, &many).await;
    let tables = ["tickets", "ticket_comments", "ticket_attachments", "ticket_chunks"];
    let mut counted = Vec::new();
    for table in tables {
        counted.push(rows(&store, table).await);
    }
    assert_eq!(counted, [1_001, 1, 1, 1]);
    add(&store, ticket(5)).await;
    counted.clear();
    for table in tables {
        counted.push(rows(&store, table).await);
    }
    assert_eq!(counted, [1_001, 0, 0, 0], "the oldest is gone");
    assert!(store.any_ticket(TicketId(1)).await.unwrap().is_none());
}

async fn weigh(store: &Store, id: u128, bytes: u64) {
    let id = match store.database.server() {
        None => format!("x'{id:032x}'"),
        Some(_) => format!("'{}'", uuid::Uuid::from_u128(id)),
    };
    fill(store, &format!("UPDATE tickets SET text_bytes = {bytes} WHERE id = {id}")).await;
}

// Shows (Management): The text of all tickets of a tenant with their comments is bounded; closed tickets are removed
// for new ones, open ones never.
#[tokio::test]
async fn texts_of_a_tenant_are_bounded_together_and_closed_tickets_free_capacity() {
    const MOST: u64 = 64 << 20;
    let (_dir, store) = empty().await;
    for id in 1..=3 {
        add(&store, ticket(id)).await;
    }
    // "Es geht nicht" and "Größer als 1." with two letters of two bytes.
    assert_eq!(sum(&store).await, 3 * (13 + 15));
    store.add_ticket_comment(TENANT, &comment(4, 1)).await.unwrap();
    let answer = TicketComment { by_operator: true, ..comment(5, 1) };
    store.answer_ticket(&answer, TicketStatus::Answered).await.unwrap();
    assert_eq!(sum(&store).await, 3 * (13 + 15) + 2 * 10);

    weigh(&store, 1, 0).await;
    weigh(&store, 2, 0).await;
    weigh(&store, 3, MOST - 10).await;
    store.add_ticket_comment(TENANT, &comment(6, 1)).await.unwrap();
    assert_eq!(sum(&store).await as u64, MOST, "it just fits");
    let refused = |error: StoreError| match error {
        StoreError::Full(text) => assert!(text.contains("64 MiB of text"), "{text}"),
        other => panic!("{other:?}"),
    };
    refused(store.add_ticket_comment(TENANT, &comment(7, 1)).await.unwrap_err());
    refused(store.create_ticket(ticket(8), None, 50).await.unwrap_err());
    assert_eq!(rows(&store, "tickets").await, 3, "what is open stays");
    add(&store, SupportTicket { tenant: OTHER, ..ticket(20) }).await;
    let answer = TicketComment { by_operator: true, ..comment(9, 1) };
    store.answer_ticket(&answer, TicketStatus::Answered).await.unwrap();

    weigh(&store, 2, 1).await;
    store.close_ticket(TENANT, TicketId(3), later(10)).await.unwrap();
    store.close_ticket(TENANT, TicketId(2), later(11)).await.unwrap();
    store.add_ticket_comment(TENANT, &comment(10, 1)).await.unwrap();
    let left = store.tickets(TENANT, TicketFilter::default(), None, 9).await.unwrap();
    assert_eq!(left.iter().map(|ticket| ticket.id.0).collect::<Vec<_>>(), [1], "as many as were needed");
    add(&store, ticket(8)).await;
}

async fn sum(store: &Store) -> i64 {
    let sql = "SELECT CAST(sum(text_bytes) AS bigint) FROM tickets";
    let summed = store.read(async |database| {
        let statement = Statement::from_string(database.get_database_backend(), sql);
        Ok(database.query_one_raw(statement).await?.unwrap().try_get_by_index(0)?)
    });
    summed.await.unwrap()
}

#[tokio::test]
async fn a_file_is_stored_in_chunks_and_shown_when_it_is_complete() {
    let (_dir, store) = empty().await;
    add(&store, ticket(1)).await;
    let content: Vec<u8> = (0..700_000_u32).map(|n| (n % 251) as u8).collect();
    let made = file(2, 1, content.len() as u64);
    assert_eq!(made.chunks(), 3);
    let ticket = store.attach(TENANT, &made, &content, BOUNDS, later(5)).await.unwrap();
    assert_eq!((ticket.updated_at, ticket.status), (later(5), TicketStatus::Open));
    let mut read = Vec::new();
    for position in 0..made.chunks() {
        read.extend(store.attachment_chunk(&made, position).await.unwrap());
    }
    assert!(read == content);
    assert!(matches!(store.attachment_chunk(&made, 3).await, Err(StoreError::NotFound("chunk"))));
    let tight = AttachmentBounds { bytes_per_tenant: 700_000, ..BOUNDS };
    let error = store.attach(TENANT, &file(3, 1, 1), b"x", tight, later(6)).await.unwrap_err();
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    let error = store.may_attach(TENANT, TicketId(1), tight).await.unwrap_err();
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    let few = AttachmentBounds { per_ticket: 1, ..BOUNDS };
    let error = store.may_attach(TENANT, TicketId(1), few).await.unwrap_err();
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    store.may_attach(TENANT, TicketId(1), BOUNDS).await.unwrap();
    let error = store.may_attach(OTHER, TicketId(1), BOUNDS).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound("ticket")), "{error}");
}

#[tokio::test]
async fn an_upload_that_broke_off_is_not_shown_counts_and_is_swept_after_an_hour() {
    let (_dir, store) = empty().await;
    add(&store, ticket(1)).await;
    store.attach(TENANT, &file(2, 1, 1), b"x", BOUNDS, later(2)).await.unwrap();
    fill(&store, "UPDATE ticket_attachments SET stored_at = NULL").await;
    assert_eq!(store.ticket_attachments(TENANT, TicketId(1)).await.unwrap(), []);
    let few = AttachmentBounds { per_ticket: 1, ..BOUNDS };
    assert!(store.may_attach(TENANT, TicketId(1), few).await.is_err());
    assert_eq!(store.sweep(later(3_602)).await.unwrap().ticket_attachments, 0, "it may be running");
    assert_eq!(store.sweep(later(3_603)).await.unwrap().ticket_attachments, 1);
    assert_eq!(rows(&store, "ticket_chunks").await, 0);
    store.may_attach(TENANT, TicketId(1), few).await.unwrap();
}

#[test]
fn names_of_tickets_are_read_back() {
    for status in TicketStatus::ALL {
        assert_eq!(status.name().parse(), Ok(status));
    }
    for category in TicketCategory::ALL {
        assert_eq!(category.name().parse(), Ok(category));
    }
    for kind in AttachmentKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    assert_eq!("gold".parse::<TicketCategory>().unwrap_err().to_string(), "no such category");
}
