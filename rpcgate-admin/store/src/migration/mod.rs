//! The migrations of the schema. A published migration is never changed: the next change is a new migration at the
//! end of the list.

mod access_tokens;
mod accounts;
mod billing;
mod billing_terms;
mod checkout_plans;
mod config_versions;
mod contracts;
mod cooled_keys;
mod counts;
mod custom_plans;
mod deleted_tenants;
mod drained_nodes;
mod explanations;
mod factors;
mod gateways;
mod idempotency;
mod identity;
mod known_devices;
mod ledger;
mod ledger_chain;
mod mail_tokens;
mod mailed_at;
mod marks;
mod names;
mod notices;
mod notifications;
mod outgoing_mails;
mod plan_quotas;
mod ready_deliveries;
mod scheduled_changes;
mod session_factors;
mod session_proofs;
mod summed_place;
mod sums;
mod ticket_bytes;
mod ticket_file_authors;
mod tickets;
mod usage;
mod watchers;
mod webhook_replays;
mod webhooks;
mod ws_connections;

use sea_orm::DynIden;
use sea_orm::sea_query::{Alias, IntoIden};
use sea_orm_migration::{MigrationTrait, MigratorTrait};

pub(super) struct Management;

impl MigratorTrait for Management {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(accounts::Accounts),
            Box::new(identity::Identity),
            Box::new(gateways::Gateways),
            Box::new(notifications::Notifications),
            Box::new(cooled_keys::CooledKeys),
            Box::new(counts::Counts),
            Box::new(mail_tokens::MailTokens),
            Box::new(ws_connections::WsConnections),
            Box::new(outgoing_mails::OutgoingMails),
            Box::new(known_devices::KnownDevices),
            Box::new(notices::Notices),
            Box::new(factors::Factors),
            Box::new(billing::Billing),
            Box::new(tickets::Tickets),
            Box::new(idempotency::Idempotency),
            Box::new(access_tokens::AccessTokens),
            Box::new(ticket_file_authors::TicketFileAuthors),
            Box::new(contracts::Contracts),
            Box::new(custom_plans::CustomPlans),
            Box::new(names::Names),
            Box::new(ticket_bytes::TicketBytes),
            Box::new(checkout_plans::CheckoutPlans),
            Box::new(deleted_tenants::DeletedTenants),
            Box::new(webhooks::Webhooks),
            Box::new(explanations::Explanations),
            Box::new(session_factors::SessionFactors),
            Box::new(drained_nodes::DrainedNodes),
            Box::new(config_versions::ConfigVersions),
            Box::new(ready_deliveries::ReadyDeliveries),
            Box::new(watchers::Watchers),
            Box::new(webhook_replays::WebhookReplays),
            Box::new(session_proofs::SessionProofs),
            Box::new(billing_terms::FeesAndPayments),
            Box::new(plan_quotas::PlanQuotas),
            Box::new(scheduled_changes::ScheduledChanges),
        ]
    }

    /// A separate table, because usage may be in the same database.
    fn migration_table_name() -> DynIden {
        Alias::new("management_migrations").into_iden()
    }
}

pub(super) struct Usage;

