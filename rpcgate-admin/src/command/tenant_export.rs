//! `rpcgate-admin tenant export`: exports all data of a tenant in the API's format, without secrets.
//!
//! Each line of the file is a JSON object with its `kind`, its `data`, and, unless the data contain it, its parent in
//! `of`. All data are read in pages, so the size of a tenant does not matter.

use super::command_error::CommandError;
use super::console::Console;
use super::export_writer::ExportWriter;
use super::{find, tenant_usage};
use crate::cli::tenant::TenantExportArgs;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::notifications::UserNotification;
use rpcgate_management::action::plans::PlanNames;
use rpcgate_management::action::{
    audit, contracts, invitations, invoices, keys, limit_requests, members, projects, quotas, subscriptions,
    tenants, ticket_attachments, ticket_comments, tickets, webhooks,
};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::shape::audit::EntryJson;
use rpcgate_management::shape::contracts::ContractJson;
use rpcgate_management::shape::invitations::InvitationJson;
use rpcgate_management::shape::invoices::InvoiceJson;
use rpcgate_management::shape::keys::KeyJson;
use rpcgate_management::shape::limit_requests::LimitRequestJson;
use rpcgate_management::shape::list::MAX;
use rpcgate_management::shape::members::MemberJson;
use rpcgate_management::shape::moment::Moment;
use rpcgate_management::shape::notifications::NotificationJson;
use rpcgate_management::shape::operator::quotas::QuotaJson;
use rpcgate_management::shape::projects::ProjectJson;
use rpcgate_management::shape::subscriptions::SubscriptionJson;
use rpcgate_management::shape::tenants::{TenantJson, TenantProfileJson};
use rpcgate_management::shape::ticket_attachments::TicketAttachmentJson;
use rpcgate_management::shape::ticket_comments::TicketCommentJson;
use rpcgate_management::shape::tickets::TicketJson;
use rpcgate_management::shape::webhooks::WebhookJson;
use rpcgate_store::{AuditFilter, Project, SupportTicket, Tenant, TicketFilter};
use serde::Serialize;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

const VERSION: u32 = 1;

/// The first line, which describes the file.
#[derive(Serialize)]
struct Heading {
    version: u32,
    tenant_id: String,
    exported_at: Moment,
}

/// Writes all data of a tenant into a new file, and prints the number of lines per kind. After an error there is no
/// file. The audit log records the user.
pub(super) async fn execute(console: &mut Console<'_>, args: &TenantExportArgs) -> Result<(), CommandError> {
    let tenant = find::tenant(&console.app, &args.one.tenant).await?;
    let file = create(&args.out)?;
    let mut out = BufWriter::new(file);
    let mut writer = ExportWriter::new(&mut out);
    let exported = export(console, &tenant, &mut writer).await;
    let counts = writer.into_counts();
    let written = match exported {
        Ok(()) => finish(out).map_err(CommandError::from),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        // The file is incomplete. If it cannot be removed either, the export's error says enough.
        let _ = fs::remove_file(&args.out);
        return Err(error);
    }
    let now = console.app.now();
    let entry = console.actor().entry(Some(tenant.id), ("tenant.exported", tenant.id, ""), now);
    console.app.store.note(&entry).await.map_err(ActionError::from)?;
    if console.printer.is_json() {
        return Ok(console.printer.json(&counts)?);
    }
    for (kind, count) in counts {
        console.printer.text(&format!("{kind}: {count}"))?;
    }
    Ok(())
}

fn finish(out: BufWriter<File>) -> io::Result<()> {
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn create(path: &Path) -> Result<File, CommandError> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| CommandError::usage(format!("--out: {}: {error}", path.display())))
}

async fn export(
    console: &Console<'_>,
    tenant: &Tenant,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let app = &*console.app;
    let actor = console.actor_for(tenant.id);
    let names = PlanNames::read(app).await?;
    let heading =
        Heading { version: VERSION, tenant_id: tenant.id.to_string(), exported_at: app.now().into() };
    writer.line("export", heading)?;
    let party = tenants::billing_party(app, &actor, tenant.id).await?;
    writer.line("tenant", TenantProfileJson::of(TenantJson::of(tenant.clone(), &names), party))?;
    for contract in contracts::list(app, &actor, tenant.id).await? {
        writer.line("contract", ContractJson::from(contract))?;
    }
    for request in limit_requests::list(app, &actor).await? {
        writer.line("limit_request", LimitRequestJson::of(request, &names))?;
    }
    people(app, &actor, tenant, writer).await?;
    for project in projects::list(app, &actor, tenant.id).await? {
        one_project(app, &actor, project, writer).await?;
    }
    all_invoices(app, &actor, tenant, writer).await?;
    all_tickets(app, &actor, writer).await?;
    all_entries(app, &actor, writer).await?;
    tenant_usage::write(app, tenant, writer).await
}

