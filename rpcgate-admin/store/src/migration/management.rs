//! The tables of the management database, with what their entities do not say: references and indexes.

use super::tables::{EntityTable, table};
use crate::entity::{
    access_tokens, attempts, audit, billing_accounts, billing_start, chain_events, chain_switches, changes,
    checkouts, config_versions, confirmations, contracts, credit_notes, custom_plans, deliveries,
    delivery_attempts, drained_nodes, explanation_requests, followed_blocks, gateways, idempotency,
    invitations, invoice_lines, invoice_numbers, invoices, keys, known_devices, limit_requests, mail_tokens,
    mailed_notifications, notices, notification_preferences, notification_reads, outgoing_mails, passkeys,
    pending_log_ins, plan_fees, plans, project_events, projects, quotas, recovery_codes, refreshes,
    scheduled_changes, sessions, solved, subscriptions, tenants, throttled_keys, ticket_attachments,
    ticket_chunks, ticket_comments, tickets, tier_changes, totp, unmatched_payments, users, watched_chains,
    watchers, webhook_notices, webhook_replays, webhooks, weights,
};
use sea_orm::DbBackend;
use sea_orm::sea_query::{Expr, ExprTrait};

/// Returns the tables in the order of their creation: a table follows those to which it refers.
pub(super) fn tables(backend: DbBackend) -> Vec<EntityTable> {
    vec![
        table(backend, tenants::Entity)
            .index("tenants_by_deletion", &["deleted_at"])
            .index("tenants_by_name", &["name"])
            .index("tenants_of_custom_plan", &["custom_plan_id"]),
        table(backend, projects::Entity)
            .references("tenant_id", tenants::Entity)
            .index("projects_by_deletion", &["deleted_at"])
            .index("projects_by_name", &["name"])
            .index("projects_of_tenant", &["tenant_id"]),
        table(backend, keys::Entity)
            .references("project_id", projects::Entity)
            .index("keys_by_end", &["expires_at"])
            .index("keys_by_prefix", &["prefix"])
            .index("keys_by_revocation", &["revoked_at"])
            .index("keys_of_project", &["project_id"]),
        table(backend, quotas::Entity).references("project_id", projects::Entity),
        table(backend, plans::Entity),
        table(backend, weights::Entity),
        table(backend, chain_switches::Entity),
        table(backend, changes::Entity),
        table(backend, users::Entity)
            .references("tenant_id", tenants::Entity)
            .index("users_of_tenant", &["tenant_id"])
            .index_where("users_unconfirmed", &["created_at"], Expr::col("confirmed_at").is_null()),
        table(backend, confirmations::Entity)
            .deleted_with("user_id", users::Entity)
            .index("confirmations_by_end", &["expires_at"]),
        table(backend, sessions::Entity)
            .deleted_with("user_id", users::Entity)
            .index("sessions_by_end", &["expires_at"])
            .index("sessions_of_user", &["user_id"]),
        table(backend, refreshes::Entity)
            .deleted_with("session_id", sessions::Entity)
            .index("refreshes_by_end", &["expires_at"])
            .index("refreshes_of_session", &["session_id"]),
        table(backend, attempts::Entity)
            .index("attempts_by_time", &["at"])
            .index("attempts_of_subject", &["subject", "at"]),
        table(backend, solved::Entity).index("solved_by_end", &["expires_at"]),
        table(backend, audit::Entity)
            .index("audit_by_time", &["at"])
            .index("audit_of_tenant", &["tenant_id", "at"])
            .index("audit_of_user", &["user_id", "at"]),
        table(backend, limit_requests::Entity)
            .references("tenant_id", tenants::Entity)
            .index("limit_requests_by_review", &["reviewed_at"])
            .index("limit_requests_of_tenant", &["tenant_id"])
            .unique_where(
                "limit_requests_pending_tenant_id",
                &["tenant_id"],
                Expr::col("status").eq("pending"),
            ),
        table(backend, invitations::Entity)
            .deleted_with("tenant_id", tenants::Entity)
            .deleted_with("user_id", users::Entity)
            .index("invitations_by_end", &["expires_at"])
            .unique("invitations_of_tenant", &["tenant_id", "email"])
            .index("invitations_of_user", &["user_id"]),
        table(backend, gateways::Entity),
        table(backend, notification_reads::Entity)
            .deleted_with("user_id", users::Entity)
            .index("notification_reads_by_time", &["read_at"]),
        table(backend, throttled_keys::Entity)
            .deleted_with("gateway", gateways::Entity)
            .index("throttled_keys_of_gateway", &["gateway"]),
        table(backend, mail_tokens::Entity)
            .deleted_with("user_id", users::Entity)
            .index("mail_tokens_by_end", &["expires_at"])
            .unique("mail_tokens_of_user", &["user_id", "purpose"]),
        table(backend, outgoing_mails::Entity)
            .index("outgoing_mails_by_due", &["due_at"])
            .index("outgoing_mails_of_recipient", &["recipient", "created_at"]),
        table(backend, known_devices::Entity)
            .deleted_with("user_id", users::Entity)
            .index("known_devices_by_time", &["seen_at"])
            .index("known_devices_of_user", &["user_id", "seen_at"]),
        table(backend, notices::Entity)
            .deleted_with("tenant_id", tenants::Entity)
            .deleted_with("user_id", users::Entity)
            .index("notices_by_time", &["at"])
            .index("notices_of_tenant", &["tenant_id", "at"])
            .index("notices_of_user", &["user_id"]),
        table(backend, notification_preferences::Entity).deleted_with("user_id", users::Entity),
        table(backend, mailed_notifications::Entity).index("mailed_notifications_by_time", &["at"]),
        table(backend, totp::Entity).deleted_with("user_id", users::Entity),
        table(backend, recovery_codes::Entity).deleted_with("user_id", users::Entity),
        table(backend, pending_log_ins::Entity)
            .deleted_with("user_id", users::Entity)
            .index("pending_log_ins_by_end", &["expires_at"])
            .index("pending_log_ins_of_user", &["user_id", "created_at"]),
        table(backend, passkeys::Entity)
            .deleted_with("user_id", users::Entity)
            .index("passkeys_of_user", &["user_id"]),
        table(backend, tier_changes::Entity)
            .deleted_with("tenant_id", tenants::Entity)
            .index("tier_changes_of_tenant", &["tenant_id", "at"]),
        table(backend, invoice_numbers::Entity),
        table(backend, billing_start::Entity),
        table(backend, billing_accounts::Entity).deleted_with("tenant_id", tenants::Entity),
        table(backend, invoices::Entity)
            .references("tenant_id", tenants::Entity)
            .index("invoices_by_state", &["status", "due_at"])
            .unique("invoices_of_tenant", &["tenant_id", "period"]),
        table(backend, invoice_lines::Entity)
            .references_key(&["year", "serial"], invoices::Entity)
            .index("invoice_lines_of_tenant", &["tenant_id", "month"]),
        table(backend, credit_notes::Entity)
            .references_key(&["invoice_year", "invoice_serial"], invoices::Entity)
            .index("credit_notes_of_invoice", &["invoice_year", "invoice_serial"]),
        table(backend, checkouts::Entity)
            .deleted_with("tenant_id", tenants::Entity)
            .index("checkouts_by_time", &["created_at"])
            .index("checkouts_of_tenant", &["tenant_id", "created_at"]),
        table(backend, tickets::Entity)
            .cleared_with("limit_request_id", limit_requests::Entity)
            .deleted_with("tenant_id", tenants::Entity)
            .index("tickets_by_text_bytes", &["tenant_id", "text_bytes"])
            .index("tickets_by_time", &["created_at"])
            .index("tickets_of_limit_request", &["limit_request_id"])
            .index("tickets_of_tenant", &["tenant_id", "created_at"]),
        table(backend, ticket_comments::Entity)
            .deleted_with("ticket_id", tickets::Entity)
            .index("ticket_comments_of_ticket", &["ticket_id", "created_at"]),
        table(backend, ticket_attachments::Entity)
            .deleted_with("ticket_id", tickets::Entity)
            .index("ticket_attachments_of_ticket", &["ticket_id", "created_at"]),
        table(backend, ticket_chunks::Entity).deleted_with("attachment_id", ticket_attachments::Entity),
        table(backend, idempotency::Entity)
            .index("idempotency_by_end", &["expires_at"])
            .unique("idempotency_of_run", &["run"]),
        table(backend, access_tokens::Entity)
            .deleted_with("user_id", users::Entity)
            .index("access_tokens_by_end", &["expires_at"])
            .index("access_tokens_of_user", &["user_id"]),
        table(backend, contracts::Entity)
            .deleted_with("tenant_id", tenants::Entity)
            .index("contracts_of_tenant", &["tenant_id"]),
        table(backend, custom_plans::Entity),
        table(backend, webhooks::Entity)
            .deleted_with("project_id", projects::Entity)
            .index("webhooks_deleted", &["deleted_at"])
            .index("webhooks_of_project", &["project_id", "created_at"]),
        table(backend, subscriptions::Entity)
            .deleted_with("webhook_id", webhooks::Entity)
            .index("subscriptions_of_chain", &["chain", "id"])
            .index("subscriptions_of_webhook", &["webhook_id", "created_at"]),
        table(backend, chain_events::Entity)
            .index("chain_events_by_time", &["created_at"])
            .index("chain_events_of_block", &["chain", "block_hash"]),
        table(backend, project_events::Entity)
            .deleted_with("event_id", chain_events::Entity)
            .deleted_with("project_id", projects::Entity)
            .index("project_events_by_time", &["project_id", "created_at"])
            .index("project_events_of_event", &["event_id"]),
        table(backend, deliveries::Entity)
            .deleted_with("event_id", chain_events::Entity)
            .deleted_with("webhook_id", webhooks::Entity)
            .index("deliveries_held", &["held_chain", "held_until"])
            .index("deliveries_in_line", &["status", "ready", "due_at"])
            .index("deliveries_in_line_of_webhook", &["status", "ready", "webhook_id", "due_at"])
            .index("deliveries_of_event", &["event_id"])
            .index("deliveries_of_webhook", &["webhook_id", "created_at"]),
        table(backend, delivery_attempts::Entity).deleted_with("delivery_id", deliveries::Entity),
        table(backend, webhook_notices::Entity).deleted_with("webhook_id", webhooks::Entity),
        table(backend, followed_blocks::Entity),
        table(backend, watched_chains::Entity),
        table(backend, explanation_requests::Entity).index("explanation_requests_asked_at", &["asked_at"]),
        table(backend, drained_nodes::Entity),
        table(backend, config_versions::Entity)
            .index("config_versions_scope", &["source", "place", "number"]),
        table(backend, watchers::Entity),
        table(backend, webhook_replays::Entity).deleted_with("webhook_id", webhooks::Entity),
        table(backend, plan_fees::Entity).deleted_with("custom_plan_id", custom_plans::Entity),
        table(backend, unmatched_payments::Entity).index("unmatched_payments_by_time", &["received_at"]),
        table(backend, scheduled_changes::Entity).index("scheduled_changes_by_time", &["effective_at"]),
    ]
}
