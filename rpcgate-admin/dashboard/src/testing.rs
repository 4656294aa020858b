//! A site with the pages alone.

use axum::Router;
use rpcgate_management::app_state::AppState;
pub(crate) use rpcgate_management::testing::*;
use std::sync::Arc;

pub(crate) type Site = TestSite<Pages>;

#[derive(Debug)]
pub(crate) enum Pages {}

impl SiteRoutes for Pages {
    fn router(app: &Arc<AppState>) -> Router {
        rpcgate_management::middleware::wrap(crate::with_pages(Router::new(), app), app)
    }
}

#[test]
#[cfg_attr(not(have_postgres), ignore = "needs postgresql (apt install postgresql)")]
fn pages_are_the_same_on_postgresql_and_sqlite() {
    run_on_postgres(&["tests::"]);
}