/// Writes members, invitations and notifications.
async fn people(
    app: &AppState,
    actor: &Actor,
    tenant: &Tenant,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let members = members::list(app, actor, tenant.id).await?;
    let users: Vec<_> = members.iter().map(|member| member.id).collect();
    for member in members {
        writer.line("member", MemberJson::from(member))?;
    }
    for invitation in invitations::list(app, actor, tenant.id).await? {
        writer.line("invitation", InvitationJson::from(invitation))?;
    }
    for one in app.usage.notifications(tenant.id).await.map_err(ActionError::from)? {
        writer.line("notification", NotificationJson::from(UserNotification::from(one)))?;
    }
    // Several members may get the same notice.
    let mut seen = HashSet::new();
    for user in users {
        for one in app.store.notices(tenant.id, user).await.map_err(ActionError::from)? {
            if seen.insert(one.id) {
                writer.line("notification", NotificationJson::from(UserNotification::from(one)))?;
            }
        }
    }
    Ok(())
}

async fn one_project(
    app: &AppState,
    actor: &Actor,
    project: Project,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let id = project.id;
    writer.line("project", ProjectJson::from(project))?;
    writer.line("quota", QuotaJson::of(id, &quotas::get(app, actor, id).await?))?;
    for key in keys::list(app, actor, id).await? {
        writer.line("key", KeyJson::from(key))?;
    }
    for webhook in webhooks::list(app, actor, id).await? {
        let id = webhook.id;
        writer.line("webhook", WebhookJson::of(webhook, app.now()))?;
        let mut after = None;
        loop {
            let page = subscriptions::list(app, actor, id, after, MAX).await?;
            after = page.last().map(|last| (last.created_at, last.id));
            let is_last = (page.len() as u64) < MAX;
            for subscription in page {
                writer.line("subscription", SubscriptionJson::from(subscription))?;
            }
            if is_last {
                break;
            }
        }
    }
    Ok(())
}

async fn all_invoices(
    app: &AppState,
    actor: &Actor,
    tenant: &Tenant,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let mut before = None;
    loop {
        let page = invoices::list(app, actor, tenant.id, before, MAX).await?;
        for invoice in &page {
            let whole = invoices::get(app, actor, tenant.id, invoice.number).await?;
            writer.line("invoice", InvoiceJson::of(whole, app.now()))?;
        }
        before = page.last().map(|last| last.number);
        if (page.len() as u64) < MAX {
            return Ok(());
        }
    }
}

/// Writes tickets with their comments and the names of their files. Internal notes of operators are not the tenant's
/// data.
async fn all_tickets(
    app: &AppState,
    actor: &Actor,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let mut before = None;
    loop {
        let page = tickets::list(app, actor, TicketFilter::default(), before, MAX).await?;
        before = page.last().map(|last| (last.created_at, last.id));
        let is_last = (page.len() as u64) < MAX;
        for ticket in page {
            one_ticket(app, actor, ticket, writer).await?;
        }
        if is_last {
            return Ok(());
        }
    }
}

async fn one_ticket(
    app: &AppState,
    actor: &Actor,
    ticket: SupportTicket,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let id = ticket.id;
    let of = || Some(id.to_string());
    writer.line("ticket", TicketJson::from(ticket))?;
    let mut after = None;
    loop {
        let page = ticket_comments::list(app, actor, id, after, MAX).await?;
        after = page.last().map(|last| (last.created_at, last.id));
        let is_last = (page.len() as u64) < MAX;
        for comment in page {
            writer.part("ticket_comment", of(), TicketCommentJson::from(comment))?;
        }
        if is_last {
            break;
        }
    }
    for file in ticket_attachments::list(app, actor, id).await? {
        writer.part("ticket_attachment", of(), TicketAttachmentJson::from(file))?;
    }
    Ok(())
}

