//! The notifications to a tenant's members about its suspension and reactivation.

use super::notifications::raise_with;
use crate::app_state::AppState;
use crate::identity::role::Permission;
use crate::mail::{Mail, MailObject};
use rpcgate_core::caller::TenantId;
use rpcgate_store::{Invoice, NotificationKind};

const SUSPENDED: &str = "Your organisation is suspended: calls with its keys are refused";
const ACTIVE: &str = "Your organisation is active again: calls with its keys are served";

/// Notifies the members of a tenant that it is suspended or active again. After a suspension because of an `unpaid`
/// invoice, the mails to the members who may read bills name the invoice. The state is already stored, so an error is
/// only logged.
pub(super) async fn notify(app: &AppState, tenant: TenantId, is_suspended: bool, unpaid: Option<&Invoice>) {
    let dash_url = &app.settings.dash_url;
    let text = if is_suspended { SUSPENDED } else { ACTIVE };
    let notified = raise_with(app, tenant, NotificationKind::Suspension, text, |user, to| match unpaid {
        Some(invoice) if Permission::ReadBilling.is_granted_to(user.role) => {
            Mail::suspended(to, invoice, dash_url)
        }
        _ => {
            // Readers of bills see the reason on the billing page, other roles the refused calls on the usage page.
            let reads_bills = Permission::ReadBilling.is_granted_to(user.role);
            let object = if reads_bills { MailObject::Billing } else { MailObject::Usage };
            Mail::notification(to, text, dash_url, object)
        }
    });
    if let Err(error) = notified.await {
        tracing::warn!(%error, %tenant, is_suspended, "the members of a tenant could not be notified about its state");
    }
}
