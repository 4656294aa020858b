//! Pages of lists: a page begins after the last row of the one before (keyset pagination).

use sea_orm::sea_query::IntoValueTuple;
use sea_orm::{Cursor, EntityTrait, IntoIdentity, Select, SelectModel};

/// Selects at most `limit` rows after the position `after` in the ascending order of `columns`; call
/// [`desc`](Cursor::desc) for the descending order. Replaces the order of `select`.
pub(super) fn page<E: EntityTrait<Model: Send + Sync>>(
    select: Select<E>,
    columns: impl IntoIdentity,
    after: Option<impl IntoValueTuple>,
    limit: u64,
) -> Cursor<SelectModel<E::Model>> {
    let mut page = select.cursor_by(columns);
    page.first(limit);
    if let Some(after) = after {
        page.after(after);
    }
    page
}