async fn all_entries(
    app: &AppState,
    actor: &Actor,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let mut before = None;
    loop {
        let page = audit::list(app, actor, &AuditFilter::default(), before, MAX).await?;
        before = page.last().map(|(number, last)| (last.at, *number));
        let is_last = (page.len() as u64) < MAX;
        for (_, entry) in page {
            writer.line("audit_entry", EntryJson::from(entry))?;
        }
        if is_last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::command::console::tests::run;
    use crate::testing::{NOON, Site};
    use axum::body::Body;
    use http::Method;
    use rpcgate_core::caller::ProjectId;
    use rpcgate_store::{Project, Role, fresh_id};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn lines(text: &str) -> BTreeMap<String, Vec<Value>> {
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            found.entry(line["kind"].as_str().unwrap().to_owned()).or_default().push(line);
        }
        found
    }

    // Shows (Import and transfer): The export of a tenant has all of its data in the shapes of the API, none of another
    // tenant's, and no secret.
    #[tokio::test]
    async fn all_data_of_one_tenant_are_in_the_file_without_secrets() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let tenant = owner.user.tenant.unwrap();
        let other = site.member(Role::Owner).await;
        let mut secrets = Vec::new();
        for member in [&owner, &other] {
            let project = Project::new(ProjectId(fresh_id(NOON)), member.user.tenant.unwrap(), "app", NOON);
            site.app.store.create_project(&project).await.unwrap();
            let ask = async |path: &str, body: Value| {
                let path = format!("/api/v1{path}");
                let answer = site.ask(Some(member), Method::POST, &path, Body::from(body.to_string())).await;
                assert!(answer.status.is_success(), "{path}: {:?}", answer.body);
                answer.body
            };
            let key = ask(&format!("/projects/{}/keys", project.id), json!({ "description": "k" })).await;
            secrets.push(key["key"].as_str().unwrap().to_owned());
            let hook = json!({ "url": "https://hooks.example.com/x" });
            let hook = ask(&format!("/projects/{}/webhooks", project.id), hook).await;
            secrets.push(hook["secret"].as_str().unwrap().to_owned());
            let subscription = json!({ "chain": "eth", "event_type": "new_block" });
            ask(&format!("/webhooks/{}/subscriptions", hook["id"].as_str().unwrap()), subscription).await;
            let ticket = json!({ "category": "other", "subject": "s", "text": "t" });
            let ticket = ask("/support/tickets", ticket).await;
            let path = format!("/support/tickets/{}/comments", ticket["id"].as_str().unwrap());
            ask(&path, json!({ "text": "c" })).await;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.jsonl");
        let line = format!("tenant export {tenant} --out {}", file.display());
        let done = run(&site, None, &line).await;
        assert_eq!(done.code, 0, "{done:?}");
        assert!(done.out.contains("\nkey: 1\n") && done.out.contains("\nsubscription: 1\n"), "{}", done.out);
        let text = std::fs::read_to_string(&file).unwrap();
        for secret in &secrets {
            assert!(!text.contains(&secret[12..]), "{text}");
        }
        assert!(!text.contains("argon2") && !text.contains("hash"), "{text}");
        assert!(!text.contains(&other.user.tenant.unwrap().to_string()), "of another tenant: {text}");
        assert!(!text.contains(&other.user.email), "{text}");
        let found = lines(&text);
        for kind in [
            "export",
            "tenant",
            "member",
            "project",
            "quota",
            "key",
            "webhook",
            "subscription",
            "ticket",
            "ticket_comment",
            "audit_entry",
        ] {
            assert!(found.contains_key(kind), "{kind}: {:?}", found.keys());
        }
        assert_eq!(found["key"].len(), 1);
        assert_eq!(found["ticket_comment"][0]["of"], found["ticket"][0]["data"]["id"]);
        assert_eq!(found["tenant"][0]["data"]["id"], tenant.to_string());
        // The format is that of the API.
        let path = format!("/api/v1/tenants/{tenant}");
        let shown = site.ask(Some(&owner), Method::GET, &path, Body::empty()).await;
        assert_eq!(found["tenant"][0]["data"], shown.body);
        let audit = run(
            &site,
            None,
            &format!("tenant export {tenant} --out {} --json ", dir.path().join("2").display()),
        )
        .await;
        assert_eq!(audit.json()[0]["key"], 1);
        let again = std::fs::read_to_string(dir.path().join("2")).unwrap();
        assert!(again.contains("tenant.exported"), "the first one is in the audit");
    }

    #[tokio::test]
    async fn an_existing_file_is_not_overwritten() {
        let site = Site::new().await;
        let tenant = site.tenant().await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.jsonl");
        std::fs::write(&file, "mine").unwrap();
        let line = format!("tenant export {tenant} --out {}", file.display());
        let done = run(&site, None, &line).await;
        assert!(done.code == 2 && done.messages.starts_with("--out: "), "{done:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }
}