impl MigratorTrait for Usage {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(usage::Usage),
            Box::new(ledger::Ledger),
            Box::new(sums::Sums),
            Box::new(marks::Marks),
            Box::new(summed_place::SummedPlace),
            Box::new(ledger_chain::LedgerChain),
            Box::new(mailed_at::MailedAt),
        ]
    }

    fn migration_table_name() -> DynIden {
        Alias::new("usage_migrations").into_iden()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClaimRoom, Role, Store, UsageStore, User, UserId, url_of};
    use rpcgate_config::PlanChange;
    use rpcgate_core::caller::{ProjectId, TenantId};
    use rpcgate_core::clock::Time;
    use rpcgate_core::plan::Tier;
    use sea_orm::{ConnectionTrait, Statement};
    use std::time::Duration;

    const FIRST: &str = "
        INSERT INTO tenants VALUES (x'00000000000000000000000000000002', 'bank', 'free', 0, 5);
        INSERT INTO users VALUES
            (x'00000000000000000000000000000001', x'00000000000000000000000000000002', 'a@b.example', 7);
        INSERT INTO projects VALUES
            (x'00000000000000000000000000000003', x'00000000000000000000000000000002', 'p', '[]', '[]', 8);
    ";

    #[tokio::test]
    async fn streams_that_operators_set_before_a_key_had_a_limit_of_its_own_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.db");
        let old = sea_orm::Database::connect(format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
        Management::up(&old, Some(7)).await.unwrap();
        let set = "INSERT INTO plans (tier, streams_per_project) VALUES ('free', 9)";
        old.execute_unprepared(set).await.unwrap();
        old.close().await.unwrap();
        let store = Store::open(&url_of(&file), true).await.unwrap();
        let kept = PlanChange { ws_connections: Some(9), ..PlanChange::default() };
        assert_eq!(store.plan_changes().await.unwrap(), [(Tier::Free, kept)].into());
    }

    #[tokio::test]
    async fn texts_of_tickets_from_before_are_counted_in_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.db");
        let old = sea_orm::Database::connect(format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
        Management::up(&old, Some(20)).await.unwrap();
        let rows = "
            INSERT INTO tenants (id, name, tier, suspended, created_at)
            VALUES (x'00000000000000000000000000000002', 'bank', 'free', 0, 5);
            INSERT INTO tickets (id, tenant_id, user_id, category, status, subject, text, created_at, updated_at) VALUES
                (x'00000000000000000000000000000003', x'00000000000000000000000000000002',
                    x'00000000000000000000000000000001', 'other', 'open', 'ab', 'ü', 1, 1),
                (x'00000000000000000000000000000004', x'00000000000000000000000000000002',
                    x'00000000000000000000000000000001', 'other', 'open', 'a', 'b', 1, 1);
            INSERT INTO ticket_comments VALUES
                (randomblob(16), x'00000000000000000000000000000003', randomblob(16), 0, 0, 'üü', 2),
                (randomblob(16), x'00000000000000000000000000000003', randomblob(16), 1, 1, 'x', 2);";
        old.execute_unprepared(rows).await.unwrap();
        old.close().await.unwrap();
        drop(Store::open(&url_of(&file), true).await.unwrap());
        let new = sea_orm::Database::connect(format!("sqlite://{}", file.display())).await.unwrap();
        let sql = "SELECT text_bytes FROM tickets ORDER BY id";
        let counted =
            new.query_all_raw(Statement::from_string(new.get_database_backend(), sql)).await.unwrap();
        let counted: Vec<i64> = counted.iter().map(|row| row.try_get_by_index(0).unwrap()).collect();
        assert_eq!(counted, [2 + 2 + 4 + 1, 2]);
    }

    #[tokio::test]
    async fn deliveries_that_waited_before_there_was_a_line_are_claimed_when_they_are_due() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.db");
        let old = sea_orm::Database::connect(format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
        Management::up(&old, Some(28)).await.unwrap();
        let rows = "
            INSERT INTO tenants (id, name, tier, suspended, created_at)
            VALUES (x'00000000000000000000000000000002', 'bank', 'free', 0, 5);
            INSERT INTO projects (id, tenant_id, name, allowed_methods, blocked_methods, created_at)
            VALUES (x'00000000000000000000000000000003', x'00000000000000000000000000000002', 'p', '[]', '[]', 8);
            INSERT INTO webhooks (id, project_id, url, secret, active, standard_headers, created_at, updated_at)
            VALUES (x'00000000000000000000000000000004', x'00000000000000000000000000000003', 'https://a.example/',
                x'', 1, 0, 1, 1);
            INSERT INTO chain_events VALUES (x'00000000000000000000000000000005', 'eth', 'new_block', 1, 'h', 0, x'7b7d', 1);
            INSERT INTO deliveries (id, webhook_id, event_id, status, replay, attempts, due_at, created_at) VALUES
                (x'00000000000000000000000000000006', x'00000000000000000000000000000004',
                    x'00000000000000000000000000000005', 'pending', 0, 1, 5, 1),
                (x'00000000000000000000000000000007', x'00000000000000000000000000000004',
                    x'00000000000000000000000000000005', 'pending', 0, 1, 9, 1);";
        old.execute_unprepared(rows).await.unwrap();
        old.close().await.unwrap();
        let store = Store::open(&url_of(&file), true).await.unwrap();
        for (at, expected) in [(4, None), (5, Some(6)), (8, None), (9, Some(7))] {
            let (room, lease) = (ClaimRoom::for_each(9), Duration::from_secs(1));
            let claimed = store.claim_deliveries(9, &room, lease, Time::from_micros(at)).await.unwrap();
            assert_eq!(claimed.iter().map(|one| one.id.0).collect::<Vec<_>>(), Vec::from_iter(expected));
        }
    }

    #[tokio::test]
    async fn charges_from_before_the_ledger_had_chains_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate-usage.db");
        let old = sea_orm::Database::connect(format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
        Usage::up(&old, Some(5)).await.unwrap();
        let charge = "INSERT INTO ledger VALUES
            (x'00000000000000000000000000000001', 7, x'00000000000000000000000000000002', 'premium', 5, 3, 30)";
        old.execute_unprepared(charge).await.unwrap();
        old.close().await.unwrap();
        let usage = UsageStore::open(&url_of(&dir.path().join("rpcgate.db")), true).await.unwrap();
        let charged = usage.bill(TenantId(1), 7..8).await.unwrap();
        let [charged] = &charged[..] else { panic!("{charged:?}") };
        assert_eq!(
            (charged.project, charged.chain.as_str(), charged.tier),
            (ProjectId(2), "", Tier::Premium)
        );
        assert_eq!((charged.price.0, charged.calls, charged.units), (5, 3, 30));
    }

    #[tokio::test]
    async fn rows_of_the_first_schema_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.db");
        let old = sea_orm::Database::connect(format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
        Management::up(&old, Some(1)).await.unwrap();
        old.execute_unprepared(FIRST).await.unwrap();
        old.close().await.unwrap();
        let store = Store::open(&url_of(&file), true).await.unwrap();
        let owner = User {
            id: UserId(1),
            tenant: Some(TenantId(2)),
            email: "a@b.example".into(),
            name: String::new(),
            role: Role::Owner,
            password: None,
            confirmed_at: Some(Time::from_micros(7)),
            created_at: Time::from_micros(7),
        };
        assert_eq!(store.user_by_email("A@b.example").await.unwrap(), Some(owner.clone()));
        let same = store.create_user(&User { id: UserId(4), ..owner.clone() }).await.unwrap_err();
        assert_eq!(same.to_string(), "there is already a user with this e-mail address");
        let lost = User { id: UserId(4), tenant: Some(TenantId(9)), email: "c".into(), ..owner };
        assert_eq!(store.create_user(&lost).await.unwrap_err().to_string(), "there is no such tenant");
        assert!(store.project(TenantId(2), ProjectId(3)).await.unwrap().is_some());
        store.delete_project(TenantId(2), ProjectId(3), Time::from_secs(1)).await.unwrap();
    }
}
